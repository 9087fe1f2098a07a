//! A cluster as Redis's clients know it: 16384 slots of keys, each served by one node.
//!
//! There is no gossip and no detection of failures: who is a part of the cluster and who serves
//! what is decided from outside, by `redis-cli --cluster`, by CLUSTERX SETNODES or by a file. A
//! node that learns something tells the others ([`links`]), and keeps it in a file.
//!
//! * `slots`, `map`, `topology`: slots, and who serves them;
//! * `file`, `directory`: where the map is kept (docs/formats/cluster.md);
//! * `route`: which node runs a request; [`crate::exec`] asks it before each request runs;
//! * `keys`: the keys of a slot;
//! * `migrate`, `kept`: MIGRATE, which moves keys to another server, and its connections;
//! * `role`: replicas, and how one takes the slots of its primary over;
//! * `lost`: removes keys of slots that another node has taken;
//! * `links`, `reports`, `wire`: what goes to other nodes, and what they say of each other;
//! * `encryption`: which connections to other servers have TLS, those of replicas among them.
//!
//! Invariants:
//! 1. A map takes effect while no burst runs, and a burst looks at the map when it begins: so no
//!    request runs under a map that was replaced.
//! 2. What a node says of itself, which nodes there are, and the highest epoch are in its file,
//!    and durable, before they take effect; what [`Map::keep`] excepts is durable within a
//!    second. What others say of themselves comes there within a second, and when
//!    the server stops: a node that has lost it hears it again.
//! 3. A request for a slot that is handed over looks whether its keys are there, and runs, under
//!    one lock ([`Cluster::handover`]), which MIGRATE holds when it removes keys: a key is here or
//!    there, and no request finds it at neither.
//! 4. Locks are taken in this order: the gate of bursts, `handover`, `state`. Nobody holds `state`
//!    while he waits for another node.

mod directory;
pub(crate) mod encryption;
mod file;
mod kept;
mod keys;
mod links;
mod lost;
mod map;
pub(crate) mod migrate;
mod own;
mod reports;
mod role;
mod route;
mod slots;
mod topology;
mod wire;

pub use encryption::{LinkKind, is_tls};
pub(crate) use kept::KeptLinks;
pub(crate) use keys::{SlotKeys, are_there};
pub(crate) use map::{Map, Node, is_id};
pub(crate) use reports::Health;
pub(crate) use role::Failover;
pub(crate) use route::{Asked, CROSS_SLOT, KeySlots, Route, TRY_AGAIN};
pub(crate) use slots::{SLOTS, SlotSet, range_text, slot_of};
pub(crate) use topology::of_topology;

use self::directory::PathDirectory;
use self::file::MapFile;
use self::links::Links;
use self::lost::Lost;
use self::map::Keep;
use self::migrate::Moving;
use crate::service::Service;
use silica::engine::{Error, ErrorKind, Result};
use silica_base::{Clock, Published, SystemClock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Milliseconds in which a node that was forgotten does not come back by what others say.
const FORGOTTEN_MS: u64 = 60_000;
/// Milliseconds after which [`Map::heirs`] ends: a tool hands slots over one after the other, and
/// each beginning costs a sync.
const HEIRS_KEPT_MS: u64 = 30_000;

/// How long what others say of themselves is not in the file; then the next link that looks writes.
const SAVE_MS: u64 = 500;

/// How a node of a cluster begins.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// Where the map is kept; `None` if nothing outlives the process.
    pub file: Option<PathBuf>,
    /// How others reach this node; empty if it learns that from them.
    pub host: String,
    /// The port that others reach this node at.
    pub port: u16,
    /// Host and port were set, and are not those that are listened on.
    pub is_announced: bool,
    /// What other nodes want to be given, if they want anything.
    pub password: Option<Vec<u8>>,
    /// A map survives a power cut, and not only the end of the process.
    pub is_synced: bool,
    /// Serve what is there while some slots are not served.
    pub serves_parts: bool,
    /// A file with the topology, as CLUSTERX SETNODES takes it behind a line `version N`.
    pub nodes: Option<PathBuf>,
}

/// The newest map, which may not have taken effect yet.
struct State {
    map: Arc<Map>,
    /// Where maps are kept; None if nothing outlives the process.
    file: Option<MapFile<PathDirectory>>,
    /// Since when something is not durable in the file, in monotonic milliseconds.
    unsaved_ms: Option<u64>,
    /// Ids of nodes that were forgotten, and when, in Unix milliseconds.
    forgotten: BTreeMap<String, u64>,
}

/// This node's part of the cluster.
pub struct Cluster {
    pub(crate) options: ClusterOptions,
    /// The map that is in effect.
    map: Published<Arc<Map>>,
    state: Mutex<State>,
    /// Held while a request looks for keys of a slot that is handed over, and runs.
    handover: Mutex<()>,
    pub(crate) keys: Arc<SlotKeys>,
    /// Keys that MIGRATE moves.
    pub(crate) moving: Moving,
    pub(crate) links: Links,
    /// Until when a primary hands its slots over, in monotonic milliseconds; 0 if it does not.
    yields_until_ms: AtomicU64,
    /// Until when a primary that was just started waits for its replicas, likewise.
    starts_until_ms: AtomicU64,
    /// Slots that another node has taken, whose keys are to go.
    pub(crate) lost: Lost,
    /// Slots are under way in the map, and not durably in its file.
    has_undurable_slots: AtomicBool,
    /// Syncs of the file, for CLUSTER INFO.
    pub(crate) syncs: AtomicU64,
    /// When a slot was handed over for the last time, in monotonic milliseconds.
    left_ms: AtomicU64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("options", &self.options.file).finish_non_exhaustive()
    }
}

/// A new id: 40 random hexadecimal digits.
pub(crate) fn new_id() -> String {
    let mut bytes = [0; 20];
    if getrandom::fill(&mut bytes).is_err() {
        let now = SystemClock::default().unix_us().to_le_bytes();
        bytes[..8].copy_from_slice(&now);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn config(text: String) -> Error {
    Error::new(ErrorKind::Config, text)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// This node as its file knows it, or a new one.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written, or is damaged, and if a topology is wrong.
    pub fn open(options: ClusterOptions) -> Result<Arc<Cluster>> {
        let (file, kept) = open_file(options.file.as_deref())?;
        let mut map =
            kept.unwrap_or_else(|| Map::new(Node::new(&new_id(), &options.host, options.port)));
        let me = map.me();
        let host = if options.host.is_empty() { me.host.clone() } else { options.host.clone() };
        if (&me.host, me.port) != (&host, options.port) {
            let port = options.port;
            let me = map.change_me();
            (me.host, me.port) = (host, port);
        }
        if let Some(file) = &options.nodes {
            let within = |why: String| config(format!("{}: {why}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|error| within(error.to_string()))?;
            map = topology::of_file(&text, &map, !options.serves_parts).map_err(within)?;
        }
        let cluster = Cluster {
            map: Published::new(Arc::new(map.clone())),
            state: Mutex::new(State {
                map: Arc::new(map),
                file,
                unsaved_ms: None,
                forgotten: BTreeMap::new(),
            }),
            handover: Mutex::default(),
            keys: Arc::default(),
            moving: Moving::default(),
            links: Links::default(),
            yields_until_ms: AtomicU64::new(0),
            starts_until_ms: AtomicU64::new(0),
            lost: Lost::default(),
            has_undurable_slots: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            left_ms: AtomicU64::new(0),
            options,
        };
        cluster.save_again().map_err(config)?;
        Ok(Arc::new(cluster))
    }

    /// Begins to talk to the nodes that are known.
    pub fn start(self: &Arc<Self>, service: &Arc<Service>) {
        self.links.start(Arc::downgrade(service));
        self.links.follow(&self.map());
    }

    /// The map that is in effect.
    #[inline]
    pub(crate) fn map(&self) -> Arc<Map> {
        self.map.read(Arc::clone)
    }

    /// What is held while a key of a slot that is handed over is looked for and worked on.
    pub(crate) fn handover(&self) -> &Mutex<()> {
        &self.handover
    }

    /// True if the cluster serves what its nodes have.
    pub(crate) fn is_ok(&self, map: &Map) -> bool {
        self.options.serves_parts || map.served() == usize::from(SLOTS)
    }

    /// Who runs a request under `map`.
    pub(crate) fn route(&self, map: &Map, slots: &KeySlots, asked: Asked) -> Route {
        map.route(slots, asked, !self.options.serves_parts)
    }

    /// Why this node does not run a request with `keys` that is kept for later, or names channels.
    pub(crate) fn refuse<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        asked: Asked,
    ) -> Option<String> {
        let mut slots = KeySlots::default();
        keys.for_each(|key| slots.add(key));
        match self.route(&self.map(), &slots, asked) {
            Route::Refuse(text) => Some(text),
            Route::Here | Route::Leaving(_) | Route::Arriving => None,
        }
    }

    /// Changes the map: it is in its file, as far as invariant 2 wants it, and in effect, and the
    /// other nodes are being told, when this returns.
    ///
    /// # Errors
    /// Says why `change` refused, or the file could not be written; nothing has changed then.
    pub(crate) fn change<T>(
        &self,
        service: &Service,
        change: impl FnOnce(&mut Map) -> std::result::Result<T, String>,
    ) -> std::result::Result<T, String> {
        let (value, has_changed) = {
            let mut state = lock(&self.state);
            let mut map = (*state.map).clone();
            let value = change(&mut map)?;
            let has_changed = map != *state.map;
            if has_changed {
                let keep = map.keep(&state.map);
                let is_synced = keep == Keep::Synced && self.options.is_synced;
                if keep != Keep::Later {
                    // What a write that failed has left in the file is replaced soon.
                    state.save(&map, is_synced).inspect_err(|_| state.save_soon(service))?;
                }
                match is_synced {
                    true => self.note_durable(&mut state),
                    false => state.save_soon(service),
                }
                if !is_synced && self.options.is_synced && map.has_more_under_way(&state.map) {
                    self.has_undurable_slots.store(true, Release);
                }
                self.lost.note(&state.map, &map);
                state.map = Arc::new(map);
            }
            (value, has_changed)
        };
        if has_changed {
            self.publish(service);
        }
        Ok(value)
    }

    /// Lets the newest map take effect.
    fn publish(&self, service: &Service) {
        let put = || {
            let map = Arc::clone(&lock(&self.state).map);
            self.map.replace(Arc::clone(&map), std::thread::yield_now);
            self.take_role(service, &map);
        };
        service.databases.alone(put);
        let map = self.map();
        if map.me().primary.is_some() {
            self.end_yield(service);
        }
        self.links.follow(&map);
        self.lost.begin(service);
        // Whoever waits for keys that are another node's now is told so.
        service.wake_all(service.waiters.all());
        let is_here = |channel: &[u8]| map.is_mine(slot_of(channel));
        if map.me().primary.is_none() {
            service.topics.keep_shards(&service.clients, &*service.front, is_here);
        }
    }

    /// Takes what another node knows better; `is_met` if an operator has introduced it.
    ///
    /// # Errors
    /// Says why the other node's map is not taken.
    pub(crate) fn learn(
        &self,
        service: &Service,
        other: &Map,
        is_met: bool,
    ) -> std::result::Result<(), String> {
        let now_ms = service.unix_ms();
        let forgotten = {
            let mut state = lock(&self.state);
            state.forgotten.retain(|_, at_ms| *at_ms + FORGOTTEN_MS > now_ms);
            if is_met {
                state.forgotten.remove(&other.me);
            }
            state.forgotten.clone()
        };
        self.change(service, |map| {
            if map.version >= 0 || other.version >= 0 {
                return Err(
                    "ERR the nodes of this cluster are set by CLUSTERX SETNODES; add the node \
                            there"
                        .into(),
                );
            }
            if !is_met && !map.nodes.contains_key(&other.me) {
                return Err(format!(
                    "ERR Unknown node {}: introduce it with CLUSTER MEET",
                    other.me
                ));
            }
            if is_met && let Some(why) = map.refuse_stranger(other) {
                return Err(format!("ERR {why}"));
            }
            map.merge(other, |id| !forgotten.contains_key(id));
            Ok(())
        })
    }

    /// Forgets a node, also if others speak of it for a while.
    pub(crate) fn forget(&self, service: &Service, id: &str) -> std::result::Result<(), String> {
        lock(&self.state).forgotten.insert(id.to_string(), service.unix_ms());
        self.change(service, |map| {
            map.forget(id);
            Ok(())
        })
    }

    /// Writes the newest map to its file, durably.
    pub(crate) fn save_again(&self) -> std::result::Result<(), String> {
        let mut state = lock(&self.state);
        let map = Arc::clone(&state.map);
        state.save(&map, true)?;
        self.note_durable(&mut state);
        Ok(())
    }

    /// The file has all that `state` has, durably.
    fn note_durable(&self, state: &mut State) {
        state.unsaved_ms = None;
        self.syncs.fetch_add(1, Relaxed);
        self.has_undurable_slots.store(false, Release);
    }

    /// Makes durable which slots are under way, before something comes of that
    /// ([`Map::has_more_under_way`]); true if that took a sync.
    ///
    /// # Errors
    /// Says why the file was not written.
    #[inline]
    pub(crate) fn keep_slots(&self) -> std::result::Result<bool, String> {
        let is_needed = self.has_undurable_slots.load(Acquire);
        if is_needed {
            self.save_again()?;
        }
        Ok(is_needed)
    }

    /// Notes that a slot begins to be handed over.
    pub(crate) fn note_leaving(&self, service: &Service) {
        self.left_ms.store(service.monotonic_ms(), Relaxed);
    }

    /// Forgets to whom slots were handed over, some time after the last one.
    fn forget_heirs(&self, service: &Service) {
        let map = self.map();
        let until_ms = self.left_ms.load(Relaxed) + HEIRS_KEPT_MS;
        let have_told = || map.heirs.iter().all(|id| self.links.has_told(id));
        if map.heirs.is_empty() || service.monotonic_ms() < until_ms || !have_told() {
            return;
        }
        let forgotten = self.change(service, |map| {
            if !map.is_leaving_some() {
                map.heirs.clear();
            }
            Ok(())
        });
        if let Err(error) = forgotten {
            log::warn!("{error}");
        }
    }

    /// What is to be done now and then.
    fn look_after(&self, service: &Service) {
        self.save_late(service.monotonic_ms().saturating_sub(SAVE_MS));
        self.forget_heirs(service);
    }

    /// Writes the newest map to its file, durably, if that lacks something since `since_ms` or
    /// longer.
    pub(crate) fn save_late(&self, since_ms: u64) {
        if lock(&self.state).unsaved_ms.is_some_and(|unsaved_ms| unsaved_ms <= since_ms)
            && let Err(error) = self.save_again()
        {
            log::warn!("{error}");
        }
    }

    /// Sends a message to the subscribers of the other nodes.
    pub(crate) fn broadcast(&self, channel: &[u8], payload: &[u8]) {
        self.links.broadcast(channel, payload);
    }
}

impl State {
    /// Writes `map` to the file, durably if it `is_synced`.
    fn save(&mut self, map: &Map, is_synced: bool) -> std::result::Result<(), String> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.put(&map.file(), is_synced)
            .map_err(|error| format!("ERR the map of the cluster was not written: {error}"))
    }

    /// Lets the links make the file durable.
    fn save_soon(&mut self, service: &Service) {
        self.unsaved_ms.get_or_insert(service.monotonic_ms());
    }
}

/// The file at `path`, and the map that it has; nothing if no path is given, and no map if there
/// is no file.
fn open_file(path: Option<&Path>) -> Result<(Option<MapFile<PathDirectory>>, Option<Map>)> {
    let Some(path) = path else { return Ok((None, None)) };
    let damaged = |why: &dyn std::fmt::Display| {
        let path = path.display();
        config(format!(
            "the map of the cluster in {path} is damaged: {why}; put a copy back, or remove the \
             file and add the node to the cluster anew"
        ))
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| config(format!("{} is no name of a file", path.display())))?;
    let opened = MapFile::open(PathDirectory::of(path)?, name);
    let (file, text) = opened.map_err(|error| match error.kind() {
        ErrorKind::Corruption => damaged(&error),
        _ => error,
    })?;
    let map = text.map(|text| Map::of_file(&text)).transpose().map_err(|why| damaged(&why))?;
    Ok((Some(file), map))
}

/// A service that may be gone.
type WeakService = Weak<Service>;
