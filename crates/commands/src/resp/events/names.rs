//! Which events commands make of what they have done, by the names that Redis gives them.

use super::{Classes, Event, Expiry};
use crate::burst::Args;
use crate::effect::{Became, Effect};
use crate::table::find;
use silica::engine::{Op, OpKind};
use silica_proto::memcached::{Command, Mode, Request as Head, Verb};
use silica_proto::parse_i64;

const GENERIC: Classes = Classes::GENERIC;
const STRING: Classes = Classes::STRING;

fn event(db: u8, key: &[u8], class: Classes, name: &'static str, expiry: Expiry) -> Event {
    Event { db, key: key.into(), class, name, expiry }
}

/// A key that was not there.
fn new(db: u8, key: &[u8]) -> Event {
    event(db, key, Classes::NEW, "new", Expiry::Same)
}

/// The events of a blind write; `is_new` if its key was not there before.
pub(crate) fn of_write(db: u8, op: &Op<'_>, is_new: bool, out: &mut Vec<Event>) {
    let key = op.key;
    match &op.kind {
        OpKind::Put(entry) => {
            out.extend(is_new.then(|| new(db, key)));
            set(db, key, entry.expires_unix_ms, out);
        }
        OpKind::Delete => out.push(event(db, key, GENERIC, "del", Expiry::At(0))),
        OpKind::DeleteRange(_) => {}
    }
}

/// A value was stored that expires at a time in Unix milliseconds, or never.
fn set(db: u8, key: &[u8], expires_unix_ms: u64, out: &mut Vec<Event>) {
    out.push(event(db, key, STRING, "set", Expiry::At(expires_unix_ms)));
    if expires_unix_ms != 0 {
        out.push(event(db, key, GENERIC, "expire", Expiry::Same));
    }
}

/// The events of an update of `key` by `args`.
pub(crate) fn of_update(db: u8, args: Args<'_>, key: &[u8], effect: &Effect, out: &mut Vec<Event>) {
    let command = match args.memcached() {
        Some(head) => return of_memcached(db, head, key, effect, out),
        None => find(args.get(0)).map_or("", |command| command.name),
    };
    let &Effect { existed, became, expires_unix_ms, .. } = effect;
    let misses = matches!(command, "getdel" | "getex" | "getset")
        || command == "set" && args.from(3).any(|word| word.eq_ignore_ascii_case(b"get"))
        || command == "bitfield" && is_read_only(args);
    if misses && !existed {
        out.push(miss(db, key));
    }
    let at = Expiry::At(expires_unix_ms);
    match became {
        Became::Deleted => return out.push(event(db, key, GENERIC, "del", Expiry::At(0))),
        Became::Kept => {
            // GETEX tells of a time that the key had before, too.
            let persists = || args.from(2).any(|word| word.eq_ignore_ascii_case(b"persist"));
            if command == "getex" && existed && !persists() {
                out.push(event(db, key, GENERIC, "expire", Expiry::Same));
            }
            return;
        }
        Became::Put => {}
    }
    if !existed {
        out.push(new(db, key));
    }
    let (class, name) = match command {
        "set" => {
            out.push(event(db, key, STRING, "set", at));
            let keeps = || args.from(3).any(|word| word.eq_ignore_ascii_case(b"keepttl"));
            if expires_unix_ms != 0 && !keeps() {
                out.push(event(db, key, GENERIC, "expire", Expiry::Same));
            }
            return;
        }
        "setnx" | "getset" => (STRING, "set"),
        "append" => (STRING, "append"),
        "setrange" => (STRING, "setrange"),
        "incr" | "incrby" | "decr" | "decrby" => (STRING, "incrby"),
        "incrbyfloat" => (STRING, "incrbyfloat"),
        "setbit" | "bitfield" => (STRING, "setbit"),
        "persist" => (GENERIC, "persist"),
        "getex" if expires_unix_ms == 0 => (GENERIC, "persist"),
        "getex" | "expire" | "pexpire" | "expireat" | "pexpireat" => (GENERIC, "expire"),
        _ => (STRING, "set"),
    };
    out.push(event(db, key, class, name, at));
}

/// True if a BITFIELD asks for values and sets none.
fn is_read_only(args: Args<'_>) -> bool {
    let writes =
        |word: &[u8]| [&b"set"[..], b"incrby"].iter().any(|write| word.eq_ignore_ascii_case(write));
    !args.from(2).any(writes)
}

/// A read of a key that is not there.
pub(crate) fn miss(db: u8, key: &[u8]) -> Event {
    event(db, key, Classes::MISS, "keymiss", Expiry::Same)
}

/// What a request of memcached's protocols does to a value that it leaves there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Store,
    Append,
    Count,
    Touch,
}

fn kind_of(head: &Head) -> Kind {
    match head {
        Head::Store { mode: Mode::Append | Mode::Prepend, .. } => Kind::Append,
        Head::Arithmetic { .. } => Kind::Count,
        Head::Touch { .. } | Head::GetAndTouch { .. } => Kind::Touch,
        Head::Meta(meta) => match meta.verb {
            Verb::Arithmetic => Kind::Count,
            Verb::Set if matches!(meta.mode, b'A' | b'P') => Kind::Append,
            Verb::Set => Kind::Store,
            _ => Kind::Touch,
        },
        Head::Binary(packet) => match packet.command {
            Command::Append | Command::Prepend => Kind::Append,
            Command::Increment | Command::Decrement => Kind::Count,
            Command::Touch | Command::GetAndTouch { .. } => Kind::Touch,
            _ => Kind::Store,
        },
        _ => Kind::Store,
    }
}

/// The events that Redis has for what a client of memcached has done.
fn of_memcached(db: u8, head: &Head, key: &[u8], effect: &Effect, out: &mut Vec<Event>) {
    let &Effect { existed, became, expires_unix_ms, .. } = effect;
    let at = Expiry::At(expires_unix_ms);
    match became {
        Became::Kept => return,
        Became::Deleted => return out.push(event(db, key, GENERIC, "del", Expiry::At(0))),
        Became::Put => out.extend((!existed).then(|| new(db, key))),
    }
    match kind_of(head) {
        Kind::Append => out.push(event(db, key, STRING, "append", at)),
        Kind::Count if existed => out.push(event(db, key, STRING, "incrby", at)),
        Kind::Touch if existed && expires_unix_ms == 0 => {
            out.push(event(db, key, GENERIC, "persist", at));
        }
        Kind::Touch if existed => out.push(event(db, key, GENERIC, "expire", at)),
        Kind::Store | Kind::Count | Kind::Touch => set(db, key, expires_unix_ms, out),
    }
}

/// The events of a command on two databases that was not answered with an error, by what it has
/// answered.
pub(crate) fn of_across(db: u8, args: Args<'_>, reply: &[u8], out: &mut Vec<Event>) {
    if reply.starts_with(b":0\r\n") {
        return;
    }
    let number = |at: usize| parse_i64(args.get(at)).and_then(|number| u8::try_from(number).ok());
    let owned = || Box::from(args.get(1));
    if args.is(0, "move")
        && let Some(target) = number(2)
    {
        let key = args.get(1);
        out.push(new(target, key));
        // When it expires is taken over before it is gone.
        out.push(event(target, key, GENERIC, "", Expiry::Of(db, owned())));
        out.push(event(db, key, GENERIC, "move_from", Expiry::At(0)));
        out.push(event(target, key, GENERIC, "move_to", Expiry::Same));
    } else if args.is(0, "copy") {
        let named = (3..args.len() - 1).find(|at| args.is(*at, "db"));
        let target = named.and_then(|at| number(at + 1)).unwrap_or(db);
        out.push(new(target, args.get(2)));
        out.push(event(target, args.get(2), GENERIC, "copy_to", Expiry::Of(db, owned())));
    }
}

/// The events of a command that changes several keys as one step, by what it has answered, and by
/// which of its keys were there before.
pub(crate) fn of_alone(
    db: u8,
    args: Args<'_>,
    (reply, were_there): (&[u8], &[bool]),
    out: &mut Vec<Event>,
) {
    let Some(command) = find(args.get(0)) else { return };
    let is_zero = reply.starts_with(b":0\r\n");
    let was_there = |nth: usize| were_there.get(nth).copied().unwrap_or(true);
    // These two read some of their keys.
    let read = match command.name {
        "copy" => 0..1,
        "bitop" => 1..args.len() - 2,
        _ => 0..0,
    };
    let missed = read.filter(|nth| !was_there(*nth));
    let first = command.keys.0 as usize;
    out.extend(missed.map(|nth| miss(db, args.get(first + nth))));
    let owned = |index: usize| Box::from(args.get(index));
    match command.name {
        "rename" | "renamenx" if !is_zero && args.get(1) != args.get(2) => {
            out.push(new(db, args.get(2)));
            out.push(event(db, args.get(1), GENERIC, "rename_from", Expiry::To(owned(2))));
            out.push(event(db, args.get(2), GENERIC, "rename_to", Expiry::Same));
        }
        "copy" if is_zero => {}
        "copy" => {
            out.push(new(db, args.get(2)));
            out.push(event(db, args.get(2), GENERIC, "copy_to", Expiry::Of(db, owned(1))));
        }
        "msetnx" if !is_zero => {
            for index in (1..args.len()).step_by(2) {
                let is_first = (1..index).step_by(2).all(|at| args.get(at) != args.get(index));
                out.extend(is_first.then(|| new(db, args.get(index))));
                set(db, args.get(index), 0, out);
            }
        }
        "bitop" if !is_zero => {
            out.extend((!was_there(0)).then(|| new(db, args.get(2))));
            set(db, args.get(2), 0, out);
        }
        "bitop" if was_there(0) => out.push(event(db, args.get(2), GENERIC, "del", Expiry::At(0))),
        _ => {}
    }
}
