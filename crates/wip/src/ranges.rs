//! What reads of ranges ask of a memtable, and when it is to be a list in order.
//!
//! A hash table is sorted for a range read, into an order that stays as long as nothing is added.
//! Where that was done so often that putting every entry into a list would have been cheaper, it
//! becomes one.

use crate::memtable::{Memtable, Ordered};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Times that all entries are sorted before they go into a list: about what that costs.
const SORTS_MAX: u64 = 3;
/// Sorting fewer than this does not matter.
const SORTED_MIN: u64 = 1024;

/// See the module's documentation. Relaxed counters: they decide about speed alone.
#[derive(Debug, Default)]
pub(crate) struct RangeReads {
    /// Reads of ranges since the memtable is there.
    reads: AtomicU64,
    /// Positions that were sorted for them.
    sorted: AtomicU64,
    /// The order that the last one made, and how many inserts it has.
    last: Mutex<Option<(u64, Arc<Ordered>)>>,
}

impl RangeReads {
    pub(crate) fn count(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Another range is read; the order of the memtable after so many `inserts`, where it is there.
    pub(crate) fn begin(&self, inserts: u64) -> Option<Arc<Ordered>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.order(inserts)
    }

    /// The order of the memtable after so many `inserts`, where it is there.
    pub(crate) fn order(&self, inserts: u64) -> Option<Arc<Ordered>> {
        let last = self.last.lock().expect("no panic while held");
        let (of, order) = last.as_ref()?;
        (*of == inserts).then(|| Arc::clone(order))
    }

    /// An order was made, which has all of so many `inserts`.
    pub(crate) fn sorted(&self, inserts: u64, order: &Arc<Ordered>) {
        self.sorted.fetch_add(order.positions().len() as u64, Ordering::Relaxed);
        let mut last = self.last.lock().expect("no panic while held");
        if last.as_ref().is_none_or(|(of, _)| *of < inserts) {
            *last = Some((inserts, Arc::clone(order)));
        }
    }

    /// Bytes of the order that is kept.
    pub(crate) fn bytes(&self) -> u64 {
        let last = self.last.lock().expect("no panic while held");
        last.as_ref().map_or(0, |(_, order)| order.bytes() as u64)
    }

    /// True where `active` had better be a list.
    #[inline]
    pub(crate) fn wants_list(&self, active: &Memtable) -> bool {
        let sorted = self.sorted.load(Ordering::Relaxed);
        sorted >= SORTED_MIN
            && sorted >= SORTS_MAX * active.len() as u64
            && matches!(active, Memtable::Hash(_))
    }
}
