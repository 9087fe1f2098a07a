//! The index: buckets of 16 slots, each of which names the place of one item.
//!
//! Readers load slots and take no lock. Who changes a bucket holds the lock of its stripe. A slot
//! is replaced by one store, so readers see the old item or the new one.
//!
//! Orderings: a slot is stored with Release after its item is in its log, and loaded with Acquire.

use crate::layout::{BUCKET_SLOTS, Layout, Place};
use silica_base::{HugeVec, prefetch};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Locks of an index at most.
const STRIPES: usize = 1024;

/// The index of a cache.
pub(crate) struct Index {
    slots: HugeVec<AtomicU64>,
    stripes: Box<[Mutex<()>]>,
}

/// A slot that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its number over all buckets.
    pub(crate) at: usize,
    pub(crate) slot: u64,
}

impl Index {
    pub(crate) fn new(layout: &Layout) -> Self {
        let stripes = STRIPES.min(layout.buckets as usize);
        Index {
            slots: HugeVec::zeroed(layout.buckets as usize * BUCKET_SLOTS),
            stripes: (0..stripes).map(|_| Mutex::new(())).collect(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.slots.len() as u64 * 8
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    fn stripe_of(&self, bucket: usize) -> usize {
        bucket % self.stripes.len()
    }

    /// Waits until the caller alone may change `bucket`.
    pub(crate) fn lock(&self, bucket: usize) -> MutexGuard<'_, ()> {
        self.stripes[self.stripe_of(bucket)].lock().expect("no panic while locked")
    }

    /// Waits until the caller alone may change `buckets`. In the order of the stripes, so that two
    /// callers never wait for each other.
    pub(crate) fn lock_many(
        &self,
        buckets: impl Iterator<Item = usize>,
    ) -> Vec<MutexGuard<'_, ()>> {
        let mut stripes: Vec<usize> = buckets.map(|bucket| self.stripe_of(bucket)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|s| self.stripes[s].lock().expect("no panic")).collect()
    }

    /// Waits until the caller alone may change anything.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, ()>> {
        self.stripes.iter().map(|stripe| stripe.lock().expect("no panic while locked")).collect()
    }

    /// Asks for the lines of a bucket that is read soon.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: usize) {
        for line in [0, BUCKET_SLOTS / 2] {
            prefetch(&self.slots, bucket * BUCKET_SLOTS + line);
        }
    }

    /// Calls `each` with the filled slots of a bucket until it returns false.
    #[inline]
    fn visit(&self, bucket: usize, mut each: impl FnMut(Found) -> bool) {
        for at in bucket * BUCKET_SLOTS..(bucket + 1) * BUCKET_SLOTS {
            let slot = self.slots[at].load(Ordering::Acquire);
            if slot != 0 && !each(Found { at, slot }) {
                return;
            }
        }
    }

    /// The filled slots of a bucket.
    pub(crate) fn bucket(&self, bucket: usize) -> impl Iterator<Item = Found> + '_ {
        (bucket * BUCKET_SLOTS..(bucket + 1) * BUCKET_SLOTS)
            .map(|at| Found { at, slot: self.slots[at].load(Ordering::Acquire) })
            .filter(|found| found.slot != 0)
    }

    /// The slot of a key with this hash, if it has one. There is one at most.
    #[inline]
    pub(crate) fn find(&self, layout: &Layout, hash: u64) -> Option<Found> {
        let tag = layout.tag(hash);
        let mut found = None;
        self.visit(layout.bucket(hash), |candidate| {
            if layout.tag_of(candidate.slot) == tag {
                found = Some(candidate);
            }
            found.is_none()
        });
        found
    }

    /// The slot of this hash that names this place, if it still does.
    pub(crate) fn find_at(&self, layout: &Layout, hash: u64, place: Place) -> Option<Found> {
        self.find(layout, hash).filter(|found| layout.place_of(found.slot) == place)
    }

    /// An empty slot of a bucket.
    pub(crate) fn empty(&self, bucket: usize) -> Option<usize> {
        (bucket * BUCKET_SLOTS..(bucket + 1) * BUCKET_SLOTS)
            .find(|at| self.slots[*at].load(Ordering::Relaxed) == 0)
    }

    pub(crate) fn load(&self, at: usize) -> u64 {
        self.slots[at].load(Ordering::Acquire)
    }

    /// Stores a slot. Only for who holds the lock of its bucket.
    #[inline]
    pub(crate) fn store(&self, at: usize, slot: u64) {
        self.slots[at].store(slot, Ordering::Release);
    }

    /// Empties all slots. Only for who holds all locks.
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Ordering::Release));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::Shape;

    #[test]
    fn a_key_has_one_slot() {
        let shape = Shape { channels: 1, slabs: 8, pages: 8, page_bytes: 512 };
        let layout = Layout::new(shape, 64 << 10, 4).unwrap();
        let index = Index::new(&layout);
        let place = Place { slab: 2, offset: 64 };
        let slot = layout.slot(99, place, 40);
        let bucket = layout.bucket(99);
        let guard = index.lock(bucket);
        index.store(index.empty(bucket).unwrap(), slot);
        drop(guard);
        assert_eq!(index.find(&layout, 99).map(|found| found.slot), Some(slot));
        assert!(index.find_at(&layout, 99, place).is_some());
        assert!(index.find_at(&layout, 99, Place { slab: 3, ..place }).is_none());
        assert_eq!(index.find(&layout, 98), None);
        let _all = index.lock_all();
        index.clear();
        assert_eq!(index.find(&layout, 99), None);
    }
}
