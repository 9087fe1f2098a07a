//! Commands that take the first or the last members.

use super::store_smaller;
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::types::list::wait;
use crate::resp::types::room::Room;
use crate::resp::types::score::write_score;
use crate::resp::types::{Done, Failure, Objects};
use crate::waiters::{Vain, timeout_ms};
use silica_proto::{Reply, Version, parse_i64};
use silica_types::{Direction, Kind, Zset};

/// Members that are popped in one walk over them: more are not held in memory.
const LISTED_MAX: u64 = 1024;

/// What is taken, and how it is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pop {
    /// The members with the highest scores, not those with the lowest ones.
    pub(super) is_max: bool,
    /// How many at most, one or more.
    pub(super) count: u64,
    /// The key is told first.
    pub(super) with_key: bool,
    /// Member and score are an array of two.
    pub(super) in_pairs: bool,
}

pub(super) fn zpopmin(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    pop(objects, args, false, reply)
}

pub(super) fn zpopmax(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    pop(objects, args, true, reply)
}

fn pop(objects: &mut Objects<'_>, args: Args<'_>, is_max: bool, reply: &mut Reply<'_>) -> Done {
    if args.len() > 3 {
        return Err(Failure::reply(SYNTAX));
    }
    let count = args.from(2).next().map(parse_i64);
    let count = count.map(|count| count.and_then(|count| u64::try_from(count).ok()));
    let in_pairs = count.is_some() && reply.version() == Version::Resp3;
    let count = count.unwrap_or(Some(1));
    let text = "ERR value is out of range, must be positive";
    let count = count.ok_or_else(|| Failure::reply(text))?;
    let pop = Pop { is_max, count, with_key: false, in_pairs };
    if !pop_min_max(objects, args, std::iter::once(args.get(1)), pop, reply)? {
        reply.array(0);
    }
    Ok(())
}

/// The keys, and what is taken of them, of `numkeys key... MIN|MAX [COUNT n]` from `at` on.
pub(super) fn parse_mpop(args: Args<'_>, at: usize) -> Done<(std::ops::Range<usize>, Pop)> {
    let positive = |at: usize, text: &str| {
        let number = parse_i64(args.get(at)).filter(|number| *number > 0);
        number.map(|number| number as u64).ok_or_else(|| Failure::reply(text))
    };
    let keys = positive(at, "ERR numkeys should be greater than 0")?;
    let end = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(at + 1));
    let end = end.filter(|end| *end < args.len()).ok_or_else(|| Failure::reply(SYNTAX))?;
    let is_max = args.is(end, "max");
    if !is_max && !args.is(end, "min") {
        return Err(Failure::reply(SYNTAX));
    }
    let count = match args.len() - end - 1 {
        0 => 1,
        2 if args.is(end + 1, "count") => positive(end + 2, "ERR count should be greater than 0")?,
        more => {
            // The first COUNT is read before what follows it is looked at.
            if more > 2 && args.is(end + 1, "count") {
                positive(end + 2, "ERR count should be greater than 0")?;
            }
            return Err(Failure::reply(SYNTAX));
        }
    };
    Ok((at + 1..end, Pop { is_max, count, with_key: true, in_pairs: true }))
}

pub(super) fn zmpop(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (keys, pop) = parse_mpop(args, 1)?;
    let keys = keys.map(|at| args.get(at));
    if !pop_min_max(objects, args, keys, pop, reply)? {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn bzpopmin(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    blocking_pop(objects, args, false, reply)
}

pub(super) fn bzpopmax(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    blocking_pop(objects, args, true, reply)
}

fn blocking_pop(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    is_max: bool,
    reply: &mut Reply<'_>,
) -> Done {
    let timeout_ms = timeout_ms(args.get(args.len() - 1)).map_err(Failure::reply)?;
    let keys = || (1..args.len() - 1).map(|at| args.get(at));
    let pop = Pop { is_max, count: 1, with_key: true, in_pairs: false };
    match pop_min_max(objects, args, keys(), pop, reply)? {
        true => Ok(()),
        false => Err(wait(Kind::Zset, timeout_ms, keys(), Vain::Array)),
    }
}

pub(super) fn bzmpop(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (places, pop) = parse_mpop(args, 2)?;
    let timeout_ms = timeout_ms(args.get(1)).map_err(Failure::reply)?;
    let keys = || places.clone().map(|at| args.get(at));
    match pop_min_max(objects, args, keys(), pop, reply)? {
        true => Ok(()),
        false => Err(wait(Kind::Zset, timeout_ms, keys(), Vain::Array)),
    }
}

/// Takes members of the first of `keys` that holds a sorted set, and answers with them; false if
/// none does, or none is to be taken: then nothing is answered.
///
/// # Errors
/// WRONGTYPE if a key before that one holds something else.
pub(super) fn pop_min_max<'k>(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    pop: Pop,
    reply: &mut Reply<'_>,
) -> Done<bool> {
    for key in keys {
        let Some(mut opened) = objects.open(key, Kind::Zset)? else { continue };
        if pop.count == 0 {
            objects.close(opened);
            return Ok(false);
        }
        let mut zset = Zset::of(&mut opened.object, objects.pages());
        let (len, count) = (zset.len(), zset.len().min(pop.count));
        begin(key, count as usize, pop, reply);
        let (first, direction, ranks) = match pop.is_max {
            true => (len - 1, Direction::Backward, len - count..len),
            false => (0, Direction::Forward, 0..count),
        };
        let mut room = Room::new(args, reply.buffered());
        let mut left = count;
        let mut write = |member: &[u8], score| {
            if pop.in_pairs {
                reply.array(2);
            }
            reply.bulk(member);
            write_score(reply, score);
            left -= 1;
            left > 0 && room.fits(reply.buffered())
        };
        let mut listed = Vec::new();
        if count <= LISTED_MAX {
            listed = zset.list(ranks.clone())?;
            let mut each = listed.iter();
            let next = || if pop.is_max { each.next_back() } else { each.next() };
            let _ = std::iter::from_fn(next).all(|(member, score)| write(member, *score));
        } else {
            zset.scan(first, direction, &mut write)?;
        }
        if let Err(failure) = room.finish() {
            objects.close(opened);
            return Err(failure);
        }
        let mut zset = Zset::of(&mut opened.object, objects.pages());
        match count <= LISTED_MAX {
            true => zset.remove_listed(ranks.start, &listed)?,
            false => drop(zset.remove_ranks(ranks)?),
        }
        store_smaller(objects, opened, key, if pop.is_max { "zpopmax" } else { "zpopmin" })?;
        return Ok(true);
    }
    Ok(false)
}

/// Begins the answer with `count` members of `key`.
fn begin(key: &[u8], count: usize, pop: Pop, reply: &mut Reply<'_>) {
    match (pop.with_key, pop.in_pairs) {
        (false, false) => reply.array(2 * count),
        (false, true) => reply.array(count),
        (true, false) => {
            reply.array(2 * count + 1);
            reply.bulk(key);
        }
        (true, true) => {
            reply.array(2);
            reply.bulk(key);
            reply.array(count);
        }
    }
}
