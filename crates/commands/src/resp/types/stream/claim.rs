//! XCLAIM and XAUTOCLAIM.

use super::told::Told;
use super::{
    Change, Done, Failure, Objects, TypeCommand, ids, integer_or, on_group, seen_consumer,
    write_entry, write_id,
};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::events::Classes;
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};
use silica_types::{Consumer, Fields, Group, Pending, Stream, StreamId};

pub(crate) static XCLAIM: TypeCommand = TypeCommand::write(xclaim);
pub(crate) static XAUTOCLAIM: TypeCommand = TypeCommand::write(xautoclaim);

/// Pending entries that XAUTOCLAIM looks at for each that it may claim.
const LOOKS: u64 = 10;
/// The largest COUNT that XAUTOCLAIM takes, as in Redis.
const COUNT_MAX: i64 = i64::MAX / 16;

/// Options of XCLAIM.
struct Options {
    delivered_ms: u64,
    retry_count: Option<u64>,
    is_forced: bool,
    only_ids: bool,
    last_id: StreamId,
}

impl Told {
    /// Nothing yet, of a command whose arguments begin with key, group and consumer.
    fn new(args: Args<'_>) -> Self {
        Told::of([args.get(1), args.get(2), args.get(3)])
    }
}

impl Options {
    /// Reads the arguments from `at` on.
    fn read(args: Args<'_>, mut at: usize, now_ms: u64) -> Done<Options> {
        let (mut delivered, mut retries) = (-1, -1);
        let mut options = Options {
            delivered_ms: now_ms,
            retry_count: None,
            is_forced: false,
            only_ids: false,
            last_id: StreamId::MIN,
        };
        let number = |at: usize, what: &str| {
            integer_or(args.get(at), &format!("ERR Invalid {what} option argument for XCLAIM"))
        };
        while at < args.len() {
            let has_more = at + 1 < args.len();
            if args.is(at, "force") {
                options.is_forced = true;
            } else if args.is(at, "justid") {
                options.only_ids = true;
            } else if has_more && args.is(at, "idle") {
                at += 1;
                delivered = (now_ms as i64).wrapping_sub(number(at, "IDLE")?);
            } else if has_more && args.is(at, "time") {
                at += 1;
                delivered = number(at, "TIME")?;
            } else if has_more && args.is(at, "retrycount") {
                at += 1;
                retries = number(at, "RETRYCOUNT")?;
            } else if has_more && args.is(at, "lastid") {
                at += 1;
                options.last_id = ids::strict(args.get(at))?;
            } else {
                let option = String::from_utf8_lossy(args.get(at));
                return Err(Failure::reply(format!("ERR Unrecognized XCLAIM option '{option}'")));
            }
            at += 1;
        }
        // A time that cannot be is taken as now.
        let delivered = u64::try_from(delivered).ok().filter(|ms| *ms <= now_ms);
        options.delivered_ms = delivered.unwrap_or(now_ms);
        options.retry_count = u64::try_from(retries).ok();
        Ok(options)
    }
}

fn xclaim(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let now_ms = objects.now_ms;
    let mut told = Told::new(args);
    let is_new = on_group(objects, (args.get(1), args.get(2)), |stream, mut group| {
        let idle_min = idle_min(args, "XCLAIM")?;
        let wanted = args.from(5).map_while(|text| ids::strict(text).ok());
        let wanted: Vec<StreamId> = wanted.collect();
        let options = Options::read(args, 5 + wanted.len(), now_ms)?;
        let mut is_changed = options.last_id > group.last_id;
        if is_changed {
            group.last_id = options.last_id;
            stream.put_group(args.get(2), &group)?;
            told.position(&group);
        }
        let mut claimant = Claimant::new(args.get(3), now_ms);
        let mut claimed = Vec::new();
        for id in wanted {
            let old = stream.pending(&group, id)?;
            if !stream.contains(id)? {
                // Nobody can be given what is deleted.
                is_changed |= stream.remove_pending(&group, id)?;
                told.removed(id);
                continue;
            }
            let (count, is_idle) = match old {
                Some(old) => (old.count, now_ms.saturating_sub(old.delivered_ms) >= idle_min),
                None => (1, options.is_forced),
            };
            if !is_idle {
                continue;
            }
            let more = u64::from(!options.only_ids);
            let count = options.retry_count.unwrap_or(count.saturating_add(more));
            let consumer = claimant.consumer(stream, &group)?;
            let pending = Pending::of(consumer, options.delivered_ms, count);
            stream.put_pending(&group, id, pending)?;
            told.claimed((id, group.last_id), options.delivered_ms, count);
            claimed.push(id);
        }
        write_claimed(stream, &claimed, options.only_ids, reply)?;
        is_changed |= !claimed.is_empty();
        Ok((claimant.is_new, Change::aside(is_changed)))
    })?;
    told.tell(objects, is_new);
    note_new(objects, args, is_new);
    Ok(())
}

/// The least idle time of what is claimed, in milliseconds.
fn idle_min(args: Args<'_>, name: &str) -> Done<u64> {
    let idle = args.get(4);
    let idle = integer_or(idle, &format!("ERR Invalid min-idle-time argument for {name}"))?;
    Ok(u64::try_from(idle).unwrap_or(0))
}

fn note_new(objects: &mut Objects<'_>, args: Args<'_>, is_new: bool) {
    if is_new {
        objects.event(Classes::STREAM, "xgroup-createconsumer", args.get(1));
    }
}

/// The consumer that claims entries: made, or seen, with the first of them.
struct Claimant<'n> {
    name: &'n [u8],
    now_ms: u64,
    consumer: Option<Consumer>,
    /// It was made.
    is_new: bool,
}

impl<'n> Claimant<'n> {
    fn new(name: &'n [u8], now_ms: u64) -> Self {
        Claimant { name, now_ms, consumer: None, is_new: false }
    }

    fn consumer(&mut self, stream: &mut Stream<'_>, group: &Group) -> Result<&Consumer> {
        if self.consumer.is_none() {
            let (mut consumer, is_new) = seen_consumer(stream, group, self.name, self.now_ms)?;
            consumer.active_ms = self.now_ms;
            stream.put_consumer(group, self.name, &consumer)?;
            (self.consumer, self.is_new) = (Some(consumer), is_new);
        }
        Ok(self.consumer.as_ref().expect("it was seen"))
    }
}

fn write_claimed(
    stream: &mut Stream<'_>,
    claimed: &[StreamId],
    only_ids: bool,
    reply: &mut Reply<'_>,
) -> Result<()> {
    reply.array(claimed.len());
    for id in claimed {
        if only_ids {
            write_id(reply, *id);
        } else {
            let mut write = |fields: Fields<'_>| write_entry(reply, *id, fields);
            stream.with_entry(*id, &mut write)?;
        }
    }
    Ok(())
}

/// What XAUTOCLAIM has found.
#[derive(Default)]
struct Found {
    /// Entries to claim, and how often they were delivered.
    claimed: Vec<(StreamId, u64)>,
    /// Pending ones that are deleted.
    deleted: Vec<StreamId>,
    /// Where the next call goes on.
    next: StreamId,
}

impl Found {
    fn search(
        stream: &mut Stream<'_>,
        group: &Group,
        start: StreamId,
        (count, old_enough): (u64, &dyn Fn(&Pending) -> bool),
    ) -> Result<Found> {
        let mut found = Found::default();
        let (mut looks, mut left) = (count.saturating_mul(LOOKS), count);
        let mut from = Some(start);
        while let Some(first) = from {
            // As many as may be needed at least, since the tree cannot be asked meanwhile.
            let max = left.min(looks).clamp(1, 1000) as usize;
            let mut some = Vec::new();
            stream.scan_pending(group, first, &mut |id, pending| {
                some.push((id, pending));
                some.len() < max
            })?;
            from = some.last().filter(|_| some.len() == max).and_then(|(id, _)| id.next());
            for (id, pending) in some {
                if looks == 0 || left == 0 {
                    found.next = id;
                    return Ok(found);
                }
                looks -= 1;
                if !stream.contains(id)? {
                    found.deleted.push(id);
                    left -= 1;
                } else if old_enough(&pending) {
                    found.claimed.push((id, pending.count));
                    left -= 1;
                }
            }
        }
        Ok(found)
    }
}

fn xautoclaim(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let now_ms = objects.now_ms;
    let idle_min = idle_min(args, "XAUTOCLAIM")?;
    let start = ids::start(args.get(5))?;
    let (mut count, mut only_ids) = (100, false);
    let mut at = 6;
    while at < args.len() {
        if args.is(at, "count") && at + 1 < args.len() {
            at += 1;
            count = parse_i64(args.get(at))
                .filter(|count| (1..=COUNT_MAX).contains(count))
                .ok_or_else(|| Failure::reply("ERR COUNT must be > 0"))?;
        } else if args.is(at, "justid") {
            only_ids = true;
        } else {
            return Err(Failure::reply(SYNTAX));
        }
        at += 1;
    }
    let mut told = Told::new(args);
    let is_new = on_group(objects, (args.get(1), args.get(2)), |stream, group| {
        let mut claimant = Claimant::new(args.get(3), now_ms);
        let old_enough =
            |pending: &Pending| now_ms.saturating_sub(pending.delivered_ms) >= idle_min;
        let found = Found::search(stream, &group, start, (count as u64, &old_enough))?;
        for (id, count) in &found.claimed {
            let count = count.saturating_add(u64::from(!only_ids));
            let consumer = claimant.consumer(stream, &group)?;
            stream.put_pending(&group, *id, Pending::of(consumer, now_ms, count))?;
            told.claimed((*id, group.last_id), now_ms, count);
        }
        for id in &found.deleted {
            stream.remove_pending(&group, *id)?;
            told.removed(*id);
        }
        let claimed: Vec<StreamId> = found.claimed.iter().map(|(id, _)| *id).collect();
        reply.array(3);
        write_id(reply, found.next);
        write_claimed(stream, &claimed, only_ids, reply)?;
        reply.array(found.deleted.len());
        found.deleted.iter().for_each(|id| write_id(reply, *id));
        let changes = claimed.len() + found.deleted.len();
        Ok((claimant.is_new, Change::aside(changes > 0)))
    })?;
    told.tell(objects, is_new);
    note_new(objects, args, is_new);
    Ok(())
}
