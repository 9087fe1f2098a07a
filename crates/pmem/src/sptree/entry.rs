//! Entries beside the leaf: those that no slot has room for.
//!
//! A reader may meet bytes that are freed and used again while it reads them. So nothing here
//! believes a length before it has compared it with the region, and whoever reads checks the leaf's
//! version afterwards: [`Torn`] means damage only if that has not changed.

use crate::space::Space;
use silica_base::{Checksum, Error, ErrorKind, Result};
use silica_device::region::Region;
use silica_engine::EntryRef;

/// Longest key.
pub(crate) const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value.
pub(crate) const VALUE_BYTES_MAX: usize = 512 << 20;
/// Bytes of an entry before its key.
const HEADER_BYTES: u64 = 24;
/// Bytes compared or summed at a time.
const PIECE_BYTES: usize = 256;

/// What was read cannot be what was written: it changed meanwhile, or it is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Torn {
    /// Where.
    pub(crate) at: u64,
}

impl Torn {
    /// The error if nothing changed meanwhile.
    pub(crate) fn error(self, region: &str) -> Error {
        Error::corruption(region, self.at, "an entry or a leaf does not match its checksum")
    }
}

/// An entry's header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    at: u64,
    sum: u32,
    pub(crate) user_bits: u32,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    pub(crate) expires_unix_ms: u64,
}

impl Header {
    /// Reads the header of the entry at `at`.
    #[inline]
    pub(crate) fn read<R: Region>(region: &R, at: u64) -> Result<Header, Torn> {
        let len = region.len();
        if !at.is_multiple_of(16) || at == 0 || at + HEADER_BYTES > len {
            return Err(Torn { at });
        }
        let (first, second) = (region.word(at), region.word(at + 8));
        let (key_len, value_len) = ((second & 0xFFFF_FFFF) as usize, (second >> 32) as usize);
        let is_possible = key_len <= KEY_BYTES_MAX
            && value_len <= VALUE_BYTES_MAX
            && at + HEADER_BYTES + (key_len + value_len) as u64 <= len;
        if !is_possible {
            return Err(Torn { at });
        }
        Ok(Header {
            at,
            sum: first as u32,
            user_bits: (first >> 32) as u32,
            key_len,
            value_len,
            expires_unix_ms: region.word(at + 16),
        })
    }

    /// True if the entry's time is over.
    #[inline]
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.expires_unix_ms != 0 && self.expires_unix_ms <= now_ms
    }

    fn key_at(&self) -> u64 {
        self.at + HEADER_BYTES
    }

    /// True if the entry's key is `key`.
    pub(crate) fn has_key<R: Region>(&self, region: &R, key: &[u8]) -> bool {
        if self.key_len != key.len() {
            return false;
        }
        let mut piece = [0; PIECE_BYTES];
        let mut at = self.key_at();
        for part in key.chunks(PIECE_BYTES) {
            region.read(at, &mut piece[..part.len()]);
            if &piece[..part.len()] != part {
                return false;
            }
            at += part.len() as u64;
        }
        true
    }

    /// Appends the key to `out`.
    pub(crate) fn read_key<R: Region>(&self, region: &R, out: &mut Vec<u8>) {
        append(region, self.key_at(), self.key_len, out);
    }

    /// Appends key and value to `out`, and checks the sum over them.
    pub(crate) fn read_whole<R: Region>(
        &self,
        space: &Space<R>,
        out: &mut Vec<u8>,
    ) -> Result<(), Torn> {
        let start = out.len();
        append(space.region(), self.key_at(), self.key_len + self.value_len, out);
        let sum = self.sum_of(space.store(), &out[start..]);
        if sum == self.sum { Ok(()) } else { Err(Torn { at: self.at }) }
    }

    fn sum_of(&self, store: u64, key_and_value: &[u8]) -> u32 {
        Checksum::at(store, self.at)
            .update(&self.user_bits.to_le_bytes())
            .update(&(self.key_len as u32).to_le_bytes())
            .update(&(self.value_len as u32).to_le_bytes())
            .update(&self.expires_unix_ms.to_le_bytes())
            .update(key_and_value)
            .finish()
    }
}

fn append<R: Region>(region: &R, at: u64, len: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + len, 0);
    region.read(at, &mut out[start..]);
}

/// Stores an entry beside the leaf and begins to make it durable. Where it lies.
///
/// # Errors
/// `Full`.
pub(crate) fn store_entry<R: Region>(
    space: &Space<R>,
    key: &[u8],
    entry: &EntryRef<'_>,
) -> Result<u64> {
    let bytes = HEADER_BYTES + (key.len() + entry.value.len()) as u64;
    let at = space.allocate(bytes)?;
    let sum = Checksum::at(space.store(), at)
        .update(&entry.user_bits.to_le_bytes())
        .update(&(key.len() as u32).to_le_bytes())
        .update(&(entry.value.len() as u32).to_le_bytes())
        .update(&entry.expires_unix_ms.to_le_bytes())
        .update(key)
        .update(entry.value)
        .finish();
    let region = space.region();
    region.store(at, u64::from(sum) | u64::from(entry.user_bits) << 32);
    region.store(at + 8, key.len() as u64 | (entry.value.len() as u64) << 32);
    region.store(at + 16, entry.expires_unix_ms);
    region.write(at + HEADER_BYTES, key);
    region.write(at + HEADER_BYTES + key.len() as u64, entry.value);
    region.flush(at, bytes);
    Ok(at)
}

/// Refuses what is too large for the store.
pub(crate) fn check_sizes(key: &[u8], value: Option<&[u8]>) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        let message = format!("a key of {} bytes is over {KEY_BYTES_MAX}", key.len());
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    if let Some(value) = value.filter(|value| value.len() > VALUE_BYTES_MAX) {
        let message = format!("a value of {} bytes is over {VALUE_BYTES_MAX}", value.len());
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}
