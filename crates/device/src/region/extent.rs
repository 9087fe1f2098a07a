//! How far a region reaches while it grows beside its readers.
//!
//! Invariant: what lies below the extent can be looked at. Who grows the region stores the extent
//! with `Release` after the bytes are there; whoever loads it with `Acquire` sees them. Who cuts
//! the region stores the extent first and takes the bytes afterwards; a reader that loaded the
//! extent before is kept away by the caller. One thread at a time changes it.
//!
//! The atomics come from the parent module, so that a model checker can swap its own in.

use super::sync::{AtomicU64, Ordering};

/// How far a region reaches, in the unit of its owner.
pub(crate) struct Extent(AtomicU64);

impl Extent {
    pub(crate) fn new(end: u64) -> Extent {
        Extent(AtomicU64::new(end))
    }

    /// The end, and everything that was there before it was set.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Sets the end, after everything that this thread did.
    pub(crate) fn set(&self, end: u64) {
        self.0.store(end, Ordering::Release);
    }
}
