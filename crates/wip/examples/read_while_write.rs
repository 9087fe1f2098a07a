//! Gets with exponential keys while another thread puts uniform ones at a fixed rate: what
//! compactions that follow the reads are worth (section 2.4.3 of the paper). Compare
//! `read_weight=10` with `read_weight=0`.
//!
//! `cargo run --release -p silica-wip --example read_while_write -- DIR [entries=N]
//! [seconds=N] [rate=N] [OPTION=N …]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

mod common;

use common::{Args, VALUE, attended, key_at, milliseconds, put_all, report, report_times};
use silica_base::{Histogram, Prng};
use silica_engine::{Durability, EngineExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Puts between two looks at the clock.
const PUTS_AT_ONCE: u64 = 100;

fn main() {
    let mut args = Args::read();
    let entries = args.take("entries", 3_000_000);
    let seconds = args.take("seconds", 10);
    let rate = args.take("rate", 50_000);
    let wip = args.open();
    // In the order of the keys, so that reads of low numbers are reads of few buckets.
    let step = u64::MAX / entries;
    let key = |n: u64| key_at(n * step, n);
    let shuffled = |n: u64| n.wrapping_mul(0x9e37_79b1) % entries;
    let done = AtomicBool::new(false);
    attended(&wip, || {
        report_times("fill", &put_all(&wip, (0..entries).map(|n| key(shuffled(n)))));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (start, mut prng, mut put) = (Instant::now(), Prng::new(2), 0u64);
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..PUTS_AT_ONCE {
                        let key = key(prng.below(entries));
                        wip.put(&key, &VALUE, Durability::Buffered).expect("a put");
                    }
                    put += PUTS_AT_ONCE;
                    let due = Duration::from_secs_f64(put as f64 / rate as f64);
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
            });
            let mut prng = Prng::new(3);
            for _ in 0..2 {
                let (start, mut times) = (Instant::now(), Histogram::default());
                while start.elapsed().as_secs() < seconds.div_ceil(2) {
                    let part = (-(1.0 - prng.unit()).ln() / 20.0).min(0.999_999);
                    let before = Instant::now();
                    wip.get(&key((part * entries as f64) as u64)).expect("a get").expect("there");
                    times.record(before.elapsed().as_nanos() as u64);
                }
                println!(
                    "gets: {:.1} k/s, p99 {:.3} ms",
                    times.count() as f64 / start.elapsed().as_secs_f64() / 1e3,
                    milliseconds(times.quantile(0.99))
                );
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    report(&wip, entries);
}
