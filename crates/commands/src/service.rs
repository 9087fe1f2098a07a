//! What all commands share: databases, users, counters, and what is kept for clients.

use crate::acl::{Acl, Refusal};
use crate::agreement::Agreement;
use crate::budget::Budget;
use crate::burst::Burst;
use crate::calls::Calls;
use crate::calls::times::Times;
use crate::clients::{Client, Clients};
use crate::cluster::encryption::Encryption;
use crate::cluster::{Cluster, KeptLinks};
use crate::cursors::Cursors;
use crate::database_set::DatabaseSet;
use crate::element_cursors::ElementCursors;
use crate::errors::Errors;
use crate::exec::OwnedUpdates;
use crate::front::Front;
use crate::known_counts::KnownCounts;
use crate::memcached::{self, Flush, Marks};
use crate::pause::Pause;
use crate::process;
use crate::push::{Delivery, Kind, Published};
use crate::rates::Rates;
use crate::replication::Replication;
use crate::resp::config::{self, SettingsFile};
use crate::resp::events::{self, Classes, Events};
use crate::resp::monitors::Monitors;
use crate::resp::scripts::{Libraries, Runnings, Scripts};
use crate::resp::sql::SqlLimits;
use crate::resp::types::reclaim::{self, DeadPages};
use crate::slowlog::{Latency, SlowLog};
use crate::stage_sums::StageSums;
use crate::stats::Stats;
use crate::table;
use crate::topics::Topics;
use crate::tracking::{Recipients, Tracking};
use crate::waiters::{Waited, Waiters};
use crate::watch::Watches;
use silica::engine::{Durability, Engine, Error, ErrorKind, Result, WriteBatch};
use silica_base::{Clock, HashSeed, Prng, SystemClock};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Elements of a sorted set that is kept in pages, unless somebody sets another number: about
/// 64 KiB. A change of an element in pages writes about 2 KiB, and one of an entry 140 bytes.
const ZSET_PAGED_MAX: u64 = 1024;

/// What commands have to know of the settings that the server was started with.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// What a write's acknowledgement means.
    pub durability: Durability,
    /// Databases that `SELECT` reaches.
    pub databases: u32,
    /// Event loops.
    pub loops: usize,
    /// Threads that call engines which may wait for a device.
    pub io_workers: usize,
    /// Bytes of memory of the whole process as its user set it; 0 if nobody did.
    pub memory_bytes: u64,
    /// Bytes of all that clients make the server hold.
    pub clients_bytes_max: usize,
    /// Addresses that are listened on, as they were set.
    pub listen: Vec<SocketAddr>,
    /// Connections at the same time, at first.
    pub clients_max: usize,
    /// Milliseconds without a byte after which a client that has begun a request is dropped, at
    /// first; 0 for never.
    pub request_ms_max: u64,
    /// Milliseconds that a statement of SQL may take, at first; 0 for any time.
    pub sql_ms_max: u64,
    /// Threads that run statements of SQL.
    pub sql_workers: usize,
    /// The file that the settings are from, for CONFIG REWRITE.
    pub settings_file: Option<Arc<dyn SettingsFile>>,
    /// This node's part of a cluster, if it is in one.
    pub cluster: Option<Arc<Cluster>>,
    /// The servers that agree about database 0, if some do.
    pub agreement: Option<Arc<dyn Agreement>>,
}

/// What all commands share.
pub struct Service {
    /// The settings of its start.
    pub options: ServiceOptions,
    /// The databases.
    pub databases: Arc<DatabaseSet>,
    /// The connections.
    pub(crate) clients: Clients,
    /// The users.
    pub acl: Acl,
    /// Counters that INFO shows.
    pub stats: Stats,
    /// How often each command was called.
    pub(crate) calls: Calls,
    /// How long the calls of each command took.
    pub(crate) times: Times,
    /// How often each kind of error was answered.
    pub(crate) errors: Errors,
    /// How fast counters grow.
    pub(crate) rates: Rates,
    /// Forty hexadecimal digits, different for every start of a server.
    pub(crate) run_id: String,
    /// Who listens to which channels.
    pub(crate) topics: Topics,
    /// Requests that took long.
    pub(crate) slowlog: SlowLog,
    /// How long bursts took.
    pub(crate) latency: Latency,
    /// Where a sample of reads spent its time.
    pub(crate) stage_sums: StageSums,
    /// Who is told which keys were written.
    pub(crate) tracking: Tracking,
    /// Pages of objects that are no more.
    pub(crate) dead_pages: DeadPages,
    /// Who waits until keys have something.
    pub(crate) waiters: Waiters,
    /// Who is shown all requests.
    pub(crate) monitors: Monitors,
    /// Which events of keys are told.
    pub(crate) events: Events,
    /// This node's part of a cluster, if it is in one.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Which connections to other servers are encrypted.
    pub(crate) encryption: Encryption,
    /// Connections that MIGRATE has left open.
    pub(crate) kept_links: KeptLinks,
    /// The service itself, for threads that outlive a call.
    itself: OnceLock<Weak<Service>>,
    /// Whether requests have to wait.
    pub pause: Pause,
    /// Connections at the same time; may change while the server runs.
    pub(crate) clients_max: AtomicUsize,
    /// Milliseconds without a byte after which a client that has begun a request is dropped; 0 for
    /// never. May change while the server runs.
    pub(crate) request_ms_max: AtomicU64,
    /// The scripts that clients have brought.
    pub(crate) scripts: Scripts,
    /// The libraries of functions.
    pub(crate) libraries: Libraries,
    /// Scripts that take long.
    pub(crate) runnings: Arc<Runnings>,
    /// Held by a script that runs anew for the fifth time, so that such scripts do not keep each
    /// other from taking effect.
    script_turn: Mutex<()>,
    /// Milliseconds without a request after which a client is let go; 0 for never.
    pub(crate) idle_ms_max: AtomicU64,
    /// Bytes of memory of the whole process; 0 if nobody set them.
    memory_bytes: AtomicU64,
    /// Names of the settings that are not as they were at the start.
    changed_settings: Mutex<BTreeSet<&'static str>>,
    /// What statements of SQL share.
    pub(crate) sql: Arc<SqlLimits>,
    /// The start of the server, in Unix milliseconds.
    pub started_ms: u64,
    /// The memory of all clients.
    pub budget: Arc<Budget>,
    /// When memcached's clients want everything removed.
    pub(crate) flush: Flush,
    /// What memcached's clients note about entries.
    pub(crate) marks: Arc<Marks>,
    /// Where scans in the order of the keys go on.
    pub(crate) cursors: Cursors,
    /// Where scans of the elements of objects go on.
    pub(crate) element_cursors: ElementCursors,
    /// Counts of sorted sets whose elements are entries.
    pub(crate) known_counts: KnownCounts,
    /// Elements above which those of a sorted set become entries, if the engine has an order; 0 for
    /// never.
    pub(crate) zset_paged_max: AtomicU64,
    /// Whoever asked for the stop wants nothing to be kept beyond what is kept anyway.
    pub(crate) keeps_nothing: AtomicBool,
    /// What this server is among others.
    pub replication: Replication,
    /// The threads that serve connections.
    pub(crate) front: Arc<dyn Front>,
    /// The threads that own partitions and change keys of theirs, if any do.
    pub(crate) owners: Option<Arc<dyn OwnedUpdates>>,
    clock: SystemClock,
    random: Mutex<Prng>,
    stopping: AtomicBool,
}

impl Service {
    /// A service that begins now: `front` serves the connections of `acl`'s users to `databases`,
    /// and what they make the server hold is counted by `budget`.
    pub fn new(
        options: ServiceOptions,
        databases: DatabaseSet,
        acl: Acl,
        budget: Arc<Budget>,
        front: Arc<dyn Front>,
    ) -> Self {
        let clock = SystemClock::default();
        let process = u64::from(std::process::id());
        let mut random = Prng::new(clock.unix_ms() ^ process.rotate_right(32));
        Service {
            databases: Arc::new(databases),
            clients: Clients::default(),
            acl,
            stats: Stats::default(),
            calls: Calls::new(*table::LIST),
            times: Times::new(*table::LIST),
            errors: Errors::default(),
            rates: Rates::default(),
            run_id: new_run_id(&mut random),
            topics: Topics::default(),
            slowlog: SlowLog::default(),
            latency: Latency::default(),
            stage_sums: StageSums::default(),
            tracking: Tracking::new(&budget),
            dead_pages: DeadPages::default(),
            waiters: Waiters::default(),
            monitors: Monitors::default(),
            events: Events::new(&budget),
            cluster: options.cluster.clone(),
            encryption: Encryption::default(),
            kept_links: KeptLinks::default(),
            itself: OnceLock::new(),
            pause: Pause::default(),
            clients_max: AtomicUsize::new(options.clients_max),
            request_ms_max: AtomicU64::new(options.request_ms_max),
            scripts: Scripts::new(&budget),
            libraries: Libraries::new(&budget),
            runnings: Arc::default(),
            script_turn: Mutex::default(),
            idle_ms_max: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(options.memory_bytes),
            changed_settings: Mutex::default(),
            sql: Arc::new(SqlLimits::new(options.sql_ms_max, options.sql_workers)),
            started_ms: clock.unix_ms(),
            flush: Flush::default(),
            marks: Arc::new(Marks::within(budget.max())),
            cursors: Cursors::new([random.next_u64(), random.next_u64()], &budget),
            element_cursors: ElementCursors::new(&budget),
            known_counts: KnownCounts::new(&budget),
            zset_paged_max: AtomicU64::new(ZSET_PAGED_MAX),
            replication: Replication::new(&budget, Prng::new(random.next_u64())),
            budget,
            random: Mutex::new(random),
            clock,
            stopping: AtomicBool::new(false),
            keeps_nothing: AtomicBool::new(false),
            front,
            owners: None,
            options,
        }
    }

    /// Has single keys changed by the threads that own their partitions: those that the databases
    /// were made with.
    #[must_use]
    pub fn with_owners(self, owners: Option<Arc<dyn OwnedUpdates>>) -> Self {
        Service { owners, ..self }
    }

    /// Begins to talk to other servers, if it is to.
    pub fn start(self: &Arc<Self>) {
        // A service starts once.
        let _ = self.itself.set(Arc::downgrade(self));
        if let Some(cluster) = &self.cluster {
            let keys = Arc::clone(&cluster.keys);
            self.databases.watchers[0].note_in(keys);
            cluster.start(self);
        }
    }

    /// The service itself, if it was started.
    pub(crate) fn itself(&self) -> Option<Arc<Service>> {
        self.itself.get()?.upgrade()
    }

    /// Sends a message to all who listen, on other nodes of the cluster, too; to how many of this
    /// node, or why there is no memory for it.
    pub(crate) fn publish(
        &self,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
    ) -> std::result::Result<usize, String> {
        if let Some(cluster) = self.cluster.as_ref().filter(|_| kind == Kind::Channel) {
            cluster.broadcast(channel, payload);
        }
        self.publish_here(kind, channel, payload)
    }

    /// Sends a message to all who listen on this node; to how many, or why there is no memory for
    /// it.
    pub(crate) fn publish_here(
        &self,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
    ) -> std::result::Result<usize, String> {
        self.topics.publish(&*self.front, &self.budget, kind, channel, payload)
    }

    /// Bytes of values and replies that a thread collects without a claim, `most` at most.
    pub fn room(&self, most: usize) -> usize {
        self.budget.room(most, self.options.loops + self.options.io_workers)
    }

    /// True if elements of sorted sets may be entries here: databases are durable, in order.
    pub fn keeps_elements(&self) -> bool {
        let suits = |engine: &dyn Engine| {
            let capabilities = engine.descriptor().capabilities;
            capabilities.ordered && capabilities.durable
        };
        self.databases.owners.is_none() && self.databases.engine(0).is_ok_and(suits)
    }

    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// The Unix time, in milliseconds, at which what the databases still have has not expired: on a
    /// replica one that has passed for its primary.
    pub(crate) fn expiry_ms(&self) -> u64 {
        self.databases.clock().map_or_else(|| self.unix_ms(), Clock::unix_ms)
    }

    /// Microseconds since the Unix epoch.
    pub(crate) fn unix_us(&self) -> u64 {
        self.clock.unix_us()
    }

    /// Milliseconds of a clock that never goes back.
    pub fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }

    /// The machine's clocks.
    pub(crate) fn clock(&self) -> &SystemClock {
        &self.clock
    }

    /// The time at which a burst is handed to the workers, where somebody wants to know how long
    /// bursts wait for them; else 0.
    pub fn queued_ns(&self) -> u64 {
        let shows_all = self.slowlog.shows_stages();
        if !shows_all && !self.stage_sums.is_observed() {
            return 0;
        }
        let now_ns = self.monotonic_ns();
        if shows_all || self.stage_sums.takes(now_ns) { now_ns } else { 0 }
    }

    /// Nanoseconds of a clock that never goes back.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// Counts an error reply that begins with `word`.
    pub(crate) fn count_error(&self, word: String) {
        self.stats.add(|s| &s.total_error_replies, 1);
        self.errors.count(word);
    }

    /// Notes that something was refused to `client`, where it is known.
    pub(crate) fn note_refusal(&self, refusal: Refusal, client: Option<&Client>) {
        let now_ms = self.unix_ms();
        let line = client.map(|client| client.line(self.tracking.shown(client.id), now_ms));
        self.acl.log.add(refusal, line.unwrap_or_default(), now_ms, &self.budget);
    }

    /// True if a client listens to something that its user, as that is now, may not hear.
    pub(crate) fn hears_too_much(&self, client: &Client) -> bool {
        let topics = client.subscriptions();
        if topics.count() == 0 {
            return false;
        }
        let user = self.acl.get(&client.user_name());
        let may_hear = |kind, topic: &[u8]| user.as_ref().is_some_and(|u| u.may_hear(kind, topic));
        let hears_all = |kind| topics.of(kind).iter().all(|topic| may_hear(kind, topic));
        ![Kind::Channel, Kind::Pattern, Kind::Shard].into_iter().all(hears_all)
    }

    /// How many connections there are.
    pub fn client_count(&self) -> usize {
        self.clients.count()
    }

    /// Connections at the same time at most.
    pub fn clients_max(&self) -> usize {
        self.clients_max.load(Ordering::Relaxed)
    }

    /// Milliseconds without a byte after which a client that has begun a request is dropped; 0 for
    /// never.
    pub fn request_ms_max(&self) -> u64 {
        self.request_ms_max.load(Ordering::Relaxed)
    }

    /// Forty hexadecimal digits, different for every start of a server.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The first TCP port that is listened on; 0 if there is only a unix socket.
    pub fn port(&self) -> u16 {
        self.front.port()
    }

    /// Changes settings, as CONFIG SET does: all of them, or none where one is wrong.
    ///
    /// # Errors
    /// `Config`, with the name of the setting and what is wrong.
    pub fn configure(&self, settings: &[(String, String)]) -> Result<()> {
        let pairs = settings.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        config::change(self, pairs).map_err(|text| {
            let text = text.strip_prefix("ERR ").unwrap_or(&text);
            Error::new(ErrorKind::Config, text)
        })
    }

    /// Names of the settings that are not as they were at the start.
    pub(crate) fn changed_settings(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.changed_settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds without a request after which a client is let go that listens to nothing; 0
    /// for never.
    pub fn idle_ms_max(&self) -> u64 {
        self.idle_ms_max.load(Ordering::Relaxed)
    }

    /// Bytes of memory of the whole process; 0 if nobody set them.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Lets the whole process have `bytes` of memory from now on: what clients have of it stays,
    /// and the stores get the rest.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) -> Result<()> {
        let clients = self.options.clients_bytes_max as u64;
        let stores = bytes.saturating_sub(clients + program_bytes(bytes));
        self.databases.set_memory_bytes(stores)?;
        self.memory_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets a connection that is gone, and what was kept for it.
    pub fn remove_client(&self, client: &Client) {
        self.topics.remove_all(client);
        self.tracking.remove(client.id);
        self.wake_all(self.waiters.end(client.id));
        self.monitors.remove(client);
        self.clients.remove(client.id);
        // Behind its removal: a feed that is asked for later is not made.
        self.replication.forget(client, self.monotonic_ms());
        self.budget.end_leaving(client.leaving_bytes.swap(0, Ordering::Relaxed));
    }

    /// The connection that holds most, at least `bytes_min` bytes; one that must not be evicted
    /// only if there is no other.
    pub fn largest_client(&self, bytes_min: usize) -> Option<Arc<Client>> {
        self.clients.largest(bytes_min)
    }

    /// Has the front close a connection that holds `bytes` bytes, which count as free from now on.
    pub fn send_away(&self, client: &Client, bytes: usize) {
        client.leaving_bytes.store(bytes, Ordering::Relaxed);
        self.budget.begin_leaving(bytes);
        self.front.close(client.loop_index, client.owner());
    }

    /// Lets the requests that `clients` wait with run anew.
    pub(crate) fn wake_all(&self, clients: Vec<u64>) {
        clients.into_iter().for_each(|client| self.wake(client, Waited::Not));
    }

    /// Lets the request that `client` waits with run anew.
    pub(crate) fn wake(&self, client: u64, waited: Waited) {
        if let Some(client) = self.clients.get(client) {
            let owner = client.owner();
            self.front.wake(client.loop_index, owner, waited);
        }
    }

    /// Tells who wants to know that `batch`, of nobody who has a connection, was written to
    /// database `db`. It must be visible.
    pub fn tell_written(&self, db: u8, batch: &WriteBatch<'_>) {
        if self.tracking.is_told() {
            let changed: Vec<_> = batch.ops().iter().map(|op| (0, op.key.into())).collect();
            self.tracking.tell(self, &changed);
        }
        if self.events.told() != Classes::NONE {
            let mut list = Vec::new();
            batch.ops().iter().for_each(|op| events::of_write(db, op, false, &mut list));
            self.events.tell(self, self.unix_ms(), list.into_iter());
        }
    }

    /// Called about once a second, with the time of [`Service::monotonic_ms`]: samples counters.
    /// Returns what is to be run now, for event loop `index`.
    pub fn tick(&self, index: usize, now_ms: u64) -> Vec<Burst> {
        self.rates.sample(&self.stats, now_ms);
        self.sql.end_idle();
        self.cluster.iter().for_each(|cluster| cluster.keys.forget_old(self.monotonic_ms()));
        self.kept_links.close_idle(self.monotonic_ms());
        let unix_ms = self.unix_ms();
        self.tracking.tell_expired(self, unix_ms);
        let replicas = self.tick_replicas(index, now_ms);
        let expires = self.events.has_due(unix_ms).then(|| events::timers_burst(index));
        let flushes = self.flush.is_due(unix_ms).then(|| memcached::flush_burst(index));
        let reclaims = reclaim::burst(self, index);
        expires.into_iter().chain(flushes).chain(reclaims).chain(replicas).collect()
    }

    /// True if whoever asked for the stop wants nothing to be kept beyond what is kept anyway.
    pub fn keeps_nothing(&self) -> bool {
        self.keeps_nothing.load(Ordering::Acquire)
    }

    /// What becomes of entries when memory is full, as Redis calls it.
    pub(crate) fn eviction_policy(&self) -> &'static str {
        let engine = self.databases.opened(0);
        match engine.is_some_and(|engine| engine.descriptor().capabilities.may_evict) {
            true => "allkeys-lru",
            false => "noeviction",
        }
    }

    /// Resident memory of the process; 0 if the system does not tell.
    pub fn resident_bytes(&self) -> u64 {
        process::resident_bytes().0
    }

    /// A random number.
    pub(crate) fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A random seed for hashes of keys.
    pub(crate) fn random_seed(&self) -> HashSeed {
        let mut seed = [0; 16];
        seed.as_chunks_mut::<8>().0.iter_mut().for_each(|half| *half = self.random().to_le_bytes());
        HashSeed(seed)
    }

    /// What a connection watches, which is nothing yet.
    pub(crate) fn watches(&self) -> Watches {
        let watchers = Arc::clone(&self.databases.watchers);
        Watches::new(watchers, self.random_seed(), &self.budget)
    }

    /// Ends every pause and stops the front; does nothing if that was asked for before.
    pub fn request_stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            self.pause.end();
            self.sql.stop();
            self.runnings.stop();
            self.front.stop();
        }
    }

    /// Waits until no other script runs anew again and again.
    pub(crate) fn script_turn(&self) -> MutexGuard<'_, ()> {
        self.script_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once the server is being stopped.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// An error once the server is being stopped; for walks that could go on for long.
    pub(crate) fn refuse_when_stopping(&self) -> Result<()> {
        match self.is_stopping() {
            true => Err(Error::new(ErrorKind::Closed, "the server is being stopped")),
            false => Ok(()),
        }
    }
}

impl Recipients for Service {
    fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn client(&self, id: u64) -> Option<Arc<Client>> {
        self.clients.get(id)
    }

    fn retain_known(&self, client: &Client, keys: &mut Vec<Vec<u8>>) {
        let user = self.acl.get(&client.user_name());
        keys.retain(|key| user.as_ref().is_some_and(|user| user.may_know(key)));
    }

    fn publish(&self, loop_index: usize, published: Published, delivery: Delivery) {
        self.front.publish(loop_index, Arc::new(published), vec![delivery]);
    }
}

/// What the program itself has of `memory_bytes` where stores are durable: its pages, stacks, and
/// what the allocator keeps between large blocks.
pub fn program_bytes(memory_bytes: u64) -> u64 {
    (memory_bytes / 16).min(8 << 20)
}

/// 40 digits that tell this run of the server from others.
fn new_run_id(random: &mut Prng) -> String {
    let digits: String = (0..3).map(|_| format!("{:016x}", random.next_u64())).collect();
    digits[..40].to_string()
}
