//! Five faults of the paper's prototype, as they were seen when it was run. Each test states what
//! a store must do instead.

use crate::small;
use silica_base::{HashSeed, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{CounterSnapshot, Device};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, Environment, KeyRange, MetricsMap, Ordered,
};
use silica_wip::Wip;
use std::sync::Arc;

fn device() -> SimDevice {
    SimDevice::new(1, SimOptions::default())
}

fn open(device: &SimDevice, more: &[(&str, u64)]) -> Arc<Wip<SimDevice>> {
    let environment = Environment::new(HashSeed([7; 16]));
    Arc::new(Wip::open(device.clone(), &small::options(more), &environment).expect("it opens"))
}

fn counts(device: &SimDevice) -> CounterSnapshot {
    device.counters().snapshot()
}

/// Limits that leave everything in memtables.
const NO_FLUSH: [(&str, u64); 3] =
    [("memory_bytes", 64 << 20), ("memtable_bytes_max", 32 << 20), ("log_bytes_max", 32 << 20)];

/// The prototype made its buckets' bounds names of directories.
#[test]
fn keys_of_any_bytes_are_kept_where_buckets_begin_with_them() {
    let (device, mut prng) = (device(), Prng::new(1));
    let wip = open(&device, &[]);
    let mut keys: Vec<Vec<u8>> = (0..4000)
        .map(|_| {
            let bytes = [0, b'/', b'.', b'\n', 0x80, 0xFF];
            (0..prng.below(12)).map(|_| bytes[prng.below(6) as usize]).collect()
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for (n, key) in keys.iter().enumerate() {
        wip.put(key, &[n as u8; 60], Durability::Buffered).expect("a put");
        if n % 100 == 0 {
            while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
        }
    }
    let mut metrics = MetricsMap::default();
    wip.metrics(&mut metrics);
    assert!(metrics.get("buckets") > 3.0, "{} buckets", metrics.get("buckets"));
    drop(wip);
    let wip = open(&device, &[]);
    for (n, key) in keys.iter().enumerate() {
        let found = wip.get(key).expect("a get");
        assert_eq!(found.as_deref(), Some(&[n as u8; 60][..]), "{key:?}");
    }
}

/// The prototype took `sync` and did nothing with it.
#[test]
fn a_synced_write_is_synced_before_it_returns_and_a_buffered_one_is_not() {
    let device = device();
    let wip = open(&device, &NO_FLUSH);
    wip.put(b"first", b"makes the log", Durability::Synced).expect("a put");
    let before = counts(&device).syncs;
    for n in 0..10u8 {
        wip.put(&[n], b"buffered", Durability::Buffered).expect("a put");
    }
    assert_eq!(counts(&device).syncs, before);
    for n in 10..20u8 {
        wip.put(&[n], b"synced", Durability::Synced).expect("a put");
        assert_eq!(counts(&device).syncs, before + u64::from(n) - 9);
    }
    device.power_cut();
    drop(wip);
    let wip = open(&device.reopen(), &NO_FLUSH);
    for n in 0..20u8 {
        let found = wip.get(&[n]).expect("a get");
        let value: &[u8] = if n < 10 { b"buffered" } else { b"synced" };
        assert_eq!(found.as_deref(), Some(value), "a later sync covers what was buffered");
    }
}

/// The prototype forgot its memtables when it was closed.
#[test]
fn what_memtables_hold_is_there_after_a_clean_reopen() {
    let device = device();
    let wip = open(&device, &NO_FLUSH);
    (0..3000u32).for_each(|n| {
        wip.put(&n.to_be_bytes(), &n.to_le_bytes(), Durability::Buffered).expect("a put");
    });
    drop(wip);
    assert!(!device.list().expect("names").iter().any(|name| name.starts_with("TABLE")));
    let wip = open(&device, &NO_FLUSH);
    for n in 0..3000u32 {
        let found = wip.get(&n.to_be_bytes()).expect("a get");
        assert_eq!(found.as_deref(), Some(&n.to_le_bytes()[..]));
    }
}

/// The prototype removed the eleventh file of its log, and those after it, whatever was in them.
#[test]
fn log_segments_stay_however_many_there_are_until_their_entries_are_in_tables() {
    let device = device();
    let options = [&NO_FLUSH[..], &[("segment_bytes", 16 << 10)]].concat();
    let wip = open(&device, &options);
    let segments = || {
        let names = device.list().expect("names");
        names.iter().filter(|name| name.starts_with("LOG")).count()
    };
    let mut count = 0u32;
    while segments() <= 25 {
        wip.put(&count.to_be_bytes(), &[count as u8; 100], Durability::Buffered).expect("a put");
        wip.maintain(Budget::of(1 << 20)).expect("maintenance");
        count += 1;
    }
    wip.sync().expect("a sync");
    device.power_cut();
    drop(wip);
    let wip = open(&device.reopen(), &options);
    for n in 0..count {
        let found = wip.get(&n.to_be_bytes()).expect("a get");
        assert_eq!(found.as_deref(), Some(&[n as u8; 100][..]));
    }
}

/// The prototype's scans came to a few percent of what others read in that time.
#[test]
fn a_scan_reads_every_block_once_and_many_at_a_time() {
    let device = device();
    let options = [("memory_bytes", 64 << 20), ("bucket_bytes_max", 64 << 20)];
    let wip = open(&device, &options);
    for n in 0..20_000u32 {
        wip.put(&n.to_be_bytes(), &[1; 100], Durability::Buffered).expect("a put");
    }
    wip.compact_range(&KeyRange::ALL).expect("a compaction");
    drop(wip);
    // What was merged is in the cache of who merged it.
    let wip = open(&device, &options);
    let before = counts(&device);
    let snapshot = Arc::clone(&wip).snapshot().expect("a snapshot");
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    let mut is_there = iter.seek_to_first().expect("a seek");
    let mut found = 0;
    while is_there {
        found += 1;
        is_there = iter.next().expect("a step");
    }
    assert_eq!(found, 20_000);
    let (reads, bytes) =
        (counts(&device).reads - before.reads, counts(&device).bytes_read - before.bytes_read);
    let least = 20_000 * 104;
    assert!(bytes < least * 5 / 4, "{bytes} bytes were read for {least}");
    assert!(reads < bytes / (32 << 10), "{reads} reads of {bytes} bytes");
}
