//! What each thread reads just now: names of biased locks.

use crate::striped::STRIPES;
use crate::sync::AtomicUsize;

/// Locks that a thread reads at a time and that all can see.
pub(crate) const SLOTS: usize = 16;
/// Reads through the lock within, after a write, before others go past it: what they cost together
/// is many times what the next writer pays for it.
pub(crate) const BIASED_AFTER: usize = 1024;

/// The locks that the thread of one number reads; 0 is a free slot.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Row(pub(crate) [AtomicUsize; SLOTS]);

static ROWS: [Row; STRIPES] = [const { Row([const { AtomicUsize::new(0) }; SLOTS]) }; STRIPES];

/// A row for each number of a thread.
#[inline(always)]
pub(crate) fn rows() -> &'static [Row; STRIPES] {
    &ROWS
}
