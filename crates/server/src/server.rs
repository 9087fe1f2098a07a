//! Starting and stopping.

use crate::admin::Admin;
use crate::commits::Commits;
use crate::direct::{self, Hub, LoopShard};
use crate::event_loop::{EventLoop, WAKER};
use crate::links::{Links, read_again};
use crate::listeners::{self, Listener, Listeners};
use crate::loops::Loops;
use crate::own::Addresses;
use crate::passed::Purpose;
use crate::passes::Passes;
use crate::pool::Pools;
use crate::shared::Shared;
use crate::tls::Tls;
use crate::udp;
use crate::workers;
use crate::{Config, Mode};
use mio::{Poll, Waker};
use silica::engine::{Engine, Error, ErrorKind, Result};
use silica_base::{Clock, SystemClock};
use silica_commands::{
    Acl, Budget, Cluster, ClusterOptions, DatabaseSet, Databases, Front, OwnedUpdates, Owners,
    Service, ServiceOptions, settle_history,
};
use silica_net::datagrams::join_segments;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

/// A running server. Dropping it stops it gracefully.
pub struct Server {
    shared: Arc<Shared>,
    loops: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    /// Syncs what the workers have written.
    committer: Option<JoinHandle<()>>,
    datagrams: Vec<udp::Thread>,
    admin: Option<Admin>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.shared.loops.addresses.any)
            .finish_non_exhaustive()
    }
}

/// Stops a server from elsewhere, such as a signal handler's thread. It keeps nothing of a server
/// that has ended.
#[derive(Clone)]
pub struct StopHandle(Weak<Shared>);

impl StopHandle {
    /// Asks the server to stop gracefully; returns at once.
    pub fn stop(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.service.request_stop();
        }
    }

    /// Changes settings, as CONFIG SET does: all of them, or none where one is wrong.
    ///
    /// # Errors
    /// `Config`, with the name of the setting and what is wrong.
    pub fn configure(&self, settings: &[(String, String)]) -> Result<()> {
        self.0.upgrade().map_or(Ok(()), |shared| shared.service.configure(settings))
    }

    /// Reads all certificates, keys and authorities of TLS again, for connections to come: those of
    /// clients, of connections to other servers, and of members. If one of them is wrong, all stay
    /// as they were.
    ///
    /// # Errors
    /// `Config`, or that of reading a file, with its name.
    pub fn read_certificates(&self) -> Result<()> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let (tls, links) = (shared.tls.as_ref(), shared.loops.links.as_ref());
        read_again(tls, links, shared.config.members.as_ref(), shared.service.unix_ms())
    }
}

impl std::fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StopHandle")
    }
}

/// Descriptors for files of the stores that are opened while the server runs, at least and at
/// most.
const FILES: std::ops::Range<u64> = 64..1024;
/// Clients that a server is good for at least.
const CLIENTS_MIN: u64 = 32;

/// How many of `wanted` clients may connect, so that they leave the stores the descriptors that
/// these need.
fn clients_within_limits(wanted: usize) -> Result<usize> {
    let Some(left) = silica_device::descriptors_left() else { return Ok(wanted) };
    if left < FILES.start + CLIENTS_MIN {
        let message = format!(
            "this process may open {left} more files, and a server needs {} for its stores and \
             clients; raise the limit of open files (ulimit -n)",
            FILES.start + CLIENTS_MIN
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let clients = left - (left / 4).clamp(FILES.start, FILES.end);
    let clients = usize::try_from(clients).unwrap_or(wanted);
    if clients < wanted {
        log::warn!(
            "{clients} clients may connect, not {wanted}: raise the limit of open files (ulimit -n)"
        );
    }
    Ok(wanted.min(clients))
}

/// Says of a thread that could not be started what limits threads.
fn of_thread(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
    io(format!("{what} (raise the limits of processes, ulimit -u, and of memory, ulimit -v)"))
}

fn io(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.to_string();
    move |error| Error::io(what, error)
}

/// The sockets for datagrams of each loop.
type SocketsOfLoops = Vec<Vec<udp::LoopSocket>>;

/// What commands have to know of `config`, and of the threads in `pools`.
fn service_options(
    config: &Config,
    pools: &Pools,
    address: Option<&SocketAddr>,
) -> Result<ServiceOptions> {
    let cluster = config.cluster.clone().zip(address).map(|(options, address)| {
        let is_any = address.ip().is_unspecified();
        let host = match options.host.is_empty() && !is_any {
            true => address.ip().to_string(),
            false => options.host,
        };
        let port = if options.port == 0 { address.port() } else { options.port };
        let is_announced = options.is_announced;
        Cluster::open(ClusterOptions { host, port, is_announced, ..options })
    });
    Ok(ServiceOptions {
        cluster: cluster.transpose()?,
        durability: config.durability,
        databases: config.databases,
        loops: config.loops,
        io_workers: pools.threads().count(),
        memory_bytes: config.memory_bytes,
        clients_bytes_max: config.clients_bytes_max,
        listen: config.listen.clone(),
        clients_max: clients_within_limits(config.clients_max)?,
        request_ms_max: config.request_ms_max,
        sql_ms_max: config.sql_ms_max,
        sql_workers: pools.workers_of_sql(),
        settings_file: config.settings_file.clone(),
        agreement: config.agreement.clone(),
    })
}

/// An event queue for each loop, and what wakes it.
fn event_queues(loops: usize) -> Result<(Vec<Poll>, Vec<Arc<Waker>>)> {
    let (mut polls, mut wakers) = (Vec::new(), Vec::new());
    for _ in 0..loops {
        let poll = Poll::new().map_err(io("create an event queue"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(io("create a waker"))?;
        polls.push(poll);
        wakers.push(Arc::new(waker));
    }
    Ok((polls, wakers))
}

/// An error where loops are to own partitions and there are none.
fn refuse_mode(config: &Config, engine: &dyn Engine) -> Result<()> {
    if config.mode == Mode::Crcw || engine.as_sharded().is_some() {
        return Ok(());
    }
    let (mode, name) = (config.mode.name(), engine.descriptor().name);
    let message = format!(
        "mode {mode} needs an engine whose partitions threads can own, which {name} is not; \
         serve a cache, or use mode crcw"
    );
    Err(Error::new(ErrorKind::Config, message))
}

impl Server {
    /// Checks `config`, opens database 0, listens and serves.
    pub fn start(config: Config, databases: Arc<dyn Databases>) -> Result<Server> {
        config.check()?;
        silica_device::allow_many_descriptors();
        silica_device::return_large_buffers();
        let acl = Acl::new(config.password.as_deref(), config.acl_file.as_deref())?;
        config.refuse_strangers(acl.lets_in())?;
        let (polls, wakers) = event_queues(config.loops)?;
        let budget = Budget::new(config.clients_bytes_max);
        let hub = (config.mode != Mode::Crcw)
            .then(|| Arc::new(Hub::new(config.mode, &wakers, config.databases, &budget)));
        let owners = hub.clone().map(|hub| hub as Arc<dyn OwnedUpdates>);
        let by_place = owners.clone().map(|owners| owners as Arc<dyn Owners>);
        let databases = DatabaseSet::new(databases, config.databases, by_place);
        refuse_mode(&config, databases.engine(0)?)?;
        databases.open_listed();
        let now_ms = SystemClock::default().unix_ms();
        let tls = config.tls.as_ref().map(|files| Tls::new(files, now_ms)).transpose()?;
        let links = config.links.as_ref().map(|files| Links::new(files, now_ms)).transpose()?;
        config.warn_of_strangers(acl.lets_in());
        let listeners = Listeners::open(&config)?;
        let bind_all = |address: &SocketAddr| udp::bind_all(*address, config.loops);
        let sockets = config.udp.iter().map(bind_all).collect::<Result<Vec<_>>>()?;
        let directed = config.datagrams.map(|address| udp::bind_each(address, config.loops));
        let directed = directed.transpose()?.into_iter().flatten();
        let directed: Vec<_> = directed.map(|socket| vec![socket]).collect();
        let addresses = Addresses {
            any: listeners::addresses(&listeners.any)?,
            tls: listeners::addresses(&listeners.tls)?,
            memcached: listeners::addresses(&listeners.memcached)?,
            udp: udp::addresses(&sockets)?,
            datagrams: udp::addresses(&directed)?,
        };
        let loops = Arc::new(Loops::new(wakers, addresses, Passes::new()?, links));
        let front = Arc::clone(&loops) as Arc<dyn Front>;
        let (pools, commits) = (Pools::new(config.loops, config.io_workers), Commits::default());
        let nodes = loops.addresses.of_nodes(config.encrypts_cluster());
        let options = service_options(&config, &pools, nodes)?;
        let service =
            Arc::new(Service::new(options, databases, acl, budget, front).with_owners(owners));
        service.configure(&config.settings)?;
        settle_history(&service)?;
        service.start();
        let shared = Arc::new(Shared { service, loops, pools, commits, tls, config });
        let directory = shared.config.directory.clone();
        let start_admin = |address| {
            let passed = shared.config.passed.tcp(Purpose::Admin, address);
            Admin::start(&shared.service, address, passed, directory)
        };
        let admin = shared.config.admin.map(start_admin).transpose()?;
        let mut server = Server::without_threads(shared, admin);
        let (frames, directed) = (sockets.into_iter().flatten(), directed.into_iter().flatten());
        let datagrams = server.serve_datagrams(frames.collect(), directed.collect())?;
        let loop_shards = hub.as_ref().map(direct::loop_shards).unwrap_or_default();
        let parts = polls.into_iter().zip(datagrams).collect();
        server.spawn(parts, loop_shards, listeners.into_all())?;
        Ok(server)
    }

    fn without_threads(shared: Arc<Shared>, admin: Option<Admin>) -> Server {
        let (loops, workers, datagrams) = (Vec::new(), Vec::new(), Vec::new());
        Server { shared, loops, workers, committer: None, datagrams, admin }
    }

    fn spawn(
        &mut self,
        parts: Vec<(Poll, Vec<udp::LoopSocket>)>,
        loop_shards: Vec<LoopShard>,
        listeners: Vec<Listener>,
    ) -> Result<()> {
        for (index, pool) in self.shared.pools.threads().enumerate() {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name(format!("silica-io-{index}"));
            let handle = thread.spawn(move || workers::work(shared, pool));
            self.workers.push(handle.map_err(of_thread("start an I/O worker"))?);
        }
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("silica-commit".to_string());
        let handle = thread.spawn(move || workers::sync(shared));
        self.committer = Some(handle.map_err(of_thread("start the thread that syncs"))?);
        let (mut listeners, mut loop_shards) = (Some(listeners), loop_shards.into_iter());
        for (index, (poll, datagrams)) in parts.into_iter().enumerate() {
            let mine = listeners.take().unwrap_or_default();
            let shared = Arc::clone(&self.shared);
            let mut event_loop = EventLoop::new(index, shared, poll, mine, datagrams)
                .map_err(io("register the listening socket"))?;
            let thread = thread::Builder::new().name(format!("silica-loop-{index}"));
            let loop_shard = loop_shards.next();
            let handle = thread.spawn(move || direct::run_as(loop_shard, || event_loop.run()));
            self.loops.push(handle.map_err(of_thread("start an event loop"))?);
        }
        Ok(())
    }

    /// Starts a thread for each socket for datagrams; where loops own partitions, these get them.
    fn serve_datagrams(
        &mut self,
        frames: Vec<UdpSocket>,
        directed: Vec<UdpSocket>,
    ) -> Result<SocketsOfLoops> {
        let shared = &self.shared;
        let failed = || io("prepare a socket for datagrams");
        let mut mine: SocketsOfLoops =
            self.shared.loops.inboxes.iter().map(|_| Vec::new()).collect();
        for (n, socket) in frames.into_iter().enumerate() {
            let segments = join_segments(&socket).is_ok();
            if shared.loops_take_datagrams() {
                let server = Box::new(udp::Frames::new(Arc::clone(&shared.service), segments));
                mine[n].push(udp::LoopSocket::new(socket, server).map_err(failed())?);
                continue;
            }
            let service = Arc::clone(&shared.service);
            let make = move || udp::Frames::new(service, segments);
            let name = format!("silica-udp-{n}");
            self.datagrams.push(udp::spawn(&shared.service, name, socket, make)?);
        }
        for (n, socket) in directed.into_iter().enumerate() {
            let segments = join_segments(&socket).is_ok();
            if shared.loops_take_datagrams() {
                let server = Box::new(udp::Directed::new(Arc::clone(shared), segments));
                mine[n].push(udp::LoopSocket::new(socket, server).map_err(failed())?);
                continue;
            }
            let mine = Arc::clone(shared);
            let make = move || udp::Directed::new(mine, segments);
            let name = format!("silica-dgram-{n}");
            self.datagrams.push(udp::spawn(&shared.service, name, socket, make)?);
        }
        Ok(mine)
    }

    /// The first address that is listened on, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.loops.addresses.any[0]
    }

    /// Every address that is listened on.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.shared.loops.addresses.any
    }

    /// Every address that is for TLS beside plain ones.
    pub fn tls_addrs(&self) -> &[SocketAddr] {
        &self.shared.loops.addresses.tls
    }

    /// Every address that takes memcached's protocol alone.
    pub fn memcached_addrs(&self) -> &[SocketAddr] {
        &self.shared.loops.addresses.memcached
    }

    /// Every address that takes memcached's protocols in datagrams.
    pub fn udp_addrs(&self) -> &[SocketAddr] {
        &self.shared.loops.addresses.udp
    }

    /// Every address that takes the datagram protocol; clients need to know the first.
    pub fn datagram_addrs(&self) -> &[SocketAddr] {
        &self.shared.loops.addresses.datagrams
    }

    /// The address of the admin port, with its real port.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(Admin::address)
    }

    /// The unix sockets that are listened on.
    pub fn unix_paths(&self) -> Vec<PathBuf> {
        let config = &self.shared.config;
        config.unix.iter().cloned().chain(config.passed.unix_paths()).collect()
    }

    /// What its commands share, for whoever follows a primary.
    pub fn service(&self) -> &Arc<Service> {
        &self.shared.service
    }

    /// A handle that stops this server.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(Arc::downgrade(&self.shared))
    }

    /// Finishes the requests in hand, sends their replies, closes all connections and returns
    /// when every thread has ended.
    pub fn stop(mut self) {
        self.end();
    }

    /// Serves until a handle or SHUTDOWN asks for the stop, then stops like [`Server::stop`]; false
    /// after SHUTDOWN NOSAVE, when a cache is not to be kept.
    pub fn wait(mut self) -> bool {
        self.shared.loops.wait_for_stop();
        self.end();
        !self.shared.service.keeps_nothing()
    }

    fn end(&mut self) {
        self.shared.service.request_stop();
        self.admin = None;
        for handle in self.datagrams.drain(..) {
            if handle.join().is_err() {
                log::error!("a thread for datagrams panicked");
            }
        }
        for handle in self.loops.drain(..) {
            if handle.join().is_err() {
                log::error!("an event loop panicked");
            }
        }
        self.shared.pools.stop();
        for handle in self.workers.drain(..) {
            if handle.join().is_err() {
                log::error!("an I/O worker panicked");
            }
        }
        self.shared.commits.stop();
        if self.committer.take().is_some_and(|handle| handle.join().is_err()) {
            log::error!("the thread that syncs panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
