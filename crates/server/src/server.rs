//! Starting and stopping.

use crate::acl::{Acl, Refusal};
use crate::admin::Admin;
use crate::budget::Budget;
use crate::burst::{Burst, Owner};
use crate::calls::Calls;
use crate::clients::{Client, Clients};
use crate::cursors::Cursors;
use crate::databases::Store;
use crate::direct::{self, Hub, Seat};
use crate::errors::Errors;
use crate::event_loop::{EventLoop, WAKER};
use crate::memcached::{Flush, Marks};
use crate::pause::Pause;
use crate::process;
use crate::rates::Rates;
use crate::slowlog::{Latency, SlowLog};
use crate::socket::{Address, Listener, Socket, bind, bind_unix};
use crate::stats::Stats;
use crate::tls::{self, Tls};
use crate::topics::{Delivery, Kind, Published, Topics};
use crate::tracking::Tracking;
use crate::udp;
use crate::watch::Watches;
use crate::workers::{self, Pool};
use crate::{Config, Databases, Mode};
use mio::{Poll, Waker};
use silica::engine::{Engine, Error, ErrorKind, Result};
use silica_base::{Clock, HashSeed, Prng, SystemClock};
use silica_net::datagrams::join_segments;
use silica_proto::datagram::Partitions;
use silica_proto::memcached::Protocol;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

/// What loops are told.
pub(crate) enum Message {
    /// Serve this connection.
    Connection(Socket, (Address, Address), Terms),
    /// A burst of yours is done.
    Done(Burst),
    /// Give this message to these connections of yours.
    Publish(Arc<Published>, Vec<Delivery>),
    /// Close this connection of yours.
    Close(Owner),
    /// Look whether requests still have to wait.
    Resume,
    /// Finish what is in hand and end.
    Stop,
}

/// Messages to one loop.
pub(crate) struct Inbox {
    messages: Mutex<Vec<Message>>,
    /// The waker was used since the loop last looked.
    woken: AtomicBool,
    waker: Arc<Waker>,
}

impl Inbox {
    fn new(waker: Arc<Waker>) -> Self {
        Inbox { messages: Mutex::default(), woken: AtomicBool::new(false), waker }
    }

    pub(crate) fn send(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        if !self.woken.swap(true, Ordering::AcqRel)
            && let Err(error) = self.waker.wake()
        {
            // The loop looks again at its next tick, at the latest after a second.
            log::warn!("waking an event loop: {error}");
        }
    }

    /// Moves all messages to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<Message>) {
        self.woken.store(false, Ordering::Release);
        into.append(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What all threads of a server share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) clients: Clients,
    pub(crate) acl: Acl,
    pub(crate) stats: Stats,
    pub(crate) calls: Calls,
    pub(crate) errors: Errors,
    pub(crate) rates: Rates,
    /// Forty hexadecimal digits, different for every start of a server.
    pub(crate) run_id: String,
    pub(crate) topics: Topics,
    pub(crate) slowlog: SlowLog,
    pub(crate) latency: Latency,
    pub(crate) tracking: Tracking,
    pub(crate) pause: Pause,
    /// Connections at the same time; may change while the server runs.
    pub(crate) clients_max: AtomicUsize,
    /// As [`Config::request_ms_max`]; may change while the server runs.
    pub(crate) request_ms_max: AtomicU64,
    pub(crate) pool: Pool,
    pub(crate) loops: Vec<Inbox>,
    pub(crate) started_ms: u64,
    /// The memory of all clients.
    pub(crate) budget: Arc<Budget>,
    tls: Option<Tls>,
    tls_addresses: Vec<SocketAddr>,
    /// The ports for memcached's protocol alone.
    memcached_addresses: Vec<SocketAddr>,
    udp_addresses: Vec<SocketAddr>,
    datagram_addresses: Vec<SocketAddr>,
    /// What lets senders of datagrams in.
    pub(crate) passes: udp::Passes,
    /// When memcached's clients want everything removed.
    pub(crate) flush: Flush,
    pub(crate) marks: Arc<Marks>,
    /// Where scans in the order of the keys go on.
    pub(crate) cursors: Cursors,
    addresses: Vec<SocketAddr>,
    clock: SystemClock,
    random: Mutex<Prng>,
    stopping: AtomicBool,
    /// Whoever asked for the stop wants nothing to be kept beyond what is kept anyway.
    pub(crate) keeps_nothing: AtomicBool,
    stop_asked: (Mutex<bool>, Condvar),
}

impl Shared {
    /// Milliseconds since the Unix epoch.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// Milliseconds of a clock that never goes back.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }

    /// Nanoseconds of the same clock.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// A TLS session for a connection taken on `terms`, where they say so.
    pub(crate) fn tls_session(&self, terms: Terms) -> std::io::Result<Option<Box<tls::Session>>> {
        let tls = self.tls.as_ref().filter(|_| terms.tls);
        tls.map(|tls| tls.session().map(Box::new)).transpose()
    }

    /// Counts an error reply that begins with `word`.
    pub(crate) fn count_error(&self, word: String) {
        Stats::add(&self.stats.total_error_replies, 1);
        self.errors.count(word);
    }

    /// Notes that something was refused to `client`, where it is known.
    pub(crate) fn note_refusal(&self, refusal: Refusal, client: Option<&Client>) {
        let now_ms = self.unix_ms();
        let line = client.map(|client| client.line(self.tracking.of(client.id).as_ref(), now_ms));
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
        !hears_all(Kind::Channel) || !hears_all(Kind::Pattern)
    }

    /// What becomes of entries when memory is full, as Redis calls it.
    pub(crate) fn eviction_policy(&self) -> &'static str {
        let engine = self.store.opened(0);
        match engine.is_some_and(|engine| engine.descriptor().capabilities.may_evict) {
            true => "allkeys-lru",
            false => "noeviction",
        }
    }

    /// Resident memory of the process; 0 where the system does not tell.
    pub(crate) fn resident_bytes(&self) -> u64 {
        process::resident_bytes().0
    }

    /// A random number, for RANDOMKEY.
    pub(crate) fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// What a connection watches, which is nothing yet.
    pub(crate) fn watches(&self) -> Watches {
        let mut seed = [0; 16];
        seed.as_chunks_mut::<8>().0.iter_mut().for_each(|half| *half = self.random().to_le_bytes());
        Watches::new(Arc::clone(&self.store.watchers), HashSeed(seed), &self.budget)
    }

    /// The first port that is listened on; 0 if there is only a unix socket.
    pub(crate) fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }

    /// The ports of the datagram protocol; none where it is not served.
    pub(crate) fn datagram_ports(&self) -> Vec<u16> {
        self.datagram_addresses.iter().map(SocketAddr::port).collect()
    }

    /// True where the loops that own partitions serve datagrams themselves.
    fn loops_take_datagrams(&self) -> bool {
        let engine = self.store.opened(0);
        let waits = engine.is_none_or(|engine| engine.descriptor().capabilities.may_wait);
        self.config.mode != Mode::Crcw && !waits
    }

    /// How others find out which loop owns a key of database 0, where one does.
    pub(crate) fn partitions(&self) -> Option<Partitions> {
        let sharded = self.store.opened(0)?.as_sharded()?;
        let count = u16::try_from(sharded.shards()).ok().filter(|_| self.loops_take_datagrams())?;
        // The owner of a partition is its remainder, in the directory as here.
        sharded.seed().map(|seed| Partitions { count, seed })
    }

    /// Asks every loop to finish.
    pub(crate) fn request_stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            self.pause.end();
            self.loops.iter().for_each(|inbox| inbox.send(Message::Stop));
            let (asked, changed) = &self.stop_asked;
            *asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
            changed.notify_all();
        }
    }

    /// True once the server is being stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// An error once the server is being stopped; for walks that could go on for long.
    pub(crate) fn refuse_when_stopping(&self) -> Result<()> {
        match self.is_stopping() {
            true => Err(Error::new(ErrorKind::Closed, "the server is being stopped")),
            false => Ok(()),
        }
    }

    fn wait_for_stop(&self) {
        let (asked, changed) = &self.stop_asked;
        let mut guard = asked.lock().unwrap_or_else(PoisonError::into_inner);
        while !*guard {
            guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A running server. Dropping it stops it gracefully.
pub struct Server {
    shared: Arc<Shared>,
    loops: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    datagrams: Vec<udp::Thread>,
    admin: Option<Admin>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.shared.addresses).finish_non_exhaustive()
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
            shared.request_stop();
        }
    }

    /// Reads the certificate and key of TLS again, for connections to come; what is wrong with
    /// them leaves those that were read before.
    pub fn read_certificates(&self) -> Result<()> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        shared.tls.as_ref().map_or(Ok(()), |tls| tls.read_again(shared.unix_ms()))
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

/// How connections are taken.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// What they speak, where that is known before they do.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) tls: bool,
}

/// A port or socket, and the terms of those who connect to it.
pub(crate) struct Door {
    pub(crate) listener: Listener,
    pub(crate) terms: Terms,
}

/// Everything that is listened on, by what it is for.
struct Doors {
    any: Vec<Door>,
    memcached: Vec<Door>,
    tls: Vec<Door>,
    unix: Vec<Door>,
}

impl Doors {
    fn open(config: &Config) -> Result<Self> {
        let doors = |addresses: &[SocketAddr], terms| -> Result<Vec<Door>> {
            addresses.iter().map(|address| Ok(Door { listener: bind(*address)?, terms })).collect()
        };
        let any = Terms { protocol: None, tls: config.encrypts_all() };
        let text = Terms { protocol: Some(Protocol::MemcachedText), ..any };
        let plain = Terms { tls: false, ..any };
        let unix =
            config.unix.iter().map(|path| Ok(Door { listener: bind_unix(path)?, terms: plain }));
        Ok(Doors {
            any: doors(&config.listen, any)?,
            memcached: doors(&config.memcached, text)?,
            tls: doors(&config.tls_listen, Terms { tls: true, ..any })?,
            unix: unix.collect::<Result<_>>()?,
        })
    }

    fn all(self) -> Vec<Door> {
        [self.any, self.memcached, self.tls, self.unix].into_iter().flatten().collect()
    }
}

/// The sockets for datagrams of each loop.
type Of = Vec<Vec<udp::Door>>;

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

/// Where `doors` are listened on.
fn addresses(doors: &[Door]) -> Result<Vec<SocketAddr>> {
    let all = doors.iter().map(|door| door.listener.ip());
    all.collect::<std::io::Result<_>>().map_err(io("ask for the address listened on"))
}

/// 40 digits that tell this run of the server from others.
fn new_run_id(random: &mut Prng) -> String {
    let digits: String = (0..3).map(|_| format!("{:016x}", random.next_u64())).collect();
    digits[..40].to_string()
}

impl Server {
    /// Checks `config`, opens database 0, listens and serves.
    pub fn start(config: Config, databases: Arc<dyn Databases>) -> Result<Server> {
        config.check()?;
        silica_device::allow_many_descriptors();
        silica_device::return_large_buffers();
        let acl = Acl::new(&config)?;
        let (polls, wakers) = event_queues(config.loops)?;
        let budget = Budget::new(config.clients_bytes_max);
        let hub = (config.mode != Mode::Crcw)
            .then(|| Arc::new(Hub::new(config.mode, &wakers, config.databases, &budget)));
        let store = Store::new(databases, config.databases, hub.clone());
        refuse_mode(&config, store.engine(0)?)?;
        store.open_listed();
        let clock = SystemClock::default();
        let tls = config.tls.as_ref().map(|files| Tls::new(files, clock.unix_ms())).transpose()?;
        config.warn_of_strangers(acl.lets_in());
        let doors = Doors::open(&config)?;
        let bind_all = |address: &SocketAddr| udp::bind_all(*address, config.loops);
        let sockets = config.udp.iter().map(bind_all).collect::<Result<Vec<_>>>()?;
        let directed = config.datagrams.map(|address| udp::bind_each(address, config.loops));
        let directed = directed.transpose()?.into_iter().flatten();
        let directed: Vec<_> = directed.map(|socket| vec![socket]).collect();
        let process = u64::from(std::process::id());
        let mut random = Prng::new(clock.unix_ms() ^ process.rotate_right(32));
        let shared = Arc::new(Shared {
            tls,
            tls_addresses: addresses(&doors.tls)?,
            store,
            clients: Clients::default(),
            acl,
            stats: Stats::default(),
            calls: Calls::default(),
            errors: Errors::default(),
            rates: Rates::default(),
            run_id: new_run_id(&mut random),
            topics: Topics::default(),
            slowlog: SlowLog::default(),
            latency: Latency::default(),
            tracking: Tracking::default(),
            pause: Pause::default(),
            clients_max: AtomicUsize::new(clients_within_limits(config.clients_max)?),
            request_ms_max: AtomicU64::new(config.request_ms_max),
            pool: Pool::new(config.io_workers),
            loops: wakers.into_iter().map(Inbox::new).collect(),
            started_ms: clock.unix_ms(),
            budget: Arc::clone(&budget),
            addresses: addresses(&doors.any)?,
            memcached_addresses: addresses(&doors.memcached)?,
            udp_addresses: udp::addresses(&sockets)?,
            datagram_addresses: udp::addresses(&directed)?,
            passes: udp::Passes::new()?,
            flush: Flush::default(),
            marks: Arc::new(Marks::within(budget.max())),
            cursors: Cursors::new([random.next_u64(), random.next_u64()]),
            random: Mutex::new(random),
            clock,
            stopping: AtomicBool::new(false),
            keeps_nothing: AtomicBool::new(false),
            stop_asked: (Mutex::new(false), Condvar::new()),
            config,
        });
        let start_admin = |address| Admin::start(&shared, address);
        let admin = shared.config.admin.map(start_admin).transpose()?;
        let mut server = Server::without_threads(shared, admin);
        let (frames, directed) = (sockets.into_iter().flatten(), directed.into_iter().flatten());
        let datagrams = server.serve_datagrams(frames.collect(), directed.collect())?;
        let seats = hub.as_ref().map(direct::seats).unwrap_or_default();
        let parts = polls.into_iter().zip(datagrams).collect();
        server.spawn(parts, seats, doors.all())?;
        Ok(server)
    }

    fn without_threads(shared: Arc<Shared>, admin: Option<Admin>) -> Server {
        let (loops, workers, datagrams) = (Vec::new(), Vec::new(), Vec::new());
        Server { shared, loops, workers, datagrams, admin }
    }

    fn spawn(
        &mut self,
        parts: Vec<(Poll, Vec<udp::Door>)>,
        seats: Vec<Seat>,
        doors: Vec<Door>,
    ) -> Result<()> {
        for index in 0..self.shared.config.io_workers {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name(format!("silica-io-{index}"));
            let handle = thread.spawn(move || workers::work(shared));
            self.workers.push(handle.map_err(of_thread("start an I/O worker"))?);
        }
        let (mut doors, mut seats) = (Some(doors), seats.into_iter());
        for (index, (poll, datagrams)) in parts.into_iter().enumerate() {
            let mine = doors.take().unwrap_or_default();
            let shared = Arc::clone(&self.shared);
            let mut event_loop = EventLoop::new(index, shared, poll, mine, datagrams)
                .map_err(io("register the listening socket"))?;
            let thread = thread::Builder::new().name(format!("silica-loop-{index}"));
            let seat = seats.next();
            let handle = thread.spawn(move || direct::sit(seat, || event_loop.run()));
            self.loops.push(handle.map_err(of_thread("start an event loop"))?);
        }
        Ok(())
    }

    /// Starts a thread for each socket for datagrams; where loops own partitions, these get them.
    fn serve_datagrams(&mut self, frames: Vec<UdpSocket>, directed: Vec<UdpSocket>) -> Result<Of> {
        let shared = &self.shared;
        let failed = || io("prepare a socket for datagrams");
        let mut doors: Of = self.shared.loops.iter().map(|_| Vec::new()).collect();
        for (n, socket) in frames.into_iter().enumerate() {
            let segments = join_segments(&socket).is_ok();
            if shared.loops_take_datagrams() {
                let server = Box::new(udp::Frames::new(Arc::clone(shared), segments));
                doors[n].push(udp::Door::new(socket, server).map_err(failed())?);
                continue;
            }
            let make = move |shared| udp::Frames::new(shared, segments);
            self.datagrams.push(udp::spawn(shared, format!("silica-udp-{n}"), socket, make)?);
        }
        for (n, socket) in directed.into_iter().enumerate() {
            let segments = join_segments(&socket).is_ok();
            if shared.loops_take_datagrams() {
                let server = Box::new(udp::Directed::new(Arc::clone(shared), segments));
                doors[n].push(udp::Door::new(socket, server).map_err(failed())?);
                continue;
            }
            let make = move |shared| udp::Directed::new(shared, segments);
            self.datagrams.push(udp::spawn(shared, format!("silica-dgram-{n}"), socket, make)?);
        }
        Ok(doors)
    }

    /// The first address that is listened on, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.addresses[0]
    }

    /// Every address that is listened on.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.shared.addresses
    }

    /// Every address that is for TLS beside plain ones.
    pub fn tls_addrs(&self) -> &[SocketAddr] {
        &self.shared.tls_addresses
    }

    /// Every address that takes memcached's protocol alone.
    pub fn memcached_addrs(&self) -> &[SocketAddr] {
        &self.shared.memcached_addresses
    }

    /// Every address that takes memcached's protocols in datagrams.
    pub fn udp_addrs(&self) -> &[SocketAddr] {
        &self.shared.udp_addresses
    }

    /// Every address that takes the datagram protocol; clients need to know the first.
    pub fn datagram_addrs(&self) -> &[SocketAddr] {
        &self.shared.datagram_addresses
    }

    /// The address of the admin port, with its real port.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(Admin::address)
    }

    /// The unix socket that is listened on.
    pub fn unix_path(&self) -> Option<&std::path::Path> {
        self.shared.config.unix.as_deref()
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
        self.shared.wait_for_stop();
        self.end();
        !self.shared.keeps_nothing.load(Ordering::Acquire)
    }

    fn end(&mut self) {
        self.shared.request_stop();
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
        self.shared.pool.stop();
        for handle in self.workers.drain(..) {
            if handle.join().is_err() {
                log::error!("an I/O worker panicked");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
