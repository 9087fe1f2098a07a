//! Sorted integers in a little over the bits that tell them apart (Elias–Fano).
//!
//! The `low_bits` lower bits of each value stand side by side; the upper parts are written in
//! unary: value `i` with the upper part `h` sets bit `h + i`, so that zeroes separate upper parts.
//! With as many upper parts as values that is two bits per value and the lower bits. The place
//! behind every 512th zero is remembered, so that a lookup counts through a few words.

use silica_base::{BitReader, BitWriter, Error, Result};

/// Zeroes between two remembered places.
const ZEROES_PER_SAMPLE: u64 = 512;
/// Bytes in front of the words of an encoded list.
const HEADER_BYTES: usize = 16;

/// Adds values one by one.
pub(crate) struct EliasFanoBuilder {
    low_bits: u32,
    len: u64,
    lows: BitWriter,
    highs: Vec<u64>,
}

/// Values that do not fall.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EliasFano {
    low_bits: u32,
    len: u64,
    lows: Vec<u64>,
    highs: Vec<u64>,
    /// Values before zero number `512 n`.
    samples: Vec<u32>,
}

impl EliasFanoBuilder {
    /// Best where the largest value is about `2^low_bits` times the number of values.
    pub(crate) fn new(low_bits: u32) -> Self {
        EliasFanoBuilder { low_bits, len: 0, lows: BitWriter::new(), highs: Vec::new() }
    }

    /// Adds `value`, which MUST NOT be less than the one before.
    #[inline]
    pub(crate) fn push(&mut self, value: u64) {
        self.lows.write(value & ((1 << self.low_bits) - 1), self.low_bits);
        let bit = (value >> self.low_bits) + self.len;
        let word = (bit / 64) as usize;
        if word >= self.highs.len() {
            self.highs.resize(word + 1, 0);
        }
        self.highs[word] |= 1 << (bit % 64);
        self.len += 1;
    }

    pub(crate) fn finish(self) -> EliasFano {
        let (mut lows, mut highs) = (self.lows.into_words(), self.highs);
        lows.shrink_to_fit();
        highs.shrink_to_fit();
        EliasFano { low_bits: self.low_bits, len: self.len, samples: sample(&highs), lows, highs }
    }
}

fn sample(highs: &[u64]) -> Vec<u32> {
    let (mut samples, mut ones, mut zeroes) = (vec![0], 0, 0);
    for word in highs {
        let here = u64::from(word.count_zeros());
        let next = samples.len() as u64 * ZEROES_PER_SAMPLE;
        if zeroes + here >= next {
            let place = behind_zero(*word, (next - zeroes) as u32);
            let before = if place == 64 { *word } else { word & ((1 << place) - 1) };
            samples.push(ones + before.count_ones());
        }
        zeroes += here;
        ones += word.count_ones();
    }
    samples.shrink_to_fit();
    samples
}

/// A one in every byte.
const BYTES: u64 = 0x0101_0101_0101_0101;

/// The place in `word` behind its `n`-th zero, which exists; 0 for `n` = 0.
#[inline]
fn behind_zero(word: u64, n: u32) -> u32 {
    if n == 0 {
        return 0;
    }
    // How many there are in each byte, then in all bytes up to each.
    let zeroes = !word;
    let pairs = zeroes - ((zeroes >> 1) & (0x55 * BYTES));
    let fours = (pairs & (0x33 * BYTES)) + ((pairs >> 2) & (0x33 * BYTES));
    let up_to = ((fours + (fours >> 4)) & (0x0F * BYTES)).wrapping_mul(BYTES);
    // No byte borrows: both numbers are at most 64. Its highest bit stays where there are enough.
    let enough = ((up_to | (0x80 * BYTES)) - u64::from(n) * BYTES) & (0x80 * BYTES);
    let shift = enough.trailing_zeros() & !7;
    let before = (((up_to << 8) >> shift) & 0xFF) as u32;
    let mut rest = zeroes >> shift;
    for _ in before + 1..n {
        rest &= rest - 1;
    }
    shift + rest.trailing_zeros() + 1
}

impl EliasFano {
    /// Values.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + (self.lows.len() + self.highs.len()) * 8 + self.samples.len() * 4
    }

    #[inline]
    fn low(&self, i: u64) -> u64 {
        BitReader::new(&self.lows, i * u64::from(self.low_bits)).read(self.low_bits)
    }

    /// The bit of the upper parts that follows zero number `n` (counted from 1; 0 is the start).
    #[inline]
    fn behind(&self, n: u64) -> Option<u64> {
        let sample = n / ZEROES_PER_SAMPLE;
        let zeroes = sample * ZEROES_PER_SAMPLE;
        let bit = zeroes + u64::from(*self.samples.get(sample as usize)?);
        let mut missing = n - zeroes;
        if missing == 0 {
            return Some(bit);
        }
        let mut word = (bit / 64) as usize;
        // Bits before the sampled place count as ones.
        let mut bits = self.highs.get(word).copied()? | ((1 << (bit % 64)) - 1);
        loop {
            let here = u64::from(bits.count_zeros());
            if here >= missing {
                return Some(word as u64 * 64 + u64::from(behind_zero(bits, missing as u32)));
            }
            missing -= here;
            word += 1;
            bits = self.highs.get(word).copied()?;
        }
    }

    /// How many values are at most `x`, and whether the last of them is `x` itself.
    #[inline]
    pub(crate) fn count_up_to(&self, x: u64) -> (u64, bool) {
        let (high, low) = (x >> self.low_bits, x & ((1 << self.low_bits) - 1));
        let Some(mut bit) = self.behind(high) else { return (self.len, false) };
        let mut i = bit - high;
        let mut here = false;
        while i < self.len && self.highs[(bit / 64) as usize] >> (bit % 64) & 1 == 1 {
            let other = self.low(i);
            if other > low {
                break;
            }
            here = other == low;
            i += 1;
            bit += 1;
        }
        (i, here)
    }

    /// Appends the encoded list to `out`: lower bits (u32), words of upper parts (u32), values
    /// (u64), the lower words, the upper words.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.low_bits.to_le_bytes());
        out.extend_from_slice(&(self.highs.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        for word in self.lows.iter().chain(&self.highs) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Decodes what [`EliasFano::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::checked(bytes)
            .ok_or_else(|| Error::corruption("Elias-Fano list", 0, "impossible contents"))
    }

    fn checked(bytes: &[u8]) -> Option<Self> {
        let (header, words) = bytes.split_at_checked(HEADER_BYTES)?;
        let low_bits = u32::from_le_bytes(header[..4].try_into().ok()?);
        let high_words = u32::from_le_bytes(header[4..8].try_into().ok()?) as usize;
        let len = u64::from_le_bytes(header[8..].try_into().ok()?);
        let (words, rest) = words.as_chunks::<8>();
        let mut lows: Vec<u64> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
        let low_words = len.checked_mul(u64::from(low_bits))?.div_ceil(64);
        if !rest.is_empty() || low_bits > 63 || low_words + high_words as u64 != words.len() as u64
        {
            return None;
        }
        let highs = lows.split_off(low_words as usize);
        lows.shrink_to_fit();
        let ones: u64 = highs.iter().map(|w| u64::from(w.count_ones())).sum();
        (ones == len && u32::try_from(len).is_ok()).then(|| EliasFano {
            low_bits,
            len,
            samples: sample(&highs),
            lows,
            highs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    fn list(values: &[u64], low_bits: u32) -> EliasFano {
        let mut builder = EliasFanoBuilder::new(low_bits);
        values.iter().for_each(|v| builder.push(*v));
        let list = builder.finish();
        let mut bytes = Vec::new();
        list.encode(&mut bytes);
        assert_eq!(EliasFano::decode(&bytes).expect("just encoded"), list);
        list
    }

    #[test]
    fn zeroes_are_found_wherever_they_are() {
        let mut prng = Prng::new(9);
        let mut words = vec![0, 1, 1 << 63, u64::MAX >> 1, u64::MAX << 1, 0xFF00_FF00_FF00_FF00];
        words.extend((0..200).map(|_| prng.next_u64() & prng.next_u64() | prng.next_u64()));
        for word in words {
            let places = (0..64).filter(|bit| word >> bit & 1 == 0);
            assert_eq!(behind_zero(word, 0), 0);
            for (before, place) in places.enumerate() {
                assert_eq!(behind_zero(word, before as u32 + 1), place + 1, "{word:x}");
            }
        }
    }

    #[test]
    fn counts_are_those_of_the_plain_list() {
        let mut prng = Prng::new(5);
        for round in 0..60 {
            let universe = [1u64, 50, 3000, 1 << 20, 1 << 40][round % 5];
            let count = [0u64, 1, 3, 700, 6000][round / 5 % 5];
            let mut values: Vec<u64> = (0..count).map(|_| prng.below(universe)).collect();
            values.sort_unstable();
            // As many upper parts as a list is meant for, give or take a few bits.
            let spread = universe.checked_ilog2().unwrap_or(0);
            let low_bits = spread.saturating_sub(count.max(1).ilog2()) + round as u32 % 3;
            let list = list(&values, low_bits);
            assert_eq!(list.len(), count);
            let near = values.iter().flat_map(|v| [v.saturating_sub(1), *v, v + 1]);
            let far = [0, universe - 1, universe, 4 * universe];
            for x in near.chain(far) {
                let expected = values.partition_point(|v| *v <= x) as u64;
                let here = values.binary_search(&x).is_ok();
                assert_eq!(list.count_up_to(x), (expected, here), "{x} round {round}");
            }
        }
    }

    #[test]
    fn the_size_is_two_bits_and_the_lower_ones() {
        let mut prng = Prng::new(6);
        let mut values: Vec<u64> = (0..100_000).map(|_| prng.below(100_000 << 5)).collect();
        values.sort_unstable();
        let bits = list(&values, 5).bytes() as f64 * 8.0 / 100_000.0;
        assert!(bits < 7.1, "{bits} bits per value");
    }

    #[test]
    fn impossible_contents_are_refused() {
        let mut bytes = Vec::new();
        list(&[1, 5, 9, 1000], 3).encode(&mut bytes);
        for len in 0..bytes.len() {
            assert!(EliasFano::decode(&bytes[..len]).is_err());
        }
        for (at, value) in [(0, 64), (4, 1), (8, 5), (16 + 8, 0)] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            assert!(EliasFano::decode(&damaged).is_err(), "byte {at}");
        }
    }
}
