//! Group commit of all event loops: bursts that have written wait here for one sync.
//!
//! A worker that has put a burst's writes into the engine leaves the burst here and goes on with
//! the next. One thread takes all that wait, syncs each database once, and sends the bursts back to
//! their loops; what comes meanwhile shares the next sync. So no thread waits for each synced
//! write, and loops share syncs.

use silica_commands::{Burst, Uncommitted};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Waiting {
    bursts: Vec<(Burst, Uncommitted)>,
    /// The thread sleeps: waking it while it syncs would cost a system call, too.
    is_asleep: bool,
    stopped: bool,
}

/// Bursts that wait for a sync.
#[derive(Default)]
pub(crate) struct Commits {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Commits {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a burst wait for the next sync.
    pub(crate) fn push(&self, burst: Burst, uncommitted: Uncommitted) {
        let mut waiting = self.waiting();
        waiting.bursts.push((burst, uncommitted));
        let is_asleep = waiting.is_asleep;
        drop(waiting);
        if is_asleep {
            self.changed.notify_one();
        }
    }

    /// Lets the thread end when nothing waits any more.
    pub(crate) fn stop(&self) {
        self.waiting().stopped = true;
        self.changed.notify_one();
    }

    /// Moves all that wait into `into`, which is empty; false when this was stopped.
    pub(crate) fn take(&self, into: &mut Vec<(Burst, Uncommitted)>) -> bool {
        let mut waiting = self.waiting();
        while waiting.bursts.is_empty() && !waiting.stopped {
            waiting.is_asleep = true;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_asleep = false;
        std::mem::swap(&mut waiting.bursts, into);
        !into.is_empty()
    }
}
