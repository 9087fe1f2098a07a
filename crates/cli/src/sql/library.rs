//! Starts programs with `libsqlite3.so.0` of this build before the system's.

use silica::{Error, ErrorKind};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const NAME: &str = "libsqlite3.so.0";
/// The library, if it is elsewhere.
const VARIABLE: &str = "SILICA_SQLITE_LIBRARY";
/// What the system's loader loads first.
const PRELOAD: &str = "LD_PRELOAD";

/// Replaces this program by `command`; returns only if that fails.
pub(super) fn become_program(command: &[OsString]) -> Error {
    let library = match find() {
        Ok(library) => library,
        Err(error) => return error,
    };
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let error = Command::new(&command[0]).args(&command[1..]).env(PRELOAD, preload).exec();
    Error::io(format!("starting {}", command[0].to_string_lossy()), error)
}

/// Beside this program, in the library directory beside its own, or where `cargo xtask sqlite`
/// leaves it.
fn find() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        return match path.is_file() {
            true => Ok(path),
            false => Err(missing(&format!("{VARIABLE} names {}", path.display()))),
        };
    }
    let own = std::env::current_exe().map_err(|e| Error::io("looking for this program", e))?;
    let beside = own.parent().map(PathBuf::from).unwrap_or_default();
    let places =
        [beside.join(NAME), beside.join("../lib").join(NAME), beside.join("../sqlite").join(NAME)];
    let found = places.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| missing(&format!("it is not beside {}", own.display())))
}

fn missing(where_: &str) -> Error {
    let message = format!(
        "the library {NAME} is missing: {where_}; make it with `cargo xtask sqlite`, or name it \
         in {VARIABLE}"
    );
    Error::new(ErrorKind::NotFound, message)
}
