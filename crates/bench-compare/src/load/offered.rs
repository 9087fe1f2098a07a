//! Gets that leave at a given rate, whether or not those before were answered; each has a datagram
//! of its own, in our own protocol. Nothing is sent again: what does not come back is lost.

use super::datagrams::{ask, open, transmit};
use super::script::nonsense;
use silica::{Error, Result};
use silica_base::Histogram;
use silica_net::datagrams::{Incoming, Outgoing, SLOT_BYTES, STRIDE, Trains};
use silica_proto::datagram::{Header, Kind, Replies, Reply, Request};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Messages of one system call.
const MESSAGES: usize = 64;
/// Gets that are sent before replies are looked for.
const TOGETHER: u64 = 256;
/// What has not come by then is lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// When gets leave.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Offer {
    /// So many in a second.
    Rate(f64),
    /// As soon as there are fewer than so many under way.
    Window(u64),
}

/// A get of a key, and the server that it goes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Get {
    /// The key, which is its value, too.
    pub(crate) key: [u8; 8],
    /// The place of the server's address.
    pub(crate) port: usize,
}

/// What came of an offer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answered {
    /// Gets that were sent, and those that were answered.
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    /// The time in which they were sent.
    pub(crate) seconds: f64,
    /// Nanoseconds of each, from when it was due to its reply's arrival, where there was a rate.
    pub(crate) latencies: Histogram,
}

/// One server.
struct Port {
    end: UdpSocket,
    token: u64,
    out: Vec<u8>,
    trains: Trains<()>,
}

/// A client of one or several servers.
pub(crate) struct Offered {
    ports: Vec<Port>,
    /// What is asked for, again and again.
    gets: Vec<Get>,
    incoming: Incoming,
    outgoing: Outgoing,
    bytes: Vec<u8>,
    /// The number of the next get.
    next: u64,
}

fn failed(e: io::Error) -> Error {
    Error::io("exchanging datagrams at a rate", e)
}

impl Offered {
    /// A client of the servers at `addresses`.
    pub(crate) fn connect(addresses: &[SocketAddr], gets: Vec<Get>) -> Result<Self> {
        let port = |address: &SocketAddr| {
            let (end, joins) = open(*address).map_err(failed)?;
            let token = ask("silica serve", &end)?;
            end.set_nonblocking(true).map_err(failed)?;
            Ok(Port { end, token, out: Vec::new(), trains: Trains::new(joins) })
        };
        Ok(Offered {
            ports: addresses.iter().map(port).collect::<Result<_>>()?,
            gets,
            incoming: Incoming::new(MESSAGES),
            outgoing: Outgoing::new(MESSAGES),
            bytes: vec![0; MESSAGES * STRIDE],
            next: 0,
        })
    }

    /// Sends for `time`, and waits for what is under way then.
    pub(crate) fn run(&mut self, offer: Offer, time: Duration) -> Result<Answered> {
        let (began, first) = (Instant::now(), self.next);
        let mut done = Answered::default();
        let (mut heard, mut lost) = (Duration::ZERO, 0);
        loop {
            let now = began.elapsed();
            let is_over = now >= time;
            if !is_over {
                let due = match offer {
                    Offer::Rate(rate) => (now.as_secs_f64() * rate) as u64,
                    Offer::Window(window) => done.answered + lost + window,
                };
                done.sent += self.send(due.saturating_sub(done.sent).min(TOGETHER))?;
                done.seconds = now.as_secs_f64();
            }
            let before = done.answered;
            self.receive(&mut done, offer, began, first)?;
            if done.answered > before {
                heard = now;
            } else if is_over && (done.answered == done.sent || now - heard > PATIENCE) {
                return Ok(done);
            } else if now - heard > PATIENCE {
                (heard, lost) = (now, done.sent - done.answered);
            }
        }
    }

    /// Sends the next `count` gets.
    fn send(&mut self, count: u64) -> Result<u64> {
        for number in self.next..self.next + count {
            let get = self.gets[(number % self.gets.len() as u64) as usize];
            let port = &mut self.ports[get.port];
            let start = port.out.len();
            let word = port.token;
            let (kind, room, count) = (Kind::Requests, 0, 1);
            let header = Header { kind, room, count, sequence: number, word };
            port.out.extend_from_slice(&header.bytes());
            Request::Get(&get.key).write(&mut port.out);
            port.trains.add((), start..port.out.len());
        }
        self.next += count;
        for port in self.ports.iter_mut().filter(|port| !port.out.is_empty()) {
            let trains = port.trains.all();
            transmit(&mut self.outgoing, &port.end, &port.out, trains).map_err(failed)?;
            port.out.clear();
            port.trains.clear();
        }
        Ok(count)
    }

    /// Takes the replies that are there to gets from `first` on.
    fn receive(
        &mut self,
        done: &mut Answered,
        offer: Offer,
        began: Instant,
        first: u64,
    ) -> Result<()> {
        for port in &self.ports {
            let received = self.incoming.receive(&port.end, &mut self.bytes, SLOT_BYTES, STRIDE);
            let count = match received {
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(e) => return Err(failed(e)),
            };
            let now = began.elapsed().as_secs_f64();
            for n in 0..count {
                let slot = &self.bytes[n * STRIDE..];
                for place in self.incoming.arrival(n).datagrams() {
                    let number = number_of(&slot[place], &self.gets)?;
                    let Some(place) = number.checked_sub(first) else { continue };
                    done.answered += 1;
                    if let Offer::Rate(rate) = offer {
                        let seconds = now - place as f64 / rate;
                        done.latencies.record((seconds * 1e9) as u64);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The number of the get that a datagram answers, as it should be.
fn number_of(datagram: &[u8], gets: &[Get]) -> Result<u64> {
    let wrong = || nonsense("silica serve", datagram);
    let (header, rest) = Header::read(datagram).map_err(|_| wrong())?;
    let get = &gets[(header.sequence % gets.len() as u64) as usize];
    let reply = Replies::new(rest, header.count).next();
    match reply {
        Some(Ok(Reply::Done(value))) if header.kind == Kind::Replies && value == get.key => {
            Ok(header.sequence)
        }
        _ => Err(wrong()),
    }
}
