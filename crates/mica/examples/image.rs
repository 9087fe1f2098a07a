//! Fills a cache, leaves its memory image and takes it back: seconds for each way.
//!
//! `cargo run --release -p silica-mica --example image -- [SIZE [DIR [VALUE_BYTES]]]`

use silica_base::{HashSeed, Result};
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{
    Admin, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, WriteBatch,
    parse_size,
};
use silica_mica::{Mica, OPTIONS};
use std::path::Path;
use std::time::Instant;

fn open(memory: u64, directory: &Path) -> Result<Mica> {
    let mut options = OptionValues::parse(OPTIONS, [("warm_restart", "on")])?;
    options.set("memory_bytes", memory);
    let device = FileDevice::open(directory, DeviceOptions::default())?;
    Mica::open_on(device, &options, &Environment::new(HashSeed([1; 16])))
}

fn entries(mica: &Mica) -> f64 {
    let mut metrics = MetricsMap::default();
    mica.metrics(&mut metrics);
    metrics.get("entries_estimate")
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let memory = args.next().map_or(Some(1 << 30), |text| parse_size(&text)).expect("a size");
    let directory = args.next().unwrap_or_else(|| "/dev/shm/silica-image".into());
    let value = vec![7; args.next().map_or(100, |text| text.parse().expect("a number of bytes"))];
    let directory = Path::new(&directory);
    let mica = open(memory, directory)?;
    for first in (0..2 * memory / (24 + value.len() as u64)).step_by(32) {
        let keys: [[u8; 8]; 32] = std::array::from_fn(|i| (first + i as u64).to_le_bytes());
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| {
            batch.put(key, &value);
        });
        mica.write(&batch, Durability::Buffered)?;
    }
    let full = entries(&mica);
    let gib = memory as f64 / f64::from(1 << 30);
    let start = Instant::now();
    mica.close(&mut |_, _| {})?;
    let left = start.elapsed().as_secs_f64();
    drop(mica);
    let start = Instant::now();
    let mica = open(memory, directory)?;
    let taken = start.elapsed().as_secs_f64();
    assert_eq!(entries(&mica), full, "everything is back");
    println!(
        "{full} entries in {gib:.2} GiB: left in {left:.2} s ({:.2} s/GiB), taken in {taken:.2} s \
         ({:.2} s/GiB)",
        left / gib,
        taken / gib
    );
    assert!(mica.get(&0_u64.to_le_bytes())?.is_none(), "the oldest went");
    Ok(())
}
