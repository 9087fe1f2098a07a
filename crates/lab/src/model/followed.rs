//! The refined model of LevelDB where levels are a few tables: they are followed one by one, in
//! expectation.
//!
//! What is left in a level of two or three tables, and where its next burst is cut, is no mean over
//! many. So this does what the design does (Lim's dissertation, section 4.3), with pieces of the
//! order of keys in place of keys, as [`LevelledTables`](super::LevelledTables) does with the rules
//! of real stores.

use silica_base::Prng;

use super::tables::place::{
    Piece, Puts, Table, cut_at, cut_entries, entries_of, merged, overlapping,
};
use super::{Primitives, RefinedLevelDb, Stage, WriteAmplification};

/// Tables of the level after the next that a table may overlap.
const GRANDPARENTS: f64 = 10.0;
/// Rounds of the slowest level that pass, and that are counted.
const PASSED: f64 = 2.0;
const COUNTED: f64 = 4.0;
/// Bursts that are counted at least.
const BURSTS_MIN: f64 = 50.0;
const SEED: u64 = 1;
/// Where tables begin behind a place that differs from theirs by rounding.
const NEAR: f64 = 1e-12;

struct Level {
    limit: f64,
    tables: Vec<Table>,
    /// Where its last compaction ended.
    ended: f64,
    written: f64,
}

/// A store between two bursts.
struct Store<'a> {
    keys: &'a Primitives,
    table: f64,
    levels: Vec<Level>,
    prng: Prng,
}

/// Write amplification of puts to a store that has every key, where `round` bursts pass between two
/// compactions of a key of the level before the last.
pub(super) fn follow(design: &RefinedLevelDb, keys: &Primitives, round: f64) -> WriteAmplification {
    let RefinedLevelDb { design, table } = design;
    let mut store = Store::filled(&design.levels, *table, keys);
    let burst = Puts { share: 0.0, requests: design.log * design.level0_tables };
    let passed = (PASSED * round).ceil();
    let counted = (COUNTED * round).ceil().max(BURSTS_MIN);
    (0..passed as u32).for_each(|_| store.burst(burst));
    store.levels.iter_mut().for_each(|level| level.written = 0.0);
    (0..counted as u32).for_each(|_| store.burst(burst));
    let mut cost = WriteAmplification::logged();
    cost.add(Stage::Level(0), keys.unique(design.log) / design.log);
    for (at, level) in (1..).zip(&store.levels) {
        cost.add(Stage::Level(at), level.written / (counted * burst.requests));
    }
    cost
}

impl<'a> Store<'a> {
    /// All keys in the last level.
    fn filled(limits: &[f64], table: f64, keys: &'a Primitives) -> Self {
        let level =
            |limit: &f64| Level { limit: *limit, tables: Vec::new(), ended: 0.0, written: 0.0 };
        let mut levels: Vec<Level> = limits.iter().map(level).collect();
        if let Some(last) = levels.last_mut() {
            let all = Piece::new(0.0, 1.0, Puts { share: 1.0, requests: 0.0 }, keys);
            last.tables = cut_entries(vec![all], || table);
        }
        Store { keys, table, levels, prng: Prng::new(SEED) }
    }

    /// Level 0 comes down, and levels are compacted until none is over its size.
    fn burst(&mut self, puts: Puts) {
        self.write(0, vec![Piece::new(0.0, 1.0, puts, self.keys)]);
        while let Some(level) = self.fullest() {
            let Level { tables, ended, .. } = &mut self.levels[level];
            let behind = tables.iter().position(|table| table.from() >= *ended - NEAR);
            let next = tables.remove(behind.unwrap_or(0));
            *ended = next.to();
            self.write(level + 1, next.pieces);
        }
    }

    /// The level but the last that is most over its size.
    fn fullest(&self) -> Option<usize> {
        let inner = &self.levels[..self.levels.len() - 1];
        let scores = inner.iter().map(|level| entries_of(&level.tables) / level.limit).enumerate();
        let over = scores.filter(|(_, score)| *score >= 1.0);
        over.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(level, _)| level)
    }

    /// Merges `young` with what it overlaps of the level at `to`.
    fn write(&mut self, to: usize, young: Vec<Piece>) {
        let (before, below) = self.levels.split_at_mut(to + 1);
        let level = &mut before[to];
        let (from, until) = (young[0].from, young[young.len() - 1].to);
        let met = overlapping(&level.tables, from, until);
        let (at, is_alone) = (met.start, met.is_empty() && to > 0);
        let old: Vec<Piece> = level.tables.drain(met).flat_map(|table| table.pieces).collect();
        let pieces = merged(&young, &old, self.keys);
        level.written += pieces.iter().map(|piece| piece.entries).sum::<f64>();
        let table = self.table;
        let tables = match below.first() {
            Some(below) => {
                // Keys are there by chance, so where a table of so many ends is, too. Were it not,
                // tables of two levels would end at the same places for ever.
                let width: f64 = pieces.iter().map(|piece| piece.to - piece.from).sum();
                let all = self.keys.keys() * width;
                let entries: f64 = pieces.iter().map(|piece| piece.entries).sum();
                let deviation = (table * (1.0 - entries / all).max(0.0)).sqrt();
                let prng = &mut self.prng;
                let most = || {
                    if is_alone {
                        // A table that meets nothing stays what it was.
                        return f64::INFINITY;
                    }
                    // Of two dice: a variance of a sixth.
                    let chance = 6.0_f64.sqrt() * (prng.unit() + prng.unit() - 1.0);
                    (table + deviation * chance).max(0.5 * table)
                };
                cut_at(pieces, &below.tables, false, most, |_, overlapped, _| {
                    overlapped > GRANDPARENTS * table
                })
            }
            None => cut_entries(pieces, || table),
        };
        level.tables.splice(at..at, tables);
    }
}
