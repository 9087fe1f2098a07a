//! A server on the reference engine and a tiny client.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod across;
pub(crate) mod cases;
pub(crate) mod late;
pub(crate) mod memcached;
mod sharded;
pub(crate) mod tls;

use silica_engine::{
    Admin, Atomic, Capabilities, Checkpoint, Count, Descriptor, Durability, Engine, EntryRef,
    Error, ErrorKind, GetSink, Layer, Ordered, Result, Scan, Sharded, Stage, StageWatch, Stages,
    Update, WriteBatch,
};
use silica_proto::{Value, decode};
use silica_server::{Config, Databases, EventLoopKind, Mode, Server};
use silica_testkit::Reference;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Wraps the reference engine: it may claim to wait for a device, really wait, fail its syncs,
/// and it counts its calls.
pub(crate) struct Probe {
    pub(crate) inner: Arc<dyn Engine>,
    /// Where the engine is, if it is in a directory; it goes when the engine has gone.
    pub(crate) directory: Option<tempfile::TempDir>,
    pub(crate) owned: Arc<sharded::Owned>,
    pub(crate) descriptor: Descriptor,
    /// It keeps its keys in order.
    pub(crate) ordered: bool,
    pub(crate) delay: Duration,
    pub(crate) walk_delay: Duration,
    /// What it says of its entries without counting them; if there is nothing, it counts.
    pub(crate) estimate: Option<Count>,
    pub(crate) count_calls: AtomicU64,
    pub(crate) fail_get: AtomicBool,
    pub(crate) fail_write: AtomicBool,
    pub(crate) fail_sync: AtomicBool,
    pub(crate) get_calls: Arc<AtomicU64>,
    pub(crate) write_calls: Arc<AtomicU64>,
    pub(crate) sync_calls: AtomicU64,
    /// While somebody has it, no sync ends.
    pub(crate) syncs_held: Mutex<()>,
    pub(crate) update_calls: Arc<AtomicU64>,
    /// Partitions that were handed out to an owner.
    pub(crate) take_calls: AtomicU64,
}

impl Probe {
    pub(crate) fn new(may_wait: bool) -> Self {
        let (inner, directory) = tested();
        let known = *inner.descriptor();
        let capabilities =
            Capabilities { may_wait, durable: may_wait, synced: may_wait, ..known.capabilities };
        Probe {
            inner,
            directory,
            owned: Arc::default(),
            descriptor: Descriptor { capabilities, ..known },
            ordered: false,
            delay: Duration::ZERO,
            walk_delay: Duration::ZERO,
            estimate: None,
            count_calls: AtomicU64::new(0),
            fail_get: AtomicBool::new(false),
            fail_write: AtomicBool::new(false),
            fail_sync: AtomicBool::new(false),
            get_calls: Arc::default(),
            write_calls: Arc::default(),
            sync_calls: AtomicU64::new(0),
            syncs_held: Mutex::new(()),
            update_calls: Arc::default(),
            take_calls: AtomicU64::new(0),
        }
    }

    fn admin(&self) -> &dyn Admin {
        self.inner.as_admin().expect("engines of these tests have this view")
    }

    fn atomic(&self) -> &dyn Atomic {
        self.inner.as_atomic().expect("engines of these tests have this view")
    }

    fn wait(&self) {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
    }
}

impl Layer for Probe {
    type Inner = dyn Engine;

    fn inner(&self) -> &Arc<dyn Engine> {
        &self.inner
    }

    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.get_calls.fetch_add(1, Ordering::Relaxed);
        self.wait();
        self.inner.get_many(keys, sink)?;
        match self.fail_get.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Io, "the read failed")),
            false => Ok(()),
        }
    }

    /// Keys that begin with `hot` are in memory.
    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        struct Moved<'s>(&'s mut dyn GetSink, usize);
        impl GetSink for Moved<'_> {
            fn found(&mut self, index: usize, entry: EntryRef<'_>) {
                self.0.found(self.1 + index, entry);
            }
        }
        for (index, key) in keys.iter().enumerate() {
            if !self.descriptor.capabilities.may_wait || key.starts_with(b"hot") {
                self.inner.get_many(&[key], &mut Moved(&mut *sink, index))?;
            } else {
                left.push(index);
            }
        }
        Ok(())
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        stages.enter(Stage::Device);
        Layer::get_many(self, keys, sink)
    }

    // So that replies are tested which are written as values come, and those that are not.
    fn reports_in_order(&self) -> bool {
        !self.descriptor.capabilities.may_wait
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.write_calls.fetch_add(1, Ordering::Relaxed);
        self.owned.refuse(batch.ops().iter().map(|op| op.key))?;
        if self.fail_write.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "the write failed"));
        }
        self.inner.write(batch, durability)
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        Layer::write(self, batch, durability)
    }

    fn sync(&self) -> Result<()> {
        self.sync_calls.fetch_add(1, Ordering::Relaxed);
        drop(self.syncs_held.lock().unwrap());
        self.wait();
        if self.fail_sync.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Poisoned, "the sync failed"));
        }
        self.inner.sync()
    }

    fn verify(&self) -> Result<()> {
        self.owned.refuse_all()?;
        self.inner.verify()
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        if self.ordered { Arc::clone(&self.inner).as_ordered() } else { None }
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        std::thread::sleep(self.walk_delay);
        self.inner.as_scan()
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Admin for Probe {
    fn count(&self, exact: bool) -> Result<Count> {
        self.count_calls.fetch_add(1, Ordering::Relaxed);
        self.admin().count(exact)
    }

    fn estimate(&self) -> Result<Count> {
        self.estimate.map_or_else(|| self.count(false), Ok)
    }

    fn clear(&self) -> Result<()> {
        self.owned.refuse_all()?;
        self.admin().clear()
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        self.admin().checkpoint(target)
    }

    fn inspect(&self) -> Result<String> {
        self.admin().inspect()
    }
}

/// No key may be called `on fire`.
fn refuse_fire(keys: &[&[u8]]) -> Result<()> {
    match keys.contains(&&b"on fire"[..]) {
        true => Err(Error::new(ErrorKind::Io, "the key is on fire")),
        false => Ok(()),
    }
}

impl Atomic for Probe {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_calls.fetch_add(1, Ordering::Relaxed);
        self.owned.refuse([key])?;
        self.atomic().update(key, durability, decide)
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        self.update_calls.fetch_add(1, Ordering::Relaxed);
        refuse_fire(keys)?;
        self.owned.refuse(keys.iter().copied())?;
        self.atomic().update_many(keys, durability, decide)
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.update_calls.fetch_add(1, Ordering::Relaxed);
        self.owned.refuse(keys.iter().copied())?;
        self.atomic().update_all(keys, durability, decide)
    }
}

/// One engine for database 0, fresh reference engines for the others.
pub(crate) struct Source(pub(crate) Arc<Probe>, Mutex<[u32; 16]>);

impl Source {
    pub(crate) fn new(probe: Arc<Probe>) -> Self {
        Source(probe, Mutex::new(std::array::from_fn(|n| n as u32)))
    }
}

impl Databases for Source {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        Ok(match self.1.lock().unwrap()[index as usize] {
            0 => Arc::clone(&self.0) as Arc<dyn Engine>,
            9 => return Err(Error::new(ErrorKind::Io, "database 9 is on fire")),
            _ => Arc::new(Reference::new()),
        })
    }

    fn exists(&self, index: u32) -> bool {
        self.1.lock().unwrap()[index as usize] != 9
    }

    fn swap(&self, index: u32, other: u32) -> Result<()> {
        self.1.lock().unwrap().swap(index as usize, other as usize);
        Ok(())
    }
}

/// Chooses the engine of all tests: `reference`, or `flash`, a cache with flash behind it.
const ENGINE: &str = "SILICA_TEST_ENGINE";

/// True if the engine of all tests is a cache with flash behind it.
pub(crate) fn on_flash() -> bool {
    std::env::var(ENGINE).as_deref() == Ok("flash")
}

/// The engine of database 0, and the directory where it is, if it is in one.
fn tested() -> (Arc<dyn Engine>, Option<tempfile::TempDir>) {
    match std::env::var(ENGINE).as_deref() {
        Err(_) | Ok("reference") => (Arc::new(Reference::new()), None),
        Ok("flash") => {
            let directory = tempfile::tempdir().unwrap();
            let flash = silica::FlashCacheOptions {
                flash_bytes: Some(64 << 20),
                ..silica::FlashCacheOptions::default()
            };
            let options = silica::OpenOptions::new().memory_bytes(48 << 20);
            // A thread that has had a ring of the kernel's is interrupted by it where it waits for
            // a socket, so that is not the test's.
            let path = directory.path().to_path_buf();
            let open = move || options.open_flash_cache(&path, &flash).unwrap();
            (std::thread::spawn(open).join().unwrap(), Some(directory))
        }
        Ok(other) => panic!("{ENGINE} is {other}"),
    }
}

/// Chooses the event loops of all tests: `epoll` or `io_uring`.
const EVENT_LOOP: &str = "SILICA_TEST_EVENT_LOOP";

fn event_loop() -> EventLoopKind {
    match std::env::var(EVENT_LOOP).as_deref() {
        Err(_) | Ok("auto") => EventLoopKind::Auto,
        Ok("epoll") => EventLoopKind::Epoll,
        Ok("io_uring") => EventLoopKind::IoUring,
        Ok(other) => panic!("{EVENT_LOOP} is {other}"),
    }
}

/// Chooses the mode of all tests: `crcw`, `crew` or `erew`.
const MODE: &str = "SILICA_TEST_MODE";

fn mode() -> Mode {
    match std::env::var(MODE).as_deref() {
        Err(_) | Ok("crcw") => Mode::Crcw,
        Ok("crew") => Mode::Crew,
        Ok("erew") => Mode::Erew,
        Ok(other) => panic!("{MODE} is {other}"),
    }
}

pub(crate) fn config() -> Config {
    Config {
        mode: mode(),
        event_loop: event_loop(),
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        loops: 2,
        io_workers: 4,
        ..Config::default()
    }
}

/// Partitions belong to nobody, whatever the mode of the tests: a burst is one call of the engine.
pub(crate) fn shared() -> Config {
    Config { mode: Mode::Crcw, ..config() }
}

pub(crate) fn start_with(config: Config, probe: Probe) -> (Server, Arc<Probe>) {
    let probe = Arc::new(probe);
    let server = Server::start(config, Arc::new(Source::new(Arc::clone(&probe)))).unwrap();
    (server, probe)
}

pub(crate) fn start() -> Server {
    start_with(config(), Probe::new(false)).0
}

/// Reads what there is. A thread that has had a ring of the kernel's is woken by it from a read
/// with a time limit, and then reads again.
pub(crate) fn read_some(from: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match from.read(into) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A blocking client.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    buf: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Self {
        Self::connect_to(server.local_addr()).unwrap()
    }

    pub(crate) fn connect_to(address: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Ok(Client { socket, buf: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next reply; `None` where the server has closed the connection.
    pub(crate) fn reply(&mut self) -> Option<Value> {
        loop {
            if let Some((value, used)) = decode(&self.buf).expect("a well-formed reply") {
                self.buf.drain(..used);
                return Some(value);
            }
            let mut piece = vec![0; 64 << 10];
            match read_some(&mut self.socket, &mut piece) {
                Ok(0) => return None,
                Ok(n) => self.buf.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("no reply: {e}"),
            }
        }
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buf.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buf.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).expect("a text");
            }
            let mut piece = vec![0; 4 << 10];
            let n = read_some(&mut self.socket, &mut piece).expect("a line");
            assert!(n > 0, "the connection is open");
            self.buf.extend_from_slice(&piece[..n]);
        }
    }

    pub(crate) fn replies(&mut self, n: usize) -> Vec<Value> {
        (0..n).map(|_| self.reply().expect("the connection is open")).collect()
    }

    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Value {
        self.send(&request(args));
        self.reply().expect("the connection is open")
    }

    /// The reply to the words of `line`.
    pub(crate) fn ask_value(&mut self, line: &str) -> Value {
        self.call(&line.split_ascii_whitespace().map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Sends the words of `line`; the reply is a text, with its line ends.
    pub(crate) fn text(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
        match self.call(&args) {
            Value::Bulk(bytes) | Value::Verbatim(bytes) => {
                String::from_utf8(bytes).expect("a text")
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The reply to `line` as text, skipping what the server tells without having been asked.
    pub(crate) fn text_after_pushes(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes());
        loop {
            match self.reply() {
                Some(Value::Push(_) | Value::Integer(_)) => {}
                Some(Value::Bulk(bytes) | Value::Verbatim(bytes)) => {
                    return String::from_utf8(bytes).expect("a text");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    /// Sends the words of `line` and shows the reply as text.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
        show(&self.call(&args))
    }
}

/// Runs lines of `request -> reply` in order on one connection.
pub(crate) fn script(client: &mut Client, lines: &str) {
    for line in lines.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let (ask, want) = line.split_once(" -> ").expect("request -> reply");
        let answer = client.ask(ask);
        if !is_time_left(ask, &answer, want) {
            assert_eq!(answer, want, "{ask}");
        }
    }
}

/// True if `answer` is what is left of the `want` seconds, some of which have passed on a busy
/// machine.
fn is_time_left(ask: &str, answer: &str, want: &str) -> bool {
    let number = |text: &str| text.strip_prefix(':').and_then(|text| text.parse::<i64>().ok());
    let Some((left, of)) = number(answer).zip(number(want)) else { return false };
    ask.starts_with("TTL ") && left > 0 && (of - 20..=of).contains(&left)
}

pub(crate) fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

pub(crate) fn show(value: &Value) -> String {
    let list = |values: &[Value]| values.iter().map(show).collect::<Vec<_>>().join(" ");
    match value {
        Value::Simple(text) => text.clone(),
        Value::Error(text) => format!("-{text}"),
        Value::Integer(n) => format!(":{n}"),
        Value::Bulk(bytes) | Value::Verbatim(bytes) => {
            format!("'{}'", bytes.escape_ascii())
        }
        Value::Null => "nil".into(),
        Value::Array(values) => format!("[{}]", list(values)),
        Value::Set(values) => format!("~[{}]", list(values)),
        Value::Push(values) => format!(">[{}]", list(values)),
        Value::Double(x) => format!(",{x}"),
        Value::Boolean(yes) => format!("#{yes}"),
        Value::Map(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(k, v)| format!("{}={}", show(k), show(v))).collect();
            format!("{{{}}}", pairs.join(" "))
        }
    }
}
