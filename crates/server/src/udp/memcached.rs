//! memcached's protocols in datagrams.
//!
//! A datagram is a frame and requests: the frame has the request's number, the place of this
//! datagram among those of its message, their count, and two bytes of nothing. Each request is
//! answered with a message of its own under the datagram's number. As in memcached, a request takes
//! one datagram, and what is no whole request is not answered.
//!
//! Reads of a batch run before its other requests: datagrams have no order.

use super::post::Post;
use super::socket::{BATCH, Serve};
use silica_commands::{
    Burst, Executor, Input, Lane, NoRequest, Output, Owner, Parsers, Service, Session, User,
    plan_memcached, stores_value,
};
use silica_net::datagrams::{Incoming, STRIDE};
use silica_proto::memcached::{BinaryParser, FRAME_BYTES, Frame, Parser};
use std::net::UdpSocket;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of a datagram of a reply at most, its frame included.
const DATAGRAM_BYTES_MAX: usize = 1400;
/// Bytes of values that one request may fetch. So a reply has far less than 65,536 datagrams.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// Requests of a datagram; what is behind them is not read.
const REQUESTS_MAX: usize = 256;

/// A request and whom its reply goes to.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Its place among the input's requests.
    request: usize,
    /// The message of the batch that it came in.
    arrival: usize,
    /// The number of its frame.
    id: u16,
    /// Its datagram only reads.
    reads: bool,
}

/// Serves memcached's protocols on one socket.
pub(crate) struct Frames {
    service: Arc<Service>,
    executor: Executor,
    session: Session,
    text: Parser,
    binary: BinaryParser,
    /// Its bytes are the slots of the batch.
    input: Input,
    asked: Vec<Asked>,
    out: Vec<u8>,
    ends: Vec<usize>,
    post: Post,
}

impl Frames {
    pub(crate) fn new(service: Arc<Service>, segments: bool) -> Self {
        Frames {
            executor: Frames::executor(&service),
            service,
            session: Session::new(true),
            text: Parser::new(),
            binary: BinaryParser::default(),
            input: Input::apart(vec![0; BATCH * STRIDE]),
            asked: Vec::new(),
            out: Vec::new(),
            ends: Vec::new(),
            post: Post::new(segments),
        }
    }

    fn executor(service: &Arc<Service>) -> Executor {
        let reply_bytes_max = service.room(REPLY_BYTES_MAX);
        Executor::with_replies_up_to(Arc::clone(service), reply_bytes_max)
    }

    /// Plans what a datagram of message `arrival` asks for, which lies at `place` of the input's
    /// bytes.
    fn plan(&mut self, arrival: usize, place: Range<usize>) {
        let Some(frame) = Frame::read(&self.input.bytes[place.clone()]) else { return };
        if frame.count != 1 {
            return;
        }
        let first = self.asked.len();
        let mut bytes = std::mem::take(&mut self.input.bytes);
        let mut base = place.start + FRAME_BYTES;
        let is_binary = bytes[..place.end].get(base) == Some(&0x80);
        let (mut whole, mut stored) = (true, 0);
        while base < place.end && !self.session.quit && self.asked.len() - first < REQUESTS_MAX {
            let parsers = Parsers { is_binary, text: &mut self.text, binary: &mut self.binary };
            let (bytes, before) = (&mut bytes[..place.end], self.input.requests.len());
            let (service, session) = (&*self.service, &mut self.session);
            match plan_memcached(service, session, parsers, bytes, base, &mut self.input) {
                Ok(Some((used, head))) => {
                    base += used;
                    stored += u64::from(stores_value(&head));
                }
                Ok(None) | Err(NoRequest) => {
                    whole = false;
                    break;
                }
            }
            let requests = before..self.input.requests.len();
            let new = requests.map(|request| Asked { request, arrival, id: frame.id, reads: true });
            self.asked.extend(new);
        }
        if !whole || self.session.quit {
            // What it has begun with is not what the next datagram goes on with.
            (self.text, self.binary) = (Parser::new(), BinaryParser::default());
            self.session.quit = false;
        }
        self.input.bytes = bytes;
        let requests = &self.input.requests;
        let reads = |asked: &Asked| {
            let request = &requests[asked.request];
            request.is_ready() || request.reads()
        };
        let all = self.asked[first..].iter().all(reads);
        self.asked[first..].iter_mut().for_each(|asked| asked.reads = all);
        if stored > 0 {
            self.service.stats.add(|s| &s.memcached_stores, stored);
        }
    }

    /// Puts the reads before the other requests, so that they are one call of the engine.
    fn sort(&mut self) -> Lane {
        let reads = self.asked.iter().filter(|asked| asked.reads).count();
        let is_sorted = self.asked[..reads].iter().all(|asked| asked.reads);
        if !is_sorted {
            let (mut sorted, others): (Vec<Asked>, Vec<Asked>) =
                self.asked.iter().partition(|asked| asked.reads);
            sorted.extend(others);
            self.asked = sorted;
            let requests = &self.input.requests;
            self.input.requests = self.asked.iter().map(|a| requests[a.request]).collect();
        }
        if reads == self.asked.len() { Lane::Read } else { Lane::Write }
    }

    /// Runs what was planned and sends the replies.
    fn run(&mut self, socket: &UdpSocket, incoming: &Incoming) {
        let lane = self.sort();
        let count = self.asked.len();
        let mut next = 0;
        while next < count {
            let mut burst = Burst::new(usize::MAX, lane);
            let output = Output::new(std::mem::take(&mut self.out), next, count)
                .with_ends(std::mem::take(&mut self.ends));
            let owner = Owner { slot: usize::MAX, client: 0 };
            burst.push(owner, std::mem::take(&mut self.input), output);
            let run = catch_unwind(AssertUnwindSafe(|| self.executor.run(&mut burst)));
            let (input, output) = (burst.inputs.pop(), burst.outputs.pop());
            let (Some(input), Some(output)) = (input, output) else { return };
            self.input = input;
            if run.is_err() {
                log::error!("a request made an engine panic; its datagrams are not answered");
                self.executor = Frames::executor(&self.service);
                return;
            }
            (self.out, self.ends) = (output.out, output.ends.unwrap_or_default());
            self.send(socket, incoming, next);
            next = output.next;
            self.out.clear();
            self.out.shrink_to(1 << 20);
            self.ends.clear();
        }
    }

    /// Sends the replies in `out`, the first of which is that of request `first`.
    fn send(&mut self, socket: &UdpSocket, incoming: &Incoming, first: usize) {
        let payload = DATAGRAM_BYTES_MAX - FRAME_BYTES;
        let starts = std::iter::once(&0).chain(&self.ends);
        let replies = starts.zip(&self.ends).zip(&self.asked[first..]);
        for ((start, end), asked) in replies {
            let chunks = self.out[*start..*end].chunks(payload);
            let count = chunks.len() as u16;
            for (number, chunk) in chunks.enumerate() {
                let frame = Frame { id: asked.id, number: number as u16, count };
                self.post.bytes.extend_from_slice(&frame.bytes());
                self.post.bytes.extend_from_slice(chunk);
                self.post.end(asked.arrival);
            }
        }
        let bytes = self.post.send(socket, incoming);
        self.service.stats.add(|s| &s.total_net_output_bytes, bytes);
    }
}

impl Serve for Frames {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.input.bytes
    }

    fn serve(&mut self, socket: &UdpSocket, incoming: &Incoming, count: usize) {
        if !self.session.user(&self.service.acl).is_some_and(User::lets_in) {
            // A password was set since the start; datagrams carry none.
            return;
        }
        self.asked.clear();
        self.input.begin_datagrams(&self.service);
        if self.input.bytes.is_empty() {
            self.input.bytes = vec![0; BATCH * STRIDE];
        }
        let (mut received, mut datagrams) = (0, 0);
        for n in 0..count {
            let arrival = incoming.arrival(n);
            received += arrival.len;
            for place in arrival.datagrams().filter(|_| !arrival.truncated) {
                datagrams += 1;
                let place = n * STRIDE + place.start..n * STRIDE + place.end;
                self.plan(arrival.sender, place);
            }
        }
        let stats = &self.service.stats;
        stats.add(|s| &s.total_net_input_bytes, received as u64);
        stats.add(|s| &s.datagrams_received, datagrams);
        stats.add(|s| &s.datagram_batches, 1);
        stats.add(|s| &s.total_commands_processed, self.asked.len() as u64);
        self.run(socket, incoming);
    }
}
