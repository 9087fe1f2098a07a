//! `silica bench`, as far as stores of other people, models and figures of papers take part.

use super::compare::CompareArgs;
use super::measured::MeasuredArgs;
use clap::Subcommand;
use serde_json::Value;
use silica::Result;
use silica_bench::json_object;
use silica_bench_compare::{DatagramsSize, datagrams, serve_cell, serve_series};
use silica_console::{Global, Output, RunArgs, config, observer};
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
    /// Draw the charts of SILT's paper from runs on this machine.
    Figures {
        /// Directory for the SVG files.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[command(flatten)]
        run: RunArgs,
    },
}

/// Runs what is asked for.
pub(crate) fn run(global: &Global, command: &BenchCommand, output: &mut Output) -> Result<()> {
    match command {
        BenchCommand::Compare(args) => super::compare::run(global, args, output),
        BenchCommand::CompareCell => serve_cell(),
        BenchCommand::ScalingSeries => serve_series(),
        BenchCommand::Datagrams { out, keys, seconds } => {
            let report = datagrams(&DatagramsSize { keys: *keys, seconds: *seconds }, out)?;
            output.raw(report.text().as_bytes())?;
            *output.object() = json_object(&report)?;
            Ok(())
        }
        BenchCommand::Models(args) => super::measured::run(global, args, output),
        BenchCommand::Figures { out, run } => figures(global, out, run, output),
    }
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
