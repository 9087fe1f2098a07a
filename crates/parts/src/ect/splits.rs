//! Codes for how a subtrie splits: the number of keys in its left half.
//!
//! Half of the keys of a uniform subtrie go left, give or take a binomial deviation. Sizes up to
//! `hmax` have a Huffman code of that distribution; larger ones have a Golomb-Rice code of the
//! deviation, whose parameter follows from the size. Left 0 stands for both one-sided cases: a
//! key that was indexed is on the side where all keys are, whatever its own bit says.

use super::bits::Cursor;
use super::huffman::{self, Word};
use silica_base::BitWriter;
use std::sync::OnceLock;

/// Largest size with a Huffman code; `hmax` is capped here.
pub(super) const HMAX_MAX: usize = 128;
/// Probability 1 as a weight.
pub(super) const ONE: u64 = 1 << 32;

const LOOK_BITS: u32 = 8;
/// Keeps the words of nearly impossible splits short enough for one look ahead.
const WEIGHT_MIN: u64 = 1 << 10;
/// Ones that announce a split too far off for the Golomb-Rice code.
const FAR_ONES: u32 = 20;
const FAR_BITS: u32 = 57;

/// Weights of the lefts of a uniform subtrie of `size` keys: index 0 is both one-sided cases.
pub(super) fn weights(size: usize) -> Vec<u64> {
    let mut row = vec![ONE << 16];
    for _ in 0..size {
        let mut next: Vec<u64> = row.iter().map(|w| w / 2).collect();
        next.push(0);
        next.iter_mut().skip(1).zip(&row).for_each(|(n, w)| *n += w / 2);
        row = next;
    }
    row[0] *= 2;
    row.truncate(size);
    row.iter().map(|w| w >> 16).collect()
}

#[derive(Debug)]
struct Split {
    words: Vec<Word>,
    /// Left and length for every look ahead of [`LOOK_BITS`]; length 0 where the word is longer.
    look: [(u8, u8); 1 << LOOK_BITS],
    /// Lefts with longer words, likeliest first.
    far: Vec<(Word, u8)>,
}

impl Split {
    fn new(size: usize) -> Self {
        let weights: Vec<u64> = weights(size).iter().map(|&w| w.max(WEIGHT_MIN)).collect();
        let words = huffman::canonical(&weights);
        let mut look = [(0, 0); 1 << LOOK_BITS];
        let mut far = Vec::new();
        for (left, word) in words.iter().enumerate() {
            if word.len > LOOK_BITS {
                far.push((*word, left as u8));
                continue;
            }
            for high in 0..1usize << (LOOK_BITS - word.len) {
                look[high << word.len | word.bits as usize] = (left as u8, word.len as u8);
            }
        }
        silica_base::compact_sort_by_key(&mut far, |(word, left)| (word.len, *left));
        Split { words, look, far }
    }

    #[inline]
    fn read(&self, cursor: &mut Cursor<'_>) -> u64 {
        let ahead = cursor.look::<LOOK_BITS>();
        let (left, len) = self.look[(ahead % (1 << LOOK_BITS)) as usize];
        if len != 0 {
            cursor.skip(u32::from(len));
            return u64::from(left);
        }
        self.read_far(cursor)
    }

    #[cold]
    fn read_far(&self, cursor: &mut Cursor<'_>) -> u64 {
        let ahead = cursor.look::<32>();
        let matches = |word: &Word| ahead & ((1 << word.len) - 1) == u64::from(word.bits);
        let found = self.far.iter().find(|(word, _)| matches(word));
        let (word, left) = found.expect("a Huffman code is complete");
        cursor.skip(word.len);
        u64::from(*left)
    }
}

/// The split codes of one `hmax`.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitCode {
    splits: &'static [Split],
    hmax: u64,
}

impl SplitCode {
    /// The codes with Huffman words up to `hmax` keys. Their tables are one static for all.
    pub(super) fn new(hmax: u32) -> Self {
        static SPLITS: OnceLock<Vec<Split>> = OnceLock::new();
        let splits = SPLITS.get_or_init(|| (2..=HMAX_MAX).map(Split::new).collect());
        SplitCode { splits, hmax: u64::from(hmax).min(HMAX_MAX as u64) }
    }

    /// The Huffman word of `left` of `size` keys.
    pub(super) fn word(&self, size: u64, left: u64) -> Word {
        self.splits[size as usize - 2].words[left as usize]
    }

    /// Writes that `left` of `size` (two or more) keys are on the left, 0 for one-sided.
    #[inline]
    pub(super) fn write(&self, out: &mut BitWriter, size: u64, left: u64) {
        if size <= self.hmax {
            let word = self.word(size, left);
            out.write(u64::from(word.bits), word.len);
        } else {
            write_golomb(out, size, left);
        }
    }

    /// Reads what [`write`](Self::write) wrote: less than `size`.
    #[inline]
    pub(super) fn read(&self, cursor: &mut Cursor<'_>, size: u64) -> u64 {
        if size <= self.hmax {
            self.splits[size as usize - 2].read(cursor)
        } else {
            read_golomb(cursor, size).min(size - 1)
        }
    }
}

/// Low bits of the Golomb-Rice code: the deviation's mean is about 0.4 square roots of the size.
#[inline]
fn low_bits(size: u64) -> u32 {
    (size - size / 8 * 3).ilog2() / 2
}

fn write_golomb(out: &mut BitWriter, size: u64, left: u64) {
    let deviation = left.wrapping_sub(size / 2) as i64;
    let folded = (deviation << 1 ^ deviation >> 63) as u64;
    let low = low_bits(size);
    let ones = folded >> low;
    if ones < u64::from(FAR_ONES) {
        out.write((1 << ones) - 1, ones as u32 + 1);
        out.write(folded & ((1 << low) - 1), low);
    } else {
        out.write((1 << FAR_ONES) - 1, FAR_ONES);
        out.write(left, FAR_BITS);
    }
}

#[inline]
fn read_golomb(cursor: &mut Cursor<'_>, size: u64) -> u64 {
    let ones = cursor.look::<32>().trailing_ones();
    if ones >= FAR_ONES {
        cursor.skip(FAR_ONES);
        return cursor.read(FAR_BITS);
    }
    cursor.skip(ones + 1);
    let low = low_bits(size);
    let folded = u64::from(ones) << low | cursor.read(low);
    let deviation = (folded >> 1) ^ (folded & 1).wrapping_neg();
    (size / 2).wrapping_add(deviation)
}

#[cfg(test)]
mod tests {
    use super::super::bits::pad;
    use super::*;

    #[test]
    fn every_split_of_every_size_round_trips() {
        for hmax in [2, 8, 64, 1000] {
            let code = SplitCode::new(hmax);
            for size in (2..300).chain([1 << 20, (1 << 40) + 1]) {
                let mut out = BitWriter::new();
                let lefts: Vec<u64> = (0..size.min(300)).chain([size - 1, size / 2]).collect();
                lefts.iter().for_each(|&left| code.write(&mut out, size, left));
                let bytes = pad(&out);
                let mut cursor = Cursor::forwards(&bytes, 0);
                assert!(lefts.iter().all(|&left| code.read(&mut cursor, size) == left));
                assert_eq!(cursor.at(), out.len_bits());
            }
        }
    }

    #[test]
    fn weights_are_the_binomial_distribution() {
        assert_eq!(weights(2), [ONE / 2, ONE / 2]);
        assert_eq!(weights(4), [ONE / 8, ONE / 4, ONE / 8 * 3, ONE / 4]);
    }
}
