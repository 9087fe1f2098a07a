//! A cache of ours that takes our own datagrams, and what it tells of them.

use super::pin::{Pinned, Pinning};
use super::process::{Address, Process};
use super::wire::Wire;
use super::{redis, silica};
use ::silica::{Error, ErrorKind, Result};
use silica_client::{Client, Request};
use std::net::SocketAddr;
use std::path::Path;

/// Requests of one call of the client.
const TOGETHER: usize = 4096;

/// A running server with one port, on the core for servers.
pub(crate) struct Cache {
    process: Process,
    address: SocketAddr,
    wire: Wire,
}

impl Cache {
    /// Starts one in `directory`.
    pub(crate) fn start(directory: &Path, memory_bytes: u64) -> Result<Self> {
        let pinning = Pinning::of_machine();
        let (process, address) = silica::start_datagram_cache(directory, memory_bytes, pinning)?;
        let wire = Wire::connect(silica::NAME, &address)?;
        let Address::Udp { udp, .. } = address else {
            let message = "the server has no port for datagrams";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        Ok(Cache { process, address: udp, wire })
    }

    /// Where its datagrams go.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts each of `keys`, with itself as its value.
    pub(crate) fn fill(&self, keys: &[[u8; 8]]) -> Result<()> {
        let mut client = Client::connect(self.address)?;
        for part in keys.chunks(TOGETHER) {
            let put = |key| Request::Put { key, value: key, expires_unix_ms: 0 };
            let puts: Vec<Request<'_>> = part.iter().map(|key| put(&key[..])).collect();
            client.exchange(&puts, |_, _| {})?;
        }
        Ok(())
    }

    /// Datagrams that came so far, and batches that they came in.
    pub(crate) fn batches(&mut self) -> Result<(u64, u64)> {
        self.process.check()?;
        let info = redis::info(&mut self.wire, b"stats")?;
        let number = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            let told = line.and_then(|line| line.strip_prefix(':')?.trim().parse().ok());
            told.ok_or_else(|| Error::new(ErrorKind::Io, format!("the server tells no {name}")))
        };
        Ok((number("datagrams_received")?, number("datagram_batches")?))
    }
}

/// Keeps the calling thread off the servers' core while the result lives.
pub(crate) fn pin_client() -> Pinned {
    Pinning::of_machine().pin_client()
}
