//! A cache over the key-value level that evicts its oldest block: hits, pages written and erases
//! for each item, on simulated flash with the times of 003…, 2.2.
//!
//! `cargo run --release -p silica-flash --example kv`

use silica_base::{HashSeed, Prng, Result, Zipf};
use silica_device::blocks::{FlashDevice, Geometry};
use silica_device::sim::{FlashTiming, SimFlash, SimFlashOptions};
use silica_flash::functions::{FunctionOptions, Functions};
use silica_flash::kv::{KeyValues, KvOptions};

const KEYS: u64 = 200_000;
const GETS: u64 = 400_000;
const VALUE_BYTES: usize = 250;

fn main() -> Result<()> {
    println!("cache %  hits %  pages written/put  read/get  blocks erased  virtual s");
    for blocks in [6, 12, 24] {
        row(blocks)?;
    }
    Ok(())
}

fn row(blocks: u32) -> Result<()> {
    let geometry =
        Geometry { channels: 4, luns: 1, blocks, pages: 64, page_bytes: 4096, spare_bytes: 0 };
    let timing = FlashTiming {
        read_ns: 50_000,
        program_ns: 600_000,
        erase_ns: 5_000_000,
        transfer_ns: 10_000,
    };
    let options = SimFlashOptions { timing, ..SimFlashOptions::flash(geometry) };
    let flash = SimFlash::new(1, options);
    let functions = Functions::open(flash.clone(), FunctionOptions::default())?;
    let options = KvOptions { store: 1, seed: HashSeed([7; 16]) };
    let mut items = KeyValues::open(functions, options)?;
    let (mut prng, zipf) = (Prng::new(1), Zipf::new(KEYS, 0.99));
    let (mut hits, mut puts, mut value) = (0, 0, Vec::new());
    for _ in 0..GETS {
        let key = zipf.rank(&mut prng).to_le_bytes();
        if items.get(&key, &mut value)? {
            hits += 1;
            continue;
        }
        puts += 1;
        while let Err(error) = items.put(&key, &[5; VALUE_BYTES]) {
            let Some(oldest) = items.blocks().next() else { return Err(error) };
            items.evict(oldest.block)?;
            items.functions().erase_pending(1)?;
        }
    }
    let counts = flash.counters().total();
    println!(
        "{:7.0}  {:6.1}  {:17.3}  {:8.2}  {:13}  {:9.1}",
        100.0 * geometry.capacity_bytes() as f64 / (KEYS as usize * VALUE_BYTES) as f64,
        100.0 * f64::from(hits) / GETS as f64,
        counts.programs as f64 / f64::from(puts),
        counts.reads as f64 / GETS as f64,
        counts.erases,
        flash.now_ns() as f64 / 1e9
    );
    Ok(())
}
