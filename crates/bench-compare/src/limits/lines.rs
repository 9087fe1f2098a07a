//! How fast memory is read line by line in random order, and in order.

use super::cores::{on_cores, per_second};
use super::table::{Line, Pages, Table};
use super::{Limit, LimitSetup, Probe, Reading};
use silica::{Error, ErrorKind, Result};
use silica_base::{HugeVec, Prng, prefetch};
use std::hint::black_box;
use std::time::Duration;

/// Steps between two looks at the clock.
const STEPS: usize = 4096;

/// Reads of lines that lie anywhere.
pub(super) struct MemoryLines;

impl Limit for MemoryLines {
    fn name(&self) -> &'static str {
        "memory-lines"
    }

    fn doc(&self) -> &'static str {
        "random reads of 64-byte lines of memory, in 4 KiB and in 2 MiB pages"
    }

    fn version(&self) -> Result<String> {
        Ok("own probe".into())
    }

    fn figures(&self) -> usize {
        10
    }

    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>> {
        let mut readings = Vec::new();
        for pages in [Pages::Plain, Pages::Huge] {
            let table = Table::chained(pages, setup.bytes)?;
            readings.extend(read(&table, setup));
            if let Some(share) = table.huge_share() {
                readings.push(Reading::new(named("in_huge_pages", pages), "%", 100.0 * share));
            }
        }
        Ok(readings)
    }

    fn has_probe(&self, metric: &str) -> bool {
        WALKS.iter().any(|(walk, _)| metric.strip_prefix(walk).is_some_and(|p| p.starts_with("_")))
    }

    fn probe(&'static self, setup: &LimitSetup, metric: &str) -> Result<Box<dyn Probe>> {
        let pages = if metric.ends_with("_2m") { Pages::Huge } else { Pages::Plain };
        let walk =
            WALKS.iter().find(|(walk, _)| named(walk, pages) == metric).ok_or_else(|| {
                Error::new(ErrorKind::Config, format!("memory-lines has no figure {metric}"))
            })?;
        let table = Table::chained(pages, setup.bytes)?;
        Ok(Box::new(InSlices { walk: walk.1, table, threads: setup.threads.max(1) }))
    }
}

type Walk = fn(&[Line], &mut Place);

/// Ways through a table, by the beginning of their figures' names.
const WALKS: &[(&str, Walk)] = &[
    ("chain", chain),
    ("independent", independent),
    ("batch_8", batches::<8>),
    ("batch_16", batches::<16>),
    ("batch_32", batches::<32>),
];

/// A way through a table that is walked in slices.
struct InSlices {
    walk: Walk,
    table: Table,
    threads: usize,
}

impl Probe for InSlices {
    fn slice(&mut self, time: Duration) -> Result<f64> {
        Ok(rate(&self.table, self.threads, time.as_secs_f64(), self.walk))
    }
}

/// Lines that `threads` walk through in a second.
fn rate(table: &Table, threads: usize, seconds: f64, walk: Walk) -> f64 {
    let lines = table.lines();
    let places = (0..threads).map(|thread| Place::new(thread, lines.len()));
    on_cores(places.collect(), |mut place| {
        per_second(seconds, || {
            walk(lines, &mut place);
            STEPS as u64
        })
    })
}

fn named(metric: &str, pages: Pages) -> String {
    let size = if pages == Pages::Huge { "2m" } else { "4k" };
    format!("{metric}_{size}")
}

fn read(table: &Table, setup: &LimitSetup) -> Vec<Reading> {
    let threads = setup.threads.max(1);
    let mut readings = Vec::new();
    for (metric, walk) in WALKS {
        let rate = rate(table, threads, setup.seconds, *walk);
        if *metric == "chain" {
            let nanoseconds = 1e9 * threads as f64 / rate;
            readings.push(Reading::new(named("latency", table.pages()), "ns", nanoseconds));
        }
        readings.push(Reading::new(named(metric, table.pages()), "1/s", rate));
    }
    readings
}

/// Where a thread is.
struct Place {
    line: usize,
    prng: Prng,
}

impl Place {
    fn new(thread: usize, lines: usize) -> Self {
        let mut prng = Prng::new(thread as u64 + 1);
        Place { line: prng.below(lines as u64) as usize, prng }
    }
}

/// Each line says which one is next.
fn chain(lines: &[Line], place: &mut Place) {
    for _ in 0..STEPS {
        place.line = word(&lines[place.line]) as usize;
    }
}

/// The processor looks ahead as far as it can.
fn independent(lines: &[Line], place: &mut Place) {
    let mut sum = 0u64;
    for _ in 0..STEPS {
        let line = place.prng.below(lines.len() as u64) as usize;
        sum = sum.wrapping_add(word(&lines[line]));
    }
    black_box(sum);
}

/// So many lines are asked for before the first of them is read.
fn batches<const N: usize>(lines: &[Line], place: &mut Place) {
    let mut sum = 0u64;
    for _ in 0..STEPS / N {
        let mut batch = [0; N];
        for line in &mut batch {
            *line = place.prng.below(lines.len() as u64) as usize;
            prefetch(lines, *line);
        }
        for line in batch {
            sum = sum.wrapping_add(word(&lines[line]));
        }
    }
    black_box(sum);
}

fn word(line: &Line) -> u64 {
    u64::from_le_bytes(*line.first_chunk().expect("a line has more than a word"))
}

/// Memory read and written in order.
pub(super) struct MemoryStreams;

impl Limit for MemoryStreams {
    fn name(&self) -> &'static str {
        "memory-streams"
    }

    fn doc(&self) -> &'static str {
        "bytes of memory read, written and copied in order, in 2 MiB pages"
    }

    fn version(&self) -> Result<String> {
        Ok("own probe".into())
    }

    fn figures(&self) -> usize {
        3
    }

    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>> {
        let threads = setup.threads.max(1);
        let words = (setup.bytes as usize / 8).next_multiple_of(2 * threads).max(2 * threads);
        let mut memory = HugeVec::<u64>::zeroed(words);
        // Memory is there once it was written to.
        memory.fill(1);
        let mut rate = |pass: fn(&mut [u64])| {
            on_cores(memory.chunks_mut(words / threads).collect(), |part| {
                let bytes = size_of_val(part) as u64;
                per_second(setup.seconds, || {
                    pass(part);
                    bytes
                })
            })
        };
        let reading = |metric, value| Reading::new(metric, "bytes/s", value);
        Ok(vec![
            reading("read", rate(read_all)),
            reading("write", rate(|part| black_box(part).fill(2))),
            // Half of the part is read, half is written.
            reading("copy", rate(copy_half) / 2.0),
        ])
    }
}

fn read_all(part: &mut [u64]) {
    let mut sums = [0u64; 32];
    let (groups, rest) = part.as_chunks::<32>();
    for group in groups {
        for (sum, word) in sums.iter_mut().zip(group) {
            *sum ^= word;
        }
    }
    black_box((sums, rest.iter().fold(0, |sum, word| sum ^ word)));
}

fn copy_half(part: &mut [u64]) {
    let half = part.len() / 2;
    let (from, to) = part.split_at_mut(half);
    black_box(&mut to[..half]).copy_from_slice(from);
}
