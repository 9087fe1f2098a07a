//! Not beside the source, which a model checker compiles, too.

use crate::Biased;
use crate::rows::BIASED_AFTER;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn readers_and_writers_exclude_each_other_with_bias_and_without() {
    let lock = Biased::new((0u64, 0u64));
    let (ends, biased) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !ends.load(Ordering::Relaxed) {
                    let value = lock.read();
                    assert_eq!(value.0, value.1);
                    assert!(value.0 >= last);
                    last = value.0;
                }
            });
        }
        for round in 1..400u64 {
            for _ in 0..round % 3 {
                let mut value = lock.write();
                value.0 += 1;
                value.1 = value.0;
            }
            // Some rounds begin with the lock biased again.
            let is_fast = || lock.is_biased() || round % 8 != 0;
            while !is_fast() {
                std::thread::yield_now();
            }
            biased.fetch_add(usize::from(lock.is_biased()), Ordering::Relaxed);
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(biased.into_inner() > 10, "it was hardly ever biased");
}

#[test]
fn a_write_ends_the_bias_and_reads_bring_it_back() {
    let lock = Biased::new(1);
    assert!(lock.is_biased());
    *lock.write() = 2;
    for _ in 0..BIASED_AFTER {
        assert!(!lock.is_biased());
        assert_eq!(*lock.read(), 2);
    }
    assert!(lock.is_biased());
}

#[test]
fn a_thread_may_read_more_locks_than_its_row_has_slots() {
    let locks: Vec<Biased<usize>> = (0..100).map(Biased::new).collect();
    let guards: Vec<_> = locks.iter().map(Biased::read).collect();
    assert!(guards.iter().enumerate().all(|(n, guard)| **guard == n));
    drop(guards);
    locks.iter().for_each(|lock| *lock.write() += 1);
    assert!(locks.iter().enumerate().all(|(n, lock)| *lock.read() == n + 1));
}

#[test]
fn a_writer_waits_for_each_reader_that_it_finds() {
    let lock = Biased::new(1);
    let (reads, may_end) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let value = lock.read();
            reads.store(true, Ordering::Release);
            while !may_end.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert_eq!(*value, 1);
        });
        while !reads.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let writer = scope.spawn(|| *lock.write() = 2);
        while lock.is_biased() {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished(), "it wrote beside a reader");
        may_end.store(true, Ordering::Release);
    });
    assert_eq!(*lock.read(), 2);
}
