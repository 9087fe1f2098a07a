//! What memtables share between threads, and sizes; models of them have their own in this place.

use silica_base::HugeVec;
pub(super) use silica_base::{TAG_GROUP, match_tags, prefetch};
pub(super) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

/// Levels of a list.
pub(super) const LEVELS: usize = 12;

/// The memory of a list.
pub(super) type Words = HugeVec<AtomicU32>;

/// Slots that are searched together.
pub(super) type Line = [AtomicU64; TAG_GROUP];

/// The memory of a directory.
pub(super) type Lines = HugeVec<Line>;
