//! ZRANDMEMBER.

use super::range::{begin_elements, write_element};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::types::random::{Count, repeat};
use crate::resp::types::{Done, Failure, Objects};
use silica_base::{Prng, Result};
use silica_proto::Reply;
use silica_types::{Direction, Kind, Zset, distinct_below};

/// One pass over all members is cheaper than a search of each, if one in so many is asked for.
const MEMBERS_OF_ONE: u64 = 8;

pub(super) fn zrandmember(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let count = if args.len() == 2 { None } else { Some(parse_count(args)?) };
    let with_scores = args.len() == 4;
    let Some(mut opened) = objects.open(args.get(1), Kind::Zset)? else {
        match count {
            None => reply.null(),
            Some(_) => reply.array(0),
        }
        return Ok(());
    };
    let mut prng = Prng::new(objects.prng().next_u64());
    let mut zset = Zset::of(&mut opened.object, objects.pages());
    let written = match count {
        None => write_one(&mut zset, &mut prng, reply).map_err(Failure::from),
        Some(Count::Repeated(count)) => {
            begin_elements(count as usize, with_scores, reply);
            repeat(args, count, reply, |reply| {
                let drawn = zset.at(prng.below(zset.len()))?;
                let (member, score) = drawn.unwrap_or_default();
                write_element(&member, score, with_scores, reply);
                Ok(())
            })
        }
        Some(Count::Distinct(count)) => {
            let ranks = distinct_below(zset.len(), count, &mut prng);
            write_ranks(&mut zset, &ranks, with_scores, reply).map_err(Failure::from)
        }
    };
    objects.close(opened);
    written
}

fn parse_count(args: Args<'_>) -> Done<Count> {
    let count = Count::parse(args.get(2))?;
    if args.len() > 4 || (args.len() == 4 && !args.is(3, "withscores")) {
        return Err(Failure::reply(SYNTAX));
    }
    if args.len() == 4 && count.is_huge() {
        return Err(Failure::reply("ERR value is out of range"));
    }
    Ok(count)
}

fn write_one(zset: &mut Zset<'_>, prng: &mut Prng, reply: &mut Reply<'_>) -> Result<()> {
    match zset.at(prng.below(zset.len()))? {
        Some((member, _)) => reply.bulk(&member),
        None => reply.null(),
    }
    Ok(())
}

/// Writes the members of these ranks, which ascend.
fn write_ranks(
    zset: &mut Zset<'_>,
    ranks: &[u64],
    with_scores: bool,
    reply: &mut Reply<'_>,
) -> Result<()> {
    begin_elements(ranks.len(), with_scores, reply);
    let mut wanted = ranks.iter().peekable();
    if (ranks.len() as u64) < zset.len() / MEMBERS_OF_ONE {
        for rank in wanted {
            let (member, score) = zset.at(*rank)?.unwrap_or_default();
            write_element(&member, score, with_scores, reply);
        }
        return Ok(());
    }
    let mut rank = 0;
    zset.scan(0, Direction::Forward, &mut |member, score| {
        if wanted.next_if(|wanted| **wanted == rank).is_some() {
            write_element(member, score, with_scores, reply);
        }
        rank += 1;
        wanted.peek().is_some()
    })
}
