//! Starting Silica's server.

use super::pin::Pinning;
use super::process::{Address, Process, ask_version};
use super::wire::Wire;
use super::{Kept, redis, text};
use crate::peer::Setup;
use ::silica::{Durability, Error, ErrorKind, Result};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const NAME: &str = "silica serve";
const PROGRAM: &str = "silica";
/// Names the program, where it is neither this one nor beside it.
const VARIABLE: &str = "SILICA_SERVER";
/// The store, in the directory of the run.
const STORE: &str = "store";

/// The program: the one that is named, or this one, or one beside it.
pub(super) fn program() -> Result<PathBuf> {
    let me = std::env::current_exe().map_err(|e| Error::io("looking for this program", e))?;
    find(std::env::var_os(VARIABLE), &me).ok_or_else(|| {
        let message = format!(
            "there is no {PROGRAM} beside {}: cargo build -p silica-cli, or name it in {VARIABLE}",
            me.display()
        );
        Error::new(ErrorKind::NotFound, message)
    })
}

fn find(named: Option<OsString>, me: &Path) -> Option<PathBuf> {
    if let Some(named) = named {
        return Some(PathBuf::from(named));
    }
    if me.file_name().is_some_and(|name| name == PROGRAM) {
        return Some(me.to_path_buf());
    }
    // Tests lie in a directory below the programs.
    let beside = me.ancestors().skip(1).take(2).map(|directory| directory.join(PROGRAM));
    beside.into_iter().find(|path| path.is_file())
}

pub(super) fn version() -> Result<String> {
    let program = program()?;
    let said = ask_version(&program.to_string_lossy(), "--version", "silica")?;
    let version = said.strip_prefix("silica ").map(str::to_string);
    version.ok_or_else(|| {
        let message = format!("{} tells no version: cargo build -p silica-cli", program.display());
        Error::new(ErrorKind::NotFound, message)
    })
}

/// The name that the command line has for the durability of `setup`.
pub(super) fn durability(setup: &Setup) -> &'static str {
    match setup.plan.durability {
        Durability::Buffered => "buffered",
        Durability::Synced => "synced",
    }
}

/// Starts the server with so many loops and these arguments; it has come up where `find` finds its
/// address in what it says, and `greet` gets an answer there.
fn start_with(
    directory: &Path,
    loops: usize,
    pinning: Pinning,
    arguments: &[&str],
    find: impl Fn(&str) -> Option<Address>,
    greet: impl Fn(&Address) -> Result<()>,
) -> Result<(Process, Address)> {
    let mut command = Command::new(program()?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--loops", &loops.to_string()]);
    command.args(arguments);
    let process = Process::start(NAME, command, directory, pinning)?;
    let address = process.wait_for(|| {
        let address = find(&process.said());
        let address = address.ok_or_else(|| Error::new(ErrorKind::Io, "it tells no address"))?;
        greet(&address)?;
        Ok(address)
    })?;
    Ok((process, address))
}

/// Event loops of the server.
pub(super) fn loops(setup: &Setup) -> usize {
    setup.server_threads.unwrap_or(1)
}

/// Starts a server over TCP.
fn start_tcp(setup: &Setup, pinning: Pinning, arguments: &[&str]) -> Result<(Process, Address)> {
    let greet = |address: &Address| redis::greet(NAME, address);
    let find = |said: &str| address(said).map(Address::Tcp);
    start_with(&setup.directory, loops(setup), pinning, arguments, find, greet)
}

pub(super) fn start(setup: &Setup, pinning: Pinning) -> Result<(Process, Address)> {
    let memory = setup.memory_bytes.to_string();
    let arguments = [STORE, "--durability", durability(setup), "--memory", &memory];
    start_tcp(setup, pinning, &arguments)
}

/// As a cache in memory, over TCP.
pub(super) fn start_tcp_cache(setup: &Setup, pinning: Pinning) -> Result<(Process, Address)> {
    start_tcp(setup, pinning, &["--cache", &setup.memory_bytes.to_string()])
}

/// A server of objects, over TCP: a cache, or a store with the writes that `kept` asks for.
pub(super) fn start_typed(
    directory: &Path,
    kept: Kept,
    memory_bytes: u64,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let memory = memory_bytes.to_string();
    let greet = |address: &Address| redis::greet(NAME, address);
    let find = |said: &str| address(said).map(Address::Tcp);
    let start = |arguments: &[&str]| start_with(directory, 1, pinning, arguments, find, greet);
    let durability = if kept == Kept::Synced { "synced" } else { "buffered" };
    match kept {
        Kept::Memory => start(&["--cache", &memory]),
        Kept::Buffered | Kept::Synced => {
            start(&[STORE, "--durability", durability, "--memory", &memory])
        }
    }
}

/// The flash of a cache, in the directory of the run.
const FLASH: &str = "flash";

/// As a cache of memory and flash, over TCP.
pub(super) fn start_flash_cache(
    directory: &Path,
    memory_bytes: u64,
    flash_bytes: u64,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let (memory, flash) = (memory_bytes.to_string(), flash_bytes.to_string());
    let arguments = ["--cache", &memory, "--flash", FLASH, "--flash-size", &flash];
    let find = |said: &str| address(said).map(Address::Tcp);
    let greet = |address: &Address| redis::greet(NAME, address);
    start_with(directory, 1, pinning, &arguments, find, greet)
}

/// Bytes of a store in memory for an entry besides its key and value, which take multiples of so
/// many; a store has the others for its clients, and so many at least.
const BESIDE_ENTRY: u64 = 20;
const ENTRY_STEP: u64 = 8;
const STORE_BYTES_MIN: u64 = 64 << 20;

/// The memory of a store in memory, which its index is made for.
pub(super) fn store_bytes(setup: &Setup) -> u64 {
    let shape = setup.plan.shape;
    let bytes = (shape.key_bytes + shape.value_bytes) as u64;
    let entry = bytes.next_multiple_of(ENTRY_STEP) + BESIDE_ENTRY;
    // An eighth of all is for clients.
    (setup.plan.keys * entry * 8 / 7).max(STORE_BYTES_MIN)
}

/// As a store in memory, over TCP.
pub(super) fn start_store(setup: &Setup, pinning: Pinning) -> Result<(Process, Address)> {
    let memory = store_bytes(setup).to_string();
    start_tcp(setup, pinning, &["--cache", &memory, "--set", "eviction=none"])
}

/// A cache that takes memcached's protocol in datagrams.
pub(super) fn start_cache(setup: &Setup, pinning: Pinning) -> Result<(Process, Address)> {
    let (directory, memory_bytes) = (&setup.directory, setup.memory_bytes);
    start_udp(directory, memory_bytes, pinning, ["--udp", " (memcached, UDP)"], |address| {
        text::greet(&mut Wire::connect(NAME, address)?)
    })
}

/// A cache that takes our own datagrams.
pub(super) fn start_datagram_cache(
    directory: &Path,
    memory_bytes: u64,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    start_udp(directory, memory_bytes, pinning, ["--datagrams", " (datagrams)"], |address| {
        redis::greet(NAME, address)
    })
}

/// A cache with a port for datagrams, which is told as `told`.
fn start_udp(
    directory: &Path,
    memory_bytes: u64,
    pinning: Pinning,
    [option, told]: [&str; 2],
    greet: impl Fn(&Address) -> Result<()>,
) -> Result<(Process, Address)> {
    let memory = memory_bytes.to_string();
    let find = |said: &str| {
        let (tcp, udp) = address(said).zip(datagrams(said, told))?;
        Some(Address::Udp { udp, tcp })
    };
    start_with(directory, 1, pinning, &["--cache", &memory, option, "127.0.0.1:0"], find, greet)
}

/// The address for datagrams in the line that tells it.
fn datagrams(said: &str, told: &str) -> Option<SocketAddr> {
    let (before, _) = said.split_once(told)?;
    before.rsplit(' ').next()?.parse().ok()
}

/// The address in the line that tells it.
fn address(said: &str) -> Option<SocketAddr> {
    let line = said.lines().find(|line| line.starts_with("silica: serving "))?;
    // Paths and explanations have the word, too.
    line.rsplit(" on ").find_map(|behind| behind.split([' ', ',']).next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_the_line_for_scripts() {
        let line = "silica: serving /a on b/store on 127.0.0.1:4711 (engine silt, synced writes)\n";
        assert_eq!(address(line), Some(SocketAddr::from(([127, 0, 0, 1], 4711))));
        assert_eq!(address("silica: something"), None);
        let line = "silica: serving a cache of 64 MiB with flash in flash on 127.0.0.1:4711 \
                    (engine dida, what is on flash outlives the process)\n";
        assert_eq!(address(line), Some(SocketAddr::from(([127, 0, 0, 1], 4711))));
        let line = "silica: serving a cache of 64 MiB on 127.0.0.1:4711, 127.0.0.1:815 (memcached, \
                    UDP) (engine mica, nothing outlives the process)\n";
        assert_eq!(address(line), Some(SocketAddr::from(([127, 0, 0, 1], 4711))));
        assert_eq!(
            datagrams(line, " (memcached, UDP)"),
            Some(SocketAddr::from(([127, 0, 0, 1], 815)))
        );
    }

    #[test]
    fn the_program_is_looked_for_beside_this_one() {
        let directory = tempfile::tempdir().unwrap();
        let (beside, test) = (directory.path().join("silica"), directory.path().join("deps/test"));
        assert_eq!(find(None, &test), None);
        std::fs::write(&beside, "").unwrap();
        assert_eq!(find(None, &test), Some(beside.clone()));
        assert_eq!(find(None, &directory.path().join("other")), Some(beside.clone()));
        assert_eq!(find(None, &beside), Some(beside));
        assert_eq!(find(Some("/x".into()), &test), Some(PathBuf::from("/x")));
    }
}
