//! Lengths and strings out of bytes.

use super::{COMPRESSED, INT_8, INT_16, INT_32, LEN_6, LEN_14, LEN_32, LEN_64, SPECIAL};
use std::borrow::Cow;

/// Why something cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes end before it does.
    Cut,
    /// It says something that cannot be.
    Data,
}

type Result<T> = std::result::Result<T, Fault>;

/// What is left to read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Fault::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn chunk<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Fault::Cut)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(self.chunk::<1>()?[0])
    }

    /// A length that is no special string's, whose first byte is `first`.
    fn len_after(&mut self, first: u8) -> Result<u64> {
        match (first >> 6, first) {
            (LEN_6, _) => Ok(u64::from(first & 0x3F)),
            (LEN_14, _) => Ok(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            (_, LEN_32) => Ok(u32::from_be_bytes(self.chunk()?).into()),
            (_, LEN_64) => Ok(u64::from_be_bytes(self.chunk()?)),
            _ => Err(Fault::Data),
        }
    }

    /// A length, or a number that is written as one.
    pub(super) fn len(&mut self) -> Result<u64> {
        let first = self.byte()?;
        self.len_after(first)
    }

    /// A string of at most `len_max` bytes.
    pub(super) fn string(&mut self, len_max: usize) -> Result<Cow<'a, [u8]>> {
        let within = |len: u64| match usize::try_from(len) {
            Ok(len) if len <= len_max => Ok(len),
            _ => Err(Fault::Data),
        };
        let first = self.byte()?;
        if first >> 6 != SPECIAL {
            let len = within(self.len_after(first)?)?;
            return self.take(len).map(Cow::Borrowed);
        }
        let number = match first & 0x3F {
            INT_8 => i32::from(i8::from_le_bytes(self.chunk()?)),
            INT_16 => i32::from(i16::from_le_bytes(self.chunk()?)),
            INT_32 => i32::from_le_bytes(self.chunk()?),
            COMPRESSED => {
                let (packed, len) = (within(self.len()?)?, within(self.len()?)?);
                let packed = self.take(packed)?;
                return unpack(packed, len).map(Cow::Owned).ok_or(Fault::Data);
            }
            _ => return Err(Fault::Data),
        };
        Ok(Cow::Owned(number.to_string().into_bytes()))
    }

    /// Passes over a string of any length.
    pub(super) fn skip_string(&mut self) -> Result<()> {
        let first = self.byte()?;
        let len = match (first >> 6, first & 0x3F) {
            (SPECIAL, INT_8) => 1,
            (SPECIAL, INT_16) => 2,
            (SPECIAL, INT_32) => 4,
            (SPECIAL, COMPRESSED) => {
                let packed = self.len()?;
                self.len()?;
                packed
            }
            (SPECIAL, _) => return Err(Fault::Data),
            _ => self.len_after(first)?,
        };
        self.take(usize::try_from(len).map_err(|_| Fault::Data)?).map(drop)
    }

    pub(super) fn skip_strings(&mut self, count: u64) -> Result<()> {
        (0..count).try_for_each(|_| self.skip_string())
    }
}

/// What LZF has packed: runs of bytes as they are (a byte below 32 tells how many, less one), and
/// repetitions of earlier bytes (three bits of the length, thirteen of the distance).
fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // A repetition of 3 bytes makes 264 of them at most.
    if len > packed.len().saturating_mul(264) {
        return None;
    }
    let mut out: Vec<u8> = Vec::with_capacity(len);
    let mut reader = Reader(packed);
    while !reader.0.is_empty() {
        let control = usize::from(reader.byte().ok()?);
        if control < 32 {
            out.extend_from_slice(reader.take(control + 1).ok()?);
        } else {
            let mut run = control >> 5;
            if run == 7 {
                run += usize::from(reader.byte().ok()?);
            }
            let distance = (control & 0x1F) << 8 | usize::from(reader.byte().ok()?);
            let start = out.len().checked_sub(distance + 1)?;
            if out.len() + run + 2 > len {
                return None;
            }
            // What is repeated may be written by the repetition itself.
            (start..start + run + 2).for_each(|at| out.push(out[at]));
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_unpacked() {
        // "ab", then 7 + 5 + 2 bytes from two back.
        let packed = [1, b'a', b'b', 7 << 5, 5, 1];
        assert_eq!(unpack(&packed, 16).unwrap(), b"abababababababab");
        assert_eq!(unpack(&packed, 15), None);
        assert_eq!(unpack(&packed, 17), None);
        assert_eq!(unpack(&[1 << 5, 0], 3), None, "nothing is there to be repeated");
        assert_eq!(unpack(&[0], 1), None);
        assert_eq!(unpack(&[0, 1], usize::MAX), None);
    }
}
