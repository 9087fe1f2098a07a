//! A partition's circular log.
//!
//! Entries are appended at the **tail**; where the next one would overwrite the oldest, the
//! **head** moves over it first. Offsets count words and are 48 bits wide, far wider than the
//! log: an offset from before the head is recognised as dangling, not followed.
//!
//! No entry crosses the log's end: what is left there becomes a pad. (Mapping the memory twice
//! would avoid the pad, but shared mappings have no transparent huge pages as kernels are usually
//! set, and those are worth more.) The log may have any length, so a lap takes the next power of
//! two of offsets, and the low bits of an offset are the place in memory: no division.
//!
//! 1. `head <= tail <= head + lap`, and `tail` is a place in the log.
//! 2. From head to tail lies one place after the other; each starts with a [`Header`].
//! 3. Whatever is at or after the head is whole; only the holder of the partition's lock writes.

use crate::item::{Header, Item};
use crate::protocol::retire;
use crate::words::Words;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A log of which less than this part is left is nearly full.
const NEARLY: u64 = 8;

pub(crate) struct Log {
    words: Words,
    /// Offsets of a lap, a power of two, minus 1.
    lap_mask: u64,
    /// All bits that an offset has.
    offset_mask: u64,
    /// Offset of the oldest entry. Readers load it.
    head: AtomicU64,
    /// Where the next entry goes. Readers take it for a hint.
    tail: AtomicU64,
    /// Where the head was when the log was empty.
    start: AtomicU64,
    /// 1 once the log is nearly full, until it is cleared. A hint to readers, too.
    filled: AtomicU64,
}

impl Log {
    /// An empty log of `words` words with offsets of `offset_bits` bits.
    pub(crate) fn new(words: usize, offset_bits: u32) -> Self {
        let lap = (words as u64).next_power_of_two();
        let offset_mask = (1 << offset_bits) - 1;
        assert!(lap < offset_mask / 4, "offsets are wider than the log");
        Log {
            words: Words::zeroed(words),
            lap_mask: lap - 1,
            offset_mask,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            start: AtomicU64::new(0),
            filled: AtomicU64::new(0),
        }
    }

    /// Words for the blocks of store mode (`fits.rs`): nothing is appended to them, no offset ever
    /// dangles, and offsets are places.
    pub(crate) fn of_blocks(words: Words) -> Self {
        Log {
            words,
            lap_mask: u64::MAX,
            offset_mask: u64::MAX,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            start: AtomicU64::new(0),
            filled: AtomicU64::new(0),
        }
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// Gives pages among the words of `range` back to the system; false where it does not take
    /// them. Nothing that is read there is believed any more.
    pub(crate) fn give_back(&self, range: Range<usize>) -> bool {
        self.words.give_back(range)
    }

    /// For everybody: words from head to tail.
    pub(crate) fn used_words(&self) -> u64 {
        self.age(self.head())
    }

    /// What there is besides the words, for an image.
    pub(crate) fn state(&self) -> [&AtomicU64; 4] {
        [&self.head, &self.tail, &self.start, &self.filled]
    }

    /// Where in [`Log::words`] an offset is.
    #[inline(always)]
    pub(crate) fn place(&self, offset: u64) -> usize {
        (offset & self.lap_mask) as usize
    }

    /// The head as a reader sees it; to be loaded after the fence of `end_read` where it decides
    /// whether bytes were whole.
    #[inline(always)]
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Relaxed)
    }

    /// True where `offset` is not dangling, as of `head`.
    #[inline(always)]
    pub(crate) fn is_after(&self, head: u64, offset: u64) -> bool {
        self.distance(head, offset) <= self.lap_mask
    }

    /// Offsets from `from` to `to`.
    #[inline(always)]
    pub(crate) fn distance(&self, from: u64, to: u64) -> u64 {
        to.wrapping_sub(from) & self.offset_mask
    }

    /// Words written since the entry at `offset`, itself included; no more than a hint to readers.
    #[inline(always)]
    pub(crate) fn age(&self, offset: u64) -> u64 {
        let tail = self.tail.load(Relaxed);
        let age = self.distance(offset, tail);
        // Offsets of a lap that are no places do not count.
        let skipped = self.lap_mask + 1 - self.words.len() as u64;
        if age > tail & self.lap_mask { age.saturating_sub(skipped) } else { age }
    }

    /// True where the entry at `offset` has an age of more than `age`.
    #[inline(always)]
    pub(crate) fn is_older(&self, offset: u64, age: u64) -> bool {
        // Offsets that are no places make an entry seem older than it is.
        self.distance(offset, self.tail.load(Relaxed)) > age && self.age(offset) > age
    }

    /// True once the log is nearly full and something will have to give way, until it is cleared.
    #[inline(always)]
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Relaxed) != 0
    }

    fn is_nearly_full(&self) -> bool {
        let (start, tail) = (self.start.load(Relaxed), self.tail.load(Relaxed));
        let len = self.words.len() as u64;
        // Offsets of a lap that are no places do not count.
        let skipped =
            if self.place(tail) < self.place(start) { self.lap_mask + 1 - len } else { 0 };
        let written = self.distance(start, tail).saturating_sub(skipped);
        self.head.load(Relaxed) != start || written > len - len / NEARLY
    }

    /// The entry at an offset that is not dangling; `None` only to readers who are late.
    #[inline(always)]
    pub(crate) fn item(&self, offset: u64) -> Option<Item<'_>> {
        Item::at(&self.words, self.place(offset))
    }

    /// True where the entry at `offset` was used since it was appended; a hint to readers.
    #[inline(always)]
    pub(crate) fn is_used(&self, offset: u64) -> bool {
        Header::load(&self.words[self.place(offset)]).is_used()
    }

    /// Marks the entry at `offset` as used. Only for the holder of the lock.
    pub(crate) fn mark_used(&self, offset: u64) {
        let word = &self.words[self.place(offset)];
        Header::load(word).marked().store(word);
    }

    /// Marks the entry at `offset` as one that nobody finds; returns the words of its place.
    pub(crate) fn kill(&self, offset: u64) -> usize {
        let word = &self.words[self.place(offset)];
        let header = Header::load(word);
        debug_assert!(header.is_live());
        header.dead().store(word);
        header.words()
    }

    /// Makes place for `words` words and returns its offset; `evict` gets the live entries that
    /// have to go. Only for the holder of the lock.
    pub(crate) fn append(&self, words: usize, evict: &mut impl FnMut(Item<'_>)) -> u64 {
        debug_assert!((1..=self.words.len()).contains(&words));
        let mut tail = self.tail.load(Relaxed);
        let rest = self.words.len() - self.place(tail);
        if words > rest {
            self.make_room(tail, rest, evict);
            Header::pad(rest).store(&self.words[self.place(tail)]);
            tail = self.after(tail, rest);
        }
        self.make_room(tail, words, evict);
        self.tail.store(self.after(tail, words), Relaxed);
        if !self.is_filled() && self.is_nearly_full() {
            self.filled.store(1, Relaxed);
        }
        tail
    }

    /// The offset of the place after one of `words` words.
    fn after(&self, offset: u64, words: usize) -> u64 {
        let next = offset + words as u64;
        let is_at_end = next & self.lap_mask == self.words.len() as u64;
        (if is_at_end { (next | self.lap_mask) + 1 } else { next }) & self.offset_mask
    }

    fn make_room(&self, tail: u64, words: usize, evict: &mut impl FnMut(Item<'_>)) {
        let first = self.head.load(Relaxed);
        let mut head = first;
        while self.distance(head, tail + words as u64) > self.lap_mask + 1 {
            let header = Header::load(&self.words[self.place(head)]);
            if header.is_live() {
                evict(self.item(head).expect("invariant 2"));
            }
            head = self.after(head, header.words());
        }
        if head != first {
            retire(&self.head, head);
        }
    }

    /// Forgets every entry.
    pub(crate) fn clear(&self) {
        let tail = self.tail.load(Relaxed);
        self.start.store(tail, Relaxed);
        self.filled.store(0, Relaxed);
        retire(&self.head, tail);
        // Readers who are late find that what they read is before the head.
        self.give_back(0..self.words.len());
    }

    /// Visits every place from head to tail; the error says what is wrong where. Only for the
    /// holder of the lock.
    pub(crate) fn walk(
        &self,
        mut visit: impl FnMut(u64, Item<'_>),
    ) -> std::result::Result<(), (u64, &'static str)> {
        let (mut at, tail) = (self.head(), self.tail.load(Relaxed));
        while at != tail {
            let wrong = |what| (self.place(at) as u64, what);
            if self.distance(at, tail) > self.lap_mask + 1 {
                return Err(wrong("a place crosses the tail"));
            }
            let item = self.item(at).ok_or(wrong("an entry is longer than the log"))?;
            let words = item.header.words();
            if words == 0 || self.place(at) + words > self.words.len() {
                return Err(wrong("a place is empty or crosses the end"));
            }
            if item.header.used_words() > words {
                return Err(wrong("an entry is longer than its place"));
            }
            visit(at, item);
            at = self.after(at, words);
        }
        Ok(())
    }

    /// Pretends that the log was written until shortly before offsets begin anew; of an empty log.
    #[cfg(test)]
    pub(crate) fn start_at(&self, offset: u64) {
        let offset = offset & self.offset_mask & !self.lap_mask;
        for word in [&self.head, &self.tail, &self.start] {
            word.store(offset, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item;
    use silica_base::Prng;
    use silica_engine::EntryRef;
    use std::collections::VecDeque;

    /// Appends and evictions against a queue, with offsets that begin anew again and again.
    #[test]
    fn the_log_holds_the_newest_entries_in_order() {
        for (words, seed) in [(64, 1), (100, 2), (127, 3), (37, 4), (65, 5)] {
            let log = Log::new(words, 12);
            log.start_at(u64::MAX);
            let (mut prng, mut queue) =
                (Prng::new(seed), VecDeque::<(u64, [u8; 8], Vec<u8>)>::new());
            for number in 0..20_000_u64 {
                let value = vec![number as u8; prng.below(8 * (words as u64 / 4)) as usize];
                let (key, entry) = (number.to_le_bytes(), EntryRef::new(&value));
                let needed = item::words_needed(&key, &entry);
                let offset = log.append(needed, &mut |evicted| {
                    let (_, key, _) = queue.pop_front().expect("only what is there is evicted");
                    assert!(evicted.has_key(&key), "the oldest goes first");
                });
                item::store(&log.words()[log.place(offset)..][..needed], &key, &entry);
                queue.push_back((offset, key, value));
                if prng.one_in(16) {
                    let mut seen = Vec::new();
                    let walked = log.walk(|at, item| {
                        seen.extend((!item.header.is_pad()).then_some(at));
                    });
                    walked.expect("a sound log");
                    assert!(seen.iter().eq(queue.iter().map(|(at, _, _)| at)), "every entry");
                }
                let held: usize = queue.iter().map(|(_, _, v)| 2 + v.len().div_ceil(8)).sum();
                assert!(held <= words && held + words / 2 + 8 > words.min(number as usize));
                for (at, key, _) in &queue {
                    let item = log.item(*at).filter(|_| log.is_after(log.head(), *at));
                    assert!(item.is_some_and(|item| item.has_key(key)));
                }
                let (oldest, newest) = (queue[0].0, queue[queue.len() - 1].0);
                let head = log.head();
                assert!(log.is_after(head, oldest) && log.is_after(head, newest));
                assert!(!log.is_after(head, head.wrapping_sub(1) & log.offset_mask), "dangling");
                assert_eq!(log.age(newest), needed as u64);
                assert!(log.age(oldest) <= words as u64);
            }
        }
    }
}
