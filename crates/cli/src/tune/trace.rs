//! The workload that a trace holds.

use silica::tune::{Access, Mix, Sizes, Workload};
use silica::{Error, ErrorKind, Result};
use silica_base::HashSeed;
use silica_bench::{TraceKind, TraceReader};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Keys that are counted one by one; of more a part is, chosen by their hash.
const KEYS_MAX: usize = 1 << 20;
/// Groups of popularity for each doubling of the count.
const GROUPS: f64 = 4.0;

/// What is known of a key.
#[derive(Default)]
struct Seen {
    count: u64,
    is_there: bool,
}

#[derive(Default)]
struct Tally {
    mix: [f64; 6],
    keys: HashMap<u64, Seen>,
    /// Keys are counted whose hash has so many zeros at its end.
    zeros: u32,
    key_bytes: BTreeMap<u64, f64>,
    value_bytes: BTreeMap<u64, f64>,
    scan_entries: BTreeMap<u64, f64>,
}

/// The workload of `file`, with the rest as in `base`.
pub(super) fn workload(file: &Path, base: &Workload) -> Result<Workload> {
    let name = file.display().to_string();
    let input = File::open(file).map_err(|e| Error::io(format!("opening {name}"), e))?;
    let mut reader = TraceReader::new(BufReader::new(input), &name)?;
    let mut tally = Tally::default();
    while let Some(event) = reader.next()? {
        tally.add(event.kind, event.key);
    }
    tally.workload(base).map_err(|e| e.within(format_args!("trace {name}")))
}

impl Tally {
    fn add(&mut self, kind: TraceKind, key: &[u8]) {
        *self.key_bytes.entry(key.len() as u64).or_default() += 1.0;
        match kind {
            TraceKind::Put { value_bytes } => {
                *self.value_bytes.entry(value_bytes as u64).or_default() += 1.0;
            }
            TraceKind::Scan { entries } => {
                self.mix[5] += 1.0;
                *self.scan_entries.entry(entries as u64).or_default() += 1.0;
                return;
            }
            TraceKind::Get | TraceKind::Delete => {}
        }
        let hash = HashSeed([0; 16]).low(key);
        if hash.trailing_zeros() < self.zeros {
            return;
        }
        let weight = f64::from(self.zeros).exp2();
        let is_new = !self.keys.contains_key(&hash);
        let seen = self.keys.entry(hash).or_default();
        seen.count += 1;
        let (at, is_there) = match kind {
            // What is asked for before it was put was there before.
            TraceKind::Get => {
                (if is_new || seen.is_there { 0 } else { 1 }, is_new || seen.is_there)
            }
            TraceKind::Put { .. } => (if is_new || !seen.is_there { 2 } else { 3 }, true),
            TraceKind::Delete => (4, false),
            TraceKind::Scan { .. } => return,
        };
        seen.is_there = is_there;
        self.mix[at] += weight;
        if self.keys.len() > KEYS_MAX {
            self.zeros += 1;
            let zeros = self.zeros;
            self.keys.retain(|hash, _| hash.trailing_zeros() >= zeros);
        }
    }

    fn workload(self, base: &Workload) -> Result<Workload> {
        if self.key_bytes.is_empty() {
            return Err(Error::new(ErrorKind::Config, "there is no operation in it"));
        }
        let [get_hits, get_misses, inserts, overwrites, deletes, scans] = self.mix;
        let mix = Mix { get_hits, get_misses, inserts, overwrites, deletes, scans, ..Mix::NOTHING };
        let part = f64::from(self.zeros).exp2();
        let mut groups: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for seen in self.keys.values() {
            let group = groups.entry(((seen.count as f64).log2() * GROUPS) as i64).or_default();
            group.0 += part;
            group.1 += seen.count as f64 * part;
        }
        let total: f64 = groups.values().map(|(_, requests)| requests).sum();
        let keys = (self.keys.len() as f64 * part).max(1.0) as u64;
        let groups = groups.into_values().rev().map(|(keys, all)| (keys, all / total)).collect();
        let sizes = |of: BTreeMap<u64, f64>, other: &Sizes| match of.is_empty() {
            true => Ok(other.clone()),
            false => Sizes::weighted(of.into_iter().map(|(size, n)| (size as f64, n)).collect()),
        };
        let workload = Workload {
            keys,
            mix,
            access: if total > 0.0 { Access::Groups(groups) } else { base.access.clone() },
            key_bytes: sizes(self.key_bytes, &base.key_bytes)?,
            value_bytes: sizes(self.value_bytes, &base.value_bytes)?,
            scan_entries: sizes(self.scan_entries, &base.scan_entries)?,
            ..base.clone()
        };
        workload.validate()?;
        Ok(workload)
    }
}
