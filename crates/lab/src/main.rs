//! The `silica-lab` binary: models of designs and their simulators, stores of other people beside
//! ours. `silica` starts it for `bench compare`, `bench datagrams`, `bench models`,
//! `bench figures`, `flash simulate`, `model` and `simulate`.
#![forbid(unsafe_code)]

#[macro_use]
extern crate silica_console;

mod verbs;

use clap::{Parser, Subcommand};
use silica::Result;
use silica_console::{Fresh, Global, Output, end, start};
use std::process::ExitCode;
use verbs::{BenchCommand, FlashCommand, ModelCommand, SimulateCommand};

/// Silica's laboratory: models, simulators, and stores of other people beside ours.
#[derive(Parser)]
#[command(name = "silica-lab", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure beside others: stores of other people, models, figures of papers.
    #[command(subcommand)]
    Bench(Box<BenchCommand>),
    /// What a cache on flash would do.
    #[command(subcommand)]
    Flash(FlashCommand),
    /// What a design would cost: primitives and models of write amplification, sizes in items.
    #[command(subcommand)]
    Model(ModelCommand),
    /// What a design writes, counted in memory: the judge of the models.
    #[command(subcommand)]
    Simulate(SimulateCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut output = Output::new(cli.global.json);
    let fresh = Fresh::at(&cli.global.directory());
    let outcome = start("warn").and_then(|()| run(&cli, &mut output));
    end(outcome, &mut output, fresh.as_ref())
}

fn run(cli: &Cli, output: &mut Output) -> Result<()> {
    match &cli.command {
        Command::Bench(command) => verbs::bench(&cli.global, command, output),
        Command::Flash(command) => verbs::flash(&cli.global, command, output),
        Command::Model(command) => verbs::model(command, output),
        Command::Simulate(command) => verbs::simulate(command, output),
    }
}
