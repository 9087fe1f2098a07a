//! Results as one object.

use crate::config::Config;
use crate::driver::Run;
use crate::memory::Process;
use serde::Serialize;
use serde_json::{Map, Value};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use std::collections::BTreeMap;

/// Metrics at one moment of a run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Sample {
    /// Since the run began.
    pub seconds: f64,
    /// Keys looked up so far.
    pub gets: f64,
    /// Keys put so far.
    pub puts: f64,
    /// Conversions so far.
    pub conversions: f64,
    /// Merges so far.
    pub merges: f64,
    /// Entries in the store.
    pub entries: f64,
    /// Memory of all indexes and filters.
    pub index_bytes: f64,
    /// Memory of the log stores' tables.
    pub log_store_index_bytes: f64,
    /// Memory of the hash stores' filters.
    pub hash_store_filter_bytes: f64,
    /// Memory of the sorted stores' indexes.
    pub sorted_store_index_bytes: f64,
}

impl Sample {
    /// Takes what is charted from `metrics`.
    pub fn new(seconds: f64, metrics: &MetricsMap) -> Self {
        Sample {
            seconds,
            gets: metrics.get("gets"),
            puts: metrics.get("puts"),
            conversions: metrics.get("conversions"),
            merges: metrics.get("merges"),
            entries: metrics.get("entries_estimate"),
            index_bytes: metrics.get("index_bytes"),
            log_store_index_bytes: metrics.get("log_store_index_bytes"),
            hash_store_filter_bytes: metrics.get("hash_store_filter_bytes"),
            sorted_store_index_bytes: metrics.get("sorted_store_index_bytes"),
        }
    }

    fn index_bytes_per_key(&self) -> f64 {
        if self.entries > 0.0 { self.index_bytes / self.entries } else { 0.0 }
    }
}

/// The object that `--json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the workload.
    pub workload: String,
    /// The tool's or the paper's benchmark that it reproduces.
    pub source: String,
    /// Name of the engine.
    pub engine: String,
    /// Keys in the store before the measured part.
    pub keys: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Threads that issued operations.
    pub threads: usize,
    /// `buffered` or `synced`.
    pub durability: String,
    /// Name of the distribution.
    pub distribution: String,
    /// Keys in one call.
    pub batch: usize,
    /// Operations done.
    pub operations: u64,
    /// Time they took, without drawing them and checking the answers.
    pub seconds: f64,
    /// Time by the clock on the wall, drawing and checking included.
    pub wall_seconds: f64,
    /// Operations a second.
    pub throughput_ops: f64,
    /// Gets a second.
    pub gets_per_second: f64,
    /// Puts a second.
    pub puts_per_second: f64,
    /// Median latency of a call (with all keys of its burst), in microseconds.
    pub p50_us: f64,
    /// 99th percentile of calls' latency, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of calls' latency, in microseconds.
    pub p999_us: f64,
    /// Longest call, in microseconds.
    pub max_us: f64,
    /// Median latency of calls that only read, in microseconds.
    pub read_p50_us: f64,
    /// 99th percentile of the latency of calls that only read, in microseconds.
    pub read_p99_us: f64,
    /// Keys looked up.
    pub reads: u64,
    /// Keys looked up and found.
    pub hits: u64,
    /// Keys put.
    pub puts: u64,
    /// Keys deleted.
    pub deletes: u64,
    /// Scans.
    pub scans: u64,
    /// Entries that scans gave.
    pub scanned: u64,
    /// Device reads per key looked up, in this run.
    pub device_reads_per_get: f64,
    /// Entry bytes written to the device per entry byte put: in this run, or since the store was
    /// opened where this run put nothing.
    pub write_amplification: f64,
    /// Bytes on the device per live byte, at the end.
    pub space_amplification: f64,
    /// Memory of indexes and filters per key, at the end.
    pub index_bytes_per_key: f64,
    /// Memory of indexes and filters per key, at its worst moment after the first tenth of the run.
    pub index_bytes_per_key_max: f64,
    /// Largest resident size, mapped pages of the log included.
    pub rss_bytes_max: u64,
    /// Resident bytes at the end that are not pages of files.
    pub rss_anonymous_bytes: u64,
    /// Conversions during the run.
    pub conversions: u64,
    /// Merges during the run.
    pub merges: u64,
    /// Writes that did background work because maintenance was behind.
    pub writes_slowed: u64,
    /// True where the page cache was emptied before the run, false where that was not allowed,
    /// absent without `--cold`. Reads of tables bypass the page cache in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_dropped: Option<bool>,
    /// Fingerprint of questions and answers: the same for the same arguments.
    pub result_hash: String,
    /// Every metric of the engine at the end.
    pub metrics: BTreeMap<String, f64>,
    /// Metrics over time, for charts.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// A report as the object that `--json` prints.
pub fn json_object(report: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(report) {
        Ok(Value::Object(object)) => Ok(object),
        other => {
            let message = format!("a report that is no object: {other:?}");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

const ENTRY_BYTES_WRITTEN: [&str; 6] = [
    "log_bytes_written",
    "flush_bytes_written",
    "compaction_bytes_written",
    "conversion_bytes_written",
    "merge_bytes_written",
    "value_log_bytes_written",
];

impl Report {
    pub(crate) fn new(
        config: &Config,
        engine: &str,
        run: &Run,
        before: &MetricsMap,
        after: &MetricsMap,
    ) -> Self {
        let tally = &run.tally;
        let us = |quantile| tally.latencies.quantile(quantile) as f64 / 1000.0;
        let read_us = |quantile| tally.read_latencies.quantile(quantile) as f64 / 1000.0;
        let durability = match config.plan.durability {
            Durability::Buffered => "buffered",
            Durability::Synced => "synced",
        };
        Report {
            workload: config.plan.workload.name.to_string(),
            source: config.plan.workload.source.to_string(),
            engine: engine.to_string(),
            keys: config.plan.keys,
            key_bytes: config.plan.shape.key_bytes,
            value_bytes: config.plan.shape.value_bytes,
            threads: config.plan.threads,
            durability: durability.to_string(),
            distribution: config.plan.distribution.name().to_string(),
            batch: config.plan.batch,
            operations: tally.operations,
            seconds: run.seconds,
            wall_seconds: run.wall_seconds,
            throughput_ops: tally.operations as f64 / run.seconds,
            gets_per_second: tally.reads as f64 / run.seconds,
            puts_per_second: tally.puts as f64 / run.seconds,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: tally.latencies.max() as f64 / 1000.0,
            read_p50_us: read_us(0.5),
            read_p99_us: read_us(0.99),
            reads: tally.reads,
            hits: tally.hits,
            puts: tally.puts,
            deletes: tally.deletes,
            scans: tally.scans,
            scanned: tally.scanned,
            device_reads_per_get: share(
                delta(before, after, "get_device_reads"),
                delta(before, after, "gets"),
            ),
            write_amplification: write_amplification(before, after),
            space_amplification: after.get("space_amplification"),
            index_bytes_per_key: share(after.get("index_bytes"), after.get("entries_estimate")),
            index_bytes_per_key_max: worst_index(run),
            rss_bytes_max: Process::This.peak_bytes(),
            rss_anonymous_bytes: Process::This.anonymous_bytes(),
            conversions: delta(before, after, "conversions") as u64,
            merges: delta(before, after, "merges") as u64,
            writes_slowed: delta(before, after, "writes_slowed") as u64,
            page_cache_dropped: None,
            result_hash: format!("{:016x}", tally.result_hash()),
            metrics: silica_base::compact_map(after.0.iter().map(|(n, v)| ((*n).to_string(), *v))),
            samples: run.samples.clone(),
        }
    }

    /// The report as lines for people.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{} on {}: {} operations in {:.2} s, {:.0} a second\n",
            self.workload, self.engine, self.operations, self.seconds, self.throughput_ops
        );
        out += &format!(
            "latency       p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, max {:.0} us\n",
            self.p50_us, self.p99_us, self.p999_us, self.max_us
        );
        // A table under SQL counts none of this.
        if self.space_amplification == 0.0 && self.index_bytes_per_key == 0.0 {
            let mib = self.rss_bytes_max as f64 / f64::from(1 << 20);
            return out
                + &format!(
                    "memory        {mib:.1} MiB resident\nresult hash   {}\n",
                    self.result_hash
                );
        }
        out += &format!(
            "amplification {:.3} device reads per get, {:.2} bytes written per byte, {:.2} bytes \
             stored per live byte\n",
            self.device_reads_per_get, self.write_amplification, self.space_amplification
        );
        out += &format!(
            "memory        {:.3} bytes of index per key ({:.3} at worst), {:.1} MiB resident\n",
            self.index_bytes_per_key,
            self.index_bytes_per_key_max,
            self.rss_bytes_max as f64 / f64::from(1 << 20)
        );
        out + &format!(
            "background    {} conversions, {} merges, {} writes slowed\nresult hash   {}\n",
            self.conversions, self.merges, self.writes_slowed, self.result_hash
        )
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn write_amplification(before: &MetricsMap, after: &MetricsMap) -> f64 {
    let put = delta(before, after, "user_bytes_written");
    if put > 0.0 {
        ENTRY_BYTES_WRITTEN.iter().map(|name| delta(before, after, name)).sum::<f64>() / put
    } else {
        after.get("write_amplification")
    }
}

/// The first entries of a store have tables that were made for many more.
fn worst_index(run: &Run) -> f64 {
    let from = run.wall_seconds / 10.0;
    let samples = run.samples.iter().filter(|s| s.seconds >= from);
    samples.map(Sample::index_bytes_per_key).fold(0.0, f64::max)
}

/// Difference of a counter.
fn delta(before: &MetricsMap, after: &MetricsMap, name: &str) -> f64 {
    after.get(name) - before.get(name)
}
