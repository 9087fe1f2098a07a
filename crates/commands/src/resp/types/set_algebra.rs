//! SINTER, SUNION, SDIFF, what stores their results, and SINTERCARD.

use super::room::Room;
use super::set::set;
use super::{Done, Failure, Objects, Opened, TypeCommand};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::events::Classes;
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};
use silica_types::{Kind, Object, intersect, subtract, unite};
use std::collections::BTreeSet;

pub(crate) static SINTER: TypeCommand = TypeCommand::read(sinter);
pub(crate) static SUNION: TypeCommand = TypeCommand::read(sunion);
pub(crate) static SDIFF: TypeCommand = TypeCommand::read(sdiff);
pub(crate) static SINTERCARD: TypeCommand = TypeCommand::read(sintercard);
pub(crate) static SINTERSTORE: TypeCommand = TypeCommand::write(sinterstore);
pub(crate) static SUNIONSTORE: TypeCommand = TypeCommand::write(sunionstore);
pub(crate) static SDIFFSTORE: TypeCommand = TypeCommand::write(sdiffstore);

/// What is made of several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Intersect,
    Unite,
    Subtract,
}

/// The sets of several keys.
struct Sets {
    opened: Vec<Opened>,
    /// The key of the first set is there, and no other key is the same.
    has_first: bool,
    /// The key of some set is not there.
    lacks_some: bool,
}

/// Opens the sets of `keys`, each of them once.
fn open_all<'k>(objects: &mut Objects<'_>, keys: impl Iterator<Item = &'k [u8]>) -> Done<Sets> {
    let keys: Vec<&[u8]> = keys.collect();
    objects.fetch(&keys)?;
    let mut sets = Sets { opened: Vec::new(), has_first: true, lacks_some: false };
    let mut known = BTreeSet::new();
    for (nth, key) in keys.iter().enumerate() {
        if !known.insert(*key) {
            sets.has_first &= *key != keys[0];
            continue;
        }
        match objects.open(key, Kind::Set) {
            Ok(Some(opened)) => sets.opened.push(opened),
            Ok(None) => {
                sets.lacks_some = true;
                sets.has_first &= nth != 0;
            }
            Err(failure) => {
                sets.close(objects);
                return Err(failure);
            }
        }
    }
    Ok(sets)
}

impl Sets {
    /// Gives them back.
    fn close(self, objects: &mut Objects<'_>) {
        self.opened.into_iter().for_each(|opened| objects.close(opened));
    }

    /// Calls `each` with the members that `op` makes of the sets, until it returns false.
    fn run(
        &mut self,
        objects: &mut Objects<'_>,
        op: Op,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let op = match op {
            Op::Intersect if self.lacks_some => return Ok(()),
            Op::Intersect => intersect,
            Op::Unite => unite,
            Op::Subtract if !self.has_first => return Ok(()),
            Op::Subtract => subtract,
        };
        let mut sets: Vec<&mut Object> =
            self.opened.iter_mut().map(|opened| &mut *opened.object).collect();
        op(&mut sets, objects.pages(), each)
    }
}

/// Answers the members that `op` makes of the sets of all arguments.
fn answer(objects: &mut Objects<'_>, args: Args<'_>, op: Op, reply: &mut Reply<'_>) -> Done {
    let mut sets = open_all(objects, args.from(1))?;
    let (mut bytes, mut count) = (Vec::new(), 0);
    let mut room = Room::new(args, 0);
    let mut written = Reply::new(&mut bytes, reply.version());
    sets.run(objects, op, &mut |member| {
        written.bulk(member);
        count += 1;
        room.fits(written.buffered())
    })?;
    sets.close(objects);
    room.finish()?;
    reply.set(count);
    reply.written(&bytes);
    Ok(())
}

fn sinter(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    answer(objects, args, Op::Intersect, reply)
}

fn sunion(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    answer(objects, args, Op::Unite, reply)
}

fn sdiff(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    answer(objects, args, Op::Subtract, reply)
}

/// Stores the members that `op` makes of the sets of all arguments but the first, as the first.
fn keep(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    (op, event): (Op, &'static str),
    reply: &mut Reply<'_>,
) -> Done {
    let mut sets = open_all(objects, args.from(2))?;
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut room = Room::new(args, 0);
    sets.run(objects, op, &mut |member| {
        bytes.extend_from_slice(member);
        ends.push(bytes.len());
        room.fits(bytes.len() + ends.len() * size_of::<usize>())
    })?;
    sets.close(objects);
    room.finish()?;
    let key = args.get(1);
    let was_there = objects.remove(key)?;
    if ends.is_empty() {
        if was_there {
            objects.event(Classes::GENERIC, "del", key);
        }
        reply.integer(0);
        return Ok(());
    }
    let mut opened = objects.open_or_new(key, Kind::Set)?;
    let (mut result, mut start) = (set(&mut opened, objects), 0);
    for end in &ends {
        result.add(&bytes[start..*end])?;
        start = *end;
    }
    objects.store(opened)?;
    objects.event(Classes::SET, event, key);
    reply.integer(ends.len() as i64);
    Ok(())
}

fn sinterstore(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    keep(objects, args, (Op::Intersect, "sinterstore"), reply)
}

fn sunionstore(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    keep(objects, args, (Op::Unite, "sunionstore"), reply)
}

fn sdiffstore(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    keep(objects, args, (Op::Subtract, "sdiffstore"), reply)
}

/// The number of keys of SINTERCARD, and the members after which it counts no more.
fn card_options(args: Args<'_>) -> std::result::Result<(usize, usize), &'static str> {
    let keys = parse_i64(args.get(1)).filter(|keys| *keys > 0);
    let keys = keys.ok_or("ERR numkeys should be greater than 0")?;
    let keys = usize::try_from(keys).ok().filter(|keys| *keys <= args.len() - 2);
    let keys = keys.ok_or("ERR Number of keys can't be greater than number of args")?;
    let (mut at, mut max) = (2 + keys, 0);
    while at < args.len() {
        if !args.is(at, "limit") || at + 1 == args.len() {
            return Err(SYNTAX);
        }
        let limit = parse_i64(args.get(at + 1)).and_then(|limit| usize::try_from(limit).ok());
        max = limit.ok_or("ERR LIMIT can't be negative")?;
        at += 2;
    }
    Ok((keys, if max == 0 { usize::MAX } else { max }))
}

fn sintercard(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (keys, max) = card_options(args).map_err(Failure::reply)?;
    let mut sets = open_all(objects, args.from(2).take(keys))?;
    let mut count = 0;
    sets.run(objects, Op::Intersect, &mut |_| {
        count += 1;
        count < max
    })?;
    sets.close(objects);
    reply.integer(count as i64);
    Ok(())
}
