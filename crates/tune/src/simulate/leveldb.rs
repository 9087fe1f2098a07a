//! LevelDB: overlapping tables in level 0, then levels compacted table by table.

use std::collections::BTreeMap;

use silica_base::Result;

use super::merge::{union, union_all};
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
    level0: Vec<Vec<u32>>,
    /// Levels 1, 2, ….
    levels: Vec<Level>,
    table: usize,
    pick: Pick,
    /// Entries written to levels 0, 1, ….
    written: Vec<u64>,
    /// Tables that are not needed now.
    spare: Vec<Vec<u32>>,
    merged: Vec<u32>,
}

/// Entries of a table of 2 MiB, of 1000 bytes each.
const TABLE: usize = 2097;
/// Tables of the next level but one that a table may overlap.
const OVERLAPS_MAX: usize = 10;
/// Tables that are kept for use again.
const SPARE_MAX: usize = 256;

/// A level of tables that do not overlap, by their first keys.
#[derive(Debug, Default)]
struct Level {
    limit: usize,
    entries: usize,
    tables: BTreeMap<u32, Vec<u32>>,
    /// The last key of the table that was compacted last.
    last: Option<u32>,
}

impl Level {
    /// First keys of the tables that overlap keys from `low` to `high`.
    fn overlapping(&self, low: u32, high: u32) -> Vec<u32> {
        let before = self.tables.range(..low).next_back();
        let before = before.filter(|(_, table)| table.last() >= Some(&low));
        before.into_iter().chain(self.tables.range(low..=high)).map(|(&first, _)| first).collect()
    }

    /// Last keys and lengths of the tables that overlap keys from `low` to `high`.
    fn ends(&self, low: u32, high: u32) -> Vec<(u32, usize)> {
        let firsts = self.overlapping(low, high);
        let tables = firsts.iter().map(|first| &self.tables[first]);
        tables.map(|table| (table[table.len() - 1], table.len())).collect()
    }

    fn take(&mut self, first: u32) -> Vec<u32> {
        let table = self.tables.remove(&first).expect("the key is of a table of this level");
        self.entries -= table.len();
        table
    }

    fn next(&self, pick: Pick) -> u32 {
        let mut tables = self.tables.iter();
        let found = match pick {
            Pick::RoundRobin => {
                let behind = self.last.and_then(|last| self.tables.range(last..).next());
                behind.or_else(|| tables.next())
            }
            Pick::Largest => {
                let chance = |first: u32| first.wrapping_mul(0x9E37_79B1);
                tables.max_by_key(|(first, table)| (table.len(), chance(**first)))
            }
        };
        *found.expect("a level over its limit has a table").0
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
            level0: Vec::new(),
            written: vec![0; levels.len() + 1],
            levels,
            table: TABLE,
            pick: Pick::default(),
            spare: Vec::new(),
            merged: Vec::new(),
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
            let mut due = (0, self.level0.len() as f64 / self.level0_tables as f64);
            let inner = self.levels.len() - 1;
            for (level, state) in (1..).zip(&self.levels[..inner]) {
                let score = state.entries as f64 / state.limit as f64;
                if score > due.1 {
                    due = (level, score);
                }
            }
            match due {
                (_, score) if score < 1.0 => return,
                (0, _) => {
                    let tables = std::mem::take(&mut self.level0);
                    self.merge(1, union_all(tables));
                }
                (level, _) => {
                    let state = &mut self.levels[level - 1];
                    let table = state.take(state.next(self.pick));
                    state.last = table.last().copied();
                    self.merge(level + 1, table);
                }
            }
        }
    }

    /// Merges `source` with the tables of `level` that it overlaps.
    fn merge(&mut self, level: usize, source: Vec<u32>) {
        let (low, high) = (source[0], source[source.len() - 1]);
        let state = &mut self.levels[level - 1];
        let mut there = self.spare.pop().unwrap_or_default();
        for first in state.overlapping(low, high) {
            let table = state.take(first);
            there.extend_from_slice(&table);
            recycle(&mut self.spare, table);
        }
        self.merged.clear();
        union(&source, &there, &mut self.merged);
        recycle(&mut self.spare, source);
        recycle(&mut self.spare, there);
        self.written[level] += self.merged.len() as u64;
        let ends = match (self.levels.get(level), self.merged.as_slice()) {
            (Some(next), [low, .., high]) => next.ends(*low, *high),
            _ => Vec::new(),
        };
        let mut ends = ends.as_slice();
        let mut begin = 0;
        while begin < self.merged.len() {
            let end = cut(&self.merged, begin, self.table, &mut ends);
            let keys = &self.merged[begin..end];
            let mut table = self.spare.pop().unwrap_or_default();
            table.extend_from_slice(keys);
            let state = &mut self.levels[level - 1];
            state.entries += table.len();
            state.tables.insert(keys[0], table);
            begin = end;
        }
    }
}

fn recycle(spare: &mut Vec<Vec<u32>>, mut table: Vec<u32>) {
    if spare.len() < SPARE_MAX {
        table.clear();
        spare.push(table);
    }
}

/// Where a table ends that begins at `begin`: it is full, or a further key would make it overlap
/// more than so many full tables of the level behind, whose tables' ends are `ends`.
fn cut(keys: &[u32], begin: usize, table: usize, ends: &mut &[(u32, usize)]) -> usize {
    let full = keys.len().min(begin + table);
    let last = keys[full - 1];
    while ends.first().is_some_and(|&(end, _)| end < keys[begin]) {
        *ends = &ends[1..];
    }
    let mut overlap = 0;
    for &(end, entries) in *ends {
        if end >= last {
            break;
        }
        overlap += entries;
        if overlap > OVERLAPS_MAX * table {
            return begin + keys[begin..full].partition_point(|&key| key <= end);
        }
    }
    full
}

impl Simulator for LevelDbSimulator {
    fn put(&mut self, mut keys: &[u32]) {
        while !keys.is_empty() {
            keys = self.memtable.fill(keys);
            if let Some(table) = self.memtable.flush() {
                self.written[0] += table.len() as u64;
                self.level0.push(table);
                self.compact();
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        (0..).map(Stage::Level).zip(self.written.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Requests;
    use std::collections::BTreeSet;

    /// Tables are full at most, sorted, and apart; each overlaps no more of the next level than it
    /// may; and no key is lost.
    #[test]
    fn levels_keep_their_shape() {
        for (pick, skew) in [(Pick::RoundRobin, 0.0), (Pick::Largest, 0.0), (Pick::RoundRobin, 1.0)]
        {
            let levels = vec![100.0, 1500.0, 30_000.0];
            let model = LevelDb { log: 16.0, level0_tables: 4.0, levels };
            let simulator = LevelDbSimulator::new(&model).unwrap().with_pick(pick);
            let mut simulator = simulator.with_tables_of(8.0).unwrap();
            let mut requests = Requests::zipf(30_000, skew, 5).unwrap();
            let mut put = BTreeSet::new();
            for _ in 0..60_000 {
                let key = requests.draw();
                put.insert(key);
                simulator.put(&[key]);
            }
            let mut found: BTreeSet<u32> = simulator.memtable.keys.iter().copied().collect();
            found.extend(simulator.level0.iter().flatten());
            for (l, level) in simulator.levels.iter().enumerate() {
                assert!(l == 2 || level.entries < level.limit);
                let entries = level.tables.values().flatten();
                assert!(entries.clone().is_sorted_by(|a, b| a < b), "tables overlap");
                assert_eq!(entries.clone().count(), level.entries);
                found.extend(entries);
                for (&first, table) in &level.tables {
                    assert!((1..=8).contains(&table.len()) && table[0] == first);
                }
            }
            assert_eq!(found, put);
            assert!(simulator.levels.iter().all(|level| !level.tables.is_empty()));
        }
    }

    #[test]
    fn a_table_ends_before_it_overlaps_too_much() {
        let keys: Vec<u32> = (0..100).map(|i| i * 100).collect();
        // A table of 4 keys spans 300; ends of full tables are 20 apart, so 11 of them span 220.
        let ends: Vec<(u32, usize)> = (0..500).map(|i| (i * 20 + 10, 4)).collect();
        let mut rest = ends.as_slice();
        assert_eq!(cut(&keys, 0, 4, &mut rest), 3);
        assert_eq!(cut(&keys, 3, 4, &mut rest), 6);
        let far: Vec<(u32, usize)> = (0..500).map(|i| (i * 40 + 10, 4)).collect();
        assert_eq!(cut(&keys, 0, 4, &mut far.as_slice()), 4);
        assert_eq!(cut(&keys, 98, 4, &mut far.as_slice()), 100);
    }
}
