//! The publish protocol of append logs, and the growth of regions, under a model checker: every
//! interleaving, and every value that the memory model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    pub(crate) fn pause(_: &mut u64, _: u64) {
        loom::thread::yield_now();
    }
}

#[path = "../src/region/extent.rs"]
mod extent;
#[path = "../src/files/publish.rs"]
mod publish;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use publish::Gate;

/// A log of three cells, one for each append.
struct Log {
    cells: [UnsafeCell<u64>; 3],
    gate: Gate,
}

impl Log {
    fn new() -> Arc<Log> {
        let cells = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Log { cells, gate: Gate::new(0) })
    }

    fn append(&self) {
        let append = self.gate.reserve(1, 3).expect("there is room");
        let at = append.start();
        assert_eq!(append.ordinal(), at);
        // The checker fails the test where anyone reads this cell at the same time.
        self.cells[at as usize].with_mut(|cell| {
            // SAFETY: the cell lies above the published length and is reserved.
            unsafe { *cell = at + 1 }
        });
        append.publish();
    }

    /// Reads everything below the published length.
    fn check(&self) -> u64 {
        let len = self.gate.published();
        for at in 0..len {
            // SAFETY: below the published length nobody writes.
            let value = self.cells[at as usize].with(|cell| unsafe { *cell });
            assert_eq!(value, at + 1);
        }
        len
    }
}

#[test]
fn published_bytes_are_whole_and_final() {
    loom::model(|| {
        let log = Log::new();
        let reader = log.clone();
        let reader = thread::spawn(move || {
            let first = reader.check();
            assert!(reader.check() >= first, "the length only grows");
        });
        log.append();
        log.append();
        reader.join().unwrap();
        assert_eq!(log.check(), 2);
    });
}

#[test]
fn appends_that_meet_leave_no_gap() {
    loom::model(|| {
        let log = Log::new();
        let (other, reader) = (log.clone(), log.clone());
        let other = thread::spawn(move || other.append());
        let reader = thread::spawn(move || reader.check());
        log.append();
        other.join().unwrap();
        assert!(reader.join().unwrap() <= 2);
        assert_eq!((log.check(), log.gate.appends()), (2, 2));
    });
}

#[test]
fn what_does_not_fit_is_not_reserved() {
    loom::model(|| {
        let log = Log::new();
        let other = log.clone();
        let reserves = |log: &Log| {
            let append = log.gate.reserve(2, 3);
            append.map(|append| append.publish()).is_some()
        };
        let other = thread::spawn(move || reserves(&other));
        let one = reserves(&log);
        assert!(one != other.join().unwrap(), "one of the two has room");
        assert_eq!((log.gate.reserved(), log.gate.published()), (2, 2));
    });
}

#[test]
#[should_panic(expected = "ended in the middle")]
fn an_append_that_is_not_published_is_found_out() {
    loom::model(|| {
        let gate = Gate::new(0);
        drop(gate.reserve(1, 3));
        gate.reserve(1, 3).expect("there is room").publish();
    });
}

/// Two cells that are there one after the other, as pages of a region that grows.
#[test]
fn what_lies_below_an_extent_is_there() {
    struct Grown {
        cells: [UnsafeCell<u64>; 2],
        extent: extent::Extent,
    }
    loom::model(|| {
        let cells = std::array::from_fn(|_| UnsafeCell::new(0));
        let grown = Arc::new(Grown { cells, extent: extent::Extent::new(0) });
        let reader = grown.clone();
        let growing = thread::spawn(move || {
            for at in 0..2 {
                grown.cells[at].with_mut(|cell| {
                    // SAFETY: the cell lies above the extent.
                    unsafe { *cell = 7 }
                });
                grown.extent.set(at as u64 + 1);
            }
        });
        for at in 0..reader.extent.get() {
            // SAFETY: below the extent nobody writes.
            assert_eq!(reader.cells[at as usize].with(|cell| unsafe { *cell }), 7);
        }
        growing.join().unwrap();
        assert_eq!(reader.extent.get(), 2);
    });
}
