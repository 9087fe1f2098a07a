//! Removing what has expired before its place is needed.
//!
//! A pass goes over the index, some chains at a time, from the moment when the first entry has
//! expired on. Where no entry ever expires there is none, and a put asks nothing else.

use crate::index::{offset_of, tag_of};
use crate::item::{Form, Item};
use crate::large::{ChunkKey, Gone};
use crate::partition::{Partition, Probe};
use crate::protocol::{begin_write, end_write};
use silica_base::prefetch;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// At least so long from one pass to the next.
const PASS_MS_MIN: u64 = 1000;
/// A cache, which has no need of the room, also waits so many times as long as the pass took.
const PASSES_BETWEEN: u64 = 9;

/// What becomes of an entry that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    Expired,
    /// Its database was cleared.
    Cleared,
    /// A chunk of its large value was evicted.
    Torn,
    /// The list of this chunk is gone.
    Dropped,
}

/// When and where a partition's next pass goes on.
pub(crate) struct Expiry {
    /// No entry that a pass has not yet met expires before; `u64::MAX` where none expires.
    soonest_ms: AtomicU64,
    /// The next pass does not begin before.
    not_before_ms: AtomicU64,
    /// The main bucket with which a pass goes on; 0 between passes.
    next: AtomicU64,
    /// When the pass began.
    began_ms: AtomicU64,
}

impl Default for Expiry {
    fn default() -> Self {
        let [not_before_ms, next, began_ms] = [0; 3].map(AtomicU64::new);
        Expiry { soonest_ms: AtomicU64::new(u64::MAX), not_before_ms, next, began_ms }
    }
}

impl Expiry {
    /// What an image has of it.
    pub(crate) fn state(&self) -> [&AtomicU64; 3] {
        [&self.soonest_ms, &self.not_before_ms, &self.next]
    }

    /// There is nothing that expires.
    pub(crate) fn clear(&self) {
        self.soonest_ms.store(u64::MAX, Relaxed);
        self.next.store(0, Relaxed);
    }

    /// Nothing is known of what expires.
    pub(crate) fn forget(&self) {
        self.soonest_ms.store(0, Relaxed);
    }

    /// An entry expires then; 0 is never.
    #[inline(always)]
    pub(crate) fn note(&self, unix_ms: u64) {
        if unix_ms != 0 && unix_ms < self.soonest_ms.load(Relaxed) {
            self.soonest_ms.store(unix_ms, Relaxed);
        }
    }

    /// For everybody: true where a pass is under way or due.
    pub(crate) fn is_due(&self, now_ms: impl FnOnce() -> u64) -> bool {
        let soonest = self.soonest_ms.load(Relaxed);
        if soonest == u64::MAX && self.next.load(Relaxed) == 0 {
            return false;
        }
        // Of a pass under way it is in the past.
        now_ms() >= soonest.max(self.not_before_ms.load(Relaxed)) || self.next.load(Relaxed) != 0
    }
}

/// Only for the holder of the lock.
impl Partition {
    /// Removes the entry of `key` if it has expired.
    pub(crate) fn reclaim(&self, probe: &Probe, key: &[u8], now_ms: u64) {
        let found = self.index().find(self.log(), probe.bucket as usize, probe.tag, key);
        if found.is_some_and(|found| has_expired(&found.item, now_ms)) {
            self.reclaim_chain(probe.bucket as usize, now_ms);
        }
    }

    /// Removes the list with this number, of a value that is not whole; false if there is none.
    pub(crate) fn remove_torn(&self, probe: &Probe, id: u64, now_ms: u64) -> bool {
        self.sift_chain(probe.bucket as usize, Some(probe.tag), |item| match Gone::of(item) {
            Some(Gone::List(list)) if list.id == id => {
                if has_expired(item, now_ms) {
                    Fate::Expired
                } else {
                    Fate::Torn
                }
            }
            _ => Fate::Stays,
        })
    }

    /// Removes a chunk whose list is gone.
    pub(crate) fn drop_chunk(&self, probe: &Probe, key: &ChunkKey) {
        self.sift_chain(probe.bucket as usize, Some(probe.tag), |item| {
            if item.is_chunk(key) { Fate::Dropped } else { Fate::Stays }
        });
    }

    /// Removes what has expired of a chain, and what belongs to databases that were cleared.
    fn reclaim_chain(&self, main: usize, now_ms: u64) {
        self.sift_chain(main, None, |item| match (has_expired(item, now_ms), self.is_dead(item)) {
            (_, true) => Fate::Cleared,
            (true, _) => Fate::Expired,
            _ => Fate::Stays,
        });
    }

    /// Removes the entries for which `fate` says so; visits all but chunks.
    pub(crate) fn sift(&self, fate: impl Fn(&Item<'_>) -> Fate) {
        let fate = |item: &Item<'_>| match item.header.form() {
            Form::Chunk => Fate::Stays,
            _ => fate(item),
        };
        for main in 0..self.index().main() {
            self.index().prefetch((main + 8).min(self.index().main() - 1));
            self.sift_chain(main, None, fate);
        }
        if self.is_store() {
            self.drop_spares();
        }
    }

    /// Removes the entries of a chain for which `fate` says so; with `tag` visits only those that
    /// have it. True if there were any.
    pub(crate) fn sift_chain(
        &self,
        main: usize,
        tag: Option<u64>,
        fate: impl Fn(&Item<'_>) -> Fate,
    ) -> bool {
        let first = &self.index().bucket(main)[0];
        let (mut began, mut removed) = (false, false);
        let is_sought = |word: u64| word != 0 && tag.is_none_or(|tag| tag_of(word) == tag);
        for slot in self.index().slots(main).filter(|slot| is_sought(slot.load(Relaxed))) {
            let offset = offset_of(slot.load(Relaxed));
            if !self.log().is_there(offset) {
                continue;
            }
            let item = self.log().item(offset).expect("the slot does not dangle");
            let fate = fate(&item);
            if fate == Fate::Stays {
                self.expiry().note(item.expires_unix_ms());
                continue;
            }
            if !removed {
                began = begin_write(first);
                removed = true;
            }
            slot.store(0, Relaxed);
            self.count_gone(&item);
            self.counts.expired.add(u64::from(fate == Fate::Expired));
            self.counts.evicted_from_log.add(u64::from(fate == Fate::Torn));
            if fate != Fate::Dropped {
                self.note_gone(&item);
            }
            if self.is_store() {
                self.give_back(offset as usize);
            } else {
                // Its place is passed over when the head comes there.
                self.counts.live_words.sub(self.log().kill(offset) as u64);
            }
        }
        if removed && self.index().has_spare(main) {
            self.index().compact(main);
        }
        if began {
            end_write(first);
        }
        removed
    }

    /// Goes on with a pass over the index that removes what has expired, or begins one where one
    /// is due; visits `chains` of them at most. True where there is more to do at once.
    pub(crate) fn sweep(&self, chains: usize, now_ms: u64) -> bool {
        let (expiry, index) = (self.expiry(), self.index());
        if !expiry.is_due(|| now_ms) {
            return false;
        }
        let first = expiry.next.load(Relaxed) as usize;
        if first == 0 {
            // What this pass leaves, and what is put meanwhile, says when the next one is due.
            expiry.soonest_ms.store(u64::MAX, Relaxed);
            expiry.began_ms.store(now_ms, Relaxed);
        }
        let end = index.main().min(first + chains);
        for main in first..end {
            index.prefetch((main + 8).min(index.main() - 1));
            if main + 2 < end {
                for slot in &index.bucket(main + 2)[1..] {
                    prefetch(self.log().words(), self.log().place(offset_of(slot.load(Relaxed))));
                }
            }
            self.reclaim_chain(main, now_ms);
        }
        if end < index.main() {
            expiry.next.store(end as u64, Relaxed);
            return true;
        }
        expiry.next.store(0, Relaxed);
        let took = now_ms.saturating_sub(expiry.began_ms.load(Relaxed));
        let mut pause = PASS_MS_MIN;
        if self.is_store() {
            self.drop_spares();
        } else {
            pause = pause.max(took.saturating_mul(PASSES_BETWEEN));
        }
        expiry.not_before_ms.store(now_ms.saturating_add(pause), Relaxed);
        false
    }
}

fn has_expired(item: &Item<'_>, now_ms: u64) -> bool {
    let expires = item.expires_unix_ms();
    expires != 0 && expires <= now_ms
}
