//! What the SILT paper has beside its three figures: gets by kind of store (Table 7), the highest
//! insert rate that merging sustains, index memory under skew and by number of keys.

use super::Row;
use super::silt::Stores;
use crate::config::Config;
use crate::distribution::Distribution;
use crate::driver::{Observer, drive};
use crate::plan::Plan;
use crate::report::{Report, Sample};
use crate::store::{run, with_filled_store, with_scratch};
use crate::workload::Workload;
use silica::{Keyspace, Result};

/// Table 7: gets that hit and gets that miss, by the kind of store that holds most entries. The
/// share of the hits that it answered stands beside.
///
/// # Errors
/// Those of the store.
pub fn table_7(config: &Config, observer: &mut Observer<'_>) -> Result<Vec<Row>> {
    // Stores, whether background work is waited for, who answers, the paper's hits and misses.
    let kinds = [
        ("LogStore", Stores::LogOnly, false, "gets_from_log_store", (46_790.0, 7_086_000.0)),
        ("HashStore", Stores::LogAndHash, false, "gets_from_hash_store", (44_930.0, 7_264_000.0)),
        ("SortedStore", Stores::All, true, "gets_from_sorted_store", (46_570.0, 46_610.0)),
    ];
    let mut rows = Vec::new();
    for (scheme, stores, settle, counter, (hits, misses)) in kinds {
        for (workload, metric, paper) in
            [("read", "gets/s, hit", hits), ("read-missing", "gets/s, miss", misses)]
        {
            let plan = Plan { workload: *Workload::find(workload)?, ..config.plan.clone() };
            let open = match stores {
                Stores::LogOnly => stores.options(config),
                // Small logs, so that nearly all entries get behind them.
                _ => stores.options(config).memory_bytes(small_memory(&config.plan)),
            };
            let config = Config { plan, open, settle, ..config.clone() };
            let report = with_scratch(&config, |config| run(config, observer))?;
            rows.push(Row::new("table-7", scheme, metric, report.throughput_ops, paper));
            if workload == "read" {
                let all: f64 = kinds.iter().map(|kind| metric_of(&report, kind.3)).sum();
                let own = metric_of(&report, counter) / all.max(1.0);
                rows.push(Row::new("table-7", scheme, "share of the hits", own, None));
            }
        }
    }
    Ok(rows)
}

/// Memory whose logs hold a small part of the keys of `plan`.
fn small_memory(plan: &Plan) -> u64 {
    let entry_bytes = (plan.shape.key_bytes + plan.shape.value_bytes) as u64;
    (plan.keys * entry_bytes / MEMORY_SHARE).max(1 << 20)
}

/// Bytes of entries for each byte of such memory.
const MEMORY_SHARE: u64 = 32;

fn metric_of(report: &Report, name: &str) -> f64 {
    report.metrics.get(name).copied().unwrap_or_default()
}

/// A trial ends with its time.
const OPERATIONS_MAX: u64 = 1 << 40;
/// Steps of the search for a rate; each halves what is left of the interval.
const STEPS: u32 = 6;
/// A rate is sustained if so much of it was reached and no write had to help with merging.
const REACHED: f64 = 0.97;

/// The highest rate of overwrites that conversion and merging keep up with, by bisection between
/// none and what an unpaced run reaches. A rate is sustained if a run of `seconds` reaches 97 % of
/// it, writers never had to do background work, and no more hash stores wait than before.
///
/// # Errors
/// Those of the store.
pub fn sustained_rate(
    config: &Config,
    seconds: f64,
    observer: &mut Observer<'_>,
) -> Result<Vec<Row>> {
    let plan = Plan { workload: *Workload::find("overwrite")?, ..config.plan.clone() };
    let open = config.open.clone().engine("silt");
    let config = Config { plan, open, settle: true, ..config.clone() };
    let (unpaced, sustained, longest_ms) = with_scratch(&config, |config| {
        with_filled_store(config, observer, |keyspace| search(&config.plan, keyspace, seconds))
    })?;
    let row = |metric: &str, value, paper: Option<f64>| {
        Row::new("section-6.1", "silt", metric, value, paper)
    };
    Ok(vec![
        row("overwrites/s, unpaced", unpaced, None),
        row("overwrites/s that merging sustains", sustained, Some(23_000.0)),
        row("longest put at that rate, ms", longest_ms, None),
    ])
}

/// The rate of an unpaced run, the highest that was sustained, and its longest put in ms.
fn search(plan: &Plan, keyspace: &Keyspace, seconds: f64) -> Result<(f64, f64, f64)> {
    let trial = |rate: u64| -> Result<(f64, bool, f64)> {
        keyspace.settle()?;
        let before = keyspace.metrics()?;
        // Each rate has draws of its own.
        let seed = plan.seed + rate;
        let plan =
            Plan { rate, seed, seconds_max: seconds, operations: OPERATIONS_MAX, ..plan.clone() };
        let run = drive(&plan, keyspace, "overwrite", &mut |_, _| {})?;
        let after = keyspace.metrics()?;
        let reached = run.tally.puts as f64 / run.wall_seconds;
        let helped = after.get("writes_slowed") - before.get("writes_slowed");
        // Half a merge may be under way: more than twice as many say that it falls behind.
        let is_behind = after.get("hash_stores") > 2.0 * before.get("hash_stores") + 8.0;
        let keeps_up = reached >= REACHED * rate as f64 && helped == 0.0 && !is_behind;
        Ok((reached, keeps_up, run.tally.latencies.max() as f64 / 1e6))
    };
    let (unpaced, _, _) = trial(0)?;
    let (mut low, mut high, mut longest_ms) = (0.0, unpaced, 0.0);
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        let (_, keeps_up, longest) = trial((middle as u64).max(1))?;
        match keeps_up {
            true => (low, longest_ms) = (middle, longest),
            false => high = middle,
        }
    }
    Ok((unpaced, low, longest_ms))
}

/// Bytes of index for a key while zipfian (0.99) overwrites go on, mean and most of the second half
/// of the run, and of uniform ones beside it. The paper's model has 0.56 under skew
/// (dissertation, 4.5).
///
/// # Errors
/// Those of the store.
pub fn index_under_skew(config: &Config, observer: &mut Observer<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let cases =
        [("zipfian", Distribution::ZIPFIAN, Some(0.56)), ("uniform", Distribution::Uniform, None)];
    for (scheme, distribution, paper) in cases {
        let plan = Plan {
            workload: *Workload::find("overwrite")?,
            distribution,
            operations: 4 * config.plan.keys,
            ..config.plan.clone()
        };
        let open = config.open.clone().engine("silt");
        let config = Config { plan, open, settle: true, ..config.clone() };
        let report = with_scratch(&config, |config| run(config, observer))?;
        let half = report.wall_seconds / 2.0;
        let late = report.samples.iter().filter(|sample| sample.seconds >= half);
        let bytes: Vec<f64> = late.filter_map(bytes_of_key).collect();
        let mean = bytes.iter().sum::<f64>() / bytes.len().max(1) as f64;
        let most = bytes.iter().copied().fold(0.0, f64::max);
        let mut add = |metric: &str, value, paper: Option<f64>| {
            rows.push(Row::new("section-4.5", scheme, metric, value, paper));
        };
        add("bytes of index a key, mean", mean, paper);
        add("bytes of index a key, most", most, None);
        add("bytes written for each byte put", report.write_amplification, None);
    }
    Ok(rows)
}

fn bytes_of_key(sample: &Sample) -> Option<f64> {
    (sample.entries > 0.0).then(|| sample.index_bytes / sample.entries)
}

/// Bytes of index for a key by the number of keys, for each of `memories`: what a store allocates
/// for its tables is there from the first key on.
///
/// # Errors
/// Those of the store.
pub fn index_by_keys(
    config: &Config,
    memories: &[u64],
    observer: &mut Observer<'_>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &memory_bytes in memories {
        let plan = Plan {
            workload: *Workload::find("fill")?,
            operations: config.plan.keys,
            ..config.plan.clone()
        };
        let open = config.open.clone().engine("silt").memory_bytes(memory_bytes);
        let config = Config { plan, open, ..config.clone() };
        let report = with_scratch(&config, |config| run(config, observer))?;
        let scheme = format!("memory {} MiB", memory_bytes >> 20);
        for part in [16.0, 8.0, 4.0, 2.0, 1.0] {
            let keys = (config.plan.keys as f64 / part).floor();
            let reached = report.samples.iter().find(|sample| sample.entries >= keys);
            let Some(bytes) = reached.or(report.samples.last()).and_then(bytes_of_key) else {
                continue;
            };
            let metric = format!("{keys:.0} keys: bytes of index a key");
            rows.push(Row::new("index-by-keys", scheme.clone(), metric, bytes, None));
        }
        let is_small = |sample: &&Sample| bytes_of_key(sample).is_some_and(|bytes| bytes < 1.0);
        // 0 if it was never so small.
        let from = report.samples.iter().find(is_small).map_or(0.0, |sample| sample.entries);
        let metric = "keys from which on a key has under a byte";
        rows.push(Row::new("index-by-keys", scheme, metric, from, None));
    }
    Ok(rows)
}
