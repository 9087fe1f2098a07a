//! The conformance suite.

use super::support::{TurboHarness, maintain, metric, seed};
use silica_base::test_size;
use silica_engine::{Admin, Budget, Durability, Engine, EngineExt};
use silica_testkit::{self as testkit, Harness};

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
fn batches_amid_readers() {
    testkit::published_batches(&mut TurboHarness::new(), seed(1), 2, test_size(50, 200, 20_000));
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

/// The number of entries is known right after an opening: exactly after a clean close, roughly
/// after a crash until all shards were looked at.
#[test]
fn entries_are_counted_at_a_clean_close() {
    let mut harness = TurboHarness::new().set("shards", 16).inline();
    let engine = harness.open().expect("it opens");
    let put = |engine: &dyn Engine, n: u64| {
        engine.put(&n.to_be_bytes(), &[1; 8], Durability::Buffered).expect("a put");
    };
    (0..5_000).for_each(|n| put(&engine, n));
    engine.delete(&7_u64.to_be_bytes(), Durability::Buffered).expect("a delete");
    engine.close(&mut |_, _| ()).expect("closed");
    drop(engine);
    let engine = harness.open().expect("it opens");
    assert_eq!(metric(&engine, "shards_unchecked"), 16.0);
    assert_eq!(engine.count(false).expect("a count").estimate, 4_999);
    put(&engine, 9_999);
    assert_eq!(engine.count(false).expect("a count").estimate, 5_000);
    harness.kill();
    drop(engine);
    let engine = harness.open().expect("it opens");
    let count = |engine: &dyn Engine| engine.as_admin().unwrap().count(false).expect("a count");
    assert!((2_500..=10_000).contains(&count(&engine).estimate), "{:?}", count(&engine));
    assert!(engine.get(&8_u64.to_be_bytes()).expect("a get").is_some());
    assert!((4_000..=6_000).contains(&count(&engine).estimate), "{:?}", count(&engine));
    maintain(&engine);
    assert_eq!(count(&engine).estimate, 5_000);
}

/// The file becomes shorter while it is served.
#[test]
fn a_region_shrinks_while_it_is_served() {
    let mut harness = TurboHarness::new();
    let engine = harness.open().expect("it opens");
    let value = [7; 200];
    let fill = || {
        for n in 0..30_000_u64 {
            engine.put(&n.to_be_bytes(), &value, Durability::Buffered).expect("a put");
        }
    };
    fill();
    let full = metric(&engine, "region_bytes");
    for n in 20..30_000_u64 {
        engine.delete(&n.to_be_bytes(), Durability::Buffered).expect("a delete");
    }
    let idle = Budget { is_idle: true, ..Budget::of(1 << 20) };
    while engine.maintain(idle).expect("maintained").more {}
    let left = metric(&engine, "region_bytes");
    assert!(left < full / 2.0, "{left} of {full} bytes are left");
    assert!(engine.get(&19_u64.to_be_bytes()).expect("a get").is_some());
    fill();
    engine.verify().expect("verified");
}
