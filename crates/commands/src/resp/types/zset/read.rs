//! Commands that read members and counts.

use super::range::{parse_members, parse_scores};
use super::read_zset;
use crate::burst::Args;
use crate::resp::types::scan::Scan;
use crate::resp::types::score::{append_score, write_score};
use crate::resp::types::{Done, Objects};
use silica_proto::{Reply, append_i64};
use silica_types::{Kind, Zset};

pub(super) fn zcard(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let len = read_zset(objects, args.get(1), |zset| Ok(zset.len()))?;
    reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn zscore(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let score = read_zset(objects, args.get(1), |zset| zset.score(args.get(2)))?;
    match score.flatten() {
        Some(score) => write_score(reply, score),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn zmscore(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    reply.array(args.len() - 2);
    let found = read_zset(objects, args.get(1), |zset| {
        for member in args.from(2) {
            match zset.score(member)? {
                Some(score) => write_score(reply, score),
                None => reply.null(),
            }
        }
        Ok(())
    })?;
    if found.is_none() {
        args.from(2).for_each(|_| reply.null());
    }
    Ok(())
}

pub(super) fn zcount(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let range = parse_scores(args.get(2), args.get(3))?;
    let ranks = read_zset(objects, args.get(1), |zset| zset.ranks_of_scores(&range))?;
    reply.integer(ranks.map_or(0, |ranks| (ranks.end - ranks.start) as i64));
    Ok(())
}

pub(super) fn zlexcount(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (min, max) = parse_members(args.get(2), args.get(3))?;
    let ranks = read_zset(objects, args.get(1), |zset| zset.ranks_of_members(min, max))?;
    reply.integer(ranks.map_or(0, |ranks| (ranks.end - ranks.start) as i64));
    Ok(())
}

pub(super) fn zrank(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    write_rank(objects, args, false, reply)
}

pub(super) fn zrevrank(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    write_rank(objects, args, true, reply)
}

fn write_rank(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    is_from_last: bool,
    reply: &mut Reply<'_>,
) -> Done {
    let rank = read_zset(objects, args.get(1), |zset| {
        let rank = zset.rank(args.get(2))?;
        Ok(rank.map(|rank| if is_from_last { zset.len() - 1 - rank } else { rank }))
    })?;
    match rank.flatten() {
        Some(rank) => reply.integer(rank as i64),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn zscan(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let Some((scan, opened)) = Scan::open(objects, args, Kind::Zset, reply)? else {
        return Ok(());
    };
    // The order of members stays when scores change; a small one has only that of the scores.
    let nth = if opened.object.is_flat(0) { 0 } else { 1 };
    let is_listpack = Zset::encoding(&opened.object) == "listpack";
    let mut each = |key: &[u8], value: &[u8], reply: &mut Reply<'_>| {
        let Ok((member, score)) = Zset::element(nth, key, value) else { return 0 };
        if !scan.wants(member) {
            return 0;
        }
        reply.bulk(member);
        let mut digits = Vec::with_capacity(24);
        // Redis has whole numbers in small sorted sets, and prints all of their digits.
        if is_listpack && score == score.trunc() && score.abs() < (1u64 << 62) as f64 {
            append_i64(&mut digits, score as i64);
        } else {
            append_score(&mut digits, score);
        }
        reply.bulk(&digits);
        2
    };
    scan.run(objects, opened, nth, &mut each, reply)
}
