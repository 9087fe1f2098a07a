//! The suite on the reference engine, and the suite against engines that are broken on purpose.

mod broken;
mod transactions;

use super::*;
use broken::{BrokenHarness, Bug};
use silica_base::ManualClock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn harness() -> ReferenceHarness {
    ReferenceHarness::default()
}

#[test]
fn reference_basics() {
    basics(&mut harness());
}

#[test]
fn reference_expiry() {
    let clock = Arc::new(ManualClock::default());
    expiry(&mut ReferenceHarness::with_clock(clock.clone()), &clock);
}

#[test]
fn reference_moments() {
    let clock = Arc::new(ManualClock::default());
    moments(&mut ReferenceHarness::with_clock(clock.clone()), &clock);
}

#[test]
fn reference_differential() {
    differential(&mut harness(), 1, silica_base::test_size(100_000, 1_000_000, 10_000_000));
}

#[test]
fn reference_ordered() {
    ordered(&mut harness(), 1, silica_base::test_size(5_000, 50_000, 5_000_000));
}

#[test]
fn reference_transactions() {
    transactions(&mut harness(), 1, 3, silica_base::test_size(200, 2_000, 200_000));
}

#[test]
fn reference_live_transactions() {
    for seed in 0..3 {
        let operations = silica_base::test_size(20_000, 100_000, 5_000_000);
        live_transactions(&mut harness(), seed, operations);
    }
    bookings(&mut harness(), 1, 3, silica_base::test_size(1_000, 2_000, 200_000));
}

#[test]
fn reference_changes() {
    changes(&mut harness(), 1, 2, silica_base::test_size(1_500, 5_000, 200_000));
    must_catch(Bug::SkipsChanges, "the stream comes to another content", |h| {
        changes(h, 1, 2, 1_500);
    });
}

#[test]
fn reference_changes_reopened() {
    let report = changes_reopened(&mut harness(), 1, silica_base::test_size(60, 300, 10_000));
    assert!(report.went_on == 0 && report.late > 100, "it forgets its histories: {report:?}");
    must_catch(Bug::ForgetsHistories, "a stream goes on otherwise", |h| {
        changes_reopened(h, 1, 60);
    });
}

#[test]
fn reference_crash_ranges() {
    assert!(crash_ranges(&mut harness(), 1, 60, 1) > 50);
}

#[test]
fn live_transactions_catches() {
    must_catch(Bug::SplitsBatches, "crash_ranges", |h| {
        crash_ranges(h, 1, 60, 1);
    });
    must_catch(Bug::IgnoresRanges, "has changed before the commit", |h| {
        live_transactions(h, 1, 20_000);
    });
    must_meet(Bug::IgnoresRanges, "missed one another", |h, seed| bookings(h, seed, 3, 2_000));
    must_catch(Bug::SparesBatches, "ordered(harness", |h| ordered(h, 1, 20_000));
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
    published_batches(&mut harness(), 1, 2, 500);
}

#[test]
fn published_batches_catches() {
    must_meet(Bug::PublishesBackwards, "page", |h, seed| published_batches(h, seed, 2, 500));
    must_meet(Bug::NeverSettles, "is of another batch", |h, seed| {
        published_batches(h, seed, 2, 500);
    });
    must_catch(Bug::ExpectsNothing, "something is there", |h| published_batches(h, 1, 2, 500));
}

#[test]
#[should_panic(expected = "corruption(harness")]
fn corruption_catches_missing_checksums() {
    let mut harness = harness();
    harness.disk().trust_everything();
    corruption(&mut harness, 1, 200, 1);
}

/// As [`must_catch`], for a suite whose threads have to meet: where a machine runs them one after
/// another, they get more tries.
fn must_meet(bug: Bug, words: &str, suite: impl Fn(&mut BrokenHarness, u64)) {
    must_catch(bug, words, |h| (1..=50).for_each(|seed| suite(h, seed)));
}

/// Runs a suite against an engine with `bug`; the suite must panic and say so in its own words.
fn must_catch(bug: Bug, words: &str, suite: impl FnOnce(&mut BrokenHarness)) {
    let run = AssertUnwindSafe(|| suite(&mut BrokenHarness::new(bug)));
    let panic = catch_unwind(run).expect_err(&format!("{bug:?} passes the suite"));
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).expect("a panic with a message");
    assert!(text.contains(words), "{bug:?} is caught, but as: {text}");
}

#[test]
fn basics_catches() {
    must_catch(Bug::HalvesBatches, "a value over the limit", basics);
    must_catch(Bug::LosesMeta, "meta", basics);
    must_catch(Bug::Miscounts, "an empty store", basics);
    must_catch(Bug::IgnoresClear, "cleared", basics);
    must_catch(Bug::BlursErrors, "over the limit", basics);
}

#[test]
fn expiry_catches() {
    let clock = Arc::new(ManualClock::default());
    let clocks = &clock;
    must_catch(Bug::LosesMeta, "after the start", |h| {
        h.inner = ReferenceHarness::with_clock(clocks.clone());
        expiry(h, clocks);
    });
    // An engine that looks at another clock.
    must_catch(Bug::ForgetsRepeats, "key 1", |h| expiry(h, clocks));
    must_catch(Bug::SkipsInScans, "a scan", |h| {
        h.inner = ReferenceHarness::with_clock(clocks.clone());
        expiry(h, clocks);
    });
}

#[test]
fn moments_catches() {
    for (bug, words) in [
        (Bug::AgesSnapshots, "entries of a snapshot from before they expired"),
        (Bug::CommitsExpired, "a commit by an entry that has expired"),
        (Bug::TearsUpdates, "decides by an entry that has expired"),
    ] {
        let clock = Arc::new(ManualClock::default());
        must_catch(bug, words, |h| {
            h.inner = ReferenceHarness::with_clock(clock.clone());
            moments(h, &clock);
        });
    }
}

#[test]
fn differential_catches() {
    for (bug, words) in [
        (Bug::DropsWrites, "expected"),
        (Bug::SwapsValues, "expected"),
        (Bug::HalvesBatches, "expected"),
        (Bug::LosesMeta, "expected"),
        (Bug::Forgets, "expected"),
        (Bug::ReadsStale, "expected"),
        (Bug::SkipsInScans, "missed key"),
        (Bug::InventsInScans, "invented"),
        (Bug::Miscounts, "exact count"),
        (Bug::IgnoresClear, "expected"),
        (Bug::ForgetsRepeats, "burst of updates"),
    ] {
        must_catch(bug, words, |h| differential(h, 1, 100_000));
    }
}

#[test]
fn caches_may_forget_what_they_count_and_nothing_else() {
    differential(&mut BrokenHarness::new(Bug::Evicts), 1, 100_000);
    let (silent, back) = (Bug::EvictsInSilence, Bug::Resurrects);
    must_catch(silent, "found nothing, expected", |h| differential(h, 1, 100_000));
    must_catch(back, "expected None", |h| differential(h, 1, 100_000));
}

#[test]
fn differential_shrinks() {
    must_catch(Bug::HalvesBatches, "; shortened to 1 steps", |h| differential(h, 3, 10_000));
}

#[test]
fn crash_random_catches() {
    for (bug, words) in [
        (Bug::AcknowledgesEarly, "lost a synced write"),
        (Bug::SkipsSyncs, "lost a synced write"),
        (Bug::SplitsBatches, "out of order or in halves"),
        (Bug::Forgets, "lost a synced write"),
        (Bug::IgnoresClear, "lost a synced write"),
    ] {
        must_catch(bug, words, |h| {
            let _ = crash_random(h, 1, 2000);
        });
    }
}

#[test]
fn crash_every_op_catches() {
    for (bug, words) in [
        (Bug::AcknowledgesEarly, "lost a synced write"),
        (Bug::SkipsSyncs, "lost a synced write"),
        (Bug::SplitsBatches, "out of order or in halves"),
    ] {
        must_catch(bug, words, |h| {
            let _ = crash_every_op(h, 1, 1000, 1, 0);
        });
    }
}

#[test]
fn faults_catches() {
    for (bug, words) in [
        (Bug::HidesFailedSyncs, "lost a synced write"),
        (Bug::IgnoresPoison, "expected"),
        (Bug::BlursErrors, "surfaces as Io"),
        (Bug::HidesFull, "expected"),
        (Bug::HalvesBatches, "expected"),
    ] {
        must_catch(bug, words, |h| {
            let _ = faults(h, 1, 150);
        });
    }
}

#[test]
fn full_disk_catches() {
    must_catch(Bug::HidesFull, "full_disk", |h| {
        let _ = full_disk(h, 1, 64 << 10);
    });
    must_catch(Bug::BlursErrors, "unexpected error Io", |h| {
        let _ = full_disk(h, 1, 64 << 10);
    });
}

#[test]
fn corruption_catches() {
    must_catch(Bug::PanicsOnDamage, "panic", |h| {
        let _ = corruption(h, 1, 200, 7);
    });
    must_catch(Bug::StartsAfresh, "silently missing", |h| {
        let _ = corruption(h, 1, 200, 7);
    });
}

#[test]
fn reopen_and_iteration_catch() {
    must_catch(Bug::Forgets, "expected", |h| reopen(h, 1, 8));
    must_catch(Bug::SkipsInScans, "missed key", |h| iteration(h, 1, 300));
    must_catch(Bug::InventsInScans, "invented", |h| iteration(h, 1, 300));
}

#[test]
fn concurrency_catches() {
    let reads = |h: &mut BrokenHarness, seed| concurrent_readers(h, seed, 2, 20_000);
    // Older than what was acknowledged, or than what the reader has seen itself.
    must_meet(Bug::ReadsStale, " after ", reads);
    must_meet(Bug::SwapsValues, "has a value of key", reads);
    let updates = |h: &mut BrokenHarness, seed| concurrent_updates(h, seed, 3, 5_000);
    must_meet(Bug::TearsUpdates, "lost updates", updates);
    must_meet(Bug::ForgetsRepeats, "lost updates", updates);
    must_meet(Bug::SplitsUpdates, "in halves", updates);
}

#[test]
fn linearizable_catches() {
    for bug in [
        Bug::ReadsStale,
        Bug::TearsUpdates,
        Bug::DropsWrites,
        Bug::SwapsValues,
        Bug::TearsValues,
        Bug::RepeatsPuts,
        Bug::AnswersEarly,
        Bug::SplitsBatches,
    ] {
        must_catch(bug, "no order of these calls", |h| linearizable(h, 1, 2_000));
    }
    linearizable(&mut BrokenHarness::new(Bug::Evicts), 1, 2_000);
    must_catch(Bug::EvictsInSilence, "-> nothing", |h| linearizable(h, 1, 2_000));
}
