//! Speed of SPTree on a region in memory: `sptree_speed [entries] [directory] [option=number]…`.
//!
//! Flushes and fences are real, also on tmpfs. The limits are loops in the same run.
#![allow(clippy::disallowed_methods)] // A measurement has a clock, files and threads of its own.

use silica_base::{HashSeed, Prng, Result};
use silica_device::region::{FileRegion, Flush, Region, RegionClass, RegionOptions, Regions};
use silica_device::sim::SimRegion;
use silica_engine::{
    Admin, Budget, Durability, Engine, EntryRef, Environment, GetSink, KeyRange, MetricsMap,
    OptionValues, WriteBatch,
};
use silica_pmem::sptree::SpTree;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A directory with regions that really flush.
struct Place(PathBuf);

const OPTIONS: RegionOptions = RegionOptions { flush: Flush::Always, ..RegionOptions::USUAL };

impl Regions for Place {
    type Region = FileRegion;

    fn create_region(&self, name: &str, bytes: u64) -> Result<FileRegion> {
        FileRegion::create_with(&self.0.join(name), bytes, OPTIONS)
    }

    fn open_region(&self, name: &str) -> Result<Option<FileRegion>> {
        let path = self.0.join(name);
        if !path.exists() {
            return Ok(None);
        }
        FileRegion::open_with(&path, None, OPTIONS).map(Some)
    }

    fn remove_region(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.0.join(name))
            .map_err(|error| silica_base::Error::io("removing a region", error))
    }

    fn boot(&self) -> u64 {
        1
    }
}

struct Count(u64);

impl GetSink for Count {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 += u64::from(!entry.value.is_empty());
    }
}

/// Key `n` of the store, or with `odd` one that is not in it.
fn key(n: u64, odd: u64) -> [u8; 8] {
    // A bijection of 64 bits (SplitMix64's), so keys come in no order and differ.
    let mixed = (n << 1 | odd).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ mixed >> 31).to_be_bytes()
}

fn open(place: &Place, options: &OptionValues) -> SpTree<FileRegion> {
    let environment = Environment::new(HashSeed([7; 16]));
    SpTree::open_on(place, options, &environment).expect("the store opens")
}

/// Nanoseconds that this thread was on a processor: others may share the machine.
fn on_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Runs `work` of `operations` and prints how many a second, by the clock and by the time that this
/// thread was on a processor. Millions a second by the clock.
fn measure(name: &str, operations: u64, work: impl FnOnce()) -> f64 {
    let (start, start_ns) = (Instant::now(), on_cpu_ns());
    work();
    let ns_each = (on_cpu_ns() - start_ns) as f64 / operations as f64;
    let rate = operations as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!(
        "{name:<34} {rate:>8.3} M/s  on a processor {:>8.3} M/s {ns_each:>8.1} ns",
        1e3 / ns_each
    );
    rate
}

fn insert(tree: &impl Engine, from: u64, to: u64, stride: u64) {
    for n in (from..to).step_by(stride as usize) {
        let key = key(n, 0);
        tree.write(WriteBatch::new().put(&key, &n.to_le_bytes()), Durability::Buffered)
            .expect("a put");
    }
}

fn get(tree: &impl Engine, entries: u64, gets: u64, burst: usize, odd: u64, seed: u64) -> u64 {
    let mut prng = Prng::new(seed);
    let mut count = Count(0);
    for _ in 0..gets / burst as u64 {
        let keys: Vec<[u8; 8]> = (0..burst).map(|_| key(prng.below(entries), odd)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        tree.get_many(&keys, &mut count).expect("gets");
    }
    count.0
}

fn scans(tree: &Arc<SpTree<FileRegion>>, entries: u64, scans: u64) {
    let ordered = Arc::clone(tree).as_ordered().expect("it is ordered");
    let snapshot = ordered.snapshot().expect("a snapshot");
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    let (mut prng, mut sum) = (Prng::new(3), 0);
    for _ in 0..scans {
        let mut is_there = iter.seek(&key(prng.below(entries), 0)).expect("a seek");
        for _ in 0..100 {
            if !is_there {
                break;
            }
            sum += u64::from(iter.entry().value[0]);
            is_there = iter.next().expect("a step");
        }
    }
    assert!(sum > 0);
}

fn limits(place: &Place, bytes: u64) {
    let region = place.create_region("limits", bytes).expect("a region");
    let mut prng = Prng::new(5);
    let lines = bytes / 64;
    let count = 2_000_000;
    for (flushed, fences) in [(2, 2), (2, 1), (3, 2)] {
        measure(&format!("limit: {flushed} lines, {fences} fences"), count, || {
            for n in 0..count {
                let (one, other) = (prng.below(lines) * 64, prng.below(lines) * 64);
                region.store(one, n);
                region.flush(one, 8);
                if flushed == 3 {
                    region.store(other ^ 64, n);
                    region.flush(other ^ 64, 8);
                }
                if fences == 2 {
                    region.fence().expect("a fence");
                }
                region.store(other, n);
                region.flush(other, 8);
                region.fence().expect("a fence");
            }
        });
    }
    for of_key in [2, 1] {
        measure(&format!("limit: {of_key} lines prefetched"), count, || {
            let mut sum = 0;
            for _ in 0..count / 32 {
                let places: [u64; 64] = std::array::from_fn(|_| prng.below(lines) * 64);
                places[..32 * of_key].iter().for_each(|at| region.prefetch(*at));
                sum += places[..32 * of_key].iter().map(|at| region.word(*at)).sum::<u64>();
            }
            std::hint::black_box(sum);
        });
    }
    drop(region);
    place.remove_region("limits").expect("removed");
}

/// Ranges of 100 over leaves whose entries lie in order, as FAST&FAIR's do, below an index that
/// costs nothing but a binary search: what keeping entries in order would give ranges at best.
fn walk_in_order(place: &Place, entries: u64) {
    const LEAF_WORDS: u64 = 128;
    let mut keys: Vec<u64> = (0..entries).map(|n| u64::from_be_bytes(key(n, 0))).collect();
    keys.sort_unstable();
    let leaves = entries.div_ceil(43);
    let region = place.create_region("in-order", leaves * LEAF_WORDS * 8).expect("a region");
    // Leaves of a tree lie in no order: this multiplier leads to each place once.
    let step = (0..).map(|n| leaves * 5 / 8 + n).find(|step| coprime(*step, leaves)).expect("one");
    let at = |leaf: u64| leaf * step % leaves * LEAF_WORDS * 8;
    for (leaf, own) in (0..).zip(keys.chunks(43)) {
        region.store(at(leaf), own.len() as u64);
        region.store(at(leaf) + 8, if leaf + 1 < leaves { at(leaf + 1) } else { u64::MAX });
        for (place, key) in (0..).zip(own) {
            region.store(at(leaf) + 16 + place * 16, *key);
            region.store(at(leaf) + 24 + place * 16, *key);
        }
    }
    let lows: Vec<u64> = keys.iter().step_by(43).copied().collect();
    let (mut prng, mut sum, scans) = (Prng::new(3), 0, 50_000);
    measure("limit: ranges of 100 in order", scans, || {
        for _ in 0..scans {
            let from = u64::from_be_bytes(key(prng.below(entries), 0));
            let mut leaf = at(lows.partition_point(|low| *low <= from) as u64 - 1);
            let mut place = 0;
            while region.word(leaf + 16 + place * 16) < from {
                place += 1;
            }
            for _ in 0..100 {
                sum += region.word(leaf + 24 + place * 16) & 0xFF;
                place += 1;
                if place == region.word(leaf) {
                    (leaf, place) = (region.word(leaf + 8), 0);
                    if leaf == u64::MAX {
                        break;
                    }
                }
            }
        }
    });
    assert!(sum > 0);
    drop(region);
    place.remove_region("in-order").expect("removed");
}

fn coprime(one: u64, other: u64) -> bool {
    if other == 0 { one == 1 } else { coprime(other, one % other) }
}

/// A place with one simulated region.
#[derive(Clone, Default)]
struct Twin(Arc<Mutex<Option<SimRegion>>>);

impl Regions for Twin {
    type Region = SimRegion;

    fn create_region(&self, _name: &str, _bytes: u64) -> Result<SimRegion> {
        let region = SimRegion::new(1, 16 << 20, RegionClass::Lines);
        *self.0.lock().expect("no panic") = Some(region.clone());
        Ok(region)
    }

    fn open_region(&self, _name: &str) -> Result<Option<SimRegion>> {
        Ok(None)
    }

    fn remove_region(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn boot(&self) -> u64 {
        1
    }
}

/// What an operation costs the medium, by the twin's counters.
fn media() {
    let (twin, entries) = (Twin::default(), 100_000);
    let environment = Environment::new(HashSeed([7; 16]));
    let tree = SpTree::open_on(&twin, &OptionValues::default(), &environment).expect("it opens");
    let region = twin.0.lock().expect("no panic").clone().expect("a region");
    for name in ["insert", "update"] {
        let before = region.counts();
        insert(&tree, 0, entries, 1);
        let after = region.counts();
        let each = |to: u64, from: u64| (to - from) as f64 / entries as f64;
        println!(
            "twin, {name}: {:.2} XPLines, {:.2} lines flushed ({:.3} needless), {:.2} fences",
            each(after.xplines_written, before.xplines_written),
            each(after.lines_flushed, before.lines_flushed),
            each(after.flushes_needless, before.flushes_needless),
            each(after.fences, before.fences),
        );
    }
}

fn metric(tree: &impl Engine, name: &str) -> f64 {
    let mut map = MetricsMap::default();
    tree.metrics(&mut map);
    map.get(name)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let entries: u64 = arguments.next().map_or(2_000_000, |n| n.parse().expect("a number"));
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| "/dev/shm".into()));
    let directory = directory.join(format!("sptree-speed-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let place = Place(directory.clone());
    media();
    limits(&place, (entries * 32).next_multiple_of(1 << 20));
    walk_in_order(&place, entries);
    let mut options = OptionValues::default();
    options.set("memory_bytes", 8 << 30);
    let mut is_restart = false;
    for argument in arguments {
        if argument == "restart" {
            is_restart = true;
            continue;
        }
        let (name, value) = argument.split_once('=').expect("an option as name=number");
        options.set(name, value.parse().expect("a number"));
    }
    let tree = Arc::new(open(&place, &options));
    measure("insert", entries, || insert(&*tree, 0, entries, 1));
    if is_restart {
        restarts(tree, &place, &options, entries);
        std::fs::remove_dir_all(&directory).expect("removed");
        return;
    }
    let burst = 2_000_000;
    measure("update", burst, || insert(&*tree, 0, burst.min(entries), 1));
    for size in [1, 32] {
        let hits = measure_gets(&tree, entries, size, 0);
        assert_eq!(hits, burst / size as u64 * size as u64);
        assert_eq!(measure_gets(&tree, entries, size, 1), 0);
    }
    measure("ranges of 100, first", 20_000, || scans(&tree, entries, 20_000));
    measure("ranges of 100", 50_000, || scans(&tree, entries, 50_000));
    two_threads(&tree, entries);
    let leaves = metric(&*tree, "leaves");
    println!(
        "leaves {leaves}, entries a leaf {:.1}, region B/entry {:.1}, index B/entry {:.2}, \
         index/leaves {:.1} %, false positives {:.2} %",
        entries as f64 / leaves,
        metric(&*tree, "region_bytes") / metric(&*tree, "entries_estimate"),
        metric(&*tree, "index_bytes_per_key"),
        100.0 * metric(&*tree, "index_bytes") / (leaves * 1280.0),
        100.0 * metric(&*tree, "filter_false_positives")
            / (metric(&*tree, "gets") - metric(&*tree, "get_hits")).max(1.0),
    );
    restarts(tree, &place, &options, entries);
    std::fs::remove_dir_all(&directory).expect("removed");
}

fn measure_gets(tree: &SpTree<FileRegion>, entries: u64, size: usize, odd: u64) -> u64 {
    let (mut found, gets) = (0, 2_000_000);
    let name = format!("{} in bursts of {size}", ["hit", "miss"][odd as usize]);
    measure(&name, gets, || found = get(tree, entries, gets, size, odd, 9));
    found
}

/// Two threads against one, both writing keys of the whole range.
fn two_threads(tree: &Arc<SpTree<FileRegion>>, entries: u64) {
    let more = entries / 4;
    let one =
        measure("insert more, one thread", more, || insert(&**tree, entries, entries + more, 1));
    let from = entries + more;
    let before = on_cpu_ns();
    insert(&**tree, from, from + more / 4, 1);
    let alone_ns = (on_cpu_ns() - before) as f64 / (more / 4) as f64;
    let (from, mut together_ns) = (from + more / 4, 0);
    let two = measure("insert more, two threads", more, || {
        std::thread::scope(|scope| {
            let writers = [0, 1].map(|thread| {
                scope.spawn(move || {
                    let before = on_cpu_ns();
                    insert(&**tree, from + thread, from + more, 2);
                    on_cpu_ns() - before
                })
            });
            together_ns = writers.map(|writer| writer.join().expect("no panic")).iter().sum();
        });
    });
    // Time on processors says what threads cost each other, also while others keep them waiting.
    println!(
        "two threads against one: {:.2}, by time on processors {:.2}",
        two / one,
        2.0 * alone_ns / (together_ns as f64 / more as f64)
    );
    let gets = 2_000_000;
    let one =
        measure("hit, one thread", gets, || assert!(get(&**tree, entries, gets, 32, 0, 1) > 0));
    let two = measure("hit, two threads", 2 * gets, || {
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || get(&**tree, entries, gets, 32, 0, thread));
            }
        });
    });
    println!("two threads against one: {:.2}", two / one);
}

/// Openings of a store that has no copy of its top layer yet, and of one that has: after the
/// process died, and after a close.
fn restarts(tree: Arc<SpTree<FileRegion>>, place: &Place, options: &OptionValues, entries: u64) {
    drop(tree);
    let tree = restart("all links walked", place, options, entries);
    drop(tree);
    let tree = restart("from the copy, after a crash", place, options, entries);
    tree.close(&mut |_, _| ()).expect("closed");
    drop(tree);
    let tree = restart("from the copy, after a close", place, options, entries);
    println!("copy of the top layer: {} bytes", metric(&tree, "top_copy_bytes"));
}

fn restart(name: &str, place: &Place, options: &OptionValues, entries: u64) -> SpTree<FileRegion> {
    let start = Instant::now();
    let since = || start.elapsed().as_secs_f64() * 1e3;
    let tree = open(place, options);
    assert_eq!(get(&tree, entries, 1, 1, 0, 1), 1);
    let first = since();
    let (mut walked, mut longest) = (None, 0.0);
    loop {
        let before = on_cpu_ns();
        let more = tree.maintain(Budget::of(1 << 20)).expect("maintained").more;
        longest = f64::max(longest, (on_cpu_ns() - before) as f64 / 1e6);
        if walked.is_none() && metric(&tree, "nodes_folded") == 0.0 {
            walked = Some(since());
        }
        if !more {
            break;
        }
    }
    println!(
        "restart, {name}: first answer {first:.1} ms, links walked {:.1} ms, leaves checked {:.1} \
         ms, longest piece {longest:.1} ms on a processor",
        walked.unwrap_or(first),
        since()
    );
    tree
}
