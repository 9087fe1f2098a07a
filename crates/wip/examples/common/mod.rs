//! What the examples share: arguments, a store with a background thread, timed puts, a report.

#![allow(dead_code, unreachable_pub)] // Each example uses some of it.

use silica_base::{HashSeed, Histogram, Prng};
use silica_device::{Device, DeviceOptions, FileDevice};
use silica_engine::{
    Budget, Durability, Engine, Environment, MetricsMap, OptionValues, WriteBatch,
};
use silica_wip::Wip;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a key and of its value.
pub const KEY_BYTES: usize = 16;
pub const VALUE: [u8; 100] = [7; 100];
/// Bytes that one call of the background thread moves.
const SLICE_BYTES: u64 = 4 << 20;

/// A directory and `name=value` pairs.
#[derive(Clone)]
pub struct Args {
    dir: String,
    pairs: Vec<(String, u64)>,
}

impl Args {
    pub fn read() -> Self {
        let mut args = std::env::args().skip(1);
        let dir = args.next().expect("a directory");
        let pair = |arg: String| {
            let (name, value) = arg.split_once('=').expect("name=value");
            (name.to_owned(), value.parse().expect("a number"))
        };
        Args { dir, pairs: args.map(pair).collect() }
    }

    /// Takes a pair out.
    pub fn take(&mut self, name: &str, usual: u64) -> u64 {
        let at = self.pairs.iter().position(|(n, _)| n == name);
        at.map_or(usual, |at| self.pairs.remove(at).1)
    }

    /// These settings with one more pair.
    pub fn with(mut self, name: &str, value: u64) -> Self {
        self.pairs.push((name.to_owned(), value));
        self
    }

    /// These settings in a directory of this name inside, which is made empty.
    pub fn in_dir(&self, name: &str) -> Self {
        let dir = std::path::Path::new(&self.dir).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("the directory");
        Args { dir: dir.to_str().expect("its name").to_owned(), pairs: self.pairs.clone() }
    }

    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// Opens a store with what is left as its options.
    pub fn open(self) -> Wip<FileDevice> {
        let device = FileDevice::open(self.dir.as_ref(), DeviceOptions::default());
        let mut options = OptionValues::default();
        for (name, value) in &self.pairs {
            options.set(name, *value);
        }
        let environment = Environment::new(HashSeed([1; 16]));
        Wip::open(device.expect("the directory"), &options, &environment).expect("it opens")
    }
}

/// The key number `n`, at a place that has nothing to do with the number.
pub fn key(n: u64) -> [u8; KEY_BYTES] {
    key_at(Prng::new(n).next_u64(), n)
}

/// A key at a place of all keys.
pub fn key_at(place: u64, n: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&place.to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Calls `work` while one thread maintains the store.
pub fn attended<T>(wip: &Wip<FileDevice>, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if !wip.maintain(Budget::of(SLICE_BYTES)).expect("maintenance").more {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Has nothing left to be done.
pub fn settle(wip: &Wip<FileDevice>) {
    while wip.maintain(Budget::of(SLICE_BYTES)).expect("maintenance").more {}
}

/// Puts every key; how long that took, each and all.
pub fn put_all(
    wip: &Wip<FileDevice>,
    keys: impl Iterator<Item = [u8; KEY_BYTES]>,
) -> (Histogram, Duration) {
    let mut times = Histogram::default();
    let start = Instant::now();
    let mut last = start;
    for key in keys {
        wip.write(WriteBatch::new().put(&key, &VALUE), Durability::Buffered).expect("a put");
        let now = Instant::now();
        times.record((now - last).as_nanos() as u64);
        last = now;
    }
    (times, start.elapsed())
}

pub fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// Prints how fast puts were.
pub fn report_times(what: &str, (times, took): &(Histogram, Duration)) {
    println!(
        "{what}: {:.0} k/s, p99.9 {:.3} ms, longest {:.1} ms",
        times.count() as f64 / took.as_secs_f64() / 1e3,
        milliseconds(times.quantile(0.999)),
        milliseconds(times.max()),
    );
}

/// Prints what was written and what is there, of `live` entries.
pub fn report(wip: &Wip<FileDevice>, live: u64) {
    let mut metrics = MetricsMap::default();
    wip.metrics(&mut metrics);
    let user = metrics.get("user_bytes_written");
    let per_byte = |name: &str| metrics.get(name) / user;
    let device = wip.device();
    let written = device.counters().snapshot().bytes_written as f64;
    println!(
        "written {:.2} times: log {:.2}, flushes {:.2}, compactions {:.2}",
        written / user,
        per_byte("log_bytes_written"),
        per_byte("flush_bytes_written"),
        per_byte("compaction_bytes_written"),
    );
    let tables = metrics.get("table_bytes");
    println!(
        "space {:.2}: tables {:.0} MiB of {:.0} MiB of entries; dead {:.0} MiB by estimate",
        tables / (live * (KEY_BYTES + VALUE.len()) as u64) as f64,
        tables / f64::from(1 << 20),
        live as f64 * (KEY_BYTES + VALUE.len()) as f64 / f64::from(1 << 20),
        metrics.get("dead_bytes") / f64::from(1 << 20),
    );
    for name in [
        "buckets",
        "runs",
        "flushes",
        "shared_flushes",
        "compactions",
        "bucket_splits",
        "bucket_joins",
        "writes_slowed_by_flush",
        "writes_slowed_by_log",
        "writes_slowed_by_compaction",
        "writes_waited_for_job",
        "writes_waited_for_sync",
        "writes_waited_for_segment",
    ] {
        print!("{name} {}; ", metrics.get(name));
    }
    println!();
}
