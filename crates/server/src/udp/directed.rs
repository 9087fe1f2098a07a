//! The datagram protocol: many requests in a datagram. Format: docs/protocols/datagram.md.
//!
//! All requests of a batch are one `get_many` and one batch of writes; their replies go back in as
//! few messages as there are senders, since the kernel cuts one message into many datagrams.

use super::post::Post;
use super::socket::{BATCH, Serve};
use super::writer::{Group, Late, Writer, is_within};
use crate::shared::Shared;
use silica::engine::{Engine, EntryRef, Limits, Result, WriteBatch};
use silica_commands::{Front, Lane, Service, Session, Turn, same};
use silica_net::datagrams::{Incoming, Peer, STRIDE};
use silica_proto::datagram::{
    Directory, Header, Kind, PASS_BYTES, Reason, Reply, Request, Requests, SHORT_REPLIES_MAX,
    Unknown,
};
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Requests after which those that came before are run.
const TOGETHER: usize = 1024;

/// Requests of a batch that have not run, and the keys of those that are gets.
struct Asked<'a> {
    requests: Vec<Request<'a>>,
    keys: Vec<&'a [u8]>,
}

impl<'a> Asked<'a> {
    fn new() -> Self {
        Asked { requests: Vec::with_capacity(TOGETHER), keys: Vec::with_capacity(TOGETHER) }
    }

    /// Adds the requests of a datagram, how many; nothing where one is malformed.
    #[inline]
    fn add(&mut self, requests: Requests<'a>) -> Option<usize> {
        let before = (self.requests.len(), self.keys.len());
        for request in requests {
            let Ok(request) = request else {
                self.requests.truncate(before.0);
                self.keys.truncate(before.1);
                return None;
            };
            if let Request::Get(key) = request {
                self.keys.push(key);
            }
            self.requests.push(request);
        }
        Some(self.requests.len() - before.0)
    }
}

/// What requests have asked for and what is sent for it; kept for its memory.
struct Replies {
    late: Late,
    /// Where replies to writes stand that were written before these.
    writes: Vec<usize>,
    post: Post,
    /// Held while requests run.
    turn: Arc<Turn>,
}

/// Serves the protocol on one socket.
pub(crate) struct Directed {
    shared: Arc<Shared>,
    service: Arc<Service>,
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
        let replies = Replies::new(&shared.service, segments);
        Directed {
            service: Arc::clone(&shared.service),
            shared,
            open: false,
            known: None,
            session: Session::new(true),
            bytes: vec![0; BATCH * STRIDE],
            groups: Vec::new(),
            replies,
            segments,
        }
    }

    /// Runs the requests of `groups` and writes their replies. Where the engine panics nothing is
    /// answered.
    fn run(&mut self, asked: &mut Asked<'_>) {
        if self.groups.is_empty() {
            return;
        }
        let Asked { requests, keys } = asked;
        let (service, groups, replies) = (&self.service, &self.groups, &mut self.replies);
        let run = || replies.run(service, groups, requests, keys);
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            log::error!("a request made an engine panic; its datagrams are not answered");
            self.replies = Replies::new(service, self.segments);
        }
        requests.clear();
        keys.clear();
        self.groups.clear();
    }

    /// Answers what asks for no engine, and adds what does to `requests`.
    fn take<'a>(&mut self, arrival: usize, peer: &Peer, datagram: &'a [u8], asked: &mut Asked<'a>) {
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
            Kind::Requests if !is_answerable(&header) => {
                self.replies.refuse(arrival, sequence, Reason::Malformed);
            }
            Kind::Requests => match asked.add(Requests::new(rest, header.count)) {
                Some(count) => {
                    let room = usize::from(header.room);
                    self.groups.push(Group { arrival, sequence, count, room });
                }
                None => self.replies.refuse(arrival, sequence, Reason::Malformed),
            },
            // What servers send is not answered, or two of them could go on for ever.
            Kind::Directory | Kind::Replies | Kind::Refusal => {}
        }
    }

    /// True where `token` is that of a sender who may ask for entries.
    fn lets_in(&mut self, peer: &Peer, token: u64) -> bool {
        if self.known == Some(token) {
            return true;
        }
        let passes = &self.shared.loops.passes;
        let lets_in = token == passes.token(peer, Some(self.service.acl.version()))
            || self.open && token == passes.token(peer, None);
        if lets_in {
            self.known = Some(token);
        }
        lets_in
    }

    /// Answers an ask of `asked` bytes with the directory. Partitions are told to those who have a
    /// pass.
    fn ask(&mut self, arrival: usize, peer: &Peer, sequence: u64, rest: &[u8], asked: usize) {
        let (shared, passes) = (&*self.shared, &self.shared.loops.passes);
        let version = self.service.acl.version();
        let given = rest.first_chunk::<PASS_BYTES>().filter(|pass| **pass != [0; PASS_BYTES]);
        let (token, partitions) = match given {
            Some(pass) if same(pass, &passes.pass(version)) => {
                (passes.token(peer, Some(version)), shared.partitions())
            }
            None if self.open => (passes.token(peer, None), None),
            _ => return self.replies.refuse(arrival, sequence, Reason::Pass),
        };
        let directory = Directory::new(&shared.loops.datagram_ports(), partitions);
        self.replies.directory(arrival, sequence, token, &directory, asked);
    }

    /// Sends what was written.
    fn send(&mut self, socket: &UdpSocket, incoming: &Incoming) {
        let sent = self.replies.post.send(socket, incoming);
        self.service.stats.add(|s| &s.total_net_output_bytes, sent);
    }
}

impl Replies {
    fn new(service: &Service, segments: bool) -> Self {
        let turn = service.databases.new_turn();
        Replies { late: Late::default(), writes: Vec::new(), post: Post::new(segments), turn }
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
        let header = Header { kind: Kind::Directory, room: 0, count, sequence, word };
        self.post.bytes.extend_from_slice(&header.bytes());
        directory.write(&mut self.post.bytes);
        match self.post.len() > asked {
            true => self.post.forget(),
            false => self.post.end(arrival),
        }
    }

    /// Runs the requests of `groups`, of which `keys` are those of the gets, and writes their
    /// replies.
    fn run(
        &mut self,
        service: &Service,
        groups: &[Group],
        requests: &[Request<'_>],
        keys: &[&[u8]],
    ) {
        let Replies { late, writes, post, turn } = self;
        let _entered = service.databases.enter(turn);
        let Ok(engine) = service.databases.engine(0) else { return };
        writes.clear();
        let limits = engine.descriptor().limits;
        let mut writer = Writer::new(post, writes, groups, requests, &limits);
        let got = get(engine, keys, late, &mut writer);
        let got = got.inspect_err(|error| log::error!("getting for datagrams: {error}")).is_ok();
        writer.finish(if got { Reply::Missing } else { Reply::Failed });
        let hits = writer.hits;
        let has_writes = requests.len() > keys.len();
        if has_writes && !write(engine, service, requests, &limits) {
            let mut failed = Vec::new();
            Reply::Failed.write(&mut failed);
            for at in writes {
                post.bytes[*at..*at + failed.len()].copy_from_slice(&failed);
            }
        }
        let lane = if has_writes { Lane::Write } else { Lane::Read };
        let stats = &service.stats;
        stats.add(|s| &s.keyspace_hits, hits);
        stats.add(|s| &s.keyspace_misses, keys.len() as u64 - hits);
        stats.add(|s| &s.total_commands_processed, requests.len() as u64);
        stats.count_burst(lane, requests.len());
    }
}

/// True if the datagrams that may answer hold a reply without a value to each request.
fn is_answerable(header: &Header) -> bool {
    let short_max = usize::from(header.room) * SHORT_REPLIES_MAX;
    header.room == 0 || usize::from(header.count) <= short_max
}

/// Gets `keys` and tells `writer` what is found in their order.
fn get(
    engine: &dyn Engine,
    keys: &[&[u8]],
    late: &mut Late,
    writer: &mut Writer<'_, '_>,
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    if engine.reports_in_order() {
        return engine.get_many(keys, writer);
    }
    late.clear(keys.len());
    // Where it fails, what was not reported may be there.
    engine.get_many(keys, late).inspect(|()| late.tell(writer))
}

/// Puts and deletes what is asked for; false where the engine fails.
fn write(
    engine: &dyn Engine,
    service: &Service,
    requests: &[Request<'_>],
    limits: &Limits,
) -> bool {
    let mut batch = WriteBatch::new();
    for request in requests.iter().filter(|request| is_within(request, limits)) {
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
        return true;
    }
    let durability = service.options.durability;
    let written = service.write_told(0, &batch, || engine.write_each(&batch, durability));
    service.tell_written(0, &batch);
    written.inspect_err(|error| log::error!("writing for datagrams: {error}")).is_ok()
}

impl Serve for Directed {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn serve(&mut self, socket: &UdpSocket, incoming: &Incoming, count: usize) {
        // Without a pass nobody says who it is.
        let user = self.session.user(&self.service.acl);
        self.open = user.is_some_and(|user| user.lets_in() && user.is_unlimited());
        let bytes = std::mem::take(&mut self.bytes);
        let mut asked = Asked::new();
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
                self.take(arrival.sender, arrival.peer, &slot[place], &mut asked);
                if asked.requests.len() >= TOGETHER {
                    self.run(&mut asked);
                }
            }
            if self.replies.post.bytes.len() >= 1 << 20 {
                self.run(&mut asked);
                self.send(socket, incoming);
            }
        }
        self.run(&mut asked);
        self.send(socket, incoming);
        drop(asked);
        self.bytes = bytes;
        let stats = &self.service.stats;
        stats.add(|s| &s.total_net_input_bytes, received as u64);
        stats.add(|s| &s.datagrams_received, datagrams);
        stats.add(|s| &s.datagram_batches, 1);
    }
}
