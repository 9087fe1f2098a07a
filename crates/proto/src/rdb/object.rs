//! Values that are no strings: read in every form that Redis has written since 2.0, written in
//! forms that every Redis since 7.0 reads.

use super::packed::{intset, listpack, to_listpack, ziplist, zipmap};
use super::reader::{Fault, Reader};
use super::value::{push_len, push_string};

type Result<T> = std::result::Result<T, Fault>;

/// Entries of a stream that are written as one node.
const NODE_ENTRIES: usize = 100;
/// Flags of an entry: removed; with the fields of its node's first.
const REMOVED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// A value that is no string.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// A list.
    List(Vec<Vec<u8>>),
    /// The members of a set.
    Set(Vec<Vec<u8>>),
    /// The fields of a hash, their values, and when each expires, in Unix milliseconds; 0 for
    /// never.
    Hash(Vec<(Vec<u8>, Vec<u8>, u64)>),
    /// The members of a sorted set and their scores.
    Zset(Vec<(Vec<u8>, f64)>),
    /// A stream.
    Stream(Stream),
}

/// The number of an entry of a stream: milliseconds, and its place among those of the same.
pub type StreamId = (u64, u64);

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stream {
    /// Entries by their ids, with fields and values one behind the other.
    pub entries: Vec<(StreamId, Vec<Vec<u8>>)>,
    /// The last id that was given.
    pub last: StreamId,
    /// The largest id of an entry that was removed.
    pub removed_max: StreamId,
    /// Entries that were ever added.
    pub added: u64,
    /// Groups of readers.
    pub groups: Vec<StreamGroup>,
}

/// A group of readers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamGroup {
    /// Its name.
    pub name: Vec<u8>,
    /// The last id that was delivered.
    pub last: StreamId,
    /// Entries that were read; `None` if that is not known.
    pub read: Option<u64>,
    /// Entries that were delivered and not acknowledged: id, when in Unix milliseconds, how often.
    pub pending: Vec<(StreamId, u64, u64)>,
    /// Its readers.
    pub consumers: Vec<StreamConsumer>,
}

/// A reader of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamConsumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it asked last, in Unix milliseconds.
    pub seen_ms: u64,
    /// When it got something last, in Unix milliseconds.
    pub active_ms: u64,
    /// What was delivered to it and not acknowledged.
    pub pending: Vec<StreamId>,
}

/// Reads a value of type `kind`, whose strings have at most `len_max` bytes; `None` of a type that
/// is not known or not for values (modules).
pub(super) fn read(kind: u8, reader: &mut Reader<'_>, len_max: usize) -> Result<Option<Object>> {
    let pairs = |items: Vec<Vec<u8>>| -> Result<Object> {
        let fields = in_pairs(items)?.into_iter().map(|(field, value)| (field, value, 0));
        Ok(Object::Hash(fields.collect()))
    };
    Ok(Some(match kind {
        1 => Object::List(strings(reader, 1, len_max)?),
        2 => Object::Set(strings(reader, 1, len_max)?),
        3 | 5 => Object::Zset(scores(reader, kind, len_max)?),
        4 => pairs(strings(reader, 2, len_max)?)?,
        9 => pairs(whole(zipmap(&reader.string(len_max)?))?)?,
        10 => Object::List(whole(ziplist(&reader.string(len_max)?))?),
        11 => Object::Set(whole(intset(&reader.string(len_max)?))?),
        12 => scored(whole(ziplist(&reader.string(len_max)?))?)?,
        13 => pairs(whole(ziplist(&reader.string(len_max)?))?)?,
        14 => {
            let nodes = strings(reader, 1, len_max)?;
            let values = whole(nodes.iter().map(|node| ziplist(node)).collect::<Result<Vec<_>>>())?;
            Object::List(values.concat())
        }
        16 => pairs(whole(listpack(&reader.string(len_max)?))?)?,
        17 => scored(whole(listpack(&reader.string(len_max)?))?)?,
        18 => Object::List(nodes(reader, len_max)?),
        20 => Object::Set(whole(listpack(&reader.string(len_max)?))?),
        15 | 19 | 21 => Object::Stream(stream(reader, kind, len_max)?),
        24 => timed_fields(reader, len_max)?,
        25 => {
            reader.take(8)?;
            timed(whole(listpack(&reader.string(len_max)?))?)?
        }
        _ => return Ok(None),
    }))
}

/// What was read of bytes that are all there: that they end early is damage.
fn whole<T>(read: Result<T>) -> Result<T> {
    read.map_err(|_| Fault::Data)
}

/// A count, and so many times `each` strings.
fn strings(reader: &mut Reader<'_>, each: u64, len_max: usize) -> Result<Vec<Vec<u8>>> {
    let count = reader.len()?.checked_mul(each).ok_or(Fault::Data)?;
    (0..count).map(|_| Ok(reader.string(len_max)?.into_owned())).collect()
}

fn in_pairs(items: Vec<Vec<u8>>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut items = items.into_iter();
    let mut pairs = Vec::with_capacity(items.len() / 2);
    while let Some(first) = items.next() {
        pairs.push((first, items.next().ok_or(Fault::Data)?));
    }
    Ok(pairs)
}

fn text_score(text: &[u8]) -> Result<f64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    number.filter(|score| !score.is_nan()).ok_or(Fault::Data)
}

fn scored(items: Vec<Vec<u8>>) -> Result<Object> {
    let pairs = in_pairs(items)?.into_iter();
    let members = pairs.map(|(member, score)| Ok((member, text_score(&score)?)));
    Ok(Object::Zset(members.collect::<Result<_>>()?))
}

fn scores(reader: &mut Reader<'_>, kind: u8, len_max: usize) -> Result<Vec<(Vec<u8>, f64)>> {
    let count = reader.len()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let member = reader.string(len_max)?.into_owned();
        let score = match kind {
            5 => f64::from_bits(u64::from_le_bytes(reader.chunk()?)),
            _ => match reader.byte()? {
                253 => return Err(Fault::Data),
                254 => f64::INFINITY,
                255 => f64::NEG_INFINITY,
                len => text_score(reader.take(len.into())?)?,
            },
        };
        if score.is_nan() {
            return Err(Fault::Data);
        }
        all.push((member, score));
    }
    Ok(all)
}

/// The nodes of a list: one value each, or a listpack of them.
fn nodes(reader: &mut Reader<'_>, len_max: usize) -> Result<Vec<Vec<u8>>> {
    let (count, mut all) = (reader.len()?, Vec::new());
    for _ in 0..count {
        let kind = reader.len()?;
        let bytes = reader.string(len_max)?;
        match kind {
            1 => all.push(bytes.into_owned()),
            2 => all.append(&mut whole(listpack(&bytes))?),
            _ => return Err(Fault::Data),
        }
    }
    Ok(all)
}

/// Fields whose times count from the first of them.
fn timed_fields(reader: &mut Reader<'_>, len_max: usize) -> Result<Object> {
    let first = u64::from_le_bytes(reader.chunk()?);
    let (count, mut all) = (reader.len()?, Vec::new());
    for _ in 0..count {
        let time = reader.len()?;
        let field = reader.string(len_max)?.into_owned();
        let value = reader.string(len_max)?.into_owned();
        let expires = if time == 0 { 0 } else { first.saturating_add(time - 1) };
        all.push((field, value, expires));
    }
    Ok(Object::Hash(all))
}

/// Fields, values and times one behind the other.
fn timed(items: Vec<Vec<u8>>) -> Result<Object> {
    let mut items = items.into_iter();
    let mut all = Vec::new();
    while let Some(field) = items.next() {
        let (value, time) = (items.next().ok_or(Fault::Data)?, items.next().ok_or(Fault::Data)?);
        let time = crate::parse_i64(&time).and_then(|ms| u64::try_from(ms).ok());
        all.push((field, value, time.ok_or(Fault::Data)?));
    }
    Ok(Object::Hash(all))
}

fn raw_id(bytes: &[u8]) -> Result<StreamId> {
    let (ms, rest) = bytes.split_first_chunk::<8>().ok_or(Fault::Data)?;
    let number: [u8; 8] = rest.try_into().map_err(|_| Fault::Data)?;
    Ok((u64::from_be_bytes(*ms), u64::from_be_bytes(number)))
}

fn id(reader: &mut Reader<'_>) -> Result<StreamId> {
    Ok((reader.len()?, reader.len()?))
}

fn stream(reader: &mut Reader<'_>, kind: u8, len_max: usize) -> Result<Stream> {
    let mut stream = Stream::default();
    for _ in 0..reader.len()? {
        let first = raw_id(&reader.string(len_max)?)?;
        node(first, &reader.string(len_max)?, &mut stream.entries)?;
    }
    let len = reader.len()?;
    stream.last = id(reader)?;
    stream.added = len;
    if kind >= 19 {
        id(reader)?;
        stream.removed_max = id(reader)?;
        stream.added = reader.len()?;
    }
    for _ in 0..reader.len()? {
        let mut group =
            StreamGroup { name: reader.string(len_max)?.into_owned(), ..Default::default() };
        group.last = id(reader)?;
        if kind >= 19 {
            // All bits stand for a number that is not known.
            group.read = Some(reader.len()?).filter(|read| *read != u64::MAX);
        }
        for _ in 0..reader.len()? {
            let id = raw_id(reader.take(16)?)?;
            let time = u64::from_le_bytes(reader.chunk()?);
            group.pending.push((id, time, reader.len()?));
        }
        for _ in 0..reader.len()? {
            let name = reader.string(len_max)?.into_owned();
            let seen_ms = u64::from_le_bytes(reader.chunk()?);
            let active_ms = if kind >= 21 { u64::from_le_bytes(reader.chunk()?) } else { seen_ms };
            let count = reader.len()?;
            let pending = (0..count).map(|_| raw_id(reader.take(16)?)).collect::<Result<_>>()?;
            group.consumers.push(StreamConsumer { name, seen_ms, active_ms, pending });
        }
        stream.groups.push(group);
    }
    match stream.entries.len() as u64 == len {
        true => Ok(stream),
        false => Err(Fault::Data),
    }
}

/// The entries of a node, whose ids count from `first`.
///
/// ```text
/// entries, removed ones, fields, the fields' names, 0,
/// (flags, ms and number from the first id, [fields, names and] values, how many that is)…
/// ```
fn node(first: StreamId, bytes: &[u8], entries: &mut Vec<(StreamId, Vec<Vec<u8>>)>) -> Result<()> {
    let mut items = whole(listpack(bytes))?.into_iter();
    let mut next = || items.next().ok_or(Fault::Data);
    let number = |item: Vec<u8>| crate::parse_i64(&item).ok_or(Fault::Data);
    let (live, removed) = (number(next()?)?, number(next()?)?);
    let fields = number(next()?)?;
    let names = (0..fields).map(|_| next()).collect::<Result<Vec<_>>>()?;
    next()?;
    for _ in 0..live.checked_add(removed).ok_or(Fault::Data)? {
        let flags = number(next()?)?;
        let (ms, seq) = (number(next()?)?, number(next()?)?);
        let id = (first.0.wrapping_add(ms as u64), first.1.wrapping_add(seq as u64));
        let mut pairs = Vec::new();
        if flags & SAME_FIELDS != 0 {
            for name in &names {
                pairs.push(name.clone());
                pairs.push(next()?);
            }
        } else {
            for _ in 0..number(next()?)?.checked_mul(2).ok_or(Fault::Data)? {
                pairs.push(next()?);
            }
        }
        next()?;
        if flags & REMOVED == 0 {
            entries.push((id, pairs));
        }
    }
    Ok(())
}

/// Appends the type and the bytes of `object`.
pub(super) fn write(object: &Object, out: &mut Vec<u8>) {
    out.push(type_of(object));
    write_value(object, out);
}

/// The type under which an object is written.
pub(super) fn type_of(object: &Object) -> u8 {
    match object {
        Object::List(_) => 1,
        Object::Set(_) => 2,
        Object::Hash(fields) if fields.iter().any(|(_, _, expires)| *expires != 0) => 24,
        Object::Hash(_) => 4,
        Object::Zset(_) => 5,
        Object::Stream(_) => 19,
    }
}

/// Appends the bytes of `object`, without its type.
pub(super) fn write_value(object: &Object, out: &mut Vec<u8>) {
    match object {
        Object::List(values) | Object::Set(values) => {
            push_len(out, values.len() as u64);
            values.iter().for_each(|value| push_string(out, value));
        }
        Object::Hash(fields) if type_of(object) == 24 => {
            let times = fields.iter().map(|(_, _, expires)| *expires);
            let first = times.filter(|expires| *expires != 0).min().unwrap_or(0);
            out.extend_from_slice(&first.to_le_bytes());
            push_len(out, fields.len() as u64);
            for (field, value, expires) in fields {
                push_len(out, if *expires == 0 { 0 } else { expires - first + 1 });
                push_string(out, field);
                push_string(out, value);
            }
        }
        Object::Hash(fields) => {
            push_len(out, fields.len() as u64);
            for (field, value, _) in fields {
                push_string(out, field);
                push_string(out, value);
            }
        }
        Object::Zset(members) => {
            push_len(out, members.len() as u64);
            for (member, score) in members {
                push_string(out, member);
                out.extend_from_slice(&score.to_bits().to_le_bytes());
            }
        }
        Object::Stream(stream) => write_stream(stream, out),
    }
}

fn push_id(out: &mut Vec<u8>, id: StreamId) {
    push_len(out, id.0);
    push_len(out, id.1);
}

fn raw(id: StreamId) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.0.to_be_bytes());
    bytes[8..].copy_from_slice(&id.1.to_be_bytes());
    bytes
}

fn write_stream(stream: &Stream, out: &mut Vec<u8>) {
    push_len(out, stream.entries.len().div_ceil(NODE_ENTRIES) as u64);
    for entries in stream.entries.chunks(NODE_ENTRIES) {
        let node = to_node(entries);
        push_len(out, 16);
        out.extend_from_slice(&raw(entries[0].0));
        push_len(out, node.len() as u64);
        out.extend_from_slice(&node);
    }
    push_len(out, stream.entries.len() as u64);
    push_id(out, stream.last);
    push_id(out, stream.entries.first().map_or((0, 0), |(id, _)| *id));
    push_id(out, stream.removed_max);
    push_len(out, stream.added);
    push_len(out, stream.groups.len() as u64);
    for group in &stream.groups {
        push_string(out, &group.name);
        push_id(out, group.last);
        push_len(out, group.read.unwrap_or(u64::MAX));
        push_len(out, group.pending.len() as u64);
        for (id, time, count) in &group.pending {
            out.extend_from_slice(&raw(*id));
            out.extend_from_slice(&time.to_le_bytes());
            push_len(out, *count);
        }
        push_len(out, group.consumers.len() as u64);
        for consumer in &group.consumers {
            push_string(out, &consumer.name);
            out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
            push_len(out, consumer.pending.len() as u64);
            consumer.pending.iter().for_each(|id| out.extend_from_slice(&raw(*id)));
        }
    }
}

/// Entries as a node.
fn to_node(entries: &[(StreamId, Vec<Vec<u8>>)]) -> Vec<u8> {
    let (first, pairs) = &entries[0];
    let number = |n: u64| (n as i64).to_string().into_bytes();
    let names: Vec<&Vec<u8>> = pairs.iter().step_by(2).collect();
    let mut items = vec![number(entries.len() as u64), number(0), number(names.len() as u64)];
    items.extend(names.iter().map(|name| (*name).clone()));
    items.push(number(0));
    for (id, pairs) in entries {
        let same = pairs.len() == 2 * names.len()
            && pairs.iter().step_by(2).zip(&names).all(|(field, name)| field == *name);
        let before = items.len();
        items.push(number(if same { SAME_FIELDS as u64 } else { 0 }));
        items.push(number(id.0.wrapping_sub(first.0)));
        items.push(number(id.1.wrapping_sub(first.1)));
        if same {
            items.extend(pairs.iter().skip(1).step_by(2).cloned());
        } else {
            items.push(number(pairs.len() as u64 / 2));
            items.extend(pairs.iter().cloned());
        }
        let count = items.len() - before;
        items.push(number(count as u64));
    }
    to_listpack(items.iter().map(|item| &item[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn objects() -> Vec<Object> {
        let pairs = |n: u64| match n % 3 {
            0 => vec![text("a"), text(&n.to_string())],
            1 => vec![text("a"), text("1"), text("b"), text("2")],
            _ => vec![text("c"), vec![b'x'; 500]],
        };
        let entries = (0..250).map(|n| ((7, n * n), pairs(n))).collect();
        let pending = vec![((7, 1), 99, 2), ((7, 4), 100, 1)];
        let consumer = StreamConsumer {
            name: text("reader"),
            seen_ms: 5,
            active_ms: 5,
            pending: vec![(7, 1), (7, 4)],
        };
        let group = StreamGroup {
            name: text("group"),
            last: (7, 9),
            read: Some(4),
            pending,
            consumers: vec![consumer],
        };
        let stream = Stream {
            entries,
            last: (8, 0),
            removed_max: (1, 1),
            added: 251,
            groups: vec![group, StreamGroup { name: text("other"), ..Default::default() }],
        };
        let members = vec![(text("a"), 1.5), (text("b"), f64::INFINITY), (text("12"), -3.0)];
        vec![
            Object::List(vec![text("x"), text(""), text("12"), vec![b'l'; 70_000]]),
            Object::Set(vec![text("x"), text("-7")]),
            Object::Hash(vec![(text("f"), text("v"), 0), (text("g"), text("5"), 0)]),
            Object::Hash(vec![(text("f"), text("v"), 1000), (text("g"), text("5"), 0)]),
            Object::Zset(members),
            Object::Stream(stream),
        ]
    }

    #[test]
    fn objects_come_back() {
        for object in objects() {
            let mut bytes = Vec::new();
            write(&object, &mut bytes);
            let mut reader = Reader(&bytes[1..]);
            assert_eq!(read(bytes[0], &mut reader, 1 << 20).unwrap(), Some(object));
            assert!(reader.0.is_empty());
            for len in 1..bytes.len().min(3000) {
                let cut = read(bytes[0], &mut Reader(&bytes[1..len]), 1 << 20);
                assert!(cut.is_err(), "{len} of {} bytes", bytes.len());
            }
        }
    }
}
