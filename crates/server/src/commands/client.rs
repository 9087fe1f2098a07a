//! CLIENT and its subcommands.

use super::{Cx, Keyspace, SYNTAX, introspect};
use crate::burst::Args;
use crate::clients::Client;
use crate::session::Replies;
use silica::engine::Result;
use silica_proto::Reply;
use std::sync::atomic::Ordering::Relaxed;

/// True where every byte is visible, so that names cannot garble the lines of CLIENT LIST.
fn visible(text: &[u8]) -> bool {
    text.iter().all(|b| (b'!'..=b'~').contains(b))
}

/// Names `client`, or says what is wrong with the name.
pub(crate) fn set_name(client: &Client, name: &[u8]) -> Result<(), &'static str> {
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
        Some(_) => cx.reply.ok(),
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
    let line = cx.client.line(cx.shared.unix_ms()) + "\n";
    cx.reply.verbatim(line.as_bytes());
}

pub(crate) fn list(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let normal = match args.len() {
        2 => true,
        4 if args.is(2, "type") => args.is(3, "normal"),
        _ => {
            reply.error(SYNTAX);
            return Ok(());
        }
    };
    let now = keys.shared.unix_ms();
    let all = if normal { keys.shared.clients.all() } else { Vec::new() };
    let lines: String = all.iter().map(|client| client.line(now) + "\n").collect();
    reply.verbatim(lines.as_bytes());
    Ok(())
}
