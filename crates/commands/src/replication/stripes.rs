//! Whose keys are being written: so that the stream has each key's writes in their order.
//!
//! Keys are hashed to stripes. A write holds the stripes of its keys from before it takes effect
//! until its effects are in the stream; so whoever writes one of them next comes behind it in both.
//! All stripes of a write are taken at once: no two writes wait for each other.

use crate::gate::Serve;
use silica_base::HashSeed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Stripes.
const COUNT: usize = 512;
const WORDS: usize = COUNT / 64;
/// How long a thread rests that finds stripes taken and nobody to serve.
const REST: Duration = Duration::from_micros(50);

/// A set of stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask([u64; WORDS]);

impl Mask {
    /// No stripe.
    pub(crate) const NONE: Mask = Mask([0; WORDS]);
    /// Every stripe.
    pub(crate) const ALL: Mask = Mask([u64::MAX; WORDS]);

    /// Adds the stripe of `key`. Databases share stripes: a key may move from one to another.
    pub(crate) fn add(&mut self, key: &[u8]) {
        let stripe = HashSeed([0; 16]).low(key) as usize % COUNT;
        self.0[stripe / 64] |= 1 << (stripe % 64);
    }

    fn meets(&self, other: &Mask) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }
}

struct State {
    taken: Mask,
    /// Those that wait for every stripe: nobody else comes before them.
    waiting_for_all: usize,
    /// Threads that sleep until stripes are free. A notification that nobody waits for is a call of
    /// the kernel all the same.
    asleep: usize,
}

/// All stripes.
pub(crate) struct Stripes {
    state: Mutex<State>,
    freed: Condvar,
}

/// Stripes that are held until it is dropped.
pub(crate) struct Held<'s> {
    stripes: &'s Stripes,
    mask: Mask,
}

impl Default for Stripes {
    fn default() -> Self {
        let state = State { taken: Mask::NONE, waiting_for_all: 0, asleep: 0 };
        Stripes { state: Mutex::new(state), freed: Condvar::new() }
    }
}

impl Stripes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all stripes of `mask`, once they are free. A thread that waits does what `serve` asks:
    /// whoever holds them may need it.
    pub(crate) fn take(&self, mask: Mask, serve: Serve<'_>) -> Held<'_> {
        let is_all = mask == Mask::ALL;
        let mut state = self.state();
        if is_all {
            state.waiting_for_all += 1;
        }
        while mask.meets(&state.taken) || (!is_all && state.waiting_for_all > 0) {
            match serve {
                None => {
                    state.asleep += 1;
                    state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.asleep -= 1;
                }
                Some(serve) => {
                    drop(state);
                    if !serve() {
                        std::thread::sleep(REST);
                    }
                    state = self.state();
                }
            }
        }
        if is_all {
            state.waiting_for_all -= 1;
        }
        state.taken.0.iter_mut().zip(mask.0).for_each(|(taken, new)| *taken |= new);
        Held { stripes: self, mask }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.stripes.state();
        state.taken.0.iter_mut().zip(self.mask.0).for_each(|(taken, old)| *taken &= !old);
        let wakes = state.asleep > 0;
        drop(state);
        if wakes {
            self.stripes.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn who_holds_a_stripe_is_alone_with_it() {
        let (stripes, counts) = (Stripes::default(), [const { AtomicU64::new(0) }; 4]);
        let add = |at: usize| {
            let before = counts[at].load(Ordering::Relaxed);
            std::thread::yield_now();
            counts[at].store(before + 1, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (stripes, add) = (&stripes, &add);
                scope.spawn(move || {
                    for round in 0..500 {
                        let keys = [(thread + round) % 4, (thread * round) % 4];
                        let mut mask = Mask::NONE;
                        keys.iter().for_each(|key| mask.add(&[*key as u8]));
                        let mask = if round % 50 == 0 { Mask::ALL } else { mask };
                        let _held = stripes.take(mask, None);
                        add(keys[0]);
                        add(keys[1]);
                    }
                });
            }
        });
        let sum: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 4 * 500 * 2);
    }
}
