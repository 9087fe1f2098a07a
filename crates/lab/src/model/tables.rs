//! LevelDB's and RocksDB's levels followed table by table, in expectation.
//!
//! Algorithm 3 knows levels that are full. Stores of a few levels are not: level 0 comes down in
//! bursts as large as the next level, a level holds what fits between two of them, and tables are
//! compacted whole. So this follows what the engine's rules do next, from flush to flush.
//!
//! Keys that are alike lie anywhere in the order of keys, so a piece of a level is known by the
//! requests whose latest versions it has: its density is [`Primitives::unique`] of them, and
//! merged with the piece below, whose requests are older, they add up.
//!
//! Keys are there by chance, so a table of so many entries ends a little early or late, and the
//! largest key of a level is near the end of all keys, not there. Which table is next hangs on
//! both: the one that begins where the last compaction ended may end just behind that place or
//! just before it. So these two are drawn, with fixed seeds, and several stores averaged. Nothing
//! is fitted.

pub(super) mod place;

use place::{Piece, Puts, Table, covering, cut_entries, entries_of, merged, overlapping};
use silica_base::{Error, ErrorKind, Prng, Result};

use super::{Primitives, Stage, WriteAmplification, positive};

/// Whose rules are followed, where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// LevelDB 1.23: level sizes count from level 1; tables round and round from where the last
    /// compaction ended; memtables are written with all their versions; tables end where they
    /// would overlap more than ten of the level below the next.
    LevelDb,
    /// RocksDB 7.8: level sizes count from the last level (`level_compaction_dynamic_level_bytes`)
    /// and are the base at least; the table with least overlap first (`kMinOverlappingRatio`);
    /// memtables are written without what is dead; tables end at those of the level below
    /// (`level_compaction_dynamic_file_size`).
    RocksDb,
}

/// A store of tables in levels; sizes are in entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelledTables {
    /// Whose rules.
    pub rules: Rules,
    /// Entries in a memtable (`write_buffer_size`).
    pub log: f64,
    /// Tables in level 0 that begin a compaction (`level0_file_num_compaction_trigger`).
    pub level0_tables: u32,
    /// Entries of a table (`max_file_size`, `target_file_size_base`).
    pub table: f64,
    /// Entries of the first level (10 MiB; `max_bytes_for_level_base`).
    pub base: f64,
    /// How much larger the next level may be.
    pub multiplier: f64,
    /// What a version that is dead in its memtable takes of level 0, of what an entry does: 0 where
    /// it is left out.
    pub dead_version: f64,
}

/// Levels below level 0.
const LEVELS: usize = 6;
/// The level that LevelDB writes a memtable to at most, where it overlaps nothing on its way
/// (`kMaxMemCompactLevel`).
const FLUSH_LEVEL_MAX: usize = 2;
/// Tables that a compaction may have with all it overlaps, before it takes no more.
const EXPANDED: f64 = 25.0;
/// Tables of the level below the next that LevelDB's may overlap.
const GRANDPARENTS: f64 = 10.0;
/// Flushes that are followed at most after the fill.
const FLUSHES_MAX: f64 = 100_000.0;
/// Keys' worth of requests that pass, and that are counted, for an average.
const PASSED: f64 = 4.0;
const COUNTED: f64 = 8.0;
/// Stores that are averaged, with the seeds from 1 on.
const STORES: u32 = 8;

impl LevelledTables {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a multiplier under 1.1, no tables in level 0, and numbers that are
    /// not over zero.
    pub fn checked(self) -> Result<Self> {
        positive("the log's size", self.log)?;
        positive("the number of tables in level 0", f64::from(self.level0_tables))?;
        positive("a table's size", self.table)?;
        positive("the first level's size", self.base)?;
        positive("the multiplier", self.multiplier)?;
        if !(0.0..=1.0).contains(&self.dead_version) {
            let text = format!("a dead version takes 0 to 1 entries, not {}", self.dead_version);
            return Err(Error::new(ErrorKind::Config, text));
        }
        if self.multiplier < 1.1 {
            let text = format!("a level is at least 1.1 times the last, not {}", self.multiplier);
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(self)
    }

    /// What overwriting costs on average once a store of all keys was overwritten four times.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        self.course(keys, PASSED * keys.keys(), COUNTED * keys.keys())
    }

    /// What `counted` puts cost after `passed` others, to a store that was filled with every key in
    /// any order and then had its memtable written. Later a memtable is in memory until it is full.
    /// Of very many flushes only 100,000 are followed.
    pub fn course(&self, keys: &Primitives, passed: f64, counted: f64) -> WriteAmplification {
        self.course_of(&[], keys, passed, counted)
    }

    /// The course where levels 1, 2, … may have `sizes` entries, up to five of them, and the next
    /// takes the rest (`max_bytes_for_level_multiplier_additional`).
    pub fn course_of(
        &self,
        sizes: &[f64],
        keys: &Primitives,
        passed: f64,
        counted: f64,
    ) -> WriteAmplification {
        let counted = (counted / self.log).ceil().clamp(1.0, FLUSHES_MAX);
        let passed = (passed / self.log).ceil().clamp(0.0, FLUSHES_MAX - counted);
        let puts = Puts { share: 0.0, requests: self.log };
        let mut sums = [0.0; LEVELS + 1];
        for seed in 1..=STORES {
            let mut store = Store::filled(self, sizes, keys, seed);
            (0..passed as u32).for_each(|_| store.flush(puts));
            store.written = [0.0; LEVELS + 1];
            (0..counted as u32).for_each(|_| store.flush(puts));
            sums.iter_mut().zip(store.written).for_each(|(sum, written)| *sum += written);
        }
        let mut cost = WriteAmplification::logged();
        for (level, written) in (0..).zip(sums) {
            if written > 0.0 {
                cost.add(Stage::Level(level), written / (f64::from(STORES) * counted * self.log));
            }
        }
        cost
    }
}

/// The level that level 0 is compacted into, and sizes of levels 1 to 5; the last has none.
#[derive(Debug)]
struct Shape {
    first: usize,
    limits: [f64; LEVELS],
}

impl Shape {
    /// `sizes` are those of levels 1 to 6, `given` what they may have where that is given.
    fn of(design: &LevelledTables, given: &[f64], sizes: &[f64]) -> Self {
        let mut limits = [f64::INFINITY; LEVELS];
        if !given.is_empty() {
            limits[1..].iter_mut().zip(given).for_each(|(limit, size)| *limit = *size);
            return Shape { first: 1, limits };
        }
        if design.rules == Rules::LevelDb {
            let mut size = design.base;
            for limit in &mut limits[1..] {
                *limit = size;
                size *= design.multiplier;
            }
            return Shape { first: 1, limits };
        }
        let mut size = sizes.iter().copied().fold(0.0, f64::max);
        let mut first = LEVELS;
        while first > 1 && size > design.base {
            first -= 1;
            size /= design.multiplier;
        }
        // A level that is there goes on to be used.
        let there = 1 + sizes.iter().position(|size| *size > 0.0).unwrap_or(LEVELS - 1);
        while there < first {
            first -= 1;
            size /= design.multiplier;
        }
        for limit in &mut limits[first.min(LEVELS)..] {
            *limit = size.max(design.base);
            size *= design.multiplier;
        }
        Shape { first, limits }
    }
}

/// A store between two flushes.
struct Store<'a> {
    design: &'a LevelledTables,
    /// What levels may have, where that is given.
    given: &'a [f64],
    keys: &'a Primitives,
    /// Tables of level 0, and what was put to them.
    young: u32,
    young_puts: Puts,
    /// Tables of levels 1 to 6 in their order; none at place 0.
    levels: [Vec<Table>; LEVELS + 1],
    /// Where the last compaction of a level ended.
    ended: [f64; LEVELS + 1],
    /// Entries written to a level.
    written: [f64; LEVELS + 1],
    prng: Prng,
}

impl<'a> Store<'a> {
    /// Every key put once.
    fn filled(
        design: &'a LevelledTables,
        given: &'a [f64],
        keys: &'a Primitives,
        seed: u32,
    ) -> Self {
        let mut store = Store {
            design,
            given,
            keys,
            young: 0,
            young_puts: Puts::default(),
            levels: Default::default(),
            ended: [0.0; LEVELS + 1],
            written: [0.0; LEVELS + 1],
            prng: Prng::new(seed.into()),
        };
        let mut rest = 1.0;
        while rest > 0.0 {
            let share = (design.log / keys.keys()).min(rest);
            store.flush(Puts { share, requests: 0.0 });
            // What rounding leaves is none.
            rest = if rest - share > 1e-12 { rest - share } else { 0.0 };
        }
        store
    }

    /// Writes a memtable to level 0, and compacts until nothing is over its size.
    fn flush(&mut self, puts: Puts) {
        let distinct = puts.unique(self.keys);
        let dead = (puts.requests - distinct).max(0.0);
        self.written[0] += distinct + self.design.dead_version * dead;
        match self.flush_level(distinct) {
            0 => {
                self.young += 1;
                self.young_puts.add(puts);
            }
            level => {
                let table = self.young_table(puts);
                self.levels[level].push(table);
            }
        }
        while let Some(level) = self.fullest() {
            self.compact(level);
        }
    }

    /// Where a memtable of so many entries goes.
    fn flush_level(&self, entries: f64) -> usize {
        let is_free = |level: usize| self.levels[level].is_empty();
        if self.design.rules == Rules::RocksDb || self.young > 0 || entries <= 0.0 {
            return 0;
        }
        let overlaps_few =
            |level: usize| entries_of(&self.levels[level]) <= GRANDPARENTS * self.design.table;
        let mut level = 0;
        while level < FLUSH_LEVEL_MAX && is_free(level + 1) && overlaps_few(level + 2) {
            level += 1;
        }
        level
    }

    fn shape(&self) -> Shape {
        let mut sizes = [0.0; LEVELS];
        sizes.iter_mut().zip(&self.levels[1..]).for_each(|(to, level)| *to = entries_of(level));
        Shape::of(self.design, self.given, &sizes)
    }

    /// The level that is most over its size.
    fn fullest(&self) -> Option<usize> {
        let limits = self.shape().limits;
        let young = f64::from(self.young) / f64::from(self.design.level0_tables);
        let score = |level: usize| match level {
            0 => young,
            level => entries_of(&self.levels[level]) / limits[level],
        };
        let scores = (0..LEVELS).map(|level| (level, score(level)));
        let over = scores.filter(|(_, score)| *score >= 1.0);
        over.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(level, _)| level)
    }

    fn compact(&mut self, level: usize) {
        let to = if level == 0 { self.shape().first } else { level + 1 };
        if level == 0 {
            self.young = 0;
            let puts = std::mem::take(&mut self.young_puts);
            let young = vec![self.young_table(puts)];
            let below = std::mem::take(&mut self.levels[to]);
            self.write(to, young, below);
            return;
        }
        let picked = match self.design.rules {
            Rules::LevelDb => self.round(level),
            Rules::RocksDb => self.least_overlap(level),
        };
        let (inputs, outputs) = self.inputs(level, picked);
        self.ended[level] = self.levels[level][inputs.end - 1].largest;
        let moved: Vec<Table> = self.levels[level].drain(inputs).collect();
        if outputs.is_empty() && moved.len() == 1 && self.may_move(to, &moved[0]) {
            self.levels[to].splice(outputs, moved);
            return;
        }
        let below: Vec<Table> = self.levels[to].drain(outputs).collect();
        self.write(to, moved, below);
    }

    /// A table of what such puts left. Of the last keys of all some are not there: how many has the
    /// geometric distribution, as if they were as popular as keys are on average.
    fn young_table(&mut self, puts: Puts) -> Table {
        let mut table = Table::new(vec![Piece::new(0.0, 1.0, puts, self.keys)]);
        let absent = (1.0 - table.entries / self.keys.keys()).max(0.0);
        // No key: the end itself where all are there.
        let after = (1.0 - self.prng.unit()).ln() / absent.ln();
        table.largest = (1.0 - after.floor() / self.keys.keys()).max(0.0);
        table
    }

    /// The first table that ends behind the last compaction's end.
    fn round(&self, level: usize) -> usize {
        let ended = self.ended[level];
        self.levels[level].iter().position(|table| table.largest > ended).unwrap_or(0)
    }

    /// The table with the least to overlap for its entries.
    fn least_overlap(&self, level: usize) -> usize {
        let next = &self.levels[level + 1];
        let ratio = |table: &Table| {
            let met = overlapping(next, table.from(), table.to());
            entries_of(&next[met]) / table.entries
        };
        let ratios = self.levels[level].iter().map(ratio).enumerate();
        ratios.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at)
    }

    /// Tables of `level` and of the next that are compacted with the one picked: more of `level`
    /// where that takes no more of the next.
    fn inputs(&self, level: usize, picked: usize) -> (Range, Range) {
        let (here, next) = (&self.levels[level], &self.levels[level + 1]);
        let one = picked..picked + 1;
        let met = overlapping(next, here[picked].from(), here[picked].to());
        if met.is_empty() {
            return (one, met);
        }
        let from = here[picked].from().min(next[met.start].from());
        let to = here[picked].to().max(next[met.end - 1].to());
        let fits = |range: &Range| {
            let all = entries_of(&here[range.clone()]) + entries_of(&next[met.clone()]);
            range.len() > 1 && all < EXPANDED * self.design.table
        };
        let wide = overlapping(here, from, to);
        if fits(&wide) && overlapping(next, here[wide.start].from(), here[wide.end - 1].to()) == met
        {
            return (wide, met);
        }
        let within = covering(here, from, to);
        if self.design.rules == Rules::RocksDb && fits(&within) {
            return (within, met);
        }
        (one, met)
    }

    /// True where a table may go down as it is: it does not overlap too much there.
    fn may_move(&self, to: usize, table: &Table) -> bool {
        let Some(below) = self.levels.get(to + 1) else { return true };
        let met = entries_of(&below[overlapping(below, table.from(), table.to())]);
        match self.design.rules {
            Rules::LevelDb => met <= GRANDPARENTS * self.design.table,
            Rules::RocksDb => met + table.entries <= EXPANDED * self.design.table,
        }
    }

    /// Merges `young` tables with those taken from level `to`, where the result goes.
    fn write(&mut self, to: usize, young: Vec<Table>, below: Vec<Table>) {
        let largest = |tables: &[Table]| tables.last().map_or(0.0, |table| table.largest);
        let largest = largest(&young).max(largest(&below));
        let pieces = |tables: Vec<Table>| -> Vec<Piece> {
            tables.into_iter().flat_map(|table| table.pieces).collect()
        };
        let pieces = merged(&pieces(young), &pieces(below), self.keys);
        self.written[to] += pieces.iter().map(|piece| piece.entries).sum::<f64>();
        let mut tables = self.cut(to, pieces);
        let Some(last) = tables.last_mut() else { return };
        last.largest = largest;
        let from = tables[0].from();
        let at = self.levels[to].partition_point(|table| table.from() < from);
        self.levels[to].splice(at..at, tables);
    }

    /// Tables of `pieces` of level `to` by the rules for their size and for what they overlap in
    /// the level below.
    fn cut(&mut self, to: usize, pieces: Vec<Piece>) -> Vec<Table> {
        let table = self.design.table;
        let entries: f64 = pieces.iter().map(|piece| piece.entries).sum();
        // A single table has no end that chance could move.
        let variance = if entries < table { 0.0 } else { variance(&pieces, self.keys) };
        let deviation = (table * variance / entries.max(1.0)).sqrt();
        let mut prng = self.prng.clone();
        let mut drawn = |most: f64| {
            // Of two dice: a variance of a sixth.
            let chance = 6.0_f64.sqrt() * (prng.unit() + prng.unit() - 1.0);
            (most + deviation * chance).max(0.5 * most)
        };
        let tables = match self.levels.get(to + 1) {
            Some(grandparents) if !grandparents.is_empty() => {
                let goes_on = self.design.rules == Rules::LevelDb;
                let most = if goes_on { table } else { 2.0 * table };
                let ends =
                    |entries, overlapped, crossed| self.ends_at_edge(entries, overlapped, crossed);
                place::cut_at(pieces, grandparents, goes_on, || drawn(most), ends)
            }
            _ => cut_entries(pieces, || drawn(table)),
        };
        self.prng = prng;
        tables
    }

    /// True where a table of so many entries ends at the edge of one below.
    fn ends_at_edge(&self, entries: f64, overlapped: f64, crossed: u32) -> bool {
        let table = self.design.table;
        match self.design.rules {
            Rules::LevelDb => overlapped > GRANDPARENTS * table,
            Rules::RocksDb => {
                // Half of its size will do at first, and a tenth more for each table that it
                // overlaps: an edge counts as two, the end of a table and the next one's begin.
                let enough = (0.5 + 0.1 * f64::from(crossed)).min(0.9);
                overlapped + entries > EXPANDED * table || entries >= enough * table
            }
        }
    }
}

/// Variance of the entries of `pieces`.
fn variance(pieces: &[Piece], keys: &Primitives) -> f64 {
    pieces.iter().map(|piece| (piece.to - piece.from) * piece.puts.variance(keys)).sum()
}

type Range = std::ops::Range<usize>;

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
