//! A partition's circular logs: the **main** one, and before it a **small** one where the policy
//! wants new entries to prove themselves first.
//!
//! Entries are appended at the **tail**; where the next one would overwrite the oldest, the
//! **head** moves over it first. Offsets count words and are 47 bits wide, far wider than a
//! log: an offset from before the head is recognised as dangling, not followed. One more bit says
//! which log it is.
//!
//! No entry crosses a log's end: what is left there becomes a pad. (Mapping the memory twice
//! would avoid the pad, but shared mappings have no transparent huge pages as kernels are usually
//! set, and those are worth more.) A log may have any length, so a lap takes the next power of
//! two of offsets, and the low bits of an offset are the place in memory, whichever log it is in:
//! no division, no question.
//!
//! 1. `head <= tail <= head + lap`, and `tail` is a place in the log.
//! 2. From head to tail lies one place after the other; each starts with a [`Header`].
//! 3. Whatever is at or after the head is whole; only the holder of the partition's lock writes.

use crate::item::{Header, Item};
use crate::protocol::retire;
use crate::words::{Frames, Words};
use silica_base::prefetch_burst;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A log of which less than this part is left is nearly full.
const NEARLY: u64 = 8;
/// Offsets begin anew after so many laps at least where there is a small log: chains are cleaned
/// every twenty of its laps, of what is no ghost.
const LAPS_MIN_OF_SMALL: u64 = 60;
/// What went from the small log is remembered for so many laps of it: while about as much was
/// written as the main log has.
const GHOST_LAPS: u64 = 9;

/// Which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Main = 0,
    Small = 1,
}

/// Words of a line of memory.
const LINE_WORDS: usize = 8;
/// Lines of an entry that are asked for before it is read; then the processor sees by itself that
/// one follows the other.
const LINES_AHEAD: usize = 8;

pub(crate) struct Log {
    words: Words,
    rings: [Ring; 2],
    /// Offsets of a lap, a power of two, minus 1.
    lap_mask: u64,
    /// The bit of an offset that says which log.
    which_shift: u32,
    /// All other bits that an offset has.
    offset_mask: u64,
}

/// One of the logs.
#[repr(align(64))]
struct Ring {
    /// Places of its first word, and behind its last one.
    start: u64,
    end: u64,
    /// Offset of the oldest entry. Readers load it.
    head: AtomicU64,
    /// Where the next entry goes. Readers take it for a hint.
    tail: AtomicU64,
    /// Where the head was when the log was empty.
    empty: AtomicU64,
    /// 1 once the log is nearly full, until it is cleared. A hint to readers, too.
    filled: AtomicU64,
}

impl Ring {
    fn new(places: Range<usize>, which: u64) -> Self {
        let (start, end) = (places.start as u64, places.end as u64);
        let first = || AtomicU64::new(which | start);
        let (head, tail, empty) = (first(), first(), first());
        Ring { start, end, head, tail, empty, filled: AtomicU64::new(0) }
    }

    fn len(&self) -> u64 {
        self.end - self.start
    }

    fn state(&self) -> [&AtomicU64; 4] {
        [&self.head, &self.tail, &self.empty, &self.filled]
    }
}

impl Log {
    /// Empty logs of `words` words in all, `small` of them for the small one, with offsets of
    /// `offset_bits` bits.
    pub(crate) fn new(words: usize, small: usize, offset_bits: u32, frames: Frames) -> Self {
        let which_shift = offset_bits - 1;
        let offset_mask = (1 << which_shift) - 1;
        assert!(Self::is_wide(words, small, offset_bits), "offsets are wider than the log");
        let lap_mask = (words as u64).next_power_of_two() - 1;
        let rings = [Ring::new(small..words, 0), Ring::new(0..small, 1 << which_shift)];
        let words = Words::new(words, frames);
        Log { words, rings, lap_mask, which_shift, offset_mask }
    }

    /// True where offsets of so many bits are wide enough for a log.
    pub(crate) fn is_wide(words: usize, small: usize, offset_bits: u32) -> bool {
        // A lap of the small log takes as many offsets as one of the main log.
        let laps = if small > 0 { LAPS_MIN_OF_SMALL } else { 4 };
        (words as u64).next_power_of_two() < (1 << (offset_bits - 1)) / laps
    }

    /// Words for the blocks of store mode (`fits.rs`): nothing is appended to them, no offset ever
    /// dangles, and offsets are places.
    pub(crate) fn of_blocks(words: Words) -> Self {
        let (which_shift, mask) = (u64::BITS - 1, u64::MAX >> 1);
        let rings = [Ring::new(0..words.len(), 0), Ring::new(0..0, 1 << which_shift)];
        Log { words, rings, lap_mask: mask, which_shift, offset_mask: mask }
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// See [`Words::reserved_bytes`].
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.words.reserved_bytes()
    }

    /// Gives pages among the words of `range` back to the system; false where it does not take
    /// them. Nothing that is read there is believed any more.
    pub(crate) fn give_back(&self, range: Range<usize>) -> bool {
        self.words.give_back(range)
    }

    /// For everybody: words from heads to tails.
    pub(crate) fn used_words(&self) -> u64 {
        self.rings.iter().map(|ring| self.age(ring.head.load(Relaxed))).sum()
    }

    /// What there is besides the words, for an image: of the main log, then of the small one.
    pub(crate) fn state(&self) -> [&AtomicU64; 8] {
        let [main, small] = self.rings.each_ref().map(Ring::state);
        let [[a, b, c, d], [e, f, g, h]] = [main, small];
        [a, b, c, d, e, f, g, h]
    }

    /// Which log an offset belongs to.
    #[inline(always)]
    pub(crate) fn which(&self, offset: u64) -> Which {
        if offset >> self.which_shift & 1 == 0 { Which::Main } else { Which::Small }
    }

    #[inline(always)]
    fn ring(&self, offset: u64) -> &Ring {
        &self.rings[(offset >> self.which_shift & 1) as usize]
    }

    /// Words of a log.
    pub(crate) fn len(&self, which: Which) -> u64 {
        self.rings[which as usize].len()
    }

    /// Where in [`Log::words`] an offset is.
    #[inline(always)]
    pub(crate) fn place(&self, offset: u64) -> usize {
        (offset & self.lap_mask) as usize
    }

    /// True where `offset` is not dangling. A reader asks after the fence of `end_read` where it
    /// decides whether bytes were whole.
    #[inline(always)]
    pub(crate) fn is_there(&self, offset: u64) -> bool {
        let ring = self.ring(offset);
        self.distance(ring.head.load(Relaxed), offset) <= self.lap_mask
    }

    /// Offsets from `from` to `to`, of the same log.
    #[inline(always)]
    fn distance(&self, from: u64, to: u64) -> u64 {
        to.wrapping_sub(from) & self.offset_mask
    }

    /// Offsets that the head has to go until the entry at `offset` is the oldest.
    pub(crate) fn ahead(&self, offset: u64) -> u64 {
        self.distance(self.ring(offset).head.load(Relaxed), offset)
    }

    /// Offsets from the entry at `offset`, dangling or not, to the tail.
    pub(crate) fn behind(&self, offset: u64) -> u64 {
        self.distance(offset, self.ring(offset).tail.load(Relaxed))
    }

    /// True where an entry was in the small log, and went not long ago.
    pub(crate) fn is_ghost(&self, offset: u64) -> bool {
        self.which(offset) == Which::Small
            && !self.is_there(offset)
            && self.behind(offset) <= GHOST_LAPS * (self.lap_mask + 1)
    }

    /// Words written since the entry at `offset`, itself included; no more than a hint to readers.
    #[inline(always)]
    pub(crate) fn age(&self, offset: u64) -> u64 {
        let ring = self.ring(offset);
        let tail = ring.tail.load(Relaxed);
        let age = self.distance(offset, tail);
        // Offsets of a lap that are no places do not count.
        let skipped = self.lap_mask + 1 - ring.len();
        let is_of_this_lap = age <= (tail & self.lap_mask) - ring.start;
        if is_of_this_lap { age } else { age.saturating_sub(skipped) }
    }

    /// True where the entry at `offset` has an age of more than `age`.
    #[inline(always)]
    pub(crate) fn is_older(&self, offset: u64, age: u64) -> bool {
        // Offsets that are no places make an entry seem older than it is.
        self.distance(offset, self.ring(offset).tail.load(Relaxed)) > age && self.age(offset) > age
    }

    /// True once the main log is nearly full and something will have to give way, until it is
    /// cleared.
    #[inline(always)]
    pub(crate) fn is_filled(&self) -> bool {
        self.rings[0].filled.load(Relaxed) != 0
    }

    /// True where another `words` words push something out of the main log, or have done so.
    pub(crate) fn is_full(&self, words: usize) -> bool {
        let ring = &self.rings[0];
        ring.filled.load(Relaxed) != 0 && self.written(ring) + words as u64 > ring.len()
    }

    /// Words written since the log was empty, or more than it has.
    fn written(&self, ring: &Ring) -> u64 {
        let (empty, tail) = (ring.empty.load(Relaxed), ring.tail.load(Relaxed));
        if ring.head.load(Relaxed) != empty {
            return u64::MAX / 2;
        }
        // Offsets of a lap that are no places do not count.
        let has_skipped = self.place(tail) < self.place(empty);
        let skipped = if has_skipped { self.lap_mask + 1 - ring.len() } else { 0 };
        self.distance(empty, tail).saturating_sub(skipped)
    }

    /// The entry at an offset that is not dangling; `None` only to readers who are late.
    #[inline(always)]
    pub(crate) fn item(&self, offset: u64) -> Option<Item<'_>> {
        Item::at(&self.words, self.place(offset))
    }

    /// Asks for the other lines of the entry at `offset`, whose first line has arrived by now.
    #[inline]
    pub(crate) fn prefetch_rest(&self, offset: u64) {
        let place = self.place(offset);
        // A place that is being overwritten may say anything.
        let header = self.words.get(place).map(Header::load);
        let length = header.map_or(0, Header::words).min(LINES_AHEAD * LINE_WORDS);
        // From the second line on; entries begin anywhere in a line.
        let first = LINE_WORDS - place % LINE_WORDS;
        (first..length).step_by(LINE_WORDS).for_each(|at| prefetch_burst(&self.words, place + at));
    }

    /// How often the entry at `offset` was used since it was appended, as far as that was noted;
    /// a hint to readers.
    #[inline(always)]
    pub(crate) fn uses(&self, offset: u64) -> u64 {
        Header::load(&self.words[self.place(offset)]).uses()
    }

    /// Notes how often the entry at `offset` was used. Only for the holder of the lock.
    pub(crate) fn set_uses(&self, offset: u64, uses: u64) {
        let word = &self.words[self.place(offset)];
        Header::load(word).with_uses(uses).store(word);
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
    /// have to go, and where they are. Only for the holder of the lock.
    pub(crate) fn append(
        &self,
        which: Which,
        words: usize,
        evict: &mut impl FnMut(u64, Item<'_>),
    ) -> u64 {
        let ring = &self.rings[which as usize];
        debug_assert!((1..=ring.len() as usize).contains(&words));
        let mut tail = ring.tail.load(Relaxed);
        let rest = ring.end as usize - self.place(tail);
        if words > rest {
            self.make_room(ring, tail, rest, evict);
            Header::pad(rest).store(&self.words[self.place(tail)]);
            tail = self.after(ring, tail, rest);
        }
        self.make_room(ring, tail, words, evict);
        ring.tail.store(self.after(ring, tail, words), Relaxed);
        if ring.filled.load(Relaxed) == 0 && self.written(ring) > ring.len() - ring.len() / NEARLY {
            ring.filled.store(1, Relaxed);
        }
        tail
    }

    /// The offset of the place after one of `words` words.
    fn after(&self, ring: &Ring, offset: u64, words: usize) -> u64 {
        let is_at_end = (self.place(offset) + words) as u64 == ring.end;
        let next = if is_at_end {
            (offset | self.lap_mask) + 1 + ring.start
        } else {
            offset + words as u64
        };
        offset & !self.offset_mask | next & self.offset_mask
    }

    fn make_room(
        &self,
        ring: &Ring,
        tail: u64,
        words: usize,
        evict: &mut impl FnMut(u64, Item<'_>),
    ) {
        let first = ring.head.load(Relaxed);
        let mut head = first;
        while self.distance(head, tail + words as u64) > self.lap_mask + 1 {
            let header = Header::load(&self.words[self.place(head)]);
            if header.is_live() {
                evict(head, self.item(head).expect("invariant 2"));
            }
            head = self.after(ring, head, header.words());
        }
        if head != first {
            retire(&ring.head, head);
        }
    }

    /// Moves the head over `words` words, or a part of a place more, unless `free` words of the log
    /// are free before; `evict` is as for [`Log::append`]. Only for the holder of the lock.
    pub(crate) fn go_ahead(
        &self,
        which: Which,
        (words, free): (u64, u64),
        evict: &mut impl FnMut(u64, Item<'_>),
    ) {
        let ring = &self.rings[which as usize];
        let (first, tail) = (ring.head.load(Relaxed), ring.tail.load(Relaxed));
        let (mut head, mut gone) = (first, 0);
        while head != tail && gone < words && ring.len() - self.age(head) < free {
            let header = Header::load(&self.words[self.place(head)]);
            if header.is_live() {
                evict(head, self.item(head).expect("invariant 2"));
            }
            gone += header.words() as u64;
            head = self.after(ring, head, header.words());
        }
        if head != first {
            retire(&ring.head, head);
        }
    }

    /// Forgets every entry.
    pub(crate) fn clear(&self) {
        for ring in &self.rings {
            let tail = ring.tail.load(Relaxed);
            ring.empty.store(tail, Relaxed);
            ring.filled.store(0, Relaxed);
            retire(&ring.head, tail);
        }
        // Readers who are late find that what they read is before the head.
        self.give_back(0..self.words.len());
    }

    /// Visits every place from head to tail of both logs; the error says what is wrong where. Only
    /// for the holder of the lock.
    pub(crate) fn walk(
        &self,
        mut visit: impl FnMut(u64, Item<'_>),
    ) -> std::result::Result<(), (u64, &'static str)> {
        self.rings.iter().try_for_each(|ring| self.walk_ring(ring, &mut visit))
    }

    fn walk_ring(
        &self,
        ring: &Ring,
        visit: &mut impl FnMut(u64, Item<'_>),
    ) -> std::result::Result<(), (u64, &'static str)> {
        let (mut at, tail) = (ring.head.load(Relaxed), ring.tail.load(Relaxed));
        while at != tail {
            let wrong = |what| (self.place(at) as u64, what);
            if self.distance(at, tail) > self.lap_mask + 1 {
                return Err(wrong("a place crosses the tail"));
            }
            let item = self.item(at).ok_or(wrong("an entry is longer than the log"))?;
            let words = item.header.words();
            if words == 0 || self.place(at) + words > ring.end as usize {
                return Err(wrong("a place is empty or crosses the end"));
            }
            if item.header.used_words() > words {
                return Err(wrong("an entry is longer than its place"));
            }
            visit(at, item);
            at = self.after(ring, at, words);
        }
        Ok(())
    }

    /// Pretends that the logs were written until shortly before offsets begin anew; of empty logs.
    #[cfg(test)]
    pub(crate) fn start_at(&self, offset: u64) {
        for (ring, which) in self.rings.iter().zip(0..) {
            let lap = offset & self.offset_mask & !self.lap_mask;
            let offset = lap | which << self.which_shift | ring.start;
            for word in [&ring.head, &ring.tail, &ring.empty] {
                word.store(offset, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{self, Form};
    use silica_base::Prng;
    use silica_engine::EntryRef;
    use std::collections::VecDeque;

    const BOTH: [Which; 2] = [Which::Main, Which::Small];

    /// Appends and evictions against a queue, with offsets that begin anew again and again.
    #[test]
    fn the_log_holds_the_newest_entries_in_order() {
        let kinds = [(64, 1), (100, 2), (127, 3), (37, 4), (65, 5)];
        for ((words, seed), which) in kinds.into_iter().flat_map(|k| BOTH.map(|which| (k, which))) {
            let other = [50, 80][seed as usize % 2];
            let small = if which == Which::Small { words } else { other };
            let log = Log::new(words + other, small, 16, Frames::Advised);
            assert_eq!(log.len(which), words as u64);
            log.start_at(u64::MAX);
            // What happens in the other log changes nothing in this one.
            let others = BOTH[1 - which as usize];
            let (mut prng, mut queue) =
                (Prng::new(seed), VecDeque::<(u64, [u8; 8], Vec<u8>)>::new());
            for number in 0..20_000_u64 {
                let value = vec![number as u8; prng.below(8 * (words as u64 / 4)) as usize];
                let (key, entry) = (number.to_le_bytes(), EntryRef::new(&value));
                let needed = item::words_needed(&key, &entry);
                let noise = log.append(others, 2, &mut |_, _| ());
                let place = &log.words()[log.place(noise)..][..2];
                item::store(place, &[7; 8], &EntryRef::new(b""), Form::Whole);
                let offset = log.append(which, needed, &mut |at, evicted| {
                    let (offset, key, _) = queue.pop_front().expect("only what is there goes");
                    assert_eq!(at, offset);
                    assert!(evicted.has_key(&key), "the oldest goes first");
                });
                let place = &log.words()[log.place(offset)..][..needed];
                item::store(place, &key, &entry, Form::Whole);
                queue.push_back((offset, key, value));
                if prng.one_in(16) {
                    let mut seen = Vec::new();
                    let walked = log.walk(|at, item| {
                        let is_of_it = log.which(at) == which && !item.header.is_pad();
                        seen.extend(is_of_it.then_some(at));
                    });
                    walked.expect("a sound log");
                    assert!(seen.iter().eq(queue.iter().map(|(at, _, _)| at)), "every entry");
                }
                let held: usize = queue.iter().map(|(_, _, v)| 2 + v.len().div_ceil(8)).sum();
                assert!(held <= words && held + words / 2 + 8 > words.min(number as usize));
                for (at, key, _) in &queue {
                    let item = log.item(*at).filter(|_| log.is_there(*at));
                    assert!(item.is_some_and(|item| item.has_key(key)));
                }
                let (oldest, newest) = (queue[0].0, queue[queue.len() - 1].0);
                assert!(log.is_there(oldest) && log.is_there(newest));
                let head = log.ring(oldest).head.load(Relaxed);
                let before = oldest & !log.offset_mask | head.wrapping_sub(1) & log.offset_mask;
                assert!(!log.is_there(before), "dangling");
                assert_eq!(log.age(newest), needed as u64);
                assert!(log.age(oldest) <= words as u64);
            }
        }
    }
}
