//! Objects as Redis exchanges them: from and to the values of RDB.

use crate::hash::{Hash, split};
use crate::indexed::Page;
use crate::list::List;
use crate::object::{Kind, Object};
use crate::pages::{PageId, Pages};
use crate::set::Set;
use crate::stream::{Fields, Pending, Stream, StreamId, StreamInfo};
use crate::tree::Direction;
use crate::zset::Zset;
use silica_base::{Error, ErrorKind, Result};
use silica_proto::rdb;
use std::collections::BTreeMap;
use std::sync::Arc;

fn id(id: rdb::StreamId) -> StreamId {
    StreamId { ms: id.0, seq: id.1 }
}

fn rdb_id(id: StreamId) -> rdb::StreamId {
    (id.ms, id.seq)
}

/// `object`, whole, as a value of RDB; fields that have expired at `now_ms` are left out.
///
/// # Errors
/// Those of the pages.
pub fn to_rdb(object: &mut Object, pages: &mut dyn Pages, now_ms: u64) -> Result<rdb::Object> {
    let mut values = Vec::new();
    Ok(match object.kind() {
        Kind::List => {
            List::of(object, pages).scan(0, Direction::Forward, &mut |value| {
                values.push(value.to_vec());
                true
            })?;
            rdb::Object::List(values)
        }
        Kind::Set => {
            Set::of(object, pages).scan(&mut |member| {
                values.push(member.to_vec());
                true
            })?;
            rdb::Object::Set(values)
        }
        Kind::Hash => {
            let (mut fields, mut wrong) = (Vec::new(), None);
            object.tree(0, pages).scan(0, Direction::Forward, &mut |field, stored| {
                match split(stored) {
                    Ok((expires, _)) if expires != 0 && expires <= now_ms => {}
                    Ok((expires, value)) => fields.push((field.to_vec(), value.to_vec(), expires)),
                    Err(error) => wrong = Some(error),
                }
                wrong.is_none()
            })?;
            wrong.map_or(Ok(()), Err)?;
            rdb::Object::Hash(fields)
        }
        Kind::Zset => {
            let mut zset = Zset::of(object, pages);
            let len = usize::try_from(zset.len()).unwrap_or(usize::MAX);
            rdb::Object::Zset(zset.some(0, len)?)
        }
        Kind::Stream => rdb::Object::Stream(stream_to_rdb(&mut Stream::of(object, pages)?)?),
    })
}

fn stream_to_rdb(stream: &mut Stream<'_>) -> Result<rdb::Stream> {
    let StreamInfo { last_id, max_deleted_id, entries_added } = stream.info();
    let (last, removed_max) = (rdb_id(last_id), rdb_id(max_deleted_id));
    let mut all = rdb::Stream { last, removed_max, added: entries_added, ..Default::default() };
    let len = stream.len();
    stream.scan(0, Direction::Forward, len, &mut |id, fields: Fields<'_>| {
        all.entries.push((rdb_id(id), fields.map(<[u8]>::to_vec).collect()));
    })?;
    for (name, group) in stream.groups()? {
        let mut pending = Vec::new();
        stream.scan_pending(&group, StreamId { ms: 0, seq: 0 }, &mut |id, entry| {
            pending.push((rdb_id(id), entry.delivered_ms, entry.count));
            true
        })?;
        let mut consumers = Vec::new();
        for (name, consumer) in stream.consumers(&group)? {
            let first = StreamId { ms: 0, seq: 0 };
            let owned = stream.owned(&group, &consumer, first, usize::MAX)?;
            consumers.push(rdb::StreamConsumer {
                name,
                seen_ms: consumer.seen_ms,
                active_ms: consumer.active_ms,
                pending: owned.into_iter().map(rdb_id).collect(),
            });
        }
        let (last, read) = (rdb_id(group.last_id), group.entries_read);
        all.groups.push(rdb::StreamGroup { name, last, read, pending, consumers });
    }
    Ok(all)
}

/// A value of RDB as an object, whose pages go to `pages`.
///
/// # Errors
/// Fails if it says something that cannot be, or has no elements; those of the pages.
pub fn of_rdb(value: rdb::Object, pages: &mut dyn Pages) -> Result<Object> {
    let kind = match &value {
        rdb::Object::List(_) => Kind::List,
        rdb::Object::Set(_) => Kind::Set,
        rdb::Object::Hash(_) => Kind::Hash,
        rdb::Object::Zset(_) => Kind::Zset,
        rdb::Object::Stream(_) => Kind::Stream,
    };
    let mut object = Object::new(kind);
    match value {
        rdb::Object::List(values) => {
            let mut list = List::of(&mut object, pages);
            values.iter().try_for_each(|value| list.push(false, value))?;
        }
        rdb::Object::Set(members) => {
            let mut set = Set::of(&mut object, pages);
            members.iter().try_for_each(|member| once(set.add(member)?))?;
        }
        rdb::Object::Hash(fields) => {
            let mut hash = Hash::of(&mut object, pages);
            for (field, value, expires) in &fields {
                once(hash.put_expiring(field, value, *expires)?.is_none())?;
            }
        }
        rdb::Object::Zset(members) => {
            let mut zset = Zset::of(&mut object, pages);
            for (member, score) in &members {
                once(zset.put(member, *score)?.is_none())?;
            }
        }
        rdb::Object::Stream(value) => stream_of_rdb(&value, &mut Stream::of(&mut object, pages)?)?,
    }
    match object.is_empty() && kind != Kind::Stream {
        true => Err(wrong("it has no elements")),
        false => Ok(object),
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("a value of RDB cannot be an object: {what}"))
}

/// Fails unless an element `is_new`.
fn once(is_new: bool) -> Result<()> {
    if is_new { Ok(()) } else { Err(wrong("an element comes twice")) }
}

fn stream_of_rdb(value: &rdb::Stream, stream: &mut Stream<'_>) -> Result<()> {
    let mut before = None;
    for (entry, fields) in &value.entries {
        if before.is_some_and(|before| before >= *entry) || *entry > value.last {
            return Err(wrong("the ids of a stream do not ascend"));
        }
        before = Some(*entry);
        stream.add(id(*entry), fields.iter().map(|field| &field[..]))?;
    }
    let (last_id, max_deleted_id) = (id(value.last), id(value.removed_max));
    stream.set_info(StreamInfo { last_id, max_deleted_id, entries_added: value.added });
    for group in &value.groups {
        if stream.group(&group.name)?.is_some() {
            return Err(wrong("a group comes twice"));
        }
        stream.create_group(&group.name, id(group.last), group.read)?;
        let made = stream.group(&group.name)?.ok_or_else(|| wrong("a group is not there"))?;
        let times = group.pending.iter().map(|(id, time, count)| (*id, (*time, *count)));
        let times = silica_base::compact_map(times);
        for reader in &group.consumers {
            let consumer = stream.create_consumer(&made, &reader.name, reader.seen_ms)?;
            let mut consumer = consumer.ok_or_else(|| wrong("a consumer comes twice"))?;
            consumer.active_ms = reader.active_ms;
            stream.put_consumer(&made, &reader.name, &consumer)?;
            for owned in &reader.pending {
                let known = times.get(owned);
                let (time, count) = *known.ok_or_else(|| wrong("a pending entry is not known"))?;
                stream.put_pending(&made, id(*owned), Pending::of(&consumer, time, count))?;
            }
        }
    }
    Ok(())
}

/// An entry of a store: its key, its value and its user bits.
pub type StoredEntry = (Vec<u8>, Vec<u8>, u32);

/// A value of RDB as the entries of a store: that of `key`, and those of its pages, whose id is
/// `id`. Each has its key, its value and its user bits.
///
/// # Errors
/// Those of [`of_rdb`].
pub fn entries_of_rdb(value: rdb::Object, key: &[u8], id: u64) -> Result<Vec<StoredEntry>> {
    let mut pages = Named { id, pages: BTreeMap::new() };
    let object = of_rdb(value, &mut pages)?;
    let mut all = vec![(key.to_vec(), object.encode(), object.user_bits())];
    if object.id().is_some() {
        pages.put(PageId { object: id, number: 0 }, Arc::new(key.to_vec().into()));
    }
    let page = |(page, bytes): (PageId, Arc<Page>)| {
        (page.key().to_vec(), Arc::unwrap_or_clone(bytes).into(), 0)
    };
    all.extend(pages.pages.into_iter().map(page));
    Ok(all)
}

/// Pages in memory of one object, whose id is known.
struct Named {
    id: u64,
    pages: BTreeMap<PageId, Arc<Page>>,
}

impl Pages for Named {
    fn get(&mut self, page: PageId) -> Result<Arc<Page>> {
        self.pages.get(&page).cloned().ok_or_else(|| wrong("a page is missing"))
    }

    fn take(&mut self, page: PageId) -> Result<Arc<Page>> {
        self.pages.remove(&page).ok_or_else(|| wrong("a page is missing"))
    }

    fn put(&mut self, page: PageId, bytes: Arc<Page>) {
        self.pages.insert(page, bytes);
    }

    fn remove(&mut self, page: PageId) {
        self.pages.remove(&page);
    }

    fn new_id(&mut self) -> Result<u64> {
        Ok(self.id)
    }
}
