//! Stamps under a model checker: every interleaving, and every value that the memory model lets a
//! load return.

mod sync {
    pub(super) use loom::sync::atomic::AtomicU64;
    pub(super) use std::sync::atomic::Ordering;
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/stamps.rs"]
mod stamps;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use stamps::Stamps;
use std::sync::atomic::Ordering::SeqCst;

/// The place that the first and the third commit write, and another one.
const MINE: usize = 1;
const OTHER: usize = 2;

/// What `MINE` is at a moment.
fn value_at(moment: u64) -> u64 {
    match moment {
        0 => 0,
        1 | 2 => 1,
        _ => 3,
    }
}

#[test]
fn a_result_that_holds_is_what_the_reader_would_read() {
    loom::model(|| {
        let (stamps, commits) = (Arc::new(Stamps::new(3)), Arc::new(AtomicU64::new(0)));
        let writer = {
            let (stamps, commits) = (Arc::clone(&stamps), Arc::clone(&commits));
            loom::thread::spawn(move || {
                for (number, place) in [(1, MINE), (2, OTHER), (3, MINE)] {
                    stamps.set(place, number);
                    commits.store(number, SeqCst);
                }
            })
        };
        // Computed at one moment, asked for at another one, by another thread.
        let computed = {
            let commits = Arc::clone(&commits);
            loom::thread::spawn(move || commits.load(SeqCst))
        };
        let reader = commits.load(SeqCst);
        let computed = computed.join().expect("it ends");
        if stamps.holds(MINE, computed.min(reader)) {
            assert_eq!(value_at(computed), value_at(reader), "{computed} for {reader}");
        }
        writer.join().expect("it ends");
    });
}

#[test]
fn a_result_holds_if_nothing_was_written_between() {
    loom::model(|| {
        let stamps = Stamps::new(3);
        stamps.set(MINE, 1);
        assert!(!stamps.holds(MINE, 0) && stamps.holds(MINE, 1) && stamps.holds(OTHER, 0));
        assert!(!stamps.holds(9, u64::MAX), "there is no such place");
    });
}
