//! Commands that remove members, or ranges of them.

use super::range::{parse_members, parse_scores, ranks_between};
use super::store_smaller;
use crate::burst::Args;
use crate::resp::types::score::integer;
use crate::resp::types::{Done, Objects};
use silica_base::Result;
use silica_proto::Reply;
use silica_types::{Kind, Zset};
use std::ops::Range;

pub(super) fn zrem(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let Some(mut opened) = objects.open(key, Kind::Zset)? else {
        reply.integer(0);
        return Ok(());
    };
    let mut zset = Zset::of(&mut opened.object, objects.pages());
    let mut removed = 0;
    for member in args.from(2) {
        removed += i64::from(zset.remove(member)?.is_some());
    }
    match removed {
        0 => objects.close(opened),
        _ => store_smaller(objects, opened, key, "zrem")?,
    }
    reply.integer(removed);
    Ok(())
}

pub(super) fn zremrangebyrank(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let (start, end) = (integer(args.get(2))?, integer(args.get(3))?);
    let find = |zset: &mut Zset<'_>| Ok(ranks_between(start, end, zset.len()));
    remove_range(objects, args.get(1), "zremrangebyrank", find, reply)
}

pub(super) fn zremrangebyscore(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let range = parse_scores(args.get(2), args.get(3))?;
    let find = |zset: &mut Zset<'_>| zset.ranks_of_scores(&range);
    remove_range(objects, args.get(1), "zremrangebyscore", find, reply)
}

pub(super) fn zremrangebylex(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let (min, max) = parse_members(args.get(2), args.get(3))?;
    let find = |zset: &mut Zset<'_>| zset.ranks_of_members(min, max);
    remove_range(objects, args.get(1), "zremrangebylex", find, reply)
}

/// Removes the ranks that `find` tells.
fn remove_range(
    objects: &mut Objects<'_>,
    key: &[u8],
    event: &'static str,
    find: impl FnOnce(&mut Zset<'_>) -> Result<Range<u64>>,
    reply: &mut Reply<'_>,
) -> Done {
    let Some(mut opened) = objects.open(key, Kind::Zset)? else {
        reply.integer(0);
        return Ok(());
    };
    let mut zset = Zset::of(&mut opened.object, objects.pages());
    let ranks = find(&mut zset)?;
    let removed = zset.remove_ranks(ranks)?;
    match removed {
        0 => objects.close(opened),
        _ => store_smaller(objects, opened, key, event)?,
    }
    reply.integer(removed as i64);
    Ok(())
}
