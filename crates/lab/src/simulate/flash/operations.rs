//! What is asked of a cache: drawn for a workload, or read from a trace.

use std::collections::BTreeMap;
use std::io::BufRead;

use silica_base::{Prng, Result};
use silica_tune::trace::{TraceKind, TraceReader};
use silica_tune::{Access, Sizes, Workload};

use super::super::config;

/// Bytes of an item beside key and value: its header, and its line in the summary of the slab
/// (docs/engines/dida.md).
pub const ITEM_OVERHEAD_BYTES: u32 = 24;
/// Keys that a simulation has at most.
const KEYS_MAX: f64 = (1_u64 << 30) as f64;
/// The largest item of a cache on flash.
const ITEM_BYTES_MAX: f64 = (1_u64 << 20) as f64 + 65_536.0;
/// Tells the draw of a key's value size from that of its key size.
const VALUE_SALT: u64 = 0x76;
const KEY_SALT: u64 = 0x6b;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Looks for a key, whose item has so many bytes; 0 if nobody has put it ever.
    Get(u32, u32),
    /// Puts an item.
    Put(u32, u32),
    /// Removes a key.
    Delete(u32),
}

/// Requests, the same for each scheme.
#[derive(Clone, Debug)]
pub struct Operations {
    source: Source,
    keys: u32,
    item_bytes_max: u32,
    item_bytes_mean: f64,
}

#[derive(Clone, Debug)]
enum Source {
    Drawn(Box<Drawn>),
    Recorded { operations: Vec<Operation>, at: usize },
}

/// Requests drawn for a workload.
#[derive(Clone, Debug)]
struct Drawn {
    prng: Prng,
    /// Upper bound of each kind of operation in 0 to 1: get, get of no key, insert, put, delete,
    /// modify.
    mix: [f64; 6],
    groups: Vec<Group>,
    /// The key at each position of the groups.
    positions: Vec<u32>,
    is_latest: bool,
    next_key: u32,
    keys: u32,
    key_bytes: Sizes,
    value_bytes: Sizes,
    /// The second half of a modify.
    put_next: Option<u32>,
}

/// Keys of one popularity: the share of the requests up to the group's end, and its positions.
#[derive(Clone, Copy, Debug)]
struct Group {
    share_end: f64,
    begin: f64,
    keys: f64,
}

impl Operations {
    /// Requests for a share `scale` of the keys of `workload`; `count` of them may be drawn.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for scans, which no cache on flash
    /// has, too many keys, and items of more than 1 MiB.
    pub fn drawn(workload: &Workload, scale: f64, count: u64, seed: u64) -> Result<Self> {
        let mix = workload.mix.normalised();
        if mix.scans > 0.0 {
            return Err(config("a cache on flash keeps no order: leave out the scans"));
        }
        let keys = (workload.keys as f64 * scale).round().max(1.0);
        let inserted = mix.inserts * count as f64;
        let most = keys + inserted + 6.0 * inserted.sqrt() + 2.0;
        if most > KEYS_MAX {
            return Err(config(format!(
                "a simulation has up to {KEYS_MAX} keys, not {most:.0}: give a smaller --scale"
            )));
        }
        let largest = |sizes: &Sizes| sizes.parts().last().map_or(0.0, |(size, _)| *size);
        let item_bytes_max =
            item_bytes(largest(&workload.key_bytes) + largest(&workload.value_bytes))?;
        let popularity = workload.popularity()?;
        let (mut share, mut begin) = (0.0, 0.0);
        let groups = popularity.groups().iter().map(|group| {
            share += group.probability * group.keys;
            let scaled = Group { share_end: share, begin, keys: group.keys * scale };
            begin += scaled.keys;
            scaled
        });
        let parts =
            [mix.get_hits, mix.get_misses, mix.inserts, mix.overwrites, mix.deletes, mix.modifies];
        let mut sum = 0.0;
        let drawn = Drawn {
            mix: parts.map(|part| {
                sum += part;
                sum
            }),
            groups: groups.collect(),
            positions: (0..keys as u32).collect(),
            is_latest: matches!(workload.access, Access::Latest { .. }),
            next_key: keys as u32,
            // The last one is never put.
            keys: most as u32,
            key_bytes: workload.key_bytes.clone(),
            value_bytes: workload.value_bytes.clone(),
            put_next: None,
            prng: Prng::new(seed),
        };
        Ok(Operations {
            keys: drawn.keys,
            source: Source::Drawn(Box::new(drawn)),
            item_bytes_max,
            item_bytes_mean: workload.entry_bytes() + f64::from(ITEM_OVERHEAD_BYTES),
        })
    }

    /// The operations of a trace, and the time in seconds that they took. Scans are left out. Keys
    /// that are never put have values of `value_bytes`, or of the mean of all puts.
    ///
    /// # Errors
    /// Those of the trace's lines; [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a
    /// trace without operations, and one without puts if there is no `value_bytes`.
    pub fn recorded<R: BufRead>(
        trace: &mut TraceReader<R>,
        value_bytes: Option<u64>,
    ) -> Result<(Self, f64)> {
        let mut numbers: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let (mut sizes, mut operations) = (Vec::<u32>::new(), Vec::new());
        let (mut first, mut last) = (None, 0.0);
        while let Some(event) = trace.next()? {
            last = event.time.as_secs_f64();
            first = first.or(Some(last));
            if matches!(event.kind, TraceKind::Scan { .. }) {
                continue;
            }
            let next = numbers.len() as u32;
            let key = *numbers.entry(event.key.to_vec()).or_insert(next);
            if key == next {
                sizes.push(0);
            }
            operations.push(match event.kind {
                TraceKind::Put { value_bytes } => {
                    let bytes = item_bytes((event.key.len() + value_bytes) as f64)?;
                    sizes[key as usize] = bytes;
                    Operation::Put(key, bytes)
                }
                TraceKind::Delete => Operation::Delete(key),
                TraceKind::Get | TraceKind::Scan { .. } => Operation::Get(key, 0),
            });
        }
        let puts = || {
            operations.iter().filter_map(|operation| match operation {
                Operation::Put(_, bytes) => Some(f64::from(*bytes)),
                _ => None,
            })
        };
        let mean = puts().sum::<f64>() / puts().count().max(1) as f64;
        let usual = value_bytes.map_or(mean as u32, |bytes| bytes as u32 + ITEM_OVERHEAD_BYTES);
        if operations.is_empty() || usual == 0 {
            return Err(config(
                "the trace has no gets or no puts that say how large values are: record a longer \
                 one, or give --describe value=BYTES",
            ));
        }
        for operation in &mut operations {
            if let Operation::Get(key, bytes) = operation {
                let size = sizes[*key as usize];
                *bytes = if size == 0 { usual } else { size };
            }
        }
        let item_bytes_max = sizes.iter().copied().max().unwrap_or(0).max(usual);
        let made = Operations {
            keys: sizes.len() as u32 + 1,
            source: Source::Recorded { operations, at: 0 },
            item_bytes_max,
            item_bytes_mean: if mean > 0.0 { mean } else { f64::from(usual) },
        };
        Ok((made, last - first.unwrap_or(last)))
    }

    /// Keys that there are at most; the last one is never put.
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// Bytes of the largest item.
    pub fn item_bytes_max(&self) -> u32 {
        self.item_bytes_max
    }

    /// Bytes of an item on average.
    pub fn item_bytes_mean(&self) -> f64 {
        self.item_bytes_mean
    }

    /// Operations of a trace; `None` if they are drawn.
    pub fn recorded_count(&self) -> Option<u64> {
        match &self.source {
            Source::Recorded { operations, .. } => Some(operations.len() as u64),
            Source::Drawn(_) => None,
        }
    }

    /// Puts of all keys that are there at the begin, the least popular first; nothing for a trace.
    pub fn preload(&self) -> Vec<Operation> {
        match &self.source {
            Source::Recorded { .. } => Vec::new(),
            Source::Drawn(drawn) => {
                let all = drawn.positions.iter();
                // By age the newest has the last number, not the first position.
                let keys: Vec<u32> = match drawn.is_latest {
                    true => all.copied().collect(),
                    false => all.rev().copied().collect(),
                };
                keys.into_iter().map(|key| Operation::Put(key, drawn.bytes_of(key))).collect()
            }
        }
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        match &mut self.source {
            Source::Recorded { operations, at } => {
                let operation = operations.get(*at).copied();
                *at += 1;
                operation
            }
            Source::Drawn(drawn) => Some(drawn.draw()),
        }
    }
}

impl Drawn {
    fn draw(&mut self) -> Operation {
        if let Some(key) = self.put_next.take() {
            return Operation::Put(key, self.bytes_of(key));
        }
        let drawn = self.prng.unit();
        match self.mix.iter().position(|end| drawn < *end) {
            Some(1) => Operation::Get(self.keys - 1, 0),
            Some(2) => {
                let key = self.insert();
                Operation::Put(key, self.bytes_of(key))
            }
            Some(3) => {
                let key = self.popular();
                Operation::Put(key, self.bytes_of(key))
            }
            Some(4) => Operation::Delete(self.popular()),
            Some(5) => {
                let key = self.popular();
                self.put_next = Some(key);
                Operation::Get(key, self.bytes_of(key))
            }
            _ => {
                let key = self.popular();
                Operation::Get(key, self.bytes_of(key))
            }
        }
    }

    /// A key by its popularity.
    fn popular(&mut self) -> u32 {
        let (drawn, within) = (self.prng.unit(), self.prng.unit());
        let at = self.groups.partition_point(|group| group.share_end <= drawn);
        let group = self.groups[at.min(self.groups.len() - 1)];
        let position = (group.begin + within * group.keys) as usize;
        if self.is_latest {
            return (self.next_key - 1).saturating_sub(position as u32);
        }
        self.positions[position.min(self.positions.len() - 1)]
    }

    /// A new key. Where popularity does not go by age it takes the place of any other, for which
    /// nobody asks from then on.
    fn insert(&mut self) -> u32 {
        let key = self.next_key.min(self.keys - 2);
        self.next_key = key + 1;
        if !self.is_latest {
            let place = self.prng.below(self.positions.len() as u64) as usize;
            self.positions[place] = key;
        }
        key
    }

    /// Bytes of a key's item, which stay the same.
    fn bytes_of(&self, key: u32) -> u32 {
        let unit = |salt: u64| Prng::new(u64::from(key) << 8 | salt).unit();
        let key_bytes = self.key_bytes.quantile(unit(KEY_SALT));
        let value_bytes = self.value_bytes.quantile(unit(VALUE_SALT));
        (key_bytes + value_bytes) as u32 + ITEM_OVERHEAD_BYTES
    }
}

/// Bytes of an item of which key and value have `entry`.
fn item_bytes(entry: f64) -> Result<u32> {
    if entry > ITEM_BYTES_MAX {
        return Err(config(format!(
            "an entry of {entry} bytes is too large for a cache on flash: values have up to 1 MiB"
        )));
    }
    Ok(entry as u32 + ITEM_OVERHEAD_BYTES)
}
