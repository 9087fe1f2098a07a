//! The datagram protocol: many requests in a datagram. Format: docs/protocols/datagram.md.
//!
//! All requests of a batch are one `get_many` and one batch of writes; their replies go back in as
//! few messages as there are senders, since the kernel cuts one message into many datagrams.

use super::post::Post;
use super::socket::{BATCH, Serve};
use crate::burst::Lane;
use crate::password::same;
use crate::server::Shared;
use crate::session::Session;
use crate::stats::Stats;
use silica::engine::{Engine, EntryRef, GetSink, WriteBatch};
use silica_device::net::{Incoming, Peer, STRIDE};
use silica_proto::datagram::{
    DATAGRAM_BYTES_MAX, Directory, HEADER_BYTES, Header, Kind, PASS_BYTES, Reason, Reply, Request,
    Requests, Unknown, VALUE_BYTES_MAX,
};
use std::net::UdpSocket;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Requests after which those that came before are run.
const TOGETHER: usize = 1024;

/// A datagram of requests.
#[derive(Debug, Clone, Copy)]
struct Group {
    arrival: usize,
    sequence: u64,
    count: usize,
}

/// What a get found, in the order of the gets.
#[derive(Debug, Clone, Copy)]
enum Found {
    Missing,
    TooLarge,
    Value { start: u32, len: u32 },
}

/// Collects values.
struct Collector<'a> {
    found: &'a mut [Found],
    arena: &'a mut Vec<u8>,
}

impl GetSink for Collector<'_> {
    #[inline]
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let (start, len) = (self.arena.len() as u32, entry.value.len());
        self.found[index] = if len > VALUE_BYTES_MAX {
            Found::TooLarge
        } else {
            self.arena.extend_from_slice(entry.value);
            Found::Value { start, len: len as u32 }
        };
    }
}

/// What requests have asked for and what is sent for it; kept for its memory.
struct Replies {
    found: Vec<Found>,
    arena: Vec<u8>,
    post: Post,
}

/// Serves the protocol on one socket.
pub(crate) struct Directed {
    shared: Arc<Shared>,
    /// Who has no pass is let in.
    open: bool,
    /// The token that has let the sender in whose message is looked at: it is made once for all
    /// of its datagrams in a row.
    known: Option<u64>,
    session: Session,
    bytes: Vec<u8>,
    groups: Vec<Group>,
    replies: Replies,
    /// The kernel cuts messages.
    segments: bool,
}

impl Directed {
    pub(crate) fn new(shared: Arc<Shared>, segments: bool) -> Self {
        Directed {
            shared,
            open: false,
            known: None,
            session: Session::new(true),
            bytes: vec![0; BATCH * STRIDE],
            groups: Vec::new(),
            replies: Replies::new(segments),
            segments,
        }
    }

    /// Runs the requests of `groups` and writes their replies. Where the engine panics nothing is
    /// answered.
    fn run(&mut self, requests: &mut Vec<Request<'_>>) {
        if requests.is_empty() {
            return;
        }
        let (shared, groups, replies) = (&self.shared, &self.groups, &mut self.replies);
        let run = || replies.run(shared, groups, requests);
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            log::error!("a request made an engine panic; its datagrams are not answered");
            self.replies = Replies::new(self.segments);
        }
        requests.clear();
        self.groups.clear();
    }

    /// Answers what asks for no engine, and adds what does to `requests`.
    fn take<'a>(
        &mut self,
        arrival: usize,
        peer: &Peer,
        datagram: &'a [u8],
        requests: &mut Vec<Request<'a>>,
    ) {
        let (header, rest) = match Header::read(datagram) {
            Ok(read) => read,
            Err(Unknown::Nothing) => return,
            Err(Unknown::Version(sequence)) => {
                return self.replies.refuse(arrival, sequence, Reason::Version);
            }
            Err(Unknown::Kind(sequence)) => {
                return self.replies.refuse(arrival, sequence, Reason::Malformed);
            }
        };
        let sequence = header.sequence;
        match header.kind {
            Kind::Ask => self.ask(arrival, peer, sequence, rest, datagram.len()),
            Kind::Requests if !self.lets_in(peer, header.word) => {
                self.replies.refuse(arrival, sequence, Reason::Token);
            }
            Kind::Requests => {
                let before = requests.len();
                for request in Requests::new(rest, header.count) {
                    let Ok(request) = request else {
                        requests.truncate(before);
                        return self.replies.refuse(arrival, sequence, Reason::Malformed);
                    };
                    requests.push(request);
                }
                self.groups.push(Group { arrival, sequence, count: requests.len() - before });
            }
            // What servers send is not answered, or two of them could go on for ever.
            Kind::Directory | Kind::Replies | Kind::Refusal => {}
        }
    }

    /// True where `token` is that of a sender who may ask for entries.
    fn lets_in(&mut self, peer: &Peer, token: u64) -> bool {
        if self.known == Some(token) {
            return true;
        }
        let passes = &self.shared.passes;
        let lets_in = token == passes.token(peer, Some(self.shared.acl.version()))
            || self.open && token == passes.token(peer, None);
        if lets_in {
            self.known = Some(token);
        }
        lets_in
    }

    /// Answers an ask of `asked` bytes with the directory. Partitions are told to those who have a
    /// pass.
    fn ask(&mut self, arrival: usize, peer: &Peer, sequence: u64, rest: &[u8], asked: usize) {
        let shared = &*self.shared;
        let version = shared.acl.version();
        let given = rest.first_chunk::<PASS_BYTES>().filter(|pass| **pass != [0; PASS_BYTES]);
        let (token, partitions) = match given {
            Some(pass) if same(pass, &shared.passes.pass(version)) => {
                (shared.passes.token(peer, Some(version)), shared.partitions())
            }
            None if self.open => (shared.passes.token(peer, None), None),
            _ => return self.replies.refuse(arrival, sequence, Reason::Pass),
        };
        let directory = Directory::new(&shared.datagram_ports(), partitions);
        self.replies.directory(arrival, sequence, token, &directory, asked);
    }

    /// Sends what was written.
    fn send(&mut self, socket: &UdpSocket, incoming: &Incoming) {
        let sent = self.replies.post.send(socket, incoming);
        Stats::add(&self.shared.stats.total_net_output_bytes, sent);
    }
}

impl Replies {
    fn new(segments: bool) -> Self {
        Replies { found: Vec::new(), arena: Vec::new(), post: Post::new(segments) }
    }

    fn refuse(&mut self, arrival: usize, sequence: u64, reason: Reason) {
        self.post.bytes.extend_from_slice(&Header::refusal(sequence, reason).bytes());
        self.post.end(arrival);
    }

    /// Answers with the directory, unless that is longer than `asked`.
    fn directory(
        &mut self,
        arrival: usize,
        sequence: u64,
        word: u64,
        directory: &Directory,
        asked: usize,
    ) {
        let count = directory.ports.len() as u16;
        let header = Header { kind: Kind::Directory, count, sequence, word };
        self.post.bytes.extend_from_slice(&header.bytes());
        directory.write(&mut self.post.bytes);
        match self.post.len() > asked {
            true => self.post.forget(),
            false => self.post.end(arrival),
        }
    }

    fn run(&mut self, shared: &Shared, groups: &[Group], requests: &[Request<'_>]) {
        let Ok(engine) = shared.store.engine(0) else { return };
        let got = self.get(engine, requests);
        let written = write(engine, shared, requests);
        let lane = if written.is_some() { Lane::Write } else { Lane::Read };
        let hits = self.found.iter().filter(|found| !matches!(found, Found::Missing)).count();
        let stats = &shared.stats;
        Stats::add(&stats.keyspace_hits, hits as u64);
        Stats::add(&stats.keyspace_misses, (self.found.len() - hits) as u64);
        Stats::add(&stats.total_commands_processed, requests.len() as u64);
        stats.count_burst(lane, requests.len());
        let limits = engine.descriptor().limits;
        let mut found = std::mem::take(&mut self.found).into_iter();
        let arena = std::mem::take(&mut self.arena);
        let mut rest = requests;
        for group in groups {
            let (own, behind) = rest.split_at(group.count);
            rest = behind;
            self.answer(
                group,
                own.iter().map(|request| match request {
                    Request::Get(_) if !got => Reply::Failed,
                    Request::Get(_) => match found.next() {
                        Some(Found::Value { start, len }) => {
                            Reply::Done(&arena[start as usize..(start + len) as usize])
                        }
                        Some(Found::TooLarge) => Reply::TooLarge,
                        _ => Reply::Missing,
                    },
                    _ if !is_within(request, &limits) => Reply::TooLarge,
                    _ if written == Some(true) => Reply::Done(b""),
                    _ => Reply::Failed,
                }),
            );
        }
        self.arena = arena;
        self.arena.clear();
    }

    /// Gets what is asked for; false where the engine fails.
    fn get(&mut self, engine: &dyn Engine, requests: &[Request<'_>]) -> bool {
        let keys = requests.iter().filter_map(|request| match request {
            Request::Get(key) => Some(*key),
            _ => None,
        });
        let keys: Vec<&[u8]> = keys.collect();
        self.found.clear();
        self.found.resize(keys.len(), Found::Missing);
        self.arena.clear();
        let (found, arena) = (&mut self.found[..], &mut self.arena);
        let got = engine.get_many(&keys, &mut Collector { found, arena });
        got.inspect_err(|error| log::error!("getting for datagrams: {error}")).is_ok()
    }

    /// Writes the replies of a group, in as few datagrams as hold them.
    fn answer<'a>(&mut self, group: &Group, replies: impl Iterator<Item = Reply<'a>>) {
        let (mut first, mut next) = (0, 0);
        self.post.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        for reply in replies {
            if self.post.len() + reply.size() > DATAGRAM_BYTES_MAX {
                self.end(group, first..next);
                first = next;
                self.post.bytes.extend_from_slice(&[0; HEADER_BYTES]);
            }
            reply.write(&mut self.post.bytes);
            next += 1;
        }
        self.end(group, first..next);
    }

    /// Ends a datagram, which has the replies `part`.
    fn end(&mut self, group: &Group, part: Range<usize>) {
        let (count, sequence) = (part.len() as u16, group.sequence);
        let word = Header::word_of(part.start, group.count);
        let header = Header { kind: Kind::Replies, count, sequence, word };
        self.post.datagram()[..HEADER_BYTES].copy_from_slice(&header.bytes());
        self.post.end_lengthened(group.arrival);
    }
}

/// True where the engine takes a write.
fn is_within(request: &Request<'_>, limits: &silica::engine::Limits) -> bool {
    let value = if let Request::Put { value, .. } = request { value.len() } else { 0 };
    request.key().len() <= limits.key_bytes_max && value <= limits.value_bytes_max
}

/// Puts and deletes what is asked for; nothing where there is no such request, and false where the
/// engine fails.
fn write(engine: &dyn Engine, shared: &Shared, requests: &[Request<'_>]) -> Option<bool> {
    let limits = engine.descriptor().limits;
    let mut batch = WriteBatch::new();
    for request in requests.iter().filter(|request| is_within(request, &limits)) {
        match *request {
            Request::Get(_) => {}
            Request::Put { key, value, expires_unix_ms } => {
                batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits: 0 });
            }
            Request::Delete(key) => {
                batch.delete(key);
            }
        }
    }
    if batch.is_empty() {
        return None;
    }
    let written = engine.write_each(&batch, shared.config.durability);
    Some(written.inspect_err(|error| log::error!("writing for datagrams: {error}")).is_ok())
}

impl Serve for Directed {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn serve(&mut self, socket: &UdpSocket, incoming: &Incoming, count: usize) {
        // Without a pass nobody says who it is.
        let user = self.session.user(&self.shared.acl);
        self.open = user.is_some_and(|user| user.lets_in() && user.is_unlimited());
        let bytes = std::mem::take(&mut self.bytes);
        let mut requests = Vec::with_capacity(TOGETHER);
        let (mut received, mut datagrams) = (0, 0);
        for n in 0..count {
            let arrival = incoming.arrival(n);
            received += arrival.len;
            if arrival.truncated || arrival.len == 0 {
                continue;
            }
            if arrival.sender == n {
                self.known = None;
            }
            let slot = &bytes[n * STRIDE..][..arrival.len];
            for place in arrival.datagrams() {
                datagrams += 1;
                self.take(arrival.sender, arrival.peer, &slot[place], &mut requests);
                if requests.len() >= TOGETHER {
                    self.run(&mut requests);
                }
            }
            if self.replies.post.bytes.len() >= 1 << 20 {
                self.run(&mut requests);
                self.send(socket, incoming);
            }
        }
        self.run(&mut requests);
        self.send(socket, incoming);
        drop(requests);
        self.bytes = bytes;
        let stats = &self.shared.stats;
        Stats::add(&stats.total_net_input_bytes, received as u64);
        Stats::add(&stats.datagrams_received, datagrams);
        Stats::add(&stats.datagram_batches, 1);
    }
}
