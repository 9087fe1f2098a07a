//! What the list shares between threads; the model of it has its own in this place.

use silica_base::HugeVec;
pub(super) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

/// Levels of a list.
pub(super) const LEVELS: usize = 12;

/// The memory of a list.
pub(super) type Words = HugeVec<AtomicU32>;
