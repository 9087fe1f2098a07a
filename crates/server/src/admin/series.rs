//! The series of the history, and the snapshots of counters that they are made of.

use silica::engine::{MetricVisitor, Stage};
use silica_commands::{BURST_POWERS, Service};
use std::collections::BTreeMap;

/// What is counted and held at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// When, by a clock that never goes back.
    pub(super) at_ms: u64,
    /// When, in milliseconds of Unix time.
    pub(super) unix_ms: u64,
    /// Counters of the server, by name.
    stats: BTreeMap<&'static str, u64>,
    /// Metrics of all open databases together, by name. Those of ratios mean nothing here.
    engines: BTreeMap<&'static str, f64>,
    bursts: [u64; BURST_POWERS],
    stages: (u64, [u64; Stage::ALL.len()]),
    clients: f64,
    clients_bytes: f64,
    used_bytes: f64,
    resident_bytes: f64,
    cpu_s: f64,
}

struct Sum<'s>(&'s mut BTreeMap<&'static str, f64>);

impl MetricVisitor for Sum<'_> {
    fn metric(&mut self, name: &'static str, value: f64) {
        *self.0.entry(name).or_default() += value;
    }
}

impl Snapshot {
    /// What `service` counts and holds now.
    pub(super) fn take(service: &Service) -> Self {
        let mut engines = BTreeMap::new();
        for db in 0..service.databases.count() {
            let engine = service.databases.opened(db);
            engine.iter().for_each(|engine| engine.metrics(&mut Sum(&mut engines)));
        }
        let process = service.process_seen();
        Snapshot {
            at_ms: service.monotonic_ms(),
            unix_ms: service.unix_ms(),
            stats: service.stats.list().into_iter().collect(),
            engines,
            bursts: service.burst_counts(),
            stages: service.stages_seen(),
            clients: service.client_count() as f64,
            clients_bytes: service.budget.used() as f64,
            used_bytes: process.used_bytes as f64,
            resident_bytes: process.resident_bytes as f64,
            cpu_s: process.cpu_s,
        }
    }

    fn stat(&self, name: &str) -> f64 {
        self.stats.get(name).map_or(0.0, |value| *value as f64)
    }

    fn engine(&self, name: &str) -> f64 {
        self.engines.get(name).copied().unwrap_or(0.0)
    }

    fn sum(&self, names: &[&str]) -> f64 {
        names.iter().map(|name| self.engine(name)).sum()
    }
}

/// Metrics of entry bytes that engines write to a device: the numerator of write amplification.
const WRITTEN: [&str; 6] = [
    "log_bytes_written",
    "flush_bytes_written",
    "compaction_bytes_written",
    "conversion_bytes_written",
    "merge_bytes_written",
    "value_log_bytes_written",
];

/// Metrics of writes that were slowed, or waited.
const SLOWED: [&str; 4] = [
    "writes_slowed",
    "writes_waited_for_sync",
    "writes_waited_for_segment",
    "writes_waited_for_job",
];

type Of = fn(&Snapshot) -> f64;

/// How a series comes from two snapshots.
enum How {
    /// Growth a second.
    Rate(Of),
    /// The value at the end.
    Gauge(Of),
    /// Growth of one divided by growth of the other; nothing if that did not grow.
    Quotient(Of, Of),
    /// The time in microseconds that this part of all bursts kept within.
    Percentile(f64),
    /// Microseconds of a burst of the sample that its reads spent in a stage.
    Stage(Stage),
}

/// A series of the history.
pub(super) struct Series {
    /// Its name in the answer of `/history`.
    pub(super) name: &'static str,
    how: How,
}

const fn series(name: &'static str, how: How) -> Series {
    Series { name, how }
}

use How::{Gauge, Percentile, Quotient, Rate};

/// Every series, in the order of a row.
pub(super) const SERIES: [Series; 42] = [
    series("requests", Rate(|s| s.stat("total_commands_processed"))),
    series("reads", Rate(|s| s.engine("gets"))),
    series("writes", Rate(|s| s.engine("puts") + s.engine("deletes"))),
    series("hits", Rate(|s| s.stat("keyspace_hits"))),
    series("misses", Rate(|s| s.stat("keyspace_misses"))),
    series("errors", Rate(|s| s.stat("total_error_replies"))),
    series("bytes_received", Rate(|s| s.stat("total_net_input_bytes"))),
    series("bytes_sent", Rate(|s| s.stat("total_net_output_bytes"))),
    series("evictions", Rate(|s| s.engine("evictions"))),
    series("expirations", Rate(|s| s.engine("expirations"))),
    series(
        "hit_ratio",
        Quotient(
            |s| s.stat("keyspace_hits"),
            |s| s.stat("keyspace_hits") + s.stat("keyspace_misses"),
        ),
    ),
    series("p50_us", Percentile(0.5)),
    series("p90_us", Percentile(0.9)),
    series("p99_us", Percentile(0.99)),
    series("p999_us", Percentile(0.999)),
    series("max_us", Percentile(1.0)),
    series("bursts", Rate(|s| s.bursts.iter().sum::<u64>() as f64)),
    series("stage_queue_us", How::Stage(Stage::Queue)),
    series("stage_memory_us", How::Stage(Stage::Memory)),
    series("stage_filter_us", How::Stage(Stage::Filter)),
    series("stage_index_us", How::Stage(Stage::Index)),
    series("stage_cache_us", How::Stage(Stage::Cache)),
    series("stage_device_us", How::Stage(Stage::Device)),
    series("stage_search_us", How::Stage(Stage::Search)),
    series("stage_other_us", How::Stage(Stage::Other)),
    series("cpu", Rate(|s| s.cpu_s)),
    series("clients", Gauge(|s| s.clients)),
    series("used_bytes", Gauge(|s| s.used_bytes)),
    series("resident_bytes", Gauge(|s| s.resident_bytes)),
    series("clients_bytes", Gauge(|s| s.clients_bytes)),
    series("index_bytes", Gauge(|s| s.engine("index_bytes"))),
    series("user_bytes_written", Rate(|s| s.engine("user_bytes_written"))),
    series("log_bytes_written", Rate(|s| s.engine("log_bytes_written"))),
    series("flush_bytes_written", Rate(|s| s.engine("flush_bytes_written"))),
    series(
        "compaction_bytes_written",
        Rate(|s| s.sum(&["compaction_bytes_written", "conversion_bytes_written"])),
    ),
    series(
        "merge_bytes_written",
        Rate(|s| s.sum(&["merge_bytes_written", "value_log_bytes_written"])),
    ),
    series(
        "write_amplification",
        Quotient(|s| s.sum(&WRITTEN), |s| s.engine("user_bytes_written")),
    ),
    series("slowed_writes", Rate(|s| s.sum(&SLOWED))),
    series("live_bytes", Gauge(|s| s.engine("live_bytes"))),
    series("dead_bytes", Gauge(|s| s.engine("dead_bytes"))),
    series("disk_bytes", Gauge(|s| s.engine("disk_bytes"))),
    series("entries", Gauge(|s| s.engine("entries_estimate"))),
];

impl Series {
    /// The series' value between two snapshots; not a number if nothing was counted.
    pub(super) fn value(&self, before: &Snapshot, after: &Snapshot) -> f32 {
        // A reset takes counters back to zero: what was counted since then is not known.
        let grown = |of: Of| (of(after) - of(before)).max(0.0);
        let value = match self.how {
            How::Rate(of) => {
                let seconds = after.at_ms.saturating_sub(before.at_ms) as f64 / 1000.0;
                grown(of) / seconds
            }
            How::Gauge(of) => of(after),
            How::Quotient(part, whole) => grown(part) / grown(whole),
            How::Percentile(part) => percentile(part, &before.bursts, &after.bursts),
            How::Stage(stage) => {
                let index = stage as usize;
                let bursts = after.stages.0.saturating_sub(before.stages.0) as f64;
                let spent = after.stages.1[index].saturating_sub(before.stages.1[index]) as f64;
                spent / 1000.0 / bursts
            }
        };
        match value.is_finite() {
            true => value as f32,
            false => f32::NAN,
        }
    }
}

/// Microseconds that this part of the bursts between two counts kept within. Inside a power of two
/// bursts are taken as spread evenly on a logarithmic scale, so it is right within a factor of two.
fn percentile(part: f64, before: &[u64; BURST_POWERS], after: &[u64; BURST_POWERS]) -> f64 {
    let counts: Vec<u64> = after.iter().zip(before).map(|(a, b)| a.saturating_sub(*b)).collect();
    let all: u64 = counts.iter().sum();
    let wanted = part * all as f64;
    let mut below = 0.0;
    for (power, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = *count as f64;
        if below + count >= wanted {
            let share = ((wanted - below) / count).clamp(0.0, 1.0);
            return 2_f64.powf(power as f64 - 1.0 + share).max(1.0);
        }
        below += count;
    }
    f64::NAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_in_their_power_of_two() {
        let (before, mut after) = ([5; BURST_POWERS], [5; BURST_POWERS]);
        assert!(percentile(0.5, &before, &after).is_nan(), "there were no bursts");
        // 90 bursts of 9 to 16 us, 10 of 513 to 1,024.
        (after[4], after[10]) = (95, 15);
        let of = |part| percentile(part, &before, &after);
        assert!((8.0..=16.0).contains(&of(0.5)) && of(0.5) < of(0.8), "{} {}", of(0.5), of(0.8));
        assert!((of(0.9) - 16.0).abs() < 1e-9, "{}", of(0.9));
        assert!((512.0..=1024.0).contains(&of(0.99)), "{}", of(0.99));
        assert!((of(1.0) - 1024.0).abs() < 1e-9, "{}", of(1.0));
    }

    #[test]
    fn values_come_from_what_has_grown() {
        let mut before = Snapshot { at_ms: 1000, ..Snapshot::default() };
        before.stats.insert("keyspace_hits", 100);
        before.engines.insert("user_bytes_written", 50.0);
        let mut after = Snapshot { at_ms: 3000, clients: 7.0, ..before.clone() };
        let of = |name: &str, before: &Snapshot, after: &Snapshot| {
            let series = SERIES.iter().find(|series| series.name == name).expect(name);
            series.value(before, after)
        };
        assert!(of("hit_ratio", &before, &after).is_nan(), "nothing was read");
        after.stats.extend([("keyspace_hits", 130), ("keyspace_misses", 10)]);
        after.engines.extend([("user_bytes_written", 150.0), ("log_bytes_written", 120.0)]);
        after.engines.insert("flush_bytes_written", 180.0);
        assert_eq!(of("hits", &before, &after), 15.0);
        assert_eq!(of("hit_ratio", &before, &after), 0.75);
        assert_eq!(of("write_amplification", &before, &after), 3.0);
        assert_eq!(of("clients", &before, &after), 7.0);
        let reset = Snapshot { at_ms: 4000, ..Snapshot::default() };
        assert_eq!(of("hits", &after, &reset), 0.0, "a reset came between");
    }
}
