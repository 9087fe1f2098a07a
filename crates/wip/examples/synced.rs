//! Synced puts of several threads, beside what the device can sync: writes of one block with a
//! sync each, in the same directory and the same run.
//!
//! `cargo run --release -p silica-wip --example synced -- DIR [seconds [OPTION=N …]]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use silica_base::HashSeed;
use silica_device::{Device, DeviceOptions, FileDevice};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues};
use silica_wip::Wip;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Synced overwrites of a block of a file that is there already, in a second.
fn device_syncs(dir: &Path, seconds: f64) -> f64 {
    let path = dir.join("syncs");
    let file = std::fs::File::create(&path).expect("a file");
    file.write_all_at(&vec![1; 16 << 20], 0).expect("written");
    file.sync_all().expect("synced");
    let (start, mut count) = (Instant::now(), 0u64);
    while start.elapsed().as_secs_f64() < seconds {
        file.write_all_at(&[count as u8; 4096], count % 4096 * 4096).expect("written");
        file.sync_data().expect("synced");
        count += 1;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    std::fs::remove_file(path).expect("removed");
    rate
}

/// Bytes that this process had written to devices so far.
fn device_bytes() -> f64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("what the kernel counts");
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).expect("a number")
}

/// Puts a second, puts for each sync, and bytes written for each put.
fn puts(wip: &Wip<FileDevice>, threads: u64, seconds: f64) -> [f64; 3] {
    let (done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let syncs = || wip.device().counters().snapshot().syncs;
    let (start, before, bytes) = (Instant::now(), syncs(), device_bytes());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                wip.maintain(Budget::of(1 << 20)).expect("maintenance");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for thread in 0..threads {
            let (done, count) = (&done, &count);
            scope.spawn(move || {
                let mut n = thread;
                while !done.load(Ordering::Relaxed) {
                    let key = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) as u128) << 64 | n as u128;
                    wip.put(&key.to_be_bytes(), &[7; 100], Durability::Synced).expect("a put");
                    n += threads;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        done.store(true, Ordering::Relaxed);
    });
    let count = count.load(Ordering::Relaxed) as f64;
    let written = device_bytes() - bytes;
    [count / start.elapsed().as_secs_f64(), count / (syncs() - before) as f64, written / count]
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = args.get(1).expect("a directory");
    let seconds: f64 = args.get(2).map_or(3.0, |n| n.parse().expect("a number"));
    let device = FileDevice::open(dir.as_ref(), DeviceOptions::default()).expect("the directory");
    let environment = Environment::new(HashSeed([1; 16]));
    let mut options = OptionValues::default();
    for (name, value) in args.iter().skip(3).filter_map(|arg| arg.split_once('=')) {
        let known = silica_wip::OPTIONS.iter().find(|option| option.name == name);
        let name = known.expect("an option of the engine").name;
        options.set(name, value.parse().expect("a number"));
    }
    let wip = Wip::open(device, &options, &environment).expect("it opens");
    for _ in 0..2 {
        let syncs = device_syncs(dir.as_ref(), seconds);
        println!("device: {:.1} k syncs/s", syncs / 1e3);
        for threads in [1, 8] {
            let [rate, shared, bytes] = puts(&wip, threads, seconds);
            let of_device = rate / syncs;
            println!(
                "{threads} threads: {:.1} k/s, {of_device:.2} of that; {shared:.2} puts a sync, \
                 {bytes:.0} bytes written a put",
                rate / 1e3
            );
        }
    }
}
