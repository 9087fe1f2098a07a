//! ZADD and ZINCRBY.

use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::events::Classes;
use crate::resp::types::score::{parse_score, write_score};
use crate::resp::types::{Done, Failure, Objects};
use silica_proto::Reply;
use silica_types::{Kind, Zset};

/// Options of ZADD.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AddFlags {
    /// Members that are there stay as they are.
    pub(crate) nx: bool,
    /// Nothing is added.
    pub(crate) xx: bool,
    /// A score only grows.
    pub(crate) gt: bool,
    /// A score only shrinks.
    pub(crate) lt: bool,
    /// Changed scores count like added members.
    pub(crate) ch: bool,
    /// Scores are added to those that are there.
    pub(crate) incr: bool,
}

impl AddFlags {
    /// Notes option `at` of `args`; false if it is none.
    pub(crate) fn take(&mut self, args: Args<'_>, at: usize) -> bool {
        let flag = match () {
            () if args.is(at, "nx") => &mut self.nx,
            () if args.is(at, "xx") => &mut self.xx,
            () if args.is(at, "gt") => &mut self.gt,
            () if args.is(at, "lt") => &mut self.lt,
            () if args.is(at, "ch") => &mut self.ch,
            () if args.is(at, "incr") => &mut self.incr,
            () => return false,
        };
        *flag = true;
        true
    }

    /// True if every member gets the score that is given.
    fn is_plain(self) -> bool {
        !(self.nx || self.xx || self.gt || self.lt || self.incr)
    }

    /// Why `pairs` scores and members cannot be added with them.
    fn refuse(self, pairs: usize) -> Option<&'static str> {
        let bounds = [self.gt, self.lt, self.nx].iter().filter(|is_set| **is_set).count();
        match () {
            () if self.nx && self.xx => {
                Some("ERR XX and NX options at the same time are not compatible")
            }
            () if bounds > 1 => {
                Some("ERR GT, LT, and/or NX options at the same time are not compatible")
            }
            () if self.incr && pairs > 1 => {
                Some("ERR INCR option supports a single increment-element pair")
            }
            () => None,
        }
    }

    /// The score of a member that has `old`, after `score` was given; `None` if it stays.
    fn decide(self, old: Option<f64>, score: f64) -> Done<Option<f64>> {
        let Some(old) = old else { return Ok((!self.xx).then_some(score)) };
        if self.nx {
            return Ok(None);
        }
        let score = if self.incr { old + score } else { score };
        if score.is_nan() {
            return Err(Failure::reply("ERR resulting score is not a number (NaN)"));
        }
        let stays = (self.lt && score >= old) || (self.gt && score <= old);
        Ok((!stays).then_some(score))
    }
}

pub(super) fn zadd(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    add_pairs(objects, args, AddFlags::default(), reply)
}

pub(super) fn zincrby(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    add_pairs(objects, args, AddFlags { incr: true, ..AddFlags::default() }, reply)
}

fn add_pairs(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    mut flags: AddFlags,
    reply: &mut Reply<'_>,
) -> Done {
    let mut first = 2;
    while first < args.len() && flags.take(args, first) {
        first += 1;
    }
    let given = args.len() - first;
    if given == 0 || given % 2 == 1 {
        return Err(Failure::reply(SYNTAX));
    }
    if let Some(text) = flags.refuse(given / 2) {
        return Err(Failure::reply(text));
    }
    let mut pairs = Vec::with_capacity(given / 2);
    for at in (first..args.len()).step_by(2) {
        let score = parse_score(args.get(at));
        let score = score.ok_or_else(|| Failure::reply("ERR value is not a valid float"))?;
        pairs.push((score, args.get(at + 1)));
    }
    add(objects, args.get(1), flags, &pairs, reply)
}

/// Adds scores and members to the sorted set at `key`, and answers as ZADD does.
pub(crate) fn add(
    objects: &mut Objects<'_>,
    key: &[u8],
    flags: AddFlags,
    pairs: &[(f64, &[u8])],
    reply: &mut Reply<'_>,
) -> Done {
    let mut opened = objects.open_or_new(key, Kind::Zset)?;
    let mut zset = Zset::of(&mut opened.object, objects.pages());
    let (mut added, mut updated, mut last) = (0, 0, None);
    for (score, member) in pairs {
        if flags.is_plain() {
            let old = zset.put(member, *score)?;
            added += i64::from(old.is_none());
            updated += i64::from(old.is_some_and(|old| old != *score));
            continue;
        }
        let old = zset.score(member)?;
        let new = match flags.decide(old, *score) {
            // With INCR this is the only member.
            Err(failure) => {
                objects.close(opened);
                return Err(failure);
            }
            Ok(new) => new,
        };
        if let Some(new) = new {
            zset.put_over(member, old, new)?;
            added += i64::from(old.is_none());
            updated += i64::from(old.is_some_and(|old| old != new));
            last = Some(new);
        }
    }
    if added + updated > 0 {
        objects.store(opened)?;
        objects.event(Classes::ZSET, if flags.incr { "zincr" } else { "zadd" }, key);
    } else {
        objects.close(opened);
    }
    match (flags.incr, last) {
        (true, Some(score)) => write_score(reply, score),
        (true, None) => reply.null(),
        (false, _) => reply.integer(if flags.ch { added + updated } else { added }),
    }
    Ok(())
}
