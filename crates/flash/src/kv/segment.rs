//! Bytes of segments, as docs/formats/flash-kv.md has them.

use silica_base::{AlignedBuf, Checksum, Format, Result};

const FORMAT: Format =
    Format { name: "flash key-value", magic: b"SiFK", version_bytes: 2, version: 1, steps: &[] };
/// Bytes of a segment before its summary.
pub(crate) const HEAD_BYTES: usize = 56;
const CHECKSUM_AT: usize = 8;
/// Bytes of an entry of the summary.
pub(super) const ENTRY_BYTES: usize = 16;
/// Bytes of an item before its key.
pub(super) const ITEM_HEAD_BYTES: usize = 12;
/// Says that an entry is a tombstone.
const TOMBSTONE: u64 = 1 << 63;

/// Sequences are lower: 2⁶² segments wear out any device.
const SEQUENCE_MAX: u64 = 1 << 62;

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) pages: u32,
    pub(super) entries: u32,
    pub(super) sequence: u64,
    pub(super) store: u64,
    /// Segments up to this sequence were synced before.
    pub(super) synced: u64,
    /// Segments before this sequence had been evicted.
    pub(super) floor: u64,
}

impl Head {
    /// Bytes of head and summary.
    pub(super) fn bytes(&self) -> usize {
        HEAD_BYTES + self.entries as usize * ENTRY_BYTES
    }

    /// What the first page of a segment says; `None` if it is not one. The checksum is not looked
    /// at.
    ///
    /// # Errors
    /// `Unsupported` for another version.
    pub(super) fn of(page: &[u8]) -> Result<Option<Head>> {
        if !page.starts_with(FORMAT.magic) {
            return Ok(None);
        }
        FORMAT.version_of("a segment of the flash key-value level", 0, page)?;
        let head = Head {
            pages: u32_at(page, 12),
            entries: u32_at(page, 16),
            sequence: u64_at(page, 24),
            store: u64_at(page, 32),
            synced: u64_at(page, 40),
            floor: u64_at(page, 48),
        };
        Ok(Some(head))
    }

    fn checksum(&self, head_and_summary: &[u8]) -> u32 {
        Checksum::at(self.store, self.sequence)
            .update(&head_and_summary[..CHECKSUM_AT])
            .update(&head_and_summary[CHECKSUM_AT + 4..])
            .finish()
    }

    fn put(&self, out: &mut [u8]) {
        FORMAT.begin_in(out);
        out[12..16].copy_from_slice(&self.pages.to_le_bytes());
        out[16..20].copy_from_slice(&self.entries.to_le_bytes());
        out[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        out[32..40].copy_from_slice(&self.store.to_le_bytes());
        out[40..48].copy_from_slice(&self.synced.to_le_bytes());
        out[48..56].copy_from_slice(&self.floor.to_le_bytes());
    }

    /// True if head and summary are whole, and items lie in the segment.
    pub(super) fn is_valid(&self, head_and_summary: &[u8], page_bytes: usize) -> bool {
        let len = u64::from(self.pages) * page_bytes as u64;
        let fits = |entry: &Entry| match *entry {
            Entry::Item { offset, bytes, .. } => {
                bytes as usize >= ITEM_HEAD_BYTES && u64::from(offset) + u64::from(bytes) <= len
            }
            Entry::Tombstone { .. } => true,
        };
        self.sequence < SEQUENCE_MAX
            && self.checksum(head_and_summary) == u32_at(head_and_summary, CHECKSUM_AT)
            && entries(head_and_summary).iter().all(fits)
    }
}

/// An entry of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// An item, `offset` bytes behind the beginning of its segment.
    Item { hash: u64, offset: u32, bytes: u32 },
    /// Items of `hash` up to the sequence `last` are deleted.
    Tombstone { hash: u64, last: u64 },
}

impl Entry {
    pub(super) fn hash(&self) -> u64 {
        match *self {
            Entry::Item { hash, .. } | Entry::Tombstone { hash, .. } => hash,
        }
    }

    fn put(&self, out: &mut [u8]) {
        let (hash, rest) = match *self {
            Entry::Item { hash, offset, bytes } => {
                (hash, u64::from(offset) | u64::from(bytes) << 32)
            }
            Entry::Tombstone { hash, last } => (hash, TOMBSTONE | last),
        };
        out[..8].copy_from_slice(&hash.to_le_bytes());
        out[8..16].copy_from_slice(&rest.to_le_bytes());
    }

    fn of(bytes: &[u8]) -> Entry {
        let (hash, rest) = (u64_at(bytes, 0), u64_at(bytes, 8));
        match rest & TOMBSTONE {
            0 => Entry::Item { hash, offset: rest as u32, bytes: (rest >> 32) as u32 },
            _ => Entry::Tombstone { hash, last: rest & !TOMBSTONE },
        }
    }
}

/// The entries of a valid head and summary.
pub(super) fn entries(head_and_summary: &[u8]) -> Vec<Entry> {
    head_and_summary[HEAD_BYTES..].chunks_exact(ENTRY_BYTES).map(Entry::of).collect()
}

/// Items and tombstones that wait to become a segment.
#[derive(Default)]
pub(super) struct Buffer {
    /// Offsets are counted from the beginning of `items`.
    pub(super) entries: Vec<Entry>,
    pub(super) items: Vec<u8>,
}

impl Buffer {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the segment with `more` bytes of one more item.
    pub(super) fn bytes_with(&self, more: usize) -> usize {
        HEAD_BYTES + (self.entries.len() + 1) * ENTRY_BYTES + self.items.len() + more
    }

    /// Bytes of head and summary.
    pub(super) fn head_bytes(&self) -> usize {
        HEAD_BYTES + self.entries.len() * ENTRY_BYTES
    }

    /// Appends an item; its offset among the items.
    pub(super) fn push(&mut self, store: u64, hash: u64, key: &[u8], value: &[u8]) -> u32 {
        let offset = self.items.len();
        self.items.extend_from_slice(&[0; 4]);
        self.items.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.items.extend_from_slice(&[0; 2]);
        self.items.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.items.extend_from_slice(key);
        self.items.extend_from_slice(value);
        let sum = Checksum::at(store, 0).update(&self.items[offset + 4..]).finish();
        self.items[offset..offset + 4].copy_from_slice(&sum.to_le_bytes());
        let bytes = (self.items.len() - offset) as u32;
        self.entries.push(Entry::Item { hash, offset: offset as u32, bytes });
        offset as u32
    }

    /// The segment in whole pages. `head` gets what the buffer knows.
    pub(super) fn segment(&self, head: Head, page_bytes: usize) -> AlignedBuf {
        let used = self.head_bytes() + self.items.len();
        let pages = used.div_ceil(page_bytes);
        let mut out = AlignedBuf::zeroed(pages * page_bytes);
        let head = Head { pages: pages as u32, entries: self.entries.len() as u32, ..head };
        head.put(&mut out);
        let base = head.bytes();
        for (number, entry) in self.entries.iter().enumerate() {
            let moved = match *entry {
                Entry::Item { hash, offset, bytes } => {
                    Entry::Item { hash, offset: offset + base as u32, bytes }
                }
                tombstone => tombstone,
            };
            moved.put(&mut out[HEAD_BYTES + number * ENTRY_BYTES..]);
        }
        out[base..used].copy_from_slice(&self.items);
        let sum = head.checksum(&out[..base]);
        out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

/// The head of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemHead {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
}

impl ItemHead {
    pub(super) fn of(bytes: &[u8]) -> ItemHead {
        let key_bytes = u16::from_le_bytes([bytes[4], bytes[5]]);
        ItemHead { key_bytes: usize::from(key_bytes), value_bytes: u32_at(bytes, 8) as usize }
    }

    /// Bytes of the whole item.
    pub(super) fn bytes(&self) -> usize {
        ITEM_HEAD_BYTES + self.key_bytes + self.value_bytes
    }
}

/// True if the checksum of a whole item is right.
pub(super) fn is_whole(store: u64, item: &[u8]) -> bool {
    Checksum::at(store, 0).update(&item[4..]).finish() == u32_at(item, 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head { pages: 1, entries: 2, sequence: 3, store: 4, synced: 2, floor: 1 };

    fn segment() -> AlignedBuf {
        let mut buffer = Buffer::default();
        buffer.push(4, 0x1111_2222_3333_4444, b"key", b"value");
        buffer.entries.push(Entry::Tombstone { hash: 5, last: 2 });
        buffer.segment(HEAD, 512)
    }

    #[test]
    fn a_segment_of_version_1_has_these_bytes() {
        let segment = segment();
        assert_eq!(segment.len(), 512);
        let golden = [
            &b"SiFK\x01\0\0\0"[..],
            &0x1B24_9B9F_u32.to_le_bytes(),
            &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
            &[4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x44, 0x44, 0x33, 0x33, 0x22, 0x22, 0x11, 0x11, 88, 0, 0, 0, 20, 0, 0, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x80],
            &0xFF6C_AA4B_u32.to_le_bytes(),
            &[3, 0, 0, 0, 5, 0, 0, 0],
            b"keyvalue",
        ];
        assert_eq!(segment[..108], golden.concat()[..]);
        assert!(segment[108..].iter().all(|byte| *byte == 0));
        assert_eq!(Head::of(&segment).unwrap(), Some(HEAD));
        assert!(HEAD.is_valid(&segment[..HEAD.bytes()], 512));
        let items = Entry::Item { hash: 0x1111_2222_3333_4444, offset: 88, bytes: 20 };
        let found = entries(&segment[..HEAD.bytes()]);
        assert_eq!(found, [items, Entry::Tombstone { hash: 5, last: 2 }]);
        assert!(is_whole(4, &segment[88..108]));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let segment = segment();
        for bit in 0..108 * 8 {
            let mut damaged = segment.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let is_found = match Head::of(&damaged) {
                Ok(Some(head)) if head.entries <= 28 => {
                    !head.is_valid(&damaged[..head.bytes()], 512)
                }
                _ => true,
            };
            assert!(is_found || !is_whole(4, &damaged[88..108]), "bit {bit}");
        }
    }
}
