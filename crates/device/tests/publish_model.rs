//! The publish protocol of append logs under a model checker: every interleaving, and every
//! value that the memory model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

#[path = "../src/files/publish.rs"]
mod publish;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use publish::Gate;

/// A log of three cells, appended to one by one.
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
        let append = self.gate.begin();
        let at = append.start();
        // The checker fails the test where anyone reads this cell at the same time.
        self.cells[at as usize].with_mut(|cell| {
            // SAFETY: the cell lies above the published length and `append` is the only one.
            unsafe { *cell = at + 1 }
        });
        append.publish(1);
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
fn appenders_take_turns() {
    loom::model(|| {
        let log = Log::new();
        let turn = Arc::new(Mutex::new(()));
        let (other, others_turn) = (log.clone(), turn.clone());
        let other = thread::spawn(move || {
            let _turn = others_turn.lock().unwrap();
            other.append();
        });
        {
            let _turn = turn.lock().unwrap();
            log.append();
        }
        other.join().unwrap();
        assert_eq!(log.check(), 2);
    });
}

#[test]
#[should_panic(expected = "two appends to one log")]
fn unserialised_appends_are_found_out() {
    loom::model(|| {
        let gate = Gate::new(0);
        let _first = gate.begin();
        let _second = gate.begin();
    });
}
