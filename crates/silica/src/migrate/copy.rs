//! Copies and compares what two engines hold, piece by piece, while users write to both.
//!
//! Four steps, each of which goes through the entries of one engine: **copy** what the target
//! lacks; **sweep** from it what the source does not have, where it may have such; compare
//! **forth** and **back**. Now and then both engines are synced, and a note is kept of how far
//! it is.

use super::MigrateProgress;
use super::dual::Dual;
use super::journal::{Journal, Note};
use silica_base::{Clock, SystemClock, checksum};
use silica_engine::{
    Durability, Engine, EngineExt, EntryRef, Error, ErrorKind, GetSink, KeyRange, Result,
    WriteBatch,
};
use std::ops::Bound;
use std::sync::Arc;

/// Entries of a piece, and their bytes: writers wait for no more.
const PIECE_ENTRIES: usize = 128;
const PIECE_BYTES: usize = 128 << 10;
/// Pieces between two notes: what is done again at most where it is interrupted.
const NOTE_PIECES: u32 = 256;

/// What is done with all entries, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Copy,
    Sweep,
    Forth,
    Back,
    Done,
}

impl Step {
    pub(super) const ALL: [Step; 5] =
        [Step::Copy, Step::Sweep, Step::Forth, Step::Back, Step::Done];
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Entry {
    fn new(key: &[u8], entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Entry { key: key.to_vec(), value: value.to_vec(), expires_unix_ms, user_bits }
    }

    fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            value: &self.value,
            expires_unix_ms: self.expires_unix_ms,
            user_bits: self.user_bits,
        }
    }

    fn is_over(&self) -> bool {
        let clock = SystemClock::default();
        self.expires_unix_ms != 0 && self.expires_unix_ms <= clock.unix_ms()
    }

    /// Part of a sum that does not depend on the order of entries.
    fn checksum(&self) -> u64 {
        let mut bytes = Vec::with_capacity(self.key.len() + self.value.len() + 20);
        bytes.extend_from_slice(&(self.key.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&self.expires_unix_ms.to_le_bytes());
        bytes.extend_from_slice(&self.user_bits.to_le_bytes());
        let head = u64::from(checksum(&bytes));
        bytes.extend_from_slice(&self.value);
        head << 32 | u64::from(checksum(&bytes))
    }
}

/// Entries and a checksum that does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) entries: u64,
    pub(super) checksum: u64,
    pub(super) bytes: u64,
}

impl Sum {
    fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        self.checksum = self.checksum.wrapping_add(entry.checksum());
        self.bytes += (entry.key.len() + entry.value.len()) as u64;
    }

    /// Takes out an entry that was added.
    fn take(&mut self, entry: &Entry) {
        self.entries = self.entries.wrapping_sub(1);
        self.checksum = self.checksum.wrapping_sub(entry.checksum());
        self.bytes = self.bytes.wrapping_sub((entry.key.len() + entry.value.len()) as u64);
    }
}

/// A place in an engine's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Start,
    After(Vec<u8>),
    Cursor(u64),
    End,
}

impl Place {
    /// True where `key` comes before it.
    fn is_behind(&self, engine: &Arc<dyn Engine>, key: &[u8]) -> bool {
        match self {
            Place::Start => false,
            Place::After(last) => key <= &last[..],
            Place::Cursor(next) => engine.as_scan().is_some_and(|s| s.cursor_of(key) < *next),
            Place::End => true,
        }
    }
}

/// The next entries of `engine`.
fn piece(engine: &Arc<dyn Engine>, place: &mut Place) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    if let Some(ordered) = Arc::clone(engine).as_ordered() {
        let lower = match std::mem::replace(place, Place::End) {
            Place::After(key) => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        let range = KeyRange { lower, upper: Bound::Unbounded };
        let mut iterator = ordered.snapshot()?.iterate(&range)?;
        let mut is_there = iterator.seek_to_first()?;
        while is_there && entries.len() < PIECE_ENTRIES && bytes < PIECE_BYTES {
            let entry = Entry::new(iterator.key(), iterator.entry());
            bytes += entry.key.len() + entry.value.len();
            *place = Place::After(entry.key.clone());
            entries.push(entry);
            is_there = iterator.next()?;
        }
        if !is_there {
            *place = Place::End;
        }
        return Ok(entries);
    }
    let lacks = || {
        let name = engine.descriptor().name;
        Error::new(ErrorKind::Unsupported, format!("engine {name} cannot be iterated"))
    };
    let scan = engine.as_scan().ok_or_else(lacks)?;
    let cursor = if let Place::Cursor(cursor) = place { *cursor } else { 0 };
    let next = scan.scan(cursor, PIECE_ENTRIES, &mut |key, entry| {
        entries.push(Entry::new(key, entry));
    })?;
    *place = next.map_or(Place::End, Place::Cursor);
    Ok(entries)
}

struct Found(Vec<Option<Entry>>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(Entry::new(b"", entry));
    }
}

/// What `engine` has under `keys`.
fn under(engine: &Arc<dyn Engine>, keys: &[&[u8]]) -> Result<Vec<Option<Entry>>> {
    let mut found = Found(vec![None; keys.len()]);
    engine.get_many(keys, &mut found)?;
    let with_key =
        |(entry, key): (Option<Entry>, &&[u8])| Some(Entry { key: key.to_vec(), ..entry? });
    Ok(found.0.into_iter().zip(keys).map(with_key).collect())
}

/// What `engine` has under the keys of `entries`.
fn beside(engine: &Arc<dyn Engine>, entries: &[Entry]) -> Result<Vec<Option<Entry>>> {
    let keys: Vec<&[u8]> = entries.iter().map(|entry| entry.key.as_slice()).collect();
    under(engine, &keys)
}

fn put(target: &Arc<dyn Engine>, entry: &Entry) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put_entry(&entry.key, entry.entry());
    let written = target.write(&batch, Durability::Buffered);
    written.map_err(|e| e.within(format_args!("copying key {}", shown(&entry.key))))
}

/// Moves the entries of a migration.
pub(super) struct Mover<'a> {
    pub(super) dual: &'a Dual,
    /// Where notes are kept.
    pub(super) journal: Option<&'a Journal>,
    /// How far it is.
    pub(super) note: Note,
    /// Entries that were copied.
    pub(super) copied: u64,
    /// Entries of both engines that were looked at.
    pub(super) looked: u64,
    /// Entries that there are, roughly.
    pub(super) entries_estimate: u64,
}

impl Mover<'_> {
    /// Goes on to the end; `progress` is told how far it is.
    pub(super) fn run(
        &mut self,
        progress: &mut dyn FnMut(MigrateProgress) -> Result<()>,
    ) -> Result<Sum> {
        let mut tell = |phase, entries, entries_estimate| {
            progress(MigrateProgress { phase, entries, entries_estimate })
        };
        while self.note.step != Step::Done {
            self.walk(&mut tell)?;
            self.note.step = match self.note.step {
                Step::Copy if self.note.has_strays => Step::Sweep,
                Step::Copy | Step::Sweep => Step::Forth,
                Step::Forth => Step::Back,
                Step::Back | Step::Done => Step::Done,
            };
            (self.note.place, self.note.looked) = (Place::Start, 0);
            self.keep()?;
        }
        let sum = self.note.sum;
        tell("switch", sum.entries, sum.entries)?;
        Ok(sum)
    }

    /// Goes through the rest of one engine.
    fn walk(&mut self, tell: &mut dyn FnMut(&'static str, u64, u64) -> Result<()>) -> Result<()> {
        let mut pieces = 0;
        while self.note.place != Place::End {
            let dual = self.dual;
            let (source, target) = (&dual.source, &dual.target);
            let (from, with, phase) = match self.note.step {
                Step::Copy => (source, target, "copy"),
                Step::Sweep => (target, source, "sweep"),
                Step::Forth => (source, target, "verify"),
                Step::Back | Step::Done => (target, source, "verify"),
            };
            let turn = dual.turn()?;
            let mut place = self.note.place.clone();
            let entries = piece(from, &mut place)?;
            let there = beside(with, &entries)?;
            match self.note.step {
                Step::Copy => self.copy(&entries, &there)?,
                Step::Sweep => self.sweep(&entries, &there)?,
                _ => self.compare(&entries, &there)?,
            }
            self.note.place = place;
            self.note.looked += entries.len() as u64;
            self.looked += entries.len() as u64;
            drop(turn);
            let (all, compared) = (self.entries_estimate, self.note.sum.entries);
            match self.note.step {
                Step::Forth => tell(phase, compared, 2 * all)?,
                Step::Back => tell(phase, compared + self.note.looked, 2 * all)?,
                _ => tell(phase, self.note.looked, all)?,
            }
            pieces += 1;
            if pieces == NOTE_PIECES || self.journal.is_some_and(Journal::is_filling) {
                pieces = 0;
                self.keep()?;
            }
        }
        Ok(())
    }

    /// Copies what the target lacks, or has otherwise.
    fn copy(&mut self, entries: &[Entry], there: &[Option<Entry>]) -> Result<()> {
        let missing = entries
            .iter()
            .zip(there)
            .filter(|(entry, there)| there.as_ref() != Some(entry) && !entry.is_over());
        for (entry, _) in missing {
            put(&self.dual.target, entry)?;
            self.copied += 1;
        }
        Ok(())
    }

    /// Removes from the target what the source does not have.
    fn sweep(&mut self, entries: &[Entry], there: &[Option<Entry>]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (entry, _) in entries.iter().zip(there).filter(|(_, there)| there.is_none()) {
            batch.delete(&entry.key);
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.dual.target.write(&batch, Durability::Buffered)
    }

    /// Compares entries of one engine with what the other has.
    fn compare(&mut self, entries: &[Entry], there: &[Option<Entry>]) -> Result<()> {
        for (entry, other) in entries.iter().zip(there).filter(|(entry, _)| !entry.is_over()) {
            if other.as_ref() != Some(entry) {
                return Err(differs(self.dual, entry));
            }
            if self.note.step == Step::Forth {
                self.note.sum.add(entry);
            }
        }
        Ok(())
    }

    /// Syncs both engines and keeps a note that all up to here is done.
    pub(super) fn keep(&mut self) -> Result<()> {
        let Some(journal) = self.journal else { return Ok(()) };
        let turn = self.dual.turn()?;
        let page = journal.turn_page();
        drop(turn);
        self.dual.target.sync_as_far_as_it_goes()?;
        self.dual.source.sync_as_far_as_it_goes()?;
        journal.keep(&self.note, &page)
    }

    /// Looks again at the keys that were written since the last note, of which the target may have
    /// no write, or one that the source lost.
    pub(super) fn recheck<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let keys: Vec<&[u8]> = keys.collect();
        for keys in keys.chunks(PIECE_ENTRIES) {
            let turn = self.dual.turn()?;
            let here = under(&self.dual.source, keys)?;
            let there = under(&self.dual.target, keys)?;
            for (key, (here, there)) in keys.iter().zip(here.iter().zip(&there)) {
                if here == there {
                    continue;
                }
                match here {
                    Some(entry) => put(&self.dual.target, entry)?,
                    None => {
                        let mut batch = WriteBatch::new();
                        self.dual.target.write(batch.delete(key), Durability::Buffered)?;
                    }
                }
                self.copied += u64::from(here.is_some());
                if self.was_compared(key) {
                    there.iter().for_each(|entry| self.note.sum.take(entry));
                    here.iter().for_each(|entry| self.note.sum.add(entry));
                }
            }
            drop(turn);
            self.looked += keys.len() as u64;
        }
        self.keep()
    }

    /// True where the entry of `key` is in the sum.
    fn was_compared(&self, key: &[u8]) -> bool {
        match self.note.step {
            Step::Copy | Step::Sweep => false,
            Step::Forth => self.note.place.is_behind(&self.dual.source, key),
            Step::Back | Step::Done => true,
        }
    }
}

fn differs(dual: &Dual, entry: &Entry) -> Error {
    let target = dual.target.descriptor();
    if target.capabilities.may_evict {
        let message = format!(
            "key {} is not in {} any more: it has not enough memory for all entries; give it more \
             (its option memory_bytes)",
            shown(&entry.key),
            target.name
        );
        return Error::new(ErrorKind::Full, message);
    }
    let detail = format!("key {} differs in both engines", shown(&entry.key));
    Error::corruption("the migrated keyspace", 0, detail)
}

/// The beginning of a key, for a message.
fn shown(key: &[u8]) -> String {
    format!("'{}'", key[..key.len().min(64)].escape_ascii())
}
