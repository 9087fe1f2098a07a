//! How often in a second a message of 64 bytes goes to another thread and comes back, over each
//! way that a server and its clients may take.
//!
//! Client and server do nothing but that, each on a core of its own where there are two. At depth
//! `n` the client has `n` messages under way. Threads *wait* in the kernel for what comes, or they
//! *spin*: they ask again and again, which is faster where each has a core for itself.

mod answers;
mod batch;
mod datagrams;
mod streams;
mod uring;

pub(super) use answers::Answers;

use super::cores::cores;
use super::{Limit, LimitSetup, Probe, Reading, kernel};
use silica::{Error, ErrorKind, Result};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a message: a small key, or a small value, with its frame.
const MESSAGE_BYTES: usize = 64;
/// Connections of trains.
const CONNECTIONS: usize = 32;
/// How soon a server that waits sees that it is over.
const NAP: Duration = Duration::from_millis(50);
/// Loopback loses nothing that fits into its buffers; what did not come back after this will not.
const PATIENCE: Duration = Duration::from_secs(2);

/// Echoes over one way.
pub(super) struct Echo {
    name: &'static str,
    doc: &'static str,
    way: Way,
    depths: &'static [usize],
}

pub(super) static UDP: Echo = Echo::new(
    "echo-udp",
    "64-byte messages there and back over UDP on loopback, one in each system call",
    Way::Udp,
    &[1, 32],
);

pub(super) static UDP_BATCH: Echo = Echo::new(
    "echo-udp-batch",
    "64-byte messages there and back over UDP on loopback by sendmmsg and recvmmsg",
    Way::UdpBatch,
    &[32, 128],
);

pub(super) static UDP_GSO: Echo = Echo::new(
    "echo-udp-gso",
    "64-byte messages there and back over UDP on loopback, joined by segmentation offload",
    Way::UdpGso,
    &[32, 128],
);

pub(super) static TCP: Echo = Echo::new(
    "echo-tcp",
    "64-byte messages there and back over one TCP connection on loopback by read and write",
    Way::Tcp,
    &[1, 16],
);

pub(super) static TCP_URING: Echo = Echo::new(
    "echo-tcp-uring",
    "64-byte messages there and back over TCP on loopback by io_uring, one per connection",
    Way::TcpUring,
    &[1, 16],
);

pub(super) static TCP_URING_32: Echo = Echo::new(
    "echo-tcp-uring-32",
    "64-byte messages there and back over 32 TCP connections by io_uring, so many of each at once",
    Way::TcpUringTrains,
    &[1, 16, 64],
);

pub(super) static UNIX: Echo = Echo::new(
    "echo-unix",
    "64-byte messages there and back over one unix socket by read and write",
    Way::Unix,
    &[1, 16],
);

/// How messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Udp,
    UdpBatch,
    UdpGso,
    Tcp,
    TcpUring,
    TcpUringTrains,
    Unix,
}

/// What a thread does until something comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Idle {
    Wait,
    Spin,
}

impl Limit for Echo {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn version(&self) -> Result<String> {
        match self.way {
            Way::UdpGso => datagrams::probe_segments()?,
            Way::TcpUring | Way::TcpUringTrains => uring::probe()?,
            _ => {}
        }
        Ok(format!("own probe on {}", kernel()))
    }

    fn figures(&self) -> usize {
        self.depths.len() * self.idles().len()
    }

    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>> {
        let mut readings = Vec::new();
        for &depth in self.depths {
            for &idle in self.idles() {
                let rate = self.rate(depth, idle, setup.seconds)?;
                readings.push(Reading::new(named(depth, idle), "1/s", rate));
            }
        }
        Ok(readings)
    }

    fn has_probe(&self, metric: &str) -> bool {
        self.find(metric).is_some()
    }

    fn probe(&'static self, _: &LimitSetup, metric: &str) -> Result<Box<dyn Probe>> {
        let (depth, idle) = self.find(metric).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("limit {} has no figure {metric}", self.name))
        })?;
        Ok(match self.way {
            Way::TcpUringTrains => Box::new(uring::Trains::new(CONNECTIONS, depth)?),
            _ => Box::new(InSlices { echo: self, depth, idle }),
        })
    }
}

fn named(depth: usize, idle: Idle) -> String {
    let suffix = if idle == Idle::Spin { "_spinning" } else { "" };
    format!("echoes_depth_{depth}{suffix}")
}

/// A figure of an echo in slices, each over sockets of its own.
struct InSlices {
    echo: &'static Echo,
    depth: usize,
    idle: Idle,
}

impl Probe for InSlices {
    fn slice(&mut self, time: Duration) -> Result<f64> {
        self.echo.rate(self.depth, self.idle, time.as_secs_f64())
    }
}

impl Echo {
    const fn new(
        name: &'static str,
        doc: &'static str,
        way: Way,
        depths: &'static [usize],
    ) -> Self {
        Echo { name, doc, way, depths }
    }

    fn idles(&self) -> &'static [Idle] {
        // A ring is waited for; and on one core nobody has a core for himself.
        let waits = matches!(self.way, Way::TcpUring | Way::TcpUringTrains);
        let spins = !waits && cores().len() > 1;
        if spins { &[Idle::Wait, Idle::Spin] } else { &[Idle::Wait] }
    }

    fn find(&self, metric: &str) -> Option<(usize, Idle)> {
        let all =
            self.depths.iter().flat_map(|depth| self.idles().iter().map(|idle| (*depth, *idle)));
        all.into_iter().find(|(depth, idle)| named(*depth, *idle) == metric)
    }

    fn rate(&self, depth: usize, idle: Idle, seconds: f64) -> Result<f64> {
        let rate = match self.way {
            Way::Udp => datagrams::rate(depth, idle, seconds, false),
            Way::UdpBatch => batch::rate(depth, idle, seconds),
            Way::UdpGso => datagrams::rate(depth, idle, seconds, true),
            Way::Tcp => streams::rate_tcp(depth, idle, seconds),
            Way::Unix => streams::rate_unix(depth, idle, seconds),
            Way::TcpUring => uring::rate(depth, seconds),
            Way::TcpUringTrains => uring::Trains::new(CONNECTIONS, depth)
                .and_then(|mut trains| trains.slice(Duration::from_secs_f64(seconds))),
        };
        rate.map_err(|e| e.within(self.name))
    }
}

/// The client's end of a way.
trait Exchange {
    /// Sends some messages, `most` at most; how many.
    fn send(&mut self, most: usize) -> io::Result<usize>;
    /// Waits for messages to come back; how many came.
    fn receive(&mut self) -> io::Result<usize>;
}

/// Keeps `depth` messages under way for `seconds`; how many come back in a second.
fn pump(exchange: &mut dyn Exchange, depth: usize, seconds: f64) -> io::Result<f64> {
    let period = Duration::from_secs_f64(seconds);
    let started = Instant::now();
    let mut heard = started;
    let (mut under_way, mut done) = (0, 0u64);
    loop {
        while under_way < depth {
            match unless_idle(exchange.send(depth - under_way))? {
                Some(sent) => under_way += sent,
                None => break,
            }
        }
        let now = match unless_idle(exchange.receive())? {
            Some(came) => {
                under_way = under_way.saturating_sub(came);
                done += came as u64;
                heard = Instant::now();
                heard
            }
            None => {
                std::hint::spin_loop();
                Instant::now()
            }
        };
        if now - heard > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing came back for 2 s"));
        }
        if now - started >= period {
            return Ok(done as f64 / (now - started).as_secs_f64());
        }
    }
}

/// `None` where nothing had arrived when the wait ended: the caller asks again or gives up.
fn unless_idle<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(e) if matches!(e.kind(), WouldBlock | TimedOut | Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Calls `step` until it says that there is no more, or the client is done.
fn serve(over: &AtomicBool, mut step: impl FnMut() -> io::Result<bool>) -> Result<()> {
    while !over.load(Ordering::Acquire) {
        match unless_idle(step()) {
            Ok(Some(true)) => {}
            Ok(Some(false)) => break,
            Ok(None) => std::hint::spin_loop(),
            Err(e) => return Err(failed("serve echoes", e)),
        }
    }
    Ok(())
}

fn failed(what: &str, e: io::Error) -> Error {
    Error::io(what, e)
}

fn absent(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}
