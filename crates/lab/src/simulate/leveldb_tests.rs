use super::*;
use crate::simulate::Requests;
use crate::simulate::level::OVERLAPS_MAX;
use std::collections::BTreeSet;

/// The tables of a level, first key by first key.
fn entries(level: &Level) -> Vec<Vec<u32>> {
    let mut tables = Vec::new();
    for (&first, table) in &level.tables {
        let mut keys = Vec::new();
        let mut from = first;
        while let Some(key) = level.keys.first_from(from).filter(|key| *key <= table.last) {
            keys.push(key);
            from = key + 1;
        }
        assert_eq!((keys[0], keys[keys.len() - 1]), (first, table.last));
        assert_eq!(keys.len(), table.entries);
        tables.push(keys);
    }
    tables
}

/// LevelDB's design with tables that are vectors, put as simply as can be.
struct Plain {
    model: LevelDb,
    table: usize,
    pick: Pick,
    log: Vec<u32>,
    level0: Vec<BTreeSet<u32>>,
    levels: Vec<Vec<Vec<u32>>>,
    last: Vec<u32>,
    written: Vec<u64>,
}

impl Plain {
    fn new(model: &LevelDb, table: usize, pick: Pick) -> Self {
        let count = model.levels.len();
        Plain {
            model: model.clone(),
            table,
            pick,
            log: Vec::new(),
            level0: Vec::new(),
            levels: vec![Vec::new(); count],
            last: vec![0; count],
            written: vec![0; count + 1],
        }
    }

    fn put(&mut self, key: u32) {
        self.log.push(key);
        if self.log.len() < self.model.log as usize {
            return;
        }
        let table: BTreeSet<u32> = self.log.drain(..).collect();
        self.written[0] += table.len() as u64;
        self.level0.push(table);
        while let Some(level) = self.due() {
            let source: Vec<u32> = match level {
                0 => std::mem::take(&mut self.level0).into_iter().flatten().collect(),
                _ => self.take(level - 1),
            };
            self.merge(level, source);
        }
    }

    fn due(&self) -> Option<usize> {
        let mut due = (0, self.level0.len() as f64 / self.model.level0_tables);
        for l in 0..self.levels.len() - 1 {
            let entries: usize = self.levels[l].iter().map(Vec::len).sum();
            let score = entries as f64 / self.model.levels[l];
            if score > due.1 {
                due = (l + 1, score);
            }
        }
        (due.1 >= 1.0).then_some(due.0)
    }

    fn take(&mut self, level: usize) -> Vec<u32> {
        let tables = &self.levels[level];
        let at = match self.pick {
            Pick::RoundRobin => tables.iter().position(|t| t[0] >= self.last[level]).unwrap_or(0),
            Pick::Largest => {
                let chance = |t: &Vec<u32>| (t.len(), t[0].wrapping_mul(0x9E37_79B1));
                (0..tables.len()).max_by_key(|&at| chance(&tables[at])).unwrap()
            }
            Pick::LeastOverlap => {
                let next = &self.levels[level + 1];
                let ratio = |table: &Vec<u32>| {
                    let (low, high) = (table[0], table[table.len() - 1]);
                    let met = next.iter().filter(|t| t[0] <= high && t[t.len() - 1] >= low);
                    met.map(Vec::len).sum::<usize>() as f64 / table.len() as f64
                };
                let by_ratio =
                    |a: &usize, b: &usize| ratio(&tables[*a]).total_cmp(&ratio(&tables[*b]));
                (0..tables.len()).min_by(by_ratio).unwrap()
            }
        };
        let table = self.levels[level].remove(at);
        self.last[level] = table[table.len() - 1];
        table
    }

    fn merge(&mut self, level: usize, source: Vec<u32>) {
        let mut merged: BTreeSet<u32> = source.into_iter().collect();
        let (low, high) = (*merged.first().unwrap(), *merged.last().unwrap());
        self.levels[level].retain(|table| {
            let apart = table[0] > high || table[table.len() - 1] < low;
            if !apart {
                merged.extend(table);
            }
            apart
        });
        self.written[level + 1] += merged.len() as u64;
        let empty = Vec::new();
        let next = self.levels.get(level + 1).unwrap_or(&empty);
        let (low, high) = (*merged.first().unwrap(), *merged.last().unwrap());
        let next: Vec<&Vec<u32>> =
            next.iter().filter(|t| t[0] <= high && t[t.len() - 1] >= low).collect();
        let mut made = Vec::new();
        while !merged.is_empty() {
            let first = *merged.first().unwrap();
            let mut keys: Vec<u32> = merged.iter().copied().take(self.table).collect();
            let last = keys[keys.len() - 1];
            let mut overlap = 0;
            for table in &next {
                let end = table[table.len() - 1];
                if (first..last).contains(&end) {
                    overlap += table.len();
                    if overlap > OVERLAPS_MAX * self.table {
                        keys.retain(|key| *key <= end);
                        break;
                    }
                }
            }
            keys.iter().for_each(|key| assert!(merged.remove(key)));
            made.push(keys);
        }
        self.levels[level].extend(made);
        self.levels[level].sort_unstable();
    }
}

/// Tables are full at most, sorted, and apart; no key is lost; and all is as in the plain design.
#[test]
fn levels_keep_their_shape() {
    for (pick, skew, log, table, keys) in [
        (Pick::RoundRobin, 0.0, 16.0, 8, 30_000),
        (Pick::Largest, 0.0, 16.0, 8, 30_000),
        (Pick::LeastOverlap, 0.6, 16.0, 8, 30_000),
        (Pick::RoundRobin, 1.0, 16.0, 8, 30_000),
        (Pick::RoundRobin, 0.6, 500.0, 300, 30_000),
        (Pick::RoundRobin, 0.0, 90.0, 40, 9_000),
    ] {
        let levels = vec![100.0, 1500.0, keys as f64];
        let model = LevelDb { log, level0_tables: 4.0, levels };
        let simulator = LevelDbSimulator::new(&model).unwrap().with_pick(pick);
        let mut simulator = simulator.with_tables_of(table as f64).unwrap();
        let mut plain = Plain::new(&model, table, pick);
        let mut requests = Requests::zipf(keys, skew, 5).unwrap();
        let mut put = BTreeSet::new();
        for _ in 0..40_000 {
            let key = requests.draw();
            put.insert(key);
            simulator.put(&[key]);
            plain.put(key);
        }
        let mut found: BTreeSet<u32> = BTreeSet::new();
        for set in [&simulator.memtable.keys, &simulator.level0_keys] {
            let mut from = 0;
            while let Some(key) = set.first_from(from) {
                found.insert(key);
                from = key + 1;
            }
        }
        for (l, level) in simulator.levels.iter().enumerate() {
            assert!(l == 2 || level.keys.count() < level.limit);
            let tables = entries(level);
            let entries = tables.iter().flatten();
            assert!(entries.clone().is_sorted_by(|a, b| a < b), "tables overlap");
            assert_eq!(entries.clone().count(), level.keys.count());
            found.extend(entries);
            assert!(tables.iter().all(|keys| (1..=table).contains(&keys.len())));
            assert!(log > 16.0 || !tables.is_empty());
            assert_eq!(tables, plain.levels[l], "level {}", l + 1);
        }
        assert_eq!(found, put);
        assert_eq!(simulator.written, plain.written);
    }
}

#[test]
fn a_table_ends_before_it_overlaps_too_much() {
    let cut = |apart: u32| {
        // A table of 4 keys spans 300; ends of full tables are 20 or 40 apart.
        let mut level = Level::default();
        (0..100).for_each(|i| assert!(level.keys.insert(i * 100)));
        let ends: Vec<(u32, usize)> = (0..500).map(|i| (i * apart + 10, 4)).collect();
        assert_eq!(level.cut(0, 9900, 4, &ends), 100);
        level.tables.iter().map(|(&first, table)| (first, table.entries)).collect::<Vec<_>>()
    };
    // 11 tables end within 220: a third key is the last that fits.
    assert_eq!(cut(20)[..3], [(0, 3), (300, 3), (600, 3)]);
    assert_eq!(cut(40)[..3], [(0, 4), (400, 4), (800, 4)]);
}
