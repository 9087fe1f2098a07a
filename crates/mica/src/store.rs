//! Writes in store mode: nothing gives way, and a batch that does not fit changes nothing.
//!
//! Entries are in blocks of the partition's words (`fits.rs`), which only a holder of the lock
//! takes and gives back, while the readers of the entry's bucket are turned away. A reader that
//! was led to a block before it was given back looks at the bucket's version afterwards, as it
//! does for an update in place, so whatever became of the block meanwhile is not believed.

use crate::fits::{BLOCK_WORDS_MIN, Fits};
use crate::index::{Place, slot};
use crate::item::{self, Form, Header, Item};
use crate::large::ChunkKey;
use crate::pages::Pages;
use crate::partition::{Counts, Partition, Probe};
use crate::undo::Undo;
use silica_engine::EntryRef;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What a partition has besides in store mode.
pub(crate) struct Store {
    fits: Fits,
    /// Words of the space that have become spare buckets.
    spare_words: AtomicU64,
}

/// Words that become spare buckets at a time.
const SPARES_WORDS: usize = 8192;
/// The fewest in which there is one, wherever they begin.
const SPARES_WORDS_MIN: usize = 8;

/// What there was too little of for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// So many words, in one piece.
    Words(usize),
    /// Spare buckets of the index.
    Slots,
}

impl Store {
    pub(crate) fn new(space: &[AtomicU64]) -> Self {
        Store { fits: Fits::new(space), spare_words: AtomicU64::new(0) }
    }

    /// What there is besides the space's words, for an image.
    pub(crate) fn state(&self) -> Vec<u64> {
        std::iter::once(self.spare_words()).chain(self.fits.state()).collect()
    }

    /// Takes over what [`Store::state`] said; false where that was something else.
    pub(crate) fn set_state(&self, state: &[u64]) -> bool {
        let Some((spares, fits)) = state.split_first() else { return false };
        self.spare_words.store(*spares, Relaxed);
        self.fits.set_state(fits)
    }

    /// For everybody: words of the largest free block, or of one that has nearly as many.
    pub(crate) fn largest_free(&self, space: &[AtomicU64]) -> usize {
        self.fits.largest_known(space)
    }

    pub(crate) fn pages(&self) -> &Pages {
        self.fits.pages()
    }

    pub(crate) fn clear(&self, space: &[AtomicU64]) {
        self.fits.clear(space);
        self.spare_words.store(0, Relaxed);
    }

    /// For everybody: words of the space that are spare buckets.
    pub(crate) fn spare_words(&self) -> u64 {
        self.spare_words.load(Relaxed)
    }

    pub(crate) fn walk(
        &self,
        space: &[AtomicU64],
        mut visit: impl FnMut(u64, Item<'_>),
    ) -> Result<(), (u64, &'static str)> {
        self.fits.walk(space, |at, item| visit(at as u64, item))
    }
}

/// Store mode. Only for the holder of the lock.
impl Partition {
    /// True where entries of `words` words in all, with as much as a block may have in excess for
    /// each, fit whatever else happens, and `entries` new ones get slots.
    pub(crate) fn has_room(&self, entries: usize, words: usize) -> bool {
        // What is taken for spares at a time has one in eight words at least.
        let spares = match entries.saturating_sub(self.index().spares_left()) {
            0 => 0,
            missing => SPARES_WORDS_MIN * missing + 2 * SPARES_WORDS,
        };
        self.store().fits.largest() >= words + spares
    }

    /// Makes spare buckets out of some of the space; false where it has no room.
    pub(crate) fn add_spares(&self) -> bool {
        let (store, space) = (self.store(), self.log().words());
        // A little of the whole, and of what is left.
        let most = (space.len() / 64).min(store.fits.largest() / 16);
        let words = most.clamp(SPARES_WORDS_MIN, SPARES_WORDS);
        let Some(place) = store.fits.take_end(space, words) else { return false };
        store.spare_words.store(store.spare_words() + place.len() as u64 + 1, Relaxed);
        self.index().add_spares(place);
        true
    }

    /// Gives the spare buckets' words back to the space, where it is empty.
    pub(crate) fn drop_spares(&self) {
        let store = self.store();
        let Counts { entries, chunks, .. } = &self.counts;
        let is_empty = entries.get() == 0 && chunks.get() == 0 && !self.index().uses_spares();
        if is_empty && store.spare_words() > 0 {
            self.index().reset_spares();
            store.fits.clear(self.log().words());
            store.spare_words.store(0, Relaxed);
            store.fits.pages().add_freed(self.log().words().len());
        }
    }

    /// Maps `key` to `entry`. Readers of the bucket have been turned away. What was changed before
    /// an error is in `undo`.
    pub(crate) fn put_stored<'p>(
        &'p self,
        probe: &Probe,
        key: &[u8],
        entry: &EntryRef<'_>,
        undo: &mut Undo<'p>,
    ) -> Result<(), Shortage> {
        let needed = item::words_needed(key, entry).max(BLOCK_WORDS_MIN);
        self.expiry().note(entry.expires_unix_ms);
        let bucket = probe.bucket as usize;
        let Some(found) = self.index().find(self.log(), bucket, probe.tag, key) else {
            let Some(free) = self.free_slot(bucket, !undo.is_on()) else {
                return Err(Shortage::Slots);
            };
            let at = self.take(needed, undo).ok_or(Shortage::Words(needed))?;
            self.fill(at, (key, entry), probe.form);
            undo.set_slot(self, free, slot(probe.tag, at as u64));
            self.count_new(key, probe.form);
            return Ok(());
        };
        let (old, room) = (found.offset as usize, found.item.header.words());
        self.note_gone(&found.item);
        if (needed..needed + BLOCK_WORDS_MIN).contains(&room) {
            undo.overwriting(self, old, self.block(old));
            self.fill(old, (key, entry), probe.form);
            self.counts.updates_in_place.add(1);
            return Ok(());
        }
        let at = if let Some(at) = self.take(needed, undo) {
            self.release(old, undo);
            at
        } else {
            // The place of the old entry may be what is missing.
            self.release(old, undo);
            self.take(needed, undo).ok_or(Shortage::Words(needed))?
        };
        self.fill(at, (key, entry), probe.form);
        undo.set_slot(self, found.slot, slot(probe.tag, at as u64));
        Ok(())
    }

    /// Puts a chunk, which is new, or nothing.
    pub(crate) fn store_chunk(
        &self,
        probe: &Probe,
        key: &ChunkKey,
        value: &[u8],
    ) -> Result<(), Shortage> {
        let entry = EntryRef::new(value);
        let needed = item::words_needed(key, &entry).max(BLOCK_WORDS_MIN);
        let at = self.take(needed, &mut Undo::new(false)).ok_or(Shortage::Words(needed))?;
        // Long before it is found: readers of its bucket need not wait for that.
        self.fill(at, (key, &entry), Form::Chunk);
        let began = self.begin(probe.bucket);
        let free = self.free_slot(probe.bucket as usize, true);
        if let Some(free) = free {
            free.store(slot(probe.tag, at as u64), Relaxed);
            self.count_new(key, Form::Chunk);
            self.counts.user_bytes.add(value.len() as u64);
        } else {
            self.give_back(at);
        }
        if began {
            self.end(probe.bucket);
        }
        free.map(|_| ()).ok_or(Shortage::Slots)
    }

    /// Removes `key`. Readers of the bucket have been turned away.
    pub(crate) fn delete_stored<'p>(&'p self, probe: &Probe, key: &[u8], undo: &mut Undo<'p>) {
        let found = self.index().find(self.log(), probe.bucket as usize, probe.tag, key);
        if let Some(found) = found {
            undo.set_slot(self, found.slot, 0);
            self.count_gone(&found.item);
            self.note_gone(&found.item);
            self.release(found.offset as usize, undo);
        }
    }

    /// Counts what it means for the number of entries that a slot is set from one word to another.
    pub(crate) fn count_slot(&self, from: u64, to: u64) {
        self.counts.entries.add(u64::from(to != 0));
        self.counts.entries.sub(u64::from(from != 0));
    }

    /// The block in use at `at`.
    fn block(&self, at: usize) -> &[AtomicU64] {
        let words = self.log().words();
        &words[at..at + Header::load(&words[at]).words()]
    }

    /// An empty slot for a key that has none; for want of a spare bucket some are added, if they
    /// may be.
    fn free_slot(&self, bucket: usize, may_add: bool) -> Option<&AtomicU64> {
        loop {
            if let Place::Free(free) = self.index().place(self.log(), bucket) {
                return Some(free);
            }
            if !may_add || !self.add_spares() {
                return None;
            }
        }
    }

    /// Takes a block.
    #[inline]
    fn take<'p>(&'p self, needed: usize, undo: &mut Undo<'p>) -> Option<usize> {
        let space = self.log().words();
        let (at, words) = self.store().fits.take(space, needed)?;
        Header::used(words).store(&space[at]);
        self.counts.live_words.add(words as u64);
        undo.taken(self, at);
        Some(at)
    }

    /// Stores an entry in a block in use.
    #[inline]
    fn fill(&self, at: usize, (key, entry): (&[u8], &EntryRef<'_>), form: Form) {
        let block = self.block(at);
        let is_after_free = Header::load(&block[0]).is_after_free();
        item::store(block, key, entry, form);
        if is_after_free {
            Header::load(&block[0]).with_after_free(true).store(&block[0]);
        }
    }

    /// Gives back the block of an entry that nobody finds any more.
    fn release<'p>(&'p self, at: usize, undo: &mut Undo<'p>) {
        undo.giving_back(self, at, self.block(at), || self.give_back(at));
    }

    /// Gives back a block; returns where the free block begins that it is now a part of.
    pub(crate) fn give_back(&self, at: usize) -> usize {
        self.counts.live_words.sub(self.block(at).len() as u64);
        self.store().fits.give_back(self.log().words(), at)
    }

    /// Takes the block at `at` again, out of the free one that begins at `start`.
    pub(crate) fn take_at(&self, start: usize, at: usize, copy: &[u64]) {
        self.store().fits.take_at(self.log().words(), start, at, copy.len());
        self.counts.live_words.add(copy.len() as u64);
        self.restore(at, copy);
    }

    /// Stores the words that a block had.
    pub(crate) fn restore(&self, at: usize, copy: &[u64]) {
        let block = &self.log().words()[at..at + copy.len()];
        block.iter().zip(copy).for_each(|(word, copy)| word.store(*copy, Relaxed));
    }

    /// Gives back the spare buckets that a chain no longer needs. Readers of the bucket stay turned
    /// away.
    pub(crate) fn tidy_chain(&self, probe: &Probe) {
        if self.index().has_spare(probe.bucket as usize) {
            // A batch that was refused may not have come so far.
            self.begin(probe.bucket);
            self.index().compact(probe.bucket as usize);
        }
    }

    /// Gives up to `most` free pages back to the system; true where there may be more.
    pub(crate) fn give_back_pages(&self, most: usize) -> bool {
        let give_back = |range| self.log().give_back(range);
        self.store().fits.give_back_pages(self.log().words(), most, give_back)
    }
}
