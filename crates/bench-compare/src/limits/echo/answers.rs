//! Datagrams answered with datagrams, of the sizes and in the numbers of loads on servers: what a
//! server would do that had nothing to look up. The client is that of the loads.

use super::super::cores::with_server;
use super::{Idle, datagrams, failed, kernel, serve};
use crate::limits::{Limit, LimitSetup, Probe, Reading};
use crate::load::{Datagrams, Framing, Load, Script, Speech};
use silica::{Error, ErrorKind, Result};
use silica_device::net::{Incoming, Message, Outgoing, join_segments, set_receive_bytes};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// As servers have them.
const BATCH: usize = 64;
const SLOT_BYTES: usize = 64 << 10;
const STRIDE: usize = SLOT_BYTES + 192;
const RECEIVE_BYTES: usize = 4 << 20;

/// Echoes of the datagrams of loads.
pub(in crate::limits) struct Answers;

/// A load, and bytes of its keys and values.
struct Figure {
    metric: &'static str,
    load: Load,
    shape: (usize, usize),
}

const FIGURES: [Figure; 3] = [
    Figure { metric: "text_gets", load: Load::TEXT_DATAGRAMS, shape: (16, 64) },
    Figure { metric: "gets_by_1", load: Load::datagrams(1), shape: (8, 8) },
    Figure { metric: "gets_by_16", load: Load::datagrams(16), shape: (8, 8) },
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
            if framing.is_joined() {
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
            |over| answer(&server, framing, framing.bytes() + sizes.1, over),
        )
    }
}

/// Answers each datagram with its frame and as many bytes more as make `bytes`.
fn answer(server: &UdpSocket, framing: Framing, bytes: usize, over: &AtomicBool) -> Result<()> {
    let mut incoming = Incoming::new(BATCH);
    let mut outgoing = Outgoing::new(BATCH);
    let mut slots = vec![0; BATCH * STRIDE];
    let mut out: Vec<Vec<u8>> = vec![Vec::new(); BATCH];
    serve(over, || {
        let count = incoming.receive(server, &mut slots, SLOT_BYTES, STRIDE)?;
        for (n, out) in out[..count].iter_mut().enumerate() {
            let arrival = incoming.arrival(n);
            let message = &slots[n * STRIDE..n * STRIDE + arrival.len];
            let datagrams = message.chunks(arrival.segment_bytes.max(1));
            out.resize(datagrams.len() * bytes, 7);
            for (datagram, reply) in datagrams.zip(out.chunks_exact_mut(bytes)) {
                let frame = framing.bytes();
                reply[..frame].copy_from_slice(&datagram[..frame]);
            }
        }
        let messages: Vec<Message<'_>> = out[..count]
            .iter()
            .enumerate()
            .map(|(n, out)| Message {
                to: Some(incoming.arrival(n).peer),
                parts: [out, b""],
                segment_bytes: if out.len() > bytes { bytes } else { 0 },
            })
            .collect();
        let mut sent = 0;
        while sent < messages.len() {
            sent += outgoing.send(server, &messages[sent..])?;
        }
        Ok(true)
    })
}
