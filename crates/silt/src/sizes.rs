//! How much the stores of all partitions hold.

use crate::partition::Version;
use crate::partitions::Partitions;
use silica_device::Device;
use silica_engine::Count;
use std::sync::atomic::Ordering;

/// Sizes of the stores at one moment.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) log_store_entries: u64,
    pub(crate) hash_store_entries: u64,
    pub(crate) sorted_store_entries: u64,
    pub(crate) hash_stores: u64,
    pub(crate) hash_store_tombstones: u64,
    /// Stores whose index is not in memory.
    pub(crate) indexes_dropped: u64,
    pub(crate) log_store_index_bytes: u64,
    pub(crate) hash_store_filter_bytes: u64,
    pub(crate) sorted_store_index_bytes: u64,
    pub(crate) table_file_bytes: u64,
    pub(crate) table_entry_bytes: u64,
}

impl Sizes {
    /// Entries in all stores, overwritten ones counted again.
    pub(crate) fn entries(&self) -> u64 {
        self.log_store_entries + self.hash_store_entries + self.sorted_store_entries
    }

    /// Memory of all tables, filters and indexes.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.log_store_index_bytes + self.hash_store_filter_bytes + self.sorted_store_index_bytes
    }
}

impl<D: Device> Partitions<D> {
    /// Walks the versions of all partitions.
    pub(crate) fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        for partition in self.iter() {
            let (version, active_len, active_bytes) = {
                let stores = partition.read();
                (stores.version.clone(), stores.active.len(), stores.active.bytes())
            };
            sizes.log_store_entries += active_len as u64;
            sizes.log_store_index_bytes += active_bytes as u64;
            for frozen in &version.frozen {
                sizes.log_store_entries += frozen.table.len() as u64;
                sizes.log_store_index_bytes += frozen.table.bytes() as u64;
            }
            for store in &version.hash_stores {
                sizes.hash_stores += 1;
                sizes.indexes_dropped += u64::from(!store.is_index_loaded());
                sizes.hash_store_tombstones += store.footer().tombstones;
                sizes.hash_store_filter_bytes += store.index_bytes() as u64;
                sizes.table_file_bytes += store.reader().file_bytes();
                sizes.table_entry_bytes += store.footer().entry_bytes;
            }
            if let Some(store) = &version.sorted_store {
                sizes.indexes_dropped += u64::from(!store.is_index_loaded());
                sizes.sorted_store_index_bytes += store.index_bytes() as u64;
                sizes.table_file_bytes += store.reader().file_bytes();
                sizes.table_entry_bytes += store.footer().entry_bytes;
            }
            sizes.hash_store_entries += version.hash_store_entries();
            sizes.sorted_store_entries += version.sorted_store_entries();
        }
        sizes
    }

    /// Bounds from the sizes of the stores. An entry of a young store is new, replaces an older
    /// one or deletes it; how many are new is learnt from past merges.
    pub(crate) fn count_from(&self, sizes: &Sizes) -> Count {
        let young = sizes.hash_store_entries + sizes.log_store_entries;
        let live_young = young - sizes.hash_store_tombstones;
        let growth = f64::from_bits(self.growth.load(Ordering::Relaxed));
        Count {
            low: sizes
                .sorted_store_entries
                .saturating_sub(young - live_young)
                .saturating_sub(sizes.log_store_entries),
            estimate: sizes.sorted_store_entries + (live_young as f64 * growth) as u64,
            high: sizes.sorted_store_entries + live_young,
        }
    }

    /// Learns from a merge which share of young entries was new. `entries` of its inputs were the
    /// newest of their keys, expired ones included.
    pub(crate) fn learn_growth(&self, inputs: &Version<D>, entries: u64) {
        if inputs.hash_stores.is_empty() {
            return;
        }
        let grown = entries as f64 - inputs.sorted_store_entries() as f64;
        let seen = (grown / inputs.hash_store_entries().max(1) as f64).clamp(0.0, 1.0);
        let old = f64::from_bits(self.growth.load(Ordering::Relaxed));
        self.growth.store((0.75 * old + 0.25 * seen).to_bits(), Ordering::Relaxed);
    }
}
