//! LevelDB and RocksDB themselves (Figures 4.3, 4.13 and 4.17 of Lim's chapter 4): what they write
//! for each byte put, by data volume, by level sizes, and by which table is compacted next.

use super::job::{Job, Scheme, Stores, driven, scheme};
use super::sheet::Sheet;
use crate::verbs::measured::{level_bytes_tenfold_and_optimised, write_calls};
use silica::Result;
use silica_bench::{Distribution, Plan, Target, fill};
use silica_bench_compare::Setup;
use std::time::Instant;

/// Items of 1 kB of a full run; the paper has up to 10 million.
const KEYS: f64 = 3.2e6;
const KEYS_MIN: u64 = 2000;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 984;
/// Shares of the data in Figure 4.3, which has 1 to 10 GB.
const PARTS: [u64; 4] = [8, 4, 2, 1];
/// Rounds of overwriting that are measured.
const ROUNDS: u64 = 2;
const BATCH: usize = 32;
/// Memory of a store, as a part of its data, so that levels have many tables.
const MEMORY_SHARE: u64 = 50;
const MEMORY_MIN: u64 = 1 << 20;
const MEMORY_MAX: u64 = 64 << 20;

const fn rocksdb(name: &'static str, priority: Option<&'static str>) -> Scheme {
    Scheme { name, peer: "rocksdb", set: &[], priority }
}

/// RocksDB 3.9, which the paper measured, took the largest table; since 3.10 the one that overlaps
/// least of the next level is the default.
const LARGEST: Scheme = rocksdb("rocksdb, largest", Some("kByCompensatedSize"));
const ROUND_ROBIN: Scheme = rocksdb("rocksdb, round robin", Some("kRoundRobin"));
const PICKS: [Scheme; 5] = [
    scheme("leveldb"),
    LARGEST,
    ROUND_ROBIN,
    rocksdb("rocksdb, oldest", Some("kOldestSmallestSeqFirst")),
    rocksdb("rocksdb", None),
];

pub(super) fn add(job: &Job<'_>, sheet: &mut Sheet) -> Result<()> {
    let keys = match job.run {
        Some(_) => job.keys(KEYS, KEYS_MIN),
        None => ((KEYS * job.scale) as u64).max(KEYS_MIN),
    };
    let memory = keys * (KEY_BYTES + VALUE_BYTES) as u64 / MEMORY_SHARE;
    let stores = Stores::new(job, memory.clamp(MEMORY_MIN, MEMORY_MAX));
    figure_4_3(&stores, keys, job.seed(), sheet)?;
    figure_4_13(&stores, keys, job.seed(), sheet)?;
    figure_4_17(&stores, keys, job.seed(), sheet)
}

fn plan(keys: u64, distribution: Distribution, seed: u64) -> Result<Plan> {
    let mut plan = Plan::new("overwrite")?;
    plan.shape.key_bytes = KEY_BYTES;
    plan.shape.value_bytes = VALUE_BYTES;
    Ok(Plan { keys, operations: ROUNDS * keys, distribution, batch: BATCH, seed, ..plan })
}

/// What overwriting cost, background work included.
struct Cost {
    /// Bytes written for each byte put, the log included.
    written: f64,
    rate: f64,
}

/// Fills a store and overwrites all keys on average twice.
fn cost(stores: &Stores, scheme: &Scheme, setup: &Setup) -> Result<Cost> {
    let plan = &setup.plan;
    stores.with(scheme, setup, |target| {
        fill(plan, target, &mut |_, _| {})?;
        target.settle()?;
        overwritten(plan, target)
    })
}

fn overwritten(plan: &Plan, target: &dyn Target) -> Result<Cost> {
    let (before, started) = (write_calls()?, Instant::now());
    let run = driven(plan, target)?;
    target.catch_up()?;
    let put = run.tally.puts as f64;
    let bytes = put * (KEY_BYTES + VALUE_BYTES) as f64;
    let written = (write_calls()? - before) / bytes;
    Ok(Cost { written, rate: put / started.elapsed().as_secs_f64() })
}

const LOADS: [(&str, f64, Distribution); 2] =
    [("uniform", 0.0, Distribution::Uniform), ("zipf 0.99", 0.99, Distribution::ZIPFIAN)];

/// LevelDB's inserts a second and what it writes, by data volume.
fn figure_4_3(stores: &Stores, keys: u64, seed: u64, sheet: &mut Sheet) -> Result<()> {
    let there = stores.installed(&[scheme("leveldb")], sheet)?;
    for leveldb in there {
        for (name, _, distribution) in LOADS {
            for part in PARTS {
                let keys = keys / part;
                let plan = plan(keys, distribution, seed)?;
                let found = cost(stores, &leveldb, &stores.setup(&leveldb, &plan))?;
                let volume = keys as f64 * (KEY_BYTES + VALUE_BYTES) as f64 / 1e6;
                let metric = |what: &str| format!("{volume:.1} MB: {what}");
                sheet.add("figure-4.3", name, metric("overwrites/s"), found.rate, None);
                let metric = metric("bytes written for each byte put");
                sheet.add("figure-4.3", name, metric, found.written, None);
            }
        }
    }
    Ok(())
}

/// RocksDB with level sizes as they come and as many that the optimiser finds. LevelDB has no
/// option for them; the paper changed its source.
fn figure_4_13(stores: &Stores, keys: u64, seed: u64, sheet: &mut Sheet) -> Result<()> {
    for rocksdb in stores.installed(&[scheme("rocksdb")], sheet)? {
        for (name, _, distribution) in LOADS {
            let plan = plan(keys, distribution, seed)?;
            let mut setup = stores.setup(&rocksdb, &plan);
            let sizes = level_bytes_tenfold_and_optimised(&plan, setup.memory_bytes)?;
            let mut written = Vec::new();
            for (scheme, level_bytes) in ["tenfold", "optimised"].iter().zip(sizes) {
                setup = Setup { level_bytes, ..setup };
                let found = cost(stores, &rocksdb, &setup)?;
                let metric = format!("{name}: bytes written for each byte put");
                sheet.add("figure-4.13", format!("rocksdb, {scheme}"), metric, found.written, None);
                written.push(found.written);
            }
            // "by up to 9.4 %"
            let metric = format!("{name}: optimised, of tenfold");
            sheet.add("figure-4.13", "rocksdb", metric, written[1] / written[0], 0.906);
        }
    }
    Ok(())
}

/// Which table of a level is compacted next, in RocksDB itself and in LevelDB.
fn figure_4_17(stores: &Stores, keys: u64, seed: u64, sheet: &mut Sheet) -> Result<()> {
    let there = stores.installed(&PICKS, sheet)?;
    for (_, skew, distribution) in LOADS {
        let plan = plan(keys, distribution, seed)?;
        let mut of_picks = Vec::new();
        for scheme in &there {
            let found = cost(stores, scheme, &stores.setup(scheme, &plan))?;
            let metric = format!("{skew} zipf: bytes written for each byte put");
            sheet.add("figure-4.17", scheme.name, metric, found.written, None);
            of_picks.push((scheme.name, found.written));
        }
        let of = |name: &str| of_picks.iter().find(|pick| pick.0 == name).map(|pick| pick.1);
        if let (Some(largest), Some(round)) = (of(LARGEST.name), of(ROUND_ROBIN.name)) {
            // "by up to 32.2 %"
            let metric = format!("zipf {skew}: of the largest table's");
            sheet.add("figure-4.17", ROUND_ROBIN.name, metric, round / largest, 0.678);
        }
    }
    Ok(())
}
