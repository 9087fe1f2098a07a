//! LevelDB: overlapping tables in level 0, then levels compacted table by table.

use std::collections::BTreeMap;

use silica_base::Result;

use super::keyset::KeySet;
use super::{Memtable, Simulator, whole};
use crate::model::{LevelDb, Stage};

/// Which table of a level is compacted next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The one behind that which was compacted last, round and round: LevelDB.
    #[default]
    RoundRobin,
    /// The one with the most entries; among equals, which are many, any one: RocksDB 3.9.
    Largest,
}

/// LevelDB as its design document says (Lim's dissertation, section 4.3.5): in memory, every
/// compaction done in the put that makes it due, all tables of level 0 compacted together.
#[derive(Debug)]
pub struct LevelDbSimulator {
    memtable: Memtable,
    level0_tables: usize,
    /// Tables of level 0, and the keys that they have together.
    level0: usize,
    level0_keys: KeySet,
    /// Levels 1, 2, ….
    levels: Vec<Level>,
    table: usize,
    pick: Pick,
    /// Entries written to levels 0, 1, ….
    written: Vec<u64>,
    /// Last keys and lengths of tables; kept for its room.
    ends: Vec<(u32, usize)>,
}

/// Entries of a table of 2 MiB, of 1000 bytes each.
const TABLE: usize = 2097;
/// Tables of the next level but one that a table may overlap.
const OVERLAPS_MAX: usize = 10;

/// A table of a level: the keys that the level has from its first key, which is not here, on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Table {
    last: u32,
    entries: usize,
}

/// A level of tables that do not overlap, by their first keys.
#[derive(Debug, Default)]
struct Level {
    limit: usize,
    keys: KeySet,
    tables: BTreeMap<u32, Table>,
    /// The last key of the table that was compacted last.
    last: Option<u32>,
}

impl Level {
    /// The tables that overlap keys from `low` to `high`.
    fn overlapping(&self, low: u32, high: u32) -> impl Iterator<Item = (u32, Table)> + '_ {
        let before = self.tables.range(..low).next_back();
        let before = before.filter(|(_, table)| table.last >= low);
        let all = before.into_iter().chain(self.tables.range(low..=high));
        all.map(|(&first, &table)| (first, table))
    }

    /// First and last key of the table that is compacted next.
    fn next(&self, pick: Pick) -> (u32, u32) {
        let mut tables = self.tables.iter();
        let found = match pick {
            Pick::RoundRobin => {
                let behind = self.last.and_then(|last| self.tables.range(last..).next());
                behind.or_else(|| tables.next())
            }
            Pick::Largest => {
                let chance = |first: u32| first.wrapping_mul(0x9E37_79B1);
                tables.max_by_key(|(first, table)| (table.entries, chance(**first)))
            }
        };
        let (first, table) = found.expect("a level over its limit has a table");
        (*first, table.last)
    }

    /// Takes in what `source` has from `low` to `high`; the range of the tables that are to be
    /// written anew.
    fn take_in(&mut self, source: &mut KeySet, low: u32, high: u32) -> (u32, u32) {
        let (mut first, mut last) = (low, high);
        loop {
            let next = self.overlapping(low, high).next();
            let Some((there, table)) = next else { break };
            first = first.min(there);
            last = last.max(table.last);
            self.tables.remove(&there);
        }
        source.drain(low, high, &mut self.keys);
        (first, last)
    }

    /// Cuts what lies between two keys into tables of at most `table` entries, of which none
    /// overlaps more of the next level's tables, `ends`, than it may. How many entries these have.
    fn cut(&mut self, mut from: u32, to: u32, table: usize, mut ends: &[(u32, usize)]) -> usize {
        let mut written = 0;
        while let Some(first) = self.keys.first_from(from).filter(|first| *first <= to) {
            let Some((mut last, mut entries)) = self.keys.reach(first, to, table) else { break };
            while ends.first().is_some_and(|&(end, _)| end < first) {
                ends = &ends[1..];
            }
            let mut overlap = 0;
            for &(end, there) in ends.iter().take_while(|(end, _)| *end < last) {
                overlap += there;
                if overlap > OVERLAPS_MAX * table {
                    last = self.keys.last_until(end).unwrap_or(first);
                    entries = self.keys.count_of(first, last);
                    break;
                }
            }
            self.tables.insert(first, Table { last, entries });
            written += entries;
            let Some(behind) = last.checked_add(1) else { break };
            from = behind;
        }
        written
    }
}

impl LevelDbSimulator {
    /// An empty store with the parameters of the model, rounded to whole entries.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for sizes that are not 1 to 2^32 - 1
    /// entries, or no level.
    pub fn new(parameters: &LevelDb) -> Result<Self> {
        let mut levels = Vec::new();
        for &size in &parameters.levels {
            levels.push(Level { limit: whole("a level's size", size)?, ..Level::default() });
        }
        if levels.is_empty() {
            return Err(super::config("there are no levels: give at least one"));
        }
        Ok(LevelDbSimulator {
            memtable: Memtable::new(whole("the log's size", parameters.log)?),
            level0_tables: whole("the number of tables in level 0", parameters.level0_tables)?,
            level0: 0,
            level0_keys: KeySet::default(),
            written: vec![0; levels.len() + 1],
            levels,
            table: TABLE,
            pick: Pick::default(),
            ends: Vec::new(),
        })
    }

    /// With tables of at most `entries` entries instead of 2097, which are 2 MiB of 1 kB each.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for sizes that are not 1 to 2^32 - 1.
    pub fn with_tables_of(mut self, entries: f64) -> Result<Self> {
        self.table = whole("a table's size", entries)?;
        Ok(self)
    }

    /// With another choice of the table that is compacted next.
    pub fn with_pick(mut self, pick: Pick) -> Self {
        self.pick = pick;
        self
    }

    /// Compacts whatever is furthest over its limit, until nothing is.
    fn compact(&mut self) {
        loop {
            let mut due = (0, self.level0 as f64 / self.level0_tables as f64);
            let inner = self.levels.len() - 1;
            for (level, state) in (1..).zip(&self.levels[..inner]) {
                let score = state.keys.count() as f64 / state.limit as f64;
                if score > due.1 {
                    due = (level, score);
                }
            }
            match due {
                (_, score) if score < 1.0 => return,
                (0, _) => self.compact_level0(),
                (level, _) => self.compact_table(level),
            }
        }
    }

    /// Merges all of level 0 into level 1.
    fn compact_level0(&mut self) {
        self.level0 = 0;
        let first = self.level0_keys.first_from(0);
        if let (Some(low), Some(high)) = (first, self.level0_keys.last_until(u32::MAX)) {
            let range = self.levels[0].take_in(&mut self.level0_keys, low, high);
            self.write(1, range);
        }
    }

    /// Merges the next table of `level` into the level behind.
    fn compact_table(&mut self, level: usize) {
        let (before, behind) = self.levels.split_at_mut(level);
        let source = &mut before[level - 1];
        let (first, last) = source.next(self.pick);
        source.tables.remove(&first);
        source.last = Some(last);
        let range = behind[0].take_in(&mut source.keys, first, last);
        self.write(level + 1, range);
    }

    /// Writes the tables of `level` between two keys anew.
    fn write(&mut self, level: usize, (low, high): (u32, u32)) {
        self.ends.clear();
        if let Some(next) = self.levels.get(level) {
            self.ends.extend(next.overlapping(low, high).map(|(_, t)| (t.last, t.entries)));
        }
        let written = self.levels[level - 1].cut(low, high, self.table, &self.ends);
        self.written[level] += written as u64;
    }
}

impl Simulator for LevelDbSimulator {
    fn put(&mut self, mut keys: &[u32]) {
        while !keys.is_empty() {
            keys = self.memtable.fill(keys);
            if let Some(table) = self.memtable.full() {
                self.written[0] += table.count() as u64;
                table.drain_all(&mut self.level0_keys);
                self.level0 += 1;
                self.compact();
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        (0..).map(Stage::Level).zip(self.written.iter().copied()).collect()
    }
}

#[cfg(test)]
#[path = "leveldb_tests.rs"]
mod tests;
