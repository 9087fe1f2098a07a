//! The ring under a model checker: every interleaving, and every value that the memory model lets
//! a load return.

mod sync {
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};

    /// As the ring's own, and the model notices two threads that use it at the same time.
    #[derive(Debug)]
    pub(crate) struct Place<T>(loom::cell::UnsafeCell<T>);

    impl<T> Place<T> {
        pub(crate) fn new(value: T) -> Self {
            Place(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with_mut<R>(&self, use_it: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(use_it)
        }
    }
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/ring.rs"]
mod ring;

use loom::thread;

#[test]
fn what_is_sent_arrives_whole_and_in_order() {
    loom::model(|| {
        let (mut sender, mut receiver) = ring::ring::<Box<u32>>(2);
        let thread = thread::spawn(move || {
            // The third fits only where one was taken out.
            (0..3).take_while(|n| sender.push(Box::new(*n)).is_none()).count()
        });
        let mut got: Vec<Box<u32>> = (0..2).filter_map(|_| receiver.pop()).collect();
        let sent = thread.join().expect("the sender ends");
        got.extend(std::iter::from_fn(|| receiver.pop()));
        let got: Vec<usize> = got.iter().map(|value| **value as usize).collect();
        assert_eq!(got, (0..sent).collect::<Vec<_>>());
    });
}
