//! Starting memcached.

use super::pin::Pinning;
use super::process::{Address, Process, ask_version, loopback, socket_in};
use super::wire::Wire;
use super::{Transport, text};
use crate::peer::Setup;
use ::silica::{Error, ErrorKind, Result};
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "memcached";
const SOCKET: &str = "memcached.sock";
/// Where it tells its ports.
const PORTS: &str = "memcached.ports";

/// Where it has one core, more would only take turns on it.
pub(super) fn threads(setup: &Setup) -> String {
    setup.server_threads.unwrap_or(1).to_string()
}

pub(super) fn version() -> Result<String> {
    let said = ask_version(PROGRAM, "-V", "memcached")?;
    Ok(said.trim_start_matches("memcached ").to_string())
}

/// What `-m` is given.
pub(super) fn mebibytes(setup: &Setup) -> u64 {
    (setup.memory_bytes >> 20).max(1)
}

pub(super) fn start(
    setup: &Setup,
    transport: Transport,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let arguments = ["-m", &mebibytes(setup).to_string(), "-t", &threads(setup)];
    start_with(&setup.directory, &arguments, transport, pinning)
}

/// Threads that read and write its file.
const FILE_THREADS: usize = 4;
/// Items of so many bytes and more go to the file.
const FILE_ITEM_BYTES: usize = 64;
/// A page of the file, in MiB: more than the buffers that fill one, and not much of a small file.
const FILE_PAGE_MIB: usize = 8;

/// With its cache on a file of `file_bytes`, which it calls extstore; `memory_bytes` for entries in
/// memory and those that it keeps of entries in the file.
pub(super) fn start_with_file(
    directory: &Path,
    memory_bytes: u64,
    file_bytes: u64,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let file = format!(
        "ext_page_size={FILE_PAGE_MIB},ext_item_size={FILE_ITEM_BYTES},\
         ext_threads={FILE_THREADS},ext_path=extstore:{}M",
        file_bytes >> 20
    );
    let memory = (memory_bytes >> 20).max(1).to_string();
    let arguments = ["-m", &memory, "-t", "1", "-o", &file];
    start_with(directory, &arguments, Transport::Tcp, pinning)
}

fn start_with(
    directory: &Path,
    arguments: &[&str],
    transport: Transport,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let mut command = Command::new(PROGRAM);
    // It does not run as root unless told so.
    command.args(arguments).args(["-u", "root"]);
    match transport {
        Transport::Unix => command.args(["-s", SOCKET]),
        // It takes any free port and tells which.
        Transport::Tcp => command.args(["-l", "127.0.0.1", "-p", "-1"]),
        Transport::Udp => command.args(["-l", "127.0.0.1", "-p", "-1", "-U", "-1"]),
    };
    let ports = directory.join(PORTS);
    for file in [&ports, &directory.join(SOCKET)] {
        let _ = std::fs::remove_file(file);
    }
    command.env("MEMCACHED_PORT_FILENAME", &ports);
    let process = Process::start(PROGRAM, command, directory, pinning)?;
    let address = process.wait_for(|| {
        let address = match transport {
            Transport::Unix => socket_in(directory, SOCKET)?,
            Transport::Tcp => Address::Tcp(loopback(port(&ports, "TCP INET: ")?)),
            Transport::Udp => {
                let (udp, tcp) = (port(&ports, "UDP INET: ")?, port(&ports, "TCP INET: ")?);
                Address::Udp { udp: loopback(udp), tcp: loopback(tcp) }
            }
        };
        text::greet(&mut Wire::connect(PROGRAM, &address)?)?;
        Ok(address)
    })?;
    Ok((process, address))
}

/// The port behind `what` in the file that memcached tells its ports in.
fn port(ports: &Path, what: &str) -> Result<u16> {
    let told = std::fs::read_to_string(ports).unwrap_or_default();
    let number = told.lines().find_map(|line| line.strip_prefix(what)?.trim().parse().ok());
    number.ok_or_else(|| Error::new(ErrorKind::Io, format!("{PROGRAM} tells no port")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_memcacheds_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ports");
        assert!(port(&file, "TCP INET: ").is_err());
        std::fs::write(&file, "TCP INET: 4711\nUDP INET: 815\n").unwrap();
        assert_eq!(port(&file, "TCP INET: ").unwrap(), 4711);
        assert_eq!(port(&file, "UDP INET: ").unwrap(), 815);
    }
}
