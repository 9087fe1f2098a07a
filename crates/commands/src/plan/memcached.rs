//! Turns the bytes of a connection that speaks memcached into planned requests.

use super::{READY_BYTES_MAX, hand_over, is_heavy, record_activity, requests_max};
use crate::acl::{Denied, Refusal, User};
use crate::burst::{Args, Input, Request};
use crate::client_state::ClientState;
use crate::memcached::{
    COMPATIBLE_VERSION, NO_MEMORY, SET_WITHOUT_MEMORY, binary, flush, meta, name, refuse, stats,
    text,
};
use crate::resp::monitors;
use crate::service::Service;
use crate::session::Session;
use crate::table::{Run, find};
use silica_proto::memcached::{
    BinaryParser, Command, Fault, Limits, Mode, Packet, Parser, Protocol, Request as Head,
    Response, Status, Verb, end, fault, respond,
};
use silica_proto::{Reply, Span, Version};
use std::sync::Arc;

/// Bytes of a value or a line that are still taken when there is no memory left.
const SCARCE_BYTES: usize = 2 << 10;

/// Plans what `state` has received. Leaves `unplanned` set where more could be planned at once.
pub(super) fn plan(service: &Service, state: &mut ClientState, input: &mut Input) {
    let is_binary = state.protocol == Some(Protocol::MemcachedBinary);
    let (mut base, mut planned, mut sets, mut last) = (0, 0, 0, None);
    let requests_max = requests_max(service);
    input.marks = Some(Arc::clone(&service.marks));
    input.now_ms = service.unix_ms();
    input.client = state.client.id;
    let mut ends = false;
    while base < state.input.len() && !ends {
        if planned > 0 && begins_stats(&state.input[base..]) {
            // What it counts is done when it is planned, and no more.
            state.unplanned = true;
            break;
        }
        if input.requests.len() >= requests_max || input.ready.len() >= READY_BYTES_MAX {
            state.unplanned = true;
            break;
        }
        let parsers = Parsers { is_binary, text: &mut state.memcached, binary: &mut state.binary };
        match plan_memcached(service, &mut state.session, parsers, &mut state.input, base, input) {
            Ok(None) => break,
            Ok(Some((used, head))) => {
                planned += u64::from(head != Head::Nothing);
                sets += u64::from(stores_value(&head));
                last = Some(name(head));
                ends = is_stats(&head);
                base += used;
            }
            // As memcached does: whoever sends such bytes speaks something else.
            Err(NoRequest) => state.session.quit = true,
        }
        if state.session.quit {
            base = state.input.len();
            state.closing = true;
            state.unplanned = false;
        }
    }
    state.unplanned |= ends && !state.session.quit && base < state.input.len();
    hand_over(state, input, base);
    service.stats.add(|s| &s.total_commands_processed, planned);
    service.stats.add(|s| &s.memcached_stores, sets);
    record_activity(state, last, service.unix_ms());
}

/// True for a request whose value is too large, and which stores nothing for that.
fn is_too_large(head: &Head) -> bool {
    match head {
        Head::Fault(wrong) => *wrong == Fault::TooLarge,
        Head::Binary(packet) => packet.command == Command::Refused(Status::TooLarge),
        _ => false,
    }
}

/// True for a request for figures, which is planned alone.
fn is_stats(head: &Head) -> bool {
    matches!(head, Head::Stats)
        || matches!(head, Head::Binary(packet) if packet.command == Command::Stat)
}

/// True where `bytes` begin with such a request, of either protocol.
fn begins_stats(bytes: &[u8]) -> bool {
    bytes.starts_with(b"stats") || bytes.starts_with(&[0x80, 0x10])
}

impl Input {
    /// For requests that have replies of their own, with the bytes that they lie in.
    pub fn apart(bytes: Vec<u8>) -> Self {
        Input { bytes, apart: true, ..Input::default() }
    }

    /// Forgets all requests, for those of memcached's that came in datagrams now.
    pub fn begin_datagrams(&mut self, service: &Service) {
        self.spans.clear();
        self.requests.clear();
        self.heads.clear();
        self.ready.clear();
        self.marks.get_or_insert_with(|| Arc::clone(&service.marks));
        self.now_ms = service.unix_ms();
    }
}

/// The parsers of one connection, or of all datagrams.
pub struct Parsers<'a> {
    /// The binary protocol's parses, not the text protocol's.
    pub is_binary: bool,
    /// That of the text protocol.
    pub text: &'a mut Parser,
    /// That of the binary protocol.
    pub binary: &'a mut BinaryParser,
}

/// Bytes that are no request.
pub struct NoRequest;

/// Plans the request that starts at `base` of `bytes`; its length and what it says. `None` where
/// it is not all there.
pub fn plan_memcached(
    service: &Service,
    session: &mut Session,
    parsers: Parsers<'_>,
    bytes: &mut [u8],
    base: usize,
    input: &mut Input,
) -> Result<Option<(usize, Head)>, NoRequest> {
    let mut limits = if session.let_in { Limits::OPEN } else { Limits::BEFORE_AUTH };
    let value_bytes_max = limits.value_bytes_max;
    limits.value_bytes_max = limits.value_bytes_max.min(service.budget.value_bytes_max());
    let bytes = &mut bytes[base..];
    let Parsers { is_binary, text, binary } = parsers;
    let have = bytes.len();
    let mut parse = |limits: &Limits, again: bool| match is_binary {
        true => binary.parse(bytes, limits).map_err(|_| NoRequest),
        false => {
            if again {
                text.restart();
            }
            text.parse(bytes, limits).map_err(|_| NoRequest)
        }
    };
    let mut parsed = parse(&limits, false)?;
    if parsed.is_none() && session.let_in && have > SCARCE_BYTES && service.budget.is_full() {
        // What has announced more is skipped, and refused as too large.
        limits.value_bytes_max = SCARCE_BYTES;
        limits.keys_bytes_max = limits.line_bytes_max;
        parsed = parse(&limits, true)?;
    }
    let Some(used) = parsed else { return Ok(None) };
    let (head, quiet, spans) = match is_binary {
        true => (binary.request(), false, binary.spans()),
        false => (text.request(), text.is_quiet(), text.spans()),
    };
    let lacks_memory = limits.value_bytes_max < value_bytes_max;
    Planner { service, session, input, lacks_memory }.add(head, quiet, spans, bytes, base);
    Ok(Some((used, head)))
}

/// True for a request that stores a value.
pub fn stores_value(head: &Head) -> bool {
    match head {
        Head::Store { .. } => true,
        Head::Meta(meta) => meta.verb == Verb::Set,
        Head::Binary(packet) => matches!(
            packet.command,
            Command::Set | Command::Add | Command::Replace | Command::Append | Command::Prepend
        ),
        _ => false,
    }
}

/// The command of RESP that users need for the same.
fn needed(head: &Head, run: &Run) -> Option<&'static str> {
    let store = |mode: Mode| if mode == Mode::Set { "set" } else { "getset" };
    Some(match (head, run) {
        (_, Run::Read(_)) => "get",
        (Head::Store { mode, .. }, _) => store(*mode),
        (Head::TooLarge, _) => "del",
        (Head::GetAndTouch { .. }, _) => "getex",
        (Head::Touch { .. }, _) => "expire",
        (Head::Arithmetic { .. }, _) => "incrby",
        (Head::Delete, _) => "del",
        (Head::FlushAll { .. }, _) => "flushall",
        (Head::Stats, _) => "info",
        (Head::Meta(meta), _) => match meta.verb {
            Verb::Set => "getset",
            Verb::Delete => "getdel",
            Verb::Arithmetic => "incrby",
            _ => "getex",
        },
        (Head::Binary(packet), _) => match packet.command {
            Command::Set => "set",
            Command::Touch => "expire",
            Command::Increment | Command::Decrement => "incrby",
            Command::Delete => "del",
            Command::Flush => "flushall",
            Command::Stat => "info",
            Command::GetAndTouch { .. } => "getex",
            _ => "getset",
        },
        _ => return None,
    })
}

struct Planner<'a> {
    service: &'a Service,
    session: &'a mut Session,
    input: &'a mut Input,
    /// What is too large would have been taken if the clients had more memory.
    lacks_memory: bool,
}

impl Planner<'_> {
    /// Plans the request just parsed, whose bytes start at `base` of the connection's.
    fn add(&mut self, head: Head, quiet: bool, spans: &[Span], bytes: &[u8], base: usize) {
        let run = match head {
            Head::Nothing => return,
            Head::TooLarge if self.lacks_memory => Run::Write(&SET_WITHOUT_MEMORY),
            Head::Binary(packet) if self.lacks_memory && binary::is_set_too_large(&packet) => {
                Run::Write(&SET_WITHOUT_MEMORY)
            }
            _ if self.lacks_memory && is_too_large(&head) => {
                self.service.stats.add(|s| &s.total_error_replies, 1);
                let dialect = Version::Resp2;
                let write = |out: &mut Vec<u8>| {
                    refuse(&head, NO_MEMORY, &mut Reply::new(out, dialect));
                };
                return self.ready(quiet, write);
            }
            Head::Fault(wrong) => {
                self.service.stats.add(|s| &s.total_error_replies, 1);
                return self.ready(quiet, |out| fault(out, wrong));
            }
            Head::Version => {
                return self.ready(quiet, |out| {
                    out.extend_from_slice(b"VERSION ");
                    out.extend_from_slice(COMPATIBLE_VERSION.as_bytes());
                    out.extend_from_slice(b"\r\n");
                });
            }
            Head::Verbosity => return self.ready(quiet, |out| out.extend_from_slice(b"OK\r\n")),
            Head::Quit => {
                self.session.quit = true;
                return;
            }
            Head::Noop => return self.ready(quiet, |out| out.extend_from_slice(b"MN\r\n")),
            Head::Meta(meta) => meta::run(&meta),
            Head::Binary(packet) => match binary::run(&packet) {
                Some(run) => run,
                None => return self.packet(&packet, spans, bytes),
            },
            Head::Auth => return self.auth(spans[0].of(bytes)),
            // No key at all is fine here.
            Head::GetAndTouch { .. } if spans.is_empty() => return self.ready(quiet, end),
            Head::Get { .. } => Run::Read(&text::GET),
            Head::GetAndTouch { .. } => Run::Update(&text::GET_AND_TOUCH),
            Head::Store { mode: Mode::Set, .. } => Run::Write(&text::SET),
            Head::Store { .. } => Run::Update(&text::STORE),
            Head::TooLarge => Run::Write(&text::TOO_LARGE),
            Head::Arithmetic { .. } => Run::Update(&text::ARITHMETIC),
            Head::Touch { .. } => Run::Update(&text::TOUCH),
            Head::Delete => Run::Update(&text::DELETE),
            Head::FlushAll { .. } => Run::Whole(flush::flush_all),
            Head::Stats => Run::Whole(stats::stats),
        };
        if let Some(text) = self.denied(&head, &run, spans, bytes) {
            self.service.stats.add(|s| &s.total_error_replies, 1);
            let write =
                |out: &mut Vec<u8>| refuse(&head, &text, &mut Reply::new(out, Version::Resp2));
            return self.ready(false, write);
        }
        if let Err(text) = self.input.claim_many(&self.service.budget, &run, spans.len()) {
            self.service.stats.add(|s| &s.total_error_replies, 1);
            let write =
                |out: &mut Vec<u8>| refuse(&head, &text, &mut Reply::new(out, Version::Resp2));
            return self.ready(false, write);
        }
        let long = matches!(head, Head::FlushAll { .. })
            || matches!(head, Head::Binary(packet) if packet.command == Command::Flush);
        if self.service.monitors.is_active() {
            self.show(head, spans, bytes);
        }
        self.push(run, head, spans, base, quiet, long);
    }

    /// Shows a request to those who monitor, by its name and its keys.
    fn show(&self, head: Head, spans: &[Span], bytes: &[u8]) {
        let mut all = name(head).as_bytes().to_vec();
        let mut list = vec![Span { start: 0, len: all.len() as u32 }];
        for span in spans.iter().take(if stores_value(&head) { 1 } else { spans.len() }) {
            list.push(Span { start: all.len() as u32, len: span.len });
            all.extend_from_slice(span.of(bytes));
        }
        let service = self.service;
        let client = service.clients.get(self.input.client);
        let source = client.map_or("udp".into(), |client| client.peer.to_string());
        let args = Args::new(&all, &list);
        let line = monitors::line(service, usize::from(self.session.db), &source, args);
        service.monitors.show(service, &line);
    }

    /// Why the user may not do this, where that is so.
    fn denied(&mut self, head: &Head, run: &Run, spans: &[Span], bytes: &[u8]) -> Option<String> {
        let user = self.session.user(&self.service.acl);
        if user.is_some_and(User::is_unlimited) {
            return None;
        }
        let command = find(needed(head, run)?.as_bytes())?;
        let Some(user) = user else { return Some(Denied::Command(command.name).text()) };
        let keys = match (command.keys.0, head) {
            (0, _) => 0,
            (_, Head::Get { .. } | Head::GetAndTouch { .. }) => spans.len(),
            _ => 1,
        };
        let access = command.access(0, Args::new(&[], &[]));
        let denied = user.permits_by(|rights| {
            let mut keys = spans.iter().take(keys).map(|span| span.of(bytes));
            rights.permits_command(command)?;
            keys.try_for_each(|key| rights.permits_key(key, access))
        });
        let denied = denied.err()?;
        self.service.note_refusal(Refusal::of(&denied, &user.name, false), None);
        Some(denied.text())
    }

    /// Lets the client in where name and password are right.
    fn let_in(&mut self, user: &[u8], given: &[u8]) -> bool {
        match self.service.acl.authenticate(user, given) {
            Some(user) => {
                self.session.enter(user);
                true
            }
            None => {
                self.service.note_refusal(Refusal::of_password(b"auth", user), None);
                false
            }
        }
    }

    /// Adds a request that an engine answers. Its first argument stands for the command.
    fn push(
        &mut self,
        run: Run,
        head: Head,
        spans: &[Span],
        base: usize,
        silent: bool,
        long: bool,
    ) {
        let first = self.input.spans.len();
        self.input.spans.push(Span::default());
        self.input.spans.extend(spans.iter().map(|span| span.at(base)));
        self.input.heads.push(head);
        // Lengths alone decide, so it does not matter which bytes these are.
        let heavy = is_heavy(&run, spans.len() + 1, || spans.iter().map(|s| s.len as usize).sum());
        let (db, long) = (self.session.db, long || heavy);
        let head = self.input.heads.len() as u32;
        let request = Request::new(run, first, spans.len() + 1);
        self.input.requests.push(Request { db, head, silent, long, ..request });
    }

    /// Adds a reply that is known already.
    fn ready(&mut self, silent: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.input.ready.len();
        write(&mut self.input.ready);
        self.input.push_ready(start, silent);
    }

    /// Answers a packet that needs no engine.
    fn packet(&mut self, packet: &Packet, spans: &[Span], bytes: &[u8]) {
        self.session.quit |= packet.last || packet.command == Command::Quit;
        let sasl =
            matches!(packet.command, Command::SaslList | Command::SaslAuth | Command::SaslStep);
        if !sasl {
            let wrong = matches!(packet.command, Command::Refused(_));
            self.service.stats.add(|s| &s.total_error_replies, u64::from(wrong));
            return self.ready(false, |out| binary::ready(out, packet));
        }
        let answer = match (self.service.acl.has_passwords(), packet.command) {
            (false, _) => Err(Status::Unknown),
            (true, Command::SaslList) => Ok(&b"PLAIN"[..]),
            (true, Command::SaslAuth) if spans[0].of(bytes) == b"PLAIN" => {
                // Whom to act for, name, password.
                let mut parts = spans[1].of(bytes).splitn(3, |byte| *byte == 0).skip(1);
                match (parts.next(), parts.next()) {
                    (Some(user), Some(given)) if self.let_in(user, given) => {
                        Ok(&b"Authenticated"[..])
                    }
                    _ => Err(Status::Auth),
                }
            }
            _ => Err(Status::Auth),
        };
        self.ready(false, |out| match answer {
            Ok(value) => respond(out, packet, Response { value, ..Response::OK }),
            Err(wrong) => binary::status(out, packet, wrong),
        });
    }

    /// Lets the client in where name and password are right.
    fn auth(&mut self, given: &[u8]) {
        let mut words = given.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let answer: &[u8] = match (words.next(), words.next()) {
            (Some(user), Some(given)) => match self.let_in(user, given) {
                true => b"STORED\r\n",
                false => b"CLIENT_ERROR authentication failure\r\n",
            },
            _ => b"CLIENT_ERROR bad authentication token format\r\n",
        };
        self.ready(false, |out| out.extend_from_slice(answer));
    }
}
