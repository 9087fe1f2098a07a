//! All buckets of a store, in the order of their keys.

use crate::bucket::Bucket;
use crate::memtable::Heads;
use silica_base::shared_len;
use silica_device::Device;
use std::ops::Range;
use std::sync::Arc;

/// An immutable list; splits and merges make another.
pub(crate) struct Buckets<D: Device> {
    list: Vec<Arc<Bucket<D>>>,
    /// Of each lower key but the first one's.
    heads: Heads,
}

impl<D: Device> Buckets<D> {
    /// # Panics
    /// Where the first bucket does not begin at the empty key.
    pub(crate) fn new(list: Vec<Arc<Bucket<D>>>) -> Self {
        assert!(list.first().is_some_and(|first| first.lower.is_empty()), "every key has a bucket");
        fn lower<D: Device>(bucket: &Arc<Bucket<D>>) -> &[u8] {
            &bucket.lower
        }
        let (first, last) = (list.get(1).map(lower), list[1..].last().map(lower));
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let prefix = &first[..shared_len(first, last)];
        let heads = Heads::new(prefix, list[1..].iter().map(lower));
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
        let found = self.heads.find(key);
        // Keys that begin alike are told apart by all of their bytes.
        let same = self.list[1..][found.clone()].iter();
        found.start + same.take_while(|bucket| *bucket.lower <= *key).count()
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> &Arc<Bucket<D>> {
        &self.list[self.place(key)]
    }

    /// The lower key of the bucket after the one at `place`.
    pub(crate) fn upper(&self, place: usize) -> Option<&[u8]> {
        self.list.get(place + 1).map(|next| &next.lower[..])
    }

    /// This list with others instead of the buckets at `places`.
    pub(crate) fn with(&self, places: Range<usize>, others: Vec<Arc<Bucket<D>>>) -> Self {
        let mut list = self.list.clone();
        list.splice(places, others);
        Self::new(list)
    }
}
