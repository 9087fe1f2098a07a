//! Extents: whole units of a file with a trailer, in which blocks and sections lie.

use silica_base::{BLOCK_BYTES, Checksum, Error, Result};

/// Bytes of a unit.
pub(super) const UNIT_BYTES: usize = BLOCK_BYTES;
/// used u32, plain u32, codec u32, CRC-32C u32.
pub(super) const TRAILER_BYTES: usize = 16;

/// Units of an extent with so many bytes in use.
#[inline]
pub(super) fn units_for(used: usize) -> usize {
    (used + TRAILER_BYTES).div_ceil(UNIT_BYTES)
}

fn sum(extent: &[u8], file_id: u64, offset: u64) -> u32 {
    Checksum::at(file_id, offset).update(&extent[..extent.len() - 4]).finish()
}

/// What the bytes in use of an extent are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Form {
    /// Bytes when they are decompressed.
    pub(super) plain: u32,
    /// What they are compressed by; 0 where they are as they are.
    pub(super) codec: u32,
}

/// Zeroes what is not used of an extent at `offset` of file `file_id` and writes its trailer.
pub(super) fn seal(extent: &mut [u8], file_id: u64, offset: u64, used: usize, form: Form) {
    extent[used..].fill(0);
    let trailer = extent.len() - TRAILER_BYTES;
    for (at, field) in [used as u32, form.plain, form.codec].into_iter().enumerate() {
        extent[trailer + 4 * at..][..4].copy_from_slice(&field.to_le_bytes());
    }
    let sum = sum(extent, file_id, offset);
    let at = extent.len() - 4;
    extent[at..].copy_from_slice(&sum.to_le_bytes());
}

/// The bytes in use of an extent that lies at `offset` of file `name` and is not compressed.
pub(super) fn check<'a>(
    extent: &'a [u8],
    name: &str,
    file_id: u64,
    offset: u64,
) -> Result<&'a [u8]> {
    let (bytes, form) = check_form(extent, name, file_id, offset)?;
    if form != Form::default() {
        return Err(Error::corruption(name, offset, "a block has an impossible trailer"));
    }
    Ok(bytes)
}

/// Checks bytes that may be compressed, and by what.
#[inline]
pub(super) fn check_form<'a>(
    extent: &'a [u8],
    name: &str,
    file_id: u64,
    offset: u64,
) -> Result<(&'a [u8], Form)> {
    let damaged = |what| Err(Error::corruption(name, offset, what));
    if extent.is_empty() || !extent.len().is_multiple_of(UNIT_BYTES) {
        return damaged("the file ends early");
    }
    let (_, stored) = extent.split_last_chunk().expect("a unit has as many");
    if sum(extent, file_id, offset) != u32::from_le_bytes(*stored) {
        return damaged("a block does not match its checksum");
    }
    let trailer = &extent[extent.len() - TRAILER_BYTES..];
    let field =
        |at: usize| u32::from_le_bytes(trailer[4 * at..4 * at + 4].try_into().expect("four bytes"));
    let used = field(0) as usize;
    if used > extent.len() - TRAILER_BYTES {
        return damaged("a block has an impossible trailer");
    }
    Ok((&extent[..used], Form { plain: field(1), codec: field(2) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_wrong_place_is_refused() {
        let mut extent = vec![7; UNIT_BYTES];
        seal(&mut extent, 5, 8192, 100, Form::default());
        let is_whole = |extent: &[u8], id, at| check(extent, "t", id, at).is_ok();
        assert_eq!(check(&extent, "t", 5, 8192).expect("sealed"), [7; 100]);
        assert!(!is_whole(&extent, 6, 8192) && !is_whole(&extent, 5, 4096));
        assert!(!is_whole(&extent[..UNIT_BYTES - 1], 5, 8192) && !is_whole(&[], 5, 8192));
        for bit in 0..UNIT_BYTES * 8 {
            extent[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&extent, 5, 8192), "bit {bit}");
            extent[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
