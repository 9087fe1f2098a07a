//! A server with the client of a load.

use super::pin::{Pinned, Pinning};
use super::process::{Address, Process};
use super::{Kind, PEERS, Program, Transport};
use crate::load::{Client, Datagrams, Done, Framing, Load, Pace, Script, Speech};
use crate::peer::Setup;
use ::silica::{Error, ErrorKind, Result};
use silica_bench::memory;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server's peak is looked for, and what comes before.
const PEAK_TIME: Duration = Duration::from_millis(400);
const WARM_UP: Duration = Duration::from_millis(50);

/// A running server that holds every key, and its client. The client goes first.
pub(crate) struct Loaded {
    client: Loader,
    process: Process,
    _pinned: Pinned,
}

/// The client by its sockets.
enum Loader {
    Streams(Box<Client>),
    Datagrams(Box<Datagrams>),
}

impl Loader {
    fn once(&mut self) -> Result<Done> {
        match self {
            Loader::Streams(client) => client.once(),
            Loader::Datagrams(client) => client.once(),
        }
    }

    fn slice(&mut self, time: Duration) -> Result<Done> {
        match self {
            Loader::Streams(client) => client.slice(time),
            Loader::Datagrams(client) => client.slice(time),
        }
    }

    fn pace(&mut self, operations_per_second: f64) -> Result<()> {
        match self {
            Loader::Streams(client) => client.pace(operations_per_second),
            Loader::Datagrams(_) => {
                let message = "a load over datagrams has no pace";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        }
        Ok(())
    }
}

impl Loaded {
    /// Starts the server `name`, fills it and connects.
    pub(crate) fn open(name: &str, setup: &Setup, load: &Load) -> Result<Self> {
        let kind = PEERS.iter().find(|kind| kind.about.name == name);
        let kind = kind.filter(|kind| kind.speaks(load.speech)).ok_or_else(|| {
            let message = format!("{name} is not sent this load: {}", load.text());
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let pinning = Pinning::of_machine();
        let (process, address) = kind.start(setup, pinning)?;
        let pinned = pinning.pin_client();
        let (keys, shape) = (setup.plan.keys, setup.plan.shape);
        let shape = (shape.key_bytes, shape.value_bytes);
        let program = kind.program.name();
        let framing = match load.speech {
            Speech::Datagrams(_) => Framing::Own,
            _ => Framing::Memcached,
        };
        let connected = |scripts: Vec<Script>| match address {
            Address::Tcp(address) => {
                let ends = connect(program, address, scripts.len())?;
                Client::new(program, ends, scripts).map(|client| Loader::Streams(Box::new(client)))
            }
            Address::Udp { udp, .. } => {
                Datagrams::connect(program, udp, framing, scripts, load.depth)
                    .map(|client| Loader::Datagrams(Box::new(client)))
            }
            Address::Unix(..) => {
                let message = "a load goes over TCP or UDP";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        };
        connected(Script::of_fill(load, 0..keys, shape))?.once()?;
        let mut client = connected(Script::of_load(load, keys, shape))?;
        if load.pace == Pace::HalfOfPeak {
            client.slice(WARM_UP)?;
            let done = client.slice(PEAK_TIME)?;
            client.pace(done.operations as f64 / done.seconds / 2.0)?;
        }
        Ok(Loaded { client, process, _pinned: pinned })
    }

    /// Goes on for `time`; what was done.
    pub(crate) fn slice(&mut self, time: Duration) -> Result<Done> {
        let done = self.client.slice(time);
        self.process.check().and(done)
    }

    /// The server's process.
    pub(crate) fn process(&self) -> memory::Process {
        memory::Process::Other(self.process.pid())
    }
}

impl Kind {
    pub(super) fn speaks(&self, speech: Speech) -> bool {
        let streams = self.transport == Transport::Tcp;
        let datagrams = self.transport == Transport::Udp;
        match speech {
            Speech::Resp => streams && self.program != Program::Memcached,
            Speech::Text | Speech::TextMultiget(_) => streams && self.program != Program::Redis,
            Speech::TextDatagrams => datagrams && self.program != Program::SilicaCache,
            Speech::Datagrams(_) => datagrams && self.program == Program::SilicaCache,
        }
    }
}

/// `count` connections to the server called `name`.
pub(crate) fn connect(name: &str, address: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
    let ends = (0..count).map(|_| {
        let end = TcpStream::connect(address)?;
        end.set_nodelay(true)?;
        Ok(end)
    });
    let ends: std::io::Result<Vec<TcpStream>> = ends.collect();
    ends.map_err(|e| Error::io(format!("connecting to {name}"), e))
}
