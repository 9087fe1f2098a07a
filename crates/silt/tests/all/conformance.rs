//! The conformance suite on SILT over the simulated device, with limits so small that
//! conversions, merges and value-log reclaiming happen all the time.

use silica_base::test_size;
use silica_device::sim::{SimDevice, SimOptions};
use silica_silt::Silt;
use silica_testkit::{self as testkit, ExpiredSpace, FilesHarness, Workload};
use std::collections::BTreeSet;

type SiltHarness = FilesHarness<Silt<SimDevice>>;

/// Limits at which a few hundred entries fill every kind of store.
fn harness(overrides: &[(&str, u64)]) -> SiltHarness {
    let limits = [
        ("memory_bytes", 8 << 20),
        ("partitions", 2),
        ("log_store_blocks", 1),
        ("log_store_block_buckets_log2", 3),
        ("log_bytes_max", 16 << 10),
        ("segment_bytes", 8 << 10),
        ("inline_value_bytes_max", 256),
        ("value_log_segment_bytes", 8 << 10),
        ("ect_group", 16),
    ];
    FilesHarness::new(Silt::open, &[&limits[..], overrides].concat())
}

/// Log stores are shaped by the entries, so that stores of one partition differ in shape.
fn shaped_by_entries(overrides: &[(&str, u64)]) -> SiltHarness {
    let limits = [("partitions", 2), ("log_bytes_max", 16 << 10), ("segment_bytes", 8 << 10)];
    FilesHarness::new(Silt::open, &[&limits[..], overrides].concat())
}

/// The seed of a test: what `SILICA_SEED` says, or `usual`.
fn seed(usual: u64) -> u64 {
    std::env::var("SILICA_SEED").map_or(usual, |s| s.parse().expect("SILICA_SEED is a number"))
}

fn tiny() -> SiltHarness {
    harness(&[])
}

/// Most values go to the value log, whose segments hold a few dozen of them.
fn large_values() -> SiltHarness {
    let overrides = [("inline_value_bytes_max", 24), ("value_log_segment_bytes", 4 << 10)];
    harness(&overrides).with(|w| w.value_bytes_max = 200)
}

/// Entries of one size, which pack and index differently.
fn equal_sizes() -> SiltHarness {
    tiny().with(|w| w.equal_sizes = true)
}

#[test]
fn basics() {
    testkit::basics(&mut tiny().with(|w| w.tried_bytes_max = 4096));
}

#[test]
fn expiry() {
    for mut harness in [tiny(), large_values()] {
        let clock = harness.clock.clone();
        testkit::expiry(&mut harness, &clock);
        testkit::moments(&mut harness, &clock);
    }
}

/// Files keep to what has not expired, with values in the stores and apart.
#[test]
fn expired_space() {
    const LOG_BYTES: u64 = 256 << 10;
    let limits = [
        ("partitions", 8),
        ("memory_bytes", 4 << 20),
        ("log_bytes_max", LOG_BYTES),
        ("segment_bytes", LOG_BYTES / 4),
    ];
    // The log a quarter over its limit, a segment more, the next one and two spares.
    let log_bytes = 2 * LOG_BYTES;
    let within = ExpiredSpace {
        keys: test_size(8_000, 16_000, 160_000),
        value_bytes: 108,
        percent: 140,
        busy_percent: 140,
        slack_bytes: log_bytes + (192 << 10),
        empty_bytes: log_bytes,
    };
    let mut harness = shaped_by_entries(&limits);
    let clock = harness.clock.clone();
    testkit::expired_space(&mut harness, &clock, within);
    let large = [("inline_value_bytes_max", 64), ("value_log_segment_bytes", 64 << 10)];
    let mut harness = shaped_by_entries(&[&limits[..], &large].concat());
    let clock = harness.clock.clone();
    // Segments of the value log are reclaimed when half of them is dead.
    let apart = ExpiredSpace { keys: test_size(3_000, 8_000, 50_000), value_bytes: 1000, ..within };
    let apart = ExpiredSpace { percent: 180, busy_percent: 180, ..apart };
    testkit::expired_space(&mut harness, &clock, apart);
}

#[test]
fn expired_room() {
    let mut harness = shaped_by_entries(&[("partitions", 8)]);
    let clock = harness.clock.clone();
    testkit::expired_room(&mut harness, &clock, 108, 4 << 20);
    let large = [("inline_value_bytes_max", 64), ("value_log_segment_bytes", 64 << 10)];
    let mut harness = shaped_by_entries(&large);
    let clock = harness.clock.clone();
    testkit::expired_room(&mut harness, &clock, 1000, 4 << 20);
}

#[test]
fn differential() {
    let operations = test_size(20_000, 300_000, 500_000_000);
    testkit::differential(&mut tiny(), seed(1), operations);
    testkit::differential(&mut equal_sizes(), seed(2), operations);
    testkit::differential(&mut large_values(), seed(3), operations / 4);
}

/// Every option that changes which code runs, away from the values of the other tests.
#[test]
fn configurations() {
    let large = |w: &mut Workload| (w.value_bytes_max, w.large_value_bytes_max) = (900, 3000);
    let equal = |w: &mut Workload| w.equal_sizes = true;
    let same = |_: &mut Workload| {};
    type Case<'a> = (&'a [(&'a str, u64)], &'a dyn Fn(&mut Workload));
    let cases: [Case<'_>; 10] = [
        (&[("partitions", 1), ("hash_stores_min", 1)], &same),
        (&[("partitions", 16)], &same),
        (&[("tag_bits", 4)], &same),
        (&[("memory_bytes", 64 << 10)], &same),
        (&[("memory_bytes", 64 << 10)], &equal),
        (&[("log_store_blocks", 8), ("log_store_block_buckets_log2", 2)], &same),
        (&[("sorted_index", 1), ("sorted_filter_bits", 8)], &equal),
        (&[("sorted_index", 2), ("merge_ratio_percent", 400)], &equal),
        (&[("log_bytes_max", 64 << 10), ("segment_bytes", 32 << 10)], &large),
        (&[("hash_stores_max", 2), ("ect_hmax", 2)], &large),
    ];
    let (operations, cuts) = (test_size(5_000, 50_000, 10_000_000), test_size(50, 500, 50_000));
    for (usual, (options, change)) in (100..).zip(cases) {
        println!("seed {}: {options:?}", seed(usual));
        testkit::differential(&mut harness(options).with(change), seed(usual), operations);
        testkit::crash_random(&mut harness(options).with(change), seed(usual), cuts);
    }
    let shaped: [&[(&str, u64)]; 2] = [
        &[("log_store_block_buckets_log2", 2), ("memory_bytes", 8 << 20)],
        &[("memory_bytes", 64 << 10), ("log_bytes_max", 32 << 10)],
    ];
    for (usual, options) in (200..).zip(shaped) {
        let harness = || shaped_by_entries(options).with(large);
        println!("seed {}: {options:?}", seed(usual));
        testkit::differential(&mut harness(), seed(usual), operations);
        testkit::crash_random(&mut harness(), seed(usual), cuts);
    }
}

#[test]
fn crash_random() {
    let cuts = test_size(300, 4_000, 500_000);
    testkit::crash_random(&mut tiny(), seed(1), cuts);
    let garbling = SimOptions { garble: true, names_in_order: true };
    testkit::crash_random(&mut tiny().on(garbling), seed(2), cuts);
    testkit::crash_random(&mut large_values().on(garbling), seed(3), cuts);
}

#[test]
fn crash_every_op() {
    let (steps, stride) = (test_size(200, 1000, 2000) as usize, test_size(7, 1, 1));
    for script in 0..test_size(1, 1, 20) {
        testkit::crash_every_op(&mut tiny(), seed(script), steps, stride, stride);
        testkit::crash_every_op(&mut large_values(), seed(script), steps / 2, stride, stride);
    }
}

#[test]
fn faults() {
    for script in 0..test_size(1, 2, 100) {
        testkit::faults(&mut tiny(), seed(script), 150);
        testkit::faults(&mut large_values(), seed(script), 100);
    }
}

#[test]
fn full_disk() {
    for script in 0..test_size(1, 3, 500) {
        // Hash stores of more than a few entries: one of 32 takes sixteen times its bytes.
        let larger = [("log_store_blocks", 2), ("log_store_block_buckets_log2", 5)];
        let mut small = harness(&larger);
        let mut many = harness(&[&larger[..], &[("partitions", 8)]].concat());
        let large = [("inline_value_bytes_max", 24), ("value_log_segment_bytes", 4 << 10)];
        let mut large = harness(&[&larger[..], &large].concat());
        for harness in [&mut small, &mut many, &mut large] {
            let report = testkit::full_disk(harness, seed(script), 768 << 10);
            assert!(report.writes > 500 && report.opens_when_full, "{report:?}");
            assert_eq!((report.deletes_refused, report.deletes_make_room), (0, true), "{report:?}");
            assert_eq!(report.overwrites_refused, 0, "{report:?}");
            assert!(report.writes_again * 10 > report.writes * 7, "{report:?}");
        }
    }
}

#[test]
fn corruption() {
    let stride = test_size(61, 3, 1) as usize;
    let mut kinds = BTreeSet::new();
    // So few keys that every byte of every file can be damaged.
    let few_keys = |w: &mut Workload| w.crash_keys = test_size(60, 60, 100) as u32;
    let steps = test_size(400, 400, 600) as usize;
    // Stores before and after a merge, so that files of every kind are there.
    let unmerged = harness(&[("hash_stores_min", 64)]);
    let merged = harness(&[("hash_stores_min", 2)]);
    for (usual, harness, steps) in
        [(1, merged, steps), (2, unmerged, steps), (3, large_values(), steps / 3)]
    {
        let mut harness = harness.with(few_keys);
        let report = testkit::corruption(&mut harness, seed(usual), steps, stride);
        assert!(report.found_by_open > 0 && report.found_by_get > 0, "{report:?}");
        kinds.append(&mut harness.kinds);
    }
    let expected = ["CURRENT", "HASH", "LOG", "MANIFEST", "SORTED", "VALUE"];
    assert_eq!(kinds, expected.map(str::to_owned).into());
}

#[test]
fn reopen() {
    testkit::reopen(&mut tiny(), seed(1), test_size(12, 100, 10_000));
}

#[test]
fn iteration() {
    testkit::iteration(&mut tiny(), seed(1), 1000);
    testkit::iteration(&mut equal_sizes(), seed(2), 1000);
}

#[test]
fn concurrent_readers() {
    let writes = test_size(5_000, 50_000, 50_000_000);
    testkit::concurrent_readers(&mut tiny(), seed(1), 2, writes);
    testkit::concurrent_readers(&mut large_values(), seed(2), 2, writes);
}

#[test]
fn concurrent_updates() {
    let increments = test_size(1_000, 20_000, 10_000_000);
    testkit::concurrent_updates(&mut tiny(), seed(1), 3, increments);
    testkit::concurrent_updates(&mut large_values(), seed(2), 3, increments);
}

#[test]
fn batches_amid_readers() {
    let batches = test_size(50, 200, 20_000);
    testkit::published_batches(&mut tiny(), seed(1), 2, batches);
}

#[test]
fn linearizable() {
    let histories = test_size(100, 1_000, 100_000);
    testkit::linearizable(&mut tiny(), seed(1), histories);
    // The values of histories have four bytes or more; here all of them go to the value log.
    let overrides = [("inline_value_bytes_max", 3), ("value_log_segment_bytes", 4 << 10)];
    testkit::linearizable(&mut harness(&overrides), seed(2), histories);
}
