//! What a batch has changed in store mode, so that it can be taken back where the rest does not
//! fit.
//!
//! Steps are taken back in reverse order. Blocks that are free always form the same intervals for
//! the same blocks in use (invariant 2 of `fits.rs`), so each step finds the space as it left it,
//! and the bytes of an entry that was given back go exactly where they were.

use crate::partition::Partition;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

enum Change {
    /// The block there was taken.
    Taken,
    /// The block there was given back, had these of the copied words, and became a part of the
    /// free block that begins at `start`.
    GivenBack { start: usize, copy: Range<usize> },
    /// The block there was written anew, and had these of the copied words.
    Overwritten { copy: Range<usize> },
}

enum Step<'p> {
    Block { partition: &'p Partition, at: usize, change: Change },
    Slot { partition: &'p Partition, slot: &'p AtomicU64, before: u64 },
}

/// The changes of a batch, from the first on. Nothing is noted where the batch fits for sure.
pub(crate) struct Undo<'p> {
    is_on: bool,
    steps: Vec<Step<'p>>,
    words: Vec<u64>,
}

impl<'p> Undo<'p> {
    pub(crate) fn new(is_on: bool) -> Self {
        Undo { is_on, steps: Vec::new(), words: Vec::new() }
    }

    /// True where what is changed is noted.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    fn copy(&mut self, place: &[AtomicU64]) -> Range<usize> {
        let start = self.words.len();
        self.words.extend(place.iter().map(|word| word.load(Relaxed)));
        start..self.words.len()
    }

    fn block(&mut self, partition: &'p Partition, at: usize, change: Change) {
        self.steps.push(Step::Block { partition, at, change });
    }

    /// A block was taken.
    #[inline]
    pub(crate) fn taken(&mut self, partition: &'p Partition, at: usize) {
        if self.is_on {
            self.block(partition, at, Change::Taken);
        }
    }

    /// The block `place` at `at` is about to be given back by `give_back`, which returns where the
    /// free block begins that it becomes a part of.
    #[inline]
    pub(crate) fn giving_back(
        &mut self,
        partition: &'p Partition,
        at: usize,
        place: &[AtomicU64],
        give_back: impl FnOnce() -> usize,
    ) {
        if self.is_on {
            let copy = self.copy(place);
            self.block(partition, at, Change::GivenBack { start: give_back(), copy });
        } else {
            give_back();
        }
    }

    /// The block `place` at `at` is about to be written anew.
    #[inline]
    pub(crate) fn overwriting(&mut self, partition: &'p Partition, at: usize, place: &[AtomicU64]) {
        if self.is_on {
            let copy = self.copy(place);
            self.block(partition, at, Change::Overwritten { copy });
        }
    }

    /// Stores `word` in `slot`.
    #[inline]
    pub(crate) fn set_slot(&mut self, partition: &'p Partition, slot: &'p AtomicU64, word: u64) {
        let before = slot.load(Relaxed);
        if self.is_on {
            self.steps.push(Step::Slot { partition, slot, before });
        }
        slot.store(word, Relaxed);
    }

    /// Takes everything back.
    pub(crate) fn take_back(&mut self) {
        for step in self.steps.drain(..).rev() {
            match step {
                Step::Slot { partition, slot, before } => {
                    partition.count_slot(slot.load(Relaxed), before);
                    slot.store(before, Relaxed);
                }
                Step::Block { partition, at, change } => match change {
                    Change::Taken => {
                        partition.give_back(at);
                    }
                    Change::GivenBack { start, copy } => {
                        partition.take_at(start, at, &self.words[copy]);
                    }
                    Change::Overwritten { copy } => partition.restore(at, &self.words[copy]),
                },
            }
        }
        self.words.clear();
    }
}
