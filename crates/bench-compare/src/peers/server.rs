//! Servers in processes of their own, over sockets.

mod cache;
mod client;
mod datagram;
mod flashed;
mod grouped;
mod loaded;
mod memcached;
mod pin;
mod process;
mod redis;
mod scaled;
mod settings;
mod silica;
mod text;
mod typed;
mod udp;
mod wire;

use super::directory;
use super::writes::Writes;
use crate::peer::{About, Peer, Setting, Setup};
use ::silica::{Durability, Error, ErrorKind, MetricsMap, Result};
pub(crate) use cache::{Cache, pin_client};
use client::Client;
pub(crate) use flashed::{Flashed, PROGRAMS, Program as CacheProgram, Room, UNDER_WAY};
pub(crate) use grouped::{Grouped, etcd_version, late};
pub(crate) use loaded::{Loaded, connect};
use pin::Pinning;
use process::{Address, Process};
pub(crate) use scaled::Scaled;
use silica_bench::{Abilities, Session, Target, memory};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub(crate) use typed::{Kept, Typed};
use wire::Wire;

/// Whose server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Memcached,
    Redis,
    Silica,
    /// Our server, as a cache in memory.
    SilicaCache,
    /// Our server, as a store in memory that forgets nothing.
    SilicaStore,
}

/// How clients reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Unix,
    Udp,
}

/// A server over one transport.
pub(crate) struct Kind {
    about: About,
    program: Program,
    transport: Transport,
}

const fn kind(
    name: &'static str,
    doc: &'static str,
    program: Program,
    transport: Transport,
) -> Kind {
    Kind { about: About::server(name, doc), program, transport }
}

/// Every server.
pub(crate) const PEERS: &[Kind] = &[
    kind("silica:tcp", "Silica's server over TCP", Program::Silica, Transport::Tcp),
    kind("silica:udp", "Silica's cache over memcached's UDP", Program::Silica, Transport::Udp),
    kind(
        "silica:datagram",
        "Silica's cache over its own datagrams",
        Program::SilicaCache,
        Transport::Udp,
    ),
    kind("silica:cache", "Silica's cache over TCP", Program::SilicaCache, Transport::Tcp),
    kind("silica:store", "Silica's store in memory over TCP", Program::SilicaStore, Transport::Tcp),
    kind("memcached:tcp", "memcached over TCP", Program::Memcached, Transport::Tcp),
    kind("memcached:unix", "memcached over a unix socket", Program::Memcached, Transport::Unix),
    kind("memcached:udp", "memcached over UDP", Program::Memcached, Transport::Udp),
    kind("redis:tcp", "Redis over TCP", Program::Redis, Transport::Tcp),
    kind("redis:unix", "Redis over a unix socket", Program::Redis, Transport::Unix),
];

impl Program {
    /// The program's name, for people.
    fn name(self) -> &'static str {
        match self {
            Program::Memcached => "memcached",
            Program::Redis => "redis-server",
            Program::Silica => "silica serve",
            Program::SilicaCache | Program::SilicaStore => "silica serve --cache",
        }
    }

    fn is_ours(self) -> bool {
        matches!(self, Program::Silica | Program::SilicaCache | Program::SilicaStore)
    }

    fn is_in_memory(self) -> bool {
        matches!(self, Program::Memcached | Program::SilicaCache | Program::SilicaStore)
    }
}

/// True where `setup` models a cache, whose entries need not all fit.
fn models_cache(setup: &Setup) -> bool {
    setup.plan.workload.name.starts_with("facebook")
}

impl Peer for Kind {
    fn about(&self) -> &About {
        &self.about
    }

    fn is_ours(&self) -> bool {
        self.program.is_ours()
    }

    fn version(&self) -> Result<String> {
        match self.program {
            Program::Memcached => memcached::version(),
            Program::Redis => redis::version(),
            Program::Silica | Program::SilicaCache | Program::SilicaStore => silica::version(),
        }
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        settings::of(self, setup)
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let pinning = Pinning::of_setup(setup);
        let synced = setup.plan.durability == Durability::Synced;
        let (process, address) = self.start(setup, pinning)?;
        let lossy = match self.program {
            Program::Memcached | Program::SilicaCache => true,
            Program::Redis => models_cache(setup),
            Program::SilicaStore => false,
            // A cache, beside memcached over the same protocol.
            Program::Silica => self.transport == Transport::Udp,
        };
        let only_memory = self.program.is_in_memory();
        Ok(Box::new(Store {
            process,
            address,
            program: self.program,
            pinning,
            synced: synced && !only_memory && self.transport != Transport::Udp,
            lossy,
            value_bytes: setup.plan.shape.value_bytes,
            directory: setup.directory.clone(),
            counters: Counters::default(),
        }))
    }
}

impl Kind {
    fn start(&self, setup: &Setup, pinning: Pinning) -> Result<(Process, Address)> {
        match self.program {
            Program::Memcached => memcached::start(setup, self.transport, pinning),
            Program::Redis => redis::start(setup, self.transport, pinning),
            Program::Silica if self.transport == Transport::Udp => {
                silica::start_cache(setup, pinning)
            }
            Program::Silica => silica::start(setup, pinning),
            Program::SilicaCache if self.transport == Transport::Udp => {
                silica::start_datagram_cache(&setup.directory, setup.memory_bytes, pinning)
            }
            Program::SilicaCache => silica::start_tcp_cache(setup, pinning),
            Program::SilicaStore => silica::start_store(setup, pinning),
        }
    }
}

/// What clients did.
#[derive(Default)]
struct Counters {
    writes: Writes,
    /// Datagrams that were sent again, since nothing came back.
    retries: AtomicU64,
}

/// A running server.
struct Store {
    process: Process,
    address: Address,
    program: Program,
    pinning: Pinning,
    synced: bool,
    lossy: bool,
    value_bytes: usize,
    directory: PathBuf,
    counters: Counters,
}

impl Store {
    fn wire(&self) -> Result<Wire> {
        Wire::connect(self.program.name(), &self.address)
    }
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        Abilities { scan: false, delete: true, lossy: self.lossy }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        if durability == Durability::Synced && !self.synced {
            let name = self.program.name();
            let message = match self.program.is_in_memory() {
                true => format!("{name} has no synced writes; compare buffered ones"),
                false => {
                    format!("{name} was started for buffered writes; start it for synced ones")
                }
            };
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let pinned = self.pinning.pin_client();
        let counters = &self.counters;
        Ok(match (self.program, &self.address) {
            (Program::SilicaCache, Address::Udp { udp, .. }) => {
                let beside = Client::new(self.wire()?, redis::RespDialect, counters, Some(pinned));
                Box::new(datagram::Client::new(*udp, beside, counters)?)
            }
            (_, Address::Udp { udp, .. }) => {
                let dialect = text::TextDialect::new();
                let beside = Client::new(self.wire()?, dialect, counters, None);
                Box::new(udp::Client::new(*udp, beside, counters, self.value_bytes, pinned)?)
            }
            (Program::Memcached, _) => {
                let dialect = text::TextDialect::new();
                Box::new(Client::new(self.wire()?, dialect, counters, Some(pinned)))
            }
            _ => Box::new(Client::new(self.wire()?, redis::RespDialect, counters, Some(pinned))),
        })
    }

    /// What a server does in the background it does not tell.
    fn settle(&self) -> Result<()> {
        self.process.check()
    }

    /// Synced writes are on the device, the others are left to the server.
    fn sync(&self) -> Result<()> {
        self.process.check()
    }

    fn process(&self) -> memory::Process {
        memory::Process::Other(self.process.pid())
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = self.counters.writes.metrics();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        if matches!(self.address, Address::Udp { .. }) {
            add("udp_retries", self.counters.retries.load(Relaxed));
        }
        if self.synced || self.program == Program::Silica {
            add("disk_bytes", directory::bytes(&self.directory));
        }
        Ok(metrics)
    }
}

/// Servers keep no order.
fn no_scan(name: &str) -> Error {
    let message = format!("{name} cannot scan in the order of keys; leave such workloads out");
    Error::new(ErrorKind::Unsupported, message)
}
