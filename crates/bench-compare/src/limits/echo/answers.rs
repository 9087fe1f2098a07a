//! Datagrams answered with datagrams, of the sizes and in the numbers of loads on servers: what a
//! server would do that had nothing to look up. The client is that of the loads.

use super::super::cores::with_server;
use super::{Idle, datagrams, failed, kernel, serve};
use crate::limits::{Limit, LimitSetup, Probe, Reading};
use crate::load::{Datagrams, Framing, Load, Script, Speech};
use silica::{Error, ErrorKind, Result};
use silica_net::datagrams::{
    Incoming, Message, Outgoing, RECEIVE_BYTES, SLOT_BYTES, STRIDE, Trains, join_segments,
    set_receive_bytes,
};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// As servers have them.
const BATCH: usize = 64;

/// Echoes of the datagrams of loads.
pub(in crate::limits) struct Answers;

/// A load, and bytes of its keys and values.
struct Figure {
    metric: &'static str,
    load: Load,
    /// The kernel joins what comes and cuts what goes.
    joins: bool,
    shape: (usize, usize),
}

/// Whose figure without joining is what a server reaches that calls the system once for many
/// datagrams; the kernel takes most of the time for each of them.
const TEXT: Load = Load::TEXT_DATAGRAMS;

const FIGURES: [Figure; 4] = [
    Figure { metric: "text_gets", load: TEXT, joins: false, shape: (16, 64) },
    Figure { metric: "text_gets_joined", load: TEXT, joins: true, shape: (16, 64) },
    Figure { metric: "gets_by_1", load: Load::datagrams(1), joins: true, shape: (8, 8) },
    Figure { metric: "gets_by_16", load: Load::datagrams(16), joins: true, shape: (8, 8) },
];

impl Limit for Answers {
    fn name(&self) -> &'static str {
        "echo-udp-load"
    }

    fn doc(&self) -> &'static str {
        "datagrams of the sizes of loads on servers, answered by sendmmsg and recvmmsg"
    }

    fn version(&self) -> Result<String> {
        datagrams::probe_segments()?;
        Ok(format!("own probe on {}", kernel()))
    }

    fn figures(&self) -> usize {
        FIGURES.len()
    }

    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>> {
        let time = Duration::from_secs_f64(setup.seconds);
        let reading = |figure: &Figure| Ok(Reading::new(figure.metric, "1/s", figure.rate(time)?));
        FIGURES.iter().map(reading).collect()
    }

    fn has_probe(&self, metric: &str) -> bool {
        FIGURES.iter().any(|figure| figure.metric == metric)
    }

    fn probe(&'static self, _: &LimitSetup, metric: &str) -> Result<Box<dyn Probe>> {
        let found = FIGURES.iter().find(|figure| figure.metric == metric);
        let figure = found.ok_or_else(|| {
            let message = format!("limit {} has no figure {metric}", self.name());
            Error::new(ErrorKind::Config, message)
        })?;
        Ok(Box::new(figure))
    }
}

impl Probe for &Figure {
    fn slice(&mut self, time: Duration) -> Result<f64> {
        self.rate(time)
    }
}

impl Figure {
    fn framing(&self) -> Framing {
        match self.load.speech {
            Speech::Datagrams(_) => Framing::Own,
            _ => Framing::Memcached,
        }
    }

    /// Requests per second.
    fn rate(&self, time: Duration) -> Result<f64> {
        let framing = self.framing();
        let sizes = Script::sizes_of_gets(&self.load, self.shape);
        let together = match self.load.speech {
            Speech::Datagrams(requests) => requests as u64,
            _ => 1,
        };
        let scripts = Script::of_answers(&self.load, sizes, together);
        let open = || {
            let server = datagrams::socket(Idle::Wait)?;
            set_receive_bytes(&server, RECEIVE_BYTES);
            if self.joins {
                join_segments(&server)?;
            }
            Ok((server.local_addr()?, server))
        };
        let (address, server) = open().map_err(|e: io::Error| failed("open a UDP socket", e))?;
        with_server(
            |_| {
                let depth = self.load.depth;
                let mut client = Datagrams::connect_echo(address, framing, scripts, depth)?;
                let done = client.slice(time)?;
                Ok(done.operations as f64 / done.seconds)
            },
            |over| answer(&server, self.joins, framing, framing.bytes() + sizes.1, over),
        )
    }
}

/// Answers each datagram with its frame and as many bytes more as make `bytes`.
fn answer(
    server: &UdpSocket,
    joins: bool,
    framing: Framing,
    bytes: usize,
    over: &AtomicBool,
) -> Result<()> {
    let mut incoming = Incoming::new(BATCH);
    let mut outgoing = Outgoing::new(BATCH);
    let mut slots = vec![0; BATCH * STRIDE];
    let (mut out, mut trains) = (Vec::new(), Trains::new(joins));
    serve(over, || {
        let count = incoming.receive(server, &mut slots, SLOT_BYTES, STRIDE)?;
        trains.clear();
        let mut end = 0;
        for n in 0..count {
            let (arrival, slot) = (incoming.arrival(n), &slots[n * STRIDE..]);
            for place in arrival.datagrams() {
                let start = end;
                end += bytes;
                out.resize(out.len().max(end), 7);
                let frame = framing.bytes();
                out[start..start + frame].copy_from_slice(&slot[place][..frame]);
                trains.add(arrival.sender, start..end);
            }
        }
        let mut rest = trains.all();
        while !rest.is_empty() {
            let messages = rest.iter().map(|train| Message {
                to: Some(incoming.arrival(train.to).peer),
                bytes: &out[train.place.clone()],
                segment_bytes: train.segment_bytes(),
            });
            rest = &rest[outgoing.send(server, messages)?..];
        }
        Ok(true)
    })
}
