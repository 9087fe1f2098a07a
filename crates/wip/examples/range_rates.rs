//! Reads ranges: a seek and fifty entries, forwards and backwards, cached and not, with the newest
//! entries in a hash table and in a list.
//!
//! `cargo run --release -p silica-wip --example range_rates -- DIR [entries] [seconds of each]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use silica_base::{HashSeed, Prng};
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryIter, Environment, KeyRange, OptionValues, Ordered,
};
use silica_wip::Wip;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NEXT: usize = 50;

fn key(n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[8..].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

fn open(dir: &str, memory: u64) -> Arc<Wip<FileDevice>> {
    let device = FileDevice::open(dir.as_ref(), DeviceOptions::default()).expect("the directory");
    let mut options = OptionValues::default();
    options.set("memory_bytes", memory);
    let environment = Environment::new(HashSeed([1; 16]));
    Arc::new(Wip::open(device, &options, &environment).expect("it opens"))
}

fn fill(wip: &Wip<FileDevice>, entries: u64) {
    for n in 0..entries {
        wip.put(&key(n), &[7; 100], Durability::Buffered).expect("a put");
        if n % 1000 == 0 {
            wip.maintain(Budget::of(1 << 20)).expect("maintenance");
        }
    }
    while wip.maintain(Budget::of(8 << 20)).expect("maintenance").more {}
}

/// Thousands of ranges read in a second; with `is_kept` all with one iterator.
fn measure(
    wip: &Arc<Wip<FileDevice>>,
    is_forward: bool,
    is_kept: bool,
    writes: bool,
    time: Duration,
) -> f64 {
    let ordered: Arc<dyn Ordered> = wip.clone();
    let iterator = || ordered.clone().snapshot().and_then(|s| s.iterate(&KeyRange::ALL));
    let mut iter: Box<dyn EntryIter> = iterator().expect("an iterator");
    let (mut prng, mut count, mut sum) = (Prng::new(2), 0u64, 0usize);
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..16 {
            if writes {
                wip.put(&key(prng.below(1 << 40)), &[7; 100], Durability::Buffered).expect("a put");
            }
            if !is_kept {
                iter = iterator().expect("an iterator");
            }
            let key = key(prng.next_u64());
            let mut is_there = if is_forward { iter.seek(&key) } else { iter.seek_for_prev(&key) }
                .expect("a seek");
            for _ in 0..NEXT {
                if !is_there {
                    break;
                }
                sum += iter.key().len() + iter.entry().value.len();
                is_there = if is_forward { iter.next() } else { iter.prev() }.expect("a step");
            }
            count += 1;
        }
    }
    assert!(sum > 0);
    count as f64 / start.elapsed().as_secs_f64() / 1e3
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = args.get(1).expect("a directory");
    let entries: u64 = args.get(2).map_or(1_000_000, |n| n.parse().expect("a number"));
    let seconds: f64 = args.get(3).map_or(1.0, |n| n.parse().expect("a number"));
    let time = Duration::from_secs_f64(seconds);
    let wip = open(dir, 1 << 30);
    fill(&wip, entries);
    let ordered: Arc<dyn Ordered> = wip.clone();
    let say = |what: &str, wip: &Arc<Wip<FileDevice>>, is_kept, writes, time| {
        for (way, is_forward) in [("forwards", true), ("backwards", false)] {
            let rate = measure(wip, is_forward, is_kept, writes, time);
            println!("{what}, {way}: {rate:.1} k/s");
        }
    };
    say("in memtables", &wip, true, false, time);
    ordered.compact_range(&KeyRange::ALL).expect("compaction");
    for is_forward in [true, false] {
        measure(&wip, is_forward, true, false, 4 * time);
    }
    say("cached", &wip, true, false, time);
    say("cached, an iterator for each", &wip, false, false, time);
    say("cached, a write before each", &wip, false, true, time);
    println!("{}", wip.sizes());
    drop((ordered, wip));
    let wip = open(dir, 8 << 20);
    say("cold", &wip, true, false, time);
}
