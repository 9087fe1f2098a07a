//! What a get costs more through a keyspace's engine, which a migration may replace at any time,
//! than through that engine alone: gets of keys that are in memory, one by one.
//!
//! `cargo run --release -p silica --example switch -- DIR`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use silica_base::HashSeed;
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{Durability, Engine, EngineExt, EntryRef, Environment, GetSink, OptionValues};
use silica_wip::Wip;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const KEYS: u64 = 1000;
const ROUNDS: usize = 400;

struct Nothing;

impl GetSink for Nothing {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        std::hint::black_box(entry.value);
    }
}

/// Nanoseconds of a get, while all keys are got once.
fn time(engine: &dyn Engine) -> f64 {
    let start = Instant::now();
    for n in 0..KEYS {
        engine.get_many(&[&n.to_be_bytes()], &mut Nothing).expect("a get");
    }
    start.elapsed().as_nanos() as f64 / KEYS as f64
}

fn main() -> silica::Result<()> {
    let dir = std::env::args().nth(1).expect("a directory");
    let store = silica::open(Path::new(&dir).join("store"))?;
    let keyspace = store.keyspace("k")?;
    let device = FileDevice::open(&Path::new(&dir).join("alone"), DeviceOptions::default())?;
    let environment = Environment::new(HashSeed([1; 16]));
    let alone: Arc<dyn Engine> =
        Arc::new(Wip::open(device, &OptionValues::default(), &environment)?);
    let engines = [&alone, keyspace.engine()];
    for n in 0..KEYS {
        for engine in engines {
            engine.put(&n.to_be_bytes(), &[7; 100], Durability::Buffered)?;
        }
    }
    // The machine does other things, too: the least of many rounds is what a get takes.
    let mut least = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        for (least, engine) in least.iter_mut().zip(engines) {
            *least = least.min(time(&**engine));
        }
    }
    println!("a get takes {:.0} ns, through the keyspace's engine {:.0} ns", least[0], least[1]);
    Ok(())
}
