//! Which entries a full cache keeps: the hit ratio of each policy at equal memory.
//!
//! `cargo run --release -p silica-mica --example policies -- [memory in MiB] [requests]`
//!
//! A get that finds nothing puts the entry, as a program in front of a database does. The first
//! half of the requests warms the cache up, the second half counts. Requests are drawn from
//! published distributions; no recorded trace is among them.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

#[path = "modes/draws.rs"]
mod draws;

use draws::Draws;
use silica_base::{HashSeed, Prng};
use silica_engine::{Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues};
use silica_mica::{Mica, OPTIONS};
use std::time::Instant;

const POLICIES: [&str; 4] = ["fifo", "lru", "approximate-lru", "second-chance"];
/// Bytes of a value; an entry takes twice as much as that with its header, key and index.
const VALUE_BYTES: usize = 48;

/// A stream of keys.
trait Stream {
    fn next(&mut self) -> u64;
}

struct Zipf(Draws);

impl Stream for Zipf {
    fn next(&mut self) -> u64 {
        self.0.next().0
    }
}

/// Zipf's law over age; one request in twenty is for a key that is new.
struct Latest {
    draws: Draws,
    newest: u64,
    prng: Prng,
}

impl Stream for Latest {
    fn next(&mut self) -> u64 {
        if self.prng.one_in(20) {
            self.newest += 1;
            return self.newest;
        }
        self.newest - self.draws.rank().min(self.newest)
    }
}

/// Nine tenths of the requests for a set of keys that takes half of the memory; between them scans
/// of keys that are asked for once.
struct HotWithScans {
    hot: u64,
    scan: u64,
    left: u64,
    prng: Prng,
}

impl Stream for HotWithScans {
    fn next(&mut self) -> u64 {
        if self.left > 0 {
            self.left -= 1;
            self.scan += 1;
            return self.scan;
        }
        if self.prng.one_in(9 * 1000) {
            self.left = 1000;
        }
        self.prng.below(self.hot)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |a| a.parse().expect("a number"));
    let (memory, requests): (u64, u64) = (number(16_u64) << 20, number(4_000_000));
    let holds = memory / 90;
    type Begin<'a> = &'a dyn Fn() -> Box<dyn Stream>;
    let streams: [(&str, Begin<'_>); 4] = [
        ("zipf 0.99, 10 times the memory", &|| Box::new(Zipf(Draws::new(10 * holds, Some(0.99))))),
        ("zipf 0.8, 10 times the memory", &|| Box::new(Zipf(Draws::new(10 * holds, Some(0.8))))),
        ("latest", &|| {
            let draws = Draws::new(10 * holds, Some(0.99));
            Box::new(Latest { draws, newest: 10 * holds, prng: Prng::new(3) })
        }),
        ("hot set with scans", &|| {
            Box::new(HotWithScans { hot: holds / 2, scan: 1 << 40, left: 0, prng: Prng::new(3) })
        }),
    ];
    for (name, stream) in streams {
        println!("{name}");
        for policy in POLICIES {
            let begin = Instant::now();
            let (ratio, moved) = hit_ratio(policy, memory, requests, &mut *stream());
            let seconds = begin.elapsed().as_secs_f64();
            println!(
                "  {policy:16} {ratio:6.2} % hits  {moved:5.3} moves a request  {seconds:.1} s"
            );
        }
    }
}

/// Percent of the second half of the requests that are hits, and moves for each of these requests.
fn hit_ratio(policy: &str, memory: u64, requests: u64, stream: &mut dyn Stream) -> (f64, f64) {
    let memory = memory.to_string();
    let pairs = [
        ("memory_bytes", &memory[..]),
        ("entry_bytes_mean", "56"),
        ("partitions", "1"),
        ("eviction", policy),
    ];
    let options = OptionValues::parse(OPTIONS, pairs).expect("options");
    let mica = Mica::open(&options, &Environment::new(HashSeed([1; 16]))).expect("a cache");
    let metrics = || {
        let mut metrics = MetricsMap::default();
        mica.metrics(&mut metrics);
        ["get_hits", "entries_moved"].map(|name| metrics.get(name))
    };
    let mut before = metrics();
    for number in 0..requests {
        if number == requests / 2 {
            before = metrics();
        }
        let key = stream.next().to_le_bytes();
        if mica.get(&key).expect("a get").is_none() {
            mica.put(&key, &[0; VALUE_BYTES], Durability::Buffered).expect("a put");
        }
    }
    let after = metrics();
    let counted = (requests - requests / 2) as f64;
    (100.0 * (after[0] - before[0]) / counted, (after[1] - before[1]) / counted)
}
