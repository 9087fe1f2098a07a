//! Gets and puts of 8 + 8 bytes in bursts of 32 by one thread: nothing but the engine.
//!
//! `cargo run --release -p silica-mica --example bursts [entries] [operations]`
#![allow(clippy::disallowed_methods)] // A benchmark reads the clock.

use silica_base::{HashSeed, Prng};
use silica_engine::{Durability, Engine, EntryRef, Environment, GetSink, OptionValues, WriteBatch};
use silica_mica::{Mica, OPTIONS};
use std::time::Instant;

const BURST: usize = 32;

struct Sum(u64);

impl GetSink for Sum {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let value = entry.value.first_chunk().map_or(0, |value| u64::from_le_bytes(*value));
        self.0 = self.0.wrapping_add(value ^ index as u64);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |a| a.parse().expect("a number"));
    let (entries, operations): (u64, u64) = (number(10_000_000), number(50_000_000));
    let memory = (entries * 88 + (1 << 20)).to_string();
    let options = [("memory_bytes", memory.as_str()), ("entry_bytes_mean", "16")];
    let options = OptionValues::parse(OPTIONS, options).expect("options");
    let environment = Environment::new(HashSeed([1; 16]));
    let mica = Mica::open(&options, &environment).expect("an engine");
    let engine: &dyn Engine = &mica;
    let mut prng = Prng::new(1);
    for (round, share) in [0, 0, 0, 5, 50, 100].into_iter().enumerate() {
        let begin = Instant::now();
        let (mut sum, mut done) = (Sum(0), 0);
        let operations = if round == 0 { 0 } else { operations };
        if round == 0 {
            (0..entries).step_by(BURST).for_each(|at| {
                put(engine, &std::array::from_fn(|i| at + i as u64));
            });
        }
        while done < operations {
            let keys: [u64; BURST] = std::array::from_fn(|_| prng.below(entries));
            if prng.below(100) < share {
                put(engine, &keys);
            } else {
                let bytes = keys.map(u64::to_le_bytes);
                let keys: [&[u8]; BURST] = std::array::from_fn(|i| &bytes[i][..]);
                engine.get_many(&keys, &mut sum).expect("gets");
            }
            done += BURST as u64;
        }
        let (ns, count) =
            (begin.elapsed().as_nanos() as f64, done.max(entries * u64::from(round == 0)));
        let what = if round == 0 { "fill".into() } else { format!("{share:3} % puts") };
        println!("{what:12} {:6.2} M/s  {:6.1} ns", 1e3 * count as f64 / ns, ns / count as f64);
        std::hint::black_box(sum.0);
    }
}

fn put(engine: &dyn Engine, keys: &[u64; BURST]) {
    let bytes = keys.map(u64::to_le_bytes);
    let mut batch = WriteBatch::new();
    bytes.iter().for_each(|key| {
        batch.put(key, key);
    });
    engine.write(&batch, Durability::Buffered).expect("puts");
}
