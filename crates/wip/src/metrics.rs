//! Counters.

use crate::dead::unneeded_bytes;
use crate::wip::Wip;
use silica_device::Device;
use silica_engine::MetricVisitor;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Event counters of one store; relaxed, since nothing is decided by them.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) gets: AtomicU64,
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

impl<D: Device> Wip<D> {
    /// Reports what there is of buckets and tables.
    pub(crate) fn report_buckets(&self, visitor: &mut dyn MetricVisitor) {
        let waits = &self.log.waits;
        for (name, counter) in [
            ("writes_waited_for_sync", &waits.syncs),
            ("writes_waited_for_segment", &waits.segments),
        ] {
            visitor.metric(name, counter.load(Ordering::Relaxed) as f64);
        }
        visitor.metric("log_segments_recycled", self.log.recycled() as f64);
        let buckets = self.buckets();
        let (mut runs, mut live, mut dead, mut tables) = (0, 0, 0, BTreeMap::new());
        // An entry of a memtable may be another version of one in a table.
        let mut entries = 0;
        let over_ms = self.over_ms();
        let versions = buckets.iter().map(|bucket| bucket.read().version.clone());
        let versions: Vec<_> = versions.collect();
        let unneeded = unneeded_bytes(&versions);
        for (bucket, version) in buckets.iter().zip(&versions) {
            let stores = bucket.read();
            let shape = version.shape_at(over_ms);
            let frozen = stores.frozen.iter().map(|frozen| frozen.memtable.len());
            entries += shape.live_keys() + (stores.active.len() + frozen.sum::<usize>()) as u64;
            drop(stores);
            runs += version.runs.len() as u64;
            live += shape.live_bytes();
            dead += shape.dead_bytes() + version.unneeded_bytes(&unneeded);
            for part in version.runs.iter().flatten() {
                tables.insert(part.table.number, part.table.table.file_bytes());
            }
        }
        let (values, live_values) = self.values.bytes();
        let table_bytes = tables.values().sum();
        let disk = table_bytes + self.log.file_bytes() + values;
        for (name, value) in [
            ("buckets", buckets.len() as u64),
            ("runs", runs),
            ("live_bytes", live + live_values),
            ("dead_bytes", dead + values - live_values),
            ("table_bytes", table_bytes),
            ("value_log_bytes", values),
            ("disk_bytes", disk),
            ("entries_estimate", entries),
        ] {
            visitor.metric(name, value as f64);
        }
        let m = &self.metrics;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let written = [&m.log_bytes, &m.flush_bytes, &m.compaction_bytes, &m.value_log_bytes];
        let written = written.map(load).iter().sum();
        for (name, part, whole) in [
            ("device_reads_per_get", load(&m.get_reads), load(&m.gets)),
            ("write_amplification", written, load(&m.user_bytes)),
            ("space_amplification", disk, live + live_values),
        ] {
            let ratio = if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
            visitor.metric(name, ratio);
        }
    }
}
