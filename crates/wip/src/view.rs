//! What a bucket held at one moment, to be read without a lock.

use crate::bucket::{Bucket, LogEntries, Version};
use crate::buckets::Buckets;
use crate::memtable::sorted;
use crate::wip::Wip;
use silica_device::Device;
use silica_parts::wal::Segments;
use std::sync::{Arc, Mutex};

/// Positions of a memtable in the order of a range, and the newest one that was there.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    newest: u64,
    positions: Arc<[u64]>,
}

/// The order that the last range read of a memtable made, for the next one.
#[derive(Debug, Default)]
pub(crate) struct LastOrder(Mutex<Option<Order>>);

impl LastOrder {
    fn get(&self, newest: u64) -> Option<Arc<[u64]>> {
        let order = self.0.lock().expect("no panic while held");
        let order = order.as_ref().filter(|order| order.newest == newest)?;
        Some(Arc::clone(&order.positions))
    }

    fn put(&self, order: Order) {
        let mut last = self.0.lock().expect("no panic while held");
        if last.as_ref().is_none_or(|last| last.newest < order.newest) {
            *last = Some(order);
        }
    }
}

/// See the module's documentation.
pub(crate) struct View<D: Device> {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    /// Positions in the order of a range, of each memtable; the newest memtable first.
    pub(crate) memtables: Vec<Arc<[u64]>>,
    pub(crate) segments: Arc<Segments<D::Log>>,
    pub(crate) version: Arc<Version<D>>,
}

impl<D: Device> View<D> {
    /// True where `key` belongs to the bucket.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        *self.lower <= *key && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }
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
        let bucket = buckets.at(place);
        let upper = buckets.upper(place).map(<[u8]>::to_vec);
        self.view_of(bucket, upper)
    }

    fn view_of(&self, bucket: &Bucket<D>, upper: Option<Vec<u8>>) -> Option<View<D>> {
        let stores = bucket.read();
        if stores.is_gone {
            return None;
        }
        // Taken under the bucket's lock: no segment that its memtables point at is missing.
        let segments = self.log.segments();
        let (frozen, version) = (stores.frozen.clone(), stores.version.clone());
        let (newest, active) = (stores.newest, stores.last_order.get(stores.newest));
        let unsorted = if active.is_none() { stores.active.positions() } else { Vec::new() };
        drop(stores);
        let entries = LogEntries(&segments);
        let active = active.unwrap_or_else(|| {
            let positions: Arc<[u64]> = sorted(unsorted, &entries).into();
            bucket.read().last_order.put(Order { newest, positions: Arc::clone(&positions) });
            positions
        });
        let frozen = frozen.iter().map(|frozen| Arc::clone(frozen.order(&entries)));
        let memtables = std::iter::once(active).chain(frozen).filter(|m| !m.is_empty()).collect();
        let lower = bucket.lower.clone();
        Some(View { lower, upper, memtables, segments, version })
    }
}
