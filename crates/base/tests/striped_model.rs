//! Numbers of threads, and counters that they add to, under a model checker: every interleaving,
//! and every value that the memory model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/striped/numbers.rs"]
mod numbers;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use numbers::{Numbers, add_to};

/// Stripes for one thread each, and one for all others.
struct Striped {
    numbers: Numbers,
    stripes: [AtomicU64; 2],
}

impl Striped {
    /// What a thread does from its first add to its end.
    fn live(&self, n: u64) {
        let number = self.numbers.take();
        let stripe = &self.stripes[number.map_or(1, |number| number as usize)];
        add_to(stripe, n, number.is_none());
        add_to(stripe, n, number.is_none());
        if let Some(number) = number {
            self.numbers.give_back(number);
        }
    }
}

#[test]
fn nothing_is_lost_where_threads_come_and_go() {
    loom::model(|| {
        let striped = Arc::new(Striped {
            numbers: Numbers::new(AtomicU64::new(0), 1),
            stripes: [AtomicU64::new(0), AtomicU64::new(0)],
        });
        let threads = [1, 10].map(|n| {
            let striped = Arc::clone(&striped);
            thread::spawn(move || striped.live(n))
        });
        striped.live(100);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        let sum: u64 = striped.stripes.iter().map(|s| s.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 222);
    });
}
