//! Transactions that are larger than their share of the memory: what they have written goes to
//! entries of the keyspace that nobody else reads. `docs/formats/sql.md` has their format.
//!
//! 1. One transaction at a time has spilled writes: the one that has the turn. Before its first
//!    spill, and when the database is opened, those of an earlier one are deleted.
//! 2. What a transaction reads is the moment of its begin, below its spilled writes
//!    ([`Overlay`]), below what it has in memory. A spill moves the last to the second, so the
//!    transaction reads the same before and after.
//! 3. While a savepoint is open, each spilled write has a record of what it replaced, numbered in
//!    the order of the writes. A savepoint that is older than the last spill is a number: to go
//!    back to it is to write what the records from the last one down to that number say.
//! 4. After a spill that failed, memory and entries need not fit to one another: nothing is written
//!    any more but the rollback of all.
//! 5. The commit is the mark: before it nothing has happened. Behind it all has, though not all is
//!    there yet, and nobody may read or write the newest before it is. Spilled writes are then
//!    written where they belong, and at last mark, records and spilled writes are deleted in one
//!    batch. The engine keeps its writes in order. To do all of it again changes nothing.

use crate::layout::{MARK_KEY, SPILLED, SPILLED_END, UNDO, UNDO_END};
use crate::overlay::{DELETED, Overlay, PUT, Ranges, decode, spilled_key};
use silica::engine::transaction::{Replaced, Transaction};
use silica::engine::{EntryBurst, Ordered, Reads, Snapshot, SnapshotExt};
use silica::{Durability, EntryRef, Error, KeyRange, Result, WriteBatch};
use silica_base::{read_varint, write_varint};
use std::sync::Arc;

/// Bytes that a record takes beside key and value of the entry that it is of at most, and a spilled
/// write beside its own.
pub(crate) const BESIDE_BYTES_MAX: usize = 128 << 10;

/// What a key was spilled as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before<'b> {
    Nothing,
    Written(Option<&'b [u8]>),
}

const NOTHING: u8 = 2;

/// How far a commit came that failed.
pub(crate) enum Failed {
    /// Nothing has happened.
    Before(Error),
    /// It has happened, and is not all there before the database is opened again.
    Amid(Error),
}

/// Operations on their way to the engine.
struct Writer<'w> {
    ordered: &'w Arc<dyn Ordered>,
    /// Any moment: nothing is compared with it.
    snapshot: Arc<dyn Snapshot>,
    /// Keys and values one behind the other, where each begins, and where it ends.
    bytes: Vec<u8>,
    puts: Vec<Pending>,
    bytes_max: usize,
}

/// Where an operation's key and value are in the bytes of a [`Writer`].
struct Pending {
    start: usize,
    key_end: usize,
    end: usize,
    is_put: bool,
}

/// What an operation of a batch takes beside key and value.
const OP_BYTES: usize = 64;

impl<'w> Writer<'w> {
    fn new(ordered: &'w Arc<dyn Ordered>, snapshot: &Arc<dyn Snapshot>, bytes_max: usize) -> Self {
        let snapshot = Arc::clone(snapshot);
        Writer { ordered, snapshot, bytes: Vec::new(), puts: Vec::new(), bytes_max }
    }

    fn write(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let reads = Reads::of(&[]);
        self.ordered.commit(&*self.snapshot, reads, batch, Durability::Buffered).map(drop)
    }

    /// Puts, or deletes, in a batch with others. Key and value are given in two pieces each.
    fn push(&mut self, key: [&[u8]; 2], value: Option<[&[u8]; 2]>) -> Result<()> {
        let start = self.bytes.len();
        key.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        let key_end = self.bytes.len();
        value.iter().flatten().for_each(|piece| self.bytes.extend_from_slice(piece));
        let (end, is_put) = (self.bytes.len(), value.is_some());
        self.puts.push(Pending { start, key_end, end, is_put });
        let bytes = self.bytes.len() + OP_BYTES * self.puts.len();
        if bytes >= self.bytes_max { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let mut batch = WriteBatch::new();
        for &Pending { start, key_end, end, is_put } in &self.puts {
            let key = &self.bytes[start..key_end];
            match is_put {
                true => batch.put(key, &self.bytes[key_end..end]),
                false => batch.delete(key),
            };
        }
        if !batch.is_empty() {
            self.write(&batch)?;
        }
        self.puts.clear();
        self.bytes.clear();
        // A large value must not stay.
        self.bytes.shrink_to(2 * self.bytes_max);
        Ok(())
    }

    /// Deletes mark, records and spilled writes.
    fn end(&self) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(MARK_KEY).delete_range(&[SPILLED], Some(&[SPILLED_END]));
        self.write(batch.delete_range(&[UNDO], Some(&[UNDO_END])))
    }
}

/// What a write is stored as, in two pieces.
fn encode_write(record: Option<&[u8]>) -> [&[u8]; 2] {
    match record {
        Some(record) => [&[PUT], record],
        None => [&[DELETED], &[]],
    }
}

fn undo_key(number: u64) -> Vec<u8> {
    [&[UNDO][..], &number.to_be_bytes()].concat()
}

fn encode_undo(key: &[u8], before: Before<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, key.len() as u64);
    bytes.extend_from_slice(key);
    match before {
        Before::Nothing => bytes.push(NOTHING),
        Before::Written(record) => {
            encode_write(record).iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
    }
    bytes
}

fn decode_undo(bytes: &[u8]) -> Option<(&[u8], Before<'_>)> {
    let (len, taken) = read_varint(bytes)?;
    let (key, rest) = bytes[taken..].split_at_checked(usize::try_from(len).ok()?)?;
    let before = match rest {
        [NOTHING] => Before::Nothing,
        _ => Before::Written(decode(rest).ok()?),
    };
    Some((key, before))
}

fn encode_mark(ranges: &Ranges) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (lower, upper) in ranges.iter() {
        bytes.push(u8::from(upper.is_some()));
        for key in [Some(lower), upper].into_iter().flatten() {
            write_varint(&mut bytes, key.len() as u64);
            bytes.extend_from_slice(key);
        }
    }
    bytes
}

fn decode_mark(mut bytes: &[u8]) -> Option<Ranges> {
    let mut ranges = Ranges::default();
    while let Some((has_upper, rest)) = bytes.split_first() {
        bytes = rest;
        let mut key = || -> Option<&[u8]> {
            let (len, taken) = read_varint(bytes)?;
            let (key, rest) = bytes[taken..].split_at_checked(usize::try_from(len).ok()?)?;
            bytes = rest;
            Some(key)
        };
        let lower = key()?;
        let upper = match has_upper {
            0 => None,
            1 => Some(key()?),
            _ => return None,
        };
        ranges.add(lower, upper);
    }
    Some(ranges)
}

/// A savepoint that is older than the last spill.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Records that there were.
    undos: u64,
    deleted: Arc<Ranges>,
}

/// The spilled writes of the transaction that has the turn.
pub(crate) struct Entries {
    ordered: Arc<dyn Ordered>,
    below: Arc<dyn Snapshot>,
    /// With all that is spilled.
    now: Arc<dyn Snapshot>,
    deleted: Arc<Ranges>,
    undos: u64,
    batch_bytes: usize,
    /// A spill has failed.
    is_broken: bool,
}

impl Entries {
    /// None yet, of a transaction that reads `below`.
    pub(crate) fn new(
        ordered: &Arc<dyn Ordered>,
        below: &Arc<dyn Snapshot>,
        batch_bytes: usize,
    ) -> Result<Self> {
        Writer::new(ordered, below, batch_bytes).end()?;
        Ok(Entries {
            ordered: Arc::clone(ordered),
            below: Arc::clone(below),
            now: Arc::clone(ordered).snapshot()?,
            deleted: Arc::default(),
            undos: 0,
            batch_bytes,
            is_broken: false,
        })
    }

    fn writer(&self) -> Writer<'_> {
        Writer::new(&self.ordered, &self.below, self.batch_bytes)
    }

    /// Refuses what would write after a spill that failed.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_broken {
            return Ok(());
        }
        let message = "what this transaction has written could not be put aside; roll it back";
        Err(Error::new(silica::ErrorKind::Io, message))
    }

    /// A transaction with nothing in memory above what is spilled.
    pub(crate) fn transaction(&self) -> Transaction {
        let overlay = Overlay {
            below: Arc::clone(&self.below),
            spilled: Arc::clone(&self.now),
            deleted: Arc::clone(&self.deleted),
        };
        Transaction::begin_alone(Arc::clone(&self.ordered), Arc::new(overlay))
    }

    /// Moves what `transaction` has written here. With `has_savepoints` records are written, too:
    /// the savepoints of the transaction become these marks, in their order.
    pub(crate) fn spill(
        &mut self,
        transaction: &Transaction,
        has_savepoints: bool,
    ) -> Result<Vec<Place>> {
        self.check()?;
        self.is_broken = true;
        let mut marks = Vec::new();
        let mut deleted = Vec::new();
        transaction.deleted_ranges(has_savepoints, |lower, upper| {
            deleted.push((lower.to_vec(), upper.map(<[u8]>::to_vec)));
        });
        for (lower, upper) in &deleted {
            self.delete_range(lower, upper.as_deref(), false)?;
        }
        if has_savepoints {
            marks = self.spill_replaced(transaction)?;
        }
        let mut writer = self.writer();
        transaction.written(|key, entry| {
            writer.push([&[SPILLED], key], Some(encode_write(entry.map(|entry| entry.value))))
        })?;
        writer.flush()?;
        self.now = Arc::clone(&self.ordered).snapshot()?;
        self.is_broken = false;
        Ok(marks)
    }

    /// Writes records of what the transaction has replaced, and deletes ranges at their time.
    fn spill_replaced(&mut self, transaction: &Transaction) -> Result<Vec<Place>> {
        let mut marks = Vec::new();
        let mut pending = Vec::new();
        transaction.replaced(&mut |replaced| {
            match replaced {
                Replaced::Savepoint(_) => {
                    let undos = self.undos + pending.len() as u64;
                    marks.push(Place { undos, deleted: Arc::clone(&self.deleted) });
                }
                Replaced::Key(key, before) => {
                    pending.push(match before {
                        Some(write) => {
                            let record = write.as_ref().map(|entry| entry.value);
                            encode_undo(key, Before::Written(record))
                        }
                        None => self.undo_of(key)?,
                    });
                    if pending.len() >= UNDOS_AT_ONCE {
                        self.write_undos(&mut pending)?;
                    }
                }
                Replaced::Range(lower, upper) => {
                    self.write_undos(&mut pending)?;
                    self.delete_range(lower, upper, true)?;
                }
            }
            Ok(())
        })?;
        self.write_undos(&mut pending)?;
        Ok(marks)
    }

    /// The record of what `key` is spilled as now.
    fn undo_of(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.now.get_with(&spilled_key(key), |entry| {
            let before = match &entry {
                Some(entry) => Before::Written(decode(entry.value)?),
                None => Before::Nothing,
            };
            Ok(encode_undo(key, before))
        })?
    }

    fn write_undos(&mut self, pending: &mut Vec<Vec<u8>>) -> Result<()> {
        let count = pending.len() as u64;
        let mut writer = self.writer();
        for (number, undo) in (self.undos..).zip(pending.drain(..)) {
            writer.push([&undo_key(number), &[]], Some([&undo, &[]]))?;
        }
        writer.flush()?;
        drop(writer);
        self.undos += count;
        Ok(())
    }

    fn delete_range(&mut self, lower: &[u8], upper: Option<&[u8]>, records: bool) -> Result<()> {
        let lower_spilled = spilled_key(lower);
        let upper_spilled = upper.map_or_else(|| vec![SPILLED_END], spilled_key);
        if records {
            let range = KeyRange::new(lower_spilled.clone(), upper_spilled.clone());
            let mut iterator = Arc::clone(&self.now).iterate(&range)?;
            let mut is_there = iterator.seek_to_first()?;
            let mut pending = Vec::new();
            while is_there {
                let before = Before::Written(decode(iterator.entry().value)?);
                pending.push(encode_undo(&iterator.key()[1..], before));
                if pending.len() >= UNDOS_AT_ONCE {
                    self.write_undos(&mut pending)?;
                }
                is_there = iterator.next()?;
            }
            self.write_undos(&mut pending)?;
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(&lower_spilled, Some(&upper_spilled));
        self.writer().write(&batch)?;
        Arc::make_mut(&mut self.deleted).add(lower, upper);
        self.now = Arc::clone(&self.ordered).snapshot()?;
        Ok(())
    }

    /// Takes back what was spilled since `mark`.
    pub(crate) fn roll_back_to(&mut self, mark: &Place) -> Result<()> {
        self.check()?;
        self.is_broken = true;
        let range = KeyRange::new(undo_key(mark.undos), undo_key(self.undos));
        let mut iterator = Arc::clone(&self.now).iterate(&range)?;
        let mut writer = self.writer();
        let mut is_there = iterator.seek_to_last()?;
        while is_there {
            let damaged = || Error::corruption("a record of a savepoint", 0, "it is none");
            let (key, before) = decode_undo(iterator.entry().value).ok_or_else(damaged)?;
            let value = match before {
                Before::Nothing => None,
                Before::Written(record) => Some(encode_write(record)),
            };
            writer.push([&[SPILLED], key], value)?;
            is_there = iterator.prev()?;
        }
        writer.flush()?;
        drop(writer);
        self.deleted = Arc::clone(&mark.deleted);
        self.forget_undos_from(mark.undos)?;
        self.now = Arc::clone(&self.ordered).snapshot()?;
        self.is_broken = false;
        Ok(())
    }

    /// Deletes all records: no savepoint is left that needs them.
    pub(crate) fn forget_undos(&mut self) -> Result<()> {
        if self.undos > 0 { self.forget_undos_from(0) } else { Ok(()) }
    }

    fn forget_undos_from(&mut self, number: u64) -> Result<()> {
        self.undos = number;
        let mut batch = WriteBatch::new();
        let first = undo_key(number);
        batch.delete_range(&first, Some(&[UNDO_END]));
        self.writer().write(&batch)
    }

    /// Commits what is spilled in one step.
    pub(crate) fn commit(&self) -> Result<(), Failed> {
        self.check().map_err(Failed::Before)?;
        let writer = self.writer();
        let mark = encode_mark(&self.deleted);
        writer.write(WriteBatch::new().put(MARK_KEY, &mark)).map_err(Failed::Before)?;
        drop(writer);
        apply(&self.ordered, &self.now, &self.deleted, self.batch_bytes).map_err(Failed::Amid)
    }

    /// Deletes what is spilled; the transaction is rolled back.
    pub(crate) fn end(&self) {
        let ended = self.writer().end();
        // What is left takes space until the next spill or opening.
        ended.unwrap_or_else(|error| log::warn!("spilled writes of a transaction stay: {error}"));
    }
}

/// Records that are written together.
const UNDOS_AT_ONCE: usize = 256;

/// Writes what is spilled at the moment `now` where it belongs, and deletes it.
fn apply(
    ordered: &Arc<dyn Ordered>,
    now: &Arc<dyn Snapshot>,
    deleted: &Ranges,
    batch_bytes: usize,
) -> Result<()> {
    let writer = Writer::new(ordered, now, batch_bytes);
    let mut batch = WriteBatch::new();
    for (lower, upper) in deleted.iter() {
        batch.delete_range(lower, upper);
    }
    if !batch.is_empty() {
        writer.write(&batch)?;
    }
    let mut iterator = Arc::clone(now).iterate(&KeyRange::new([SPILLED], [SPILLED_END]))?;
    let mut burst = EntryBurst::default();
    let begin = |burst: &mut EntryBurst| burst.begin(batch_bytes / OP_BYTES + 1, batch_bytes);
    begin(&mut burst);
    let mut is_there = iterator.seek_to_first()?;
    if is_there {
        burst.push(iterator.key(), iterator.entry().value);
    }
    while is_there {
        is_there = iterator.next_many(&mut burst)?;
        let mut batch = WriteBatch::new();
        for (key, write) in burst.iter() {
            match decode(write)? {
                Some(record) => batch.put(&key[1..], record),
                None => batch.delete(&key[1..]),
            };
        }
        writer.write(&batch)?;
        begin(&mut burst);
    }
    drop(iterator);
    writer.end()
}

/// What an opening finds of a transaction that has spilled.
pub(crate) enum Left {
    Nothing,
    /// Spilled writes without the mark.
    Spilled,
    /// A commit that is not all there.
    Commit(Ranges),
}

/// What is left of a transaction that has spilled.
pub(crate) fn look(snapshot: &Arc<dyn Snapshot>) -> Result<Left> {
    let damaged = || Error::corruption("the mark of a commit", 0, "it has no ranges");
    let mark = snapshot.get_with(MARK_KEY, |entry: Option<EntryRef<'_>>| {
        entry.map(|entry| decode_mark(entry.value).ok_or_else(damaged))
    })?;
    if let Some(ranges) = mark {
        return Ok(Left::Commit(ranges?));
    }
    let range = KeyRange::new([SPILLED], [UNDO_END]);
    let mut iterator = Arc::clone(snapshot).iterate(&range)?;
    Ok(if iterator.seek_to_first()? { Left::Spilled } else { Left::Nothing })
}

/// Brings a commit to its end, or takes back what was spilled. Nobody else writes yet.
pub(crate) fn recover(ordered: &Arc<dyn Ordered>, left: &Left, batch_bytes: usize) -> Result<()> {
    match left {
        Left::Nothing => Ok(()),
        Left::Spilled => {
            let snapshot = Arc::clone(ordered).snapshot()?;
            Writer::new(ordered, &snapshot, batch_bytes).end()
        }
        Left::Commit(ranges) => {
            let snapshot = Arc::clone(ordered).snapshot()?;
            apply(ordered, &snapshot, ranges, batch_bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_marks_come_back_and_damaged_ones_are_refused() {
        for before in [Before::Nothing, Before::Written(None), Before::Written(Some(b"record"))] {
            let bytes = encode_undo(b"key", before);
            assert_eq!(decode_undo(&bytes), Some((&b"key"[..], before)));
            // Behind the key and its kind a record may have any length.
            assert!((0..5).all(|len| decode_undo(&bytes[..len.min(4)]).is_none()));
        }
        assert_eq!(decode_undo(b"\x01k\x07"), None);
        let mut ranges = Ranges::default();
        ranges.add(b"a", Some(b"b"));
        ranges.add(b"c", None);
        let bytes = encode_mark(&ranges);
        assert_eq!(decode_mark(&bytes), Some(ranges));
        let whole = [0, 5, bytes.len()];
        for len in 0..=bytes.len() {
            assert_eq!(decode_mark(&bytes[..len]).is_some(), whole.contains(&len), "{len}");
        }
    }
}
