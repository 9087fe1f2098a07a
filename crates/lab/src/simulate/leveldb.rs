//! LevelDB: overlapping tables in level 0, then levels compacted table by table.

use silica_base::Result;

use super::keyset::KeySet;
use super::level::{Level, Pick};
use super::{ItemUnits, Memtable, Simulator, in_units, whole};
use crate::model::{LevelDb, Stage};

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

    /// For items of different size, in an empty store: all sizes are in items of mean size.
    #[must_use]
    pub fn with_items(mut self, items: &ItemUnits) -> Self {
        self.memtable = self.memtable.of(items);
        self.level0_keys = KeySet::of(items.fields());
        self.table = in_units(self.table, items);
        let last = self.levels.len() - 1;
        for (at, level) in self.levels.iter_mut().enumerate() {
            level.limit = in_units(level.limit, items);
            level.keys = KeySet::of(if at == last { items.last() } else { items.fields() });
        }
        self
    }

    /// Changes the sizes of all levels but the last while the store runs; what is too large then is
    /// compacted with the next memtable.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for another number of levels, and
    /// sizes that are not 1 to 2^32 - 1.
    pub fn set_levels(&mut self, levels: &[f64]) -> Result<()> {
        if levels.len() != self.levels.len() {
            let (there, given) = (self.levels.len(), levels.len());
            return Err(super::config(format!("{there} levels cannot become {given}")));
        }
        let limits = levels.iter().map(|size| whole("a level's size", *size));
        let limits: Vec<usize> = limits.collect::<Result<_>>()?;
        self.levels.iter_mut().zip(limits).for_each(|(level, limit)| level.limit = limit);
        Ok(())
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
        let (first, last) = source.next(self.pick, &behind[0]);
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
