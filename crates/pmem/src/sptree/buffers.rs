//! Write buffers in memory (section 4.4.1, middle layer): what was written to a leaf and is in the
//! log, but not in the leaf yet.
//!
//! A buffer has 16 places, each with the slot that its entry will have in the leaf. A place may
//! also say that a key of the leaf is deleted. Whoever writes holds the lock of the buffer's node;
//! readers check the node's version afterwards, as they do for the node's filter.
//!
//! Buffers have numbers and are never given back to the system, so a reader may look at any of them
//! at any time, as it may look at any node.

use super::entry::Torn;
use super::layout::{Slot, head};
use super::leaf::{Leaf, bits};
use super::nodes::BUFFER_BITS;
use super::pieces::Pieces;
use super::sync::{AtomicU64, Ordering};
use silica_device::region::Region;
use std::sync::{Mutex, MutexGuard};

/// Places of a buffer. With twice as many, the bytes written would fall by another quarter, and
/// memory would rise from a third of the leaves to half of them.
pub(crate) const PLACES: usize = 16;
/// Records that a buffer's log has at most: their ordinals have 8 bits.
pub(crate) const RECORDS_MAX: u32 = 255;
/// Bytes of a buffer.
pub(crate) const BUFFER_BYTES: u64 = size_of::<Words>() as u64;

/// Words of a buffer: state, log, tags, owner, places.
type Words = [AtomicU64; 40];
/// Four bitmaps of places, 16 bits each: in use, plain, deleted, of keys that the leaf has.
const STATE: usize = 0;
/// The mark of its records (lower half), and how many there are.
const LOG: usize = 1;
const TAGS: usize = 2;
/// The node's number (lower half), and writes since the number was looked at last.
const OWNER: usize = 4;
const ENTRIES: usize = 8;

/// A place of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buffered {
    /// The slot, or if the key is deleted that of the leaf: it says which key it is.
    pub(crate) slot: Slot,
    pub(crate) is_deleted: bool,
    /// The leaf has an entry of the key.
    pub(crate) is_in_leaf: bool,
}

/// A write buffer.
#[derive(Clone, Copy)]
pub(crate) struct Buffer<'b>(&'b Words);

impl Buffer<'_> {
    #[inline(always)]
    fn word(self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    fn set_word(self, at: usize, word: u64) {
        self.0[at].store(word, Ordering::Relaxed);
    }

    /// A bit for each place in use.
    #[inline(always)]
    pub(crate) fn used(self) -> u64 {
        self.word(STATE) & 0xFFFF
    }

    /// A place in use.
    pub(crate) fn place(self, at: usize) -> Buffered {
        let state = self.word(STATE);
        let tags = self.word(TAGS + at / 8);
        let slot = Slot {
            head: self.word(ENTRIES + 2 * at),
            body: self.word(ENTRIES + 2 * at + 1),
            tag: (tags >> (8 * (at % 8))) as u8,
            is_plain: state >> (16 + at) & 1 == 1,
        };
        let is_deleted = state >> (32 + at) & 1 == 1;
        Buffered { slot, is_deleted, is_in_leaf: state >> (48 + at) & 1 == 1 }
    }

    /// All places in use.
    pub(crate) fn places(self) -> impl Iterator<Item = (usize, Buffered)> {
        bits(self.used()).map(move |at| (at, self.place(at)))
    }

    /// The place of `key`, whose tag is `tag`.
    #[inline]
    pub(crate) fn find<R: Region>(
        self,
        leaf: &Leaf<'_, R>,
        key: &[u8],
        tag: u8,
    ) -> Result<Option<(usize, Buffered)>, Torn> {
        let candidates = self.used() & self.tagged(tag);
        if candidates == 0 {
            return Ok(None);
        }
        let wanted = head(key);
        for at in bits(candidates) {
            let place = self.place(at);
            if place.slot.head == wanted && leaf.has_key(0, &place.slot, key)? {
                return Ok(Some((at, place)));
            }
        }
        Ok(None)
    }

    /// Places with this tag, and perhaps some others.
    #[inline(always)]
    fn tagged(self, tag: u8) -> u64 {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let of_word = |at: usize| {
            let differs = self.word(TAGS + at) ^ (u64::from(tag) * LOW);
            // The top bit of each byte that is 0; a byte of 1 above one of those may have it, too.
            let zero = differs.wrapping_sub(LOW) & !differs & (LOW << 7);
            (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
        };
        of_word(0) | of_word(1) << 8
    }

    /// A place that is free; `None` if there is none.
    pub(crate) fn free_place(self) -> Option<usize> {
        let at = self.used().trailing_ones() as usize;
        (at < PLACES).then_some(at)
    }

    pub(crate) fn set(self, at: usize, place: Buffered) {
        let Buffered { slot, is_deleted, is_in_leaf } = place;
        self.set_word(ENTRIES + 2 * at, slot.head);
        self.set_word(ENTRIES + 2 * at + 1, slot.body);
        let shift = 8 * (at % 8);
        let tags = self.word(TAGS + at / 8) & !(0xFF << shift);
        self.set_word(TAGS + at / 8, tags | u64::from(slot.tag) << shift);
        let flags = 1
            | u64::from(slot.is_plain) << 16
            | u64::from(is_deleted) << 32
            | u64::from(is_in_leaf) << 48;
        self.clear_place(at);
        self.set_word(STATE, self.word(STATE) | flags << at);
    }

    /// The place is free.
    pub(crate) fn clear_place(self, at: usize) {
        self.set_word(STATE, self.word(STATE) & !(0x0001_0001_0001_0001 << at));
    }

    /// Records that the log has for the buffer: if there are any, the leaf has to get another mark
    /// before the buffer may go.
    pub(crate) fn records(self) -> u32 {
        (self.word(LOG) >> 32) as u32
    }

    pub(crate) fn mark(self) -> u32 {
        self.word(LOG) as u32
    }

    pub(crate) fn set_records(self, mark: u32, records: u32) {
        self.set_word(LOG, u64::from(mark) | u64::from(records) << 32);
    }

    /// Empties the buffer: the leaf has all of it, and has this mark.
    pub(crate) fn reset(self, mark: u32) {
        self.set_word(STATE, 0);
        self.set_records(mark, 0);
    }

    /// The number of its node, if it has one.
    pub(crate) fn owner(self) -> Option<u32> {
        (self.word(OWNER) as u32).checked_sub(1)
    }

    /// Gives the buffer to a node, or to none, with this many writes to its credit.
    pub(crate) fn set_owner(self, owner: Option<u32>, writes: u32) {
        let number = owner.map_or(0, |number| u64::from(number) + 1);
        self.set_word(OWNER, number | u64::from(writes) << 32);
    }

    /// Writes since [`Buffer::set_owner`].
    pub(crate) fn writes(self) -> u32 {
        (self.word(OWNER) >> 32) as u32
    }

    pub(crate) fn count_write(self) {
        if self.writes() < u32::MAX {
            self.set_word(OWNER, self.word(OWNER) + (1 << 32));
        }
    }

    /// Entries more than the leaf has by itself.
    pub(crate) fn added(self) -> i64 {
        let of = |place: Buffered| match (place.is_deleted, place.is_in_leaf) {
            (true, true) => -1,
            (false, false) => 1,
            _ => 0,
        };
        self.places().map(|(_, place)| of(place)).sum()
    }
}

/// Which buffers are in use.
#[derive(Default)]
struct Book {
    made: u32,
    free: Vec<u32>,
    /// Where the search for a buffer with few writes goes on.
    hand: u32,
}

/// All buffers.
pub(crate) struct Buffers {
    pieces: Pieces<Words>,
    book: Mutex<Book>,
    /// Buffers in use.
    count: AtomicU64,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Buffers {
            pieces: Pieces::new(BUFFER_BITS),
            book: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no panic while locked")
    }

    /// Buffer `number`, which is not 0 and was made.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Buffer<'_> {
        Buffer(self.pieces.get(number))
    }

    /// Asks the processor for what a search reads first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, number: u32) {
        self.pieces.prefetch(number);
    }

    /// Buffers in use.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// A buffer that is empty and nobody's; `None` if `count_max` are in use.
    pub(crate) fn take(&self, count_max: u64) -> Option<u32> {
        let mut book = self.book();
        if self.count() >= count_max {
            return None;
        }
        let number = book.free.pop().or_else(|| {
            let number = book.made + 1;
            if number >= 1 << BUFFER_BITS {
                return None;
            }
            self.pieces.make(number);
            book.made = number;
            Some(number)
        })?;
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(number)
    }

    /// A buffer that was taken is nobody's any more.
    pub(crate) fn give_back(&self, number: u32) {
        let mut book = self.book();
        self.get(number).set_owner(None, 0);
        book.free.push(number);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The next buffer after those that were returned before, and its node, for a search in turns;
    /// `None` if it is nobody's.
    pub(crate) fn next_in_turn(&self) -> Option<(u32, u32)> {
        let mut book = self.book();
        if book.made == 0 {
            return None;
        }
        book.hand = book.hand % book.made + 1;
        let owner = self.get(book.hand).owner()?;
        Some((book.hand, owner))
    }

    /// Buffers ever made.
    pub(crate) fn made(&self) -> u32 {
        self.book().made
    }

    /// Bytes of the buffers in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.count() * BUFFER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn places_are_found_by_tag_and_keep_what_they_were_given() {
        let buffers = Buffers::new();
        let buffer = buffers.get(buffers.take(2).unwrap());
        let mut prng = Prng::new(1);
        for _ in 0..2000 {
            let mut model: [Option<Buffered>; PLACES] = [None; PLACES];
            buffer.reset(7);
            for _ in 0..40 {
                let at = prng.below(PLACES as u64) as usize;
                let tag = [0, 1, 127, 128, 255][prng.below(5) as usize];
                let slot = Slot { head: prng.next_u64(), body: 3, tag, is_plain: prng.one_in(2) };
                let (is_deleted, is_in_leaf) = (prng.one_in(3), prng.one_in(2));
                let place = Buffered { slot, is_deleted, is_in_leaf };
                if prng.one_in(4) {
                    buffer.clear_place(at);
                    model[at] = None;
                } else {
                    buffer.set(at, place);
                    model[at] = Some(place);
                }
            }
            let expected: Vec<(usize, Buffered)> =
                model.iter().enumerate().filter_map(|(at, place)| Some((at, (*place)?))).collect();
            assert_eq!(buffer.places().collect::<Vec<_>>(), expected);
            for (at, place) in expected {
                assert!(buffer.tagged(place.slot.tag) >> at & 1 == 1, "a tag is missed");
            }
        }
        assert!(buffers.take(2).is_some() && buffers.take(2).is_none());
        buffers.give_back(1);
        assert_eq!((buffers.take(2), buffers.made()), (Some(1), 2));
    }
}
