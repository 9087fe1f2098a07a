//! ZRANGE and its kin: by rank, by score and by member, to the client or into a key.

use super::{read_zset, replace};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::types::room::Room;
use crate::resp::types::score::{integer, parse_range_end, write_score};
use crate::resp::types::{Done, Failure, Objects};
use silica_proto::{Reply, Version};
use silica_types::{Direction, LexEnd, ScoreRange, Zset};
use std::ops::Range;

/// How a range is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// What a command asks for, as far as its name or its options say it.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// `None` if options may say it.
    by: Option<By>,
    is_reversed: Option<bool>,
    /// The place of the key among the arguments; the range comes next.
    key_at: usize,
    /// The range goes into the first key.
    is_stored: bool,
}

/// What the options say.
#[derive(Debug)]
struct Options {
    by: By,
    is_reversed: bool,
    with_scores: bool,
    /// Elements that are left out first, and how many follow at most.
    offset: i64,
    limit: i64,
}

/// The ends of a range.
#[derive(Debug)]
enum Ends<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexEnd<'a>, LexEnd<'a>),
}

macro_rules! ranges {
    ($($name:ident $by:expr, $is_reversed:expr;)*) => {
        $(pub(super) fn $name(
            objects: &mut Objects<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let (by, is_reversed) = ($by, $is_reversed);
            let asked = Asked { by, is_reversed, key_at: 1, is_stored: false };
            answer_range(objects, args, asked, reply)
        })*
    };
}

ranges! {
    zrange None, None;
    zrangebyscore Some(By::Score), Some(false);
    zrangebylex Some(By::Member), Some(false);
    zrevrange Some(By::Rank), Some(true);
    zrevrangebyscore Some(By::Score), Some(true);
    zrevrangebylex Some(By::Member), Some(true);
}

pub(super) fn zrangestore(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let asked = Asked { by: None, is_reversed: None, key_at: 2, is_stored: true };
    answer_range(objects, args, asked, reply)
}

/// Reads the ends of a range of scores.
pub(super) fn parse_scores(min: &[u8], max: &[u8]) -> Done<ScoreRange> {
    let end = |text: &[u8]| {
        let (is_outside, digits) = match text {
            [b'(', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let score = parse_range_end(digits);
        let text = "ERR min or max is not a float";
        score.map(|score| (score, is_outside)).ok_or_else(|| Failure::reply(text))
    };
    let ((min, is_above_min), (max, is_below_max)) = (end(min)?, end(max)?);
    Ok(ScoreRange { min, is_above_min, max, is_below_max })
}

/// Reads the ends of a range of members.
pub(super) fn parse_members<'a>(min: &'a [u8], max: &'a [u8]) -> Done<(LexEnd<'a>, LexEnd<'a>)> {
    let end = |text: &'a [u8]| match text {
        b"-" => Ok(LexEnd::First),
        b"+" => Ok(LexEnd::Last),
        [b'[', member @ ..] => Ok(LexEnd::Included(member)),
        [b'(', member @ ..] => Ok(LexEnd::Excluded(member)),
        _ => Err(Failure::reply("ERR min or max not valid string range item")),
    };
    Ok((end(min)?, end(max)?))
}

/// The ranks from `start` to `end` of `len` elements; negative ones count from the end.
pub(super) fn ranks_between(start: i64, end: i64, len: u64) -> Range<u64> {
    let len = len as i64;
    let place = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
    let (start, end) = (place(start).max(0), place(end).saturating_add(1).min(len));
    if start >= end { 0..0 } else { start as u64..end as u64 }
}

fn parse_options(args: Args<'_>, asked: Asked) -> Done<Options> {
    let (mut by, mut is_reversed) = (asked.by, asked.is_reversed);
    let (mut offset, mut limit, mut with_scores) = (0, -1, false);
    let mut at = asked.key_at + 3;
    while at < args.len() {
        match () {
            () if !asked.is_stored && args.is(at, "withscores") => with_scores = true,
            () if args.is(at, "limit") && at + 2 < args.len() => {
                (offset, limit) = (integer(args.get(at + 1))?, integer(args.get(at + 2))?);
                at += 2;
            }
            () if is_reversed.is_none() && args.is(at, "rev") => is_reversed = Some(true),
            () if by.is_none() && args.is(at, "bylex") => by = Some(By::Member),
            () if by.is_none() && args.is(at, "byscore") => by = Some(By::Score),
            () => return Err(Failure::reply(SYNTAX)),
        }
        at += 1;
    }
    let (by, is_reversed) = (by.unwrap_or(By::Rank), is_reversed.unwrap_or(false));
    if limit != -1 && by == By::Rank {
        return Err(Failure::reply(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if with_scores && by == By::Member {
        return Err(Failure::reply(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    Ok(Options { by, is_reversed, with_scores, offset, limit })
}

fn parse_ends<'a>(args: Args<'a>, asked: Asked, options: &Options) -> Done<Ends<'a>> {
    let (first, last) = (args.get(asked.key_at + 1), args.get(asked.key_at + 2));
    let (min, max) = if options.is_reversed { (last, first) } else { (first, last) };
    Ok(match options.by {
        By::Rank => Ends::Ranks(integer(first)?, integer(last)?),
        By::Score => Ends::Scores(parse_scores(min, max)?),
        By::Member => {
            let (min, max) = parse_members(min, max)?;
            Ends::Members(min, max)
        }
    })
}

/// The ranks of the elements that are asked for, as they lie in the sorted set.
fn find_ranks(
    zset: &mut Zset<'_>,
    ends: &Ends<'_>,
    options: &Options,
) -> silica_base::Result<Range<u64>> {
    let ranks = match ends {
        Ends::Ranks(start, end) => {
            let (ranks, len) = (ranks_between(*start, *end, zset.len()), zset.len());
            return Ok(match options.is_reversed && !ranks.is_empty() {
                true => len - ranks.end..len - ranks.start,
                false => ranks,
            });
        }
        Ends::Scores(range) => zset.ranks_of_scores(range)?,
        Ends::Members(min, max) => zset.ranks_of_members(*min, *max)?,
    };
    let len = ranks.end - ranks.start;
    // A negative offset leaves out all, a negative limit none.
    let skipped = u64::try_from(options.offset).unwrap_or(len).min(len);
    let taken = u64::try_from(options.limit).unwrap_or(len).min(len - skipped);
    Ok(match options.is_reversed {
        true => ranks.end - skipped - taken..ranks.end - skipped,
        false => ranks.start + skipped..ranks.start + skipped + taken,
    })
}

fn answer_range(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    asked: Asked,
    reply: &mut Reply<'_>,
) -> Done {
    let options = parse_options(args, asked)?;
    let ends = parse_ends(args, asked, &options)?;
    let key = args.get(asked.key_at);
    if asked.is_stored {
        let read = |zset: &mut Zset<'_>| {
            let ranks = find_ranks(zset, &ends, &options)?;
            zset.some(ranks.start, (ranks.end - ranks.start) as usize)
        };
        let elements = read_zset(objects, key, read)?.unwrap_or_default();
        let elements = elements.iter().map(|(member, score)| (&member[..], *score));
        let len = replace(objects, args.get(1), elements, "zrangestore")?;
        reply.integer(len as i64);
        return Ok(());
    }
    let mut room = Room::new(args, reply.buffered());
    let read = |zset: &mut Zset<'_>| {
        let ranks = find_ranks(zset, &ends, &options)?;
        write_ranks(zset, ranks, &options, &mut room, reply)
    };
    if read_zset(objects, key, read)?.is_none() {
        reply.array(0);
    }
    room.finish()
}

/// Writes the elements of these ranks, as long as there is room.
fn write_ranks(
    zset: &mut Zset<'_>,
    ranks: Range<u64>,
    options: &Options,
    room: &mut Room<'_>,
    reply: &mut Reply<'_>,
) -> silica_base::Result<()> {
    let mut left = ranks.end - ranks.start;
    begin_elements(left as usize, options.with_scores, reply);
    if left == 0 {
        return Ok(());
    }
    let (first, direction) = match options.is_reversed {
        true => (ranks.end - 1, Direction::Backward),
        false => (ranks.start, Direction::Forward),
    };
    zset.scan(first, direction, &mut |member, score| {
        write_element(member, score, options.with_scores, reply);
        left -= 1;
        left > 0 && room.fits(reply.buffered())
    })
}

/// Begins a list of `len` elements; with scores RESP2 has both in one array, RESP3 has pairs.
pub(super) fn begin_elements(len: usize, with_scores: bool, reply: &mut Reply<'_>) {
    let is_flat = with_scores && reply.version() == Version::Resp2;
    reply.array(if is_flat { 2 * len } else { len });
}

/// Writes an element of such a list.
pub(super) fn write_element(member: &[u8], score: f64, with_scores: bool, reply: &mut Reply<'_>) {
    if with_scores && reply.version() == Version::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if with_scores {
        write_score(reply, score);
    }
}
