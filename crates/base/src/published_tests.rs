//! Not beside the source, which a model checker compiles, too.

use crate::Published;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn readers_see_whole_values_and_old_ones_are_left() {
    let published = Published::new(Arc::new((0u64, 0u64)));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !ends.load(Ordering::Relaxed) {
                    let (one, other) = published.read(|value| **value);
                    assert!(one == other && one >= last, "{one}, {other} after {last}");
                    last = published.read(|_| published.read(|value| value.0));
                }
            });
        }
        for n in 1..500 {
            let old = published.replace(Arc::new((n, n)), std::thread::yield_now);
            assert_eq!((Arc::strong_count(&old), old.0), (1, n - 1));
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_replaces_waits_for_reads_that_began_before() {
    let published = Published::new(1);
    let (began, may_end) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            published.read(|value| {
                began.store(true, Ordering::Release);
                while !may_end.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                assert_eq!(*value, 1);
            });
        });
        while !began.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let mut pauses = 0;
        let old = published.replace(2, || {
            // Others read the new value meanwhile.
            assert_eq!(published.read(|value| *value), 2);
            pauses += 1;
            may_end.store(true, Ordering::Release);
        });
        assert_eq!(old, 1);
        assert!(pauses > 0, "it did not wait");
    });
}

#[test]
fn a_read_that_panics_keeps_no_writer_waiting() {
    let published = Published::new(1);
    let read = std::panic::AssertUnwindSafe(|| published.read(|_| panic!("on purpose")));
    assert!(std::panic::catch_unwind(read).is_err());
    assert_eq!(published.replace(2, || panic!("somebody still reads")), 1);
}
