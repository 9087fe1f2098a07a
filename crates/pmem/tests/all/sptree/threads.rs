//! Leaves split and merge under threads that read, and under snapshots.
#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::harness::{Tree, TreeHarness, seed};
use silica_base::{Prng, test_size};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, KeyRange, MetricsMap, Scan, Snapshot, WriteBatch,
};
use silica_testkit::Harness;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NOW: Durability = Durability::Buffered;
/// Keys that are always there: every [`STEP`]th number. Those between come and go.
const STABLE: u64 = 400;
const STEP: u64 = 16;

/// Keys that share their first bytes if `is_long`, so that separators do, too.
fn key(n: u64, is_long: bool) -> Vec<u8> {
    if is_long {
        format!("a common beginning {n:08}").into_bytes()
    } else {
        n.to_be_bytes().to_vec()
    }
}

/// Stops the other threads also if this one panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Fills a range of keys and empties it again, so that its leaves split and merge.
fn churn(tree: &Tree, is_long: bool, thread: u64, rounds: u64, seed: u64) {
    let mut prng = Prng::new(seed ^ thread << 40);
    for round in 0..rounds {
        let from = prng.below(STABLE - 40) * STEP;
        let numbers: Vec<u64> =
            (from..from + 40 * STEP).filter(|n| n % STEP != 0 && n % 2 == thread % 2).collect();
        for n in &numbers {
            tree.put(&key(*n, is_long), &n.to_le_bytes(), NOW).expect("a put");
        }
        if round % 3 == 0 {
            let keys: Vec<Vec<u8>> = numbers.iter().map(|n| key(*n, is_long)).collect();
            let mut batch = WriteBatch::new();
            keys.iter().for_each(|key| {
                batch.delete(key);
            });
            tree.write(&batch, NOW).expect("a batch");
        } else {
            for n in &numbers {
                tree.delete(&key(*n, is_long), NOW).expect("a delete");
            }
        }
    }
}

/// Gets of keys that are always there, and scans that must meet all of them.
fn read(tree: &Tree, is_long: bool, stop: &AtomicBool, seed: u64) {
    let _stop = StopOnDrop(stop);
    let mut prng = Prng::new(seed);
    while !stop.load(Ordering::Acquire) {
        let keys: Vec<Vec<u8>> = (0..8).map(|_| key(prng.below(STABLE) * STEP, is_long)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for (key, value) in keys.iter().zip(tree.get_all(&keys).expect("gets")) {
            assert!(value.is_some(), "{} is missing", key.escape_ascii());
        }
        if !is_long && prng.one_in(8) {
            let (mut cursor, mut stable) = (Some(0), 0);
            while let Some(from) = cursor {
                let visit = &mut |key: &[u8], _: silica_engine::EntryRef<'_>| {
                    let n = u64::from_be_bytes(key.try_into().expect("eight bytes"));
                    stable += u64::from(n % STEP == 0);
                };
                cursor = tree.scan(from, 100, visit).expect("a scan");
            }
            assert_eq!(stable, STABLE, "a scan misses a key or sees one twice");
        }
    }
}

/// What a snapshot shows stays, forwards and backwards.
fn look_back(tree: &Arc<Tree>, stop: &AtomicBool) {
    let _stop = StopOnDrop(stop);
    while !stop.load(Ordering::Acquire) {
        let ordered = Arc::clone(tree).as_ordered().expect("it is ordered");
        let snapshot: Arc<dyn Snapshot> = ordered.snapshot().expect("a snapshot");
        let mut iter = Arc::clone(&snapshot).iterate(&KeyRange::ALL).expect("an iterator");
        let (mut forwards, mut backwards) = (Vec::new(), Vec::new());
        let mut is_there = iter.seek_to_first().expect("a seek");
        while is_there {
            forwards.push(iter.key().to_vec());
            is_there = iter.next().expect("a step");
        }
        is_there = iter.seek_to_last().expect("a seek");
        while is_there {
            backwards.push(iter.key().to_vec());
            is_there = iter.prev().expect("a step");
        }
        backwards.reverse();
        assert!(forwards.is_sorted());
        assert!(forwards == backwards, "a snapshot has changed");
        tree.maintain(Budget::of(1 << 16)).expect("maintained");
    }
}

#[test]
fn nothing_is_missed_while_leaves_split_and_merge() {
    for is_long in [false, true] {
        let mut harness = TreeHarness::new(8 << 20).set("memory_bytes", 256 << 20);
        let tree = Arc::new(harness.open().expect("it opens"));
        for n in 0..STABLE {
            tree.put(&key(n * STEP, is_long), &n.to_le_bytes(), NOW).expect("a put");
        }
        let (stop, rounds) = (AtomicBool::new(false), test_size(6, 15, 2_000));
        std::thread::scope(|scope| {
            let (tree, stop) = (&tree, &stop);
            let _stop = StopOnDrop(stop);
            let reader = scope.spawn(move || read(tree, is_long, stop, seed(1)));
            let looker = scope.spawn(move || look_back(tree, stop));
            let other = scope.spawn(move || churn(tree, is_long, 1, rounds, seed(2)));
            churn(tree, is_long, 0, rounds, seed(3));
            other.join().expect("a writer");
            stop.store(true, Ordering::Release);
            reader.join().expect("a reader");
            looker.join().expect("a reader of snapshots");
        });
        tree.verify().expect("verified");
        let mut metrics = MetricsMap::default();
        tree.metrics(&mut metrics);
        assert!(metrics.get("leaf_splits") > 20.0 && metrics.get("leaf_merges") > 5.0);
        assert_eq!(metrics.get("entries_estimate"), STABLE as f64);
        assert_eq!(metrics.get("history_bytes"), 0.0, "notes go with their snapshots");
    }
}
