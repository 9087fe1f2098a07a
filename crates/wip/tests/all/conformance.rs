//! The conformance suite on WipDB over the simulated device, with limits so small that flushes and
//! compactions happen all the time.

use silica_base::{ErrorKind, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Durability, EngineExt};
use silica_testkit::{self as testkit, DeviceHarness, ExpiredSpace, FilesHarness, Harness};
use silica_wip::Wip;

type WipHarness = FilesHarness<Wip<SimDevice>>;

/// Limits at which a few hundred entries fill several runs, and a cache of a few blocks.
fn harness(overrides: &[(&str, u64)]) -> WipHarness {
    let limits = [
        ("memory_bytes", 96 << 10),
        ("memtable_bytes_max", 8 << 10),
        ("log_bytes_max", 32 << 10),
        ("segment_bytes", 8 << 10),
        ("runs_max", 4),
        ("bucket_bytes_max", 32 << 10),
        ("split_buckets", 3),
    ];
    FilesHarness::new(Wip::open, &[&limits[..], overrides].concat())
}

fn tiny() -> WipHarness {
    harness(&[])
}

/// Most values lie apart, in segments that hold a few dozen of them.
fn large_values() -> WipHarness {
    let apart = [("inline_value_bytes_max", 24), ("value_log_segment_bytes", 4 << 10)];
    harness(&apart).with(|w| w.value_bytes_max = 200)
}

#[test]
fn basics() {
    testkit::basics(&mut tiny());
    testkit::basics(&mut large_values());
}

#[test]
fn expiry() {
    for mut harness in [tiny(), large_values()] {
        let clock = harness.clock.clone();
        testkit::expiry(&mut harness, &clock);
        testkit::moments(&mut harness, &clock);
    }
}

/// Limits at which the log is small beside what lives.
fn roomy(overrides: &[(&str, u64)]) -> WipHarness {
    let limits = [
        ("memory_bytes", 4 << 20),
        ("memtable_bytes_max", 64 << 10),
        ("log_bytes_max", 256 << 10),
        ("segment_bytes", 64 << 10),
        ("bucket_bytes_max", 512 << 10),
    ];
    harness(&[&limits[..], overrides].concat())
}

/// Files keep to what has not expired, with values in the tables and apart.
#[test]
fn expired_space() {
    let within = ExpiredSpace {
        // With more, memtables this small make tables that are mostly index and footer.
        keys: test_size(8_000, 16_000, 16_000),
        value_bytes: 108,
        percent: 140,
        busy_percent: 140,
        slack_bytes: 1 << 20,
        empty_bytes: 640 << 10,
    };
    let mut harness = roomy(&[]);
    let clock = harness.clock.clone();
    testkit::expired_space(&mut harness, &clock, within);
    let mut harness =
        roomy(&[("inline_value_bytes_max", 64), ("value_log_segment_bytes", 64 << 10)]);
    let clock = harness.clock.clone();
    // Segments of the value log are reclaimed when half of them is dead.
    let apart = ExpiredSpace { keys: test_size(3_000, 8_000, 8_000), value_bytes: 1000, ..within };
    let apart = ExpiredSpace { percent: 180, busy_percent: 180, ..apart };
    testkit::expired_space(&mut harness, &clock, apart);
}

#[test]
fn expired_room() {
    let mut harness = roomy(&[]);
    let clock = harness.clock.clone();
    testkit::expired_room(&mut harness, &clock, 108, 4 << 20);
}

#[test]
fn large_values_differential() {
    testkit::differential(&mut large_values(), 3, test_size(5_000, 100_000, 100_000_000));
}

#[test]
fn large_values_ordered() {
    testkit::iteration(&mut large_values(), 1, test_size(1_000, 5_000, 1_000_000) as u32);
    testkit::ordered(&mut large_values(), 1, test_size(5_000, 50_000, 100_000_000));
    testkit::transactions(&mut large_values(), 1, 3, test_size(500, 10_000, 1_000_000));
}

#[test]
fn large_values_crash() {
    testkit::crash_random(&mut large_values(), 3, test_size(150, 1_500, 500_000));
    let garbling = SimOptions { garble: true, names_in_order: true };
    let cuts = test_size(150, 1_000, 500_000);
    testkit::crash_random(&mut large_values().on(garbling), 4, cuts);
    let (steps, stride) = (test_size(100, 250, 2000) as usize, test_size(7, 1, 1));
    testkit::crash_every_op(&mut large_values(), 0, steps, stride, stride);
}

#[test]
fn large_values_faults_and_corruption() {
    testkit::faults(&mut large_values(), 0, 100);
    testkit::reopen(&mut large_values(), 1, test_size(8, 100, 10_000));
    let steps = test_size(400, 400, 600) as usize;
    testkit::corruption(&mut large_values(), 1, steps, test_size(61, 7, 1) as usize);
}

#[test]
fn large_values_of_many_threads() {
    let operations = test_size(5_000, 50_000, 50_000_000);
    testkit::concurrent_readers(&mut large_values(), 1, 2, operations);
    testkit::concurrent_updates(&mut large_values(), 1, 3, test_size(1_000, 20_000, 10_000_000));
    testkit::linearizable(&mut large_values(), 1, test_size(100, 1_000, 100_000));
}

#[test]
fn differential() {
    testkit::differential(&mut tiny(), 1, test_size(20_000, 300_000, 500_000_000));
    // With room for all blocks.
    let mut cached = harness(&[("memory_bytes", 8 << 20)]);
    testkit::differential(&mut cached, 2, test_size(5_000, 100_000, 100_000_000));
}

/// Compressed by one way and the other, in blocks of which some are compressed to fewer units.
fn compressed() -> [WipHarness; 2] {
    [1, 2].map(|kind| harness(&[("compression", kind), ("block_bytes", 8 << 10)]))
}

#[test]
fn compressed_differential() {
    for (seed, mut harness) in compressed().into_iter().enumerate() {
        testkit::differential(&mut harness, seed as u64, test_size(5_000, 100_000, 100_000_000));
    }
}

#[test]
fn compressed_crash_and_corruption() {
    for mut harness in compressed() {
        testkit::crash_random(&mut harness, 3, test_size(50, 1_000, 100_000));
        let steps = test_size(400, 400, 600) as usize;
        testkit::corruption(&mut harness, 1, steps, test_size(997, 13, 1) as usize);
    }
}

#[test]
fn iteration() {
    testkit::iteration(&mut tiny(), 1, test_size(2_000, 6_000, 1_000_000) as u32);
}

#[test]
fn ordered() {
    for seed in 0..4 {
        testkit::ordered(&mut tiny(), seed, test_size(10_000, 100_000, 100_000_000));
    }
}

#[test]
fn transactions() {
    for seed in 0..3 {
        testkit::transactions(&mut tiny(), seed, 3, test_size(1_000, 10_000, 1_000_000));
    }
}

#[test]
fn changes() {
    for seed in 0..2 {
        let mut harness = harness(&[("changes_bytes_max", 12 << 10)]);
        testkit::changes(&mut harness, seed, 2, test_size(1_500, 10_000, 1_000_000));
    }
}

#[test]
fn changes_go_on_behind_openings() {
    let rounds = test_size(150, 1_000, 100_000);
    for (seed, make) in [tiny_with_changes, with_values_apart].into_iter().enumerate() {
        let report = testkit::changes_reopened(&mut make(), seed as u64, rounds);
        assert!(report.went_on > rounds && report.late > rounds / 8, "{report:?}");
        assert_eq!(report.late_in_vain, 0, "{report:?}");
    }
}

fn tiny_with_changes() -> WipHarness {
    harness(&[("changes_bytes_max", 12 << 10)])
}

fn with_values_apart() -> WipHarness {
    let apart = ("inline_value_bytes_max", 200);
    harness(&[("changes_bytes_max", 12 << 10), apart, ("value_log_segment_bytes", 8 << 10)])
}

#[test]
fn crash_ranges() {
    let stride = test_size(3, 1, 1) as usize;
    assert!(testkit::crash_ranges(&mut tiny(), 1, 100, stride) > 50);
}

/// Every commit takes the way of those that are too large for the log.
fn large_commits() -> WipHarness {
    let open: silica_testkit::OpenOnFiles<_> = |device, options, environment| {
        let wip = Wip::open(device, options, environment)?;
        wip.set_record_bytes_max(0);
        Ok(wip)
    };
    // Each flushes all memtables, which are to have something then.
    FilesHarness::new(open, &[("memory_bytes", 1 << 20), ("first_buckets", 2)])
}

#[test]
fn transactions_of_large_commits() {
    testkit::transactions(&mut large_commits(), 1, 3, test_size(50, 500, 100_000));
    testkit::live_transactions(&mut large_commits(), 2, test_size(200, 2_000, 100_000));
    testkit::bookings(&mut large_commits(), 3, 3, test_size(50, 300, 100_000));
}

#[test]
fn live_transactions() {
    for seed in 0..3 {
        let operations = test_size(20_000, 100_000, 50_000_000);
        testkit::live_transactions(&mut tiny(), seed, operations);
        testkit::bookings(&mut tiny(), seed, 3, test_size(1_000, 10_000, 1_000_000));
    }
}

#[test]
fn crash_random() {
    let cuts = test_size(300, 4_000, 500_000);
    testkit::crash_random(&mut tiny(), 1, cuts);
    let garbling = SimOptions { garble: true, names_in_order: true };
    testkit::crash_random(&mut tiny().on(garbling), 2, cuts);
}

#[test]
fn crash_every_op() {
    let (steps, stride) = (test_size(200, 1000, 2000) as usize, test_size(7, 1, 1));
    testkit::crash_every_op(&mut tiny(), 0, steps, stride, stride);
}

#[test]
fn faults() {
    testkit::faults(&mut tiny(), 0, 150);
}

#[test]
fn reopen() {
    testkit::reopen(&mut tiny(), 1, test_size(12, 100, 10_000));
}

#[test]
fn concurrent_readers() {
    testkit::concurrent_readers(&mut tiny(), 1, 2, test_size(5_000, 50_000, 50_000_000));
}

#[test]
fn concurrent_updates() {
    testkit::concurrent_updates(&mut tiny(), 1, 3, test_size(1_000, 20_000, 10_000_000));
}

#[test]
fn batches_amid_readers() {
    let batches = test_size(200, 1_000, 100_000);
    testkit::published_batches(&mut tiny(), 1, 2, batches);
    testkit::published_batches(&mut large_values(), 2, 1, batches);
}

#[test]
fn linearizable() {
    testkit::linearizable(&mut tiny(), 1, test_size(100, 1_000, 100_000));
}

#[test]
fn corruption() {
    let steps = test_size(400, 400, 600) as usize;
    testkit::corruption(&mut tiny(), 1, steps, test_size(61, 3, 1) as usize);
}

#[test]
fn full_disk() {
    // Tables of a few blocks that many buckets share, and larger ones.
    let larger = [("bucket_bytes_max", 128 << 10), ("memtable_bytes_max", 32 << 10)];
    for seed in 0..test_size(2, 6, 1_000) {
        for mut harness in [tiny(), harness(&larger)] {
            let report = testkit::full_disk(&mut harness, seed, 768 << 10);
            assert!(report.writes > 500 && report.opens_when_full, "{report:?}");
            // Files of a few blocks are rounded up, so that some of the puts are refused.
            let some_go = report.puts_again * 4 >= report.writes / 4;
            assert!(report.deletes_refused == 0 && some_go, "seed {seed}: {report:?}");
            assert_eq!(report.overwrites_refused, 0, "seed {seed}: {report:?}");
            assert!(report.writes_again * 10 > report.writes * 7, "seed {seed}: {report:?}");
        }
    }
}

/// A segment that is emptied takes room before it gives any back, and garbage is known late.
#[test]
fn large_values_full_disk() {
    for seed in 0..test_size(2, 5, 1_000) {
        let report = testkit::full_disk(&mut large_values(), seed, 768 << 10);
        println!("seed {seed}: {report:?}");
        assert!(report.writes > 500 && report.opens_when_full, "{report:?}");
        assert_eq!(report.deletes_refused, 0, "seed {seed}: {report:?}");
        assert!(report.writes_again * 10 > report.writes * 7, "seed {seed}: {report:?}");
    }
}

#[test]
fn writes_go_on_when_others_make_room() {
    let mut harness = tiny();
    harness.set_capacity(Some(512 << 10));
    let engine = harness.open().expect("it opens");
    let value = [7; 100];
    let put = |n: u32| engine.put(&n.to_be_bytes(), &value, Durability::Buffered);
    let refused = (0..100_000).find_map(|n| put(n).err().map(|error| (n, error)));
    let (count, error) = refused.expect("the disk becomes full");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(error.to_string().contains("make room on the disk"), "{error}");
    for n in 0..count {
        assert_eq!(engine.get(&n.to_be_bytes()).expect("reads go on").as_deref(), Some(&value[..]));
    }
    engine.delete(&0u32.to_be_bytes(), Durability::Buffered).expect("deletes go on");
    harness.set_capacity(Some(1 << 20));
    for n in count..count + 100 {
        put(n).expect("there is room");
    }
}
