//! A table that is being written, and what is learnt on the way.

use crate::files::{table_id, table_name};
use crate::run::{Numbered, Part, Run, part_of};
use crate::wip::Wip;
use silica_base::{HashSeed, Result};
use silica_device::Device;
use silica_parts::frame::TOMBSTONE;
use silica_parts::table::{TableBuilder, TableOptions, Version as Row};
use std::sync::Arc;

/// Of so many keys, older tables' filters are asked for one.
const SAMPLE_EVERY: u64 = 16;
/// Of so many of those that only a table without a filter may have, one is looked for there.
const LOOK_EVERY: u64 = 32;

/// What a new run hides of older ones, estimated from the filters of those; where they are not in
/// memory, from a few reads.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Overlap {
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
    tombstones: u64,
    versions: u64,
}

impl Overlap {
    /// Counts a version that is written in front of the first `older` runs from the oldest.
    #[inline]
    pub(crate) fn count<D: Device>(
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
    fn ask<D: Device>(&mut self, key: &[u8], older: &[Run<D>], hash: u64, mistakes: f64) {
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
            self.looked += 1;
            if let Some(part) = without.iter().find(|part| part.has_version_of(key)) {
                self.found += 1;
                self.passed_bytes += part.version_bytes();
            }
        }
        self.unknown += 1;
    }

    /// Bytes of tables that nobody needs once a table of `bytes` bytes is in front: older versions
    /// of its keys, and its own tombstones.
    pub(crate) fn dead_bytes(&self, bytes: u64) -> u64 {
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

/// Removes its file unless it is finished.
pub(crate) struct TableWriter<D: Device> {
    device: Arc<D>,
    number: u64,
    seed: HashSeed,
    /// How often a filter lets a key pass by mistake.
    mistakes: f64,
    builder: Option<TableBuilder<D::File>>,
    pub(crate) overlap: Overlap,
}

impl<D: Device> TableWriter<D> {
    pub(crate) fn versions(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::versions)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::bytes)
    }

    /// True where the next version may have to wait for the device.
    #[inline]
    pub(crate) fn would_wait(&self) -> bool {
        self.builder.as_ref().is_some_and(TableBuilder::would_wait)
    }

    /// Adds a version in front of `older` runs.
    #[inline]
    pub(crate) fn add(&mut self, row: &Row<'_>, older: &[Run<D>]) -> Result<()> {
        let seed = self.seed;
        self.overlap.count(row, older, || seed.low(row.key), self.mistakes);
        self.builder.as_mut().expect("it is not finished").add(row)
    }

    /// Makes the table durable; `None` where it would have no version.
    pub(crate) fn finish(mut self) -> Result<Option<Numbered<D>>> {
        if self.versions() == 0 {
            return Ok(None);
        }
        let table = self.builder.take().expect("it is not finished").finish();
        let table = table.and_then(|table| self.device.sync_dir().map(|()| table));
        if table.is_err() {
            self.remove();
        }
        Ok(Some(Numbered::new(self.number, table?)))
    }

    fn remove(&self) {
        let name = table_name(self.number);
        if let Err(error) = self.device.remove(&name) {
            ::log::debug!("removing {name}: {error}");
        }
    }
}

impl<D: Device> Drop for TableWriter<D> {
    fn drop(&mut self) {
        if self.builder.take().is_some() {
            self.remove();
        }
    }
}

impl<D: Device> Wip<D> {
    /// Begins a table whose sequence numbers but 0 are at least `sequence_base`. It becomes a
    /// bucket's oldest run or, asked for in vain more often, one before that.
    pub(crate) fn begin_table(
        &self,
        sequence_base: u64,
        is_oldest: bool,
    ) -> Result<TableWriter<D>> {
        let number = self.next_file_number();
        let options = TableOptions {
            block_bytes: self.config.block_bytes,
            sequence_base,
            filter_bits: self.config.filter_bits(is_oldest),
            compression: self.config.compression,
            seed: self.seed,
        };
        let id = table_id(self.store_id, number);
        let name = table_name(number);
        let builder = TableBuilder::create(&*self.device, &name, id, &options)
            .inspect_err(|_| self.remove_quietly(&name))?;
        Ok(TableWriter {
            device: Arc::clone(&self.device),
            number,
            seed: self.seed,
            mistakes: 0.5f64.powi(self.config.filter_bits(true) as i32),
            builder: Some(builder.through(&self.cache)),
            overlap: Overlap::default(),
        })
    }
}

/// A whole table as a part of a run at `level`.
pub(crate) fn whole<D: Device>(table: Numbered<D>, level: u8, dead_bytes: u64) -> Part<D> {
    Part::new(table, Vec::new(), None, level, dead_bytes)
}
