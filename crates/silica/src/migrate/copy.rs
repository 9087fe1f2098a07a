//! Copies and compares what two engines hold, piece by piece, while users write to both.

use super::dual::Dual;
use silica_base::{Clock, SystemClock, checksum};
use silica_engine::{
    Durability, Engine, EntryRef, Error, ErrorKind, GetSink, KeyRange, Result, WriteBatch,
};
use std::ops::Bound;
use std::sync::Arc;

/// Entries of a piece, and their bytes: writers wait for no more.
const PIECE_ENTRIES: usize = 128;
const PIECE_BYTES: usize = 128 << 10;

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
}

/// A place in an engine's entries.
enum Place {
    Start,
    After(Vec<u8>),
    Cursor(u64),
    End,
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

/// What `engine` has under the keys of `entries`.
fn beside(engine: &Arc<dyn Engine>, entries: &[Entry]) -> Result<Vec<Option<Entry>>> {
    let keys: Vec<&[u8]> = entries.iter().map(|entry| entry.key.as_slice()).collect();
    let mut found = Found(vec![None; entries.len()]);
    engine.get_many(&keys, &mut found)?;
    let with_key =
        |(entry, key): (Option<Entry>, &&[u8])| Some(Entry { key: key.to_vec(), ..entry? });
    Ok(found.0.into_iter().zip(&keys).map(with_key).collect())
}

/// Copies what the target lacks, or has otherwise; `tell` is told of entries that were looked at.
/// How many were copied.
pub(super) fn copy(dual: &Dual, tell: &mut dyn FnMut(u64) -> Result<()>) -> Result<u64> {
    let (mut place, mut looked, mut copied) = (Place::Start, 0, 0);
    while !matches!(place, Place::End) {
        let turn = dual.turn()?;
        let entries = piece(&dual.source, &mut place)?;
        let there = beside(&dual.target, &entries)?;
        let missing = entries
            .iter()
            .zip(&there)
            .filter(|(entry, there)| there.as_ref() != Some(entry) && !entry.is_over());
        for (entry, _) in missing {
            let mut batch = WriteBatch::new();
            batch.put_entry(&entry.key, entry.entry());
            let written = dual.target.write(&batch, Durability::Buffered);
            written.map_err(|e| e.within(format_args!("copying key {}", shown(&entry.key))))?;
            copied += 1;
        }
        drop(turn);
        looked += entries.len() as u64;
        tell(looked)?;
    }
    Ok(copied)
}

/// Removes from the target what the source does not have.
pub(super) fn sweep(dual: &Dual, tell: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let (mut place, mut looked) = (Place::Start, 0);
    while !matches!(place, Place::End) {
        let turn = dual.turn()?;
        let entries = piece(&dual.target, &mut place)?;
        let there = beside(&dual.source, &entries)?;
        let mut batch = WriteBatch::new();
        for (entry, _) in entries.iter().zip(&there).filter(|(_, there)| there.is_none()) {
            batch.delete(&entry.key);
        }
        if !batch.is_empty() {
            dual.target.write(&batch, Durability::Buffered)?;
        }
        drop(turn);
        looked += entries.len() as u64;
        tell(looked)?;
    }
    Ok(())
}

/// Compares all entries of both, from either side; what they hold.
pub(super) fn compare(dual: &Dual, tell: &mut dyn FnMut(u64) -> Result<()>) -> Result<Sum> {
    let forth = compare_from(dual, &dual.source, &dual.target, 0, tell)?;
    compare_from(dual, &dual.target, &dual.source, forth.entries, tell)?;
    Ok(forth)
}

fn compare_from(
    dual: &Dual,
    from: &Arc<dyn Engine>,
    with: &Arc<dyn Engine>,
    looked_before: u64,
    tell: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Sum> {
    let mut place = Place::Start;
    let (mut here, mut there) = (Sum::default(), Sum::default());
    while !matches!(place, Place::End) {
        let turn = dual.turn()?;
        let entries = piece(from, &mut place)?;
        let others = beside(with, &entries)?;
        for (entry, other) in entries.iter().zip(&others).filter(|(entry, _)| !entry.is_over()) {
            here.add(entry);
            other.iter().for_each(|other| there.add(other));
            if other.as_ref() != Some(entry) {
                return Err(differs(dual, entry));
            }
        }
        drop(turn);
        tell(looked_before + here.entries)?;
    }
    match here == there {
        true => Ok(here),
        false => Err(Error::corruption("the migrated keyspace", 0, "counts or checksums differ")),
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
