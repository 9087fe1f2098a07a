//! XINFO.

use super::groups::no_group;
use super::{
    Change, Done, Failure, Objects, TypeCommand, integer, on_stream, write_entry, write_id,
    write_known,
};
use crate::burst::Args;
use crate::resp::{Cx, introspect, wrong_subcommand};
use silica_proto::Reply;
use silica_types::{Consumer, Direction, Fields, Group, Pending, Stream, StreamId};

pub(crate) static STREAM: TypeCommand = TypeCommand::read(stream_info).with_key_at(2);
pub(crate) static GROUPS: TypeCommand = TypeCommand::read(groups_info).with_key_at(2);
pub(crate) static CONSUMERS: TypeCommand = TypeCommand::read(consumers_info).with_key_at(2);

/// Entries and pending ones that FULL tells of, unless COUNT says how many.
const COUNT_USUAL: u64 = 10;
/// Entries of one of Redis's nodes, which is what its numbers of nodes are about.
const NODE_ENTRIES: u64 = 100;

pub(crate) fn info_help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "xinfo");
}

/// Runs `tell` on the stream that `args` name.
fn on(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    tell: impl FnOnce(&mut Stream<'_>) -> Done,
) -> Done {
    let told = on_stream(objects, args.get(2), |stream| Ok((tell(stream)?, Change::None)))?;
    told.ok_or_else(|| Failure::reply("ERR no such key"))
}

fn name(reply: &mut Reply<'_>, name: &str) {
    reply.bulk(name.as_bytes());
}

fn number(reply: &mut Reply<'_>, what: &str, number: u64) {
    name(reply, what);
    reply.integer(number as i64);
}

fn id(reply: &mut Reply<'_>, what: &str, id: StreamId) {
    name(reply, what);
    write_id(reply, id);
}

fn entries_read(reply: &mut Reply<'_>, group: &Group) {
    name(reply, "entries-read");
    write_known(reply, group.entries_read.map(|read| read as i64));
}

fn lag(reply: &mut Reply<'_>, stream: &mut Stream<'_>, group: &Group) -> Done {
    name(reply, "lag");
    write_known(reply, stream.lag(group)?);
    Ok(())
}

/// How many entries FULL is to tell of; `None` without it.
fn full(args: Args<'_>) -> Done<Option<u64>> {
    match args.len() {
        3 => Ok(None),
        4 if args.is(3, "full") => Ok(Some(COUNT_USUAL)),
        6 if args.is(3, "full") && args.is(4, "count") => match integer(args.get(5))? {
            0 => Ok(Some(u64::MAX)),
            count => Ok(Some(u64::try_from(count).unwrap_or(COUNT_USUAL))),
        },
        _ => Err(Failure::Reply(wrong_subcommand(args))),
    }
}

fn stream_info(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    on(objects, args, |stream| {
        let count = full(args)?;
        let (info, len) = (stream.info(), stream.len());
        reply.map(if count.is_some() { 9 } else { 10 });
        let nodes = len.div_ceil(NODE_ENTRIES);
        number(reply, "length", len);
        number(reply, "radix-tree-keys", nodes);
        number(reply, "radix-tree-nodes", nodes + 1);
        id(reply, "last-generated-id", info.last_id);
        id(reply, "max-deleted-entry-id", info.max_deleted_id);
        number(reply, "entries-added", info.entries_added);
        id(reply, "recorded-first-entry-id", stream.first_id()?.unwrap_or_default());
        match count {
            None => short(stream, reply),
            Some(count) => long(stream, count, reply),
        }
    })
}

/// The rest of XINFO STREAM.
fn short(stream: &mut Stream<'_>, reply: &mut Reply<'_>) -> Done {
    number(reply, "groups", stream.group_count()?);
    let last = stream.len().saturating_sub(1);
    for (what, rank) in [("first-entry", 0), ("last-entry", last)] {
        name(reply, what);
        if stream.is_empty() {
            reply.null();
        }
        let mut write = |id, fields: Fields<'_>| write_entry(reply, id, fields);
        stream.scan(rank, Direction::Forward, 1, &mut write)?;
    }
    Ok(())
}

/// The rest of XINFO STREAM FULL.
fn long(stream: &mut Stream<'_>, count: u64, reply: &mut Reply<'_>) -> Done {
    name(reply, "entries");
    let entries = stream.len().min(count);
    reply.array(entries as usize);
    let mut write = |id, fields: Fields<'_>| write_entry(reply, id, fields);
    stream.scan(0, Direction::Forward, entries, &mut write)?;
    name(reply, "groups");
    let groups = stream.groups()?;
    reply.array(groups.len());
    for (group_name, group) in groups {
        reply.map(7);
        name(reply, "name");
        reply.bulk(&group_name);
        id(reply, "last-delivered-id", group.last_id);
        entries_read(reply, &group);
        lag(reply, stream, &group)?;
        pending_of_group(stream, &group, count, reply)?;
        name(reply, "consumers");
        let consumers = stream.consumers(&group)?;
        reply.array(consumers.len());
        for (consumer_name, consumer) in consumers {
            reply.map(4);
            name(reply, "name");
            reply.bulk(&consumer_name);
            number(reply, "seen-time", consumer.seen_ms);
            pending_of_consumer(stream, &group, &consumer, count, reply)?;
        }
    }
    Ok(())
}

fn pending_of_group(
    stream: &mut Stream<'_>,
    group: &Group,
    count: u64,
    reply: &mut Reply<'_>,
) -> Done {
    number(reply, "pel-count", stream.pending_count(group, None)?);
    name(reply, "pending");
    let mut all: Vec<(StreamId, Pending)> = Vec::new();
    stream.scan_pending(group, StreamId::MIN, &mut |id, pending| {
        all.push((id, pending));
        (all.len() as u64) < count
    })?;
    reply.array(all.len());
    for (id, pending) in all {
        reply.array(4);
        write_id(reply, id);
        reply.bulk(&stream.owner(group, &pending)?);
        reply.integer(pending.delivered_ms as i64);
        reply.integer(pending.count as i64);
    }
    Ok(())
}

fn pending_of_consumer(
    stream: &mut Stream<'_>,
    group: &Group,
    consumer: &Consumer,
    count: u64,
    reply: &mut Reply<'_>,
) -> Done {
    number(reply, "pel-count", stream.pending_count(group, Some(consumer))?);
    name(reply, "pending");
    let max = usize::try_from(count).unwrap_or(usize::MAX);
    let ids = stream.owned(group, consumer, StreamId::MIN, max)?;
    reply.array(ids.len());
    for id in ids {
        let pending = stream.pending(group, id)?;
        reply.array(3);
        write_id(reply, id);
        reply.integer(pending.map_or(0, |pending| pending.delivered_ms as i64));
        reply.integer(pending.map_or(0, |pending| pending.count as i64));
    }
    Ok(())
}

fn groups_info(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    on(objects, args, |stream| {
        let groups = stream.groups()?;
        reply.array(groups.len());
        for (group_name, group) in groups {
            reply.map(6);
            name(reply, "name");
            reply.bulk(&group_name);
            number(reply, "consumers", stream.consumer_count(&group)?);
            number(reply, "pending", stream.pending_count(&group, None)?);
            id(reply, "last-delivered-id", group.last_id);
            entries_read(reply, &group);
            lag(reply, stream, &group)?;
        }
        Ok(())
    })
}

fn consumers_info(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let now_ms = objects.now_ms;
    on(objects, args, |stream| {
        let group = stream.group(args.get(3))?;
        let group = group.ok_or_else(|| no_group(args.get(2), args.get(3)))?;
        let consumers = stream.consumers(&group)?;
        reply.array(consumers.len());
        for (consumer_name, consumer) in consumers {
            reply.map(3);
            name(reply, "name");
            reply.bulk(&consumer_name);
            number(reply, "pending", stream.pending_count(&group, Some(&consumer))?);
            number(reply, "idle", now_ms.saturating_sub(consumer.seen_ms));
        }
        Ok(())
    })
}
