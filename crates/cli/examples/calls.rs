//! The calls whose instructions are counted, so that none grows unseen.
//!
//! `calls list` names them; `calls NAME COUNT` prepares a store, makes the call COUNT times and
//! ends. Run twice under callgrind, with COUNT and twice as many, the difference is what the calls
//! themselves take: `cargo xtask calls [--against REVISION]`.
//!
//! There is no background work, and what the keys and the values are does not change from run to
//! run. Servers are in this process, with one event loop over epoll, which valgrind knows.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments.
#![allow(unreachable_pub)] // Its test reaches in.

use silica::engine::Durability;
use silica::{Keyspace, OpenOptions, Result, Silica, Update, WriteBatch};
use silica_server::{Config, EventLoopKind, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

/// Keys of a store, each of 16 bytes.
const KEYS: u64 = 20_000;
const VALUE: [u8; 100] = [b'v'; 100];
/// Keys of a call that takes several, and requests of a pipeline.
const BURST: u64 = 32;
const ENGINES: [&str; 3] = ["wip", "silt", "mica"];

type LibraryCall = fn(&Keyspace, u64) -> Result<()>;

const LIBRARY: [(&str, LibraryCall); 10] = [
    ("put", |keyspace, n| keyspace.put(key(n), VALUE)),
    ("write-32", |keyspace, n| {
        let keys: Vec<_> = (n * BURST..(n + 1) * BURST).map(key).collect();
        let mut batch = WriteBatch::new();
        for key in &keys {
            batch.put(key, &VALUE);
        }
        keyspace.write(&batch)
    }),
    ("get", |keyspace, n| {
        assert_eq!(keyspace.get(key(n))?.as_deref(), Some(&VALUE[..]));
        Ok(())
    }),
    ("get-32", |keyspace, n| {
        let keys: Vec<_> = (n * BURST..(n + 1) * BURST).map(key).collect();
        assert!(keyspace.get_many(&keys)?.iter().all(Option::is_some));
        Ok(())
    }),
    ("miss", |keyspace, n| {
        assert_eq!(keyspace.get(missing(n))?, None);
        Ok(())
    }),
    ("delete", |keyspace, n| keyspace.delete(missing(n))),
    ("update", |keyspace, n| {
        keyspace.update(key(n), |old| {
            let mut value = old.map_or_else(Vec::new, |entry| entry.value.to_vec());
            value.reverse();
            Update::put(value)
        })
    }),
    ("iterator", |keyspace, n| keyspace.iterator(&key(n)[..]..).map(drop)),
    ("seek-50", seek_50),
    ("table-seek-50", seek_50),
];

/// A search, and fifty steps from there; the last keys have fewer behind them.
fn seek_50(keyspace: &Keyspace, n: u64) -> Result<()> {
    let mut range = keyspace.iterator(..)?;
    let mut is_there = range.seek(key(n))?;
    assert!(is_there, "the key was put");
    for _ in 0..50 {
        is_there = is_there && range.next()?;
    }
    Ok(())
}

/// Names of what a client sends, each a pipeline.
const REQUESTS: [&str; 5] = ["resp-get", "resp-set", "resp-incr", "resp-mget", "memcached-get"];

/// The key with number `n % KEYS`, scattered over the key space.
fn key(n: u64) -> [u8; 16] {
    named(n % KEYS, b"key")
}

fn missing(n: u64) -> [u8; 16] {
    named(n % KEYS, b"not")
}

fn named(n: u64, kind: &[u8; 3]) -> [u8; 16] {
    let scattered = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16).to_be_bytes();
    let mut key = [b'_'; 16];
    for (to, from) in key.chunks_mut(2).zip(scattered) {
        to[0] = b'a' + (from >> 4);
        to[1] = b'a' + (from & 15);
    }
    key[..3].copy_from_slice(kind);
    key
}

/// Every name that [`call`] takes.
pub fn names() -> Vec<String> {
    let library = ENGINES.iter().flat_map(|engine| {
        let is_ordered = |call: &str| ["iterator", "seek-50", "table-seek-50"].contains(&call);
        let has = move |call: &str| !is_ordered(call) || *engine == "wip";
        LIBRARY.iter().filter(move |(call, _)| has(call)).map(move |(call, _)| (engine, *call))
    });
    let requests = ["wip", "mica"].iter().flat_map(|e| REQUESTS.iter().map(move |call| (e, *call)));
    library.chain(requests).map(|(engine, call)| format!("{engine}-{call}")).collect()
}

/// A full store of `engine` below a directory that is removed with it.
struct Stage {
    store: Arc<Silica>,
    keyspace: Keyspace,
    directory: PathBuf,
}

impl Stage {
    fn new(engine: &str) -> Result<Stage> {
        let name = format!("silica-calls-{engine}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let options = OpenOptions::new().engine(engine).memory_bytes(64 << 20).seed([7; 16]);
        let options = options.background_threads(0).durability(Durability::Buffered);
        let store = Arc::new(options.open(&directory)?);
        let keyspace = store.keyspace("default")?;
        for n in 0..KEYS {
            keyspace.put(key(n), VALUE)?;
        }
        Ok(Stage { store, keyspace, directory })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What stays shows as a directory; no figure depends on it.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Makes the call `name` `count` times.
pub fn call(name: &str, count: u64) -> Result<()> {
    let (engine, call) = name.split_once('-').expect("names have an engine and a call");
    let stage = Stage::new(engine)?;
    if let Some((_, work)) = LIBRARY.iter().find(|(known, _)| *known == call) {
        if call.starts_with("table-") {
            stage.keyspace.compact_range(..)?;
        }
        return (0..count).try_for_each(|n| work(&stage.keyspace, n));
    }
    assert!(REQUESTS.contains(&call), "{name} is no call; `list` names them");
    let config = Config {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        loops: 1,
        event_loop: EventLoopKind::Epoll,
        durability: Durability::Buffered,
        ..Config::default()
    };
    let server = Server::start(config, stage.store.clone())?;
    let mut client = TcpStream::connect(server.local_addr()).expect("the server listens");
    for n in 0..count {
        let (request, reply_bytes) = pipeline(call, n);
        client.write_all(&request).expect("the server reads");
        let mut reply = vec![0; reply_bytes];
        client.read_exact(&mut reply).expect("the server answers");
        let last = &reply[reply_bytes - 2..];
        assert!(last == b"\r\n" && !reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
    }
    drop(client);
    server.stop();
    Ok(())
}

/// [`BURST`] requests for the keys from `n` bursts on, and how many bytes answer them.
fn pipeline(call: &str, n: u64) -> (Vec<u8>, usize) {
    let mut request = Vec::new();
    let keys = (n * BURST..(n + 1) * BURST).map(key);
    let value_reply = format!("${}\r\n", VALUE.len()).len() + VALUE.len() + 2;
    let reply_bytes = match call {
        "resp-get" => {
            keys.for_each(|key| array(&mut request, &[b"GET", &key]));
            BURST as usize * value_reply
        }
        "resp-set" => {
            keys.for_each(|key| array(&mut request, &[b"SET", &key, &VALUE]));
            BURST as usize * "+OK\r\n".len()
        }
        "resp-incr" => {
            // Eight digits, whatever was added: the replies have one length.
            array(&mut request, &[b"SET", b"counter", b"10000000"]);
            (1..BURST).for_each(|_| array(&mut request, &[b"INCR", b"counter"]));
            "+OK\r\n".len() + (BURST as usize - 1) * ":10000001\r\n".len()
        }
        "resp-mget" => {
            let keys: Vec<_> = keys.collect();
            let words = std::iter::once(&b"MGET"[..]).chain(keys.iter().map(|key| &key[..]));
            array(&mut request, &words.collect::<Vec<_>>());
            format!("*{BURST}\r\n").len() + BURST as usize * value_reply
        }
        _ => {
            let mut bytes = "END\r\n".len();
            request.extend_from_slice(b"get");
            for key in keys {
                request.push(b' ');
                request.extend_from_slice(&key);
                bytes += "VALUE  0 100\r\n\r\n".len() + key.len() + VALUE.len();
            }
            request.extend_from_slice(b"\r\n");
            bytes
        }
    };
    (request, reply_bytes)
}

fn array(request: &mut Vec<u8>, words: &[&[u8]]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [list] if list == "list" => names().iter().for_each(|name| println!("{name}")),
        [name, count] if names().contains(name) && count.parse::<u64>().is_ok() => {
            call(name, count.parse().unwrap_or_default())?;
        }
        _ => {
            eprintln!("usage: calls list | calls NAME COUNT");
            std::process::exit(2);
        }
    }
    Ok(())
}
