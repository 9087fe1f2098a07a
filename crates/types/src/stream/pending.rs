//! Entries that consumers have been given and have not acknowledged.

use super::groups::{Part, key, prefix, rest};
use super::{Consumer, Group, Stream, StreamId, id_of};
use crate::page::{damaged, take_varint};
use crate::tree::Direction;
use silica_base::{Result, write_varint};

/// What a group knows of an entry that a consumer has not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// The number of the consumer that has it.
    pub(super) consumer: u32,
    /// When that was given it, in Unix milliseconds.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub count: u64,
}

impl Pending {
    /// An entry that `consumer` has been given.
    pub fn of(consumer: &Consumer, delivered_ms: u64, count: u64) -> Self {
        Pending { consumer: consumer.number, delivered_ms, count }
    }

    /// True if `consumer` has it.
    pub fn is_of(&self, consumer: &Consumer) -> bool {
        self.consumer == consumer.number
    }

    fn decode(bytes: &[u8]) -> Result<Pending> {
        let mut at = 0;
        let consumer = u32::try_from(take_varint(bytes, &mut at)?);
        let consumer = consumer.map_err(|_| damaged("a consumer's number is too large"))?;
        let delivered_ms = take_varint(bytes, &mut at)?;
        Ok(Pending { consumer, delivered_ms, count: take_varint(bytes, &mut at)? })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_varint(&mut out, u64::from(self.consumer));
        write_varint(&mut out, self.delivered_ms);
        write_varint(&mut out, self.count);
        out
    }
}

impl Stream<'_> {
    /// How many entries `group`, or one `consumer` of it, has pending.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn pending_count(&mut self, group: &Group, consumer: Option<&Consumer>) -> Result<u64> {
        let ranks = match consumer {
            None => self.kept_ranks(&prefix(Part::Pending, &[group.number]))?,
            Some(one) => self.kept_ranks(&prefix(Part::Owned, &[group.number, one.number]))?,
        };
        Ok(ranks.end - ranks.start)
    }

    /// The first and the last id that `group` has pending.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn pending_range(&mut self, group: &Group) -> Result<Option<(StreamId, StreamId)>> {
        let before = prefix(Part::Pending, &[group.number]);
        let ranks = self.kept_ranks(&before)?;
        if ranks.is_empty() {
            return Ok(None);
        }
        let mut id_at = |rank| {
            let (key, _) = self.kept().at(rank)?.ok_or_else(|| damaged("a count is wrong"))?;
            id_of(rest(&key, &before)?)
        };
        Ok(Some((id_at(ranks.start)?, id_at(ranks.end - 1)?)))
    }

    /// What `group` knows of the pending entry `id`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn pending(&mut self, group: &Group, id: StreamId) -> Result<Option<Pending>> {
        let value = self.kept().get(&key(Part::Pending, &[group.number], &id.to_bytes()))?;
        value.map(|value| Pending::decode(&value)).transpose()
    }

    /// Stores that `id` is pending, and takes it from the consumer that had it before.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn put_pending(&mut self, group: &Group, id: StreamId, pending: Pending) -> Result<()> {
        let (id, value) = (id.to_bytes(), pending.encode());
        let old = self.kept().put(&key(Part::Pending, &[group.number], &id), &value)?;
        let old = old.map(|old| Pending::decode(&old)).transpose()?;
        if let Some(old) = &old
            && old.consumer != pending.consumer
        {
            self.kept().remove(&key(Part::Owned, &[group.number, old.consumer], &id))?;
        }
        if old.is_none_or(|old| old.consumer != pending.consumer) {
            self.kept().put(&key(Part::Owned, &[group.number, pending.consumer], &id), b"")?;
        }
        Ok(())
    }

    /// Removes `id` from what is pending; false if it is not.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove_pending(&mut self, group: &Group, id: StreamId) -> Result<bool> {
        let id = id.to_bytes();
        let Some(old) = self.kept().remove(&key(Part::Pending, &[group.number], &id))? else {
            return Ok(false);
        };
        let old = Pending::decode(&old)?;
        self.kept().remove(&key(Part::Owned, &[group.number, old.consumer], &id))?;
        Ok(true)
    }

    /// Calls `each` with the pending entries of `group` from `from` on, until it returns false.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan_pending(
        &mut self,
        group: &Group,
        from: StreamId,
        each: &mut dyn FnMut(StreamId, Pending) -> bool,
    ) -> Result<()> {
        let before = prefix(Part::Pending, &[group.number]);
        let (rank, _) = self.kept().find(&key(Part::Pending, &[group.number], &from.to_bytes()))?;
        let mut failed = None;
        self.kept().scan(rank, Direction::Forward, &mut |key, value| {
            let Some(id) = key.strip_prefix(&before[..]) else { return false };
            match id_of(id).and_then(|id| Ok((id, Pending::decode(value)?))) {
                Ok((id, pending)) => each(id, pending),
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The first `max` ids from `from` on that `consumer` has pending.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn owned(
        &mut self,
        group: &Group,
        consumer: &Consumer,
        from: StreamId,
        max: usize,
    ) -> Result<Vec<StreamId>> {
        let numbers = [group.number, consumer.number];
        let before = prefix(Part::Owned, &numbers);
        let (rank, _) = self.kept().find(&key(Part::Owned, &numbers, &from.to_bytes()))?;
        let mut ids: Vec<Result<StreamId>> = Vec::new();
        if max > 0 {
            self.kept().scan(rank, Direction::Forward, &mut |key, _| {
                let id = key.strip_prefix(&before[..]);
                ids.extend(id.map(id_of));
                id.is_some() && ids.len() < max
            })?;
        }
        ids.into_iter().collect()
    }

    /// The name of the consumer of `group` that has `pending`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn owner(&mut self, group: &Group, pending: &Pending) -> Result<Vec<u8>> {
        self.consumer_name(group, pending.consumer)
    }
}
