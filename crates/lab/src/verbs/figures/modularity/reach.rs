//! Ways to one engine, from its own type to a socket, and the calls that are made on each.

use silica::{
    DEFAULT_KEYSPACE, Durability, Engine, EntryRef, Environment, Error, ErrorKind, FileDevice,
    GetSink, Keyspace, OpenOptions, OptionValues, Result, Silica, WriteBatch,
};
use silica_base::HashSeed;
use silica_mica::Mica;
use silica_server::{Config, EventLoopKind, Server};
use silica_wip::Wip;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a key and of a value.
pub(super) const KEY_BYTES: usize = 16;
const VALUE: [u8; 100] = [b'v'; 100];
/// Far more than the entries: no call waits for a device.
const MEMORY_BYTES: u64 = 64 << 20;
const SEED: [u8; 16] = [7; 16];

/// The engines, by the names of their specs: one in memory, one with an order and a log.
pub(super) const ENGINES: [&str; 2] = ["mica", "wip"];

/// What stands between a caller and the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Nothing: the compiler knows the engine's type.
    Own,
    /// A virtual call.
    Boundary,
    /// The facade's switch and its sketch of the workload.
    Switch,
    /// The facade's calls, which return values of their own.
    Facade,
    /// A server at the other end of a socket in the file system.
    Unix,
    /// A server at the other end of a connection over loopback.
    Tcp,
}

impl Level {
    pub(super) const ALL: [Level; 6] =
        [Level::Own, Level::Boundary, Level::Switch, Level::Facade, Level::Unix, Level::Tcp];

    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Own => "own type",
            Level::Boundary => "dyn Engine",
            Level::Switch => "facade, borrowed",
            Level::Facade => "facade, owned",
            Level::Unix => "server, unix socket",
            Level::Tcp => "server, TCP",
        }
    }

    pub(super) fn is_server(self) -> bool {
        matches!(self, Level::Unix | Level::Tcp)
    }
}

/// What the calls do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gets,
    Puts,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Gets, Kind::Puts];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Gets => "gets",
            Kind::Puts => "puts",
        }
    }
}

/// Calls of one burst each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls {
    pub(super) kind: Kind,
    pub(super) burst: usize,
    pub(super) calls: u64,
}

/// Makes calls and says how long they took.
pub(super) type Meter = Box<dyn FnMut(Calls) -> Result<Duration>>;

/// One way to an engine.
trait Reach {
    /// Gets `keys`, all of which are there.
    fn get(&mut self, keys: &[&[u8]]) -> Result<()>;
    /// Puts [`VALUE`] to `keys`.
    fn put(&mut self, keys: &[&[u8]]) -> Result<()>;
}

/// Keys as they are asked for, one after the other and around again.
pub(super) struct Keys(Vec<[u8; KEY_BYTES]>);

impl Keys {
    pub(super) fn new(keys: u64) -> Arc<Keys> {
        let key = |number: u64| {
            let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let mut key = [b'k'; KEY_BYTES];
            key[..8].copy_from_slice(&scattered);
            key[8..].copy_from_slice(&number.to_be_bytes());
            key
        };
        Arc::new(Keys((0..keys.max(64)).map(key).collect()))
    }
}

/// A meter whose loop knows the type of `reach`, so that only the way itself differs.
fn meter<R: Reach + 'static>(mut reach: R, keys: Arc<Keys>) -> Meter {
    let mut at = 0;
    Box::new(move |asked| {
        let begun = Instant::now();
        let mut burst: Vec<&[u8]> = Vec::with_capacity(asked.burst);
        for _ in 0..asked.calls {
            burst.clear();
            for _ in 0..asked.burst {
                burst.push(&keys.0[at]);
                at = if at + 1 == keys.0.len() { 0 } else { at + 1 };
            }
            match asked.kind {
                Kind::Gets => reach.get(&burst)?,
                Kind::Puts => reach.put(&burst)?,
            }
        }
        Ok(begun.elapsed())
    })
}

/// Reads the first bytes of each value.
#[derive(Default)]
struct Sum {
    found: usize,
    sum: u64,
}

impl GetSink for Sum {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        self.found += 1;
        self.sum = self.sum.wrapping_add(head(entry.value));
    }
}

fn head(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn missing() -> Error {
    Error::new(ErrorKind::Corruption, "a key that was put is not there")
}

fn get_of(engine: &(impl Engine + ?Sized), keys: &[&[u8]]) -> Result<()> {
    let mut sum = Sum::default();
    engine.get_many(keys, &mut sum)?;
    black_box(sum.sum);
    if sum.found == keys.len() { Ok(()) } else { Err(missing()) }
}

fn batch_of<'k>(keys: &[&'k [u8]]) -> WriteBatch<'k> {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(key, &VALUE);
    }
    batch
}

/// The engine by its own type.
struct Own<E>(Arc<E>);

impl<E: Engine> Reach for Own<E> {
    fn get(&mut self, keys: &[&[u8]]) -> Result<()> {
        get_of(&*self.0, keys)
    }

    fn put(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.0.write(&batch_of(keys), Durability::Buffered)
    }
}

/// An engine behind the boundary; the facade's switch is one, too.
struct Erased(Arc<dyn Engine>);

impl Reach for Erased {
    fn get(&mut self, keys: &[&[u8]]) -> Result<()> {
        get_of(&*self.0, keys)
    }

    fn put(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.0.write(&batch_of(keys), Durability::Buffered)
    }
}

/// The facade as programs call it.
struct Whole(Keyspace);

impl Reach for Whole {
    fn get(&mut self, keys: &[&[u8]]) -> Result<()> {
        let values = match keys {
            [key] => vec![self.0.get(key)?],
            keys => self.0.get_many(keys)?,
        };
        for value in values {
            black_box(head(&value.ok_or_else(missing)?));
        }
        Ok(())
    }

    fn put(&mut self, keys: &[&[u8]]) -> Result<()> {
        match keys {
            [key] => self.0.put(key, VALUE),
            keys => self.0.write(&batch_of(keys)),
        }
    }
}

/// A connection to a server, which goes with it.
struct Wire<S> {
    stream: S,
    request: Vec<u8>,
    reply: Vec<u8>,
    _served: Arc<Served>,
}

impl<S: Read + Write> Wire<S> {
    /// Sends one request for each of `keys` and reads `reply_bytes` of answers to each.
    fn exchange(&mut self, keys: &[&[u8]], words: &[&[u8]], reply_bytes: usize) -> Result<()> {
        self.request.clear();
        for key in keys {
            let count = words.len() + 1;
            self.request.extend_from_slice(format!("*{count}\r\n").as_bytes());
            let (command, rest) = words.split_first().expect("a command has a name");
            for word in [*command, *key].iter().chain(rest) {
                self.request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                self.request.extend_from_slice(word);
                self.request.extend_from_slice(b"\r\n");
            }
        }
        self.reply.resize(reply_bytes * keys.len(), 0);
        let failed = |e| Error::io("asking the server", e);
        self.stream.write_all(&self.request).map_err(failed)?;
        self.stream.read_exact(&mut self.reply).map_err(failed)?;
        let is_right = !self.reply.starts_with(b"-") && self.reply.ends_with(b"\r\n");
        if is_right { Ok(()) } else { Err(missing()) }
    }
}

impl<S: Read + Write> Reach for Wire<S> {
    fn get(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.exchange(keys, &[b"GET"], b"$100\r\n".len() + VALUE.len() + 2)
    }

    fn put(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.exchange(keys, &[b"SET", &VALUE], b"+OK\r\n".len())
    }
}

/// A server over a store of its own.
struct Served {
    server: Option<Server>,
    // Goes after the server, which has it, too.
    _store: Arc<Silica>,
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

fn options(engine: &str) -> OpenOptions {
    let options = OpenOptions::new().engine(engine).memory_bytes(MEMORY_BYTES).seed(SEED);
    let options = if engine == ENGINES[0] { options.set("eviction", "none") } else { options };
    // Work in the background would count for some levels and not for others.
    options.background_threads(0).durability(Durability::Buffered)
}

fn filled(engine: &(impl Engine + ?Sized), keys: &Keys) -> Result<()> {
    for keys in keys.0.chunks(64) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        engine.write(&batch_of(&keys), Durability::Buffered)?;
    }
    Ok(())
}

/// A store of `engine` in `directory`, filled, that is reached on `level`.
///
/// # Errors
/// Those of opening a store, and of starting a server.
pub(super) fn reach(
    engine: &str,
    level: Level,
    directory: &Path,
    keys: &Arc<Keys>,
) -> Result<Meter> {
    let all = Arc::clone(keys);
    if matches!(level, Level::Own | Level::Boundary) {
        return own(engine, level, directory, keys);
    }
    let store = options(engine).open(directory)?;
    let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    filled(&**keyspace.engine(), keys)?;
    match level {
        Level::Facade => Ok(kept(store, meter(Whole(keyspace), all))),
        Level::Unix | Level::Tcp => {
            drop(keyspace);
            served(store, level, directory, all)
        }
        Level::Own | Level::Boundary | Level::Switch => {
            let engine = Arc::clone(keyspace.engine());
            Ok(kept(store, meter(Erased(engine), all)))
        }
    }
}

/// A meter that closes its store when it goes.
fn kept(store: Silica, mut meter: Meter) -> Meter {
    Box::new(move |calls| {
        let _open = &store;
        meter(calls)
    })
}

/// The engine itself, without a facade.
fn own(engine: &str, level: Level, directory: &Path, keys: &Arc<Keys>) -> Result<Meter> {
    let environment = Environment::new(HashSeed(SEED));
    let memory = MEMORY_BYTES.to_string();
    if engine == ENGINES[0] {
        let given = [("memory_bytes", &memory[..]), ("eviction", "none")];
        let values = OptionValues::parse(silica_mica::OPTIONS, given)?;
        return of_type(Arc::new(Mica::open(&values, &environment)?), level, keys);
    }
    let device = FileDevice::open(directory, silica::DeviceOptions::default())?;
    let values = OptionValues::parse(silica_wip::OPTIONS, [("memory_bytes", &memory[..])])?;
    of_type(Arc::new(Wip::open(device, &values, &environment)?), level, keys)
}

fn of_type<E: Engine + 'static>(engine: Arc<E>, level: Level, keys: &Arc<Keys>) -> Result<Meter> {
    filled(&*engine, keys)?;
    Ok(match level {
        Level::Boundary => meter(Erased(engine), Arc::clone(keys)),
        _ => meter(Own(engine), Arc::clone(keys)),
    })
}

/// A server over `store`, with one connection to it.
fn served(store: Silica, level: Level, directory: &Path, keys: Arc<Keys>) -> Result<Meter> {
    let store = Arc::new(store);
    let path = directory.with_extension("sock");
    let config = Config {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        unix: (level == Level::Unix).then(|| path.clone()),
        loops: 1,
        // Known to valgrind, under which instructions are counted.
        event_loop: EventLoopKind::Epoll,
        durability: Durability::Buffered,
        ..Config::default()
    };
    let server = Server::start(config, Arc::<Silica>::clone(&store))?;
    let address = server.local_addr();
    let served = Arc::new(Served { server: Some(server), _store: store });
    let failed = |e| Error::io("connecting to the server", e);
    if level == Level::Unix {
        let stream = UnixStream::connect(&path).map_err(failed)?;
        return Ok(meter(wire(stream, served), keys));
    }
    let stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(meter(wire(stream, served), keys))
}

fn wire<S>(stream: S, served: Arc<Served>) -> Wire<S> {
    Wire { stream, request: Vec::new(), reply: Vec::new(), _served: served }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_gets_what_was_put() {
        let scratch = tempfile::tempdir().unwrap();
        let keys = Keys::new(100);
        for engine in ENGINES {
            for (number, level) in Level::ALL.into_iter().enumerate() {
                let directory = scratch.path().join(format!("{engine}-{number}"));
                std::fs::create_dir_all(&directory).unwrap();
                let mut meter = reach(engine, level, &directory, &keys).unwrap();
                for kind in Kind::ALL {
                    meter(Calls { kind, burst: 8, calls: 30 }).unwrap();
                }
            }
        }
    }
}
