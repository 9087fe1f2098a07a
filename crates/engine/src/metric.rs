//! The one list of metric names. `INFO`, the dashboard and the docs are made from it.

/// How a metric behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows while the store is open.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A quotient of other metrics.
    Ratio,
}

/// A metric: name (unit last), kind and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name, as shown everywhere.
    pub name: &'static str,
    /// Its behaviour.
    pub kind: MetricKind,
    /// What it counts.
    pub doc: &'static str,
}

const fn counter(name: &'static str, doc: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, doc }
}

const fn gauge(name: &'static str, doc: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, doc }
}

const fn ratio(name: &'static str, doc: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Ratio, doc }
}

/// Every metric an engine may report.
pub const METRICS: &[Metric] = &[
    counter("gets", "keys looked up"),
    counter("get_hits", "keys looked up and found"),
    counter("gets_from_log_store", "keys answered by a log store"),
    counter("gets_from_hash_store", "keys answered by a hash store"),
    counter("gets_from_sorted_store", "keys answered by the sorted store"),
    counter("get_device_reads", "device reads made for gets"),
    counter("puts", "puts applied"),
    counter("deletes", "deletes applied"),
    counter("user_bytes_written", "bytes of stored entries handed in by writes"),
    counter("log_bytes_written", "bytes of entries appended to the log"),
    counter("conversion_bytes_written", "bytes of entries written by conversions"),
    counter("merge_bytes_written", "bytes of entries written by merges"),
    counter("value_log_bytes_written", "bytes of values written to the value log, gc included"),
    counter("overwrites_in_log_store", "entries overwritten while still in a log store"),
    counter("conversions", "log stores converted to hash stores"),
    counter("converted_entries", "entries written by conversions"),
    counter("merges", "merges into a sorted store"),
    counter("merged_entries", "entries written by merges"),
    counter("flushes", "memtables written to tables"),
    counter("shared_flushes", "flushes of several buckets into one table"),
    counter("flush_bytes_written", "bytes of tables written by flushes"),
    counter("compactions", "merges of runs into one"),
    counter("compaction_bytes_written", "bytes of tables written by compactions"),
    counter("bucket_splits", "buckets split"),
    counter("bucket_joins", "small buckets joined with a neighbour"),
    counter("writes_slowed_by_flush", "writes slowed by too much in memtables"),
    counter("writes_slowed_by_compaction", "writes slowed by buckets of too many runs"),
    counter("writes_slowed_by_log", "writes slowed by a log that was too long"),
    counter("writes_slowed", "writes that did background work because maintenance was behind"),
    counter("writes_waited_for_job", "waits of writers, 5 ms at most, for background work to end"),
    counter(
        "writes_waited_for_sync",
        "syncs by writers where a segment of the log was about to end",
    ),
    counter("writes_waited_for_segment", "segments of the log that a writer had to make"),
    counter("log_segments_recycled", "segments of the log whose file was an earlier one's"),
    counter("syncs", "group commits"),
    counter("filter_false_positives", "device reads that did not find their key"),
    counter("block_cache_hits", "lookups in the block cache that found their block"),
    counter("block_cache_misses", "lookups in the block cache that did not"),
    counter("device_reads", "read operations of the device"),
    counter("device_bytes_read", "bytes read from the device"),
    counter("device_writes", "write operations of the device"),
    counter("device_bytes_written", "bytes written to the device"),
    counter("device_syncs", "syncs of the device"),
    counter("updates_in_place", "puts that overwrote the old entry where it was"),
    counter("entries_moved", "entries written anew because they were used"),
    counter("evictions", "entries that a cache dropped before they expired"),
    counter("evictions_from_log", "entries dropped because the log needed their place"),
    counter("evictions_from_index", "entries dropped because the index needed their slot"),
    counter("expirations", "entries removed because they had expired"),
    gauge("buckets", "buckets of key ranges"),
    gauge("runs", "runs of all buckets"),
    gauge("table_bytes", "bytes of all tables"),
    gauge("value_log_bytes", "bytes of the value log's segments"),
    gauge("entries_estimate", "entries in the store, estimated"),
    gauge("log_store_entries", "entries in log stores"),
    gauge("hash_store_entries", "entries in hash stores"),
    gauge("sorted_store_entries", "entries in sorted stores"),
    gauge("hash_stores", "hash stores"),
    gauge("partitions", "partitions"),
    gauge("index_bytes", "memory of all indexes and filters"),
    gauge("log_store_index_bytes", "memory of the log stores' tables"),
    gauge("hash_store_filter_bytes", "memory of the hash stores' filters"),
    gauge("sorted_store_index_bytes", "memory of the sorted stores' indexes"),
    gauge(
        "log_bytes",
        "bytes of the log's segments, spare ones included; of a memory engine, its memory",
    ),
    gauge("memtable_index_bytes", "memory of the memtables' directories"),
    gauge("table_index_bytes", "memory of the tables' indexes and filters"),
    gauge("block_cache_bytes", "memory of the block cache"),
    gauge("block_cache_bytes_max", "memory that the block cache may take"),
    gauge("memory_budget_bytes", "the memory number that the user set"),
    gauge("indexes_dropped", "indexes and filters that are left out for want of memory"),
    gauge("live_bytes", "bytes of entries that are not overwritten or deleted, estimated"),
    gauge("expired_bytes", "bytes of tables and of the value log whose entries have expired"),
    gauge("dead_bytes", "bytes of entries that were overwritten or deleted"),
    gauge("free_bytes", "bytes that a memory engine has free for entries"),
    gauge("returned_bytes", "those of them that the operating system has, in whole huge pages"),
    gauge("reserved_page_bytes", "memory in 2 MiB pages that the system had reserved"),
    gauge("management_bytes", "memory of an engine's partitions besides index and log"),
    gauge("largest_free_bytes", "the largest free piece of it, or nearly the largest"),
    gauge("disk_bytes", "bytes of all files"),
    ratio("hit_ratio", "keys found per key looked up"),
    ratio("fragmentation", "part of the free bytes that is not in the largest pieces"),
    ratio("device_reads_per_get", "device reads per key looked up"),
    ratio("device_reads_per_get_predicted", "the same, from the paper's equation 6"),
    ratio("write_amplification", "entry bytes written to the device per entry byte put"),
    ratio("write_amplification_predicted", "the same, from the paper's equation 4"),
    ratio("index_bytes_per_key", "index memory per entry"),
    ratio("index_bytes_per_key_predicted", "the same, from the paper's equation 7"),
    ratio("space_amplification", "bytes on the device per live byte"),
];

/// Receives metrics.
pub trait MetricVisitor {
    /// The metric `name` (from [`METRICS`]) has this value now.
    fn metric(&mut self, name: &'static str, value: f64);
}

/// Metrics collected by name; for tests and for printing.
#[derive(Debug, Clone, Default)]
pub struct MetricsMap(pub std::collections::BTreeMap<&'static str, f64>);

impl MetricVisitor for MetricsMap {
    fn metric(&mut self, name: &'static str, value: f64) {
        assert!(METRICS.iter().any(|m| m.name == name), "metric {name} is not in the list");
        self.0.insert(name, value);
    }
}

impl MetricsMap {
    /// The value of `name`, or 0 where the engine does not report it.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        let mut names: Vec<_> = METRICS.iter().map(|m| m.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    }
}
