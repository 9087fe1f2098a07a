//! Reading codes from a padded byte string, least significant bit first.

/// Zero bytes behind the last code, so that a look ahead is one load.
pub(super) const PAD_BYTES: usize = 8;

/// Bits that [`Cursor::peek`] always shows.
pub(super) const PEEK_BITS: u32 = 57;

/// A position in a byte string of codes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Position in bits.
    pub(super) at: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor at bit `at` of `bytes`.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], at: u64) -> Self {
        Cursor { bytes, at: at.min(bytes.len() as u64 * 8) }
    }

    /// The next bits without consuming them, at least [`PEEK_BITS`]; zeroes near the end.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        let byte = (self.at / 8) as usize;
        match self.bytes.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => u64::from_le_bytes(*word) >> (self.at % 8),
            None => 0,
        }
    }

    /// Consumes `width` bits.
    #[inline]
    pub(super) fn skip(&mut self, width: u32) {
        self.at += u64::from(width);
    }

    /// True behind the last code. Codes are never empty, so whoever stops here ends.
    #[inline]
    pub(super) fn is_past_end(&self) -> bool {
        self.at >= self.bytes.len() as u64 * 8
    }

    /// Reads `width` (at most 64) bits.
    #[inline]
    pub(super) fn read(&mut self, width: u32) -> u64 {
        let low_width = width.min(32);
        let low = self.peek() & ((1 << low_width) - 1);
        self.skip(low_width);
        if width <= 32 {
            return low;
        }
        let high = self.peek() & ((1 << (width - 32)) - 1);
        self.skip(width - 32);
        low | high << 32
    }

    /// Reads ones up to a zero: how many.
    #[inline]
    pub(super) fn read_unary(&mut self) -> u32 {
        let mut total = 0;
        loop {
            let ones = self.peek().trailing_ones();
            if ones < PEEK_BITS {
                self.skip(ones + 1);
                return total + ones;
            }
            self.skip(PEEK_BITS);
            total += PEEK_BITS;
            if self.is_past_end() {
                return total;
            }
        }
    }
}

/// The bytes of `words` whose first `len_bits` bits are codes, with the padding behind them.
pub(super) fn pad(words: &[u64], len_bits: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len_bits.div_ceil(8) as usize + PAD_BYTES);
    words.iter().for_each(|w| bytes.extend_from_slice(&w.to_le_bytes()));
    bytes.resize(len_bits.div_ceil(8) as usize, 0);
    bytes.resize(bytes.len() + PAD_BYTES, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::BitWriter;

    #[test]
    fn fields_and_unary_round_trip() {
        let mut writer = BitWriter::new();
        writer.write(u64::MAX >> 1, 64);
        writer.write(u64::MAX, 64);
        writer.write(0b0111, 7);
        let mut cursor_bytes = pad(writer.words(), writer.len_bits());
        assert_eq!(cursor_bytes.len(), 17 + PAD_BYTES);
        let mut cursor = Cursor::new(&cursor_bytes, 1);
        assert_eq!(cursor.read(62), u64::MAX >> 2);
        assert_eq!(cursor.read_unary(), 0);
        assert_eq!(cursor.read_unary(), 67);
        cursor_bytes.fill(0xFF);
        assert!(Cursor::new(&cursor_bytes, 0).read_unary() > 2 * PEEK_BITS, "ones without an end");
    }
}
