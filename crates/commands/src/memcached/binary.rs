//! The binary protocol: what its packets do, and their answers.

use super::expiry::expires;
use super::names_the_option;
use super::text::{joined, number_changed, rewritten, touched};
use super::unique::base_of;
use super::{COMPATIBLE_VERSION, stats};
use crate::burst::Args;
use crate::resp::{Keyspace, Values};
use crate::table::{Answer, Modify, Read, Run, Wants, Write};
use silica::engine::{EntryRef, OpKind, Result, Update, WriteBatch};
use silica_proto::Reply;
use silica_proto::memcached::{Command, Packet, Request, Response, Status, parse_u64, respond};
use std::borrow::Cow;

static GET: Read = Read::new(1, Wants::Entry, get);
static SET: Write = Write { refuse: |_| None, value_at: 2, apply: set, reply: set_reply };
/// A set that is too large: the value it should have replaced must not stay.
static TOO_LARGE: Write = Write {
    refuse: |_| None,
    value_at: 1,
    apply: |args, _, batch| {
        batch.delete(args.get(1));
    },
    reply: |args, reply| status(reply.raw(), &packet_of(args), Status::TooLarge),
};
static STORE: Modify = Modify { many: false, any: false, refuse: |_| None, decide: store };
static ARITHMETIC: Modify =
    Modify { many: false, any: false, refuse: |_| None, decide: arithmetic };
static TOUCH: Modify = Modify { many: false, any: true, refuse: |_| None, decide: touch };
static DELETE: Modify = Modify { many: false, any: true, refuse: |_| None, decide: delete };

/// An expiry that asks for no entry to be made.
const NO_ENTRY: u32 = u32::MAX;

/// How a packet is run where an engine is needed for it.
pub(crate) fn run(packet: &Packet) -> Option<Run> {
    Some(match packet.command {
        Command::Get { .. } => Run::Read(&GET),
        Command::GetAndTouch { .. } | Command::Touch => Run::Update(&TOUCH),
        Command::Set if packet.unique == 0 => Run::Write(&SET),
        Command::Set | Command::Add | Command::Replace | Command::Append | Command::Prepend => {
            Run::Update(&STORE)
        }
        Command::Increment | Command::Decrement => Run::Update(&ARITHMETIC),
        Command::Delete => Run::Update(&DELETE),
        Command::Flush => Run::Whole(super::flush::flush_all),
        Command::Stat => Run::Whole(stat),
        _ if is_set_too_large(packet) => Run::Write(&TOO_LARGE),
        _ => return None,
    })
}

/// True for a set whose value is too large.
pub(crate) fn is_set_too_large(packet: &Packet) -> bool {
    packet.command == Command::Refused(Status::TooLarge) && matches!(packet.opcode, 0x01 | 0x11)
}

/// Answers what the connection alone can answer.
pub(crate) fn ready(out: &mut Vec<u8>, packet: &Packet) {
    match packet.command {
        Command::Refused(wrong) => status(out, packet, wrong),
        Command::Quit if packet.quiet => {}
        Command::Version => {
            respond(out, packet, Response { value: COMPATIBLE_VERSION.as_bytes(), ..Response::OK });
        }
        _ => respond(out, packet, Response::OK),
    }
}

/// Answers with a status and what memcached says about it.
pub(crate) fn status(out: &mut Vec<u8>, packet: &Packet, status: Status) {
    respond(out, packet, Response { status, value: status.text().as_bytes(), ..Response::OK });
}

/// Answers with an error of ours.
pub(super) fn refuse(out: &mut Vec<u8>, packet: &Packet, text: &str) {
    match text.split_once(' ') {
        Some(("OOM", why)) if names_the_option(why) => {
            let (status, value) = (Status::OutOfMemory, &format!("Out of memory: {why}"));
            respond(out, packet, Response { status, value: value.as_bytes(), ..Response::OK });
        }
        Some(("OOM", _)) => status(out, packet, Status::OutOfMemory),
        _ => {
            let value = text.as_bytes();
            respond(out, packet, Response { status: Status::Internal, value, ..Response::OK });
        }
    }
}

/// Says that everything was done that `packet` asked for.
pub(super) fn done(out: &mut Vec<u8>, packet: &Packet) {
    if !packet.quiet {
        respond(out, packet, Response::OK);
    }
}

fn packet_of(args: Args<'_>) -> Packet {
    match args.head() {
        Request::Binary(packet) => packet,
        // Nothing else is planned with these functions.
        other => unreachable!("a binary packet and not {other:?}"),
    }
}

fn get(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    found(reply.raw(), args, &packet_of(args), values.entry(0));
}

/// Answers with an entry, or that it is missing.
fn found(out: &mut Vec<u8>, args: Args<'_>, packet: &Packet, entry: Option<EntryRef<'_>>) {
    let (with_key, with_value) = match packet.command {
        Command::Get { key } | Command::GetAndTouch { key } => (key, true),
        _ => (false, false),
    };
    let key: &[u8] = if with_key { args.get(1) } else { b"" };
    let Some(entry) = entry else {
        if !packet.quiet {
            let value = if with_key { "" } else { Status::NotFound.text() };
            let value = value.as_bytes();
            respond(out, packet, Response { status: Status::NotFound, key, value, ..Response::OK });
        }
        return;
    };
    let response = Response {
        status: Status::Ok,
        unique: args.unique(args.get(1), &entry),
        extras: &entry.user_bits.to_be_bytes(),
        key,
        value: if with_value { entry.value } else { b"" },
    };
    respond(out, packet, response);
}

/// The update, and the response that `write` writes.
fn answer(update: Update, write: impl FnOnce(&mut Vec<u8>)) -> (Update, Answer) {
    let mut out = Vec::new();
    write(&mut out);
    (update, Answer::Raw(Cow::Owned(out)))
}

/// No update, and a status.
fn keep(packet: &Packet, wrong: Status) -> (Update, Answer) {
    answer(Update::Keep, |out| status(out, packet, wrong))
}

fn new_entry<'a>(args: Args<'a>, packet: &Packet, now_ms: u64) -> Option<EntryRef<'a>> {
    let expires_unix_ms = expires(i64::from(packet.expiry), now_ms)?;
    Some(EntryRef { value: args.get(2), expires_unix_ms, user_bits: packet.flags })
}

fn set<'a>(args: Args<'a>, now_ms: u64, batch: &mut WriteBatch<'a>) {
    args.forget_mark();
    match new_entry(args, &packet_of(args), now_ms) {
        Some(entry) => batch.put_entry(args.get(1), entry),
        None => batch.delete(args.get(1)),
    };
}

fn set_reply(args: Args<'_>, reply: &mut Reply<'_>) {
    let packet = packet_of(args);
    let entry = EntryRef { value: args.get(2), expires_unix_ms: 0, user_bits: packet.flags };
    stored(reply.raw(), &packet, base_of(&entry));
}

fn stored(out: &mut Vec<u8>, packet: &Packet, unique: u64) {
    if !packet.quiet {
        respond(out, packet, Response { unique, ..Response::OK });
    }
}

/// A store that has to look first.
fn store(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let packet = packet_of(args);
    let joins = matches!(packet.command, Command::Append | Command::Prepend);
    let compares = packet.unique != 0;
    match (packet.command, old) {
        (_, None) if joins => return keep(&packet, Status::NotStored),
        (_, None) if compares => return keep(&packet, Status::NotFound),
        (_, Some(old)) if compares && args.unique(args.get(1), &old) != packet.unique => {
            return keep(&packet, Status::Exists);
        }
        (Command::Add, Some(_)) if !compares => return keep(&packet, Status::Exists),
        (Command::Replace, None) => return keep(&packet, Status::NotFound),
        _ => {}
    }
    let update = match old {
        Some(old) if joins => match joined(&old, args.get(2), packet.command == Command::Append) {
            Some(value) => rewritten(&old, value),
            None => return keep(&packet, Status::NotStored),
        },
        _ => match new_entry(args, &packet, now_ms) {
            Some(EntryRef { value, expires_unix_ms, user_bits }) => {
                Update::Put { value: value.to_vec(), expires_unix_ms, user_bits }
            }
            None => Update::Delete,
        },
    };
    args.forget_mark();
    let unique = match update.kind() {
        Some(OpKind::Put(entry)) => base_of(&entry),
        _ => 0,
    };
    answer(update, |out| stored(out, &packet, unique))
}

fn arithmetic(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let packet = packet_of(args);
    let (value, expires_unix_ms, user_bits) = match old {
        None if packet.expiry == NO_ENTRY => return keep(&packet, Status::NotFound),
        None => {
            let value = packet.initial.to_string().into_bytes();
            (value, expires(i64::from(packet.expiry), now_ms), 0)
        }
        Some(old) if packet.unique != 0 && args.unique(args.get(1), &old) != packet.unique => {
            return keep(&packet, Status::Exists);
        }
        Some(old) => {
            let up = packet.command == Command::Increment;
            let Some(value) = number_changed(old.value, up, packet.delta) else {
                return keep(&packet, Status::NoNumber);
            };
            (value, Some(old.expires_unix_ms), old.user_bits)
        }
    };
    let number = parse_u64(&value).unwrap_or_default().to_be_bytes();
    let unique = base_of(&EntryRef { value: &value, expires_unix_ms: 0, user_bits });
    let update = expires_unix_ms.map_or(Update::Keep, |expires_unix_ms| Update::Put {
        value,
        expires_unix_ms,
        user_bits,
    });
    answer(update, |out| {
        if !packet.quiet {
            respond(out, &packet, Response { unique, value: &number, ..Response::OK });
        }
    })
}

fn touch(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let packet = packet_of(args);
    let update = old.map_or(Update::Keep, |old| touched(&old, i64::from(packet.expiry), now_ms));
    answer(update, |out| found(out, args, &packet, old))
}

fn delete(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    let packet = packet_of(args);
    match old {
        None => keep(&packet, Status::NotFound),
        Some(old) if packet.unique != 0 && args.unique(args.get(1), &old) != packet.unique => {
            keep(&packet, Status::Exists)
        }
        Some(_) => {
            args.forget_mark();
            answer(Update::Delete, |out| done(out, &packet))
        }
    }
}

/// Answers with a packet for each figure, and one without.
fn stat(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let packet = packet_of(args);
    let word = if args.len() > 1 { args.get(1) } else { b"" };
    let mut text = Vec::new();
    stats::write(keys, word, &mut text)?;
    if !text.ends_with(b"END\r\n") && !text.ends_with(b"RESET\r\n") {
        status(reply.raw(), &packet, Status::NotFound);
        return Ok(());
    }
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end) {
        let Some(line) = line.strip_prefix(b"STAT ") else { continue };
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        let (key, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        respond(reply.raw(), &packet, Response { key, value, ..Response::OK });
    }
    respond(reply.raw(), &packet, Response::OK);
    Ok(())
}
