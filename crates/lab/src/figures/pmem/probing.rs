//! Figure 3.1: how full a table with linear probing becomes before it has to grow, and how far a
//! search has to go, by the number of buckets that a key may lie in.
//!
//! This is the table that the paper measures to find its own rules, not the engine: every slot is
//! used, the table doubles, and a search ends where the path of its home bucket ends.

use crate::figures::Row;
use silica_base::Prng;

/// Buckets of a table before it grew, and slots of each.
const BUCKETS: usize = 1024;
const SLOTS: usize = 16;
/// Buckets that a key may lie in.
const SCOPES: [usize; 5] = [2, 4, 8, 16, 32];
/// The growth of which the paper names the figures.
const NAMED_GROWTH: usize = 6;

/// A table by counts alone.
struct Table {
    keys: Vec<u64>,
    filled: Vec<u8>,
    /// By home bucket, buckets up to the last that one of its keys lies in.
    paths: Vec<u8>,
    scope: usize,
}

impl Table {
    fn new(buckets: usize, scope: usize) -> Table {
        Table { keys: Vec::new(), filled: vec![0; buckets], paths: vec![1; buckets], scope }
    }

    /// False if the scope of the key is full.
    fn insert(&mut self, key: u64) -> bool {
        let buckets = self.filled.len();
        let home = ((u128::from(key) * buckets as u128) >> 64) as usize;
        for distance in 0..self.scope {
            let bucket = (home + distance) % buckets;
            if usize::from(self.filled[bucket]) < SLOTS {
                self.filled[bucket] += 1;
                self.paths[home] = self.paths[home].max(distance as u8 + 1);
                self.keys.push(key);
                return true;
            }
        }
        false
    }

    fn load(&self) -> f64 {
        self.keys.len() as f64 / (self.filled.len() * SLOTS) as f64
    }

    /// Buckets that a search for a key that is not there has to look at, on average.
    fn distance(&self) -> f64 {
        self.paths.iter().map(|path| f64::from(*path)).sum::<f64>() / self.paths.len() as f64
    }

    fn grown(self) -> Table {
        let mut keys = self.keys;
        let mut buckets = 2 * self.filled.len();
        loop {
            let mut table = Table::new(buckets, self.scope);
            if keys.iter().all(|key| table.insert(*key)) {
                return table;
            }
            keys.sort_unstable();
            buckets *= 2;
        }
    }
}

/// Load factors and distances before each of so many growths.
pub(super) fn rows(growths: usize, seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for scope in SCOPES {
        let mut prng = Prng::new(seed);
        let mut table = Table::new(BUCKETS, scope);
        for growth in 1..=growths {
            let key = loop {
                let key = prng.next_u64();
                if !table.insert(key) {
                    break key;
                }
            };
            let is_named = scope == 16 && growth == NAMED_GROWTH;
            let scheme = format!("scope {scope}");
            let mut row = |metric: String, value, paper: Option<f64>| {
                let scheme = scheme.clone();
                rows.push(Row { figure: "figure-3.1", scheme, metric, value, paper });
            };
            let load = is_named.then_some(0.8);
            row(format!("load factor before growth {growth}"), table.load(), load);
            let distance = is_named.then_some(1.7);
            row(format!("buckets of a miss before growth {growth}"), table.distance(), distance);
            table = table.grown();
            table.insert(key);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_scope_fills_the_table_further() {
        let rows = rows(2, 1);
        let load = |scope: &str| {
            let of = |row: &&Row| {
                row.scheme == scope && row.metric.contains("load factor before growth 2")
            };
            rows.iter().find(of).unwrap().value
        };
        assert!(load("scope 2") < load("scope 8") && load("scope 8") < load("scope 32"));
        assert!(load("scope 16") > 0.7 && load("scope 32") <= 1.0);
    }
}
