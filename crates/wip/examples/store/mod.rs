//! The store that examples read: keys of 16 bytes at random places, values of 100.

use silica_base::{HashSeed, Prng};
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{Budget, Durability, Engine, Environment, OptionValues, WriteBatch};
use silica_wip::Wip;
use std::path::Path;

/// Entries of one batch of the fill.
const BATCH: u64 = 1000;

/// Key `n`.
pub(crate) fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&Prng::new(n).next_u64().to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Opens the store in `dir` with so much memory and these options (`name=value`).
pub(crate) fn open(dir: &Path, memory_mib: u64, pairs: &[String]) -> Wip<FileDevice> {
    let device = FileDevice::open(dir, DeviceOptions::default()).expect("the directory");
    let mut options = OptionValues::default();
    options.set("memory_bytes", memory_mib << 20);
    for pair in pairs {
        let (name, value) = pair.split_once('=').expect("name=value");
        options.set(name, value.parse().expect("a number"));
    }
    let environment = Environment::new(HashSeed([1; 16]));
    Wip::open(device, &options, &environment).expect("it opens")
}

/// Does all maintenance that waits.
pub(crate) fn settle(wip: &Wip<FileDevice>) {
    while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
}

/// Puts keys `0..entries`, where the last of them is not there yet.
pub(crate) fn fill(wip: &Wip<FileDevice>, entries: u64) {
    use silica_engine::EngineExt;
    if wip.get(&key(entries - 1)).expect("a get").is_some() {
        return;
    }
    let value = [7u8; 100];
    for start in (0..entries).step_by(BATCH as usize) {
        let keys: Vec<_> = (start..entries.min(start + BATCH)).map(key).collect();
        let mut batch = WriteBatch::new();
        for key in &keys {
            batch.put(key, &value);
        }
        wip.write(&batch, Durability::Buffered).expect("a batch");
        settle(wip);
    }
}
