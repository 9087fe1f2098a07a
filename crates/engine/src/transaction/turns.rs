//! Whose turn it is to commit: many transactions at once, or one that is exclusive.

use silica_base::{Error, ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a call waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Not at all.
    No,
    /// At most this long.
    AtMost(Duration),
    /// For as long as it takes.
    #[default]
    Forever,
}

#[derive(Debug, Default)]
struct State {
    is_exclusive: bool,
    /// Those that wait for an exclusive turn: commits that come later wait behind them.
    waiting: usize,
    /// Commits under way.
    commits: usize,
}

/// One a store. Turns are of this process only, and nothing of them is durable.
#[derive(Debug, Default)]
pub struct CommitTurns {
    state: Mutex<State>,
    changed: Condvar,
}

/// The turn of one commit; dropped, it is over.
#[derive(Debug)]
#[must_use]
pub struct CommitTurn<'t>(&'t CommitTurns);

/// The turn of an exclusive transaction; dropped, it is over.
#[derive(Debug)]
#[must_use]
pub struct ExclusiveTurn(Arc<CommitTurns>);

impl CommitTurns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// Waits until `is_free`; false if that takes too long. A wait of a given time may begin anew
    /// with each turn that ends: it bounds how long nothing happens, since this crate has no clock.
    fn wait_until<'t>(
        &'t self,
        mut state: MutexGuard<'t, State>,
        wait: Wait,
        is_free: impl Fn(&State) -> bool,
    ) -> (MutexGuard<'t, State>, bool) {
        while !is_free(&state) {
            state = match wait {
                Wait::No => return (state, false),
                Wait::Forever => self.changed.wait(state).expect("no panic while held"),
                Wait::AtMost(time) => {
                    let waited = self.changed.wait_timeout(state, time);
                    let (state, timeout) = waited.expect("no panic while held");
                    if timeout.timed_out() {
                        let is_free = is_free(&state);
                        return (state, is_free);
                    }
                    state
                }
            };
        }
        (state, true)
    }

    /// Waits for the turn of one commit. Commits go side by side.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if an exclusive transaction is open for too long.
    pub fn take(&self, wait: Wait) -> Result<CommitTurn<'_>> {
        let is_free = |state: &State| !state.is_exclusive && state.waiting == 0;
        let (mut state, is_there) = self.wait_until(self.state(), wait, is_free);
        if !is_there {
            return Err(busy());
        }
        state.commits += 1;
        Ok(CommitTurn(self))
    }

    /// Waits for the turn of an exclusive transaction: until no other one is open and all commits
    /// have come to their end.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if that takes too long.
    pub fn take_exclusive(self: &Arc<Self>, wait: Wait) -> Result<ExclusiveTurn> {
        let mut state = self.state();
        state.waiting += 1;
        let is_free = |state: &State| !state.is_exclusive && state.commits == 0;
        let (mut state, is_there) = self.wait_until(state, wait, is_free);
        state.waiting -= 1;
        if !is_there {
            drop(state);
            // Commits may wait behind this one.
            self.changed.notify_all();
            return Err(busy());
        }
        state.is_exclusive = true;
        Ok(ExclusiveTurn(Arc::clone(self)))
    }
}

impl Drop for CommitTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.commits -= 1;
        let is_wanted = state.commits == 0 && state.waiting > 0;
        drop(state);
        if is_wanted {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for ExclusiveTurn {
    fn drop(&mut self) {
        self.0.state().is_exclusive = false;
        self.0.changed.notify_all();
    }
}

fn busy() -> Error {
    let message = "an exclusive transaction is open; try again when it is over, or wait longer";
    Error::new(ErrorKind::Busy, message)
}
