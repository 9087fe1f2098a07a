//! The suite on the reference engine, and the suite against engines that are broken on purpose.

use super::*;

fn harness() -> ReferenceHarness {
    ReferenceHarness::default()
}

#[test]
fn reference_basics() {
    basics(&mut harness());
}

#[test]
fn reference_differential() {
    differential(&mut harness(), 1, silica_base::test_size(100_000, 1_000_000, 10_000_000));
}

#[test]
fn reference_crash_random() {
    let report = crash_random(&mut harness(), 1, 5_000);
    assert!(report.cuts_in_recovery > 0 && report.cuts_with_loss > 0, "{report:?}");
}

#[test]
fn reference_crash_every_op() {
    let report = crash_every_op(&mut harness(), 1, 2_000, 7, 1);
    assert!(report.cuts > 400 && report.cuts_in_recovery > 200, "{report:?}");
}

#[test]
fn reference_faults() {
    let report = faults(&mut harness(), 1, 150);
    assert!(report.errors > 0 && report.failed_opens > 0 && report.poisoned > 0, "{report:?}");
}

#[test]
fn reference_full_disk() {
    let report = full_disk(&mut harness(), 1, 64 << 10);
    assert!(report.writes > 100, "{report:?}");
}

#[test]
fn reference_corruption() {
    let report = corruption(&mut harness(), 1, 200, 1);
    assert!(report.images > 1000 && report.found_by_open > 1000, "{report:?}");
}

#[test]
fn reference_reopen_and_iteration() {
    reopen(&mut harness(), 1, 40);
    iteration(&mut harness(), 1, 1000);
}

#[test]
fn reference_concurrency() {
    concurrent_readers(&mut harness(), 1, 2, 20_000);
    concurrent_updates(&mut harness(), 1, 3, 3_000);
    linearizable(&mut harness(), 1, 500);
}

#[test]
#[should_panic(expected = "corruption(harness")]
fn corruption_catches_missing_checksums() {
    let mut harness = harness();
    harness.disk().trust_everything();
    corruption(&mut harness, 1, 200, 1);
}
