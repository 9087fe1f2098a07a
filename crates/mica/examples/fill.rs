//! A store that is filled with entries of 8 + 8 bytes until it is full, by one thread: what an
//! entry takes of all memory, and how many gets and puts there are a second.
//!
//! `cargo run --release -p silica-mica --example fill -- [SIZE] [OPTION=VALUE]...`
#![allow(clippy::disallowed_methods)] // A benchmark reads the clock and the process's status.

use silica_base::{HashSeed, Prng};
use silica_engine::{
    Durability, Engine, EntryRef, Environment, GetSink, MetricsMap, OptionValues, WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use std::time::Instant;

const BURST: usize = 32;
/// Gets, and puts, that are measured where there are so many entries.
const OPERATIONS: u64 = 10_000_000;

struct Hits(u64);

impl GetSink for Hits {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 += u64::from(entry.value.len() == 8);
    }
}

/// Puts entries `keys`; false where they do not fit.
fn put(engine: &dyn Engine, keys: &[u64], value: u64) -> bool {
    let keys: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
    let value = value.to_le_bytes();
    let mut batch = WriteBatch::new();
    keys.iter().for_each(|key| {
        batch.put(key, &value);
    });
    engine.write(&batch, Durability::Buffered).is_ok()
}

/// Anonymous memory of this process that is resident, where the system says so.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    1024 * kib.unwrap_or_default()
}

fn report(what: &str, operations: u64, begin: Instant) {
    let ns = begin.elapsed().as_nanos() as f64 / operations as f64;
    println!("{what:24} {:7.2} M/s  {ns:6.1} ns", 1e3 / ns);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let memory = arguments.next().unwrap_or_else(|| "256MiB".to_string());
    let others: Vec<String> = arguments.collect();
    let others = others.iter().map(|pair| pair.split_once('=').expect("OPTION=VALUE"));
    let usual = [("memory_bytes", &memory[..]), ("eviction", "none"), ("entry_bytes_mean", "16")];
    let options = OptionValues::parse(OPTIONS, usual.into_iter().chain(others)).expect("options");
    let before = resident_bytes();
    let store = Mica::open(&options, &Environment::new(HashSeed([1; 16]))).expect("a store");
    let mut burst = [0; BURST];
    let mut fill = |first: u64| {
        (0..BURST).for_each(|i| burst[i] = first + i as u64);
        put(&store, &burst, first)
    };
    let begin = Instant::now();
    let mut entries = (0..).step_by(BURST).find(|first| !fill(*first)).expect("full one day");
    report("fill", entries, begin);
    while put(&store, &[entries], 0) {
        entries += 1;
    }
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    let bytes = metrics.get("memory_budget_bytes");
    println!("{:24} {entries}", "entries until full");
    println!("{:24} {:7.2}", "bytes of memory each", bytes / entries as f64);
    let resident = (resident_bytes() - before) as f64 / entries as f64;
    println!("{:24} {resident:7.2}", "resident bytes each");
    for name in ["index_bytes", "log_bytes", "live_bytes", "free_bytes", "largest_free_bytes"] {
        println!("{name:24} {:7.2}", metrics.get(name) / entries as f64);
    }
    println!("{:24} {:7.2}", "fragmentation", metrics.get("fragmentation"));
    let operations = OPERATIONS.min(4 * entries) / BURST as u64 * BURST as u64;
    let mut prng = Prng::new(1);
    let mut hits = Hits(0);
    let begin = Instant::now();
    for _ in 0..operations / BURST as u64 {
        let keys: [[u8; 8]; BURST] = std::array::from_fn(|_| prng.below(entries).to_le_bytes());
        let keys: [&[u8]; BURST] = std::array::from_fn(|i| &keys[i][..]);
        store.get_many(&keys, &mut hits).expect("gets");
    }
    report("gets", hits.0, begin);
    let begin = Instant::now();
    for round in 0..operations / BURST as u64 {
        let keys: [u64; BURST] = std::array::from_fn(|_| prng.below(entries));
        assert!(put(&store, &keys, round), "what fits where it was fits");
    }
    report("puts in place", operations, begin);
    // New keys do not fall where the old ones were deleted; some room makes up for that.
    let room = entries / 20;
    (0..room).for_each(|key| {
        let key = key.to_le_bytes();
        store.write(WriteBatch::new().delete(&key), Durability::Buffered).expect("a delete");
    });
    let (begin, rounds) = (Instant::now(), (entries - room).min(operations) / BURST as u64);
    for round in 0..rounds {
        let old: [[u8; 8]; BURST] =
            std::array::from_fn(|i| (room + round * BURST as u64 + i as u64).to_le_bytes());
        let new = old.map(|key| (u64::from_le_bytes(key) + entries).to_le_bytes());
        let mut batch = WriteBatch::new();
        for (old, new) in old.iter().zip(&new) {
            batch.delete(old).put(new, old);
        }
        if store.write(&batch, Durability::Buffered).is_err() {
            println!("{:24} {}", "new for old until full", round * BURST as u64);
            return;
        }
    }
    report("deletes and new puts", 2 * rounds * BURST as u64, begin);
}
