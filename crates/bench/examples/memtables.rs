//! Inserts per second into many memtables at once: hash tables with and without huge pages, lists,
//! and one list for all, as Figure 2.3 of the paper has them.
//!
//! `cargo run --release -p silica-bench --example memtables [-- SVG]`
#![allow(clippy::disallowed_methods)] // A benchmark starts itself and reads the clock.

use silica_base::{HashSeed, Prng, use_plain_pages};
use silica_bench::charts::{self, Panel, Series};
use silica_parts::frame::Frame;
use silica_wip::memtable::{Entries, Memtable};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Entries of each memtable, as in the paper.
const ENTRIES: usize = 10_000;
const MEMTABLES: [usize; 5] = [1, 4, 16, 64, 256];
const KINDS: [&str; 4] = ["hash, huge pages", "hash", "lists", "one list"];
const SEED: HashSeed = HashSeed([5; 16]);

/// Entries one after the other, as in the log.
struct Log(Vec<u8>);

impl Log {
    fn push(&mut self, key: &[u8], value: &[u8]) -> u64 {
        // Nothing is at the beginning of a log.
        self.0.resize(self.0.len().max(64).next_multiple_of(8), 0);
        let position = self.0.len() as u64 / 8;
        Frame::put(key, value).encode(&mut self.0);
        position
    }
}

impl Entries for Log {
    fn entry(&self, position: u64) -> Frame<'_> {
        Frame::decode(&self.0[8 * position as usize..]).expect("an entry").0
    }
}

/// Millions of inserts per second into so many memtables.
fn measure(kind: &str, count: usize) -> f64 {
    if kind != KINDS[0] {
        use_plain_pages();
    }
    let (new, tables): (fn() -> Memtable, usize) = match kind {
        "lists" => (Memtable::new_list, count),
        "one list" => (Memtable::new_list, 1),
        _ => (Memtable::new_hash, count),
    };
    let mut memtables: Vec<Memtable> = (0..tables).map(|_| new()).collect();
    let entries = ENTRIES * count;
    let mut log = Log(Vec::with_capacity(64 * entries));
    let mut prng = Prng::new(1);
    let start = Instant::now();
    for _ in 0..entries {
        let number = prng.next_u64();
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_be_bytes());
        let position = log.push(&key, &[7; 20]);
        // Buckets are ranges of keys.
        let bucket = ((u128::from(number) * tables as u128) >> 64) as usize;
        let memtable = &mut memtables[bucket];
        let inserted = loop {
            match memtable.insert(SEED.low(&key), &key, position, 0, &log) {
                Err(_) if !memtable.is_large() => memtable.grow(SEED, &log).expect("it grows"),
                inserted => break inserted,
            }
        };
        inserted.expect("there is room");
    }
    entries as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, kind, count] = &args[..] {
        println!("{}", measure(kind, count.parse().expect("a number")));
        return;
    }
    let file = args.get(1).map_or("docs/benchmarks/wip-memtables.svg", String::as_str);
    let series = KINDS.map(|kind| {
        let points: Vec<(f64, f64)> =
            MEMTABLES.map(|count| (count as f64, in_child(kind, count))).into();
        let text: Vec<String> = points.iter().map(|(n, rate)| format!("{n}: {rate:.2}")).collect();
        println!("{kind}: M inserts/s by memtables: {}", text.join(", "));
        Series::new(kind, points)
    });
    let panel = Panel::lines(
        "Inserts into memtables of 10,000 entries",
        "memtables",
        "million inserts per second",
        series.into(),
    );
    charts::draw(&[panel], Path::new(file)).expect("the drawing");
}

/// A measurement in a process of its own, whose memory nothing else used before.
fn in_child(kind: &str, count: usize) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).args([kind, &count.to_string()]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("a number");
    text.trim().parse().expect("a number")
}
