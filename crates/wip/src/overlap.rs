//! What a new run hides of older ones, by estimate: what their filters say of a sample of its keys,
//! and a few reads where filters are not in memory.
//!
//! The reads go on by themselves while the new table is written; only its end waits for those that
//! are left. Where the device cannot keep up, fewer keys are looked for.

use crate::run::{Part, Run, part_of};
use silica_base::{AlignedBuf, Result};
use silica_device::{Device, DeviceFile, Transfer};
use silica_parts::frame::TOMBSTONE;
use silica_parts::table::{Lookup, Table, Version as Row};
use std::collections::VecDeque;
use std::sync::Arc;

/// Of so many keys, older tables' filters are asked for one.
const SAMPLE_EVERY: u64 = 16;
/// Of so many of those that only a table without a filter may have, one is looked for there.
const LOOK_EVERY: u64 = 32;
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

/// See the module's documentation.
pub(crate) struct Overlap<D: Device> {
    asked: u64,
    /// Of those asked, how many an older filter let pass, and how many would pass by mistake.
    passed: u64,
    mistaken: f64,
    /// Bytes of versions in the tables that have them, of those that passed or were found.
    passed_bytes: f64,
    /// Of those asked, how many no filter let pass, but tables without one may have; how many of
    /// them were looked for, and found.
    unknown: u64,
    looked: u64,
    found: u64,
    /// The oldest first.
    looks: VecDeque<Look<D>>,
    tombstones: u64,
    versions: u64,
}

impl<D: Device> Default for Overlap<D> {
    fn default() -> Self {
        Overlap {
            asked: 0,
            passed: 0,
            mistaken: 0.0,
            passed_bytes: 0.0,
            unknown: 0,
            looked: 0,
            found: 0,
            looks: VecDeque::new(),
            tombstones: 0,
            versions: 0,
        }
    }
}

impl<D: Device> Overlap<D> {
    /// Counts a version that is written in front of the first `older` runs from the oldest.
    #[inline]
    pub(crate) fn count(
        &mut self,
        row: &Row<'_>,
        older: &[Run<D>],
        hash: impl FnOnce() -> u64,
        mistakes: f64,
    ) {
        self.versions += 1;
        self.tombstones += u64::from(row.flags & TOMBSTONE != 0);
        if self.versions % SAMPLE_EVERY == 1 && !older.is_empty() {
            self.ask(row.key, older, hash(), mistakes);
        }
    }

    /// Asks older runs for a key.
    #[cold]
    fn ask(&mut self, key: &[u8], older: &[Run<D>], hash: u64, mistakes: f64) {
        self.asked += 1;
        let (mut with, mut without) = (0, Vec::new());
        for part in older.iter().filter_map(|run| part_of(run, key)) {
            if !part.table.table.has_filter() {
                without.push(part);
                continue;
            }
            with += 1;
            if part.table.table.may_contain(hash) {
                self.passed += 1;
                self.passed_bytes += part.version_bytes();
                without.clear();
                break;
            }
        }
        self.mistaken += (mistakes * f64::from(with)).min(1.0);
        if without.is_empty() {
            return;
        }
        if self.unknown.is_multiple_of(LOOK_EVERY) {
            self.look(key, &without);
        }
        self.unknown += 1;
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
                self.passed_bytes += version_bytes;
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
        if self.versions == 0 {
            return 0;
        }
        let asked = self.asked.max(1) as f64;
        let (passed, mistaken) = (self.passed as f64 / asked, self.mistaken / asked);
        let by_filters = ((passed - mistaken) / (1.0 - mistaken).max(0.01)).clamp(0.0, 1.0);
        let of_unknown = self.found as f64 / self.looked.max(1) as f64;
        let by_reads = self.unknown as f64 / asked * of_unknown;
        let overwritten = self.versions as f64 * (by_filters + by_reads).min(1.0);
        let each = self.passed_bytes / (self.passed + self.found).max(1) as f64;
        let tombstones = bytes as f64 * self.tombstones as f64 / self.versions as f64;
        (overwritten * each + tombstones) as u64
    }
}
