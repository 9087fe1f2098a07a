//! A workload made ready for the models: what every engine's needs is computed once.

use silica_base::Result;

use crate::model::{Course, Latest, Popularity, Primitives, Writes};
use crate::{Access, Mix, Workload};

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
    /// Bytes of flash that a cache may have.
    pub flash_bytes: Option<u64>,
}

impl Needs {
    /// Those of a store that keeps what it is given and does what `workload` asks for.
    pub fn of(workload: &Workload) -> Self {
        Needs {
            durable: true,
            ordered: workload.mix.scans > 0.0,
            may_evict: false,
            value_bytes_max: workload.value_bytes.quantile(1.0) as u64,
            flash_bytes: None,
        }
    }
}

/// A workload with its popularity and primitives.
#[derive(Debug)]
pub struct Work<'w> {
    pub(super) workload: &'w Workload,
    pub(super) mix: Mix,
    primitives: Primitives,
    /// What changes where the latest keys are the popular ones.
    moving: Option<Moving>,
    pub(super) keys: f64,
    pub(super) key_bytes: f64,
}

/// Keys of which the latest are popular: among writes alone, which are what memtables and logs
/// keep, and among all requests for keys that are there, which caches see.
#[derive(Debug)]
struct Moving {
    written: Recency,
    asked: Recency,
}

#[derive(Debug)]
struct Recency {
    latest: Latest,
    distinct: Writes,
}

impl Moving {
    /// Nothing where it does not move.
    fn new(workload: &Workload) -> Result<Option<Self>> {
        let mix = workload.mix.normalised();
        let Access::Latest { skew } = workload.access else { return Ok(None) };
        if mix.inserts <= 0.0 {
            return Ok(None);
        }
        let of = |requests: f64| -> Result<Recency> {
            let latest = Latest::new(workload.keys, skew, (mix.inserts / requests).min(1.0))?;
            Ok(Recency { distinct: Writes::latest(latest.clone()), latest })
        };
        let asked = mix.get_hits + mix.inserts + mix.overwrites + mix.deletes + mix.modifies;
        Ok(Some(Moving { written: of(mix.writes())?, asked: of(asked)? }))
    }
}

impl Moving {
    /// [`Work::blocks_hit`] where a part `cached` of all blocks is in the cache. It is asked for
    /// what was not `written` last, and keeps what was got last: the blocks of these keys, which
    /// lie at random places.
    fn blocks_hit(&self, mix: &Mix, cached: f64, per_block: f64, written: f64) -> f64 {
        let latest = &self.asked.latest;
        let gets = mix.get_hits + mix.modifies;
        if gets <= 0.0 {
            return 0.0;
        }
        let writes = self.written.distinct.unique_inverse(written);
        let inserts = writes * self.written.latest.inserts();
        let written = Course { inserts, others: writes - inserts };
        let behind = |inserts: f64| {
            latest.behind(written, Course { inserts, others: inserts * gets / mix.inserts })
        };
        // So many keys have a place in the cached blocks.
        let named = latest.keys() * (1.0 - (1.0 - cached).powf(per_block.recip()));
        // Inserts of the time in which they were got, by bisection over the logarithm.
        let scale = mix.inserts / gets;
        let (mut low, mut high) = (scale.ln(), (1e6 * latest.keys() * scale).ln());
        for _ in 0..STEPS_BEHIND {
            let middle = 0.5 * (low + high);
            if behind(middle.exp()).keys < named { low = middle } else { high = middle }
        }
        let found = behind(low.exp());
        let own = found.seen / found.share.max(f64::MIN_POSITIVE);
        let no_other = (1.0 - named / latest.keys()).powf(per_block - 1.0);
        1.0 - (1.0 - own.min(1.0)) * no_other
    }
}

impl Recency {
    /// Share of the gets for a key that was among the last requests, as many as name so many
    /// distinct keys.
    fn recent(&self, entries: f64) -> f64 {
        self.latest.hits(self.distinct.unique_inverse(entries))
    }
}

/// Steps of a bisection: as many as a double has digits.
const STEPS: u32 = 60;
/// And as many as settle a share of hits to four digits.
const STEPS_BEHIND: u32 = 20;

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
            moving: Moving::new(workload)?,
        })
    }

    /// The part of the writes that is for keys that are there.
    pub(super) fn old_share(&self) -> f64 {
        let writes = self.mix.writes();
        if writes > 0.0 { (writes - self.mix.inserts) / writes } else { 0.0 }
    }

    /// Requests until so many distinct keys are expected, where their popularity stays.
    pub(super) fn unique_inverse(&self, unique: f64) -> f64 {
        self.primitives.unique_inverse(unique)
    }

    /// Writes that come before so many distinct keys are written, where the latest keys are the
    /// popular ones: each insert may be written again like any other.
    pub(super) fn latest_until(&self, entries: f64) -> Option<f64> {
        self.moving.as_ref().map(|moving| moving.written.distinct.unique_inverse(entries))
    }

    /// Keys that were there and that so many writes write again, and those that they insert; each
    /// counts once.
    pub(super) fn distinct_written(&self, writes: f64) -> (f64, f64) {
        let share = self.old_share();
        let new = writes * (1.0 - share);
        let old = match &self.moving {
            Some(moving) => (moving.written.distinct.unique(writes) - new).max(0.0),
            None => self.primitives.unique(writes * share),
        };
        (old, new)
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
        self.recent_of(entries, |moving| &moving.asked)
    }

    /// Share of the gets that the `entries` entries answer that were written last.
    pub(super) fn recently_written(&self, entries: f64) -> f64 {
        self.recent_of(entries, |moving| &moving.written)
    }

    fn recent_of(&self, entries: f64, of: impl Fn(&Moving) -> &Recency) -> f64 {
        if entries >= self.keys {
            return 1.0;
        }
        if let Some(missed) = self.workload.working_set.miss_ratio(entries) {
            return 1.0 - missed;
        }
        match &self.moving {
            Some(moving) => of(moving).recent(entries),
            None => {
                let window = self.primitives.unique_inverse(entries);
                share_seen(self.primitives.popularity(), window)
            }
        }
    }

    /// Share of the requests that a cache of `blocks` blocks answers, each of `per_block` entries
    /// that lie together by chance: Che's approximation over blocks. The most popular keys are
    /// each in a block of their own; what else is in it adds the mean of the others. Before the
    /// cache the `written` entries are asked that were written last.
    pub(super) fn blocks_hit(&self, blocks: f64, per_block: f64, written: f64) -> f64 {
        let per_block = per_block.max(1.0);
        let all = (self.keys / per_block).max(1.0);
        if blocks >= all {
            return 1.0;
        }
        if blocks < 1.0 {
            return 0.0;
        }
        if let Some(moving) = &self.moving {
            return moving.blocks_hit(&self.mix, blocks / all, per_block, written);
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
        silica_base::compact_sort_by(&mut groups, |a, b| b.0.total_cmp(&a.0));
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

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
