//! Whether `silica tune` picks what measures best: runs workloads of the instrument on every engine
//! that can do them, asks the models which is best, and says how far their pick is behind.
//!
//! `cargo run --release -p silica-bench --example tune_check -- DIR [keys=N] [operations=N]
//! [seconds=N] [rounds=N] [only=NAME]` probes DIR, and removes DIR/store before each run. Of all
//! rounds the best counts. With `toy=1` everything is small: it shows that it runs, and measures
//! nothing. A line has the case, the pick's part of the best, the pick, and each engine as it
//! comes: operations a second as measured (and predicted).
#![allow(clippy::disallowed_methods)] // A benchmark starts itself and reads the clock.

use silica::tune::recommend::{
    Bounds, Calibration, Goal, Needs, Prices, Question, describe, predict, recommend,
};
use silica::tune::{Machine, Workload};
use silica::{Durability, OpenOptions, OptionValues, ProbeOptions, Registry, Result};
use silica_bench::{Config, Distribution, Plan};
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
    operations: u64,
    seconds: f64,
    rounds: u64,
    only: String,
}

impl Args {
    fn read() -> Self {
        let mut args = std::env::args().skip(1);
        let directory = args.next().expect("tune_check DIR [keys=N] [operations=N] [toy=1]").into();
        let mut all = Args {
            directory,
            keys: 1_000_000,
            operations: 1_000_000,
            seconds: 4.0,
            rounds: 2,
            only: String::new(),
        };
        for pair in args {
            let (name, value) = pair.split_once('=').expect("NAME=VALUE");
            let number = || value.parse::<u64>().expect("a number");
            match name {
                "keys" => all.keys = number(),
                "operations" => all.operations = number(),
                "rounds" => all.rounds = number(),
                "seconds" => all.seconds = number() as f64,
                "only" => all.only = value.to_string(),
                "toy" => (all.keys, all.operations, all.rounds) = (2000, 2000, 1),
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

    /// Operations a second of `engine`.
    fn measure(&self, args: &Args, engine: &str, options: &OptionValues) -> Result<f64> {
        let path = args.directory.join("store");
        if path.exists() {
            std::fs::remove_dir_all(&path).expect("removing DIR/store");
        }
        let mut open = OpenOptions::new().engine(engine).memory_bytes(self.memory_mib << 20);
        let registry = Registry::builtin();
        let registration = registry.find(engine)?;
        for (name, value) in options.iter() {
            let spec = registration.options.iter().find(|spec| spec.name == name);
            open = open.set(name, spec.expect("it is in the table").show(value));
        }
        let mut plan = Plan::new(self.workload)?;
        plan.keys = self.keys(args);
        plan.shape.value_bytes = self.value_bytes;
        plan.threads = self.threads;
        plan.batch = self.batch;
        plan.operations = args.operations;
        plan.seconds_max = args.seconds;
        plan.durability = Durability::Buffered;
        plan.distribution = Distribution::parse(self.distribution).expect("a distribution");
        let config = Config { plan, path: Some(path), cold: false, settle: true, open };
        Ok(silica_bench::run(&config, &mut |_, _| {})?.throughput_ops)
    }

    fn name(&self) -> String {
        let Case { workload, distribution, value_bytes, threads, batch, memory_mib, .. } = self;
        format!("{workload} {distribution} {value_bytes}B t{threads} b{batch} {memory_mib}MiB")
    }
}

/// One way to do a case.
struct Way {
    engine: &'static str,
    options: OptionValues,
    predicted: f64,
    /// The best of all rounds.
    measured: f64,
}

/// What a case came to: the pick's part of the best of the pick and every engine as it comes.
fn check(case: &Case, args: &Args, machine: &Machine) -> Result<f64> {
    let (workload, needs) = case.described(args)?;
    let candidates = Registry::builtin().candidates();
    let question = Question {
        workload: &workload,
        machine,
        needs,
        goal: Goal::default(),
        bounds: Bounds::default(),
        prices: Prices::default(),
        calibration: Calibration::default(),
        candidates: &candidates,
    };
    let found = recommend(&question)?;
    let pick = &found.choice;
    let (engine, options) = (pick.engine, pick.values());
    let mut ways =
        vec![Way { engine, options, predicted: pick.prediction.throughput, measured: 0.0 }];
    let excluded = |engine| found.excluded.iter().any(|excluded| excluded.engine == engine);
    for candidate in candidates.iter().filter(|candidate| !excluded(candidate.engine)) {
        let (engine, mut options) = (candidate.engine, OptionValues::default());
        if engine == "mica" {
            options.set("eviction", 3);
        }
        if engine != pick.engine || options != ways[0].options {
            let predicted = predict(&question, engine, &options)?.throughput;
            ways.push(Way { engine, options, predicted, measured: 0.0 });
        }
    }
    for _ in 0..args.rounds {
        for way in &mut ways {
            let measured = case.measure(args, way.engine, &way.options)?;
            way.measured = way.measured.max(measured);
        }
    }
    let best = ways.iter().map(|way| way.measured).fold(0.0, f64::max);
    let part = ways[0].measured / best;
    let row = |way: &Way| {
        let options = way.options.iter().map(|(name, value)| format!(" {name}={value}"));
        let (engine, measured, predicted) = (way.engine, way.measured, way.predicted);
        format!("{engine}{} {measured:.0} ({predicted:.0})", options.collect::<String>())
    };
    let rows: Vec<String> = ways.iter().map(row).collect();
    println!("{} | {:.0} % | {}", case.name(), 100.0 * part, rows.join("; "));
    Ok(part)
}

fn main() -> Result<()> {
    let args = Args::read();
    let machine = args.machine()?;
    let mut parts = Vec::new();
    for case in CASES.iter().filter(|case| case.name().contains(&args.only)) {
        parts.push(check(case, &args, &machine)?);
    }
    let _ = std::fs::remove_dir_all(args.directory.join(Path::new("store")));
    let good = parts.iter().filter(|part| **part >= 0.9).count();
    println!("{good} of {} picks are within 10 % of the best that was measured", parts.len());
    Ok(())
}
