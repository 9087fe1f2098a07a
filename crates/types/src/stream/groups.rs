//! Groups of consumers: by name, and the keys of tree 1.

use super::{Stream, StreamId, take_id, write_id};
use crate::page::{damaged, take_varint};
use crate::tree::{Direction, TreeMut};
use silica_base::{Result, write_varint};
use std::ops::Range;

/// First byte of a key: what the rest names, and what its value is.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// A group's name → the group.
    Group = 1,
    /// A group's number → its name.
    GroupName = 2,
    /// A group's number, a consumer's name → the consumer.
    Consumer = 3,
    /// The numbers of both → the consumer's name.
    ConsumerName = 4,
    /// A group's number, an id → who has the entry pending.
    Pending = 5,
    /// The numbers of both, an id → nothing.
    Owned = 6,
}

/// Bytes of a key of tree 1 before those parts that have their own order.
pub(super) fn prefix(part: Part, numbers: &[u32]) -> Vec<u8> {
    let mut key = vec![part as u8];
    numbers.iter().for_each(|number| key.extend_from_slice(&number.to_be_bytes()));
    key
}

/// A key of tree 1.
pub(super) fn key(part: Part, numbers: &[u32], rest: &[u8]) -> Vec<u8> {
    let mut key = prefix(part, numbers);
    key.extend_from_slice(rest);
    key
}

/// What stands behind `prefix` in a key that was found there.
pub(super) fn rest<'k>(key: &'k [u8], prefix: &[u8]) -> Result<&'k [u8]> {
    key.strip_prefix(prefix).ok_or_else(|| damaged("a key of a stream is out of order"))
}

/// A group of consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number in its stream.
    pub(super) number: u32,
    /// The last id that was delivered to a consumer of it.
    pub last_id: StreamId,
    /// How many entries it has read since the stream's first one, if that is known.
    pub entries_read: Option<u64>,
}

impl Group {
    fn decode(bytes: &[u8]) -> Result<Group> {
        let mut at = 0;
        let number = take_varint(bytes, &mut at)?;
        let number = u32::try_from(number).map_err(|_| damaged("a group's number is too large"))?;
        let last_id = take_id(bytes, &mut at)?;
        Ok(Group { number, last_id, entries_read: take_varint(bytes, &mut at)?.checked_sub(1) })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_varint(&mut out, u64::from(self.number));
        write_id(&mut out, self.last_id);
        write_varint(&mut out, self.entries_read.map_or(0, |read| read.saturating_add(1)));
        out
    }
}

impl Stream<'_> {
    /// What groups keep.
    pub(super) fn kept(&mut self) -> TreeMut<'_> {
        self.object.tree(1, self.pages)
    }

    /// The ranks of all keys of tree 1 that begin with `prefix`.
    pub(super) fn kept_ranks(&mut self, prefix: &[u8]) -> Result<Range<u64>> {
        let mut end = prefix.to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        // A key begins with a part, so something is left.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let (start, _) = self.kept().find(prefix)?;
        Ok(start..self.kept().find(&end)?.0)
    }

    /// The least number that no key behind `prefix` has. These keys end with their numbers.
    pub(super) fn free_number(&mut self, prefix: &[u8]) -> Result<u32> {
        let ranks = self.kept_ranks(prefix)?;
        let used = ranks.end - ranks.start;
        // Below `low`, every number stands at its own place; from `high` on none does.
        let (mut low, mut high) = (0, used);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = self.kept().at(ranks.start + middle)?;
            let number = at.as_ref().and_then(|(key, _)| key.get(prefix.len()..)?.try_into().ok());
            let number = number.map(u32::from_be_bytes);
            let number = number.ok_or_else(|| damaged("a number has not 4 bytes"))?;
            if u64::from(number) == middle { low = middle + 1 } else { high = middle }
        }
        u32::try_from(low).map_err(|_| damaged("it has more than 4,294,967,295 groups"))
    }

    /// Number of groups.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn group_count(&mut self) -> Result<u64> {
        let ranks = self.kept_ranks(&prefix(Part::Group, &[]))?;
        Ok(ranks.end - ranks.start)
    }

    /// All groups with their names, in the order of these.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn groups(&mut self) -> Result<Vec<(Vec<u8>, Group)>> {
        let ranks = self.kept_ranks(&prefix(Part::Group, &[]))?;
        let mut all: Vec<Result<(Vec<u8>, Group)>> = Vec::new();
        let mut left = ranks.end - ranks.start;
        if left > 0 {
            self.kept().scan(ranks.start, Direction::Forward, &mut |key, value| {
                let name = rest(key, &[Part::Group as u8]);
                all.push(name.and_then(|name| Ok((name.to_vec(), Group::decode(value)?))));
                left -= 1;
                left > 0
            })?;
        }
        all.into_iter().collect()
    }

    /// The group `name`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn group(&mut self, name: &[u8]) -> Result<Option<Group>> {
        let value = self.kept().get(&key(Part::Group, &[], name))?;
        value.map(|value| Group::decode(&value)).transpose()
    }

    /// Stores what was changed of the group `name`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn put_group(&mut self, name: &[u8], group: &Group) -> Result<()> {
        self.kept().put(&key(Part::Group, &[], name), &group.encode()).map(drop)
    }

    /// Makes a group that has read up to `last_id`; false if there is one called `name`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn create_group(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) -> Result<bool> {
        if self.kept().contains(&key(Part::Group, &[], name))? {
            return Ok(false);
        }
        let number = self.free_number(&prefix(Part::GroupName, &[]))?;
        self.put_group(name, &Group { number, last_id, entries_read })?;
        self.kept().put(&key(Part::GroupName, &[number], b""), name)?;
        Ok(true)
    }

    /// Removes the group `name` with its consumers and all that is pending; false if there is none.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn destroy_group(&mut self, name: &[u8]) -> Result<bool> {
        let Some(group) = self.group(name)? else { return Ok(false) };
        self.kept().remove(&key(Part::Group, &[], name))?;
        self.kept().remove(&key(Part::GroupName, &[group.number], b""))?;
        for part in [Part::Consumer, Part::ConsumerName, Part::Pending, Part::Owned] {
            let ranks = self.kept_ranks(&prefix(part, &[group.number]))?;
            self.kept().remove_ranks(ranks)?;
        }
        Ok(true)
    }

    /// Notes that `group` has been given the entry `id`: what it has read, and how much. The caller
    /// stores the group.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn advance(&mut self, group: &mut Group, id: StreamId) -> Result<()> {
        if id <= group.last_id {
            return Ok(());
        }
        let has_gap = self.has_gap_from(id)?;
        group.entries_read = match group.entries_read {
            Some(read) if !has_gap => Some(read.saturating_add(1)),
            known if self.info.entries_added == 0 => known,
            _ => self.added_up_to(id)?,
        };
        group.last_id = id;
        Ok(())
    }

    /// How many entries `group` has not read yet, if that is known; negative if it claims to have
    /// read more than there were.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn lag(&mut self, group: &Group) -> Result<Option<i64>> {
        let added = self.info.entries_added;
        let has_gap = self.has_gap_from(group.last_id)?;
        let read = match group.entries_read {
            _ if added == 0 => return Ok(Some(0)),
            Some(read) if !has_gap => Some(read),
            _ => self.added_up_to(group.last_id)?,
        };
        Ok(read.map(|read| added.wrapping_sub(read) as i64))
    }
}
