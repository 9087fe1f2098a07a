//! Builds a dense index of random keys by external sort, and says how fast.
//!
//! `cargo run --release -p silica-parts --example ect_bulk [KEYS] [MEMORY_MIB] [DIRECTORY]`

use silica_base::{Prng, Result};
use silica_device::{DeviceOptions, FileDevice};
use silica_parts::ect::{EctParams, bulk};
use std::time::Instant;

fn on_threads(jobs: bulk::Jobs<'_>) {
    std::thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |arg| arg.parse().expect("a number"))
    };
    let (keys, mebibytes) = (number(0, 100_000_000), number(1, 64));
    let directory = arguments.get(2).map_or("ect-bulk", String::as_str);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let device = FileDevice::open(directory.as_ref(), DeviceOptions::default())?;
    let memory_bytes = (mebibytes << 20) as usize;
    let options = bulk::Options { memory_bytes, workers, ..Default::default() };

    let start = Instant::now();
    let mut sorter = bulk::Sorter::<16, _>::new(&device, options, &on_threads)?;
    let mut prng = Prng::new(1);
    for _ in 0..keys {
        let mut key = [0; 16];
        prng.fill(&mut key);
        sorter.push(&key, &mut |_| ())?;
    }
    let pushed = start.elapsed().as_secs_f64();
    let mut sorted = sorter.finish(&mut |_| ())?;
    let index = bulk::dense(&mut sorted, EctParams::default(), &mut |_| ())?;
    let total = start.elapsed().as_secs_f64();
    println!(
        "{keys} keys, {mebibytes} MiB, {workers} workers: runs {pushed:.1} s, \
         merge and index {:.1} s, {:.2} M keys/s, {:.3} bits per key",
        total - pushed,
        keys as f64 / total / 1e6,
        index.bytes() as f64 * 8.0 / keys as f64
    );
    Ok(())
}
