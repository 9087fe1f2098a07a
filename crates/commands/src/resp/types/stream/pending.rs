//! XPENDING.

use super::{Change, Done, Failure, Objects, TypeCommand, ids, integer, on_group, write_id};
use crate::burst::Args;
use crate::resp::SYNTAX;
use silica_proto::Reply;
use silica_types::{Consumer, Group, Pending, Stream, StreamId};

pub(crate) static XPENDING: TypeCommand = TypeCommand::read(xpending);

/// Ids of one consumer that are looked up together.
const IDS_AT_ONCE: usize = 1000;

/// Which pending entries are listed.
struct Wanted<'a> {
    idle_min: u64,
    first: StreamId,
    last: StreamId,
    count: u64,
    consumer: Option<&'a [u8]>,
    now_ms: u64,
}

impl<'a> Wanted<'a> {
    /// What `args` ask for; `None` if it is the summary.
    fn read(args: Args<'a>, now_ms: u64) -> Done<Option<Self>> {
        let syntax = || Failure::reply(SYNTAX);
        let (mut at, mut idle_min) = (3, 0);
        match args.len() {
            3 => return Ok(None),
            6..=9 => {}
            _ => return Err(syntax()),
        }
        if args.is(at, "idle") {
            idle_min = u64::try_from(integer(args.get(at + 1))?).unwrap_or(0);
            if args.len() < 8 {
                return Err(syntax());
            }
            at += 2;
        }
        let count = u64::try_from(integer(args.get(at + 2))?).unwrap_or(0);
        let (first, last) = (ids::start(args.get(at))?, ids::end(args.get(at + 1))?);
        let consumer = (at + 3 < args.len()).then(|| args.get(at + 3));
        Ok(Some(Wanted { idle_min, first, last, count, consumer, now_ms }))
    }

    fn takes(&self, pending: &Pending) -> bool {
        idle_ms(pending, self.now_ms) >= self.idle_min
    }

    /// The entries of all of `group`.
    fn of_group(&self, stream: &mut Stream<'_>, group: &Group) -> Done<Vec<(StreamId, Pending)>> {
        let mut found = Vec::new();
        if self.count > 0 {
            stream.scan_pending(group, self.first, &mut |id, pending| {
                if id > self.last {
                    return false;
                }
                if self.takes(&pending) {
                    found.push((id, pending));
                }
                (found.len() as u64) < self.count
            })?;
        }
        Ok(found)
    }

    /// The entries of one consumer.
    fn of_consumer(
        &self,
        stream: &mut Stream<'_>,
        group: &Group,
        consumer: &Consumer,
    ) -> Done<Vec<(StreamId, Pending)>> {
        let (mut found, mut from) = (Vec::new(), Some(self.first));
        while let Some(first) = from {
            let ids = stream.owned(group, consumer, first, IDS_AT_ONCE)?;
            from = ids.last().filter(|_| ids.len() == IDS_AT_ONCE).and_then(|id| id.next());
            for id in ids {
                if id > self.last || found.len() as u64 >= self.count {
                    return Ok(found);
                }
                let pending = stream.pending(group, id)?.filter(|pending| self.takes(pending));
                found.extend(pending.map(|pending| (id, pending)));
            }
        }
        Ok(found)
    }

    fn find(&self, stream: &mut Stream<'_>, group: &Group) -> Done<Vec<(StreamId, Pending)>> {
        match self.consumer {
            None => self.of_group(stream, group),
            Some(name) => match stream.consumer(group, name)? {
                None => Ok(Vec::new()),
                Some(consumer) => self.of_consumer(stream, group, &consumer),
            },
        }
    }
}

fn idle_ms(pending: &Pending, now_ms: u64) -> u64 {
    now_ms.saturating_sub(pending.delivered_ms)
}

fn xpending(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let now_ms = objects.now_ms;
    let wanted = Wanted::read(args, now_ms)?;
    on_group(objects, (args.get(1), args.get(2)), |stream, group| {
        let Some(wanted) = wanted else {
            summary(stream, &group, reply)?;
            return Ok(((), Change::None));
        };
        let found = wanted.find(stream, &group)?;
        reply.array(found.len());
        for (id, pending) in found {
            reply.array(4);
            write_id(reply, id);
            reply.bulk(&stream.owner(&group, &pending)?);
            reply.integer(idle_ms(&pending, now_ms) as i64);
            reply.integer(pending.count as i64);
        }
        Ok(((), Change::None))
    })
}

/// How many entries are pending, from which to which, and whose they are.
fn summary(stream: &mut Stream<'_>, group: &Group, reply: &mut Reply<'_>) -> Done {
    reply.array(4);
    reply.integer(stream.pending_count(group, None)? as i64);
    let Some((first, last)) = stream.pending_range(group)? else {
        reply.null();
        reply.null();
        reply.null_array();
        return Ok(());
    };
    write_id(reply, first);
    write_id(reply, last);
    let mut busy = Vec::new();
    for (name, consumer) in stream.consumers(group)? {
        let count = stream.pending_count(group, Some(&consumer))?;
        busy.extend((count > 0).then_some((name, count)));
    }
    reply.array(busy.len());
    for (name, count) in busy {
        reply.array(2);
        reply.bulk(&name);
        reply.bulk_integer(count as i64);
    }
    Ok(())
}
