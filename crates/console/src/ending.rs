//! How a program begins and ends: its log, its limits, its exit codes.

use crate::{Fresh, Output, is_unread};
use signal_hook::consts::SIGXFSZ;
use silica::{Error, ErrorKind, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Prepares the process: messages from `level` on go to standard error, unless the environment
/// says otherwise, and a file that grows beyond its limit is an error.
///
/// # Errors
/// No signal handler can be installed.
pub fn start(level: &str) -> Result<()> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level)).init();
    survive_file_limits()
}

/// Has writes beyond the limit of a file's size (`ulimit -f`) fail with an error that is told; by
/// default the process would die of a signal.
fn survive_file_limits() -> Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, seen)
        .map(drop)
        .map_err(|e| Error::io("installing a signal handler", e))
}

/// Prints what a command found, or why it failed, and returns the exit code of the program. With
/// `fresh` a store that was not there before goes again if it is empty.
pub fn end(outcome: Result<()>, output: &mut Output, fresh: Option<&Fresh>) -> ExitCode {
    let outcome = outcome.map_err(hint).and_then(|()| output.finish());
    let outcome = outcome.or_else(|e| if is_unread(&e) { Ok(()) } else { Err(e) });
    if let Err(e) = &outcome {
        fresh.iter().for_each(|fresh| fresh.remove_if_empty());
        output.error(e);
        return exit_code_of(e.kind());
    }
    output.exit_code()
}

/// Says of a store that another process has open how to work on it all the same.
fn hint(error: Error) -> Error {
    let is_in_use = error.kind() == ErrorKind::Locked && error.to_string().contains(" in use by ");
    if !is_in_use {
        return error;
    }
    let message = format!(
        "{error}; if that is a server, ask it: backup, verify, inspect, stats, count, compact and \
         export take --addr HOST:PORT"
    );
    Error::new(ErrorKind::Locked, message)
}

/// What scripts can tell apart; docs/cli.md has the table.
pub fn exit_code_of(kind: ErrorKind) -> ExitCode {
    ExitCode::from(match kind {
        ErrorKind::NotFound => 1,
        ErrorKind::Config | ErrorKind::TooLarge | ErrorKind::Unsupported | ErrorKind::ReadOnly => 2,
        ErrorKind::Corruption => 3,
        ErrorKind::Locked => 4,
        _ => 5,
    })
}
