//! Commands about channels.

use super::{Cx, Keyspace, wrong_subcommand};
use crate::budget::{Claim, SMALL_BYTES};
use crate::burst::Args;
use crate::cluster::Asked;
use crate::push::Kind;
use silica::engine::Result;
use silica_proto::Reply;
use std::sync::Arc;

pub(crate) fn subscribe(cx: &mut Cx<'_>, args: Args<'_>) {
    listen(cx, args, Kind::Channel, b"subscribe");
}

pub(crate) fn psubscribe(cx: &mut Cx<'_>, args: Args<'_>) {
    listen(cx, args, Kind::Pattern, b"psubscribe");
}

pub(crate) fn ssubscribe(cx: &mut Cx<'_>, args: Args<'_>) {
    listen(cx, args, Kind::Shard, b"ssubscribe");
}

pub(crate) fn sunsubscribe(cx: &mut Cx<'_>, args: Args<'_>) {
    leave(cx, args, Kind::Shard, b"sunsubscribe");
}

pub(crate) fn unsubscribe(cx: &mut Cx<'_>, args: Args<'_>) {
    leave(cx, args, Kind::Channel, b"unsubscribe");
}

pub(crate) fn punsubscribe(cx: &mut Cx<'_>, args: Args<'_>) {
    leave(cx, args, Kind::Pattern, b"punsubscribe");
}

fn listen(cx: &mut Cx<'_>, args: Args<'_>, kind: Kind, word: &[u8]) {
    if kind == Kind::Shard
        && let Some(cluster) = &cx.service.cluster
        && let Some(text) =
            cluster.refuse(args.from(1), Asked { of_channels: true, ..Asked::default() })
    {
        return cx.reply.error(&text);
    }
    // Whoever takes rights away looks for those who listen by their users.
    cx.client.names().user = cx.session.user.as_ref().map(|user| Arc::clone(&user.name));
    for topic in args.from(1) {
        match cx.service.topics.add(cx.client, kind, topic) {
            Ok(count) => confirm(cx, word, Some(topic), count),
            Err(text) => return cx.reply.error(&text),
        }
    }
    // They were taken away since the request was permitted.
    let has_changed = cx.session.acl_version != cx.service.acl.version();
    if has_changed && cx.service.hears_too_much(cx.client) {
        cx.service.topics.remove_all(cx.client);
        cx.session.quit = true;
    }
}

fn leave(cx: &mut Cx<'_>, args: Args<'_>, kind: Kind, word: &[u8]) {
    let bytes = cx.client.kept.bytes();
    if args.len() == 1
        && bytes > SMALL_BYTES
        && let Err(text) = Claim::new(&cx.service.budget).grow(bytes)
    {
        // Without a list, what is left is left one by one.
        return cx.reply.error(&text);
    }
    let topics: Vec<Vec<u8>> = match args.len() {
        1 => cx.client.subscriptions().of(kind).iter().cloned().collect(),
        _ => args.from(1).map(<[u8]>::to_vec).collect(),
    };
    if topics.is_empty() {
        let count = cx.client.subscriptions().shown(kind);
        return confirm(cx, word, None, count);
    }
    for topic in &topics {
        let count = cx.service.topics.remove(cx.client, kind, topic);
        confirm(cx, word, Some(topic), count);
    }
}

fn confirm(cx: &mut Cx<'_>, word: &[u8], topic: Option<&[u8]>, count: usize) {
    cx.reply.push(3);
    cx.reply.bulk(word);
    match topic {
        Some(topic) => cx.reply.bulk(topic),
        None => cx.reply.null(),
    }
    cx.reply.integer(count as i64);
}

/// The kind of channel that PUBLISH or SPUBLISH, or a subcommand of PUBSUB is about.
pub(crate) fn kind_of(args: Args<'_>) -> Kind {
    let sharded = ["spublish", "shardchannels", "shardnumsub"];
    let is_it = |index: usize| sharded.iter().any(|word| args.is(index, word));
    if is_it(0) || (args.is(0, "pubsub") && is_it(1)) { Kind::Shard } else { Kind::Channel }
}

/// Runs with the requests that write, so that whoever gets the message sees what its sender wrote
/// before.
pub(crate) fn publish(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    match keys.service.publish(kind_of(args), args.get(1), args.get(2)) {
        Ok(count) => {
            keys.service.tell_command(args);
            reply.integer(count as i64);
        }
        Err(text) => reply.error(&text),
    }
    Ok(())
}

/// PUBLISH in a transaction, which sends the message when all of it is done.
pub(crate) fn announce(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.integer(keys.service.topics.audience(kind_of(args), args.get(1)) as i64);
    Ok(())
}

pub(crate) fn channels(cx: &mut Cx<'_>, args: Args<'_>) {
    if args.len() > 3 {
        return cx.reply.error(&wrong_subcommand(args));
    }
    let pattern = if args.len() > 2 { Some(args.get(2)) } else { None };
    let user = cx.session.user.as_ref();
    let may_hear = |name: &[u8]| user.is_none_or(|user| user.may_hear(Kind::Channel, name));
    cx.service.topics.write_channels(
        kind_of(args),
        pattern,
        may_hear,
        &cx.service.budget,
        &mut cx.reply,
    );
}

pub(crate) fn numsub(cx: &mut Cx<'_>, args: Args<'_>) {
    cx.reply.array(2 * (args.len() - 2));
    for channel in args.from(2) {
        cx.reply.bulk(channel);
        cx.reply.integer(cx.service.topics.listeners(kind_of(args), channel) as i64);
    }
}

pub(crate) fn numpat(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.integer(cx.service.topics.patterns() as i64);
}
