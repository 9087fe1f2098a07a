//! A memory number too small for the filters: they go, answers stay right, and they come back with
//! the memory.

use silica_base::{HashSeed, ManualClock, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Admin, Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues,
};
use silica_wip::Wip;
use std::sync::Arc;

const ENTRIES: u64 = 40_000;
const LARGE: u64 = 64 << 20;
const SMALL: u64 = 64 << 10;

fn open(device: &SimDevice, memory_bytes: u64) -> Wip<SimDevice> {
    open_with_log(device, memory_bytes, 128 << 10)
}

fn open_with_log(device: &SimDevice, memory_bytes: u64, log_bytes_max: u64) -> Wip<SimDevice> {
    let mut options = OptionValues::default();
    for (name, value) in [
        ("memory_bytes", memory_bytes),
        ("memtable_bytes_max", 64 << 10),
        ("log_bytes_max", log_bytes_max),
    ] {
        options.set(name, value);
    }
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock, seed: HashSeed([7; 16]) };
    Wip::open(device.clone(), &options, &environment).expect("opens")
}

fn key(n: u64) -> [u8; 8] {
    Prng::new(n).next_u64().to_le_bytes()
}

fn settle(store: &Wip<SimDevice>) {
    while store.maintain(Budget::of(1 << 20)).expect("maintains").more {}
}

fn metric(store: &Wip<SimDevice>, name: &str) -> u64 {
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    metrics.get(name) as u64
}

/// Device reads of keys, of which those below [`ENTRIES`] are there.
fn reads(store: &Wip<SimDevice>, keys: std::ops::Range<u64>) -> u64 {
    let before = metric(store, "get_device_reads");
    for n in keys {
        let expected = (n < ENTRIES).then(|| vec![n as u8; 40]);
        assert_eq!(store.get(&key(n)).expect("gets"), expected, "entry {n}");
    }
    metric(store, "get_device_reads") - before
}

#[test]
fn filters_go_and_come_with_the_memory_and_the_cache_takes_what_is_left() {
    let device = SimDevice::new(1, SimOptions::default());
    let store = open(&device, LARGE);
    for n in 0..ENTRIES {
        store.put(&key(n), &[n as u8; 40], Durability::Buffered).expect("puts");
        store.maintain(Budget::of(4 << 10)).expect("maintains");
    }
    settle(&store);
    assert_eq!(metric(&store, "indexes_dropped"), 0);
    let missing = ENTRIES..ENTRIES + 5_000;
    assert!(reads(&store, missing.clone()) < 150, "three of a hundred misses read at most");
    reads(&store, 0..ENTRIES);
    assert_eq!(reads(&store, 0..ENTRIES), 0, "all blocks are in the cache");
    let hits = metric(&store, "block_cache_hits");

    store.set_memory_bytes(SMALL);
    assert!(metric(&store, "indexes_dropped") > 0);
    assert!(metric(&store, "block_cache_bytes") <= SMALL);
    assert!(metric(&store, "table_index_bytes") <= SMALL);
    assert!(reads(&store, missing.clone()) > 2_000, "each has to be looked for");
    assert!(reads(&store, 0..5_000) > 4_000);
    drop(store);

    let store = open(&device, SMALL);
    assert!(metric(&store, "indexes_dropped") > 0);
    store.set_memory_bytes(LARGE);
    assert_eq!((metric(&store, "indexes_dropped"), metric(&store, "block_cache_hits")), (0, 0));
    assert!(hits > 0 && reads(&store, missing) < 150);
    reads(&store, 0..ENTRIES);
    store.verify().expect("verifies");
}

#[test]
fn any_number_of_bytes_is_a_memory_and_a_log() {
    // A quarter of them would be segments that end between two positions of the log.
    for log_bytes_max in [100_001, 131_100, 333_333] {
        let device = SimDevice::new(1, SimOptions::default());
        let mut store = open_with_log(&device, 8_000_003, log_bytes_max);
        for round in 0..2 {
            for n in 0..ENTRIES / 4 {
                let value = vec![(n + round) as u8; 40];
                store.put(&key(n), &value, Durability::Buffered).expect("puts");
                if n % 64 == 0 {
                    store.maintain(Budget::of(1 << 14)).expect("maintains");
                }
            }
            store.verify().expect("verifies");
            drop(store);
            store = open_with_log(&device, 8_000_003, log_bytes_max);
            for n in 0..ENTRIES / 4 {
                let expected = vec![(n + round) as u8; 40];
                assert_eq!(store.get(&key(n)).expect("gets"), Some(expected), "entry {n}");
            }
        }
    }
}
