//! Unions, intersections and differences of sorted sets and sets.

use super::range::{begin_elements, write_element};
use super::{Sources, replace};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::types::room::Room;
use crate::resp::types::score::{integer, parse_score};
use crate::resp::types::{Done, Failure, Objects};
use silica_proto::{Reply, parse_i64};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Members that are read at a time.
const CHUNK: usize = 512;
/// Memory of a member of a result beside its bytes.
const MEMBER_BYTES: usize = 80;
/// Bytes of a result that are claimed at a time.
const CLAIMED_BYTES: usize = 1 << 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Union,
    Inter,
    Diff,
}

/// What the scores of a member become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, sum: f64, more: f64) -> f64 {
        match self {
            Aggregate::Sum => or_zero(sum + more),
            Aggregate::Min => {
                if more < sum {
                    more
                } else {
                    sum
                }
            }
            Aggregate::Max => {
                if more > sum {
                    more
                } else {
                    sum
                }
            }
        }
    }
}

/// Infinities that cancel out make zero.
fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What a command does with its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Into {
    Reply,
    Key,
    Count,
}

/// What a command asks for.
struct Asked<'a> {
    keys: Vec<&'a [u8]>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Members that are counted at most.
    limit: u64,
}

macro_rules! commands {
    ($($name:ident $op:expr, $into:expr;)*) => {
        $(pub(super) fn $name(
            objects: &mut Objects<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            combine(objects, args, stringify!($name), ($op, $into), reply)
        })*
    };
}

commands! {
    zunion Op::Union, Into::Reply;
    zinter Op::Inter, Into::Reply;
    zdiff Op::Diff, Into::Reply;
    zunionstore Op::Union, Into::Key;
    zinterstore Op::Inter, Into::Key;
    zdiffstore Op::Diff, Into::Key;
    zintercard Op::Inter, Into::Count;
}

fn combine(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    name: &'static str,
    (op, into): (Op, Into),
    reply: &mut Reply<'_>,
) -> Done {
    let asked = parse(objects, args, name, (op, into))?;
    let mut sources = Sources::open(objects, &asked.keys)?;
    let keeps = into != Into::Count;
    let mut run = Run { objects, sources: &mut sources, args, asked: &asked, keeps, unclaimed: 0 };
    let result = match (op, into) {
        (Op::Union, _) => run.union(),
        (_, Into::Count) => run.intersect(asked.limit, &mut |_, _| {}).map(Made::Count),
        (Op::Inter, _) => {
            let mut all = Vec::new();
            run.intersect(u64::MAX, &mut |member, score| all.push((member, score)))
                .map(|_| Made::Elements(all))
        }
        (Op::Diff, _) => run.subtract(),
    };
    sources.close(objects);
    let elements = match result? {
        Made::Count(count) => {
            reply.integer(count as i64);
            return Ok(());
        }
        Made::Elements(mut elements) => {
            let order = |a: &f64, b: &f64| a.partial_cmp(b).expect("no score is NaN");
            elements.sort_unstable_by(|a, b| order(&a.1, &b.1).then_with(|| a.0.cmp(&b.0)));
            elements
        }
    };
    if into == Into::Key {
        let elements = elements.iter().map(|(member, score)| (&member[..], *score));
        let len = replace(objects, args.get(1), elements, name)?;
        reply.integer(len as i64);
        return Ok(());
    }
    let mut room = Room::new(args, reply.buffered());
    begin_elements(elements.len(), asked.with_scores, reply);
    for (member, score) in elements {
        write_element(&member, score, asked.with_scores, reply);
        if !room.fits(reply.buffered()) {
            break;
        }
    }
    room.finish()
}

/// Reads the arguments; looks at the types of the keys before it does so at the options.
fn parse<'a>(
    objects: &mut Objects<'_>,
    args: Args<'a>,
    name: &str,
    (op, into): (Op, Into),
) -> Done<Asked<'a>> {
    let count_at = if into == Into::Key { 2 } else { 1 };
    let count = integer(args.get(count_at))?;
    if count < 1 {
        let text = format!("ERR at least 1 input key is needed for '{name}' command");
        return Err(Failure::reply(text));
    }
    let first = count_at + 1;
    let count = usize::try_from(count).ok().filter(|count| *count <= args.len() - first);
    let count = count.ok_or_else(|| Failure::reply(SYNTAX))?;
    let keys: Vec<&[u8]> = args.from(first).take(count).collect();
    Sources::check(objects, &keys)?;
    let mut asked = Asked {
        keys,
        weights: vec![1.0; count],
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: u64::MAX,
    };
    let has_scores = op != Op::Diff && into != Into::Count;
    let mut at = first + count;
    while at < args.len() {
        let left = args.len() - at;
        at += match () {
            () if has_scores && left > count && args.is(at, "weights") => {
                for (weight, text) in asked.weights.iter_mut().zip(args.from(at + 1)) {
                    let text = parse_score(text);
                    *weight =
                        text.ok_or_else(|| Failure::reply("ERR weight value is not a float"))?;
                }
                1 + count
            }
            () if has_scores && left >= 2 && args.is(at, "aggregate") => {
                asked.aggregate = match () {
                    () if args.is(at + 1, "sum") => Aggregate::Sum,
                    () if args.is(at + 1, "min") => Aggregate::Min,
                    () if args.is(at + 1, "max") => Aggregate::Max,
                    () => return Err(Failure::reply(SYNTAX)),
                };
                2
            }
            () if into == Into::Reply && args.is(at, "withscores") => {
                asked.with_scores = true;
                1
            }
            () if into == Into::Count && left >= 2 && args.is(at, "limit") => {
                let limit = parse_i64(args.get(at + 1)).and_then(|limit| u64::try_from(limit).ok());
                let text = "ERR LIMIT can't be negative";
                let limit = limit.ok_or_else(|| Failure::reply(text))?;
                asked.limit = if limit == 0 { u64::MAX } else { limit };
                2
            }
            () => return Err(Failure::reply(SYNTAX)),
        };
    }
    Ok(asked)
}

/// What was made of the sources.
enum Made {
    Elements(Vec<(Vec<u8>, f64)>),
    Count(u64),
}

struct Run<'r, 'e, 'a> {
    objects: &'r mut Objects<'e>,
    sources: &'r mut Sources,
    args: Args<'a>,
    asked: &'r Asked<'a>,
    /// The result is not only counted.
    keeps: bool,
    /// Bytes of the result that no memory was claimed for yet.
    unclaimed: usize,
}

impl Run<'_, '_, '_> {
    /// Notes a member of the result.
    fn hold(&mut self, member: &[u8]) -> Done {
        self.unclaimed += member.len() + MEMBER_BYTES;
        if !self.keeps || self.unclaimed < CLAIMED_BYTES {
            return Ok(());
        }
        self.args.claim(std::mem::take(&mut self.unclaimed)).map_err(Failure::Reply)
    }

    /// The keys, those with the fewest members first: so sums are rounded as Redis does.
    fn smallest_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.asked.keys.len()).collect();
        silica_base::compact_sort_by_key(&mut order, |nth| self.sources.len(*nth));
        order
    }

    /// Calls `each` with the members of key `nth`, until it returns false.
    fn each(
        &mut self,
        nth: usize,
        mut each: impl FnMut(&mut Self, Vec<u8>, f64) -> Done<bool>,
    ) -> Done {
        let (mut rank, len) = (0, self.sources.len(nth));
        while rank < len {
            let chunk = self.sources.some(self.objects.pages(), nth, rank, CHUNK)?;
            rank += CHUNK as u64;
            for (member, score) in chunk {
                if !each(self, member, score)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn score(&mut self, nth: usize, member: &[u8]) -> Done<Option<f64>> {
        Ok(self.sources.score(self.objects.pages(), nth, member)?)
    }

    fn union(&mut self) -> Done<Made> {
        let mut all: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for nth in self.smallest_first() {
            let (weight, aggregate) = (self.asked.weights[nth], self.asked.aggregate);
            self.each(nth, |run, member, score| {
                let score = or_zero(weight * score);
                match all.entry(member) {
                    Entry::Occupied(mut old) => {
                        let sum = aggregate.of(*old.get(), score);
                        *old.get_mut() = sum;
                    }
                    Entry::Vacant(new) => {
                        run.hold(new.key())?;
                        new.insert(score);
                    }
                }
                Ok(true)
            })?;
        }
        Ok(Made::Elements(all.into_iter().collect()))
    }

    /// Hands the members of all keys to `add`, up to `limit`, and returns how many these are.
    fn intersect(&mut self, limit: u64, add: &mut dyn FnMut(Vec<u8>, f64)) -> Done<u64> {
        let (order, aggregate) = (self.smallest_first(), self.asked.aggregate);
        let mut count = 0;
        self.each(order[0], |run, member, score| {
            let mut sum = or_zero(run.asked.weights[order[0]] * score);
            for nth in &order[1..] {
                let Some(score) = run.score(*nth, &member)? else { return Ok(true) };
                sum = aggregate.of(sum, run.asked.weights[*nth] * score);
            }
            run.hold(&member)?;
            count += 1;
            add(member, sum);
            Ok(count < limit)
        })?;
        Ok(count)
    }

    fn subtract(&mut self) -> Done<Made> {
        let mut all = Vec::new();
        self.each(0, |run, member, score| {
            for nth in 1..run.asked.keys.len() {
                if run.score(nth, &member)?.is_some() {
                    return Ok(true);
                }
            }
            run.hold(&member)?;
            all.push((member, score));
            Ok(true)
        })?;
        Ok(Made::Elements(all))
    }
}
