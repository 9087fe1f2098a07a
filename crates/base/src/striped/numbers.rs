//! Numbers for threads that live, each of one thread at a time.
//!
//! A thread that gives its number back stores that with release, and one that takes it loads it
//! with acquire: what the one wrote under the number, the other one reads. Takers that come in
//! between change the same word by read-modify-write, which keeps the order.

use crate::sync::{AtomicU64, Ordering};

/// Numbers from 0 on, fewer than 64.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// A bit for each number that a thread has.
    taken: AtomicU64,
    count: u32,
}

impl Numbers {
    /// `taken` is 0.
    pub(crate) const fn new(taken: AtomicU64, count: u32) -> Self {
        Numbers { taken, count }
    }

    /// The lowest number that nobody has; `None` if there are more threads than numbers.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let number = taken.trailing_ones();
            if number >= self.count {
                return None;
            }
            let more = taken | 1 << number;
            let swapped =
                self.taken.compare_exchange(taken, more, Ordering::Acquire, Ordering::Relaxed);
            match swapped {
                Ok(_) => return Some(number),
                Err(now) => taken = now,
            }
        }
    }

    /// The caller has `number` no longer.
    pub(crate) fn give_back(&self, number: u32) {
        self.taken.fetch_and(!(1 << number), Ordering::Release);
    }
}

/// Adds to a counter that only the caller's thread writes (`is_shared` is false), or that several
/// write.
#[inline(always)]
pub(crate) fn add_to(counter: &AtomicU64, n: u64, is_shared: bool) {
    if is_shared {
        counter.fetch_add(n, Ordering::Relaxed);
    } else {
        // A read-modify-write would take four times as long.
        let sum = counter.load(Ordering::Relaxed).wrapping_add(n);
        counter.store(sum, Ordering::Relaxed);
    }
}
