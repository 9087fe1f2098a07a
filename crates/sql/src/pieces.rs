//! Commits that do not fit into one batch of the engine; `docs/formats/sql.md` has the format.
//!
//! 1. Pieces are written first, then the mark, which is the commit, then what is in the pieces, and
//!    at last mark and pieces are deleted in one batch. The engine keeps its writes in order.
//! 2. Before the mark nothing has happened. Behind it all has, though not all is there yet: nobody
//!    may read or write the newest before it is.
//! 3. To write what is in the pieces again changes nothing.

use silica::engine::transaction::Transaction;
use silica::engine::{Op, OpKind, Ordered, Reads, Snapshot, SnapshotExt};
use silica::{Durability, EntryRef, Error, KeyRange, Result, WriteBatch};
use silica_base::{read_varint, write_varint};
use std::sync::Arc;

const PIECE: u8 = 0x20;
const MARK_KEY: &[u8] = &[0x21];

const PUT: u8 = 0;
const DELETE: u8 = 1;
const DELETE_RANGE: u8 = 2;
const DELETE_TO_END: u8 = 3;

/// Bytes that a piece takes beside a record at most: an operation, and its key.
pub(crate) const BESIDE_BYTES_MAX: usize = 128 << 10;

/// How far a commit came that failed.
pub(crate) enum Failed {
    /// Nothing has happened.
    Before(Error),
    /// It has happened, and is not all there before the database is opened again.
    Amid(Error),
}

struct Writer<'w> {
    ordered: &'w dyn Ordered,
    snapshot: Arc<dyn Snapshot>,
}

impl Writer<'_> {
    fn write(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let reads = Reads::of(&[]);
        self.ordered.commit(&*self.snapshot, reads, batch, Durability::Buffered).map(drop)
    }

    /// Deletes mark and pieces.
    fn end(&self) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(MARK_KEY).delete_range(&[PIECE], Some(MARK_KEY));
        self.write(&batch)
    }
}

fn key_of(number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [PIECE, a, b, c, d]
}

fn name_of(number: u32) -> String {
    format!("piece {number} of a transaction")
}

fn write_bytes(piece: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(piece, bytes.len() as u64);
    piece.extend_from_slice(bytes);
}

fn encode(batch: &WriteBatch<'_>) -> Vec<u8> {
    let mut piece = Vec::new();
    for op in batch.ops() {
        let (kind, value) = match op.kind {
            OpKind::Put(entry) => (PUT, Some(entry.value)),
            OpKind::Delete => (DELETE, None),
            OpKind::DeleteRange(Some(upper)) => (DELETE_RANGE, Some(upper)),
            OpKind::DeleteRange(None) => (DELETE_TO_END, None),
        };
        piece.push(kind);
        write_bytes(&mut piece, op.key);
        if let Some(value) = value {
            write_bytes(&mut piece, value);
        }
    }
    piece
}

fn read_bytes<'p>(piece: &mut &'p [u8]) -> Option<&'p [u8]> {
    let (len, taken) = read_varint(piece)?;
    let (bytes, rest) = piece[taken..].split_at_checked(usize::try_from(len).ok()?)?;
    *piece = rest;
    Some(bytes)
}

fn read_op<'p>(piece: &mut &'p [u8]) -> Option<Op<'p>> {
    let (kind, rest) = piece.split_first()?;
    *piece = rest;
    let key = read_bytes(piece)?;
    let kind = match *kind {
        PUT => OpKind::Put(EntryRef::new(read_bytes(piece)?)),
        DELETE => OpKind::Delete,
        DELETE_RANGE => OpKind::DeleteRange(Some(read_bytes(piece)?)),
        DELETE_TO_END => OpKind::DeleteRange(None),
        _ => return None,
    };
    Some(Op { key, kind })
}

fn decode(number: u32, piece: &[u8]) -> Result<WriteBatch<'_>> {
    let (mut batch, mut rest) = (WriteBatch::new(), piece);
    while !rest.is_empty() {
        let at = (piece.len() - rest.len()) as u64;
        let op = read_op(&mut rest);
        batch.push(op.ok_or_else(|| Error::corruption(name_of(number), at, "no operation"))?);
    }
    Ok(batch)
}

/// Writes all of `transaction` in one step, whatever its size. Pieces have `piece_bytes`, or one
/// record if that has more. The caller alone writes.
pub(crate) fn commit(
    ordered: &Arc<dyn Ordered>,
    transaction: &Transaction,
    piece_bytes: usize,
) -> Result<(), Failed> {
    let writer = Writer { ordered: &**ordered, snapshot: Arc::clone(transaction.snapshot()) };
    let mut pieces = 0_u32;
    let mut write_pieces = || -> Result<()> {
        writer.end()?;
        transaction.in_batches(piece_bytes, &mut |batch| {
            let (key, piece) = (key_of(pieces), encode(batch));
            pieces += 1;
            writer.write(WriteBatch::new().put(&key, &piece))
        })?;
        writer.write(WriteBatch::new().put(MARK_KEY, &pieces.to_le_bytes()))
    };
    if let Err(error) = write_pieces() {
        // What is left takes space until the next such commit or opening.
        writer.end().unwrap_or_else(|error| log::warn!("pieces of a transaction stay: {error}"));
        return Err(Failed::Before(error));
    }
    let written = transaction.in_batches(piece_bytes, &mut |batch| writer.write(batch));
    written.and_then(|()| writer.end()).map_err(Failed::Amid)
}

/// What an opening finds of a commit in pieces.
pub(crate) enum Left {
    Nothing,
    /// Pieces without the mark.
    Pieces,
    /// A commit that is not all there.
    Commit(u32),
}

/// What is left of a commit in pieces.
pub(crate) fn look(snapshot: &Arc<dyn Snapshot>) -> Result<Left> {
    let marked = snapshot.get_with(MARK_KEY, |entry| {
        entry.map(|entry| entry.value.try_into().map(u32::from_le_bytes))
    })?;
    match marked {
        Some(Ok(pieces)) => return Ok(Left::Commit(pieces)),
        Some(Err(_)) => return Err(Error::corruption("the mark of a commit", 0, "no number")),
        None => {}
    }
    let mut iterator = Arc::clone(snapshot).iterate(&KeyRange::prefix(&[PIECE]))?;
    Ok(if iterator.seek_to_first()? { Left::Pieces } else { Left::Nothing })
}

/// Brings a commit in pieces to its end, or takes it back. Nobody else writes yet.
pub(crate) fn recover(ordered: &Arc<dyn Ordered>, left: &Left) -> Result<()> {
    let writer = Writer { ordered: &**ordered, snapshot: Arc::clone(ordered).snapshot()? };
    let pieces = match left {
        Left::Nothing => return Ok(()),
        Left::Pieces => 0,
        Left::Commit(pieces) => *pieces,
    };
    for number in 0..pieces {
        let read = |entry: Option<EntryRef<'_>>| entry.map(|entry| entry.value.to_vec());
        let piece = writer.snapshot.get_with(&key_of(number), read)?;
        let lacks = || Error::corruption(name_of(number), 0, "it is not there");
        writer.write(&decode(number, &piece.ok_or_else(lacks)?)?)?;
    }
    writer.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_and_damaged_ones_are_refused() {
        let long = vec![7; 300];
        let mut batch = WriteBatch::new();
        batch.delete_range(b"a", Some(b"b")).delete_range(b"", None);
        batch.put(b"key", &long).put(b"", b"").delete(b"gone");
        let piece = encode(&batch);
        assert_eq!(decode(0, &piece).unwrap().ops(), batch.ops());
        let whole: Vec<usize> = (0..=batch.len())
            .map(|count| {
                let mut some = WriteBatch::new();
                batch.ops()[..count].iter().for_each(|op| {
                    some.push(*op);
                });
                encode(&some).len()
            })
            .collect();
        for len in 0..piece.len() {
            assert_eq!(decode(0, &piece[..len]).is_ok(), whole.contains(&len), "{len}");
        }
        assert!(decode(0, &[9, 0]).is_err());
    }
}
