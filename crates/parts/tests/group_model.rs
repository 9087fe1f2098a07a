//! The group commit under a model checker: every interleaving, and every value that the memory
//! model lets a load return.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize};
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use loom::thread::{Thread, current, park, yield_now};
    pub(super) use std::sync::atomic::Ordering;

    pub(super) const YIELDS_MAX: usize = 1;
    pub(super) const YIELDS_MIN: usize = 1;
    pub(super) const WATCHES_MAX: usize = 1;
    pub(super) const WATCHES_MIN: usize = 1;
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/wal/group.rs"]
mod group;

use group::{Group, Turn};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A log of numbered appends, and what its device has.
struct Log {
    group: Group,
    end: AtomicU64,
    durable: AtomicU64,
    /// Callers that lead.
    leaders: AtomicU64,
    /// The sync with this number fails.
    fails: Option<u64>,
    syncs: AtomicU64,
    is_poisoned: AtomicU64,
}

impl Log {
    fn new(fails: Option<u64>) -> Self {
        Log {
            group: Group::new(0),
            end: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            leaders: AtomicU64::new(0),
            fails,
            syncs: AtomicU64::new(0),
            is_poisoned: AtomicU64::new(0),
        }
    }

    /// As `Wal::append` and `Wal::sync`: false where a sync failed.
    fn put(&self) -> bool {
        let wanted = self.end.fetch_add(1, Release) + 1;
        self.group.arrive();
        loop {
            if self.is_poisoned.load(Acquire) != 0 {
                return false;
            }
            if self.group.synced_end() >= wanted {
                // Relaxed: that it is there follows from the load of `synced_end`.
                assert!(self.durable.load(Relaxed) >= wanted, "an answer before the sync");
                return true;
            }
            if let Turn::Lead { synced_before } = self.group.turn(wanted) {
                assert_eq!(self.leaders.fetch_add(1, Acquire), 0, "two lead");
                let end = self.end.load(Acquire);
                assert!(synced_before < end, "a sync of nothing");
                let fails = self.fails == Some(self.syncs.fetch_add(1, Relaxed));
                if fails {
                    self.is_poisoned.store(1, Release);
                } else {
                    self.durable.store(end, Relaxed);
                }
                self.leaders.fetch_sub(1, Release);
                self.group.led((!fails).then_some(end));
                return !fails;
            }
        }
    }
}

fn check(threads: usize, puts: usize, fails: Option<u64>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let log = Arc::new(Log::new(fails));
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let log = log.clone();
                loom::thread::spawn(move || (0..puts).map(|_| log.put()).collect::<Vec<_>>())
            })
            .collect();
        let mut said: Vec<bool> = (0..puts).map(|_| log.put()).collect();
        // That all come back is the point: a model with a thread that waits for ever fails.
        others.into_iter().for_each(|other| said.extend(other.join().expect("no panic")));
        assert_eq!(said.iter().all(|ok| *ok), fails.is_none());
    });
}

#[test]
fn every_caller_is_answered_after_its_sync_and_one_at_a_time_leads() {
    check(2, 2, None);
    check(3, 1, None);
}

#[test]
fn a_sync_that_fails_is_told_to_all_that_waited() {
    check(2, 1, Some(0));
    check(3, 1, Some(0));
}
