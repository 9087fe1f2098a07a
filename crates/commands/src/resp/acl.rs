//! ACL.

use super::{Cx, NOT_INTEGER, introspect, wrong_number};
use crate::acl::User;
use crate::budget::Claim;
use crate::burst::Args;
use crate::clients::Client;
use crate::clients::DEFAULT_USER;
use crate::service::Service;
use crate::table::{CATEGORIES, COMMANDS, find_called};
use silica_proto::{Reply, parse_i64};

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "acl");
}

pub(crate) fn whoami(cx: &mut Cx<'_>, _: Args<'_>) {
    let name = cx.session.user.as_ref().map_or(DEFAULT_USER, |user| &user.name).to_string();
    cx.reply.bulk(name.as_bytes());
}

pub(crate) fn users(cx: &mut Cx<'_>, _: Args<'_>) {
    let all = cx.service.acl.all();
    cx.reply.array(all.len());
    all.iter().for_each(|user| cx.reply.bulk(user.name.as_bytes()));
}

/// ACL LOG [count | RESET].
pub(crate) fn log(cx: &mut Cx<'_>, args: Args<'_>) {
    if args.len() > 3 {
        return cx
            .reply
            .error("ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.");
    }
    if args.len() == 3 && args.is(2, "reset") {
        cx.service.acl.log.clear();
        return cx.reply.ok();
    }
    let count = if args.len() == 3 { parse_i64(args.get(2)) } else { Some(10) };
    let Some(count) = count else { return cx.reply.error(NOT_INTEGER) };
    let now_ms = cx.service.unix_ms();
    let bytes = 2 * cx.service.acl.log.held_bytes();
    if let Err(text) = Claim::new(&cx.service.budget).grow(bytes) {
        return cx.reply.error(&text);
    }
    let list = cx.service.acl.log.newest(usize::try_from(count).unwrap_or(0));
    let reply = &mut cx.reply;
    reply.array(list.len());
    for refusal in list {
        reply.map(10);
        let number = |reply: &mut Reply<'_>, name: &str, n: u64| {
            reply.bulk(name.as_bytes());
            reply.integer(n as i64);
        };
        number(reply, "count", refusal.count);
        for (name, text) in [
            ("reason", refusal.reason.as_bytes()),
            ("context", refusal.context.as_bytes()),
            ("object", &refusal.object),
            ("username", refusal.user.as_bytes()),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(refusal.last_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(refusal.client.as_bytes());
        number(reply, "entry-id", refusal.id);
        number(reply, "timestamp-created", refusal.first_ms);
        number(reply, "timestamp-last-updated", refusal.last_ms);
    }
}

pub(crate) fn list(cx: &mut Cx<'_>, _: Args<'_>) {
    if let Err(text) = Claim::new(&cx.service.budget).grow(cx.service.acl.kept_bytes()) {
        return cx.reply.error(&text);
    }
    let all = cx.service.acl.all();
    cx.reply.array(all.len());
    all.iter().for_each(|user| cx.reply.bulk(&user.line()));
}

pub(crate) fn getuser(cx: &mut Cx<'_>, args: Args<'_>) {
    let user = std::str::from_utf8(args.get(2)).ok().and_then(|name| cx.service.acl.get(name));
    let Some(user) = user else { return cx.reply.null_array() };
    let reply = &mut cx.reply;
    let flags = [(user.enabled, "on"), (!user.enabled, "off"), (user.no_password, "nopass")];
    let flags: Vec<&str> = flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag).collect();
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let hashes = user.hashes_shown();
    reply.array(hashes.len());
    hashes.iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    rights(reply, &user);
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(3);
        rights(reply, selector);
    }
}

/// Commands, keys and channels, each with its name.
fn rights(reply: &mut Reply<'_>, of: &User) {
    for (name, shown) in [
        ("commands", of.commands_shown().into_bytes()),
        ("keys", of.keys_shown()),
        ("channels", of.channels_shown()),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(&shown);
    }
}

/// The name in `bytes`, or why it is none.
fn name(bytes: &[u8]) -> Result<&str, &'static str> {
    if bytes.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err("ERR Usernames can't contain spaces or null characters");
    }
    std::str::from_utf8(bytes).map_err(|_| "ERR Usernames must be UTF-8")
}

pub(crate) fn setuser(cx: &mut Cx<'_>, args: Args<'_>) {
    let name = match name(args.get(2)) {
        Ok(name) => name,
        Err(text) => return cx.reply.error(text),
    };
    match cx.service.acl.set(name, args.from(3), &cx.service.budget) {
        Ok(()) => {
            close_if(cx, |service, client| service.hears_too_much(client));
            cx.reply.ok();
        }
        Err(text) => cx.reply.error(&text),
    }
}

/// Closes connections, which hear nothing more; one's own gets its answer yet.
fn close_if(cx: &mut Cx<'_>, is_meant: impl Fn(&Service, &Client) -> bool) {
    for client in cx.service.clients.all() {
        if !is_meant(cx.service, &client) {
            continue;
        }
        cx.service.topics.remove_all(&client);
        if client.id == cx.client.id {
            cx.session.quit = true;
        } else {
            let owner = client.owner();
            cx.service.front.close(client.loop_index, owner);
        }
    }
}

/// Closes the connections of users that are gone, and those that listen to channels which their
/// users may hear no more.
fn close_those_of(cx: &mut Cx<'_>, gone: &[String]) {
    close_if(cx, |service, client| {
        gone.contains(&client.user_name()) || service.hears_too_much(client)
    });
}

pub(crate) fn deluser(cx: &mut Cx<'_>, args: Args<'_>) {
    let names: Vec<String> =
        args.from(2).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    if names.iter().any(|name| name == DEFAULT_USER) {
        return cx.reply.error("ERR The 'default' user cannot be removed");
    }
    let removed = cx.service.acl.remove(&names);
    close_those_of(cx, &removed);
    cx.reply.integer(removed.len() as i64);
}

pub(crate) fn load(cx: &mut Cx<'_>, _: Args<'_>) {
    match cx.service.acl.load() {
        Ok(gone) => {
            close_those_of(cx, &gone);
            cx.reply.ok();
        }
        Err(text) => cx.reply.error(&text),
    }
}

pub(crate) fn save(cx: &mut Cx<'_>, _: Args<'_>) {
    match cx.service.acl.save() {
        Ok(()) => cx.reply.ok(),
        Err(text) => cx.reply.error(&text),
    }
}

pub(crate) fn cat(cx: &mut Cx<'_>, args: Args<'_>) {
    if args.len() == 2 {
        cx.reply.array(CATEGORIES.len());
        return CATEGORIES.iter().for_each(|category| cx.reply.bulk(category.as_bytes()));
    }
    let wanted = String::from_utf8_lossy(args.get(2)).to_ascii_lowercase();
    if args.len() > 3 || !CATEGORIES.contains(&wanted.as_str()) {
        let shown = String::from_utf8_lossy(args.get(2));
        return cx.reply.error(&format!("ERR Unknown category '{shown}'"));
    }
    let all = COMMANDS.iter().flat_map(|command| std::iter::once(command).chain(command.subs));
    let names: Vec<&str> = all
        .filter(|command| command.categories().contains(&wanted.as_str()))
        .map(|command| command.name)
        .collect();
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name.as_bytes()));
}

/// Bytes that nobody can guess.
fn secret<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn genpass(cx: &mut Cx<'_>, args: Args<'_>) {
    let bits = match args.len() {
        2 => 256,
        _ => match parse_i64(args.get(2)) {
            None => return cx.reply.error(NOT_INTEGER),
            Some(bits @ 1..=4096) => bits as usize,
            Some(_) => {
                return cx.reply.error(
                    "ERR ACL GENPASS argument must be the number of bits for the output password, \
                     a positive number up to 4096",
                );
            }
        },
    };
    match secret::<512>() {
        Ok(bytes) => {
            let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            digits.truncate(bits.div_ceil(4));
            cx.reply.bulk(digits.as_bytes());
        }
        Err(error) => cx.reply.error(&format!("ERR no random numbers: {error}")),
    }
}

/// Whether `user` might run the request after its name.
fn try_out(service: &Service, user: &[u8], args: Args<'_>) -> Result<Option<String>, String> {
    let found = std::str::from_utf8(user).ok().and_then(|name| service.acl.get(name));
    let user =
        found.ok_or_else(|| format!("ERR User '{}' not found", String::from_utf8_lossy(user)))?;
    let name = String::from_utf8_lossy(args.get(0));
    let command = find_called(args).ok_or_else(|| format!("ERR Command '{name}' not found"))?;
    if !command.takes(args.len()) {
        return Err(wrong_number(command.name));
    }
    Ok(user.permits(command, args).err().map(|denied| denied.explanation()))
}

pub(crate) fn dryrun(cx: &mut Cx<'_>, args: Args<'_>) {
    match try_out(cx.service, args.get(2), args.skip(3)) {
        Ok(None) => cx.reply.ok(),
        Ok(Some(denied)) => cx.reply.bulk(denied.as_bytes()),
        Err(text) => cx.reply.error(&text),
    }
}
