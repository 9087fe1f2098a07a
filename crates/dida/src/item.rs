//! Items, as docs/formats/flash-cache.md has them.

use silica_base::{Checksum, VARINT_BYTES_MAX, read_varint};
use silica_engine::EntryRef;

/// Bytes of an item before its key at most.
pub(crate) const ITEM_HEADER_MAX: usize = 5 + 2 * VARINT_BYTES_MAX + 12;
const IS_ITEM: u8 = 128;
const EXPIRES: u8 = 1;
const HAS_USER_BITS: u8 = 2;
/// Larger lengths are damage.
const BYTES_MAX: u64 = 1 << 30;

/// What checksums of a slab's items begin with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seal {
    pub(crate) store: u64,
    /// Sequence of the slab times bytes of a slab.
    pub(crate) base: u64,
}

/// An item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) entry: EntryRef<'a>,
}

impl Item<'_> {
    /// Bytes of the item, without what fills it up to a granule.
    pub(crate) fn bytes(&self) -> usize {
        let varint = |len: usize| silica_base::varint_len(len as u64);
        let entry = &self.entry;
        5 + varint(self.key.len())
            + varint(entry.value.len())
            + 8 * usize::from(entry.expires_unix_ms != 0)
            + 4 * usize::from(entry.user_bits != 0)
            + self.key.len()
            + entry.value.len()
    }

    /// What comes before the key, for an item that begins at `offset`.
    pub(crate) fn header(&self, seal: Seal, offset: u32) -> Header {
        let mut header = Header { bytes: [0; ITEM_HEADER_MAX], len: 5 };
        let entry = &self.entry;
        header.bytes[4] = IS_ITEM;
        header.varint(self.key.len() as u64);
        header.varint(entry.value.len() as u64);
        if entry.expires_unix_ms != 0 {
            header.bytes[4] |= EXPIRES;
            header.push(&entry.expires_unix_ms.to_le_bytes());
        }
        if entry.user_bits != 0 {
            header.bytes[4] |= HAS_USER_BITS;
            header.push(&entry.user_bits.to_le_bytes());
        }
        let sum = Checksum::at(seal.store, seal.base + u64::from(offset))
            .update(&header.bytes[4..header.len])
            .update(self.key)
            .update(entry.value)
            .finish();
        header.bytes[..4].copy_from_slice(&sum.to_le_bytes());
        header
    }
}

/// What comes before an item's key.
pub(crate) struct Header {
    bytes: [u8; ITEM_HEADER_MAX],
    len: usize,
}

impl Header {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 128 {
            self.push(&[value as u8 | 128]);
            value >>= 7;
        }
        self.push(&[value as u8]);
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Where the parts of an item are, by its first bytes.
struct Parts {
    key_at: usize,
    key_bytes: usize,
    value_bytes: usize,
    expires_unix_ms: u64,
    user_bits: u32,
}

fn parts(bytes: &[u8]) -> Option<Parts> {
    let flags = *bytes.get(4)?;
    if flags & IS_ITEM == 0 || flags & !(IS_ITEM | EXPIRES | HAS_USER_BITS) != 0 {
        return None;
    }
    let mut at = 5;
    let mut varint = || {
        let (value, len) = read_varint(&bytes[at..])?;
        at += len;
        (value <= BYTES_MAX).then_some(value as usize)
    };
    let (key_bytes, value_bytes) = (varint()?, varint()?);
    let mut expires_unix_ms = 0;
    if flags & EXPIRES != 0 {
        expires_unix_ms = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
        at += 8;
    }
    let mut user_bits = 0;
    if flags & HAS_USER_BITS != 0 {
        user_bits = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        at += 4;
    }
    Some(Parts { key_at: at, key_bytes, value_bytes, expires_unix_ms, user_bits })
}

/// The item that begins at `offset` of its slab, at the front of `bytes`, and its bytes; `None` if
/// it is cut short or not what was written there.
pub(crate) fn decode(bytes: &[u8], seal: Seal, offset: u32) -> Option<(Item<'_>, usize)> {
    let Parts { key_at, key_bytes, value_bytes, expires_unix_ms, user_bits } = parts(bytes)?;
    let len = key_at + key_bytes + value_bytes;
    let own = bytes.get(..len)?;
    let sum = Checksum::at(seal.store, seal.base + u64::from(offset)).update(&own[4..]).finish();
    if sum.to_le_bytes() != own[..4] {
        return None;
    }
    let (key, value) = own[key_at..].split_at(key_bytes);
    Some((Item { key, entry: EntryRef { value, expires_unix_ms, user_bits } }, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: Seal = Seal { store: 7, base: 3 << 20 };

    fn encoded(item: &Item<'_>, offset: u32) -> Vec<u8> {
        let header = item.header(SEAL, offset);
        [header.as_bytes(), item.key, item.entry.value].concat()
    }

    #[test]
    fn items_come_back_whole_or_not_at_all() {
        let large = vec![5; 70_000];
        for (key, value, expires_unix_ms, user_bits) in
            [(&b""[..], &b""[..], 0, 0), (b"k", b"v", 9, 0), (b"key", &large, u64::MAX, 1)]
        {
            let item = Item { key, entry: EntryRef { value, expires_unix_ms, user_bits } };
            let bytes = encoded(&item, 40);
            assert_eq!(bytes.len(), item.bytes());
            assert_eq!(decode(&bytes, SEAL, 40), Some((item, bytes.len())));
            assert_eq!(decode(&bytes, SEAL, 41), None);
            assert_eq!(decode(&bytes, Seal { store: 8, ..SEAL }, 40), None);
            let step = (bytes.len() / 64).max(1);
            for cut in (0..bytes.len()).step_by(step) {
                assert_eq!(decode(&bytes[..cut], SEAL, 40), None);
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << (cut % 8);
                assert_eq!(decode(&flipped, SEAL, 40), None, "byte {cut}");
            }
        }
    }

    #[test]
    fn what_nobody_wrote_is_no_item() {
        assert_eq!(decode(&[0; 64], SEAL, 0), None);
        assert_eq!(decode(&[255; 64], SEAL, 0), None);
    }
}
