//! A published value under a model checker: every interleaving, and every value that the memory
//! model lets a load return. The checker fails where a slot is written while it is read.

mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

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

mod striped {
    pub(crate) const STRIPES: usize = 2;

    loom::thread_local! {
        static HERE: std::cell::Cell<(usize, bool)> = std::cell::Cell::new((0, true));
    }

    pub(crate) fn here() -> (usize, bool) {
        HERE.with(std::cell::Cell::get)
    }

    pub(crate) fn be(number: usize, is_shared: bool) {
        HERE.with(|here| here.set((number, is_shared)));
    }
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/published.rs"]
mod published;

use loom::sync::Arc;
use loom::thread;
use published::Published;

/// One thread replaces the value twice while another one reads it twice.
fn check(is_shared: bool) {
    loom::model(move || {
        let published = Arc::new(Published::new(Box::new(0)));
        let reader = Arc::clone(&published);
        let thread = thread::spawn(move || {
            striped::be(usize::from(is_shared), is_shared);
            let one = reader.read(|value| **value);
            let other = reader.read(|value| **value);
            assert!(one <= other);
        });
        for n in 1..3 {
            let old = published.replace(Box::new(n), thread::yield_now);
            assert_eq!(*old, n - 1);
        }
        thread.join().expect("the reader ends");
    });
}

#[test]
fn a_reader_with_a_stripe_of_its_own_sees_no_slot_that_is_written() {
    check(false);
}

#[test]
fn a_reader_that_shares_its_stripe_sees_no_slot_that_is_written() {
    check(true);
}
