//! Lists.

use super::room::Room;
use super::{Done, Failure, Objects, Opened, TypeCommand};
use crate::burst::Args;
use crate::resp::events::Classes;
use crate::resp::{NOT_INTEGER, SYNTAX};
use crate::waiters::{Vain, Wait, timeout_ms};
use silica_proto::{Reply, parse_i64};
use silica_types::{Direction, Kind, List};

pub(crate) static PUSH: TypeCommand = TypeCommand::write(push);
pub(crate) static POP: TypeCommand = TypeCommand::write(pop);
pub(crate) static BPOP: TypeCommand = TypeCommand::write(blocking_pop);
pub(crate) static MPOP: TypeCommand = TypeCommand::write(mpop);
pub(crate) static BMPOP: TypeCommand = TypeCommand::write(blocking_mpop);
pub(crate) static MOVE: TypeCommand = TypeCommand::write(move_one);
pub(crate) static LLEN: TypeCommand = TypeCommand::read(llen);
pub(crate) static LRANGE: TypeCommand = TypeCommand::read(lrange);
pub(crate) static LINDEX: TypeCommand = TypeCommand::read(lindex);
pub(crate) static LSET: TypeCommand = TypeCommand::write(lset);
pub(crate) static LINSERT: TypeCommand = TypeCommand::write(linsert);
pub(crate) static LREM: TypeCommand = TypeCommand::write(lrem);
pub(crate) static LTRIM: TypeCommand = TypeCommand::write(ltrim);
pub(crate) static LPOS: TypeCommand = TypeCommand::read(lpos);

const OUT_OF_RANGE: &str = "ERR value is out of range, must be positive";

/// `opened` as a list.
fn list<'l>(opened: &'l mut Opened, objects: &'l mut Objects<'_>) -> List<'l> {
    List::of(&mut opened.object, objects.pages())
}

fn integer(arg: &[u8]) -> Done<i64> {
    parse_i64(arg).ok_or_else(|| Failure::reply(NOT_INTEGER))
}

/// Stores a list from which something was taken, and tells so.
fn store_taken(objects: &mut Objects<'_>, opened: Opened, key: &[u8], event: &'static str) -> Done {
    let is_empty = opened.object.is_empty();
    objects.store(opened)?;
    objects.event(Classes::LIST, event, key);
    if is_empty {
        objects.event(Classes::GENERIC, "del", key);
    }
    Ok(())
}

/// LPUSH, RPUSH, LPUSHX, RPUSHX.
fn push(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (name, key) = (args.get(0), args.get(1));
    let at_front = name[0].eq_ignore_ascii_case(&b'l');
    let mut opened = match name.len() == "lpushx".len() {
        false => objects.open_or_new(key, Kind::List)?,
        true => match objects.open(key, Kind::List)? {
            Some(opened) => opened,
            None => {
                reply.integer(0);
                return Ok(());
            }
        },
    };
    let mut list = list(&mut opened, objects);
    for value in args.from(2) {
        list.push(at_front, value)?;
    }
    let len = list.len();
    objects.store(opened)?;
    objects.event(Classes::LIST, if at_front { "lpush" } else { "rpush" }, key);
    reply.integer(len as i64);
    Ok(())
}

/// Removes up to `count` values of the end that `at_front` says, and answers them, as an array.
fn pop_many(
    objects: &mut Objects<'_>,
    (mut opened, key): (Opened, &[u8]),
    (at_front, count): (bool, u64),
    (args, reply): (Args<'_>, &mut Reply<'_>),
) -> Done {
    let mut room = Room::new(args, reply.buffered());
    let mut values = list(&mut opened, objects);
    let len = values.len();
    let count = count.min(len);
    reply.array(count as usize);
    let (first, direction) =
        if at_front { (0, Direction::Forward) } else { (len - 1, Direction::Backward) };
    let mut left = count;
    if count > 0 {
        values.scan(first, direction, &mut |value| {
            reply.bulk(value);
            left -= 1;
            left > 0 && room.fits(reply.buffered())
        })?;
        if let Err(failure) = room.finish() {
            objects.close(opened);
            return Err(failure);
        }
        let mut values = list(&mut opened, objects);
        values.remove(if at_front { 0..count } else { len - count..len })?;
    }
    store_taken(objects, opened, key, if at_front { "lpop" } else { "rpop" })
}

/// LPOP, RPOP.
fn pop(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (name, key) = (args.get(0), args.get(1));
    let at_front = name[0].eq_ignore_ascii_case(&b'l');
    let count = match args.len() {
        2 => None,
        3 => Some(
            parse_i64(args.get(2))
                .and_then(|count| u64::try_from(count).ok())
                .ok_or_else(|| Failure::reply(OUT_OF_RANGE))?,
        ),
        _ => {
            let name = if at_front { "lpop" } else { "rpop" };
            return Err(Failure::Reply(crate::resp::wrong_number(name)));
        }
    };
    let Some(mut opened) = objects.open(key, Kind::List)? else {
        if count.is_some() {
            reply.null_array()
        } else {
            reply.null()
        }
        return Ok(());
    };
    match count {
        Some(0) => {
            objects.close(opened);
            reply.array(0);
            Ok(())
        }
        Some(count) => pop_many(objects, (opened, key), (at_front, count), (args, reply)),
        None => {
            let value = list(&mut opened, objects).pop(at_front)?.unwrap_or_default();
            store_taken(objects, opened, key, if at_front { "lpop" } else { "rpop" })?;
            reply.bulk(&value);
            Ok(())
        }
    }
}

/// BLPOP, BRPOP.
fn blocking_pop(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let at_front = args.get(0)[1].eq_ignore_ascii_case(&b'l');
    let timeout_ms = timeout_ms(args.get(args.len() - 1)).map_err(Failure::reply)?;
    let keys = || (1..args.len() - 1).map(|at| args.get(at));
    for key in keys() {
        let Some(mut opened) = objects.open(key, Kind::List)? else { continue };
        let value = list(&mut opened, objects).pop(at_front)?.unwrap_or_default();
        store_taken(objects, opened, key, if at_front { "lpop" } else { "rpop" })?;
        reply.array(2);
        reply.bulk(key);
        reply.bulk(&value);
        return Ok(());
    }
    Err(wait(Kind::List, timeout_ms, keys(), Vain::Array))
}

/// The wait of a command that takes something away from one of `keys`, which is to be of `kind`:
/// those that wait for another one are woken beside it.
pub(super) fn wait<'k>(
    kind: Kind,
    timeout_ms: u64,
    keys: impl Iterator<Item = &'k [u8]>,
    vain: Vain,
) -> Failure {
    let keys = keys.map(Box::from).collect();
    let resolved = vec![kind.name().into()];
    Failure::Wait(Wait { timeout_ms, keys, vain, shares: false, resolved })
}

/// Where the end that `word` names is; true for the front.
fn is_front(word: &[u8]) -> Done<bool> {
    match () {
        () if word.eq_ignore_ascii_case(b"left") => Ok(true),
        () if word.eq_ignore_ascii_case(b"right") => Ok(false),
        () => Err(Failure::reply(SYNTAX)),
    }
}

/// The keys of LMPOP, whose number stands at `at`, and the end and the number of values behind
/// them.
fn mpop_args<'a>(args: Args<'a>, at: usize) -> Done<(Vec<&'a [u8]>, bool, u64)> {
    let keys = numbered_keys(args, at)?;
    let mut next = at + 1 + keys.len();
    if next >= args.len() {
        return Err(Failure::reply(SYNTAX));
    }
    let at_front = is_front(args.get(next))?;
    next += 1;
    let mut count = None;
    while next < args.len() {
        if !args.is(next, "count") || next + 1 == args.len() || count.is_some() {
            return Err(Failure::reply(SYNTAX));
        }
        let number = parse_i64(args.get(next + 1)).filter(|count| *count > 0);
        count = Some(number.ok_or_else(|| Failure::reply("ERR count should be greater than 0"))?);
        next += 2;
    }
    Ok((keys, at_front, count.unwrap_or(1) as u64))
}

/// The keys whose number stands at `at`, behind it.
pub(super) fn numbered_keys<'a>(args: Args<'a>, at: usize) -> Done<Vec<&'a [u8]>> {
    let wrong = || Failure::reply("ERR numkeys should be greater than 0");
    let count = parse_i64(args.get(at)).filter(|count| *count > 0).ok_or_else(wrong)?;
    match usize::try_from(count).ok().filter(|count| *count < args.len() - at) {
        Some(count) => Ok((at + 1..at + 1 + count).map(|at| args.get(at)).collect()),
        None => Err(Failure::reply(SYNTAX)),
    }
}

/// Takes values of the first list that there is; false if there is none.
fn mpop_first(
    objects: &mut Objects<'_>,
    (keys, at_front, count): &(Vec<&[u8]>, bool, u64),
    (args, reply): (Args<'_>, &mut Reply<'_>),
) -> Done<bool> {
    for key in keys {
        if let Some(opened) = objects.open(key, Kind::List)? {
            reply.array(2);
            reply.bulk(key);
            pop_many(objects, (opened, key), (*at_front, *count), (args, reply))?;
            return Ok(true);
        }
    }
    Ok(false)
}

fn mpop(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let wanted = mpop_args(args, 1)?;
    if !mpop_first(objects, &wanted, (args, reply))? {
        reply.null_array();
    }
    Ok(())
}

fn blocking_mpop(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let wanted = mpop_args(args, 2)?;
    let timeout_ms = timeout_ms(args.get(1)).map_err(Failure::reply)?;
    match mpop_first(objects, &wanted, (args, reply))? {
        true => Ok(()),
        false => Err(wait(Kind::List, timeout_ms, wanted.0.into_iter(), Vain::Array)),
    }
}

/// LMOVE, RPOPLPUSH, BLMOVE, BRPOPLPUSH.
fn move_one(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let blocks = args.get(0)[0].eq_ignore_ascii_case(&b'b');
    let (from, to) = (args.get(1), args.get(2));
    let is_rpoplpush = args.len() - usize::from(blocks) == 3;
    let (from_front, to_front) = match is_rpoplpush {
        true => (false, true),
        false => (is_front(args.get(3))?, is_front(args.get(4))?),
    };
    let timeout_ms = match blocks {
        true => timeout_ms(args.get(args.len() - 1)).map_err(Failure::reply)?,
        false => 0,
    };
    let Some(mut source) = objects.open(from, Kind::List)? else {
        if blocks {
            return Err(wait(Kind::List, timeout_ms, std::iter::once(from), Vain::Value));
        }
        reply.null();
        return Ok(());
    };
    let pushed = if to_front { "lpush" } else { "rpush" };
    let popped = if from_front { "lpop" } else { "rpop" };
    if from == to {
        let mut values = list(&mut source, objects);
        let value = values.pop(from_front)?.unwrap_or_default();
        values.push(to_front, &value)?;
        objects.store(source)?;
        objects.event(Classes::LIST, pushed, to);
        objects.event(Classes::LIST, popped, from);
        reply.bulk(&value);
        return Ok(());
    }
    let mut target = match objects.open_or_new(to, Kind::List) {
        Ok(target) => target,
        Err(failure) => {
            objects.close(source);
            return Err(failure);
        }
    };
    let value = list(&mut source, objects).pop(from_front)?.unwrap_or_default();
    list(&mut target, objects).push(to_front, &value)?;
    objects.store(target)?;
    objects.event(Classes::LIST, pushed, to);
    store_taken(objects, source, from, popped)?;
    reply.bulk(&value);
    Ok(())
}

/// Answers what `tell` finds in the list of the second argument, which is not changed.
fn look<T>(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    tell: impl FnOnce(&mut List<'_>) -> silica::engine::Result<T>,
) -> Done<Option<T>> {
    let Some(mut opened) = objects.open(args.get(1), Kind::List)? else { return Ok(None) };
    let told = tell(&mut list(&mut opened, objects));
    objects.close(opened);
    Ok(Some(told?))
}

fn llen(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let len = look(objects, args, |list| Ok(list.len()))?;
    reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn lrange(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (start, end) = (integer(args.get(2))?, integer(args.get(3))?);
    let mut room = Room::new(args, reply.buffered());
    let found = look(objects, args, |list| {
        let places = list.places(start, end);
        let mut left = places.end - places.start;
        reply.array(left as usize);
        if left == 0 {
            return Ok(());
        }
        list.scan(places.start, Direction::Forward, &mut |value| {
            reply.bulk(value);
            left -= 1;
            left > 0 && room.fits(reply.buffered())
        })
    })?;
    if found.is_none() {
        reply.array(0);
    }
    room.finish()
}

fn lindex(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let index = integer(args.get(2));
    let found = look(objects, args, |list| {
        let place = index.as_ref().ok().and_then(|index| list.place(*index));
        place.map_or(Ok(None), |place| list.at(place))
    })?;
    match found {
        None => reply.null(),
        Some(value) => {
            index?;
            match value {
                Some(value) => reply.bulk(&value),
                None => reply.null(),
            }
        }
    }
    Ok(())
}

fn lset(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let Some(mut opened) = objects.open(key, Kind::List)? else {
        return Err(Failure::reply("ERR no such key"));
    };
    let Some(index) = parse_i64(args.get(2)) else {
        return Err(objects.refuse(opened, NOT_INTEGER));
    };
    let mut values = list(&mut opened, objects);
    let Some(place) = values.place(index) else {
        return Err(objects.refuse(opened, "ERR index out of range"));
    };
    values.set(place, args.get(3))?;
    objects.store(opened)?;
    objects.event(Classes::LIST, "lset", key);
    reply.ok();
    Ok(())
}

/// The place of the first value equal to `wanted`.
fn place_of(list: &mut List<'_>, wanted: &[u8]) -> silica::engine::Result<Option<u64>> {
    let (mut place, mut found) = (0, None);
    list.scan(0, Direction::Forward, &mut |value| {
        if value == wanted {
            found = Some(place);
        }
        place += 1;
        found.is_none()
    })?;
    Ok(found)
}

fn linsert(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let after = match () {
        () if args.is(2, "before") => 0,
        () if args.is(2, "after") => 1,
        () => return Err(Failure::reply(SYNTAX)),
    };
    let Some(mut opened) = objects.open(key, Kind::List)? else {
        reply.integer(0);
        return Ok(());
    };
    let mut values = list(&mut opened, objects);
    let Some(place) = place_of(&mut values, args.get(3))? else {
        objects.close(opened);
        reply.integer(-1);
        return Ok(());
    };
    values.insert(place + after, args.get(4))?;
    let len = values.len();
    objects.store(opened)?;
    objects.event(Classes::LIST, "linsert", key);
    reply.integer(len as i64);
    Ok(())
}

fn lrem(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (key, count, wanted) = (args.get(1), integer(args.get(2))?, args.get(3));
    let Some(mut opened) = objects.open(key, Kind::List)? else {
        reply.integer(0);
        return Ok(());
    };
    let mut values = list(&mut opened, objects);
    let len = values.len();
    let max = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let backward = count < 0;
    let (mut seen, mut places) = (0, Vec::new());
    let (first, direction) =
        if backward { (len - 1, Direction::Backward) } else { (0, Direction::Forward) };
    values.scan(first, direction, &mut |value| {
        if value == wanted {
            places.push(if backward { len - 1 - seen } else { seen });
        }
        seen += 1;
        (places.len() as u64) < max
    })?;
    if places.is_empty() {
        objects.close(opened);
        reply.integer(0);
        return Ok(());
    }
    // From the last one on, so that the places of the others stay.
    places.sort_unstable();
    for place in places.iter().rev() {
        values.remove(*place..*place + 1)?;
    }
    store_taken(objects, opened, key, "lrem")?;
    reply.integer(places.len() as i64);
    Ok(())
}

fn ltrim(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (key, start, end) = (args.get(1), integer(args.get(2))?, integer(args.get(3))?);
    if let Some(mut opened) = objects.open(key, Kind::List)? {
        let mut values = list(&mut opened, objects);
        let kept = values.places(start, end);
        let len = values.len();
        values.remove(kept.end..len)?;
        values.remove(0..kept.start.min(kept.end))?;
        store_taken(objects, opened, key, "ltrim")?;
    }
    reply.ok();
    Ok(())
}

/// What LPOS is asked for.
struct Wanted {
    /// Which one counts first; from the end if it is negative.
    rank: i64,
    /// How many are told; `None` for one, not as an array.
    count: Option<u64>,
    /// How many values are looked at, at most.
    len_max: u64,
}

fn lpos_args(args: Args<'_>) -> Done<Wanted> {
    let mut wanted = Wanted { rank: 1, count: None, len_max: u64::MAX };
    for at in (3..args.len()).step_by(2) {
        let positive = |what: &str| {
            // Redis says so of what is no number, too.
            let number = parse_i64(args.get(at + 1)).and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| Failure::reply(format!("ERR {what} can't be negative")))
        };
        if at + 1 == args.len() {
            return Err(Failure::reply(SYNTAX));
        }
        if args.is(at, "rank") {
            wanted.rank = integer(args.get(at + 1))?;
            if wanted.rank == 0 || wanted.rank == i64::MIN {
                return Err(Failure::reply(match wanted.rank {
                    0 => {
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from \
                          the second ... or use negative to start from the end of the list"
                    }
                    _ => {
                        "ERR value is out of range, value must between -9223372036854775807 and \
                          9223372036854775807"
                    }
                }));
            }
        } else if args.is(at, "count") {
            wanted.count = Some(positive("COUNT")?);
        } else if args.is(at, "maxlen") {
            wanted.len_max = match positive("MAXLEN")? {
                0 => u64::MAX,
                len => len,
            };
        } else {
            return Err(Failure::reply(SYNTAX));
        }
    }
    Ok(wanted)
}

fn lpos(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let Wanted { rank, count, len_max } = lpos_args(args)?;
    let max = match count {
        Some(0) => u64::MAX,
        Some(count) => count,
        None => 1,
    };
    let found = look(objects, args, |list| {
        let (len, backward) = (list.len(), rank < 0);
        let (first, direction) =
            if backward { (len - 1, Direction::Backward) } else { (0, Direction::Forward) };
        let (mut seen, mut skip, mut places) = (0, rank.unsigned_abs() - 1, Vec::new());
        list.scan(first, direction, &mut |value| {
            if value == args.get(2) {
                match skip {
                    0 => places.push(if backward { len - 1 - seen } else { seen }),
                    _ => skip -= 1,
                }
            }
            seen += 1;
            (places.len() as u64) < max && seen < len_max
        })?;
        Ok(places)
    })?;
    let places = found.unwrap_or_default();
    match (count, places.first()) {
        (None, Some(place)) => reply.integer(*place as i64),
        (None, None) => reply.null(),
        (Some(_), _) => {
            reply.array(places.len());
            places.iter().for_each(|place| reply.integer(*place as i64));
        }
    }
    Ok(())
}
