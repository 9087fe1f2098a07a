//! The conformance suite.

use super::support::{TurboHarness, metric, seed};
use silica_base::test_size;
use silica_engine::testkit::{self, Harness};
use silica_engine::{Durability, EngineExt};

#[test]
fn basics() {
    testkit::basics(&mut TurboHarness::new());
    testkit::basics(&mut TurboHarness::new().set("shards", 256));
}

#[test]
fn differential() {
    let operations = test_size(20_000, 100_000, 2_000_000);
    for shards in [1, 4, 256] {
        let mut harness = TurboHarness::new().set("shards", shards);
        testkit::differential(&mut harness, seed(shards), operations);
        let mut harness = TurboHarness::new().set("shards", shards).inline();
        testkit::differential(&mut harness, seed(shards), operations);
    }
}

#[test]
fn iteration() {
    testkit::iteration(&mut TurboHarness::new(), seed(1), 1000);
    testkit::iteration(&mut TurboHarness::new().set("shards", 1).inline(), seed(2), 300);
}

#[test]
fn reopen() {
    testkit::reopen(&mut TurboHarness::new(), seed(1), test_size(8, 20, 200));
}

#[test]
fn concurrent_readers() {
    let writes = test_size(20_000, 100_000, 5_000_000);
    testkit::concurrent_readers(&mut TurboHarness::new(), seed(1), 2, writes);
    testkit::concurrent_readers(&mut TurboHarness::new().inline(), seed(2), 2, writes);
}

#[test]
fn concurrent_updates() {
    let updates = test_size(2_000, 20_000, 200_000);
    testkit::concurrent_updates(&mut TurboHarness::new(), seed(1), 3, updates);
}

#[test]
fn linearizable() {
    let rounds = test_size(500, 5_000, 50_000);
    testkit::linearizable(&mut TurboHarness::new(), seed(1), rounds);
    testkit::linearizable(&mut TurboHarness::new().inline(), seed(2), rounds);
}

#[test]
fn expiry() {
    let mut harness = TurboHarness::new();
    let clock = harness.clock.clone();
    testkit::expiry(&mut harness, &clock);
}

/// The tests above mean something only if shards grow and slots are used again.
#[test]
fn small_shards_grow() {
    let mut harness = TurboHarness::new();
    let engine = harness.open().expect("it opens");
    for n in 0..5000_u64 {
        engine.put(&n.to_le_bytes(), &n.to_le_bytes(), Durability::Synced).expect("put");
    }
    assert!(metric(&engine, "resizes") > 10.0);
}
