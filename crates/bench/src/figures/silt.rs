//! The charts of the SILT paper (its Figures 9, 10 and 11), from runs on this machine.

use super::Row;
use crate::charts::{self, Panel, Series};
use crate::config::Config;
use crate::distribution::{Chooser, Moment};
use crate::driver::Observer;
use crate::plan::Plan;
use crate::report::Report;
use crate::store::{run, with_filled_store, with_scratch};
use crate::workload::Workload;
use silica::{EngineExt, Keyspace, OpenOptions, Result};
use silica_base::{Histogram, Prng};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Gets of the latency chart.
const LATENCY_GETS: u64 = 20_000;
const STORES: [(&str, &str); 3] = [
    ("log store", "gets_from_log_store"),
    ("hash store", "gets_from_hash_store"),
    ("sorted store", "gets_from_sorted_store"),
];

/// Draws all three figures into `out`; the rows, and the files.
///
/// # Errors
/// Those of the store, and of writing files.
pub fn draw(config: &Config, out: &Path, observer: &mut Observer<'_>) -> Result<Drawn> {
    let figures: [Figure; 3] = [throughput, index_memory, latency];
    // They are of its stores and their conversions.
    let config = Config { open: config.open.clone().engine("silt"), ..config.clone() };
    let (mut rows, mut files) = Drawn::default();
    for figure in figures {
        let (found, file) = figure(&config, out, observer)?;
        rows.extend(found);
        files.push(file);
    }
    Ok((rows, files))
}

/// Rows, and the files with their charts.
type Drawn = (Vec<Row>, Vec<PathBuf>);
type Figure = fn(&Config, &Path, &mut Observer<'_>) -> Result<(Vec<Row>, PathBuf)>;

/// Figure 9: gets per second while one thread inserts and stores convert and merge.
fn throughput(
    config: &Config,
    out: &Path,
    observer: &mut Observer<'_>,
) -> Result<(Vec<Row>, PathBuf)> {
    let workload = *Workload::find("timeline")?;
    let threads = config.plan.threads.max(2);
    let plan = Plan { workload, threads, ..config.plan.clone() };
    let config = Config { plan, ..config.clone() };
    let report = with_scratch(&config, |config| run(config, observer))?;
    let file = out.join("figure-9-gets-while-merging.svg");
    charts::draw(&charts::throughput_panels(&report.samples), &file)?;
    let row = |metric: &str, value, paper: Option<f64>| {
        Row::new("figure-9", "silt", metric, value, paper)
    };
    let rows = vec![
        row("gets/s while one thread inserts", report.gets_per_second, Some(33_000.0)),
        row("inserts/s", report.puts_per_second, Some(3000.0)),
        row("conversions", report.conversions as f64, None),
        row("merges", report.merges as f64, None),
        row("longest call, ms", report.max_us / 1000.0, None),
    ];
    Ok((rows, file))
}

/// Figure 10: memory of the indexes while keys are inserted, for four combinations of stores.
fn index_memory(
    config: &Config,
    out: &Path,
    observer: &mut Observer<'_>,
) -> Result<(Vec<Row>, PathBuf)> {
    let (mut panels, mut lines, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for stores in Stores::ALL {
        let name = stores.name();
        let plan = Plan {
            workload: *Workload::find("fill")?,
            operations: config.plan.keys,
            ..config.plan.clone()
        };
        let filled = Config { plan, open: stores.options(config), ..config.clone() };
        let report = with_scratch(&filled, |config| run(config, observer))?;
        let title = format!("{name}: {}", bytes_per_key(&report));
        lines.push(Series::new(name, per_key(config, &report)));
        panels.push(charts::memory_panel(&title, &report.samples));
        let paper = (stores == Stores::All).then_some(0.69);
        let bytes = report.index_bytes_per_key;
        rows.push(Row::new("figure-10", name, "bytes of index a key", bytes, paper));
        let longest = report.max_us / 1000.0;
        rows.push(Row::new("figure-10", name, "inserts/s", report.throughput_ops, None));
        rows.push(Row::new("figure-10", name, "longest put, ms", longest, None));
    }
    panels.push(Panel::lines(
        "Bytes of index per key",
        "million keys inserted",
        "bytes per key",
        lines,
    ));
    let file = out.join("figure-10-index-memory.svg");
    charts::draw(&panels, &file)?;
    Ok((rows, file))
}

/// Which kinds of store hold entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stores {
    LogOnly,
    LogAndSorted,
    LogAndHash,
    All,
}

impl Stores {
    const ALL: [Stores; 4] =
        [Stores::LogOnly, Stores::LogAndSorted, Stores::LogAndHash, Stores::All];

    pub(super) fn name(self) -> &'static str {
        match self {
            Stores::LogOnly => "log store only",
            Stores::LogAndSorted => "log and sorted",
            Stores::LogAndHash => "log and hash",
            Stores::All => "all three",
        }
    }

    /// Options with which a store of the keys of `config` never has the other kinds.
    pub(super) fn options(self, config: &Config) -> OpenOptions {
        let plan = &config.plan;
        let entry_bytes = (plan.shape.key_bytes + plan.shape.value_bytes + 32) as u64;
        let log_bytes = (2 * plan.keys * entry_bytes).max(64 << 20);
        let open = config.open.clone().engine("silt").memory_bytes(log_bytes * 4);
        match self {
            // Half as many slots again as keys, in blocks of 16384 slots, so that nothing is
            // converted.
            Stores::LogOnly => open
                .set("partitions", "1")
                .set("log_store_block_buckets_log2", "12")
                .set(
                    "log_store_blocks",
                    (plan.keys * 3 / 2).div_ceil(16384).clamp(1, 4096).to_string(),
                )
                .set("log_bytes_max", log_bytes.to_string()),
            Stores::LogAndSorted => {
                open.set("hash_stores_min", "1").set("merge_ratio_percent", "1")
            }
            Stores::LogAndHash => {
                open.set("hash_stores_min", "1024").set("hash_stores_max", "4096")
            }
            Stores::All => open,
        }
    }
}

/// The tables of the first keys are made for many more; that is not the subject.
fn per_key(config: &Config, report: &Report) -> Vec<(f64, f64)> {
    let enough = config.plan.keys as f64 / 10.0;
    let samples = report.samples.iter().filter(|s| s.entries > enough);
    samples.map(|s| (s.entries / 1e6, s.index_bytes / s.entries)).collect()
}

fn bytes_per_key(report: &Report) -> String {
    format!(
        "{:.2} bytes per key at the end, {:.0} inserts a second",
        report.index_bytes_per_key, report.throughput_ops
    )
}

/// Figure 11: latency of gets by the store that answered, which the engine's counters tell: one
/// get at a time, no background work.
fn latency(
    config: &Config,
    out: &Path,
    observer: &mut Observer<'_>,
) -> Result<(Vec<Row>, PathBuf)> {
    let workload = *Workload::find("read")?;
    let open = config.open.clone().background_threads(0);
    // Without settling, all three stores hold keys.
    let plan = Plan { workload, ..config.plan.clone() };
    let config = Config { plan, open, settle: false, ..config.clone() };
    let (all, by_store) = with_scratch(&config, |config| {
        with_filled_store(config, observer, |keyspace| sort_by_store(config, keyspace))
    })?;
    let micro = |h: &Histogram, q| h.quantile(q) as f64 / 1000.0;
    let named = STORES.iter().map(|(name, _)| *name).zip(&by_store);
    let mut panels = Vec::new();
    for (title, quantile) in [("median", 0.5), ("99th percentile", 0.99)] {
        let mut series = Vec::new();
        for (i, (name, h)) in named.clone().chain([("all", &all)]).enumerate() {
            let value = if h.count() > 0 { micro(h, quantile) } else { 0.0 };
            let label = format!("{name}: {value:.1} us ({} gets)", h.count());
            series.push(Series::new(&label, [(i as f64 + 0.5, value)]));
        }
        let title = format!("Latency of a get by the store that answered, {title}");
        let mut panel = Panel::lines(&title, "store", "microseconds", series);
        panel.bars = true;
        panels.push(panel);
    }
    let file = out.join("figure-11-latency-by-store.svg");
    charts::draw(&panels, &file)?;
    let mut rows = Vec::new();
    for (name, times) in named.chain([("all", &all)]).filter(|(_, times)| times.count() > 0) {
        // The paper names two of its means.
        let paper = match name {
            "log store" => Some(309.0),
            "all" => Some(367.0),
            _ => None,
        };
        let mean = times.mean() / 1000.0;
        rows.push(Row::new("figure-11", name, "us of a get, mean", mean, paper));
        rows.push(Row::new("figure-11", name, "us of a get, median", micro(times, 0.5), None));
        rows.push(Row::new("figure-11", name, "us of a get, 99 %", micro(times, 0.99), None));
    }
    Ok((rows, file))
}

fn sort_by_store(config: &Config, keyspace: &Keyspace) -> Result<(Histogram, [Histogram; 3])> {
    let chooser = Chooser::new(config.plan.distribution, config.plan.keys);
    let mut prng = Prng::new(config.plan.seed);
    let mut key = Vec::new();
    let mut all = Histogram::default();
    let mut by_store: [Histogram; 3] = Default::default();
    let mut before = keyspace.metrics()?;
    for _ in 0..LATENCY_GETS.min(4 * config.plan.keys) {
        config.plan.key(chooser.draw(&mut prng, Moment::default()), &mut key);
        let started = Instant::now();
        keyspace.engine().get(&key)?;
        let took = started.elapsed().as_nanos() as u64;
        let after = keyspace.metrics()?;
        all.record(took);
        for (histogram, (_, counter)) in by_store.iter_mut().zip(STORES) {
            if after.get(counter) > before.get(counter) {
                histogram.record(took);
            }
        }
        before = after;
    }
    Ok((all, by_store))
}
