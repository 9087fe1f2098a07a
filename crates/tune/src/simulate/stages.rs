//! COLA and SAMT: levels of tables that are merged by their count.

use silica_base::Result;

use super::merge::{union, union_all};
use super::{Memtable, Simulator, whole};
use crate::model::{Cola, Samt, Stage};

/// What both have: a log, and entries written to levels 1, 2, ….
#[derive(Debug)]
struct Stages {
    memtable: Memtable,
    growth: usize,
    written: Vec<u64>,
    /// The last level, which gets every key.
    all: Vec<u32>,
}

impl Stages {
    fn new(log: f64, growth: u32, levels: u32) -> Result<Self> {
        Ok(Stages {
            memtable: Memtable::new(whole("the log's size", log)?),
            growth: growth as usize,
            written: vec![0; levels as usize],
            all: Vec::new(),
        })
    }

    /// Merges a table into the last level.
    fn finish(&mut self, table: &[u32]) {
        let mut merged = Vec::new();
        union(&self.all, table, &mut merged);
        self.all = merged;
        let last = self.written.len() - 1;
        self.written[last] += self.all.len() as u64;
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        (1..).map(Stage::Level).zip(self.written.iter().copied()).collect()
    }
}

/// COLA: one table a level. It takes `growth - 1` merges; the next goes on to the next level with
/// all that is there.
#[derive(Debug)]
pub struct ColaSimulator {
    stages: Stages,
    /// The tables of all levels but the last, and how many merges made each.
    levels: Vec<(Vec<u32>, usize)>,
}

impl ColaSimulator {
    /// An empty store with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a log that is not 1 to 2^32 - 1
    /// entries, a growth under 2, or no level.
    pub fn new(parameters: Cola) -> Result<Self> {
        let Cola { log, growth, levels } = parameters.checked()?;
        let inner = levels as usize - 1;
        let levels_of = (0..inner).map(|_| (Vec::new(), 0)).collect();
        Ok(ColaSimulator { stages: Stages::new(log, growth, levels)?, levels: levels_of })
    }

    fn push(&mut self, mut table: Vec<u32>) {
        for (level, (there, merges)) in self.levels.iter_mut().enumerate() {
            let mut merged = Vec::new();
            union(there, &table, &mut merged);
            if *merges + 1 < self.stages.growth {
                self.stages.written[level] += merged.len() as u64;
                *there = merged;
                *merges += 1;
                return;
            }
            there.clear();
            *merges = 0;
            table = merged;
        }
        self.stages.finish(&table);
    }
}

impl Simulator for ColaSimulator {
    fn put(&mut self, mut keys: &[u32]) {
        while !keys.is_empty() {
            keys = self.stages.memtable.fill(keys);
            if let Some(table) = self.stages.memtable.flush() {
                self.push(table);
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        self.stages.written()
    }
}

/// SAMT: `growth` tables a level are merged into one of the next.
#[derive(Debug)]
pub struct SamtSimulator {
    stages: Stages,
    /// The tables of all levels but the last.
    levels: Vec<Vec<Vec<u32>>>,
}

impl SamtSimulator {
    /// An empty store with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a log that is not 1 to 2^32 - 1
    /// entries, a growth under 2, or no level.
    pub fn new(parameters: Samt) -> Result<Self> {
        let Samt { log, growth, levels } = parameters.checked()?;
        let inner = vec![Vec::new(); levels as usize - 1];
        Ok(SamtSimulator { stages: Stages::new(log, growth, levels)?, levels: inner })
    }

    fn push(&mut self, mut table: Vec<u32>) {
        for (level, tables) in self.levels.iter_mut().enumerate() {
            self.stages.written[level] += table.len() as u64;
            tables.push(table);
            if tables.len() < self.stages.growth {
                return;
            }
            table = union_all(std::mem::take(tables));
        }
        self.stages.finish(&table);
    }
}

impl Simulator for SamtSimulator {
    fn put(&mut self, mut keys: &[u32]) {
        while !keys.is_empty() {
            keys = self.stages.memtable.fill(keys);
            if let Some(table) = self.stages.memtable.flush() {
                self.push(table);
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        self.stages.written()
    }
}
