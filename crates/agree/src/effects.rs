//! A batch of writes as bytes, and entries as bytes: docs/formats/agreement.md.

use silica::engine::{EntryRef, Error, ErrorKind, Op, OpKind, Result, WriteBatch};

const PUT: u8 = 0;
const DELETE: u8 = 1;
const DELETE_RANGE: u8 = 2;
const DELETE_FROM: u8 = 3;

/// Appends `op` to `out`.
pub(crate) fn encode_op(op: &Op<'_>, out: &mut Vec<u8>) {
    match op.kind {
        OpKind::Put(entry) => {
            out.push(PUT);
            bytes(op.key, out);
            out.extend_from_slice(&entry.expires_unix_ms.to_le_bytes());
            out.extend_from_slice(&entry.user_bits.to_le_bytes());
            bytes(entry.value, out);
        }
        OpKind::Delete => {
            out.push(DELETE);
            bytes(op.key, out);
        }
        OpKind::DeleteRange(Some(upper)) => {
            out.push(DELETE_RANGE);
            bytes(op.key, out);
            bytes(upper, out);
        }
        OpKind::DeleteRange(None) => {
            out.push(DELETE_FROM);
            bytes(op.key, out);
        }
    }
}

/// The operations of `batch` as bytes.
pub(crate) fn encode(batch: &WriteBatch<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    batch.ops().iter().for_each(|op| encode_op(op, &mut out));
    out
}

/// The batch that `from` encodes.
///
/// # Errors
/// `Corruption` if these are not the bytes of a batch.
pub(crate) fn decode(from: &[u8]) -> Result<WriteBatch<'_>> {
    let mut reader = Reader(from);
    let mut batch = WriteBatch::new();
    while !reader.0.is_empty() {
        let kind = reader.take(1)?[0];
        let key = reader.bytes()?;
        match kind {
            PUT => {
                let expires_unix_ms = reader.u64()?;
                let user_bits = reader.u32()?;
                let value = reader.bytes()?;
                batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits });
            }
            DELETE => drop(batch.delete(key)),
            DELETE_RANGE => {
                let upper = reader.bytes()?;
                batch.delete_range(key, Some(upper));
            }
            DELETE_FROM => drop(batch.delete_range(key, None)),
            _ => return Err(damaged()),
        }
    }
    Ok(batch)
}

fn bytes(from: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(from.len() as u32).to_le_bytes());
    out.extend_from_slice(from);
}

pub(crate) fn damaged() -> Error {
    Error::new(ErrorKind::Corruption, "the bytes of an entry of the agreement's log are damaged")
}

/// Reads numbers and strings one after the other.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().map_err(|_| damaged())?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| damaged())?))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_back_and_cut_ones_are_refused() {
        let mut batch = WriteBatch::new();
        let entry = EntryRef { value: b"value", expires_unix_ms: 7, user_bits: 9 };
        batch.put_entry(b"key", entry).delete(b"").delete_range(b"a", Some(b"b"));
        batch.delete_range(b"x", None).put(b"last", b"");
        let bytes = encode(&batch);
        assert_eq!(decode(&bytes).unwrap().ops(), batch.ops());
        let mut whole = 0;
        for end in 0..bytes.len() {
            whole += usize::from(decode(&bytes[..end]).is_ok_and(|b| b.len() < batch.len()));
        }
        assert_eq!(whole, batch.len(), "only cuts between operations pass");
        assert!(decode(b"\x09\0\0\0\0").is_err());
    }
}
