//! What must hold between the trees of a stream.

use super::groups::{Part, key};
use super::{Group, Stream, StreamId};
use crate::object::Object;
use crate::page::damaged;
use crate::pages::Pages;
use silica_base::Result;

/// Checks the invariants of a stream: its ids, and that tree 1 has each name and each pending entry
/// both ways, and nothing else.
///
/// # Errors
/// Tells the first thing that is wrong; those of the pages.
pub(crate) fn check(object: &Object, pages: &mut dyn Pages) -> Result<()> {
    let mut object = object.clone();
    let mut stream = Stream::of(&mut object, pages)?;
    let last_id = stream.info().last_id;
    if stream.final_id()?.is_some_and(|id| id > last_id) {
        return Err(damaged("an entry has an id above the last one"));
    }
    if stream.first_id()? == Some(StreamId::MIN) {
        return Err(damaged("an entry has the least id"));
    }
    let mut keys = 0;
    for (name, group) in stream.groups()? {
        let named = stream.kept().get(&key(Part::GroupName, &[group.number], b""))?;
        if named.as_ref() != Some(&name) {
            return Err(damaged("a group's number is not its own"));
        }
        keys += 2 + stream.check_group(&group)?;
    }
    match keys == stream.kept().len() {
        true => Ok(()),
        false => Err(damaged("a stream keeps what belongs to no group")),
    }
}

impl Stream<'_> {
    /// Checks one group; how many keys belong to its consumers and pending entries.
    fn check_group(&mut self, group: &Group) -> Result<u64> {
        let (mut keys, mut owned) = (0, 0);
        for (name, consumer) in self.consumers(group)? {
            if self.consumer_name(group, consumer.number)? != name {
                return Err(damaged("a consumer's number is not its own"));
            }
            owned += self.pending_count(group, Some(&consumer))?;
            keys += 2;
        }
        let mut pending = Vec::new();
        self.scan_pending(group, StreamId::MIN, &mut |id, one| {
            pending.push((id, one.consumer));
            true
        })?;
        for (id, consumer) in &pending {
            let by_consumer = key(Part::Owned, &[group.number, *consumer], &id.to_bytes());
            if !self.kept().contains(&by_consumer)? {
                return Err(damaged("a pending entry is missing at its consumer"));
            }
        }
        match owned == pending.len() as u64 {
            true => Ok(keys + 2 * owned),
            false => Err(damaged("consumers have more pending than their group")),
        }
    }
}
