//! Passing tries without looking at them, several splits at a time.
//!
//! A lookup passes the left half at every split where it goes right: a row of steps, each of
//! which needs the result of the one before. So a step is one look-up in one table, whatever the
//! size of the trie, without a branch that depends on the data: it gives the bits passed and the
//! parts that are then open.

use super::bits::Cursor;
use super::phrases::{Phrases, SMALL_MAX};
use super::splits::SplitCode;
use std::sync::OnceLock;

/// Largest trie passed by table.
pub(super) const SKIP_MAX: u64 = 64;

/// Look ahead of the sizes that phrases code, and of larger ones.
const SMALL_BITS: u32 = 10;
const SPLIT_BITS: u32 = 8;
const SPLITS_AT: usize = (SMALL_MAX + 1) << SMALL_BITS;

/// Stands for two tries of two keys each.
const PAIRS: u64 = 1;

/// Tries that are passed one after the other: their sizes, at most [`SKIP_MAX`], a byte each, the
/// next one lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Parts(u64);

impl Parts {
    /// The one trie of `size` keys; nothing where it has no code.
    #[inline]
    pub(super) fn one(size: u64) -> Self {
        debug_assert!(size <= SKIP_MAX);
        Parts(if size < 2 { 0 } else { size })
    }

    /// These, of which there are fewer than eight, then `last`.
    #[inline]
    pub(super) fn push(&mut self, last: Parts) {
        self.0 |= last.0 << ((71 - self.0.leading_zeros()) / 8 * 8);
    }

    /// With neighbours of two keys each under one byte: at most three for eight keys in all.
    fn joined(sizes: &[usize]) -> Self {
        let mut parts = Parts::default();
        let mut rest = sizes;
        while let [first, behind @ ..] = rest {
            let pairs = *first == 2 && behind.first() == Some(&2);
            parts.push(Parts(if pairs { PAIRS } else { *first as u64 }));
            rest = &behind[usize::from(pairs)..];
        }
        parts
    }
}

/// One step: bits passed in bits 0 to 3 (0 where the look ahead does not decide), number of open
/// parts in bits 4 and 5, those parts from bit 8.
#[derive(Debug, Clone, Copy, Default)]
struct Step(u32);

impl Step {
    fn new(passed: u32, open: Parts) -> Self {
        let count = (64 - open.0.leading_zeros()).div_ceil(8);
        assert!(passed < 16 && count < 4, "a step fits its fields");
        Step(passed | count << 4 | (open.0 as u32) << 8)
    }

    /// After `passed` bits, `left` of `size` keys are on the left.
    fn split(passed: u32, size: u64, left: u64) -> Self {
        let mut open = Parts::one(left);
        open.push(Parts::one(size - left));
        Step::new(passed, open)
    }

    #[inline]
    fn passed(self) -> u32 {
        self.0 & 15
    }

    #[inline]
    fn apply(self, parts: Parts) -> Parts {
        Parts(parts.0 >> 8 << (self.0 >> 1 & 0x18) | u64::from(self.0 >> 8))
    }
}

/// The table of steps.
#[derive(Debug)]
pub(super) struct Skips {
    steps: Vec<Step>,
}

impl Skips {
    /// The table, one static for all.
    pub(super) fn get() -> &'static Skips {
        static SKIPS: OnceLock<Skips> = OnceLock::new();
        SKIPS.get_or_init(Skips::new)
    }

    fn new() -> Self {
        let mut steps = vec![Step(0); SPLITS_AT + ((SKIP_MAX as usize + 1) << SPLIT_BITS)];
        for size in 1..=SMALL_MAX {
            let from = if size as u64 == PAIRS { vec![2, 2] } else { vec![size] };
            for ahead in 0..1 << SMALL_BITS {
                steps[size << SMALL_BITS | ahead] = walk(from.clone(), ahead as u64);
            }
        }
        let codes = SplitCode::new(SKIP_MAX as u32);
        for size in SMALL_MAX as u64 + 1..=SKIP_MAX {
            for left in 0..size {
                let word = codes.word(size, left);
                for high in 0..(1usize << SPLIT_BITS) >> word.len {
                    let ahead = high << word.len | word.bits as usize;
                    let row = SPLITS_AT + ((size as usize) << SPLIT_BITS);
                    steps[row + ahead] = Step::split(word.len, size, left);
                }
            }
        }
        Skips { steps }
    }

    /// Passes the codes of `parts`, which have Huffman words under `splits`.
    #[inline]
    pub(super) fn skip(&self, cursor: &mut Cursor<'_>, splits: &SplitCode, mut parts: Parts) {
        // A copy stays in registers.
        let mut local = *cursor;
        while parts.0 != 0 {
            let size = parts.0 & 0xFF;
            let ahead = local.look::<SMALL_BITS>() as usize;
            let small = (size as usize) << SMALL_BITS | ahead & ((1 << SMALL_BITS) - 1);
            let large =
                SPLITS_AT + ((size as usize) << SPLIT_BITS | ahead & ((1 << SPLIT_BITS) - 1));
            let step = self.steps[if size > SMALL_MAX as u64 { large } else { small }];
            if step.0 == 0 || parts.0 >> 48 != 0 {
                (local, parts) = self.skip_rare(local, splits, parts);
                continue;
            }
            local.skip(step.passed());
            parts = step.apply(parts);
        }
        *cursor = local;
    }

    /// Passes a split that is not in the table, or a part behind which too many are open.
    #[cold]
    fn skip_rare<'a>(
        &self,
        mut cursor: Cursor<'a>,
        splits: &SplitCode,
        parts: Parts,
    ) -> (Cursor<'a>, Parts) {
        let size = parts.0 & 0xFF;
        if parts.0 >> 48 != 0 {
            self.skip(&mut cursor, splits, Parts(size));
            return (cursor, Parts(parts.0 >> 8));
        }
        if size <= SMALL_MAX as u64 {
            let open = Phrases::get().read(&mut cursor, size).open();
            return (cursor, Step::new(0, Parts::joined(open)).apply(parts));
        }
        let left = splits.read(&mut cursor, size);
        (cursor, Step::split(0, size, left).apply(parts))
    }
}

/// What one step passes of [`SMALL_BITS`] bits, of which `ahead` are the first.
fn walk(mut sizes: Vec<usize>, ahead: u64) -> Step {
    let phrases = Phrases::get();
    let mut used = 0;
    while let Some(&size) = sizes.first() {
        let (rest, left) = (ahead >> used, SMALL_BITS - used);
        if size == 2 {
            let ones = rest.trailing_ones().min(left);
            used += (ones + 1).min(left);
            if ones == left {
                break;
            }
            sizes.remove(0);
        } else {
            let phrase = phrases.phrase_at(size as u64, rest);
            if phrase.word().len > left {
                break;
            }
            used += phrase.word().len;
            sizes.splice(..1, phrase.open().iter().copied());
        }
    }
    if used == 0 { Step(0) } else { Step::new(used, Parts::joined(&sizes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_equals_reading() {
        let splits = SplitCode::new(SKIP_MAX as u32);
        let mut prng = silica_base::Prng::new(3);
        let mut bytes = vec![0; 4000];
        prng.fill(&mut bytes);
        for at in 0..20_000 {
            let size = 2 + at % 63;
            let mut skipped = Cursor::forwards(&bytes, at);
            Skips::get().skip(&mut skipped, &splits, Parts::one(size));
            let mut read = Cursor::forwards(&bytes, at);
            read_whole(&mut read, &splits, size);
            assert_eq!(skipped.at(), read.at(), "size {size} at bit {at}");
        }
    }

    fn read_whole(cursor: &mut Cursor<'_>, splits: &SplitCode, size: u64) {
        match size {
            0 | 1 => {}
            2 => drop(cursor.read_unary()),
            size if size <= SMALL_MAX as u64 => {
                let phrase = Phrases::get().read(cursor, size);
                phrase.open().iter().for_each(|&size| read_whole(cursor, splits, size as u64));
            }
            size => {
                let left = splits.read(cursor, size);
                read_whole(cursor, splits, left);
                read_whole(cursor, splits, size - left);
            }
        }
    }

    #[test]
    fn no_bits_end_every_skip() {
        let splits = SplitCode::new(SKIP_MAX as u32);
        for size in 2..=SKIP_MAX {
            Skips::get().skip(&mut Cursor::forwards(&[], 0), &splits, Parts::one(size));
        }
    }
}
