//! Keys of the keyspace and the header; `docs/formats/sql.md` has the format.

use crate::failure::{Failure, Result, code};
use crate::storage::{FIRST_ROOT, META_COUNT};
use silica::KeyRange;
use silica_base::Format;

/// The key of the header.
pub(crate) const HEADER_KEY: &[u8] = &[0x01];
const TREE: u8 = 0x02;
const ENTRY: u8 = 0x10;

/// Bytes of an entry's key before rowid or columns.
pub(crate) const PREFIX_BYTES: usize = 5;
/// Bytes of the key of a row.
pub(crate) const ROW_KEY_BYTES: usize = PREFIX_BYTES + 8;

pub(crate) const FORMAT: Format =
    Format { name: "SQL database", magic: b"SILSQL", version_bytes: 2, version: 1, steps: &[] };
const HEADER_BYTES: usize = FORMAT.prefix_bytes() + 4 + 4 * META_COUNT;

/// What keys of transactions that have spilled begin with (`spill.rs`): their writes, the mark of
/// their commit, and what their writes have replaced.
pub(crate) const SPILLED: u8 = 0x20;
pub(crate) const SPILLED_END: u8 = 0x21;
pub(crate) const MARK_KEY: &[u8] = &[SPILLED_END];
pub(crate) const UNDO: u8 = 0x22;
pub(crate) const UNDO_END: u8 = 0x23;

/// True for a key that a database may have.
pub(crate) fn is_own_key(key: &[u8]) -> bool {
    let kinds = [HEADER_KEY[0], TREE, ENTRY, SPILLED, MARK_KEY[0], UNDO];
    key.first().is_some_and(|kind| kinds.contains(kind))
}

/// True for the header of a database, of whatever version.
pub(crate) fn is_header(value: &[u8]) -> bool {
    value.starts_with(FORMAT.magic)
}

fn of(kind: u8, root: u32) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = root.to_be_bytes();
    [kind, a, b, c, d]
}

/// The key that says that there is a tree.
pub(crate) fn tree_key(root: u32) -> [u8; PREFIX_BYTES] {
    of(TREE, root)
}

/// What the keys of a tree's entries begin with.
pub(crate) fn prefix(root: u32) -> [u8; PREFIX_BYTES] {
    of(ENTRY, root)
}

/// All keys of a tree's entries.
pub(crate) fn range(root: u32) -> KeyRange {
    KeyRange::prefix(&prefix(root))
}

/// All keys of every tree's entries, and all that say that there is a tree.
pub(crate) fn all_ranges() -> [KeyRange; 2] {
    [KeyRange::prefix(&[TREE]), KeyRange::prefix(&[ENTRY])]
}

/// The key of a row.
pub(crate) fn row_key(root: u32, rowid: i64) -> [u8; ROW_KEY_BYTES] {
    let mut key = [0; ROW_KEY_BYTES];
    key[..PREFIX_BYTES].copy_from_slice(&prefix(root));
    key[PREFIX_BYTES..].copy_from_slice(&(rowid as u64 ^ 1 << 63).to_be_bytes());
    key
}

/// The rowid in the key of a row; `None` if it is not one.
pub(crate) fn rowid_of(key: &[u8]) -> Option<i64> {
    let rowid = key.get(PREFIX_BYTES..)?.try_into().ok()?;
    Some((u64::from_be_bytes(rowid) ^ 1 << 63) as i64)
}

/// What a database has once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) last_root: u32,
    pub(crate) meta: [u32; META_COUNT],
}

impl Default for Header {
    fn default() -> Self {
        Header { last_root: FIRST_ROOT, meta: [0; META_COUNT] }
    }
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        FORMAT.begin(&mut bytes);
        bytes.extend_from_slice(&self.last_root.to_le_bytes());
        self.meta.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes
    }

    /// The header that is stored as `bytes`; a new one if none is.
    pub(crate) fn decode(bytes: Option<&[u8]>) -> Result<Self> {
        let Some(bytes) = bytes else { return Ok(Header::default()) };
        let upgraded = FORMAT.upgraded("the header of the SQL database", 0, bytes)?;
        let numbers = upgraded.get(FORMAT.prefix_bytes()..).unwrap_or_default();
        if upgraded.len() != HEADER_BYTES {
            let words = format!("the header has {} bytes, not {HEADER_BYTES}", upgraded.len());
            return Err(Failure::new(code::CORRUPT, words));
        }
        let (numbers, _) = numbers.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|number| u32::from_le_bytes(*number));
        let last_root = numbers.next().unwrap_or_default().max(FIRST_ROOT);
        let mut meta = [0; META_COUNT];
        meta.iter_mut().zip(numbers).for_each(|(into, number)| *into = number);
        Ok(Header { last_root, meta })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_their_numbers_within_their_tree() {
        let rowids = [i64::MIN, -256, -1, 0, 1, 255, 256, i64::MAX];
        for (at, rowid) in rowids.iter().enumerate() {
            let key = row_key(7, *rowid);
            assert_eq!(rowid_of(&key), Some(*rowid));
            assert!(range(7).contains(&key) && !range(6).contains(&key));
            assert!(!range(8).contains(&key) && range(u32::MAX).is_below(&key));
            assert!(rowids[..at].iter().all(|less| row_key(7, *less) < key));
        }
        assert_eq!(rowid_of(b"\x10\0\0\0\x01\x10"), None);
    }

    #[test]
    fn headers_come_back_and_newer_ones_are_refused_by_name() {
        let mut header = Header { last_root: 9, ..Header::default() };
        header.meta[14] = u32::MAX;
        let bytes = header.encode();
        assert_eq!(bytes.len(), 72);
        assert_eq!(Header::decode(Some(&bytes)), Ok(header));
        assert_eq!(Header::decode(None), Ok(Header::default()));
        let mut newer = bytes.clone();
        newer[6] = 2;
        let failure = Header::decode(Some(&newer)).unwrap_err();
        assert_eq!(failure.code, code::CANTOPEN);
        assert!(failure.words.contains("version 2 of the SQL database format"), "{failure}");
        for damaged in [&bytes[..71], b"", b"SILSQL\x01"] {
            assert_eq!(Header::decode(Some(damaged)).unwrap_err().code, code::CORRUPT);
        }
    }
}
