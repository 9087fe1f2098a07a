//! WipDB as our engine has it: buckets of the key space, each a memtable and runs.

use silica_base::Result;

use super::keyset::KeySet;
use super::{ItemUnits, Simulator, in_units, whole};
use crate::model::{Stage, WipDb};

/// The highest level of a run (the engine's policy).
const LEVEL_MAX: usize = 2;

/// A run of a bucket, and how often its entries were merged.
#[derive(Debug)]
struct Run {
    level: usize,
    keys: KeySet,
}

/// A part of the key space; keys count from its first.
#[derive(Debug, Default)]
struct Bucket {
    memtable: KeySet,
    /// The put that came first of those in the memtable; none while it is empty.
    oldest: Option<u64>,
    /// The newest first.
    runs: Vec<Run>,
    /// Entries of all runs, and the keys that they have together.
    entries: usize,
    live: KeySet,
}

impl Bucket {
    fn dead(&self) -> usize {
        self.entries - self.live.count()
    }
}

/// WipDB with the buckets that it has after splits, which write nothing. The memtables together are
/// flushed one by one, the largest first, or the one at the log's tail when the log is full; a
/// bucket with a full level is merged up to it; where the dead entries of the store are too many,
/// the bucket with the largest part of them is rewritten.
#[derive(Debug)]
pub struct WipDbSimulator {
    /// Distinct keys of all memtables at which one is flushed, and how many there are.
    memtable: usize,
    fresh: usize,
    log_window: f64,
    runs_max: usize,
    /// Dead entries for each live one at which buckets are rewritten.
    dead_part: f64,
    dead: usize,
    live: usize,
    buckets: Vec<Bucket>,
    /// Keys of a bucket.
    width: u32,
    puts: u64,
    /// The bucket at the log's tail, and the put there.
    tail: Option<(u64, usize)>,
    /// Entries written by flushes and by compactions.
    written: [u64; 2],
}

impl WipDbSimulator {
    /// An empty store for `keys` keys in so many buckets. Log and tables take no more than their
    /// entries here: give factors of 1 to the model to compare them. The space is where rewriting
    /// begins.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for what [`WipDb::checked`] refuses,
    /// for no keys or no buckets, more buckets than keys, and sizes that are not 1 to 2^32 - 1.
    pub fn new(parameters: WipDb, keys: u32, buckets: u32) -> Result<Self> {
        let WipDb { memtable, log_window, runs_max, space, .. } = parameters.checked()?;
        if buckets == 0 || buckets > keys {
            let text = format!("{keys} keys lie in 1 to {keys} buckets, not {buckets}");
            return Err(super::config(text));
        }
        let width = keys.div_ceil(buckets);
        Ok(WipDbSimulator {
            memtable: whole("the memtables' size", memtable)?,
            fresh: 0,
            log_window,
            runs_max: runs_max as usize,
            dead_part: space - 1.0,
            dead: 0,
            live: 0,
            buckets: (0..keys.div_ceil(width)).map(|_| Bucket::default()).collect(),
            width,
            puts: 0,
            tail: None,
            written: [0; 2],
        })
    }

    /// For items of different size, in an empty store: all sizes are in items of mean size.
    #[must_use]
    pub fn with_items(mut self, items: &ItemUnits) -> Self {
        self.memtable = in_units(self.memtable, items);
        self.width <<= items.fields().shift;
        for bucket in &mut self.buckets {
            bucket.memtable = KeySet::of(items.fields());
            bucket.live = KeySet::of(items.last());
        }
        self
    }

    fn put_one(&mut self, key: u32) {
        let place = (key / self.width) as usize;
        let bucket = &mut self.buckets[place];
        let before = bucket.memtable.count();
        bucket.memtable.insert(key % self.width);
        self.fresh = self.fresh + bucket.memtable.count() - before;
        if bucket.oldest.is_none() {
            bucket.oldest = Some(self.puts);
            self.tail = self.tail.or(Some((self.puts, place)));
        }
        self.puts += 1;
        if let Some((at, place)) = self.tail.filter(|(at, _)| self.is_out_of_log(*at)) {
            debug_assert_eq!(self.buckets[place].oldest, Some(at));
            self.flush(place);
        } else if self.fresh > self.memtable {
            let sizes = self.buckets.iter().map(|bucket| bucket.memtable.count());
            let largest = (0..).zip(sizes).max_by_key(|(_, size)| *size);
            largest.into_iter().for_each(|(place, _)| self.flush(place));
        }
    }

    fn is_out_of_log(&self, at: u64) -> bool {
        (self.puts - at) as f64 > self.log_window
    }

    /// Writes a bucket's memtable as a run, and does what that makes due.
    fn flush(&mut self, place: usize) {
        let bucket = &mut self.buckets[place];
        let (before, dead) = (bucket.live.count(), bucket.dead());
        let count = bucket.memtable.count();
        self.fresh -= count;
        self.written[0] += count as u64;
        let mut keys = KeySet::of(bucket.memtable.fields());
        bucket.memtable.clone().drain_all(&mut bucket.live);
        bucket.memtable.drain_all(&mut keys);
        bucket.oldest = None;
        bucket.entries += count;
        bucket.runs.insert(0, Run { level: 0, keys });
        self.live = self.live + bucket.live.count() - before;
        self.dead += bucket.dead() - dead;
        let tails = self.buckets.iter().enumerate();
        self.tail = tails.filter_map(|(place, b)| b.oldest.map(|at| (at, place))).min();
        self.make_room(place);
        self.make_space();
    }

    /// Merges the highest full level of a bucket and all that is newer, until none is full.
    fn make_room(&mut self, place: usize) {
        loop {
            let runs = &self.buckets[place].runs;
            let at = |level: usize| runs.iter().filter(|run| run.level == level).count();
            let full = (0..=LEVEL_MAX).rev().find(|level| at(*level) >= self.runs_max);
            let Some(level) = full else { return };
            let count = runs.iter().take_while(|run| run.level <= level).count();
            self.merge(place, count);
        }
    }

    /// Rewrites the buckets with most that is dead, until the store has no more than it may.
    fn make_space(&mut self) {
        while self.dead as f64 > self.dead_part * self.live as f64 {
            let part = |bucket: &Bucket| bucket.dead() as f64 / bucket.entries.max(1) as f64;
            let parts = self.buckets.iter().map(part).enumerate();
            let Some((place, _)) = parts.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
            self.merge(place, self.buckets[place].runs.len());
        }
    }

    /// The `count` newest runs of a bucket become one of the next level.
    fn merge(&mut self, place: usize, count: usize) {
        let bucket = &mut self.buckets[place];
        let dead = bucket.dead();
        // Where all runs are merged, tombstones have nothing left to hide.
        let is_all = count == bucket.runs.len();
        let fields = if is_all { bucket.live.fields() } else { bucket.memtable.fields() };
        let mut keys = KeySet::of(fields);
        let mut level = 0;
        // The newest last, over what is older.
        for mut run in bucket.runs.drain(..count).rev() {
            bucket.entries -= run.keys.count();
            level = level.max(run.level);
            run.keys.drain_all(&mut keys);
        }
        bucket.entries += keys.count();
        self.written[1] += keys.count() as u64;
        bucket.runs.insert(0, Run { level: (level + 1).min(LEVEL_MAX), keys });
        self.dead -= dead - bucket.dead();
    }
}

impl Simulator for WipDbSimulator {
    fn put(&mut self, keys: &[u32]) {
        keys.iter().for_each(|&key| self.put_one(key));
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        (0..).map(Stage::Level).zip(self.written).collect()
    }
}
