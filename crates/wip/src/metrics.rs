//! Counters.

use silica_engine::MetricVisitor;
use std::sync::atomic::{AtomicU64, Ordering};

/// Event counters of one store; relaxed: what is decided by them may come a little later.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) gets: AtomicU64,
    /// Searches of ranges.
    pub(crate) searches: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) get_reads: AtomicU64,
    pub(crate) false_positives: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) shared_flushes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) value_log_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_bytes: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) joins: AtomicU64,
    pub(crate) writes_slowed: AtomicU64,
    pub(crate) slowed_by_flush: AtomicU64,
    pub(crate) slowed_by_compaction: AtomicU64,
    pub(crate) slowed_by_log: AtomicU64,
    pub(crate) waits_for_jobs: AtomicU64,
}

/// Adds to a counter, unless that is nothing.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a write.
    pub(crate) fn count_write(&self, puts: u64, deletes: u64, bytes: u64) {
        add(&self.puts, puts);
        add(&self.deletes, deletes);
        add(&self.user_bytes, bytes);
    }

    pub(crate) fn report(&self, visitor: &mut dyn MetricVisitor) {
        for (name, counter) in [
            ("gets", &self.gets),
            ("get_hits", &self.hits),
            ("get_device_reads", &self.get_reads),
            ("filter_false_positives", &self.false_positives),
            ("puts", &self.puts),
            ("deletes", &self.deletes),
            ("user_bytes_written", &self.user_bytes),
            ("log_bytes_written", &self.log_bytes),
            ("flushes", &self.flushes),
            ("shared_flushes", &self.shared_flushes),
            ("flush_bytes_written", &self.flush_bytes),
            ("value_log_bytes_written", &self.value_log_bytes),
            ("compactions", &self.compactions),
            ("compaction_bytes_written", &self.compaction_bytes),
            ("bucket_splits", &self.splits),
            ("bucket_joins", &self.joins),
            ("writes_slowed", &self.writes_slowed),
            ("writes_slowed_by_flush", &self.slowed_by_flush),
            ("writes_slowed_by_compaction", &self.slowed_by_compaction),
            ("writes_slowed_by_log", &self.slowed_by_log),
            ("writes_waited_for_job", &self.waits_for_jobs),
        ] {
            visitor.metric(name, counter.load(Ordering::Relaxed) as f64);
        }
    }
}
