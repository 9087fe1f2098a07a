//! Which entries a full cache keeps: the hit ratio of each policy at equal memory.
//!
//! `cargo run --release -p silica-bench --example policies -- [memory in MiB] [requests]` draws
//! requests from published distributions: the first half warms the cache up, the second counts.
//!
//! `cargo run --release -p silica-bench --example policies -- [--svg FILE] TRACE...` asks what was
//! asked in recorded traces (docs/formats/trace.md; `.gz` goes through gzip): all requests count,
//! with memory for a part of the entries.
//!
//! A get that finds nothing puts the entry, as a program in front of a database does.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

#[path = "../../mica/examples/modes/draws.rs"]
mod draws;

use draws::Draws;
use silica_base::{HashSeed, Prng};
use silica_bench::charts::{self, Panel, Series};
use silica_bench::{TraceKind, TraceReader};
use silica_engine::{Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues};
use silica_mica::{Mica, OPTIONS};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const POLICIES: [&str; 5] = ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo"];
/// Bytes of a value; an entry takes twice as much as that with its header, key and index.
const VALUE_BYTES: usize = 48;

/// Bytes of a value that a trace says nothing about: a quarter of a page of a file.
const TRACE_VALUE_BYTES: usize = 1024;
/// Memory of a trace's cache, in percent of what all of its entries take.
const PERCENTS: [u64; 5] = [2, 5, 10, 20, 40];

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [flag, file, traces @ ..] if flag == "--svg" => of_traces(traces, Some(Path::new(file))),
        [first, ..] if first.parse::<u64>().is_err() => of_traces(&arguments, None),
        _ => of_distributions(&arguments),
    }
}

fn of_distributions(arguments: &[String]) {
    let mut arguments = arguments.iter();
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
    let mica = open(policy, memory, 8 + VALUE_BYTES as u64);
    let metrics = || counted(&mica);
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

fn open(policy: &str, memory: u64, entry_bytes: u64) -> Mica {
    let (memory, mean) = (memory.to_string(), entry_bytes.to_string());
    let pairs = [
        ("memory_bytes", &memory[..]),
        ("entry_bytes_mean", &mean),
        ("partitions", "1"),
        ("eviction", policy),
    ];
    let options = OptionValues::parse(OPTIONS, pairs).expect("options");
    Mica::open(&options, &Environment::new(HashSeed([1; 16]))).expect("a cache")
}

/// Hits and moves.
fn counted(mica: &Mica) -> [f64; 2] {
    let mut metrics = MetricsMap::default();
    mica.metrics(&mut metrics);
    ["get_hits", "entries_moved"].map(|name| metrics.get(name))
}

/// A request of a trace.
enum Request {
    Get(Vec<u8>),
    Put(Vec<u8>, usize),
    Delete(Vec<u8>),
}

fn read(path: &str) -> Vec<Request> {
    let file = || File::open(path).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
    let input: Box<dyn BufRead> = if path.ends_with(".gz") {
        let mut unpack = Command::new("gzip");
        let unpack = unpack.arg("-dc").stdin(file()).stdout(Stdio::piped()).spawn();
        Box::new(BufReader::new(unpack.expect("gzip").stdout.expect("its output is a pipe")))
    } else {
        Box::new(BufReader::new(file()))
    };
    let mut reader = TraceReader::new(input, path).unwrap_or_else(|e| panic!("{e}"));
    let mut requests = Vec::new();
    while let Some(event) = reader.next().unwrap_or_else(|e| panic!("{e}")) {
        let key = event.key.to_vec();
        requests.push(match event.kind {
            TraceKind::Get => Request::Get(key),
            TraceKind::Put { value_bytes } => Request::Put(key, value_bytes),
            TraceKind::Delete => Request::Delete(key),
            // A cache does not scan.
            TraceKind::Scan { .. } => continue,
        });
    }
    requests
}

/// Hit ratios of every policy on every trace, and a drawing of them.
fn of_traces(traces: &[String], svg: Option<&Path>) {
    let mut panels = Vec::new();
    for path in traces {
        let requests = read(path);
        let mut entries: BTreeMap<&[u8], usize> = BTreeMap::new();
        for request in &requests {
            match request {
                Request::Get(key) => {
                    entries.entry(key).or_insert(TRACE_VALUE_BYTES);
                }
                Request::Put(key, bytes) => {
                    entries.insert(key, *bytes);
                }
                Request::Delete(_) => {}
            }
        }
        let bytes: usize = entries.iter().map(|(key, value)| key.len() + value).sum();
        let mean = (bytes / entries.len().max(1)).max(1) as u64;
        // An entry with its header, and its share of the index.
        let all = entries.len() as u64 * (mean + 8 + 16);
        println!("{path}: {} requests for {} keys", requests.len(), entries.len());
        let mut series: Vec<Vec<(f64, f64)>> = vec![Vec::new(); POLICIES.len()];
        for percent in PERCENTS {
            let memory = all * percent / 100;
            if memory < 64 << 10 {
                continue;
            }
            let ratios = POLICIES.map(|policy| replay(policy, memory, mean, &requests));
            series.iter_mut().zip(ratios).for_each(|(s, ratio)| s.push((percent as f64, ratio)));
            let named = POLICIES.iter().zip(ratios);
            let text: Vec<_> = named.map(|(name, ratio)| format!("{name} {ratio:.1}")).collect();
            println!("  {percent:2} % of the memory: {} % hits", text.join(", "));
        }
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        let title = format!("Hits of {}", name.split('.').next().unwrap_or_default());
        let lines = POLICIES.iter().zip(series).map(|(name, points)| Series::new(name, points));
        let x = "memory in percent of what all entries take";
        panels.push(Panel::lines(&title, x, "percent of gets", lines.collect()));
    }
    if let Some(file) = svg {
        charts::draw(&panels, file).expect("the drawing");
    }
}

/// Percent of the gets that are hits.
fn replay(policy: &str, memory: u64, entry_bytes: u64, requests: &[Request]) -> f64 {
    let mica = open(policy, memory, entry_bytes);
    let (mut gets, now) = (0_u64, Durability::Buffered);
    let value = vec![0; silica_mica::VALUE_BYTES_MAX];
    let put = |key: &[u8], bytes: usize| {
        // What is too large for the cache is no part of it.
        let _ = mica.put(key, &value[..bytes.min(value.len())], now);
    };
    for request in requests {
        match request {
            Request::Get(key) => {
                gets += 1;
                if mica.get(key).expect("a get").is_none() {
                    put(key, TRACE_VALUE_BYTES);
                }
            }
            Request::Put(key, bytes) => put(key, *bytes),
            Request::Delete(key) => mica.delete(key, now).expect("a delete"),
        }
    }
    100.0 * counted(&mica)[0] / gets.max(1) as f64
}
