//! The publish protocol of append logs, apart from the memory that it guards.
//!
//! Invariants:
//!
//! 1. At most one append is under way: [`Gate::begin`] panics on a second one. So the bytes at
//!    and above the published length have one writer.
//! 2. The published length only grows, and is stored with `Release` after the bytes below it
//!    were written. Whoever loads it with `Acquire` sees those bytes.
//! 3. Bytes below the published length are never written again.
//!
//! The atomics come from the parent module, so that a model checker can swap its own in.

use super::sync::{AtomicBool, AtomicU64, Ordering};

/// Length published so far, and the right to append.
#[derive(Debug)]
pub(crate) struct Gate {
    published: AtomicU64,
    appending: AtomicBool,
}

/// The right to write at and above `start`, until it is dropped or published.
pub(crate) struct Append<'g> {
    gate: &'g Gate,
    start: u64,
}

impl Gate {
    /// A gate with `published` bytes.
    pub(crate) fn new(published: u64) -> Self {
        Gate { published: AtomicU64::new(published), appending: AtomicBool::new(false) }
    }

    /// Bytes that may be read and will never change.
    #[inline]
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Starts an append.
    ///
    /// # Panics
    /// Where another append is under way: callers must serialise appends.
    #[inline]
    pub(crate) fn begin(&self) -> Append<'_> {
        // Acquire pairs with the Release in `Append::drop`: the next appender sees everything
        // that the previous one did.
        let busy = self.appending.swap(true, Ordering::Acquire);
        assert!(!busy, "two appends to one log at the same time; callers must serialise them");
        Append { gate: self, start: self.published.load(Ordering::Relaxed) }
    }
}

impl Append<'_> {
    /// First byte of the append.
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Publishes the `len` bytes written at `start`.
    #[inline]
    pub(crate) fn publish(self, len: u64) {
        self.gate.published.store(self.start + len, Ordering::Release);
    }
}

impl Drop for Append<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.appending.store(false, Ordering::Release);
    }
}
