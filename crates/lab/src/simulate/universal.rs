//! RocksDB's universal compaction: sorted runs by age, merged by their sizes and their number.

use silica_base::Result;

use super::keyset::KeySet;
use super::{Memtable, Simulator, whole};
use crate::model::{Stage, Universal};

/// Universal compaction by the rules of RocksDB 7.8, each run whole and every compaction done in
/// the put that makes it due.
#[derive(Debug)]
pub struct UniversalSimulator {
    memtable: Memtable,
    rules: Universal,
    /// Sorted runs, the newest last.
    runs: Vec<KeySet>,
    /// Empty ones, kept for their room.
    spare: Vec<KeySet>,
    /// Entries written by flushes and by compactions.
    written: [u64; 2],
}

impl UniversalSimulator {
    /// An empty store with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for what [`Universal::checked`]
    /// refuses, and a log that is not 1 to 2^32 - 1 entries.
    pub fn new(parameters: Universal) -> Result<Self> {
        let rules = parameters.checked()?;
        Ok(UniversalSimulator {
            memtable: Memtable::new(whole("the log's size", rules.log)?),
            rules,
            runs: Vec::new(),
            spare: Vec::new(),
            written: [0; 2],
        })
    }

    /// Runs that are merged next, by their places.
    fn due(&self) -> Option<std::ops::Range<usize>> {
        let sizes: Vec<f64> = self.runs.iter().map(|run| run.count() as f64).collect();
        let (&oldest, newer) = sizes.split_first()?;
        let trigger = self.rules.runs as usize;
        if newer.is_empty() || sizes.len() < trigger {
            return None;
        }
        if 100.0 * newer.iter().sum::<f64>() >= self.rules.space_percent * oldest {
            return Some(0..sizes.len());
        }
        for end in (2..=sizes.len()).rev() {
            let mut begin = end - 1;
            let mut sum = sizes[begin];
            while begin > 0 && sum * (1.0 + self.rules.size_ratio / 100.0) >= sizes[begin - 1] {
                begin -= 1;
                sum += sizes[begin];
            }
            if end - begin > 1 {
                return Some(begin..end);
            }
        }
        // As many as are too many become one.
        let over = sizes.len() - trigger;
        (over > 0).then(|| sizes.len() - over - 1..sizes.len())
    }

    /// Merges until nothing is due.
    fn compact(&mut self) {
        while let Some(due) = self.due() {
            let mut merged = self.spare.pop().unwrap_or_default();
            for mut run in self.runs.drain(due.clone()) {
                run.drain_all(&mut merged);
                self.spare.push(run);
            }
            self.written[1] += merged.count() as u64;
            self.runs.insert(due.start, merged);
        }
    }
}

impl Simulator for UniversalSimulator {
    fn put(&mut self, mut keys: &[u32]) {
        while !keys.is_empty() {
            keys = self.memtable.fill(keys);
            if let Some(table) = self.memtable.full() {
                self.written[0] += table.count() as u64;
                let mut run = self.spare.pop().unwrap_or_default();
                table.drain_all(&mut run);
                self.runs.push(run);
                self.compact();
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        (0..).map(Stage::Level).zip(self.written).collect()
    }
}
