//! Promise 7: under load the store stays within the memory number that it was given, plus 10 %.
//! Alone in its process, because it looks at the whole process.
#![cfg(target_os = "linux")]

use silica_base::{HashSeed, Prng, test_size};
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues, WriteBatch};
use silica_wip::Wip;

const MEMORY: u64 = 64 << 20;
/// What a process takes that does nothing.
const PROCESS: u64 = 8 << 20;
const BATCH: u64 = 100;

/// The most that was ever resident.
fn highest_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status of this process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the field");
    let kib = line.split_whitespace().nth(1).expect("a number");
    1024 * kib.parse::<u64>().expect("a number")
}

fn key(n: u64) -> [u8; 8] {
    Prng::new(n).next_u64().to_le_bytes()
}

#[test]
fn resident_memory_stays_within_the_number_set() {
    let dir = std::env::temp_dir().join(format!("silica-wip-resident-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    let device = FileDevice::open(&dir, DeviceOptions::default()).expect("the directory");
    let mut options = OptionValues::default();
    options.set("memory_bytes", MEMORY).set("bucket_bytes_max", 4 << 20);
    let store = Wip::open(device, &options, &Environment::new(HashSeed([7; 16]))).expect("opens");
    let mut prng = Prng::new(1);
    // Small entries and large ones, first new, then again.
    let entries = test_size(80_000, 250_000, 20_000_000);
    for start in (0..2 * entries).step_by(BATCH as usize) {
        let mut batch = WriteBatch::new();
        let keys: Vec<_> = (start..start + BATCH).map(|n| key(n % entries)).collect();
        let values: Vec<_> =
            keys.iter().map(|key| vec![key[1]; 10 + 4 * key[0] as usize]).collect();
        for (key, value) in keys.iter().zip(&values) {
            batch.put(key, value);
        }
        store.write(&batch, Durability::Buffered).expect("written");
        store.maintain(Budget { bytes: 256 << 10 }).expect("maintains");
        for _ in 0..BATCH / 2 {
            let key = key(prng.below(entries.min(start + BATCH)));
            let value = store.get(&key).expect("read").expect("it was written");
            assert_eq!(value, vec![key[1]; 10 + 4 * key[0] as usize]);
        }
    }
    println!("{}", store.sizes());
    let (highest, limit) = (highest_bytes(), MEMORY / 10 * 11 + PROCESS);
    println!("at most {} KiB of {} KiB", highest >> 10, limit >> 10);
    drop(store);
    std::fs::remove_dir_all(&dir).expect("removed");
    assert!(highest <= limit, "{highest} bytes resident; {limit} are promised");
}
