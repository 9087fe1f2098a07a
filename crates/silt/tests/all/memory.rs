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
const SMALL: u64 = 64 << 10;
/// So small that nothing but the indexes' least share is left.
const TINY: u64 = 16 << 10;
const LARGE: u64 = 64 << 20;

fn open(device: &SimDevice, memory_bytes: u64) -> Silt<SimDevice> {
    let options = [("partitions", 2), ("memory_bytes", memory_bytes), ("ect_group", 64)];
    open_with(device, &options)
}

fn open_with(device: &SimDevice, given: &[(&str, u64)]) -> Silt<SimDevice> {
    let mut options = OptionValues::default();
    for (name, value) in given {
        options.set(name, *value);
    }
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
        if !store.maintain(Budget::of(1 << 16)).expect("maintains").more {
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
            store.maintain(Budget::of(1 << 14)).expect("maintains");
        }
    }
    store.set_memory_bytes(TINY);
    settle(&store);
    assert!(metric(&store, "sorted_store_entries") > ENTRIES / 2 && metric(&store, "merges") > 2);
    let stores = metric(&store, "hash_stores") + 2;
    assert!((1..=stores).contains(&metric(&store, "indexes_dropped")));
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

    store.set_memory_bytes(TINY);
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

#[test]
fn any_number_of_bytes_is_a_memory() {
    // Segments of a quarter of the log's part would not end at whole positions.
    for memory_bytes in [1_000_001, (2 << 20) + 20, 3_333_335] {
        let device = SimDevice::new(1, SimOptions::default());
        let store = open(&device, memory_bytes);
        for n in 0..ENTRIES {
            store.put(&key(n), &value(n), Durability::Buffered).expect("puts");
            if n % 64 == 0 {
                store.maintain(Budget::of(1 << 14)).expect("maintains");
            }
        }
        settle(&store);
        assert!(metric(&store, "conversions") > 4);
        check(&store);
        store.verify().expect("verifies");
    }
}

/// Puts entries `range` with values of `value_bytes`; maintenance keeps up.
fn fill(store: &Silt<SimDevice>, range: std::ops::Range<u64>, value_bytes: usize) {
    for n in range {
        store.put(&key(n), &vec![n as u8; value_bytes], Durability::Buffered).expect("puts");
        if n % 64 == 0 {
            store.maintain(Budget::of(1 << 20)).expect("maintains");
        }
    }
    settle(store);
}

/// Device reads of a get, of keys from `first` on.
fn reads_per_get(store: &Silt<SimDevice>, first: u64, is_there: bool) -> f64 {
    const GETS: u64 = 5_000;
    let before = metric(store, "get_device_reads");
    for n in first..first + GETS {
        assert_eq!(store.get(&key(n)).expect("gets").is_some(), is_there, "entry {n}");
    }
    (metric(store, "get_device_reads") - before) as f64 / GETS as f64
}

#[test]
fn gets_take_one_read_where_entries_are_large_and_memory_is_small() {
    let (memory_bytes, entries) = (32 << 20, 60_000);
    let store =
        open_with(&SimDevice::new(1, SimOptions::default()), &[("memory_bytes", memory_bytes)]);
    for first in (0..entries).step_by(5_000) {
        fill(&store, first..first + 5_000, 1000);
        let hits = reads_per_get(&store, first / 2, true);
        assert!(hits <= 1.01, "{hits} reads per get of {first} entries");
    }
    let (stores, merges) = (metric(&store, "hash_stores"), metric(&store, "merges"));
    assert!(stores >= 4 && merges >= 4, "{stores} hash stores, {merges} merges");
    assert_eq!(metric(&store, "indexes_dropped"), 0);
    let misses = reads_per_get(&store, entries, false);
    assert!(misses <= 0.05, "{misses} reads per miss");
    assert!(metric(&store, "index_bytes") < memory_bytes / 64, "tables are as large as needed");
}

#[test]
fn small_entries_are_merged_early_rather_than_looked_up_without_filters() {
    // The stores' filters, at the ratio that partitions are merged at, would not fit.
    let given = [("memory_bytes", 2 << 20), ("partitions", 4), ("log_bytes_max", 64 << 10)];
    let store = open_with(&SimDevice::new(1, SimOptions::default()), &given);
    let entries = 400_000;
    fill(&store, 0..entries, 12);
    assert_eq!(metric(&store, "indexes_dropped"), 0);
    let hits = reads_per_get(&store, 0, true);
    assert!(hits <= 1.01, "{hits} reads per get");
}

#[test]
fn filters_of_sorted_stores_come_and_go_with_the_memory() {
    let device = SimDevice::new(1, SimOptions::default());
    let (enough, little) = (4 << 20, 1 << 20);
    let store = open(&device, enough);
    fill(&store, 0..ENTRIES, 100);
    let with = metric(&store, "sorted_store_index_bytes");
    let few = reads_per_get(&store, ENTRIES, false);
    assert!(few < 0.02, "{few} reads per miss");

    store.set_memory_bytes(little);
    settle(&store);
    let without = metric(&store, "sorted_store_index_bytes");
    assert!(0 < without && without < with / 2, "{without} of {with} bytes are left");
    assert_eq!(metric(&store, "indexes_dropped"), 0, "filters go first");
    let one = reads_per_get(&store, ENTRIES, false);
    assert!((0.9..1.01).contains(&one), "{one} reads per miss");

    store.set_memory_bytes(enough);
    fill(&store, 0..ENTRIES, 100);
    let few = reads_per_get(&store, ENTRIES, false);
    assert!(few < 0.02, "{few} reads per miss");
    drop(store);

    // What is given is obeyed: none, where the files have filters too.
    let options = [("partitions", 2), ("memory_bytes", enough), ("sorted_filter_bits", 0)];
    let store = open_with(&device, &options);
    settle(&store);
    let one = reads_per_get(&store, ENTRIES, false);
    assert!((0.9..1.01).contains(&one), "{one} reads per miss");
}

#[test]
fn stores_of_different_shapes_live_in_one_partition() {
    let device = SimDevice::new(1, SimOptions::default());
    let given = [("partitions", 2), ("memory_bytes", 4 << 20), ("hash_stores_min", 1000)];
    let slots = |store: &Silt<SimDevice>| {
        let text = store.inspect().expect("inspects");
        let line = text.lines().find(|line| line.starts_with("partition 0")).expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|word| word.starts_with("slots")).expect("a number");
        words[at - 1].parse::<u64>().expect("a number")
    };
    let store = open_with(&device, &given);
    let mut seen = Vec::new();
    for (part, bytes) in [1500, 8, 300].into_iter().enumerate() {
        let first = part as u64 * 20_000;
        fill(&store, first..first + 20_000, bytes);
        seen.push(slots(&store));
    }
    assert!(seen[0] * 8 < seen[1] && seen[2] * 4 < seen[1], "slots: {seen:?}");
    assert!(metric(&store, "hash_stores") > 8, "they were not merged");
    drop(store);

    let store = open_with(&device, &given);
    settle(&store);
    store.verify().expect("verifies");
    for n in 0..60_000 {
        let bytes = [1500, 8, 300][n as usize / 20_000];
        assert_eq!(store.get(&key(n)).expect("gets"), Some(vec![n as u8; bytes]), "entry {n}");
    }
    let mut entries = 0;
    assert_eq!(store.scan(0, usize::MAX, &mut |_, _| entries += 1).expect("scans"), None);
    assert_eq!(entries, 60_000);
}
