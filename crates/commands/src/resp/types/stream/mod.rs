//! Commands on streams.

mod change;
mod claim;
mod groups;
mod ids;
mod info;
mod pending;
mod range;
mod read;
mod told;

pub(crate) use change::{XADD, XDEL, XSETID, XTRIM};
pub(crate) use claim::{XAUTOCLAIM, XCLAIM};
pub(crate) use groups::{CREATE, CREATECONSUMER, DELCONSUMER, DESTROY, SETID, XACK, group_help};
pub(crate) use info::{CONSUMERS, GROUPS, STREAM, info_help};
pub(crate) use pending::XPENDING;
pub(crate) use range::{XLEN, XRANGE, XREVRANGE};
pub(crate) use read::{XREAD, XREADGROUP};

use super::{Done, Failure, Objects, Opened, TypeCommand};
use crate::resp::NOT_INTEGER;
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};
use silica_types::{Consumer, Fields, Group, Kind, Stream, StreamId};

/// What became of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    /// Groups or counters, which no WATCH is about, as in Redis.
    Aside,
    /// Entries.
    Some,
}

impl Change {
    fn if_any(count: u64) -> Self {
        if count > 0 { Change::Some } else { Change::None }
    }

    /// What became of it if it `has_changed` without its entries.
    fn aside(has_changed: bool) -> Self {
        if has_changed { Change::Aside } else { Change::None }
    }

    /// Gives a stream back of which this became.
    fn give_back(self, objects: &mut Objects<'_>, opened: Opened) -> Done {
        match self {
            Change::None => objects.close(opened),
            Change::Aside => objects.store_aside(opened)?,
            Change::Some => objects.store(opened)?,
        }
        Ok(())
    }
}

/// Runs `work` on the stream at `key`; `None` if there is nothing. Whatever `work` refuses, it
/// refuses before it changes anything.
fn on_stream<T>(
    objects: &mut Objects<'_>,
    key: &[u8],
    work: impl FnOnce(&mut Stream<'_>) -> Done<(T, Change)>,
) -> Done<Option<T>> {
    let Some(mut opened) = objects.open(key, Kind::Stream)? else { return Ok(None) };
    let worked = work(&mut Stream::of(&mut opened.object, objects.pages())?);
    match worked {
        Ok((told, change)) => {
            change.give_back(objects, opened)?;
            Ok(Some(told))
        }
        Err(failure) => {
            objects.close(opened);
            Err(failure)
        }
    }
}

/// Runs `work` on the stream at `key` and its group `name`.
///
/// # Errors
/// NOGROUP if one of them is not there.
fn on_group<T>(
    objects: &mut Objects<'_>,
    (key, name): (&[u8], &[u8]),
    work: impl FnOnce(&mut Stream<'_>, Group) -> Done<(T, Change)>,
) -> Done<T> {
    let missing = || {
        let [key, name] = [key, name].map(String::from_utf8_lossy);
        Failure::reply(format!("NOGROUP No such key '{key}' or consumer group '{name}'"))
    };
    let worked = on_stream(objects, key, |stream| {
        let group = stream.group(name)?.ok_or_else(missing)?;
        work(stream, group)
    })?;
    worked.ok_or_else(missing)
}

/// The consumer `name` of `group`, seen now; true if it was made.
fn seen_consumer(
    stream: &mut Stream<'_>,
    group: &Group,
    name: &[u8],
    now_ms: u64,
) -> Result<(Consumer, bool)> {
    if let Some(consumer) = stream.create_consumer(group, name, now_ms)? {
        return Ok((consumer, true));
    }
    let mut consumer = stream.consumer(group, name)?.expect("it is there, or it was made");
    consumer.seen_ms = now_ms;
    stream.put_consumer(group, name, &consumer)?;
    Ok((consumer, false))
}

fn write_id(reply: &mut Reply<'_>, id: StreamId) {
    reply.bulk(id.to_string().as_bytes());
}

fn write_entry(reply: &mut Reply<'_>, id: StreamId, fields: Fields<'_>) {
    reply.array(2);
    write_id(reply, id);
    reply.array(fields.len());
    fields.for_each(|field| reply.bulk(field));
}

/// Writes a number, or null if it is not known.
fn write_known(reply: &mut Reply<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn integer(text: &[u8]) -> Done<i64> {
    integer_or(text, NOT_INTEGER)
}

fn integer_or(text: &[u8], error: &str) -> Done<i64> {
    parse_i64(text).ok_or_else(|| Failure::reply(error))
}
