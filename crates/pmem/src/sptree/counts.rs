//! Counters of calls.

use std::sync::atomic::AtomicU64;

/// Counters; each thread adds to a line of its own.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) gets: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) filter_misses: AtomicU64,
    pub(crate) false_positives: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    /// Entries added less entries removed; wraps.
    pub(crate) entries: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) sorted: AtomicU64,
    pub(crate) buffer_merges: AtomicU64,
    pub(crate) buffer_evictions: AtomicU64,
}
