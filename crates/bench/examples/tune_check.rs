//! Whether `silica tune` picks what measures best: runs workloads of the instrument on every engine
//! that can do them, asks the models which is best, and says how far their pick is behind.
//!
//! `cargo run --release -p silica-bench --example tune_check -- DIR [keys=N] [seconds=N]
//! [rounds=N] [warm=N] [only=NAME]` probes DIR, and makes stores in DIR/ways.
//!
//! All ways to do a case are filled, settled and warm before they are measured, in turns: `rounds`
//! times for `seconds` each, after writing for `warm` seconds where the case writes. Of all rounds
//! the best counts, as what else the machine does only takes away. With `toy=1` everything is
//! small: it shows that it runs, and measures nothing.
//!
//! A line has the case, the pick's part of the best, the machine's load, and the ways, the pick
//! first: operations a second as measured and as predicted, what they are predicted to be limited
//! by, microseconds of the processor for each operation (of the best round, background and all)
//! and what is written for each byte put, again as measured and predicted.
#![allow(clippy::disallowed_methods)] // A benchmark starts itself and reads the clock.

use silica::tune::recommend::{
    Needs, Prediction, Question, Resource, describe, predict, recommend,
};
use silica::tune::{Machine, Workload};
use silica::{
    DEFAULT_KEYSPACE, Durability, Keyspace, OpenOptions, OptionValues, ProbeOptions, Registry,
    Result, Silica,
};
use silica_bench::{Distribution, Plan, drive, fill};
use std::path::{Path, PathBuf};

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
        let small = self.keys < 10_000;
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
        let access = if self.distribution == "zipfian" { "zipf=0.99" } else { "uniform" };
        describe(&format!(
            "keys={} value={} {} {access} memory={}MiB threads={} burst={}",
            self.keys(args),
            self.value_bytes,
            self.words,
            self.memory_mib,
            self.threads,
            self.batch
        ))
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
    /// Operations a second.
    throughput: f64,
    /// Seconds of the processor for an operation.
    processor: f64,
    /// Bytes written for each byte put.
    written: f64,
}

/// Seconds that this process had a core so far.
fn processor_seconds() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").expect("what this process took");
    let (_, fields) = text.rsplit_once(')').expect("its name");
    let fields = fields.split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<f64>().expect("ticks")).sum::<f64>() / TICKS_A_SECOND
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
        let registration = registry.find(engine)?;
        for (name, value) in options.iter() {
            let spec = registration.options.iter().find(|spec| spec.name == name);
            open = open.set(name, spec.expect("it is in the table").show(value));
        }
        let store = open.seed([7; 16]).open(place)?;
        let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
        let plan = case.plan(args)?;
        fill(&plan, &keyspace, &mut |_, _| {})?;
        keyspace.settle()?;
        let mut way = Way { engine, options, predicted, store, keyspace, best: Round::default() };
        way.run(&plan, args.warm)?;
        Ok(way)
    }

    fn run(&mut self, plan: &Plan, seconds: f64) -> Result<Round> {
        let plan = Plan { seconds_max: seconds, ..plan.clone() };
        let (written, put) = bytes_written(&self.keyspace)?;
        let before = processor_seconds();
        let run = drive(&plan, &self.keyspace, "", &mut |_, _| {})?;
        let processor = processor_seconds() - before;
        let (written_now, put_now) = bytes_written(&self.keyspace)?;
        let operations = (run.tally.operations as f64).max(1.0);
        // What the driver itself takes is not the engine's.
        let driver = (run.wall_seconds - run.seconds) * plan.threads as f64;
        Ok(Round {
            throughput: operations / run.seconds,
            processor: (processor - driver).max(0.0) / operations,
            written: (written_now - written) / (put_now - put).max(1.0),
        })
    }

    /// One turn of the case.
    fn turn(&mut self, case: &Case, args: &Args) -> Result<()> {
        let plan = case.plan(args)?;
        if case.writes() {
            // A store that rested has room that it does not have while it is written.
            self.run(&plan, args.warm)?;
        }
        let round = self.run(&plan, args.seconds)?;
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
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get()) as f64;
        format!(
            "{}{}: {:.0} ({throughput:.0}, {}), {:.2} us ({:.2}), {:.2} written ({:.2})",
            self.engine,
            options.collect::<String>(),
            self.best.throughput,
            self.predicted.bottleneck().name(),
            1e6 * self.best.processor,
            processor.map_or(0.0, |(_, seconds)| 1e6 * seconds * cores),
            self.best.written,
            self.predicted.written(),
        )
    }
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
