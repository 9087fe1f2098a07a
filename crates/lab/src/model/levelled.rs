//! RocksDB's levelled compaction, and lazy levelling.

use silica_base::{Error, ErrorKind, Result};

use super::{Distinct, LevelDb, Primitives, Stage, WriteAmplification, Writes, buckets, positive};

/// Which table of a level is compacted next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Round and round (`kRoundRobin`, `kOldestSmallestSeqFirst`), as LevelDB does. Tables with
    /// least overlap (`kMinOverlappingRatio`) come to much the same: it is the densest part of
    /// the level that was compacted longest ago (Lim's dissertation, section 4.3.3).
    RoundRobin,
    /// The largest table (`kByCompensatedSize`): anywhere in the level, so nothing is gained from
    /// its being denser in places.
    Largest,
}

/// Parameters of RocksDB's levelled compaction, under its names; sizes in entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocksLevelled {
    /// Entries in a memtable (`write_buffer_size`).
    pub log: f64,
    /// Tables in level 0 that begin a compaction (`level0_file_num_compaction_trigger`).
    pub level0_tables: f64,
    /// Entries of the first level at most (`max_bytes_for_level_base`).
    pub base: f64,
    /// How much larger the next level is (`max_bytes_for_level_multiplier`).
    pub multiplier: f64,
    /// Sizes follow from the last level's (`level_compaction_dynamic_level_bytes`), not from the
    /// first one's.
    pub dynamic: bool,
    /// Which table is next.
    pub pick: Pick,
}

const LEVELS_MAX: usize = 64;

impl RocksLevelled {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a multiplier under 1.1, and numbers that are not over zero.
    pub fn checked(self) -> Result<Self> {
        positive("the log's size", self.log)?;
        positive("the number of tables in level 0", self.level0_tables)?;
        positive("the first level's size", self.base)?;
        positive("the multiplier", self.multiplier)?;
        if self.multiplier < 1.1 {
            let text = format!("a level is at least 1.1 times the last, not {}", self.multiplier);
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(self)
    }

    /// Sizes of the levels of a store of `keys` keys, the last of which has them all; at most 64.
    pub fn levels(&self, keys: f64) -> Vec<f64> {
        let mut sizes = Vec::new();
        if self.dynamic {
            let mut size = keys;
            while size > self.base && sizes.len() + 1 < LEVELS_MAX {
                sizes.push(size);
                size /= self.multiplier;
            }
            sizes.push(size);
            sizes.reverse();
            return sizes;
        }
        let mut size = self.base;
        while size < keys && sizes.len() + 1 < LEVELS_MAX {
            sizes.push(size);
            size *= self.multiplier;
        }
        sizes.push(keys);
        sizes
    }

    /// Algorithm 3 with RocksDB's sizes and its choice of tables.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        let levels = self.levels(keys.keys());
        let model = LevelDb { log: self.log, level0_tables: self.level0_tables, levels };
        match self.pick {
            Pick::RoundRobin => model.write_amplification(keys),
            Pick::Largest => model.with_interval(keys, |size| keys.unique_inverse(size)),
        }
    }
}

/// Lazy levelling (Dayan and Idreos, Dostoevsky, SIGMOD 2018): runs are gathered in all levels but
/// the last, which is one run. With one run a level it is plain levelling of whole levels, with
/// `growth` runs tiering of all levels but the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LazyLevelled {
    /// Entries in a memtable.
    pub log: f64,
    /// What a level takes in before it moves on, in memtables or runs of the level before.
    pub growth: u32,
    /// Runs of a level that is not the last, 1 to `growth`.
    pub runs: u32,
    /// Levels, the last of which has every key.
    pub levels: u32,
}

impl LazyLevelled {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a growth outside 2 to 10,000, runs outside 1 to the growth, levels
    /// outside 1 to 64, and an empty log.
    pub fn checked(self) -> Result<Self> {
        super::stages::check(self.log, self.growth, self.levels)?;
        if !(1..=self.growth).contains(&self.runs) {
            let text = format!("a level has 1 to {} runs, not {}", self.growth, self.runs);
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(self)
    }

    /// What arrives at a level is merged into its active run; after `growth / runs` arrivals
    /// another one begins, and after `growth` all move on as one.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        let mut cost = WriteAmplification::logged();
        let arrivals = self.arrivals();
        let mut interval = self.log;
        for level in 1..self.levels {
            let mut write = 0.0;
            for arrived in &arrivals {
                let sizes = (1..=*arrived).map(|n| keys.unique(interval * f64::from(n)));
                write += sizes.sum::<f64>();
            }
            interval *= f64::from(self.growth);
            cost.add(Stage::Level(level), write / interval);
        }
        cost.add(Stage::Level(self.levels), keys.keys() / interval);
        cost
    }

    /// Arrivals that each run of a level takes in.
    fn arrivals(&self) -> Vec<u32> {
        let (each, more) = (self.growth / self.runs, self.growth % self.runs);
        (0..self.runs).map(|run| each + u32::from(run < more)).collect()
    }

    /// Runs that a get of a key that is not there looks at when levels are as full as on average.
    pub fn runs_read(&self) -> f64 {
        let arrivals = self.arrivals();
        let growth = f64::from(self.growth);
        // After n of `growth` arrivals, n from 0 to growth - 1, so many runs have begun.
        let mut sum = 0.0;
        for (run, arrived) in (1..).zip(&arrivals) {
            sum += f64::from(run) * f64::from(*arrived);
        }
        let on_average = (sum - f64::from(self.runs)) / growth;
        1.0 + f64::from(self.levels - 1) * on_average
    }
}

/// Bytes that WipDB writes at most for each byte put while a store grows: the paper's bound,
/// `L_max + N / (N - 1)` for `L_max` levels and buckets split into `N` (section 2.3.5 of WipDB's
/// paper), and 1 for the log, which the paper's bound leaves out.
pub fn wip_bound(levels_max: u32, split_buckets: u32) -> f64 {
    let split = f64::from(split_buckets.max(2));
    f64::from(levels_max) + split / (split - 1.0) + 1.0
}

/// WipDB as our engine has it: buckets with runs of sublevels, and splits that write nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WipDb {
    /// Entries that all memtables have together when one is flushed.
    pub memtable: f64,
    /// Puts that the log has room for before the bucket at its tail is flushed.
    pub log_window: f64,
    /// Runs of a level at which they become one (`runs_max`).
    pub runs_max: u32,
    /// Buckets, which share the keys evenly; more than 128 count as any number.
    pub buckets: f64,
    /// Bytes of tables for each live byte at which rewriting begins; infinite for no bound.
    pub space: f64,
    /// Bytes of a log record for each byte of its entry.
    pub log: f64,
    /// Bytes of a table for each byte of its entries.
    pub table: f64,
}

/// So many buckets count one by one.
const FEW_BUCKETS: f64 = 128.0;
/// A bucket that is rewritten after more flushes than these has as much dead as if it came evenly.
const FLUSHES_FOLLOWED: f64 = 100.0;
/// Halvings for an interval.
const HALVINGS: u32 = 50;

/// Levels above a bucket's memtable (`LEVEL_MAX` of the engine's policy, and level 0).
const WIP_LEVELS: u32 = 3;

impl WipDb {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for fewer than 2 runs, a space that tables alone exceed, and numbers
    /// that are not over zero.
    pub fn checked(self) -> Result<Self> {
        positive("the memtables' size", self.memtable)?;
        positive("the log's window", self.log_window)?;
        positive("the buckets", self.buckets)?;
        positive("the log's factor", self.log)?;
        positive("the tables' factor", self.table)?;
        let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
        if self.runs_max < 2 {
            return refuse(format!("a level has at least 2 runs, not {}", self.runs_max));
        }
        if self.space.is_nan() || self.space <= self.table {
            return refuse(format!(
                "tables alone take {} times their entries: allow more space than {}",
                self.table, self.space
            ));
        }
        Ok(self)
    }

    /// Of filling a store with `keys` new keys in any order: the log, the flush, and once more for
    /// each level that the flushes of a bucket fill. Below [`wip_bound`] without its splits.
    pub fn fill(&self, keys: f64) -> WriteAmplification {
        let mut cost = WriteAmplification::scaled(self.log);
        cost.add(Stage::Level(0), self.table);
        let mut filled = self.memtable * f64::from(self.runs_max);
        for level in 1..WIP_LEVELS {
            if filled > keys {
                break;
            }
            cost.add(Stage::Level(level), self.table);
            filled *= f64::from(self.runs_max);
        }
        cost
    }

    /// Of overwriting keys again and again: the log, the flush of distinct keys, and rewriting.
    ///
    /// Memtables fill and are flushed one after the other, so together they are what a level that
    /// is compacted round and round is, unless the log's tail comes first. A bucket has its dead
    /// entries from whole flushes, and the one with the largest part of them is rewritten: buckets
    /// are followed one by one for that, which takes some milliseconds, and jumps where a flush
    /// more is dead. Of more flushes than a hundred a mean is a mean: the bucket with
    /// most is next and the others lie between it and none, `b` buckets `1 / b` apart, so it has
    /// `2 b / (b + 1)` times the mean; and `runs_max` runs of a level become one of the next.
    pub fn overwrite(&self, keys: &Primitives) -> WriteAmplification {
        self.of(keys)
    }

    /// The cost of writes with deletes, items of different size, or ranks that are dealt anew.
    /// Tombstones are dead from their flush on and end where a bucket is rewritten.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where everything is deleted: no space is a factor of nothing.
    pub fn cost(&self, writes: &Writes) -> Result<WriteAmplification> {
        if writes.live() <= 0.0 {
            let text = "a store whose writes are all deletes has nothing that is live: let fewer \
                        than all of them delete";
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(self.of(writes))
    }

    fn of(&self, keys: &impl Distinct) -> WriteAmplification {
        let mut cost = WriteAmplification::scaled(self.log);
        let interval = self.interval(keys).min(self.log_window).max(1.0);
        let flushed = keys.unique(interval);
        cost.add(Stage::Level(0), self.table * flushed / (interval * keys.put()));
        let most = 2.0 * self.buckets / (self.buckets + 1.0);
        let dead = most.max(1.0) * (self.space / self.table - 1.0) * keys.live();
        let merges = self.merges(keys, interval, dead);
        let flushes = merges.flushes.max(1.0);
        let written = if flushes <= FLUSHES_FOLLOWED {
            let buckets = self.buckets.round().clamp(1.0, FEW_BUCKETS) as usize;
            buckets::follow(self, keys, buckets, interval, flushes)
        } else {
            (merges.entries + keys.live()) / (flushes * interval)
        };
        cost.add(Stage::Level(1), self.table * written / keys.put());
        cost
    }

    /// Puts between two flushes of a bucket. Just before a flush the memtables have been filling
    /// for 1, 2, … buckets' shares of that, and have all entries that they may.
    fn interval(&self, keys: &impl Distinct) -> f64 {
        if self.buckets > FEW_BUCKETS {
            return keys.d_interval(self.memtable);
        }
        let buckets = self.buckets.round().max(1.0) as u32;
        let part = 1.0 / f64::from(buckets);
        let content = |puts: f64| -> f64 {
            (1..=buckets).map(|n| part * keys.unique(f64::from(n) * part * puts)).sum()
        };
        // Their mean is between a bucket's share of the longest and the longest.
        let mut low = keys.unique_inverse(self.memtable).max(1.0);
        if !low.is_finite() {
            return low;
        }
        let mut high = low * f64::from(buckets);
        for _ in 0..HALVINGS {
            let middle = low.midpoint(high);
            if content(middle) < self.memtable { low = middle } else { high = middle }
        }
        low.midpoint(high)
    }

    /// What flushes `interval` puts apart lead to until so many entries are dead: a full level is
    /// one run of the next, and with that some of them are gone.
    fn merges(&self, keys: &impl Distinct, interval: f64, dead: f64) -> Merges {
        let runs = f64::from(self.runs_max);
        let size = |flushes: f64| keys.unique(flushes * interval);
        let (flush, low, high) = (size(1.0), size(runs), size(runs * runs));
        // The most that levels 0 and 1 have without a run of level 2 more.
        let (most0, most) = (runs * flush, (runs - 1.0) * low + runs * flush);
        let highs = ((dead - most) / high).ceil().clamp(0.0, runs - 1.0);
        let rest = dead - highs * high;
        // The run that was rewritten is itself one of level 2.
        let is_full = rest > most;
        let lows = ((rest - most0) / low).ceil().clamp(0.0, runs - 1.0);
        let young = ((rest - lows * low) / flush + EARLY).clamp(0.0, runs);
        let (lows, young) = if is_full { (0.0, 0.0) } else { (lows, young) };
        Merges {
            flushes: highs * runs * runs + lows * runs + young,
            entries: highs * (high + runs * low) + lows * low,
        }
    }
}

/// Between two rewritings of a bucket: flushes, and entries that full levels' merges write.
struct Merges {
    flushes: f64,
    entries: f64,
}

/// Dead bytes come by whole flushes. Were a bucket rewritten right after its last flush, it would
/// have those of one flush less on average, and it is rewritten at any time until the next.
const EARLY: f64 = 0.5;

#[cfg(test)]
#[path = "levelled_tests.rs"]
mod tests;
