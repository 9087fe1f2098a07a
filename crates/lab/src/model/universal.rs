//! RocksDB's universal compaction: sorted runs by age, merged by their sizes and their number.

use silica_base::Result;

use super::{Primitives, Stage, WriteAmplification, positive};

/// Parameters of universal compaction, under RocksDB's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Universal {
    /// Entries in a memtable (`write_buffer_size`).
    pub log: f64,
    /// Sorted runs from which on there are compactions (`level0_file_num_compaction_trigger`).
    pub runs: u32,
    /// Percent by which the next run may be larger than those taken (`size_ratio`).
    pub size_ratio: f64,
    /// Percent of the last run that the newer ones may come to
    /// (`max_size_amplification_percent`).
    pub space_percent: f64,
}

/// What universal compaction costs.
#[derive(Clone, Debug, PartialEq)]
pub struct UniversalCost {
    /// Entries written for each put: the log, flushes as level 0, compactions as level 1.
    pub writes: WriteAmplification,
    /// Sorted runs that a read may have to look at, on average.
    pub runs: f64,
    /// Entries in all runs for each key, on average.
    pub space: f64,
}

/// Flushes after which an average stands, whether or not everything was merged by then.
const FLUSHES_MAX: u32 = 200_000;
const RUNS_MAX: u32 = 1000;

impl Universal {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`silica_base::ErrorKind::Config`] for fewer than 2 runs or more than 1000, a negative size
    /// ratio, and numbers that are not over zero.
    pub fn checked(self) -> Result<Self> {
        positive("the log's size", self.log)?;
        positive("the percentage of the last run", self.space_percent)?;
        let refuse = |text: String| Err(silica_base::Error::new(ERROR, text));
        if !(2..=RUNS_MAX).contains(&self.runs) {
            return refuse(format!("there are 2 to {RUNS_MAX} runs, not {}", self.runs));
        }
        if !(0.0..=1e6).contains(&self.size_ratio) {
            return refuse(format!("a size ratio is 0 to 1e6 percent, not {}", self.size_ratio));
        }
        Ok(self)
    }

    /// Follows the runs' expected sizes from one merge of everything to the next.
    ///
    /// A run is known by the requests that it holds; merged, they add up, and
    /// [`Primitives::unique`] says how large that is. What compaction does next depends on sizes
    /// alone, so the course of one cycle is that of all. A cycle of more than 200,000 flushes is
    /// followed that far.
    pub fn cost(&self, keys: &Primitives) -> UniversalCost {
        let all = keys.keys();
        let flushed = keys.unique(self.log);
        // Requests and entries of each run but the last, which has every key; the newest last.
        let mut runs: Vec<(f64, f64)> = Vec::new();
        let (mut compacted, mut runs_sum, mut space_sum, mut flushes) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..FLUSHES_MAX {
            runs.push((self.log, flushed));
            flushes += 1.0;
            runs_sum += 1.0 + runs.len() as f64;
            space_sum += 1.0 + entries(&runs) / all;
            while let Some(Merge { first, count, takes_last }) = self.pick(&runs, all) {
                let merged = runs.drain(first..first + count).map(|run| run.0).sum();
                compacted += if takes_last { all } else { keys.unique(merged) };
                if !takes_last {
                    runs.insert(first, (merged, keys.unique(merged)));
                }
            }
            if runs.is_empty() {
                break;
            }
        }
        let mut writes = WriteAmplification::logged();
        let requests = flushes * self.log;
        writes.add(Stage::Level(0), flushed / self.log);
        writes.add(Stage::Level(1), compacted / requests);
        UniversalCost { writes, runs: runs_sum / flushes, space: space_sum / flushes }
    }

    /// What is merged next, if anything: all where the newer runs come to too much; else the first
    /// run from the newest on that has older neighbours of its size or less, with them; else the
    /// newest runs, as many as are too many. The last run has `all` entries.
    fn pick(&self, runs: &[(f64, f64)], all: f64) -> Option<Merge> {
        let len = runs.len();
        if len == 0 || len + 1 < self.runs as usize {
            return None;
        }
        if 100.0 * entries(runs) >= self.space_percent * all {
            return Some(Merge { first: 0, count: len, takes_last: true });
        }
        // By age from the newest; the last run is at the end.
        let size = |age: usize| if age < len { runs[len - 1 - age].1 } else { all };
        for start in 0..len {
            let mut sum = size(start);
            let mut end = start + 1;
            while end <= len && sum * (100.0 + self.size_ratio) >= 100.0 * size(end) {
                sum += size(end);
                end += 1;
            }
            if end > len {
                let count = len - start;
                // The last run alone is no merge.
                return (count > 0).then_some(Merge { first: 0, count, takes_last: true });
            }
            if end - start > 1 {
                return Some(Merge { first: len - end, count: end - start, takes_last: false });
            }
        }
        // At the number itself nothing is too many (PickCompaction in RocksDB 7.8).
        let over = len + 1 - self.runs as usize;
        let count = over + 1;
        (over > 0).then(|| match len < count {
            true => Merge { first: 0, count: len, takes_last: true },
            false => Merge { first: len - count, count, takes_last: false },
        })
    }
}

/// Entries of runs.
fn entries(runs: &[(f64, f64)]) -> f64 {
    runs.iter().map(|run| run.1).sum()
}

/// Runs that become one, by their place from the oldest on; the last run may be among them.
struct Merge {
    first: usize,
    count: usize,
    takes_last: bool,
}

const ERROR: silica_base::ErrorKind = silica_base::ErrorKind::Config;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Popularity;

    #[test]
    fn ends_whatever_it_is_asked() {
        for (keys, skew, log, runs) in [(1, 0.0, 1.0, 2), (1000, 2.0, 1e-3, 2), (5, 1.0, 1e18, 9)] {
            let keys = Primitives::new(Popularity::zipf(keys, skew).unwrap());
            let model = Universal { log, runs, size_ratio: 0.0, space_percent: 1e9 };
            let cost = model.checked().unwrap().cost(&keys);
            assert!(cost.writes.total().is_finite() && cost.runs.is_finite(), "{cost:?}");
        }
    }
}
