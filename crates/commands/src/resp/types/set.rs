//! Sets.

use super::random::{Count, repeat};
use super::room::Room;
use super::scan::Scan;
use super::{Done, Failure, Objects, Opened, TypeCommand};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::events::Classes;
use silica::engine::Result;
use silica_base::Prng;
use silica_proto::{Reply, parse_i64};
use silica_types::{Kind, Set, distinct_below, visit_ranks};

pub(crate) static SADD: TypeCommand = TypeCommand::write(sadd);
pub(crate) static SREM: TypeCommand = TypeCommand::write(srem);
pub(crate) static SPOP: TypeCommand = TypeCommand::write(spop);
pub(crate) static SMOVE: TypeCommand = TypeCommand::write(smove);
pub(crate) static SCARD: TypeCommand = TypeCommand::read(scard);
pub(crate) static SISMEMBER: TypeCommand = TypeCommand::read(sismember);
pub(crate) static SMISMEMBER: TypeCommand = TypeCommand::read(smismember);
pub(crate) static SMEMBERS: TypeCommand = TypeCommand::read(smembers);
pub(crate) static SRANDMEMBER: TypeCommand = TypeCommand::read(srandmember);
pub(crate) static SSCAN: TypeCommand = TypeCommand::read(sscan);

const OUT_OF_RANGE: &str = "ERR value is out of range, must be positive";

/// `opened` as a set.
pub(super) fn set<'s>(opened: &'s mut Opened, objects: &'s mut Objects<'_>) -> Set<'s> {
    Set::of(&mut opened.object, objects.pages())
}

/// Stores a set from which something was taken, and tells so.
fn store_less(objects: &mut Objects<'_>, opened: Opened, key: &[u8], event: &'static str) -> Done {
    let is_empty = opened.object.is_empty();
    objects.store(opened)?;
    objects.event(Classes::SET, event, key);
    if is_empty {
        objects.event(Classes::GENERIC, "del", key);
    }
    Ok(())
}

/// What `tell` finds in the set of the first argument, which is not changed.
fn look<T>(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    tell: impl FnOnce(&mut Set<'_>) -> Result<T>,
) -> Done<Option<T>> {
    let Some(mut opened) = objects.open(args.get(1), Kind::Set)? else { return Ok(None) };
    let told = tell(&mut set(&mut opened, objects));
    objects.close(opened);
    Ok(Some(told?))
}

fn sadd(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let mut opened = objects.open_or_new(key, Kind::Set)?;
    let mut set = set(&mut opened, objects);
    let mut added = 0;
    for member in args.from(2) {
        added += i64::from(set.add(member)?);
    }
    if added == 0 {
        objects.close(opened);
    } else {
        objects.store(opened)?;
        objects.event(Classes::SET, "sadd", key);
    }
    reply.integer(added);
    Ok(())
}

fn srem(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let Some(mut opened) = objects.open(key, Kind::Set)? else {
        reply.integer(0);
        return Ok(());
    };
    let mut set = set(&mut opened, objects);
    let mut removed = 0;
    for member in args.from(2) {
        removed += i64::from(set.remove(member)?);
    }
    match removed {
        0 => objects.close(opened),
        _ => store_less(objects, opened, key, "srem")?,
    }
    reply.integer(removed);
    Ok(())
}

fn spop(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    if args.len() > 3 {
        return Err(Failure::reply(SYNTAX));
    }
    let count = match args.len() {
        2 => None,
        _ => Some(
            parse_i64(args.get(2))
                .and_then(|count| u64::try_from(count).ok())
                .ok_or_else(|| Failure::reply(OUT_OF_RANGE))?,
        ),
    };
    let key = args.get(1);
    let Some(mut opened) = objects.open(key, Kind::Set)? else {
        match count {
            Some(_) => reply.set(0),
            None => reply.null(),
        }
        return Ok(());
    };
    if count == Some(0) {
        objects.close(opened);
        reply.set(0);
        return Ok(());
    }
    let mut prng = Prng::new(objects.prng().next_u64());
    let popped = set(&mut opened, objects).pop(count.unwrap_or(1), &mut prng)?;
    let mut removed = vec![&b"SREM"[..], key];
    removed.extend(popped.iter().map(|member| &member[..]));
    objects.tell(&removed);
    store_less(objects, opened, key, "spop")?;
    if count.is_some() {
        reply.set(popped.len());
    }
    popped.iter().for_each(|member| reply.bulk(member));
    Ok(())
}

fn smove(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (from, to, member) = (args.get(1), args.get(2), args.get(3));
    let Some(mut source) = objects.open(from, Kind::Set)? else {
        reply.integer(0);
        return Ok(());
    };
    if from == to {
        let is_there = set(&mut source, objects).contains(member);
        objects.close(source);
        reply.integer(i64::from(is_there?));
        return Ok(());
    }
    let mut target = match objects.open_or_new(to, Kind::Set) {
        Ok(target) => target,
        Err(failure) => {
            objects.close(source);
            return Err(failure);
        }
    };
    if !set(&mut source, objects).remove(member)? {
        objects.close(source);
        objects.close(target);
        reply.integer(0);
        return Ok(());
    }
    store_less(objects, source, from, "srem")?;
    match set(&mut target, objects).add(member)? {
        true => {
            objects.store(target)?;
            objects.event(Classes::SET, "sadd", to);
        }
        false => objects.close(target),
    }
    reply.integer(1);
    Ok(())
}

fn scard(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let len = look(objects, args, |set| Ok(set.len()))?;
    reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn sismember(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let is_there = look(objects, args, |set| set.contains(args.get(2)))?;
    reply.integer(i64::from(is_there.unwrap_or(false)));
    Ok(())
}

fn smismember(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    reply.array(args.len() - 2);
    let found = look(objects, args, |set| {
        args.from(2).try_for_each(|member| {
            reply.integer(i64::from(set.contains(member)?));
            Ok(())
        })
    })?;
    if found.is_none() {
        args.from(2).for_each(|_| reply.integer(0));
    }
    Ok(())
}

fn smembers(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut room = Room::new(args, reply.buffered());
    let found = look(objects, args, |set| {
        reply.set(set.len() as usize);
        set.scan(&mut |member| {
            reply.bulk(member);
            room.fits(reply.buffered())
        })
    })?;
    room.finish()?;
    if found.is_none() {
        reply.set(0);
    }
    Ok(())
}

fn srandmember(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    if args.len() > 3 {
        return Err(Failure::reply(SYNTAX));
    }
    let count = if args.len() == 3 { Some(Count::parse(args.get(2))?) } else { None };
    let Some(mut opened) = objects.open(args.get(1), Kind::Set)? else {
        match count {
            Some(_) => reply.array(0),
            None => reply.null(),
        }
        return Ok(());
    };
    let answered = answer_members(objects, &mut opened, args, count, reply);
    objects.close(opened);
    answered
}

/// Answers members by chance.
fn answer_members(
    objects: &mut Objects<'_>,
    opened: &mut Opened,
    args: Args<'_>,
    count: Option<Count>,
    reply: &mut Reply<'_>,
) -> Done {
    let mut prng = Prng::new(objects.prng().next_u64());
    let len = opened.object.len(0);
    let mut set = set(opened, objects);
    match count {
        None => reply.bulk(&set.at(prng.below(len))?.unwrap_or_default()),
        Some(Count::Distinct(count)) => {
            let ranks = distinct_below(len, count, &mut prng);
            reply.array(ranks.len());
            let mut tree = opened.object.tree(0, objects.pages());
            visit_ranks(&mut tree, &ranks, &mut |(member, _)| {
                reply.bulk(member);
                true
            })?;
        }
        Some(Count::Repeated(count)) => {
            reply.array(count as usize);
            repeat(args, count, reply, |reply| {
                reply.bulk(&set.at(prng.below(len))?.unwrap_or_default());
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn sscan(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let Some((scan, opened)) = Scan::open(objects, args, Kind::Set, reply)? else {
        return Ok(());
    };
    let mut each = |member: &[u8], _: &[u8], reply: &mut Reply<'_>| {
        let is_wanted = scan.wants(member);
        if is_wanted {
            reply.bulk(member);
        }
        usize::from(is_wanted)
    };
    scan.run(objects, opened, 0, &mut each, reply)
}
