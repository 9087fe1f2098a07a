//! What a store holds: buckets of key ranges, the tables, logs and manifest that their entries are
//! in, and the snapshots that see them. It decides nothing: jobs change it, reads look at it.

use crate::bucket::{Bucket, Frozen, Growth, LatestEntries, LogEntries, Stores};
use crate::buckets::Buckets;
use crate::deleted::deleted_at;
use crate::memtable::Found;
use crate::metrics::Metrics;
use crate::options::Config;
use crate::snapshot_set::SnapshotSet;
use crate::state::{Edit, StoreState};
use crate::tables::TableSet;
use crate::write_gate::WriteGate;
use crate::writer::{NewEntry, Writer};
use arc_swap::ArcSwap;
use silica_base::{Clock, Error, ErrorKind, HashSeed, Result};
use silica_device::Device;
use silica_engine::ChangeRing;
use silica_engine::optimistic::Seen;
use silica_parts::store_log::StoreLog;
use silica_parts::value_log::{Garbage, Pointer};
use silica_parts::wal::POSITION_BYTES;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// See the module's documentation.
pub struct Contents<D: Device> {
    pub(crate) config: Arc<Config>,
    pub(crate) device: Arc<D>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: HashSeed,
    /// Log, value log and manifest.
    pub(crate) journal: StoreLog<D, StoreState>,
    pub(crate) buckets: ArcSwap<Buckets<D>>,
    pub(crate) install: Mutex<()>,
    /// Who writes in the usual way is in beside others; all else has the writer to itself.
    pub(crate) writer: WriteGate<Writer<D::Log>>,
    pub(crate) tables: TableSet<D>,
    pub(crate) snapshots: SnapshotSet,
    pub(crate) metrics: Metrics,
    /// The last batches, if somebody may read them.
    pub(crate) changes: Option<ChangeRing>,
    /// The history of changes that began with this opening, until the manifest has it.
    pub(crate) pending_history: Mutex<Option<Edit>>,
    /// The manifest's snapshot is of an older version.
    pub(crate) has_old_manifest: AtomicBool,
}

impl<D: Device> Contents<D> {
    /// The buckets as they are now.
    #[inline]
    pub(crate) fn buckets(&self) -> Arc<Buckets<D>> {
        self.buckets.load_full()
    }

    /// Calls `visit` with each bucket from the first key to the last: its lower key, its upper key
    /// and its stores, also where buckets are split meanwhile.
    pub(crate) fn for_each_bucket(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>, &Stores<D>)) {
        let mut next = Some(Vec::new());
        while let Some(lower) = next {
            next = self.with_stores(&lower, |upper, stores| {
                visit(&lower, upper, stores);
                upper.map(<[u8]>::to_vec)
            });
        }
    }

    /// Calls `with` with the upper key and the stores of the bucket that has `key`.
    pub(crate) fn with_stores<T>(
        &self,
        key: &[u8],
        with: impl FnOnce(Option<&[u8]>, &Stores<D>) -> T,
    ) -> T {
        loop {
            let buckets = self.buckets();
            let stores = buckets.of(key).read();
            if !stores.is_gone {
                return with(buckets.upper(buckets.place(key)), &stores);
            }
        }
    }

    /// Held from reading buckets and their versions to publishing their successors.
    pub(crate) fn lock_install(&self) -> MutexGuard<'_, ()> {
        self.install.lock().expect("no panic while held")
    }

    /// Lets another list of buckets be the store's, in which those of `gone` are not.
    pub(crate) fn take_over<'b>(
        &self,
        list: Buckets<D>,
        gone: impl IntoIterator<Item = &'b Arc<Bucket<D>>>,
    ) where
        D: 'b,
    {
        self.buckets.store(Arc::new(list));
        // Nothing is taken from the log before, so who got here earlier finds what it needs.
        gone.into_iter().for_each(|bucket| bucket.write().is_gone = true);
    }

    /// Makes edits durable that only the newest version of the manifest has.
    pub(crate) fn edit_newest(&self, edits: &[Edit]) -> Result<()> {
        if self.has_old_manifest.load(Ordering::Relaxed) {
            self.journal.rewrite_manifest()?;
            self.has_old_manifest.store(false, Ordering::Relaxed);
        }
        self.edit(edits)
    }

    /// Syncs the log up to a position, and the values that it points at.
    pub(crate) fn sync_log_to(&self, position: u64) -> Result<()> {
        self.sync_log_below(position * POSITION_BYTES)
    }

    /// Makes an edit of buckets, which leaves `garbage` in the value log, and removes the tables
    /// that nobody needs any more. The install lock is held.
    pub(crate) fn edit_buckets(&self, edit: Edit, garbage: &Garbage) -> Result<()> {
        let before = self.named_tables();
        let edits: Vec<Edit> = self.garbage_edit(garbage).into_iter().chain([edit]).collect();
        self.edit(&edits)?;
        before
            .difference(&self.named_tables())
            .for_each(|number| self.tables.remove_table(*number));
        Ok(())
    }

    /// Numbers of the tables that the manifest names.
    pub(crate) fn named_tables(&self) -> BTreeSet<u64> {
        self.with_state(StoreState::tables)
    }

    /// The value of `key` that a version which somebody sees points at.
    pub(crate) fn value_at(&self, key: &[u8], pointer: &[u8]) -> Result<Vec<u8>> {
        let pointer = Pointer::in_entry(pointer)?;
        self.values.read(&pointer, key)?.ok_or_else(|| gone(&pointer))
    }

    /// The oldest frozen memtable of a bucket, which is frozen now where there is none; `None`
    /// where it has nothing.
    pub(crate) fn oldest_frozen(&self, bucket: &Bucket<D>) -> Option<Arc<Frozen>> {
        if let Some(frozen) = bucket.read().frozen.last() {
            return Some(Arc::clone(frozen));
        }
        // Nobody writes meanwhile, so the log's end is the memtable's.
        let writer = self.writer.lock();
        let mut stores = bucket.write();
        if stores.is_written() {
            stores.freeze(self.log.end() / POSITION_BYTES);
        }
        drop(writer);
        stores.frozen.last().cloned()
    }

    /// Puts an entry of the log into its bucket's memtable: beside others who do, or, with
    /// `freezes`, by who has the writer.
    #[inline]
    pub(crate) fn insert(&self, bucket: &Bucket<D>, new: &NewEntry<'_>, freezes: bool) {
        let kept_before = self.snapshots.newest();
        let stores = bucket.read();
        let is_to_freeze = freezes && stores.is_to_freeze();
        // Under the bucket's lock: no segment that its memtables point at is missing.
        let inserted = self.log.with_segments(|segments| {
            let entries = LogEntries(segments);
            if is_to_freeze {
                return None;
            }
            let growth = stores.insert_beside_others(new, kept_before, &entries).ok()?;
            self.note_replaced(&growth, &entries);
            Some(growth.bytes)
        });
        drop(stores);
        let bytes = inserted.unwrap_or_else(|| self.insert_alone(bucket, new, freezes));
        self.metrics.add_unflushed(bytes);
    }

    /// As [`Contents::insert`], where the memtable has to change for it.
    #[cold]
    fn insert_alone(&self, bucket: &Bucket<D>, new: &NewEntry<'_>, freezes: bool) -> u64 {
        let mut stores = bucket.write();
        let kept_before = self.snapshots.newest();
        self.log.with_segments(|segments| {
            let entries = LogEntries(segments);
            let growth = stores.insert(self.seed, new, kept_before, &entries, freezes);
            self.note_replaced(&growth, &entries);
            growth.bytes
        })
    }

    /// Counts the value of an entry as garbage whose place another one took.
    pub(crate) fn note_replaced(&self, growth: &Growth, entries: &LogEntries<'_, D::Log>) {
        if let Some(old) = growth.replaced.map(|position| entries.frame(position))
            && old.is_pointer()
        {
            self.values.note_dead_at(old.value);
        }
    }

    /// What `of` makes of the newest version of `key` in the memtables.
    pub(crate) fn find_young<T>(
        &self,
        stores: &Stores<D>,
        key: &[u8],
        of: impl Fn(&Found<'_>) -> T,
    ) -> Option<T> {
        loop {
            // Taken under the bucket's lock: no segment that its memtables point at is missing, but
            // for those that come with what others insert.
            let segments = self.log.segments_now();
            let entries = LatestEntries::new(&segments);
            let found = stores.find(self.seed.low(key), key, u64::MAX, &entries);
            if !entries.has_missed() {
                return found.as_ref().map(of);
            }
        }
    }

    /// What tells later whether `key` has changed since.
    pub(crate) fn seen(&self, key: &[u8]) -> Seen {
        self.with_stores(key, |_, stores| {
            let deleted = deleted_at(&stores.deleted, key, u64::MAX);
            let found = self.find_young(stores, key, |found| found.position);
            match found {
                Some(position) => Seen::InMemory(position.max(deleted)),
                None if deleted > 0 => Seen::InMemory(deleted),
                None => Seen::Elsewhere(stores.version.ceiling),
            }
        })
    }

    /// Where the log begins that buckets need, with an end of it from before they were asked.
    pub(crate) fn needed_from(&self, end: u64) -> u64 {
        let buckets = self.buckets();
        let floor = buckets.iter().filter_map(|bucket| bucket.read().oldest()).min();
        floor.unwrap_or(end).min(end) * POSITION_BYTES
    }

    /// Has segments that no bucket needs give their memory back, which opening the store took: they
    /// may have to stay as files.
    pub(crate) fn rest_log(&self) {
        self.log.rest_below(self.needed_from(self.log.end() / POSITION_BYTES));
    }
}

/// Log, value log and manifest are asked as if they were the contents themselves.
impl<D: Device> Deref for Contents<D> {
    type Target = StoreLog<D, StoreState>;

    fn deref(&self) -> &StoreLog<D, StoreState> {
        &self.journal
    }
}

/// An entry that somebody sees points at what is gone.
pub(crate) fn gone(pointer: &Pointer) -> Error {
    let message =
        format!("an entry points into value-log segment {}, which is gone", pointer.segment);
    Error::new(ErrorKind::Corruption, message)
}
