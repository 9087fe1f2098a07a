//! Servers of several processes: members that agree about a database, ours and etcd's, and nodes of
//! a cluster, ours and Redis's.

use super::pin::Pinning;
use super::process::{Process, ask_version, free_port, loopback};
use super::silica;
use ::silica::{Error, ErrorKind, Result};
use silica_bench::memory;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

const ETCD: &str = "etcd";

/// Running processes, and where clients reach each.
pub(crate) struct Grouped {
    processes: Vec<Process>,
    addresses: Vec<SocketAddr>,
}

/// The version of etcd that is installed.
///
/// # Errors
/// Fails if it is not installed; the error says how to install it.
pub(crate) fn etcd_version() -> Result<String> {
    let said = ask_version(ETCD, "--version", "etcd-server")?;
    let line = said.lines().next().unwrap_or_default();
    Ok(line.trim_start_matches("etcd Version: ").to_string())
}

/// The directory of process `number`, which is made.
fn place(directory: &Path, number: usize) -> Result<PathBuf> {
    let place = directory.join(number.to_string());
    std::fs::create_dir_all(&place)
        .map_err(|e| Error::io(format!("creating {}", place.display()), e))?;
    Ok(place)
}

fn ports(count: usize) -> Result<Vec<u16>> {
    (0..count).map(|_| free_port()).collect()
}

impl Grouped {
    /// Starts `count` processes, each by what `command` makes of its number and its ports for
    /// clients, and waits until all of them listen.
    fn start(
        name: &'static str,
        directory: &Path,
        clients: &[u16],
        command: impl Fn(usize) -> Result<Command>,
    ) -> Result<Self> {
        let (mut processes, mut addresses) = (Vec::new(), Vec::new());
        for (number, port) in clients.iter().enumerate() {
            let (place, command) = (place(directory, number)?, command(number)?);
            processes.push(Process::start(name, command, &place, Pinning::shared())?);
            addresses.push(loopback(*port));
        }
        for (process, address) in processes.iter().zip(&addresses) {
            let failed = |e| Error::io(format!("connecting to {name}"), e);
            process.wait_for(|| TcpStream::connect(address).map(drop).map_err(failed))?;
        }
        Ok(Grouped { processes, addresses })
    }

    /// Members of a group of ours; each has a store with `memory_bytes`.
    pub(crate) fn members(directory: &Path, count: usize, memory_bytes: u64) -> Result<Self> {
        let (clients, peers) = (ports(count)?, ports(count)?);
        let address = |port: &u16| loopback(*port).to_string();
        let all = peers.iter().map(address).collect::<Vec<_>>().join(",");
        Self::start("silica serve --replicated-by", directory, &clients, |number| {
            let mut command = Command::new(silica::program()?);
            command.args(["serve", "store", "--loops", "1", "--listen"]);
            command.arg(address(&clients[number])).arg("--member").arg(address(&peers[number]));
            command.args(["--replicated-by", &all, "--memory", &memory_bytes.to_string()]);
            Ok(command)
        })
    }

    /// Members of etcd, with its own defaults but for addresses.
    pub(crate) fn etcd(directory: &Path, count: usize) -> Result<Self> {
        let (clients, peers) = (ports(count)?, ports(count)?);
        let url = |port: u16| format!("http://{}", loopback(port));
        let of = |(number, port): (usize, &u16)| format!("m{number}={}", url(*port));
        let all = peers.iter().enumerate().map(of).collect::<Vec<_>>().join(",");
        Self::start(ETCD, directory, &clients, |number| {
            let (client, peer) = (url(clients[number]), url(peers[number]));
            let mut command = Command::new(ETCD);
            command.args(["--name", &format!("m{number}"), "--data-dir", "data"]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &all, "--initial-cluster-state", "new"]);
            // A run of minutes at full rate passes the default of 2 GiB.
            command.args(["--quota-backend-bytes", "8589934592", "--log-level", "error"]);
            Ok(command)
        })
    }

    /// Two nodes of a cluster of ours, caches in memory, which know nothing of each other yet.
    pub(crate) fn nodes(directory: &Path, memory_bytes: u64) -> Result<Self> {
        let clients = ports(2)?;
        Self::start("silica serve --cluster", directory, &clients, |number| {
            let mut command = Command::new(silica::program()?);
            command.args(["serve", "--cluster", "--loops", "1", "--listen"]);
            command.arg(loopback(clients[number]).to_string());
            command.args(["--cache", &memory_bytes.to_string()]);
            Ok(command)
        })
    }

    /// Two nodes of a cluster of Redis, likewise.
    pub(crate) fn redis_nodes(directory: &Path) -> Result<Self> {
        let (clients, buses) = (ports(2)?, ports(2)?);
        Self::start("redis-server --cluster-enabled", directory, &clients, |number| {
            let mut command = Command::new("redis-server");
            command.args(["--bind", "127.0.0.1", "--port", &clients[number].to_string()]);
            command.args(["--cluster-enabled", "yes", "--cluster-port"]);
            command.arg(buses[number].to_string());
            command.args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", "."]);
            Ok(command)
        })
    }

    /// Where clients reach process `number`.
    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        self.addresses[number]
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = memory::Process> + '_ {
        self.processes.iter().map(|process| memory::Process::Other(process.pid()))
    }

    /// Fails if one of them has died.
    pub(crate) fn check(&self) -> Result<()> {
        self.processes.iter().try_for_each(Process::check)
    }
}

/// An error of a server that has not become ready.
pub(crate) fn late(what: &str) -> Error {
    Error::new(ErrorKind::Busy, format!("{what} within the time that it has"))
}
