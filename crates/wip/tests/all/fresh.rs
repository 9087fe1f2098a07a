//! Blocks that a burst has read are there for whoever asks next in its thread, and only those.

use silica_base::HashSeed;
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Durability, Engine, EngineExt, EntryRef, Environment, GetSink, Intent, IterateOptions,
    KeyRange, OptionValues, Ordered,
};
use silica_wip::Wip;
use std::sync::Arc;

/// More blocks than a thread has room for.
const KEYS: u64 = 3000;

fn key(n: u64) -> [u8; 8] {
    (n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes()
}

fn open(device: &SimDevice) -> Arc<Wip<SimDevice>> {
    let environment = Environment::new(HashSeed([5; 16]));
    Arc::new(Wip::open(device.clone(), &OptionValues::default(), &environment).expect("it opens"))
}

/// A store that has all its entries in tables and nothing in its cache.
fn store(value: u8) -> (SimDevice, Arc<Wip<SimDevice>>) {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device);
    for n in 0..KEYS {
        wip.put(&key(n), &[value; 100], Durability::Buffered).expect("a put");
    }
    let ordered: Arc<dyn Ordered> = wip.clone();
    ordered.compact_range(&KeyRange::ALL).expect("a compaction");
    drop((ordered, wip));
    let wip = open(&device);
    (device, wip)
}

/// The value that all keys have.
struct Same {
    value: u8,
    found: u64,
}

impl GetSink for Same {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        assert_eq!(entry.value, [self.value; 100]);
        self.found += 1;
    }
}

/// Gets the keys in bursts of so many; the reads that it took.
fn gets(of: &(SimDevice, Arc<Wip<SimDevice>>), value: u8, keys: &[u64], burst: usize) -> u64 {
    let reads = || of.0.counters().snapshot().reads;
    let before = reads();
    let mut same = Same { value, found: 0 };
    let keys: Vec<_> = keys.iter().map(|n| key(*n)).collect();
    for keys in keys.chunks(burst) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        of.1.get_many(&keys, &mut same).expect("a burst");
    }
    assert_eq!(same.found as usize, keys.len());
    reads() - before
}

#[test]
fn a_thread_reads_no_block_twice() {
    let all: Vec<u64> = (0..KEYS).collect();
    // How often a burst looks again, with how many keys at a time.
    for again in [32, 2, 1] {
        let store = store(7);
        assert!(gets(&store, 7, &all[..20], 20) > 10, "the cache is empty");
        assert_eq!(gets(&store, 7, &all[..20], again), 0, "{again} at a time");
        assert!(gets(&store, 7, &all, 1000) > 20);
        assert_eq!(gets(&store, 7, &all, again), 0, "{again} at a time");
        // By now they are there for everybody.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| gets(&store, 7, &all, 32));
            assert_eq!(other.join().expect("no panic"), 0);
        });
    }
}

/// The reads of the device that gets of `keys`, one by one, take.
fn reads_of(of: &(SimDevice, Arc<Wip<SimDevice>>), keys: &[u64], intent: Intent) -> u64 {
    let reads = || of.0.counters().snapshot().reads;
    let before = reads();
    let mut same = Same { value: 7, found: 0 };
    for n in keys {
        of.1.get_many_with(&[&key(*n)], intent, &mut same).expect("a get");
    }
    assert_eq!(same.found as usize, keys.len());
    reads() - before
}

#[test]
fn scans_and_background_reads_keep_nothing() {
    let some: Vec<u64> = (0..20).collect();
    for intent in [Intent::Scan, Intent::Background] {
        let store = store(7);
        for _ in 0..2 {
            assert!(reads_of(&store, &some, intent) >= 15, "{intent:?} finds what it has read");
            let options = IterateOptions { intent, ..IterateOptions::default() };
            let snapshot = Arc::clone(&store.1).snapshot().expect("a snapshot");
            let mut iter = snapshot.iterate_with(&KeyRange::ALL, options).expect("an iterator");
            let (mut walked, mut is_there) = (0, iter.seek_to_first().expect("a seek"));
            while is_there {
                walked += 1;
                is_there = iter.next().expect("a step");
            }
            assert_eq!(walked, KEYS);
        }
        assert!(reads_of(&store, &some, Intent::Foreground) >= 10, "a walk was kept");
        assert_eq!(reads_of(&store, &some, intent), 0, "what others keep is found");
    }
}

#[test]
fn blocks_of_one_store_are_not_taken_for_those_of_another() {
    let (one, other) = (store(1), store(2));
    let some: Vec<u64> = (0..20).collect();
    for _ in 0..3 {
        gets(&one, 1, &some, 20);
        gets(&other, 2, &some, 20);
    }
    // Their files have the same numbers.
    let tables = |store: &(SimDevice, _)| store.0.list().expect("names");
    assert_eq!(tables(&one), tables(&other));
}
