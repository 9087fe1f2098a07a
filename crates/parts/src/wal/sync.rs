//! What callers of a group commit share; its model has its own in this place.

pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Mutex, MutexGuard};
pub(super) use std::thread::{Thread, current, park, yield_now};

/// Times that whoever leads a sync lets others run first who are likely to come. Where nobody else
/// can run, as many take some twenty microseconds.
pub(super) const YIELDS_MAX: usize = 128;
/// Times that whoever leads a sync lets others run first who did not come before.
pub(super) const YIELDS_MIN: usize = 32;
/// Times that a caller looks whether a sync has ended, and lets others run, before it goes to
/// sleep: as long as a fast device takes for a sync.
pub(super) const WATCHES_MAX: usize = 512;
/// Times that a caller looks if looking was in vain before.
pub(super) const WATCHES_MIN: usize = 4;
