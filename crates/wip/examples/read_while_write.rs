//! Reads of exponential keys while another thread puts uniform ones at a fixed rate: what
//! compactions that follow the reads are worth (section 2.4.3 of the paper). Compare
//! `read_weight=10` with `read_weight=0`. Reads are gets, or searches with so many entries each.
//!
//! `cargo run --release -p silica-wip --example read_while_write -- DIR [entries=N]
//! [seconds=N] [rate=N] [range=N] [OPTION=N …]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

mod common;

use common::{Args, VALUE, attended, key_at, milliseconds, put_all, report, report_times};
use silica_base::{Histogram, Prng};
use silica_engine::{Durability, EngineExt, KeyRange, Ordered};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Puts between two looks at the clock.
const PUTS_AT_ONCE: u64 = 100;

/// Goes through so many entries from `key` on.
fn search(ordered: &Arc<dyn Ordered>, key: &[u8], entries: u64) {
    let snapshot = ordered.clone().snapshot().expect("a snapshot");
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    let mut is_there = iter.seek(key).expect("a seek");
    assert!(is_there && iter.key() == key, "the key itself is there");
    for _ in 0..entries {
        if !is_there {
            break;
        }
        std::hint::black_box(iter.entry().value);
        is_there = iter.next().expect("a step");
    }
}

fn main() {
    let mut args = Args::read();
    let entries = args.take("entries", 3_000_000);
    let seconds = args.take("seconds", 10);
    let rate = args.take("rate", 50_000);
    let range = args.take("range", 0);
    let wip = Arc::new(args.open());
    let ordered: Arc<dyn Ordered> = wip.clone();
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
                    let key = key((part * entries as f64) as u64);
                    let before = Instant::now();
                    if range == 0 {
                        wip.get(&key).expect("a get").expect("there");
                    } else {
                        search(&ordered, &key, range);
                    }
                    times.record(before.elapsed().as_nanos() as u64);
                }
                println!(
                    "reads: {:.1} k/s, p99 {:.3} ms",
                    times.count() as f64 / start.elapsed().as_secs_f64() / 1e3,
                    milliseconds(times.quantile(0.99))
                );
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    report(&wip, entries);
}
