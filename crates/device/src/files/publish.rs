//! The publish protocol of append logs, apart from the memory that it guards.
//!
//! Invariants:
//!
//! 1. An append reserves its bytes by one compare-and-swap of the reserved end, which only grows:
//!    no two appends have a byte in common, and together they leave no gap.
//! 2. Appends are published in the order of their bytes: each waits until all bytes before its own
//!    are. The published length only grows, and is stored with `Release` after the bytes below it
//!    were written; who publishes has loaded the length before it with `Acquire`. So whoever loads
//!    it with `Acquire` sees all bytes below.
//! 3. Bytes below the published length are never written again.
//!
//! The two words have lines of their own: whoever reserves does not disturb those who wait to
//! publish. The atomics come from the parent module, so that a model checker can swap its own in.

use super::sync::{AtomicBool, AtomicU64, Ordering, pause};

/// Bits of an end; above them is how many appends lie below it.
const END_BITS: u32 = 40;
/// Bytes that a log may have.
pub(crate) const LOG_BYTES_MAX: u64 = (1 << END_BITS) - 1;
/// Appends that a log may have.
const APPENDS_MAX: u64 = (1 << (64 - END_BITS)) - 1;

/// An end, and how many appends lie below it.
type Word = u64;

fn end_of(word: Word) -> u64 {
    word & LOG_BYTES_MAX
}

/// On lines of its own: processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

/// How far a log is reserved, and how far it is published.
#[derive(Debug)]
pub(crate) struct Gate {
    reserved: Line<AtomicU64>,
    published: Line<AtomicU64>,
    /// An append ended in the middle: nothing behind it will ever be published.
    is_broken: AtomicBool,
}

/// The right to write the bytes from `start` on, as many as were reserved.
pub(crate) struct Append<'g> {
    gate: &'g Gate,
    before: Word,
    after: Word,
}

impl Gate {
    /// A gate with `published` bytes, which nobody appended.
    pub(crate) fn new(published: u64) -> Self {
        let word = || Line(AtomicU64::new(published));
        Gate { reserved: word(), published: word(), is_broken: AtomicBool::new(false) }
    }

    /// Bytes that may be read and will never change.
    #[inline]
    pub(crate) fn published(&self) -> u64 {
        end_of(self.published.0.load(Ordering::Acquire))
    }

    /// Appends that were published.
    pub(crate) fn appends(&self) -> u64 {
        self.published.0.load(Ordering::Acquire) >> END_BITS
    }

    /// The end of what is reserved.
    #[inline]
    pub(crate) fn reserved(&self) -> u64 {
        end_of(self.reserved.0.load(Ordering::Relaxed))
    }

    /// Reserves the next `len` bytes, unless they would reach past `end_max` or the log has as many
    /// appends as it may have.
    #[inline]
    pub(crate) fn reserve(&self, len: u64, end_max: u64) -> Option<Append<'_>> {
        let mut before = self.reserved.0.load(Ordering::Relaxed);
        loop {
            let fits = end_of(before).checked_add(len).is_some_and(|end| end <= end_max);
            if !fits || before >> END_BITS == APPENDS_MAX {
                return None;
            }
            let after = before + len + (1 << END_BITS);
            // Relaxed: nothing but the range is handed over.
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.reserved.0.compare_exchange_weak(before, after, success, failure) {
                Ok(_) => return Some(Append { gate: self, before, after }),
                Err(now) => before = now,
            }
        }
    }
}

impl Append<'_> {
    /// First byte of the append.
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        end_of(self.before)
    }

    /// How many appends came before it.
    #[inline]
    pub(crate) fn ordinal(&self) -> u64 {
        self.before >> END_BITS
    }

    /// Publishes the bytes, all of which are written, once those before them are.
    ///
    /// # Panics
    /// Where an append before this one ended in the middle.
    #[inline]
    pub(crate) fn publish(self) {
        let mut turns = 0;
        loop {
            let published = self.gate.published.0.load(Ordering::Acquire);
            if published == self.before {
                break;
            }
            let is_broken = self.gate.is_broken.load(Ordering::Relaxed);
            assert!(!is_broken, "an append to the log before this one ended in the middle");
            // Each look takes the line from who is to publish next: those look seldom whose turn
            // is far.
            pause(&mut turns, self.ordinal() - (published >> END_BITS));
        }
        self.gate.published.0.store(self.after, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Append<'_> {
    /// What was reserved is not written: a bug of the caller, which those behind it find out.
    fn drop(&mut self) {
        self.gate.is_broken.store(true, Ordering::Relaxed);
    }
}
