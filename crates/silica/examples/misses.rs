//! Gets of keys that are not there, one by one, with little memory: 132,104 entries of 16 + 1000
//! bytes, 32 MiB.
//!
//! `cargo run --release -p silica --example misses -- DIR` prints gets a second of `silt` and
//! `wip`, in turns. `misses DIR ENGINE CALLS` makes so many gets of one engine and says nothing,
//! for callgrind: `--toggle-collect='*misses*make*'` leaves out what comes before.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use silica::engine::Durability;
use silica::{Keyspace, OpenOptions, Result};
use std::path::Path;
use std::time::Instant;

const ENTRIES: u64 = 132_104;
const ENGINES: [&str; 2] = ["silt", "wip"];
const ROUNDS: usize = 15;
const CALLS: u64 = 100_000;

fn key(n: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// A store of `engine` below `directory`, full and at rest.
fn stage(directory: &Path, engine: &str) -> Result<Keyspace> {
    let options = OpenOptions::new().engine(engine).memory_bytes(32 << 20).seed([7; 16]);
    let options = options.background_threads(0).durability(Durability::Buffered);
    let store = options.open(directory.join(engine))?;
    let keyspace = store.keyspace("default")?;
    // A store that is dropped is closed.
    std::mem::forget(store);
    for n in 0..ENTRIES {
        keyspace.put(key(n), [n as u8; 1000])?;
        if n % 4096 == 0 {
            keyspace.settle()?;
        }
    }
    keyspace.settle()?;
    Ok(keyspace)
}

#[inline(never)]
fn make(keyspace: &Keyspace, range: std::ops::Range<u64>) -> Result<()> {
    for n in range {
        assert!(keyspace.get(key(ENTRIES + n))?.is_none());
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [directory] => {
            let stages = ENGINES.map(|engine| stage(Path::new(directory), engine));
            let stages = stages.into_iter().collect::<Result<Vec<_>>>()?;
            let mut rates = [const { Vec::new() }; ENGINES.len()];
            for round in 0..ROUNDS as u64 {
                for (rates, keyspace) in rates.iter_mut().zip(&stages) {
                    let start = Instant::now();
                    make(keyspace, round * CALLS..(round + 1) * CALLS)?;
                    rates.push(CALLS as f64 / start.elapsed().as_secs_f64() / 1e6);
                }
            }
            for (engine, rates) in ENGINES.iter().zip(&mut rates) {
                rates.sort_by(f64::total_cmp);
                println!("{engine}: {:.2} million misses a second", rates[ROUNDS / 2]);
            }
        }
        [directory, engine, calls] => {
            let keyspace = stage(Path::new(directory), engine)?;
            make(&keyspace, 0..calls.parse().expect("a number of calls"))?;
        }
        _ => eprintln!("usage: misses DIR [ENGINE CALLS]"),
    }
    Ok(())
}
