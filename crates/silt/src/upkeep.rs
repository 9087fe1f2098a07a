//! Work without a deadline: indexes into memory or out of it, and reclaiming the value log.

use crate::entry::Frame;
use crate::metrics::add;
use crate::packed::Footer;
use crate::silt::Silt;
use silica_base::Result;
use silica_device::Device;

/// Share of the memory number that indexes and filters may take; the rest is the log window,
/// merge buffers and read buffers.
const INDEX_SHARE_PERCENT: u64 = 60;

impl<D: Device> Silt<D> {
    /// One piece of upkeep; the bytes it cost, or `None` where nothing is to be done.
    pub(crate) fn step_upkeep(&self) -> Result<Option<u64>> {
        if let Some(bytes) = self.step_indexes()? {
            return Ok(Some(bytes));
        }
        self.step_value_log()
    }

    /// Bytes that indexes may take now.
    fn index_budget_bytes(&self) -> u64 {
        self.memory_bytes() * INDEX_SHARE_PERCENT / 100
    }

    /// Drops an index where they take too much memory, or loads one that is missing where there
    /// is room. The sorted stores' indexes go first: a lookup without one costs a read or two
    /// more, one without a hash store's filter costs as much for every hash store.
    fn step_indexes(&self) -> Result<Option<u64>> {
        let budget = self.index_budget_bytes();
        let used = self.sizes().index_bytes();
        let versions: Vec<_> = self.partitions.iter().map(|p| p.version()).collect();
        let sorted = || versions.iter().filter_map(|v| v.sorted_store.as_ref());
        let hash = || versions.iter().flat_map(|v| v.hash_stores.iter());
        if used > budget {
            let largest = sorted().max_by_key(|s| s.index_bytes());
            if let Some(store) = largest.filter(|s| s.index_bytes() > 0) {
                let bytes = store.index_bytes() as u64;
                store.drop_index();
                return Ok(self.note_dropped(bytes));
            }
            let largest = hash().max_by_key(|s| s.index_bytes());
            if let Some(store) = largest.filter(|s| s.index_bytes() > 0) {
                let bytes = store.index_bytes() as u64;
                store.drop_index();
                return Ok(self.note_dropped(bytes));
            }
            return Ok(None);
        }
        if let Some(store) = hash().find(|s| !s.is_index_loaded()) {
            let bytes = stored_index_bytes(store.footer());
            if used + bytes <= budget {
                store.load_index()?;
                return Ok(Some(bytes));
            }
        }
        if let Some(store) = sorted().find(|s| !s.is_index_loaded()) {
            let bytes = stored_index_bytes(store.footer());
            if used + bytes <= budget {
                store.load_index()?;
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    fn note_dropped(&self, bytes: u64) -> Option<u64> {
        add(&self.metrics.indexes_dropped, 1);
        Some(bytes)
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
