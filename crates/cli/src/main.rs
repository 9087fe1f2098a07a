//! The `silica` binary.
#![forbid(unsafe_code)]

#[macro_use]
extern crate silica_console;

mod address;
mod agreement;
mod args;
mod bench;
mod build_table;
mod config;
mod databases;
mod door;
mod expiry;
mod flash;
mod forgetful;
mod graph;
mod import_to;
mod ingest;
mod keyspace;
mod lfs;
mod load;
mod migrate;
mod objects;
mod options_file;
mod passed;
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
mod shell;
mod sql;
mod stages;
mod targets;
mod text;
mod top;
mod transfer;
mod tune;
mod verbs;
mod why;

use args::{Cli, Command, Verb};
use session::Session;
use silica::{ErrorKind, Result};
use silica_console::{Fresh, Output, end, start};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if door::explains(&words) {
        // Without a laboratory there is only the line that --help has.
        let _ = door::become_lab(&words);
    }
    let all: Vec<OsString> = std::env::args_os().collect();
    let cli = match config::parse(&all) {
        Ok(cli) => Cli { words, ..cli },
        Err(error) => {
            let mut output = Output::new(words.iter().any(|word| word == "--json"));
            return end(Err(error), &mut output, None);
        }
    };
    let level = if matches!(cli.command, Some(Command::Serve(_))) { "info" } else { "warn" };
    let mut output = Output::new(cli.global.json);
    let (is_prompt, fresh) = (cli.command.is_none(), Fresh::at(&cli.directory()));
    let outcome = start(level).and_then(|()| run(cli, &mut output));
    let code = end(outcome, &mut output, fresh.as_ref());
    if is_prompt {
        fresh.iter().for_each(Fresh::remove_if_empty);
    }
    code
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
        Some(Command::Config(command)) => config::run(&command, output),
        Some(Command::Completions { shell }) => shell::completions(shell, output),
        Some(Command::Man { directory }) => shell::man(&directory, output),
        Some(Command::Export(args)) => transfer::export(global, &args, output),
        Some(Command::Import(args)) => match &args.to {
            Some(address) => import_to::run(global, (address, &args), output),
            None => transfer::import(global, &args, output),
        },
        Some(Command::Load(args)) => load::run(global, &args, output),
        Some(Command::Bench(args)) => bench::run(global, *args, &cli.words, output),
        Some(Command::BuildTable(args)) => build_table::run(global, &args, output),
        Some(Command::Ingest { files }) => ingest::run(global, &files, output),
        Some(Command::Keyspace(command)) => keyspace::run(global, &command, output),
        Some(Command::Migrate { name, to }) => migrate::run(global, &name, &to, output),
        Some(Command::Restore { backup }) => {
            let report = silica::restore(backup, global.directory(), global.open_options())?;
            verbs::show_copy("restored", &report, output)
        }
        Some(Command::Repair { directory }) => repair::run(global, directory, output),
        Some(Command::Flash(command)) => flash::run(global, &command, &cli.words, output),
        Some(Command::Graph(command)) => graph::run(global, &command, output),
        Some(Command::Lfs(command)) => lfs::run(&command, output),
        Some(Command::Mount(args)) => lfs::mount(&args, output),
        Some(Command::Sql(args)) => sql::run(global, &args, output),
        Some(Command::Tune(args)) => tune::run(global, &args, output),
        Some(Command::Why { target, get }) => why::run(global, target.as_deref(), &get, output),
        Some(Command::Top(args)) => top::run(global, &args, output),
        Some(Command::Record(args)) => record::run(global, &args, output),
        Some(Command::Probe(args)) => probe::run(global, &args, output),
        Some(Command::Lab(_)) => door::enter(global, &cli.words),
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
