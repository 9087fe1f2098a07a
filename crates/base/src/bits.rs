//! Bit-granular writing and reading, least significant bit first.

/// Appends bit fields to a vector of 64-bit words.
#[derive(Debug, Default, Clone)]
pub struct BitWriter {
    words: Vec<u64>,
    len_bits: u64,
}

impl BitWriter {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bits written so far.
    pub fn len_bits(&self) -> u64 {
        self.len_bits
    }

    /// Appends the `width` (at most 64) low bits of `value`; higher bits must be zero.
    #[inline]
    pub fn write(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 64 && (width == 64 || value >> width == 0));
        if width == 0 {
            return;
        }
        let used = (self.len_bits % 64) as u32;
        if used == 0 {
            self.words.push(value);
        } else {
            *self.words.last_mut().expect("a partly used word exists") |= value << used;
            if used + width > 64 {
                self.words.push(value >> (64 - used));
            }
        }
        self.len_bits += u64::from(width);
    }

    /// Moves the complete words to the end of `out`, as little-endian bytes, so that a long bit
    /// string need not be held twice. [`words`](Self::words) has what is left.
    pub fn drain_into(&mut self, out: &mut Vec<u8>) {
        let partial = !self.len_bits.is_multiple_of(64);
        let complete = self.words.len().saturating_sub(usize::from(partial));
        for word in self.words.drain(..complete) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// The words written; bits past `len_bits` are zero.
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// The words written so far.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

/// Reads bit fields from words; past the end it reads zeroes.
#[derive(Debug, Clone, Copy)]
pub struct BitReader<'a> {
    words: &'a [u64],
    at_bit: u64,
}

impl<'a> BitReader<'a> {
    /// A reader of `words` that starts at bit `at_bit`.
    #[inline]
    pub fn new(words: &'a [u64], at_bit: u64) -> Self {
        BitReader { words, at_bit }
    }

    /// Position in bits.
    #[inline]
    pub fn at_bit(&self) -> u64 {
        self.at_bit
    }

    /// The next 64 bits without consuming them.
    #[inline]
    pub fn peek(&self) -> u64 {
        let (word, shift) = ((self.at_bit / 64) as usize, self.at_bit % 64);
        let low = self.words.get(word).copied().unwrap_or(0) >> shift;
        // Two shifts, since a shift by 64 is not defined.
        let high = self.words.get(word + 1).copied().unwrap_or(0) << 1 << (63 - shift);
        low | high
    }

    /// Skips `width` bits.
    #[inline]
    pub fn skip(&mut self, width: u32) {
        self.at_bit += u64::from(width);
    }

    /// Reads `width` (at most 64) bits.
    #[inline]
    pub fn read(&mut self, width: u32) -> u64 {
        let bits = self.peek();
        self.skip(width);
        if width == 64 { bits } else { bits & ((1 << width) - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    #[test]
    fn fields_of_random_widths_round_trip() {
        let mut prng = Prng::new(11);
        let fields: Vec<(u64, u32)> = (0..5000)
            .map(|_| {
                let width = prng.below(65) as u32;
                let value = if width == 0 { 0 } else { prng.next_u64() >> (64 - width) };
                (value, width)
            })
            .collect();
        let mut writer = BitWriter::new();
        fields.iter().for_each(|&(v, w)| writer.write(v, w));
        let words = writer.into_words();
        let mut reader = BitReader::new(&words, 0);
        assert!(fields.iter().all(|&(v, w)| reader.read(w) == v));
    }

    #[test]
    fn draining_keeps_the_bits_in_order() {
        let (mut whole, mut drained, mut bytes) = (BitWriter::new(), BitWriter::new(), Vec::new());
        for width in (1..65).chain([64, 64, 1]) {
            whole.write(u64::MAX >> (64 - width), width);
            drained.write(u64::MAX >> (64 - width), width);
            whole.write(0, 3);
            drained.write(0, 3);
            drained.drain_into(&mut bytes);
            assert!(drained.words().len() <= 1);
        }
        assert_eq!(drained.len_bits(), whole.len_bits());
        drained.words().iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        let all: Vec<u8> = whole.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes, all);
    }

    #[test]
    fn reading_past_the_end_gives_zeroes() {
        assert_eq!(BitReader::new(&[u64::MAX], 32).peek(), u64::from(u32::MAX));
        assert_eq!(BitReader::new(&[], 1000).peek(), 0);
    }
}
