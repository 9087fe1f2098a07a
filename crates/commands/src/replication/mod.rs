//! Replication: what a server is among others, and the stream of what it writes.
//!
//! The stream is bytes: commands of RESP, with SELECT when the database changes. A primary makes
//! it of what its own clients write; a replica passes on the bytes of its primary. A position in
//! the stream is the number of bytes before it, and an id of 40 digits names the history that they
//! belong to. The newest bytes are kept in the backlog.
//!
//! Invariants:
//!
//! 1. Bytes are appended at command boundaries only, so that whoever begins at
//!    [`Replication::offset`] begins with a command.
//! 2. Two servers with the same id and the same offset have appended the same bytes. Whoever gives
//!    up being a replica takes a new id, and keeps the old one as second id up to that offset.
//! 3. If nobody follows (no replica has come, or the last one has left long ago),
//!    [`Replication::tells`] is false, and a write pays one load for all of this.
//! 4. Otherwise a write holds the stripes of its keys from before it takes effect until
//!    its effects are in the stream. So the stream has the writes of each key in the order in which
//!    they took effect, and what is one step for others (MULTI, a script) is one in the stream.
//!    Scripts, whose keys nobody knows before, hold all stripes while they take effect, and what
//!    concerns whole databases runs while nobody else does.
//! 5. A write's effects come from the run that took effect. They are absolute where a command
//!    depends on time, chance, or what a replica may already have expired.
//! 6. Whoever is alone with the databases ([`DatabaseSet::alone`](crate::DatabaseSet)) sees data
//!    and offset of one moment: nobody is between a write and its effects. There the snapshots of
//!    a full synchronisation are taken.
//! 7. Replicas are dropped whenever the id of the history changes, so that they learn the new one
//!    and never read on in another history.
//! 8. Records are appended only while every replica takes them, which is looked at when they are
//!    appended. Who takes commands only never gets bytes before `records_end`.
//! 9. The role changes only while nobody else uses the databases, and each burst looks at it when
//!    it runs: no client's write comes behind the change that forbids it.

mod backlog;
pub(crate) mod blocks;
mod effects;
mod failover;
mod feed;
mod full;
mod link;
mod primary;
pub(crate) mod records;
mod restart;
mod restate;
mod stripes;
pub(crate) mod walk;

pub(crate) use self::effects::Effects;
pub(crate) use self::failover::Wish;
pub use self::feed::Feed;
pub(crate) use self::feed::{Phase, Wanted};
pub(crate) use self::full::{begin as begin_full, note_times};
pub use self::link::{LinkState, LinkStatus};
pub(crate) use self::primary::ACKNOWLEDGED;
pub use self::records::{CAPABILITY, COMMANDS_ONLY, ELEMENTS, FILE};
pub(crate) use self::stripes::{Held, Mask};

use self::backlog::Backlog;
use self::effects::Form;
use self::stripes::Stripes;
use crate::budget::{Budget, Share};
use crate::resp::events::Timers;
use silica_base::Prng;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of the backlog, if nobody has said otherwise.
const BACKLOG_BYTES: usize = 1 << 20;
/// Seconds that the backlog is kept without replicas, if nobody has said otherwise.
const BACKLOG_SECONDS: u64 = 3600;
/// How long a link without records is kept for somebody who was sent away and has not come again.
const COMMANDS_ASKED_MS: u64 = 60_000;

/// The error of a write on a replica.
pub(crate) const READONLY: &str = "READONLY You can't write against a read only replica.";
/// The error of a write without enough replicas.
const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// What a server is among others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Role {
    /// It takes writes of clients.
    #[default]
    Primary,
    /// It follows the server at this host and port.
    Replica {
        /// Name or address.
        host: String,
        /// Port of RESP.
        port: u16,
    },
}

/// Settings of both sides, as CONFIG shows them.
#[derive(Debug)]
pub struct Settings {
    /// Bytes of the backlog.
    pub(crate) backlog_bytes: AtomicUsize,
    /// Seconds that the backlog is kept without replicas; 0 for ever.
    pub(crate) backlog_seconds: AtomicU64,
    /// A replica refuses writes of its own clients.
    pub(crate) is_read_only: AtomicBool,
    /// A replica without a link, or that loads, answers reads all the same.
    pub serves_stale: AtomicBool,
    /// Seconds between two PINGs to replicas.
    pub(crate) ping_seconds: AtomicU64,
    /// Seconds without a byte after which the other side counts as gone.
    pub timeout_seconds: AtomicU64,
    /// Replicas that must be there for a write; 0 for none.
    pub(crate) replicas_min: AtomicUsize,
    /// Seconds since the last acknowledgement after which a replica does not count; 0 for any.
    pub(crate) lag_seconds_max: AtomicU64,
    /// Sentinel chooses the replica with the least number, and none with 0.
    pub(crate) priority: AtomicU64,
    /// Bytes of the stream that a replica may be behind.
    pub(crate) behind_bytes_max: AtomicU64,
    /// Records are made and asked for, where the other side knows them.
    pub has_records: AtomicBool,
    /// A replica passes over values and requests that are not known here, and counts them.
    pub skips_unknown: AtomicBool,
    /// The port that a replica tells its primary, if not the one that it listens on; else 0.
    pub announce_port: AtomicU64,
    /// The address that a replica tells its primary, if any.
    pub announce_ip: Mutex<String>,
    /// The user and the password with which a replica comes to its primary; empty for none.
    pub primary_auth: Mutex<(String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            backlog_bytes: AtomicUsize::new(BACKLOG_BYTES),
            backlog_seconds: AtomicU64::new(BACKLOG_SECONDS),
            is_read_only: AtomicBool::new(true),
            serves_stale: AtomicBool::new(true),
            ping_seconds: AtomicU64::new(10),
            timeout_seconds: AtomicU64::new(60),
            replicas_min: AtomicUsize::new(0),
            lag_seconds_max: AtomicU64::new(10),
            priority: AtomicU64::new(100),
            has_records: AtomicBool::new(true),
            skips_unknown: AtomicBool::new(false),
            behind_bytes_max: AtomicU64::new(256 << 20),
            announce_port: AtomicU64::new(0),
            announce_ip: Mutex::default(),
            primary_auth: Mutex::default(),
        }
    }
}

/// A history of writes that a server takes part in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Its id.
    pub id: String,
    /// The id before, and the offset up to which it is the same history.
    pub second: Option<(String, u64)>,
}

/// What changes together.
struct State {
    role: Role,
    /// Grows with every change of the role.
    version: u64,
    history: History,
    stream: Backlog,
    /// The database that the end of the stream is about; `None` before the first SELECT.
    selected: Option<u8>,
    /// Replicas that are fed and take commands only.
    plain_feeds: usize,
    /// The end of the stream when the last of them left: it may come back for what follows.
    plain_end: u64,
    /// Bytes of the stream up to the end of the last record.
    records_end: u64,
    /// Bytes of the stream from the begin to the end of synchronisations whose keys were not all
    /// put into it, because the replica had gone: whoever stands in between may lack some.
    half_told: Option<(u64, u64)>,
}

/// What a server is among others, and the stream of what it writes.
pub struct Replication {
    /// The settings.
    pub settings: Settings,
    /// What is written here goes into the stream.
    tells: AtomicBool,
    is_replica: AtomicBool,
    state: Mutex<State>,
    pub(crate) stripes: Stripes,
    /// Connections of replicas.
    feeds: Mutex<Vec<Arc<Feed>>>,
    /// When keys expire whose removal replicas are told.
    pub(crate) timers: Timers,
    /// Keys came from a primary, and nobody knows when they expire: `timers` has what was written
    /// since.
    pub(crate) lacks_times: AtomicBool,
    /// Threads that send data.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// When the last replica has left, in milliseconds of the monotonic clock; 0 if one is there.
    left_ms: AtomicU64,
    pinged_ms: AtomicU64,
    /// The monotonic clock at the last tick.
    now_ms: AtomicU64,
    /// Full synchronisations, partial ones, and requests of those that were not possible.
    pub(crate) syncs: [AtomicU64; 3],
    /// Bytes of the stream behind which this server's link brings commands only; `u64::MAX` if it
    /// may bring records.
    link_plain_from: AtomicU64,
    /// When somebody who takes commands only was sent away until the link brings no records, in
    /// milliseconds of the monotonic clock; 0 for never.
    commands_asked_ms: AtomicU64,
    failover: Mutex<failover::Failover>,
    /// Keys of databases without snapshots are being put into the stream.
    is_walked: AtomicBool,
    walks: Mutex<restate::Walks>,
    /// Notified when the role has changed.
    role_changed: Condvar,
    link: Mutex<LinkStatus>,
    random: Mutex<Prng>,
}

impl Replication {
    /// A primary that nobody follows; ids come from `random`.
    pub(crate) fn new(budget: &Arc<Budget>, mut random: Prng) -> Self {
        let history = History { id: new_id(&mut random), second: None };
        let state = State {
            role: Role::Primary,
            version: 0,
            history,
            stream: Backlog::new(budget, 0),
            selected: None,
            plain_feeds: 0,
            plain_end: 0,
            records_end: 0,
            half_told: None,
        };
        Replication {
            settings: Settings::default(),
            tells: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            state: Mutex::new(state),
            stripes: Stripes::default(),
            feeds: Mutex::default(),
            timers: Timers::new(Share::new(budget), budget.max()),
            lacks_times: AtomicBool::new(false),
            threads: Mutex::default(),
            left_ms: AtomicU64::new(0),
            pinged_ms: AtomicU64::new(0),
            now_ms: AtomicU64::new(0),
            syncs: Default::default(),
            link_plain_from: AtomicU64::new(0),
            commands_asked_ms: AtomicU64::new(0),
            failover: Mutex::default(),
            is_walked: AtomicBool::new(false),
            walks: Mutex::default(),
            role_changed: Condvar::new(),
            link: Mutex::default(),
            random: Mutex::new(random),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if what clients write here goes into the stream.
    #[inline]
    pub fn tells(&self) -> bool {
        self.tells.load(Relaxed) && !self.is_replica()
    }

    /// True if this server follows another one.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// True if writes of ordinary clients are refused.
    #[inline]
    pub(crate) fn refuses_writes(&self) -> bool {
        self.refuse_write().is_some()
    }

    /// True if this is a replica that takes no writes of clients.
    #[inline]
    pub(crate) fn is_read_only_replica(&self) -> bool {
        self.is_replica() && self.settings.is_read_only.load(Relaxed)
    }

    /// Why writes of ordinary clients are refused, if they are.
    #[inline]
    pub(crate) fn refuse_write(&self) -> Option<&'static str> {
        if self.is_replica() {
            return self.is_read_only_replica().then_some(READONLY);
        }
        let min = self.settings.replicas_min.load(Relaxed);
        (min > 0 && self.good_replicas() < min).then_some(NO_REPLICAS)
    }

    /// The role now, and its version, which grows with every change.
    pub fn role(&self) -> (Role, u64) {
        let state = self.state();
        (state.role.clone(), state.version)
    }

    /// Waits until the role has another version than `seen`, for `timeout` at most; the role now.
    pub fn wait_for_role(&self, seen: u64, timeout: Duration) -> (Role, u64) {
        let is_old = |state: &mut State| state.version == seen;
        let waited = self.role_changed.wait_timeout_while(self.state(), timeout, is_old);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.role.clone(), state.version)
    }

    /// Follows the server at `host` and `port` from now on. The history stays what it was, so that
    /// the server may continue it; false if it is the role already.
    pub fn become_replica(&self, host: &str, port: u16) -> bool {
        let mut state = self.state();
        let role = Role::Replica { host: host.to_string(), port };
        if state.role == role {
            return false;
        }
        state.role = role;
        state.version += 1;
        // Others may follow it, or come to it when it is promoted.
        state.stream.keep();
        self.is_replica.store(true, Relaxed);
        *self.link() = LinkStatus::default();
        self.role_changed.notify_all();
        true
    }

    /// Takes writes of clients from now on, under a new id; what it had before is its second id up
    /// to here. False if it is the role already.
    pub fn become_primary(&self) -> bool {
        let id = new_id(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.state();
        if state.role == Role::Primary {
            return false;
        }
        state.role = Role::Primary;
        state.version += 1;
        let before = std::mem::replace(&mut state.history.id, id);
        state.history.second = Some((before, state.stream.end()));
        // Whoever continues here need not know what the primary has selected.
        state.selected = None;
        // Whoever continues here is to find what was written meanwhile.
        self.tells.store(state.stream.is_kept(), Relaxed);
        if self.feeds().is_empty() {
            self.left_ms.store(self.now_ms.load(Relaxed).max(1), Relaxed);
        }
        self.lacks_times.store(true, Relaxed);
        self.is_replica.store(false, Relaxed);
        self.role_changed.notify_all();
        true
    }

    /// The history that the stream belongs to.
    pub fn history(&self) -> History {
        self.state().history.clone()
    }

    /// Bytes of the stream so far.
    pub fn offset(&self) -> u64 {
        self.state().stream.end()
    }

    /// The history and the offset at one moment.
    pub fn position(&self) -> (History, u64) {
        let state = self.state();
        (state.history.clone(), state.stream.end())
    }

    /// Keeps the newest bytes of the stream from now on.
    pub fn keep(&self) {
        let mut state = self.state();
        if !state.stream.is_kept() {
            state.stream.keep();
            state.selected = None;
        }
    }

    /// Keeps nothing of the stream any more; what comes later is another history.
    fn give_up_stream(&self) {
        let id = new_id(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.state();
        state.stream.clear();
        state.half_told = None;
        state.history = History { id, second: None };
    }

    /// A replica has what its primary had at `offset` of history `id`, with `database` selected
    /// there. Bytes of another history are forgotten.
    pub fn set_position(&self, id: &str, offset: u64, database: Option<u8>) {
        let mut state = self.state();
        if state.history.id != id || state.stream.end() != offset {
            state.stream.restart(offset);
            (state.plain_end, state.records_end, state.half_told) = (0, 0, None);
        }
        state.history = History { id: id.to_string(), second: None };
        state.selected = database;
    }

    /// The primary goes on with the history under another id (`+CONTINUE id`): the one before
    /// becomes the second id up to here. False if it has that id already.
    pub fn rename_history(&self, id: &str) -> bool {
        let mut state = self.state();
        let is_new = state.history.id != id;
        if is_new {
            let before = std::mem::replace(&mut state.history.id, id.to_string());
            state.history.second = Some((before, state.stream.end()));
        }
        is_new
    }

    /// Passes on whole commands of the primary, some of them records if it `has_records`, behind
    /// which `database` is selected. False if somebody who takes commands only is fed with them.
    pub fn append_from_primary(
        &self,
        bytes: &[u8],
        database: Option<u8>,
        has_records: bool,
    ) -> bool {
        let mut state = self.state();
        state.stream.append(bytes);
        state.selected = database;
        if has_records {
            state.records_end = state.stream.end();
            // A primary that makes them though it has not said so.
            if state.records_end > self.link_plain_from.load(Relaxed) {
                self.set_link_plain_from(u64::MAX);
            }
        }
        self.trim(&mut state);
        !has_records || state.plain_feeds == 0
    }

    /// `feed` begins at the end of the stream: what a primary tells next says its database. The
    /// database that is selected there, if the stream goes on without saying.
    fn begin_here(&self, feed: &Feed) -> Option<u8> {
        let mut state = self.state();
        if !self.is_replica() {
            state.selected = None;
        }
        state.plain_feeds += usize::from(feed.counts_as_plain());
        state.selected
    }

    /// Bytes of the stream up to the end of the last record.
    pub(crate) fn records_end(&self) -> u64 {
        self.state().records_end
    }

    /// The link to the primary brings records no more behind `from` bytes of the stream;
    /// `u64::MAX` if it may bring them.
    pub fn set_link_plain_from(&self, from: u64) {
        self.link_plain_from.store(from, Relaxed);
    }

    /// True if the link to the primary may bring records, and somebody who follows this server
    /// takes commands only: then it is to be made anew.
    pub fn must_relink(&self) -> bool {
        self.link_plain_from.load(Relaxed) == u64::MAX && self.wants_commands()
    }

    /// True if somebody follows this server, or tried to lately, who takes commands only.
    pub fn wants_commands(&self) -> bool {
        let asked_ms = self.commands_asked_ms.load(Relaxed);
        let is_late = self.now_ms.load(Relaxed).saturating_sub(asked_ms) > COMMANDS_ASKED_MS;
        (asked_ms != 0 && !is_late) || self.state().plain_feeds > 0
    }

    /// True if `feed` can be fed by this server now. If it takes commands only and the link to the
    /// primary brings records, that link is made anew, and it has to come again.
    pub(crate) fn can_feed(&self, feed: &Feed, now_ms: u64) -> bool {
        let can = !self.is_replica()
            || !feed.wants_commands()
            || self.offset() >= self.link_plain_from.load(Relaxed);
        if !can {
            self.commands_asked_ms.store(now_ms.max(1), Relaxed);
        }
        can
    }

    /// Appends `effects`; several of them as one transaction if they are `one_step`.
    pub(crate) fn append(&self, effects: &Effects, one_step: bool) {
        let is_framed = one_step && effects.len() > 1;
        let mut state = self.state();
        let takes_records = self.takes_records(&state);
        let mut made = Vec::new();
        for (nth, (db, form, bytes)) in effects.parts().enumerate() {
            if let Some(db) = db.filter(|db| state.selected != Some(*db)) {
                let mut select = Vec::new();
                effects::push_command(&mut select, &[b"SELECT", db.to_string().as_bytes()]);
                state.stream.append(&select);
                state.selected = Some(db);
            }
            if is_framed && nth == 0 {
                state.stream.append(b"*1\r\n$5\r\nMULTI\r\n");
            }
            match form {
                Form::Commands => state.stream.append(bytes),
                Form::Entries(count) if takes_records => {
                    made.clear();
                    effects::push_as_record(&mut made, count, bytes);
                    state.stream.append(&made);
                    state.records_end = state.stream.end();
                }
                Form::Entries(_) => {
                    made.clear();
                    effects::push_as_commands(&mut made, bytes);
                    state.stream.append(&made);
                }
            }
        }
        if is_framed {
            state.stream.append(b"*1\r\n$4\r\nEXEC\r\n");
        }
        self.trim(&mut state);
    }

    /// True if strings that are told now become records.
    fn takes_records(&self, state: &State) -> bool {
        self.settings.has_records.load(Relaxed)
            && state.plain_feeds == 0
            && state.stream.start() >= state.plain_end
    }

    /// What strings are in the stream, as INFO shows it.
    pub(crate) fn form(&self) -> &'static str {
        let has_records = match self.is_replica() {
            true => self.link_plain_from.load(Relaxed) == u64::MAX,
            false => self.takes_records(&self.state()),
        };
        if has_records { "records" } else { "commands" }
    }

    /// Forgets what nobody needs of the stream.
    fn trim(&self, state: &mut State) {
        let bytes = self.settings.backlog_bytes.load(Relaxed);
        let most = self.settings.behind_bytes_max.load(Relaxed) as usize;
        if state.stream.len() > bytes {
            let feeds = self.feeds();
            let needed = feeds.iter().map(|feed| feed.sent()).min().unwrap_or(u64::MAX);
            state.stream.trim(bytes, needed, most.max(bytes));
        }
    }

    /// Bytes of the stream behind the first `from`, `max` at most; `None` if they are not kept.
    pub fn read(&self, from: u64, max: usize) -> Option<Vec<u8>> {
        self.state().stream.read(from, max)
    }

    /// The bytes before the first that is kept, how many are kept, and whether any are.
    pub(crate) fn kept(&self) -> (u64, usize, bool) {
        let state = self.state();
        (state.stream.start(), state.stream.len(), state.stream.is_kept())
    }

    /// The link to the primary, for whoever has it and for those who show it.
    pub fn link(&self) -> MutexGuard<'_, LinkStatus> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 40 hexadecimal digits.
fn new_id(random: &mut Prng) -> String {
    let digits: String = (0..3).map(|_| format!("{:016x}", random.next_u64())).collect();
    digits[..40].to_string()
}

#[cfg(test)]
mod tests;
