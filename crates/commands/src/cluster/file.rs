//! The file of a cluster's map, which is changed in place (docs/formats/cluster.md).
//!
//! Invariants:
//! 1. Three places hold a record each. A record is never written over the newest one, nor over
//!    the newest durable one: whatever a write or a power cut leaves of it, those two are whole.
//! 2. Each record has a sequence number above all that were ever seen in the file, so a sector of
//!    an older record is never taken for one of a newer.
//! 3. A power cut leaves each sector old or new, with its checksum right; so a wrong checksum is
//!    damage. It is refused unless another sector of its block, which was written with it, shows
//!    that its record is not newer than the newest whole one.
//! 4. Only a file that this process made, and of which no write and no sync has failed, is written
//!    to. Otherwise the next record makes a new one, which replaces it by a rename: of a file that
//!    was there nobody knows which of its bytes are durable.
//! 5. Only what was written before is written over, so that the sync of a change writes no
//!    metadata, and a full disk does not hinder it.

use silica::engine::{Error, ErrorKind, Result};
use silica_base::{Checksum, Format};

/// The container of the text; version 1 was the text alone.
const FORMAT: Format = Format {
    name: "map of a cluster",
    magic: b"\x93silmap\n",
    version_bytes: 4,
    version: 2,
    steps: &[],
};
/// Bytes of a sector, and how many of those the record has.
const SECTOR: usize = 512;
const SHARE: usize = 500;
/// Bytes before the text: the format's prefix, the bytes of a place, those of the text.
const HEAD: usize = FORMAT.prefix_bytes() + 8;
/// What is written at once: the page of the kernel's cache, and the unit of most devices.
const BLOCK: usize = 4096;
/// Places, and the bytes of a small one.
const PLACES: usize = 3;
const PLACE_MIN: usize = 2 * BLOCK;
/// The name under which a new file is written.
const NEW: &str = ".new";

/// A file that is changed in place.
pub(super) trait InPlace: Send {
    /// Writes `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Makes everything written so far durable.
    fn sync(&self) -> Result<()>;
}

/// The directory of the file.
pub(super) trait Directory: Send {
    type File: InPlace;
    /// The bytes of the file `name`, if it is there.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// Makes an empty file `name`, instead of the one that is there.
    fn create(&self, name: &str) -> Result<Self::File>;
    /// Renames a file, replacing `to`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Makes the names durable.
    fn sync(&self) -> Result<()>;
    /// True if `file` is the one that has the name.
    fn has(&self, name: &str, file: &Self::File) -> bool;
}

/// An open file, and where its records are.
struct Current<F> {
    file: F,
    place_bytes: usize,
    newest: usize,
    durable: usize,
}

/// The file of the map.
pub(super) struct MapFile<D: Directory> {
    directory: D,
    name: String,
    /// The highest sequence number that was seen.
    sequence: u64,
    /// A sync of the directory has failed, so nobody knows which file a power cut leaves.
    is_poisoned: bool,
    /// None if the next record makes a new file.
    current: Option<Current<D::File>>,
}

impl<D: Directory> MapFile<D> {
    /// The file `name`, and the text of its newest record; None if there is no file. The first
    /// record makes a new one.
    ///
    /// # Errors
    /// Those of the directory; `Corruption` if the file is damaged, `Unsupported` if its version
    /// is not read.
    pub(super) fn open(directory: D, name: &str) -> Result<(Self, Option<String>)> {
        let found = match directory.read(name)? {
            None => None,
            // Version 1, of which the checksum is in the text.
            Some(bytes) if bytes.starts_with(b"silica-cluster ") => {
                let text = String::from_utf8(bytes);
                let text = text.map_err(|_| damaged(name, 0, "it is no text"))?;
                Some(Found { text, sequence: 0 })
            }
            Some(bytes) => Some(find(name, &bytes)?),
        };
        let sequence = found.as_ref().map_or(0, |found| found.sequence);
        let map = MapFile {
            directory,
            name: name.to_string(),
            sequence,
            is_poisoned: false,
            current: None,
        };
        Ok((map, found.map(|found| found.text)))
    }

    /// Writes a record with `text`, durably if it `is_synced`. Without that it survives the death
    /// of the process, and is durable from the next sync on.
    ///
    /// # Errors
    /// Those of the directory. The file may have the old text or the new one then, until the next
    /// call that succeeds. `Poisoned` after a sync of the directory has failed.
    pub(super) fn put(&mut self, text: &str, is_synced: bool) -> Result<()> {
        if self.is_poisoned {
            let message = "an earlier sync of its directory failed; start the server again";
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        let mut record = vec![0; FORMAT.prefix_bytes()];
        FORMAT.begin_in(&mut record);
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&(text.len() as u32).to_le_bytes());
        record.extend_from_slice(text.as_bytes());
        self.sequence += 1;
        let current = self.current.take();
        let fits = |current: &Current<D::File>| {
            bytes_in_sectors(record.len()) <= current.place_bytes
                && self.directory.has(&self.name, &current.file)
        };
        let current = match current.filter(fits) {
            Some(current) => self.put_in_place(current, record, is_synced)?,
            None => self.replace(record)?,
        };
        self.current = Some(current);
        Ok(())
    }

    /// Writes `record` over the oldest one.
    fn put_in_place(
        &self,
        mut current: Current<D::File>,
        mut record: Vec<u8>,
        is_synced: bool,
    ) -> Result<Current<D::File>> {
        let is_free = |place: &usize| ![current.newest, current.durable].contains(place);
        let place = (0..PLACES).find(is_free).expect("three places, of which two are kept");
        set_place_bytes(&mut record, current.place_bytes);
        let bytes = bytes_in_sectors(record.len()).next_multiple_of(BLOCK);
        let at = place * current.place_bytes;
        let sectors = sectors(&record, bytes, at, self.sequence);
        current.file.write_at(at as u64, &sectors)?;
        current.newest = place;
        if is_synced {
            current.file.sync()?;
            current.durable = place;
        }
        Ok(current)
    }

    /// Makes a new file of which each place has `record`, durable on return.
    fn replace(&mut self, mut record: Vec<u8>) -> Result<Current<D::File>> {
        let needed = bytes_in_sectors(record.len());
        let place_bytes = (2 * needed).next_multiple_of(BLOCK).max(PLACE_MIN);
        set_place_bytes(&mut record, place_bytes);
        let new = format!("{}{NEW}", self.name);
        let file = self.directory.create(&new)?;
        for place in 0..PLACES {
            let at = place * place_bytes;
            file.write_at(at as u64, &sectors(&record, place_bytes, at, self.sequence))?;
        }
        file.sync()?;
        self.directory.rename(&new, &self.name)?;
        self.directory.sync().inspect_err(|_| self.is_poisoned = true)?;
        Ok(Current { file, place_bytes, newest: 0, durable: 0 })
    }
}

/// Bytes of the sectors of a record of `bytes`.
fn bytes_in_sectors(bytes: usize) -> usize {
    bytes.div_ceil(SHARE) * SECTOR
}

fn set_place_bytes(record: &mut [u8], bytes: usize) {
    let at = FORMAT.prefix_bytes();
    record[at..at + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
}

/// `record` in sectors, filled up to `bytes`, which stand at byte `at` of the file.
fn sectors(record: &[u8], bytes: usize, at: usize, sequence: u64) -> Vec<u8> {
    let mut all = vec![0; bytes];
    let mut rest = record;
    for (sector, number) in all.chunks_exact_mut(SECTOR).zip(at / SECTOR..) {
        let (part, behind) = rest.split_at(rest.len().min(SHARE));
        sector[..part.len()].copy_from_slice(part);
        sector[SHARE..SHARE + 8].copy_from_slice(&sequence.to_le_bytes());
        let sum = sum(sector, number);
        sector[SHARE + 8..].copy_from_slice(&sum.to_le_bytes());
        rest = behind;
    }
    all
}

/// The checksum of sector `number` of the file.
fn sum(sector: &[u8], number: usize) -> u32 {
    Checksum::at(0, number as u64).update(&sector[..SHARE + 8]).finish()
}

/// The sequence number of sector `number`; None if its checksum is wrong.
fn sequence_of(sector: &[u8], number: usize) -> Option<u64> {
    let (body, kept) = sector.split_at(SHARE + 8);
    let is_right = kept == sum(sector, number).to_le_bytes();
    is_right.then(|| u64::from_le_bytes(body[SHARE..].try_into().expect("8 bytes")))
}

fn damaged(name: &str, at: usize, why: &str) -> Error {
    Error::corruption(name, at as u64, why)
}

/// What a file has.
struct Found {
    text: String,
    /// The highest number of all sectors.
    sequence: u64,
}

/// The newest whole record of `bytes`.
fn find(name: &str, bytes: &[u8]) -> Result<Found> {
    FORMAT.version_of(name, 0, bytes)?;
    let place_bytes = bytes.len() / PLACES;
    let is_even = place_bytes.is_multiple_of(BLOCK) && bytes.len().is_multiple_of(PLACES);
    if place_bytes < PLACE_MIN || !is_even {
        return Err(damaged(name, bytes.len(), "its length is not that of three places"));
    }
    let sequences: Vec<Option<u64>> = bytes
        .chunks_exact(SECTOR)
        .enumerate()
        .map(|(number, sector)| sequence_of(sector, number))
        .collect();
    let first_bad = sequences.iter().position(Option::is_none).unwrap_or_default() * SECTOR;
    let mut best: Option<(u64, String)> = None;
    let places = bytes.chunks_exact(place_bytes).zip(sequences.chunks_exact(place_bytes / SECTOR));
    for (place, sequences) in places {
        let Some(sequence) = sequences[0] else { continue };
        if best.as_ref().is_none_or(|(found, _)| *found < sequence)
            && let Some(text) = whole(name, place, sequences)?
        {
            best = Some((sequence, text));
        }
    }
    let Some((sequence, text)) = best else {
        return Err(damaged(name, first_bad, "no record is whole"));
    };
    for (at, block) in sequences.chunks_exact(BLOCK / SECTOR).enumerate() {
        let highest = block.iter().flatten().max();
        if block.contains(&None) && highest.is_none_or(|highest| *highest > sequence) {
            let why = "a checksum is wrong where a newer record may be";
            return Err(damaged(name, at * BLOCK, why));
        }
    }
    let sequence = sequences.iter().flatten().max().copied().unwrap_or(sequence);
    Ok(Found { text, sequence })
}

/// The text of the record in `part`, the sectors of which have `sequences`; None if it is not
/// whole.
fn whole(name: &str, part: &[u8], sequences: &[Option<u64>]) -> Result<Option<String>> {
    let Some(sequence) = sequences[0] else { return Ok(None) };
    let number = |at: usize| {
        let at = FORMAT.prefix_bytes() + at;
        u32::from_le_bytes(part[at..at + 4].try_into().expect("4 bytes")) as usize
    };
    FORMAT.version_of(name, 0, part)?;
    let record_bytes = HEAD + number(4);
    let sectors = bytes_in_sectors(record_bytes) / SECTOR;
    if number(0) != part.len() || sectors > sequences.len() {
        return Err(damaged(name, 0, "its length is not the one that a record says"));
    }
    if sequences[..sectors].iter().any(|found| *found != Some(sequence)) {
        return Ok(None);
    }
    let shares = part.chunks_exact(SECTOR).take(sectors).flat_map(|sector| &sector[..SHARE]);
    let text = shares.take(record_bytes).skip(HEAD).copied().collect();
    let text = String::from_utf8(text).map_err(|_| damaged(name, 0, "a record is no text"))?;
    Ok(Some(text))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
