//! Entries beside the buckets: docs/formats/turbo.md.

use silica_base::{Checksum, Error, Result};
use silica_device::region::Region;
use silica_engine::EntryRef;
use std::ops::Range;

const HEADER_BYTES: usize = 12;
const META_BYTES: usize = 12;
const HAS_META: u16 = 1;
const OFFSET: u64 = (1 << 48) - 1;
const UNIT_BYTES: u64 = 16;
const UNITS_MAX: u64 = (1 << 15) - 1;
const EXPIRES: u64 = 1 << 63;
/// Entries of more bytes are looked at before they are read.
const PEEKED_BYTES: u64 = 4096;
/// Keys are compared in pieces.
const KEY_PIECE_BYTES: usize = 64;
/// Entries of more bytes go past the cache.
const STREAMED_BYTES: usize = 4096;

/// What a slot says of an entry beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer(pub(super) u64);

impl Pointer {
    fn new(offset: u64, bytes: u64, expires: bool) -> Pointer {
        let units = bytes.div_ceil(UNIT_BYTES);
        let units = if units > UNITS_MAX { 0 } else { units };
        Pointer(offset | units << 48 | if expires { EXPIRES } else { 0 })
    }

    /// Where the entry lies.
    #[inline(always)]
    pub(super) fn offset(self) -> u64 {
        self.0 & OFFSET
    }

    /// Its bytes, rounded up; `None` if they are many.
    fn bytes(self) -> Option<u64> {
        let units = self.0 >> 48 & UNITS_MAX;
        (units > 0).then_some(units * UNIT_BYTES)
    }

    /// True if it has a time of expiry.
    pub(super) fn expires(self) -> bool {
        self.0 & EXPIRES != 0
    }
}

/// What the header of an entry says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    key_bytes: usize,
    /// Bytes of the value.
    pub(super) value_bytes: usize,
    has_meta: bool,
    user_bits: u32,
    /// When it expires, in milliseconds; 0 is never.
    pub(super) expires_unix_ms: u64,
}

impl Header {
    fn decode(bytes: &[u8; HEADER_BYTES + META_BYTES]) -> Header {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        let has_meta = u16::from_le_bytes([bytes[10], bytes[11]]) == HAS_META;
        let expires = u64::from(word(16)) | u64::from(word(20)) << 32;
        Header {
            value_bytes: word(4) as usize,
            key_bytes: usize::from(u16::from_le_bytes([bytes[8], bytes[9]])),
            has_meta,
            user_bits: if has_meta { word(12) } else { 0 },
            expires_unix_ms: if has_meta { expires } else { 0 },
        }
    }

    fn key_at(&self) -> usize {
        HEADER_BYTES + if self.has_meta { META_BYTES } else { 0 }
    }

    fn bytes(&self) -> usize {
        self.key_at() + self.key_bytes + self.value_bytes
    }
}

/// An entry that was read into memory, as places in the bytes that were read.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
    pub(super) expires_unix_ms: u64,
    pub(super) user_bits: u32,
}

impl Loaded {
    /// The entry, whose bytes are in `bytes`.
    pub(super) fn entry<'b>(&self, bytes: &'b [u8]) -> EntryRef<'b> {
        EntryRef {
            value: &bytes[self.value.clone()],
            expires_unix_ms: self.expires_unix_ms,
            user_bits: self.user_bits,
        }
    }
}

/// Bytes of an entry.
pub(super) fn bytes_of(key: &[u8], entry: &EntryRef<'_>) -> u64 {
    let meta = if has_meta(entry) { META_BYTES } else { 0 };
    (HEADER_BYTES + meta + key.len() + entry.value.len()) as u64
}

fn has_meta(entry: &EntryRef<'_>) -> bool {
    entry.expires_unix_ms != 0 || entry.user_bits != 0
}

/// Writes an entry at `offset` and flushes it.
pub(super) fn write(
    region: &impl Region,
    store: u64,
    offset: u64,
    key: &[u8],
    entry: &EntryRef<'_>,
) -> Pointer {
    let mut head = [0; HEADER_BYTES + META_BYTES];
    head[4..8].copy_from_slice(&(entry.value.len() as u32).to_le_bytes());
    head[8..10].copy_from_slice(&(key.len() as u16).to_le_bytes());
    let head = if has_meta(entry) {
        head[10..12].copy_from_slice(&HAS_META.to_le_bytes());
        head[12..16].copy_from_slice(&entry.user_bits.to_le_bytes());
        head[16..24].copy_from_slice(&entry.expires_unix_ms.to_le_bytes());
        &mut head[..]
    } else {
        &mut head[..HEADER_BYTES]
    };
    let sum = Checksum::at(store, offset).update(&head[4..]).update(key).update(entry.value);
    head[..4].copy_from_slice(&sum.finish().to_le_bytes());
    let bytes = head.len() + key.len() + entry.value.len();
    let value_at = offset + (head.len() + key.len()) as u64;
    if bytes > STREAMED_BYTES {
        region.write(offset, head);
        region.write(offset + head.len() as u64, key);
        region.flush(offset, value_at - offset);
        region.stream(value_at, entry.value);
    } else {
        let mut whole = Vec::with_capacity(bytes);
        whole.extend_from_slice(head);
        whole.extend_from_slice(key);
        whole.extend_from_slice(entry.value);
        region.write(offset, &whole);
        region.flush(offset, bytes as u64);
    }
    Pointer::new(offset, bytes as u64, entry.expires_unix_ms != 0)
}

/// Reads entries of one region.
pub(super) struct Reader<'r, R> {
    pub(super) region: &'r R,
    pub(super) store: u64,
    pub(super) name: &'r str,
}

impl<R: Region> Reader<'_, R> {
    fn damaged(&self, pointer: Pointer, why: &str) -> Error {
        Error::corruption(self.name, pointer.offset(), why)
    }

    /// What the header says, unchecked.
    pub(super) fn header(&self, pointer: Pointer) -> Result<Header> {
        let mut bytes = [0; HEADER_BYTES + META_BYTES];
        let room = self.region.len().saturating_sub(pointer.offset());
        let len = room.min(bytes.len() as u64) as usize;
        if len < HEADER_BYTES {
            return Err(self.damaged(pointer, "an entry lies beyond the end"));
        }
        self.region.read(pointer.offset(), &mut bytes[..len]);
        Ok(Header::decode(&bytes))
    }

    /// The header of an entry that may be so large that one asks before one reads it.
    pub(super) fn large(&self, pointer: Pointer) -> Result<Option<Header>> {
        match pointer.bytes() {
            Some(bytes) if bytes <= PEEKED_BYTES => Ok(None),
            _ => self.header(pointer).map(Some),
        }
    }

    /// True if the entry has this key. Its checksum is not looked at: a damaged key is another one.
    ///
    /// # Errors
    /// `Corruption` if the entry cannot be one.
    pub(super) fn has_key(&self, pointer: Pointer, key: &[u8]) -> Result<bool> {
        let header = self.header(pointer)?;
        if header.key_bytes != key.len() {
            return Ok(false);
        }
        let at = pointer.offset() + header.key_at() as u64;
        if at + key.len() as u64 > self.region.len() {
            return Err(self.damaged(pointer, "an entry lies beyond the end"));
        }
        let mut piece = [0; KEY_PIECE_BYTES];
        let mut at = at;
        for wanted in key.chunks(KEY_PIECE_BYTES) {
            let piece = &mut piece[..wanted.len()];
            self.region.read(at, piece);
            if *piece != *wanted {
                return Ok(false);
            }
            at += wanted.len() as u64;
        }
        Ok(true)
    }

    /// Reads an entry into `bytes` and checks it.
    ///
    /// # Errors
    /// `Corruption`.
    pub(super) fn load(&self, pointer: Pointer, bytes: &mut Vec<u8>) -> Result<Loaded> {
        let offset = pointer.offset();
        let len = match pointer.bytes() {
            Some(len) => len as usize,
            None => self.header(pointer)?.bytes(),
        };
        let room = self.region.len().saturating_sub(offset);
        let len = (len as u64).min(room) as usize;
        if len < HEADER_BYTES {
            return Err(self.damaged(pointer, "an entry lies beyond the end"));
        }
        bytes.clear();
        bytes.resize(len, 0);
        self.region.read(offset, bytes);
        let mut head = [0; HEADER_BYTES + META_BYTES];
        let head_len = len.min(head.len());
        head[..head_len].copy_from_slice(&bytes[..head_len]);
        let header = Header::decode(&head);
        if header.bytes() > len {
            return Err(self.damaged(pointer, "an entry is longer than its place"));
        }
        let sum = Checksum::at(self.store, offset).update(&bytes[4..header.bytes()]).finish();
        if sum.to_le_bytes() != bytes[..4] {
            return Err(self.damaged(pointer, "an entry does not match its checksum"));
        }
        let key = header.key_at()..header.key_at() + header.key_bytes;
        Ok(Loaded {
            value: key.end..key.end + header.value_bytes,
            key,
            expires_unix_ms: header.expires_unix_ms,
            user_bits: header.user_bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_device::region::RegionClass;
    use silica_device::sim::SimRegion;

    #[test]
    fn entries_come_back_whole_and_every_flipped_byte_is_found() {
        let region = SimRegion::new(1, 1 << 20, RegionClass::Lines);
        let reader = Reader { region: &region, store: 7, name: "r" };
        let values = [0, 1, 30, 5000, 600_000].map(|len| vec![0xAB; len]);
        for (value, expires_unix_ms) in values.iter().flat_map(|v| [(v, 0), (v, 99)]) {
            let entry = EntryRef { value, expires_unix_ms, user_bits: expires_unix_ms as u32 };
            let pointer = write(&region, 7, 4096 + 16, b"some key", &entry);
            assert_eq!(pointer.expires(), expires_unix_ms != 0);
            let mut bytes = Vec::new();
            let loaded = reader.load(pointer, &mut bytes).unwrap();
            assert_eq!(loaded.entry(&bytes), entry);
            assert_eq!(&bytes[loaded.key.clone()], b"some key");
            let len = bytes_of(b"some key", &entry);
            for at in (4112..4112 + len).step_by(1 + len as usize / 200) {
                let (mut old, mut now) = ([0; 1], Vec::new());
                region.read(at, &mut old);
                region.write(at, &[old[0] ^ 0x10]);
                assert!(reader.load(pointer, &mut now).is_err(), "byte {at} of {len}");
                region.write(at, &old);
            }
            let elsewhere = Pointer::new(4096, len, false);
            assert!(reader.load(elsewhere, &mut Vec::new()).is_err());
            let beyond = Pointer::new((1 << 20) - 8, len, false);
            assert!(reader.load(beyond, &mut Vec::new()).is_err());
        }
    }
}
