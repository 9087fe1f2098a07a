//! The conformance suite.

use super::harness::{TreeHarness, seed};
use silica_base::test_size;
use silica_testkit as testkit;

fn tree() -> TreeHarness {
    TreeHarness::new(16 << 20)
}

/// Keys of up to 24 bytes and short ones; values that have room in a slot and others.
fn small_values() -> TreeHarness {
    tree().with(|w| (w.key_bytes_max, w.value_bytes_max) = (8, 6))
}

#[test]
fn basics() {
    testkit::basics(&mut tree());
}

#[test]
fn differential() {
    let operations = test_size(3_000, 8_000, 300_000);
    testkit::differential(&mut tree(), seed(1), operations);
    testkit::differential(&mut small_values(), seed(2), operations);
    let plain = tree().set("filters", 0).set("sequences", 0);
    testkit::differential(&mut { plain }, seed(3), operations);
}

#[test]
fn ordered() {
    let operations = test_size(3_000, 8_000, 300_000);
    testkit::ordered(&mut tree(), seed(1), operations);
    testkit::ordered(&mut tree().set("sequences", 0), seed(2), operations);
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
    testkit::transactions(&mut tree(), seed(1), 3, test_size(100, 500, 10_000));
    testkit::live_transactions(&mut tree(), seed(2), test_size(1_000, 4_000, 100_000));
    testkit::bookings(&mut tree(), seed(3), 2, test_size(50, 500, 5_000));
}

#[test]
fn concurrent_readers() {
    testkit::concurrent_readers(&mut tree(), seed(1), 2, test_size(2_000, 10_000, 500_000));
    testkit::concurrent_readers(&mut small_values(), seed(2), 2, test_size(2_000, 10_000, 500_000));
}

#[test]
fn concurrent_updates() {
    testkit::concurrent_updates(&mut tree(), seed(1), 3, test_size(1_000, 4_000, 100_000));
}

#[test]
fn batches_amid_readers() {
    testkit::published_batches(&mut tree(), seed(1), 2, test_size(50, 200, 20_000));
}

#[test]
fn linearizable() {
    testkit::linearizable(&mut tree(), seed(1), test_size(200, 1_000, 50_000));
}

#[test]
fn expiry() {
    let mut harness = tree();
    let clock = harness.clock.clone();
    testkit::expiry(&mut harness, &clock);
}

#[test]
fn moments() {
    let mut harness = tree();
    let clock = harness.clock.clone();
    testkit::moments(&mut harness, &clock);
}
