//! Gets and puts of 8 + 8 bytes (or longer values) in bursts by one thread: nothing but the engine,
//! beside the limit that the machine sets: two cache lines of as much memory for each key,
//! prefetched for a whole burst before the first is read. There are two limits: lines that are
//! prefetched into the second-level cache, as the engine does, and into the first, which has room
//! for fewer at a time.
//!
//! `cargo run --release -p silica-mica --example bursts -- [--entries N] [--operations N]
//! [--burst N] [--rounds N] [--partitions N] [--value-bytes N] [--eviction NAME] [--only NAMES]`
//!
//! What is measured takes turns, and the best round of each counts. `--partitions 1` also measures
//! gets through the shard of the only partition. `--only limit,gets` measures nothing else, for
//! many short rounds; two runs of different length with `--only gets` under callgrind give the
//! instructions of a get. `--eviction none` measures a store.
#![allow(clippy::disallowed_methods)] // A benchmark reads the clock.

use silica_base::{HashSeed, HugeVec, Prng};
use silica_engine::{
    Durability, Engine, EntryRef, Environment, GetSink, MetricsMap, OptionValues, Shard, WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use std::time::{Duration, Instant};

/// Keys of the longest burst.
const BURST_MAX: usize = 64;

struct Sum(u64);

impl GetSink for Sum {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let value = entry.value.first_chunk().map_or(0, |value| u64::from_le_bytes(*value));
        self.0 = self.0.wrapping_add(value ^ index as u64);
    }
}

struct Arguments {
    entries: u64,
    operations: u64,
    burst: usize,
    rounds: u32,
    partitions: u64,
    /// At least 8: a value begins with its key.
    value_bytes: usize,
    eviction: String,
    /// What is measured; all where it is empty.
    only: String,
}

impl Arguments {
    fn read() -> Self {
        let mut all = Arguments {
            entries: 10_000_000,
            operations: 2_000_000,
            burst: 32,
            rounds: 9,
            partitions: 0,
            value_bytes: 8,
            eviction: "s3-fifo".into(),
            only: String::new(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let word = words.next().unwrap_or_default();
            match &name[..] {
                "--only" => all.only = word.clone(),
                "--eviction" => all.eviction = word.clone(),
                _ => {}
            }
            if ["--only", "--eviction"].contains(&&name[..]) {
                continue;
            }
            let number = word.parse().ok();
            let number: u64 = number.unwrap_or_else(|| panic!("{name} takes a number"));
            match &name[..] {
                "--entries" => all.entries = number,
                "--operations" => all.operations = number,
                "--burst" => all.burst = number as usize,
                "--rounds" => all.rounds = number as u32,
                "--partitions" => all.partitions = number,
                "--value-bytes" => all.value_bytes = number.max(8) as usize,
                _ => panic!("{name} is no option"),
            }
        }
        all
    }
}

/// Bursts of keys that are drawn at random.
struct Draws {
    prng: Prng,
    entries: u64,
    keys: Vec<u64>,
    value_bytes: usize,
}

impl Draws {
    fn next(&mut self) -> &[u64] {
        let (prng, entries) = (&mut self.prng, self.entries);
        self.keys.iter_mut().for_each(|key| *key = prng.below(entries));
        &self.keys
    }
}

fn put(engine: &dyn Engine, keys: &[u64], value_bytes: usize) {
    let mut values = vec![0; keys.len() * value_bytes];
    for (key, value) in keys.iter().zip(values.chunks_exact_mut(value_bytes)) {
        value[..8].copy_from_slice(&key.to_le_bytes());
    }
    let mut batch = WriteBatch::new();
    values.chunks_exact(value_bytes).for_each(|value| {
        batch.put(&value[..8], value);
    });
    engine.write(&batch, Durability::Buffered).expect("puts");
}

/// Calls `get` with a burst of keys.
fn get(draws: &mut Draws, bytes: &mut Vec<[u8; 8]>, get: impl FnOnce(&[&[u8]])) {
    bytes.clear();
    bytes.extend(draws.next().iter().map(|key| key.to_le_bytes()));
    let mut keys: [&[u8]; BURST_MAX] = [&[]; BURST_MAX];
    for (key, bytes) in keys.iter_mut().zip(&*bytes) {
        *key = bytes;
    }
    get(&keys[..bytes.len()]);
}

/// Two lines for each key of a burst.
#[inline(always)]
fn two_lines(lines: &[[u64; 8]], draws: &mut Draws, prefetch: impl Fn(&[[u64; 8]], usize)) -> u64 {
    let half = lines.len() as u64 / 2;
    let places = |key: u64| {
        let place = u128::from(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)) * u128::from(half);
        let other = u128::from(key.wrapping_mul(0xD1B5_4A32_D192_ED03)) * u128::from(half);
        ((place >> 64) as usize, half as usize + (other >> 64) as usize)
    };
    let keys = draws.next();
    for key in keys {
        let (first, second) = places(*key);
        prefetch(lines, first);
        prefetch(lines, second);
    }
    keys.iter().map(|key| lines[places(*key).0][0] + lines[places(*key).1][0]).sum()
}

/// Time that this thread has spent on a core, if the system tells: what else runs on the machine
/// then takes only memory from the rates.
fn on_core() -> Option<Duration> {
    // Whoever goes on running is counted only now and then.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

/// How often in a second `work` does what it says how often it did.
fn rate(work: impl FnOnce() -> u64) -> f64 {
    let (begin, wall) = (on_core(), Instant::now());
    let done = work();
    let time = on_core().zip(begin).map_or_else(|| wall.elapsed(), |(end, begin)| end - begin);
    done as f64 / time.as_secs_f64()
}

/// What is measured.
#[derive(Clone, Copy)]
enum Work {
    Limit,
    LimitOfL1,
    Get,
    GetOwned,
    Puts(u64),
}

fn main() {
    let arguments = Arguments::read();
    let entries = arguments.entries;
    assert!(arguments.burst <= BURST_MAX, "a burst has at most {BURST_MAX} keys");
    let memory = entries * (80 + arguments.value_bytes as u64) + (1 << 20);
    let memory_bytes = memory.to_string();
    let partitions = arguments.partitions.to_string();
    let mean = (8 + arguments.value_bytes).to_string();
    let options = [
        ("memory_bytes", &memory_bytes[..]),
        ("entry_bytes_mean", &mean),
        ("partitions", &partitions),
        ("eviction", &arguments.eviction),
    ];
    let options = OptionValues::parse(OPTIONS, options).expect("options");
    let mica = Mica::open(&options, &Environment::new(HashSeed([1; 16]))).expect("an engine");
    let engine: &dyn Engine = &mica;
    let mut metrics = MetricsMap::default();
    engine.metrics(&mut metrics);
    let reserved = metrics.get("reserved_page_bytes") as u64 >> 20;
    println!("memory: {} MiB, {reserved} of them in reserved pages", memory >> 20);
    let all: Vec<u64> = (0..entries).collect();
    let fill = rate(|| {
        all.chunks(arguments.burst).for_each(|keys| put(engine, keys, arguments.value_bytes));
        entries
    });
    drop(all);
    print("fill", fill, &[]);

    // As many lines as the index and the entries take.
    let mut lines =
        HugeVec::<[u64; 8]>::zeroed((entries * (32 + arguments.value_bytes as u64) / 64) as usize);
    lines.fill([1; 8]);
    let mut works =
        vec![("limit", Work::Limit), ("limit of L1", Work::LimitOfL1), ("gets", Work::Get)];
    if arguments.partitions == 1 {
        works.push(("gets by the owner", Work::GetOwned));
    }
    let shares = [("  5 % puts", 5), (" 50 % puts", 50), ("100 % puts", 100)];
    works.extend(shares.map(|(name, share)| (name, Work::Puts(share))));
    let is_wanted = |name: &str| arguments.only.split(',').any(|only| only.trim() == name.trim());
    works.retain(|(name, _)| arguments.only.is_empty() || is_wanted(name));
    assert!(!works.is_empty(), "'{}' is nothing that is measured", arguments.only);
    let mut best = vec![0.0_f64; works.len()];
    let (keys, value_bytes) = (vec![0; arguments.burst], arguments.value_bytes);
    let mut draws = Draws { prng: Prng::new(1), entries, keys, value_bytes };
    for _ in 0..arguments.rounds {
        for ((_, work), best) in works.iter().zip(&mut best) {
            let bursts = arguments.operations / arguments.burst as u64;
            let rate = rate(|| {
                run(*work, engine, &lines, &mut draws, bursts);
                bursts * arguments.burst as u64
            });
            *best = best.max(rate);
        }
    }
    // Shares of the limits that were measured.
    let is_limit = |work: &Work| matches!(work, Work::Limit | Work::LimitOfL1);
    let limits: Vec<f64> = works
        .iter()
        .zip(&best)
        .filter(|((_, work), _)| is_limit(work))
        .map(|(_, rate)| *rate)
        .collect();
    for ((name, _), rate) in works.iter().zip(&best) {
        print(name, *rate, &limits);
    }
}

fn run(work: Work, engine: &dyn Engine, lines: &[[u64; 8]], draws: &mut Draws, bursts: u64) {
    let sharded = engine.as_sharded().expect("the engine has shards");
    let mut shard: Option<Box<dyn Shard>> =
        matches!(work, Work::GetOwned).then(|| sharded.take(0).expect("nobody owns it"));
    let (mut sum, mut bytes) = (Sum(0), Vec::new());
    for _ in 0..bursts {
        match work {
            Work::Limit => sum.0 += two_lines(lines, draws, silica_base::prefetch_burst),
            Work::LimitOfL1 => sum.0 += two_lines(lines, draws, silica_base::prefetch),
            Work::Puts(share) if draws.prng.below(100) < share => {
                let value_bytes = draws.value_bytes;
                put(engine, draws.next(), value_bytes);
            }
            Work::Get | Work::Puts(_) => get(draws, &mut bytes, |keys| {
                engine.get_many(keys, &mut sum).expect("gets");
            }),
            Work::GetOwned => get(draws, &mut bytes, |keys| {
                let shard = shard.as_mut().expect("taken above");
                shard.get_many(keys, &mut sum).expect("gets");
            }),
        }
    }
    std::hint::black_box(sum.0);
}

fn print(name: &str, rate: f64, limits: &[f64]) {
    let share = |limit: &f64| format!("  {:4.0} %", 100.0 * rate / limit);
    let shares: String = limits.iter().map(share).collect();
    println!("{name:18} {:6.2} M/s  {:6.1} ns{shares}", rate / 1e6, 1e9 / rate);
}
