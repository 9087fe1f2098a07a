//! A server that keeps objects of Redis's types: ours or Redis, in memory or durable.

use super::pin::{Pinned, Pinning};
use super::process::{Address, Process};
use super::{redis, silica};
use ::silica::{Error, ErrorKind, Result};
use silica_bench::memory;
use std::net::SocketAddr;
use std::path::Path;

/// What survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nothing: a cache in memory.
    Memory,
    /// What was written up to a second before; of ours, all unless the power is cut.
    Buffered,
    /// Everything that was answered.
    Synced,
}

impl Kept {
    pub(crate) const ALL: [Kept; 3] = [Kept::Memory, Kept::Buffered, Kept::Synced];

    /// In results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kept::Memory => "cache",
            Kept::Buffered => "buffered",
            Kept::Synced => "synced",
        }
    }
}

/// A running server.
pub(crate) struct Typed {
    name: &'static str,
    process: Process,
    address: SocketAddr,
    _pinned: Pinned,
}

impl Typed {
    /// Starts ours in `directory`.
    pub(crate) fn ours(directory: &Path, kept: Kept, memory_bytes: u64) -> Result<Self> {
        let pinning = Pinning::of_machine();
        let started = silica::start_typed(directory, kept, memory_bytes, pinning)?;
        Self::of(silica::NAME, started, pinning)
    }

    /// Starts Redis in `directory`.
    pub(crate) fn redis(directory: &Path, kept: Kept) -> Result<Self> {
        let pinning = Pinning::of_machine();
        Self::of("redis-server", redis::start_typed(directory, kept, pinning)?, pinning)
    }

    fn of(
        name: &'static str,
        (process, address): (Process, Address),
        pinning: Pinning,
    ) -> Result<Self> {
        let Address::Tcp(address) = address else {
            return Err(Error::new(ErrorKind::Unsupported, "a load goes over TCP"));
        };
        Ok(Typed { name, process, address, _pinned: pinning.pin_client() })
    }

    /// The version of Redis that is installed; if none is, the error says how to install it.
    pub(crate) fn redis_version() -> Result<String> {
        redis::version()
    }

    /// The server's name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's process.
    pub(crate) fn process(&self) -> memory::Process {
        memory::Process::Other(self.process.pid())
    }

    /// Fails if the server has died.
    pub(crate) fn check(&self) -> Result<()> {
        self.process.check()
    }
}
