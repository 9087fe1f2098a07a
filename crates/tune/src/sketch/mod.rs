//! What is asked of a running store, from a sample of its calls: docs/formats/sketch.md.
//!
//! A sketch is plain memory of fixed size, well under 1 MiB. Whoever has the calls picks some of
//! them (every one as likely) and says how many each stands for; and, while it likes to, shows all
//! requests for the keys of the [`Sample`].

mod codec;
mod fit;
mod histogram;
mod sample;

pub use histogram::SizeHistogram;
pub use sample::{Sample, Touch};

use crate::lines::config;
use crate::workload::{Access, Mix, Sizes, WorkingSet, Workload};
use silica_base::Result;

/// Operations after which a sketch is halved: from then on it has a half to a whole of them, and
/// what was before so many weighs at most a half of it.
pub const OPERATIONS_KEPT: u64 = 1 << 24;
/// A fit that has more of the requests elsewhere than they are is none; groups are taken instead.
const MISPLACED_MAX: f64 = 0.3;

/// What one call asked for. A call of several keys is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// Gets that found their key.
    pub get_hits: u64,
    /// Gets that did not.
    pub get_misses: u64,
    /// Puts.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Scans.
    pub scans: u64,
    /// Updates that wrote what they had read.
    pub modifies: u64,
    /// True where it returned after what it wrote was synced.
    pub synced: bool,
}

impl Call {
    fn is_write(&self) -> bool {
        self.puts + self.deletes + self.modifies > 0
    }
}

/// How often what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls that got keys.
    pub get_calls: u64,
    /// Gets that found their key.
    pub get_hits: u64,
    /// Gets that did not.
    pub get_misses: u64,
    /// Calls that wrote.
    pub write_calls: u64,
    /// Those of them that synced.
    pub synced_calls: u64,
    /// Calls of sync alone.
    pub syncs: u64,
    /// Puts.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Scans.
    pub scans: u64,
    /// Updates that wrote what they had read.
    pub modifies: u64,
}

impl Totals {
    /// Operations of all kinds.
    pub fn operations(&self) -> u64 {
        let all = [self.get_hits, self.get_misses, self.puts, self.deletes, self.scans];
        all.into_iter().fold(self.modifies, u64::saturating_add)
    }

    /// Both together.
    pub fn plus(self, other: Totals) -> Totals {
        self.with(other, u64::saturating_add)
    }

    /// What is left where `other` is taken off.
    pub fn minus(self, other: Totals) -> Totals {
        self.with(other, u64::saturating_sub)
    }

    fn with(mut self, mut other: Totals, merge: impl Fn(u64, u64) -> u64) -> Totals {
        for (number, other) in self.numbers().into_iter().zip(other.numbers()) {
            *number = merge(*number, *other);
        }
        self
    }
}

/// A sketch.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// Estimates of what was asked; what is long ago is halved again and again.
    pub totals: Totals,
    /// Bytes of keys.
    pub key_bytes: SizeHistogram,
    /// Bytes of values that were put.
    pub put_bytes: SizeHistogram,
    /// Bytes of values that were found.
    pub found_bytes: SizeHistogram,
    /// Entries of scans.
    pub scan_entries: SizeHistogram,
    /// All requests for some keys.
    pub sample: Sample,
    /// Keys in the store when the sketch began, brought nearer to those of now at each halving.
    pub keys_before: u64,
}

impl Sketch {
    /// A sketch of a store that has so many keys.
    pub fn new(keys: u64) -> Self {
        Sketch { keys_before: keys, ..Sketch::default() }
    }

    /// A call that stands for `weight` calls. Sizes are added by themselves, with the same weight.
    pub fn call(&mut self, call: &Call, weight: u64) {
        let t = &mut self.totals;
        let add = |total: &mut u64, count: u64| {
            *total = total.saturating_add(count.saturating_mul(weight));
        };
        add(&mut t.get_calls, u64::from(call.get_hits + call.get_misses > 0));
        add(&mut t.get_hits, call.get_hits);
        add(&mut t.get_misses, call.get_misses);
        add(&mut t.write_calls, u64::from(call.is_write()));
        add(&mut t.synced_calls, u64::from(call.is_write() && call.synced));
        add(&mut t.syncs, u64::from(call.synced && !call.is_write()));
        add(&mut t.puts, call.puts);
        add(&mut t.deletes, call.deletes);
        add(&mut t.scans, call.scans);
        add(&mut t.modifies, call.modifies);
    }

    /// True where it has seen so much that it is to be halved.
    pub fn is_old(&self) -> bool {
        self.totals.operations() >= OPERATIONS_KEPT
    }

    /// Halves all that was seen, of a store that has `keys` keys now, so that what comes next
    /// weighs more. The proportions stay. The sample is halved where it has many requests only.
    pub fn halve(&mut self, keys: u64) {
        let inserts = self.inserts(keys);
        self.sample.settle(self.are_made(inserts));
        self.sample.halve();
        for number in self.totals.numbers() {
            *number /= 2;
        }
        for sizes in [
            &mut self.key_bytes,
            &mut self.put_bytes,
            &mut self.found_bytes,
            &mut self.scan_entries,
        ] {
            sizes.halve();
        }
        // What the store has grown by is told from this: it is halved with the puts.
        self.keys_before = match keys.checked_sub(self.keys_before) {
            Some(grown) => keys - grown / 2,
            None => keys + (self.keys_before - keys) / 2,
        };
    }

    /// The workload of a store that has `keys` keys now. What a sketch does not know (threads,
    /// memory, a limit of the rate) is as in [`Workload::default`].
    ///
    /// # Errors
    /// `Config` where nothing was seen yet.
    pub fn workload(&self, keys: u64) -> Result<Workload> {
        let t = &self.totals;
        if t.operations() == 0 {
            return Err(config(
                "nothing was seen of the workload yet; one call in some hundreds is sampled, so \
                 use the keyspace first",
            ));
        }
        let inserts = self.inserts(keys);
        let mix = Mix {
            get_hits: t.get_hits as f64,
            get_misses: t.get_misses as f64,
            inserts: inserts as f64,
            overwrites: (t.puts - inserts) as f64,
            deletes: t.deletes as f64,
            scans: t.scans as f64,
            modifies: t.modifies as f64,
        };
        let defaults = Workload::default();
        let or = |sizes: Option<Sizes>, other: &Sizes| sizes.unwrap_or_else(|| other.clone());
        let syncs = (t.synced_calls + t.syncs) as f64;
        let gets = (t.get_hits + t.get_misses) as f64;
        let workload = Workload {
            keys: keys.max(1),
            mix: mix.normalised(),
            synced: (syncs / t.write_calls.max(1) as f64).min(1.0),
            key_bytes: or(self.key_bytes.sizes(), &defaults.key_bytes),
            value_bytes: or(
                self.put_bytes.sizes().or_else(|| self.found_bytes.sizes()),
                &defaults.value_bytes,
            ),
            scan_entries: or(self.scan_entries.sizes(), &defaults.scan_entries),
            burst: (gets / t.get_calls.max(1) as f64).max(1.0),
            access: self.access(keys, inserts),
            working_set: WorkingSet { points: self.sample.miss_ratios() },
            ..defaults
        };
        workload.validate()?;
        Ok(workload)
    }

    /// Puts that made a key: what the store has grown by, and what was deleted meanwhile.
    fn inserts(&self, keys: u64) -> u64 {
        let grown = keys.saturating_sub(self.keys_before);
        grown.saturating_add(self.totals.deletes).min(self.totals.puts)
    }

    /// The popularity of keys: a Zipf one where that fits, else groups of keys alike.
    fn access(&self, keys: u64, inserts: u64) -> Access {
        let counts = self.counts(inserts);
        match fit::fit(&counts, keys as f64) {
            None => Access::Zipf { skew: 0.0 },
            Some(fit) if fit.misplaced <= MISPLACED_MAX => Access::Zipf { skew: fit.skew },
            Some(fit) => match groups(&counts, keys) {
                Some(groups) => Access::Groups(groups),
                None => Access::Zipf { skew: fit.skew },
            },
        }
    }

    /// Whether most keys that were first seen written were made then.
    fn are_made(&self, inserts: u64) -> bool {
        let written_first = self.sample.seen.values().filter(|seen| seen.written_first).count();
        2.0 * inserts as f64 >= written_first as f64 * self.sample.keys_per_key()
    }

    /// Where most keys that were first seen written were made then, that write is no request: every
    /// key is made once, however popular.
    fn counts(&self, inserts: u64) -> fit::Counts {
        let are_made = self.are_made(inserts);
        let mut counts = fit::Counts::default();
        for seen in self.sample.seen.values() {
            let (of, count) = match seen.written_first && are_made {
                true => (&mut counts.known, seen.count - 1),
                false => (&mut counts.asked, seen.count),
            };
            *of.entry(count).or_insert(0) += 1;
        }
        counts
    }
}

/// Keys whose counts share a doubling are alike; the share of the requests that they get.
fn groups(counts: &fit::Counts, keys: u64) -> Option<Vec<(f64, f64)>> {
    let mut groups = std::collections::BTreeMap::<u32, (f64, f64)>::new();
    for (count, number) in counts.asked.iter().chain(&counts.known) {
        let (of, requests) = groups.entry((count + 1).ilog2()).or_default();
        *of += *number as f64;
        *requests += f64::from(*count) * *number as f64;
    }
    let seen: f64 = groups.values().map(|group| group.0).sum();
    let requests: f64 = groups.values().map(|group| group.1).sum();
    if requests <= 0.0 {
        return None;
    }
    let share = |(of, asked): (f64, f64)| {
        // A key that nobody asked for yet may be asked for.
        (of / seen * keys.max(1) as f64, asked.max(0.5) / requests)
    };
    Some(groups.into_values().rev().map(share).collect())
}

#[cfg(test)]
mod tests;
