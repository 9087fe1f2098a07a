//! What is asked of a store, as a sketch saw it, a trace holds it or a user describes it.

use std::fmt;
use std::str::FromStr;

use silica_base::Result;

use crate::lines::{self, Lines};
use crate::model::{Popularity, SKEW_MAX};

const TITLE: &str = "silica workload 1";

/// A workload.
///
/// `Display` and `FromStr` are its text form (docs/formats/sketch.md); names that a text leaves
/// out have the values of `Default`: a million keys of 16 bytes with values of 100, half reads,
/// half overwrites, Zipf 0.99.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Live keys.
    pub keys: u64,
    /// How often each operation is asked for.
    pub mix: Mix,
    /// Share of writes that are synced before they return, 0 to 1.
    pub synced: f64,
    /// Bytes of a key.
    pub key_bytes: Sizes,
    /// Bytes of a value that is put.
    pub value_bytes: Sizes,
    /// Entries of a scan.
    pub scan_entries: Sizes,
    /// Keys that one call looks up, on average; 1 where every get is a call of its own.
    pub burst: f64,
    /// Which keys are asked for.
    pub access: Access,
    /// How far apart requests for the same key lie; without points it follows from `access`.
    pub working_set: WorkingSet,
    /// Operations a second that come, where something other than the store limits them.
    pub rate: Option<f64>,
    /// Threads that call at the same time.
    pub threads: u32,
    /// Bytes of memory that the store may use.
    pub memory_bytes: u64,
}

/// Relative frequencies of operations; only their proportions matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Gets of a key that is there.
    pub get_hits: f64,
    /// Gets of a key that is not.
    pub get_misses: f64,
    /// Puts of a new key.
    pub inserts: f64,
    /// Puts of a key that is there.
    pub overwrites: f64,
    /// Deletes.
    pub deletes: f64,
    /// Scans.
    pub scans: f64,
    /// A get and a put of the same key as one step.
    pub modifies: f64,
}

/// A distribution of sizes: values with their shares, which sum to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    parts: Vec<(f64, f64)>,
}

/// Which keys are asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// The `i`th most popular key in proportion to `1 / i^skew`; 0 is uniform.
    Zipf {
        /// The exponent, 0 to 2.
        skew: f64,
    },
    /// A share of the keys gets a share of the requests.
    HotSet {
        /// Share of the keys, inside 0 to 1.
        keys: f64,
        /// Share of the requests, inside 0 to 1.
        requests: f64,
    },
    /// The `k`th newest key in proportion to `1 / k^skew`, as YCSB's `latest`; the mix says how
    /// many requests insert the next one. Where none does, what is newest stays so: Zipf's law.
    Latest {
        /// The exponent, 0 to 2.
        skew: f64,
    },
    /// Groups of keys: how many keys, and the share of the requests that they get together.
    Groups(Vec<(f64, f64)>),
}

/// A miss-ratio curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkingSet {
    /// Entries that a least-recently-used cache holds, and the share of requests that miss it;
    /// rises in entries, falls in misses.
    pub points: Vec<(f64, f64)>,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            keys: 1_000_000,
            mix: Mix::default(),
            synced: 0.0,
            key_bytes: Sizes::constant(16.0),
            value_bytes: Sizes::constant(100.0),
            scan_entries: Sizes::constant(50.0),
            burst: 1.0,
            access: Access::Zipf { skew: 0.99 },
            working_set: WorkingSet::default(),
            rate: None,
            threads: 1,
            memory_bytes: 256 << 20,
        }
    }
}

impl Default for Mix {
    fn default() -> Self {
        Mix { get_hits: 0.5, overwrites: 0.5, ..Mix::NOTHING }
    }
}

impl Mix {
    /// No operations.
    pub const NOTHING: Mix = Mix {
        get_hits: 0.0,
        get_misses: 0.0,
        inserts: 0.0,
        overwrites: 0.0,
        deletes: 0.0,
        scans: 0.0,
        modifies: 0.0,
    };

    fn parts(&self) -> [(&'static str, f64); 7] {
        [
            ("mix.get_hits", self.get_hits),
            ("mix.get_misses", self.get_misses),
            ("mix.inserts", self.inserts),
            ("mix.overwrites", self.overwrites),
            ("mix.deletes", self.deletes),
            ("mix.scans", self.scans),
            ("mix.modifies", self.modifies),
        ]
    }

    /// The sum of all frequencies.
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|p| p.1).sum()
    }

    /// The mix in its proportions, with a sum of 1.
    #[must_use]
    pub fn normalised(&self) -> Mix {
        let total = self.total();
        if total <= 0.0 {
            return *self;
        }
        Mix {
            get_hits: self.get_hits / total,
            get_misses: self.get_misses / total,
            inserts: self.inserts / total,
            overwrites: self.overwrites / total,
            deletes: self.deletes / total,
            scans: self.scans / total,
            modifies: self.modifies / total,
        }
    }

    /// Gets, hits and misses, with those of modifies.
    pub fn reads(&self) -> f64 {
        self.get_hits + self.get_misses + self.modifies
    }

    /// Entries written: puts, deletes and those of modifies.
    pub fn writes(&self) -> f64 {
        self.inserts + self.overwrites + self.deletes + self.modifies
    }
}

impl Sizes {
    /// Always `size`.
    pub fn constant(size: f64) -> Self {
        Sizes { parts: vec![(size, 1.0)] }
    }

    /// From values, rising, with their frequencies, of which only the proportions matter; those
    /// that are zero go.
    ///
    /// # Errors
    /// [`silica_base::ErrorKind::Config`] where there is no frequency over zero, a number is not
    /// finite, or values do not rise.
    pub fn weighted(parts: Vec<(f64, f64)>) -> Result<Self> {
        lines::check_rising("sizes", &parts)?;
        let total: f64 = parts.iter().map(|p| p.1).sum();
        if !(total > 0.0 && total.is_finite()) {
            return Err(lines::config("sizes need at least one share over zero, like 100:1"));
        }
        // A sum of 1 but for rounding is left alone, so that what was shown is read as it was.
        let total = if (total - 1.0).abs() < 1e-9 { 1.0 } else { total };
        let parts = parts.into_iter().filter(|p| p.1 > 0.0);
        Ok(Sizes { parts: parts.map(|(size, share)| (size, share / total)).collect() })
    }

    /// Values, rising, with their shares.
    pub fn parts(&self) -> &[(f64, f64)] {
        &self.parts
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.parts.iter().map(|(size, share)| size * share).sum()
    }

    /// The smallest value that a share `quantile` (0 to 1) of all do not exceed.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let mut below = 0.0;
        for (size, share) in &self.parts {
            below += share;
            if below >= quantile - 1e-12 {
                return *size;
            }
        }
        self.parts.last().map_or(0.0, |p| p.0)
    }
}

impl WorkingSet {
    /// Share of requests that miss a least-recently-used cache of `entries`; `None` where nobody
    /// measured.
    pub fn miss_ratio(&self, entries: f64) -> Option<f64> {
        lines::between(&self.points, entries)
    }
}

impl Workload {
    /// How popular each key is, at one time where that changes.
    ///
    /// # Errors
    /// Those of [`Popularity`]'s constructors.
    pub fn popularity(&self) -> Result<Popularity> {
        match &self.access {
            Access::Zipf { skew } | Access::Latest { skew } => Popularity::zipf(self.keys, *skew),
            Access::HotSet { keys, requests } => Popularity::hot_set(self.keys, *keys, *requests),
            Access::Groups(groups) => Popularity::weighted(groups),
        }
    }

    /// Bytes of an entry, key and value, on average.
    pub fn entry_bytes(&self) -> f64 {
        self.key_bytes.mean() + self.value_bytes.mean()
    }

    /// Bytes of all live entries.
    pub fn data_bytes(&self) -> f64 {
        self.keys as f64 * self.entry_bytes()
    }

    /// Refuses what no workload is.
    ///
    /// # Errors
    /// [`silica_base::ErrorKind::Config`], naming the value.
    pub fn validate(&self) -> Result<()> {
        let fail = |text: String| Err(lines::config(text));
        for (name, share) in self.mix.parts() {
            if !(share.is_finite() && share >= 0.0) {
                return fail(format!("{name} must be 0 or more, not {share}"));
            }
        }
        if !(self.mix.total() > 0.0 && self.mix.total().is_finite()) {
            return fail("the mix has no operation: give at least one a share over zero".into());
        }
        if !(0.0..=1.0).contains(&self.synced) {
            return fail(format!("synced is a share from 0 to 1, not {}", self.synced));
        }
        if !(self.burst.is_finite() && self.burst >= 1.0) {
            return fail(format!("a burst has at least 1 key, not {}", self.burst));
        }
        if self.key_bytes.mean() <= 0.0 {
            return fail("keys have at least 1 byte".into());
        }
        if self.threads == 0 || self.memory_bytes == 0 {
            return fail("threads and memory_bytes must be over zero".into());
        }
        if self.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return fail("the rate must be over zero; leave it out where nothing limits it".into());
        }
        let points = &self.working_set.points;
        lines::check_rising("working_set", points)?;
        if points.windows(2).any(|w| w[1].1 > w[0].1) || points.iter().any(|p| p.1 > 1.0) {
            return fail("the miss ratios of working_set must fall and be at most 1".into());
        }
        self.popularity().map(drop)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Zipf { skew } => write!(f, "zipf {skew}"),
            Access::HotSet { keys, requests } => write!(f, "hot-set {keys}:{requests}"),
            Access::Latest { skew } => write!(f, "latest {skew}"),
            Access::Groups(groups) => write!(f, "groups {}", lines::show_pairs(groups)),
        }
    }
}

impl FromStr for Access {
    type Err = silica_base::Error;

    /// `uniform`, `zipf SKEW`, `hot-set KEYS:REQUESTS`, `latest SKEW` or `groups KEYS:REQUESTS …`.
    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (name, rest.trim()) {
            ("uniform", "") => Ok(Access::Zipf { skew: 0.0 }),
            ("zipf", skew) => Ok(Access::Zipf { skew: lines::number(skew)? }),
            ("hot-set", shares) => match lines::pairs(shares)?[..] {
                [(keys, requests)] => Ok(Access::HotSet { keys, requests }),
                _ => Err(lines::config("a hot-set is one pair like 0.1:0.9, keys and requests")),
            },
            ("latest", skew) => Ok(Access::Latest { skew: lines::number(skew)? }),
            ("groups", groups) => Ok(Access::Groups(lines::pairs(groups)?)),
            _ => Err(lines::config(format!(
                "access is one of 'uniform', 'zipf SKEW' and 'latest SKEW' (0 to {SKEW_MAX}), \
                 'hot-set KEYS:REQUESTS' and 'groups KEYS:REQUESTS …'"
            ))),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        writeln!(f, "keys = {}", self.keys)?;
        for (name, share) in self.mix.parts() {
            writeln!(f, "{name} = {share}")?;
        }
        writeln!(f, "synced = {}", self.synced)?;
        writeln!(f, "key_bytes = {}", lines::show_pairs(&self.key_bytes.parts))?;
        writeln!(f, "value_bytes = {}", lines::show_pairs(&self.value_bytes.parts))?;
        writeln!(f, "scan_entries = {}", lines::show_pairs(&self.scan_entries.parts))?;
        writeln!(f, "burst = {}", self.burst)?;
        writeln!(f, "access = {}", self.access)?;
        writeln!(f, "working_set = {}", lines::show_pairs(&self.working_set.points))?;
        writeln!(f, "rate = {}", lines::show_maybe(self.rate))?;
        writeln!(f, "threads = {}", self.threads)?;
        writeln!(f, "memory_bytes = {}", self.memory_bytes)
    }
}

impl FromStr for Workload {
    type Err = silica_base::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut w = Workload::default();
        let mut lines = Lines::read(text, TITLE)?;
        let sizes = |text: &str| Sizes::weighted(lines::pairs(text)?);
        lines.take("keys", &mut w.keys, lines::whole)?;
        // A text that names any part of the mix names all that there is.
        if w.mix.parts().iter().any(|(name, _)| lines.has(name)) {
            w.mix = Mix::NOTHING;
        }
        lines.take("mix.get_hits", &mut w.mix.get_hits, lines::number)?;
        lines.take("mix.get_misses", &mut w.mix.get_misses, lines::number)?;
        lines.take("mix.inserts", &mut w.mix.inserts, lines::number)?;
        lines.take("mix.overwrites", &mut w.mix.overwrites, lines::number)?;
        lines.take("mix.deletes", &mut w.mix.deletes, lines::number)?;
        lines.take("mix.scans", &mut w.mix.scans, lines::number)?;
        lines.take("mix.modifies", &mut w.mix.modifies, lines::number)?;
        lines.take("synced", &mut w.synced, lines::number)?;
        lines.take("key_bytes", &mut w.key_bytes, sizes)?;
        lines.take("value_bytes", &mut w.value_bytes, sizes)?;
        lines.take("scan_entries", &mut w.scan_entries, sizes)?;
        lines.take("burst", &mut w.burst, lines::number)?;
        lines.take("access", &mut w.access, str::parse)?;
        lines.take("working_set", &mut w.working_set.points, lines::pairs)?;
        lines.take("rate", &mut w.rate, lines::maybe)?;
        lines.take("threads", &mut w.threads, lines::whole)?;
        lines.take("memory_bytes", &mut w.memory_bytes, lines::whole)?;
        lines.finish()?;
        w.validate()?;
        Ok(w)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rich() -> Workload {
        Workload {
            keys: 12_345,
            mix: Mix { get_hits: 3.0, get_misses: 1.0 / 3.0, scans: 0.1, ..Mix::NOTHING },
            synced: 0.25,
            key_bytes: Sizes::weighted(vec![(8.5, 2.0), (24.0, 1.0), (99.0, 4.0)]).unwrap(),
            value_bytes: Sizes::weighted(vec![(0.0, 0.1), (1e6, 0.9)]).unwrap(),
            scan_entries: Sizes::constant(7.0),
            burst: 17.5,
            access: Access::Groups(vec![(10.0, 0.5), (90.0, 0.5)]),
            working_set: WorkingSet { points: vec![(1.0, 1.0), (100.0, 0.2), (1e4, 0.0)] },
            rate: Some(12.5),
            threads: 3,
            memory_bytes: 1 << 33,
        }
    }

    #[test]
    fn what_is_shown_is_read() {
        for workload in [
            Workload::default(),
            rich(),
            Workload { access: Access::HotSet { keys: 0.1, requests: 0.9 }, ..rich() },
            Workload { access: Access::Latest { skew: 0.75 }, ..rich() },
        ] {
            let text = workload.to_string();
            assert_eq!(text.parse::<Workload>().unwrap(), workload, "{text}");
        }
        assert_eq!(TITLE.parse::<Workload>().unwrap(), Workload::default());
        let gets = format!("{TITLE}\nmix.get_hits = 1\naccess = uniform");
        let gets = gets.parse::<Workload>().unwrap();
        assert_eq!(gets.mix, Mix { get_hits: 1.0, ..Mix::NOTHING });
        assert_eq!(gets.access, Access::Zipf { skew: 0.0 });
    }

    #[test]
    fn wrong_texts_are_named() {
        for (line, why) in [
            ("keys = 0", "no keys"),
            ("keys = 1e6", "whole number"),
            ("mix.scans = 0", "no operation"),
            ("mix.scans = -1", "no number"),
            ("synced = 1.1", "share from 0 to 1"),
            ("key_bytes = 0:1", "at least 1 byte"),
            ("key_bytes = 8:0", "share over zero"),
            ("key_bytes =", "share over zero"),
            ("value_bytes = 9:1 8:1", "rise"),
            ("burst = 0", "at least 1 key"),
            ("access = zipf -1", "no number"),
            ("access = zipf 2.5", "skew"),
            ("access = newest", "access is one of"),
            ("access = latest", "no number"),
            ("access = latest -1", "no number"),
            ("access = latest nan", "no number"),
            ("access = latest 2.5", "skew"),
            ("access = hot-set 0.5", "no pair"),
            ("access = hot-set 0.5:1", "hot share"),
            ("access = groups", "group"),
            ("access = groups 0:1", "group"),
            ("working_set = 1:0.5 2:0.6", "fall"),
            ("rate = 0", "rate"),
            ("threads = 0", "threads"),
            ("colour = 1", "has no 'colour'"),
        ] {
            let error = format!("{TITLE}\n{line}").parse::<Workload>().unwrap_err().to_string();
            assert!(error.contains(why), "{line:?}: {error}");
        }
    }

    #[test]
    fn sizes_have_means_and_quantiles() {
        let sizes = Sizes::weighted(vec![(10.0, 1.0), (20.0, 2.0), (40.0, 1.0)]).unwrap();
        assert_eq!(sizes.mean(), 22.5);
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 0.76, 1.0].map(|q| sizes.quantile(q)),
            [10.0, 10.0, 20.0, 20.0, 40.0, 40.0]
        );
    }

    #[test]
    fn groups_become_a_popularity() {
        let popularity = rich().popularity().unwrap();
        assert_eq!(popularity.keys(), 100.0);
        let probabilities: Vec<f64> = popularity.groups().iter().map(|g| g.probability).collect();
        assert_eq!(probabilities, [0.05, 0.5 / 90.0]);
    }
}
