//! Streams: entries of fields by ids that ascend, and groups of consumers that share them.
//!
//! Tree 0 has the entries by id. Tree 1 has all that groups keep (see the submodules). What a
//! stream knows of entries that are gone is the object's meta. The bytes are those of
//! docs/formats/types.md.
//!
//! Invariants:
//! 1. No entry has an id above the last id, and none is the least id.
//! 2. A pending entry stands twice in tree 1: by id, with its consumer, and by consumer and id.
//! 3. A group or consumer has a number that no other one of its stream or group has; both ways
//!    between name and number stand in tree 1.

mod check;
mod consumers;
mod groups;
mod id;
mod pending;

pub(crate) use check::check;
pub use consumers::Consumer;
pub use groups::Group;
pub use id::StreamId;
pub use pending::Pending;

use crate::object::Object;
use crate::page::{damaged, take_bytes, take_varint};
use crate::pages::Pages;
use crate::tree::{Direction, TreeMut};
use silica_base::{Result, write_varint};
use std::ops::Range;

/// What a stream knows beside the entries that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamInfo {
    /// The greatest id that was ever given, or what XSETID has set.
    pub last_id: StreamId,
    /// The greatest id that was deleted by itself; the least if none was.
    pub max_deleted_id: StreamId,
    /// Entries that were ever added.
    pub entries_added: u64,
}

impl StreamInfo {
    fn decode(meta: &[u8]) -> Result<StreamInfo> {
        if meta.is_empty() {
            return Ok(StreamInfo::default());
        }
        let mut at = 0;
        let last_id = take_id(meta, &mut at)?;
        let max_deleted_id = take_id(meta, &mut at)?;
        Ok(StreamInfo { last_id, max_deleted_id, entries_added: take_varint(meta, &mut at)? })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_id(&mut out, self.last_id);
        write_id(&mut out, self.max_deleted_id);
        write_varint(&mut out, self.entries_added);
        out
    }
}

fn take_id(bytes: &[u8], at: &mut usize) -> Result<StreamId> {
    Ok(StreamId { ms: take_varint(bytes, at)?, seq: take_varint(bytes, at)? })
}

fn write_id(out: &mut Vec<u8>, id: StreamId) {
    write_varint(out, id.ms);
    write_varint(out, id.seq);
}

/// The id that `bytes` are, in a page.
fn id_of(bytes: &[u8]) -> Result<StreamId> {
    StreamId::of_bytes(bytes).ok_or_else(|| damaged("an id has not 16 bytes"))
}

/// Fields and values of an entry, one behind the other.
#[derive(Debug, Clone)]
pub struct Fields<'f> {
    bytes: &'f [u8],
    at: usize,
    left: usize,
}

impl<'f> Fields<'f> {
    /// Those of an element of the tree of entries.
    ///
    /// # Errors
    /// Fails unless `bytes` are the value of an entry.
    pub fn decode(bytes: &'f [u8]) -> Result<Self> {
        let mut at = 0;
        let pairs = take_varint(bytes, &mut at)?;
        let left = usize::try_from(pairs).ok().and_then(|pairs| pairs.checked_mul(2));
        let left = left.filter(|left| *left <= bytes.len());
        let left = left.ok_or_else(|| damaged("an entry has more fields than bytes"))?;
        let fields = Fields { bytes, at, left };
        for _ in 0..left {
            let len = take_varint(bytes, &mut at)?;
            take_bytes(bytes, &mut at, len)?;
        }
        Ok(fields)
    }
}

impl<'f> Iterator for Fields<'f> {
    type Item = &'f [u8];

    fn next(&mut self) -> Option<&'f [u8]> {
        self.left = self.left.checked_sub(1)?;
        let len = take_varint(self.bytes, &mut self.at).ok()?;
        take_bytes(self.bytes, &mut self.at, len).ok().map(|range| &self.bytes[range])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// An object that is a stream, and its pages.
pub struct Stream<'s> {
    object: &'s mut Object,
    pages: &'s mut dyn Pages,
    info: StreamInfo,
}

impl<'s> Stream<'s> {
    /// `object` as a stream.
    ///
    /// # Errors
    /// Fails if it is damaged.
    pub fn of(object: &'s mut Object, pages: &'s mut dyn Pages) -> Result<Self> {
        let info = StreamInfo::decode(&object.meta)?;
        Ok(Stream { object, pages, info })
    }

    fn entries(&mut self) -> TreeMut<'_> {
        self.object.tree(0, self.pages)
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.object.len(0)
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it knows beside its entries.
    pub fn info(&self) -> StreamInfo {
        self.info
    }

    /// Sets what it knows beside its entries. The caller upholds the first invariant.
    pub fn set_info(&mut self, info: StreamInfo) {
        self.info = info;
        self.object.meta = info.encode();
    }

    /// The id of the entry with `rank` others before it.
    fn id_at(&mut self, rank: u64) -> Result<Option<StreamId>> {
        let mut id = None;
        self.entries().scan(rank, Direction::Forward, &mut |key, _| {
            id = Some(id_of(key));
            false
        })?;
        id.transpose()
    }

    /// The id of the first entry.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn first_id(&mut self) -> Result<Option<StreamId>> {
        self.id_at(0)
    }

    /// The id of the last entry.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn final_id(&mut self) -> Result<Option<StreamId>> {
        match self.len() {
            0 => Ok(None),
            len => self.id_at(len - 1),
        }
    }

    /// Adds an entry of `fields`, each before its value. The caller sees to it that `id` is greater
    /// than the last one.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn add<'f>(
        &mut self,
        id: StreamId,
        fields: impl ExactSizeIterator<Item = &'f [u8]>,
    ) -> Result<()> {
        let mut value = Vec::new();
        write_varint(&mut value, fields.len() as u64 / 2);
        for field in fields {
            write_varint(&mut value, field.len() as u64);
            value.extend_from_slice(field);
        }
        let len = self.len();
        self.entries().insert_at(len, &id.to_bytes(), &value)?;
        let entries_added = self.info.entries_added.saturating_add(1);
        self.set_info(StreamInfo { last_id: id, entries_added, ..self.info });
        Ok(())
    }

    /// True if there is an entry `id`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn contains(&mut self, id: StreamId) -> Result<bool> {
        self.entries().contains(&id.to_bytes())
    }

    /// How many entries have an id below `id`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn rank(&mut self, id: StreamId) -> Result<u64> {
        self.entries().find(&id.to_bytes()).map(|(rank, _)| rank)
    }

    /// The ranks of the entries from `first` to `last`, both included.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn ranks(&mut self, first: StreamId, last: StreamId) -> Result<Range<u64>> {
        let start = self.rank(first)?;
        let (end, is_found) = self.entries().find(&last.to_bytes())?;
        Ok(start..(end + u64::from(is_found)).max(start))
    }

    /// Calls `each` with `count` entries from the one with `rank` others before it on.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan(
        &mut self,
        rank: u64,
        direction: Direction,
        count: u64,
        each: &mut dyn FnMut(StreamId, Fields<'_>),
    ) -> Result<()> {
        let mut left = count;
        let mut failed = None;
        if left == 0 {
            return Ok(());
        }
        self.entries().scan(rank, direction, &mut |key, value| {
            match id_of(key).and_then(|id| Ok((id, Fields::decode(value)?))) {
                Ok((id, fields)) => each(id, fields),
                Err(error) => failed = Some(error),
            }
            left -= 1;
            left > 0 && failed.is_none()
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Calls `each` with the entry `id`; false if there is none.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn with_entry(&mut self, id: StreamId, each: &mut dyn FnMut(Fields<'_>)) -> Result<bool> {
        let Some(value) = self.entries().get(&id.to_bytes())? else { return Ok(false) };
        each(Fields::decode(&value)?);
        Ok(true)
    }

    /// Deletes the entry `id`; false if there is none.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn delete(&mut self, id: StreamId) -> Result<bool> {
        if self.entries().remove(&id.to_bytes())?.is_none() {
            return Ok(false);
        }
        let max_deleted_id = self.info.max_deleted_id.max(id);
        self.set_info(StreamInfo { max_deleted_id, ..self.info });
        Ok(true)
    }

    /// Removes the first `count` entries; how many these were.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn trim(&mut self, count: u64) -> Result<u64> {
        self.entries().remove_ranks(0..count)
    }

    /// True if an entry from `from` on may have been deleted by itself, behind the first one that
    /// is there, so that counts of entries read do not tell what is ahead.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn has_gap_from(&mut self, from: StreamId) -> Result<bool> {
        let deleted = self.info.max_deleted_id;
        if deleted == StreamId::MIN || from > deleted {
            return Ok(false);
        }
        Ok(self.first_id()?.is_some_and(|first| first <= deleted))
    }

    /// How many entries were ever added up to `id`, if that is known.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn added_up_to(&mut self, id: StreamId) -> Result<Option<u64>> {
        let StreamInfo { last_id, max_deleted_id, entries_added } = self.info;
        if entries_added == 0 {
            return Ok(Some(0));
        }
        if id == last_id || (self.is_empty() && id < last_id) {
            return Ok(Some(entries_added));
        }
        if id > last_id {
            return Ok(None);
        }
        let first = self.first_id()?.unwrap_or_default();
        if max_deleted_id != StreamId::MIN && max_deleted_id >= first {
            return Ok(None);
        }
        let before = entries_added.saturating_sub(self.len());
        Ok(match id.cmp(&first) {
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before + 1),
            std::cmp::Ordering::Greater => None,
        })
    }
}
