//! The bytes in which the reference engine keeps a batch: length u32, CRC-32C u32, then the
//! operations. One record per batch, so that a torn record loses the whole batch.

use silica_base::checksum;
use silica_engine::{EntryRef, Op, OpKind, WriteBatch};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const CLEAR: u8 = 3;
const HEADER_BYTES: usize = 8;

/// What one record says.
pub(super) enum Replay<'a> {
    Op(Op<'a>),
    Clear,
}

/// Appends `batch` as one record.
pub(super) fn encode(batch: &WriteBatch<'_>, out: &mut Vec<u8>) {
    let start = begin(out);
    for op in batch.ops() {
        match op.kind {
            OpKind::Put(entry) => {
                out.push(PUT);
                put_bytes(op.key, out);
                put_bytes(entry.value, out);
                out.extend_from_slice(&entry.expires_unix_ms.to_le_bytes());
                out.extend_from_slice(&entry.user_bits.to_le_bytes());
            }
            OpKind::Delete => {
                out.push(DELETE);
                put_bytes(op.key, out);
            }
            OpKind::DeleteRange(_) => unreachable!("the engine has made deletes of its keys"),
        }
    }
    finish(start, out);
}

/// Appends a record that removes every entry.
pub(super) fn encode_clear(out: &mut Vec<u8>) {
    let start = begin(out);
    out.push(CLEAR);
    finish(start, out);
}

/// Reads records until the first that is torn or damaged; the bytes of the intact ones.
pub(super) fn decode(bytes: &[u8], mut replay: impl FnMut(Replay<'_>)) -> usize {
    let mut at = 0;
    while let Some(payload) = intact(&bytes[at..]) {
        let mut rest = payload;
        while !rest.is_empty() {
            replay(take_op(&mut rest).expect("a record with a right checksum decodes"));
        }
        at += HEADER_BYTES + payload.len();
    }
    at
}

/// Reads records without looking at their checksums, as a careless engine would.
pub(super) fn decode_unchecked(bytes: &[u8], mut replay: impl FnMut(Replay<'_>)) {
    let mut rest = bytes;
    while let Some(header) = take(&mut rest, HEADER_BYTES) {
        let len = header.first_chunk().map_or(0, |len| u32::from_le_bytes(*len)) as usize;
        let mut payload = take(&mut rest, len).unwrap_or_default();
        while let (false, Some(op)) = (payload.is_empty(), take_op(&mut payload)) {
            replay(op);
        }
    }
}

fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

fn finish(start: usize, out: &mut [u8]) {
    let (header, payload) = out[start..].split_at_mut(HEADER_BYTES);
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&checksum(payload).to_le_bytes());
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn intact(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    let len = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?) as usize;
    let sum = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
    let payload = take(&mut rest, len)?;
    (checksum(payload) == sum && len > 0).then_some(payload)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?) as usize;
    take(rest, len)
}

fn take_op<'a>(rest: &mut &'a [u8]) -> Option<Replay<'a>> {
    let kind = take(rest, 1)?[0];
    if kind == CLEAR {
        return Some(Replay::Clear);
    }
    let key = take_bytes(rest)?;
    if kind == DELETE {
        return Some(Replay::Op(Op { key, kind: OpKind::Delete }));
    }
    let value = take_bytes(rest)?;
    let expires_unix_ms = u64::from_le_bytes(take(rest, 8)?.try_into().ok()?);
    let user_bits = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
    Some(Replay::Op(Op { key, kind: OpKind::Put(EntryRef { value, expires_unix_ms, user_bits }) }))
}
