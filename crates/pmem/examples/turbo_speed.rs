//! How fast TurboHash is on this machine, beside what its memory allows: docs/benchmarks/turbo.md.
//!
//! ```text
//! cargo run --release -p silica-pmem --example turbo_speed -- /dev/shm 10000000
//! ```
//!
//! The region is a file in that directory whose lines are really flushed and fenced.

use silica_base::{HashSeed, Prng, Result};
use silica_device::region::{FileRegion, Flush, Region, RegionOptions, Regions};
use silica_engine::{
    Durability, Engine, EntryRef, Environment, GetSink, MetricsMap, OptionValues, WriteBatch,
};
use silica_pmem::turbo::Turbo;
use std::path::{Path, PathBuf};

const BURST: usize = 32;
const NOW: Durability = Durability::Buffered;

/// Files of a directory, whose lines are flushed although a power cut takes them.
struct Place(PathBuf);

const FLUSHED: RegionOptions = RegionOptions { flush: Flush::Always, ..RegionOptions::USUAL };

impl Regions for Place {
    type Region = FileRegion;

    fn create_region(&self, name: &str, bytes: u64) -> Result<FileRegion> {
        FileRegion::create_with(&self.0.join(name), bytes, FLUSHED)
    }

    fn open_region(&self, name: &str) -> Result<Option<FileRegion>> {
        let path = self.0.join(name);
        if !path.exists() {
            return Ok(None);
        }
        FileRegion::open_with(&path, None, FLUSHED).map(Some)
    }

    fn remove_region(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn boot(&self) -> u64 {
        1
    }
}

/// Key number `n`: no two are alike, and they are in no order.
fn key(n: u64) -> [u8; 8] {
    Prng::new(n).next_u64().to_le_bytes()
}

/// Time that this thread was on a processor: others may share the machine.
struct Instant(u64);

fn on_processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

impl Instant {
    fn now() -> Instant {
        Instant(on_processor_ns())
    }

    fn seconds(&self) -> f64 {
        (on_processor_ns() - self.0) as f64 / 1e9
    }
}

fn report(what: &str, count: u64, began: Instant) -> f64 {
    let seconds = began.seconds();
    let rate = count as f64 / seconds / 1e6;
    println!("{what:<44} {rate:8.2} M/s  {:8.1} ns", seconds * 1e9 / count as f64);
    rate
}

fn ratio(what: &str, rate: f64, limit: f64) {
    println!("{what:<44} {:8.2} of the limit", rate / limit);
}

struct Count(u64);

impl GetSink for Count {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 += u64::from(entry.value.len() == 8);
    }
}

/// What the medium allows: two lines of an XPLine stored, flushed and fenced one after the other;
/// both of `BURST` XPLines under one fence; and reads of bursts, of one and of two lines.
struct Limits {
    fenced: f64,
    shared: f64,
    two_lines: f64,
    one_line: f64,
}

fn limits(dir: &Path, bytes: u64, count: u64) -> Result<Limits> {
    let path = dir.join("limits");
    let region = FileRegion::create_with(&path, bytes, FLUSHED)?;
    for at in (0..bytes).step_by(4096) {
        region.store(at, 1);
    }
    let xplines = bytes / 256;
    let mut prng = Prng::new(1);
    let (fenced, shared) = write_limits(&region, xplines, count, &mut prng)?;
    let mut sum = 0;
    let mut read = |lines: u64| {
        let began = Instant::now();
        for _ in 0..count / BURST as u64 {
            let all: [u64; BURST] = std::array::from_fn(|_| prng.below(xplines) * 256);
            all.iter().for_each(|at| region.prefetch(*at));
            if lines == 2 {
                // Where the second line is, the first one says.
                all.iter().for_each(|at| region.prefetch(at + 64 + (region.word(*at) & 64)));
            }
            for at in all {
                sum += region.word(at + 64 * (lines - 1));
            }
        }
        report(&format!("limit: {lines} line(s) of bursts of 32"), count, began)
    };
    let (two_lines, one_line) = (read(2), read(1));
    println!("(read {sum})");
    std::fs::remove_file(path).expect("removed");
    Ok(Limits { fenced, shared, two_lines, one_line })
}

/// Writes a second with two flushes and two fences each, and with a fence for 32 of them.
fn write_limits(
    region: &impl Region,
    xplines: u64,
    count: u64,
    prng: &mut Prng,
) -> Result<(f64, f64)> {
    let began = Instant::now();
    for n in 0..count {
        let at = prng.below(xplines) * 256;
        region.store(at + 64, n);
        region.flush(at + 64, 8);
        region.fence()?;
        region.store(at, n);
        region.flush(at, 8);
        region.fence()?;
    }
    let fenced = report("limit: two flushes, two fences", count, began);
    let began = Instant::now();
    for n in 0..count {
        let at = prng.below(xplines) * 256;
        region.store(at + 64, n);
        region.store(at, n);
        region.flush(at, 72);
        region.fence()?;
    }
    report("limit: two flushes, one fence", count, began);
    let began = Instant::now();
    for n in 0..count {
        let at = prng.below(xplines) * 256;
        // Where the slot is, the commit word says.
        let slot = at + 64 + (region.word(at) & 64);
        region.store(slot, n);
        region.flush(slot, 8);
        region.fence()?;
        region.store(at, n);
        region.flush(at, 8);
        region.fence()?;
    }
    report("the same behind a read of the first line", count, began);
    let began = Instant::now();
    for _ in 0..count / BURST as u64 {
        let all: [u64; BURST] = std::array::from_fn(|_| prng.below(xplines) * 256);
        all.iter().for_each(|at| region.prefetch(*at));
        for at in all {
            region.store(at + 64, at);
            region.store(at, at);
            region.flush(at, 72);
        }
        region.fence()?;
    }
    Ok((fenced, report("limit: two flushes each, a fence for 32", count, began)))
}

fn insert_singles(turbo: &impl Engine, from: u64, to: u64) -> Result<()> {
    for n in from..to {
        let (key, value) = (key(n), n.to_le_bytes());
        let mut batch = WriteBatch::new();
        turbo.write(batch.put(&key, &value), NOW)?;
    }
    Ok(())
}

fn put_bursts(turbo: &impl Engine, from: u64, to: u64, add: u64, is_each: bool) -> Result<()> {
    for first in (from..to).step_by(BURST) {
        let keys: [[u8; 8]; BURST] = std::array::from_fn(|n| key(first + n as u64));
        let values: [[u8; 8]; BURST] =
            std::array::from_fn(|n| (first + n as u64 + add).to_le_bytes());
        let mut batch = WriteBatch::new();
        for (key, value) in keys.iter().zip(&values) {
            batch.put(key, value);
        }
        if is_each {
            turbo.write_each(&batch, NOW)?;
        } else {
            turbo.write(&batch, NOW)?;
        }
    }
    Ok(())
}

fn get_bursts(turbo: &impl Engine, from: u64, count: u64, keys_max: u64) -> Result<u64> {
    let (mut sink, mut prng) = (Count(0), Prng::new(5));
    for _ in 0..count / BURST as u64 {
        let keys: [[u8; 8]; BURST] = std::array::from_fn(|_| key(from + prng.below(keys_max)));
        let keys: [&[u8]; BURST] = std::array::from_fn(|n| &keys[n][..]);
        turbo.get_many(&keys, &mut sink)?;
    }
    Ok(sink.0)
}

fn metric(turbo: &impl Engine, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    turbo.metrics(&mut metrics);
    metrics.get(name)
}

fn open(dir: &Path) -> Result<Turbo<FileRegion>> {
    let mut options = OptionValues::default();
    options.set("memory_bytes", 1 << 30);
    let environment = Environment::new(HashSeed([3; 16]));
    Turbo::open_on(Place(dir.to_path_buf()), &options, &environment)
}

fn measure_growth(turbo: &impl Engine, count: u64, limits: &Limits) -> Result<()> {
    println!("an empty store has {} bytes", metric(turbo, "region_bytes"));
    let began = Instant::now();
    let (mut mean, mut held, mut load_max, steps) = (0.0, 0.0, 0.0_f64, 100);
    for step in 0..steps {
        insert_singles(turbo, count * step / steps, count * (step + 1) / steps)?;
        if step >= 10 {
            mean += metric(turbo, "region_bytes") / (count * (step + 1) / steps) as f64;
            held += metric(turbo, "region_held_bytes") / (count * (step + 1) / steps) as f64;
        }
        load_max = load_max.max(metric(turbo, "load_factor"));
    }
    let insert = report("insert", count, began);
    ratio("insert", insert, limits.fenced);
    println!(
        "bytes per entry: mean over growth {:.1} ({:.1} in use), at the end {:.1}; \
         highest load {load_max:.3}",
        mean / (steps - 10) as f64,
        held / (steps - 10) as f64,
        metric(turbo, "region_bytes") / count as f64
    );
    println!(
        "at the end: load {:.3}, held {:.1} bytes, live {:.1} bytes an entry",
        metric(turbo, "load_factor"),
        metric(turbo, "region_held_bytes") / count as f64,
        metric(turbo, "live_bytes") / count as f64
    );
    println!(
        "resizes: {}, longest {} us, all {} ms",
        metric(turbo, "resizes"),
        metric(turbo, "resize_ns_max") / 1e3,
        metric(turbo, "resize_ns") / 1e6
    );
    Ok(())
}

fn measure_updates(turbo: &impl Engine, count: u64, limits: &Limits) -> Result<()> {
    let began = Instant::now();
    insert_singles(turbo, 0, count)?;
    let update = report("update", count, began);
    ratio("update", update, limits.fenced);
    for is_each in [false, true] {
        let name = if is_each { "each" } else { "together" };
        let began = Instant::now();
        put_bursts(turbo, 0, count, 7, is_each)?;
        let rate = report(&format!("update in batches of 32, {name}"), count, began);
        ratio("", rate, limits.shared);
    }
    Ok(())
}

fn measure_reads(turbo: &impl Engine, count: u64, limits: &Limits) -> Result<()> {
    let began = Instant::now();
    let hits = get_bursts(turbo, 0, count, count)?;
    ratio("hit", report("hit, bursts of 32", hits, began), limits.two_lines);
    let began = Instant::now();
    assert_eq!(get_bursts(turbo, count * 2, count, count)?, 0);
    ratio("miss", report("miss, bursts of 32", count, began), limits.one_line);
    let (began, mut sink, mut prng) = (Instant::now(), Count(0), Prng::new(9));
    for _ in 0..count {
        turbo.get_many(&[&key(prng.below(count))], &mut sink)?;
    }
    report("hit, singles", sink.0, began);
    Ok(())
}

/// What two threads that write keys of the whole store cost each other: twice the time of one, on
/// its processor, by that of two.
fn measure_two_threads(turbo: &impl Engine, count: u64) {
    let spent = |from: u64, to: u64| {
        let before = on_processor_ns();
        insert_singles(turbo, from, to).expect("updates");
        (on_processor_ns() - before) as f64 / (to - from) as f64
    };
    let alone = spent(0, count / 4);
    let spent = &spent;
    let both: f64 = std::thread::scope(|scope| {
        let half = count / 2;
        let writers = [0, half].map(|from| scope.spawn(move || spent(from, from + half)));
        writers.map(|writer| writer.join().expect("no panic")).iter().sum()
    });
    println!("two threads against one, by time on processors: {:.2}", 2.0 * alone / (both / 2.0));
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or("/dev/shm".into())).join("turbo_speed");
    let count: u64 = arguments.next().map_or(2_000_000, |n| n.parse().expect("a number"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    let limits = limits(&dir, count.next_multiple_of(16) * 28 / 4096 * 4096, count)?;

    let turbo = open(&dir)?;
    measure_growth(&turbo, count, &limits)?;
    measure_updates(&turbo, count, &limits)?;
    measure_reads(&turbo, count, &limits)?;
    measure_two_threads(&turbo, count);
    drop(turbo);
    let began = Instant::now();
    let turbo = open(&dir)?;
    turbo.get_many(&[&key(1)], &mut Count(0))?;
    println!("open to the first answer: {:.1} ms", began.seconds() * 1e3);
    while turbo.maintain(silica_engine::Budget::of(1 << 20))?.more {}
    println!("until all is checked: {:.1} ms", began.seconds() * 1e3);
    drop(turbo);
    std::fs::remove_dir_all(&dir).expect("removed");
    Ok(())
}
