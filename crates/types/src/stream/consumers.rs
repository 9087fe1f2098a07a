//! Consumers of a group.

use super::groups::{Part, key, prefix, rest};
use super::{Group, Stream};
use crate::page::{damaged, take_varint};
use crate::tree::Direction;
use silica_base::{Result, write_varint};

/// A consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its number in its group.
    pub(super) number: u32,
    /// When it last asked for entries, in Unix milliseconds.
    pub seen_ms: u64,
    /// When it last got some; 0 if it never did.
    pub active_ms: u64,
}

impl Consumer {
    fn decode(bytes: &[u8]) -> Result<Consumer> {
        let mut at = 0;
        let number = u32::try_from(take_varint(bytes, &mut at)?);
        let number = number.map_err(|_| damaged("a consumer's number is too large"))?;
        let seen_ms = take_varint(bytes, &mut at)?;
        Ok(Consumer { number, seen_ms, active_ms: take_varint(bytes, &mut at)? })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_varint(&mut out, u64::from(self.number));
        write_varint(&mut out, self.seen_ms);
        write_varint(&mut out, self.active_ms);
        out
    }
}

impl Stream<'_> {
    /// The consumer `name` of `group`.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn consumer(&mut self, group: &Group, name: &[u8]) -> Result<Option<Consumer>> {
        let value = self.kept().get(&key(Part::Consumer, &[group.number], name))?;
        value.map(|value| Consumer::decode(&value)).transpose()
    }

    /// Stores what was changed of the consumer `name`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn put_consumer(&mut self, group: &Group, name: &[u8], consumer: &Consumer) -> Result<()> {
        self.kept().put(&key(Part::Consumer, &[group.number], name), &consumer.encode()).map(drop)
    }

    /// Makes a consumer that was seen at `now_ms`; `None` if there is one called `name`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn create_consumer(
        &mut self,
        group: &Group,
        name: &[u8],
        now_ms: u64,
    ) -> Result<Option<Consumer>> {
        if self.kept().contains(&key(Part::Consumer, &[group.number], name))? {
            return Ok(None);
        }
        let number = self.free_number(&prefix(Part::ConsumerName, &[group.number]))?;
        let consumer = Consumer { number, seen_ms: now_ms, active_ms: 0 };
        self.put_consumer(group, name, &consumer)?;
        self.kept().put(&key(Part::ConsumerName, &[group.number, number], b""), name)?;
        Ok(Some(consumer))
    }

    /// Removes the consumer `name` and what it has pending; how much that was, or `None` if there
    /// is no such consumer.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn delete_consumer(&mut self, group: &Group, name: &[u8]) -> Result<Option<u64>> {
        let Some(consumer) = self.consumer(group, name)? else { return Ok(None) };
        let owner = prefix(Part::Owned, &[group.number, consumer.number]);
        let ranks = self.kept_ranks(&owner)?;
        let count = ranks.end - ranks.start;
        let mut ids: Vec<Result<Vec<u8>>> = Vec::new();
        if count > 0 {
            self.kept().scan(ranks.start, Direction::Forward, &mut |key, _| {
                ids.push(rest(key, &owner).map(<[u8]>::to_vec));
                (ids.len() as u64) < count
            })?;
        }
        self.kept().remove_ranks(ranks)?;
        for id in ids {
            self.kept().remove(&key(Part::Pending, &[group.number], &id?))?;
        }
        self.kept().remove(&key(Part::Consumer, &[group.number], name))?;
        self.kept().remove(&key(Part::ConsumerName, &[group.number, consumer.number], b""))?;
        Ok(Some(count))
    }

    /// Number of `group`'s consumers.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn consumer_count(&mut self, group: &Group) -> Result<u64> {
        let ranks = self.kept_ranks(&prefix(Part::Consumer, &[group.number]))?;
        Ok(ranks.end - ranks.start)
    }

    /// All consumers of `group` with their names, in the order of these.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn consumers(&mut self, group: &Group) -> Result<Vec<(Vec<u8>, Consumer)>> {
        let before = prefix(Part::Consumer, &[group.number]);
        let ranks = self.kept_ranks(&before)?;
        let mut all: Vec<Result<(Vec<u8>, Consumer)>> = Vec::new();
        let mut left = ranks.end - ranks.start;
        if left > 0 {
            self.kept().scan(ranks.start, Direction::Forward, &mut |key, value| {
                let name = rest(key, &before);
                all.push(name.and_then(|name| Ok((name.to_vec(), Consumer::decode(value)?))));
                left -= 1;
                left > 0
            })?;
        }
        all.into_iter().collect()
    }

    /// The name of the consumer of `group` with this number.
    pub(super) fn consumer_name(&mut self, group: &Group, number: u32) -> Result<Vec<u8>> {
        let name = self.kept().get(&key(Part::ConsumerName, &[group.number, number], b""))?;
        name.ok_or_else(|| damaged("a pending entry has no consumer"))
    }
}
