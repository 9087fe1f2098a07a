//! What a bucket held at one moment, to be read without its lock.

use crate::bucket::{Bucket, Frozen, LogEntries, Version};
use crate::buckets::Buckets;
use crate::deleted::DeletedRanges;
use crate::memtable::{Entries, Memtable, SkipList, sorted};
use crate::wip::Wip;
use silica_device::Device;
use silica_parts::wal::Segments;
use std::sync::Arc;

/// See the module's documentation.
pub(crate) struct View<D: Device> {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) bucket: Arc<Bucket<D>>,
    /// The memtable that is written, where it is a list.
    pub(crate) list: Option<Arc<SkipList>>,
    /// Positions in the order of a range, of each other memtable; the newest memtable first.
    pub(crate) memtables: Vec<Arc<[u64]>>,
    pub(crate) segments: Arc<Segments<D::Log>>,
    /// Ranges that were deleted.
    pub(crate) deleted: DeletedRanges,
    pub(crate) version: Arc<Version<D>>,
}

impl<D: Device> View<D> {
    /// True where `key` belongs to the bucket.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        *self.lower <= *key && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }
}

/// The active memtable as a view has it.
enum Active {
    List(Arc<SkipList>),
    Sorted(Arc<[u64]>),
    Unsorted(Vec<u64>),
}

impl<D: Device> Wip<D> {
    /// The bucket of `key`, or, with `before`, of the keys right before it; `None` stands for the
    /// end of all keys.
    pub(crate) fn view(&self, key: Option<&[u8]>, before: bool) -> View<D> {
        loop {
            let buckets = self.buckets();
            if let Some(view) = self.view_in(&buckets, key, before) {
                return view;
            }
        }
    }

    /// The same in one list; `None` where that has been replaced.
    fn view_in(&self, buckets: &Buckets<D>, key: Option<&[u8]>, before: bool) -> Option<View<D>> {
        let place = match key {
            Some(key) => {
                let place = buckets.place(key);
                place - usize::from(before && place > 0 && *buckets.at(place).lower == *key)
            }
            None => buckets.len() - 1,
        };
        let upper = buckets.upper(place).map(<[u8]>::to_vec);
        self.view_of(buckets.at(place), upper)
    }

    fn view_of(&self, bucket: &Arc<Bucket<D>>, upper: Option<Vec<u8>>) -> Option<View<D>> {
        let stores = bucket.read();
        if stores.is_gone {
            return None;
        }
        // Taken under the bucket's lock: no segment that its memtables point at is missing.
        let segments = self.log.segments();
        let (frozen, version, newest) =
            (stores.frozen.clone(), stores.version.clone(), stores.newest);
        let deleted = [&version.deleted[..], &stores.deleted].concat();
        let order = stores.range_reads.begin(newest);
        let active = match (&stores.active, order) {
            (Memtable::List(list), _) => Active::List(Arc::clone(list)),
            (_, Some(positions)) => Active::Sorted(positions),
            (Memtable::Hash(directory), None) => Active::Unsorted(directory.positions()),
        };
        drop(stores);
        let entries = LogEntries(&segments);
        let (mut list, mut memtables) = (None, Vec::with_capacity(1 + frozen.len()));
        match active {
            Active::List(active) => list = Some(active),
            Active::Sorted(positions) => memtables.push(positions),
            Active::Unsorted(positions) => {
                let positions = sorted(positions, &entries).into();
                bucket.read().range_reads.sorted(newest, &positions);
                memtables.push(positions);
            }
        }
        let range = (&bucket.lower[..], upper.as_deref());
        let own = |frozen: &Arc<Frozen>| within(frozen.order(&entries), range, &entries);
        memtables.extend(frozen.iter().map(own));
        memtables.retain(|positions| !positions.is_empty());
        let (lower, bucket) = (bucket.lower.clone(), Arc::clone(bucket));
        Some(View { lower, upper, bucket, list, memtables, segments, deleted, version })
    }
}

/// The positions of the keys that are in `lower..upper`: the buckets that a split made share
/// memtables.
fn within(
    order: &Arc<[u64]>,
    (lower, upper): (&[u8], Option<&[u8]>),
    entries: &impl Entries,
) -> Arc<[u64]> {
    let before = |key: &[u8]| order.partition_point(|at| entries.entry(*at).key < key);
    let (start, end) = (before(lower), upper.map_or(order.len(), before));
    if end - start == order.len() { Arc::clone(order) } else { order[start..end].into() }
}
