//! Gets: from the cache, of keys that are not there, and cold beside what the device can do.
//!
//! `cargo run --release -p silica-wip --example gets -- [ONLY] DIR [ENTRIES [NAME=VALUE…]]`
//!
//! With `--cached` or `--cold` for ONLY, it takes the store that an earlier run left in DIR, and
//! measures nothing else.

#[path = "store/mod.rs"]
mod store;

use silica_base::{AlignedBuf, Prng};
use silica_device::{Device, DeviceFile, FileDevice, Mode, Read, ReadQueue};
use silica_engine::{Engine, EntryRef, GetSink, MetricsMap};
use silica_wip::Wip;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::key;

/// How long each figure is measured.
const TIME: Duration = Duration::from_secs(3);

/// Gets whose blocks are counted.
const BLOCKS_GETS: u64 = 30_000;

/// Keys of a burst at most.
const BURST_MAX: usize = 32;

struct Found(u64);

impl GetSink for Found {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        std::hint::black_box(entry.value);
        self.0 += 1;
    }
}

/// Rounds in which cold gets and the device take turns, and how long each turn is.
const ROUNDS: usize = 24;
const TURN: Duration = Duration::from_millis(150);

/// Calls `work`, which does some of it and says how much, in so many threads for `time`; how much
/// was done in a second.
fn rate_for(time: Duration, threads: u64, work: impl Fn(&mut Prng) -> u64 + Sync) -> f64 {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    let turn = TURNS.fetch_add(1, Ordering::Relaxed) << 8;
    let start = Instant::now();
    let one = |seed: u64| {
        let (mut prng, mut done) = (Prng::new(turn + seed), 0);
        while start.elapsed() < time {
            done += work(&mut prng);
        }
        done
    };
    // This thread is one of them: where it is the only one, it is the same in all turns.
    let done: u64 = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|n| scope.spawn(move || one(n + 1))).collect();
        let done = one(1);
        others.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>() + done
    });
    done as f64 / start.elapsed().as_secs_f64()
}

fn rate(threads: u64, work: impl Fn(&mut Prng) -> u64 + Sync) -> f64 {
    rate_for(TIME, threads, work)
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Gets a burst of keys from `key`.
fn gets(
    wip: &Wip<FileDevice>,
    burst: usize,
    prng: &mut Prng,
    key: impl Fn(&mut Prng) -> [u8; 16],
) -> u64 {
    let mut keys = [[0; 16]; BURST_MAX];
    keys[..burst].fill_with(|| key(prng));
    let keys: [&[u8]; BURST_MAX] = std::array::from_fn(|n| &keys[n][..]);
    wip.get_many(&keys[..burst], &mut Found(0)).expect("a get");
    burst as u64
}

fn any(entries: u64) -> impl Fn(&mut Prng) -> [u8; 16] {
    move |prng| key(prng.below(entries))
}

fn none(prng: &mut Prng) -> [u8; 16] {
    let mut key = key(prng.next_u64());
    key[8] = 0xFF;
    key
}

fn metric(wip: &Wip<FileDevice>, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    wip.metrics(&mut metrics);
    metrics.get(name)
}

/// Blocks that a get asks for, and those of them that have to be read.
fn blocks_per_get(wip: &Wip<FileDevice>, what: &str, key: impl Fn(&mut Prng) -> [u8; 16]) {
    let count = || ["get_device_reads", "block_cache_hits"].map(|name| metric(wip, name));
    let (before, mut prng) = (count(), Prng::new(9));
    for _ in 0..BLOCKS_GETS {
        gets(wip, 1, &mut prng, &key);
    }
    let after = count();
    let [read, found] = [0, 1].map(|at| (after[at] - before[at]) / BLOCKS_GETS as f64);
    println!("{what}: {:.4} blocks a get, {read:.4} of them read", read + found);
}

fn in_memory(wip: &Wip<FileDevice>, entries: u64) {
    // Ascending numbers are keys at random places.
    for start in (0..entries).step_by(32) {
        let keys: Vec<_> = (start..entries.min(start + 32)).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut found = Found(0);
        wip.get_many(&keys, &mut found).expect("gets");
        assert_eq!(found.0, keys.len() as u64);
    }
    let reads = wip.device().counters().snapshot().reads;
    println!(
        "{}; cache {:.0} MiB",
        wip.sizes(),
        metric(wip, "block_cache_bytes") / f64::from(1 << 20)
    );
    let one = rate(1, |prng| gets(wip, 1, prng, any(entries)));
    let burst = rate(1, |prng| gets(wip, 32, prng, any(entries)));
    println!("cached: {:.0} k/s one by one, {:.0} k/s in bursts of 32", one / 1e3, burst / 1e3);
    let read = wip.device().counters().snapshot().reads - reads;
    let one = rate(1, |prng| gets(wip, 1, prng, none));
    let burst = rate(1, |prng| gets(wip, 32, prng, none));
    println!("missing: {:.0} k/s one by one, {:.0} k/s in bursts of 32", one / 1e3, burst / 1e3);
    println!("{read} device reads of cached ones");
}

/// A file to read from.
struct Source<'f>(&'f <FileDevice as Device>::File);

impl AsRef<<FileDevice as Device>::File> for Source<'_> {
    fn as_ref(&self) -> &<FileDevice as Device>::File {
        self.0
    }
}

/// So many random reads of 4 KiB, `depth` at a time, each of any block of all the files.
fn device_reads(
    device: &FileDevice,
    blocks: &[(&<FileDevice as Device>::File, u64)],
    (count, depth): (u64, usize),
    prng: &mut Prng,
) -> u64 {
    let mut reads = device.reads(depth);
    for n in 0..count + depth as u64 {
        let ended = if n >= depth as u64 { reads.pop() } else { None };
        let buf = match ended {
            Some((read, filled)) => {
                assert_eq!(filled.expect("a read"), 4096);
                let Read { buf, .. } = read;
                buf
            }
            None => AlignedBuf::zeroed(4096),
        };
        if n < count {
            let (file, offset) = &blocks[prng.below(blocks.len() as u64) as usize];
            reads.push(Read { of: Source(file), offset: *offset, buf });
        }
    }
    count
}

fn cold(wip: &Wip<FileDevice>, entries: u64) {
    let device = wip.device();
    let names = device.list().expect("names");
    let files: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("TABLE-"))
        .map(|name| device.open(name, Mode::Direct).expect("a table"))
        .collect();
    let blocks: Vec<_> = files
        .iter()
        .flat_map(|file| {
            let blocks = file.len().expect("its length") / 4096;
            (0..blocks).map(move |block| (file, block * 4096))
        })
        .collect();
    assert!(!blocks.is_empty(), "no tables are there: run it without --cold first, which fills it");
    let ways = [("1 thread", 1, 1), ("2 threads", 2, 1), ("bursts of 32", 1, 32)];
    for (what, threads, depth) in ways {
        // Of a burst, all reads are begun together and waited for; the device does more where
        // each that ends is replaced. What the device can do drifts, so all take short turns.
        let limit = |count| {
            rate_for(TURN, threads, |prng| device_reads(device, &blocks, (count, depth), prng))
        };
        let count = if depth == 1 { 16 } else { depth as u64 };
        let [mut limits, mut got] = [const { Vec::new() }; 2];
        let [mut got_parts, mut parts, mut parts_of_full] = [const { Vec::new() }; 3];
        let mut before = limit(count);
        for _ in 0..ROUNDS {
            let (reads, start) = (device.counters().snapshot().reads, Instant::now());
            let gets = rate_for(TURN, threads, |prng| gets(wip, depth, prng, any(entries)));
            let reads = device.counters().snapshot().reads - reads;
            let read = reads as f64 / start.elapsed().as_secs_f64();
            let after = limit(count);
            let mean = f64::midpoint(before, after);
            limits.push(mean);
            got.push(gets);
            got_parts.push(100.0 * gets / mean);
            parts.push(100.0 * read / mean);
            if depth > 1 {
                parts_of_full.push(100.0 * read / limit(16 * depth as u64));
            }
            before = after;
        }
        println!(
            "cold, {what}: {:.1} k gets/s, the device {:.1} k reads/s; gets {:.0} % of it, their \
             reads {:.0} %",
            median(&mut got) / 1e3,
            median(&mut limits) / 1e3,
            median(&mut got_parts),
            median(&mut parts)
        );
        if depth > 1 {
            let part = median(&mut parts_of_full);
            println!("of what it does with {depth} always in flight: {part:.0} %");
        }
    }
    blocks_per_get(wip, "keys that are there", any(entries));
    blocks_per_get(wip, "keys that are not", none);
}

fn main() {
    let mut args: Vec<String> = std::env::args().collect();
    let only = args.get(1).filter(|arg| arg.starts_with("--")).cloned();
    if only.is_some() {
        args.remove(1);
    }
    let dir = Path::new(args.get(1).expect("a directory"));
    let entries: u64 = args.get(2).map_or(5_000_000, |n| n.parse().expect("a number"));
    let pairs = &args[args.len().min(3)..];
    let data_mib = (entries * 116) >> 20;
    if only.as_deref() != Some("--cached") {
        let wip = store::open(dir, data_mib / 16 + 16, pairs);
        if only.is_none() {
            store::fill(&wip, entries);
            store::settle(&wip);
        }
        cold(&wip, entries);
    }
    if only.as_deref() == Some("--cold") {
        return;
    }
    let wip = store::open(dir, 3 * data_mib + 64, pairs);
    in_memory(&wip, entries);
}
