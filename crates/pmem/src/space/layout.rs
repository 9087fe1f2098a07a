//! Where things lie in a region, and how they are checked: docs/formats/region.md.

use super::PAGE_BYTES;
use super::classes::{CLASSES, span_pages};
use silica_base::{Checksum, Error, Format, Result};

const FORMAT: Format =
    Format { name: "region", magic: b"SiRg", version_bytes: 2, version: 1, steps: &[] };

/// Where the engine's root begins.
pub const ROOT: u64 = PAGE_BYTES;
/// Bytes of the engine's root.
pub const ROOT_BYTES: u64 = PAGE_BYTES;
/// Where the redo's places begin.
pub(super) const REDO: u64 = 2 * PAGE_BYTES;
/// Places of the redo.
pub(super) const REDO_PLACES: u64 = 8;
/// Pages before the first extent's descriptors.
pub(super) const FIXED_PAGES: u64 = 2 + REDO_PLACES;
pub(super) const STATE: u64 = 64;
pub(super) const EXTENT_COUNT: u64 = 128;
pub(super) const EXTENTS: u64 = 512;
/// Extents of a region at most.
pub(super) const EXTENTS_MAX: usize = ((PAGE_BYTES - EXTENTS) / 8) as usize;

/// The engine that a region belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TurboHash.
    Turbo,
    /// SPTree.
    SpTree,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Turbo => 1,
            Kind::SpTree => 2,
        }
    }

    /// The engine's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Turbo => "turbo",
            Kind::SpTree => "sptree",
        }
    }
}

/// The first bytes of a region.
pub(super) const FRONT_BYTES: usize = 24;

/// The front of a region.
pub(super) fn front(kind: Kind, store: u64) -> [u8; FRONT_BYTES] {
    let mut bytes = [0; FRONT_BYTES];
    FORMAT.begin_in(&mut bytes);
    bytes[6] = kind.byte();
    bytes[8..16].copy_from_slice(&store.to_le_bytes());
    let sum = Checksum::at(store, 0).update(&bytes[..16]).finish();
    bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The store's number in the front of a region of `kind`.
pub(super) fn decode_front(file: &str, kind: Kind, bytes: &[u8; FRONT_BYTES]) -> Result<u64> {
    if has_other_byte_order(bytes) {
        let detail = "its words are in the other byte order; a region is little-endian on every \
                      machine, so copy it again, byte for byte";
        return Err(Error::corruption(file, 0, detail));
    }
    FORMAT.version_of(file, 0, bytes)?;
    let store = u64::from_le_bytes(bytes[8..16].try_into().expect("eight"));
    for other in [Kind::Turbo, Kind::SpTree] {
        if *bytes == front(other, store) {
            if other == kind {
                return Ok(store);
            }
            let detail = format!(
                "it belongs to engine {}, not {}: open it as what it is",
                other.name(),
                kind.name()
            );
            return Err(Error::corruption(file, 6, detail));
        }
    }
    Err(Error::corruption(file, 0, "its header does not match its checksum"))
}

/// True if the first words, of 4 or 8 bytes, are those of a region with their bytes reversed.
fn has_other_byte_order(bytes: &[u8; FRONT_BYTES]) -> bool {
    [4, 8].into_iter().any(|width| {
        let mut first: Vec<u8> = bytes[..width].to_vec();
        first.reverse();
        first.starts_with(FORMAT.magic)
    })
}

/// How a region was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Settled,
    InUse { boot: u64 },
}

const BOOT_BITS: u64 = (1 << 56) - 1;

impl State {
    pub(super) fn word(self) -> u64 {
        match self {
            State::Settled => 1,
            State::InUse { boot } => 2 | (boot & BOOT_BITS) << 8,
        }
    }

    pub(super) fn decode(word: u64) -> Option<State> {
        match word & 0xFF {
            1 => Some(State::Settled),
            2 => Some(State::InUse { boot: word >> 8 }),
            _ => None,
        }
    }

    /// True if it was left in use by a machine that was started anew since.
    pub(super) fn is_of_another_boot(self, now: u64) -> bool {
        matches!(self, State::InUse { boot } if boot != now & BOOT_BITS)
    }
}

/// The word that says how many extents there are.
pub(super) fn extents_word(store: u64, lengths: &[u64]) -> u64 {
    let mut sum = Checksum::at(store, EXTENT_COUNT);
    for length in lengths {
        sum = sum.update(&length.to_le_bytes());
    }
    lengths.len() as u64 | u64::from(sum.finish()) << 32
}

/// What a span holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Objects of a class.
    Class(usize),
    /// One object.
    One,
}

/// The descriptor of a span that begins at `page`.
pub(super) fn descriptor(store: u64, page: u64, held: Held, pages: u64) -> u64 {
    let low = match held {
        Held::Class(class) => 1 | (class as u64) << 8,
        Held::One => 2,
    } | pages << 16;
    low | descriptor_sum(store, page, low) << 48
}

fn descriptor_sum(store: u64, page: u64, low: u64) -> u64 {
    let sum = Checksum::at(store, page).update(&low.to_le_bytes()[..6]).finish();
    u64::from(sum & 0xFFFF)
}

/// The span that a descriptor other than 0 says begins at `page`; `None` if it is damaged.
pub(super) fn decode_descriptor(store: u64, page: u64, word: u64) -> Option<(Held, u64)> {
    let low = word & ((1 << 48) - 1);
    if word >> 48 != descriptor_sum(store, page, low) {
        return None;
    }
    let pages = low >> 16;
    let class = (low >> 8 & 0xFF) as usize;
    match low & 0xFF {
        1 if class < CLASSES && pages == span_pages(class) => Some((Held::Class(class), pages)),
        2 if class == 0 && pages > 0 => Some((Held::One, pages)),
        _ => None,
    }
}

/// A piece that the region grew by, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: u64,
    pub(super) pages: u64,
}

impl Extent {
    /// The page where its descriptors begin.
    fn table(self) -> u64 {
        if self.first == 0 { FIXED_PAGES } else { self.first }
    }

    pub(super) fn end(self) -> u64 {
        self.first + self.pages
    }

    /// Its first page behind the descriptors.
    pub(super) fn data(self) -> u64 {
        self.table() + (self.pages * 8).div_ceil(PAGE_BYTES)
    }

    /// Where the descriptor of one of its pages lies.
    pub(super) fn descriptor_at(self, page: u64) -> u64 {
        self.table() * PAGE_BYTES + (page - self.first) * 8
    }

    /// Pages of an extent that has `data` pages for spans, and is not the first.
    pub(super) fn pages_for(data: u64) -> u64 {
        data + (data * 8).div_ceil(PAGE_BYTES - 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_is_that_of_one_engine() {
        let bytes = front(Kind::Turbo, 77);
        assert_eq!(decode_front("r", Kind::Turbo, &bytes).unwrap(), 77);
        let other = decode_front("r", Kind::SpTree, &bytes).unwrap_err();
        assert!(other.to_string().contains("belongs to engine turbo"), "{other}");
        for at in 0..FRONT_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 1 << (at % 8);
            assert!(decode_front("r", Kind::Turbo, &flipped).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_descriptor_is_that_of_one_page() {
        for held in [Held::Class(3), Held::One] {
            let pages = if held == Held::One { 70_000 } else { span_pages(3) };
            let word = descriptor(5, 99, held, pages);
            assert_eq!(decode_descriptor(5, 99, word), Some((held, pages)));
            assert_eq!(decode_descriptor(5, 98, word), None);
            for bit in 0..64 {
                assert_eq!(decode_descriptor(5, 99, word ^ 1 << bit), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn extents_have_room_for_their_descriptors() {
        for data in [1, 7, 511, 512, 513, 100_000] {
            let extent = Extent { first: 640, pages: Extent::pages_for(data) };
            assert!(extent.end() - extent.data() >= data, "{data}");
            assert!(extent.descriptor_at(extent.end() - 1) + 8 <= extent.data() * PAGE_BYTES);
        }
    }
}
