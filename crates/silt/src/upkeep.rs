//! Work without a deadline: indexes into memory or out of it, and reclaiming the value log.

use crate::entry::Frame;
use crate::packed::Footer;
use crate::silt::Silt;
use silica_base::Result;
use silica_device::Device;

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

impl<D: Device> Silt<D> {
    /// One piece of upkeep; the bytes it cost, or `None` where nothing is to be done.
    pub(crate) fn step_upkeep(&self) -> Result<Option<u64>> {
        if let Some(bytes) = self.step_indexes()? {
            return Ok(Some(bytes));
        }
        self.step_value_log()
    }

    /// Bytes that tables, filters and indexes may take now: the memory number without the log at
    /// its largest, the buffers of a merge and of writing, and what the allocator loses.
    fn index_budget_bytes(&self) -> u64 {
        let memory = self.memory_bytes();
        // Writers are slowed from a quarter over the limit on; one segment goes only as a whole.
        let log = self.log_bytes_max() / 4 * 5 + self.config.segment_bytes(memory);
        let merge = self.partitions.iter().map(|p| self.merge_bytes(&p.version()));
        let merge = merge.max().unwrap_or(0);
        // A merge makes the next index of its partition beside all others.
        let sorted = self.partitions.iter().filter_map(|p| p.version().sorted_store.clone());
        let index = sorted.map(|store| stored_index_bytes(store.footer())).max().unwrap_or(0);
        let slack = SLACK_BYTES + memory * SLACK_PERCENT / 100;
        let buffers = merge + INDEX_COPIES * index + WRITE_BUFFERS_BYTES;
        let rest = memory.saturating_sub(log + buffers + slack);
        rest.max(memory * INDEX_PERCENT_MIN / 100)
    }

    /// Drops the largest index, a sorted store's if there is one, where they take too much memory.
    /// The sorted stores' indexes go first: a lookup without one costs a read or two more, one
    /// without a hash store's filter costs as much for every hash store. The bytes that became
    /// free.
    fn drop_an_index(&self) -> Option<u64> {
        if self.sizes().index_bytes() <= self.index_budget_bytes() {
            return None;
        }
        let versions: Vec<_> = self.partitions.iter().map(|p| p.version()).collect();
        let sorted = versions.iter().filter_map(|v| v.sorted_store.as_ref());
        if let Some(store) = sorted.max_by_key(|s| s.index_bytes()).filter(|s| s.index_bytes() > 0)
        {
            let bytes = store.index_bytes() as u64;
            store.drop_index();
            return Some(bytes);
        }
        let hash = versions.iter().flat_map(|v| v.hash_stores.iter());
        let store = hash.max_by_key(|s| s.index_bytes()).filter(|s| s.index_bytes() > 0)?;
        let bytes = store.index_bytes() as u64;
        store.drop_index();
        Some(bytes)
    }

    /// Makes room in memory for the index of a store that was just made. Done at once: upkeep
    /// waits for conversions and merges, and under load these never end.
    pub(crate) fn drop_indexes(&self) {
        while self.drop_an_index().is_some() {}
    }

    /// Drops an index where they take too much memory, or loads one that is missing where there
    /// is room.
    fn step_indexes(&self) -> Result<Option<u64>> {
        if let Some(bytes) = self.drop_an_index() {
            return Ok(Some(bytes));
        }
        let (used, budget) = (self.sizes().index_bytes(), self.index_budget_bytes());
        // In memory an index may be a little larger; one that is loaded must not have to go.
        let fits = |bytes: u64| used + bytes + bytes / 8 + 4096 <= budget;
        let versions: Vec<_> = self.partitions.iter().map(|p| p.version()).collect();
        let mut hash = versions.iter().flat_map(|v| v.hash_stores.iter());
        if let Some(store) = hash.find(|s| !s.is_index_loaded()) {
            let bytes = stored_index_bytes(store.footer());
            if fits(bytes) {
                store.load_index()?;
                return Ok(Some(bytes));
            }
        }
        let mut sorted = versions.iter().filter_map(|v| v.sorted_store.as_ref());
        if let Some(store) = sorted.find(|s| !s.is_index_loaded()) {
            let bytes = stored_index_bytes(store.footer());
            if fits(bytes) {
                store.load_index()?;
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Counts the value of an overwritten frame as garbage.
    pub(crate) fn note_dead_value(&self, frame: &Frame<'_>) {
        if frame.is_pointer() {
            self.note_dead_pointer(frame.value);
        }
    }
}

/// Bytes that the index of a store takes in its file, about as many as in memory.
fn stored_index_bytes(footer: &Footer) -> u64 {
    footer.sections.iter().map(|section| section.bytes).sum()
}
