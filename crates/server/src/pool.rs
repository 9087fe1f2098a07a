//! The queues between event loops and the threads that may wait for a device.
//!
//! Each loop has workers of its own, so loops share no lock and wake nobody else's threads.
//! Requests that may take long have others, so that they keep no loop's workers busy; and so have
//! statements of SQL, which may wait for each other.

use silica_commands::{Burst, Lane};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads for requests that may take long: a share of all workers, within these bounds.
const LONG_SHARE: usize = 4;
const LONG_WORKERS: std::ops::RangeInclusive<usize> = 1..=8;
/// Threads for statements of SQL: as many as for others at least, since one that waits for a
/// transaction needs another one that ends it.
const SQL_WORKERS: std::ops::RangeInclusive<usize> = 2..=16;
/// Workers of a loop at least: reads always have one that writes may not take.
const WORKERS_MIN: usize = 2;

/// The queues of all loops.
pub(crate) struct Pools {
    /// One of each loop, and behind them those for requests that may take long, and for SQL.
    pools: Box<[Pool]>,
}

impl Pools {
    /// Queues for `workers` threads of `loops` event loops, or a few more.
    pub(crate) fn new(loops: usize, workers: usize) -> Self {
        let of_loop = (workers / loops.max(1)).max(WORKERS_MIN);
        let long = (workers / LONG_SHARE).clamp(*LONG_WORKERS.start(), *LONG_WORKERS.end());
        let of_loops = (0..loops).map(|_| Pool::new(of_loop, 1));
        let sql = workers.clamp(*SQL_WORKERS.start(), *SQL_WORKERS.end());
        Pools { pools: of_loops.chain([Pool::new(long, 0), Pool::new(sql, 0)]).collect() }
    }

    /// The pool `index`.
    pub(crate) fn at(&self, index: usize) -> &Pool {
        &self.pools[index]
    }

    /// Of each thread that is needed, its pool.
    pub(crate) fn threads(&self) -> impl Iterator<Item = usize> + use<> {
        let counts: Vec<usize> = self.pools.iter().map(|pool| pool.workers).collect();
        let of = |(index, count)| std::iter::repeat_n(index, count);
        counts.into_iter().enumerate().flat_map(of)
    }

    /// Workers for statements of SQL.
    pub(crate) fn workers_of_sql(&self) -> usize {
        self.pools[self.pools.len() - 1].workers
    }

    /// Workers of each loop.
    pub(crate) fn workers_of_loop(&self) -> usize {
        self.pools[0].workers
    }

    /// Hands a burst to whichever worker of its pool is free first.
    pub(crate) fn push(&self, burst: Burst) {
        let index = match burst.lane {
            Lane::Read | Lane::Write => burst.from,
            Lane::Long => self.pools.len() - 2,
            Lane::Sql => self.pools.len() - 1,
        };
        self.pools[index].push(burst);
    }

    /// Lets the workers end when nothing is queued any more.
    pub(crate) fn stop(&self) {
        self.pools.iter().for_each(Pool::stop);
    }
}

/// Bursts that wait for a worker. Reads go first and always have workers that nothing slower may
/// take.
#[derive(Default)]
struct Queues {
    reads: VecDeque<Burst>,
    others: VecDeque<Burst>,
    /// Workers busy with other bursts than reads.
    slow: usize,
    /// Workers that sleep: waking nobody would cost a system call, too.
    asleep: usize,
    stopped: bool,
}

/// The queues between a loop and its workers, on lines of their own.
#[repr(align(128))]
pub(crate) struct Pool {
    queues: Mutex<Queues>,
    changed: Condvar,
    workers: usize,
    /// Of these, how many take only reads.
    for_reads: usize,
}

impl Pool {
    fn new(workers: usize, for_reads: usize) -> Self {
        Pool { queues: Mutex::default(), changed: Condvar::new(), workers, for_reads }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, burst: Burst) {
        let mut queues = self.queues();
        let may_run = burst.lane == Lane::Read || queues.slow < self.slow_max();
        match burst.lane {
            Lane::Read => queues.reads.push_back(burst),
            Lane::Write | Lane::Long | Lane::Sql => queues.others.push_back(burst),
        }
        let wakes = may_run && queues.asleep > 0;
        drop(queues);
        if wakes {
            self.changed.notify_one();
        }
    }

    /// Workers that may be busy with other bursts than reads.
    fn slow_max(&self) -> usize {
        self.workers - self.for_reads
    }

    fn stop(&self) {
        self.queues().stopped = true;
        self.changed.notify_all();
    }

    /// The next burst to run; `None` when the pool was stopped.
    pub(crate) fn take(&self) -> Option<Burst> {
        let slow_max = self.slow_max();
        let mut queues = self.queues();
        loop {
            if let Some(burst) = queues.next(slow_max) {
                return Some(burst);
            }
            if queues.stopped && queues.is_empty() {
                return None;
            }
            queues.asleep += 1;
            queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
            queues.asleep -= 1;
        }
    }

    /// Says that a burst of `lane` has run.
    pub(crate) fn done(&self, lane: Lane) {
        if lane == Lane::Read {
            return;
        }
        let mut queues = self.queues();
        queues.slow -= 1;
        let is_ending = queues.stopped;
        // The caller takes what waits itself, but for a write while there are reads.
        let wakes = queues.asleep > 0 && !queues.reads.is_empty() && !queues.others.is_empty();
        drop(queues);
        if is_ending {
            self.changed.notify_all();
        } else if wakes {
            self.changed.notify_one();
        }
    }
}

impl Queues {
    fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.others.is_empty()
    }

    /// The next burst for a worker, where `slow_max` may be busy with others than reads.
    fn next(&mut self, slow_max: usize) -> Option<Burst> {
        if let Some(burst) = self.reads.pop_front() {
            return Some(burst);
        }
        if self.slow >= slow_max {
            return None;
        }
        let burst = self.others.pop_front()?;
        self.slow += 1;
        Some(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(lanes: &[Lane]) -> Queues {
        let mut queues = Queues::default();
        for lane in lanes {
            match lane {
                Lane::Read => queues.reads.push_back(Burst::new(0, *lane)),
                _ => queues.others.push_back(Burst::new(0, *lane)),
            }
        }
        queues
    }

    fn next(queues: &mut Queues, slow_max: usize) -> Option<Lane> {
        queues.next(slow_max).map(|burst| burst.lane)
    }

    #[test]
    fn writes_leave_a_worker_to_reads() {
        let mut queues = queues(&[Lane::Write, Lane::Write, Lane::Read, Lane::Write]);
        assert_eq!(next(&mut queues, 2), Some(Lane::Read), "reads go first");
        assert_eq!(next(&mut queues, 2), Some(Lane::Write));
        assert_eq!(next(&mut queues, 2), Some(Lane::Write));
        assert_eq!(next(&mut queues, 2), None, "two of three workers are busy with writes");
        queues.slow -= 1;
        assert_eq!(next(&mut queues, 2), Some(Lane::Write));
    }

    #[test]
    fn a_burst_waits_for_the_workers_of_its_loop() {
        let pools = Pools::new(2, 4);
        pools.push(Burst::new(1, Lane::Write));
        pools.push(Burst::new(0, Lane::Long));
        pools.push(Burst::new(0, Lane::Sql));
        let waiting = |index: usize| {
            let queues = pools.at(index).queues();
            queues.reads.len() + queues.others.len()
        };
        assert_eq!([0, 1, 2, 3].map(waiting), [0, 1, 1, 1]);
        assert_eq!(pools.threads().collect::<Vec<_>>(), [0, 0, 1, 1, 2, 3, 3, 3, 3]);
        let taken = pools.at(1).take().map(|burst| (burst.from, burst.lane));
        assert_eq!(taken, Some((1, Lane::Write)));
    }

    #[test]
    fn few_workers_are_enough_for_each_loop() {
        let pools = Pools::new(8, 2);
        assert_eq!((pools.workers_of_loop(), pools.threads().count()), (2, 19));
    }
}
