//! Memory that several threads read and write, as atomic words in huge pages.
//!
//! This is the crate's only unsafe code: the words of a [`HugeVec`] are looked at as atomics, and
//! through nothing else for as long as they live.
#![allow(unsafe_code)]

use silica_base::{HUGE_PAGE_BYTES, HugeVec};
use silica_device::numa::Nodes;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A fixed number of atomic words, all zero at first; dereferences to a slice of them, which
/// starts at a cache line.
pub(crate) struct Words {
    start: NonNull<AtomicU64>,
    len: usize,
    /// Words of the memory before the first.
    before: usize,
    /// Owns what `start` points to; never dereferenced again.
    memory: Arc<HugeVec<u64>>,
}

// SAFETY: the memory is owned, and all access to it goes through `AtomicU64`, which is `Send`.
unsafe impl Send for Words {}
// SAFETY: as above, and `AtomicU64` is `Sync`: shared access from several threads is atomic.
unsafe impl Sync for Words {}

/// Which huge pages words lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// Those that the kernel finds.
    Advised,
    /// Those that the system has reserved, where enough are left.
    Reserved,
}

impl Words {
    #[cfg(test)]
    pub(crate) fn zeroed(len: usize) -> Self {
        Self::new(len, Frames::Advised)
    }

    pub(crate) fn new(len: usize, frames: Frames) -> Self {
        let mut memory = match frames {
            Frames::Advised => HugeVec::<u64>::zeroed(len),
            Frames::Reserved => HugeVec::<u64>::reserved(len),
        };
        let start = NonNull::from(&mut memory[..]).cast();
        let words = Words { start, len, before: 0, memory: Arc::new(memory) };
        // Until a thread owns them, everybody reads them.
        if words.bytes() >= HUGE_PAGE_BYTES {
            Nodes::here().spread(&words);
        }
        words
    }

    /// Those of `range`, with the same memory.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let start = NonNull::from(&self[range.clone()]).cast();
        Words {
            start,
            len: range.len(),
            before: self.before + range.start,
            memory: Arc::clone(&self.memory),
        }
    }

    /// Gives whole huge pages among the words of `range` back to the system: they read as zeroes
    /// and are held again once written. False where it does not take them, and of reserved pages:
    /// they stay as they are.
    pub(crate) fn give_back(&self, range: Range<usize>) -> bool {
        // SAFETY: the words are referred to as atomics only (see `deref`).
        unsafe { self.memory.give_back(self.before + range.start..self.before + range.end) }
    }

    /// Bytes of the memory, of which these may be a part, that lie in reserved pages.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.memory.reserved_bytes()
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<u64>() * self.len
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `start` comes from an exclusive borrow of initialised words, `len` of them from
        // there on, that `memory` owns as long as `self` lives; `AtomicU64` has the size, the
        // alignment (the memory starts at a cache line) and the bit validity of `u64`. Nobody looks
        // at the words as `u64` any more: `zeroed` kept no reference, and `memory` is not
        // dereferenced until dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_keep_what_is_stored_wherever_they_lie() {
        // An interpreter knows no mappings, and is slow.
        let lens: &[usize] = if cfg!(miri) { &[0, 1, 1000] } else { &[0, 1, 1000, 9000, 300_000] };
        for &len in lens {
            let words = Words::zeroed(len);
            assert_eq!((words.len(), words.bytes()), (len, 8 * len));
            assert!(words.iter().all(|word| word.load(Relaxed) == 0));
            for (i, word) in words.iter().enumerate() {
                word.store(i as u64, Relaxed);
            }
            let moved = std::hint::black_box(words);
            assert!(moved.iter().enumerate().all(|(i, word)| word.load(Relaxed) == i as u64));
            assert!(len == 0 || (moved.as_ptr() as usize).is_multiple_of(64));
        }
    }

    #[test]
    fn parts_are_the_same_memory_and_outlive_the_whole() {
        let whole = Words::zeroed(100);
        let (first, last) = (whole.part(0..60), whole.part(40..100).part(10..60));
        last[0].store(7, Relaxed);
        assert_eq!((first[50].load(Relaxed), whole[50].load(Relaxed), last.len()), (7, 7, 50));
        drop(whole);
        std::thread::scope(|scope| {
            scope.spawn(|| first.iter().for_each(|word| word.store(1, Relaxed)));
            scope.spawn(|| last.iter().for_each(|word| word.store(2, Relaxed)));
        });
        assert_eq!((first[49].load(Relaxed), last[49].load(Relaxed)), (1, 2));
        assert!((1..=2).contains(&last[0].load(Relaxed)));
        assert!(last.give_back(0..50), "there is no whole page to be given back");
    }
}
