//! A cache server with flash behind its memory, or one that has only memory, and its client.

use super::loaded::connect;
use super::pin::{Pinned, Pinning};
use super::process::{Address, Process};
use super::{memcached, redis, silica};
use crate::load::{Client, Done, Load, Pace, Script, Sets, Speech};
use ::silica::{Error, ErrorKind, Result};
use silica_bench::memory;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Connections, and requests of each that are under way.
const CONNECTIONS: usize = 16;
const DEPTH: usize = 4;
/// Bytes of requests that are written before a part of a fill begins.
const PART_BYTES: u64 = 64 << 20;
/// Bytes of a request beside its key and its value.
const BESIDE_BYTES: u64 = 40;

/// Requests that are under way at any moment.
pub(crate) const UNDER_WAY: usize = CONNECTIONS * DEPTH;

/// Whose server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Ours.
    Silica,
    /// memcached with its extstore.
    Memcached,
    /// Redis, which has no flash.
    Redis,
}

/// Every one.
pub(crate) const PROGRAMS: [Program; 3] = [Program::Silica, Program::Memcached, Program::Redis];

/// What a server gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// For everything that it has in memory.
    pub(crate) memory_bytes: u64,
    /// On the device.
    pub(crate) flash_bytes: u64,
}

impl Program {
    /// The name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Silica => "silica:flash-cache",
            Program::Memcached => "memcached:extstore",
            Program::Redis => "redis:tcp",
        }
    }

    /// The version that is installed; where none is, the error says how to install it.
    pub(crate) fn version(self) -> Result<String> {
        match self {
            Program::Silica => silica::version(),
            Program::Memcached => memcached::version(),
            Program::Redis => redis::version(),
        }
    }

    fn speech(self) -> Speech {
        match self {
            Program::Silica | Program::Memcached => Speech::Text,
            Program::Redis => Speech::Resp,
        }
    }

    fn start(self, directory: &Path, room: Room, pinning: Pinning) -> Result<(Process, Address)> {
        let Room { memory_bytes, flash_bytes } = room;
        match self {
            Program::Silica => {
                silica::start_flash_cache(directory, memory_bytes, flash_bytes, pinning)
            }
            Program::Memcached => {
                memcached::start_with_file(directory, memory_bytes, flash_bytes, pinning)
            }
            Program::Redis => redis::start_cache(directory, memory_bytes, pinning),
        }
    }
}

/// A running server. The client of a load lives as long as the load.
pub(crate) struct Flashed {
    program: Program,
    process: Process,
    address: SocketAddr,
    /// Bytes of a key and of a value.
    shape: (usize, usize),
    _pinned: Pinned,
}

impl Flashed {
    /// Starts the server in `directory`.
    pub(crate) fn open(
        program: Program,
        directory: &Path,
        room: Room,
        shape: (usize, usize),
    ) -> Result<Self> {
        let pinning = Pinning::of_machine();
        let (process, address) = program.start(directory, room, pinning)?;
        let Address::Tcp(address) = address else {
            return Err(Error::new(ErrorKind::Unsupported, "a load goes over TCP"));
        };
        Ok(Flashed { program, process, address, shape, _pinned: pinning.pin_client() })
    }

    /// The server's process.
    pub(crate) fn process(&self) -> memory::Process {
        memory::Process::Other(self.process.pid())
    }

    /// The number of the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn load(&self, sets: Sets) -> Load {
        let speech = self.program.speech();
        Load { speech, connections: CONNECTIONS, depth: DEPTH, pace: Pace::Peak, sets }
    }

    fn client(&self, scripts: Vec<Script>) -> Result<Client> {
        let name = self.program.name();
        Client::new(name, connect(name, self.address, scripts.len())?, scripts)
    }

    /// Sets every key of `keys` once, `part` told of each part that is done; the time is that of
    /// sending and hearing.
    pub(crate) fn set_all(&self, keys: Range<u64>, part: &mut dyn FnMut(u64)) -> Result<Done> {
        let load = self.load(Sets::All);
        let entry = (self.shape.0 + self.shape.1) as u64 + BESIDE_BYTES;
        let step = (PART_BYTES / entry).max(CONNECTIONS as u64);
        let mut all = Done::default();
        let mut first = keys.start;
        while first < keys.end {
            let end = (first + step).min(keys.end);
            let done = self.client(Script::of_fill(&load, first..end, self.shape))?.once();
            let done = self.process.check().and(done)?;
            all.add(&done);
            part(end - first);
            first = end;
        }
        Ok(all)
    }

    /// Asks for and sets uniform keys for `time` or a little longer, never the keys of a moment
    /// ago: a script that is said again would find them all in memory. `first` is the number of the
    /// load's first part, which another load must not have had.
    pub(crate) fn go_on(&self, sets: Sets, keys: u64, time: Duration, first: u64) -> Result<Done> {
        let load = self.load(sets);
        let mut all = Done::default();
        for part in first.. {
            let scripts = Script::part_of_load(&load, keys, self.shape, part);
            let done = self.client(scripts)?.once();
            all.add(&self.process.check().and(done)?);
            if all.seconds >= time.as_secs_f64() {
                break;
            }
        }
        Ok(all)
    }
}
