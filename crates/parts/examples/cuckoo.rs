//! Occupancy, inserts and lookups of cuckoo tables.
//!
//! ```text
//! cargo run --release -p silica-parts --example cuckoo -- [--keys N] [--slots N]
//!     [--block-log2 N] [--tag-bits N] [--curve]
//! ```

use silica_base::{Histogram, HugeVec, KeyHash, Prng};
use silica_parts::cuckoo::{CuckooTable, Geometry, TagFilter, lookup_many};
use std::hint::black_box;
use std::time::{Duration, Instant};

struct Options {
    keys: u64,
    slots: u32,
    block_log2: Option<u32>,
    tag_bits: u32,
    curve: bool,
}

fn options() -> Options {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = args.iter().position(|a| a == name)?;
        Some(args.get(at + 1)?.parse::<u64>().expect("a number after the flag"))
    };
    Options {
        keys: number("--keys").unwrap_or(126_000_000),
        slots: number("--slots").unwrap_or(1 << 17) as u32,
        block_log2: number("--block-log2").map(|n| n as u32),
        tag_bits: number("--tag-bits").unwrap_or(15) as u32,
        curve: args.iter().any(|a| a == "--curve"),
    }
}

/// The hash of key `i` of table `table`: computed, so that a lookup needs no list of keys.
fn hash(table: u64, i: u64) -> KeyHash {
    let mut prng = Prng::new((table << 32 | i).wrapping_mul(0xD6E8_FEB8_6659_FD93));
    KeyHash(u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64()))
}

fn fill(geometry: Geometry, id: u64) -> CuckooTable {
    let mut table = CuckooTable::new(geometry, id);
    for i in 0.. {
        if table.insert(hash(id, i), i as u32).is_err() {
            return table;
        }
    }
    unreachable!("a table fills up")
}

fn occupancy(geometry: Geometry, tables: u64) -> (f64, f64) {
    let shares: Vec<f64> = (0..tables)
        .map(|id| f64::from(fill(geometry, id).len()) / f64::from(geometry.slots()))
        .collect();
    let mean = shares.iter().sum::<f64>() / tables as f64;
    (mean, shares.iter().copied().fold(1.0, f64::min))
}

fn print_curve(tag_bits: u32) {
    println!("occupancy at the first failed insert, {tag_bits}-bit tags: mean (least) of 20");
    print!("{:>14}", "block buckets");
    let sizes: Vec<u32> = (15..=19).collect();
    sizes.iter().for_each(|log2| print!(" {:>17}", format!("2^{log2} slots")));
    println!();
    for block_log2 in 8..=14 {
        print!("{:>14}", 1 << block_log2);
        for log2 in &sizes {
            match (1u32 << (log2 - 2)) >> block_log2 {
                0 => print!(" {:>17}", "-"),
                blocks => {
                    let shape = Geometry::new(0, blocks, block_log2, tag_bits).expect("a shape");
                    let (mean, least) = occupancy(shape, 20);
                    print!("   {:.2} % ({:.2} %)", 100.0 * mean, 100.0 * least);
                }
            }
        }
        println!();
    }
}

/// Time that this thread has spent on a processor, so that a rate per core does not depend on
/// what else runs; where the system does not tell, the wall clock serves.
struct CoreTime {
    on_core: Option<Duration>,
    wall: Instant,
}

impl CoreTime {
    fn now() -> Self {
        CoreTime { on_core: Self::read(), wall: Instant::now() }
    }

    fn read() -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
    }

    fn elapsed(&self) -> Duration {
        let on_core = self.on_core.and_then(|start| Some(Self::read()? - start));
        on_core.unwrap_or_else(|| self.wall.elapsed())
    }
}

fn per_second(count: u64, start: CoreTime) -> f64 {
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The best of five rounds: other work on the machine only ever slows a round down.
fn best_rate(count: u64, mut round: impl FnMut()) -> f64 {
    let rates = (0..5).map(|_| {
        let start = CoreTime::now();
        round();
        per_second(count, start)
    });
    rates.fold(0.0, f64::max)
}

/// Inserts spread over all tables as a log store sees them, in bursts that are prefetched, until
/// every table had its first failed insert.
fn insert_spread(geometry: Geometry, tables: u64) -> (Vec<CuckooTable>, f64) {
    let mut all: Vec<CuckooTable> = (0..tables).map(|id| CuckooTable::new(geometry, id)).collect();
    let mut open: Vec<u64> = (0..tables).collect();
    let start = CoreTime::now();
    for i in 0.. {
        let mut full = Vec::new();
        for burst in open.chunks(32) {
            for t in burst {
                all[*t as usize].prefetch(hash(*t, i));
            }
            for t in burst {
                if all[*t as usize].insert(hash(*t, i), i as u32).is_err() {
                    full.push(*t);
                }
            }
        }
        if !full.is_empty() {
            open.retain(|t| !full.contains(t));
            if open.is_empty() {
                break;
            }
        }
    }
    let inserted = all.iter().map(|table| u64::from(table.len())).sum();
    let rate = per_second(inserted, start);
    (all, rate)
}

/// What the memory allows: pairs of random lines as far apart as a lookup's, asked for in bursts.
fn prefetch_limit(buckets: usize) -> f64 {
    let mut lines = HugeVec::<[u64; 3]>::zeroed(buckets);
    lines.fill([1; 3]);
    let mut prng = Prng::new(9);
    let pairs: Vec<(u32, u32)> = (0..4 << 20)
        .map(|_| {
            let first = prng.below(buckets as u64 - 4096) as u32 & !4095;
            (first + prng.below(2048) as u32, first + prng.below(2048) as u32)
        })
        .collect();
    best_rate(pairs.len() as u64, || {
        let mut sum = 0;
        for burst in pairs.chunks(32) {
            for (a, b) in burst {
                silica_base::prefetch(&lines, *a as usize);
                silica_base::prefetch(&lines, *b as usize);
            }
            sum +=
                burst.iter().map(|p| lines[p.0 as usize][0] + lines[p.1 as usize][0]).sum::<u64>();
        }
        assert_eq!(sum as usize, 2 * pairs.len());
    })
}

fn random_keys(seed: u64, count: usize, tables: &[CuckooTable]) -> Vec<(u32, u32)> {
    let mut prng = Prng::new(seed);
    let key = |_| {
        let table = prng.below(tables.len() as u64);
        (table as u32, prng.below(u64::from(tables[table as usize].len())) as u32)
    };
    (0..count).map(key).collect()
}

fn look_up(tables: &[CuckooTable]) {
    let keys = random_keys(1, 4 << 20, tables);
    let hashes: Vec<KeyHash> =
        keys.iter().map(|(t, i)| hash(u64::from(*t), u64::from(*i))).collect();
    let count = hashes.len() as u64;
    let table = |i: usize| &tables[keys[i].0 as usize];
    let rate = best_rate(count, || {
        let mut hits = 0u64;
        lookup_many(&hashes, table, |i, mut found| {
            let hit = found.any(|(_, value)| value == keys[i].1);
            hits += u64::from(hit);
            hit
        });
        assert_eq!(hits, count, "every key is found");
    });
    println!("lookups, bursts of 32: {rate:.1} M/s (hits)");
    let miss = |i: usize| &tables[(keys[i].0 as usize + 1) % tables.len()];
    let mut false_tags = 0u64;
    let rate = best_rate(count, || {
        false_tags = 0;
        lookup_many(&hashes, miss, |_, found| {
            false_tags += found.count() as u64;
            false
        });
    });
    let share = 100.0 * false_tags as f64 / count as f64;
    println!("lookups, bursts of 32: {rate:.1} M/s (misses; {share:.4} % false tags)");

    let rate = best_rate(count, || {
        let hit = |(key, h): (&(u32, u32), &KeyHash)| {
            tables[key.0 as usize].candidates(*h).any(|(_, value)| value == key.1)
        };
        assert_eq!(keys.iter().zip(&hashes).filter(|k| hit(*k)).count() as u64, count);
    });
    println!("lookups, independent singles: {rate:.1} M/s");

    let mut latency = Histogram::default();
    for (key, h) in keys.iter().zip(&hashes).take(1 << 20) {
        let start = Instant::now();
        black_box(tables[key.0 as usize].candidates(*h).any(|(_, value)| value == key.1));
        latency.record(start.elapsed().as_nanos() as u64);
    }
    let (p50, p99) = (latency.quantile(0.5), latency.quantile(0.99));
    println!("single lookup latency: p50 {p50} ns, p99 {p99} ns (clock included)");
}

fn look_up_filters(tables: &[CuckooTable]) {
    let start = CoreTime::now();
    let filters: Vec<TagFilter> = tables.iter().map(CuckooTable::filter).collect();
    let keys: u64 = tables.iter().map(|t| u64::from(t.len())).sum();
    let bits = 8.0 * filters.iter().map(TagFilter::bytes).sum::<usize>() as f64 / keys as f64;
    println!("filters: built at {:.1} M keys/s, {bits:.2} bits per key", per_second(keys, start));
    let keys = random_keys(2, 4 << 20, tables);
    let hashes: Vec<KeyHash> =
        keys.iter().map(|(t, i)| hash(u64::from(*t), u64::from(*i))).collect();
    for (name, shift) in [("hits", 0), ("misses", 1)] {
        let mut ranks = 0;
        let filter = |i: usize| &filters[(keys[i].0 as usize + shift) % filters.len()];
        let rate = best_rate(hashes.len() as u64, || {
            ranks = 0;
            for first in (0..hashes.len()).step_by(32) {
                (first..first + 32).for_each(|i| filter(i).prefetch(hashes[i]));
                ranks += (first..first + 32)
                    .map(|i| filter(i).candidates(hashes[i]).count())
                    .sum::<usize>();
            }
        });
        println!("filter lookups, bursts of 32: {rate:.1} M/s ({name}; {ranks} ranks)");
    }
}

fn main() {
    let options = options();
    if options.curve {
        return print_curve(options.tag_bits);
    }
    let default = Geometry::with_slots(0, options.slots, options.tag_bits).expect("a shape");
    let geometry = options.block_log2.map_or(default, |log2| {
        let blocks = options.slots.div_ceil(4 << log2);
        Geometry::new(0, blocks, log2, options.tag_bits).expect("a shape")
    });
    let (mean, least) = occupancy(geometry, 50);
    println!("{geometry:?}: {} slots", geometry.slots());
    println!("occupancy at the first failed insert: {:.2} % ({:.2} %)", 100. * mean, 100. * least);

    let id = 1_000_000;
    let (count, mut inserted) = (20_000_000, 0);
    let hashes: Vec<KeyHash> = (0..geometry.slots()).map(|i| hash(id, i.into())).collect();
    let mut table = CuckooTable::new(geometry, id);
    let start = CoreTime::now();
    while inserted < count {
        table.clear();
        let full = hashes.iter().position(|h| table.insert(*h, 1).is_err());
        inserted += full.expect("a table fills up") as u64;
    }
    println!("inserts, one table after the other: {:.1} M/s", per_second(inserted, start));
    drop(table);

    let tables = (options.keys as f64 / (f64::from(geometry.slots()) * mean)).ceil().max(1.0);
    let (all, rate) = insert_spread(geometry, tables as u64);
    let keys: u64 = all.iter().map(|table| u64::from(table.len())).sum();
    let slots = f64::from(geometry.slots()) * tables;
    let bytes: usize = all.iter().map(CuckooTable::bytes).sum();
    println!(
        "{tables} tables: {keys} keys, {:.2} % of all slots, {:.1} MiB, {:.2} bytes per key",
        100.0 * keys as f64 / slots,
        bytes as f64 / 1048576.0,
        bytes as f64 / keys as f64
    );
    println!("inserts, bursts of 32 spread over all tables: {rate:.1} M/s (hashing included)");
    let limit = prefetch_limit(all.len() * geometry.buckets() as usize);
    println!("limit: two lines per lookup from as much memory, bursts of 32: {limit:.1} M/s");
    look_up(&all);
    look_up_filters(&all);
}
