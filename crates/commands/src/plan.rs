//! Turns a connection's bytes into planned requests, in their order.
//!
//! What depends on the session alone (SELECT, MULTI, wrong commands, …) is answered here, so that
//! every later request already knows its database and dialect. What a connection sends takes effect
//! in its order: a command that acts on more than keys and its own connection's state (SUBSCRIBE,
//! CONFIG SET, ACL SETUSER, INFO, …) is planned when all before it are answered, and alone.

pub(crate) mod memcached;
mod ready;
mod refusals;
mod refused;

use self::refusals::{queued_run, speaks_http, unknown};
use self::refused::refuse_apart;
use crate::acl::{Denied, Refusal, User};
use crate::agreement::Need;
use crate::budget::{Budget, Claim, SMALL_BYTES};
use crate::burst::{Args, ERROR, Input, Request};
use crate::calls::Tally;
use crate::client_state::ClientState;
use crate::clients::Client;
use crate::errors;
use crate::resp::monitors;
use crate::resp::scripts::ScriptCall;
use crate::resp::session::selected;
use crate::resp::sql::SqlCall;
use crate::resp::{Cx, plain, topics, wrong_number};
use crate::service::Service;
use crate::session::{Replies, Session};
use crate::table::{Command, Run, Trait, find, find_called, find_sub};
use crate::transaction::Queue;
use silica_proto::memcached::{Protocol, sniff};
use silica_proto::{Limits, ProtocolError, Reply, Span, Version};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Requests that are planned at once.
const REQUESTS_MAX: usize = 4096;
/// Requests that are planned at once when memory is short.
const REQUESTS_FEW: usize = 256;
/// Bytes of ready replies after which planning pauses.
const READY_BYTES_MAX: usize = 64 << 10;
/// Arguments after which a request runs apart from other clients' requests (eight times as many
/// where it only writes, which is cheaper).
const KEYS_LONG: usize = 256;
/// Bytes of arguments after which it does.
const BYTES_LONG: usize = 4 << 20;

/// Bytes of an unfinished request that a connection may hold when there is no memory left.
const UNFINISHED_BYTES_MIN: usize = 1 << 10;
/// Memory of each argument of a request of many, from the parser's list to the answers.
const WRITTEN_BYTES: usize = 100;
const READ_BYTES: usize = 80;
const UPDATED_BYTES: usize = 240;

/// Plans what `state` has received. Leaves `unplanned` set where more could be planned at once.
pub fn plan(service: &Service, state: &mut ClientState, input: &mut Input) {
    state.unplanned = false;
    state.session.settle();
    plan_next(service, state, input);
    state.parsed_bytes = if state.unplanned { 0 } else { state.input.len() };
}

fn plan_next(service: &Service, state: &mut ClientState, input: &mut Input) {
    if state.input.is_empty() {
        return;
    }
    if state.protocol.is_none() {
        state.protocol = sniff(&state.input);
    }
    if !state.begun && state.protocol == Some(Protocol::MemcachedText) {
        // On a port of its own it is either of memcached's protocols.
        state.protocol = sniff(&state.input[..1]).or(state.protocol);
    }
    state.begun = state.protocol.is_some();
    match state.protocol {
        None => {}
        Some(Protocol::Resp) => plan_resp(service, state, input),
        Some(_) if service.options.agreement.is_some() => {
            let text = "ERR members of a group speak RESP alone";
            refuse(service, state, input, text);
            state.input.clear();
        }
        Some(Protocol::MemcachedText | Protocol::MemcachedBinary) => {
            memcached::plan(service, state, input)
        }
    }
}

/// Requests of a connection that are planned at once.
fn requests_max(service: &Service) -> usize {
    if service.budget.is_tight() { REQUESTS_FEW } else { REQUESTS_MAX }
}

fn plan_resp(service: &Service, state: &mut ClientState, input: &mut Input) {
    let (mut last, mut is_listening, mut planned) = (None, None, 0);
    let requests_max = requests_max(service);
    let mut tally = Tally::new(&service.calls);
    let mut is_free = state.is_free(service, &mut is_listening);
    let (mut base, mut ends) = (state.skipped(service, input), false);
    while base < state.input.len() && !ends {
        if input.requests.len() >= requests_max || input.ready.len() >= READY_BYTES_MAX {
            state.unplanned = true;
            break;
        }
        let first = input.spans.len();
        match state.parse(base, input) {
            Ok(None) => {
                base = state.given_up_to(service, base);
                break;
            }
            Ok(Some(mut used)) => {
                if input.spans.len() > first {
                    planned += 1;
                    let plain = if is_free { input.plain(&state.input, first) } else { None };
                    if let Some((name, request)) = plain {
                        let Session { db, version, .. } = state.session;
                        input.requests.push(Request { db, version, ..request });
                        tally.count(name);
                        last = Some(name);
                    } else {
                        let mut planner = Planner {
                            service,
                            client: &state.client,
                            session: &mut state.session,
                            input,
                            bytes: &state.input,
                            is_listening: &mut is_listening,
                        };
                        let added = planner.add(first, planned == 1);
                        ends = !matches!(added, Added::Together(_));
                        let name = match added {
                            Added::Together(name) => name,
                            Added::Alone(name) => Some(name),
                            Added::Waits => {
                                planned -= 1;
                                state.put_back(base, used, &mut input.spans, first);
                                used = 0;
                                None
                            }
                        };
                        name.into_iter().for_each(|name| tally.count(name));
                        last = name.or(last);
                        is_free = state.is_free(service, &mut is_listening);
                    }
                }
                base += used;
            }
            Err(error) => {
                refuse(service, state, input, &format!("ERR {error}"));
                base = state.input.len();
            }
        }
        if state.session.quit {
            base = state.input.len();
            (state.closing, state.unplanned) = (true, false);
        }
    }
    (input.client, input.is_primary) = (state.client.id, state.session.is_primary);
    state.unplanned |= ends && !state.session.quit && base < state.input.len();
    hand_over(state, input, base);
    service.stats.add(|s| &s.total_commands_processed, planned);
    record_activity(state, last, service.unix_ms());
}

impl ClientState {
    /// Parses the request that starts at `base` of what came; its arguments go to the end of
    /// those of `input`.
    #[inline]
    fn parse(&mut self, base: usize, input: &mut Input) -> Result<Option<usize>, ProtocolError> {
        let usual = self.parser.parse_usual(&self.input[base..], base, &mut input.spans);
        if usual.is_some() {
            return Ok(usual);
        }
        let limits = if self.session.let_in { Limits::OPEN } else { Limits::BEFORE_AUTH };
        let used = self.parser.parse(&mut self.input[base..], &limits)?;
        if used.is_some() {
            input.spans.extend(self.parser.args().iter().map(|span| span.at(base)));
        }
        Ok(used)
    }

    /// Leaves a request of `used` bytes at `base` for the next turn, whose arguments are the spans
    /// from `first` on.
    fn put_back(&mut self, base: usize, used: usize, spans: &mut Vec<Span>, first: usize) {
        if self.input[base] != b'*' {
            // The line was unquoted in place and would not be split in the same way again.
            let args: Vec<&[u8]> = spans[first..].iter().map(|s| s.of(&self.input)).collect();
            let array = array(&args);
            self.input.splice(base..base + used, array);
        }
        spans.truncate(first);
    }

    /// Where what is to be kept begins, if the request at `base` is not finished: behind all that
    /// came, if it is given up.
    fn given_up_to(&mut self, service: &Service, base: usize) -> usize {
        if self.give_up(service, base) { self.input.len() } else { base }
    }

    /// Gives up the unfinished request that starts at `base` of what came, if there is no memory
    /// for it: what is left of it is skipped, and answered with an error.
    #[cold]
    fn give_up(&mut self, service: &Service, base: usize) -> bool {
        let (budget, have) = (&service.budget, self.input.len() - base);
        let needed = self.parser.needed_bytes();
        let too_large = budget.refuse_value(self.parser.bulk_bytes());
        let text = match too_large {
            Some(text) => text,
            None if needed > budget.max() => budget.refusal(needed),
            None if have > UNFINISHED_BYTES_MIN && budget.is_full() => {
                budget.refusal(needed.max(have))
            }
            None => return false,
        };
        let Some(rest) = self.parser.give_up(&self.input[base..]) else { return false };
        if let Some(queue) = &mut self.session.queue {
            queue.refused = true;
        }
        service.stats.add(|s| &s.total_error_replies, 1);
        self.given_up = Some(Box::new((rest, text)));
        true
    }

    /// Where requests start behind what came of one that was given up; a protocol error ends the
    /// connection.
    fn skipped(&mut self, service: &Service, input: &mut Input) -> usize {
        self.skip(input).unwrap_or_else(|error| {
            refuse(service, self, input, &format!("ERR {error}"));
            (self.closing, self.unplanned) = (true, false);
            self.input.len()
        })
    }

    /// Skips what came of a request that was given up; where what is behind it starts.
    fn skip(&mut self, input: &mut Input) -> Result<usize, ProtocolError> {
        let Some(mut given_up) = self.given_up.take() else { return Ok(0) };
        let (rest, text) = &mut *given_up;
        let Some(end) = rest.skip(&self.input, &Limits::OPEN)? else {
            self.given_up = Some(given_up);
            return Ok(self.input.len());
        };
        let start = input.ready.len();
        Reply::new(&mut input.ready, self.session.version).error(text);
        input.push_ready(start, self.session.replies != Replies::On);
        if self.session.replies == Replies::SkipNext {
            self.session.replies = Replies::On;
        }
        Ok(end)
    }

    /// True where it may do everything, and its requests are run one after the other and answered.
    fn is_free(&mut self, service: &Service, is_listening: &mut Option<bool>) -> bool {
        let session = &mut self.session;
        if service.replication.refuses_writes() || session.is_primary {
            return false;
        }
        if session.asking || session.read_only {
            return false;
        }
        if session.tracks.is_some() || session.monitors || service.monitors.is_active() {
            return false;
        }
        if !session.let_in || session.replies != Replies::On || session.queue.is_some() {
            return false;
        }
        if service
            .options
            .agreement
            .as_ref()
            .is_some_and(|all| all.refuse(Need::Write, None).is_some())
        {
            return false;
        }
        let client = &self.client;
        session.user(&service.acl).is_some_and(User::is_unlimited)
            && !*is_listening.get_or_insert_with(|| client.is_listening())
    }
}

/// Answers bytes that are no request and ends the connection.
fn refuse(service: &Service, state: &mut ClientState, input: &mut Input, text: &str) {
    service.count_error(errors::word(text.as_bytes()));
    let start = input.ready.len();
    Reply::new(&mut input.ready, state.session.version).error(text);
    input.push_ready(start, false);
    state.session.quit = true;
}

/// Moves the first `planned` bytes of the connection into `input`.
fn hand_over(state: &mut ClientState, input: &mut Input, planned: usize) {
    if input.requests.iter().all(|request| request.run.is_ready()) {
        // Nothing refers to the bytes any more.
        state.input.drain(..planned);
        if state.input.is_empty() {
            input.bytes = std::mem::take(&mut state.input);
        }
        return;
    }
    let rest = state.input.split_off(planned);
    input.bytes = std::mem::replace(&mut state.input, rest);
}

/// Tells the register what this client is doing.
fn record_activity(state: &ClientState, last: Option<&'static str>, now_ms: u64) {
    let client = &state.client;
    client.active_ms.store(now_ms, Relaxed);
    client.db.store(state.session.db, Relaxed);
    client.resp.store(state.session.version as u8 + 2, Relaxed);
    if let Some(name) = last {
        let mut names = client.names();
        names.last_command = name;
        if let Some(user) = &state.session.user
            && names.user.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &user.name))
        {
            names.user = Some(Arc::clone(&user.name));
        }
    }
}

/// A request as an array of its arguments.
fn array(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// What became of a request; the command's name where there is such a command.
enum Added {
    /// More requests may be planned behind it.
    Together(Option<&'static str>),
    /// The requests behind it are planned when it is answered.
    Alone(&'static str),
    /// It is planned when those before it are answered.
    Waits,
}

/// Plans one connection's requests, one by one.
struct Planner<'a> {
    service: &'a Service,
    client: &'a Arc<Client>,
    session: &'a mut Session,
    input: &'a mut Input,
    bytes: &'a [u8],
    /// Whether it listens to channels, once that was looked up.
    is_listening: &'a mut Option<bool>,
}

impl Planner<'_> {
    /// Plans the request whose arguments are the spans from `first` on, if it may be planned now:
    /// `is_first` if no request was planned in this turn.
    fn add(&mut self, first: usize, is_first: bool) -> Added {
        let spans = std::mem::take(&mut self.input.spans);
        let args = Args::new(self.bytes, &spans[first..]);
        let command = self.find(args);
        if speaks_http(args) || (command.is_err() && (args.is(0, "post") || args.is(0, "host:"))) {
            // A web page makes its visitor's browser talk to us; what follows is the page's.
            log::warn!("{} speaks HTTP: connection closed", self.client.peer);
            self.session.quit = true;
            self.input.spans = spans;
            return Added::Together(None);
        }
        let is_alone = command.as_ref().is_ok_and(|command| self.is_alone(command));
        if is_alone && !is_first {
            self.input.spans = spans;
            return Added::Waits;
        }
        let silent = self.session.replies != Replies::On;
        let has_chosen = self.session.caching;
        match &command {
            Ok(command) if self.service.monitors.is_active() => {
                let is_queued = self.session.queue.is_some() && !command.is(Trait::Unqueued);
                if command.name == "exec" {
                    self.show(command, args);
                }
                self.plan(command, first, args);
                if command.name != "exec" && !is_queued {
                    self.show(command, args);
                }
            }
            Ok(command) => self.plan(command, first, args),
            Err(text) => {
                find_called(args).into_iter().for_each(|c| self.service.calls.reject(c.name));
                if let Some(queue) = &mut self.session.queue {
                    queue.refused = true;
                }
                self.service.count_error(errors::word(text.as_bytes()));
                self.ready(silent, |reply| reply.error(text));
            }
        }
        if silent && self.session.replies == Replies::SkipNext {
            self.session.replies = Replies::On;
        }
        if has_chosen && self.session.queue.is_none() && !args.is(0, "client") {
            // What CLIENT CACHING has chosen holds for one request, or for a transaction.
            self.session.caching = false;
        }
        if self.session.asking && self.session.queue.is_none() && !args.is(0, "asking") {
            // ASKING holds for one request, or for a transaction.
            self.session.asking = false;
        }
        self.input.spans = spans;
        if self.input.requests.last().is_some_and(|request| request.run.is_ready()) {
            self.input.spans.truncate(first);
        }
        match command {
            Ok(command) if is_alone => Added::Alone(command.name),
            command => Added::Together(command.ok().map(|command| command.name)),
        }
    }

    /// True where `command` is neither planned behind other requests nor are others behind it.
    fn is_alone(&self, command: &Command) -> bool {
        let queue = self.session.queue.as_ref();
        let is_queued = queue.is_some() && !command.is(Trait::Unqueued);
        // Which database comes next depends on whether it runs.
        let selects = queue.is_some_and(|queue| queue.selected.is_some());
        (command.is_alone() && !is_queued) || (selects && command.is(Trait::RunsQueue))
    }

    /// The command that `args` call, or why they call none.
    fn find(&mut self, args: Args<'_>) -> Result<&'static Command, String> {
        let mut command = find(args.get(0)).ok_or_else(|| unknown(args))?;
        if !command.subs.is_empty() && args.len() > 1 {
            command = find_sub(command, args.get(1)).ok_or_else(|| {
                let sub: String = String::from_utf8_lossy(args.get(1)).chars().take(128).collect();
                let container = command.name.to_ascii_uppercase();
                format!("ERR unknown subcommand '{sub}'. Try {container} HELP.")
            })?;
        }
        if !command.takes(args.len()) {
            return Err(wrong_number(command.name));
        }
        if !self.session.let_in && !command.open_to_all() {
            return Err("NOAUTH Authentication required.".into());
        }
        if self.session.is_primary {
            return Ok(command);
        }
        // In a cluster a write goes to the replica's primary: the map says so when it runs.
        let is_refused =
            || self.service.cluster.is_none() || !self.service.replication.is_replica();
        if command.has("write")
            && let Some(text) = self.service.replication.refuse_write()
            && is_refused()
        {
            return Err(text.into());
        }
        if command.name == "silica.sql" && self.service.replication.tells() {
            return Err(
                "ERR statements that write cannot be told to replicas, and this server has \
                        some; write to a server without replicas, or use SILICA.SQL_RO"
                    .into(),
            );
        }
        let in_transaction = self.session.queue.is_some();
        match self.session.user(&self.service.acl) {
            Some(user) => user.permits(command, args).map_err(|denied| {
                let refusal = Refusal::of(&denied, &user.name, in_transaction);
                self.service.note_refusal(refusal, Some(self.client));
                denied.text()
            })?,
            None => return Err(Denied::Command(command.name).text()),
        }
        refuse_apart(self.service, command, args)?;
        let look = || self.client.is_listening();
        let is_listening = *self.is_listening.get_or_insert_with(look);
        if is_listening && self.session.version == Version::Resp2 && !command.is(Trait::Listening) {
            return Err(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                command.name
            ));
        }
        if self.session.monitors && (command.has("readonly") || command.has("write")) {
            return Err("ERR Replica can't interact with the keyspace".into());
        }
        Ok(command)
    }

    /// Shows a request to those who monitor: once it is planned, but EXEC and what it runs before.
    fn show(&self, command: &Command, args: Args<'_>) {
        if command.has("admin") || command.name == "quit" {
            return;
        }
        let (service, peer) = (self.service, &self.client.peer);
        let db = usize::from(self.session.db);
        if let Some(queue) = self.session.queue.as_ref().filter(|_| command.name == "exec")
            && !queue.refused
        {
            for request in queue.input.requests.iter().filter(|request| !request.run.is_ready()) {
                let line = monitors::line(service, db, peer, queue.input.args(request));
                service.monitors.show(service, &line);
            }
        }
        service.monitors.show(service, &monitors::line(service, db, peer, args));
    }

    /// Keeps a request for EXEC.
    fn queue(&mut self, command: &'static Command, args: Args<'_>) {
        let Some(mut queue) = self.session.queue.take() else { return };
        let answer = self.queue_in(&mut queue, command, args);
        self.session.queue = Some(queue);
        let silent = self.session.replies != Replies::On;
        if let Err(text) = &answer {
            self.service.count_error(errors::word(text.as_bytes()));
        }
        self.ready(silent, |reply| match answer {
            Ok(()) => reply.simple("QUEUED"),
            Err(text) => reply.error(&text),
        });
    }

    fn queue_in(
        &mut self,
        queue: &mut Queue,
        command: &'static Command,
        args: Args<'_>,
    ) -> Result<(), String> {
        self.refuse_queued(command, args).inspect_err(|_| queue.refused = true)?;
        let mut run = queued_run(command, args);
        let first = match run {
            Run::Session(answer) if command.is(Trait::Immediate) => {
                queue.claim(args.bytes()).inspect_err(|_| queue.refused = true)?;
                let start = queue.input.ready.len();
                let reply = Reply::new(&mut queue.input.ready, self.session.version);
                let (service, client) = (self.service, self.client);
                answer(&mut Cx { service, client, session: self.session, reply }, args);
                queue.input.push_ready(start, false);
                queue.count += 1;
                return Ok(());
            }
            Run::Session(_) if command.name == "select" => {
                return self.queue_select(queue, args);
            }
            Run::Script(kind, _) => {
                run = Run::Script(kind, queue.input.scripts.len());
                let call = self.script_call(command);
                let call = call.inspect_err(|_| queue.refused = true)?;
                queue.input.scripts.push(call);
                queue.keep(args, command.keys(args)).inspect_err(|_| queue.refused = true)?
            }
            Run::Whole(_) | Run::Across(_) if command.is(Trait::Queued) || run.is_across() => {
                queue.databases = u32::MAX;
                let number = queue.input.requests.len();
                queue.input.readers.extend(self.reader(command).map(|user| (number, user)));
                queue.keep(args, [].into_iter()).inspect_err(|_| queue.refused = true)?
            }
            Run::Type(_) => {
                queue.has_objects = true;
                queue.keep(args, command.keys(args)).inspect_err(|_| queue.refused = true)?
            }
            Run::Read(_) | Run::Write(_) | Run::Update(_) | Run::UpdateAll(_) => {
                // These ask for pages of objects, too.
                queue.has_objects |= command.is(Trait::Moves) || command.name == "copy";
                queue.keep(args, command.keys(args)).inspect_err(|_| queue.refused = true)?
            }
            Run::Whole(_) if command.is(Trait::Deferred) => {
                run = Run::Whole(topics::announce);
                let first = queue.keep(args, [].into_iter());
                let first = first.inspect_err(|_| queue.refused = true)?;
                queue.announced.push(queue.input.requests.len());
                first
            }
            _ => {
                queue.refused = true;
                let name = command.name;
                return Err(format!("ERR '{name}' cannot be part of a transaction here"));
            }
        };
        queue.count += 1;
        let skip = command.args_before(&run);
        let tracked = self.is_tracked(command);
        let version = self.session.version;
        let db = queue.selected.unwrap_or(self.session.db);
        queue.databases |= 1 << db;
        let request = Request::new(run, first + skip, args.len() - skip);
        queue.input.requests.push(Request { db, version, tracked, ..request });
        Ok(())
    }

    /// True if the keys that `command` reads are noted for its client: those of commands that only
    /// read, and those that a script's commands read.
    fn is_tracked(&self, command: &Command) -> bool {
        self.session.is_tracked()
            && (matches!(command.run, Run::Script(..)) || command.has("readonly"))
    }

    /// SELECT inside MULTI: for what comes behind it, and for what comes after EXEC if that runs.
    fn queue_select(&mut self, queue: &mut Queue, args: Args<'_>) -> Result<(), String> {
        queue.claim(args.bytes()).inspect_err(|_| queue.refused = true)?;
        let start = queue.input.ready.len();
        let mut reply = Reply::new(&mut queue.input.ready, self.session.version);
        match selected(self.service, args) {
            Ok(db) => {
                queue.selected = Some(db);
                reply.ok();
            }
            Err(text) => reply.error(text),
        }
        queue.input.push_ready(start, false);
        queue.count += 1;
        Ok(())
    }

    /// For whom a request tells names of keys, if that is not everybody.
    fn reader(&self, command: &Command) -> Option<Arc<User>> {
        let user = self.session.user.as_ref().filter(|_| command.is(Trait::Names))?;
        (!user.may_know_all()).then(|| Arc::clone(user))
    }

    /// For whom a script of this command runs.
    fn script_call(&mut self, command: &Command) -> Result<ScriptCall, String> {
        let user = self.session.user.clone().ok_or_else(|| Denied::Command(command.name).text())?;
        let is_tracked = self.is_tracked(command);
        let is_read_only = command.name.ends_with("_ro");
        Ok(ScriptCall::new(user, Arc::clone(self.client), is_read_only, is_tracked))
    }

    /// True where all of `queue` may run, still.
    fn permits(&self, queue: &Queue) -> bool {
        if self.session.is_primary {
            return !queue.refused;
        }
        let Some(user) = self.session.user.as_ref().filter(|_| !queue.refused) else {
            return false;
        };
        let permits = |request: &Request| {
            let args = queue.input.args(request);
            find_called(args).is_some_and(|command| user.permits(command, args).is_ok())
        };
        let mut requests = queue.input.requests.iter().filter(|request| !request.run.is_ready());
        queue.acl_version == self.session.acl_version || requests.all(permits)
    }

    /// What EXEC and WATCH run, where they run anything, and on which database.
    fn transaction(&mut self, command: &Command) -> Option<(Run, u8)> {
        let db = self.session.db;
        let queue = self.session.queue.as_ref();
        if command.is(Trait::RunsQueue) && queue.is_some_and(|queue| self.permits(queue)) {
            let watches = self.session.watches.take();
            let mut queue = self.session.queue.take()?;
            queue.input.client = self.client.id;
            let only = queue.only_database(watches.as_deref(), db);
            let has_run = queue.selected.map(|db| (Arc::default(), db));
            self.session.selecting.clone_from(&has_run);
            let has_run = has_run.map(|(has_run, _)| has_run);
            let index = self.input.transactions.len();
            self.input.transactions.push(queue.into_transaction(watches, has_run));
            return Some(match only {
                Some(only) => (Run::Transaction(index), only),
                None => (Run::AcrossTransaction(index), db),
            });
        }
        if command.is(Trait::Watches) && queue.is_none() {
            let service = self.service;
            let new = || Arc::new(service.watches());
            let watches = Arc::clone(self.session.watches.get_or_insert_with(new));
            watches.ask(db);
            self.input.watches.push(watches);
            return Some((Run::Watch(self.input.watches.len() - 1), db));
        }
        None
    }

    fn plan(&mut self, command: &'static Command, first: usize, args: Args<'_>) {
        if self.session.queue.is_some() && !command.is(Trait::Unqueued) {
            return self.queue(command, args);
        }
        // Whoever wants no replies listens all the same.
        let silent = self.session.replies != Replies::On && !command.is(Trait::Confirms);
        let mut run = command.run;
        if let Run::Choose(choose) = run {
            run = choose(args);
        }
        let mut only = None;
        if let Some((transaction, db)) = self.transaction(command) {
            (run, only) = (transaction, Some(db));
        }
        if let Run::Script(kind, _) = run {
            match self.script_call(command) {
                Ok(call) => self.input.scripts.push(call),
                Err(text) => return self.ready(silent, |reply| reply.error(&text)),
            }
            run = Run::Script(kind, self.input.scripts.len() - 1);
        }
        if let Run::Sql(kind, _) = run {
            run = Run::Sql(kind, self.input.sql.len());
            let call = SqlCall::of(self.service, self.session);
            self.input.sql.push(call);
        }
        if let Run::Session(answer) = run {
            if let Err(text) = self.refuse_large(args) {
                return self.ready(silent, |reply| reply.error(&text));
            }
            let start = self.input.ready.len();
            let before = self.session.replies;
            let version = self.session.version;
            let mut cx = Cx {
                service: self.service,
                client: self.client,
                session: self.session,
                reply: Reply::new(&mut self.input.ready, version),
            };
            answer(&mut cx, args);
            if self.input.ready.get(start) == Some(&ERROR) {
                self.service.calls.fail(command.name);
                self.service.count_error(errors::word(&self.input.ready[start..]));
            }
            *self.is_listening = None;
            // Only CLIENT REPLY changes it, and its answer follows what it has set.
            let now = self.session.replies;
            let silent = if now == before { silent } else { now != Replies::On };
            return self.input.push_ready(start, silent);
        }
        let bytes = || args.from(1).map(<[u8]>::len).sum();
        let long = command.is(Trait::Long) || run.is_across() || is_heavy(&run, args.len(), bytes);
        if let Err(text) = self.input.claim_many(&self.service.budget, &run, args.len()) {
            return self.ready(silent, |reply| reply.error(&text));
        }
        let skip = command.args_before(&run);
        let tracked = self.is_tracked(command);
        let Session { db, version, read_only, .. } = *self.session;
        let asking = self.session.asking || command.has("asking");
        let request = Request::new(run, first + skip, args.len() - skip);
        let request = Request { asking, read_only, ..request };
        if let Some(user) = self.reader(command) {
            self.input.readers.push((self.input.requests.len(), user));
        }
        let db = only.unwrap_or(db);
        self.input.requests.push(Request { db, version, silent, long, tracked, ..request });
    }

    /// Refuses a request whose answer repeats its arguments, if there is no memory for them.
    fn refuse_large(&self, args: Args<'_>) -> Result<(), String> {
        let bytes = args.bytes();
        match bytes > SMALL_BYTES {
            true => Claim::new(&self.service.budget).grow(2 * bytes),
            false => Ok(()),
        }
    }

    /// Adds a reply that is known already.
    fn ready(&mut self, silent: bool, write: impl FnOnce(&mut Reply<'_>)) {
        let start = self.input.ready.len();
        write(&mut Reply::new(&mut self.input.ready, self.session.version));
        self.input.push_ready(start, silent);
    }
}

impl Input {
    /// Claims the memory that a request of many arguments takes while it runs.
    pub(crate) fn claim_many(
        &mut self,
        budget: &Arc<Budget>,
        run: &Run,
        args: usize,
    ) -> Result<(), String> {
        if args <= KEYS_LONG {
            return Ok(());
        }
        let each = match run {
            Run::Read(_) => READ_BYTES,
            Run::Write(_) => WRITTEN_BYTES,
            _ => UPDATED_BYTES,
        };
        self.claim.get_or_insert_with(|| Claim::new(budget)).grow(args * each)
    }

    /// The request whose arguments are the spans from `first` on, where it is one that is planned
    /// without looking further; and its name.
    #[inline]
    fn plain(&self, bytes: &[u8], first: usize) -> Option<(&'static str, Request)> {
        let args = Args::new(bytes, &self.spans[first..]);
        let (name, run) = plain(args)?;
        let long = is_heavy(&run, args.len(), || args.from(1).map(<[u8]>::len).sum());
        Some((name, Request { long, ..Request::new(run, first, args.len()) }))
    }
}

/// True where a request is so large that it would hold up those that share its burst.
fn is_heavy(run: &Run, args: usize, bytes: impl FnOnce() -> usize) -> bool {
    let many = if matches!(run, Run::Write(_)) { 8 * KEYS_LONG } else { KEYS_LONG };
    args > many || (run.changes() && bytes() > BYTES_LONG)
}
