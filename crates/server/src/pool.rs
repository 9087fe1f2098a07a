//! The queues between event loops and the threads that may wait for a device.

use silica_commands::{Burst, Lane};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bursts that wait for a worker. Reads go first and always have a worker that nothing slower
/// may take; requests that may take long leave another one free for writes.
#[derive(Default)]
struct Queues {
    reads: VecDeque<Burst>,
    writes: VecDeque<Burst>,
    longs: VecDeque<Burst>,
    /// Workers busy with writes or long requests.
    slow: usize,
    /// Workers busy with long requests.
    long: usize,
    stopped: bool,
}

/// The queues between loops and workers.
pub(crate) struct Pool {
    queues: Mutex<Queues>,
    changed: Condvar,
    workers: usize,
}

impl Pool {
    pub(crate) fn new(workers: usize) -> Self {
        Pool { queues: Mutex::default(), changed: Condvar::new(), workers }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a burst to whichever worker is free first.
    pub(crate) fn push(&self, burst: Burst) {
        let mut queues = self.queues();
        match burst.lane {
            Lane::Read => queues.reads.push_back(burst),
            Lane::Write => queues.writes.push_back(burst),
            Lane::Long => queues.longs.push_back(burst),
        }
        drop(queues);
        self.changed.notify_one();
    }

    /// Lets the workers end when nothing is queued any more.
    pub(crate) fn stop(&self) {
        self.queues().stopped = true;
        self.changed.notify_all();
    }

    /// The next burst to run; `None` when the pool was stopped.
    pub(crate) fn take(&self) -> Option<Burst> {
        let mut queues = self.queues();
        loop {
            if let Some(burst) = queues.next(self.workers) {
                return Some(burst);
            }
            if queues.stopped && queues.is_empty() {
                return None;
            }
            queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says that a burst of `lane` has run.
    pub(crate) fn done(&self, lane: Lane) {
        let mut queues = self.queues();
        queues.slow -= usize::from(lane != Lane::Read);
        queues.long -= usize::from(lane == Lane::Long);
        let more = !queues.writes.is_empty() || !queues.longs.is_empty() || queues.stopped;
        drop(queues);
        if more {
            self.changed.notify_all();
        }
    }
}

impl Queues {
    fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.longs.is_empty()
    }

    fn next(&mut self, workers: usize) -> Option<Burst> {
        if let Some(burst) = self.reads.pop_front() {
            return Some(burst);
        }
        if self.slow + 1 >= workers {
            return None;
        }
        let burst = match self.writes.pop_front() {
            Some(burst) => burst,
            None if self.long < workers.saturating_sub(2).max(1) => {
                self.long += usize::from(!self.longs.is_empty());
                self.longs.pop_front()?
            }
            None => return None,
        };
        self.slow += 1;
        Some(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queues: &mut Queues, lane: Lane) {
        match lane {
            Lane::Read => queues.reads.push_back(Burst::new(0, lane)),
            Lane::Write => queues.writes.push_back(Burst::new(0, lane)),
            Lane::Long => queues.longs.push_back(Burst::new(0, lane)),
        }
    }

    fn next(queues: &mut Queues, workers: usize) -> Option<Lane> {
        queues.next(workers).map(|burst| burst.lane)
    }

    #[test]
    fn slow_work_leaves_a_worker_to_reads_and_one_to_writes() {
        let mut queues = Queues::default();
        for lane in [Lane::Long, Lane::Long, Lane::Long, Lane::Write, Lane::Write, Lane::Read] {
            push(&mut queues, lane);
        }
        assert_eq!(next(&mut queues, 4), Some(Lane::Read));
        assert_eq!(next(&mut queues, 4), Some(Lane::Write));
        assert_eq!(next(&mut queues, 4), Some(Lane::Write));
        assert_eq!(next(&mut queues, 4), Some(Lane::Long));
        assert_eq!(next(&mut queues, 4), None, "three of four workers are busy with slow work");
        queues.slow -= 2;
        assert_eq!(next(&mut queues, 4), Some(Lane::Long));
        assert_eq!(next(&mut queues, 4), None, "two of four may run long requests");
        push(&mut queues, Lane::Write);
        assert_eq!(next(&mut queues, 4), Some(Lane::Write));
    }

    #[test]
    fn two_workers_are_enough() {
        let mut queues = Queues::default();
        push(&mut queues, Lane::Long);
        assert_eq!(next(&mut queues, 2), Some(Lane::Long));
        push(&mut queues, Lane::Read);
        push(&mut queues, Lane::Write);
        assert_eq!(next(&mut queues, 2), Some(Lane::Read));
        assert_eq!(next(&mut queues, 2), None);
    }
}
