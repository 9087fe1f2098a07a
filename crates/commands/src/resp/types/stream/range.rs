//! XLEN, XRANGE and XREVRANGE.

use super::{Change, Done, Failure, Objects, TypeCommand, ids, integer, on_stream, write_entry};
use crate::burst::Args;
use crate::resp::SYNTAX;
use silica_proto::Reply;
use silica_types::Direction;

pub(crate) static XLEN: TypeCommand = TypeCommand::read(xlen);
pub(crate) static XRANGE: TypeCommand = TypeCommand::read(xrange);
pub(crate) static XREVRANGE: TypeCommand = TypeCommand::read(xrevrange);

fn xlen(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let len = on_stream(objects, args.get(1), |stream| Ok((stream.len(), Change::None)))?;
    reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn xrange(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    range(objects, args, reply, Direction::Forward)
}

fn xrevrange(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    range(objects, args, reply, Direction::Backward)
}

fn range(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    direction: Direction,
) -> Done {
    let (first, last) = match direction {
        Direction::Forward => (ids::start(args.get(2))?, ids::end(args.get(3))?),
        Direction::Backward => {
            // The start is checked first, though it comes last.
            let (end, start) = (args.get(2), args.get(3));
            (ids::start(start)?, ids::end(end)?)
        }
    };
    let mut count = None;
    let mut at = 4;
    while at < args.len() {
        if !args.is(at, "count") || at + 1 == args.len() {
            return Err(Failure::reply(SYNTAX));
        }
        count = Some(u64::try_from(integer(args.get(at + 1))?).unwrap_or(0));
        at += 2;
    }
    let told = on_stream(objects, args.get(1), |stream| {
        if count == Some(0) {
            reply.null_array();
            return Ok(((), Change::None));
        }
        let ranks = stream.ranks(first, last)?;
        let len = (ranks.end - ranks.start).min(count.unwrap_or(u64::MAX));
        let from = match direction {
            Direction::Forward => ranks.start,
            Direction::Backward => ranks.end.saturating_sub(1),
        };
        reply.array(len as usize);
        stream.scan(from, direction, len, &mut |id, fields| write_entry(reply, id, fields))?;
        Ok(((), Change::None))
    })?;
    if told.is_none() {
        reply.array(0);
    }
    Ok(())
}
