//! Reading codes from a padded byte string, least significant bit first, forwards or backwards.

use silica_base::BitWriter;

/// Zero bytes behind the last code, so that a look ahead is one load.
pub(super) const PAD_BYTES: usize = 8;

/// Most bits that [`Cursor::look`] can be asked for.
pub(super) const LOOK_BITS_MAX: u32 = 57;

/// A position in a byte string of codes, with the bits ahead of it in a register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Position in bits: of the next bit forwards, behind the next bit backwards.
    at: u64,
    backwards: bool,
    ahead: u64,
    have: u32,
}

impl<'a> Cursor<'a> {
    /// Reads bits `at`, `at + 1`, ...
    #[inline]
    pub(super) fn forwards(bytes: &'a [u8], at: u64) -> Self {
        // A damaged directory may say any place; one beyond the end serves for all of those.
        let at = at.min(bytes.len() as u64 * 8 + 1);
        Cursor { bytes, at, backwards: false, ahead: 0, have: 0 }
    }

    /// Reads bits `end - 1`, `end - 2`, ...
    #[inline]
    pub(super) fn backwards(bytes: &'a [u8], end: u64) -> Self {
        Cursor { bytes, at: end, backwards: true, ahead: 0, have: 0 }
    }

    /// Position in bits.
    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next bits without consuming them: `NEED` at least, zeroes near the end.
    #[inline]
    pub(super) fn look<const NEED: u32>(&mut self) -> u64 {
        const { assert!(NEED <= LOOK_BITS_MAX) };
        if self.have < NEED {
            self.refill();
        }
        self.ahead
    }

    #[inline]
    fn refill(&mut self) {
        let byte = (self.at / 8) as usize;
        self.have = LOOK_BITS_MAX;
        if self.backwards {
            // The byte with the next bit is the last of the eight.
            let from = (self.at.div_ceil(8) as usize).wrapping_sub(8);
            let word = match self.bytes.get(from..).and_then(|rest| rest.first_chunk::<8>()) {
                Some(word) => u64::from_le_bytes(*word),
                None => self.word_at_start(),
            };
            self.ahead = (word << (self.at.wrapping_neg() % 8)).reverse_bits();
        } else {
            let rest = self.bytes.get(byte..).and_then(|rest| rest.first_chunk::<8>());
            self.ahead = rest.map_or(0, |word| u64::from_le_bytes(*word)) >> (self.at % 8);
        }
    }

    /// The bytes up to the next bit, where they are fewer than eight, with zeroes before them.
    #[cold]
    fn word_at_start(&self) -> u64 {
        let len = self.at.div_ceil(8) as usize;
        let mut word = [0; 8];
        if let Some(start) = self.bytes.get(..len).filter(|start| start.len() < 8) {
            word[8 - len..].copy_from_slice(start);
        }
        u64::from_le_bytes(word)
    }

    /// Consumes `width` bits, no more than were looked at.
    #[inline]
    pub(super) fn skip(&mut self, width: u32) {
        let step = u64::from(width);
        self.at = if self.backwards { self.at.wrapping_sub(step) } else { self.at + step };
        self.ahead >>= width;
        self.have -= width;
    }

    /// True beyond the codes. Codes are never empty, so whoever stops here ends.
    #[inline]
    pub(super) fn is_past_end(&self) -> bool {
        self.at.wrapping_sub(1) >= self.bytes.len() as u64 * 8 && (self.backwards || self.at != 0)
    }

    /// Reads `width` (at most 64) bits.
    #[inline]
    pub(super) fn read(&mut self, width: u32) -> u64 {
        let low_width = width.min(32);
        let low = self.look::<32>() & ((1 << low_width) - 1);
        self.skip(low_width);
        if width <= 32 {
            return low;
        }
        let high = self.look::<32>() & ((1 << (width - 32)) - 1);
        self.skip(width - 32);
        low | high << 32
    }

    /// Reads ones up to a zero: how many.
    #[inline]
    pub(super) fn read_unary(&mut self) -> u32 {
        let ones = self.look::<32>().trailing_ones();
        if ones < 32 {
            self.skip(ones + 1);
            return ones;
        }
        self.read_long_unary()
    }

    #[cold]
    fn read_long_unary(&mut self) -> u32 {
        let mut total = 0;
        loop {
            let ones = self.look::<32>().trailing_ones();
            if ones < 32 {
                self.skip(ones + 1);
                return total + ones;
            }
            self.skip(32);
            total += 32;
            if self.is_past_end() {
                return total;
            }
        }
    }
}

/// Appends the bits of `from`, the last one first.
pub(super) fn append_reversed(out: &mut BitWriter, from: &BitWriter) {
    let mut width = ((from.len_bits() + 63) % 64 + 1) as u32;
    for word in from.words().iter().rev() {
        out.write(word.reverse_bits() >> (64 - width), width);
        width = 64;
    }
}

/// Codes that are being written: a short writer, and the bytes before what is in it.
#[derive(Debug, Default)]
pub(super) struct CodeBytes {
    bytes: Vec<u8>,
    writer: BitWriter,
}

impl CodeBytes {
    /// Where to write. Its length counts all bits.
    #[inline]
    pub(super) fn writer(&mut self) -> &mut BitWriter {
        &mut self.writer
    }

    /// Bits written so far.
    #[inline]
    pub(super) fn len_bits(&self) -> u64 {
        self.writer.len_bits()
    }

    /// Empties the writer. Memory grows by an eighth, since indexes are built where it is scarce.
    pub(super) fn drain(&mut self) {
        let more = self.writer.words().len() * 8;
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.reserve_exact(more.max(self.bytes.len() / 8));
        }
        self.writer.drain_into(&mut self.bytes);
    }

    /// The bytes of all codes, with the padding behind them.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let len = self.len_bits().div_ceil(8) as usize;
        self.drain();
        self.bytes.reserve_exact(len + PAD_BYTES - self.bytes.len());
        for word in self.writer.words() {
            self.bytes.extend_from_slice(&word.to_le_bytes()[..len - self.bytes.len()]);
        }
        self.bytes.resize(len + PAD_BYTES, 0);
        self.bytes.shrink_to_fit();
        self.bytes
    }
}

/// The bytes of the codes in `codes`, with the padding behind them.
#[cfg(test)]
pub(super) fn pad(codes: &BitWriter) -> Vec<u8> {
    CodeBytes { bytes: Vec::new(), writer: codes.clone() }.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn fields_read_both_ways() {
        let mut prng = Prng::new(1);
        for case in 0..300 {
            let mut one_way = BitWriter::new();
            let mut fields = Vec::new();
            for _ in 0..prng.below(40) {
                let width = 1 + prng.below(64) as u32;
                let field = prng.next_u64() >> (64 - width);
                one_way.write(field, width);
                fields.push((field, width));
            }
            let mut both = BitWriter::new();
            both.write(1, 1 + case % 64);
            append_reversed(&mut both, &one_way);
            let end = both.len_bits();
            both.write(1, 1);
            let (forward, back) = (pad(&one_way), pad(&both));
            let mut forward = Cursor::forwards(&forward, 0);
            let mut back = Cursor::backwards(&back, end);
            for (field, width) in fields {
                assert_eq!([forward.read(width), back.read(width)], [field; 2]);
            }
            assert_eq!((forward.at(), back.at()), (one_way.len_bits(), u64::from(1 + case % 64)));
        }
    }

    #[test]
    fn unary_numbers_of_any_size() {
        let mut writer = BitWriter::new();
        writer.write(u64::MAX >> 1, 64);
        writer.write(u64::MAX, 64);
        writer.write(0b0111, 7);
        let mut bytes = pad(&writer);
        assert_eq!(bytes.len(), 17 + PAD_BYTES);
        let mut cursor = Cursor::forwards(&bytes, 0);
        assert_eq!([63, 67].map(|_| cursor.read_unary()), [63, 67]);
        bytes.fill(0xFF);
        assert!(Cursor::forwards(&bytes, 0).read_unary() > 100, "ones without an end");
        assert!(Cursor::backwards(&bytes, 200).read_unary() > 100, "ones without an end");
    }

    #[test]
    fn any_position_is_safe() {
        let bytes = [0xAA; 20];
        for at in [0, 1, 63, 64, 159, 160, 161, 1 << 40, u64::MAX] {
            for mut cursor in [Cursor::forwards(&bytes, at), Cursor::backwards(&bytes, at)] {
                cursor.look::<32>();
                assert_eq!(cursor.is_past_end(), at > 160 || (at == 0 && cursor.backwards));
            }
        }
    }
}
