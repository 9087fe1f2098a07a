//! The memory number: which indexes and filters are in memory, and what merges may take.

use crate::ground::Ground;
use crate::hash_store::HashStore;
use crate::options::MISS_FILTER_BITS;
use crate::packed::{CHUNK_BYTES, Footer, READ_AHEAD_BYTES, SectionKind};
use crate::partition::Version;
use crate::partitions::Partitions;
use crate::sorted_store::SortedStore;
use silica_base::Result;
use silica_device::{Device, DeviceFile};
use std::sync::Arc;

/// What conversions and merges write through.
const WRITE_BUFFERS_BYTES: u64 = 2 << 20;
/// Copies of an index while it is made: codes that are collected, codes with their directory, and
/// their encoded form; vectors that grow have room to spare.
const INDEX_COPIES: u64 = 4;
/// What the allocator may lose between the blocks that it handed out: measured, after hundreds of
/// merges.
const SLACK_BYTES: u64 = 8 << 20;
const SLACK_PERCENT: u64 = 5;
/// Share of the memory number that tables, filters and indexes get whatever else there is.
const INDEX_PERCENT_MIN: u64 = 12;
/// One part of so many of the memory number that miss filters may take where no bits are given.
const MISS_FILTERS_PART: u64 = 40;
/// Reads that a lookup costs more without the trie of a sorted store and without the filter of a
/// hash store: as 3 to 2.
const TRIE_READS: u64 = 3;
const HASH_READS: u64 = 2;
/// Share of the room for hash stores' filters at which a merge is due, so that it ends in time.
const FILTERS_SHARE: f64 = 0.875;
/// To spare filters a partition is merged when it has gathered one in so many of the entries that
/// it is merged for anyway; below that merges would write too much.
const MERGE_RATIO_PARTS: f64 = 4.0;
/// A merge for the filters' sake is due, but slows no writer.
const FILTER_PRESSURE_MAX: f64 = 1.2;

/// Shorter reads cost more time than they save memory.
const READ_AHEAD_BYTES_MIN: usize = 16 * CHUNK_BYTES;
const READ_AHEAD_MIN: u64 = READ_AHEAD_BYTES_MIN as u64;

/// See the module's documentation.
pub(crate) struct Memory<D: Device> {
    ground: Arc<Ground<D>>,
    partitions: Arc<Partitions<D>>,
}

impl<D: Device> Memory<D> {
    pub(crate) fn new(partitions: &Arc<Partitions<D>>) -> Self {
        Memory { ground: Arc::clone(&partitions.ground), partitions: Arc::clone(partitions) }
    }

    /// Bytes that tables, filters and indexes may take now: the memory number without the log at
    /// its largest, the buffers of a merge and of writing, and what the allocator loses. A merge
    /// makes the next index of its partition beside all others; `filters` says whether with a
    /// miss filter.
    fn index_budget_bytes(&self, filters: bool) -> u64 {
        let memory = self.ground.memory_bytes();
        // Writers are slowed from a quarter over the limit on; one segment goes only as a whole.
        let log = self.ground.log_bytes_max() / 4 * 5 + self.ground.config.segment_bytes(memory);
        let merge = self.partitions.iter().map(|p| self.merge_bytes(&p.version()));
        let merge = merge.max().unwrap_or(0);
        let sorted = self.partitions.iter().filter_map(|p| p.version().sorted_store.clone());
        let index = sorted.map(|store| {
            let filter = if filters { filter_bytes_stored(store.footer()) } else { 0 };
            index_bytes_stored(store.footer()) + filter
        });
        let slack = SLACK_BYTES + memory * SLACK_PERCENT / 100;
        let buffers = merge + INDEX_COPIES * index.max().unwrap_or(0) + WRITE_BUFFERS_BYTES;
        let rest = memory.saturating_sub(log + buffers + slack);
        rest.max(memory * INDEX_PERCENT_MIN / 100)
    }

    /// Bytes of tables, filters and tries, were all of them in memory: tables, hash stores'
    /// filters, tries.
    fn index_bytes_wanted(&self) -> [u64; 3] {
        let mut wanted = [self.partitions.sizes().log_store_index_bytes, 0, 0];
        for version in self.partitions.iter().map(|p| p.version()) {
            let footers = version.hash_stores.iter().map(|s| s.footer());
            wanted[1] += footers.map(index_bytes_stored).sum::<u64>();
            let footers = version.sorted_store.iter().map(|s| s.footer());
            wanted[2] += footers.map(index_bytes_stored).sum::<u64>();
        }
        wanted
    }

    /// How close the hash stores' filters are to what the memory leaves them; from 1 on a merge is
    /// due, which makes tries of them: about a tenth. A partition whose young entries are few, of
    /// its old ones `young`, is not worth that yet.
    pub(crate) fn filter_pressure(&self, young: f64) -> f64 {
        let ratio = self.ground.config.merge_ratio_percent as f64 / 100.0;
        if young < ratio / MERGE_RATIO_PARTS {
            return 0.0;
        }
        let [tables, filters, tries] = self.index_bytes_wanted();
        let room = self.index_budget_bytes(true).saturating_sub(tables + tries);
        let full = filters as f64 / (room as f64 * FILTERS_SHARE).max(1.0);
        full.min(FILTER_PRESSURE_MAX)
    }

    /// Bits per key of the miss filters that sorted stores get now; 0 for none. As given, or where
    /// the memory affords filters at the size that the store is growing to, and the device has
    /// room.
    pub(crate) fn miss_filter_bits(&self) -> u32 {
        if let Some(given) = self.ground.config.sorted_filter_bits {
            return given;
        }
        if self.ground.is_short_of_space() {
            return 0;
        }
        let sizes = self.partitions.sizes();
        let entries = self.partitions.count_from(&sizes).estimate;
        let merged = entries + entries * self.ground.config.merge_ratio_percent / 100;
        let filters = merged * (MISS_FILTER_BITS + 2) / 8;
        let building = INDEX_COPIES * filters / self.partitions.len() as u64;
        let others: u64 = self.index_bytes_wanted().iter().sum();
        let affordable = filters <= self.ground.memory_bytes() / MISS_FILTERS_PART
            && others + filters + building <= self.index_budget_bytes(false);
        if affordable { MISS_FILTER_BITS as u32 } else { 0 }
    }

    /// Drops a filter or an index where they take too much memory; the bytes that became free.
    /// First the miss filters, whose loss costs no hit a read, then whatever frees most bytes for
    /// each read that it saved.
    fn drop_an_index(&self) -> Option<u64> {
        let is_over = self.partitions.sizes().index_bytes() > self.index_budget_bytes(true);
        let versions: Vec<_> = self.partitions.iter().map(|p| p.version()).collect();
        let sorted = || versions.iter().filter_map(|v| v.sorted_store.as_ref());
        let filter = sorted().max_by_key(|s| s.filter_bytes()).filter(|s| s.filter_bytes() > 0);
        if let Some(store) = filter
            && (is_over || self.miss_filter_bits() == 0)
        {
            let bytes = store.filter_bytes() as u64;
            store.drop_filter();
            return Some(bytes);
        }
        if !is_over {
            return None;
        }
        let trie = sorted().max_by_key(|s| s.index_bytes());
        let trie_bytes = trie.map_or(0, |s| s.index_bytes() as u64);
        let hash = versions.iter().flat_map(|v| v.hash_stores.iter());
        let hash = hash.max_by_key(|s| s.index_bytes());
        let hash_bytes = hash.map_or(0, |s| s.index_bytes() as u64);
        if trie_bytes.max(hash_bytes) == 0 {
            return None;
        }
        if trie_bytes * HASH_READS > hash_bytes * TRIE_READS {
            trie.inspect(|store| store.drop_index());
            Some(trie_bytes)
        } else {
            hash.inspect(|store| store.drop_index());
            Some(hash_bytes)
        }
    }

    /// Makes room in memory for the index of a store that was just made. Done at once: upkeep
    /// waits for conversions and merges, and under load these never end.
    pub(crate) fn drop_indexes(&self) {
        while self.drop_an_index().is_some() {}
    }

    /// Drops an index where they take too much memory, or loads one that is missing where there
    /// is room: first what saves most reads for its bytes, miss filters last.
    pub(crate) fn step_indexes(&self) -> Result<Option<u64>> {
        if let Some(bytes) = self.drop_an_index() {
            return Ok(Some(bytes));
        }
        let (used, budget) = (self.partitions.sizes().index_bytes(), self.index_budget_bytes(true));
        // In memory an index may be a little larger; one that is loaded must not have to go.
        let fits = |bytes: u64| used + bytes + bytes / 8 + 4096 <= budget;
        let versions: Vec<_> = self.partitions.iter().map(|p| p.version()).collect();
        let hash = versions.iter().flat_map(|v| v.hash_stores.iter());
        let hash =
            hash.filter(|s| !s.is_index_loaded()).map(|s| (index_bytes_stored(s.footer()), s));
        let hash = hash.min_by_key(|(bytes, _)| *bytes).filter(|(bytes, _)| fits(*bytes));
        let sorted = || versions.iter().filter_map(|v| v.sorted_store.as_ref());
        let trie = sorted().filter(|s| !s.is_index_loaded());
        let trie = trie.map(|s| (index_bytes_stored(s.footer()), s));
        let trie = trie.min_by_key(|(bytes, _)| *bytes).filter(|(bytes, _)| fits(*bytes));
        let trie_first = trie.map_or(u64::MAX, |(bytes, _)| bytes.saturating_mul(HASH_READS))
            < hash.map_or(u64::MAX, |(bytes, _)| bytes.saturating_mul(TRIE_READS));
        if let Some((bytes, store)) = trie.filter(|_| trie_first) {
            store.load_trie()?;
            return Ok(Some(bytes));
        }
        if let Some((bytes, store)) = hash {
            store.load_index()?;
            return Ok(Some(bytes));
        }
        let lacks = |s: &&Arc<SortedStore<D::File>>| s.is_index_loaded() && s.filter_bytes() == 0;
        let mut filters = sorted().filter(lacks).map(|s| (filter_bytes_stored(s.footer()), s));
        // Another hash store must not throw it out at once.
        let filter = filters.find(|(bytes, _)| *bytes > 0 && fits(2 * bytes));
        if let Some((bytes, store)) = filter.filter(|_| self.miss_filter_bits() > 0) {
            store.load_filter()?;
            return Ok(Some(bytes));
        }
        Ok(None)
    }

    /// Read-ahead of each input, so that all of them take an eighth of the memory at most.
    pub(crate) fn merge_read_ahead(&self, inputs: &Version<D>) -> usize {
        let share = self.ground.memory_bytes() / 8 / (inputs.hash_stores.len() as u64 + 1);
        (share as usize).clamp(READ_AHEAD_BYTES_MIN, READ_AHEAD_BYTES)
    }

    /// Bytes that a merge of `inputs` takes: for each of them the read-ahead, and for a hash store
    /// a block of its entries, which are sorted in memory.
    pub(crate) fn merge_bytes(&self, inputs: &Version<D>) -> u64 {
        let stores = inputs.hash_stores.len() as u64;
        let blocks: u64 = inputs.hash_stores.iter().map(|store| block_bytes(store)).sum();
        (stores + 1) * self.merge_read_ahead(inputs) as u64 + blocks
    }

    /// How close the hash stores of a partition are to as many as there may be, which is 1: a
    /// fifth of the memory suffices to merge them.
    pub(crate) fn crowding(&self, version: &Version<D>) -> f64 {
        let stores = version.hash_stores.len();
        let least = |store: &Arc<HashStore<D::File>>| block_bytes(store) + READ_AHEAD_MIN;
        let bytes: u64 = version.hash_stores.iter().map(least).sum();
        let of_memory = bytes as f64 / (self.ground.memory_bytes() / 5).max(1) as f64;
        // Two are not too many, whatever the memory.
        let of_memory = of_memory.min(stores as f64 / 2.0);
        of_memory.max(stores as f64 / self.ground.config.hash_stores_max as f64)
    }
}

/// Bytes of a block of `store`, and of what is kept of each entry to sort them.
fn block_bytes<F: DeviceFile>(store: &HashStore<F>) -> u64 {
    store.footer().entry_bytes / u64::from(store.geometry().blocks) / 2 * 3
}

/// Bytes that the index of a store takes in its file, about as many as in memory; a miss filter
/// is counted apart.
fn index_bytes_stored(footer: &Footer) -> u64 {
    let sections = footer.sections.iter().filter(|s| s.kind != SectionKind::MissFilter);
    sections.map(|section| section.bytes).sum()
}

/// Bytes that the miss filter of a sorted store takes in its file.
fn filter_bytes_stored(footer: &Footer) -> u64 {
    let sections = footer.sections.iter().filter(|s| s.kind == SectionKind::MissFilter);
    sections.map(|section| section.bytes).sum()
}
