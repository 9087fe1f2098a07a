//! Store mode's memory: segregated fits in one space, with boundary tags.
//!
//! A partition's words are **blocks**, one after the other. A block in use is the place of an
//! entry (`item.rs`), whose header says how many words it has and whether the block before it is
//! free; so entries carry nothing for the allocator. A free block is
//!
//! ```text
//! word 0      header: free, words
//! word 1      next and previous block of its list, each as offset + 1 in 32 bits; 0 is none
//! ...
//! last word   its words, by which the block after it finds its start; not where the space ends
//! ```
//!
//! Free blocks are in lists by size: one for each number of words while it is small, eight for
//! each power of two beyond. An entry gets a block of the smallest class that has one in which it
//! fits; the rest of that block becomes a free one again. A block that is given back becomes one
//! with its free neighbours at once, so that nothing needs to be moved, ever.
//!
//! 1. Blocks lie one after the other from the first word to the end; each has three words or more.
//! 2. No two free blocks are neighbours. The header after a free block says so, and no other.
//! 3. A free block is in the list of its class and in no other; the bit of a class is set where
//!    its list is not empty.
//!
//! Readers never look at a list. What they may see of a block that is given back and used again is
//! recognised by the version of the bucket that led them there (`protocol.rs`).

use crate::item::{Header, Item, PLACE_WORDS_MAX};
use crate::pages::Pages;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Words of the smallest block.
pub(crate) const BLOCK_WORDS_MIN: usize = 3;
/// Words of a space: offsets have 32 bits in lists.
pub(crate) const SPACE_WORDS_MAX: usize = u32::MAX as usize - 1;
/// Below so many words every number has its own class.
const EXACT_WORDS: usize = 64;
const EXACT_CLASSES: usize = EXACT_WORDS - BLOCK_WORDS_MIN;
/// Classes of a power of two, as a power of two.
const STEP_BITS: u32 = 3;
const CLASSES: usize = EXACT_CLASSES + ((32 - EXACT_WORDS.ilog2()) << STEP_BITS) as usize;
/// Blocks of an entry's own class that are tried before a larger class is asked.
const TRIES: usize = 8;

/// The lists of free blocks of a space. All methods are for the holder of the partition's lock,
/// unless they say something else.
pub(crate) struct Fits {
    /// First block of each class, as offset + 1.
    heads: [AtomicU32; CLASSES],
    /// A bit for each class that has blocks.
    filled: [AtomicU64; CLASSES.div_ceil(64)],
    pages: Pages,
}

/// The class of blocks of so many words.
fn class_of(words: usize) -> usize {
    if words < EXACT_WORDS {
        return words - BLOCK_WORDS_MIN;
    }
    let power = words.ilog2();
    let step = (words >> (power - STEP_BITS)) & ((1 << STEP_BITS) - 1);
    EXACT_CLASSES + ((power - EXACT_WORDS.ilog2()) << STEP_BITS) as usize + step
}

/// Words of the smallest block of a class.
fn least_of(class: usize) -> usize {
    let Some(beyond) = class.checked_sub(EXACT_CLASSES) else { return class + BLOCK_WORDS_MIN };
    let (power, step) = (beyond >> STEP_BITS, beyond % (1 << STEP_BITS));
    (EXACT_WORDS + ((step * EXACT_WORDS) >> STEP_BITS)) << power
}

fn next_of(space: &[AtomicU64], block: usize) -> u32 {
    space[block + 1].load(Relaxed) as u32
}

fn set_links(space: &[AtomicU64], block: usize, next: u32, previous: u32) {
    space[block + 1].store(u64::from(next) | u64::from(previous) << 32, Relaxed);
}

impl Fits {
    /// The lists of `space`, all of which is free.
    pub(crate) fn new(space: &[AtomicU64]) -> Self {
        assert!((BLOCK_WORDS_MIN..=SPACE_WORDS_MAX).contains(&space.len()), "a space has offsets");
        let fits = Fits {
            heads: [const { AtomicU32::new(0) }; CLASSES],
            filled: [const { AtomicU64::new(0) }; CLASSES.div_ceil(64)],
            pages: Pages::new(space.len()),
        };
        fits.clear(space);
        fits
    }

    /// What there is besides the space's words, for an image.
    pub(crate) fn state(&self) -> impl Iterator<Item = u64> {
        let heads = self.heads.iter().map(|head| u64::from(head.load(Relaxed)));
        heads.chain(self.filled.iter().map(|bits| bits.load(Relaxed)))
    }

    /// Takes over what [`Fits::state`] said; false where that was something else.
    pub(crate) fn set_state(&self, state: &[u64]) -> bool {
        if state.len() != CLASSES + self.filled.len() {
            return false;
        }
        let (heads, filled) = state.split_at(CLASSES);
        self.heads.iter().zip(heads).for_each(|(to, from)| to.store(*from as u32, Relaxed));
        self.filled.iter().zip(filled).for_each(|(to, from)| to.store(*from, Relaxed));
        self.pages.forget();
        true
    }

    /// Frees everything.
    pub(crate) fn clear(&self, space: &[AtomicU64]) {
        self.heads.iter().for_each(|head| head.store(0, Relaxed));
        self.filled.iter().for_each(|bits| bits.store(0, Relaxed));
        self.make_free(space, 0, space.len());
    }

    /// The block in which `words` words fit best, as offset and number of words; an entry is to be
    /// stored there at once. `None` where there is none.
    pub(crate) fn take(&self, space: &[AtomicU64], words: usize) -> Option<(usize, usize)> {
        let words = words.max(BLOCK_WORDS_MIN);
        let block = self.find(space, words)?;
        let all = self.unlink(space, block);
        self.pages.touch(block, words);
        let rest = all - words;
        if rest >= BLOCK_WORDS_MIN {
            self.make_free(space, block + words, rest);
            return Some((block, words));
        }
        self.tell_next(space, block + all, false);
        Some((block, all))
    }

    /// Takes about `words` words of the end of one of the largest free blocks, for what is no
    /// entry; `None` where it has less. Returns where they are, without the first.
    pub(crate) fn take_end(&self, space: &[AtomicU64], words: usize) -> Option<Range<usize>> {
        let class = class_of(self.largest().max(BLOCK_WORDS_MIN));
        let block = (self.heads[class].load(Relaxed) as usize).checked_sub(1)?;
        let all = Header::load(&space[block]).free_words();
        let words = if all < words + BLOCK_WORDS_MIN { all } else { words };
        if all < words || words > PLACE_WORDS_MAX {
            return None;
        }
        self.unlink(space, block);
        let at = block + all - words;
        self.pages.touch(at, words);
        Header::pad(words).store(&space[at]);
        if at > block {
            self.make_free(space, block, at - block);
        }
        self.tell_next(space, block + all, false);
        Some(at + 1..block + all)
    }

    fn find(&self, space: &[AtomicU64], words: usize) -> Option<usize> {
        let class = class_of(words);
        let fitting = |from: u32, tries: usize| {
            let list = self.list(space, from).take(tries);
            list.map(|block| (block, Header::load(&space[block]).free_words()))
        };
        let fits = |(block, all): (usize, usize)| (all >= words).then_some(block);
        let own = self.heads[class].load(Relaxed);
        fitting(own, TRIES)
            .find_map(fits)
            .or_else(|| {
                let larger =
                    self.filled_from(class + 1).map(|class| self.heads[class].load(Relaxed));
                larger.map(|head| head as usize - 1)
                // Rather than to say that there is none, all of its class are looked at.
            })
            .or_else(|| fitting(own, usize::MAX).find_map(fits))
    }

    /// The blocks of a list.
    fn list<'s>(&self, space: &'s [AtomicU64], mut at: u32) -> impl Iterator<Item = usize> + 's {
        std::iter::from_fn(move || {
            let block = (at as usize).checked_sub(1)?;
            at = next_of(space, block);
            Some(block)
        })
    }

    /// The first class from `class` on that has blocks.
    fn filled_from(&self, class: usize) -> Option<usize> {
        let mut word = class / 64;
        let mut bits = self.filled.get(word)?.load(Relaxed) & (u64::MAX << (class % 64));
        while bits == 0 {
            word += 1;
            bits = self.filled.get(word)?.load(Relaxed);
        }
        Some(64 * word + bits.trailing_zeros() as usize)
    }

    /// Gives back the block at `at`; returns where the free block begins that it is now a part of.
    pub(crate) fn give_back(&self, space: &[AtomicU64], at: usize) -> usize {
        let header = Header::load(&space[at]);
        let (mut start, mut words) = (at, header.words());
        self.pages.add_freed(words);
        if let Some(word) = space.get(at + words)
            && Header::load(word).is_free()
        {
            words += self.unlink(space, at + words);
        }
        if header.is_after_free() {
            start -= space[at - 1].load(Relaxed) as usize;
            words += self.unlink(space, start);
        }
        self.make_free(space, start, words);
        start
    }

    /// Takes exactly the `words` words at `at` out of the free block that begins at `start`: the
    /// reverse of [`Fits::give_back`]. Its header is the caller's to store.
    pub(crate) fn take_at(&self, space: &[AtomicU64], start: usize, at: usize, words: usize) {
        let end = start + self.unlink(space, start);
        debug_assert!(start <= at && at + words <= end, "the block is a part of a free one");
        self.pages.touch(at, words);
        if start < at {
            self.make_free(space, start, at - start);
        }
        if at + words < end {
            self.make_free(space, at + words, end - at - words);
        } else {
            self.tell_next(space, end, false);
        }
    }

    /// Enters a block, of which no neighbour is free.
    fn make_free(&self, space: &[AtomicU64], block: usize, words: usize) {
        self.pages.touch(block, 2);
        Header::free(words).store(&space[block]);
        let class = class_of(words);
        let head = self.heads[class].load(Relaxed);
        set_links(space, block, head, 0);
        if let Some(next) = (head as usize).checked_sub(1) {
            set_links(space, next, next_of(space, next), block as u32 + 1);
        }
        self.heads[class].store(block as u32 + 1, Relaxed);
        let filled = &self.filled[class / 64];
        filled.store(filled.load(Relaxed) | 1 << (class % 64), Relaxed);
        if block + words < space.len() {
            self.pages.touch(block + words - 1, 1);
            space[block + words - 1].store(words as u64, Relaxed);
            self.tell_next(space, block + words, true);
        }
    }

    /// Tells the block in use at `at` whether the one before it is free.
    fn tell_next(&self, space: &[AtomicU64], at: usize, is_free: bool) {
        if let Some(word) = space.get(at) {
            Header::load(word).with_after_free(is_free).store(word);
        }
    }

    /// Takes a block out of its list; returns its words.
    fn unlink(&self, space: &[AtomicU64], block: usize) -> usize {
        let words = Header::load(&space[block]).free_words();
        let links = space[block + 1].load(Relaxed);
        let (next, previous) = (links as u32, (links >> 32) as u32);
        if let Some(after) = (next as usize).checked_sub(1) {
            set_links(space, after, next_of(space, after), previous);
        }
        if let Some(before) = (previous as usize).checked_sub(1) {
            let before_it = (space[before + 1].load(Relaxed) >> 32) as u32;
            set_links(space, before, next, before_it);
        } else {
            let class = class_of(words);
            self.heads[class].store(next, Relaxed);
            if next == 0 {
                let filled = &self.filled[class / 64];
                filled.store(filled.load(Relaxed) & !(1 << (class % 64)), Relaxed);
            }
        }
        words
    }

    /// For everybody: the words that the largest free block has at least; it may have an eighth
    /// more.
    pub(crate) fn largest(&self) -> usize {
        let highest = |(at, bits): (usize, &AtomicU64)| {
            let bits = bits.load(Relaxed);
            (bits != 0).then(|| least_of(64 * at + bits.ilog2() as usize))
        };
        self.filled.iter().enumerate().rev().find_map(highest).unwrap_or(0)
    }

    /// For everybody: words of one of the largest free blocks, an eighth less than the largest has
    /// at most.
    pub(crate) fn largest_known(&self, space: &[AtomicU64]) -> usize {
        let least = self.largest();
        let head = if least == 0 { 0 } else { self.heads[class_of(least)].load(Relaxed) };
        let header = (head as usize).checked_sub(1).map(|block| Header::load(&space[block]));
        // Whoever has no lock may see any word there.
        let known = header.map_or(least, Header::free_words);
        known.clamp(least, least + least / 8)
    }

    /// For everybody.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Gives back up to `most` pages that lie in free blocks; true where there may be more.
    pub(crate) fn give_back_pages(
        &self,
        space: &[AtomicU64],
        most: usize,
        give_back: impl Fn(Range<usize>) -> bool,
    ) -> bool {
        let heads = self.heads[EXACT_CLASSES..].iter().map(|head| head.load(Relaxed));
        let blocks = heads.flat_map(|head| self.list(space, head));
        // But for the words that make it a free block.
        let free =
            blocks.map(|block| block + 2..block + Header::load(&space[block]).free_words() - 1);
        self.pages.give_back(free, most, give_back)
    }

    /// Visits every block in use; the error says what is wrong where.
    pub(crate) fn walk(
        &self,
        space: &[AtomicU64],
        mut visit: impl FnMut(usize, Item<'_>),
    ) -> Result<(), (u64, &'static str)> {
        let (mut at, mut was_free, mut free) = (0, false, Vec::new());
        while at < space.len() {
            let wrong = |what| Err((at as u64, what));
            let header = Header::load(&space[at]);
            let words = if header.is_free() { header.free_words() } else { header.words() };
            let end = at + words;
            if words < BLOCK_WORDS_MIN || end > space.len() {
                return wrong("a block is too small or crosses the end");
            }
            if header.is_free() {
                if was_free {
                    return wrong("a free block follows a free block");
                }
                if end < space.len() && space[end - 1].load(Relaxed) != words as u64 {
                    return wrong("a free block's last word is not its size");
                }
                free.push(at);
            } else {
                if header.is_after_free() != was_free {
                    return wrong("a block is wrong about the one before it");
                }
                match Item::at(space, at) {
                    Some(item) if header.used_words() <= words => visit(at, item),
                    _ => return wrong("an entry is longer than its block"),
                }
            }
            was_free = header.is_free();
            at = end;
        }
        self.verify_lists(space, free)
    }

    /// Checks invariant 3, given all free blocks in their order.
    fn verify_lists(
        &self,
        space: &[AtomicU64],
        free: Vec<usize>,
    ) -> Result<(), (u64, &'static str)> {
        let mut listed = Vec::new();
        for (class, head) in self.heads.iter().enumerate() {
            let bit = self.filled[class / 64].load(Relaxed) >> (class % 64) & 1;
            let mut previous = 0;
            if (bit == 1) != (head.load(Relaxed) != 0) {
                return Err((0, "the bit of a class is wrong"));
            }
            for block in self.list(space, head.load(Relaxed)) {
                let (header, links) = (Header::load(&space[block]), &space[block + 1]);
                let is_right = header.is_free() && class_of(header.free_words()) == class;
                if !is_right || links.load(Relaxed) >> 32 != previous || listed.len() > free.len() {
                    return Err((block as u64, "a list of free blocks is wrong"));
                }
                previous = block as u64 + 1;
                listed.push(block);
            }
        }
        listed.sort_unstable();
        if listed == free { Ok(()) } else { Err((0, "a free block is in no list or in two")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Form, store, words_needed};
    use crate::words::Words;
    use silica_base::{Prng, test_size};
    use silica_engine::EntryRef;

    #[test]
    fn classes_hold_what_their_numbers_say() {
        for class in 0..CLASSES {
            let least = least_of(class);
            assert_eq!(class_of(least), class);
            assert!(class == 0 || class_of(least - 1) == class - 1);
        }
        assert_eq!(class_of(SPACE_WORDS_MAX), CLASSES - 1);
    }

    /// A space as a model: the blocks in use, in their order.
    struct Model {
        words: Words,
        fits: Fits,
        used: Vec<(usize, usize)>,
    }

    impl Model {
        fn new(words: usize) -> Self {
            let words = Words::zeroed(words);
            let fits = Fits::new(&words);
            Model { words, fits, used: Vec::new() }
        }

        /// The free intervals, by the model.
        fn gaps(&self) -> Vec<usize> {
            let ends = [0].into_iter().chain(self.used.iter().map(|(at, words)| at + words));
            let starts = self.used.iter().map(|(at, _)| *at).chain([self.words.len()]);
            starts.zip(ends).map(|(start, end)| start - end).collect()
        }

        fn take(&mut self, value: &[u8]) -> bool {
            let entry = EntryRef::new(value);
            let needed = words_needed(b"key", &entry);
            let most = self.gaps().into_iter().max().expect("one more than blocks");
            let Some((at, words)) = self.fits.take(&self.words, needed) else {
                assert!(most < needed.max(BLOCK_WORDS_MIN), "{needed} fit in {most}");
                return false;
            };
            assert!((needed..needed.max(3) + BLOCK_WORDS_MIN).contains(&words));
            store(&self.words[at..at + words], b"key", &entry, Form::Whole);
            let place = self.used.partition_point(|(other, _)| *other < at);
            self.used.insert(place, (at, words));
            true
        }

        fn verify(&self) {
            let mut seen = Vec::new();
            let visit = |at, item: Item<'_>| seen.push((at, item.header.words()));
            self.fits.walk(&self.words, visit).expect("every invariant");
            assert_eq!(seen, self.used);
            let most = self.gaps().into_iter().max().expect("one more than blocks");
            let least = self.fits.largest();
            assert!(least <= most && most <= least + least / 8, "{least} is about {most}");
        }
    }

    #[test]
    fn blocks_are_split_and_become_one_again() {
        let mut prng = Prng::new(1);
        for words in [3, 20, 64, 500, 3000] {
            let mut model = Model::new(words);
            let (mut full, mut whole) = (0, 0);
            for round in 0..test_size(6000, 60_000, 6_000_000) {
                // Phases of growing and of shrinking, so that it is full and empty at times.
                if prng.one_in(if round / 300 % 2 == 0 { 4 } else { 2 }) && !model.used.is_empty() {
                    let (at, words) =
                        model.used.remove(prng.below(model.used.len() as u64) as usize);
                    let start = model.fits.give_back(&model.words, at);
                    if prng.one_in(3) {
                        // And back again, exactly where it was.
                        model.fits.take_at(&model.words, start, at, words);
                        let place = &model.words[at..at + words];
                        store(place, b"key", &EntryRef::new(b""), Form::Whole);
                        let header = Header::load(&model.words[at]);
                        header.with_after_free(start < at).store(&model.words[at]);
                        let walked = model.fits.walk(&model.words, |_, _| {});
                        walked.expect("every invariant");
                        assert_eq!(model.fits.give_back(&model.words, at), start);
                    }
                } else {
                    let bytes = if prng.one_in(20) { words as u64 * 3 } else { 60 };
                    full += u64::from(!model.take(&vec![7; prng.below(bytes) as usize]));
                }
                whole += u64::from(model.used.is_empty());
                if round % 8 == 0 || words < 100 {
                    model.verify();
                }
            }
            assert!(
                full > 10 && (whole > 10 || words > 100),
                "{words}: {full} full, {whole} whole"
            );
            for (at, _) in std::mem::take(&mut model.used) {
                model.fits.give_back(&model.words, at);
            }
            assert_eq!(Header::load(&model.words[0]), Header::free(words), "one block again");
        }
    }

    #[test]
    fn what_is_damaged_is_found() {
        let damaged = |damage: &dyn Fn(&Model)| {
            let mut model = Model::new(200);
            (0..10).for_each(|n| assert!(model.take(&vec![1; 8 * n])));
            for at in [model.used[3].0, model.used[6].0] {
                model.fits.give_back(&model.words, at);
            }
            model.fits.walk(&model.words, |_, _| {}).expect("every invariant");
            damage(&model);
            model.fits.walk(&model.words, |_, _| {}).expect_err("found").1
        };
        let add = |at: usize, n: u64| {
            move |model: &Model| model.words[at].store(model.words[at].load(Relaxed) + n, Relaxed)
        };
        let sizes = (0..10).map(|n: usize| (2 + n).max(3));
        let starts: Vec<usize> = (0..10).map(|n| sizes.clone().take(n).sum()).collect();
        let (free, after) = (starts[3], starts[4]);
        assert_eq!(damaged(&add(after - 1, 1)), "a free block's last word is not its size");
        assert_eq!(damaged(&add(free, 1 << 30)), "a block is too small or crosses the end");
        assert_eq!(damaged(&add(free + 1, 1)), "a list of free blocks is wrong");
        let forget = |model: &Model| {
            let header = Header::load(&model.words[after]);
            header.with_after_free(false).store(&model.words[after]);
        };
        assert_eq!(damaged(&forget), "a block is wrong about the one before it");
        let unlisted = |model: &Model| {
            model.fits.unlink(&model.words, free);
        };
        assert_eq!(damaged(&unlisted), "a free block is in no list or in two");
        let unmarked = |model: &Model| model.fits.filled[0].store(0, Relaxed);
        assert_eq!(damaged(&unmarked), "the bit of a class is wrong");
        let longer = |model: &Model| {
            let word = &model.words[starts[1]];
            word.store(word.load(Relaxed) + 1000, Relaxed);
        };
        assert_eq!(damaged(&longer), "an entry is longer than its block");
    }
}
