//! Entries that were used and would be evicted: they are put again.

use crate::item::Copied;
use crate::partition::Probe;
use std::collections::VecDeque;

/// A put spares so many entries whatever their uses, as many again of those that have more than
/// one left, and so on. So the time that it takes is bounded, and the one that goes where all were
/// used is never one that was used most.
const SPARED_PER_USE: u64 = 64;

/// An entry on its way from the log's head to its tail.
pub(crate) struct Spared {
    pub(crate) probe: Probe,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) copied: Copied,
    /// What its slot was.
    pub(crate) word: u64,
    /// So many of its uses still count.
    pub(crate) uses: u64,
    /// Readers of its bucket were turned away for it.
    pub(crate) began: bool,
}

/// The entries that a put has to put again, the oldest first.
#[derive(Default)]
pub(crate) struct Again {
    entries: VecDeque<Spared>,
    spared: u64,
}

impl Again {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True where an entry with so many uses left is still spared; it is counted as one that is.
    pub(crate) fn takes(&mut self, uses: u64) -> bool {
        let takes = self.spared / SPARED_PER_USE <= uses;
        self.spared += u64::from(takes);
        takes
    }

    pub(crate) fn push(&mut self, entry: Spared) {
        self.entries.push_back(entry);
    }

    /// True where another entry of `bucket` waits: that one lets readers in again, since nobody may
    /// look for it before.
    pub(crate) fn takes_over(&mut self, bucket: u32) -> bool {
        let next = self.entries.iter_mut().find(|entry| entry.probe.bucket == bucket);
        next.map(|entry| entry.began = true).is_some()
    }

    pub(crate) fn pop(&mut self) -> Option<Spared> {
        self.entries.pop_front()
    }
}
