//! What a new run hides of older ones, by estimate: which keys of its sample theirs have. Tables
//! that were opened from files have no samples: their filters are asked instead, or, where those
//! are not in memory, the tables themselves for a few keys.
//!
//! The reads go on by themselves while the new table is written; only its end waits for those that
//! are left. Where the device cannot keep up, fewer keys are looked for.

use crate::run::{Part, Run, part_of};
use silica_base::{AlignedBuf, Result};
use silica_device::{Device, DeviceFile, Transfer};
use silica_parts::frame::TOMBSTONE;
use silica_parts::table::{KeySample, Lookup, Table, Version as Row};
use std::collections::VecDeque;
use std::sync::Arc;

/// Zeroes that hashes of keys begin with for which tables without samples are asked.
const ZEROES_WITHOUT: u32 = 4;
/// Keys that only tables with neither sample nor filter can hold are probed at one in this many.
const LOOK_EVERY: u64 = 32;
/// Where so many versions are asked for, the part of them that was found is the part of all. Of
/// fewer, each one that was found counts for as many as were not asked for.
const SHARED_FROM: u64 = 32;
/// Keys that are looked for at once.
const LOOKS_MAX: usize = 4;

/// A key that is looked for in tables without filters.
struct Look<D: Device> {
    key: Vec<u8>,
    tables: Vec<BlockRead<D>>,
}

/// A block that is being read.
struct BlockRead<D: Device> {
    table: Arc<Table<D::File>>,
    block: usize,
    transfer: <D::File as DeviceFile>::Transfer,
    /// Bytes of a version of the table, on average.
    version_bytes: f64,
}

impl<D: Device> BlockRead<D> {
    fn begin(part: &Part<D>, key: &[u8]) -> Self {
        let table = Arc::clone(&part.table.table);
        let block = table.block_of(key);
        let place = table.place(block);
        let transfer = table.file().begin_read(place.offset, AlignedBuf::zeroed(place.len));
        BlockRead { table, block, transfer, version_bytes: part.version_bytes() }
    }

    /// True where the block has a version of `key`; a read that fails has none.
    fn end(self, key: &[u8]) -> bool {
        let BlockRead { table, block, transfer, .. } = self;
        let (buf, filled) = transfer.wait();
        let search = |filled: usize| -> Result<bool> {
            let mut plain = Vec::new();
            let bytes = table.check(block, &buf[..filled], &mut plain)?;
            Ok(matches!(table.search(block, bytes, key, u64::MAX)?, Lookup::Found(_)))
        };
        filled.and_then(search).unwrap_or_else(|error| {
            ::log::debug!("looking for what a new table hides: {error}");
            false
        })
    }
}

/// The runs that a new one is in front of.
pub(crate) struct Older<'r, D: Device> {
    runs: &'r [Run<D>],
    /// Zeroes that hashes begin with of keys that the samples of all of them tell of.
    zeroes: u32,
}

impl<D: Device> Clone for Older<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Older<'_, D> {}

impl<'r, D: Device> Older<'r, D> {
    pub(crate) fn new(runs: &'r [Run<D>], zeroes: u32) -> Self {
        Older { runs, zeroes }
    }

    /// What [`Older::new`] wants of `runs`.
    pub(crate) fn zeroes_of(runs: &[Run<D>]) -> u32 {
        let of = |part: &Part<D>| part.table.table.sample().map(KeySample::zeroes);
        let all = runs.iter().flatten().map(|part| of(part).unwrap_or(ZEROES_WITHOUT));
        all.max().unwrap_or(0)
    }

    /// True where a key with this hash is to be asked for.
    #[inline]
    pub(crate) fn asks(&self, hash: u64) -> bool {
        hash.leading_zeros() >= self.zeroes && !self.runs.is_empty()
    }
}

/// See the module's documentation.
pub(crate) struct Overlap<D: Device> {
    /// Versions that were written in front of older runs.
    versions: u64,
    /// How many of them those stand for that were asked about, and the most that one stands for.
    asked: f64,
    weight_max: u64,
    /// Of those asked about, those that an older run has or its filter let pass, and those that
    /// would pass by mistake; and the bytes of the former in the tables that have them.
    passed: f64,
    mistaken: f64,
    passed_bytes: f64,
    /// Of those asked about, those that only tables with neither may have.
    unknown: f64,
    /// How many may be of them, how many of those were looked for, how many found, and their bytes.
    unknowns: u64,
    looked: u64,
    found: u64,
    found_bytes: f64,
    /// The oldest first.
    looks: VecDeque<Look<D>>,
    /// Of all versions.
    tombstones: u64,
    all: u64,
}

impl<D: Device> Default for Overlap<D> {
    fn default() -> Self {
        Overlap {
            versions: 0,
            asked: 0.0,
            weight_max: 1,
            passed: 0.0,
            mistaken: 0.0,
            passed_bytes: 0.0,
            unknown: 0.0,
            unknowns: 0,
            looked: 0,
            found: 0,
            found_bytes: 0.0,
            looks: VecDeque::new(),
            tombstones: 0,
            all: 0,
        }
    }
}

impl<D: Device> Overlap<D> {
    /// Counts a version that is written in front of `older` runs.
    #[inline]
    pub(crate) fn count(&mut self, row: &Row<'_>, older: Older<'_, D>) {
        self.all += 1;
        self.tombstones += u64::from(row.flags & TOMBSTONE != 0);
        self.versions += u64::from(!older.runs.is_empty());
    }

    /// Asks `older` runs for a key. Filters let another key pass with a chance of `mistakes`.
    #[cold]
    pub(crate) fn ask(&mut self, key: &[u8], older: Older<'_, D>, hash: u64, mistakes: f64) {
        let weight = 1 << older.zeroes;
        self.weight_max = self.weight_max.max(weight);
        let weight = weight as f64;
        self.asked += weight;
        let (mut with, mut without) = (0, Vec::new());
        for part in older.runs.iter().filter_map(|run| part_of(run, key)) {
            let table = &part.table.table;
            let is_there = if let Some(sample) = table.sample() {
                sample.has(hash)
            } else if table.has_filter() {
                with += 1;
                table.may_contain(hash)
            } else {
                without.push(part);
                false
            };
            if is_there {
                self.passed += weight;
                self.passed_bytes += weight * part.version_bytes();
                without.clear();
                break;
            }
        }
        self.mistaken += weight * (mistakes * f64::from(with)).min(1.0);
        if without.is_empty() {
            return;
        }
        if self.unknowns.is_multiple_of(LOOK_EVERY) {
            self.look(key, &without);
        }
        self.unknowns += 1;
        self.unknown += weight;
    }

    /// Begins to look for a key, unless too many are under way.
    fn look(&mut self, key: &[u8], parts: &[&Part<D>]) {
        let is_done = |look: &Look<D>| look.tables.iter().all(|read| read.transfer.is_done());
        while self.looks.front().is_some_and(is_done) {
            let look = self.looks.pop_front().expect("there is one");
            self.end_look(look);
        }
        if self.looks.len() < LOOKS_MAX {
            let tables = parts.iter().map(|part| BlockRead::begin(part, key)).collect();
            self.looks.push_back(Look { key: key.to_vec(), tables });
        }
    }

    fn end_look(&mut self, look: Look<D>) {
        let Look { key, tables } = look;
        self.looked += 1;
        for read in tables {
            let version_bytes = read.version_bytes;
            if read.end(&key) {
                self.found += 1;
                self.found_bytes += version_bytes;
                return;
            }
        }
    }

    /// Bytes of tables that nobody needs once a table of `bytes` bytes is in front: older versions
    /// of its keys, and its own tombstones. Waits for the reads that are under way.
    pub(crate) fn dead_bytes(mut self, bytes: u64) -> u64 {
        while let Some(look) = self.looks.pop_front() {
            self.end_look(look);
        }
        let tombstones = bytes as f64 * self.tombstones as f64 / self.all.max(1) as f64;
        let mistaken = (self.mistaken / self.asked.max(1.0)).min(0.99);
        let told = ((self.passed - self.mistaken) / (1.0 - mistaken)).max(0.0);
        let looked_up = self.unknown * self.found as f64 / self.looked.max(1) as f64;
        let overwritten = told + looked_up;
        if overwritten <= 0.0 {
            return tombstones as u64;
        }
        let bytes = told * self.passed_bytes / self.passed.max(1.0)
            + looked_up * self.found_bytes / self.found.max(1) as f64;
        let versions = self.versions as f64;
        let is_shared = self.versions >= SHARED_FROM * self.weight_max;
        let each = if is_shared { versions / self.asked.max(overwritten) } else { 1.0 };
        (bytes * each + tombstones) as u64
    }
}

#[cfg(test)]
#[path = "overlap_tests.rs"]
mod tests;
