//! What a get of a database costs beside one of a cache that has no others.
//!
//! ```
//! cargo run --release -p silica-mica --example databases
//! ```

use silica_base::{HashSeed, Prng};
use silica_engine::{Durability, Engine, EngineExt, EntryRef, Environment, GetSink, OptionValues};
use silica_mica::{Mica, MicaDatabases, OPTIONS};
use std::sync::Arc;
use std::time::Instant;

const KEYS: u64 = 500_000;
/// Rounds, of which the fastest counts: short ones, so that some are not interrupted.
const ROUNDS: usize = 3000;
const GETS_PER_ROUND: usize = 4096;

struct Count(u64);

impl GetSink for Count {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        self.0 += entry.value.len() as u64;
    }
}

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Nanoseconds a get, in bursts of `burst` keys.
fn measure(engine: &dyn Engine, burst: usize, seed: u64) -> f64 {
    let (mut prng, mut found) = (Prng::new(seed), Count(0));
    let bursts = GETS_PER_ROUND / burst;
    let began = Instant::now();
    for _ in 0..bursts {
        let keys: Vec<[u8; 16]> = (0..burst).map(|_| key(prng.below(KEYS))).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        engine.get_many(&keys, &mut found).expect("found");
    }
    let took = began.elapsed().as_nanos() as f64;
    assert!(found.0 > 0);
    took / (bursts * burst) as f64
}

fn main() {
    let environment = Environment::new(HashSeed([7; 16]));
    let mut options = OptionValues::parse(OPTIONS, [("reserved_pages", "off")]).expect("valid");
    options.set("memory_bytes", 256 << 20);
    let plain: Arc<dyn Engine> = Arc::new(Mica::open(&options, &environment).expect("it opens"));
    let all = MicaDatabases::open(&options, &environment).expect("it opens");
    let database = |number| all.database(number, Arc::new(())).expect("it is there");
    let engines = [("alone", plain), ("database 0", database(0)), ("database 1", database(1))];
    for (_, engine) in &engines {
        (0..KEYS).for_each(|n| engine.put(&key(n), &[1; 64], Durability::Buffered).expect("put"));
    }
    for burst in [1, 16, 64] {
        let mut best = [f64::MAX; 3];
        for round in 0..ROUNDS {
            for (best, (_, engine)) in best.iter_mut().zip(&engines) {
                *best = best.min(measure(&**engine, burst, round as u64));
            }
        }
        for (best, (name, _)) in best.iter().zip(&engines) {
            println!("bursts of {burst}: {name}: {best:.1} ns a get");
        }
    }
}
