//! Counters.

use silica_base::Striped;
use silica_engine::MetricVisitor;
use std::sync::atomic::{AtomicU64, Ordering};

/// What every get and every write counts, on lines of its thread.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) gets: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) get_reads: AtomicU64,
    pub(crate) false_positives: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    /// What entries that are in no table count for, modulo 2^64.
    pub(crate) unflushed_bytes: AtomicU64,
}

/// Picks one of them.
type CallCounter = fn(&Calls) -> &AtomicU64;

/// Event counters of one store; relaxed: what is decided by them may come a little later.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) calls: Striped<Calls>,
    /// Searches of ranges.
    pub(crate) searches: AtomicU64,
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
    #[inline]
    pub(crate) fn count_write(&self, puts: u64, deletes: u64, bytes: u64) {
        let calls = self.calls.mine();
        calls.add(|c| &c.puts, puts);
        calls.add(|c| &c.deletes, deletes);
        calls.add(|c| &c.user_bytes, bytes);
    }

    /// What entries that are in no table count for.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        // A flush may be seen to take away what a writer, of whom another part is read earlier, was
        // not yet seen to add. Then the sum is below nothing for that look.
        let sum = self.calls.sum(|c| &c.unflushed_bytes);
        u64::try_from(sum as i64).unwrap_or(0)
    }

    /// Changes that by `bytes`, modulo 2^64.
    #[inline]
    pub(crate) fn add_unflushed(&self, bytes: u64) {
        self.calls.add(|c| &c.unflushed_bytes, bytes);
    }

    /// The entries of so many bytes are in tables.
    pub(crate) fn sub_unflushed(&self, bytes: u64) {
        self.add_unflushed(bytes.wrapping_neg());
    }

    pub(crate) fn report(&self, visitor: &mut dyn MetricVisitor) {
        let calls: [(&str, CallCounter); 8] = [
            ("gets", |c| &c.gets),
            ("get_hits", |c| &c.hits),
            ("get_device_reads", |c| &c.get_reads),
            ("filter_false_positives", |c| &c.false_positives),
            ("puts", |c| &c.puts),
            ("deletes", |c| &c.deletes),
            ("user_bytes_written", |c| &c.user_bytes),
            ("log_bytes_written", |c| &c.log_bytes),
        ];
        for (name, of) in calls {
            visitor.metric(name, self.calls.sum(of) as f64);
        }
        for (name, counter) in [
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_before_its_write_was_seen_is_nothing_and_not_more_than_all() {
        let metrics = Metrics::default();
        metrics.sub_unflushed(100);
        assert_eq!(metrics.unflushed_bytes(), 0);
        metrics.add_unflushed(130);
        assert_eq!(metrics.unflushed_bytes(), 30);
    }
}
