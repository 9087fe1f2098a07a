//! A ring of words from one thread to another.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const PLACES: usize = 512;

/// On lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

pub(crate) struct Ring {
    words: Box<[AtomicU64]>,
    /// Words taken out, and put in, so far.
    taken: Count,
    put: Count,
}

impl Ring {
    pub(crate) fn new() -> Self {
        let words = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Ring { words, taken: Count::default(), put: Count::default() }
    }

    /// Moves words from the end of `from` into the ring, as far as there is room.
    pub(crate) fn push(&self, from: &mut Vec<u64>) {
        if from.is_empty() {
            return;
        }
        let put = self.put.0.load(Relaxed);
        let room = PLACES - (put - self.taken.0.load(Acquire)) as usize;
        let rest = from.len().saturating_sub(room);
        let count = (from.len() - rest) as u64;
        for (at, word) in (put..).zip(from.drain(rest..)) {
            self.words[at as usize % PLACES].store(word, Relaxed);
        }
        self.put.0.store(put + count, Release);
    }

    /// Appends up to `max` words of the ring to `to`.
    pub(crate) fn pop(&self, to: &mut Vec<u64>, max: usize) {
        let taken = self.taken.0.load(Relaxed);
        let count = (self.put.0.load(Acquire) - taken).min(max as u64);
        if count > 0 {
            let places = taken..taken + count;
            to.extend(places.map(|at| self.words[at as usize % PLACES].load(Relaxed)));
            self.taken.0.store(taken + count, Release);
        }
    }
}
