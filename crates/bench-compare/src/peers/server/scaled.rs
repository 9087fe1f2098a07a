//! A server with threads of its own number, and as many clients as keep up with it.

use super::loaded::connect;
use super::pin::Pinning;
use super::process::{Address, Process};
use super::{Kind, PEERS};
use crate::load::{Blocking, Done, Load, Pace, Script, Sets, Speech};
use crate::peer::Setup;
use ::silica::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::Duration;

/// Connections of one client.
const LANES: usize = 16;
/// Requests of a connection that leave at once.
const DEPTH: usize = 16;
const WARM_UP: Duration = Duration::from_millis(100);

/// A running server that holds every key of a setup.
pub(crate) struct Scaled {
    kind: &'static Kind,
    process: Process,
    address: SocketAddr,
    keys: u64,
    shape: (usize, usize),
}

impl Scaled {
    /// Starts the server `name` and fills it.
    pub(crate) fn open(name: &str, setup: &Setup) -> Result<Self> {
        let kind = PEERS.iter().find(|kind| kind.about.name == name);
        let kind = kind.filter(|kind| kind.speaks(Speech::Resp) || kind.speaks(Speech::Text));
        let kind = kind.ok_or_else(|| {
            let message = format!("{name} takes neither RESP nor memcached's text over TCP");
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let (process, address) = kind.start(setup, Pinning::of_setup(setup))?;
        let Address::Tcp(address) = address else {
            return Err(Error::new(ErrorKind::Unsupported, "a load goes over TCP"));
        };
        let (keys, shape) = (setup.plan.keys, setup.plan.shape);
        let shape = (shape.key_bytes, shape.value_bytes);
        let server = Scaled { kind, process, address, keys, shape };
        let load = server.load(1, Sets::Few);
        let scripts = Script::of_fill(&load, 0..keys, shape);
        server.client(scripts)?.once()?;
        Ok(server)
    }

    /// True where writes can be asked to survive a power cut.
    pub(crate) fn has_synced_writes(&self) -> bool {
        !self.kind.program.is_in_memory()
    }

    fn load(&self, clients: usize, sets: Sets) -> Load {
        let is_resp = self.kind.speaks(Speech::Resp);
        let speech = if is_resp { Speech::Resp } else { Speech::Text };
        Load { speech, connections: clients * LANES, depth: DEPTH, pace: Pace::Peak, sets }
    }

    fn client(&self, scripts: Vec<Script>) -> Result<Blocking> {
        let name = self.kind.program.name();
        Blocking::new(name, connect(name, self.address, scripts.len())?, scripts)
    }

    /// Lets so many clients ask at once for `time`; what they did together.
    pub(crate) fn measure(&self, clients: usize, sets: Sets, time: Duration) -> Result<Done> {
        let mut scripts = Script::of_load(&self.load(clients, sets), self.keys, self.shape);
        let mut all = Vec::new();
        while !scripts.is_empty() {
            all.push(self.client(scripts.split_off(scripts.len() - LANES))?);
        }
        let ready = Barrier::new(all.len());
        let parts: Vec<Result<Done>> = std::thread::scope(|scope| {
            let each = |mut client: Blocking| {
                let ready = &ready;
                scope.spawn(move || {
                    ready.wait();
                    client.slice(WARM_UP)?;
                    client.slice(time)
                })
            };
            let threads: Vec<_> = all.into_iter().map(each).collect();
            let ended = threads.into_iter().map(|thread| {
                let panicked = |_| Err(Error::new(ErrorKind::Io, "a client panicked"));
                thread.join().unwrap_or_else(panicked)
            });
            ended.collect()
        });
        self.process.check()?;
        let mut done = Done::default();
        for part in parts {
            let part = part?;
            let seconds = done.seconds.max(part.seconds);
            done.add(&part);
            done.seconds = seconds;
        }
        Ok(done)
    }
}
