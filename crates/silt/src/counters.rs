//! What a store counts.

use silica_base::Striped;
use std::sync::atomic::{AtomicU64, Ordering};

/// What gets count, each thread by itself.
#[derive(Debug, Default)]
pub(crate) struct Gets {
    pub(crate) gets: AtomicU64,
    pub(crate) hits_log: AtomicU64,
    pub(crate) hits_hash: AtomicU64,
    pub(crate) hits_sorted: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) false_positives: AtomicU64,
}

/// Event counters of one store; relaxed, since nothing is decided by them.
#[derive(Debug, Default)]
// Apart from what gets look at.
#[repr(align(128))]
pub(crate) struct Metrics {
    pub(crate) gets: Striped<Gets>,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) overwrites_in_log_store: AtomicU64,
    pub(crate) conversions: AtomicU64,
    pub(crate) converted_entries: AtomicU64,
    pub(crate) conversion_bytes: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) merged_entries: AtomicU64,
    pub(crate) merge_bytes: AtomicU64,
    pub(crate) value_log_bytes: AtomicU64,
    pub(crate) writes_slowed: AtomicU64,
}

/// Adds to a counter.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

impl Metrics {
    /// Counts a write.
    pub(crate) fn count_write(&self, puts: u64, deletes: u64, bytes: u64) {
        for (counter, n) in
            [(&self.puts, puts), (&self.deletes, deletes), (&self.user_bytes, bytes)]
        {
            // Most writes are puts only.
            if n > 0 {
                add(counter, n);
            }
        }
    }
}
