//! Pages that were stored to since the last sync, for regions on a disk: the kernel writes them
//! back whenever it likes.

use super::memory::Memory;
use silica_base::Prng;
use std::ops::Range;

/// Words of a page.
pub(super) const PAGE_WORDS: usize = 4096 / 8;
/// Words of a sector, the unit that a disk writes whole.
pub(super) const SECTOR_WORDS: usize = 512 / 8;
/// Stores after which the kernel writes some page, on average.
const WRITE_BACK_STORES: u64 = 64;

/// A page that was stored to since the last sync.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) number: usize,
    /// What the disk has.
    pub(super) durable: Vec<u64>,
}

/// All pages of a region.
#[derive(Clone, Default)]
pub(super) struct Pages {
    /// For each page, 1 + its place in `dirty`; 0 for pages as the disk has them.
    places: Vec<u32>,
    pub(super) dirty: Vec<Page>,
}

/// The words of a page in a region of so many words.
pub(super) fn page_words(number: usize, words: usize) -> Range<usize> {
    number * PAGE_WORDS..((number + 1) * PAGE_WORDS).min(words)
}

impl Pages {
    pub(super) fn new(words: usize) -> Pages {
        Pages { places: vec![0; words.div_ceil(PAGE_WORDS)], dirty: Vec::new() }
    }

    /// Notes a store before `memory` shows it; true if the page had none. Sometimes the kernel
    /// writes a page back.
    #[inline]
    pub(super) fn store(&mut self, memory: &Memory, word: usize, rng: &mut Prng) -> bool {
        let is_first = self.places[word / PAGE_WORDS] == 0;
        if is_first {
            self.touch(memory, word / PAGE_WORDS);
        }
        if rng.one_in(WRITE_BACK_STORES) {
            let page = rng.below(self.dirty.len() as u64) as usize;
            self.dirty[page].write_back(memory);
        }
        is_first
    }

    /// Keeps what the disk has of a page.
    pub(super) fn touch(&mut self, memory: &Memory, number: usize) {
        if self.places[number] == 0 {
            let mut page = Page { number, durable: Vec::new() };
            page.write_back(memory);
            self.dirty.push(page);
            self.places[number] = self.dirty.len() as u32;
        }
    }

    /// The region has so many words now. Of pages behind them the disk has nothing.
    pub(super) fn resize(&mut self, words: usize) {
        let pages = words.div_ceil(PAGE_WORDS);
        self.dirty.retain(|page| page.number < pages);
        self.places.clear();
        self.places.resize(pages, 0);
        for (place, page) in (1..).zip(&mut self.dirty) {
            page.durable.resize(page_words(page.number, words).len(), 0);
            self.places[page.number] = place;
        }
    }

    /// The disk has everything.
    pub(super) fn clear(&mut self) {
        for page in self.dirty.drain(..) {
            self.places[page.number] = 0;
        }
    }

    /// The page's words on the disk, if they may be others.
    pub(super) fn durable_mut(&mut self, number: usize) -> Option<&mut Vec<u64>> {
        let place = self.places[number].checked_sub(1)?;
        Some(&mut self.dirty[place as usize].durable)
    }
}

impl Page {
    fn write_back(&mut self, memory: &Memory) {
        self.durable.clear();
        let words = page_words(self.number, memory.len());
        self.durable.extend(words.map(|word| memory.value(word)));
    }

    /// What a power cut leaves of a page that is `now` in memory: what the disk had, what the
    /// kernel writes at this moment, or some sectors of each.
    pub(super) fn cut(&self, now: &[u64], rng: &mut Prng) -> Vec<u64> {
        match rng.below(3) {
            0 => self.durable.clone(),
            1 => now.to_vec(),
            _ => mixed_sectors(&self.durable, now, rng),
        }
    }
}

/// Each sector by itself: the old one or the new one.
pub(super) fn mixed_sectors(old: &[u64], new: &[u64], rng: &mut Prng) -> Vec<u64> {
    let sectors = old.chunks(SECTOR_WORDS).zip(new.chunks(SECTOR_WORDS));
    sectors.flat_map(|(old, new)| if rng.one_in(2) { old } else { new }).copied().collect()
}
