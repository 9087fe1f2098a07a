//! Fills a store with random keys of 16 bytes and values of 100, and says how fast that was and how
//! often each byte was written.
//!
//! `cargo run --release -p silica-wip --example fill -- DIR [entries] [memory in MiB]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use silica_base::{HashSeed, Prng};
use silica_device::{Device, DeviceOptions, FileDevice};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues, WriteBatch};
use silica_wip::Wip;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let mut prng = Prng::new(n);
    key[..8].copy_from_slice(&prng.next_u64().to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = args.get(1).expect("a directory");
    let entries: u64 = args.get(2).map_or(10_000_000, |n| n.parse().expect("a number"));
    let memory: u64 = args.get(3).map_or(256, |n| n.parse().expect("a number"));
    let device = FileDevice::open(dir.as_ref(), DeviceOptions::default()).expect("the directory");
    let mut options = OptionValues::default();
    options.set("memory_bytes", memory << 20);
    for pair in args.iter().skip(4) {
        let (name, value) = pair.split_once('=').expect("name=value");
        options.set(name, value.parse().expect("a number"));
    }
    let environment = Environment::new(HashSeed([1; 16]));
    let wip = Wip::open(device, &options, &environment).expect("it opens");
    let done = AtomicBool::new(false);
    let value = [7u8; 100];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if !wip.maintain(Budget { bytes: 1 << 20 }).expect("maintenance").more {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        let start = Instant::now();
        let mut longest = std::time::Duration::ZERO;
        for n in 0..entries {
            let began = Instant::now();
            let key = key(n);
            wip.write(WriteBatch::new().put(&key, &value), Durability::Buffered).expect("a put");
            longest = longest.max(began.elapsed());
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("filled: {:.0} k/s, longest put {longest:?}", entries as f64 / seconds / 1e3);
        done.store(true, Ordering::Relaxed);
    });
    while wip.maintain(Budget { bytes: 1 << 20 }).expect("maintenance").more {}
    let written = wip.device().counters().snapshot().bytes_written;
    println!(
        "device: written {:.2} times, and the log once; {}",
        written as f64 / (entries * 116) as f64,
        wip.sizes()
    );
    let start = Instant::now();
    let reads_before = wip.device().counters().snapshot().reads;
    let asked = 100_000;
    let mut prng = Prng::new(9);
    for _ in 0..asked {
        let n = prng.below(entries);
        assert!(wip.get(&key(n)).expect("a get").is_some(), "{n}");
    }
    let seconds = start.elapsed().as_secs_f64();
    let reads = wip.device().counters().snapshot().reads - reads_before;
    println!(
        "{:.1} k gets/s, {:.3} reads a get",
        asked as f64 / seconds / 1e3,
        reads as f64 / asked as f64
    );
}
