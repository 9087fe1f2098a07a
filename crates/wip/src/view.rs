//! What a bucket held at one moment, to be read without its lock.

use crate::bucket::{Bucket, Frozen, LogEntries, Version};
use crate::buckets::Buckets;
use crate::contents::Contents;
use crate::deleted::DeletedRanges;
use crate::memtable::{Entries, Memtable, Ordered, SkipList, is_from, sorted};
use crate::prefix::Prefix;
use silica_base::shared_len;
use silica_device::{Device, LogFile};
use silica_parts::wal::Segments;
use std::ops::Range;
use std::sync::Arc;

/// See the module's documentation.
pub(crate) struct View<D: Device> {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) bucket: Arc<Bucket<D>>,
    /// The memtable that is written, where it is a list.
    pub(crate) list: Option<Arc<SkipList>>,
    /// The others, in the order of a range; the newest first.
    pub(crate) memtables: Vec<Slice>,
    pub(crate) segments: Arc<Segments<D::Log>>,
    /// Ranges that were deleted.
    pub(crate) deleted: DeletedRanges,
    pub(crate) version: Arc<Version<D>>,
}

impl<D: Device> View<D> {
    /// True where `key` belongs to the bucket.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        is_from(&self.lower, key) && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }

    /// What most keys begin with.
    pub(crate) fn prefix(&self) -> Prefix {
        let memtables = self.memtables.iter().map(|slice| slice.order.prefix());
        let of_keys = Prefix::of(self.version.common().into_iter().chain(memtables));
        let of_bounds = self.upper.as_ref().map(|upper| shared_len(&self.lower, upper));
        let of_bounds = &self.lower[..of_bounds.unwrap_or(0)];
        Prefix::new(of_keys.filter(|key| key.len() > of_bounds.len()).unwrap_or(of_bounds))
    }
}

/// A part of a memtable in order.
#[derive(Clone)]
pub(crate) struct Slice {
    order: Arc<Ordered>,
    range: Range<usize>,
}

impl Slice {
    fn whole(order: Arc<Ordered>) -> Self {
        let range = 0..order.positions().len();
        Slice { order, range }
    }

    /// The keys that are in `lower..upper`: the buckets that a split made share memtables.
    fn within(
        order: &Arc<Ordered>,
        (lower, upper): (&[u8], Option<&[u8]>),
        entries: &impl Entries,
    ) -> Self {
        let whole = Slice::whole(Arc::clone(order));
        let start = order.before(lower, entries);
        let end = upper.map_or(whole.range.end, |upper| order.before(upper, entries));
        Slice { range: start..end, ..whole }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// The position of entry `at`.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<u64> {
        self.positions().get(at).copied()
    }

    /// All positions.
    #[inline]
    pub(crate) fn positions(&self) -> &[u64] {
        &self.order.positions()[self.range.clone()]
    }

    /// True if an entry at `position` or behind it has a key from `lower` on and before `upper`.
    pub(crate) fn has_since<L: LogFile>(
        &self,
        position: u64,
        lower: &[u8],
        upper: Option<&[u8]>,
        segments: &Segments<L>,
    ) -> bool {
        let entries = LogEntries(segments);
        let end = upper.map_or(self.len(), |upper| self.before(upper, &entries));
        let start = self.before(lower, &entries).min(end);
        self.positions()[start..end].iter().any(|at| *at >= position)
    }

    /// How many entries have a key before `key`.
    pub(crate) fn before(&self, key: &[u8], entries: &impl Entries) -> usize {
        let before = self.order.before(key, entries);
        before.clamp(self.range.start, self.range.end) - self.range.start
    }
}

/// The active memtable as a view has it.
enum Active {
    List(Arc<SkipList>),
    Sorted(Arc<Ordered>),
    Unsorted(Vec<u64>),
}

/// The bucket of `key`, or, with `before`, of the keys right before it; `None` stands for the
/// end of all keys.
pub(crate) fn view_at<D: Device>(
    contents: &Contents<D>,
    key: Option<&[u8]>,
    before: bool,
) -> View<D> {
    loop {
        let buckets = contents.buckets();
        if let Some(view) = view_in(contents, &buckets, key, before) {
            return view;
        }
    }
}

/// A view in one list of buckets; `None` if the list has been replaced meanwhile.
fn view_in<D: Device>(
    contents: &Contents<D>,
    buckets: &Buckets<D>,
    key: Option<&[u8]>,
    before: bool,
) -> Option<View<D>> {
    let place = match key {
        Some(key) => {
            let place = buckets.place(key);
            place - usize::from(before && place > 0 && *buckets.at(place).lower == *key)
        }
        None => buckets.len() - 1,
    };
    let upper = buckets.upper(place).map(<[u8]>::to_vec);
    view_of(contents, buckets.at(place), upper)
}

fn view_of<D: Device>(
    contents: &Contents<D>,
    bucket: &Arc<Bucket<D>>,
    upper: Option<Vec<u8>>,
) -> Option<View<D>> {
    let stores = bucket.read();
    if stores.is_gone {
        return None;
    }
    // Counted before the positions are read, which may be more by then.
    let inserts = stores.inserts();
    let (frozen, version) = (stores.frozen.clone(), stores.version.clone());
    let deleted = [&version.deleted[..], &stores.deleted].concat();
    let order = stores.range_reads.begin(inserts);
    let active = match (&stores.active, order) {
        (Memtable::List(list), _) => Active::List(Arc::clone(list)),
        (_, Some(order)) => Active::Sorted(order),
        (Memtable::Hash(directory), None) => Active::Unsorted(directory.positions()),
    };
    // Taken under the bucket's lock, and after the positions, to which others add meanwhile: no
    // segment that they point at is missing.
    let segments = contents.log.segments();
    drop(stores);
    let entries = LogEntries(&segments);
    let (mut list, mut memtables) = (None, Vec::with_capacity(1 + frozen.len()));
    match active {
        Active::List(active) => list = Some(active),
        Active::Sorted(order) => memtables.push(Slice::whole(order)),
        Active::Unsorted(positions) => {
            let order = Arc::new(Ordered::new(sorted(positions, &entries), &entries));
            bucket.read().range_reads.sorted(inserts, &order);
            memtables.push(Slice::whole(order));
        }
    }
    let range = (&bucket.lower[..], upper.as_deref());
    let own = |frozen: &Arc<Frozen>| Slice::within(frozen.order(&entries), range, &entries);
    memtables.extend(frozen.iter().map(own));
    memtables.retain(|slice| slice.len() > 0);
    let (lower, bucket) = (bucket.lower.clone(), Arc::clone(bucket));
    Some(View { lower, upper, bucket, list, memtables, segments, deleted, version })
}
