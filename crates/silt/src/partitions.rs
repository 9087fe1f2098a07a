//! The partitions of a store, and how their versions change.

use crate::files::number_of_open;
use crate::ground::Ground;
use crate::journal::Journal;
use crate::packed::PackedReader;
use crate::partition::{Partition, Version};
use crate::state::{Edit, PartitionState};
use crate::store_stream::StoreStream;
use silica_base::{KeyHash, Result};
use silica_device::{Device, DeviceFile};
use silica_parts::cuckoo::Geometry;
use std::ops::Index;
use std::slice::Iter;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// Bytes of an unused file that are freed at once, and what that counts for.
const DISCARD_BYTES: u64 = 32 << 20;
const DISCARD_COST_BYTES: u64 = 64 << 10;
/// See the module's documentation.
pub(crate) struct Partitions<D: Device> {
    pub(crate) ground: Arc<Ground<D>>,
    pub(crate) journal: Arc<Journal<D>>,
    list: Vec<Partition<D>>,
    /// Held from reading a partition's version to publishing its successor.
    install: Mutex<()>,
    /// Files that no version names any more. A crash leaves them to the next open.
    discarded: Mutex<Vec<Arc<PackedReader<D::File>>>>,
    /// Share of young entries that are new keys, learnt from merges; the bits of an `f64`.
    pub(crate) growth: AtomicU64,
}

impl<D: Device> Index<usize> for Partitions<D> {
    type Output = Partition<D>;

    #[inline]
    fn index(&self, index: usize) -> &Partition<D> {
        &self.list[index]
    }
}

impl<D: Device> Partitions<D> {
    pub(crate) fn new(
        ground: Arc<Ground<D>>,
        journal: Arc<Journal<D>>,
        list: Vec<Partition<D>>,
    ) -> Self {
        let (install, discarded) = (Mutex::new(()), Mutex::new(Vec::new()));
        let growth = AtomicU64::new(1f64.to_bits());
        Partitions { ground, journal, list, install, discarded, growth }
    }

    pub(crate) fn iter(&self) -> Iter<'_, Partition<D>> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Replaces the version of partition `index` by what `change` makes of it, first in the
    /// manifest, then for readers, and releases what nobody needs any more.
    pub(crate) fn install(
        &self,
        index: usize,
        change: impl Fn(&Version<D>) -> Version<D>,
    ) -> Result<()> {
        let guard = self.install.lock().expect("no panic while held");
        let mut next = change(&self.list[index].version());
        let number = |name: &str| number_of_open(name);
        let hash_stores = next.hash_stores.iter().map(|h| number(h.reader().name()));
        let sorted_store = next.sorted_store.iter().map(|s| number(s.reader().name())).next();
        let state = PartitionState {
            floor: next.floor,
            hash_stores: hash_stores.collect::<Result<_>>()?,
            sorted_store: sorted_store.transpose()?,
        };
        self.ground.device.sync_dir().inspect_err(|_| self.journal.log.poison())?;
        self.journal.edit(&[Edit::Partition(index as u32, state)])?;
        let mut stores = self.list[index].write();
        // Log stores frozen since `change` looked are kept: only the oldest ever go.
        next.frozen = stores.version.frozen.clone();
        next.frozen.retain(|f| f.end > next.floor);
        next.epoch = stores.version.epoch + 1;
        stores.version = Arc::new(next);
        drop(stores);
        drop(guard);
        self.release_log()
    }

    /// Lets go of log segments that no partition needs.
    pub(crate) fn release_log(&self) -> Result<()> {
        let floors = self.list.iter().map(|p| p.version().floor);
        let gone = self.journal.release_log_below(floors.min().unwrap_or(0))?;
        self.journal.log.retire(gone, !self.ground.is_short_of_space());
        Ok(())
    }

    /// Lets the files of `version`'s stores go once nobody reads them.
    pub(crate) fn discard(&self, version: &Version<D>) {
        let mut discarded = self.discarded.lock().expect("no panic while held");
        discarded.extend(version.hash_stores.iter().map(|h| h.reader().clone()));
        discarded.extend(version.sorted_store.iter().map(|s| s.reader().clone()));
    }

    /// Bytes of files that wait for their removal.
    pub(crate) fn discarded_bytes(&self) -> u64 {
        let discarded = self.discarded.lock().expect("no panic while held");
        discarded.iter().map(|r| r.file().len().unwrap_or(0)).sum()
    }

    /// Takes a piece off a file that no version names and no reader holds any more; the bytes
    /// that count for the budget. Freeing a large file at once would stop the device for long.
    pub(crate) fn step_discard(&self) -> Result<Option<u64>> {
        let mut discarded = self.discarded.lock().expect("no panic while held");
        let Some(index) = discarded.iter().position(|r| Arc::strong_count(r) == 1) else {
            return Ok(None);
        };
        let reader = &discarded[index];
        let len = reader.file().len()?;
        if len > DISCARD_BYTES {
            reader.file().truncate(len - DISCARD_BYTES)?;
            return Ok(Some(DISCARD_COST_BYTES));
        }
        let name = discarded.swap_remove(index).name().to_owned();
        self.ground.device.remove(&name)?;
        Ok(Some(DISCARD_COST_BYTES))
    }

    /// The shape of the log store that `hash` belongs to now.
    pub(crate) fn geometry_at(&self, hash: KeyHash) -> Geometry {
        *self.partition_of(hash).read().active.geometry()
    }

    /// Streams of the stores of `version` from `start` on, the youngest first.
    pub(crate) fn store_streams(
        &self,
        version: &Version<D>,
        start: KeyHash,
        read_ahead: usize,
    ) -> Result<Vec<StoreStream<D::File>>> {
        let mut streams = Vec::with_capacity(version.hash_stores.len() + 1);
        for store in &version.hash_stores {
            streams.push(StoreStream::Hash(store.stream(start, read_ahead)?));
        }
        if let Some(store) = &version.sorted_store {
            streams.push(StoreStream::Sorted(store.stream(start, read_ahead)?));
        }
        Ok(streams)
    }

    /// The partition that holds `hash`.
    #[inline]
    pub(crate) fn partition_of(&self, hash: KeyHash) -> &Partition<D> {
        &self.list[self.ground.partition_index(hash)]
    }
}
