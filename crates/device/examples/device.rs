//! Measures the device layer in a directory: log appends, bursts of random reads, large writes.
//!
//! `cargo run --release -p silica-device --example device -- DIR [append|read|write|sync ...]`

use silica_base::{AlignedBuf, Prng};
use silica_device::{Device, DeviceFile, DeviceOptions, FileDevice, IoChoice, LogFile, Mode};
use silica_device::{Read, ReadQueue};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 2 << 30;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: device DIR [append|read|write|sync ...]");
    let parts: Vec<String> = args.collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    let dir = Path::new(&dir);
    if wanted("append") {
        append(dir, 64 << 20);
        append(dir, 512 << 20);
    }
    if wanted("sync") {
        sync(dir);
    }
    if wanted("write") {
        write(dir, IoChoice::Auto);
        write(dir, IoChoice::Buffered);
    }
    if wanted("read") {
        for io in [IoChoice::Uring, IoChoice::Threads, IoChoice::Buffered] {
            for depth in [1, 8, 32] {
                read(dir, io, depth);
            }
        }
    }
}

fn open(dir: &Path, io: IoChoice) -> FileDevice {
    FileDevice::open(dir, DeviceOptions { create: true, io, ..DeviceOptions::default() })
        .expect("the directory opens")
}

/// Nanoseconds that this thread spent on a processor, if the kernel tells.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn append(dir: &Path, capacity: u64) {
    let device = open(dir, IoChoice::Auto);
    let record = [7u8; 120];
    let log = device.create_log("bench.log", capacity).expect("space for the log");
    let (mut count, mut slowest) = (0u64, Duration::ZERO);
    let (start, cpu) = (Instant::now(), cpu_ns());
    let mut last = start;
    while log.append(black_box(&[&record])).is_ok() {
        count += 1;
        if count.is_multiple_of(64) {
            let now = Instant::now();
            slowest = slowest.max(now - last);
            last = now;
        }
    }
    let each = |ns: u128| ns as f64 / count as f64;
    println!(
        "append: {count} records of 120 bytes, {:.1} ns each ({:.1} ns on a processor), \
         slowest 64 took {slowest:?}",
        each(start.elapsed().as_nanos()),
        each(u128::from(cpu_ns() - cpu))
    );
    drop(log);
    device.remove("bench.log").expect("the log goes");
}

fn sync(dir: &Path) {
    let device = open(dir, IoChoice::Auto);
    let log = device.create_log("bench.log", 64 << 20).expect("space for the log");
    log.append(&[&[1; 120]]).and_then(|_| log.sync()).expect("a synced record");
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < Duration::from_secs(2) {
        log.append(&[&[7; 120]]).and_then(|_| log.sync()).expect("a synced record");
        count += 1;
    }
    println!("sync: {:?} per synced append", start.elapsed() / count);
    drop(log);
    device.remove("bench.log").expect("the log goes");
}

fn write(dir: &Path, io: IoChoice) {
    let device = open(dir, io);
    let _ = device.remove("bench.data");
    let file = device.create("bench.data", Mode::Direct).expect("a new file");
    file.allocate(FILE_BYTES).expect("space for the file");
    let mut buf = AlignedBuf::zeroed(1 << 20);
    Prng::new(1).fill(&mut buf);
    let start = Instant::now();
    for at in (0..FILE_BYTES).step_by(buf.len()) {
        file.write_at(at, &buf).expect("a written chunk");
    }
    file.sync().expect("a synced file");
    let rate = FILE_BYTES as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("write {io:?}: {rate:.0} MB/s in pieces of 1 MiB, sync included");
}

fn read(dir: &Path, io: IoChoice, depth: usize) {
    let device = open(dir, io);
    let file = Arc::new(device.open("bench.data", Mode::Direct).expect("run `write` first"));
    let mut rng = Prng::new(depth as u64);
    let mut draw = |buf| {
        let offset = rng.below(FILE_BYTES / 4096) * 4096;
        Read { of: file.clone(), offset, buf }
    };
    let mut reads = device.reads(depth);
    for _ in 0..depth {
        reads.push(draw(AlignedBuf::zeroed(4096)));
    }
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(4) {
        let (read, result) = reads.pop().expect("reads are under way");
        assert_eq!(result.expect("a read"), 4096);
        reads.push(draw(read.buf));
        count += 1;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("read {io:?}: depth {depth}: {rate:.0} reads/s of 4 KiB");
}
