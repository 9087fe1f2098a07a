//! Whether `silica tune` picks what measures best: runs workloads of the instrument on every engine
//! that can do them, asks the models which is best, and says how far their pick is behind.
//!
//! `cargo run --release -p silica-bench --example tune_check -- DIR [keys=N] [seconds=N]
//! [rounds=N] [warm=N] [only=NAME]` probes DIR, and makes stores in DIR/ways.
//!
//! All ways to do a case are filled, settled and warm before they are measured, in turns: `rounds`
//! times for `seconds` each, after writing for `warm` seconds where the case writes.
//!
//! Predictions are of a steady state, so rounds that write go on until half of the memory was
//! put, for several times `seconds` at most. Of all rounds the best counts, as what else the
//! machine does only takes away. With `toy=1` everything is small: it shows that it runs, and
//! measures nothing.
//!
//! Time in which callers wanted a core and other work of the machine had it is taken off, as far
//! as all cores together could have done what was done: so a busy machine measures nearly what an
//! idle one does.
//!
//! A line has the case, the pick's part of the best, the machine's load, and the ways, the pick
//! first: operations a second as measured (in brackets by the clock alone) and as predicted, what
//! they are predicted to be limited by, microseconds of the processor for each operation (of the
//! best round, background and all) and what is written for each byte put, again as measured and
//! predicted.
#![allow(clippy::disallowed_methods)] // A benchmark starts itself and reads the clock.

use silica::tune::recommend::{
    Needs, Prediction, Question, Resource, describe, predict, recommend,
};
use silica::tune::{Access, Machine, Workload};
use silica::{
    DEFAULT_KEYSPACE, Durability, Keyspace, OpenOptions, OptionValues, ProbeOptions, Registry,
    Result, Silica,
};
use silica_bench::{Distribution, Pace, Plan, Slice, drive_slices, fill};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A workload of the instrument, and the same in words.
struct Case {
    workload: &'static str,
    distribution: &'static str,
    value_bytes: usize,
    threads: usize,
    batch: usize,
    memory_mib: u64,
    /// Of the keys that were asked for, in percent.
    keys_percent: u64,
    words: &'static str,
}

const fn case(
    workload: &'static str,
    distribution: &'static str,
    memory_mib: u64,
    words: &'static str,
) -> Case {
    Case {
        workload,
        distribution,
        value_bytes: 100,
        threads: 1,
        batch: 1,
        memory_mib,
        keys_percent: 100,
        words,
    }
}

const GETS: &str = "gets=1";
const MISSES: &str = "misses=1";
const PUTS: &str = "puts=1";
const HALF: &str = "gets=1 puts=1";
const MOSTLY: &str = "gets=95 puts=5";
const VOLATILE: &str = "gets=1 puts=1 volatile";

const CASES: [Case; 20] = [
    case("read", "uniform", 32, GETS),
    case("read", "zipfian", 32, GETS),
    Case { batch: 32, ..case("read", "uniform", 32, GETS) },
    Case { threads: 4, ..case("read", "uniform", 32, GETS) },
    case("read", "uniform", 1024, GETS),
    Case { value_bytes: 1000, keys_percent: 25, ..case("read", "uniform", 32, GETS) },
    case("read-missing", "uniform", 32, MISSES),
    case("read-missing", "uniform", 256, MISSES),
    case("overwrite", "uniform", 32, PUTS),
    case("overwrite", "zipfian", 32, PUTS),
    case("overwrite", "uniform", 1024, PUTS),
    Case { value_bytes: 1000, keys_percent: 25, ..case("overwrite", "uniform", 32, PUTS) },
    Case { batch: 32, ..case("overwrite", "uniform", 256, PUTS) },
    case("ycsb-a", "zipfian", 32, HALF),
    case("ycsb-a", "uniform", 256, HALF),
    case("ycsb-b", "zipfian", 32, MOSTLY),
    case("ycsb-b", "zipfian", 256, MOSTLY),
    Case { keys_percent: 10, ..case("ycsb-e", "zipfian", 64, "scans=95 inserts=5 scan=50") },
    Case { keys_percent: 25, ..case("ycsb-a", "zipfian", 1024, VOLATILE) },
    Case { batch: 32, keys_percent: 25, ..case("read", "uniform", 1024, "gets=1 volatile") },
];

/// With fewer keys nothing is measured.
const TOY_KEYS: u64 = 10_000;

struct Args {
    directory: PathBuf,
    keys: u64,
    seconds: f64,
    warm: f64,
    rounds: u64,
    only: String,
}

impl Args {
    fn read() -> Self {
        let mut args = std::env::args().skip(1);
        let directory = args.next().expect("tune_check DIR [keys=N] [seconds=N] [toy=1]").into();
        let mut all = Args {
            directory,
            keys: 500_000,
            seconds: 1.0,
            warm: 1.0,
            rounds: 3,
            only: String::new(),
        };
        for pair in args {
            let (name, value) = pair.split_once('=').expect("NAME=VALUE");
            let number = || value.parse::<f64>().expect("a number");
            match name {
                "keys" => all.keys = number() as u64,
                "rounds" => all.rounds = number() as u64,
                "seconds" => all.seconds = number(),
                "warm" => all.warm = number(),
                "only" => all.only = value.to_string(),
                "toy" => (all.keys, all.seconds, all.warm, all.rounds) = (2000, 0.01, 0.01, 1),
                _ => panic!("no argument '{name}'"),
            }
        }
        all
    }

    fn machine(&self) -> Result<Machine> {
        std::fs::create_dir_all(&self.directory).expect("the directory");
        if let Some(machine) = silica::kept_probe(&self.directory)? {
            return Ok(machine);
        }
        let defaults = ProbeOptions::default();
        let small = self.keys < TOY_KEYS;
        let options = ProbeOptions {
            seconds: if small { 0.5 } else { defaults.seconds },
            file_bytes: if small { 4 << 20 } else { defaults.file_bytes },
            memory_bytes: if small { 4 << 20 } else { defaults.memory_bytes },
            ..defaults
        };
        let machine = silica::probe(&self.directory, &options, |_, _| {})?;
        silica::keep_probe(&self.directory, &machine)?;
        Ok(machine)
    }
}

impl Case {
    fn keys(&self, args: &Args) -> u64 {
        args.keys * self.keys_percent / 100
    }

    fn described(&self, args: &Args) -> Result<(Workload, Needs)> {
        let (mut workload, needs) = describe(&format!(
            "keys={} value={} {} uniform memory={}MiB threads={} burst={}",
            self.keys(args),
            self.value_bytes,
            self.words,
            self.memory_mib,
            self.threads,
            self.batch
        ))?;
        if self.distribution != "uniform" {
            workload.access = Access::Groups(self.popularity(args));
        }
        Ok((workload, needs))
    }

    /// The popularity that the instrument draws by: groups of keys, with the requests they get.
    fn popularity(&self, args: &Args) -> Vec<(f64, f64)> {
        // Keys that are as popular within so much are one group.
        const ALIKE: f64 = 0.98;
        let distribution = Distribution::parse(self.distribution).expect("a distribution");
        let mut shares = distribution.shares(self.keys(args)).expect("it has a formula");
        // Some are never drawn.
        shares.iter_mut().for_each(|share| *share = share.max(1e-15));
        shares.sort_by(|a, b| b.total_cmp(a));
        let mut groups: Vec<(f64, f64)> = Vec::new();
        let mut first = f64::INFINITY;
        for share in shares {
            match groups.last_mut() {
                Some((keys, requests)) if share >= ALIKE * first => {
                    *keys += 1.0;
                    *requests += share;
                }
                _ => {
                    first = share;
                    groups.push((1.0, share));
                }
            }
        }
        groups
    }

    fn plan(&self, args: &Args) -> Result<Plan> {
        let mut plan = Plan::new(self.workload)?;
        plan.keys = self.keys(args);
        plan.shape.value_bytes = self.value_bytes;
        plan.threads = self.threads;
        plan.batch = self.batch;
        plan.operations = 1 << 40;
        plan.durability = Durability::Buffered;
        plan.distribution = Distribution::parse(self.distribution).expect("a distribution");
        Ok(plan)
    }

    fn writes(&self) -> bool {
        !self.workload.starts_with("read")
    }

    /// Bytes after which what is put was written again as often as it ever is.
    fn put_min(&self, args: &Args) -> f64 {
        const PART_OF_MEMORY: f64 = 0.5;
        let is_toy = args.keys < TOY_KEYS;
        if is_toy || !self.writes() { 0.0 } else { PART_OF_MEMORY * (self.memory_mib << 20) as f64 }
    }

    fn name(&self) -> String {
        let Case { workload, distribution, value_bytes, threads, batch, memory_mib, .. } = self;
        format!("{workload} {distribution} {value_bytes}B t{threads} b{batch} {memory_mib}MiB")
    }
}

/// One way to do a case: an open store.
struct Way {
    engine: &'static str,
    options: OptionValues,
    predicted: Prediction,
    store: Silica,
    keyspace: Keyspace,
    /// The best of all rounds.
    best: Round,
}

/// What a round came to.
#[derive(Clone, Copy, Default)]
struct Round {
    /// Operations a second, waiting for other work of the machine left out.
    throughput: f64,
    /// Operations a second by the clock.
    by_the_clock: f64,
    /// Seconds of the processor for an operation.
    processor: f64,
    /// Bytes written for each byte put.
    written: f64,
}

/// Seconds of this process so far.
#[derive(Clone, Copy, Default)]
struct Scheduled {
    /// All threads had a core.
    processor: f64,
    /// Callers wanted a core and had none.
    callers_wanted: f64,
}

impl Scheduled {
    fn now() -> Self {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let own = read("/proc/self/comm".into());
        let own_number = std::process::id().to_string();
        let tasks = std::fs::read_dir("/proc/self/task").expect("its threads");
        let mut all = Scheduled::default();
        for task in tasks.flatten() {
            let number = task.file_name().to_string_lossy().into_owned();
            let text = read(format!("/proc/self/task/{number}/schedstat"));
            let mut seconds = text.split_whitespace().map(|ns| ns.parse().unwrap_or(0.0) / 1e9);
            all.processor += seconds.next().unwrap_or(0.0);
            // Callers have the name of the process, and other threads names of their own.
            let name = read(format!("/proc/self/task/{number}/comm"));
            if name == own && number != own_number {
                all.callers_wanted += seconds.next().unwrap_or(0.0);
            }
        }
        all
    }
}

/// A run that goes on until it was long enough, and what it came to.
struct Turn<'k> {
    keyspace: &'k Keyspace,
    seconds: f64,
    put_min: f64,
    put_at_start: f64,
    begun: Scheduled,
    sum: Slice,
    scheduled: Scheduled,
}

/// A round is at most so many times as long as it was asked to be.
const LONGER_MAX: f64 = 12.0;
const SLICE_SECONDS: f64 = 0.1;

impl Pace for Turn<'_> {
    fn next(&mut self) -> Result<Option<Duration>> {
        let took = self.sum.wall_seconds;
        let put = bytes_written(self.keyspace)?.1 - self.put_at_start;
        let is_long = took >= self.seconds && put >= self.put_min;
        if is_long || took >= LONGER_MAX * self.seconds {
            return Ok(None);
        }
        self.begun = Scheduled::now();
        Ok(Some(Duration::from_secs_f64(self.seconds.min(SLICE_SECONDS))))
    }

    fn done(&mut self, slice: &Slice) -> Result<()> {
        let now = Scheduled::now();
        self.scheduled.processor += now.processor - self.begun.processor;
        self.scheduled.callers_wanted += now.callers_wanted - self.begun.callers_wanted;
        self.sum.operations += slice.operations;
        self.sum.seconds += slice.seconds;
        self.sum.wall_seconds += slice.wall_seconds;
        Ok(())
    }

    fn sample(&mut self, _: f64) {}
}

/// Bytes of entries that were written, and that were put.
fn bytes_written(keyspace: &Keyspace) -> Result<(f64, f64)> {
    const WRITTEN: [&str; 6] = [
        "log_bytes_written",
        "flush_bytes_written",
        "compaction_bytes_written",
        "conversion_bytes_written",
        "merge_bytes_written",
        "value_log_bytes_written",
    ];
    let metrics = keyspace.metrics()?;
    let written = WRITTEN.iter().map(|name| metrics.get(name)).sum();
    Ok((written, metrics.get("user_bytes_written")))
}

impl Way {
    fn open(
        case: &Case,
        args: &Args,
        place: &Path,
        engine: &'static str,
        options: OptionValues,
        predicted: Prediction,
    ) -> Result<Self> {
        let mut open = OpenOptions::new().engine(engine).memory_bytes(case.memory_mib << 20);
        let registry = Registry::builtin();
        let spec = registry.find(engine)?;
        for (name, value) in options.iter() {
            let spec = spec.options.iter().find(|spec| spec.name == name);
            open = open.set(name, spec.expect("it is in the table").show(value));
        }
        let store = open.seed([7; 16]).open(place)?;
        let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
        let plan = case.plan(args)?;
        fill(&plan, &keyspace, &mut |_, _| {})?;
        keyspace.settle()?;
        let mut way = Way { engine, options, predicted, store, keyspace, best: Round::default() };
        way.run(&plan, args.warm, case.put_min(args))?;
        Ok(way)
    }

    /// Runs `plan` for `seconds` and until `put_min` bytes were put.
    fn run(&mut self, plan: &Plan, seconds: f64, put_min: f64) -> Result<Round> {
        let (written, put) = bytes_written(&self.keyspace)?;
        let mut turn = Turn {
            keyspace: &self.keyspace,
            seconds,
            put_min,
            put_at_start: put,
            begun: Scheduled::default(),
            sum: Slice::default(),
            scheduled: Scheduled::default(),
        };
        drive_slices(plan, &self.keyspace, &mut turn)?;
        let Turn { sum, scheduled, .. } = turn;
        let (written_now, put_now) = bytes_written(&self.keyspace)?;
        let operations = (sum.operations as f64).max(1.0);
        let threads = plan.threads as f64;
        // Callers wanted a core as often within measured parts as between them.
        let with_core = 1.0 - scheduled.callers_wanted / threads / sum.wall_seconds.max(1e-9);
        let with_core = with_core.clamp(0.0, 1.0);
        // What the driver itself takes is not the engine's.
        let driver = (sum.wall_seconds - sum.seconds) * threads * with_core;
        let processor = (scheduled.processor - driver).max(0.0);
        let alone = sum.seconds * with_core;
        Ok(Round {
            throughput: operations
                / alone.max(processor / cores()).clamp(1e-9, sum.seconds.max(1e-9)),
            by_the_clock: operations / sum.seconds,
            processor: processor / operations,
            written: if put_now > put { (written_now - written) / (put_now - put) } else { 0.0 },
        })
    }

    /// One turn of the case.
    fn turn(&mut self, case: &Case, args: &Args) -> Result<()> {
        let plan = case.plan(args)?;
        if case.writes() {
            // A store that rested has room that it does not have while it is written.
            self.run(&plan, args.warm, case.put_min(args))?;
        }
        let round = self.run(&plan, args.seconds, case.put_min(args))?;
        if round.throughput > self.best.throughput {
            self.best = round;
        }
        // What is left to do would take from the others' turns.
        self.keyspace.settle()
    }

    fn row(&self) -> String {
        let options = self.options.iter().map(|(name, value)| format!(" {name}={value}"));
        let Prediction { resources, throughput, .. } = &self.predicted;
        let processor = resources.iter().find(|(r, _)| *r == Resource::Processor);
        format!(
            "{}{}: {:.0} [{:.0}] ({throughput:.0}, {}), {:.2} us ({:.2}), {:.2} written ({:.2})",
            self.engine,
            options.collect::<String>(),
            self.best.throughput,
            self.best.by_the_clock,
            self.predicted.bottleneck().name(),
            1e6 * self.best.processor,
            processor.map_or(0.0, |(_, seconds)| 1e6 * seconds * cores()),
            self.best.written,
            self.predicted.written(),
        )
    }
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get()) as f64
}

/// Processes that want a core, on average of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_string()
}

/// What a case came to: the pick's part of the best of the pick and every engine as it comes.
fn check(case: &Case, args: &Args, machine: &Machine) -> Result<f64> {
    let (workload, needs) = case.described(args)?;
    let candidates = Registry::builtin().candidates();
    let question = Question::new(&workload, machine, needs, &candidates);
    let found = recommend(&question)?;
    let pick = &found.choice;
    let place = args.directory.join("ways");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("DIR/ways");
    let open = |engine, options: OptionValues, predicted, number: usize| {
        Way::open(case, args, &place.join(number.to_string()), engine, options, predicted)
    };
    let mut ways = vec![open(pick.engine, pick.values(), pick.prediction.clone(), 0)?];
    let excluded = |engine| found.excluded.iter().any(|excluded| excluded.engine == engine);
    for candidate in candidates.iter().filter(|candidate| !excluded(candidate.engine)) {
        let (engine, mut options) = (candidate.engine, OptionValues::default());
        if engine == "mica" {
            options.set("eviction", 3);
        }
        if engine != pick.engine || options != ways[0].options {
            let predicted = predict(&question, engine, &options)?;
            ways.push(open(engine, options, predicted, ways.len())?);
        }
    }
    for _ in 0..args.rounds {
        ways.iter_mut().try_for_each(|way| way.turn(case, args))?;
    }
    let best = ways.iter().map(|way| way.best.throughput).fold(0.0, f64::max);
    let part = ways[0].best.throughput / best;
    let rows: Vec<String> = ways.iter().map(Way::row).collect();
    println!("{} | {:.0} % | load {} | {}", case.name(), 100.0 * part, load(), rows.join("; "));
    for way in ways {
        drop(way.keyspace);
        way.store.close()?;
    }
    Ok(part)
}

fn main() -> Result<()> {
    let args = Args::read();
    let machine = args.machine()?;
    let mut parts = Vec::new();
    for case in CASES.iter().filter(|case| case.name().contains(&args.only)) {
        parts.push(check(case, &args, &machine)?);
    }
    let _ = std::fs::remove_dir_all(args.directory.join("ways"));
    let good = parts.iter().filter(|part| **part >= 0.9).count();
    println!("{good} of {} picks are within 10 % of the best that was measured", parts.len());
    Ok(())
}
