//! Records: strings as they are in a database, for replicas that are Silica too
//! (docs/protocols/replication.md).
//!
//! Entries are coded here once for the stream and for all data. What is read may be damaged, so
//! every length is looked at before it is believed.

use silica::engine::{EntryRef, Error, ErrorKind, Result};
use silica_base::{checksum, read_varint, varint_len, write_varint};
use silica_types::is_marked;

/// The command that carries a record.
pub(crate) const COMMAND: &[u8] = b"SILICA.ENTRIES";
/// What a replica says that takes version 1 of records and of blocks.
pub const CAPABILITY: &str = "silica1";
/// What it says besides if its engine has an order, so that it keeps elements that are entries.
pub const ELEMENTS: &str = "silica1-elements";
/// What the primary says of all data as a file, behind which come records.
pub const FILE: &str = "silica1-file";
/// What it says besides if the stream is to have commands only.
pub const COMMANDS_ONLY: &str = "silica1-commands";
/// Bytes of entries after which a record is full.
pub(crate) const RECORD_BYTES: usize = 1 << 20;
/// An entry of more bytes is told as Redis gets it: a bulk string has no more than twice as many.
pub(crate) const ENTRY_BYTES_MAX: usize = 256 << 20;

pub(crate) const VERSION: u8 = 1;
const DELETED: u8 = 0;
const PUT: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

/// What has become of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'b> {
    /// It holds this.
    Put(&'b [u8], EntryRef<'b>),
    /// It is gone.
    Deleted(&'b [u8]),
}

/// Appends a key that has a value.
pub(crate) fn push_put(out: &mut Vec<u8>, key: &[u8], entry: EntryRef<'_>) {
    out.push(PUT);
    push_bytes(out, key);
    write_varint(out, entry.expires_unix_ms);
    write_varint(out, u64::from(entry.user_bits));
    push_bytes(out, entry.value);
}

/// Appends a key that is gone.
pub(crate) fn push_deleted(out: &mut Vec<u8>, key: &[u8]) {
    out.push(DELETED);
    push_bytes(out, key);
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes of a record of `count` entries, which `entries` has.
pub(crate) fn record_len(count: usize, entries: &[u8]) -> usize {
    1 + varint_len(count as u64) + entries.len() + CHECKSUM_BYTES
}

/// Appends a record of `count` entries, which `entries` has.
pub(crate) fn push_record(out: &mut Vec<u8>, count: usize, entries: &[u8]) {
    let start = out.len();
    out.push(VERSION);
    write_varint(out, count as u64);
    out.extend_from_slice(entries);
    let sum = checksum(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The entries of a record of the stream.
///
/// # Errors
/// `Corruption` if it is damaged, `Unsupported` if it is of a newer version.
pub(crate) fn read_record(bytes: &[u8]) -> Result<Vec<Change<'_>>> {
    match bytes.first() {
        Some(&VERSION) => {}
        Some(&version) if version > VERSION => return Err(newer("a record", version)),
        _ => return Err(damaged("a record has no version")),
    }
    let Some((body, sum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(damaged("a record is cut"));
    };
    if checksum(body) != u32::from_le_bytes(*sum) {
        return Err(damaged("the checksum of a record is wrong"));
    }
    let mut rest = &body[1..];
    let count = take_number(&mut rest)?;
    let changes = Changes(rest).collect::<Result<Vec<_>>>()?;
    let is_string = |change: &Change<'_>| match change {
        Change::Put(_, entry) => !is_marked(entry.user_bits),
        Change::Deleted(_) => true,
    };
    if count == 0 || changes.len() as u64 != count || !changes.iter().all(is_string) {
        return Err(damaged("the entries of a record are not those that it says"));
    }
    Ok(changes)
}

/// Entries behind one another.
pub(crate) struct Changes<'b>(pub(crate) &'b [u8]);

impl<'b> Iterator for Changes<'b> {
    type Item = Result<Change<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let change = take_change(&mut self.0);
        if change.is_err() {
            self.0 = &[];
        }
        Some(change)
    }
}

fn take_change<'b>(rest: &mut &'b [u8]) -> Result<Change<'b>> {
    let kind = rest.split_off_first().copied();
    let key = take_bytes(rest)?;
    match kind {
        Some(DELETED) => Ok(Change::Deleted(key)),
        Some(PUT) => {
            let expires_unix_ms = take_number(rest)?;
            let user_bits = u32::try_from(take_number(rest)?)
                .map_err(|_| damaged("user bits have more than 32"))?;
            let value = take_bytes(rest)?;
            Ok(Change::Put(key, EntryRef { value, expires_unix_ms, user_bits }))
        }
        _ => Err(damaged("an entry of an unknown kind")),
    }
}

/// Takes a varint off the front of `rest`.
pub(crate) fn take_number(rest: &mut &[u8]) -> Result<u64> {
    let (number, used) = read_varint(rest).ok_or_else(|| damaged("a number is cut"))?;
    *rest = &rest[used..];
    Ok(number)
}

fn take_bytes<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8]> {
    let len = usize::try_from(take_number(rest)?).unwrap_or(usize::MAX);
    rest.split_off(..len).ok_or_else(|| damaged("an entry is longer than what holds it"))
}

pub(crate) fn damaged(why: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("what the primary sends is damaged: {why}"))
}

pub(crate) fn newer(what: &str, version: u8) -> Error {
    let text = format!(
        "the primary sends {what} of version {version}, and this server reads version {VERSION}; \
         CONFIG SET repl-records no makes it ask for Redis's form"
    );
    Error::new(ErrorKind::Unsupported, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Vec<u8> {
        let (mut entries, mut record) = (Vec::new(), Vec::new());
        push_put(&mut entries, b"key", EntryRef::new(b"value"));
        let flagged = EntryRef { value: b"", expires_unix_ms: u64::MAX, user_bits: 0x1234_5678 };
        push_put(&mut entries, b"", flagged);
        push_deleted(&mut entries, &[0xFF; 200]);
        push_record(&mut record, 3, &entries);
        record
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let record = record();
        let flagged = EntryRef { value: b"", expires_unix_ms: u64::MAX, user_bits: 0x1234_5678 };
        let want = [
            Change::Put(b"key", EntryRef::new(b"value")),
            Change::Put(b"", flagged),
            Change::Deleted(&[0xFF; 200]),
        ];
        assert_eq!(read_record(&record).expect("it is whole"), want);
    }

    #[test]
    fn damage_anywhere_is_found() {
        let record = record();
        for len in 0..record.len() {
            assert!(read_record(&record[..len]).is_err(), "cut at {len}");
            for bit in 0..8 {
                let mut damaged = record.clone();
                damaged[len] ^= 1 << bit;
                assert!(read_record(&damaged).is_err(), "bit {bit} of byte {len}");
            }
        }
        let mut newer = record.clone();
        newer[0] = 2;
        let error = read_record(&newer).expect_err("nobody knows it");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("version 2"), "{error}");
    }

    #[test]
    fn a_right_checksum_makes_no_wrong_record_right() {
        let mut marked = Vec::new();
        let entry = EntryRef { value: b"v", expires_unix_ms: 0, user_bits: 0x51CA_0101 };
        push_put(&mut marked, b"k", entry);
        let mut put = Vec::new();
        push_put(&mut put, b"k", EntryRef::new(b"v"));
        let longer = [&put[..put.len() - 1], &[200, 1]].concat();
        for (count, entries) in [
            (0, &[][..]),
            (2, &put),
            (1, &marked),
            (1, &[7, 0]),
            (1, &put[..put.len() - 1]),
            (1, &longer),
            (u32::MAX as usize, &[]),
        ] {
            let mut record = Vec::new();
            push_record(&mut record, count, entries);
            let kind = read_record(&record).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::Corruption), "{count} {entries:?}");
        }
    }
}
