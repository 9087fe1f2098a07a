//! Objects of a store, whose engine another one may take the place of: what their steps compare,
//! and that no change is lost while that happens.

use super::work::fill;
use crate::support::{Client, shared};
use silica::{Durability, OpenOptions, Silica};
use silica_base::{Prng, test_size};
use silica_engine::{
    Atomic, Engine, EntryRef, Error, ErrorKind, Expected, GetSink, Layer, Op, Result, Update,
};
use silica_proto::Value;
use silica_server::{Config, Databases, Server};
use silica_types::is_inner;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Notes what steps ask of the engine of a store.
struct Noting {
    inner: Arc<dyn Engine>,
    /// The most entries that a write has compared.
    compared_max: AtomicUsize,
    /// Calls that asked for a user's key.
    key_reads: AtomicUsize,
    /// The next read of a page is followed by another epoch.
    turns: AtomicBool,
    epoch: AtomicU64,
}

impl Noting {
    fn new(inner: Arc<dyn Engine>) -> Arc<Self> {
        let (compared_max, key_reads, turns, epoch) = Default::default();
        Arc::new(Noting { inner, compared_max, key_reads, turns, epoch })
    }

    fn atomic(&self) -> &dyn Atomic {
        self.inner.as_atomic().expect("every engine of ours has this view")
    }
}

impl Layer for Noting {
    type Inner = dyn Engine;

    fn inner(&self) -> &Arc<dyn Engine> {
        &self.inner
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.inner.get_many(keys, sink)?;
        if keys.iter().any(|key| !is_inner(key)) {
            self.key_reads.fetch_add(1, Ordering::SeqCst);
        } else if self.turns.swap(false, Ordering::SeqCst) {
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }
}

impl Atomic for Noting {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.atomic().update(key, durability, decide)
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.atomic().update_all(keys, durability, decide)
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        self.compared_max.fetch_max(expected.len(), Ordering::SeqCst);
        self.atomic().write_expecting(expected, ops, durability)
    }

    fn order_epoch(&self) -> Option<u64> {
        self.atomic().order_epoch().map(|_| self.epoch.load(Ordering::SeqCst))
    }

    fn settle(&self) {
        self.atomic().settle();
    }
}

/// One engine for database 0.
struct Only(Arc<Noting>);

impl Databases for Only {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        match index {
            0 => Ok(Arc::clone(&self.0) as Arc<dyn Engine>),
            _ => Err(Error::new(ErrorKind::Unsupported, "there is one database")),
        }
    }

    fn exists(&self, index: u32) -> bool {
        index == 0
    }

    fn swap(&self, _: u32, _: u32) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "there is one database"))
    }
}

fn store(directory: &tempfile::TempDir) -> Arc<Silica> {
    let options = OpenOptions::new().memory_bytes(64 << 20).durability(Durability::Buffered);
    Arc::new(options.open(directory.path().join("store")).expect("a store"))
}

fn noted(directory: &tempfile::TempDir) -> (Server, Arc<Noting>, Client) {
    let engine = Databases::open(&*store(directory), 0).expect("its engine");
    let engine = Noting::new(engine);
    let databases = Arc::new(Only(Arc::clone(&engine)));
    let server = Server::start(Config { databases: 1, ..shared() }, databases).expect("a server");
    let client = Client::connect(&server);
    (server, engine, client)
}

#[test]
fn steps_on_large_objects_of_a_store_compare_one_entry() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, engine, mut client) = noted(&directory);
    fill(&mut client, "SADD set", 3000);
    fill(&mut client, "RPUSH list", 3000);
    let scored: String = (0..3000).map(|n| format!(" {n} member:{n}")).collect();
    assert_eq!(client.ask(&format!("ZADD zset{scored}")), ":3000");
    assert_eq!(client.ask(&format!("HSET hash{scored}")), ":3000");
    engine.compared_max.store(0, Ordering::SeqCst);
    for (line, answer) in [
        ("SREM set member:00000007", ":1"),
        ("LSET list 1500 x", "OK"),
        ("LPOP list", "'member:00000000'"),
        ("ZINCRBY zset 5000 member:77", "'5077'"),
        ("ZPOPMIN zset", "['member:0' '0']"),
        ("HINCRBY hash 1500 1", "[ERR hash value is not an integer]"),
        ("HSET hash 1500 x", ":0"),
        ("HGET hash 1500", "'x'"),
        ("ZRANK zset member:77", ":2998"),
    ] {
        let found = client.ask(line);
        let is_right = found == answer || answer.starts_with("[ERR") && found.contains("integer");
        assert!(is_right, "{line}: {found}");
    }
    assert_eq!(engine.compared_max.load(Ordering::SeqCst), 1);
    server.stop();
}

/// What was read before and after is of two engines, of which one may publish in another order.
#[test]
fn a_step_amid_which_another_engine_takes_over_runs_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, engine, mut client) = noted(&directory);
    let pairs: String = (0..3000).map(|n| format!(" {n} 0")).collect();
    assert_eq!(client.ask(&format!("HSET hash{pairs}")), ":3000");
    for (line, answer) in [("HGET hash 1500", "'0'"), ("HINCRBY hash 1500 1", ":1")] {
        for (turns, reads) in [(false, 0), (true, 1)] {
            engine.key_reads.store(0, Ordering::SeqCst);
            assert_eq!(client.ask("HSET hash 1500 0"), ":0");
            let usual = engine.key_reads.swap(0, Ordering::SeqCst);
            engine.turns.store(turns, Ordering::SeqCst);
            assert_eq!(client.ask(line), answer);
            assert!(!engine.turns.load(Ordering::SeqCst), "no page was read");
            let all = engine.key_reads.load(Ordering::SeqCst);
            // A read of the entry more at the end, and both again.
            let look = usize::from(line.starts_with("HGET"));
            assert_eq!(all, usual + look + reads, "{line} {turns}");
        }
    }
    server.stop();
}

const MEMBERS: u64 = 500;
/// Changes of each thread, at least.
const CHANGES_MIN: u64 = 100;

/// Changes of a thread that were acknowledged: to a counter, fields, members, and a list.
#[derive(Default)]
struct Done([u64; 4]);

fn change(server: &Server, seed: u64, stop: &AtomicBool) -> Done {
    let (mut client, mut random, mut done) =
        (Client::connect(server), Prng::new(seed), Done::default());
    // On a slow machine, too, there are some of each.
    while !stop.load(Ordering::Relaxed) || done.0.iter().sum::<u64>() < CHANGES_MIN {
        let of = random.below(4) as usize;
        let nth = random.below(MEMBERS);
        let answer = match of {
            0 => client.ask("INCR counter"),
            1 => client.ask(&format!("HINCRBY hash field:{nth} 1")),
            2 => client.ask(&format!("ZINCRBY zset 1 member:{nth}")),
            _ => client.ask(&format!("RPUSH list {seed}:{nth}")),
        };
        assert!(answer.trim_matches([':', '\'']).parse::<u64>().is_ok(), "{answer}");
        done.0[of] += 1;
    }
    done
}

fn sum(value: &Value) -> (usize, f64) {
    let Value::Array(items) = value else { panic!("{value:?}") };
    let number = |value: &Value| match value {
        Value::Bulk(bytes) => {
            str::from_utf8(bytes).expect("text").parse::<f64>().expect("a number")
        }
        other => panic!("{other:?}"),
    };
    (items.len(), items.iter().skip(1).step_by(2).map(number).sum())
}

/// Looks at whole objects, whose sums grow and whose elements neither come nor go.
fn watch(server: &Server, stop: &AtomicBool) {
    let (mut client, mut sums) = (Client::connect(server), [0.0; 2]);
    while !stop.load(Ordering::Relaxed) {
        for (line, before) in ["ZRANGE zset 0 -1 WITHSCORES", "HGETALL hash"].iter().zip(&mut sums)
        {
            let (items, now) = sum(&client.ask_value(line));
            assert_eq!(items as u64, 2 * MEMBERS, "{line}");
            assert!(now >= *before, "{line}: {now} after {before}");
            *before = now;
        }
    }
}

#[test]
fn no_change_of_an_object_is_lost_while_its_engine_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let databases = Arc::clone(&store) as Arc<dyn Databases>;
    let server = Server::start(shared(), databases).expect("a server");
    let mut client = Client::connect(&server);
    for n in 0..MEMBERS {
        assert_eq!(client.ask(&format!("HSET hash field:{n} 0")), ":1");
        assert_eq!(client.ask(&format!("ZADD zset 0 member:{n}")), ":1");
    }
    let stop = AtomicBool::new(false);
    let mut all = [0; 4];
    std::thread::scope(|scope| {
        let (server, stop) = (&server, &stop);
        let changes: Vec<_> =
            (0..3).map(|seed| scope.spawn(move || change(server, seed, stop))).collect();
        scope.spawn(move || watch(server, stop));
        for _ in 0..test_size(1, 3, 40) {
            for to in ["silt", "wip", "mica", "wip"] {
                let options: &[_] = match to {
                    "mica" => &[(silica::FORGET_AT_EXIT, "on"), ("memory_bytes", "32MiB")],
                    _ => &[],
                };
                let report = store.migrate("default", to, options, &mut |_| Ok(()));
                if let Err(error) = report {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        for done in changes.into_iter().map(|change| change.join().expect("changes")) {
            all.iter_mut().zip(done.0).for_each(|(all, done)| *all += done);
        }
    });
    assert!(all.iter().all(|done| *done > 20), "{all:?}");
    assert_eq!(client.ask("GET counter"), format!("'{}'", all[0]));
    assert_eq!(sum(&client.ask_value("HGETALL hash")).1, all[1] as f64);
    assert_eq!(sum(&client.ask_value("ZRANGE zset 0 -1 WITHSCORES")).1, all[2] as f64);
    assert_eq!(client.ask("LLEN list"), format!(":{}", all[3]));
    server.stop();
}
