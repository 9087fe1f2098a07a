//! `silica bench`, as far as stores of other people, models and figures of papers take part.

use super::compare::CompareArgs;
use super::figures::FiguresArgs;
use super::measured::MeasuredArgs;
use clap::Subcommand;
use silica::Result;
use silica_bench::json_object;
use silica_bench_compare::{DatagramsSize, datagrams, serve_cache_cell, serve_cell, serve_series};
use silica_console::{Global, Output};
use std::path::PathBuf;

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
    /// Makes calls on one level of the product, whose instructions somebody counts.
    #[command(hide = true)]
    LevelCalls {
        /// Engine, level, kind, burst and number of calls.
        words: String,
        /// Directory for the store.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
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
    /// Draw the figures of a paper from runs on this machine and from simulators.
    Figures(FiguresArgs),
}

/// Runs what is asked for.
pub(crate) fn run(global: &Global, command: &BenchCommand, output: &mut Output) -> Result<()> {
    match command {
        BenchCommand::Compare(args) => super::compare::run(global, args, output),
        BenchCommand::CompareCell => serve_cell(),
        BenchCommand::CacheCell => serve_cache_cell(),
        BenchCommand::ScalingSeries => serve_series(),
        BenchCommand::LevelCalls { words, out } => super::figures::make_calls(words, out),
        BenchCommand::Datagrams { out, keys, seconds } => {
            let report = datagrams(&DatagramsSize { keys: *keys, seconds: *seconds }, out)?;
            output.raw(report.text().as_bytes())?;
            *output.object() = json_object(&report)?;
            Ok(())
        }
        BenchCommand::Models(args) => super::measured::run(global, args, output),
        BenchCommand::Figures(args) => super::figures::run(global, args, output),
    }
}
