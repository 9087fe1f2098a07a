//! Which pages of a store's space the system has.
//!
//! A space lies in pages of [`PAGE_WORDS`]. One that is in the middle of a free block may be given
//! back to the system, which hands out a zeroed one at the next write. That is done seldom and for
//! many pages, because a page that comes and goes costs more than all writes to it: once a
//! thirty-second of the space was freed since the last time, or by `maintain`.
//!
//! 1. The bit of a page is set only where nothing was written to it since the system has it.
//!
//! All methods are for the holder of the partition's lock, unless they say something else.

use silica_base::HUGE_PAGE_BYTES;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words of a page.
const PAGE_WORDS: usize = HUGE_PAGE_BYTES / 8;
/// A part of the space that is freed before pages are given back.
const PART: usize = 32;

pub(crate) struct Pages {
    /// A bit for each whole page of the space: the system has it.
    away: Box<[AtomicU64]>,
    words: usize,
    /// Words that were freed since pages were last given back.
    freed: AtomicU64,
}

impl Pages {
    /// The pages of a space of so many words, of which nothing was written yet.
    pub(crate) fn new(words: usize) -> Self {
        let pages = words / PAGE_WORDS;
        let bits = |n: usize| match pages - 64 * n {
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        };
        let away = (0..pages.div_ceil(64)).map(|n| AtomicU64::new(bits(n))).collect();
        Pages { away, words, freed: AtomicU64::new(0) }
    }

    /// Something is written there.
    #[inline(always)]
    pub(crate) fn touch(&self, at: usize, words: usize) {
        for page in at / PAGE_WORDS..=(at + words - 1) / PAGE_WORDS {
            if let Some(bits) = self.away.get(page / 64) {
                let seen = bits.load(Relaxed);
                if seen >> (page % 64) & 1 == 1 {
                    bits.store(seen & !(1 << (page % 64)), Relaxed);
                }
            }
        }
    }

    /// Nothing is known of any page.
    pub(crate) fn forget(&self) {
        self.away.iter().for_each(|bits| bits.store(0, Relaxed));
        self.freed.store(self.words as u64, Relaxed);
    }

    /// So many words were freed.
    #[inline(always)]
    pub(crate) fn add_freed(&self, words: usize) {
        self.freed.store(self.freed.load(Relaxed) + words as u64, Relaxed);
    }

    /// For everybody: true where it is worth while to give pages back; with `at_once` where a page
    /// may be free.
    #[inline]
    pub(crate) fn is_due(&self, at_once: bool) -> bool {
        let least = if at_once { PAGE_WORDS } else { PAGE_WORDS.max(self.words / PART) };
        !self.away.is_empty() && self.freed.load(Relaxed) >= least as u64
    }

    /// Gives back up to `most` pages that lie within one of the free ranges; true where there may
    /// be more. `give_back` gives back words, and says false where the system does not take them.
    pub(crate) fn give_back(
        &self,
        free: impl Iterator<Item = Range<usize>>,
        mut most: usize,
        give_back: impl Fn(Range<usize>) -> bool,
    ) -> bool {
        for range in free {
            for page in range.start.div_ceil(PAGE_WORDS)..range.end / PAGE_WORDS {
                let (bits, bit) = (&self.away[page / 64], 1 << (page % 64));
                if bits.load(Relaxed) & bit != 0 {
                    continue;
                }
                if most == 0 {
                    return true;
                }
                most -= 1;
                if !give_back(page * PAGE_WORDS..(page + 1) * PAGE_WORDS) {
                    self.freed.store(0, Relaxed);
                    return false;
                }
                bits.store(bits.load(Relaxed) | bit, Relaxed);
            }
        }
        self.freed.store(0, Relaxed);
        false
    }

    /// For everybody: bytes that the system has.
    pub(crate) fn away_bytes(&self) -> u64 {
        let pages: u32 = self.away.iter().map(|bits| bits.load(Relaxed).count_ones()).sum();
        u64::from(pages) * HUGE_PAGE_BYTES as u64
    }
}
