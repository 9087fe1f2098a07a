//! Commands about the connection itself.

use super::{Cx, SYNTAX, database_number, wrong_number};
use crate::acl::{Refusal, User};
use crate::burst::Args;
use crate::clients::DEFAULT_USER;
use crate::resp::client::set_name;
use crate::service::Service;
use crate::session::Session;
use silica_proto::{Version, append_u64, parse_i64};
use std::sync::atomic::Ordering;

/// Version of Redis whose behaviour the commands have; some clients choose features by it.
pub(crate) const COMPATIBLE_VERSION: &str = "7.4.0";

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(crate) fn ping(cx: &mut Cx<'_>, args: Args<'_>) {
    if cx.session.version == Version::Resp2 && cx.client.is_listening() {
        cx.reply.array(2);
        cx.reply.bulk(b"pong");
        return cx.reply.bulk(if args.len() > 1 { args.get(1) } else { b"" });
    }
    match args.len() {
        1 => cx.reply.simple("PONG"),
        2 => cx.reply.bulk(args.get(1)),
        _ => cx.reply.error(&wrong_number("ping")),
    }
}

pub(crate) fn echo(cx: &mut Cx<'_>, args: Args<'_>) {
    cx.reply.bulk(args.get(1));
}

pub(crate) fn quit(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.session.quit = true;
    cx.reply.ok();
}

pub(crate) fn reset(cx: &mut Cx<'_>, _: Args<'_>) {
    *cx.session = Session::new(cx.service.acl.lets_in());
    cx.service.topics.remove_all(cx.client);
    cx.service.tracking.remove(cx.client.id);
    cx.service.monitors.remove(cx.client);
    cx.client.names().name.clear();
    cx.reply.simple("RESET");
}

/// MONITOR: shows the connection the requests of all clients from now on.
pub(crate) fn monitor(cx: &mut Cx<'_>, _: Args<'_>) {
    if let Some(client) = cx.service.clients.get(cx.client.id) {
        cx.session.monitors = true;
        cx.service.monitors.add(client);
    }
    cx.reply.ok();
}

pub(crate) fn time(cx: &mut Cx<'_>, _: Args<'_>) {
    let now_us = cx.service.unix_us();
    cx.reply.array(2);
    for part in [now_us / 1_000_000, now_us % 1_000_000] {
        let mut digits = Vec::with_capacity(20);
        append_u64(&mut digits, part);
        cx.reply.bulk(&digits);
    }
}

/// The first port of the datagram protocol, and a pass for it.
pub(crate) fn datagrams(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(port) = cx.service.front.datagram_ports().first().copied() else {
        return cx.reply.error("ERR datagrams are not served; start with --datagrams HOST:PORT");
    };
    let version = cx.service.acl.version();
    if !cx.session.user(&cx.service.acl).is_some_and(User::is_unlimited) {
        return cx.reply.error("NOPERM datagrams are for users without limits");
    }
    let pass = cx.service.front.datagram_pass(version);
    cx.reply.array(2);
    cx.reply.integer(i64::from(port));
    cx.reply.bulk(pass.map(|byte| format!("{byte:02x}")).concat().as_bytes());
}

pub(crate) fn select(cx: &mut Cx<'_>, args: Args<'_>) {
    match selected(cx.service, args) {
        Ok(db) => {
            cx.session.db = db;
            cx.reply.ok();
        }
        Err(text) => cx.reply.error(text),
    }
}

/// The database that a SELECT chooses, or why it chooses none.
pub(crate) fn selected(service: &Service, args: Args<'_>) -> Result<u8, &'static str> {
    let number = database_number(args.get(1))?;
    let is_there = (0..service.databases.count() as i64).contains(&i64::from(number));
    if service.cluster.is_some() && number != 0 {
        return Err("ERR SELECT is not allowed in cluster mode");
    }
    is_there.then_some(number as u8).ok_or("ERR DB index is out of range")
}

pub(crate) fn shutdown(cx: &mut Cx<'_>, args: Args<'_>) {
    let has = |word: &str| (1..args.len()).any(|index| args.is(index, word));
    let known = ["save", "nosave", "now", "force", "abort"];
    let is_known = |index| known.iter().any(|word| args.is(index, word));
    let is_only_abort = (1..args.len()).all(|index| args.is(index, "abort"));
    let contradicts = (has("save") && has("nosave")) || (has("abort") && !is_only_abort);
    if !(1..args.len()).all(is_known) || contradicts {
        return cx.reply.error(SYNTAX);
    }
    if has("abort") {
        // A stop waits for nothing that could keep it from going on.
        return cx.reply.error("ERR No shutdown in progress.");
    }
    log::info!("client {} asked for the server to stop", cx.client.peer);
    if has("nosave") {
        cx.service.keeps_nothing.store(true, Ordering::Release);
    }
    cx.session.quit = true;
    cx.service.request_stop();
}

/// Lets the client in where user and password are right.
fn let_in(cx: &mut Cx<'_>, command: &[u8], user: &[u8], given: &[u8]) -> bool {
    match cx.service.acl.authenticate(user, given) {
        Some(user) => {
            cx.session.enter(user);
            true
        }
        None => {
            cx.service.note_refusal(Refusal::of_password(command, user), Some(cx.client));
            false
        }
    }
}

/// True where the user who everybody is at first takes any password, whether or not it is enabled.
fn is_open(cx: &Cx<'_>) -> bool {
    cx.service.acl.get(DEFAULT_USER).is_some_and(|user| user.no_password)
}

pub(crate) fn auth(cx: &mut Cx<'_>, args: Args<'_>) {
    let (user, given) = match args.len() {
        2 if is_open(cx) => {
            return cx.reply.error(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            );
        }
        2 => (DEFAULT_USER.as_bytes(), args.get(1)),
        3 => (args.get(1), args.get(2)),
        _ => return cx.reply.error(SYNTAX),
    };
    match let_in(cx, args.get(0), user, given) {
        true => cx.reply.ok(),
        false => cx.reply.error(WRONG_PASSWORD),
    }
}

/// What HELLO asks for.
#[derive(Default)]
struct Hello<'a> {
    version: Option<Version>,
    auth: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn hello_options<'a>(args: Args<'a>) -> Result<Hello<'a>, String> {
    let mut hello = Hello::default();
    if args.len() > 1 {
        hello.version = Some(match parse_i64(args.get(1)) {
            Some(2) => Version::Resp2,
            Some(3) => Version::Resp3,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => {
                return Err("ERR Protocol version is not an integer or out of range".into());
            }
        });
    }
    let mut index = 2;
    while index < args.len() {
        let left = args.len() - index - 1;
        if args.is(index, "auth") && left >= 2 {
            hello.auth = Some((args.get(index + 1), args.get(index + 2)));
            index += 3;
        } else if args.is(index, "setname") && left >= 1 {
            hello.name = Some(args.get(index + 1));
            index += 2;
        } else {
            let word = String::from_utf8_lossy(args.get(index));
            return Err(format!("ERR Syntax error in HELLO option '{word}'"));
        }
    }
    Ok(hello)
}

pub(crate) fn hello(cx: &mut Cx<'_>, args: Args<'_>) {
    let hello = match hello_options(args) {
        Ok(hello) => hello,
        Err(text) => return cx.reply.error(&text),
    };
    if let Some((user, password)) = hello.auth
        && !let_in(cx, args.get(0), user, password)
    {
        return cx.reply.error(WRONG_PASSWORD);
    }
    if !cx.session.let_in {
        return cx.reply.error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        );
    }
    if let Some(name) = hello.name
        && let Err(text) = set_name(cx.client, name)
    {
        return cx.reply.error(text);
    }
    if let Some(version) = hello.version {
        cx.session.version = version;
        cx.reply.set_version(version);
    }
    describe(cx);
}

fn describe(cx: &mut Cx<'_>) {
    let reply = &mut cx.reply;
    reply.map(7);
    reply.bulk(b"server");
    // Some clients have their caches for servers of this name only.
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(COMPATIBLE_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if cx.session.version == Version::Resp2 { 2 } else { 3 });
    reply.bulk(b"id");
    reply.integer(cx.client.id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}
