//! The position that a database's data has in its primary's stream, as an entry of the database
//! (docs/formats/replica.md).

use silica::engine::{
    Durability, Engine, EngineExt, EntryRef, GetSink, Intent, Result, WriteBatch,
};
use std::collections::BTreeMap;

/// Its key: one of those that no user has, before the pages of all objects.
pub(crate) const MARK_KEY: &[u8] = &[0xFF, 0x51, 0xCA, 0x00, 0, 0, 0, 0];

const VERSION: u8 = 1;
const UNSURE: u8 = 1;
const FUNCTIONS: u8 = 2;
const ID_BYTES: usize = 40;

/// Which position the data has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The history.
    pub id: String,
    /// Bytes of it that were applied.
    pub offset: u64,
    /// The database that is selected there.
    pub db: u8,
    /// Of each database that the stream has written: the offset behind the last write.
    pub written: BTreeMap<u8, u64>,
    /// Something is under way that is no single batch.
    pub is_unsure: bool,
    /// There are libraries of functions, which do not outlive the process.
    pub has_functions: bool,
}

impl Mark {
    /// The value of its entry.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.is_unsure, UNSURE) | flag(self.has_functions, FUNCTIONS);
        let mut bytes = vec![VERSION, flags, self.db, self.written.len() as u8];
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        for (db, offset) in &self.written {
            bytes.push(*db);
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
        bytes.extend_from_slice(self.id.as_bytes());
        bytes
    }

    /// The mark that an entry has; `None` if it is of another version, or none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Mark> {
        let (&[version, flags, db, count], rest) = bytes.split_first_chunk::<4>()?;
        if version != VERSION || flags & !(UNSURE | FUNCTIONS) != 0 {
            return None;
        }
        let (offset, mut rest) = rest.split_first_chunk::<8>()?;
        let mut written = BTreeMap::new();
        for _ in 0..count {
            let (&[db, offset @ ..], behind) = rest.split_first_chunk::<9>()?;
            written.insert(db, u64::from_le_bytes(offset));
            rest = behind;
        }
        let id = std::str::from_utf8(rest).ok().filter(|id| id.len() == ID_BYTES)?;
        Some(Mark {
            id: id.to_string(),
            offset: u64::from_le_bytes(*offset),
            db,
            written,
            is_unsure: flags & UNSURE != 0,
            has_functions: flags & FUNCTIONS != 0,
        })
    }

    /// Writes it into `engine` by itself.
    pub(crate) fn put(&self, engine: &dyn Engine) -> Result<()> {
        let value = self.encode();
        let mut batch = WriteBatch::new();
        batch.put_entry(MARK_KEY, EntryRef::new(&value));
        engine.write(&batch, Durability::Buffered)
    }
}

/// The position of the data of `databases`, all that hold something, by number; if there is one.
pub(crate) fn read(databases: &[(usize, &dyn Engine)]) -> Result<Option<Mark>> {
    let mut marks = BTreeMap::new();
    for (db, engine) in databases {
        let Some(bytes) = mark_bytes(*engine)? else { continue };
        let Some(mark) = Mark::decode(&bytes) else { return Ok(None) };
        marks.insert(*db as u8, mark);
    }
    Ok(position(&marks))
}

/// The position that the marks of databases come to.
fn position(marks: &BTreeMap<u8, Mark>) -> Option<Mark> {
    let newest = marks.values().max_by_key(|mark| mark.offset)?;
    let is_whole =
        |(db, offset): (&u8, &u64)| marks.get(db).is_some_and(|mark| mark.offset >= *offset);
    let is_sure = marks.values().all(|mark| !mark.is_unsure) && !newest.has_functions;
    (is_sure && newest.written.iter().all(is_whole)).then(|| newest.clone())
}

/// True if `engine` has a mark. The first database has one as long as any has.
pub(crate) fn is_marked(engine: &dyn Engine) -> Result<bool> {
    Ok(mark_bytes(engine)?.is_some())
}

/// The mark of `engine` as it stands there. No user asks for it, so it is no read of theirs where
/// reads are counted and recorded.
fn mark_bytes(engine: &dyn Engine) -> Result<Option<Vec<u8>>> {
    struct Found(Option<Vec<u8>>);
    impl GetSink for Found {
        fn found(&mut self, _: usize, entry: EntryRef<'_>) {
            self.0 = Some(entry.value.to_vec());
        }
    }
    let mut found = Found(None);
    engine.get_many_with(&[MARK_KEY], Intent::Background, &mut found)?;
    Ok(found.0)
}

/// Removes the marks of `databases`, durably; that of the first one last, since it says that there
/// are others.
pub(crate) fn remove_marks(databases: &[(usize, &dyn Engine)]) -> Result<()> {
    for (_, engine) in databases.iter().rev() {
        if is_marked(*engine)? {
            engine.delete(MARK_KEY, Durability::Buffered)?;
            engine.sync()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(offset: u64, written: &[(u8, u64)]) -> Mark {
        let written = written.iter().copied().collect();
        Mark { id: "a".repeat(40), offset, db: 2, written, is_unsure: false, has_functions: false }
    }

    #[test]
    fn marks_are_read_as_they_were_written() {
        for written in [&[][..], &[(0, 7), (15, u64::MAX)]] {
            for is_unsure in [false, true] {
                let mark = Mark { is_unsure, ..mark(1 << 40, written) };
                let bytes = mark.encode();
                assert_eq!(Mark::decode(&bytes), Some(mark));
                for len in 0..bytes.len() {
                    assert_eq!(Mark::decode(&bytes[..len]), None, "cut at {len}");
                }
                assert_eq!(Mark::decode(&[&bytes[..], b"x"].concat()), None);
                assert_eq!(Mark::decode(&[&[2], &bytes[1..]].concat()), None, "a newer version");
            }
        }
    }

    #[test]
    fn the_newest_mark_counts_if_no_database_lost_its_end() {
        let of =
            |marks: &[(u8, Mark)]| position(&marks.iter().cloned().collect()).map(|m| m.offset);
        assert_eq!(of(&[]), None);
        let (old, new) = (mark(50, &[(0, 50)]), mark(90, &[(0, 50), (1, 90)]));
        assert_eq!(of(&[(0, old.clone()), (1, new.clone())]), Some(90));
        // The log of database 0 has lost what was written up to 50.
        assert_eq!(of(&[(0, mark(40, &[(0, 40)])), (1, new.clone())]), None);
        assert_eq!(of(&[(1, new.clone())]), None);
        // Of database 1 the log has lost all that it had.
        assert_eq!(of(&[(0, old.clone())]), Some(50));
        let unsure = Mark { is_unsure: true, ..old.clone() };
        assert_eq!(of(&[(0, unsure), (1, new)]), None);
        assert_eq!(of(&[(0, Mark { has_functions: true, ..old })]), None);
    }
}
