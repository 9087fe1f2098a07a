//! What the sessions of a store wrote, for peers that do not count it themselves.

use silica::MetricsMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries that were put and keys that were deleted.
#[derive(Debug, Default)]
pub(super) struct Writes {
    puts: AtomicU64,
    deletes: AtomicU64,
}

impl Writes {
    pub(super) fn count_puts(&self, entries: usize) {
        self.puts.fetch_add(entries as u64, Relaxed);
    }

    pub(super) fn count_deletes(&self, keys: usize) {
        self.deletes.fetch_add(keys as u64, Relaxed);
    }

    /// Both, for others to be added.
    pub(super) fn metrics(&self) -> MetricsMap {
        let mut metrics = MetricsMap::default();
        for (name, count) in [("puts", &self.puts), ("deletes", &self.deletes)] {
            metrics.0.insert(name, count.load(Relaxed) as f64);
        }
        metrics
    }
}
