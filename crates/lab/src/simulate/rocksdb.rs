//! RocksDB's levelled compaction: level sizes that follow from the last level's.

use silica_base::{Error, ErrorKind, Result};

use super::keyset::KeySet;
use super::level::{Level, Pick, Table};
use super::{Memtable, Simulator, whole};
use crate::model::{LevelledTables, Rules, Stage};

/// Levels below level 0.
const LEVELS: usize = 6;
/// Tables that a compaction may have with all it overlaps, before it takes no more.
const EXPANDED: usize = 25;

/// Levelled compaction by the rules of RocksDB 7.8, every compaction done in the put that makes it
/// due: dynamic level sizes, tables that end where those of the level below do, tables that overlap
/// nothing moved without being written, and the table with least overlap first.
#[derive(Debug)]
pub struct RocksDbSimulator {
    memtable: Memtable,
    level0_tables: usize,
    level0: usize,
    level0_keys: KeySet,
    /// Levels 1 to 6.
    levels: [Level; LEVELS],
    table: usize,
    base: f64,
    multiplier: f64,
    pick: Pick,
    /// Entries written to levels 0, 1, ….
    written: [u64; LEVELS + 1],
    /// Last keys and lengths of tables; kept for its room.
    ends: Vec<(u32, usize)>,
}

/// The level that level 0 is compacted into, and the sizes of levels 1 to 6.
struct Shape {
    first: usize,
    limits: [f64; LEVELS],
}

impl RocksDbSimulator {
    /// An empty store with the parameters of the model, rounded to whole entries.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for what [`LevelledTables::checked`] refuses, rules that are not
    /// RocksDB's, and sizes that are not 1 to 2^32 - 1 entries.
    pub fn new(parameters: LevelledTables) -> Result<Self> {
        let design = parameters.checked()?;
        if design.rules != Rules::RocksDb {
            let text = "this simulator follows RocksDB's rules; LevelDB has one of its own";
            return Err(Error::new(ErrorKind::Config, text));
        }
        whole("the first level's size", design.base)?;
        Ok(RocksDbSimulator {
            memtable: Memtable::new(whole("the log's size", design.log)?),
            level0_tables: design.level0_tables as usize,
            level0: 0,
            level0_keys: KeySet::default(),
            levels: Default::default(),
            table: whole("a table's size", design.table)?,
            base: design.base,
            multiplier: design.multiplier,
            pick: Pick::LeastOverlap,
            written: [0; LEVELS + 1],
            ends: Vec::new(),
        })
    }

    /// With another choice of the table that is compacted next.
    pub fn with_pick(mut self, pick: Pick) -> Self {
        self.pick = pick;
        self
    }

    /// Sizes from the largest level's, each the base at least; a level that is there stays in use.
    fn shape(&self) -> Shape {
        let counts = || self.levels.iter().map(|level| level.keys.count());
        let there = 1 + counts().position(|count| count > 0).unwrap_or(LEVELS - 1);
        let mut size = counts().max().unwrap_or(0) as f64;
        let mut first = LEVELS;
        while first > there || (first > 1 && size > self.base) {
            first -= 1;
            size /= self.multiplier;
        }
        let mut limits = [f64::INFINITY; LEVELS];
        for limit in &mut limits[first - 1..] {
            *limit = size.max(self.base);
            size *= self.multiplier;
        }
        Shape { first, limits }
    }

    /// Compacts whatever is furthest over its limit, until nothing is.
    fn compact(&mut self) {
        loop {
            let Shape { first, limits } = self.shape();
            let mut due = (0, self.level0 as f64 / self.level0_tables as f64);
            for (level, state) in (1..LEVELS).zip(&self.levels) {
                let score = state.keys.count() as f64 / limits[level - 1];
                if score > due.1 {
                    due = (level, score);
                }
            }
            match due {
                (_, score) if score < 1.0 => return,
                (0, _) => self.compact_level0(first),
                (level, _) => self.compact_table(level),
            }
        }
    }

    /// Merges all of level 0 into level `to`.
    fn compact_level0(&mut self, to: usize) {
        self.level0 = 0;
        let first = self.level0_keys.first_from(0);
        if let (Some(low), Some(high)) = (first, self.level0_keys.last_until(u32::MAX)) {
            let range = self.levels[to - 1].take_in(&mut self.level0_keys, low, high);
            self.write(to, range);
        }
    }

    /// Merges the next tables of `level` into the level behind, or moves one that meets none.
    fn compact_table(&mut self, level: usize) {
        let (before, behind) = self.levels.split_at_mut(level);
        let (source, below) = (&mut before[level - 1], &mut behind[0]);
        let (first, last) = source.next(self.pick, below);
        let tables = inputs(source, below, (first, last), EXPANDED * self.table);
        for (first, _) in &tables {
            source.tables.remove(first);
        }
        let ends = (tables.first(), tables.last());
        let (low, high) = match ends {
            (Some((low, _)), Some((_, table))) => (*low, table.last),
            _ => (first, last),
        };
        source.last = Some(high);
        let meets = below.overlapping(low, high).next().is_some();
        if let ([(first, table)], false) = (&tables[..], meets) {
            let further = behind.get(1).map_or(0, |next| {
                next.overlapping(low, high).map(|(_, met)| met.entries).sum::<usize>()
            });
            if further + table.entries <= EXPANDED * self.table {
                source.keys.drain(low, high, &mut behind[0].keys);
                behind[0].tables.insert(*first, *table);
                return;
            }
        }
        let range = behind[0].take_in(&mut source.keys, low, high);
        self.write(level + 1, range);
    }

    /// Writes the tables of `level` between two keys anew.
    fn write(&mut self, level: usize, (low, high): (u32, u32)) {
        self.ends.clear();
        if let Some(next) = self.levels.get(level) {
            self.ends.extend(next.overlapping(low, high).map(|(_, t)| (t.last, t.entries)));
        }
        let written = cut(&mut self.levels[level - 1], (low, high), self.table, &self.ends);
        self.written[level] += written as u64;
    }
}

/// Tables that are compacted with the one picked: more of the level where that takes no more of the
/// level below, and all together are at most so many entries.
fn inputs(
    here: &Level,
    below: &Level,
    (first, last): (u32, u32),
    entries_max: usize,
) -> Vec<(u32, Table)> {
    let met = |low, high| below.overlapping(low, high).collect::<Vec<_>>();
    let overlapped = met(first, last);
    let low = overlapped.first().map_or(first, |(from, _)| first.min(*from));
    let high = overlapped.last().map_or(last, |(_, table)| last.max(table.last));
    let entries = |tables: &[(u32, Table)]| tables.iter().map(|(_, t)| t.entries).sum::<usize>();
    let fits = |tables: &[(u32, Table)]| {
        tables.len() > 1 && entries(tables) + entries(&overlapped) < entries_max
    };
    let wide: Vec<(u32, Table)> = here.overlapping(low, high).collect();
    if fits(&wide) && met(wide[0].0, wide[wide.len() - 1].1.last) == overlapped {
        return wide;
    }
    let is_within = |at: &(u32, Table)| at.0 >= low && at.1.last <= high;
    let within: Vec<(u32, Table)> = wide.into_iter().filter(is_within).collect();
    match fits(&within) {
        true => within,
        false => here.overlapping(first, last).collect(),
    }
}

/// Cuts what lies between two keys into tables that end where those of the next level, `ends`, do:
/// from half their size on at first, and a twentieth more for each table that begins or ends
/// meanwhile; of twice their size at most. Without a next level they are full. How many entries.
fn cut(
    level: &mut Level,
    (mut from, to): (u32, u32),
    table: usize,
    mut ends: &[(u32, usize)],
) -> usize {
    let most = if ends.is_empty() { table } else { 2 * table };
    let mut written = 0;
    while let Some(first) = level.keys.first_from(from).filter(|first| *first <= to) {
        let Some((mut last, mut entries)) = level.keys.reach(first, to, most) else { break };
        while ends.first().is_some_and(|&(end, _)| end < first) {
            ends = &ends[1..];
        }
        let (mut overlap, mut so_far, mut counted) = (0, 0, first);
        for (crossed, &(end, there)) in (1..).zip(ends.iter().take_while(|(end, _)| *end < last)) {
            overlap += there;
            so_far += level.keys.count_of(counted, end);
            counted = end + 1;
            let enough = table as f64 * (0.5 + 0.1 * f64::from(crossed)).min(0.9);
            if overlap + so_far > EXPANDED * table || so_far as f64 >= enough {
                last = level.keys.last_until(end).unwrap_or(first);
                entries = so_far;
                break;
            }
        }
        level.tables.insert(first, Table { last, entries });
        written += entries;
        let Some(behind) = last.checked_add(1) else { break };
        from = behind;
    }
    written
}

impl Simulator for RocksDbSimulator {
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

    /// Levels that nothing was written to are left out.
    fn written(&self) -> Vec<(Stage, u64)> {
        let stages = (0..).map(Stage::Level).zip(self.written);
        stages.filter(|(stage, written)| *stage == Stage::Level(0) || *written > 0).collect()
    }
}
