//! A workload made ready for the models: what every engine's needs is computed once.

use silica_base::Result;

use crate::model::{Popularity, Primitives};
use crate::{Mix, Workload};

/// What a choice must be able to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Entries survive the process, whatever the writes ask for.
    pub durable: bool,
    /// Keys are read in their order.
    pub ordered: bool,
    /// Entries may go by themselves: it is a cache.
    pub may_evict: bool,
    /// Bytes of the largest value.
    pub value_bytes_max: u64,
}

impl Needs {
    /// Those of a store that keeps what it is given and does what `workload` asks for.
    pub fn of(workload: &Workload) -> Self {
        Needs {
            durable: true,
            ordered: workload.mix.scans > 0.0,
            may_evict: false,
            value_bytes_max: workload.value_bytes.quantile(1.0) as u64,
        }
    }
}

/// A workload with its popularity and primitives.
#[derive(Debug)]
pub struct Work<'w> {
    pub(super) workload: &'w Workload,
    pub(super) mix: Mix,
    pub(super) primitives: Primitives,
    pub(super) keys: f64,
    pub(super) key_bytes: f64,
}

/// Steps of a bisection: as many as a double has digits.
const STEPS: u32 = 60;

impl<'w> Work<'w> {
    /// Makes `workload` ready.
    ///
    /// # Errors
    /// `Config` for what [`Workload::validate`] refuses.
    pub fn new(workload: &'w Workload) -> Result<Self> {
        workload.validate()?;
        let primitives = Primitives::new(workload.popularity()?);
        Ok(Work {
            workload,
            mix: workload.mix.normalised(),
            keys: primitives.keys(),
            key_bytes: workload.key_bytes.mean(),
            primitives,
        })
    }

    /// Bytes of keys and values of an entry whose value has at most `limit` bytes inline; a larger
    /// one counts as a pointer. Then the share of the values that are larger, and their mean size.
    pub(super) fn apart(&self, limit: f64) -> Apart {
        const POINTER_BYTES: f64 = 16.0;
        let (mut inline, mut share, mut bytes) = (self.key_bytes, 0.0, 0.0);
        for (size, part) in self.workload.value_bytes.parts() {
            if *size > limit {
                inline += POINTER_BYTES * part;
                share += part;
                bytes += size * part;
            } else {
                inline += size * part;
            }
        }
        Apart { entry_bytes: inline, share, bytes }
    }

    /// Share of the requests that a least-recently-used memory of `entries` entries answers.
    pub(super) fn recent(&self, entries: f64) -> f64 {
        if entries >= self.keys {
            return 1.0;
        }
        if let Some(missed) = self.workload.working_set.miss_ratio(entries) {
            return 1.0 - missed;
        }
        let window = self.primitives.unique_inverse(entries);
        share_seen(self.primitives.popularity(), window)
    }

    /// Share of the requests that a cache of `blocks` blocks answers, each of `per_block` entries
    /// that lie together by chance: Che's approximation over blocks. The most popular keys are
    /// each in a block of their own; what else is in it adds the mean of the others.
    pub(super) fn blocks_hit(&self, blocks: f64, per_block: f64) -> f64 {
        let all = (self.keys / per_block.max(1.0)).max(1.0);
        if blocks >= all {
            return 1.0;
        }
        if blocks < 1.0 {
            return 0.0;
        }
        let leaders = self.leaders(all);
        // Blocks that were asked for in so many requests, by bisection over its logarithm.
        let seen = |requests: f64| -> f64 {
            leaders.iter().map(|(rate, count)| -count * (-rate * requests).exp_m1()).sum()
        };
        let (mut low, mut high) = (0.0_f64, (all * 1e6).ln());
        for _ in 0..STEPS {
            let middle = 0.5 * (low + high);
            if seen(middle.exp()) < blocks { low = middle } else { high = middle }
        }
        let window = low.exp();
        leaders.iter().map(|(rate, count)| -count * rate * (-rate * window).exp_m1()).sum()
    }

    /// Rate and number of blocks, the most popular first.
    fn leaders(&self, all: f64) -> Vec<(f64, f64)> {
        let mut groups: Vec<(f64, f64)> = self
            .primitives
            .popularity()
            .groups()
            .iter()
            .map(|group| (group.probability, group.keys))
            .collect();
        groups.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut left, mut mass) = (all, 0.0);
        let mut leaders = Vec::new();
        for (probability, keys) in groups {
            let count = keys.min(left);
            if count > 0.0 {
                mass += probability * count;
                leaders.push((probability, count));
                left -= count;
            }
        }
        let others = (1.0 - mass).max(0.0) / all;
        leaders.iter_mut().for_each(|(rate, _)| *rate += others);
        leaders
    }
}

/// Where the values lie.
pub(super) struct Apart {
    /// Bytes of key and value, or pointer, in log and tables.
    pub(super) entry_bytes: f64,
    /// Share of the values that lie apart.
    pub(super) share: f64,
    /// Bytes that lie apart, for each entry.
    pub(super) bytes: f64,
}

/// Share of the requests that are for a key that was asked for in the last `window` ones.
fn share_seen(popularity: &Popularity, window: f64) -> f64 {
    let groups = popularity.groups();
    let seen = |p: f64| if window.is_finite() { -(-p * window).exp_m1() } else { 1.0 };
    groups.iter().map(|group| group.keys * group.probability * seen(group.probability)).sum()
}
