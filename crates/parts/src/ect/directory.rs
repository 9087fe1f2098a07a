//! Where each virtual bucket starts: its first rank and the first bit of its codes.
//!
//! Both rise almost evenly, so each block of [`BLOCK_BUCKETS`] buckets holds one absolute pair,
//! the *anchor*, and per bucket what its rank count deviates from the block's mean and what its
//! bit count deviates from its share of the block's bits. Deviations take one byte each for
//! uniform keys; where one does not fit, all take two or eight.

use silica_base::{Error, Result};

/// Buckets between anchors.
pub(super) const BLOCK_BUCKETS: u64 = 64;

/// Start and end of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Rank of its first item, and of the next bucket's.
    pub(super) ranks: [u64; 2],
    /// First bit of its codes, and of the next bucket's.
    pub(super) bits: [u64; 2],
}

/// The starts of all buckets, as encoded: blocks of anchor, rank deviations, bit deviations; then
/// one last anchor, the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    bytes: Vec<u8>,
    shape: Shape,
}

/// What gives the encoded bytes their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Number of buckets, at least one.
    pub(super) buckets: u64,
    /// Bytes of each half of an anchor: 4 or 8.
    pub(super) anchor_width: u8,
    /// Bytes of a deviation: 1, 2 or 8.
    pub(super) deviation_width: u8,
}

impl Shape {
    fn anchor_bytes(&self) -> usize {
        2 * self.anchor_width as usize
    }

    fn block_bytes(&self) -> usize {
        self.anchor_bytes() + 2 * BLOCK_BUCKETS as usize * self.deviation_width as usize
    }

    /// Length of the encoded bytes; `None` for a shape that no directory has.
    pub(super) fn bytes(&self) -> Option<usize> {
        let known = matches!(self.anchor_width, 4 | 8) && matches!(self.deviation_width, 1 | 2 | 8);
        if !known || self.buckets == 0 || self.buckets > u64::from(u32::MAX) << 16 {
            return None;
        }
        let anchors = self.buckets.div_ceil(BLOCK_BUCKETS) as usize + 1;
        Some(anchors * self.anchor_bytes() + self.buckets as usize * 2 * self.bias_width())
    }

    fn bias_width(&self) -> usize {
        self.deviation_width as usize
    }

    /// Added to deviations to store them without a sign.
    fn bias(&self) -> u64 {
        1 << (8 * u32::from(self.deviation_width) - 1)
    }
}

/// `total * part / whole`, the even share; 0 of nothing.
#[inline]
fn share(total: u64, part: u64, whole: u64) -> u64 {
    if whole == BLOCK_BUCKETS && total < 1 << 56 {
        // Only damage makes `part` so large that this wraps.
        total.wrapping_mul(part) / BLOCK_BUCKETS
    } else if total | part | whole <= u64::from(u32::MAX) {
        (total * part).checked_div(whole).unwrap_or(0)
    } else {
        (u128::from(total) * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0) as u64
    }
}

impl Directory {
    /// The directory of buckets that start at these pairs of rank and bit; the last pair is the
    /// end. Both halves ascend.
    pub(super) fn new(starts: &[[u64; 2]]) -> Self {
        let fits = |bits: u32| {
            let half = 1i64 << (bits - 1);
            move |deviation: &[i64; 2]| deviation.iter().all(|d| (-half..half).contains(d))
        };
        let deviations: Vec<Vec<[i64; 2]>> = blocks(starts).map(deviations).collect();
        let all = || deviations.iter().flatten();
        let deviation_width = match () {
            () if all().all(fits(8)) => 1,
            () if all().all(fits(16)) => 2,
            () => 8,
        };
        let end = starts[starts.len() - 1];
        let anchor_width = if end[0].max(end[1]) <= u64::from(u32::MAX) { 4 } else { 8 };
        let shape = Shape { buckets: starts.len() as u64 - 1, anchor_width, deviation_width };
        let mut bytes = Vec::with_capacity(shape.bytes().unwrap_or(0));
        for (block, deviations) in blocks(starts).zip(&deviations) {
            push_anchor(&mut bytes, shape, block[0]);
            for half in 0..2 {
                for deviation in deviations {
                    let stored = (deviation[half] as u64).wrapping_add(shape.bias());
                    bytes.extend_from_slice(&stored.to_le_bytes()[..shape.bias_width()]);
                }
            }
        }
        push_anchor(&mut bytes, shape, end);
        Directory { bytes, shape }
    }

    /// A directory of encoded bytes, whose length MUST be what `shape` says.
    pub(super) fn from_bytes(shape: Shape, bytes: &[u8]) -> Result<Self> {
        if shape.bytes() != Some(bytes.len()) {
            return Err(Error::corruption(
                "trie directory",
                0,
                "its length is not that of its shape",
            ));
        }
        Ok(Directory { bytes: bytes.to_vec(), shape })
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where `bucket` starts and ends. Damaged bytes give some numbers, not in order.
    #[inline]
    pub(super) fn spot(&self, bucket: u64) -> Spot {
        let shape = self.shape;
        let bucket = bucket.min(shape.buckets - 1);
        let (block, index) = (bucket / BLOCK_BUCKETS, bucket % BLOCK_BUCKETS);
        let members = (shape.buckets - block * BLOCK_BUCKETS).min(BLOCK_BUCKETS);
        let at = block as usize * shape.block_bytes();
        let from = self.anchor(at);
        let ranks_at = at + shape.anchor_bytes();
        let bits_at = ranks_at + members as usize * shape.bias_width();
        let to = self.anchor(bits_at + members as usize * shape.bias_width());

        let steps = to[0].wrapping_sub(from[0]);
        let deviations = self.sums(ranks_at, index);
        let rank = |of: u64, sum: u64| share(steps, of, members).wrapping_add(sum);
        let ranks = [rank(index, deviations[0]), rank(index + 1, deviations[1])];

        let width = to[1].wrapping_sub(from[1]);
        let deviations = self.sums(bits_at, index);
        let bit = |of: u64, sum: u64| share(width, of, steps).wrapping_add(sum);
        let bits = [bit(ranks[0], deviations[0]), bit(ranks[1], deviations[1])];
        Spot {
            ranks: ranks.map(|rank| rank.wrapping_add(from[0])),
            bits: bits.map(|bit| bit.wrapping_add(from[1])),
        }
    }

    #[inline]
    fn anchor(&self, at: usize) -> [u64; 2] {
        if self.shape.anchor_width == 4 {
            let pair = self.word(at);
            [pair & u64::from(u32::MAX), pair >> 32]
        } else {
            [self.word(at), self.word(at + 8)]
        }
    }

    /// The eight bytes at `at`; an anchor is behind every deviation, so there are eight.
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.bytes[at..].first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// Sums of the first `count` and the first `count + 1` deviations at `at`.
    #[inline]
    fn sums(&self, at: usize, count: u64) -> [u64; 2] {
        let bias = self.shape.bias();
        let (sum, next) = match self.shape.deviation_width {
            1 => self.sum_bytes(at, count as usize),
            width => self.sum_wide(at, count as usize, width as usize),
        };
        let sum = sum.wrapping_sub(bias.wrapping_mul(count));
        [sum, sum.wrapping_add(next).wrapping_sub(bias)]
    }

    #[inline]
    fn sum_bytes(&self, at: usize, count: usize) -> (u64, u64) {
        const EVEN: u64 = 0x00FF_00FF_00FF_00FF;
        let pairs = |word: u64| (word & EVEN) + (word >> 8 & EVEN);
        // Four lanes of 16 bits hold the sum of 64 bytes.
        let whole: u64 = (0..count / 8).map(|word| pairs(self.word(at + 8 * word))).sum();
        let last = self.word(at + count / 8 * 8);
        let below = last & ((1 << (count % 8 * 8)) - 1);
        let lanes = whole + pairs(below);
        let sum = lanes.wrapping_mul(0x0001_0001_0001_0001) >> 48;
        (sum, last >> (count % 8 * 8) & 0xFF)
    }

    #[cold]
    fn sum_wide(&self, at: usize, count: usize, width: usize) -> (u64, u64) {
        let mask = u64::MAX >> (64 - 8 * width);
        let deviation = |i: usize| self.word(at + i * width) & mask;
        let sum = (0..count).map(deviation).fold(0, u64::wrapping_add);
        (sum, deviation(count))
    }
}

/// Runs of starts, each with the start behind its last bucket.
fn blocks(starts: &[[u64; 2]]) -> impl Iterator<Item = &[[u64; 2]]> {
    let step = BLOCK_BUCKETS as usize;
    (0..starts.len() - 1)
        .step_by(step)
        .map(move |from| &starts[from..(from + step + 1).min(starts.len())])
}

/// What each bucket of a block deviates from its share.
fn deviations(block: &[[u64; 2]]) -> Vec<[i64; 2]> {
    let members = block.len() - 1;
    let (from, to) = (block[0], block[members]);
    let (steps, width) = (to[0] - from[0], to[1] - from[1]);
    let off = |index: usize| {
        let rank = block[index][0] - from[0];
        let even_rank = share(steps, index as u64, members as u64);
        let even_bit = share(width, rank, steps);
        [rank.wrapping_sub(even_rank), (block[index][1] - from[1]).wrapping_sub(even_bit)]
    };
    let mut last = off(0);
    (1..=members)
        .map(|index| {
            let next = off(index);
            let step = [0, 1].map(|half| next[half].wrapping_sub(last[half]) as i64);
            last = next;
            step
        })
        .collect()
}

fn push_anchor(bytes: &mut Vec<u8>, shape: Shape, anchor: [u64; 2]) {
    for half in anchor {
        bytes.extend_from_slice(&half.to_le_bytes()[..shape.anchor_width as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    fn check(starts: &[[u64; 2]]) -> Shape {
        let directory = Directory::new(starts);
        let copy = Directory::from_bytes(directory.shape(), directory.bytes()).unwrap();
        for (bucket, pair) in starts.windows(2).enumerate() {
            let [from, to] = [pair[0], pair[1]];
            let want = Spot { ranks: [from[0], to[0]], bits: [from[1], to[1]] };
            assert_eq!(copy.spot(bucket as u64), want, "bucket {bucket} of {}", starts.len());
        }
        directory.shape()
    }

    fn starts(buckets: u64, mut step: impl FnMut(u64) -> [u64; 2]) -> Vec<[u64; 2]> {
        let mut at = [0, 0];
        let mut all = vec![at];
        for bucket in 0..buckets {
            let step = step(bucket);
            at = [at[0] + step[0], at[1] + step[1]];
            all.push(at);
        }
        all
    }

    #[test]
    fn every_number_of_even_buckets() {
        let mut prng = Prng::new(5);
        for buckets in 1..300 {
            let shape = check(&starts(buckets, |_| {
                let keys = 200 + prng.below(100);
                [keys, 2 * keys + prng.below(100)]
            }));
            assert_eq!(shape.deviation_width, 1);
        }
    }

    #[test]
    fn uneven_buckets_take_wider_deviations() {
        let jump = |at, by: u64| move |bucket| if bucket == at { [by, 2 * by] } else { [0, 0] };
        assert_eq!(check(&starts(130, jump(70, 5000))).deviation_width, 2);
        let huge = check(&starts(200, jump(0, 1 << 50)));
        assert_eq!((huge.deviation_width, huge.anchor_width), (8, 8));
        let late = check(&starts(200, |b| if b < 100 { [1, 3] } else { [1 << 26, 1 << 27] }));
        assert_eq!(late.anchor_width, 8);
        check(&starts(1, jump(0, 0)));
    }
}
