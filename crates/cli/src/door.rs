//! The verbs of the laboratory: `silica` starts the `silica-lab` that is installed beside it, with
//! its own arguments.

use crate::args::{BenchLab, FlashLab, LabVerb};
use clap::Subcommand;
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, signals};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PROGRAM: &str = "silica-lab";
/// Names the program that a comparison starts as Silica's server: the one that was called.
const SERVER: &str = "SILICA_SERVER";

/// Does what `words` say in the laboratory.
///
/// The process becomes `silica-lab`, so output, signals and exit code are its own. A prompt, which
/// has a store open, waits for it instead.
///
/// # Errors
/// There is no `silica-lab`. At a prompt also if it ends with another code than 0.
pub(crate) fn enter(global: &Global, words: &[OsString]) -> Result<()> {
    match &global.at_hand {
        None => Err(become_lab(words)),
        Some(_) => wait_for_lab(global, words),
    }
}

/// True if `words` ask for the explanation of a verb of the laboratory: `help model`.
pub(crate) fn explains(words: &[OsString]) -> bool {
    let words: Vec<_> = words.iter().filter_map(|word| word.to_str()).collect();
    match words[..] {
        ["help", "bench", verb, ..] => BenchLab::has_subcommand(verb),
        ["help", "flash", verb, ..] => FlashLab::has_subcommand(verb),
        ["help", verb, ..] => LabVerb::has_subcommand(verb),
        _ => false,
    }
}

/// Replaces this program; returns only if that fails.
pub(crate) fn become_lab(words: &[OsString]) -> Error {
    // Usage lines name the program that was called.
    failed(&command(words).arg0("silica").exec())
}

fn wait_for_lab(global: &Global, words: &[OsString]) -> Result<()> {
    // Ctrl-C at the terminal is the laboratory's; the prompt goes on.
    let _interrupted = signals::interruption()?;
    // What the line says itself comes later, and counts.
    let mut all = vec!["--keyspace".into(), OsString::from(&global.keyspace)];
    if let Some(path) = &global.path {
        all.extend(["--path".into(), path.into()]);
    }
    if let Some(memory) = global.memory {
        all.extend(["--memory".into(), memory.to_string().into()]);
    }
    all.extend_from_slice(words);
    let status = command(&all).arg0("silica").stdin(Stdio::null()).status();
    let kind = match status.map_err(|e| failed(&e))?.code() {
        Some(0) => return Ok(()),
        Some(1) => ErrorKind::NotFound,
        Some(2) => ErrorKind::Config,
        Some(3) => ErrorKind::Corruption,
        Some(4) => ErrorKind::Locked,
        _ => ErrorKind::Io,
    };
    Err(Error::new(kind, format!("{PROGRAM} has failed; its message stands above")))
}

/// `silica-lab WORDS`: the one beside this program, else the one on PATH.
fn command(words: &[OsString]) -> Command {
    let me = std::env::current_exe().ok();
    let beside = me.as_ref().map(|me| me.with_file_name(PROGRAM)).filter(|lab| lab.is_file());
    let mut command = Command::new(beside.unwrap_or_else(|| PathBuf::from(PROGRAM)));
    command.args(words);
    if let Some(me) = me.filter(|_| std::env::var_os(SERVER).is_none()) {
        command.env(SERVER, me);
    }
    command
}

fn failed(error: &std::io::Error) -> Error {
    let me = std::env::current_exe().ok();
    let place = me.as_ref().map_or(OsStr::new("this program"), |me| me.as_os_str()).display();
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            ErrorKind::Unsupported,
            format!(
                "comparisons, models and simulators are in {PROGRAM}, which is neither beside \
                 {place} nor on PATH; `cargo build --release -p {PROGRAM}` makes it"
            ),
        ),
        _ => Error::new(ErrorKind::Io, format!("cannot start {PROGRAM}: {error}")),
    }
}
