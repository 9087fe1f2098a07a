//! Commands that write.

use super::bits::grown;
use super::expiry::{Expiry, When};
use super::long_double::LongDouble;
use super::types::WRONG_TYPE;
use super::{Keyspace, NOT_INTEGER, SYNTAX, VALUE_BYTES_MAX, atomic, out_of_memory, wrong_number};
use crate::burst::Args;
use crate::table::{Answer, Decide, Modify, Run, Write};
use silica::engine::{Durability, EntryRef, GetSink, Result, Update, WriteBatch};
use silica_proto::{Reply, append_i64, parse_i64};
use silica_types::is_marked;

pub(crate) static SET: Write =
    Write { refuse: |_| None, value_at: 2, apply: put_pairs, reply: |_, reply| reply.ok() };
static SET_EXPIRING: Write = Write {
    refuse: |args| set_options(args).err(),
    value_at: 2,
    apply: put_expiring,
    reply: |_, reply| reply.ok(),
};
pub(crate) static MSET: Write =
    Write { refuse: odd_pairs, value_at: 0, apply: put_pairs, reply: |_, reply| reply.ok() };

/// A SET that asks for nothing but an expiry is written blindly; others have to look first.
pub(crate) fn choose_set(args: Args<'_>) -> Run {
    match args.len() {
        3 => Run::Write(&SET),
        5 if When::named(args.get(3)).is_some() => Run::Write(&SET_EXPIRING),
        _ => Run::Update(&SET_WITH_OPTIONS),
    }
}

/// A [`Modify`] of one key of whatever type.
pub(crate) const fn any_one(decide: Decide) -> Modify {
    Modify { any: true, ..one(decide) }
}

/// A [`Modify`] of one key that is a string.
pub(crate) const fn one(decide: Decide) -> Modify {
    Modify { many: false, any: false, refuse: |_| None, decide }
}

static SET_WITH_OPTIONS: Modify = Modify {
    many: false,
    any: true,
    refuse: |args| set_options(args).err(),
    decide: set_with_options,
};
pub(crate) static SETNX: Modify = any_one(setnx);
pub(crate) static GETSET: Modify = one(getset);
pub(crate) static GETDEL: Modify = one(getdel);
pub(crate) static DEL: Modify = Modify { many: true, any: true, refuse: |_| None, decide: del };
pub(crate) static APPEND: Modify = one(append);
pub(crate) static SETRANGE: Modify = Modify {
    many: false,
    any: false,
    refuse: |args| setrange_offset(args).err(),
    decide: setrange,
};
pub(crate) static INCR: Modify = one(|_, old, _| add(old, 1));
pub(crate) static DECR: Modify = one(|_, old, _| add(old, -1));
pub(crate) static INCRBY: Modify =
    Modify { many: false, any: false, refuse: |args| increment(args).err(), decide: by_argument };
pub(crate) static DECRBY: Modify =
    Modify { many: false, any: false, refuse: |args| increment(args).err(), decide: by_argument };
pub(crate) static INCRBYFLOAT: Modify = one(incrbyfloat);

fn odd_pairs(args: Args<'_>) -> Option<String> {
    let name = || if args.is(0, "mset") { "mset" } else { "msetnx" };
    args.len().is_multiple_of(2).then(|| wrong_number(name()))
}

fn put_pairs<'a>(args: Args<'a>, _: u64, batch: &mut WriteBatch<'a>) {
    for index in (1..args.len()).step_by(2) {
        batch.put(args.get(index), args.get(index + 1));
    }
}

/// When SET stores.
#[derive(Clone, Copy, PartialEq)]
enum Condition<'a> {
    Always,
    Missing,
    Present,
    /// The value is this one.
    Equal(&'a [u8]),
}

/// What the options of SET say.
#[derive(Clone, Copy)]
struct SetOptions<'a> {
    condition: Condition<'a>,
    /// The old value is asked for.
    get: bool,
    expiry: Expiry,
}

fn set_options(args: Args<'_>) -> Result<SetOptions<'_>, String> {
    let syntax = || SYNTAX.to_string();
    let (mut condition, mut get) = (Condition::Always, false);
    // A time is looked at when all words are known, as in Redis.
    let (mut keeps, mut given) = (false, None);
    let mut index = 3;
    while index < args.len() {
        let word = args.get(index);
        let next = if index + 1 < args.len() { Some(args.get(index + 1)) } else { None };
        if let Some(when) = When::named(word) {
            let is_first = given.is_none() && !keeps;
            given = Some((when, next.filter(|_| is_first).ok_or_else(syntax)?));
            index += 1;
        } else if args.is(index, "keepttl") && given.is_none() {
            keeps = true;
        } else if args.is(index, "get") {
            get = true;
        } else {
            let chosen = match &word.to_ascii_uppercase()[..] {
                b"NX" => Condition::Missing,
                b"XX" => Condition::Present,
                b"IFEQ" => {
                    index += 1;
                    Condition::Equal(next.ok_or_else(syntax)?)
                }
                _ => return Err(syntax()),
            };
            // Redis lets a word be said twice, but no two that differ.
            if ![Condition::Always, chosen].contains(&condition) {
                return Err(syntax());
            }
            condition = chosen;
        }
        index += 1;
    }
    let expiry = match given {
        Some((when, time)) => when.expiry(time, "set")?,
        None if keeps => Expiry::Keep,
        None => Expiry::Never,
    };
    Ok(SetOptions { condition, get, expiry })
}

fn put_expiring<'a>(args: Args<'a>, now_ms: u64, batch: &mut WriteBatch<'a>) {
    // A refused request does not come this far.
    if let Ok(SetOptions { expiry, .. }) = set_options(args) {
        let expires_unix_ms = expiry.at(0, now_ms);
        batch.put_entry(args.get(1), EntryRef { expires_unix_ms, ..EntryRef::new(args.get(2)) });
    }
}

fn set_with_options(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let Ok(SetOptions { condition, get, expiry }) = set_options(args) else {
        return wrong(SYNTAX);
    };
    let is_other = old.is_some_and(|entry| is_marked(entry.user_bits));
    if is_other && (get || matches!(condition, Condition::Equal(_))) {
        return wrong(WRONG_TYPE);
    }
    let stored = match condition {
        Condition::Always => true,
        Condition::Missing => old.is_none(),
        Condition::Present => old.is_some(),
        Condition::Equal(value) => old.is_some_and(|entry| entry.value == value),
    };
    let expires_unix_ms = expiry.at(old.map_or(0, |entry| entry.expires_unix_ms), now_ms);
    let put = || Update::Put { value: args.get(2).to_vec(), expires_unix_ms, user_bits: 0 };
    let update = if stored { put() } else { Update::Keep };
    let answer = match (get, stored) {
        (true, _) => Answer::optional(old.map(|entry| entry.value)),
        (false, true) => Answer::Ok,
        (false, false) => Answer::Null,
    };
    (update, answer)
}

fn setnx(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    match old {
        None => (Update::put(args.get(2).to_vec()), Answer::Integer(1)),
        Some(_) => (Update::Keep, Answer::Integer(0)),
    }
}

fn getset(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    (Update::put(args.get(2).to_vec()), Answer::optional(old.map(|entry| entry.value)))
}

fn getdel(_: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    (remove(old), Answer::optional(old.map(|entry| entry.value)))
}

fn del(_: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    (remove(old), Answer::Integer(i64::from(old.is_some())))
}

/// Removes what is there; a missing key needs no write.
fn remove(old: Option<EntryRef<'_>>) -> Update {
    if old.is_some() { Update::Delete } else { Update::Keep }
}

/// The answer of a command that cannot change what is there.
pub(super) fn wrong(text: &'static str) -> (Update, Answer) {
    (Update::Keep, Answer::Error(text.into()))
}

/// Stores `value` with the meta that the entry had.
pub(super) fn rewrite(old: Option<EntryRef<'_>>, value: Vec<u8>) -> Update {
    let old = old.unwrap_or_default();
    Update::Put { value, expires_unix_ms: old.expires_unix_ms, user_bits: old.user_bits }
}

/// As [`rewrite`], if `value` is not what is there.
pub(super) fn rewrite_changed(old: Option<EntryRef<'_>>, value: Vec<u8>) -> Update {
    match old {
        Some(old) if old.value == value => Update::Keep,
        old => rewrite(old, value),
    }
}

/// Stores an edited value and answers its length.
pub(super) fn store(old: Option<EntryRef<'_>>, value: Vec<u8>) -> (Update, Answer) {
    let len = value.len() as i64;
    (rewrite(old, value), Answer::Integer(len))
}

pub(super) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

fn append(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    let (head, tail) = (old.unwrap_or_default().value, args.get(2));
    if head.len() + tail.len() > VALUE_BYTES_MAX {
        return wrong(TOO_LONG);
    }
    store(old, [head, tail].concat())
}

fn setrange_offset(args: Args<'_>) -> Result<usize, String> {
    match parse_i64(args.get(2)) {
        Some(offset) => {
            usize::try_from(offset).map_err(|_| "ERR offset is out of range".to_string())
        }
        None => Err(NOT_INTEGER.into()),
    }
}

fn setrange(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    let (bytes, patch) = (old.unwrap_or_default().value, args.get(3));
    let Ok(offset) = setrange_offset(args) else { return wrong(NOT_INTEGER) };
    if patch.is_empty() {
        return (Update::Keep, Answer::Integer(bytes.len() as i64));
    }
    let end = offset.saturating_add(patch.len());
    if end > VALUE_BYTES_MAX {
        return wrong(TOO_LONG);
    }
    let mut value = match grown(args, old, end) {
        Ok(value) => value,
        Err(text) => return (Update::Keep, Answer::Error(text.into())),
    };
    value[offset..end].copy_from_slice(patch);
    store(old, value)
}

/// The number that INCRBY adds or DECRBY takes away, as one that is added.
fn increment(args: Args<'_>) -> Result<i64, String> {
    let by = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
    if args.is(0, "incrby") {
        return Ok(by);
    }
    by.checked_neg().ok_or("ERR decrement would overflow".into())
}

fn by_argument(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    increment(args).map_or(wrong(NOT_INTEGER), |by| add(old, by))
}

fn add(old: Option<EntryRef<'_>>, by: i64) -> (Update, Answer) {
    let Some(number) = parse_i64(old.map_or(b"0", |entry| entry.value)) else {
        return wrong(NOT_INTEGER);
    };
    let Some(sum) = number.checked_add(by) else {
        return wrong("ERR increment or decrement would overflow");
    };
    let mut digits = Vec::with_capacity(20);
    append_i64(&mut digits, sum);
    (rewrite(old, digits), Answer::Integer(sum))
}

fn incrbyfloat(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    let number = LongDouble::parse(old.map_or(b"0", |entry| entry.value));
    let (Some(number), Some(by)) = (number, LongDouble::parse(args.get(2))) else {
        return wrong("ERR value is not a valid float");
    };
    let Some(digits) = number.plus(by).digits() else {
        return wrong("ERR increment would produce NaN or Infinity");
    };
    let digits = digits.into_bytes();
    (rewrite(old, digits.clone()), Answer::Bulk(digits))
}

/// Stores all pairs or, where one of the keys is there, none.
pub(crate) fn msetnx(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if let Some(text) = odd_pairs(args) {
        reply.error(&text);
        return Ok(());
    }
    let pairs = || (1..args.len()).step_by(2);
    let names: Vec<&[u8]> = pairs().map(|index| args.get(index)).collect();
    keys.claim.grow(args.bytes()).map_err(out_of_memory)?;
    // Mostly this tells already, without keeping any value.
    let mut found = AnyFound(false);
    keys.engine.get_many(&names, &mut found)?;
    let mut stored = false;
    if !found.0 {
        atomic(keys.engine)?.update_all(&names, Durability::Buffered, &mut |entries| {
            stored = entries.iter().all(Option::is_none);
            let put = |index| Update::put(args.get(index + 1).to_vec());
            pairs().map(|index| if stored { put(index) } else { Update::Keep }).collect()
        })?;
    }
    reply.integer(i64::from(stored));
    Ok(())
}

/// Whether any key was found.
struct AnyFound(bool);

impl GetSink for AnyFound {
    fn found(&mut self, _index: usize, _entry: EntryRef<'_>) {
        self.0 = true;
    }

    fn wants(&mut self, _index: usize, _bytes: usize) -> bool {
        self.0 = true;
        false
    }
}
