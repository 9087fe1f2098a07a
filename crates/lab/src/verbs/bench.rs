//! `silica bench`, as far as stores of other people, models and figures of papers take part.

use super::compare::CompareArgs;
use super::measured::MeasuredArgs;
use clap::{Subcommand, ValueEnum};
use serde_json::Value;
use silica::{Error, ErrorKind, Result};
use silica_bench::{SqlOptions, json_object};
use silica_bench_compare::{DatagramsSize, datagrams, serve_cache_cell, serve_cell, serve_series};
use silica_console::{Global, Output, RunArgs, SQL_MEMORY_BYTES, config, observer};
use std::path::{Path, PathBuf};

/// Benchmarks.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare stores of ours, of other people and the limits of the machine on the same work.
    Compare(CompareArgs),
    /// Performs one measurement of a comparison: a cell on standard input, its outcome on standard
    /// output.
    #[command(hide = true)]
    CompareCell,
    /// Performs one store with one number of threads: a series on standard input, its figures on
    /// standard output.
    #[command(hide = true)]
    ScalingSeries,
    /// Performs one cache with one setting: a cell on standard input, its figures on standard
    /// output.
    #[command(hide = true)]
    CacheCell,
    /// Our datagram protocol at rising rates and with unlike keys: loss, latency, bursts.
    Datagrams {
        /// Directory for the SVG files.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Keys of each server.
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        keys: u64,
        /// Seconds of each of the 20 figures.
        #[arg(long, value_name = "S", default_value_t = 1.0)]
        seconds: f64,
    },
    /// What stores write for each byte put, beside what their models predict.
    Models(MeasuredArgs),
    /// Draw the figures of a paper from runs on this machine.
    Figures {
        /// Whose figures.
        #[arg(value_enum, default_value = "silt")]
        paper: Paper,
        /// Directory for the SVG files.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Share of the paper's sizes that is simulated (didacache), of a million keys (pmem), of
        /// 16 million edges (graph), or of the blocks of a LUN (lfs).
        #[arg(long, value_name = "F", default_value_t = 0.0625)]
        scale: f64,
        #[command(flatten)]
        run: Option<RunArgs>,
    },
}

/// A paper with figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// Throughput, index memory and latency of the stores of SILT.
    Silt,
    /// A table under SQL, on our storage and on SQLite's own.
    Sqlitekv,
    /// Copies, erases, hits and times of DIDACache and Fatcache, from simulators.
    Didacache,
    /// Media volume, load factors and probe distances of TurboHash and SPTree, simulated.
    Pmem,
    /// PageRank on flash that the graph engine manages, on a conventional drive and on files.
    Graph,
    /// Operations, copies and erases of a file system on flash and on a conventional drive.
    Lfs,
}

/// Runs what is asked for.
pub(crate) fn run(global: &Global, command: &BenchCommand, output: &mut Output) -> Result<()> {
    match command {
        BenchCommand::Compare(args) => super::compare::run(global, args, output),
        BenchCommand::CompareCell => serve_cell(),
        BenchCommand::CacheCell => serve_cache_cell(),
        BenchCommand::ScalingSeries => serve_series(),
        BenchCommand::Datagrams { out, keys, seconds } => {
            let report = datagrams(&DatagramsSize { keys: *keys, seconds: *seconds }, out)?;
            output.raw(report.text().as_bytes())?;
            *output.object() = json_object(&report)?;
            Ok(())
        }
        BenchCommand::Models(args) => super::measured::run(global, args, output),
        BenchCommand::Figures { paper, out, scale, run } => match paper {
            Paper::Silt => figures(global, out, needed(run)?, output),
            Paper::Sqlitekv => sqlitekv(global, out, needed(run)?, output),
            Paper::Didacache => {
                let seed = run.as_ref().map_or(1, |run| run.seed);
                super::didacache::run(out, *scale, seed, output)
            }
            Paper::Pmem => {
                let seed = run.as_ref().map_or(1, |run| run.seed);
                super::pmem::run(out, *scale, seed, output)
            }
            Paper::Graph => {
                let seed = run.as_ref().map_or(1, |run| run.seed);
                super::graph::run(out, *scale, seed, output)
            }
            Paper::Lfs => {
                let seed = run.as_ref().map_or(1, |run| run.seed);
                super::lfs::run(out, *scale, seed, output)
            }
        },
    }
}

/// What figures that run a store need.
fn needed(run: &Option<RunArgs>) -> Result<&RunArgs> {
    let text = "these figures run stores: give the number of keys (--keys)";
    run.as_ref().ok_or_else(|| Error::new(ErrorKind::Config, text))
}

fn figures(global: &Global, out: &Path, args: &RunArgs, output: &mut Output) -> Result<()> {
    let config = config(global, "timeline", args)?;
    let files = silica_bench::figures::draw(&config, out, &mut observer(output))?;
    let names: Vec<Value> = files.iter().map(|f| f.display().to_string().into()).collect();
    for file in &files {
        output.line(format!("wrote {}", file.display()))?;
    }
    output.object().insert("files".into(), names.into());
    Ok(())
}

fn sqlitekv(global: &Global, out: &Path, args: &RunArgs, output: &mut Output) -> Result<()> {
    let config = config(global, "sqlitekv-read-heavy", args)?;
    let options = SqlOptions {
        storage: "silica",
        memory_bytes: global.memory.unwrap_or(SQL_MEMORY_BYTES),
        results_bytes: None,
        is_prepared: false,
    };
    let drawn = silica_bench::sqlitekv::draw(&config, options, out, &mut observer(output))?;
    let (rows, files) = drawn;
    for row in rows.iter().filter(|row| row.metric.starts_with("ratio")) {
        output.line(format!(
            "{:20} {:.2} {} (paper: {})",
            row.figure, row.value, row.scheme, row.paper
        ))?;
    }
    let names: Vec<Value> = files.iter().map(|f| f.display().to_string().into()).collect();
    output.object().insert("rows".into(), serde_json::to_value(&rows).expect("rows are plain"));
    output.object().insert("files".into(), names.into());
    Ok(())
}
