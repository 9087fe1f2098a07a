//! The conformance suite: with memory for everything nothing is forgotten, with little memory
//! nothing is forgotten that is not counted.

use crate::support::{MIB, MicaHarness, metrics, seed};
use silica_base::test_size;
use silica_engine::EngineExt;
use silica_testkit::{self as testkit, Harness, Workload};

/// Memory for everything that a test writes.
fn large(eviction: &str) -> MicaHarness {
    MicaHarness::new(64 * MIB, 4, eviction)
}

/// So little memory that entries are evicted all the time, from logs and from indexes.
fn tiny(partitions: u64, eviction: &str) -> MicaHarness {
    let harness = MicaHarness::new(partitions * (64 << 10), partitions, eviction);
    harness.with(|w| {
        w.keys = 600;
        w.value_bytes_max = 300;
    })
}

const POLICIES: [&str; 5] = ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo"];

#[test]
fn basics() {
    for eviction in POLICIES {
        testkit::basics(&mut large(eviction));
        testkit::basics(&mut MicaHarness::new(MIB, 1, eviction).with(|w| w.tried_bytes_max = 999));
    }
}

#[test]
fn differential_with_memory_enough() {
    // So few that no log wraps around: then nothing may be missing, as if it were no cache.
    for (usual, eviction) in (1..).zip(POLICIES) {
        testkit::differential(&mut large(eviction), seed(usual), test_size(20_000, 50_000, 50_000));
    }
}

#[test]
fn differential_with_little_memory() {
    let operations = test_size(3_000, 100_000, 50_000_000);
    for (usual, eviction) in (10..).zip(POLICIES) {
        testkit::differential(&mut tiny(1, eviction), seed(usual), operations);
        testkit::differential(&mut tiny(4, eviction), seed(usual), operations);
    }
    // Large entries, of which a log holds a few; and an index made for larger ones than there are.
    let mut large = tiny(1, "fifo").with(|w| w.large_value_bytes_max = 4000);
    testkit::differential(&mut large, seed(20), operations);
    let mut small = tiny(1, "approximate-lru").with(|w| w.value_bytes_max = 12);
    small.options.set("entry_bytes_mean", 2000);
    testkit::differential(&mut small, seed(21), operations);
}

/// The tests above mean something only where things are evicted for every cause.
#[test]
fn little_memory_evicts_for_every_cause() {
    let mut harness = tiny(1, "fifo");
    harness.options.set("entry_bytes_mean", 2000);
    let mica = harness.open().expect("a cache");
    for n in 0..3000_u32 {
        let value = vec![0; n as usize];
        mica.put(&n.to_le_bytes(), &value, Default::default()).expect("a put");
    }
    let metrics = metrics(&mica);
    let (log, index) = (metrics.get("evictions_from_log"), metrics.get("evictions_from_index"));
    assert!(log > 100.0 && index > 100.0, "{metrics:?}");
    assert_eq!(log + index, metrics.get("evictions"));
    assert_eq!(metrics.get("entries_estimate"), 3000.0 - log - index);
}

#[test]
fn iteration() {
    testkit::iteration(&mut large("fifo"), seed(1), 1000);
    testkit::iteration(&mut tiny(2, "lru"), seed(2), 60);
}

#[test]
fn concurrent_readers() {
    // Enough versions of 64 keys to wrap around the logs many times, and yet none may be lost:
    // entries of one size are overwritten in place.
    let writes = test_size(5_000, 50_000, 50_000_000);
    let equal = |w: &mut Workload| w.value_bytes_max = 1;
    testkit::concurrent_readers(&mut tiny(1, "fifo").with(equal), seed(1), 2, writes);
    testkit::concurrent_readers(&mut large("lru"), seed(2), 2, test_size(5_000, 50_000, 50_000));
}

#[test]
fn concurrent_updates() {
    let increments = test_size(1_000, 20_000, 10_000_000);
    testkit::concurrent_updates(&mut large("fifo"), seed(1), 3, increments);
    testkit::concurrent_updates(&mut MicaHarness::new(8 * MIB, 1, "fifo"), seed(2), 3, increments);
}

#[test]
fn batches_amid_readers() {
    let batches = test_size(500, 2_000, 200_000);
    testkit::published_batches(&mut MicaHarness::new(8 * MIB, 1, "fifo"), seed(1), 2, batches);
    testkit::published_batches(&mut MicaHarness::new(8 * MIB, 4, "s3-fifo"), seed(2), 2, batches);
}

#[test]
fn linearizable() {
    let histories = test_size(300, 2_000, 100_000);
    for (usual, eviction) in (1..).zip(POLICIES) {
        testkit::linearizable(&mut large(eviction), seed(usual), histories);
        testkit::linearizable(&mut MicaHarness::new(16 * MIB, 1, eviction), seed(9), histories);
    }
}
