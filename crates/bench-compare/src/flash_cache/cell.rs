//! One cache with one setting.

use super::KEY_BYTES;
use super::in_process::InProcess;
use crate::cgroup::{self, MemoryGroup};
use crate::load::{Done, Sets};
use crate::peers::{CacheProgram, Flashed, PROGRAMS, Room};
use crate::schedule::ALLOWANCE_BYTES;
use crate::{performed, usage};
use serde::{Deserialize, Serialize};
use silica::{Error, ErrorKind, Result};
use silica_bench::memory::Process;
use std::path::PathBuf;
use std::time::Duration;

/// Parts of loads have numbers; those of gets and those of gets and sets are far apart, so that no
/// load asks for the keys of the one before.
const FIRST_GETS: u64 = 1;
const FIRST_MIXED: u64 = 1 << 32;

/// Share of the sets in the last load ([`Sets::Quarter`]).
const SET_SHARE: f64 = 0.25;

/// A cache that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Store {
    Silica,
    Memcached,
    Redis,
    Foyer,
}

impl Store {
    /// Every one, in the order of their turns.
    pub(super) fn all() -> impl Iterator<Item = Store> {
        [Store::Silica, Store::Memcached, Store::Foyer, Store::Redis].into_iter()
    }

    fn program(self) -> Option<CacheProgram> {
        let [silica, memcached, redis] = PROGRAMS;
        match self {
            Store::Silica => Some(silica),
            Store::Memcached => Some(memcached),
            Store::Redis => Some(redis),
            Store::Foyer => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        self.program().map_or("foyer", CacheProgram::name)
    }

    pub(super) fn version(self) -> Result<String> {
        self.program().map_or(Ok("0.22".to_string()), CacheProgram::version)
    }
}

/// What a process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) store: Store,
    pub(super) keys: u64,
    pub(super) value_bytes: usize,
    pub(super) flash_bytes: u64,
    pub(super) memory_bytes: u64,
    /// Seconds of each load after the fill.
    pub(super) seconds: f64,
    /// The system holds the cache to its memory.
    pub(super) limited: bool,
    /// An empty directory.
    pub(super) directory: PathBuf,
}

/// One figure of a cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheFigure {
    /// What was measured.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

/// Reads a cell from standard input, performs it and tells each figure as it comes: the body of the
/// hidden command `silica-lab bench cache-cell`.
pub fn serve_cache_cell() -> Result<()> {
    let cell: Cell = performed::read_work("cell of a cache")?;
    cell.perform(&mut |metric, value| {
        performed::tell(&CacheFigure { metric: metric.to_string(), value })
    })
}

/// A cache with a load on it.
pub(super) trait Loaded {
    /// Sets all keys below `keys` once.
    fn set_all(&mut self, keys: u64) -> Result<Done>;
    /// Asks for and sets uniform keys for `time`, beginning with part `first` of the load.
    fn go_on(&mut self, sets: Sets, keys: u64, time: Duration, first: u64) -> Result<Done>;
    /// The process that has the cache.
    fn process(&self) -> Process;
}

impl Loaded for Flashed {
    fn set_all(&mut self, keys: u64) -> Result<Done> {
        Flashed::set_all(self, 0..keys, &mut |_| {})
    }

    fn go_on(&mut self, sets: Sets, keys: u64, time: Duration, first: u64) -> Result<Done> {
        Flashed::go_on(self, sets, keys, time, first)
    }

    fn process(&self) -> Process {
        Flashed::process(self)
    }
}

/// A group for a process that gets `memory_bytes` and what every program takes; nothing where the
/// system lends none.
fn group(cell: &Cell) -> Option<MemoryGroup> {
    cgroup::sweep();
    let bytes = cell.memory_bytes + ALLOWANCE_BYTES;
    cell.limited.then(|| MemoryGroup::new(bytes).ok()).flatten()
}

impl Cell {
    fn open(&self, group: Option<&MemoryGroup>) -> Result<Box<dyn Loaded>> {
        let room = Room { memory_bytes: self.memory_bytes, flash_bytes: self.flash_bytes };
        let shape = (KEY_BYTES, self.value_bytes);
        if let Some(program) = self.store.program() {
            let server = Flashed::open(program, &self.directory, room, shape)?;
            if let Some(group) = group {
                group.admit(server.pid())?;
            }
            return Ok(Box::new(server));
        }
        if let Some(group) = group {
            group.admit(std::process::id())?;
        }
        Ok(Box::new(InProcess::open(&self.directory, room, self.value_bytes)?))
    }

    fn perform(&self, tell: &mut dyn FnMut(&str, f64) -> Result<()>) -> Result<()> {
        if self.keys == 0 {
            return Err(Error::new(ErrorKind::Config, "a cache is compared with some keys"));
        }
        let group = group(self);
        let mut cache = self.open(group.as_ref())?;
        let cache = &mut *cache;
        cache.process().reset_peak();
        tell("limited", f64::from(u8::from(group.is_some())))?;
        let before = usage::of_process(cache.process()).unwrap_or_default();
        let set = cache.set_all(self.keys)?;
        let time = Duration::from_secs_f64(self.seconds);
        let got = cache.go_on(Sets::None, self.keys, time, FIRST_GETS)?;
        let there = 1.0 - got.misses as f64 / got.operations.max(1) as f64;
        let rate = |done: &Done| done.operations as f64 / done.seconds.max(1e-9);
        tell("sets", rate(&set))?;
        tell("there", there)?;
        tell("sets_there", rate(&set) * there)?;
        tell("set_p99_us", set.latencies.quantile(0.99) as f64 / 1e3)?;
        tell("gets", rate(&got))?;
        tell("hits", rate(&got) * there)?;
        tell("get_p99_us", got.latencies.quantile(0.99) as f64 / 1e3)?;
        let mixed = cache.go_on(Sets::Quarter, self.keys, time, FIRST_MIXED)?;
        // What was set and is not there later is no work done, as in the fill.
        let missed = mixed.misses as f64 / (mixed.operations as f64 * (1.0 - SET_SHARE)).max(1.0);
        tell("mixed", rate(&mixed))?;
        tell("mixed_there", rate(&mixed) * (1.0 - missed))?;
        tell("mixed_p99_us", mixed.latencies.quantile(0.99) as f64 / 1e3)?;
        let moved = usage::of_process(cache.process()).unwrap_or_default().since(before);
        let set_bytes =
            (set.operations + mixed.operations / 4) * (KEY_BYTES + self.value_bytes) as u64;
        tell("written_of_byte_set", moved.written as f64 / set_bytes as f64)?;
        tell("resident_peak_bytes", cache.process().peak_bytes() as f64)?;
        if let Some(bytes) = group.as_ref().and_then(MemoryGroup::peak_bytes) {
            tell("memory_peak_bytes", bytes as f64)?;
        }
        Ok(())
    }
}
