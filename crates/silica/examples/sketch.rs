//! What the live sketch of a keyspace costs, or, where the third argument is `recorded`, what it
//! costs that the keyspace is recorded: gets and puts with it and without it, in turns, in
//! one process and on one keyspace; in time of the thread's processor, which other work beside it
//! moves less than the clock (Linux: `/proc/thread-self/schedstat`; the clock elsewhere). With
//! `control` neither turn has it: what is shown then is what the measurement repeats to.
//!
//! `cargo run --release -p silica --example sketch -- DIR [ROUNDS [recorded|control]]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use silica::{Durability, EngineExt, GetSink, Keyspace, OpenOptions, RecordOptions};
use silica_base::Prng;
use silica_engine::EntryRef;
use std::path::Path;
use std::time::Instant;

const KEYS: u64 = 100_000;
/// Operations between two looks at the clock: long against the pauses of the machine, short
/// against its moods.
const OPERATIONS: u64 = 50_000;
const BURST: usize = 32;

struct Nothing;

impl GetSink for Nothing {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        std::hint::black_box(entry.value);
    }
}

/// Nanoseconds that this thread had a processor.
fn processor_nanos() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    // Where the kernel does not count, it says zero.
    text.split_whitespace().next()?.parse().ok().filter(|nanos| *nanos > 0.0)
}

/// Nanoseconds of an operation.
fn time(work: impl FnOnce() -> u64) -> f64 {
    // Some kernels count at a switch only; giving the processor away makes one.
    std::thread::yield_now();
    let (start, before) = (Instant::now(), processor_nanos());
    let done = work();
    std::thread::yield_now();
    let nanos = match (before, processor_nanos()) {
        (Some(before), Some(now)) if now > before => now - before,
        _ => start.elapsed().as_nanos() as f64,
    };
    nanos / done as f64
}

fn gets(keyspace: &Keyspace, prng: &mut Prng, burst: usize) -> u64 {
    let engine = keyspace.engine();
    for _ in 0..OPERATIONS / burst as u64 {
        let mut keys = [[0; 8]; BURST];
        keys[..burst].fill_with(|| prng.below(KEYS).to_be_bytes());
        let keys: [&[u8]; BURST] = std::array::from_fn(|n| &keys[n][..]);
        engine.get_many(&keys[..burst], &mut Nothing).expect("gets");
    }
    OPERATIONS
}

fn puts(keyspace: &Keyspace, prng: &mut Prng) -> u64 {
    for _ in 0..OPERATIONS {
        let key = prng.below(KEYS).to_be_bytes();
        keyspace.engine().put(&key, &[7; 100], Durability::Buffered).expect("a put");
    }
    OPERATIONS
}

/// By how many percent the median of `ratios` is above one, and an interval that holds the true one
/// 95 times in 100. It is by order alone, whatever the ratios are distributed like.
fn median_percent(ratios: &mut [f64]) -> [f64; 3] {
    ratios.sort_by(f64::total_cmp);
    let (middle, half) = (ratios.len() as f64 / 2.0, 0.98 * (ratios.len() as f64).sqrt());
    [middle, middle - half, middle + half].map(|at| {
        let at = at.clamp(0.0, ratios.len() as f64 - 1.0) as usize;
        100.0 * (ratios[at] - 1.0)
    })
}

fn main() -> silica::Result<()> {
    let dir = std::env::args().nth(1).expect("a directory");
    let rounds = std::env::args().nth(2).map_or(200, |text| text.parse().expect("a number"));
    let mode = std::env::args().nth(3);
    let is_recorded = mode.as_deref() == Some("recorded");
    let is_control = mode.as_deref() == Some("control");
    for engine in ["mica", "wip"] {
        let options = OpenOptions::new().durability(Durability::Buffered).background_threads(0);
        let store = options.open(Path::new(&dir).join(engine))?;
        let keyspace = store.create_keyspace("k", engine, &[])?;
        for n in 0..KEYS {
            keyspace.put(n.to_be_bytes(), [7; 100])?;
        }
        keyspace.settle()?;
        for what in ["gets one by one", "gets in bursts of 32", "puts"] {
            // Both see the same operations. Which is first is drawn: maintenance comes every few
            // turns, and would meet the same one again and again.
            let (mut times, mut order) = ([Vec::new(), Vec::new()], Prng::new(17));
            let (mut recorded, mut dropped) = (0, 0);
            for round in 0..rounds {
                let first = order.below(2) as usize;
                for with in [first, 1 - first] {
                    let mut recording = None;
                    if !is_recorded {
                        keyspace.sketch_workload(with == 1 && !is_control);
                    } else if with == 1 {
                        let to = std::io::sink();
                        recording = Some(keyspace.record_to(to, &RecordOptions::default())?);
                    }
                    let prng = &mut Prng::new(round as u64);
                    times[with].push(time(|| match what {
                        "puts" => puts(&keyspace, prng),
                        "gets one by one" => gets(&keyspace, prng, 1),
                        _ => gets(&keyspace, prng, BURST),
                    }));
                    if let Some(recording) = recording {
                        let report = recording.stop()?;
                        recorded += report.operations;
                        dropped += report.dropped;
                    }
                }
            }
            let mut ratios: Vec<f64> = times[1].iter().zip(&times[0]).map(|(w, o)| w / o).collect();
            let [median, from, to] = median_percent(&mut ratios);
            let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
            println!(
                "{engine}, {what}: {:.1} ns without, {:.1} ns with; median of {} pairs \
                 {median:+.2} % ({from:+.2} to {to:+.2})",
                mean(&times[0]),
                mean(&times[1]),
                ratios.len()
            );
            if is_recorded {
                println!("{recorded} operations recorded, {dropped} dropped");
            }
        }
    }
    Ok(())
}
