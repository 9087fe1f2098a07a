//! How long a store takes to open that was killed with a full log: seconds for each GB of it,
//! beside one read of the log's files from one end to the other.
//!
//! `cargo run --release -p silica-wip --example restart -- DIR [log_bytes=N] [OPTION=N …]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

mod common;

use common::{Args, VALUE, key};
use silica_engine::{Durability, Engine, EngineExt, MetricsMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The name of the argument that has a process fill the store and die.
const DIES: &str = "dies";

fn log_bytes(metrics: &MetricsMap) -> f64 {
    metrics.get("log_bytes_written")
}

/// Fills the log and ends without another word, as a kill does.
fn fill_and_die(args: Args, bytes: u64) -> ! {
    let wip = args.open();
    for n in 0.. {
        wip.put(&key(n), &VALUE, Durability::Buffered).expect("a put");
        if n % 4096 == 0 {
            let mut metrics = MetricsMap::default();
            wip.metrics(&mut metrics);
            if log_bytes(&metrics) >= bytes as f64 {
                break;
            }
        }
    }
    wip.sync().expect("a sync");
    std::process::abort();
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir).expect("the directory");
    names.map(|entry| entry.expect("a name").path()).collect()
}

/// Has the kernel forget what it has of the directory's files, and reads them from the device.
fn forget_and_read(dir: &Path, reads: bool) -> (u64, f64) {
    for path in files(dir) {
        let file = std::fs::File::open(path).expect("a file");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
    }
    let (start, mut bytes, mut buf) = (Instant::now(), 0, vec![0; 1 << 20]);
    for path in files(dir).iter().filter(|_| reads) {
        let mut file = std::fs::File::open(path).expect("a file");
        loop {
            match file.read(&mut buf).expect("a read") {
                0 => break,
                some => bytes += some as u64,
            }
        }
    }
    (bytes, start.elapsed().as_secs_f64())
}

fn main() {
    let mut args = Args::read();
    let (dies, bytes) = (args.take(DIES, 0), args.take("log_bytes", 1 << 30));
    // Nothing is flushed before the log is full.
    let args = args
        .with("memory_bytes", 4 * bytes)
        .with("log_bytes_max", 2 * bytes)
        .with("memtable_bytes_max", 2 * bytes);
    if dies == 1 {
        fill_and_die(args, bytes);
    }
    let args = args.in_dir("restart");
    let program = std::env::current_exe().expect("its name");
    let own = std::env::args().skip(2);
    let status = std::process::Command::new(program)
        .arg(args.dir())
        .args(own)
        .arg(format!("{DIES}=1"))
        .status()
        .expect("it runs");
    assert!(!status.success(), "it was to die");
    let dir = PathBuf::from(args.dir());
    let (read, took) = forget_and_read(&dir, true);
    println!("files: {:.2} GB, read in {:.2} s/GB", read as f64 / 1e9, took * 1e9 / read as f64);
    forget_and_read(&dir, false);
    let start = Instant::now();
    let wip = args.open();
    let took = start.elapsed().as_secs_f64();
    let log = bytes as f64 / 1e9;
    println!("opened with {log:.2} GB of log in {took:.2} s: {:.2} s/GB", took / log);
    let mut entries = 0u64;
    while wip.get(&key(entries)).expect("a get").is_some() {
        entries += 1;
    }
    println!("{entries} entries are there");
    drop(wip);
    std::fs::remove_dir_all(dir).expect("removed");
}
