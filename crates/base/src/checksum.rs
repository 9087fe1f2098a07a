//! CRC-32C, bound to the place where the bytes live.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
#[inline]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A running CRC-32C that can be seeded with the identity and position of a block, so that an
/// intact block in the wrong place does not pass.
#[derive(Debug, Clone, Copy)]
pub struct Checksum(Digest);

impl Checksum {
    /// Starts a checksum for the block at `position` of the file whose unique id is `file`.
    #[inline]
    pub fn at(file: u64, position: u64) -> Self {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&file.to_le_bytes());
        place[8..].copy_from_slice(&position.to_le_bytes());
        Checksum(Digest::new(CrcAlgorithm::Crc32Iscsi)).update(&place)
    }

    /// Adds `bytes`.
    #[inline]
    #[must_use]
    pub fn update(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self
    }

    /// The checksum of everything added.
    #[inline]
    pub fn finish(self) -> u32 {
        // 32 of the 64 bits that sums of any width come in.
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vector() {
        assert_eq!(checksum(b"123456789"), 0xE306_9283);
    }

    /// A bit at a time.
    fn slow(bytes: &[u8]) -> u32 {
        let shift = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |c, _| shift(c)))
    }

    #[test]
    fn every_length_in_one_piece_or_two_has_the_sum_that_bits_come_to() {
        let mut prng = crate::Prng::new(1);
        let bytes: Vec<u8> = (0..4096).map(|_| prng.next_u64() as u8).collect();
        for len in (0..600).chain([1000, 1023, 1024, 1025, 2047, 4080, 4096]) {
            let bytes = &bytes[..len];
            assert_eq!(checksum(bytes), slow(bytes), "{len} bytes");
            let (head, tail) = bytes.split_at(prng.below(len as u64 + 1) as usize);
            let place = [[7; 8], [9; 8]].concat();
            let placed = slow(&[&place, bytes].concat());
            let [file, position] = [[7; 8], [9; 8]].map(u64::from_le_bytes);
            let sum = Checksum::at(file, position).update(head).update(tail);
            assert_eq!(sum.finish(), placed, "{len} bytes in two pieces");
        }
    }

    #[test]
    fn place_is_part_of_the_sum() {
        let here = Checksum::at(1, 0).update(b"x").finish();
        assert_ne!(here, Checksum::at(1, 1).update(b"x").finish());
        assert_ne!(here, Checksum::at(2, 0).update(b"x").finish());
    }
}
