//! CLIENT and its subcommands.

use super::{Cx, NOT_INTEGER, SYNTAX, introspect, wrong_subcommand};
use crate::burst::Args;
use crate::clients::Client;
use crate::session::Replies;
use crate::waiters::Waited;
use silica_proto::parse_i64;
use std::sync::atomic::Ordering::Relaxed;

/// True where every byte is visible, so that names cannot garble the lines of CLIENT LIST.
fn visible(text: &[u8]) -> bool {
    text.iter().all(|b| (b'!'..=b'~').contains(b))
}

/// Bytes of a client's name, and of what it says of its library.
pub(super) const NAME_BYTES_MAX: usize = 1024;

/// Names `client`, or says what is wrong with the name.
pub(crate) fn set_name(client: &Client, name: &[u8]) -> Result<(), &'static str> {
    if name.len() > NAME_BYTES_MAX {
        return Err("ERR Client names have 1024 bytes at most.");
    }
    if !visible(name) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    client.names().name = name.to_vec();
    Ok(())
}

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "client");
}

pub(crate) fn id(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.integer(cx.client.id as i64);
}

pub(crate) fn getname(cx: &mut Cx<'_>, _: Args<'_>) {
    let name = cx.client.names().name.clone();
    match name.is_empty() {
        true => cx.reply.null(),
        false => cx.reply.bulk(&name),
    }
}

pub(crate) fn setname(cx: &mut Cx<'_>, args: Args<'_>) {
    match set_name(cx.client, args.get(2)) {
        Ok(()) => cx.reply.ok(),
        Err(text) => cx.reply.error(text),
    }
}

pub(crate) fn setinfo(cx: &mut Cx<'_>, args: Args<'_>) {
    let (option, value) = (args.get(2), args.get(3));
    let word = String::from_utf8_lossy(option);
    if value.len() > NAME_BYTES_MAX {
        return cx.reply.error(&format!("ERR {word} has {NAME_BYTES_MAX} bytes at most."));
    }
    if !visible(value) {
        let text = format!("ERR {word} cannot contain spaces, newlines or special characters.");
        return cx.reply.error(&text);
    }
    if args.is(2, "lib-name") {
        cx.client.names().lib_name = value.to_vec();
    } else if args.is(2, "lib-ver") {
        cx.client.names().lib_version = value.to_vec();
    } else {
        return cx.reply.error(&format!("ERR Unrecognized option '{word}'"));
    }
    cx.reply.ok();
}

/// The ON or OFF at the end of a command.
fn switch(args: Args<'_>) -> Option<bool> {
    if args.is(2, "on") { Some(true) } else { args.is(2, "off").then_some(false) }
}

pub(crate) fn no_evict(cx: &mut Cx<'_>, args: Args<'_>) {
    match switch(args) {
        Some(on) => {
            cx.client.no_evict.store(on, Relaxed);
            cx.reply.ok();
        }
        None => cx.reply.error(SYNTAX),
    }
}

pub(crate) fn no_touch(cx: &mut Cx<'_>, args: Args<'_>) {
    match switch(args) {
        Some(on) => {
            cx.client.no_touch.store(on, Relaxed);
            cx.reply.ok();
        }
        None => cx.reply.error(SYNTAX),
    }
}

pub(crate) fn reply(cx: &mut Cx<'_>, args: Args<'_>) {
    match switch(args) {
        Some(true) => {
            cx.session.replies = Replies::On;
            cx.reply.ok();
        }
        Some(false) => cx.session.replies = Replies::Off,
        None if args.is(2, "skip") => {
            if cx.session.replies == Replies::On {
                cx.session.replies = Replies::SkipNext;
            }
        }
        None => cx.reply.error(SYNTAX),
    }
}

pub(crate) fn info(cx: &mut Cx<'_>, _: Args<'_>) {
    let tracked = cx.service.tracking.shown(cx.client.id);
    let line = cx.client.line(tracked, cx.service.unix_ms()) + "\n";
    cx.reply.verbatim(line.as_bytes());
}

/// CLIENT UNBLOCK.
pub(crate) fn unblock(cx: &mut Cx<'_>, args: Args<'_>) {
    let Some(id) = parse_i64(args.get(2)) else { return cx.reply.error(NOT_INTEGER) };
    if args.len() > 4 {
        return cx.reply.error(&wrong_subcommand(args));
    }
    if args.len() == 4 && !args.is(3, "timeout") && !args.is(3, "error") {
        return cx.reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    }
    let waits = u64::try_from(id).is_ok_and(|id| cx.service.waiters.has(id));
    if waits {
        let is_error = args.len() == 4 && args.is(3, "error");
        let waited = if is_error { Waited::Ended } else { Waited::TimedOut };
        cx.service.wake(id as u64, waited);
    }
    cx.reply.integer(i64::from(waits));
}

pub(crate) fn pause(cx: &mut Cx<'_>, args: Args<'_>) {
    let all = match args.len() {
        3 => true,
        4 if args.is(3, "all") => true,
        4 if args.is(3, "write") => false,
        5.. => return cx.reply.error(&wrong_subcommand(args)),
        _ => return cx.reply.error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
    };
    let now_ms = cx.service.monotonic_ms();
    match parse_i64(args.get(2)).map(u64::try_from) {
        None => cx.reply.error("ERR timeout is not an integer or out of range"),
        Some(Err(_)) => cx.reply.error("ERR timeout is negative"),
        Some(Ok(ms)) => {
            cx.service.pause.begin(now_ms.saturating_add(ms), all, now_ms);
            cx.reply.ok();
        }
    }
}

pub(crate) fn unpause(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.service.pause.end();
    cx.service.front.resume();
    cx.reply.ok();
}
