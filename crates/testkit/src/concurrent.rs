//! Readers, writers and maintenance at the same time.
#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::harness::Harness;
use super::workload::{Keys, Value, describe};
use silica_base::Prng;
use silica_engine::{
    Atomic, Budget, Durability, Engine, EngineExt, EntryRef, GetSink, Update, WriteBatch,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

const KEYS: u32 = 64;
const BURST: u64 = 8;
/// Bursts that each reader makes at least.
const READS_MIN: u64 = 200;

/// Lets `readers` threads read while one thread makes `writes` writes and another one maintains.
/// Every value read must have been written for its key, must not be older than what was
/// acknowledged before the read began, and must never be older than what the reader saw before.
///
/// # Panics
///
/// Where a reader sees something else.
pub fn concurrent_readers<H: Harness>(harness: &mut H, seed: u64, readers: u64, writes: u64) {
    harness.wipe();
    let workload = harness.workload();
    let engine = harness.open().expect("an empty store opens");
    let keys = Keys::new(&workload, KEYS);
    let zeroes = || (0..KEYS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let board = Board {
        keys,
        begun: zeroes(),
        done: zeroes(),
        late: AtomicU64::new(readers),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..readers)
            .map(|n| {
                let (engine, board) = (&engine, &board);
                scope.spawn(move || board.read_until_stopped(engine, seed ^ n << 32))
            })
            .collect();
        let maintainer = scope.spawn(|| maintain_until_stopped(&engine, &board.stop));
        let _stop = StopOnDrop(&board.stop);
        write_versions(&engine, &board, seed, writes, workload.value_bytes_max as u64);
        board.stop.store(true, Ordering::Release);
        readers.into_iter().for_each(join);
        join(maintainer);
    });
    engine.verify().expect("verification after concurrent reads");
}

/// Waits for a thread; its panic becomes this thread's.
pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Stops the other threads also where this one panics, so that the test ends.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What the writer tells the readers: per key, the versions begun and acknowledged.
struct Board {
    keys: Keys,
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
    /// Readers that have not read enough yet; the writer goes on for them.
    late: AtomicU64,
    stop: AtomicBool,
}

/// Version `stamp` of `key`; versions start at 1.
fn version(key: u32, stamp: u64, value_bytes_max: u64) -> Value {
    let len = 12 + Prng::new(stamp).below(value_bytes_max.max(1));
    Value { key, stamp, len: len as u32, meta: false }
}

fn write_versions(
    engine: &impl Engine,
    board: &Board,
    seed: u64,
    writes: u64,
    value_bytes_max: u64,
) {
    let mut prng = Prng::new(seed);
    for stamp in 1.. {
        let is_done = stamp > writes && board.late.load(Ordering::Acquire) == 0;
        if is_done || board.stop.load(Ordering::Acquire) {
            return;
        }
        let len = if prng.one_in(8) { 1 + prng.below(6) } else { 1 };
        let chosen: Vec<u32> = (0..len).map(|_| prng.below(u64::from(KEYS)) as u32).collect();
        let values: Vec<Vec<u8>> =
            chosen.iter().map(|key| version(*key, stamp, value_bytes_max).bytes()).collect();
        let mut batch = WriteBatch::new();
        for (key, value) in chosen.iter().zip(&values) {
            batch.put(board.keys.bytes(*key), value);
            board.begun[*key as usize].store(stamp, Ordering::Release);
        }
        let durability = if prng.one_in(64) { Durability::Synced } else { Durability::Buffered };
        engine.write(&batch, durability).expect("write with readers");
        for key in chosen {
            board.done[key as usize].store(stamp, Ordering::Release);
        }
    }
}

fn maintain_until_stopped(engine: &impl Engine, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let progress = engine.maintain(Budget::of(4096)).expect("maintenance with readers");
        if !progress.more {
            std::thread::yield_now();
        }
    }
}

impl Board {
    fn read_until_stopped(&self, engine: &impl Engine, seed: u64) {
        // A reader that panics stops the writer, which would wait for it in vain.
        let _stop = StopOnDrop(&self.stop);
        let mut prng = Prng::new(seed);
        let mut newest = vec![0; KEYS as usize];
        let mut reads = 0;
        while !self.stop.load(Ordering::Acquire) {
            let burst = 1 + prng.below(BURST);
            let ids: Vec<u32> = (0..burst).map(|_| prng.below(u64::from(KEYS)) as u32).collect();
            let keys: Vec<&[u8]> = ids.iter().map(|id| self.keys.bytes(*id)).collect();
            let due = |id: &u32| self.done[*id as usize].load(Ordering::Acquire);
            let due: Vec<u64> = ids.iter().map(due).collect();
            let mut stamps = Stamps { ids: &ids, stamps: vec![0; ids.len()] };
            engine.get_many(&keys, &mut stamps).expect("get with a writer");
            for ((id, due), stamp) in ids.iter().zip(due).zip(stamps.stamps) {
                let seen = &mut newest[*id as usize];
                assert!(stamp >= due, "key {id}: version {stamp} after {due} was acknowledged");
                assert!(stamp >= *seen || burst > 1, "key {id}: version {stamp} after {seen}");
                let begun = self.begun[*id as usize].load(Ordering::Acquire);
                assert!(stamp <= begun, "key {id}: version {stamp} before it was written");
                *seen = stamp.max(*seen);
            }
            reads += 1;
            if reads == READS_MIN {
                self.late.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

/// The versions of a burst's keys; 0 where the key is missing.
struct Stamps<'a> {
    ids: &'a [u32],
    stamps: Vec<u64>,
}

impl GetSink for Stamps<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let stamp = entry.value.get(4..12).and_then(|b| b.first_chunk());
        let stamp = stamp.map_or(0, |stamp| u64::from_le_bytes(*stamp));
        let len = entry.value.len() as u32;
        let value = Value { key: self.ids[index], stamp, len, meta: false };
        let is_right = value.is(&entry, &mut Vec::new());
        assert!(is_right, "key {} has {}", self.ids[index], describe(Some(&entry)));
        self.stamps[index] = stamp;
    }
}

/// Lets `threads` threads add 1 to a few shared counters, `increments` times each, through
/// `as_atomic`, one by one and in bursts that repeat keys, and to two more counters together,
/// while another thread writes and deletes other keys and maintains. No increment may be lost.
///
/// # Panics
///
/// Where a counter does not hold the number of increments, or the two counters differ.
pub fn concurrent_updates<H: Harness>(harness: &mut H, seed: u64, threads: u64, increments: u64) {
    harness.wipe();
    let engine = harness.open().expect("an empty store opens");
    let Some(atomic) = engine.as_atomic() else { return };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut prng = Prng::new(seed ^ thread << 32);
                    let mut left = increments;
                    while left > 0 {
                        left -= increment(atomic, &mut prng, left);
                    }
                })
            })
            .collect();
        let other = scope.spawn(|| write_others(&engine, seed, &stop));
        workers.into_iter().for_each(join);
        stop.store(true, Ordering::Release);
        join(other);
    });
    let stored = |n| {
        let value = engine.get(&counter(n)).expect("get of a counter");
        value.map_or(0, |v| count(Some(EntryRef::new(&v))))
    };
    let total: u64 = (0..COUNTERS).map(stored).sum();
    assert_eq!(total, threads * increments, "concurrent_updates(harness, {seed}, …) lost updates");
    engine.verify().expect("verification after concurrent updates");
}

/// Counters that are incremented one by one.
const COUNTERS: u64 = 3;
/// Counters that are always incremented together.
const TWINS: [[u8; 2]; 2] = [*b"t0", *b"t1"];

fn counter(n: u64) -> [u8; 2] {
    [b'c', n as u8]
}

fn incremented(current: Option<EntryRef<'_>>) -> Update {
    Update::put((count(current) + 1).to_le_bytes().to_vec())
}

/// Makes some increments of the counters, at most `left`; returns how many.
fn increment(atomic: &dyn Atomic, prng: &mut Prng, left: u64) -> u64 {
    let durability = if prng.one_in(64) { Durability::Synced } else { Durability::Buffered };
    match prng.below(4) {
        0 => {
            let twins = [&TWINS[0][..], &TWINS[1][..]];
            let mut seen = (0, 0);
            let result = atomic.update_all(&twins, durability, &mut |entries| {
                seen = (count(entries[0]), count(entries[1]));
                entries.iter().map(|entry| incremented(*entry)).collect()
            });
            result.expect("update of several keys amid updates");
            // Earlier calls may have seen what another writer was about to change.
            assert_eq!(seen.0, seen.1, "an update was done in halves");
            0
        }
        1..=2 => {
            let len = left.min(1 + prng.below(8));
            let keys: Vec<[u8; 2]> = (0..len).map(|_| counter(prng.below(COUNTERS))).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut add = |_: usize, current: Option<EntryRef<'_>>| incremented(current);
            let many = atomic.update_many(&keys, durability, &mut add);
            many.expect("burst of updates amid updates") as u64
        }
        _ => {
            let key = counter(prng.below(COUNTERS));
            atomic.update(&key, durability, &mut { incremented }).expect("update amid updates");
            1
        }
    }
}

fn count(entry: Option<EntryRef<'_>>) -> u64 {
    let bytes = entry.map(|e| *e.value.first_chunk().expect("a counter has 8 bytes"));
    bytes.map_or(0, u64::from_le_bytes)
}

fn write_others(engine: &impl Engine, seed: u64, stop: &AtomicBool) {
    let mut prng = Prng::new(!seed);
    while !stop.load(Ordering::Acquire) {
        let key = [b'x', prng.below(200) as u8];
        let value = prng.next_u64().to_le_bytes();
        engine.put(&key, &value, Durability::Buffered).expect("put amid updates");
        let found = engine.get(&key).expect("get amid updates");
        assert_eq!(found.as_deref(), Some(&value[..]), "only this thread writes the key");
        if prng.one_in(4) {
            engine.delete(&key, Durability::Buffered).expect("delete amid updates");
        }
        if prng.one_in(8) {
            engine.maintain(Budget::of(4096)).expect("maintenance amid updates");
        }
    }
}
