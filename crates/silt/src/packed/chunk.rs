//! One chunk: payload and trailer.

use silica_base::{BLOCK_BYTES, Checksum, Error, Result};

/// Bytes of a chunk: the unit of reading and of checksums.
pub const CHUNK_BYTES: usize = BLOCK_BYTES;
/// Payload bytes of a chunk.
pub const PAYLOAD_BYTES: usize = CHUNK_BYTES - TRAILER_BYTES;
/// first u16, used u16, CRC-32C u32.
const TRAILER_BYTES: usize = 8;
const FIRST_AT: usize = PAYLOAD_BYTES;
const USED_AT: usize = PAYLOAD_BYTES + 2;
const SUM_AT: usize = PAYLOAD_BYTES + 4;

/// What the trailer of a checked chunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Payload offset of the first entry that starts in this chunk; `used` where none does.
    pub(super) first: usize,
    /// Payload bytes in use; the rest is zero.
    pub(super) used: usize,
}

fn sum(chunk: &[u8], file_id: u64, number: u64) -> u32 {
    Checksum::at(file_id, number).update(&chunk[..SUM_AT]).finish()
}

/// Zeroes the unused payload and writes the trailer.
pub(super) fn seal(chunk: &mut [u8], file_id: u64, number: u64, trailer: Trailer) {
    chunk[trailer.used..PAYLOAD_BYTES].fill(0);
    chunk[FIRST_AT..USED_AT].copy_from_slice(&(trailer.first as u16).to_le_bytes());
    chunk[USED_AT..SUM_AT].copy_from_slice(&(trailer.used as u16).to_le_bytes());
    let sum = sum(chunk, file_id, number);
    chunk[SUM_AT..CHUNK_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// Checks the first chunk of `bytes` and reads its trailer.
pub(super) fn check(bytes: &[u8], name: &str, file_id: u64, number: u64) -> Result<Trailer> {
    let damaged = |what: &str| {
        Err(Error::corruption(name, number * CHUNK_BYTES as u64, format!("chunk {number} {what}")))
    };
    let Some(chunk) = bytes.get(..CHUNK_BYTES) else { return damaged("is cut short") };
    let stored = u32::from_le_bytes([
        chunk[SUM_AT],
        chunk[SUM_AT + 1],
        chunk[SUM_AT + 2],
        chunk[SUM_AT + 3],
    ]);
    if sum(chunk, file_id, number) != stored {
        return damaged("does not match its checksum");
    }
    let first = usize::from(u16::from_le_bytes([chunk[FIRST_AT], chunk[FIRST_AT + 1]]));
    let used = usize::from(u16::from_le_bytes([chunk[USED_AT], chunk[USED_AT + 1]]));
    if first > used || used > PAYLOAD_BYTES {
        return damaged("has an impossible trailer");
    }
    Ok(Trailer { first, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_wrong_place_is_refused() {
        let mut chunk = vec![7; CHUNK_BYTES];
        let trailer = Trailer { first: 3, used: 100 };
        seal(&mut chunk, 5, 9, trailer);
        assert_eq!(check(&chunk, "f", 5, 9).expect("sealed"), trailer);
        assert!(chunk[100..PAYLOAD_BYTES].iter().all(|b| *b == 0));
        assert!(check(&chunk, "f", 6, 9).is_err() && check(&chunk, "f", 5, 8).is_err());
        assert!(check(&chunk[..4095], "f", 5, 9).is_err());
        for bit in 0..CHUNK_BYTES * 8 {
            chunk[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&chunk, "f", 5, 9).is_err(), "bit {bit}");
            chunk[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
