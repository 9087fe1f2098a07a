//! Headers of pages, as docs/formats/flash-policy.md has them.

use silica_base::{Checksum, Error, ErrorKind, Result};

const MAGIC: &[u8; 4] = b"SiFP";
const VERSION: u8 = 1;
/// Bytes of a page's header.
pub(super) const HEADER_BYTES: usize = 40;

/// Sequences are lower: 2⁶² pages wear out any device.
const SEQUENCE_MAX: u64 = 1 << 62;

/// What a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data = 1,
    Hole = 2,
    Trims = 3,
    Checkpoint = 4,
}

/// The header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) part: u32,
    pub(super) logical: u64,
    pub(super) sequence: u64,
    pub(super) device: u64,
}

impl Header {
    /// Writes the header of `data` to `out`.
    pub(super) fn put(&self, data: &[u8], out: &mut [u8]) {
        out[..HEADER_BYTES].fill(0);
        out[..4].copy_from_slice(MAGIC);
        out[4] = VERSION;
        out[5] = self.kind as u8;
        out[12..16].copy_from_slice(&self.part.to_le_bytes());
        out[16..24].copy_from_slice(&self.logical.to_le_bytes());
        out[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        out[32..40].copy_from_slice(&self.device.to_le_bytes());
        let sum = self.checksum(out, data);
        out[8..12].copy_from_slice(&sum.to_le_bytes());
    }

    fn checksum(&self, header: &[u8], data: &[u8]) -> u32 {
        Checksum::at(self.device, self.sequence)
            .update(&header[..8])
            .update(&header[12..HEADER_BYTES])
            .update(data)
            .finish()
    }

    /// The header of a page; `None` if the checksum is wrong or there is none.
    ///
    /// # Errors
    /// `Unsupported` for another version.
    pub(super) fn of(header: &[u8], data: &[u8]) -> Result<Option<Header>> {
        if header[..4] != *MAGIC {
            return Ok(None);
        }
        if header[4] != VERSION {
            let message = format!(
                "a page of the flash policy level has version {}, this release reads {VERSION}; \
                 use the newer release that wrote it",
                header[4]
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let kind = match header[5] {
            1 => Kind::Data,
            2 => Kind::Hole,
            3 => Kind::Trims,
            4 => Kind::Checkpoint,
            _ => return Ok(None),
        };
        let number =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let four =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let found = Header {
            kind,
            part: four(12),
            logical: number(16),
            sequence: number(24),
            device: number(32),
        };
        let is_valid = found.checksum(header, data) == four(8);
        Ok((is_valid && found.sequence < SEQUENCE_MAX).then_some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { kind: Kind::Trims, part: 3, logical: 0x0102_0304, sequence: 9, device: 77 };

    #[test]
    fn a_header_of_version_1_has_these_bytes() {
        let mut out = [0xFF; 44];
        HEADER.put(b"data", &mut out);
        let golden = [
            &b"SiFP\x01\x03\0\0"[..],
            &0x6BFA987D_u32.to_le_bytes(),
            &[3, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(out[..40], golden.concat()[..]);
        assert_eq!(out[40..], [0xFF; 4], "what lies behind is the caller's");
        assert_eq!(Header::of(&out, b"data").unwrap(), Some(HEADER));
    }

    #[test]
    fn every_flipped_bit_of_header_and_data_is_found() {
        let mut out = [0; 44];
        let (header, data) = out.split_at_mut(40);
        data.copy_from_slice(b"data");
        HEADER.put(data, header);
        for bit in 0..44 * 8 {
            let mut damaged = out;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (header, data) = damaged.split_at(40);
            match Header::of(header, data) {
                Ok(found) => assert_eq!(found, None, "bit {bit}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "bit {bit}"),
            }
        }
    }
}
