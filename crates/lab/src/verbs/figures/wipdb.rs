//! `silica bench figures wipdb`: chapter 2 of Zhao's dissertation, beside RocksDB and LevelDB.

use super::course::{course, slice, thinned};
use super::job::{Job, Scheme, Stores, driven, rate, scheme};
use super::sheet::{Drawing, Sheet, drawing};
use super::wipdb_reads;
use silica::{Error, Result};
use silica_bench::{Plan, Target, fill};
use silica_bench_compare::find;
use std::path::Path;
use std::time::Instant;

/// Entries of 16 + 100 bytes of a full run; the paper has up to 8 billion.
const KEYS: f64 = 16e6;
const KEYS_MIN: u64 = 10_000;
const ENTRY_BYTES: u64 = 116;
/// Memory of a store, as a part of its data: the paper's 64 GB for 900.
const MEMORY_SHARE: u64 = 8;
const MEMORY_MIN: u64 = 4 << 20;
/// Puts for each key: the paper's requests are uniform, some keys come more than once.
const PUTS_OF_KEY: u64 = 4;
/// What a run of puts is expected to reach a second, for the slices of its curve.
const PUTS_RATE: f64 = 400_000.0;
const POINTS: usize = 20;
/// Buckets of Figure 2.9.
const BUCKETS: [&str; 5] = ["1", "16", "64", "256", "800"];
/// Levels and split ratio of the paper: WA is at most L_max + N / (N - 1), without the log.
const LEVELS_MAX: f64 = 3.0;
const SPLIT: f64 = 8.0;
/// The bound on write amplification, with the log.
const BOUND: f64 = LEVELS_MAX + SPLIT / (SPLIT - 1.0) + 1.0;
/// The highest that the paper measured, without the log, and its puts a second.
#[allow(clippy::approx_constant)] // Measured; it is not pi.
const PAPER_WA: f64 = 3.14;
const PAPER_RATE: f64 = 0.8e6;

const OURS: &str = "silica:wip";
/// In the order of the paper's numbers below.
const RIVALS: [&str; 3] = [OURS, "rocksdb", "leveldb"];
/// Workload, keys for each operation, and the paper's 99th percentiles in us.
const YCSB: [(&str, u64, [f64; 3]); 6] = [
    ("ycsb-a", 2, [349.0, 237.0, 253.0]),
    ("ycsb-b", 2, [344.0, 241.0, 342.0]),
    ("ycsb-c", 2, [343.0, 241.0, 328.0]),
    ("ycsb-f", 2, [351.0, 248.0, 364.0]),
    ("ycsb-d", 2, [323.0, 241.0, 341.0]),
    ("ycsb-e", 20, [1133.0, 638.0, 688.0]),
];
/// A workload ends with its operations, or after so long.
const SECONDS: f64 = 10.0;
const WA: &str = "bytes written for each byte put";
const DRAWINGS: [Drawing; 6] = [
    Drawing {
        file: "figure-2.6a",
        metric: "puts/s",
        ..drawing("figure-2.6", "Random writes", "entries put", "puts a second")
    },
    Drawing {
        file: "figure-2.6b",
        metric: WA,
        ..drawing(
            "figure-2.6",
            "Write amplification over time, the log included",
            "entries put",
            WA,
        )
    },
    Drawing {
        file: "figure-2.7",
        metric: "puts/s",
        ..drawing("figure-2.7", "Changing distribution of keys", "entries put", "puts a second")
    },
    Drawing {
        file: "figure-2.7-buckets",
        metric: "buckets",
        ..drawing("figure-2.7", "Buckets of a store that began with one", "entries put", "buckets")
    },
    Drawing {
        file: "figure-2.9-restart",
        metric: "ms of an opening",
        x_powers: true,
        ..drawing("figure-2.9", "Opening by number of buckets", "buckets", "ms")
    },
    Drawing {
        file: "figure-2.9-log",
        metric: "MiB of log",
        x_powers: true,
        ..drawing("figure-2.9", "Log by number of buckets", "buckets", "MiB")
    },
];

/// Everything that is drawn of the chapter.
pub(super) fn sheet(job: &Job<'_>) -> Result<Sheet> {
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    sheet.drawings.extend(wipdb_reads::DRAWINGS);
    let keys = job.keys(KEYS, KEYS_MIN);
    let memory = (keys * ENTRY_BYTES / MEMORY_SHARE).max(MEMORY_MIN);
    let stores = Stores::new(job, memory);
    let run = Runs { stores: &stores, keys, seed: job.seed() };
    let schemes = RIVALS.map(scheme);
    let there = stores.installed(&schemes, &mut sheet)?;
    for scheme in &there {
        if !job.begins(&format!("figures 2.6 and 2.11: {}", scheme.name), &mut sheet)? {
            return Ok(sheet);
        }
        run.figure_2_6(scheme, &mut sheet)?;
    }
    for scheme in &there {
        if !job.begins(&format!("figure 2.7: {}", scheme.name), &mut sheet)? {
            return Ok(sheet);
        }
        run.figure_2_7(scheme, &mut sheet)?;
    }
    if !job.begins("figure 2.8 and table 2.1: reads", &mut sheet)? {
        return Ok(sheet);
    }
    wipdb_reads::add(&stores, (keys, job.seed()), &mut sheet)?;
    for buckets in BUCKETS {
        if !job.begins(&format!("figure 2.9: {buckets} buckets"), &mut sheet)? {
            return Ok(sheet);
        }
        run.figure_2_9(buckets, &mut sheet)?;
    }
    for scheme in &there {
        if !job.begins(&format!("figure 2.10 and table 2.2: {}", scheme.name), &mut sheet)? {
            return Ok(sheet);
        }
        run.figure_2_10(scheme, &mut sheet)?;
    }
    sheet.remark(
        "adaptive against fixed memtables: the engine has no switch for it; example memtables of \
         silica-bench measures both kinds alone (figure 2.3)",
    );
    Ok(sheet)
}

struct Runs<'a> {
    stores: &'a Stores,
    keys: u64,
    seed: u64,
}

impl Runs<'_> {
    /// Random writes into an empty store: rate and write amplification over time, files in the end
    /// (Figure 2.11).
    fn figure_2_6(&self, scheme: &Scheme, sheet: &mut Sheet) -> Result<()> {
        let operations = PUTS_OF_KEY * self.keys;
        let plan = Plan::new("fillrandom")?;
        let plan = Plan { keys: self.keys, operations, seed: self.seed, ..plan };
        let setup = self.stores.setup(scheme, &plan);
        let points = self.stores.with(scheme, &setup, |target| {
            let points = course(&plan, target, slice(&plan, PUTS_RATE, POINTS as f64))?;
            target.settle()?;
            files(&setup.directory, scheme, sheet)?;
            Ok(points)
        })?;
        let is_ours = scheme.name == OURS;
        for point in thinned(&points, POINTS) {
            let at = |what: &str| format!("{:.0} entries: {what}", point.puts);
            sheet.add("figure-2.6", scheme.name, at("puts/s"), point.puts_rate, None);
            sheet.add("figure-2.6", scheme.name, at(WA), point.written, None);
            if is_ours {
                sheet.add("figure-2.6", "bound", at(WA), BOUND, None);
            }
        }
        let mean = points.last().map_or(0.0, |point| point.puts / point.seconds.max(1e-9));
        sheet.add(
            "figure-2.6",
            scheme.name,
            "mean of all puts/s",
            mean,
            is_ours.then_some(PAPER_RATE),
        );
        if is_ours {
            let most = points.iter().map(|point| point.written_tables).fold(0.0, f64::max);
            let metric = "most bytes of tables written for each byte put";
            sheet.add("figure-2.6", OURS, metric, most, PAPER_WA);
        }
        Ok(())
    }

    /// New keys whose distribution changes three times, from one bucket on.
    fn figure_2_7(&self, scheme: &Scheme, sheet: &mut Sheet) -> Result<()> {
        let plan = Plan::new("wipdb-regions")?;
        let plan = Plan { keys: self.keys, operations: self.keys, seed: self.seed, ..plan };
        let points = self.stores.with(scheme, &self.stores.setup(scheme, &plan), |target| {
            course(&plan, target, slice(&plan, PUTS_RATE, POINTS as f64))
        })?;
        for point in thinned(&points, POINTS) {
            let at = |what: &str| format!("{:.0} entries: {what}", point.puts);
            sheet.add("figure-2.7", scheme.name, at("puts/s"), point.puts_rate, None);
            if scheme.name == OURS {
                sheet.add("figure-2.7", scheme.name, at("buckets"), point.buckets, None);
            }
        }
        let written = points.last().map_or(0.0, |point| point.written);
        sheet.add("figure-2.7", scheme.name, format!("in all: {WA}"), written, None);
        Ok(())
    }

    /// Log and opening after a fill that nobody flushed, by the buckets that a store begins with.
    fn figure_2_9(&self, buckets: &'static str, sheet: &mut Sheet) -> Result<()> {
        let set: [(&str, &str); 1] = [("first_buckets", buckets)];
        let plan = Plan { keys: self.keys, seed: self.seed, ..Plan::new("fill")? };
        let mut setup = self.stores.setup(&scheme(OURS), &plan);
        setup.set = set.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        std::fs::create_dir_all(&setup.directory)
            .map_err(|e| Error::io("creating a store's directory", e))?;
        let peer = find(OURS)?;
        let target = peer.open(&setup)?;
        fill(&plan, &*target, &mut |_, _| {})?;
        let log = target.metrics()?.get("log_bytes");
        drop(target);
        let started = Instant::now();
        let target = peer.open(&setup)?;
        let ms = started.elapsed().as_secs_f64() * 1000.0;
        drop(target);
        let _ = std::fs::remove_dir_all(&setup.directory);
        let at = |what: &str| format!("{buckets} buckets: {what}");
        sheet.add("figure-2.9", OURS, at("MiB of log"), log / f64::from(1 << 20), None);
        sheet.add("figure-2.9", OURS, at("ms of an opening"), ms, None);
        Ok(())
    }

    /// YCSB's workloads in its own order: rates (Figure 2.10), 99th percentiles (Table 2.2). E,
    /// whose scans would meet what D inserted, has a store of its own.
    fn figure_2_10(&self, scheme: &Scheme, sheet: &mut Sheet) -> Result<()> {
        for loads in [&YCSB[..5], &YCSB[5..]] {
            let plan = Plan { keys: self.keys, ..Plan::new(loads[0].0)? };
            self.stores.filled(scheme, &plan, |target| {
                loads.iter().try_for_each(|load| self.ycsb(scheme, load, target, sheet))
            })?;
        }
        Ok(())
    }

    fn ycsb(
        &self,
        scheme: &Scheme,
        (load, share, papers): &(&str, u64, [f64; 3]),
        target: &dyn Target,
        sheet: &mut Sheet,
    ) -> Result<()> {
        let operations = (self.keys / share).max(1);
        let plan = Plan::new(load)?;
        let plan =
            Plan { keys: self.keys, operations, seed: self.seed, seconds_max: SECONDS, ..plan };
        target.settle()?;
        let run = driven(&plan, target)?;
        let name = load.to_uppercase();
        let us = run.tally.latencies.quantile(0.99) as f64 / 1000.0;
        sheet.add("figure-2.10", scheme.name, format!("{name}: operations/s"), rate(&run), None);
        let of = RIVALS.iter().position(|rival| *rival == scheme.name);
        let paper = of.map(|of| papers[of]);
        sheet.add("table-2.2", scheme.name, format!("{name}: 99 %, us"), us, paper);
        Ok(())
    }
}

/// Sizes of Figure 2.11, in MiB.
const SIZES: [(u64, &str); 5] = [
    (1, "under 1 MiB"),
    (4, "1 to 4 MiB"),
    (16, "4 to 16 MiB"),
    (64, "16 to 64 MiB"),
    (0, "64 MiB and more"),
];

/// Files by size.
fn files(directory: &Path, scheme: &Scheme, sheet: &mut Sheet) -> Result<()> {
    let mut counts = [0.0; SIZES.len()];
    let mut below = vec![directory.to_path_buf()];
    while let Some(directory) = below.pop() {
        let failed = |e| Error::io(format!("listing {}", directory.display()), e);
        for entry in std::fs::read_dir(&directory).map_err(failed)?.flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => below.push(entry.path()),
                Ok(metadata) => {
                    let is_in = |size: &(u64, &str)| size.0 == 0 || metadata.len() < size.0 << 20;
                    counts[SIZES.iter().position(is_in).unwrap_or(SIZES.len() - 1)] += 1.0;
                }
                // A file that a compaction just removed is no file of the store.
                Err(_) => {}
            }
        }
    }
    for ((_, name), count) in SIZES.iter().zip(counts) {
        sheet.add("figure-2.11", scheme.name, format!("files of {name}"), count, None);
    }
    Ok(())
}
