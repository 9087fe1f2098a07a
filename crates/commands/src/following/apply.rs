//! The stream of a primary, applied in groups: see the invariants of the module above.

use super::times;
use crate::budget::{Budget, Claim};
use crate::burst::{Args, Input, Request};
use crate::client_state::ClientState;
use crate::exec::{Executor, Unapplied};
use crate::gate::Turn;
use crate::marks::{self, Mark};
use crate::push::Kind as Topic;
use crate::replication::records::{self, Change, read_record};
use crate::resp::Cx;
use crate::resp::topics::kind_of;
use crate::service::Service;
use crate::table::{Command, Run, Write, find, find_sub};
use silica::engine::{EntryRef, Error, ErrorKind, Result};
use silica_proto::memcached::Protocol;
use silica_proto::{Limits, Parser, Reply, Span, parse_i64};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Requests of a group, and their bytes, after which no more are added. A group that is applied
/// anew after a crash, and what readers see at once, is no more than that.
const REQUESTS_MAX: usize = 512;
const BYTES_MAX: usize = 1 << 20;

/// Memory of a copied request, or of an argument, beside its bytes: spans, times and flags.
const REQUEST_BYTES: usize = 128;

/// A function that a loop runs itself.
type SessionRun = fn(&mut Cx<'_>, Args<'_>);

/// What a request of the stream is.
enum Kind {
    /// It changes nothing.
    Nothing,
    /// This Unix time in milliseconds had passed when the primary made what comes next.
    Time(u64),
    /// The primary asks how far this replica is.
    GetAck,
    Select(u8),
    Multi,
    Exec,
    /// A part of a batch; how many arguments it does not need.
    Step(Run, usize),
    /// It concerns a whole database, or several.
    Alone(Run),
    /// It concerns the server: libraries of functions.
    Session(SessionRun),
    Publish,
    /// Strings as they are: see [`records`].
    Entries,
}

/// A string of a record: its key, its value, when it expires and its user bits.
static PUT: Write = Write {
    refuse: |_| None,
    value_at: 2,
    apply: |args, _, batch| {
        let number = |at: usize| args.get(at).try_into().map_or(0, u64::from_le_bytes);
        let (value, expires_unix_ms, user_bits) = (args.get(2), number(3), number(4) as u32);
        batch.put_entry(args.get(1), EntryRef { value, expires_unix_ms, user_bits });
    },
    reply: |_, reply| reply.ok(),
};
/// A key of a record that is gone.
static DELETE: Write = Write {
    refuse: |_| None,
    value_at: 1,
    apply: |args, _, batch| {
        batch.delete(args.get(1));
    },
    reply: |_, reply| reply.ok(),
};

/// Something that a group does.
enum Item {
    Requests(Input),
    Session(Input, SessionRun),
}

/// Requests that are applied together.
struct Group {
    /// Memory of the requests' copies: of the clients', like requests of theirs.
    claim: Claim,
    items: Vec<Item>,
    /// Messages, which are sent when all is done.
    published: Vec<(Topic, Vec<u8>, Vec<u8>)>,
    /// Bytes of the stream that it takes.
    bytes: usize,
    /// Requests outside of transactions, and transactions.
    units: usize,
    /// It is no single batch.
    is_alone: bool,
    wants_ack: bool,
    has_records: bool,
    /// A time that had passed for the primary behind its requests, in Unix milliseconds; 0 if none
    /// is known.
    passed_ms: u64,
    /// The database that is selected behind it.
    db: u8,
}

impl Group {
    /// A group without requests, behind which `db` is selected; its memory is of `budget`.
    fn new(budget: &Arc<Budget>, db: u8) -> Self {
        Group {
            claim: Claim::new(budget),
            items: Vec::new(),
            published: Vec::new(),
            bytes: 0,
            units: 0,
            is_alone: false,
            wants_ack: false,
            has_records: false,
            passed_ms: 0,
            db,
        }
    }

    /// Claims the memory of copies of `count` requests with `bytes` bytes, before these are made.
    ///
    /// # Errors
    /// `Full` if the clients' memory has not so much.
    fn claim(&self, bytes: usize, count: usize) -> Result<()> {
        let claimed = self.claim.grow(bytes + count * REQUEST_BYTES);
        claimed.map_err(|text| {
            let text = format!("applying what the primary sends: {text}");
            Error::new(ErrorKind::Full, text)
        })
    }

    /// Adds the entries of a record of database `db`.
    ///
    /// # Errors
    /// Those of the record, and a lack of memory; then none is added.
    fn add_record(&mut self, record: &[u8], db: u8) -> Result<()> {
        let changes = read_record(record)?;
        self.claim(record.len(), changes.len())?;
        self.has_records = true;
        for change in changes {
            match change {
                Change::Put(key, entry) => {
                    let expires = entry.expires_unix_ms.to_le_bytes();
                    let user_bits = u64::from(entry.user_bits).to_le_bytes();
                    let args = [records::COMMAND, key, entry.value, &expires, &user_bits];
                    self.add(Run::Write(&PUT), &args, db);
                }
                Change::Deleted(key) => {
                    self.add(Run::Write(&DELETE), &[records::COMMAND, key], db);
                }
            }
        }
        Ok(())
    }

    /// Adds a request with `args`.
    ///
    /// # Errors
    /// A lack of memory; then it is not added.
    fn add_request(&mut self, run: Run, args: &[&[u8]], db: u8) -> Result<()> {
        self.claim(args.iter().map(|arg| arg.len()).sum(), args.len())?;
        self.add(run, args, db);
        Ok(())
    }

    /// Adds a request, whose spans are those of `args` and whose memory is claimed.
    fn add(&mut self, run: Run, args: &[&[u8]], db: u8) {
        if !matches!(self.items.last(), Some(Item::Requests(_))) {
            self.items.push(Item::Requests(Input::default()));
        }
        if let Some(Item::Requests(input)) = self.items.last_mut() {
            input.add(run, args, db);
        }
    }

    /// Takes out request `index` of a batch; false if there is no other.
    fn leave_out(&mut self, index: usize) -> bool {
        // A batch has its requests in one item.
        let requests = self.items.iter_mut().find_map(|item| match item {
            Item::Requests(input) => Some(&mut input.requests),
            Item::Session(..) => None,
        });
        let Some(requests) = requests else { return false };
        if self.is_alone || requests.len() < 2 || index >= requests.len() {
            return false;
        }
        requests.remove(index);
        true
    }
}

impl Input {
    fn add(&mut self, run: Run, args: &[&[u8]], db: u8) {
        let first = self.spans.len();
        for arg in args {
            self.spans.push(Span { start: self.bytes.len() as u32, len: arg.len() as u32 });
            self.bytes.extend_from_slice(arg);
        }
        self.requests.push(Request { db, ..Request::new(run, first, args.len()) });
        self.is_primary = true;
    }
}

/// Follows a primary: has the bytes that came and were not applied yet.
pub struct Follower {
    pub(super) service: Arc<Service>,
    executor: Executor,
    turn: Arc<Turn>,
    /// What commands see as their connection.
    client: ClientState,
    /// Of the role that it follows under.
    pub(super) version: u64,
    /// The database that the stream has selected.
    pub(super) db: u8,
    /// Of each database that was written: the offset behind the last write.
    pub(super) written: BTreeMap<u8, u64>,
    received: Vec<u8>,
    /// Groups of one request that come next, because one of them was refused with others.
    careful: usize,
    wants_ack: bool,
    /// Requests that were passed over, because they are not known.
    skipped: u64,
    /// Something that is no single batch was begun and has failed: the data has no position.
    pub(super) is_unsure: bool,
}

impl Follower {
    /// Goes on where the data of `service` stands, as replica under `version` of the role.
    ///
    /// # Errors
    /// Those of reading the position.
    pub fn new(service: Arc<Service>, version: u64) -> Result<Self> {
        let mark = marks::read(&service.databases.held()?)?;
        let (db, written) = mark.map_or_else(Default::default, |mark| (mark.db, mark.written));
        let nobody = || crate::Address::Ip(std::net::SocketAddr::from(([0, 0, 0, 0], 0)));
        let place = (0, usize::MAX);
        let client = service.add_client(place, (nobody(), nobody()), Some(Protocol::Resp));
        Ok(Follower {
            executor: Executor::new(Arc::clone(&service)),
            turn: service.databases.new_turn(),
            client,
            version,
            db,
            written,
            received: Vec::new(),
            careful: 0,
            wants_ack: false,
            skipped: 0,
            is_unsure: false,
            service,
        })
    }

    /// Follows under `version` of the role from now on. What came and was not applied is forgotten.
    pub fn restart(&mut self, version: u64) {
        self.version = version;
        self.received = Vec::new();
        self.wants_ack = false;
    }

    /// Keeps bytes of the stream until they are applied.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of their request or transaction.
    pub fn waiting_bytes(&self) -> usize {
        self.received.len()
    }

    /// True once after the primary has asked how far this replica is.
    pub fn take_wants_ack(&mut self) -> bool {
        std::mem::take(&mut self.wants_ack)
    }

    /// True if the data has no position any more, and all of it has to come anew.
    pub fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Requests that were passed over since the start, because they are not known here.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Applies what has come, as far as it is complete. The offset of the service's replication
    /// says how far that is.
    ///
    /// # Errors
    /// `Closed` if this is no replica any more, or follows another server; else why a request was
    /// not applied: everything before it was.
    pub fn run(&mut self) -> Result<()> {
        let mut start = 0;
        let outcome = loop {
            match self.next_group(start) {
                Err(error) => break Err(error),
                Ok(None) => break Ok(()),
                Ok(Some(group)) => {
                    let bytes = group.bytes;
                    match self.apply(group, start) {
                        Ok(()) => start += bytes,
                        // Smaller groups come next.
                        Err(None) => {}
                        Err(Some(error)) => break Err(error),
                    }
                }
            }
        };
        self.received.drain(..start);
        if self.received.is_empty() && self.received.capacity() > BYTES_MAX {
            self.received = Vec::new();
        }
        outcome
    }

    /// The group that begins with byte `start` of what came, if it is complete.
    fn next_group(&mut self, start: usize) -> Result<Option<Group>> {
        let mut received = std::mem::take(&mut self.received);
        let group = self.group_of(&mut received[start..]);
        self.received = received;
        group
    }

    fn group_of(&mut self, bytes: &mut [u8]) -> Result<Option<Group>> {
        let units_max = if self.careful > 0 { 1 } else { REQUESTS_MAX };
        let mut group = Group::new(&self.service.budget, self.db);
        let (mut at, mut db, mut in_multi) = (0, self.db, false);
        let mut parser = Parser::new();
        while at < bytes.len() && (in_multi || (group.units < units_max && at < BYTES_MAX)) {
            let parsed = parser.parse(&mut bytes[at..], &Limits::OPEN);
            let Some(used) = parsed.map_err(|error| strange(&error.to_string()))? else {
                break;
            };
            let args: Vec<&[u8]> = parser.args().iter().map(|span| span.of(&bytes[at..])).collect();
            let absolute = self.absolute(&args);
            let args: Vec<&[u8]> = match &absolute {
                Some(made) => made.iter().map(Vec::as_slice).collect(),
                None => args,
            };
            let kind = match self.kind_of(&args) {
                Ok(kind) => kind,
                // What stands before it is applied.
                Err(_) if group.units > 0 => break,
                Err(error) => return Err(error),
            };
            let is_apart = matches!(kind, Kind::Alone(_) | Kind::Session(_));
            if is_apart && !in_multi && group.units > 0 {
                break;
            }
            match kind {
                Kind::Nothing => {}
                Kind::Time(ms) => group.passed_ms = group.passed_ms.max(ms),
                Kind::Entries => match group.add_record(args.get(1).copied().unwrap_or(&[]), db) {
                    Ok(()) => {}
                    Err(_) if group.units > 0 => break,
                    Err(error) => return Err(error),
                },
                Kind::GetAck => group.wants_ack = true,
                Kind::Select(number) => db = number,
                Kind::Multi => in_multi = true,
                Kind::Exec => in_multi = false,
                Kind::Step(run, skip) => match group.add_request(run, &args[skip..], db) {
                    Ok(()) => {}
                    Err(_) if group.units > 0 => break,
                    Err(error) => return Err(error),
                },
                Kind::Alone(run) => group.add_request(run, &args, db)?,
                Kind::Session(run) => {
                    let mut input = Input::default();
                    input.add(Run::Ready, &args, db);
                    group.items.push(Item::Session(input, run));
                }
                Kind::Publish => {
                    let args = Message::of(&args);
                    group.published.extend(args.map(|Message(kind, to, text)| (kind, to, text)));
                }
            }
            group.is_alone |= is_apart;
            at += used;
            if !in_multi {
                (group.bytes, group.db) = (at, db);
                group.units += 1;
                if is_apart {
                    break;
                }
            }
        }
        // A transaction whose end has not come stays for later, with what stands before it.
        if in_multi && group.units > 0 {
            return self.group_before(bytes, group.bytes);
        }
        Ok((group.units > 0).then_some(group))
    }

    /// The group of the first `len` of `bytes`.
    fn group_before(&mut self, bytes: &mut [u8], len: usize) -> Result<Option<Group>> {
        self.group_of(&mut bytes[..len])
    }

    /// The request of `args` with times instead of what is counted from now, if it has such, and
    /// the clock by which it is applied is held back.
    fn absolute(&self, args: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
        let holds = self.service.databases.holds_expired();
        holds.then(|| times::absolute(args, self.service.unix_ms())).flatten()
    }

    /// What a request is; an error if it cannot be applied.
    fn kind_of(&mut self, args: &[&[u8]]) -> Result<Kind> {
        let Some(name) = args.first() else { return Ok(Kind::Nothing) };
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if is("ping") {
            let ms = args.get(1).and_then(|text| parse_i64(text));
            let ms = ms.and_then(|ms| u64::try_from(ms).ok());
            return Ok(ms.map_or(Kind::Nothing, Kind::Time));
        }
        if is("replconf") {
            let asks = args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"getack"));
            return Ok(if asks { Kind::GetAck } else { Kind::Nothing });
        }
        if is("select") {
            return self.selected(args).map(Kind::Select);
        }
        if is("multi") {
            return Ok(Kind::Multi);
        }
        if is("exec") {
            return Ok(Kind::Exec);
        }
        if *name == records::COMMAND {
            return Ok(Kind::Entries);
        }
        if is("publish") || is("spublish") {
            return Ok(Kind::Publish);
        }
        let known = known(args).and_then(kind_of_command);
        match known {
            Some(kind) => Ok(kind),
            None if self.service.replication.settings.skips_unknown.load(Relaxed) => {
                self.skipped += 1;
                log::warn!("a request of the primary is passed over: {}", shown(args));
                Ok(Kind::Nothing)
            }
            None => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the primary sends {}, which is not known here; CONFIG SET repl-skip-unknown \
                     yes passes over such requests, and loses what they do",
                    shown(args)
                ),
            )),
        }
    }

    fn selected(&self, args: &[&[u8]]) -> Result<u8> {
        let number = args.get(1).and_then(|text| parse_i64(text)).unwrap_or(-1);
        let count = self.service.databases.count();
        match usize::try_from(number) {
            Ok(db) if db < count => Ok(db as u8),
            _ => Err(refuse_database(number, count)),
        }
    }

    /// Applies `group`, which begins with byte `start` of what came. `None` as error if it is to be
    /// tried in smaller groups.
    fn apply(&mut self, mut group: Group, start: usize) -> std::result::Result<(), Option<Error>> {
        let service = Arc::clone(&self.service);
        let mut applied = self.try_apply(&group, start);
        // Of a transaction, whatever needs no key that was dropped here takes effect.
        while let Err(Failure::Of(Unapplied { request, text, is_half: false })) = &applied
            && group.units == 1
            && self.may_lack(group.db)
            && group.leave_out(*request)
        {
            log::debug!("passed over, because this cache has dropped its key: {text}");
            self.skipped += 1;
            applied = self.try_apply(&group, start);
        }
        match applied {
            Ok(()) => {}
            Err(Failure::Over) => return Err(Some(is_over())),
            Err(Failure::Of(_)) if group.units > 1 && !self.is_unsure => {
                self.careful = group.units;
                return Err(None);
            }
            Err(Failure::Of(Unapplied { text, is_half: false, .. })) if self.may_lack(group.db) => {
                log::debug!("passed over, because this cache has dropped its key: {text}");
                self.pass_over(&group, start)?;
            }
            Err(Failure::Of(Unapplied { request, text, .. })) => {
                let what = group.name_of(request);
                let text = format!("'{what}' of the primary's stream was refused here: {text}");
                return Err(Some(Error::new(ErrorKind::Unsupported, text)));
            }
        }
        self.careful = self.careful.saturating_sub(1);
        service.databases.clock().inspect(|clock| clock.pass(group.passed_ms));
        self.wants_ack |= group.wants_ack;
        for (kind, channel, message) in &group.published {
            // Without memory nobody gets it.
            if let Err(text) = service.publish_here(*kind, channel, message) {
                log::warn!("a message of the primary is lost: {text}");
            }
        }
        Ok(())
    }

    fn try_apply(&mut self, group: &Group, start: usize) -> std::result::Result<(), Failure> {
        let service = Arc::clone(&self.service);
        if group.is_alone || !service.replication.refuses_writes() {
            // Clients may write, too: nobody else does meanwhile.
            return service.databases.alone(|| self.apply_now(group, start));
        }
        let turn = Arc::clone(&self.turn);
        let _entered = service.databases.enter(&turn);
        self.apply_now(group, start)
    }

    /// True if database `db` may have dropped what the primary still has.
    fn may_lack(&self, db: u8) -> bool {
        let engine = self.service.databases.opened(usize::from(db));
        engine.is_some_and(|engine| engine.descriptor().capabilities.may_evict)
    }

    /// Goes on behind `group`, which was not applied.
    fn pass_over(&mut self, group: &Group, start: usize) -> std::result::Result<(), Option<Error>> {
        let service = Arc::clone(&self.service);
        let turn = Arc::clone(&self.turn);
        let _entered = service.databases.enter(&turn);
        if service.replication.role().1 != self.version {
            return Err(Some(is_over()));
        }
        self.skipped += 1;
        self.pass_on(group, start);
        self.db = group.db;
        Ok(())
    }

    /// Gives the bytes of `group` to those who follow this server.
    fn pass_on(&self, group: &Group, start: usize) {
        let (bytes, db) = (&self.received[start..start + group.bytes], Some(group.db));
        let replication = &self.service.replication;
        if !replication.append_from_primary(bytes, db, group.has_records) {
            log::warn!("replicas that take commands only begin anew: a record has come");
            self.service.drop_replicas();
        }
        self.service.wake_replicas();
    }

    /// Applies `group` while the numbers of databases keep their meaning.
    fn apply_now(&mut self, group: &Group, start: usize) -> std::result::Result<(), Failure> {
        let service = Arc::clone(&self.service);
        let replication = &service.replication;
        if replication.role().1 != self.version {
            return Err(Failure::Over);
        }
        let (history, before) = replication.position();
        let mark = Mark {
            id: history.id,
            offset: before + group.bytes as u64,
            db: group.db,
            written: self.written.clone(),
            is_unsure: false,
            has_functions: !service.libraries.list().is_empty(),
        };
        match group.is_alone {
            false => self.apply_batch(group, mark)?,
            true => self.apply_between_marks(group, mark, before)?,
        }
        self.pass_on(group, start);
        self.db = group.db;
        Ok(())
    }

    /// Applies a group that is one batch for each database.
    fn apply_batch(&mut self, group: &Group, mut mark: Mark) -> std::result::Result<(), Failure> {
        for item in &group.items {
            let Item::Requests(input) = item else { continue };
            let offset = mark.offset;
            let mut mark_of = |written: &[usize]| {
                mark.written.extend(written.iter().map(|db| (*db as u8, offset)));
                mark.encode()
            };
            let ran = self.executor.follow(input, &mut mark_of);
            ran.inspect_err(|failed| self.is_unsure |= failed.is_half).map_err(Failure::Of)?;
        }
        self.written = mark.written;
        Ok(())
    }

    /// Applies a group between two marks in all databases.
    fn apply_between_marks(
        &mut self,
        group: &Group,
        mut mark: Mark,
        before: u64,
    ) -> std::result::Result<(), Failure> {
        let unsure = Mark { is_unsure: true, offset: before, ..mark.clone() };
        self.mark_all(&unsure).map_err(Failure::of)?;
        self.is_unsure = true;
        let mut first = 0;
        for item in &group.items {
            match item {
                Item::Requests(input) => {
                    let ran = self.executor.follow(input, &mut |_| unsure.encode());
                    ran.map_err(|failed| {
                        Failure::Of(Unapplied { request: first + failed.request, ..failed })
                    })?;
                    first += input.requests.len();
                }
                Item::Session(input, run) => {
                    let ran = self.run_session(input, *run);
                    ran.map_err(|text| Failure::at(first, text))?;
                    first += 1;
                }
            }
        }
        mark.has_functions = !self.service.libraries.list().is_empty();
        let databases = &self.service.databases;
        let opened = (0..databases.count()).filter(|db| databases.opened(*db).is_some());
        mark.written = silica_base::compact_map(opened.map(|db| (db as u8, mark.offset)));
        self.mark_all(&mark).map_err(Failure::of)?;
        self.is_unsure = false;
        self.written = mark.written;
        Ok(())
    }

    /// Marks the databases of a server that goes on in a primary's stream and has no mark yet: it
    /// was the primary of that history. Until each of them is written, nothing else would tell
    /// after a power cut that one has lost its end.
    ///
    /// # Errors
    /// Those of the databases.
    pub fn mark_position(&mut self) -> Result<()> {
        let service = Arc::clone(&self.service);
        let databases = &service.databases;
        if marks::read(&databases.held()?)?.is_some() || !service.sync_databases()? {
            return Ok(());
        }
        let turn = Arc::clone(&self.turn);
        let _entered = databases.enter(&turn);
        let (history, offset) = service.replication.position();
        let opened = (0..databases.count()).filter(|db| databases.opened(*db).is_some());
        let mark = Mark {
            id: history.id,
            offset,
            db: self.db,
            written: silica_base::compact_map(opened.map(|db| (db as u8, offset))),
            is_unsure: false,
            has_functions: !service.libraries.list().is_empty(),
        };
        self.mark_all(&mark)?;
        self.written = mark.written;
        Ok(())
    }

    /// Writes `mark` to all databases that are open.
    fn mark_all(&self, mark: &Mark) -> Result<()> {
        let databases = &self.service.databases;
        let mut opened = (0..databases.count()).filter_map(|db| databases.opened(db));
        opened.try_for_each(|engine| mark.put(engine))
    }

    /// Runs a command of the server; its error, if it answers with one.
    fn run_session(&mut self, input: &Input, run: SessionRun) -> std::result::Result<(), String> {
        let mut out = Vec::new();
        let ClientState { client, session, .. } = &mut self.client;
        let reply = Reply::new(&mut out, session.version);
        let mut cx = Cx { service: &self.service, client, session, reply };
        run(&mut cx, input.args(&input.requests[0]));
        match out.split_first() {
            Some((b'-', text)) => Err(String::from_utf8_lossy(text).trim_end().to_string()),
            _ => Ok(()),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.service.remove_client(&self.client.client);
    }
}

/// Why a group was not applied.
enum Failure {
    /// This is no replica of that primary any more.
    Over,
    Of(Unapplied),
}

impl Failure {
    fn of(error: Error) -> Self {
        Failure::at(0, error.to_string())
    }

    fn at(request: usize, text: String) -> Self {
        Failure::Of(Unapplied { request, text, is_half: true })
    }
}

impl Group {
    /// The name of the command of request `number`.
    fn name_of(&self, number: usize) -> String {
        let mut left = number;
        for item in &self.items {
            let (Item::Requests(input) | Item::Session(input, _)) = item;
            match input.requests.get(left) {
                Some(request) => {
                    let name = input.args(request).from(0).next().unwrap_or_default();
                    return String::from_utf8_lossy(name).into_owned();
                }
                None => left -= input.requests.len(),
            }
        }
        String::new()
    }
}

/// A message: of which kind, to which channel, and its text.
struct Message(Topic, Vec<u8>, Vec<u8>);

impl Message {
    fn of(args: &[&[u8]]) -> Option<Message> {
        let [_, channel, text] = args else { return None };
        let mut input = Input::default();
        input.add(Run::Ready, args, 0);
        let kind = kind_of(input.args(&input.requests[0]));
        Some(Message(kind, channel.to_vec(), text.to_vec()))
    }
}

/// The command, or subcommand, that `args` call rightly, and how it is run.
fn known(args: &[&[u8]]) -> Option<(&'static Command, Run)> {
    let mut command = find(args.first()?)?;
    if !command.subs.is_empty() && args.len() > 1 {
        command = find_sub(command, args[1])?;
    }
    if !command.takes(args.len()) {
        return None;
    }
    let Run::Choose(choose) = command.run else { return Some((command, command.run)) };
    let mut input = Input::default();
    input.add(Run::Ready, args, 0);
    Some((command, choose(input.args(&input.requests[0]))))
}

fn kind_of_command((command, run): (&'static Command, Run)) -> Option<Kind> {
    Some(match run {
        Run::Read(_) | Run::Write(_) | Run::Update(_) | Run::UpdateAll(_) | Run::Type(_) => {
            Kind::Step(run, command.args_before(&run))
        }
        // A part of the batches of two databases.
        Run::Across(_) if command.name == "move" => Kind::Step(run, 0),
        Run::Across(_) => Kind::Alone(run),
        Run::Whole(_) if command.has("write") => Kind::Alone(run),
        Run::Session(run) if command.name.starts_with("function|") => Kind::Session(run),
        _ => return None,
    })
}

/// The beginning of a request, for people.
fn shown(args: &[&[u8]]) -> String {
    let arg = |arg: &&[u8]| String::from_utf8_lossy(&arg[..arg.len().min(64)]).into_owned();
    args.iter().take(3).map(arg).collect::<Vec<_>>().join(" ")
}

/// The refusal of a database that this server does not serve.
pub(super) fn refuse_database(number: i64, count: usize) -> Error {
    let text = format!(
        "the primary has keys in database {number}, and this server serves {count} databases; \
         start it with --databases {}",
        number.saturating_add(1)
    );
    Error::new(ErrorKind::Config, text)
}

fn strange(why: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("the primary's stream cannot be read: {why}"))
}

/// The error of a follower whose primary is none any more.
pub(super) fn is_over() -> Error {
    Error::new(ErrorKind::Closed, "the role of this server has changed")
}
