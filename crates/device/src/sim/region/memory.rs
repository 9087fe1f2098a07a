//! What threads see of a simulated region: words that stay where they are while more are added.
//!
//! The first chunk has the words that the region began with, and each further chunk as many as all
//! before it together, so a word is found by arithmetic and a reader needs no lock.

use crate::region::{Extent, read_words, word_index};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first chunk, and so many times double the words of a region.
const CHUNKS: usize = 34;

pub(super) struct Memory {
    /// Words of the first chunk.
    first: usize,
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
    /// Words that may be looked at.
    words: Extent,
}

impl Memory {
    /// So many zeroes.
    pub(super) fn new(words: usize) -> Memory {
        Memory::holding(&vec![0; words])
    }

    /// The words given, as values.
    pub(super) fn holding(values: &[u64]) -> Memory {
        let memory = Memory {
            first: values.len(),
            chunks: [const { OnceLock::new() }; CHUNKS],
            words: Extent::new(values.len() as u64),
        };
        let words = values.iter().map(|value| AtomicU64::new(value.to_le())).collect();
        memory.chunks[0].set(words).expect("the chunk is new");
        memory
    }

    /// All values.
    pub(super) fn values(&self) -> Vec<u64> {
        let mut left = self.len();
        let mut values = Vec::with_capacity(left);
        for chunk in self.chunks.iter().map_while(OnceLock::get) {
            let words = &chunk[..chunk.len().min(left)];
            values.extend(words.iter().map(|word| u64::from_le(word.load(Ordering::Relaxed))));
            left -= words.len();
        }
        values
    }

    /// Words that may be looked at.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.words.get() as usize
    }

    #[inline]
    pub(super) fn word(&self, number: usize) -> &AtomicU64 {
        let words = self.len();
        assert!(number < words, "word {number} is beyond {words}");
        if number < self.first {
            return &self.chunks[0].get().expect("the first chunk is always there")[number];
        }
        let doubled = (number / self.first).ilog2();
        let chunk = self.chunks[doubled as usize + 1].get();
        &chunk.expect("words have their chunk")[number - (self.first << doubled)]
    }

    #[inline]
    pub(super) fn value(&self, number: usize) -> u64 {
        u64::from_le(self.word(number).load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set(&self, number: usize, value: u64) {
        self.word(number).store(value.to_le(), Ordering::Release);
    }

    /// Sets the words from `first` on.
    pub(super) fn set_all(&self, first: usize, values: &[u64]) {
        let end = first + values.len();
        if end > self.first || end > self.len() {
            return (first..).zip(values).for_each(|(number, value)| self.set(number, *value));
        }
        // A crash's images are made by this: their words are nearly always in the first chunk.
        let words = self.chunks[0].get().expect("the first chunk is always there");
        for (word, value) in words[first..end].iter().zip(values) {
            word.store(value.to_le(), Ordering::Release);
        }
    }

    /// The value of the word at `offset`, and everything that its writer did before.
    #[inline]
    pub(super) fn load(&self, offset: u64) -> u64 {
        u64::from_le(self.word(word_index(offset)).load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        let end = (offset as usize + bytes.len()).div_ceil(8);
        if end > self.first || end > self.len() {
            return read_words(|word| self.value(word), offset, bytes);
        }
        let words = self.chunks[0].get().expect("the first chunk is always there");
        read_words(|word| u64::from_le(words[word].load(Ordering::Relaxed)), offset, bytes);
    }

    /// Shows `words` words; new ones are zero. One thread at a time.
    pub(super) fn extend(&self, words: usize) {
        let had = self.len();
        let mut end = self.first;
        for chunk in &self.chunks[1..] {
            if end >= words {
                break;
            }
            chunk.get_or_init(|| (0..end).map(|_| AtomicU64::new(0)).collect());
            end *= 2;
        }
        assert!(end >= words, "a simulated region has no {words} words");
        self.words.set(words as u64);
        // What was cut before may have been stored to by somebody who should not.
        (had..words).for_each(|number| self.set(number, 0));
    }

    /// Shows only the first `words` words. One thread at a time.
    pub(super) fn cut(&self, words: usize) {
        self.words.set(words as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_words_are_set_wherever_they_are() {
        let memory = Memory::holding(&[0; 6]);
        memory.extend(40);
        for (first, len) in [(0, 6), (2, 3), (4, 5), (6, 1), (11, 20), (39, 1), (0, 40), (7, 0)] {
            let values: Vec<u64> = (0..len).map(|n| 100 * first + n + 1).collect();
            memory.set_all(first as usize, &values);
            assert_eq!(memory.values()[first as usize..][..values.len()], values, "{first}");
        }
        memory.cut(5);
        let too_many = std::panic::AssertUnwindSafe(|| memory.set_all(4, &[1, 2]));
        assert!(std::panic::catch_unwind(too_many).is_err());
    }

    #[test]
    fn words_stay_while_more_are_added() {
        let memory = Memory::holding(&[1, 2, 3]);
        memory.extend(50);
        let second = std::ptr::from_ref(memory.word(1));
        (3..50).for_each(|number| memory.set(number, number as u64));
        memory.extend(1000);
        assert_eq!(second, std::ptr::from_ref(memory.word(1)));
        let values = memory.values();
        assert_eq!(
            (values.len(), &values[..4], values[49], values[999]),
            (1000, &[1, 2, 3, 3][..], 49, 0)
        );
        memory.cut(40);
        assert!(std::panic::catch_unwind(|| memory.value(40)).is_err());
        memory.extend(60);
        assert_eq!((memory.value(39), memory.value(40)), (39, 0));
        assert_eq!(Memory::holding(&memory.values()).values(), memory.values());
    }
}
