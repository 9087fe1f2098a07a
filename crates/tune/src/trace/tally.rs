//! The workload that a trace holds.

use super::{TraceKind, TraceReader};
use crate::lines::config;
use crate::sketch::{Sample, Touch};
use crate::workload::{Access, Mix, Sizes, WorkingSet, Workload};
use silica_base::{HashSeed, Result};
use std::collections::BTreeMap;
use std::io::BufRead;

/// Keys that are counted one by one; of more a part is, chosen by their hash.
const KEYS_MAX: usize = 1 << 20;
/// Of them, those asked for most, which stay whatever their hash.
const HELD_MAX: usize = KEYS_MAX / 4;
/// Groups of popularity for each doubling of the count.
const GROUPS: f64 = 16.0;
/// Under the same seed everywhere, so that the same trace is the same workload.
const SEED: HashSeed = HashSeed([0; 16]);

impl Workload {
    /// The workload that the trace holds from where `reader` is up to its end; what a trace does
    /// not say (threads, memory, syncs, bursts) is as in `base`.
    ///
    /// Keys have the popularity that they have in the trace, in groups: two keys of one group were
    /// asked for as often within a factor of `2^(1/16)`, so the error of a sum over keys that a
    /// model makes (Lim's dissertation, section 4.2.2) is below 0.014 % of the number of keys. Up
    /// to 2^20 keys are counted one by one. Of more, the most popular ones are, and of the rest a
    /// part that is chosen by hash and stands for all. A trace that holds one key in N
    /// ([`TraceReader::one_key_in`]) stands for N times as many, the most popular ones too, which
    /// may be there or not; a whole trace knows better.
    ///
    /// # Errors
    /// Those of the trace's lines, with their number; `Config` where it has no operation.
    pub fn from_trace<R: BufRead>(reader: &mut TraceReader<R>, base: &Workload) -> Result<Self> {
        let mut tally = Tally::new(KEYS_MAX, HELD_MAX);
        while let Some(event) = reader.next()? {
            tally.add(event.kind, event.key);
        }
        tally.workload(reader.one_key_in() as f64, base)
    }
}

/// What is known of a key.
struct Seen {
    count: u64,
    /// Keys that it stands for, once it is one of those that stay whatever their hash.
    held: Option<f64>,
    is_there: bool,
}

/// Gets, puts and deletes, by what they met.
#[derive(Default)]
struct Met {
    get_hits: f64,
    get_misses: f64,
    inserts: f64,
    overwrites: f64,
}

struct Tally {
    keys_max: usize,
    held_max: usize,
    met: Met,
    gets: u64,
    puts: u64,
    deletes: u64,
    scans: u64,
    keys: BTreeMap<u64, Seen>,
    /// Keys are counted whose hash has so many zeros at its end.
    zeros: u32,
    sample: Sample,
    key_bytes: BTreeMap<u64, f64>,
    value_bytes: BTreeMap<u64, f64>,
    scan_entries: BTreeMap<u64, f64>,
}

impl Tally {
    fn new(keys_max: usize, held_max: usize) -> Self {
        Tally {
            keys_max,
            held_max,
            met: Met::default(),
            gets: 0,
            puts: 0,
            deletes: 0,
            scans: 0,
            keys: BTreeMap::new(),
            zeros: 0,
            sample: Sample::default(),
            key_bytes: BTreeMap::new(),
            value_bytes: BTreeMap::new(),
            scan_entries: BTreeMap::new(),
        }
    }

    fn add(&mut self, kind: TraceKind, key: &[u8]) {
        *self.key_bytes.entry(key.len() as u64).or_default() += 1.0;
        let touch = match kind {
            TraceKind::Get => {
                self.gets += 1;
                Touch::Read
            }
            TraceKind::Put { value_bytes } => {
                self.puts += 1;
                *self.value_bytes.entry(value_bytes as u64).or_default() += 1.0;
                Touch::Write
            }
            TraceKind::Delete => {
                self.deletes += 1;
                Touch::Write
            }
            TraceKind::Scan { entries } => {
                self.scans += 1;
                *self.scan_entries.entry(entries as u64).or_default() += 1.0;
                return;
            }
        };
        let hash = SEED.hash(key);
        self.sample.request(hash.high(), touch);
        self.request(hash.low(), kind);
    }

    /// A request for the key with this hash.
    fn request(&mut self, hash: u64, kind: TraceKind) {
        let sampled = 2f64.powi(self.zeros as i32);
        let is_new = !self.keys.contains_key(&hash);
        if is_new && hash.trailing_zeros() < self.zeros {
            return;
        }
        let new = Seen { count: 0, held: None, is_there: false };
        let seen = self.keys.entry(hash).or_insert(new);
        seen.count += 1;
        let weight = seen.held.unwrap_or(sampled);
        let met = &mut self.met;
        let (of, is_there) = match kind {
            // What is asked for before it was put was there before.
            TraceKind::Get if is_new || seen.is_there => (Some(&mut met.get_hits), true),
            TraceKind::Get => (Some(&mut met.get_misses), false),
            TraceKind::Put { .. } if seen.is_there => (Some(&mut met.overwrites), true),
            TraceKind::Put { .. } => (Some(&mut met.inserts), true),
            TraceKind::Delete | TraceKind::Scan { .. } => (None, false),
        };
        seen.is_there = is_there;
        if let Some(of) = of {
            *of += weight;
        }
        if self.keys.len() > self.keys_max {
            self.shrink();
        }
    }

    /// Holds the keys that were asked for most, and halves the others.
    fn shrink(&mut self) {
        let free = self.keys.values().filter(|seen| seen.held.is_none());
        let mut counts: Vec<u64> = free.map(|seen| seen.count).collect();
        counts.sort_unstable();
        counts.reverse();
        let room = self.held_max.saturating_sub(self.keys.len() - counts.len());
        let most = counts.get(room).copied().unwrap_or(0);
        let weight = 2f64.powi(self.zeros as i32);
        self.zeros += 1;
        let zeros = self.zeros;
        self.keys.retain(|hash, seen| {
            if seen.held.is_none() && seen.count > most {
                seen.held = Some(weight);
            }
            seen.held.is_some() || hash.trailing_zeros() >= zeros
        });
    }

    fn workload(self, one_key_in: f64, base: &Workload) -> Result<Workload> {
        if self.key_bytes.is_empty() {
            return Err(config("there is no operation in it"));
        }
        let sampled = 2f64.powi(self.zeros as i32);
        let mut groups: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        let mut live = 0.0;
        for seen in self.keys.values() {
            let weight = seen.held.unwrap_or(sampled) * one_key_in;
            let group = groups.entry(((seen.count as f64).log2() * GROUPS) as i64).or_default();
            group.0 += weight;
            group.1 += seen.count as f64 * weight;
            live += if seen.is_there { weight } else { 0.0 };
        }
        let asked: f64 = groups.values().map(|(keys, _)| keys).sum();
        let total: f64 = groups.values().map(|(_, requests)| requests).sum();
        // Of a trace that removes all of its keys, the keys it had.
        let keys = match (live >= 1.0, asked >= 1.0) {
            (true, _) => live.round() as u64,
            (false, true) => asked.round() as u64,
            (false, false) => base.keys,
        };
        let groups: Vec<(f64, f64)> =
            groups.into_values().rev().map(|(keys, all)| (keys, all / total)).collect();
        let sizes = |of: BTreeMap<u64, f64>, other: &Sizes| match of.is_empty() {
            true => Ok(other.clone()),
            false => Sizes::weighted(of.into_iter().map(|(size, n)| (size as f64, n)).collect()),
        };
        let points = self.sample.miss_ratios();
        let points = points.into_iter().map(|(entries, miss)| (entries * one_key_in, miss));
        let workload = Workload {
            keys,
            mix: self.mix(),
            access: if groups.is_empty() { base.access.clone() } else { Access::Groups(groups) },
            key_bytes: sizes(self.key_bytes, &base.key_bytes)?,
            value_bytes: sizes(self.value_bytes, &base.value_bytes)?,
            scan_entries: sizes(self.scan_entries, &base.scan_entries)?,
            working_set: WorkingSet { points: points.collect() },
            ..base.clone()
        };
        workload.validate()?;
        Ok(workload)
    }

    /// The operations, which are known, and what they met, which is where the counted keys have it.
    fn mix(&self) -> Mix {
        let part = |all: u64, of: f64, other: f64| match of + other > 0.0 {
            true => all as f64 * of / (of + other),
            false => 0.0,
        };
        let met = &self.met;
        let get_misses = part(self.gets, met.get_misses, met.get_hits);
        let overwrites = part(self.puts, met.overwrites, met.inserts);
        Mix {
            get_hits: self.gets as f64 - get_misses,
            get_misses,
            inserts: self.puts as f64 - overwrites,
            overwrites,
            deletes: self.deletes as f64,
            scans: self.scans as f64,
            ..Mix::NOTHING
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    fn read(text: &str) -> Result<Workload> {
        let mut reader = TraceReader::new(text.as_bytes(), "t")?.up_to_cut();
        Workload::from_trace(&mut reader, &Workload::default())
    }

    #[test]
    fn a_trace_is_the_workload_that_it_holds() {
        let text = "silica-trace 1\n1 put a 10\n1 put b 30\n2 get a\n3 get a\n4 delete b\n5 get b\n\
                    6 put b 10\n7 put b 10\n8 scan a 7\n9 get was-there\n";
        let found = read(text).unwrap();
        let expected = Mix {
            get_hits: 3.0,
            get_misses: 1.0,
            inserts: 3.0,
            overwrites: 1.0,
            deletes: 1.0,
            scans: 1.0,
            ..Mix::NOTHING
        };
        assert_eq!((found.mix, found.keys), (expected, 3));
        assert_eq!(found.scan_entries, Sizes::constant(7.0));
        assert_eq!(found.value_bytes.parts(), [(10.0, 0.75), (30.0, 0.25)]);
        // Asked for 5, 3 and 1 times.
        let expected = [(1.0, 5.0 / 9.0), (1.0, 3.0 / 9.0), (1.0, 1.0 / 9.0)];
        assert_eq!(found.access, Access::Groups(expected.to_vec()));
        let tenth = read(&text.replacen('\n', "\n# one key in 10\n", 1)).unwrap();
        assert_eq!((tenth.keys, tenth.popularity().unwrap().keys()), (30, 30.0));
        // What it says is read again.
        assert_eq!(found.to_string().parse::<Workload>().unwrap(), found);
    }

    #[test]
    fn traces_that_hold_little_are_workloads_or_errors_never_nonsense() {
        for (text, why) in [
            ("", "silica-trace 1"),
            ("silica-trace 1\n", "no operation"),
            ("silica-trace 1\n\n# nothing\n", "no operation"),
            ("silica-trace 1\n1 get", "no operation"),
            ("\u{0}\u{1}\n\u{2}", "line 1"),
            ("silica-trace 1\n1 get a\n\u{7f}\u{0}\n", "line 3"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        for text in ["1 scan a 5\n", "1 delete a\n", "1 get a\n", "1 put a 0\n"] {
            let found = read(&format!("silica-trace 1\n{text}")).unwrap();
            assert!(found.keys > 0 && found.popularity().is_ok(), "{text}: {found}");
            assert!(!found.to_string().contains("NaN"), "{found}");
            assert_eq!(found.mix.total(), 1.0);
        }
    }

    #[test]
    fn groups_keep_to_their_bound() {
        // A model's sum over the groups against the same over every key.
        let mut tally = Tally::new(KEYS_MAX, HELD_MAX);
        let mut counts = Vec::new();
        for rank in 1..=20_000u64 {
            let count = (2e5 / (rank as f64).powf(0.9)).ceil() as u64;
            let hash = SEED.low(&rank.to_le_bytes());
            (0..count).for_each(|_| tally.request(hash, TraceKind::Get));
            counts.push(count);
        }
        tally.gets = 1;
        tally.key_bytes.insert(8, 1.0);
        let found = tally.workload(1.0, &Workload::default()).unwrap();
        let groups = found.popularity().unwrap();
        let total: u64 = counts.iter().sum();
        for requests in [1e2, 1e4, 1e6] {
            let absent = |p: f64| (requests * (-p).ln_1p()).exp();
            let exact: f64 = counts.iter().map(|c| 1.0 - absent(*c as f64 / total as f64)).sum();
            let grouped: f64 =
                groups.groups().iter().map(|g| g.keys * (1.0 - absent(g.probability))).sum();
            let error = (grouped - exact).abs() / counts.len() as f64;
            assert!(error < 1.4e-4, "{requests}: {error}");
        }
    }

    #[test]
    fn of_many_keys_a_part_stands_for_all_and_the_popular_ones_stay() {
        // A key has 30 % of the requests; the others are alike.
        let (mut tally, mut prng) = (Tally::new(4000, 1000), Prng::new(9));
        let others = 100_000;
        for round in 0..400_000u64 {
            let key = if prng.below(10) < 3 { 0 } else { 1 + round % others };
            tally.add(TraceKind::Get, &key.to_le_bytes());
        }
        assert!(tally.keys.len() <= 4000 && tally.zeros > 3);
        let found = tally.workload(1.0, &Workload::default()).unwrap();
        assert!((found.keys as f64 / others as f64 - 1.0).abs() < 0.06, "{} keys", found.keys);
        let Access::Groups(groups) = &found.access else { panic!("{}", found.access) };
        assert_eq!(groups[0].0, 1.0, "{groups:?}");
        assert!((groups[0].1 - 0.3).abs() < 0.03, "{groups:?}");
        assert_eq!((found.mix.get_hits, found.mix.get_misses), (400_000.0, 0.0));
    }
}
