//! What a drive with zones does not keep itself: how it is divided, erases of each block, pages of
//! blocks that were finished early, and which blocks are bad.
//!
//! Two zones take turns. One has a header, a picture of all blocks, and behind it a record for
//! each change (docs/formats/flash-zones.md).
//!
//! Invariants:
//!
//! 1. A record is durable before [`Ledger::record`] returns.
//! 2. The zone with the older picture is reset only when the newer one is whole and durable.
//! 3. Nothing is written behind a granule that does not match: what follows would not be found.

use super::{SECTOR_BYTES, ZoneAction, ZoneCondition, Zones, carry_out, look_at};
use crate::blocks::Geometry;
use crate::blocks::layout::Recorded;
use silica_base::{AlignedBuf, Checksum, Error, ErrorKind, Format, Result};
use std::io;

const FORMAT: Format =
    Format { name: "zoned flash", magic: b"SiFz", version_bytes: 4, version: 1, steps: &[] };
/// Bytes of the header that have a meaning; its granule has zeroes behind them.
const HEADER_BYTES: usize = 64;
/// Bytes before the records of a granule.
const PREFIX_BYTES: usize = 16;
const RECORD_BYTES: usize = 16;
/// Erases are kept in so many bits, beside the state.
const ERASES_BITS: u32 = 56;

/// What a drive was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Number that is bound into every checksum.
    pub(super) id: u64,
    pub(super) geometry: Geometry,
    /// Resets that a block takes; 0 if nothing limits them.
    pub(super) endurance: u32,
}

/// What is kept of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) recorded: Recorded,
    /// Pages of a block that was finished early or turned bad; else 0.
    pub(super) pages: u32,
    pub(super) erases: u64,
}

/// Of a block that nobody erased.
pub(super) const FRESH: Kept = Kept { recorded: Recorded::Appending, pages: 0, erases: 0 };

/// The two zones, and where the next record goes.
#[derive(Debug)]
pub(super) struct Ledger {
    header: Header,
    zones: [u32; 2],
    /// Which of the two is written to.
    current: usize,
    generation: u64,
    /// Granules of the current zone that were written.
    used: u64,
    granule: usize,
    /// Granules that either zone takes.
    room: u64,
    kept: Vec<Kept>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Checksum of a granule but for the place of the checksum itself.
fn sum(id: u64, generation: u64, number: u64, rest: &[u8]) -> u32 {
    Checksum::at(id, number).update(&generation.to_le_bytes()).update(rest).finish()
}

impl Header {
    fn encode(&self, generation: u64, picture: u64, granule: usize) -> Vec<u8> {
        let mut bytes = vec![0; granule];
        let Geometry { channels, luns, blocks, pages, page_bytes, spare_bytes } = self.geometry;
        FORMAT.begin_in(&mut bytes);
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        let numbers = [channels, luns, blocks, pages, page_bytes, spare_bytes, self.endurance];
        for (i, number) in numbers.iter().enumerate() {
            bytes[16 + 4 * i..20 + 4 * i].copy_from_slice(&number.to_le_bytes());
        }
        bytes[44..52].copy_from_slice(&generation.to_le_bytes());
        bytes[52..60].copy_from_slice(&picture.to_le_bytes());
        let sum = sum(self.id, generation, 0, &bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header of `bytes` with its generation and the granules of its picture; `None` if it is
    /// none or damaged.
    ///
    /// # Errors
    /// `Unsupported` for a version of another release.
    fn decode(bytes: &[u8], name: &str) -> Result<Option<(Header, u64, u64)>> {
        if !FORMAT.begins(bytes) {
            return Ok(None);
        }
        let (id, generation) = (u64_at(bytes, 8), u64_at(bytes, 44));
        if sum(id, generation, 0, &bytes[..HEADER_BYTES - 4]) != u32_at(bytes, HEADER_BYTES - 4) {
            return Ok(None);
        }
        FORMAT.version_of(name, 0, bytes)?;
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
        let header = Header { id, geometry, endurance: number(6) };
        Ok(Some((header, generation, u64_at(bytes, 52))))
    }
}

fn encode_record(block: u32, kept: &Kept) -> [u8; RECORD_BYTES] {
    let state: u64 = match kept.recorded {
        Recorded::Appending => 1,
        Recorded::Closed => 2,
        Recorded::Bad => 3,
    };
    let erases = kept.erases & ((1 << ERASES_BITS) - 1);
    let mut bytes = [0; RECORD_BYTES];
    bytes[..4].copy_from_slice(&block.to_le_bytes());
    bytes[4..8].copy_from_slice(&kept.pages.to_le_bytes());
    bytes[8..].copy_from_slice(&(erases | state << ERASES_BITS).to_le_bytes());
    bytes
}

/// A record of a granule whose checksum matches; `None` if it does not fit the geometry.
fn decode_record(bytes: &[u8], geometry: &Geometry) -> Option<(u32, Kept)> {
    let (block, pages, word) = (u32_at(bytes, 0), u32_at(bytes, 4), u64_at(bytes, 8));
    let recorded = match word >> ERASES_BITS {
        1 => Recorded::Appending,
        2 => Recorded::Closed,
        3 => Recorded::Bad,
        _ => return None,
    };
    let fits = block < geometry.block_count() && pages <= geometry.pages;
    let kept = Kept { recorded, pages, erases: word & ((1 << ERASES_BITS) - 1) };
    fits.then_some((block, kept))
}

/// A zone of the ledger as it was found.
struct Found {
    header: Header,
    generation: u64,
    used: u64,
    /// All of the zone's granules up to its pointer match.
    is_clean: bool,
    kept: Vec<Kept>,
}

/// Reads one zone; `None` if it has no whole picture.
fn find(drive: &impl Zones, zone: u32, granule: usize) -> Result<Option<Found>> {
    let name = drive.name();
    let failed = |e: io::Error| Error::io(format!("cannot read the ledger of {name}"), e);
    let state = look_at(drive, zone).map_err(failed)?;
    let written = state.written() / granule as u64;
    if written == 0 {
        return Ok(None);
    }
    let mut bytes = AlignedBuf::zeroed(granule);
    drive.read(state.start, &mut bytes).map_err(failed)?;
    let Some((header, generation, picture)) = Header::decode(&bytes, &name)? else {
        return Ok(None);
    };
    let mut kept = vec![FRESH; header.geometry.block_count() as usize];
    let mut used = 1;
    while used < written {
        drive.read(state.start + used * granule as u64, &mut bytes).map_err(failed)?;
        let records = u32_at(&bytes, 4) as usize;
        let matches = u64_at(&bytes, 8) == used
            && u32_at(&bytes, 0) == sum(header.id, generation, used, &bytes[4..]);
        if !matches || records > (granule - PREFIX_BYTES) / RECORD_BYTES {
            break;
        }
        for record in bytes[PREFIX_BYTES..].chunks_exact(RECORD_BYTES).take(records) {
            let (block, state) = decode_record(record, &header.geometry)
                .ok_or_else(|| Error::corruption(&name, used, "a record names no block"))?;
            kept[block as usize] = state;
        }
        used += 1;
    }
    let is_clean = used == written;
    Ok((used > picture).then_some(Found { header, generation, used, is_clean, kept }))
}

impl Ledger {
    fn empty(drive: &impl Zones, header: Header, zones: [u32; 2]) -> io::Result<Self> {
        let granule = drive.limits().granule as usize;
        let capacity = look_at(drive, zones[0])?.capacity.min(look_at(drive, zones[1])?.capacity);
        let kept = vec![FRESH; header.geometry.block_count() as usize];
        let room = capacity / granule as u64;
        Ok(Ledger { header, zones, current: 1, generation: 0, used: 0, granule, room, kept })
    }

    /// Begins a ledger in two zones, whose contents are lost.
    ///
    /// # Errors
    /// `Config` if a picture of all blocks does not fit a zone; `Io`.
    pub(super) fn create(drive: &impl Zones, header: Header, zones: [u32; 2]) -> Result<Self> {
        let failed = |e| Error::io(format!("cannot begin the ledger of {}", drive.name()), e);
        let mut ledger = Self::empty(drive, header, zones).map_err(failed)?;
        let blocks = u64::from(header.geometry.block_count());
        let needed = 2 + blocks.div_ceil(ledger.records_of_granule() as u64);
        if needed > ledger.room {
            let message = format!(
                "{}: zones of {} bytes are too small to keep what is known of {blocks} blocks; \
                 use fewer blocks",
                drive.name(),
                ledger.room * ledger.granule as u64
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        // Nothing of an earlier ledger may be found, whatever its generation.
        for zone in zones {
            carry_out(drive, ZoneAction::Reset, zone).map_err(failed)?;
        }
        ledger.write_picture(drive).map_err(failed)?;
        Ok(ledger)
    }

    /// Opens the ledger in these two zones; `None` if there is none.
    ///
    /// # Errors
    /// `Unsupported`, `Corruption`, `Io`.
    pub(super) fn open(drive: &impl Zones, zones: [u32; 2]) -> Result<Option<Self>> {
        let granule = drive.limits().granule as usize;
        let found = [find(drive, zones[0], granule)?, find(drive, zones[1], granule)?];
        let newest = found.into_iter().enumerate().filter_map(|(at, found)| Some((at, found?)));
        let Some((current, found)) = newest.max_by_key(|(_, found)| found.generation) else {
            return Ok(None);
        };
        let failed = |e| Error::io(format!("cannot open the ledger of {}", drive.name()), e);
        let ledger = Self::empty(drive, found.header, zones).map_err(failed)?;
        let Found { generation, used, kept, is_clean, .. } = found;
        let mut ledger = Ledger { current, generation, used, kept, ..ledger };
        if !is_clean {
            ledger.write_picture(drive).map_err(failed)?;
        }
        Ok(Some(ledger))
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// What is kept of a block.
    pub(super) fn kept(&self, block: u32) -> Kept {
        self.kept[block as usize]
    }

    fn records_of_granule(&self) -> usize {
        (self.granule - PREFIX_BYTES) / RECORD_BYTES
    }

    /// Keeps what a block is from now on.
    ///
    /// # Errors
    /// Those of the drive. The ledger must not be used any more then.
    pub(super) fn record(&mut self, drive: &impl Zones, block: u32, now: Kept) -> io::Result<()> {
        self.kept[block as usize] = now;
        if self.used == self.room {
            return self.write_picture(drive);
        }
        let bytes = self.granule_of(self.used, &[encode_record(block, &now)]);
        self.write(drive, &bytes)
    }

    fn granule_of(&self, number: u64, records: &[[u8; RECORD_BYTES]]) -> Vec<u8> {
        let mut bytes = vec![0; self.granule];
        bytes[4..8].copy_from_slice(&(records.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        for (place, record) in bytes[PREFIX_BYTES..].chunks_exact_mut(RECORD_BYTES).zip(records) {
            place.copy_from_slice(record);
        }
        let sum = sum(self.header.id, self.generation, number, &bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Writes granules behind those of the current zone.
    fn write(&mut self, drive: &impl Zones, bytes: &[u8]) -> io::Result<()> {
        let start = u64::from(self.zones[self.current]) * drive.limits().zone_bytes;
        drive.write(start + self.used * self.granule as u64, bytes, true)?;
        self.used += (bytes.len() / self.granule) as u64;
        Ok(())
    }

    /// Writes a picture of all blocks into the other zone and goes on there.
    fn write_picture(&mut self, drive: &impl Zones) -> io::Result<()> {
        let before = self.zones[self.current];
        self.current = 1 - self.current;
        self.generation += 1;
        self.used = 0;
        carry_out(drive, ZoneAction::Reset, self.zones[self.current])?;
        let changed = (0..).zip(&self.kept).filter(|(_, kept)| **kept != FRESH);
        let records: Vec<_> = changed.map(|(block, kept)| encode_record(block, kept)).collect();
        let parts = records.chunks(self.records_of_granule());
        let mut bytes = self.header.encode(self.generation, parts.len() as u64, self.granule);
        for (number, part) in (1..).zip(parts) {
            bytes.extend(self.granule_of(number, part));
        }
        self.write(drive, &bytes)?;
        drive.flush()?;
        if look_at(drive, before)?.condition != ZoneCondition::Empty {
            carry_out(drive, ZoneAction::Reset, before)?;
        }
        Ok(())
    }
}

/// Bytes of a granule at least: it takes a header.
pub(super) const GRANULE_MIN: u64 = SECTOR_BYTES;
