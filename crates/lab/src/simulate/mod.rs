//! Simulators: designs of stores run in memory, with keys but without values, to count what they
//! write. They are the judge of the [models](crate::model).
//!
//! A simulator follows its design's document, not its model: tables have real keys, kept as bits,
//! and what a compaction costs is what it really wrote. Like in Lim's dissertation (section 4.3.5)
//! a run first puts every key once, then puts random keys and counts; all work is done in the put
//! that asks for it.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod cache;
mod dida;
mod drive;
pub mod flash;
mod items;
mod keyset;
mod lazy;
mod level;
mod leveldb;
mod requests;
mod rocksdb;
mod silt;
mod stages;
mod universal;
mod wipdb;

pub use dida::DidaSimulator;
pub use drive::{Collection, Drive, DriveCounts, DriveDesign};
pub use items::ItemUnits;
pub use lazy::LazySimulator;
pub use level::Pick;
pub use leveldb::LevelDbSimulator;
pub use requests::Requests;
pub use rocksdb::RocksDbSimulator;
pub use silt::SiltSimulator;
pub use stages::{ColaSimulator, SamtSimulator};
pub use universal::UniversalSimulator;
pub use wipdb::WipDbSimulator;

use silica_base::{Error, ErrorKind, Result};

use keyset::KeySet;

use crate::model::{Stage, WriteAmplification};

/// A store that counts what it writes.
pub trait Simulator {
    /// Puts these keys, in this order.
    fn put(&mut self, keys: &[u32]);

    /// Entries written so far by the stages behind the log, in the order in which an entry passes
    /// them.
    fn written(&self) -> Vec<(Stage, u64)>;

    /// Puts so far that found their key, where a store may lose some.
    fn hits(&self) -> Option<u64> {
        None
    }
}

/// What a run counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Write amplification.
    pub cost: WriteAmplification,
    /// Share of the puts that found their key, where a store may lose some.
    pub hits: Option<f64>,
}

/// Keys that are handed to a simulator at once.
const CHUNK: usize = 4096;

/// Write amplification of `count` random puts, after every key was put once.
///
/// `progress` is told now and then how many puts of how many are done.
///
/// # Errors
/// [`ErrorKind::Config`] for no puts: there would be nothing to divide by.
pub fn run(
    simulator: &mut dyn Simulator,
    requests: &mut Requests,
    count: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<WriteAmplification> {
    run_settled(simulator, requests, 0, count, progress)
}

/// Runs a simulator after `settling` further random puts, which are not counted: models speak of a
/// store that was overwritten for long, and with much skew a level that the first puts filled
/// empties slowly.
///
/// # Errors
/// As [`run`].
pub fn run_settled(
    simulator: &mut dyn Simulator,
    requests: &mut Requests,
    settling: u64,
    count: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<WriteAmplification> {
    run_counted(simulator, requests, settling, count, progress).map(|counted| counted.cost)
}

/// As [`run_settled`], with all that is counted.
///
/// # Errors
/// As [`run`].
pub fn run_counted(
    simulator: &mut dyn Simulator,
    requests: &mut Requests,
    settling: u64,
    count: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Counted> {
    if count == 0 {
        return Err(config("a simulation of no requests measures nothing: give at least 1"));
    }
    let keys = u64::from(requests.keys());
    let all = keys.saturating_add(settling).saturating_add(count);
    let mut chunk = Vec::with_capacity(CHUNK);
    // Returns what was put, in entries or in units of items.
    let mut put = |simulator: &mut dyn Simulator, from, to, requests: &mut Requests| {
        let (mut done, mut amount): (u64, u64) = (from, 0);
        while done < to {
            let end = to.min(done + CHUNK as u64);
            chunk.clear();
            chunk.extend((done..end).map(|i| match i < keys {
                true => requests.once(i as u32),
                false => requests.draw(),
            }));
            amount += chunk.iter().map(|drawn| requests.units(*drawn)).sum::<u64>();
            simulator.put(&chunk);
            done = end;
            progress(done, all);
        }
        amount
    };
    put(simulator, 0, keys, requests);
    put(simulator, keys, all - count, requests);
    let (before, found) = (simulator.written(), simulator.hits());
    let amount = put(simulator, all - count, all, requests);
    let mut cost = WriteAmplification::logged();
    for (stage, after) in simulator.written() {
        // A level that was not there before had nothing.
        let before = before.iter().find(|(other, _)| *other == stage).map_or(0, |(_, n)| *n);
        cost.add(stage, (after - before) as f64 / amount as f64);
    }
    let hits = simulator.hits().zip(found);
    Ok(Counted { cost, hits: hits.map(|(after, before)| (after - before) as f64 / count as f64) })
}

/// A memtable: distinct keys, and how many puts of a log they came from.
#[derive(Debug)]
struct Memtable {
    log: usize,
    puts: usize,
    keys: KeySet,
}

impl Memtable {
    fn new(log: usize) -> Self {
        Memtable { log, puts: 0, keys: KeySet::default() }
    }

    /// A memtable for items, whose units it counts.
    fn of(&self, items: &ItemUnits) -> Self {
        let log = in_units(self.log, items);
        Memtable { log, puts: 0, keys: KeySet::of(items.fields()) }
    }

    /// Takes items until the log is full and returns the others.
    fn fill_items<'k>(&mut self, items: &'k [u32]) -> &'k [u32] {
        let mut rest = items;
        while let [first, others @ ..] = rest
            && self.puts < self.log
        {
            self.keys.insert(*first);
            self.puts += self.keys.fields().units(*first) as usize;
            rest = others;
        }
        rest
    }

    /// Takes as many keys as fit and returns the others.
    fn fill<'k>(&mut self, keys: &'k [u32]) -> &'k [u32] {
        if self.keys.fields().shift > 0 {
            return self.fill_items(keys);
        }
        let (taken, rest) = keys.split_at(keys.len().min(self.log - self.puts));
        for &key in taken {
            self.keys.insert(key);
        }
        self.puts += taken.len();
        rest
    }

    /// The distinct keys once the log is full, to be drained; a new log begins.
    fn full(&mut self) -> Option<&mut KeySet> {
        if self.puts < self.log {
            return None;
        }
        self.puts = 0;
        Some(&mut self.keys)
    }
}

/// The largest size that a simulator takes: what a key of 32 bits can number.
const SIZE_MAX: f64 = u32::MAX as f64;

/// A size in units of items.
fn in_units(size: usize, items: &ItemUnits) -> usize {
    ((size as f64 * items.mean()).round() as usize).max(1)
}

/// A size in entries as a whole number from 1 on.
fn whole(what: &str, value: f64) -> Result<usize> {
    let rounded = value.round();
    if !(1.0..=SIZE_MAX).contains(&rounded) {
        return Err(config(format!("{what} is 1 to {SIZE_MAX} in a simulation, not {value}")));
    }
    Ok(rounded as usize)
}

fn config(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, text)
}
