//! Reports of what was counted, and the model's prediction beside each measured amplification.

use crate::counters::{Gets, get};
use crate::partition::Partition;
use crate::silt::Silt;
use crate::sizes::Sizes;
use silica_device::{Device, Lifetime};
use silica_engine::MetricVisitor;
use std::sync::atomic::{AtomicU64, Ordering};

impl<D: Device> Silt<D> {
    pub(crate) fn report_metrics(&self, visitor: &mut dyn MetricVisitor) {
        let sizes = self.partitions.sizes();
        self.report_counters(visitor);
        self.report_sizes(&sizes, visitor);
        self.report_ratios(&sizes, visitor);
    }

    fn report_counters(&self, visitor: &mut dyn MetricVisitor) {
        let m = &self.ground.metrics;
        let sum = |of: fn(&Gets) -> &AtomicU64| m.gets.sum(of) as f64;
        let [log, hash, sorted] =
            [sum(|g| &g.hits_log), sum(|g| &g.hits_hash), sum(|g| &g.hits_sorted)];
        let device = self.ground.device.counters().snapshot();
        let lifetimes = self.ground.device.takes_lifetimes().then_some(Lifetime::ALL.len());
        let [short_lived, medium_lived, long_lived] = device.bytes_of_lifetime;
        for (name, value) in [
            ("gets", sum(|g| &g.gets)),
            ("get_hits", log + hash + sorted),
            ("gets_from_log_store", log),
            ("gets_from_hash_store", hash),
            ("gets_from_sorted_store", sorted),
            ("get_device_reads", sum(|g| &g.reads)),
            ("puts", get(&m.puts)),
            ("deletes", get(&m.deletes)),
            ("user_bytes_written", get(&m.user_bytes)),
            ("log_bytes_written", get(&m.user_bytes)),
            ("conversion_bytes_written", get(&m.conversion_bytes)),
            ("merge_bytes_written", get(&m.merge_bytes)),
            ("value_log_bytes_written", get(&m.value_log_bytes)),
            ("overwrites_in_log_store", get(&m.overwrites_in_log_store)),
            ("conversions", get(&m.conversions)),
            ("converted_entries", get(&m.converted_entries)),
            ("merges", get(&m.merges)),
            ("merged_entries", get(&m.merged_entries)),
            ("writes_slowed", get(&m.writes_slowed)),
            ("writes_waited_for_sync", get(&self.journal.log.waits.syncs)),
            ("writes_waited_for_segment", get(&self.journal.log.waits.segments)),
            ("log_segments_recycled", self.journal.log.recycled() as f64),
            ("syncs", get(&self.journal.log.syncs)),
            ("write_lifetimes", lifetimes.unwrap_or(0) as f64),
            ("short_lived_bytes_written", short_lived as f64),
            ("medium_lived_bytes_written", medium_lived as f64),
            ("long_lived_bytes_written", long_lived as f64),
            ("filter_false_positives", sum(|g| &g.false_positives)),
            ("device_reads", device.reads as f64),
            ("device_bytes_read", device.bytes_read as f64),
            ("device_writes", device.writes as f64),
            ("device_bytes_written", device.bytes_written as f64),
            ("device_syncs", device.syncs as f64),
        ] {
            visitor.metric(name, value);
        }
    }

    fn report_sizes(&self, sizes: &Sizes, visitor: &mut dyn MetricVisitor) {
        let count = self.partitions.count_from(sizes);
        let expired_bytes = self.partitions.view_expired().stored.bytes();
        for (name, value) in [
            ("entries_estimate", count.estimate),
            ("log_store_entries", sizes.log_store_entries),
            ("hash_store_entries", sizes.hash_store_entries),
            ("sorted_store_entries", sizes.sorted_store_entries),
            ("hash_stores", sizes.hash_stores),
            ("partitions", self.partitions.len() as u64),
            ("index_bytes", sizes.index_bytes()),
            ("log_store_index_bytes", sizes.log_store_index_bytes),
            ("hash_store_filter_bytes", sizes.hash_store_filter_bytes),
            ("sorted_store_index_bytes", sizes.sorted_store_index_bytes),
            ("indexes_dropped", sizes.indexes_dropped),
            ("log_bytes", self.journal.log.file_bytes()),
            ("memory_budget_bytes", self.ground.memory_bytes()),
            ("live_bytes", self.live_bytes(sizes)),
            ("expired_bytes", expired_bytes),
            ("disk_bytes", self.disk_bytes(sizes)),
        ] {
            visitor.metric(name, value as f64);
        }
    }

    fn report_ratios(&self, sizes: &Sizes, visitor: &mut dyn MetricVisitor) {
        let m = &self.ground.metrics;
        let gets = |of: fn(&Gets) -> &AtomicU64| m.gets.sum(of) as f64;
        let written = get(&m.user_bytes) + get(&m.conversion_bytes) + get(&m.merge_bytes);
        let per = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let entries = self.partitions.count_from(sizes).estimate as f64;
        let predicted = self.predict(sizes);
        for (name, value) in [
            ("device_reads_per_get", per(gets(|g| &g.reads), gets(|g| &g.gets))),
            ("device_reads_per_get_predicted", predicted.reads_per_get),
            ("write_amplification", per(written, get(&m.user_bytes))),
            ("write_amplification_predicted", predicted.write_amplification),
            ("index_bytes_per_key", per(sizes.index_bytes() as f64, entries)),
            ("index_bytes_per_key_predicted", predicted.index_bytes_per_key),
            (
                "space_amplification",
                per(self.disk_bytes(sizes) as f64, self.live_bytes(sizes) as f64),
            ),
        ] {
            visitor.metric(name, value);
        }
    }

    /// Bytes of entries that are neither overwritten nor expired, estimated from the mean entry.
    fn live_bytes(&self, sizes: &Sizes) -> u64 {
        let in_tables = sizes.hash_store_entries + sizes.sorted_store_entries;
        let (bytes, entries) = match in_tables {
            0 => {
                let m = &self.ground.metrics;
                let writes = m.puts.load(Ordering::Relaxed) + m.deletes.load(Ordering::Relaxed);
                (m.user_bytes.load(Ordering::Relaxed), writes)
            }
            _ => (sizes.table_entry_bytes, in_tables),
        };
        let mean = bytes as f64 / entries.max(1) as f64;
        let newest = (mean * self.partitions.count_from(sizes).estimate as f64) as u64;
        let expired = self.partitions.view_expired().stored.bytes();
        (newest + self.journal.values.bytes().1).saturating_sub(expired)
    }

    fn disk_bytes(&self, sizes: &Sizes) -> u64 {
        sizes.table_file_bytes + self.journal.log.file_bytes() + self.journal.values.bytes().0
    }
}

/// What the paper's model says for the parameters and sizes now.
pub(crate) struct Prediction {
    pub(crate) reads_per_get: f64,
    pub(crate) write_amplification: f64,
    pub(crate) index_bytes_per_key: f64,
}

impl<D: Device> Silt<D> {
    /// Equations 4, 6 and 7 of the SILT paper (section 5). Where the paper counts 1/0.93 writes
    /// for a conversion this engine counts 1: empty slots are not written. Equation 4 is for
    /// steady updates that maintenance keeps up with; a writer that outruns it gathers more
    /// entries for each merge than `merge_ratio_percent` says, and so writes less.
    fn predict(&self, sizes: &Sizes) -> Prediction {
        let slots = |p: &Partition<D>| u64::from(p.read().active.slots());
        let slots = self.partitions.iter().map(slots).sum::<u64>() as f64;
        let tag_bits = self.ground.config.shape.tag_bits;
        let partitions = self.partitions.len() as f64;
        let entries = self.partitions.count_from(sizes).estimate.max(1) as f64;
        let per_store = 0.93 * slots / partitions;
        let ratio = self.ground.config.merge_ratio_percent as f64 / 100.0;
        // d: entries merged at once in one partition.
        let merged_at_once = (ratio * entries / partitions)
            .max(per_store * self.ground.config.hash_stores_min as f64);
        let false_positive = 8.0 * 0.93 / f64::from(1u32 << tag_bits);
        let mean_hash_stores = merged_at_once / 2.0 / per_store;
        let tag_bytes = f64::from(tag_bits) / 8.0;
        let log_index = 6.0 * slots;
        let filters = tag_bytes / 0.93 * merged_at_once / 2.0 * partitions;
        let merged = sizes.sorted_store_entries > 0;
        Prediction {
            reads_per_get: 1.0 + (1.0 + mean_hash_stores) * false_positive,
            write_amplification: if merged {
                2.0 + entries / (merged_at_once * partitions)
            } else {
                2.0
            },
            index_bytes_per_key: (log_index + filters) / entries + self.sorted_bytes_per_key(sizes),
        }
    }

    fn sorted_bytes_per_key(&self, sizes: &Sizes) -> f64 {
        match sizes.sorted_store_entries {
            0 => 0.0,
            n => sizes.sorted_store_index_bytes as f64 / n as f64,
        }
    }
}
