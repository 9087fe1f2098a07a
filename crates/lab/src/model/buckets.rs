//! WipDB's buckets followed one by one, in expectation: what rewriting them comes to.
//!
//! A bucket's dead entries come by whole flushes, and the bucket with the largest part of them is
//! next, so that it is rewritten after one, two, … flushes, and what share of them after how many
//! is no mean over many. Keys are not followed: a memtable has as many entries as are expected, and
//! a deviation that grows with them as it does for keys that are put at random times, drawn with a
//! fixed seed. It decides which of buckets that are alike is next.

use silica_base::Prng;

use super::{Distinct, WipDb};

/// Levels of a run above level 0 (`LEVEL_MAX` of the engine's policy).
const LEVEL_MAX: u32 = 2;
/// Steps in which all buckets are flushed once, at least, and for each bucket.
const ROUND_STEPS: usize = 64;
const BUCKET_STEPS: usize = 2;
/// Of what passes between two rewritings of a bucket, how much passes before and while is counted.
const PASSED: f64 = 3.0;
const COUNTED: f64 = 12.0;
/// Rounds that pass and are counted, and flushes that are counted, at least.
const PASSED_MIN: f64 = 20.0;
const COUNTED_MIN: f64 = 60.0;
const FLUSHES_MIN: f64 = 2000.0;
const SEED: u64 = 1;

/// A run of a bucket.
#[derive(Clone, Copy, Debug)]
struct Run {
    level: u32,
    entries: f64,
    /// Puts to the store in which these entries came; infinite for all that is live.
    puts: f64,
}

#[derive(Debug)]
struct Bucket {
    /// Steps since the last flush, and the entries that came in them.
    age: usize,
    fresh: f64,
    /// The newest first.
    runs: Vec<Run>,
    entries: f64,
}

/// A store between two steps.
struct Store<'k, K> {
    keys: &'k K,
    design: WipDb,
    buckets: Vec<Bucket>,
    /// Puts of a step, and live entries of a bucket.
    step: f64,
    live: f64,
    dead: f64,
    /// Entries that come to a memtable in its first, second, … step, and their deviation.
    growth: Vec<(f64, f64)>,
    prng: Prng,
    merged: f64,
}

/// Entries that compactions write for each put, of `buckets` buckets that are flushed every
/// `interval` puts and rewritten after `flushes` flushes, both about.
pub(super) fn follow(
    design: &WipDb,
    keys: &impl Distinct,
    buckets: usize,
    interval: f64,
    flushes: f64,
) -> f64 {
    let steps = ROUND_STEPS.div_ceil(buckets).max(BUCKET_STEPS) * buckets;
    let mut store = Store::new(design, keys, buckets, interval / steps as f64);
    let rounds = |times: f64, least: f64| (times * flushes).ceil().max(least) as usize;
    (0..rounds(PASSED, PASSED_MIN) * steps).for_each(|_| store.pass());
    store.merged = 0.0;
    let counted = rounds(COUNTED, COUNTED_MIN.max(FLUSHES_MIN / buckets as f64)) * steps;
    (0..counted).for_each(|_| store.pass());
    store.merged / (counted as f64 * store.step)
}

impl<'k, K: Distinct> Store<'k, K> {
    /// Of buckets that were rewritten just now and whose memtables are at equal distances.
    fn new(design: &WipDb, keys: &'k K, buckets: usize, step: f64) -> Self {
        let live = keys.live() / buckets as f64;
        let bucket = |_| Bucket {
            age: 0,
            fresh: 0.0,
            runs: vec![Run { level: LEVEL_MAX, entries: live, puts: f64::INFINITY }],
            entries: live,
        };
        let (buckets, prng) = ((0..buckets).map(bucket).collect(), Prng::new(SEED));
        let (design, growth) = (*design, Vec::new());
        Store { keys, design, buckets, step, live, dead: 0.0, growth, prng, merged: 0.0 }
    }

    /// Entries of a bucket that come from so many puts to the store.
    fn distinct(&self, puts: f64) -> f64 {
        if puts.is_finite() {
            self.keys.unique(puts) / self.buckets.len() as f64
        } else {
            self.live
        }
    }

    /// What comes to a memtable that was flushed `age` steps ago, and how much that differs.
    fn growth(&mut self, age: usize) -> (f64, f64) {
        while self.growth.len() <= age {
            let at = |steps: usize| self.distinct(steps as f64 * self.step);
            let (from, to) = (self.growth.len(), self.growth.len() + 1);
            // Of keys at random times each is there or not, which differs by the sum of
            // p (1 - p), where 1 - p is the chance of none: a double time squares it.
            let variance = |steps: usize| at(2 * steps) - at(steps);
            let more = variance(to) - variance(from);
            self.growth.push((at(to) - at(from), more.max(0.0).sqrt()));
        }
        self.growth[age]
    }

    /// The sum of three even draws is near enough to a normal one.
    fn deviation(&mut self) -> f64 {
        2.0 * (0..3).map(|_| self.prng.unit() - 0.5).sum::<f64>()
    }

    fn fresh(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.fresh).sum()
    }

    /// One step of puts, and what they make due.
    fn pass(&mut self) {
        let before = self.fresh();
        for place in 0..self.buckets.len() {
            let (mean, deviation) = self.growth(self.buckets[place].age);
            let more = mean + deviation * self.deviation();
            let bucket = &mut self.buckets[place];
            bucket.fresh = (bucket.fresh + more).max(0.0);
            bucket.age += 1;
        }
        let steps = (self.design.log_window / self.step) as usize;
        while let Some(place) = self.buckets.iter().position(|bucket| bucket.age > steps) {
            self.flush(place);
        }
        // The step whose end is nearest to where the memtables are full.
        let half = 0.5 * (self.fresh() - before).max(0.0);
        while self.fresh() + half > self.design.memtable {
            let sizes = self.buckets.iter().map(|bucket| bucket.fresh).enumerate();
            let largest = sizes.max_by(|a, b| a.1.total_cmp(&b.1));
            let Some((place, _)) = largest.filter(|(_, size)| *size > 0.0) else { return };
            self.flush(place);
        }
    }

    fn flush(&mut self, place: usize) {
        let step = self.step;
        let bucket = &mut self.buckets[place];
        let run = Run { level: 0, entries: bucket.fresh, puts: bucket.age as f64 * step };
        (bucket.age, bucket.fresh) = (0, 0.0);
        bucket.runs.insert(0, run);
        bucket.entries += run.entries;
        self.dead += run.entries;
        self.make_room(place);
        self.make_space();
    }

    /// Merges the highest full level of a bucket and all that is newer, until none is full.
    fn make_room(&mut self, place: usize) {
        loop {
            let runs = &self.buckets[place].runs;
            let at = |level: u32| runs.iter().filter(|run| run.level == level).count();
            let full = (0..=LEVEL_MAX).rev().find(|l| at(*l) >= self.design.runs_max as usize);
            let Some(level) = full else { return };
            let count = runs.iter().take_while(|run| run.level <= level).count();
            self.merge(place, count);
        }
    }

    /// Rewrites the buckets with the largest part of dead entries, until there are no more of them
    /// than there may be.
    fn make_space(&mut self) {
        let live = self.live * self.buckets.len() as f64;
        while self.dead > (self.design.space / self.design.table - 1.0) * live {
            let entries = self.buckets.iter().map(|bucket| bucket.entries).enumerate();
            // As much is live in each, so the largest part is dead where the most is.
            let Some((place, most)) = entries.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
            if most <= self.live {
                return;
            }
            self.merge(place, self.buckets[place].runs.len());
        }
    }

    /// The `count` newest runs of a bucket become one of the next level.
    fn merge(&mut self, place: usize, count: usize) {
        let runs = &self.buckets[place].runs;
        let level = runs[..count].iter().map(|run| run.level).max().unwrap_or(0);
        let puts = if count == runs.len() {
            f64::INFINITY
        } else {
            runs[..count].iter().map(|run| run.puts).sum()
        };
        let entries = self.distinct(puts);
        let bucket = &mut self.buckets[place];
        bucket.runs.drain(..count);
        bucket.runs.insert(0, Run { level: (level + 1).min(LEVEL_MAX), entries, puts });
        // Summed anew: with what rounding leaves, a bucket of nothing dead would be rewritten.
        bucket.entries = bucket.runs.iter().map(|run| run.entries).sum();
        self.dead = self.buckets.iter().map(|bucket| bucket.entries - self.live).sum();
        self.merged += entries;
    }
}
