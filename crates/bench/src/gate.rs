//! A gate that the threads of a run pass between two windows of operations. It cuts a run into
//! slices: behind a closed gate all threads stand still, and none of their calls is under way.

use silica::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whether all threads stand still is looked at again after so long, for those that ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Says when a run that is cut into slices goes on, and for how long.
pub trait Pace {
    /// Waits for the run's turn: the time of the next slice, `None` to end the run. All threads
    /// stand still meanwhile.
    fn next(&mut self) -> Result<Option<Duration>>;
    /// Told what a slice did, with all threads standing still again.
    fn done(&mut self, slice: &Slice) -> Result<()>;
    /// Called now and then during a slice, with the seconds of all slices so far.
    fn sample(&mut self, seconds: f64);
}

/// What a slice of a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slice {
    /// Operations of all threads.
    pub operations: u64,
    /// Time that it took, without what a thread spent on average on drawing operations and on
    /// checking answers.
    pub seconds: f64,
    /// Time that the slowest thread took by the clock on the wall.
    pub wall_seconds: f64,
    /// True where nothing of the run is left.
    pub complete: bool,
}

/// What one thread did in a slice.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) operations: u64,
    pub(crate) wall_nanos: u64,
    /// Of the time, what went outside the measured parts.
    pub(crate) apart_nanos: u64,
}

#[derive(Default)]
struct State {
    standing: usize,
    ended: bool,
    /// Sums over the threads of this slice; of the time the longest.
    sum: Part,
}

/// See the module.
pub(crate) struct Gate {
    closed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn new(closed: bool) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Gate { closed: AtomicBool::new(closed), state, changed }
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds it; a sum that is one short would do no harm, either.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what a thread did in this slice.
    pub(crate) fn add(&self, part: Part) {
        let sum = &mut self.state().sum;
        sum.operations += part.operations;
        sum.apart_nanos += part.apart_nanos;
        sum.wall_nanos = sum.wall_nanos.max(part.wall_nanos);
    }

    /// Waits until the gate is open.
    pub(crate) fn stand(&self) {
        let mut state = self.state();
        state.standing += 1;
        self.changed.notify_all();
        while self.is_closed() && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.standing -= 1;
    }

    pub(crate) fn open(&self) {
        let mut state = self.state();
        state.sum = Part::default();
        self.closed.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        let _state = self.state();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Opens the gate for good.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        self.closed.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Waits until of `threads` all stand still that have not `ended`; what they did.
    pub(crate) fn wait_still(&self, threads: usize, ended: &dyn Fn() -> usize) -> Slice {
        let mut state = self.state();
        loop {
            let ended = ended();
            let standing = if state.ended { 0 } else { state.standing };
            if standing + ended >= threads {
                let wall_seconds = state.sum.wall_nanos as f64 / 1e9;
                let apart = state.sum.apart_nanos as f64 / 1e9 / threads as f64;
                return Slice {
                    operations: state.sum.operations,
                    seconds: (wall_seconds - apart).max(0.0),
                    wall_seconds,
                    complete: ended == threads,
                };
            }
            let waited = self.changed.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
