//! Bytes of a slab around its items, as docs/formats/flash-cache.md has them.

use crate::item::Seal;
use silica_base::{Checksum, Format, read_varint, write_varint};

const HEADER: Format =
    Format { name: "flash cache's slab", magic: b"SiSb", version_bytes: 2, version: 1, steps: &[] };
const FOOTER: Format = Format { magic: b"SiSf", name: "footer of a slab", ..HEADER };
/// Bytes before the first item.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes at the end.
pub(crate) const FOOTER_BYTES: usize = 64;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Items,
    Checkpoint,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Items => 1,
            Kind::Checkpoint => 2,
        }
    }

    fn new(byte: u8) -> Option<Kind> {
        [Kind::Items, Kind::Checkpoint].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// Bytes at the front of a slab.
pub(crate) fn header(kind: Kind, store: u64, sequence: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    HEADER.begin_in(&mut bytes);
    bytes[6] = kind.byte();
    bytes[8..16].copy_from_slice(&store.to_le_bytes());
    bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
    let sum = Checksum::at(store, 0).update(&bytes[..28]).finish();
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Kind and sequence that the front of a slab of `store` says; `None` if it is none.
pub(crate) fn decode_header(bytes: &[u8], store: u64) -> Option<(Kind, u64)> {
    let sequence = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    let kind = Kind::new(bytes[6])?;
    (bytes.get(..HEADER_BYTES)? == header(kind, store, sequence)).then_some((kind, sequence))
}

/// What stands at the end of a slab on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
    pub(crate) items_end: u32,
    pub(crate) summary_end: u32,
    pub(crate) items: u32,
    pub(crate) content_sum: u32,
    pub(crate) checkpoint: u64,
    pub(crate) part: u32,
    pub(crate) parts: u32,
}

impl Footer {
    pub(crate) fn encode(&self, store: u64) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        FOOTER.begin_in(&mut bytes);
        bytes[6] = self.kind.byte();
        bytes[8..16].copy_from_slice(&store.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        let numbers = [self.items_end, self.summary_end, self.items, self.content_sum];
        for (i, number) in numbers.iter().enumerate() {
            bytes[24 + 4 * i..28 + 4 * i].copy_from_slice(&number.to_le_bytes());
        }
        bytes[40..48].copy_from_slice(&self.checkpoint.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.part.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.parts.to_le_bytes());
        let sum = Checksum::at(store, self.sequence).update(&bytes[..60]).finish();
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The footer in `bytes`, if it is a whole one of `store`.
    pub(crate) fn decode(bytes: &[u8], store: u64) -> Option<Footer> {
        let bytes: &[u8; FOOTER_BYTES] = bytes.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let footer = Footer {
            kind: Kind::new(bytes[6])?,
            sequence: u64_at(16),
            items_end: u32_at(24),
            summary_end: u32_at(28),
            items: u32_at(32),
            content_sum: u32_at(36),
            checkpoint: u64_at(40),
            part: u32_at(48),
            parts: u32_at(52),
        };
        (footer.encode(store) == *bytes).then_some(footer)
    }
}

/// An item as the summary has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summed {
    pub(crate) hash: u64,
    pub(crate) offset: u32,
}

/// Appends what the summary says of an item that begins at `offset`, behind one at `before`.
pub(crate) fn sum_up(out: &mut Vec<u8>, hash: u64, offset: u32, before: u32, granule_bits: u32) {
    out.extend_from_slice(&hash.to_le_bytes());
    write_varint(out, u64::from((offset - before) >> granule_bits));
}

/// Bytes of an item in a summary at most.
pub(crate) const SUMMED_BYTES_MAX: usize = 13;

/// The items of a summary; `None` if it is not a list of `count` items.
pub(crate) fn summed(mut bytes: &[u8], count: u32, granule_bits: u32) -> Option<Vec<Summed>> {
    let mut items = Vec::with_capacity((count as usize).min(bytes.len() / 9 + 1));
    let mut offset = HEADER_BYTES as u64;
    for _ in 0..count {
        let hash = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let (granules, len) = read_varint(&bytes[8..])?;
        bytes = &bytes[8 + len..];
        offset = offset.checked_add(granules.checked_mul(1 << granule_bits)?)?;
        items.push(Summed { hash, offset: u32::try_from(offset).ok()? });
    }
    bytes.is_empty().then_some(items)
}

/// Checksum of a summary that begins at byte `at`, or of what a part of a checkpoint has.
pub(crate) fn content_sum(store: u64, at: u32, bytes: &[u8]) -> u32 {
    Checksum::at(store, u64::from(at)).update(bytes).finish()
}

/// What checksums of the items of the slab with this sequence begin with.
pub(crate) fn seal(store: u64, sequence: u64, slab_bytes: u64) -> Seal {
    Seal { store, base: sequence.wrapping_mul(slab_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_and_ends_are_those_of_one_store_only() {
        let bytes = header(Kind::Items, 9, 5);
        assert_eq!(decode_header(&bytes, 9), Some((Kind::Items, 5)));
        assert_eq!(decode_header(&bytes, 8), None);
        let footer = Footer {
            kind: Kind::Checkpoint,
            sequence: 5,
            items_end: 1,
            summary_end: 2,
            items: 3,
            content_sum: 4,
            checkpoint: 6,
            part: 7,
            parts: 8,
        };
        let bytes = footer.encode(9);
        assert_eq!(Footer::decode(&bytes, 9), Some(footer));
        assert_eq!(Footer::decode(&bytes, 8), None);
        for at in 0..FOOTER_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 1 << (at % 8);
            assert_eq!(Footer::decode(&flipped, 9), None, "byte {at}");
        }
    }

    #[test]
    fn summaries_are_whole_or_none() {
        let items = [(1, 32), (u64::MAX, 64), (3, 1 << 20)];
        let (mut bytes, mut before) = (Vec::new(), HEADER_BYTES as u32);
        for (hash, offset) in items {
            sum_up(&mut bytes, hash, offset, before, 2);
            before = offset;
        }
        assert!(bytes.len() <= items.len() * SUMMED_BYTES_MAX);
        let found = summed(&bytes, 3, 2).unwrap();
        assert_eq!(found, items.map(|(hash, offset)| Summed { hash, offset }));
        assert_eq!(summed(&bytes, 2, 2), None);
        for cut in 0..bytes.len() {
            assert_eq!(summed(&bytes[..cut], 3, 2), None);
        }
    }
}
