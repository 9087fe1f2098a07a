//! A member: what it starts, and what commands ask of it.

use crate::accept::Acceptor;
use crate::core::Core;
use crate::database::{Database, LOG_KEYSPACE};
use crate::layer::Agreed;
use crate::lease::Lease;
use crate::log_store::{Identity, LogStore};
use crate::members;
use crate::peer::Peers;
use crate::propose::{self, Proposer};
use crate::slot::slot;
use crate::state::{Progress, State};
use crate::stream::Tls;
use crate::types::{Id, Member, Raft};
use openraft::{Config, ServerState, SnapshotPolicy};
use silica::Silica;
use silica::engine::{Engine, Error, ErrorKind, Result};
use silica_commands::{Agreement, Databases, Need};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How often a leader speaks, and how long the others wait before they elect another one.
const HEARTBEAT_MS: u64 = 150;
const ELECTION_MS: (u64, u64) = (500, 1000);
/// Entries behind the last snapshot that members which are a little late still get from the log.
const ENTRIES_KEPT: u64 = 5_000;
/// Entries, and bytes of them, after which what is applied is synced and the log is cut.
const ENTRIES_MAX: u64 = 20_000;
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Threads of the runtime: the log, the state machine and the others may each wait for a device.
const THREADS: usize = 4;

/// Settings of a member.
#[derive(Debug, Clone)]
pub struct Options {
    /// The agreement port of this member, as the others reach it.
    pub member: String,
    /// The address to listen on for the others, if that is another one.
    pub listen: Option<String>,
    /// The agreement ports of all members at the beginning, this one's among them.
    pub members: Vec<String>,
    /// Where this member's clients connect.
    pub client: SocketAddr,
    /// What members must know.
    pub password: Vec<u8>,
    /// What members have TLS with, if they have it.
    pub tls: Option<Tls>,
    /// Members that do not lead answer reads, with what they have.
    pub stale_reads: bool,
}

/// A member of a group that agrees about a database.
pub struct Group {
    core: Arc<Core>,
    database: Arc<Database>,
    store: Arc<Silica>,
    proposer: Proposer,
    agreed: OnceLock<Arc<dyn Engine>>,
    options: Options,
    runtime: Mutex<Option<Runtime>>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({})", self.core.member)
    }
}

fn config_error(text: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Config, text.to_string())
}

fn raft_config() -> Result<Arc<Config>> {
    let config = Config {
        cluster_name: "silica".into(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS.0,
        election_timeout_max: ELECTION_MS.1,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(ENTRIES_MAX),
        max_in_snapshot_log_to_keep: ENTRIES_KEPT,
        replication_lag_threshold: ENTRIES_KEPT,
        install_snapshot_timeout: 10_000,
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(config_error)
}

/// Who this member is; a directory without a log gets a number.
fn identity(log: &LogStore, database: &Database) -> Result<Identity> {
    if let Some(identity) = log.identity()? {
        return Ok(identity);
    }
    if !database.is_empty()? {
        return Err(config_error(
            "this directory has data that no group has agreed about; start the member with an \
             empty directory and import the data into the group",
        ));
    }
    let id: Id = getrandom::u64().map_err(config_error)?;
    let identity = Identity { id, group: None };
    log.set_identity(&identity)?;
    Ok(identity)
}

impl Group {
    /// Starts a member on database 0 of `store`.
    ///
    /// # Errors
    /// Fails if the store is no member's, if its engine keeps no order, or if the port cannot be
    /// listened on.
    pub fn start(options: Options, store: Arc<Silica>) -> Result<Arc<Self>> {
        if !options.members.contains(&options.member) && options.members.is_empty() {
            return Err(config_error("a group needs members; name them by --replicated-by"));
        }
        let database = Arc::new(Database::open(Arc::clone(&store))?);
        let name = database.descriptor().name;
        let keyspace = match store.existing(LOG_KEYSPACE)? {
            Some(keyspace) => keyspace,
            None => store.create_keyspace(LOG_KEYSPACE, name, &[])?,
        };
        let log = LogStore::open(Arc::clone(keyspace.engine()))?;
        let identity = identity(&log, &database)?;
        log.end_leadership(identity.id)?;
        let lease = Arc::new(Lease::new(identity.id, Duration::from_millis(ELECTION_MS.1)));
        log.guard(Arc::clone(&lease));
        let progress = Arc::new(Progress::default());
        let member = Member { address: options.member.clone(), client: options.client.to_string() };
        let core = Arc::new(Core {
            member,
            password: options.password.clone(),
            tls: options.tls.clone(),
            log: log.clone(),
            lease,
            progress: Arc::clone(&progress),
            identity: Mutex::new(identity),
            raft: OnceLock::new(),
            leaving: AtomicBool::new(false),
            unreached: Mutex::default(),
        });
        let state = State::open(Arc::clone(&database), log, progress)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("silica-agree")
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting the threads of the agreement", e))?;
        let (sender, queue) = tokio::sync::mpsc::unbounded_channel();
        runtime.block_on(begin(Arc::clone(&core), Arc::clone(&database), state, &options))?;
        runtime.spawn(propose::run(Arc::clone(&core), queue));
        runtime.spawn(follow(Arc::clone(&core)));
        runtime.spawn(members::begin(Arc::clone(&core), options.members.clone()));
        let proposer = Proposer { queue: sender, core: Arc::clone(&core) };
        let runtime = Mutex::new(Some(runtime));
        let agreed = OnceLock::new();
        Ok(Arc::new(Group { core, database, store, proposer, agreed, options, runtime }))
    }

    /// Begins nothing new, and lets writes that wait for a majority end soon: the server stops.
    pub fn leave(&self) {
        self.core.leaving.store(true, Ordering::Release);
    }

    /// Stops taking part. Writes that wait end with an error.
    pub fn stop(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(runtime) = runtime else { return };
        if let Some(raft) = self.core.raft() {
            let _ = runtime.block_on(raft.shutdown());
        }
        runtime.shutdown_timeout(Duration::from_secs(2));
    }

    fn block_on<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, String>>,
    ) -> std::result::Result<T, String> {
        let handle = {
            let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
            runtime.as_ref().ok_or("the member stops")?.handle().clone()
        };
        handle.block_on(work)
    }
}

/// Listens, and starts openraft.
async fn begin(
    core: Arc<Core>,
    database: Arc<Database>,
    state: State,
    options: &Options,
) -> Result<()> {
    let address = options.listen.as_ref().unwrap_or(&options.member);
    let listener = tokio::net::TcpListener::bind(address).await;
    let what = format!("listening on {address} for the other members");
    let listener = listener.map_err(|e| Error::io(what, e))?;
    let (id, log) = (core.identity().id, core.log.clone());
    let raft = Raft::new(id, raft_config()?, Peers(Arc::clone(&core)), log, state).await;
    let raft = raft.map_err(config_error)?;
    // Nobody else sets it.
    let _ = core.raft.set(raft);
    let acceptor = Acceptor { core, database, loading: Arc::default() };
    tokio::spawn(acceptor.run(listener));
    Ok(())
}

/// Follows openraft's view: who votes, and how long the log is.
async fn follow(core: Arc<Core>) {
    let Some(raft) = core.raft() else { return };
    let mut metrics = raft.metrics();
    let mut bytes = 0;
    loop {
        {
            let now = metrics.borrow_and_update();
            let joint = now.membership_config.membership().get_joint_config();
            core.lease.set_voters(joint.clone());
            if now.state == ServerState::Leader && now.current_leader == Some(now.id) {
                core.lease.leads(&now.vote);
            }
        }
        bytes += core.log.take_appended();
        if bytes > LOG_BYTES_MAX {
            bytes = 0;
            if raft.trigger().snapshot().await.is_err() {
                return;
            }
        }
        let changed = tokio::time::timeout(Duration::from_millis(HEARTBEAT_MS), metrics.changed());
        if let Ok(Err(_)) = changed.await {
            return;
        }
    }
}

impl Agreement for Group {
    fn refuse(&self, need: Need, key: Option<&[u8]>) -> Option<String> {
        if need == Need::Read && (self.options.stale_reads || self.core.ready().is_some()) {
            return None;
        }
        if need == Need::Write && self.core.ready().is_some() {
            return None;
        }
        Some(match self.core.leader() {
            Some(leader) => format!("MOVED {} {}", slot(key.unwrap_or(b"")), leader.client),
            None if self.core.lease.held().is_some() => {
                "TRYAGAIN this member leads from now on and has not applied all of the log".into()
            }
            None => "CLUSTERDOWN no member leads, or this one is cut off from the others".into(),
        })
    }

    fn members(&self) -> Vec<(String, String, String)> {
        let leader = self.core.raft().and_then(|raft| raft.metrics().borrow().current_leader);
        let role = |id: Id, votes: bool| match votes {
            _ if leader == Some(id) => "leader",
            true => "follower",
            false => "learner",
        };
        let list = members::list(&self.core).into_iter();
        list.map(|(id, m, votes)| (m.address, m.client, role(id, votes).to_string())).collect()
    }

    fn add(&self, address: &str) -> std::result::Result<(), String> {
        let core = Arc::clone(&self.core);
        self.block_on(async { members::add(&core, address).await })
    }

    fn remove(&self, address: &str) -> std::result::Result<(), String> {
        let core = Arc::clone(&self.core);
        self.block_on(async { members::remove(&core, address).await })
    }

    fn info(&self) -> String {
        let mut out = String::new();
        let Some(raft) = self.core.raft() else { return out };
        let metrics = raft.metrics();
        let metrics = metrics.borrow();
        let identity = self.core.identity();
        let voters: BTreeSet<Id> = metrics.membership_config.voter_ids().collect();
        let (last, purged) = self.core.log.bounds();
        let applied = self.core.progress.index.load(Ordering::Acquire);
        let address = |id: Id| {
            let mut nodes = metrics.membership_config.nodes();
            nodes.find(|(at, _)| **at == id).map_or(String::new(), |(_, m)| m.address.clone())
        };
        let leader = metrics.current_leader.map_or(String::new(), address);
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = write!(out, "{name}:{value}\r\n");
        };
        line("agreement_group", &format_args!("{:x}", identity.group.unwrap_or(0)));
        line("agreement_member", &format_args!("{:x}", identity.id));
        line("agreement_address", &self.core.member.address);
        line("agreement_state", &format_args!("{:?}", metrics.state));
        line("agreement_term", &metrics.current_term);
        line("agreement_leader", &leader);
        line("agreement_ready", &u8::from(self.core.ready().is_some()));
        line("agreement_voters", &voters.len());
        line("agreement_last_index", &last);
        line("agreement_applied_index", &applied);
        line("agreement_purged_index", &purged);
        let installed = self.core.progress.installed.load(Ordering::Relaxed);
        line("agreement_snapshots_installed", &installed);
        for (id, at) in metrics.replication.iter().flatten().filter(|(id, _)| **id != identity.id) {
            let lag = last.saturating_sub(at.map_or(0, |at| at.index));
            line(&format!("agreement_lag_{}", address(*id)), &lag);
        }
        out
    }
}

/// Database 0 is the one that is agreed about; a member has no other.
impl Databases for Group {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        if index != 0 {
            return Err(config_error("members of a group serve database 0 alone"));
        }
        let make = || {
            let (core, database) = (Arc::clone(&self.core), Arc::clone(&self.database));
            Arc::new(Agreed::new(core, database, self.proposer.clone())) as Arc<dyn Engine>
        };
        Ok(Arc::clone(self.agreed.get_or_init(make)))
    }

    fn listed(&self) -> Vec<u32> {
        vec![0]
    }

    fn exists(&self, index: u32) -> bool {
        index == 0
    }

    fn workload(&self, index: u32) -> Result<String> {
        Databases::workload(&*self.store, index)
    }

    fn backup(
        &self,
        _: &silica_commands::BackupJob,
        _: &mut silica_commands::Tell<'_>,
    ) -> Result<String> {
        let text = "a copy of a member's directory would be the same member twice; use `silica \
                    export`";
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    fn verify(&self, tell: &mut silica_commands::Tell<'_>) -> Result<String> {
        Databases::verify(&*self.store, tell)
    }

    fn set_memory_bytes(&self, bytes: u64) -> Result<()> {
        Databases::set_memory_bytes(&*self.store, bytes)
    }
}
