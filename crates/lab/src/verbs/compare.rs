//! `silica bench compare`.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use silica::{Error, Result};
use silica_bench_compare::{
    AgreementRequest, AgreementRun, BoardDesign, CacheRequest, CacheRun, MovingRequest, MovingRun,
    OWN_WAYS, Request, Run, ScalingRequest, ScalingRun, Size, TypesRequest, TypesRun, agreement,
    caches, compare, moving, scaling, table, thread_counts, types,
};
use silica_console::{Global, Output, has_terminal};
use silica_lab::model::{LevelledTables, Rules};
use silica_lab::simulate::{self, Requests, RocksDbSimulator};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Arguments of a comparison.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// limits, flash, ordered, sql, memory, server or all; or scaling: stores with 1, 2, 4 and more
    /// threads; or cache: caches of memory and flash; or types: Redis's types beside Redis; or
    /// agreement: writes to three members beside etcd; or slots: how long a key waits while its
    /// slot moves, beside Redis. Stores lie below --path, on the device to be measured, or below
    /// --out.
    pub(crate) suite: String,
    /// Fewer workloads and keys: less than three minutes.
    #[arg(long, conflicts_with = "toy")]
    pub(crate) quick: bool,
    /// Everything with a few keys: shows that it runs, measures nothing.
    #[arg(long)]
    pub(crate) toy: bool,
    /// Only these stores.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Only these workloads; of types: rates, cache, buffered, synced, memory, queue or board.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) workloads: Vec<String>,
    /// Times that everything is measured, all rounds with fresh processes [default: 2; 1 with
    /// --quick or --toy].
    #[arg(long, value_name = "N")]
    pub(crate) repetitions: Option<usize>,
    /// Keys in each store; of types: elements of a round; of slots: keys of 10 KiB that move.
    #[arg(long, value_name = "N")]
    pub(crate) keys: Option<u64>,
    /// Factor of the keys that each store has by default.
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Stores of ours may use what the page cache of others may: --memory and the 32 MiB that
    /// each process has beside it, less 8 MiB for the program.
    #[arg(long)]
    pub(crate) resident: bool,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = "silica-compare")]
    pub(crate) out: PathBuf,
    /// Of scaling: the most threads of a store or a server [default: one for each core].
    #[arg(long, value_name = "T")]
    pub(crate) threads_max: Option<usize>,
    /// Of scaling: these numbers of threads.
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "threads_max")]
    pub(crate) threads: Vec<usize>,
    /// Of scaling, cache and agreement: seconds of each workload or round [default: 2, 10 and 6;
    /// 0.5, 3 and 2 with --quick].
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Of scaling: threads that load a server [default: half of the cores, less one]; of agreement
    /// and slots: clients [default: 64 and 2].
    #[arg(long, value_name = "N")]
    pub(crate) clients: Option<usize>,
}

/// Runs a suite with a way of its own.
type OwnWay = fn(&Global, &CompareArgs, &mut Output) -> Result<()>;

/// What runs each of [`OWN_WAYS`], in its order.
const RUN_OWN_WAY: [OwnWay; OWN_WAYS.len()] =
    [run_scaling, run_caches, run_types, run_agreement, run_slots];

/// Runs a suite and shows what it found.
pub(crate) fn run(global: &Global, args: &CompareArgs, output: &mut Output) -> Result<()> {
    if let Some(at) = OWN_WAYS.iter().position(|name| *name == args.suite) {
        return RUN_OWN_WAY[at](global, args, output);
    }
    let run = Run {
        request: request(global, args),
        out: args.out.clone(),
        stores: global.path.clone(),
        child: child("compare-cell")?,
        command: command(),
    };
    let interrupted = silica_console::signals::interruption()?;
    let results = compare(&run, &interrupted, &mut progress(output))?;
    output.raw(table(&results).as_bytes())?;
    output.line(format!("wrote {}", args.out.display()))?;
    let object = output.object();
    *object = silica_bench::json_object(&results)?;
    // These are for the report page, and long.
    for name in ["curves", "timelines"] {
        object.remove(name);
    }
    object.insert("out".to_string(), args.out.display().to_string().into());
    if interrupted.load(Ordering::Relaxed) {
        eprintln!("silica: interrupted; {} has what was measured", args.out.display());
    }
    Ok(())
}

/// Runs stores with more and more threads.
fn run_scaling(global: &Global, args: &CompareArgs, output: &mut Output) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match args.threads.is_empty() {
        true => thread_counts(args.threads_max.unwrap_or(cores)),
        false => args.threads.clone(),
    };
    let run = ScalingRun {
        request: ScalingRequest {
            size: size(args),
            peers: args.peers.clone(),
            workloads: args.workloads.clone(),
            threads,
            keys: args.keys,
            memory_bytes: global.memory,
            seconds: args.seconds,
            clients: args.clients,
            set: global.set.clone(),
        },
        out: args.out.clone(),
        stores: global.path.clone(),
        child: child("scaling-series")?,
    };
    let interrupted = silica_console::signals::interruption()?;
    let report = scaling(&run, &interrupted, &mut progress(output))?;
    output.raw(report.text().as_bytes())?;
    for file in &report.files {
        output.line(format!("wrote {}", file.display()))?;
    }
    *output.object() = silica_bench::json_object(&report)?;
    Ok(())
}

/// Runs caches of memory and flash.
fn run_caches(global: &Global, args: &CompareArgs, output: &mut Output) -> Result<()> {
    let run = CacheRun {
        request: CacheRequest {
            size: size(args),
            peers: args.peers.clone(),
            seconds: args.seconds,
            repetitions: args.repetitions,
            memory_bytes: global.memory,
        },
        out: args.out.clone(),
        stores: global.path.clone(),
        child: child("cache-cell")?,
    };
    let interrupted = silica_console::signals::interruption()?;
    let report = caches(&run, &interrupted, &mut progress(output))?;
    output.raw(report.text().as_bytes())?;
    for file in &report.files {
        output.line(format!("wrote {}", file.display()))?;
    }
    *output.object() = silica_bench::json_object(&report)?;
    Ok(())
}

/// Runs objects of ours and of Redis.
fn run_types(global: &Global, args: &CompareArgs, output: &mut Output) -> Result<()> {
    let run = TypesRun {
        request: TypesRequest {
            size: size(args),
            only: args.workloads.clone(),
            rounds: args.repetitions,
            elements: args.keys,
            memory_bytes: global.memory,
        },
        out: args.out.clone(),
        stores: global.path.clone(),
        peer_of_board: &peer_of_board,
    };
    let interrupted = silica_console::signals::interruption()?;
    let report = types(&run, &interrupted, &mut progress(output))?;
    output.raw(report.text().as_bytes())?;
    for file in &report.files {
        output.line(format!("wrote {}", file.display()))?;
    }
    *output.object() = silica_bench::json_object(&report)?;
    Ok(())
}

/// Runs groups of members, ours and etcd's.
fn run_agreement(global: &Global, args: &CompareArgs, output: &mut Output) -> Result<()> {
    let run = AgreementRun {
        request: AgreementRequest {
            size: size(args),
            rounds: args.repetitions,
            seconds: args.seconds,
            clients: args.clients,
            memory_bytes: global.memory,
        },
        out: args.out.clone(),
        stores: global.path.clone(),
    };
    let interrupted = silica_console::signals::interruption()?;
    let report = agreement(&run, &interrupted, &mut progress(output))?;
    output.raw(report.text().as_bytes())?;
    for file in &report.files {
        output.line(format!("wrote {}", file.display()))?;
    }
    *output.object() = silica_bench::json_object(&report)?;
    Ok(())
}

/// Moves a slot of ours, and of Redis.
fn run_slots(global: &Global, args: &CompareArgs, output: &mut Output) -> Result<()> {
    let run = MovingRun {
        request: MovingRequest {
            size: size(args),
            rounds: args.repetitions,
            keys: args.keys,
            clients: args.clients,
        },
        out: args.out.clone(),
        stores: global.path.clone(),
    };
    let interrupted = silica_console::signals::interruption()?;
    let report = moving(&run, &interrupted, &mut progress(output))?;
    output.raw(report.text().as_bytes())?;
    for file in &report.files {
        output.line(format!("wrote {}", file.display()))?;
    }
    *output.object() = silica_bench::json_object(&report)?;
    Ok(())
}

/// How often RocksDB's levelled compaction writes an entry of a leaderboard, by the simulator.
fn peer_of_board(design: &BoardDesign) -> Result<f64> {
    let parameters = LevelledTables {
        rules: Rules::RocksDb,
        log: design.buffer as f64,
        level0_tables: 4,
        table: design.buffer as f64,
        base: design.base as f64,
        multiplier: 10.0,
        dead_version: 0.0,
    };
    let mut simulator = RocksDbSimulator::new(parameters)?;
    let mut requests = Requests::zipf(design.entries, 0.0, 1)?;
    let cost = simulate::run(&mut simulator, &mut requests, design.puts, &mut |_, _| {})?;
    Ok(cost.total())
}

fn size(args: &CompareArgs) -> Size {
    match (args.quick, args.toy) {
        (true, _) => Size::Quick,
        (_, true) => Size::Toy,
        _ => Size::Full,
    }
}

fn request(global: &Global, args: &CompareArgs) -> Request {
    Request {
        peers: args.peers.clone(),
        workloads: args.workloads.clone(),
        repetitions: args.repetitions,
        memory_bytes: global.memory,
        keys: args.keys,
        scale: args.scale,
        set: global.set.clone(),
        resident: args.resident,
        ..Request::new(&args.suite, size(args))
    }
}

/// This program, as it performs one measurement by its hidden command `verb`.
fn child(verb: &str) -> Result<Vec<OsString>> {
    let program = std::env::current_exe()
        .map_err(|e| Error::io("finding the program that measures in a process of its own", e))?;
    Ok(vec![program.into(), "bench".into(), verb.into()])
}

fn command() -> String {
    let arguments = std::env::args_os().skip(1);
    let words = arguments.map(|word| word.to_string_lossy().into_owned());
    ["silica".to_string()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// A bar on a terminal, a line per step elsewhere.
fn progress(output: &Output) -> impl FnMut(usize, usize, &str) + use<> {
    let bar = (has_terminal() && !output.is_json()).then(|| {
        let template = "{bar:30} {pos}/{len}, {eta} left  {msg}";
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        ProgressBar::new(0).with_style(style)
    });
    move |done, all, what| match &bar {
        Some(bar) if done == 0 => bar.println(what),
        Some(bar) => {
            bar.set_length(all as u64);
            bar.set_message(what.to_string());
            bar.set_position(done as u64);
        }
        None => eprintln!("{done}/{all} {what}"),
    }
}
