//! Fills a store with random keys of 16 bytes and values of 100, overwrites it, and says how fast
//! that was, how often each byte was written and how much room it takes.
//!
//! `cargo run --release -p silica-wip --example fill -- DIR [entries=N] [overwrites=TIMES]
//! [OPTION=N …]`
//!
//! The model: docs/benchmarks/wip.md. `first_buckets=64` begins with 64 buckets.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

mod common;

use common::{Args, attended, key, put_all, report, report_times, settle};
use silica_base::Prng;

fn main() {
    let mut args = Args::read();
    let entries = args.take("entries", 10_000_000);
    let times = args.take("overwrites", 0);
    let wip = args.open();
    let took = attended(&wip, || put_all(&wip, (0..entries).map(key)));
    report_times("fill", &took);
    report(&wip, entries);
    let mut prng = Prng::new(5);
    for time in 1..=times {
        let keys = (0..entries).map(|_| key(prng.below(entries)));
        let took = attended(&wip, || put_all(&wip, keys));
        report_times(&format!("overwrite {time}"), &took);
        report(&wip, entries);
    }
    settle(&wip);
    println!("settled: {}", wip.sizes());
}
