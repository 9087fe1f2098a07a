//! The index of more keys than memory holds (3.3.3): they are made in order while it is built.

use super::job::Job;
use super::sheet::Sheet;
use silica::Result;
use silica_base::Prng;
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams};
use std::hint::black_box;
use std::time::Instant;

/// Keys of a full run.
const KEYS: f64 = 1e9;
const KEYS_MIN: u64 = 10_000;
/// The sizes that are built, as parts of all keys.
const PARTS: [u64; 4] = [1000, 100, 10, 1];
/// Keys that are kept, with their ranks, to be looked up.
const KEPT: u64 = 1_000_000;
/// Lookups timed together.
const BATCH: usize = 1000;
const PAPER_BITS: f64 = 2.51;

/// Ascending keys as hashing makes them, about as many as asked for: gaps between random points are
/// exponential (a Poisson process).
struct Hashed {
    prng: Prng,
    mean_gap: f64,
    last: u64,
}

impl Hashed {
    fn new(keys: u64, seed: u64) -> Self {
        Hashed { prng: Prng::new(seed), mean_gap: 2f64.powi(64) / keys as f64, last: 0 }
    }
}

impl Iterator for Hashed {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let gap = -self.mean_gap * (1.0 - self.prng.unit()).ln();
        self.last = self.last.checked_add(gap as u64)?;
        Some(self.last)
    }
}

/// Sizes, builds and lookups from a thousandth of the keys to all of them.
pub(super) fn add(job: &Job<'_>, sheet: &mut Sheet) -> Result<()> {
    let all = job.keys(KEYS, KEYS_MIN);
    let mut sizes = PARTS.map(|part| (all / part).max(KEYS_MIN.min(all))).to_vec();
    sizes.dedup();
    for keys in sizes {
        if !job.begins(&format!("section 3.3.3: {keys} keys, made while indexed"), sheet)? {
            return Ok(());
        }
        one(keys, job.seed(), sheet);
    }
    Ok(())
}

fn one(keys: u64, seed: u64, sheet: &mut Sheet) {
    let start = Instant::now();
    black_box(Hashed::new(keys, seed).fold(0, |sum: u64, key| sum.wrapping_add(key)));
    let making = start.elapsed();
    let start = Instant::now();
    let mut builder = DenseBuilder::new(EctParams::default(), keys);
    let every = keys.div_ceil(KEPT);
    let mut kept = Vec::new();
    let (mut rank, mut next) = (0, every / 2);
    for key in Hashed::new(keys, seed) {
        builder.push(key);
        if rank == next {
            kept.push((key, rank));
            next += every;
        }
        rank += 1;
    }
    let index = builder.finish();
    let seconds = start.elapsed().saturating_sub(making).as_secs_f64().max(1e-9);
    let (lookup_ns, wrong) = look_up(&index, &mut kept, seed);
    let mut add = |metric: &str, value: f64, paper: Option<f64>| {
        let metric = format!("{keys} keys: {metric}");
        sheet.add("section-3.3.3", "ECT, keys made while indexed", metric, value, paper);
    };
    add("bits per key", index.bytes() as f64 * 8.0 / index.len() as f64, Some(PAPER_BITS));
    add("ns of a lookup", lookup_ns, None);
    add("keys/s built", rank as f64 / seconds, None);
    add("wrong ranks", wrong as f64, None);
}

/// Looks all `kept` keys up in random order: nanoseconds of a lookup, the median of batches, and
/// how many got another rank than theirs.
fn look_up(index: &DenseIndex, kept: &mut [(u64, u64)], seed: u64) -> (f64, u64) {
    let mut prng = Prng::new(seed ^ 1);
    for at in (1..kept.len()).rev() {
        kept.swap(at, prng.below(at as u64 + 1) as usize);
    }
    let mut wrong = 0;
    let mut batch = |keys: &[(u64, u64)]| {
        let start = Instant::now();
        for &(key, rank) in keys {
            wrong += u64::from(index.rank(key) != rank);
        }
        start.elapsed().as_nanos() as f64 / keys.len() as f64
    };
    let mut batches: Vec<f64> = kept.chunks(BATCH).map(&mut batch).collect();
    batches.sort_by(f64::total_cmp);
    (batches.get(batches.len() / 2).copied().unwrap_or(f64::NAN), wrong)
}
