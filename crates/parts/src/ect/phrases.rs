//! The code of small subtries: whole phrases of splits under one Huffman word.
//!
//! A Huffman word per split wastes up to a tenth of a bit per split, most of it on sizes 3 to 5.
//! A *phrase* joins the splits of a subtrie of 3 to 8 keys, and of its parts, into one word: it
//! is a row of splits in pre-order, of all parts with three keys or more, cut where it becomes
//! unlikely. The parts that it leaves open follow its word in pre-order: parts of two keys as the
//! number of their one-sided levels in unary (for which no code is better), larger parts as
//! phrases of their own.

use super::bits::Cursor;
use super::huffman::{self, Word};
use super::splits::{ONE, weights};
use std::sync::OnceLock;

/// Largest size coded by phrases.
pub(super) const SMALL_MAX: usize = 8;

/// A phrase grows while it is likelier than this.
const CUT: u64 = ONE / 100;
const LOOK_BITS: u32 = 11;

/// One row of splits: four bits for each left, the first lowest, and how many.
#[derive(Debug)]
pub(super) struct Phrase {
    lefts: u64,
    count: u32,
    word: Word,
    /// Sizes of two or more that the phrase leaves open.
    open: Vec<usize>,
}

impl Phrase {
    /// The lefts in pre-order.
    #[inline]
    pub(super) fn lefts(&self) -> Lefts {
        Lefts { lefts: self.lefts, count: self.count }
    }

    /// The phrase's code.
    #[inline]
    pub(super) fn word(&self) -> Word {
        self.word
    }

    /// Sizes of the parts of two keys or more that the phrase leaves open, in pre-order.
    pub(super) fn open(&self) -> &[usize] {
        &self.open
    }
}

/// Iterator over the lefts of a phrase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lefts {
    lefts: u64,
    count: u32,
}

impl Iterator for Lefts {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        let left = self.lefts & 15;
        self.lefts >>= 4;
        Some(left)
    }
}

/// Where a phrase that is being written stands in the book: after a split it either goes on or
/// is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Open(u16),
    Complete(u16),
}

/// The phrase book of all small sizes, and its tables.
#[derive(Debug)]
pub(super) struct Phrases {
    phrases: Vec<Phrase>,
    /// Where each left leads from each open place; places 0..=8 are the roots of the sizes.
    places: Vec<[Place; SMALL_MAX]>,
    /// Phrase for every size and look ahead of [`LOOK_BITS`].
    look: Vec<u16>,
}

impl Phrases {
    /// The book. Its tables are one static for all.
    pub(super) fn get() -> &'static Phrases {
        static PHRASES: OnceLock<Phrases> = OnceLock::new();
        PHRASES.get_or_init(Phrases::new)
    }

    fn new() -> Self {
        let closed = [Place::Complete(0); SMALL_MAX];
        let mut book = Phrases {
            phrases: Vec::new(),
            places: vec![closed; SMALL_MAX + 1],
            look: vec![0; (SMALL_MAX + 1) << LOOK_BITS],
        };
        for size in 3..=SMALL_MAX {
            book.add_size(size);
        }
        book
    }

    fn add_size(&mut self, size: usize) {
        let from = self.phrases.len();
        let mut chances = Vec::new();
        let root = Draft { place: size, chance: ONE, parts: vec![size], lefts: 0, count: 0 };
        let mut drafts = vec![root];
        while let Some(draft) = drafts.pop() {
            self.expand(&draft, &mut drafts, &mut chances);
        }
        for (id, word) in (from..).zip(huffman::canonical(&chances)) {
            assert!(word.len <= LOOK_BITS, "a phrase fits the look ahead");
            self.phrases[id].word = word;
            for high in 0..1usize << (LOOK_BITS - word.len) {
                let ahead = high << word.len | word.bits as usize;
                self.look[size << LOOK_BITS | ahead] = id as u16;
            }
        }
    }

    /// Adds every left of the first large part of `draft`: as a phrase, or as a further draft.
    fn expand(&mut self, draft: &Draft, drafts: &mut Vec<Draft>, chances: &mut Vec<u64>) {
        let at = draft.large_part().expect("a draft has a part to split");
        for (left, weight) in weights(draft.parts[at]).into_iter().enumerate() {
            let mut next = draft.split(at, left, weight);
            if next.chance >= CUT && next.large_part().is_some() {
                next.place = self.places.len();
                self.places.push([Place::Complete(0); SMALL_MAX]);
                self.places[draft.place][left] = Place::Open(next.place as u16);
                drafts.push(next);
            } else {
                self.places[draft.place][left] = Place::Complete(self.phrases.len() as u16);
                chances.push(next.chance.max(1));
                self.phrases.push(next.phrase());
            }
        }
    }

    /// The phrase whose word `ahead` starts with.
    #[inline]
    pub(super) fn phrase_at(&self, size: u64, ahead: u64) -> &Phrase {
        let ahead = (ahead % (1 << LOOK_BITS)) as usize;
        &self.phrases[self.look[(size as usize) << LOOK_BITS | ahead] as usize]
    }

    /// Where writing starts for a subtrie of `size` keys, 3 to 8.
    #[inline]
    pub(super) fn start(&self, size: usize) -> u16 {
        size as u16
    }

    /// Where `left` leads from the open place `from`.
    #[inline]
    pub(super) fn follow(&self, from: u16, left: usize) -> Place {
        self.places[from as usize][left]
    }

    /// The phrase that is complete.
    #[inline]
    pub(super) fn phrase(&self, id: u16) -> &Phrase {
        &self.phrases[id as usize]
    }

    /// Reads the phrase of a subtrie of `size` keys, 3 to 8.
    #[inline]
    pub(super) fn read(&self, cursor: &mut Cursor<'_>, size: u64) -> &Phrase {
        let phrase = self.phrase_at(size, cursor.look::<LOOK_BITS>());
        cursor.skip(phrase.word.len);
        phrase
    }
}

/// A phrase while the book is made.
struct Draft {
    place: usize,
    chance: u64,
    /// Sizes of two or more in pre-order.
    parts: Vec<usize>,
    lefts: u64,
    count: u32,
}

impl Draft {
    fn large_part(&self) -> Option<usize> {
        self.parts.iter().position(|&size| size > 2)
    }

    fn split(&self, at: usize, left: usize, weight: u64) -> Draft {
        let size = self.parts[at];
        let halves = if left == 0 { vec![size] } else { vec![left, size - left] };
        let mut parts = self.parts.clone();
        parts.splice(at..=at, halves.into_iter().filter(|&size| size > 1));
        let chance = ((u128::from(self.chance) * u128::from(weight)) / u128::from(ONE)) as u64;
        let lefts = self.lefts | (left as u64) << (4 * self.count);
        Draft { place: 0, chance, parts, lefts, count: self.count + 1 }
    }

    fn phrase(self) -> Phrase {
        assert!(self.count <= 16, "the lefts of a phrase fit one word");
        let Draft { lefts, count, parts, .. } = self;
        Phrase { lefts, count, word: Word::default(), open: parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_is_that_of_version_1() {
        let book = Phrases::get();
        // Another number would be another format.
        assert_eq!(book.phrases.len(), 493);
        assert!(book.phrases.iter().all(|p| p.word.len <= LOOK_BITS));
    }
}
