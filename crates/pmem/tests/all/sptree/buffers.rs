//! Write buffers: the conformance suite with them, power cuts, and what they are worth.

use super::crash::{cut_everywhere, has_all, metric, put};
use super::harness::{TreeHarness, seed};
use silica_base::{Clock, ErrorKind, Prng, test_size};
use silica_device::region::Region;
use silica_engine::testkit::{self, DeviceHarness, Harness};
use silica_engine::{Admin, Budget, Durability, Engine, EngineExt, EntryRef, WriteBatch};
use std::collections::BTreeMap;

const NOW: Durability = Durability::Buffered;

/// All leaves have buffers.
fn tree() -> TreeHarness {
    TreeHarness::new(16 << 20).set("buffers", 100)
}

/// Few leaves have buffers, so that they are taken from one leaf and given to another.
fn few() -> TreeHarness {
    TreeHarness::new(16 << 20).set("buffers", 10).set("merge", 1)
}

fn small_values(harness: TreeHarness) -> TreeHarness {
    harness.with(|w| (w.key_bytes_max, w.value_bytes_max) = (8, 6))
}

#[test]
fn basics() {
    testkit::basics(&mut tree());
    testkit::basics(&mut few());
}

#[test]
fn differential() {
    let operations = test_size(2_000, 8_000, 300_000);
    testkit::differential(&mut tree(), seed(1), operations);
    testkit::differential(&mut small_values(tree()), seed(2), operations);
    testkit::differential(&mut small_values(few()), seed(3), operations);
    testkit::differential(&mut tree().set("filters", 0), seed(4), operations);
}

#[test]
fn ordered() {
    let operations = test_size(2_000, 8_000, 300_000);
    testkit::ordered(&mut tree(), seed(1), operations);
    testkit::ordered(&mut few().set("sequences", 0), seed(2), operations);
}

#[test]
fn iteration() {
    testkit::iteration(&mut tree(), seed(1), 1000);
}

#[test]
fn reopen() {
    testkit::reopen(&mut tree(), seed(1), test_size(4, 20, 200));
}

#[test]
fn transactions() {
    testkit::transactions(&mut tree(), seed(1), 3, test_size(50, 500, 10_000));
    testkit::live_transactions(&mut few(), seed(2), test_size(500, 4_000, 100_000));
    testkit::bookings(&mut tree(), seed(3), 2, test_size(50, 500, 5_000));
}

#[test]
fn concurrent() {
    testkit::concurrent_readers(&mut tree(), seed(1), 2, test_size(1_000, 10_000, 500_000));
    let readers = test_size(1_000, 10_000, 500_000);
    testkit::concurrent_readers(&mut small_values(few()), seed(2), 2, readers);
    testkit::concurrent_updates(&mut tree(), seed(3), 3, test_size(1_000, 4_000, 100_000));
    testkit::linearizable(&mut tree(), seed(4), test_size(200, 1_000, 50_000));
}

#[test]
fn expiry_and_moments() {
    let mut harness = tree();
    let clock = harness.clock.clone();
    testkit::expiry(&mut harness, &clock);
    testkit::moments(&mut harness, &clock);
}

#[test]
fn power_cuts_at_random_points() {
    let cuts = test_size(60, 200, 100_000);
    let small = || TreeHarness::new(4 << 20).set("buffers", 100);
    testkit::crash_random(&mut small(), seed(1), cuts);
    let busy = small().with(|w| (w.crash_keys, w.key_bytes_max) = (500, 12));
    let report = testkit::crash_random(&mut busy.set("merge", 1), seed(2), cuts);
    assert!(report.cuts_in_recovery > 0, "{report:?}");
}

#[test]
fn power_cuts_at_every_operation() {
    let mut harness = TreeHarness::new(4 << 20).set("buffers", 100);
    testkit::crash_every_op(&mut harness, seed(1), test_size(6, 10, 400) as usize, 3, 11);
}
