//! Calls with one key: of an engine alone, through a store, and of hashbrown's table under sharded
//! locks, with keys and values of 8 bytes in memory.
//!
//! `cargo run --release -p silica --example single` prints nanoseconds and ratios. The stores take
//! turns in short rounds, so what else the machine does falls on all of them; the ratio is the
//! median of the rounds'. `single NAME CALLS` makes so many calls of one kind and says nothing, for
//! callgrind: `alone-get`, `store-get`, `table-get`, and so on for `get-with` and `put`.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::RwLock;
use silica::engine::{Durability, Engine, EngineExt, Environment, OptionValues};
use silica::{Keyspace, OpenOptions, Result};
use silica_base::HashSeed;
use silica_mica::Mica;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const ENTRIES: u64 = 500_000;
const ROUNDS: usize = 41;
/// Calls of one round: about ten milliseconds.
const CALLS: u64 = 50_000;

/// What calls are made of.
trait Calls {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    fn get_with(&self, key: &[u8]) -> usize;
    fn put(&self, key: &[u8], value: &[u8]);
}

struct Alone(Arc<dyn Engine>);

impl Calls for Alone {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).expect("a get")
    }

    fn get_with(&self, key: &[u8]) -> usize {
        self.0.get_with(key, |entry| entry.map_or(0, |entry| entry.value.len())).expect("a get")
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.put(key, value, Durability::Buffered).expect("a put");
    }
}

struct Through(Keyspace);

impl Calls for Through {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).expect("a get")
    }

    fn get_with(&self, key: &[u8]) -> usize {
        self.0.get_with(key, |entry| entry.map_or(0, |entry| entry.value.len())).expect("a get")
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.put(key, value).expect("a put");
    }
}

type Bytes = Box<[u8]>;

/// A lock and what it guards, on lines of their own.
#[repr(align(128))]
struct Shard(RwLock<HashMap<Bytes, Bytes, RandomState>>);

/// The table that `silica bench compare memory` compares with.
struct Table {
    shards: Vec<Shard>,
    hasher: RandomState,
}

impl Table {
    fn new() -> Self {
        let hasher = RandomState::default();
        let shards = std::thread::available_parallelism().map_or(1, usize::from) * 4;
        let shards = shards.next_power_of_two();
        let keys = ENTRIES as usize / shards * 11 / 10;
        let table = || HashMap::with_capacity_and_hasher(keys, hasher.clone());
        Table { shards: (0..shards).map(|_| Shard(RwLock::new(table()))).collect(), hasher }
    }

    fn shard(&self, key: &[u8]) -> &RwLock<HashMap<Bytes, Bytes, RandomState>> {
        let hash = self.hasher.hash_one(key) >> 32;
        &self.shards[hash as usize & (self.shards.len() - 1)].0
    }
}

impl Calls for Table {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shard(key).read().get(key).map(|value| value.to_vec())
    }

    fn get_with(&self, key: &[u8]) -> usize {
        self.shard(key).read().get(key).map_or(0, |value| value.len())
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let mut table = self.shard(key).write();
        match table.get_mut(key) {
            Some(old) if old.len() == value.len() => old.copy_from_slice(value),
            _ => drop(table.insert(key.into(), value.into())),
        }
    }
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A key that is there, drawn anew for each number of a call.
fn drawn(call: u64) -> [u8; 8] {
    let mixed = (call ^ call >> 17).wrapping_mul(0xff51_afd7_ed55_8ccd);
    key(((u128::from(mixed) * u128::from(ENTRIES)) >> 64) as u64)
}

const KINDS: [&str; 3] = ["get", "get-with", "put"];

#[inline(never)]
fn make(calls: &dyn Calls, kind: &str, range: std::ops::Range<u64>) {
    match kind {
        "get" => range.for_each(|n| drop(black_box(calls.get(&drawn(n))))),
        "get-with" => range.for_each(|n| assert_eq!(calls.get_with(&drawn(n)), 8)),
        _ => range.for_each(|n| calls.put(&drawn(n), &n.to_be_bytes())),
    }
}

/// One of `alone`, `store` and `table`, full.
fn stage(name: &str, directory: &std::path::Path) -> Result<Box<dyn Calls>> {
    let calls: Box<dyn Calls> = match name {
        "alone" => {
            let environment = Environment::new(HashSeed([7; 16]));
            Box::new(Alone(Arc::new(Mica::open(&OptionValues::default(), &environment)?)))
        }
        "store" => {
            let options = OpenOptions::new().engine("mica").seed([7; 16]).background_threads(0);
            let store = options.durability(Durability::Buffered).open(directory)?;
            let keyspace = store.keyspace("default")?;
            // A store that is dropped is closed.
            std::mem::forget(store);
            Box::new(Through(keyspace))
        }
        _ => Box::new(Table::new()),
    };
    (0..ENTRIES).for_each(|n| calls.put(&key(n), &n.to_be_bytes()));
    Ok(calls)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(directory: &std::path::Path) -> Result<()> {
    let names = ["alone", "store", "table"];
    let stages = names.map(|name| stage(name, directory));
    let stages = stages.into_iter().collect::<Result<Vec<_>>>()?;
    println!(
        "one call, ns        {:>8} {:>8} {:>8}   store/alone  table/store",
        "alone", "store", "table"
    );
    let mut next = 0;
    for kind in KINDS {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            for (times, calls) in times.iter_mut().zip(&stages) {
                let start = Instant::now();
                make(&**calls, kind, next..next + CALLS);
                times.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
            }
            next += CALLS;
        }
        let ratio = |one: usize, other: usize| {
            median(times[one].iter().zip(&times[other]).map(|(one, other)| one / other).collect())
        };
        let [alone, store, table] = [0, 1, 2].map(|which| median(times[which].clone()));
        println!(
            "{kind:18}  {alone:8.0} {store:8.0} {table:8.0}   {:11.2}  {:11.2}",
            ratio(1, 0),
            ratio(2, 1)
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => compare(directory.path())?,
        [name, calls] => {
            let (stage_name, kind) = name.split_once('-').expect("STAGE-KIND");
            let calls = calls.parse().expect("a number of calls");
            make(&*stage(stage_name, directory.path())?, kind, 0..calls);
        }
        _ => eprintln!("usage: single [NAME CALLS]"),
    }
    Ok(())
}
