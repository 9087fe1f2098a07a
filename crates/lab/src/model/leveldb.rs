//! LevelDB: overlapping tables in level 0, then levels compacted table by table, round and round.

use silica_base::{Error, ErrorKind, Result};

use super::{Distinct, Primitives, Stage, WriteAmplification, Writes, positive};

/// LevelDB's parameters, in entries (Lim's dissertation, section 4.3).
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDb {
    /// Entries in a log, and so in a memtable.
    pub log: f64,
    /// Tables in level 0 that begin a compaction into level 1.
    pub level0_tables: f64,
    /// Entries in levels 1, 2, …; the last level has every key.
    pub levels: Vec<f64>,
}

impl LevelDb {
    /// Checked parameters for stores of `keys` keys.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for no levels, a last level that is not all keys, and numbers that are
    /// not over zero; for a level smaller than the one before, and more than 64.
    pub fn checked(self, keys: f64) -> Result<Self> {
        positive("the log's size", self.log)?;
        positive("the number of tables in level 0", self.level0_tables)?;
        if self.levels.len() > LEVELS_MAX {
            let text = format!("there are at most {LEVELS_MAX} levels, not {}", self.levels.len());
            return Err(config(text));
        }
        for &size in &self.levels {
            positive("a level's size", size)?;
        }
        if let Some(pair) = self.levels.windows(2).find(|pair| pair[0] > pair[1]) {
            let (before, after) = (pair[0], pair[1]);
            let text = format!("no level is smaller than the one before: {after} follows {before}");
            return Err(config(text));
        }
        match self.levels.last() {
            None => Err(config("there are no levels: give at least one, which has every key")),
            Some(&last) if last != keys => Err(config(format!(
                "the last level has every key, so its size is {keys}, not {last}"
            ))),
            Some(_) => Ok(self),
        }
    }

    /// Algorithm 3.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        self.with_interval(keys, |size| keys.d_interval(size))
    }

    /// The cost of writes with deletes, items of different size, or a popularity that moves. The
    /// last level is where tombstones end; whatever its size says, it has what is live.
    pub fn cost(&self, writes: &Writes) -> WriteAmplification {
        self.with_interval(writes, |size| writes.d_interval(size))
    }

    /// Algorithm 3 where a level of a size has each of its keys compacted once in so many requests.
    pub(super) fn with_interval(
        &self,
        keys: &impl Distinct,
        requests: impl Fn(f64) -> f64,
    ) -> WriteAmplification {
        let mut cost = WriteAmplification::logged();
        let put = keys.put();
        let log = self.log / put;
        cost.add(Stage::Level(0), keys.unique(log) / self.log);
        let mut interval = log * self.level0_tables;
        let last = self.levels.len() - 1;
        // A merge with what is unique in an interval: theorem 4.3 without its first inverse.
        let merged = |interval: f64, level: usize| match level == last {
            true => keys.live(),
            false => keys.unique(interval + keys.unique_inverse(self.levels[level])),
        };
        cost.add(Stage::Level(1), merged(interval, 0) / (interval * put));
        for (level, size) in (1..).zip(&self.levels[..last]) {
            interval += requests(*size);
            let write = merged(interval, level) + keys.unique(interval);
            let stage = Stage::Level(level as u32 + 1);
            cost.add(stage, if interval.is_finite() { write / (interval * put) } else { 0.0 });
        }
        cost
    }

    /// The cost without redundancy: a merge of two tables is as large as both together.
    pub fn worst_case(&self) -> WriteAmplification {
        let mut cost = WriteAmplification::logged();
        cost.add(Stage::Level(0), 1.0);
        let first = self.log * self.level0_tables;
        cost.add(Stage::Level(1), (first + self.levels[0]) / first);
        for (level, sizes) in (2..).zip(self.levels.windows(2)) {
            cost.add(Stage::Level(level), (sizes[0] + sizes[1]) / sizes[0]);
        }
        cost
    }
}

/// More levels than any store needs.
const LEVELS_MAX: usize = 64;

fn config(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, text)
}
