//! Promise 7: under load the store stays within the memory number that it was given, plus 10 %.
//! Each load has a process of its own: what counts is the most memory that a process ever had.
#![cfg(target_os = "linux")]

use silica_base::{HashSeed, Prng, in_own_process, test_size};
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{
    Budget, Durability, Engine, EntryRef, Environment, GetSink, OptionValues, WriteBatch,
};
use silica_wip::Wip;
use std::time::Duration;

/// What a process takes that does nothing.
const PROCESS: u64 = 8 << 20;
const BATCH: u64 = 100;
/// Batches for each burst of gets.
const BURST_EVERY: u64 = 16;

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

/// The values of a burst.
struct Found(Vec<Option<Vec<u8>>>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.value.to_vec());
    }
}

/// What is written and read, and by which store.
struct Load {
    memory_bytes: u64,
    /// 0 for as many as the memory allows.
    bucket_bytes_max: u64,
    entries: u64,
    /// A value has ten bytes and up to 255 times as many more.
    step: usize,
    /// Nothing is read, and another thread maintains the store, which is written as fast as it can
    /// be.
    only_writes: bool,
}

/// Writes the entries of `load` twice, in batches between which the store is maintained, and reads
/// one for each 32 of them.
///
/// # Panics
/// Where more was ever resident than promise 7 allows.
fn assert_resident_bytes_stay_within_the_number(load: &Load) {
    let Load { memory_bytes, bucket_bytes_max, .. } = *load;
    let dir = std::env::temp_dir().join(format!("silica-wip-resident-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    let device = FileDevice::open(&dir, DeviceOptions::default()).expect("the directory");
    let mut options = OptionValues::default();
    options.set("memory_bytes", memory_bytes).set("bucket_bytes_max", bucket_bytes_max);
    let store = Wip::open(device, &options, &Environment::new(HashSeed([7; 16]))).expect("opens");
    if load.only_writes {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&store, load));
            while !writer.is_finished() {
                let done = store.maintain(Budget::of(256 << 10)).expect("maintains");
                if !done.more {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
    } else {
        write(&store, load);
    }
    println!("{}", store.sizes());
    let (highest, limit) = (highest_bytes(), memory_bytes / 10 * 11 + PROCESS);
    println!("at most {} KiB of {} KiB", highest >> 10, limit >> 10);
    drop(store);
    std::fs::remove_dir_all(&dir).expect("removed");
    assert!(highest <= limit, "{highest} bytes resident; {limit} are promised");
}

fn write(store: &Wip<FileDevice>, load: &Load) {
    let Load { entries, step, .. } = *load;
    let value = |key: &[u8; 8]| vec![key[1]; 10 + step * usize::from(key[0])];
    let mut prng = Prng::new(1);
    for start in (0..2 * entries).step_by(BATCH as usize) {
        let mut batch = WriteBatch::new();
        let keys: Vec<_> = (start..start + BATCH).map(|n| key(n % entries)).collect();
        let values: Vec<_> = keys.iter().map(value).collect();
        for (key, value) in keys.iter().zip(&values) {
            batch.put(key, value);
        }
        store.write(&batch, Durability::Buffered).expect("written");
        if load.only_writes {
            continue;
        }
        store.maintain(Budget::of(256 << 10)).expect("maintains");
        // By then the cache has long been full, and most of the time would go into waiting for the
        // device. In bursts, whose reads overlap: that takes more memory than one after the other.
        if !(start / BATCH).is_multiple_of(BURST_EVERY) {
            continue;
        }
        let newest = entries.min(start + BATCH);
        let keys: Vec<_> = (0..BATCH / 2).map(|_| key(prng.below(newest))).collect();
        let mut found = Found(vec![None; keys.len()]);
        let burst: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        store.get_many(&burst, &mut found).expect("read");
        for (key, found) in keys.iter().zip(found.0) {
            assert_eq!(found.expect("it was written"), value(key));
        }
    }
}

#[test]
fn entries_of_many_sizes() {
    in_own_process("resident::entries_of_many_sizes", || {
        let entries = test_size(80_000, 250_000, 20_000_000);
        let (memory_bytes, bucket_bytes_max) = (64 << 20, 4 << 20);
        let load = Load { memory_bytes, bucket_bytes_max, entries, step: 4, only_writes: false };
        assert_resident_bytes_stay_within_the_number(&load);
    });
}

/// Directories, and what flushes and compactions need for each key, are more than the entries.
#[test]
fn many_small_entries() {
    in_own_process("resident::many_small_entries", || {
        let entries = test_size(200_000, 1_000_000, 20_000_000);
        let (memory_bytes, bucket_bytes_max) = (64 << 20, 4 << 20);
        let load = Load { memory_bytes, bucket_bytes_max, entries, step: 0, only_writes: false };
        assert_resident_bytes_stay_within_the_number(&load);
    });
}

/// Buckets are as large as they are by themselves: the number of their small entries takes memory
/// when filters are made.
#[test]
fn large_buckets_of_small_entries() {
    in_own_process("resident::large_buckets_of_small_entries", || {
        let entries = test_size(300_000, 2_000_000, 20_000_000);
        let (memory_bytes, bucket_bytes_max) = (64 << 20, 0);
        let load = Load { memory_bytes, bucket_bytes_max, entries, step: 0, only_writes: false };
        assert_resident_bytes_stay_within_the_number(&load);
    });
}

/// Written faster than it is maintained: the log, which is memory too, does not pass its part.
#[test]
fn writes_without_gets() {
    in_own_process("resident::writes_without_gets", || {
        let entries = test_size(1_000_000, 2_000_000, 10_000_000);
        let (memory_bytes, bucket_bytes_max) = (64 << 20, 0);
        let load = Load { memory_bytes, bucket_bytes_max, entries, step: 1, only_writes: true };
        assert_resident_bytes_stay_within_the_number(&load);
    });
}
