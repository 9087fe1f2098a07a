//! Bytes of a flash image, as docs/formats/flash-image.md has them.

use super::{BlockState, BlockStatus, Geometry};
use silica_base::{Checksum, Error, ErrorKind, Format, Result};
use std::fmt::Display;

/// How an image begins.
pub(super) const FORMAT: Format =
    Format { name: "flash image", magic: b"SiFl", version_bytes: 4, version: 1, steps: &[] };
/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 4096;
/// Bytes of a block's record.
pub(super) const RECORD_BYTES: usize = 32;
/// Bytes of a page's mark.
pub(super) const MARK_BYTES: usize = 32;
/// Parts of a block begin at multiples of this.
const PART_BYTES: u64 = 4096;
/// Distance of the two places of a block's record.
const RECORD_STRIDE: u64 = 2048;
/// Kind of the mark of a written page.
const WRITTEN: u16 = 1;

/// What an image says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Number that is bound into every checksum.
    pub(super) image: u64,
    pub(super) geometry: Geometry,
    /// Resets that a block takes; 0 if nothing limits them.
    pub(super) endurance: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Header {
    pub(super) fn encode(&self, format: &Format) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let Geometry { channels, luns, blocks, pages, page_bytes, spare_bytes } = self.geometry;
        format.begin_in(&mut bytes);
        bytes[8..16].copy_from_slice(&self.image.to_le_bytes());
        let numbers = [channels, luns, blocks, pages, page_bytes, spare_bytes, self.endurance];
        for (i, number) in numbers.iter().enumerate() {
            bytes[16 + 4 * i..20 + 4 * i].copy_from_slice(&number.to_le_bytes());
        }
        let sum = Checksum::at(self.image, 0).update(&bytes[..HEADER_BYTES - 4]).finish();
        bytes[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the header of `name`, which has this format.
    pub(super) fn decode(
        format: &Format,
        bytes: &[u8; HEADER_BYTES],
        name: &dyn Display,
    ) -> Result<Header> {
        if !format.begins(bytes) {
            let message = format!("{name} is no {}; create one at another path", format.name);
            return Err(Error::new(ErrorKind::Config, message));
        }
        format.version_of(name, 0, bytes)?;
        let image = u64_at(bytes, 8);
        let sum = Checksum::at(image, 0).update(&bytes[..HEADER_BYTES - 4]).finish();
        let is_whole = sum == u32_at(bytes, HEADER_BYTES - 4);
        if !is_whole {
            return Err(Error::corruption(name, 0, "the checksum of the header does not match"));
        }
        let number = |i: usize| u32_at(bytes, 16 + 4 * i);
        let geometry = Geometry {
            channels: number(0),
            luns: number(1),
            blocks: number(2),
            pages: number(3),
            page_bytes: number(4),
            spare_bytes: number(5),
        };
        geometry.check().map_err(|e| Error::corruption(name, 16, e))?;
        Ok(Header { image, geometry, endurance: number(6) })
    }
}

/// Where the parts of an image lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    marks: u64,
    spare: u64,
    pages: u64,
    stride: u64,
    page_bytes: u64,
    spare_bytes: u64,
    blocks: u64,
}

impl Layout {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let pages = u64::from(geometry.pages);
        let part = |bytes: u64| bytes.next_multiple_of(PART_BYTES);
        let marks = PART_BYTES;
        let spare = marks + part(pages * MARK_BYTES as u64);
        let first_page = spare + part(pages * u64::from(geometry.spare_bytes));
        Layout {
            marks,
            spare,
            pages: first_page,
            stride: first_page + part(geometry.block_bytes()),
            page_bytes: u64::from(geometry.page_bytes),
            spare_bytes: u64::from(geometry.spare_bytes),
            blocks: u64::from(geometry.block_count()),
        }
    }

    /// Bytes of the whole image. The limits of a geometry keep it below 2⁶².
    pub(super) fn image_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.blocks * self.stride
    }

    fn block(&self, block: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(block) * self.stride
    }

    /// Place 0 or 1 of a block's record.
    pub(super) fn record(&self, block: u32, place: u64) -> u64 {
        self.block(block) + place * RECORD_STRIDE
    }

    pub(super) fn mark(&self, block: u32, page: u32) -> u64 {
        self.block(block) + self.marks + u64::from(page) * MARK_BYTES as u64
    }

    pub(super) fn spare(&self, block: u32, page: u32) -> u64 {
        self.block(block) + self.spare + u64::from(page) * self.spare_bytes
    }

    pub(super) fn page(&self, block: u32, page: u32) -> u64 {
        self.block(block) + self.pages + u64::from(page) * self.page_bytes
    }
}

/// State of a block as its record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Appended to; its marks say how far.
    Appending,
    /// Full or finished.
    Closed,
    /// Bad.
    Bad,
}

/// What is known of a block of an open image or drive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) recorded: Recorded,
    /// A reset was interrupted, or nobody knows what the block has.
    pub(super) is_undefined: bool,
    pub(super) sequence: u64,
    pub(super) erases: u64,
    pub(super) written: u32,
}

impl Block {
    pub(super) fn status(&self, geometry: &Geometry) -> BlockStatus {
        let state = match (self.recorded, self.written) {
            (Recorded::Bad, _) => BlockState::Bad,
            _ if self.is_undefined => BlockState::Undefined,
            (Recorded::Closed, _) => BlockState::Full,
            (Recorded::Appending, 0) => BlockState::Free,
            (Recorded::Appending, written) if written == geometry.pages => BlockState::Full,
            (Recorded::Appending, _) => BlockState::Open,
        };
        let (written, erases) = (self.written, self.erases);
        BlockStatus { state, written, capacity: geometry.pages, erases }
    }
}

/// A block's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) state: Recorded,
    pub(super) sequence: u64,
    pub(super) erases: u64,
    pub(super) pages: u32,
}

impl Record {
    /// Bytes of the record that lies at `position` of `image`.
    pub(super) fn encode(&self, image: u64, position: u64) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[4] = match self.state {
            Recorded::Appending => 1,
            Recorded::Closed => 2,
            Recorded::Bad => 3,
        };
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.erases.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.pages.to_le_bytes());
        seal(&mut bytes, image, position);
        bytes
    }

    /// The record at `position`, unless it is damaged or says what no block can be.
    pub(super) fn decode(
        bytes: &[u8; RECORD_BYTES],
        image: u64,
        position: u64,
        pages_max: u32,
    ) -> Option<Record> {
        let state = match bytes[4] {
            1 => Recorded::Appending,
            2 => Recorded::Closed,
            3 => Recorded::Bad,
            _ => return None,
        };
        let (sequence, erases) = (u64_at(bytes, 8), u64_at(bytes, 16));
        let pages = u32_at(bytes, 24);
        // The next record and the next reset count on from these.
        let is_possible = pages <= pages_max && sequence < u64::MAX / 2 && erases < u64::MAX / 2;
        let record = Record { state, sequence, erases, pages };
        (is_sealed(bytes, image, position) && is_possible).then_some(record)
    }
}

/// Mark of a written page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Checksum of erases, page and spare bytes.
    pub(super) contents: u32,
    pub(super) erases: u64,
    pub(super) stream: u16,
}

impl Mark {
    pub(super) fn encode(&self, image: u64, position: u64) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[4..8].copy_from_slice(&self.contents.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.erases.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.stream.to_le_bytes());
        bytes[18..20].copy_from_slice(&WRITTEN.to_le_bytes());
        seal(&mut bytes, image, position);
        bytes
    }

    /// The mark at `position`, if a page is there and the mark is whole.
    pub(super) fn decode(bytes: &[u8; MARK_BYTES], image: u64, position: u64) -> Option<Mark> {
        let kind = u16::from_le_bytes([bytes[18], bytes[19]]);
        let erases = u64_at(bytes, 8);
        if kind != WRITTEN || erases >= u64::MAX / 2 || !is_sealed(bytes, image, position) {
            return None;
        }
        let stream = u16::from_le_bytes([bytes[16], bytes[17]]);
        Some(Mark { contents: u32_at(bytes, 4), erases, stream })
    }
}

/// Puts the checksum of the bytes from 4 on, which lie at `position`, in front of them.
fn seal(bytes: &mut [u8], image: u64, position: u64) {
    let sum = Checksum::at(image, position).update(&bytes[4..]).finish();
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

fn is_sealed(bytes: &[u8], image: u64, position: u64) -> bool {
    Checksum::at(image, position).update(&bytes[4..]).finish() == u32_at(bytes, 0)
}

/// Checksum of a page's contents.
pub(super) fn contents(image: u64, position: u64, erases: u64, page: &[u8], spare: &[u8]) -> u32 {
    Checksum::at(image, position).update(&erases.to_le_bytes()).update(page).update(spare).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { channels: 2, luns: 3, blocks: 4, pages: 200, page_bytes: 512, spare_bytes: 24 };

    #[test]
    fn parts_do_not_overlap() {
        let layout = Layout::new(&GEOMETRY);
        assert_eq!(layout.record(0, 1), 4096 + 2048);
        assert_eq!(layout.mark(0, 0), 8192);
        assert_eq!(layout.spare(0, 0), 8192 + 8192);
        assert_eq!(layout.page(0, 0), 16384 + 8192);
        assert_eq!(layout.record(1, 0), 24576 + 102_400);
        assert_eq!(layout.image_bytes(), layout.record(24, 0));
    }

    #[test]
    fn what_is_encoded_is_decoded_at_its_place_only() {
        let header = Header { image: 9, geometry: GEOMETRY, endurance: 5 };
        assert_eq!(Header::decode(&FORMAT, &header.encode(&FORMAT), &"image").unwrap(), header);
        let record = Record { state: Recorded::Closed, sequence: 3, erases: 2, pages: 200 };
        let bytes = record.encode(9, 4096);
        assert_eq!(Record::decode(&bytes, 9, 4096, 200), Some(record));
        assert_eq!(Record::decode(&bytes, 9, 4096, 199), None);
        assert_eq!(Record::decode(&bytes, 9, 4097, 200), None);
        assert_eq!(Record::decode(&bytes, 8, 4096, 200), None);
        let mark = Mark { contents: 1, erases: 2, stream: 3 };
        let bytes = mark.encode(9, 100);
        assert_eq!(Mark::decode(&bytes, 9, 100), Some(mark));
        assert_eq!(Mark::decode(&bytes, 9, 132), None);
        assert_eq!(Mark::decode(&[0; MARK_BYTES], 9, 100), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let bytes = Header { image: 9, geometry: GEOMETRY, endurance: 5 }.encode(&FORMAT);
        for at in 0..HEADER_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 1 << (at % 8);
            assert!(Header::decode(&FORMAT, &flipped, &"image").is_err(), "byte {at}");
        }
    }
}
