//! A cache with flash behind its memory: puts, gets, resident memory, the time of a restart.
//!
//! ```text
//! cargo run --release -p silica --example flash_cache -- \
//!     DIR entries=2000000 value=256 memory=96MiB flash=1GiB
//! ```
//!
//! Entries that do not fit are dropped, so gets say how many they found. Directories are removed
//! before and after.

use silica::{Durability, Engine, FlashCacheOptions, GetSink, MetricsMap, OpenOptions, WriteBatch};
use silica_base::Prng;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Keys of a burst.
const BURST: usize = 32;

struct Found(u64);

impl GetSink for Found {
    fn found(&mut self, _index: usize, _entry: silica::EntryRef<'_>) {
        self.0 += 1;
    }
}

fn key_of(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.to_le_bytes());
    key[8..].copy_from_slice(b"the-key:");
    key
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it says so");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}

fn argument(name: &str, usual: u64) -> u64 {
    let found = std::env::args().find_map(|argument| {
        let (own, value) = argument.split_once('=')?;
        (own == name).then(|| silica::parse_size(value).expect("a number or a size"))
    });
    found.unwrap_or(usual)
}

fn gets(cache: &Arc<dyn Engine>, entries: u64, rounds: u64) -> (f64, f64) {
    let mut prng = Prng::new(2);
    let (begun, mut found) = (Instant::now(), Found(0));
    for _ in 0..rounds {
        let keys: Vec<[u8; 16]> = (0..BURST).map(|_| key_of(prng.below(entries))).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
        cache.get_many(&keys, &mut found).expect("gets");
    }
    let asked = (rounds * BURST as u64) as f64;
    (asked / begun.elapsed().as_secs_f64(), found.0 as f64 / asked)
}

fn report(what: &str, begun: Instant, found: f64) {
    let seconds = begun.elapsed().as_secs_f64();
    println!("first answers after {what}: {seconds:.3} s ({:.0} % found)", 100.0 * found);
}

fn main() -> silica::Result<()> {
    let directory = std::env::args().nth(1).expect("a directory");
    let directory = Path::new(&directory);
    let entries = argument("entries", 200_000);
    let value = vec![7; argument("value", 256) as usize];
    let memory = argument("memory", 96 << 20);
    let flash_bytes = Some(argument("flash", 256 << 20));
    let rounds = argument("bursts", 5_000);
    let _ = std::fs::remove_dir_all(directory);
    let flash = FlashCacheOptions { flash_bytes, ..FlashCacheOptions::default() };
    let open = || OpenOptions::new().memory_bytes(memory).open_flash_cache(directory, &flash);

    let cache = open()?;
    let begun = Instant::now();
    for n in 0..entries {
        cache.write(WriteBatch::new().put(&key_of(n), &value), Durability::Buffered)?;
    }
    println!("puts a second: {:.0}", entries as f64 / begun.elapsed().as_secs_f64());
    let (rate, hits) = gets(&cache, entries, rounds);
    println!("gets a second, in bursts of {BURST}: {rate:.0}, found {:.1} %", 100.0 * hits);
    println!("resident: {} MiB of {} MiB", resident_mib(), memory >> 20);
    let mut metrics = MetricsMap::default();
    cache.metrics(&mut metrics);
    let of = |name: &str| metrics.get(name);
    println!(
        "index bytes for an entry: {:.2}; evictions {}, slabs written {}, dropped {}, emptied {}",
        of("index_bytes") / of("entries_estimate").max(1.0),
        of("evictions"),
        of("slabs_written"),
        of("slabs_dropped"),
        of("slabs_emptied")
    );
    println!("write amplification: {:.3}", of("write_amplification"));

    // The process has only let go of it, as if it had died.
    drop(cache);
    let begun = Instant::now();
    let cache = open()?;
    let (_, first) = gets(&cache, entries, 1);
    report("a death", begun, first);
    cache.as_admin().expect("a cache has it").close(&mut |_, _| ())?;
    drop(cache);
    let begun = Instant::now();
    let cache = open()?;
    let (_, first) = gets(&cache, entries, 1);
    report("a clean stop", begun, first);
    drop(cache);
    std::fs::remove_dir_all(directory).expect("removed");
    Ok(())
}
