//! Several databases as one: a cache whose databases share its memory, commands on two databases,
//! and transactions on all of them, on every engine and in every mode.

use crate::redis::Redis;
use crate::support::across::{DATABASES, TRANSACTIONS};
use crate::support::{Client, Probe, config, script, start_with};
use silica::{CacheDatabases, FlashCacheOptions, FlashDatabases, OpenOptions};
use silica_base::{Prng, test_size};
use silica_engine::{Engine, Result};
use silica_server::{Config, Databases, Mode, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The databases of a cache.
struct Shared(CacheDatabases);

impl Databases for Shared {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        self.0.database(index as usize)
    }

    fn swap(&self, index: u32, other: u32) -> Result<()> {
        self.0.swap(index as usize, other as usize)
    }
}

/// The databases of a cache with flash behind it, and where that is.
struct OnFlash {
    all: FlashDatabases,
    _directory: tempfile::TempDir,
}

impl Databases for OnFlash {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        self.all.database(index as usize)
    }

    fn swap(&self, index: u32, other: u32) -> Result<()> {
        self.all.swap(index as usize, other as usize)
    }
}

fn cache_on_flash() -> Server {
    let directory = tempfile::tempdir().expect("a directory");
    let flash = FlashCacheOptions { flash_bytes: Some(64 << 20), ..FlashCacheOptions::default() };
    let options = OpenOptions::new().memory_bytes(48 << 20);
    let all = options.open_flash_databases(directory.path(), &flash).expect("a cache");
    let config = Config { mode: Mode::Crcw, ..config() };
    Server::start(config, Arc::new(OnFlash { all, _directory: directory })).expect("a server")
}

fn cache(mode: Mode, eviction: &str) -> Server {
    let options = OpenOptions::new().memory_bytes(16 << 20).set("partitions", "4");
    let all = options.set("eviction", eviction).open_cache_databases().expect("a cache");
    Server::start(Config { mode, ..config() }, Arc::new(Shared(all))).expect("a server")
}

const MODES: [Mode; 3] = [Mode::Crcw, Mode::Crew, Mode::Erew];

/// Servers of every kind.
fn servers() -> Vec<(String, Server)> {
    let caches = MODES.iter().flat_map(|mode| {
        let name = |eviction| format!("{mode:?} {eviction}");
        ["s3-fifo", "none"].map(|eviction| (name(eviction), cache(*mode, eviction)))
    });
    let waits = [false, true].map(|may_wait| {
        (format!("reference {may_wait}"), start_with(config(), Probe::new(may_wait)).0)
    });
    caches.chain(waits).chain([("on flash".to_string(), cache_on_flash())]).collect()
}

#[test]
fn redis_answers_as_we_say() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let mut client = redis.connect();
    script(&mut client, DATABASES);
    script(&mut client, TRANSACTIONS);
}

#[test]
fn we_answer_as_redis_does() {
    for (name, server) in servers() {
        println!("{name}");
        let mut client = Client::connect(&server);
        script(&mut client, DATABASES);
        script(&mut client, TRANSACTIONS);
        server.stop();
    }
}

/// A random request, of which most are about several databases.
fn request(prng: &mut Prng) -> String {
    let (db, other) = (prng.below(4), prng.below(4));
    let (key, value) = (prng.below(5), prng.below(1000));
    match prng.below(16) {
        0 => format!("MOVE k{key} {db}"),
        1 => format!("COPY k{key} k{value} DB {db}"),
        2 => format!("COPY k{key} k{} DB {db} REPLACE", prng.below(5)),
        3 => format!("SWAPDB {db} {other}"),
        4 => "DBSIZE".into(),
        5 if prng.one_in(3) => "FLUSHDB".into(),
        6 if prng.one_in(9) => "FLUSHALL".into(),
        7 | 8 => format!("SELECT {db}"),
        9 => format!("DEL k{key}"),
        10 => format!("INCR n{key}"),
        11 => format!("WATCH k{key}"),
        12 => "MULTI".into(),
        13 => "EXEC".into(),
        _ => format!("SET k{key} {value}"),
    }
}

#[test]
fn random_requests_are_answered_as_by_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    for (seed, (name, server)) in (0..).zip(servers()) {
        let (mut prng, mut done) = (Prng::new(seed), Vec::new());
        let both = || [redis.connect(), Client::connect(&server)];
        let mut clients = [both(), both()];
        clients[0].iter_mut().for_each(|client| drop(client.ask("FLUSHALL")));
        for _ in 0..test_size(800, 4_000, 100_000) {
            let (who, line) = (prng.below(2) as usize, request(&mut prng));
            done.push(format!("{who}: {line}"));
            let [want, got] = clients[who].each_mut().map(|client| client.ask(&line));
            let last = &done[done.len().saturating_sub(25)..];
            assert_eq!(got, want, "{name}, seed {seed}: {last:#?}");
        }
        server.stop();
    }
}

/// While databases are swapped, moved between and flushed, a transaction sees one moment.
#[test]
fn nobody_sees_half_of_a_swap() {
    for (name, server) in servers() {
        let mut first = Client::connect(&server);
        script(&mut first, "SET name a -> OK\nSELECT 1 -> OK\nSET name b -> OK");
        let stop = AtomicBool::new(false);
        let seen: [[AtomicU64; 2]; 2] = Default::default();
        std::thread::scope(|scope| {
            for seen in &seen {
                let (name, server, stop) = (&name, &server, &stop);
                scope.spawn(move || {
                    let mut client = Client::connect(server);
                    while !stop.load(Ordering::Relaxed) {
                        script(&mut client, "MULTI -> OK\nSELECT 0 -> QUEUED\nGET name -> QUEUED");
                        script(&mut client, "SELECT 1 -> QUEUED\nGET name -> QUEUED");
                        match client.ask("EXEC").as_str() {
                            "[OK 'a' OK 'b']" => seen[0].fetch_add(1, Ordering::Relaxed),
                            "[OK 'b' OK 'a']" => seen[1].fetch_add(1, Ordering::Relaxed),
                            other => {
                                stop.store(true, Ordering::Relaxed);
                                panic!("{name}: {other}")
                            }
                        };
                    }
                });
            }
            scope.spawn(|| {
                let mut client = Client::connect(&server);
                for n in 0..u64::MAX {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    assert_eq!(client.ask(&format!("SET other {n}")), "OK");
                }
            });
            let least = test_size(200, 2_000, 50_000);
            // A reader may have to wait for its turn.
            let is_over = |n| {
                let all = seen.iter().flatten().all(|times| times.load(Ordering::Relaxed) > 0);
                n >= least && (all || n >= 1_000_000) || stop.load(Ordering::Relaxed)
            };
            for _ in (0..).take_while(|n| !is_over(*n)) {
                assert_eq!(first.ask("SWAPDB 0 1"), "OK");
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(
            seen.iter().flatten().all(|times| times.load(Ordering::Relaxed) > 0),
            "{name}: {seen:?}"
        );
        server.stop();
    }
}

/// Sixteen databases of one cache, each with figures of its own.
#[test]
fn a_cache_has_sixteen_databases_in_one_memory() {
    let server = cache(Mode::Crcw, "s3-fifo");
    let mut client = Client::connect(&server);
    for db in 0..16 {
        assert_eq!(client.ask(&format!("SELECT {db}")), "OK");
        for n in 0..=db {
            assert_eq!(client.ask(&format!("SET key{n} of{db}")), "OK");
        }
    }
    assert_eq!(client.ask("SELECT 16"), "-ERR DB index is out of range");
    let info = client.text("INFO keyspace");
    for db in 0..16 {
        assert!(info.contains(&format!("\r\ndb{db}:keys={},", db + 1)), "{db}: {info}");
        assert_eq!(client.ask(&format!("SELECT {db}")), "OK");
        assert_eq!(client.ask("GET key0"), format!("'of{db}'"));
    }
    let memory = |client: &mut Client| {
        let info = client.text("INFO everything");
        let line = info.lines().find(|line| line.starts_with("db0_memory_budget_bytes:")).unwrap();
        (line.to_string(), info.matches("_memory_budget_bytes:").count())
    };
    assert_eq!(memory(&mut client), ("db0_memory_budget_bytes:16777216".into(), 1));
    assert_eq!(client.ask("SWAPDB 0 15"), "OK");
    let info = client.text("INFO keyspace");
    assert!(info.contains("\r\ndb0:keys=16,") && info.contains("\r\ndb15:keys=1,"), "{info}");
    server.stop();
}

/// What SWAPDB has swapped in a directory is swapped after a restart, too.
#[test]
fn swapped_databases_of_a_directory_stay_swapped() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let cache = [("memory_bytes", "4MiB")];
        let options = OpenOptions::new().memory_bytes(64 << 20).declare("db3", "mica", &cache);
        Arc::new(options.open(directory.path()).unwrap())
    };
    let serve = |store: &Arc<silica::Silica>| {
        // Its database 0 has no partitions that loops could own.
        let config = Config { mode: Mode::Crcw, ..config() };
        Server::start(config, Arc::clone(store) as Arc<dyn Databases>).unwrap()
    };
    let store = open();
    let server = serve(&store);
    let mut client = Client::connect(&server);
    script(&mut client, DATABASES);
    script(&mut client, TRANSACTIONS);
    script(
        &mut client,
        "SET a zero -> OK
         SELECT 1 -> OK
         SET a one -> OK
         SELECT 3 -> OK
         SET a in-memory -> OK
         SWAPDB 0 1 -> OK
         SWAPDB 1 8 -> OK
         SWAPDB 3 2 -> OK
         SELECT 2 -> OK
         GET a -> 'in-memory'
         SELECT 8 -> OK
         GET a -> 'zero'
         SET b later -> OK
         SELECT 0 -> OK
         MOVE a 9 -> :1",
    );
    let info = client.text("INFO everything");
    assert!(info.contains("\r\ndb2_engine:mica"), "{info}");
    server.stop();
    store.shut().unwrap();
    drop(store);
    let store = open();
    let server = serve(&store);
    let mut client = Client::connect(&server);
    script(
        &mut client,
        "EXISTS a -> :0
         SELECT 9 -> OK
         GET a -> 'one'
         SELECT 8 -> OK
         MGET a b -> ['zero' 'later']
         SELECT 1 -> OK
         DBSIZE -> :0",
    );
    server.stop();
    store.shut().unwrap();
}
