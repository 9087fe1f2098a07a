//! What metrics are, and those that engines have in common. `INFO`, the dashboard and the docs are
//! made from these and from those of each engine's spec.

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

impl Metric {
    /// One that only grows while the store is open.
    pub const fn counter(name: &'static str, doc: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Counter, doc }
    }

    /// One that goes up and down.
    pub const fn gauge(name: &'static str, doc: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Gauge, doc }
    }

    /// A quotient of others.
    pub const fn ratio(name: &'static str, doc: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Ratio, doc }
    }
}

/// Metrics that several engines report, or that others count on. Those of one engine stand in its
/// [`crate::EngineSpec`].
pub const COMMON_METRICS: &[Metric] = &[
    Metric::counter("gets", "keys looked up"),
    Metric::counter("get_hits", "keys looked up and found"),
    Metric::counter("get_device_reads", "device reads made for gets"),
    Metric::counter("puts", "puts applied"),
    Metric::counter("deletes", "deletes applied"),
    Metric::counter("user_bytes_written", "bytes of stored entries handed in by writes"),
    Metric::counter("log_bytes_written", "bytes of entries appended to the log"),
    Metric::counter(
        "value_log_bytes_written",
        "bytes of values written to the value log, gc included",
    ),
    Metric::counter(
        "writes_slowed",
        "writes that did background work because maintenance was behind",
    ),
    Metric::counter(
        "writes_waited_for_sync",
        "syncs by writers where a segment of the log was about to end",
    ),
    Metric::counter("writes_waited_for_segment", "segments of the log that a writer had to make"),
    Metric::counter("log_segments_recycled", "segments of the log whose file was an earlier one's"),
    Metric::counter("syncs", "group commits"),
    Metric::gauge(
        "write_lifetimes",
        "classes of lifetimes of files that the kernel is told of; 0 if it does not listen",
    ),
    Metric::counter("short_lived_bytes_written", "bytes written of the shortest lifetime: logs"),
    Metric::counter(
        "medium_lived_bytes_written",
        "bytes written of the lifetime between: young tables, hash stores",
    ),
    Metric::counter(
        "long_lived_bytes_written",
        "bytes written of the longest lifetime: the oldest tables, separated values, sorted stores",
    ),
    Metric::counter("filter_false_positives", "device reads that did not find their key"),
    Metric::counter("evictions", "entries that a cache dropped before they expired"),
    Metric::gauge("entries_estimate", "entries in the store, estimated"),
    Metric::gauge("partitions", "partitions"),
    Metric::gauge("index_bytes", "memory of all indexes and filters"),
    Metric::gauge(
        "log_bytes",
        "bytes of the log's segments, spare ones included; of a memory engine, its memory",
    ),
    Metric::gauge("memory_budget_bytes", "the memory number that the user set"),
    Metric::gauge("indexes_dropped", "indexes and filters that are left out for want of memory"),
    Metric::gauge("live_bytes", "bytes of entries that are not overwritten or deleted, estimated"),
    Metric::gauge("dead_bytes", "bytes of entries that were overwritten or deleted"),
    Metric::gauge("disk_bytes", "bytes of all files"),
    Metric::ratio("device_reads_per_get", "device reads per key looked up"),
    Metric::ratio("write_amplification", "entry bytes written to the device per entry byte put"),
    Metric::ratio("index_bytes_per_key", "index memory per entry"),
    Metric::ratio("space_amplification", "bytes on the device per live byte"),
];

/// Receives metrics.
pub trait MetricVisitor {
    /// The metric `name`, one of [`COMMON_METRICS`] or of the engine's spec, has this value now.
    fn metric(&mut self, name: &'static str, value: f64);
}

/// Metrics collected by name; for tests and for printing.
#[derive(Debug, Clone, Default)]
pub struct MetricsMap(pub std::collections::BTreeMap<&'static str, f64>);

impl MetricVisitor for MetricsMap {
    fn metric(&mut self, name: &'static str, value: f64) {
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
        let mut names: Vec<_> = COMMON_METRICS.iter().map(|m| m.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    }
}
