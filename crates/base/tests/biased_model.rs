//! A biased lock under a model checker: every interleaving, and every value that the memory model
//! lets a load return. The checker fails where the value is written beside a read.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{
        RwLock, RwLockReadGuard as ReadGuard, RwLockWriteGuard as WriteGuard,
    };
    pub(crate) use loom::thread::yield_now;

    /// As the source's own, and the model notices a write beside another access.
    #[derive(Debug)]
    pub(crate) struct Place<T>(loom::cell::UnsafeCell<T>);

    impl<T> Place<T> {
        pub(crate) fn new(value: T) -> Self {
            Place(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with_mut<R>(&self, use_it: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(use_it)
        }

        pub(crate) fn with<R>(&self, use_it: impl FnOnce(*const T) -> R) -> R {
            self.0.with(use_it)
        }
    }

    pub(crate) fn prepare_fences() {}

    /// What both fences are where the system has none for other threads.
    pub(crate) fn light_fence() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy_fence() {
        fence(Ordering::SeqCst);
    }
}

mod rows {
    use crate::sync::AtomicUsize;

    pub(crate) const SLOTS: usize = 1;
    pub(crate) const BIASED_AFTER: usize = 1;

    pub(crate) struct Row(pub(crate) [AtomicUsize; SLOTS]);

    loom::lazy_static! {
        static ref ROWS: [Row; 2] = [Row([AtomicUsize::new(0)]), Row([AtomicUsize::new(0)])];
    }

    pub(crate) fn rows() -> &'static [Row; 2] {
        &ROWS
    }
}

mod striped {
    loom::thread_local! {
        static HERE: std::cell::Cell<(usize, bool)> = std::cell::Cell::new((0, true));
    }

    pub(crate) fn here() -> (usize, bool) {
        HERE.with(std::cell::Cell::get)
    }

    pub(crate) fn be(number: usize) {
        HERE.with(|here| here.set((number, false)));
    }
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[allow(clippy::modulo_one, reason = "the model has one slot")]
#[path = "../src/biased.rs"]
mod biased;

use biased::Biased;
use loom::sync::Arc;
use loom::thread;

#[test]
fn nobody_reads_what_is_written() {
    let mut model = loom::model::Builder::new();
    // Three threads have too many interleavings to try all of them.
    model.preemption_bound = Some(2);
    model.check(|| {
        let lock = Arc::new(Biased::new(0));
        let readers = [0, 1].map(|number| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                striped::be(number);
                assert!(*lock.read() <= 1);
            })
        });
        *lock.write() += 1;
        readers.into_iter().for_each(|reader| reader.join().expect("it ends"));
        assert_eq!(*lock.read(), 1);
    });
}

#[test]
fn what_was_written_is_read_once_the_lock_is_biased_again() {
    loom::model(|| {
        let lock = Arc::new(Biased::new(0));
        *lock.write() += 1;
        let reader = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                striped::be(0);
                // Through the lock within, and past it.
                assert!((*lock.read(), *lock.read()) <= (2, 2));
            })
        };
        *lock.write() += 1;
        reader.join().expect("it ends");
        assert_eq!(*lock.read(), 2);
    });
}
