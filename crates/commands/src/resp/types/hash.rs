//! Hashes.

use super::random::{Count, repeat};
use super::room::Room;
use super::scan::Scan;
use super::{Done, Failure, Objects, Opened, TypeCommand};
use crate::burst::Args;
use crate::resp::events::Classes;
use crate::resp::long_double::LongDouble;
use crate::resp::{NOT_INTEGER, SYNTAX, wrong_number};
use silica::engine::Result;
use silica_base::Prng;
use silica_proto::{Reply, Version, parse_i64};
use silica_types::{Direction, Hash, Kind, distinct_below, visit_ranks};

pub(crate) static HSET: TypeCommand = TypeCommand::write(hset);
pub(crate) static HSETNX: TypeCommand = TypeCommand::write(hsetnx);
pub(crate) static HDEL: TypeCommand = TypeCommand::write(hdel);
pub(crate) static HINCRBY: TypeCommand = TypeCommand::write(hincrby);
pub(crate) static HINCRBYFLOAT: TypeCommand = TypeCommand::write(hincrbyfloat);
pub(crate) static HGET: TypeCommand = TypeCommand::read(hget);
pub(crate) static HMGET: TypeCommand = TypeCommand::read(hmget);
pub(crate) static HGETALL: TypeCommand = TypeCommand::read(hgetall);
pub(crate) static HKEYS: TypeCommand = TypeCommand::read(hkeys);
pub(crate) static HVALS: TypeCommand = TypeCommand::read(hvals);
pub(crate) static HLEN: TypeCommand = TypeCommand::read(hlen);
pub(crate) static HEXISTS: TypeCommand = TypeCommand::read(hexists);
pub(crate) static HSTRLEN: TypeCommand = TypeCommand::read(hstrlen);
pub(crate) static HRANDFIELD: TypeCommand = TypeCommand::read(hrandfield);
pub(crate) static HSCAN: TypeCommand = TypeCommand::read(hscan);

/// Expired fields that a write to a hash removes at most.
const PURGED_MAX: u64 = 32;

/// `opened` as a hash at the time of the step.
pub(super) fn hash<'h>(opened: &'h mut Opened, objects: &'h mut Objects<'_>) -> Hash<'h> {
    let now_ms = objects.now_ms;
    Hash::of(&mut opened.object, objects.pages()).as_of(now_ms)
}

/// Removes some of the fields that have expired of a hash that is going to be stored, and tells so.
pub(super) fn purge(objects: &mut Objects<'_>, opened: &mut Opened, key: &[u8]) -> Done<bool> {
    let is_any = hash(opened, objects).purge(PURGED_MAX)? > 0;
    if is_any {
        objects.event(Classes::HASH, "hexpired", key);
    }
    Ok(is_any)
}

/// Stores a hash of which fields were removed, and tells of its end.
pub(super) fn store_less(objects: &mut Objects<'_>, opened: Opened, key: &[u8]) -> Done {
    let is_empty = opened.object.is_empty();
    objects.store(opened)?;
    if is_empty {
        objects.event(Classes::GENERIC, "del", key);
    }
    Ok(())
}

/// What `tell` finds in the hash of the first argument, which is not changed.
pub(super) fn look<T>(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    tell: impl FnOnce(&mut Hash<'_>) -> Result<T>,
) -> Done<Option<T>> {
    let Some(mut opened) = objects.open(args.get(1), Kind::Hash)? else { return Ok(None) };
    let told = tell(&mut hash(&mut opened, objects));
    objects.close(opened);
    Ok(Some(told?))
}

/// HSET, HMSET.
fn hset(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    if !args.len().is_multiple_of(2) {
        let name = if args.is(0, "hmset") { "hmset" } else { "hset" };
        return Err(Failure::Reply(wrong_number(name)));
    }
    let key = args.get(1);
    let mut opened = objects.open_or_new(key, Kind::Hash)?;
    purge(objects, &mut opened, key)?;
    let mut hash = hash(&mut opened, objects);
    let mut added = 0;
    for at in (2..args.len()).step_by(2) {
        added += i64::from(hash.put(args.get(at), args.get(at + 1))?.is_none());
    }
    objects.store(opened)?;
    objects.event(Classes::HASH, "hset", key);
    if args.is(0, "hmset") {
        reply.ok()
    } else {
        reply.integer(added)
    }
    Ok(())
}

fn hsetnx(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let mut opened = objects.open_or_new(key, Kind::Hash)?;
    if hash(&mut opened, objects).get(args.get(2))?.is_some() {
        objects.close(opened);
        reply.integer(0);
        return Ok(());
    }
    purge(objects, &mut opened, key)?;
    hash(&mut opened, objects).put(args.get(2), args.get(3))?;
    objects.store(opened)?;
    objects.event(Classes::HASH, "hset", key);
    reply.integer(1);
    Ok(())
}

fn hdel(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let Some(mut opened) = objects.open(key, Kind::Hash)? else {
        reply.integer(0);
        return Ok(());
    };
    let is_purged = purge(objects, &mut opened, key)?;
    let mut hash = hash(&mut opened, objects);
    let (before, mut removed) = (hash.stored_len(), 0);
    for field in args.from(2) {
        removed += i64::from(hash.remove(field)?.is_some());
    }
    let is_changed = is_purged || hash.stored_len() != before;
    if removed > 0 {
        objects.event(Classes::HASH, "hdel", key);
    }
    match is_changed {
        true => store_less(objects, opened, key)?,
        false => objects.close(opened),
    }
    reply.integer(removed);
    Ok(())
}

/// Sets a field to what `change` makes of its value, and keeps when it expires.
fn change_field(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    event: &'static str,
    change: impl FnOnce(Option<&[u8]>) -> std::result::Result<Vec<u8>, &'static str>,
) -> Done<(Vec<u8>, u64)> {
    let (key, field) = (args.get(1), args.get(2));
    let mut opened = objects.open_or_new(key, Kind::Hash)?;
    let old = hash(&mut opened, objects).expiring(field)?;
    let (value, expires) = old.map_or((None, 0), |(value, expires)| (Some(value), expires));
    let new = match change(value.as_deref()) {
        Ok(new) => new,
        Err(text) => return Err(objects.refuse(opened, text)),
    };
    purge(objects, &mut opened, key)?;
    hash(&mut opened, objects).put_expiring(field, &new, expires)?;
    objects.store(opened)?;
    objects.event(Classes::HASH, event, key);
    Ok((new, expires))
}

fn hincrby(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let by = parse_i64(args.get(3)).ok_or_else(|| Failure::reply(NOT_INTEGER))?;
    let mut sum = 0;
    change_field(objects, args, "hincrby", |old| {
        let old = old.map_or(Some(0), parse_i64).ok_or("ERR hash value is not an integer")?;
        sum = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        Ok(sum.to_string().into_bytes())
    })?;
    reply.integer(sum);
    Ok(())
}

fn hincrbyfloat(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let by = LongDouble::parse(args.get(3));
    let by = by.ok_or_else(|| Failure::reply("ERR value is not a valid float"))?;
    if by.digits().is_none() {
        return Err(Failure::reply("ERR value is NaN or Infinity"));
    }
    let (sum, expires) = change_field(objects, args, "hincrbyfloat", |old| {
        let old = old.map_or(LongDouble::parse(b"0"), LongDouble::parse);
        let old = old.ok_or("ERR hash value is not a float")?;
        let digits = old.plus(by).digits();
        Ok(digits.ok_or("ERR increment would produce NaN or Infinity")?.into_bytes())
    })?;
    if expires == 0 {
        // HSET would make a field stay that expires.
        objects.tell(&[b"HSET", args.get(1), args.get(2), &sum]);
    }
    reply.bulk(&sum);
    Ok(())
}

fn bulk_or_null(value: Option<&[u8]>, reply: &mut Reply<'_>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

fn hget(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let answer = |value: Option<&[u8]>| bulk_or_null(value, reply);
    let told = look(objects, args, |hash| hash.look_at(args.get(2), answer))?;
    if told.is_none() {
        reply.null();
    }
    Ok(())
}

fn hmget(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    reply.array(args.len() - 2);
    let found = look(objects, args, |hash| {
        args.from(2).try_for_each(|field| hash.look_at(field, |value| bulk_or_null(value, reply)))
    })?;
    if found.is_none() {
        args.from(2).for_each(|_| reply.null());
    }
    Ok(())
}

fn hgetall(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut room = Room::new(args, reply.buffered());
    let found = look(objects, args, |hash| {
        reply.map(hash.len()? as usize);
        hash.scan(b"", &mut |field, value| {
            reply.bulk(field);
            reply.bulk(value);
            room.fits(reply.buffered())
        })
    })?;
    room.finish()?;
    if found.is_none() {
        reply.map(0);
    }
    Ok(())
}

/// Answers what `each` writes of every field.
fn list_all(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    each: impl Fn(&[u8], &[u8], &mut Reply<'_>),
) -> Done {
    let mut room = Room::new(args, reply.buffered());
    let found = look(objects, args, |hash| {
        reply.array(hash.len()? as usize);
        hash.scan(b"", &mut |field, value| {
            each(field, value, reply);
            room.fits(reply.buffered())
        })
    })?;
    room.finish()?;
    if found.is_none() {
        reply.array(0);
    }
    Ok(())
}

fn hkeys(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    list_all(objects, args, reply, |field, _, reply| reply.bulk(field))
}

fn hvals(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    list_all(objects, args, reply, |_, value, reply| reply.bulk(value))
}

fn hlen(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let len = look(objects, args, |hash| hash.len())?;
    reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn hexists(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let value = look(objects, args, |hash| hash.get(args.get(2)))?.flatten();
    reply.integer(i64::from(value.is_some()));
    Ok(())
}

fn hstrlen(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let value = look(objects, args, |hash| hash.get(args.get(2)))?.flatten();
    reply.integer(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

/// How HRANDFIELD writes a field.
#[derive(Clone, Copy)]
struct Shape {
    with_values: bool,
}

impl Shape {
    /// The start of an array of `len` fields.
    fn start(self, len: usize, reply: &mut Reply<'_>) {
        let is_flat = self.with_values && reply.version() == Version::Resp2;
        reply.array(if is_flat { 2 * len } else { len });
    }

    fn write(self, field: &[u8], value: &[u8], reply: &mut Reply<'_>) {
        if self.with_values && reply.version() == Version::Resp3 {
            reply.array(2);
        }
        reply.bulk(field);
        if self.with_values {
            reply.bulk(value);
        }
    }
}

/// The ranks of the fields that have not expired; `None` if that is all of them.
fn live_ranks(opened: &mut Opened, objects: &mut Objects<'_>) -> Result<Option<Vec<u64>>> {
    if hash(opened, objects).expired()? == 0 {
        return Ok(None);
    }
    let (now_ms, mut rank, mut live) = (objects.now_ms, 0, Vec::new());
    let mut tree = opened.object.tree(0, objects.pages());
    tree.scan(0, Direction::Forward, &mut |_, stored| {
        live.extend(Hash::shown(stored, now_ms).map(|_| rank));
        rank += 1;
        true
    })?;
    Ok(Some(live))
}

fn hrandfield(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let count = if args.len() > 2 { Some(Count::parse(args.get(2))?) } else { None };
    let with_values = args.len() == 4 && args.is(3, "withvalues");
    if args.len() > 4 || (args.len() == 4 && !with_values) {
        return Err(Failure::reply(SYNTAX));
    }
    if with_values && count.is_some_and(|count| count.is_huge()) {
        return Err(Failure::reply("ERR value is out of range"));
    }
    let opened = objects.open(args.get(1), Kind::Hash)?;
    let Some(mut opened) = opened else {
        match count {
            Some(_) => reply.array(0),
            None => reply.null(),
        }
        return Ok(());
    };
    let shape = Shape { with_values };
    let answered = answer_fields(objects, &mut opened, args, (count, shape), reply);
    objects.close(opened);
    answered
}

/// Answers fields by chance.
fn answer_fields(
    objects: &mut Objects<'_>,
    opened: &mut Opened,
    args: Args<'_>,
    (count, shape): (Option<Count>, Shape),
    reply: &mut Reply<'_>,
) -> Done {
    let live = live_ranks(opened, objects)?;
    let mut prng = Prng::new(objects.prng().next_u64());
    let len = live.as_ref().map_or(opened.object.len(0), |live| live.len() as u64);
    let rank = |nth: u64| live.as_ref().map_or(nth, |live| live[nth as usize]);
    let mut hash = hash(opened, objects);
    match count {
        None if len == 0 => reply.null(),
        None => {
            let found = hash.at(rank(prng.below(len)))?;
            bulk_or_null(found.as_ref().map(|(field, _)| &field[..]), reply);
        }
        Some(_) if len == 0 => reply.array(0),
        Some(Count::Distinct(count)) => {
            let chosen = distinct_below(len, count, &mut prng);
            let ranks: Vec<u64> = chosen.into_iter().map(rank).collect();
            shape.start(ranks.len(), reply);
            let now_ms = objects.now_ms;
            let mut tree = opened.object.tree(0, objects.pages());
            visit_ranks(&mut tree, &ranks, &mut |(field, stored)| {
                shape.write(field, Hash::shown(stored, now_ms).unwrap_or_default(), reply);
                true
            })?;
        }
        Some(Count::Repeated(count)) => {
            shape.start(count as usize, reply);
            repeat(args, count, reply, |reply| {
                let (field, value) = hash.at(rank(prng.below(len)))?.unwrap_or_default();
                shape.write(&field, &value, reply);
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn hscan(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let Some((scan, opened)) = Scan::open(objects, args, Kind::Hash, reply)? else {
        return Ok(());
    };
    let now_ms = objects.now_ms;
    let mut each = |field: &[u8], stored: &[u8], reply: &mut Reply<'_>| {
        let Some(value) = Hash::shown(stored, now_ms).filter(|_| scan.wants(field)) else {
            return 0;
        };
        reply.bulk(field);
        if scan.is_bare {
            return 1;
        }
        reply.bulk(value);
        2
    };
    scan.run(objects, opened, 0, &mut each, reply)
}
