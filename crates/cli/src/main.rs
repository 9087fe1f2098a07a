//! The `silica` binary.
#![forbid(unsafe_code)]

/// As the standard library's, but what nobody reads is no reason to panic.
macro_rules! println {
    ($($text:tt)*) => {
        drop(std::io::Write::write_fmt(
            &mut std::io::stdout(),
            format_args!("{}\n", format_args!($($text)*)),
        ))
    };
}

/// As the standard library's, but what nobody reads is no reason to panic.
macro_rules! eprintln {
    ($($text:tt)*) => {
        drop(std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{}\n", format_args!($($text)*)),
        ))
    };
}

mod args;
mod bench;
mod build_table;
#[cfg(feature = "compare")]
mod compare;
mod databases;
mod expiry;
mod forgetful;
mod fresh;
mod ingest;
mod keyspace;
mod load;
#[cfg(feature = "compare")]
mod measured;
mod migrate;
mod model;
mod model_designs;
mod model_moving;
mod model_plot;
mod output;
mod picture;
mod probe;
mod prompt;
mod record;
mod records;
mod remote;
mod repair;
mod resp;
mod scan;
mod serve;
mod session;
mod signals;
mod simulate;
mod targets;
mod text;
mod transfer;
mod tune;
mod verbs;
mod why;

use args::{Cli, Command, Verb};
use clap::Parser;
use fresh::Fresh;
use output::Output;
use session::Session;
use signal_hook::consts::SIGXFSZ;
use silica::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = if matches!(cli.command, Some(Command::Serve(_))) { "info" } else { "warn" };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level)).init();
    let mut output = Output::new(cli.global.json);
    let (is_prompt, fresh) = (cli.command.is_none(), Fresh::at(&cli.directory()));
    let outcome = survive_file_limits().and_then(|()| run(cli, &mut output));
    let outcome = outcome.map_err(remote::hint).and_then(|()| output.finish());
    let outcome = outcome.or_else(|e| if output::is_unread(&e) { Ok(()) } else { Err(e) });
    if outcome.is_err() || is_prompt {
        fresh.iter().for_each(Fresh::remove_if_empty);
    }
    match outcome {
        Ok(()) => output.exit_code(),
        Err(e) => {
            output.error(&e);
            exit_code_of(e.kind())
        }
    }
}

/// Has writes beyond the limit of a file's size (`ulimit -f`) fail with an error that is told; by
/// default the process would die of a signal.
fn survive_file_limits() -> Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, seen)
        .map(drop)
        .map_err(|e| Error::io("installing a signal handler", e))
}

impl Cli {
    /// The directory of the store that the command works on.
    fn directory(&self) -> PathBuf {
        let named = match &self.command {
            Some(Command::Serve(args)) => args.directory.clone(),
            _ => None,
        };
        named.unwrap_or_else(|| self.global.directory())
    }
}

/// Does what a command line says; a prompt's line has the prompt's store at hand.
fn run(cli: Cli, output: &mut Output) -> Result<()> {
    let global = &cli.global;
    match cli.command {
        None => prompt::run(global, output),
        Some(Command::Serve(_) | Command::Repair { .. }) if global.is_at_hand() => {
            let message = "the prompt has this store open; leave it (quit), then run this command";
            Err(silica::Error::new(ErrorKind::Locked, message))
        }
        Some(Command::Serve(args)) => serve::run(global, &args),
        Some(Command::Export(args)) => transfer::export(global, &args, output),
        Some(Command::Import(args)) => transfer::import(global, &args, output),
        Some(Command::Load(args)) => load::run(global, &args, output),
        Some(Command::Bench(args)) => bench::run(global, *args, output),
        Some(Command::BuildTable(args)) => build_table::run(global, &args, output),
        Some(Command::Ingest { files }) => ingest::run(global, &files, output),
        Some(Command::Keyspace(command)) => keyspace::run(global, &command, output),
        Some(Command::Migrate { name, to }) => migrate::run(global, &name, &to, output),
        Some(Command::Restore { backup }) => {
            let report = silica::restore(backup, global.directory(), global.open_options())?;
            verbs::show_copy("restored", &report, output)
        }
        Some(Command::Repair { directory }) => repair::run(global, directory, output),
        Some(Command::Tune(args)) => tune::run(global, &args, output),
        Some(Command::Why { target }) => why::run(global, target.as_deref(), output),
        Some(Command::Record(args)) => record::run(global, &args, output),
        Some(Command::Probe(args)) => probe::run(global, &args, output),
        Some(Command::Model(command)) => model::run(&command, output),
        Some(Command::Simulate(command)) => simulate::run(&command, output),
        Some(Command::Verb(Verb::Sketch { addr: Some(addr), password_file })) => {
            verbs::sketch_of_server(global, &addr, password_file.as_deref(), output)
        }
        Some(Command::Verb(verb)) => {
            verbs::check(&verb)?;
            if remote::run(global, &verb, output)? {
                return Ok(());
            }
            let session = Session::open_for(global, &verb)?;
            verbs::run(&verb, &session, output)?;
            session.close()
        }
    }
}

/// What scripts can tell apart; docs/cli.md has the table.
fn exit_code_of(kind: ErrorKind) -> ExitCode {
    ExitCode::from(match kind {
        ErrorKind::NotFound => 1,
        ErrorKind::Config | ErrorKind::TooLarge | ErrorKind::Unsupported | ErrorKind::ReadOnly => 2,
        ErrorKind::Corruption => 3,
        ErrorKind::Locked => 4,
        _ => 5,
    })
}
