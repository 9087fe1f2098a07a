//! A memory number too small for the indexes: they go, lookups read the device instead and stay
//! right, and indexes come back with the memory.

use silica_base::{HashSeed, ManualClock, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Admin, Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, Scan,
};
use silica_silt::Silt;
use std::sync::Arc;

const ENTRIES: u64 = 40_000;
const MISSES: u64 = 2_000;
const SMALL: u64 = 256 << 10;
const LARGE: u64 = 64 << 20;

fn open(device: &SimDevice, memory_bytes: u64) -> Silt<SimDevice> {
    let mut options = OptionValues::default();
    options.set("partitions", 2).set("memory_bytes", memory_bytes).set("ect_group", 64);
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock, seed: HashSeed([7; 16]) };
    Silt::open(device.clone(), &options, &environment).expect("opens")
}

fn key(n: u64) -> [u8; 8] {
    Prng::new(n).next_u64().to_le_bytes()
}

fn value(n: u64) -> Vec<u8> {
    vec![n as u8; 20 + n as usize % 60]
}

fn settle(store: &Silt<SimDevice>) {
    for _ in 0..100_000 {
        if !store.maintain(Budget { bytes: 1 << 16 }).expect("maintains").more {
            return;
        }
    }
    panic!("maintenance does not come to an end");
}

fn metric(store: &Silt<SimDevice>, name: &str) -> u64 {
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    metrics.get(name) as u64
}

/// Checks every entry and some that are not there; the device reads that this took.
fn check(store: &Silt<SimDevice>) -> u64 {
    let before = metric(store, "get_device_reads");
    let all_before = metric(store, "device_reads");
    for n in 0..ENTRIES + MISSES {
        let expected = (n < ENTRIES).then(|| value(n));
        assert_eq!(store.get(&key(n)).expect("gets"), expected, "entry {n}");
    }
    let reads = metric(store, "get_device_reads") - before;
    assert_eq!(reads, metric(store, "device_reads") - all_before, "every read is counted");
    reads
}

#[test]
fn indexes_go_and_come_with_the_memory() {
    let device = SimDevice::new(1, SimOptions::default());
    let store = open(&device, SMALL);
    for n in 0..ENTRIES {
        store.put(&key(n), &value(n), Durability::Buffered).expect("puts");
        if n % 64 == 0 {
            store.maintain(Budget { bytes: 1 << 14 }).expect("maintains");
        }
    }
    settle(&store);
    assert!(metric(&store, "sorted_store_entries") > ENTRIES / 2 && metric(&store, "merges") > 2);
    let stores = metric(&store, "hash_stores") + 2;
    assert!((1..=stores).contains(&metric(&store, "indexes_dropped")));
    assert_eq!(metric(&store, "sorted_store_index_bytes"), 0, "those go first");
    let without = check(&store);
    let mut seen = 0;
    assert_eq!(store.scan(0, usize::MAX, &mut |_, _| seen += 1).expect("scans"), None);
    assert_eq!(seen, ENTRIES);

    store.set_memory_bytes(LARGE);
    settle(&store);
    assert_eq!(metric(&store, "indexes_dropped"), 0);
    assert!(metric(&store, "sorted_store_index_bytes") > 0);
    let with = check(&store);
    assert!(with + 1000 < without, "{without} reads without indexes, {with} with them");

    store.set_memory_bytes(SMALL);
    settle(&store);
    assert!(metric(&store, "indexes_dropped") > 0);
    store.verify().expect("verifies");
    drop(store);

    // Another memory number gives log stores of another shape.
    let store = open(&device, LARGE);
    for n in 0..ENTRIES / 2 {
        store.put(&key(n), &value(n), Durability::Buffered).expect("puts");
    }
    check(&store);
    settle(&store);
    drop(store);
    let store = open(&device, SMALL);
    settle(&store);
    check(&store);
    store.verify().expect("verifies");
}
