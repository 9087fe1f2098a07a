//! The journal: what is no longer so, in log files that outlive the process.
//!
//! Invariants (docs/formats/flash-cache.md has the argument):
//!
//! 1. Records are appended one after the other under one lock, so behind one that is torn there is
//!    none that is whole.
//! 2. A record is in its file before the call that made it returns; if the cache is to outlive a
//!    loss of power, it is synced by then.
//! 3. Files are never reused, so what is behind the last record is zeroes.
//! 4. What could not be recorded is owed: nothing else is recorded before it, and no call that
//!    changes something succeeds.
//! 5. A file is removed only after a checkpoint that does not need it is whole, synced and
//!    recorded.

use silica_base::{Checksum, Error, Format, HashSeed, Result};
use silica_device::{Device, LogFile};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const HEADER: Format = Format {
    name: "flash cache's journal",
    magic: b"SiJo",
    version_bytes: 2,
    version: 1,
    steps: &[],
};
const HEADER_BYTES: usize = 96;
const RECORD_BYTES: usize = 24;
/// Bytes of a journal file.
const FILE_BYTES: u64 = 1 << 20;
const PREFIX: &str = "LOG-journal-";

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// The item at this byte of the slab with this sequence is no longer the one of its key.
    Dead { sequence: u64, offset: u32 },
    /// The slab with this sequence is given up.
    Dropped { sequence: u64 },
    /// All slabs begun before this sequence are given up.
    Cleared { before: u64 },
    /// A checkpoint is whole, and needs the journals from `first` on.
    Checkpoint { number: u64, first: u64 },
    /// The cache was closed.
    Closed,
}

impl Record {
    fn parts(self) -> (u8, u64, u64) {
        match self {
            Record::Dead { sequence, offset } => (1, sequence, u64::from(offset)),
            Record::Dropped { sequence } => (2, sequence, 0),
            Record::Cleared { before } => (3, before, 0),
            Record::Checkpoint { number, first } => (4, number, first),
            Record::Closed => (5, 0, 0),
        }
    }

    fn new(kind: u8, a: u64, b: u64) -> Option<Record> {
        Some(match kind {
            1 => Record::Dead { sequence: a, offset: u32::try_from(b).ok()? },
            2 => Record::Dropped { sequence: a },
            3 => Record::Cleared { before: a },
            4 => Record::Checkpoint { number: a, first: b },
            5 => Record::Closed,
            _ => return None,
        })
    }

    fn encode(self, store: u64, file: u64, at: u64) -> [u8; RECORD_BYTES] {
        let (kind, a, b) = self.parts();
        let mut bytes = [0; RECORD_BYTES];
        bytes[4] = kind;
        bytes[8..16].copy_from_slice(&a.to_le_bytes());
        bytes[16..].copy_from_slice(&b.to_le_bytes());
        let sum = Checksum::at(store, file << 32 | at).update(&bytes[4..]).finish();
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], store: u64, file: u64, at: u64) -> Option<Record> {
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let record = Record::new(*bytes.get(4)?, u64_at(8)?, u64_at(16)?)?;
        (record.encode(store, file, at) == *bytes).then_some(record)
    }
}

/// What a journal file says of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) store: u64,
    pub(crate) seed: HashSeed,
    pub(crate) boot: u64,
    pub(crate) slab_bytes: u64,
    pub(crate) granule_bits: u32,
}

fn encode_header(identity: &Identity, file: u64, sequence: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    HEADER.begin_in(&mut bytes);
    bytes[8..16].copy_from_slice(&identity.store.to_le_bytes());
    bytes[16..24].copy_from_slice(&file.to_le_bytes());
    bytes[24..40].copy_from_slice(&identity.seed.0);
    bytes[40..48].copy_from_slice(&identity.boot.to_le_bytes());
    bytes[48..56].copy_from_slice(&identity.slab_bytes.to_le_bytes());
    bytes[56..60].copy_from_slice(&identity.granule_bits.to_le_bytes());
    bytes[60..68].copy_from_slice(&sequence.to_le_bytes());
    let sum = Checksum::at(identity.store, 0).update(&bytes[..92]).finish();
    bytes[92..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode_header(bytes: &[u8]) -> Option<(Identity, u64, u64)> {
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
    let identity = Identity {
        store: u64_at(8),
        seed: HashSeed(bytes[24..40].try_into().expect("sixteen")),
        boot: u64_at(40),
        slab_bytes: u64_at(48),
        granule_bits: u32::from_le_bytes(bytes[56..60].try_into().expect("four")),
    };
    let (file, sequence) = (u64_at(16), u64_at(60));
    (encode_header(&identity, file, sequence) == *bytes).then_some((identity, file, sequence))
}

/// What the journals of a cache say.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) identity: Identity,
    /// Items that are no longer current.
    pub(crate) dead: BTreeSet<(u64, u32)>,
    pub(crate) dropped: BTreeSet<u64>,
    /// Slabs begun before this are given up.
    pub(crate) cleared_before: u64,
    /// The newest checkpoint that is whole.
    pub(crate) checkpoint: Option<u64>,
    /// The cache was closed, and nothing happened since.
    pub(crate) is_closed: bool,
    /// The files, with the sequence of the first slab that was begun after each.
    files: Vec<(u64, u64)>,
    /// More than any slab's sequence that the journals know of.
    pub(crate) sequence_above: u64,
    /// Records in all files.
    records: u64,
    /// Sequence of the first slab that was begun after the oldest file: of slabs before that the
    /// journals do not know all that died.
    pub(crate) known_from: u64,
}

fn name(file: u64) -> String {
    format!("{PREFIX}{file:08x}")
}

/// Numbers of the journal files, sorted.
fn files<D: Device>(device: &D) -> Result<Vec<u64>> {
    let numbers = device.list()?.into_iter().filter_map(|name| {
        let digits = name.strip_prefix(PREFIX)?;
        u64::from_str_radix(digits, 16).ok()
    });
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Removes all journal files, so that nothing of them is believed from the first removal on.
pub(crate) fn remove_all<D: Device>(device: &D) -> Result<()> {
    let mut files = files(device)?.into_iter();
    // Once the oldest is gone for good, the others are incomplete, whichever of them a power cut
    // brings back.
    if let Some(oldest) = files.next() {
        device.remove(&name(oldest))?;
        device.sync_dir()?;
    }
    files.try_for_each(|file| device.remove(&name(file)))
}

/// A journal file.
struct Read {
    identity: Identity,
    sequence: u64,
    records: Vec<Record>,
}

/// Reads all journals that are needed: `None` if there is none, `Err(Corruption)` if they cannot be
/// believed. Those before the newest checkpoint's first one are not looked at.
pub(crate) fn read<D: Device>(device: &D) -> Result<Option<Told>> {
    let mut all = Vec::new();
    for file in files(device)? {
        all.push((file, read_file(device, file)?));
    }
    // One that its creator died in before anything was recorded.
    if all.len() > 1 && matches!(all.last(), Some((_, Ok(None)))) {
        all.pop();
    }
    let Some(newest) = all.last().map(|(file, _)| *file) else { return Ok(None) };
    let records = all.iter().filter_map(|(_, read)| read.as_ref().ok()?.as_ref());
    let mut checkpoints =
        records.flat_map(|read| &read.records).filter_map(|record| match record {
            Record::Checkpoint { first, .. } => Some(*first),
            _ => None,
        });
    let first = checkpoints.next_back().unwrap_or(1);
    let mut told: Option<Told> = None;
    let mut all = all.into_iter().filter(|(file, _)| *file >= first);
    for wanted in first..=newest {
        let missing = || Error::corruption(name(wanted), 0, "it is missing: a delete may be lost");
        let (file, read) = all.next().ok_or_else(missing)?;
        let read = read?.ok_or_else(missing)?;
        let is_same = told.as_ref().is_none_or(|t| t.identity.store == read.identity.store);
        if file != wanted || !is_same {
            return Err(missing());
        }
        let told = told.get_or_insert_with(|| Told {
            identity: read.identity,
            dead: BTreeSet::new(),
            dropped: BTreeSet::new(),
            cleared_before: 0,
            checkpoint: None,
            is_closed: false,
            files: Vec::new(),
            sequence_above: 0,
            records: 0,
            known_from: read.sequence,
        });
        told.identity.boot = read.identity.boot;
        told.files.push((file, read.sequence));
        told.sequence_above = told.sequence_above.max(read.sequence);
        read.records.into_iter().for_each(|record| told.take(record));
    }
    Ok(told)
}

/// Reads a journal file: what is wrong with it is for the caller to judge. `Ok(None)` if nothing
/// was ever written to it.
fn read_file<D: Device>(device: &D, file: u64) -> Result<Result<Option<Read>>> {
    let log = device.open_log(&name(file))?;
    let bytes = log.bytes(0, log.len() as usize);
    Ok(parse(file, bytes))
}

fn parse(file: u64, bytes: &[u8]) -> Result<Option<Read>> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let Some((identity, number, sequence)) = decode_header(bytes) else {
        return Err(Error::corruption(name(file), 0, "its header does not match"));
    };
    if number != file {
        return Err(Error::corruption(name(file), 16, "it is another journal"));
    }
    let mut records = Vec::new();
    let mut at = HEADER_BYTES;
    while at + RECORD_BYTES <= bytes.len() {
        match Record::decode(&bytes[at..at + RECORD_BYTES], identity.store, file, at as u64) {
            Some(record) => records.push(record),
            None if bytes[at..].iter().all(|byte| *byte == 0) => break,
            None => {
                let detail = "a record does not match: a delete may be lost";
                return Err(Error::corruption(name(file), at as u64, detail));
            }
        }
        at += RECORD_BYTES;
    }
    Ok(Some(Read { identity, sequence, records }))
}

impl Told {
    fn take(&mut self, record: Record) {
        self.is_closed = record == Record::Closed;
        self.records += 1;
        match record {
            Record::Dead { sequence, offset } => {
                self.dead.insert((sequence, offset));
                self.sequence_above = self.sequence_above.max(sequence + 1);
            }
            Record::Dropped { sequence } => {
                self.dropped.insert(sequence);
                self.sequence_above = self.sequence_above.max(sequence + 1);
            }
            Record::Cleared { before } => {
                self.cleared_before = self.cleared_before.max(before);
                self.sequence_above = self.sequence_above.max(before);
            }
            Record::Checkpoint { number, .. } => self.checkpoint = Some(number),
            Record::Closed => {}
        }
    }
}

/// The journal of an open cache.
pub(crate) struct Journal<D: Device> {
    identity: Identity,
    is_synced: bool,
    /// Something is owed.
    is_owing: AtomicBool,
    state: Mutex<State<D::Log>>,
}

struct State<L> {
    log: Arc<L>,
    /// Number of the file that is appended to.
    file: u64,
    /// All files, with the sequence of the first slab that was begun after each.
    files: Vec<(u64, u64)>,
    /// Records that come before all others.
    owed: Vec<Record>,
    /// Full files that were not synced.
    unsynced: Vec<Arc<L>>,
    /// Bytes recorded since the last checkpoint, those of earlier openings included.
    fresh_bytes: u64,
}

impl<D: Device> Journal<D> {
    /// Begins a journal file behind those that `told` was read from.
    pub(crate) fn begin(
        device: &D,
        identity: Identity,
        told: Option<&Told>,
        sequence: u64,
        is_synced: bool,
    ) -> Result<Self> {
        let numbers = files(device)?;
        let mut known = told.map_or(Vec::new(), |told| told.files.clone());
        let file = known.last().map_or(1, |(file, _)| file + 1);
        if numbers.contains(&file) {
            // One in which nothing was recorded.
            device.remove(&name(file))?;
        }
        let log = create(device, &identity, file, sequence)?;
        known.push((file, sequence));
        let fresh_bytes = told.map_or(0, |told| told.records * RECORD_BYTES as u64);
        let state = State {
            log: Arc::new(log),
            file,
            files: known,
            owed: Vec::new(),
            unsynced: Vec::new(),
            fresh_bytes,
        };
        let is_owing = AtomicBool::new(false);
        Ok(Journal { identity, is_synced, is_owing, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State<D::Log>> {
        self.state.lock().expect("no panic while locked")
    }

    /// Records. `sequence` is the one of the next slab, for a file that begins with this.
    /// [`Journal::settle`] makes it as durable as it has to be.
    pub(crate) fn append(&self, device: &D, sequence: u64, records: &[Record]) -> Result<()> {
        if records.is_empty() && !self.is_owing.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state();
        while let Some(record) = state.owed.last().copied() {
            self.append_one(&mut state, device, sequence, record)?;
            state.owed.pop();
        }
        self.is_owing.store(false, Ordering::Release);
        records.iter().try_for_each(|r| self.append_one(&mut state, device, sequence, *r))
    }

    /// Has records come before all others: they are of what failed, and must not be forgotten.
    pub(crate) fn owe(&self, records: impl Iterator<Item = Record>) {
        let mut state = self.state();
        state.owed.extend(records);
        self.is_owing.store(!state.owed.is_empty(), Ordering::Release);
    }

    /// Waits for a sync of what was recorded, if the cache is to outlive a loss of power. Callers
    /// may come together, and share one.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.is_synced { self.sync() } else { Ok(()) }
    }

    fn append_one(
        &self,
        state: &mut State<D::Log>,
        device: &D,
        sequence: u64,
        record: Record,
    ) -> Result<()> {
        if state.log.len() + RECORD_BYTES as u64 > state.log.capacity() {
            self.turn(state, device, sequence)?;
        }
        let bytes = record.encode(self.identity.store, state.file, state.log.len());
        state.log.append(&[&bytes])?;
        state.fresh_bytes += RECORD_BYTES as u64;
        Ok(())
    }

    fn turn(&self, state: &mut State<D::Log>, device: &D, sequence: u64) -> Result<()> {
        if self.is_synced {
            state.log.sync()?;
        }
        let next = Arc::new(create(device, &self.identity, state.file + 1, sequence)?);
        let full = std::mem::replace(&mut state.log, next);
        if self.is_synced {
            device.sync_dir()?;
        } else {
            state.unsynced.push(full);
        }
        state.file += 1;
        let file = state.file;
        state.files.push((file, sequence));
        Ok(())
    }

    /// Goes on in a new file, and returns its number.
    pub(crate) fn turn_now(&self, device: &D, sequence: u64) -> Result<u64> {
        let mut state = self.state();
        self.turn(&mut state, device, sequence)?;
        Ok(state.file)
    }

    /// The file that was appended to when the slab with this sequence was begun, or an earlier
    /// one.
    pub(crate) fn file_at(&self, sequence: u64) -> u64 {
        let state = self.state();
        let begun = state.files.iter().rev().find(|(_, first)| *first <= sequence);
        begun.or(state.files.first()).map_or(1, |(file, _)| *file)
    }

    /// Bytes of all files, as far as they are filled.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state();
        (state.files.len() as u64 - 1) * FILE_BYTES + state.log.len()
    }

    /// A checkpoint is begun.
    pub(crate) fn begin_anew(&self) {
        self.state().fresh_bytes = 0;
    }

    /// Bytes that were recorded since the last checkpoint was begun.
    pub(crate) fn fresh_bytes(&self) -> u64 {
        self.state().fresh_bytes
    }

    /// Makes all records durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let (unsynced, log) = {
            let mut state = self.state();
            (std::mem::take(&mut state.unsynced), Arc::clone(&state.log))
        };
        for full in unsynced {
            full.sync()?;
        }
        log.sync()
    }

    /// Removes the files before `first`.
    pub(crate) fn trim(&self, device: &D, first: u64) -> Result<()> {
        let old: Vec<u64> = {
            let mut state = self.state();
            let cut = state.files.partition_point(|(file, _)| *file < first);
            state.files.drain(..cut).map(|(file, _)| file).collect()
        };
        old.into_iter().try_for_each(|file| device.remove(&name(file)))
    }
}

fn create<D: Device>(device: &D, identity: &Identity, file: u64, sequence: u64) -> Result<D::Log> {
    let log = device.create_log(&name(file), FILE_BYTES)?;
    log.append(&[&encode_header(identity, file, sequence)])?;
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::ErrorKind;
    use silica_device::sim::{SimDevice, SimOptions};

    const IDENTITY: Identity =
        Identity { store: 5, seed: HashSeed([3; 16]), boot: 1, slab_bytes: 4096, granule_bits: 0 };

    #[test]
    fn what_was_recorded_is_told_again() {
        let device = SimDevice::new(1, SimOptions::default());
        assert!(read(&device).unwrap().is_none());
        let journal = Journal::begin(&device, IDENTITY, None, 1, false).unwrap();
        let dead = Record::Dead { sequence: 7, offset: 32 };
        let records = [dead, Record::Dropped { sequence: 9 }, Record::Cleared { before: 4 }];
        journal.append(&device, 10, &records).unwrap();
        let told = read(&device).unwrap().unwrap();
        assert!(told.dead.contains(&(7, 32)) && told.dropped.contains(&9));
        assert_eq!((told.cleared_before, told.sequence_above), (4, 10));
        assert!(!told.is_closed);
        let first = journal.turn_now(&device, 11).unwrap();
        journal.append(&device, 11, &[Record::Checkpoint { number: 3, first }]).unwrap();
        journal.trim(&device, first).unwrap();
        journal.append(&device, 11, &[Record::Closed]).unwrap();
        let told = read(&device).unwrap().unwrap();
        assert_eq!((told.checkpoint, told.is_closed, told.known_from), (Some(3), true, 11));
        assert!(told.dead.is_empty());
    }

    #[test]
    fn a_missing_or_damaged_journal_is_not_believed() {
        let device = SimDevice::new(1, SimOptions::default());
        let journal = Journal::begin(&device, IDENTITY, None, 1, false).unwrap();
        for _ in 0..2 {
            journal.append(&device, 1, &[Record::Dropped { sequence: 9 }]).unwrap();
            journal.turn_now(&device, 1).unwrap();
        }
        assert!(read(&device).unwrap().is_some());
        device.remove(&name(2)).unwrap();
        assert_eq!(read(&device).unwrap_err().kind(), ErrorKind::Corruption);
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_found() {
        let bytes = Record::Dead { sequence: 7, offset: 32 }.encode(5, 1, 96);
        for at in 0..RECORD_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 1 << (at % 8);
            assert_eq!(Record::decode(&flipped, 5, 1, 96), None, "byte {at}");
        }
        assert_eq!(Record::decode(&bytes, 5, 1, 120), None);
    }
}
