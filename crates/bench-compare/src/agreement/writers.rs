//! Clients that write, one write at a time each.

use super::grpc::{Field, Grpc, field, message};
use crate::peers::{Grouped, late};
use crate::resp::Resp;
use silica::{Error, ErrorKind, Result};
use silica_base::{Histogram, Prng};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = 100;
/// Keys that are written, in no order.
const KEYS: u64 = 100_000;
/// How long a group has to elect a leader.
const ELECTION_MAX: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// What a group speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    Resp,
    Grpc,
}

/// A connection to a member.
enum Writer {
    Resp(Resp),
    Grpc(Box<Grpc>),
}

impl Writer {
    fn connect(address: SocketAddr, speaks: Speaks) -> Result<Self> {
        Ok(match speaks {
            Speaks::Resp => Writer::Resp(Resp::connect(address)?),
            Speaks::Grpc => Writer::Grpc(Box::new(Grpc::connect(address)?)),
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Writer::Resp(resp) => match resp.ask(&[b"SET", key, value])?.text() {
                "OK" => Ok(()),
                other => Err(Error::new(ErrorKind::Busy, format!("SET: {other}"))),
            },
            Writer::Grpc(grpc) => {
                grpc.call("/etcdserverpb.KV/Put", &message(&[key, value])).map(drop)
            }
        }
    }

    /// True if the member leads.
    fn leads(&mut self) -> Result<bool> {
        match self {
            Writer::Resp(_) => Ok(self.put(b"leader", b"?").is_ok()),
            Writer::Grpc(grpc) => {
                let status = grpc.call("/etcdserverpb.Maintenance/Status", &[])?;
                let me = match field(&status, 1) {
                    Some(Field::Bytes(header)) => field(header, 2),
                    _ => None,
                };
                // Field 4 is the leader's number.
                Ok(me.is_some() && me == field(&status, 4))
            }
        }
    }
}

/// The place of the member that leads.
pub(super) fn leader(group: &Grouped, speaks: Speaks) -> Result<usize> {
    let begun = Instant::now();
    while begun.elapsed() < ELECTION_MAX {
        for (place, address) in group.addresses().iter().enumerate() {
            let leads = Writer::connect(*address, speaks).and_then(|mut writer| writer.leads());
            if matches!(leads, Ok(true)) {
                return Ok(place);
            }
        }
        group.check()?;
        std::thread::sleep(PAUSE);
    }
    Err(late("no member leads"))
}

/// Lets so many clients write for a time; how long that took, and the time of each write in
/// nanoseconds.
pub(super) fn load(
    address: SocketAddr,
    speaks: Speaks,
    (clients, time): (usize, Duration),
    round: u64,
) -> Result<(f64, Histogram)> {
    let connect = |_| Writer::connect(address, speaks);
    let writers = (0..clients).map(connect).collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    let all: Vec<Result<Histogram>> = std::thread::scope(|scope| {
        let write = |(nth, mut writer): (usize, Writer)| {
            scope.spawn(move || {
                let (mut prng, mut times) =
                    (Prng::new(round << 32 | nth as u64), Histogram::default());
                let value = [b'v'; VALUE_BYTES];
                while begun.elapsed() < time {
                    let key = format!("key{:012}", prng.below(KEYS));
                    let sent = Instant::now();
                    writer.put(key.as_bytes(), &value)?;
                    times.record(sent.elapsed().as_nanos() as u64);
                }
                Ok(times)
            })
        };
        let threads: Vec<_> = writers.into_iter().enumerate().map(write).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let broken = |_| Err(Error::new(ErrorKind::Io, "a client panicked"));
        ended.map(|ended| ended.unwrap_or_else(broken)).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut sum = Histogram::default();
    for times in all {
        sum.merge(&times?);
    }
    Ok((seconds, sum))
}
