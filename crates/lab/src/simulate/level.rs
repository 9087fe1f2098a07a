//! A level of tables that do not overlap.

use std::collections::BTreeMap;

use super::keyset::KeySet;

/// Which table of a level is compacted next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The one behind that which was compacted last, round and round: LevelDB.
    #[default]
    RoundRobin,
    /// The one with the most entries; among equals, which are many, any one: RocksDB 3.9.
    Largest,
    /// The one that overlaps least of the next level for its entries: RocksDB since 3.10.
    LeastOverlap,
}

/// Tables of the next level but one that a table may overlap.
pub(super) const OVERLAPS_MAX: usize = 10;

/// A table of a level: the keys that the level has from its first key, which is not here, on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) last: u32,
    pub(super) entries: usize,
}

/// A level of tables that do not overlap, by their first keys.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) limit: usize,
    pub(super) keys: KeySet,
    pub(super) tables: BTreeMap<u32, Table>,
    /// The last key of the table that was compacted last.
    pub(super) last: Option<u32>,
}

impl Level {
    /// The tables that overlap keys from `low` to `high`.
    pub(super) fn overlapping(
        &self,
        low: u32,
        high: u32,
    ) -> impl Iterator<Item = (u32, Table)> + '_ {
        let before = self.tables.range(..low).next_back();
        let before = before.filter(|(_, table)| table.last >= low);
        let all = before.into_iter().chain(self.tables.range(low..=high));
        all.map(|(&first, &table)| (first, table))
    }

    /// First and last key of the table that is compacted next, into `below`.
    pub(super) fn next(&self, pick: Pick, below: &Level) -> (u32, u32) {
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
            Pick::LeastOverlap => {
                let ratio = |first: u32, table: &Table| {
                    let met = below.overlapping(first, table.last);
                    met.map(|(_, met)| met.entries).sum::<usize>() as f64 / table.entries as f64
                };
                let ratios = tables.map(|at| (ratio(*at.0, at.1), at));
                ratios.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at)| at)
            }
        };
        let (first, table) = found.expect("a level over its limit has a table");
        (*first, table.last)
    }

    /// Takes in what `source` has from `low` to `high`; the range of the tables that are to be
    /// written anew.
    pub(super) fn take_in(&mut self, source: &mut KeySet, low: u32, high: u32) -> (u32, u32) {
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
    pub(super) fn cut(
        &mut self,
        mut from: u32,
        to: u32,
        table: usize,
        mut ends: &[(u32, usize)],
    ) -> usize {
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
