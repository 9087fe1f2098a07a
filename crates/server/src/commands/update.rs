//! Commands that write.

use super::{Keyspace, NOT_INTEGER, SYNTAX, VALUE_BYTES_MAX, wrong_number};
use crate::burst::Args;
use crate::table::{Run, Write};
use silica::engine::{EntryRef, Result, Update, WriteBatch};
use silica_proto::{Reply, append_i64, parse_f64, parse_i64};
use std::io::Write as _;

static SET: Write = Write { refuse: |_| None, apply: put_pairs, reply: |reply| reply.ok() };
pub(crate) static MSET: Write =
    Write { refuse: odd_pairs, apply: put_pairs, reply: |reply| reply.ok() };

/// A SET without options is written blindly; with options it has to look first.
pub(crate) fn choose_set(args: Args<'_>) -> Run {
    if args.len() == 3 { Run::Write(&SET) } else { Run::Update(set_with_options) }
}

fn odd_pairs(args: Args<'_>) -> Option<String> {
    args.len().is_multiple_of(2).then(|| wrong_number("mset"))
}

fn put_pairs<'a>(args: Args<'a>, batch: &mut WriteBatch<'a>) {
    for index in (1..args.len()).step_by(2) {
        batch.put(args.get(index), args.get(index + 1));
    }
}

/// `value` with the meta that the entry had.
fn rewrite(old: Option<EntryRef<'_>>, value: Vec<u8>) -> Update {
    let old = old.unwrap_or_default();
    Update::Put { value, expires_unix_ms: old.expires_unix_ms, user_bits: old.user_bits }
}

fn optional(value: Option<&[u8]>, reply: &mut Reply<'_>) {
    match value {
        Some(bytes) => reply.bulk(bytes),
        None => reply.null(),
    }
}

/// When SET stores.
#[derive(Clone, Copy, PartialEq)]
enum Condition {
    Always,
    Missing,
    Present,
}

/// Reads the options of SET: the condition, and whether the old value is asked for.
fn set_options(args: Args<'_>) -> Result<(Condition, bool), String> {
    let mut condition = Condition::Always;
    let mut get = false;
    let mut index = 3;
    while index < args.len() {
        let word = args.get(index).to_ascii_uppercase();
        match &word[..] {
            b"NX" if condition != Condition::Present => condition = Condition::Missing,
            b"XX" if condition != Condition::Missing => condition = Condition::Present,
            b"GET" => get = true,
            b"EX" | b"PX" | b"EXAT" | b"PXAT" if index + 1 < args.len() => {
                return Err(no_expiry(&word));
            }
            b"KEEPTTL" => return Err(no_expiry(&word)),
            _ => return Err(SYNTAX.into()),
        }
        index += 1;
    }
    Ok((condition, get))
}

fn no_expiry(word: &[u8]) -> String {
    let word = String::from_utf8_lossy(word);
    format!("ERR SET option {word} is not supported yet: keys do not expire; leave it out")
}

fn set_with_options(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let (condition, get) = match set_options(args) {
        Ok(options) => options,
        Err(text) => {
            reply.error(&text);
            return Ok(());
        }
    };
    let mut before = None;
    let mut stored = false;
    keys.update(args.get(1), &mut |old| {
        stored = match condition {
            Condition::Always => true,
            Condition::Missing => old.is_none(),
            Condition::Present => old.is_some(),
        };
        before = old.filter(|_| get).map(|entry| entry.value.to_vec());
        if stored { Update::put(args.get(2).to_vec()) } else { Update::Keep }
    })?;
    match (get, stored) {
        (true, _) => optional(before.as_deref(), reply),
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    }
    Ok(())
}

pub(crate) fn setnx(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut stored = false;
    keys.update(args.get(1), &mut |old| {
        stored = old.is_none();
        if stored { Update::put(args.get(2).to_vec()) } else { Update::Keep }
    })?;
    reply.integer(i64::from(stored));
    Ok(())
}

pub(crate) fn getset(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut before = None;
    keys.update(args.get(1), &mut |old| {
        before = old.map(|entry| entry.value.to_vec());
        Update::put(args.get(2).to_vec())
    })?;
    optional(before.as_deref(), reply);
    Ok(())
}

pub(crate) fn getdel(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut before = None;
    keys.update(args.get(1), &mut |old| {
        before = old.map(|entry| entry.value.to_vec());
        if old.is_some() { Update::Delete } else { Update::Keep }
    })?;
    optional(before.as_deref(), reply);
    Ok(())
}

pub(crate) fn del(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut removed = 0;
    for key in args.from(1) {
        let mut found = false;
        keys.update(key, &mut |old| {
            found = old.is_some();
            if found { Update::Delete } else { Update::Keep }
        })?;
        removed += i64::from(found);
    }
    reply.integer(removed);
    Ok(())
}

pub(crate) fn append(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let tail = args.get(2);
    edit(keys, args.get(1), reply, &mut |old| {
        if old.len() + tail.len() > VALUE_BYTES_MAX {
            return Err(TOO_LONG);
        }
        Ok(Edit::Store([old, tail].concat()))
    })
}

pub(crate) fn setrange(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let patch = args.get(3);
    let offset = match parse_i64(args.get(2)) {
        Some(offset) if offset >= 0 => offset as usize,
        Some(_) => {
            reply.error("ERR offset is out of range");
            return Ok(());
        }
        None => {
            reply.error(NOT_INTEGER);
            return Ok(());
        }
    };
    edit(keys, args.get(1), reply, &mut |old| {
        let end = offset.saturating_add(patch.len());
        if patch.is_empty() {
            return Ok(Edit::Leave(old.len()));
        }
        if end > VALUE_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let mut value = Vec::with_capacity(end.max(old.len()));
        value.extend_from_slice(old);
        value.resize(end.max(old.len()), 0);
        value[offset..end].copy_from_slice(patch);
        Ok(Edit::Store(value))
    })
}

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// What becomes of an edited value.
enum Edit {
    Store(Vec<u8>),
    /// It stays as it is, with this length.
    Leave(usize),
}

/// Edits the value of `key` and answers its new length.
fn edit(
    keys: &Keyspace<'_>,
    key: &[u8],
    reply: &mut Reply<'_>,
    change: &mut dyn FnMut(&[u8]) -> Result<Edit, &'static str>,
) -> Result<()> {
    let mut answer = Ok(0);
    keys.update(key, &mut |old| match change(old.map_or(&[][..], |entry| entry.value)) {
        Ok(Edit::Store(value)) => {
            answer = Ok(value.len() as i64);
            rewrite(old, value)
        }
        Ok(Edit::Leave(len)) => {
            answer = Ok(len as i64);
            Update::Keep
        }
        Err(text) => {
            answer = Err(text);
            Update::Keep
        }
    })?;
    match answer {
        Ok(len) => reply.integer(len),
        Err(text) => reply.error(text),
    }
    Ok(())
}

pub(crate) fn incr(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    add(keys, args.get(1), 1, reply)
}

pub(crate) fn decr(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    add(keys, args.get(1), -1, reply)
}

pub(crate) fn incrby(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    match parse_i64(args.get(2)) {
        Some(by) => add(keys, args.get(1), by, reply),
        None => {
            reply.error(NOT_INTEGER);
            Ok(())
        }
    }
}

pub(crate) fn decrby(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    match parse_i64(args.get(2)).map(i64::checked_neg) {
        Some(Some(by)) => add(keys, args.get(1), by, reply),
        Some(None) => {
            reply.error("ERR decrement would overflow");
            Ok(())
        }
        None => {
            reply.error(NOT_INTEGER);
            Ok(())
        }
    }
}

fn add(keys: &Keyspace<'_>, key: &[u8], by: i64, reply: &mut Reply<'_>) -> Result<()> {
    let mut answer = Ok(0);
    keys.update(key, &mut |old| {
        answer = match parse_i64(old.map_or(b"0", |entry| entry.value)) {
            None => Err(NOT_INTEGER),
            Some(n) => n.checked_add(by).ok_or("ERR increment or decrement would overflow"),
        };
        match answer {
            Ok(n) => {
                let mut digits = Vec::with_capacity(20);
                append_i64(&mut digits, n);
                rewrite(old, digits)
            }
            Err(_) => Update::Keep,
        }
    })?;
    match answer {
        Ok(n) => reply.integer(n),
        Err(text) => reply.error(text),
    }
    Ok(())
}

pub(crate) fn incrbyfloat(
    keys: &Keyspace<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    const NOT_FLOAT: &str = "ERR value is not a valid float";
    let Some(by) = parse_f64(args.get(2)) else {
        reply.error(NOT_FLOAT);
        return Ok(());
    };
    let mut answer = Ok(Vec::new());
    keys.update(args.get(1), &mut |old| {
        answer = match parse_f64(old.map_or(b"0", |entry| entry.value)) {
            None => Err(NOT_FLOAT),
            Some(x) if !(x + by).is_finite() => Err("ERR increment would produce NaN or Infinity"),
            Some(x) => {
                let mut digits = Vec::new();
                write!(digits, "{}", x + by).expect("a vector takes every write");
                Ok(digits)
            }
        };
        match &answer {
            Ok(digits) => rewrite(old, digits.clone()),
            Err(_) => Update::Keep,
        }
    })?;
    match answer {
        Ok(digits) => reply.bulk(&digits),
        Err(text) => reply.error(text),
    }
    Ok(())
}
