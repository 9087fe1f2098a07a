//! Freezing: the active log store of a partition takes no more entries, and a fresh one begins.

use crate::intake::Intake;
use crate::partition::{Stores, Version};
use crate::shape::{FILL_PERCENT, staggered};
use crate::space::{SHORT_MERGE_SHARE, Space};
use silica_base::Result;
use silica_device::Device;
use silica_parts::cuckoo::CuckooTable;

/// Fewer entries tell nothing.
const ENTRIES_TELLING: u32 = 8;

impl<D: Device> Intake<D> {
    /// Freezes the active table of partition `index`; records from `at` on belong to a fresh one.
    pub(crate) fn freeze(&self, stores: &mut Stores<D>, index: usize, seed: u64, at: u64) {
        let (shape, memory) = (&self.ground.config.shape, self.ground.memory_bytes());
        let (seen, version) = (stores.active.len(), &stores.version);
        let since = version.frozen.first().map_or(version.floor, |frozen| frozen.end);
        let is_first = version.frozen.is_empty()
            && version.hash_stores.is_empty()
            && version.sorted_store.is_none();
        let mut fill_limit = u32::MAX;
        let geometry = if shape.is_given() || seen >= ENTRIES_TELLING {
            // The log holds entries of the other partitions too, headers, and overwritten ones.
            let log_bytes = u128::from(at.saturating_sub(since).max(1));
            let entries = u128::from(seen) * u128::from(self.ground.log_bytes_max()) / log_bytes;
            let entries = entries.min(u128::from(u32::MAX)) as u64;
            let geometry = shape.geometry(entries, memory);
            if is_first && !shape.is_given() {
                // The one before was made for entries of another size.
                let full = entries.min(u64::from(geometry.slots()) * FILL_PERCENT / 100);
                fill_limit = staggered(self.ground.config.partitions(), full as u32, index);
            }
            geometry
        } else {
            *stores.active.geometry()
        };
        stores.freeze(CuckooTable::new(geometry, seed), fill_limit, at);
    }

    /// Freezes the log store that holds back the log's oldest segment, where the log is over its
    /// limit.
    pub(crate) fn freeze_for_space(&self) -> Result<()> {
        let oldest = |(index, floor, _): &(usize, u64, bool)| (*floor, *index);
        let floors = self.partitions.iter().enumerate().map(|(index, partition)| {
            let version = partition.version();
            (index, version.floor, version.frozen.is_empty())
        });
        let Some((index, floor, unfrozen)) = floors.min_by_key(oldest) else { return Ok(()) };
        if !unfrozen || self.journal.log.end().saturating_sub(floor) <= self.ground.log_bytes_max()
        {
            return Ok(());
        }
        self.freeze_unless_frozen(index)
    }

    /// While space is short: freezes log stores whose entries make a merge worth its while; with
    /// `is_wanted`, since a put was refused, all of them. None where the hash stores would leave
    /// too little for a merge: nothing would make room after that.
    pub(crate) fn freeze_for_merges(&self, space: &Space<D>, is_wanted: bool) {
        if !self.ground.is_short_of_space() {
            return;
        }
        let mut writer = self.writer.lock().expect("no panic while held");
        let fits = || space.free_bytes() >= space.merge_needed_bytes();
        let mut may_freeze = fits();
        for (index, partition) in self.partitions.iter().enumerate() {
            let mut stores = partition.write();
            let young = stores.version.hash_store_entries() + u64::from(stores.active.len());
            let old = stores.version.sorted_store_entries();
            if stores.version.frozen.is_empty()
                && !stores.active.is_empty()
                && (is_wanted || young * SHORT_MERGE_SHARE >= old)
                && may_freeze
            {
                let seed = writer.next_table_seed();
                self.freeze(&mut stores, index, seed, self.journal.log.end());
                drop(stores);
                may_freeze = fits();
            }
        }
    }

    /// Freezes the log stores where most of what has expired is in them and that is too much. While
    /// writes go on (not `at_rest`) only values in the value log count: the log drops the rest.
    pub(crate) fn freeze_expired(&self, at_rest: bool) -> Result<()> {
        let view = self.partitions.view_expired();
        let logged = if at_rest { view.logged.bytes() } else { view.logged.apart_bytes };
        let stored = view.stored.bytes();
        if logged <= stored || stored + logged <= self.partitions.expired_bytes_max(&view) {
            return Ok(());
        }
        for index in 0..self.partitions.len() {
            self.freeze_unless_frozen(index)?;
        }
        Ok(())
    }

    /// Has partition `index` need nothing of the log before its end once its log store, which is
    /// frozen for it, is converted. Does nothing where one is frozen already.
    fn freeze_unless_frozen(&self, index: usize) -> Result<()> {
        let mut writer = self.writer.lock().expect("no panic while held");
        let mut stores = self.partitions[index].write();
        if !stores.version.frozen.is_empty() {
            return Ok(());
        }
        let end = self.journal.log.end();
        if stores.active.is_empty() {
            // Nothing of this partition is in the log: only its floor is old.
            if stores.version.floor == end {
                return Ok(());
            }
            drop((stores, writer));
            return self
                .partitions
                .install(index, |version| Version { floor: end, ..version.clone() });
        }
        let seed = writer.next_table_seed();
        self.freeze(&mut stores, index, seed, end);
        Ok(())
    }
}
