//! Fields of hashes that expire: HEXPIRE and its family, HGETEX, HSETEX, HGETDEL.
//!
//! A field that has expired is not there from then on. It is removed by one of the next writes to
//! its hash, each of which removes some ([`purge`]).

use super::hash::{hash, look, purge, store_less};
use super::{Done, Failure, Objects, Opened, TypeCommand};
use crate::burst::Args;
use crate::resp::NOT_INTEGER;
use crate::resp::events::Classes;
use silica_proto::{Reply, parse_i64};
use silica_types::Kind;
use std::ops::Range;

pub(crate) static HEXPIRE: TypeCommand = TypeCommand::write(hexpire);
pub(crate) static HPEXPIRE: TypeCommand = TypeCommand::write(hpexpire);
pub(crate) static HEXPIREAT: TypeCommand = TypeCommand::write(hexpireat);
pub(crate) static HPEXPIREAT: TypeCommand = TypeCommand::write(hpexpireat);
pub(crate) static HPERSIST: TypeCommand = TypeCommand::write(hpersist);
pub(crate) static HTTL: TypeCommand = TypeCommand::read(httl);
pub(crate) static HPTTL: TypeCommand = TypeCommand::read(hpttl);
pub(crate) static HEXPIRETIME: TypeCommand = TypeCommand::read(hexpiretime);
pub(crate) static HPEXPIRETIME: TypeCommand = TypeCommand::read(hpexpiretime);
pub(crate) static HGETDEL: TypeCommand = TypeCommand::write(hgetdel);
pub(crate) static HGETEX: TypeCommand = TypeCommand::write(hgetex);
pub(crate) static HSETEX: TypeCommand = TypeCommand::write(hsetex);

/// The last time at which a field may expire, in Unix milliseconds, as in Redis.
const TIME_MAX_MS: i64 = (1 << 46) - 1;

const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const NO_NUMBER: &str = "ERR Number of fields must be a positive integer";
const NO_NUMBER_EXPIRE: &str = "ERR Parameter `numFields` should be greater than 0";
const OTHER_NUMBER: &str = "ERR The `numfields` parameter must match the number of arguments";

/// Answers about one field.
const NO_FIELD: i64 = -2;
const NO_TIME: i64 = -1;
const NOT_MET: i64 = 0;
const SET: i64 = 1;
const REMOVED: i64 = 2;

/// How a time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    /// Milliseconds in one.
    ms: i64,
    /// Counted from now, and not from 1970.
    is_relative: bool,
}

impl Unit {
    const EX: Unit = Unit { ms: 1000, is_relative: true };
    const PX: Unit = Unit { ms: 1, is_relative: true };
    const EXAT: Unit = Unit { ms: 1000, is_relative: false };
    const PXAT: Unit = Unit { ms: 1, is_relative: false };

    fn base_ms(self, now_ms: u64) -> i64 {
        if self.is_relative { now_ms as i64 } else { 0 }
    }

    /// The Unix milliseconds that `arg` means to the command `name`.
    fn at_ms(self, arg: &[u8], now_ms: u64, name: &str) -> Done<u64> {
        let time = parse_i64(arg).ok_or_else(|| Failure::reply(NOT_INTEGER))?;
        if time < 0 {
            return Err(Failure::reply("ERR invalid expire time, must be >= 0"));
        }
        let time = time.checked_mul(self.ms).and_then(|ms| ms.checked_add(self.base_ms(now_ms)));
        match time.filter(|time| *time <= TIME_MAX_MS) {
            Some(time) => Ok(time as u64),
            None => Err(Failure::Reply(format!("ERR invalid expire time in '{name}' command"))),
        }
    }
}

/// The places of fields of `args`: behind the word FIELDS at `at`, and their number. Each takes
/// `width` arguments.
fn fields(
    args: Args<'_>,
    at: usize,
    width: usize,
    no_number: &'static str,
) -> std::result::Result<Range<usize>, &'static str> {
    if at >= args.len() || !args.is(at, "fields") {
        return Err(NO_FIELDS);
    }
    let number = (at + 1 < args.len()).then(|| parse_i64(args.get(at + 1))).flatten();
    let number = number.filter(|number| *number > 0).ok_or(no_number)?;
    let range = at + 2..args.len();
    let is_right = usize::try_from(number).ok().and_then(|number| number.checked_mul(width));
    if is_right == Some(range.len()) { Ok(range) } else { Err(OTHER_NUMBER) }
}

/// Answers -2 for each field of a hash that is not there.
fn none_there(count: usize, reply: &mut Reply<'_>) {
    reply.array(count);
    (0..count).for_each(|_| reply.integer(NO_FIELD));
}

/// When a field is given a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// It has no time yet.
    New,
    /// It has one.
    Old,
    /// It expires earlier than that.
    Later,
    /// It expires later than that, or never.
    Earlier,
}

impl Condition {
    fn parse(arg: &[u8]) -> Option<Condition> {
        match arg.to_ascii_lowercase().as_slice() {
            b"nx" => Some(Condition::New),
            b"xx" => Some(Condition::Old),
            b"gt" => Some(Condition::Later),
            b"lt" => Some(Condition::Earlier),
            _ => None,
        }
    }

    /// True if a field that expires at `old`, 0 for never, may expire at `new`.
    fn allows(self, old: u64, new: u64) -> bool {
        match self {
            Condition::Always => true,
            Condition::New => old == 0,
            Condition::Old => old != 0,
            Condition::Later => old != 0 && new > old,
            Condition::Earlier => old == 0 || new < old,
        }
    }
}

/// What a command has done to the fields of a hash.
#[derive(Debug, Default)]
struct Effects {
    is_expiring: bool,
    is_persisted: bool,
    is_removed: bool,
    is_set: bool,
}

impl Effects {
    fn are_any(&self) -> bool {
        self.is_expiring || self.is_persisted || self.is_removed || self.is_set
    }

    /// Stores the hash if anything was done, and tells what.
    fn finish(&self, objects: &mut Objects<'_>, mut opened: Opened, key: &[u8]) -> Done {
        if !self.are_any() {
            objects.close(opened);
            return Ok(());
        }
        purge(objects, &mut opened, key)?;
        let events = [
            (self.is_set, "hset"),
            (self.is_removed, "hdel"),
            (self.is_expiring, "hexpire"),
            (self.is_persisted, "hpersist"),
        ];
        for (_, name) in events.into_iter().filter(|(is_told, _)| *is_told) {
            objects.event(Classes::HASH, name, key);
        }
        store_less(objects, opened, key)
    }

    /// Makes a field that is there expire at a time, or removes it if that is over.
    fn set_time(
        &mut self,
        objects: &mut Objects<'_>,
        opened: &mut Opened,
        field: &[u8],
        at_ms: u64,
    ) -> Done<i64> {
        if at_ms <= objects.now_ms {
            hash(opened, objects).remove(field)?;
            self.is_removed = true;
            return Ok(REMOVED);
        }
        hash(opened, objects).expire(field, at_ms)?;
        self.is_expiring = true;
        Ok(SET)
    }
}

/// Sets when fields expire: the command `name`.
fn set_times(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    (name, unit): (&str, Unit),
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.get(1);
    let opened = objects.open(key, Kind::Hash)?;
    let wanted = unit.at_ms(args.get(2), objects.now_ms, name).and_then(|at_ms| {
        let condition = Condition::parse(args.get(3));
        let at = 3 + usize::from(condition.is_some());
        let range = fields(args, at, 1, NO_NUMBER_EXPIRE).map_err(Failure::reply)?;
        Ok((at_ms, condition.unwrap_or(Condition::Always), range))
    });
    let (at_ms, condition, range) = match wanted {
        Ok(wanted) => wanted,
        Err(failure) => {
            opened.into_iter().for_each(|opened| objects.close(opened));
            return Err(failure);
        }
    };
    let Some(mut opened) = opened else {
        none_there(range.len(), reply);
        return Ok(());
    };
    reply.array(range.len());
    let at = at_ms.to_string();
    let mut told = vec![&b"HPEXPIREAT"[..], key, at.as_bytes()];
    told.extend(args.from(3));
    objects.tell(&told);
    let mut effects = Effects::default();
    for field in range.map(|at| args.get(at)) {
        let answer = match hash(&mut opened, objects).expiring(field)? {
            None => NO_FIELD,
            Some((_, old)) if !condition.allows(old, at_ms) => NOT_MET,
            Some(_) => effects.set_time(objects, &mut opened, field, at_ms)?,
        };
        reply.integer(answer);
    }
    effects.finish(objects, opened, key)
}

fn hexpire(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    set_times(objects, args, ("hexpire", Unit::EX), reply)
}

fn hpexpire(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    set_times(objects, args, ("hpexpire", Unit::PX), reply)
}

fn hexpireat(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    set_times(objects, args, ("hexpireat", Unit::EXAT), reply)
}

fn hpexpireat(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    set_times(objects, args, ("hpexpireat", Unit::PXAT), reply)
}

/// Opens the hash of a command whose fields stand behind its key.
fn open_fields(objects: &mut Objects<'_>, args: Args<'_>) -> Done<(Option<Opened>, Range<usize>)> {
    let opened = objects.open(args.get(1), Kind::Hash)?;
    match fields(args, 2, 1, NO_NUMBER) {
        Ok(range) => Ok((opened, range)),
        Err(text) => {
            opened.into_iter().for_each(|opened| objects.close(opened));
            Err(Failure::reply(text))
        }
    }
}

fn hpersist(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (opened, range) = open_fields(objects, args)?;
    let Some(mut opened) = opened else {
        none_there(range.len(), reply);
        return Ok(());
    };
    reply.array(range.len());
    let mut effects = Effects::default();
    for field in range.map(|at| args.get(at)) {
        let mut hash = hash(&mut opened, objects);
        let answer = match hash.expiring(field)? {
            None => NO_FIELD,
            Some((_, 0)) => NO_TIME,
            Some(_) => {
                hash.expire(field, 0)?;
                effects.is_persisted = true;
                SET
            }
        };
        reply.integer(answer);
    }
    effects.finish(objects, opened, args.get(1))
}

/// Answers when fields expire, in units of `unit`.
fn tell_times(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    unit: Unit,
    reply: &mut Reply<'_>,
) -> Done {
    let base_ms = unit.base_ms(objects.now_ms);
    let (opened, range) = open_fields(objects, args)?;
    let Some(opened) = opened else {
        none_there(range.len(), reply);
        return Ok(());
    };
    objects.close(opened);
    reply.array(range.len());
    look(objects, args, |hash| {
        range.map(|at| args.get(at)).try_for_each(|field| {
            reply.integer(match hash.expiring(field)? {
                None => NO_FIELD,
                Some((_, 0)) => NO_TIME,
                Some((_, at_ms)) => (at_ms as i64 - base_ms + unit.ms - 1) / unit.ms,
            });
            Ok(())
        })
    })?;
    Ok(())
}

fn httl(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    tell_times(objects, args, Unit::EX, reply)
}

fn hpttl(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    tell_times(objects, args, Unit::PX, reply)
}

fn hexpiretime(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    tell_times(objects, args, Unit::EXAT, reply)
}

fn hpexpiretime(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    tell_times(objects, args, Unit::PXAT, reply)
}

fn bulk_or_null(value: Option<&[u8]>, reply: &mut Reply<'_>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

fn hgetdel(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (opened, range) = open_fields(objects, args)?;
    reply.array(range.len());
    let Some(mut opened) = opened else {
        range.for_each(|_| reply.null());
        return Ok(());
    };
    let mut told = vec![&b"HDEL"[..], args.get(1)];
    told.extend(args.from(range.start));
    objects.tell(&told);
    let mut effects = Effects::default();
    for field in range.map(|at| args.get(at)) {
        let value = match hash(&mut opened, objects).get(field)? {
            Some(_) => hash(&mut opened, objects).remove(field)?,
            None => None,
        };
        effects.is_removed |= value.is_some();
        bulk_or_null(value.as_deref(), reply);
    }
    effects.finish(objects, opened, args.get(1))
}

/// What HGETEX and HSETEX do to the times of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    /// Nothing is said of them.
    Unsaid,
    Keep,
    Remove,
    Set(u64),
}

/// What stands before FIELDS.
struct Options {
    times: Times,
    /// HSETEX: only if all fields are there (true), or none is (false).
    are_there: Option<bool>,
    fields: Range<usize>,
}

/// The options of HGETEX or HSETEX; with KEEPTTL, FNX and FXX if `sets`, else with PERSIST.
fn options(args: Args<'_>, now_ms: u64, sets: bool) -> Done<Options> {
    let name = if sets { "hsetex" } else { "hgetex" };
    let wrong = |text: &'static str| Failure::reply(text);
    let mut options = Options { times: Times::Unsaid, are_there: None, fields: 0..0 };
    let mut at = 2;
    while at < args.len() && !args.is(at, "fields") {
        let unit = match args.get(at).to_ascii_lowercase().as_slice() {
            b"ex" => Some(Unit::EX),
            b"px" => Some(Unit::PX),
            b"exat" => Some(Unit::EXAT),
            b"pxat" => Some(Unit::PXAT),
            _ => None,
        };
        let times = match unit {
            Some(unit) if at + 1 < args.len() => {
                at += 1;
                Times::Set(unit.at_ms(args.get(at), now_ms, name)?)
            }
            None if !sets && args.is(at, "persist") => Times::Remove,
            None if sets && args.is(at, "keepttl") => Times::Keep,
            None if sets && (args.is(at, "fnx") || args.is(at, "fxx")) => {
                if options.are_there.is_some() {
                    return Err(wrong("ERR Only one of FXX or FNX arguments can be specified"));
                }
                options.are_there = Some(args.is(at, "fxx"));
                Times::Unsaid
            }
            _ => return Err(Failure::reply(format!("ERR unknown argument: {}", shown(args, at)))),
        };
        if times != Times::Unsaid {
            if options.times != Times::Unsaid {
                return Err(wrong(if sets {
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"
                } else {
                    "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified"
                }));
            }
            options.times = times;
        }
        at += 1;
    }
    options.fields = fields(args, at, if sets { 2 } else { 1 }, NO_NUMBER).map_err(wrong)?;
    Ok(options)
}

fn shown(args: Args<'_>, at: usize) -> String {
    String::from_utf8_lossy(args.get(at)).into_owned()
}

fn hgetex(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let opened = objects.open(args.get(1), Kind::Hash)?;
    let options = match options(args, objects.now_ms, false) {
        Ok(options) => options,
        Err(failure) => {
            opened.into_iter().for_each(|opened| objects.close(opened));
            return Err(failure);
        }
    };
    reply.array(options.fields.len());
    let Some(mut opened) = opened else {
        options.fields.for_each(|_| reply.null());
        return Ok(());
    };
    let fields: Vec<&[u8]> = options.fields.clone().map(|at| args.get(at)).collect();
    tell_times_of(objects, args.get(1), options.times, &fields);
    let mut effects = Effects::default();
    for field in fields {
        let Some((value, expires)) = hash(&mut opened, objects).expiring(field)? else {
            reply.null();
            continue;
        };
        reply.bulk(&value);
        match options.times {
            Times::Set(at_ms) => {
                effects.set_time(objects, &mut opened, field, at_ms)?;
            }
            Times::Remove if expires != 0 => {
                hash(&mut opened, objects).expire(field, 0)?;
                effects.is_persisted = true;
            }
            _ => {}
        }
    }
    effects.finish(objects, opened, args.get(1))
}

/// Replicas are told when fields expire.
fn tell_times_of(objects: &mut Objects<'_>, key: &[u8], times: Times, fields: &[&[u8]]) {
    let (at, count) = match times {
        Times::Set(at) => (at.to_string(), fields.len().to_string()),
        _ => (String::new(), fields.len().to_string()),
    };
    let mut told = match times {
        Times::Set(_) => vec![&b"HPEXPIREAT"[..], key, at.as_bytes()],
        Times::Remove => vec![&b"HPERSIST"[..], key],
        Times::Unsaid | Times::Keep => return,
    };
    told.extend([&b"FIELDS"[..], count.as_bytes()]);
    told.extend(fields);
    objects.tell(&told);
}

fn hsetex(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let options = options(args, objects.now_ms, true)?;
    let key = args.get(1);
    let mut opened = objects.open_or_new(key, Kind::Hash)?;
    let pairs = options.fields.step_by(2).map(|at| (args.get(at), args.get(at + 1)));
    if let Some(are_there) = options.are_there {
        for (field, _) in pairs.clone() {
            if hash(&mut opened, objects).get(field)?.is_some() != are_there {
                objects.close(opened);
                reply.integer(0);
                return Ok(());
            }
        }
    }
    if options.times != Times::Keep {
        let mut told = vec![&b"HSET"[..], key];
        pairs.clone().for_each(|(field, value)| told.extend([field, value]));
        objects.tell(&told);
        let fields: Vec<&[u8]> = pairs.clone().map(|(field, _)| field).collect();
        tell_times_of(objects, key, options.times, &fields);
    }
    let mut effects = Effects { is_set: true, ..Effects::default() };
    for (field, value) in pairs {
        let old = match options.times {
            Times::Keep => hash(&mut opened, objects).expiring(field)?,
            _ => None,
        };
        let kept = old.map_or(0, |(_, expires)| expires);
        hash(&mut opened, objects).put_expiring(field, value, kept)?;
        if let Times::Set(at_ms) = options.times {
            effects.set_time(objects, &mut opened, field, at_ms)?;
        }
    }
    effects.finish(objects, opened, key)?;
    reply.integer(1);
    Ok(())
}
