//! `silica bench figures PAPER`: tables and figures of a paper, from runs on this machine and from
//! simulators, beside the paper's numbers and beside stores of other people.

mod auto;
mod bars;
mod course;
mod ect;
mod ect_builds;
mod ect_lookups;
mod ect_streamed;
mod in_place;
mod job;
mod mica;
mod mica_owners;
mod models;
mod models_levels;
mod modularity;
mod order;
mod packages;
mod scratch;
mod sheet;
mod silt;
mod simulated;
mod wipdb;
mod wipdb_reads;

use clap::{Args, ValueEnum};
use job::Job;
pub(crate) use modularity::make_calls;
use serde_json::Value;
use silica::{Error, ErrorKind, Result};
use silica_bench::SqlOptions;
use silica_console::{Global, Output, RunArgs, SQL_MEMORY_BYTES, config, observer};
use std::path::PathBuf;

/// Arguments of a paper's figures.
#[derive(Args)]
pub(crate) struct FiguresArgs {
    /// Whose figures.
    #[arg(value_enum, default_value = "silt")]
    paper: Paper,
    /// Directory for results.json, results.md and charts. Stores lie below --path, or below it.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Share of a full run: of 16 million keys (silt, ect, mica, wipdb), of 10^9 that ect makes
    /// while it indexes them, of the paper's 100 million (models), of the paper's sizes (didacache,
    /// prism), of a million keys or rows (turbohash, sptree, sqlitekv), of 16 million edges
    /// (graph), of the blocks of a LUN (lfs), of 4 million keys (order), of a million
    /// (modularity), of 500,000 (auto).
    #[arg(long, value_name = "F", default_value_t = 0.0625)]
    scale: f64,
    #[command(flatten)]
    run: Option<RunArgs>,
}

/// A paper with figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// Throughput, index memory and latency of the stores of SILT, beside RocksDB and LevelDB.
    Silt,
    /// Sizes, builds and lookups of entropy-coded tries, beside minimal perfect hashes.
    Ect,
    /// What LevelDB and RocksDB write: analysis, simulation, and both stores.
    Models,
    /// MICA beside tables in memory, Redis and memcached.
    Mica,
    /// WipDB beside RocksDB and LevelDB: writes, changing keys, reads while writing, restarts.
    Wipdb,
    /// Media volume, load factors and probe distances of TurboHash, on simulated memory.
    Turbohash,
    /// Media volume, flushes and fences of SPTree, on simulated memory.
    Sptree,
    /// Copies, erases, hits and times of DIDACache and Fatcache, from simulators.
    Didacache,
    /// The three case studies of Prism-SSD: cache, file system, graph engine.
    Prism,
    /// A table under SQL, on our storage and on SQLite's own.
    Sqlitekv,
    /// TurboHash and SPTree together.
    Pmem,
    /// PageRank on flash that the graph engine manages, on a conventional drive and on files.
    Graph,
    /// Operations, copies and erases of a file system on flash and on a conventional drive.
    Lfs,
    /// What order, snapshots, atomic batches, transactions and expiry cost, each alone.
    Order,
    /// What the boundary, the facade and the server cost, and what the boundary saves.
    Modularity,
    /// What `tune` and `auto` choose for 40 workloads, beside a search over engines and options.
    Auto,
}

/// Draws what is asked for.
pub(crate) fn run(global: &Global, args: &FiguresArgs, output: &mut Output) -> Result<()> {
    if !args.scale.is_finite() || args.scale <= 0.0 {
        let text = "--scale is a share of a full run: give a number over 0, such as 0.0625";
        return Err(Error::new(ErrorKind::Config, text));
    }
    let job = Job::new(global, &args.out, args.scale, args.run.as_ref());
    let sheet = match args.paper {
        Paper::Silt => silt::sheet(&job, output)?,
        Paper::Ect => ect::sheet(&job)?,
        Paper::Models => models::sheet(&job, output)?,
        Paper::Mica => mica::sheet(&job)?,
        Paper::Wipdb => wipdb::sheet(&job)?,
        Paper::Turbohash => simulated::turbohash(&job, output)?,
        Paper::Sptree => simulated::sptree(&job, output)?,
        Paper::Didacache => simulated::didacache(&job, output)?,
        Paper::Prism => simulated::prism(&job, output)?,
        Paper::Pmem => simulated::pmem(&job, output)?,
        Paper::Graph => simulated::graph(&job, output)?,
        Paper::Lfs => simulated::lfs(&job, output)?,
        Paper::Order => order::sheet(&job)?,
        Paper::Modularity => modularity::sheet(&job)?,
        Paper::Auto => auto::sheet(&job)?,
        Paper::Sqlitekv => return sqlitekv(&job, output),
    };
    sheet.write(&args.out, args.scale, output)
}

/// Rows of a full run.
const SQL_ROWS: f64 = 1e6;

fn sqlitekv(job: &Job<'_>, output: &mut Output) -> Result<()> {
    let mut config = match job.run {
        Some(run) => config(job.global, "sqlitekv-read-heavy", run)?,
        None => silica_bench::Config::new("sqlitekv-read-heavy")?,
    };
    config.path.clone_from(&job.global.path);
    if job.run.is_none() {
        config.plan.keys = job.keys(SQL_ROWS, 60);
        config.plan.operations = config.plan.keys;
    }
    let options = SqlOptions {
        storage: "silica",
        memory_bytes: job.global.memory.unwrap_or(SQL_MEMORY_BYTES),
        results_bytes: None,
        is_prepared: false,
    };
    let drawn = silica_bench::sqlitekv::draw(&config, options, job.out, &mut observer(output))?;
    let (rows, mut files) = drawn;
    let values: Vec<Value> =
        rows.iter().map(|row| serde_json::to_value(row).expect("rows are plain")).collect();
    files.push(sheet::write_results(job.out, job.scale, &[], &values)?);
    for row in rows.iter().filter(|row| row.metric.starts_with("ratio")) {
        output.line(format!(
            "{:20} {:.2} {} (paper: {})",
            row.figure, row.value, row.scheme, row.paper
        ))?;
    }
    let names: Vec<Value> = files.iter().map(|f| f.display().to_string().into()).collect();
    output.object().insert("rows".into(), values.into());
    output.object().insert("files".into(), names.into());
    Ok(())
}
