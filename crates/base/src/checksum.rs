//! CRC-32C, bound to the place where the bytes live.

/// CRC-32C of `bytes`.
#[inline]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// A running CRC-32C that can be seeded with the identity and position of a block, so that an
/// intact block in the wrong place does not pass.
#[derive(Debug, Clone, Copy)]
pub struct Checksum(u32);

impl Checksum {
    /// Starts a checksum for the block at `position` of the file whose unique id is `file`.
    #[inline]
    pub fn at(file: u64, position: u64) -> Self {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&file.to_le_bytes());
        place[8..].copy_from_slice(&position.to_le_bytes());
        Checksum(crc32c::crc32c(&place))
    }

    /// Adds `bytes`.
    #[inline]
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        Checksum(crc32c::crc32c_append(self.0, bytes))
    }

    /// The checksum of everything added.
    #[inline]
    pub fn finish(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vector() {
        assert_eq!(checksum(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn place_is_part_of_the_sum() {
        let here = Checksum::at(1, 0).update(b"x").finish();
        assert_ne!(here, Checksum::at(1, 1).update(b"x").finish());
        assert_ne!(here, Checksum::at(2, 0).update(b"x").finish());
    }
}
