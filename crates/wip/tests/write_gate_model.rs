//! The gate of writers under a model checker: every interleaving, and every value that the memory
//! model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::AtomicU64;
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::Ordering;
    use std::sync::atomic::Ordering::SeqCst;

    /// The checker keeps sequentially consistent fences in one order, but no accesses: so those
    /// come with fences here.
    pub(crate) struct AtomicUsize(loom::sync::atomic::AtomicUsize);

    impl AtomicUsize {
        pub(crate) fn new(value: usize) -> Self {
            AtomicUsize(loom::sync::atomic::AtomicUsize::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> usize {
            fence(order);
            self.0.load(order)
        }

        pub(crate) fn fetch_add(&self, n: usize, order: Ordering) -> usize {
            let before = self.0.fetch_add(n, order);
            fence(order);
            before
        }

        pub(crate) fn fetch_sub(&self, n: usize, order: Ordering) -> usize {
            self.0.fetch_sub(n, order)
        }
    }

    fn fence(order: Ordering) {
        if order == SeqCst {
            loom::sync::atomic::fence(SeqCst);
        }
    }

    pub(crate) fn pause(_: &mut u32) {
        loom::thread::yield_now();
    }

    /// All in one place, which is the harder case.
    pub(crate) fn thread_number() -> usize {
        0
    }

    /// The checker follows few atomics.
    pub(crate) const PLACES: usize = 2;
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/write_gate.rs"]
mod write_gate;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Release};
use write_gate::WriteGate;

/// What those who are in write, a cell each, and who is alone reads.
struct Shared {
    gate: WriteGate<()>,
    cells: [UnsafeCell<u32>; 2],
}

impl Shared {
    fn new() -> Arc<Shared> {
        let cells = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Shared { gate: WriteGate::new(()), cells })
    }

    /// True if it was let in.
    fn write(&self, cell: usize) -> bool {
        let Some(_entered) = self.gate.enter() else { return false };
        // SAFETY: nobody else writes the cell, and nobody reads it while one is in.
        self.cells[cell].with_mut(|cell| unsafe { *cell += 1 });
        true
    }

    /// The sum, with the gate to itself; the checker fails the test where somebody writes.
    fn sum(&self) -> u32 {
        let _alone = self.gate.lock();
        // SAFETY: nobody is in.
        self.cells.iter().map(|cell| cell.with(|cell| unsafe { *cell })).sum()
    }
}

#[test]
fn who_has_the_gate_finds_nobody_in_and_all_that_was_done() {
    loom::model(|| {
        let shared = Shared::new();
        let others = shared.clone();
        let writer = thread::spawn(move || u32::from(others.write(0)));
        let seen = shared.sum();
        let written = writer.join().unwrap();
        assert!(seen <= written);
        assert_eq!(shared.sum(), written);
    });
}

#[test]
fn two_are_in_and_one_waits_for_both() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let [one, other] = [0, 1].map(|cell| {
            let shared = shared.clone();
            thread::spawn(move || u32::from(shared.write(cell)))
        });
        let seen = shared.sum();
        let written = one.join().unwrap() + other.join().unwrap();
        assert!(seen <= written);
        assert_eq!(shared.sum(), written);
    });
}

#[test]
fn what_was_done_alone_those_see_who_are_let_in() {
    loom::model(|| {
        let shared = Shared::new();
        let others = shared.clone();
        let alone = thread::spawn(move || {
            let _alone = others.gate.lock();
            // SAFETY: nobody is in.
            others.cells[0].with_mut(|cell| unsafe { *cell = 7 });
        });
        if let Some(_entered) = shared.gate.enter() {
            // SAFETY: whoever writes the cell has the gate to itself.
            let value = shared.cells[0].with(|cell| unsafe { *cell });
            assert!(value == 0 || value == 7);
        }
        alone.join().unwrap();
        assert!(shared.gate.enter().is_some(), "it is open again");
    });
}

#[test]
fn a_closed_gate_lets_nobody_in() {
    loom::model(|| {
        let shared = Shared::new();
        shared.gate.close();
        let others = shared.clone();
        let writer = thread::spawn(move || others.write(0));
        assert!(!writer.join().unwrap());
        assert_eq!(shared.sum(), 0);
        shared.gate.open();
        assert!(shared.write(0));
    });
}

/// A batch of two keys, which become visible one after the other.
struct Batch {
    gate: WriteGate<()>,
    keys: [AtomicU32; 2],
}

impl Batch {
    fn new() -> Arc<Batch> {
        let keys = std::array::from_fn(|_| AtomicU32::new(0));
        Arc::new(Batch { gate: WriteGate::new(()), keys })
    }

    fn write(&self, alone: bool) {
        let put = || self.keys.iter().for_each(|key| key.store(1, Release));
        match alone {
            true => {
                let locked = self.gate.lock();
                let publishing = self.gate.publish();
                put();
                drop(publishing);
                drop(locked);
            }
            false => {
                let entered = self.gate.enter().expect("nobody is alone");
                put();
                drop(entered);
            }
        }
    }
}

#[test]
fn who_has_seen_a_part_of_a_batch_sees_all_of_it_once_that_is_settled() {
    for alone in [false, true] {
        loom::model(move || {
            let batch = Batch::new();
            let others = batch.clone();
            let writer = thread::spawn(move || others.write(alone));
            if batch.keys[0].load(Acquire) == 1 {
                batch.gate.settle();
                assert_eq!(batch.keys[1].load(Acquire), 1);
            }
            writer.join().unwrap();
        });
    }
}
