//! The text protocol: what its requests do, and their answers.

use super::expiry::expires;
use crate::burst::Args;
use crate::table::{Answer, Modify, Pieces, Read, Wants, Write};
use silica::engine::{EntryRef, Update, WriteBatch};
use silica_proto::memcached::{Fault, Limits, Mode, Request, end, fault, parse_u64, value};
use silica_proto::{Reply, append_u64};
use std::borrow::Cow;

pub(crate) static GET: Read = Read::in_pieces(
    usize::MAX,
    Wants::Entry,
    Pieces { first: |_, _| {}, each: get, last: |reply| end(reply.raw()) },
);
pub(crate) static SET: Write = Write {
    refuse: |_| None,
    value_at: 2,
    apply: set,
    reply: |_, reply| reply.raw().extend_from_slice(STORED),
};
/// A set that is too large: the value it should have replaced must not stay.
pub(crate) static TOO_LARGE: Write = Write {
    refuse: |_| None,
    value_at: 1,
    apply: |args, _, batch| {
        batch.delete(args.get(1));
    },
    reply: |_, reply| fault(reply.raw(), Fault::TooLarge),
};
pub(crate) static GET_AND_TOUCH: Modify =
    Modify { many: true, any: false, refuse: |_| None, decide: get_and_touch };
pub(crate) static STORE: Modify =
    Modify { many: false, any: false, refuse: |_| None, decide: store };
pub(crate) static ARITHMETIC: Modify =
    Modify { many: false, any: false, refuse: |_| None, decide: arithmetic };
pub(crate) static TOUCH: Modify =
    Modify { many: false, any: true, refuse: |_| None, decide: touch };
pub(crate) static DELETE: Modify =
    Modify { many: false, any: true, refuse: |_| None, decide: delete };

const STORED: &[u8] = b"STORED\r\n";
const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
const EXISTS: &[u8] = b"EXISTS\r\n";
const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
const TOUCHED: &[u8] = b"TOUCHED\r\n";
const DELETED: &[u8] = b"DELETED\r\n";
const NOT_A_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// Bytes of a value that appending may make.
const VALUE_BYTES_MAX: usize = Limits::OPEN.value_bytes_max;
/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

fn get(args: Args<'_>, entry: Option<EntryRef<'_>>, reply: &mut Reply<'_>) {
    let Some(entry) = entry else { return };
    let wants_unique = matches!(args.head(), Request::Get { unique: true });
    let unique = wants_unique.then(|| args.unique(args.key(), &entry));
    value(reply.raw(), args.key(), entry.user_bits, entry.value, unique);
}

fn set<'a>(args: Args<'a>, now_ms: u64, batch: &mut WriteBatch<'a>) {
    let Request::Store { flags, expiry, .. } = args.head() else { return };
    let (key, value) = (args.get(1), args.get(2));
    args.forget_mark();
    match expires(expiry, now_ms) {
        Some(expires_unix_ms) => {
            batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits: flags });
        }
        // What is over at once replaces what was there all the same.
        None => {
            batch.delete(key);
        }
    }
}

/// What an update does that only answers.
fn keep(answer: &'static [u8]) -> (Update, Answer) {
    (Update::Keep, Answer::Raw(Cow::Borrowed(answer)))
}

/// Puts `value`, or nothing where it is over at once.
fn put(value: Vec<u8>, sent: i64, user_bits: u32, now_ms: u64) -> Update {
    match expires(sent, now_ms) {
        Some(expires_unix_ms) => Update::Put { value, expires_unix_ms, user_bits },
        None => Update::Delete,
    }
}

/// The entry with another expiry.
pub(super) fn touched(entry: &EntryRef<'_>, sent: i64, now_ms: u64) -> Update {
    match expires(sent, now_ms) {
        Some(at) if at == entry.expires_unix_ms => Update::Keep,
        _ => put(entry.value.to_vec(), sent, entry.user_bits, now_ms),
    }
}

/// The entry with another value.
pub(super) fn rewritten(entry: &EntryRef<'_>, value: Vec<u8>) -> Update {
    let EntryRef { expires_unix_ms, user_bits, .. } = *entry;
    Update::Put { value, expires_unix_ms, user_bits }
}

/// The entry's value with `data` behind or before it, where that is not too large.
pub(super) fn joined(entry: &EntryRef<'_>, data: &[u8], behind: bool) -> Option<Vec<u8>> {
    let (head, tail) = if behind { (entry.value, data) } else { (data, entry.value) };
    (head.len() + tail.len() <= VALUE_BYTES_MAX).then(|| [head, tail].concat())
}

/// The digits of the number that `value` is, changed by `delta`.
pub(super) fn number_changed(value: &[u8], up: bool, delta: u64) -> Option<Vec<u8>> {
    let number = parse_u64(value)?;
    let sum = if up { number.wrapping_add(delta) } else { number.saturating_sub(delta) };
    // Room for the line end behind it in an answer.
    let mut digits = Vec::with_capacity(DIGITS_MAX + 2);
    append_u64(&mut digits, sum);
    Some(digits)
}

fn store(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let Request::Store { mode, flags, expiry } = args.head() else { return keep(NOT_STORED) };
    let data = args.get(2);
    let stored = |update| {
        args.forget_mark();
        (update, Answer::Raw(Cow::Borrowed(STORED)))
    };
    match (mode, old) {
        (Mode::Append | Mode::Prepend, None) => keep(NOT_STORED),
        (Mode::Append | Mode::Prepend, Some(entry)) => {
            match joined(&entry, data, mode == Mode::Append) {
                Some(value) => stored(rewritten(&entry, value)),
                None => keep(NOT_STORED),
            }
        }
        (Mode::Add, Some(_)) | (Mode::Replace, None) => keep(NOT_STORED),
        (Mode::Cas(_), None) => keep(NOT_FOUND),
        (Mode::Cas(sent), Some(entry)) if sent != args.unique(args.get(1), &entry) => keep(EXISTS),
        _ => stored(put(data.to_vec(), expiry, flags, now_ms)),
    }
}

fn get_and_touch(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let (Request::GetAndTouch { unique: wants_unique, expiry }, Some(entry)) = (args.head(), old)
    else {
        return keep(b"");
    };
    let mut out = Vec::with_capacity(64 + args.key().len() + entry.value.len());
    let unique = wants_unique.then(|| args.unique(args.key(), &entry));
    value(&mut out, args.key(), entry.user_bits, entry.value, unique);
    (touched(&entry, expiry, now_ms), Answer::Raw(Cow::Owned(out)))
}

fn arithmetic(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    let (Request::Arithmetic { up, delta }, Some(entry)) = (args.head(), old) else {
        return keep(NOT_FOUND);
    };
    let Some(mut out) = number_changed(entry.value, up, delta) else { return keep(NOT_A_NUMBER) };
    let update = rewritten(&entry, out.clone());
    out.extend_from_slice(b"\r\n");
    (update, Answer::Raw(Cow::Owned(out)))
}

fn touch(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    match (args.head(), old) {
        (Request::Touch { expiry }, Some(entry)) => {
            (touched(&entry, expiry, now_ms), Answer::Raw(Cow::Borrowed(TOUCHED)))
        }
        _ => keep(NOT_FOUND),
    }
}

fn delete(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    match old {
        Some(_) => {
            args.forget_mark();
            (Update::Delete, Answer::Raw(Cow::Borrowed(DELETED)))
        }
        None => keep(NOT_FOUND),
    }
}
