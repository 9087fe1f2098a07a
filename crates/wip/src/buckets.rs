//! All buckets of a store, in the order of their keys.

use crate::bucket::Bucket;
use crate::memtable::head;
use silica_device::Device;
use std::ops::Range;
use std::sync::Arc;

/// An immutable list; splits and merges make another.
pub(crate) struct Buckets<D: Device> {
    list: Vec<Arc<Bucket<D>>>,
    /// The first eight bytes of each lower key but the first one's, as numbers.
    heads: Vec<u64>,
}

impl<D: Device> Buckets<D> {
    /// # Panics
    /// Where the first bucket does not begin at the empty key.
    pub(crate) fn new(list: Vec<Arc<Bucket<D>>>) -> Self {
        assert!(list.first().is_some_and(|first| first.lower.is_empty()), "every key has a bucket");
        let heads = list[1..].iter().map(|bucket| head(&bucket.lower)).collect();
        Buckets { list, heads }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Bucket<D>>> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn at(&self, place: usize) -> &Arc<Bucket<D>> {
        &self.list[place]
    }

    /// Where in the list the bucket of `key` is.
    #[inline]
    pub(crate) fn place(&self, key: &[u8]) -> usize {
        let wanted = head(key);
        let mut place = self.heads.partition_point(|head| *head < wanted);
        // Keys that begin alike are told apart by all of their bytes.
        while place < self.heads.len()
            && self.heads[place] == wanted
            && *self.list[place + 1].lower <= *key
        {
            place += 1;
        }
        place
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> &Arc<Bucket<D>> {
        &self.list[self.place(key)]
    }

    /// The lower key of the bucket after the one at `place`.
    pub(crate) fn upper(&self, place: usize) -> Option<&[u8]> {
        self.list.get(place + 1).map(|next| &next.lower[..])
    }

    /// The same list with others instead of the buckets at `places`.
    pub(crate) fn with(&self, places: Range<usize>, others: Vec<Arc<Bucket<D>>>) -> Self {
        let mut list = self.list.clone();
        list.splice(places, others);
        Self::new(list)
    }
}
