//! What replicas ask of their primary, and what others ask about them: PSYNC, REPLCONF, WAIT, ROLE.

use super::{Cx, Keyspace, NOT_INTEGER, SYNTAX};
use crate::burst::Args;
use crate::replication::{
    ACKNOWLEDGED, CAPABILITY, Effects, Feed, LinkState, Phase, Role, Wanted, Wish, note_times,
};
use crate::resp::replicaof;
use crate::resp::types::{Done, Failure, Objects, TypeCommand};
use crate::service::Service;
use crate::waiters::{Vain, Wait};
use silica::engine::Durability;
use silica_proto::{Reply, parse_i64};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) static WAIT: TypeCommand = TypeCommand::read(wait).with_key_at(0);
pub(crate) static WAITAOF: TypeCommand = TypeCommand::read(waitaof).with_key_at(0);

/// What the connection is fed with; `None` if it is gone.
fn feed(cx: &Cx<'_>, now_ms: u64) -> Option<Arc<Feed>> {
    let service = cx.service;
    service.replication.feed_of(&service.clients, &service.budget, cx.client, now_ms)
}

/// REPLCONF: what a replica says of itself.
pub(crate) fn replconf(cx: &mut Cx<'_>, args: Args<'_>) {
    if args.len().is_multiple_of(2) {
        return cx.reply.error(SYNTAX);
    }
    let (service, now_ms) = (cx.service, cx.service.monotonic_ms());
    let Some(feed) = feed(cx, now_ms) else { return };
    for at in (1..args.len()).step_by(2) {
        let value = args.get(at + 1);
        let number = || parse_i64(value).and_then(|number| u64::try_from(number).ok());
        match &args.get(at).to_ascii_lowercase()[..] {
            b"listening-port" => match number().and_then(|port| u16::try_from(port).ok()) {
                Some(port) => feed.set_port(port),
                None => return cx.reply.error(NOT_INTEGER),
            },
            b"ip-address" => feed.set_address(value),
            b"capa" => feed.note_capability(value),
            b"silica-summary" => {
                if let Err(text) = feed.set_summary(value) {
                    return cx.reply.error(&text);
                }
            }
            b"ack" => {
                let Some(offset) = number() else { return };
                if args.len() > at + 3 && args.is(at + 2, "fack") {
                    let synced = parse_i64(args.get(at + 3)).and_then(|at| u64::try_from(at).ok());
                    feed.synced.fetch_max(synced.unwrap_or(0), Relaxed);
                }
                if feed.acknowledge(offset, now_ms) {
                    log::info!("replica {} is online", cx.client.peer);
                }
                if service.waiters.any() {
                    let woken = service.waiters.of_keys([ACKNOWLEDGED].into_iter());
                    service.wake_all(woken);
                }
                // It is not answered.
                return;
            }
            b"rdb-only" => match number() {
                Some(0) => feed.want(Wanted::Stream),
                Some(1) if feed.wanted() == Wanted::Functions => {}
                Some(1) => feed.want(Wanted::File),
                _ => return cx.reply.error(NOT_INTEGER),
            },
            b"rdb-filter-only" => {
                let words = || value.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
                if let Some(word) = words().find(|word| !word.eq_ignore_ascii_case(b"functions")) {
                    let word = String::from_utf8_lossy(word).into_owned();
                    let text = format!("ERR Unsupported rdb-filter-only option: {word}");
                    return cx.reply.error(&text);
                }
                if words().next().is_some() {
                    feed.want(Wanted::Functions);
                }
            }
            // These ask a replica, or tell what there is no use for.
            b"getack" | b"version" => {}
            other => {
                let name = String::from_utf8_lossy(other).into_owned();
                return cx.reply.error(&format!("ERR Unrecognized REPLCONF option: {name}"));
            }
        }
    }
    cx.reply.ok();
}

/// PSYNC id offset: goes on in the stream, or begins with all data.
pub(crate) fn psync(cx: &mut Cx<'_>, args: Args<'_>) {
    let (service, now_ms) = (cx.service, cx.service.monotonic_ms());
    let replication = &service.replication;
    if args.len() > 3
        && args.is(3, "failover")
        && let Err(text) = take_over(service, args.get(1))
    {
        return cx.reply.error(&text);
    }
    let Some(feed) = asking(cx, now_ms) else { return };
    let takes_records = feed.takes_records() && replication.settings.has_records.load(Relaxed);
    // The first byte that is wanted, counted from 1.
    let wanted = parse_i64(args.get(2)).and_then(|at| at.checked_sub(1));
    let wanted = wanted.and_then(|at| u64::try_from(at).ok());
    let wanted = wanted.filter(|_| feed.wanted() == Wanted::Stream);
    if let Some(offset) = wanted.filter(|_| args.get(1) != b"?") {
        if replication.continues(&feed, args.get(1), offset, now_ms) {
            let _ = replication.syncs[1].fetch_add(1, Relaxed);
            // A Silica hears which time has passed.
            if !replication.is_replica()
                && !takes_records
                && replication.lacks_times.swap(false, Relaxed)
                && let Some(itself) = service.itself()
            {
                note_times(&itself);
            }
            log::info!("replica {} goes on at offset {offset}", cx.client.peer);
            let id = replication.history().id;
            return match feed.knows_ids() {
                _ if takes_records => {
                    let (word, end) = (CAPABILITY, replication.records_end());
                    cx.reply.simple(&format!("CONTINUE {id} {word} {end}"));
                }
                true => cx.reply.simple(&format!("CONTINUE {id}")),
                false => cx.reply.simple("CONTINUE"),
            };
        }
        replication.syncs[2].fetch_add(1, Relaxed);
    }
    let seed = service.random_seed();
    // One without an order would have to make pages of a large sorted set in one step.
    let has_place = feed.takes_elements() || !service.keeps_elements();
    let takes_blocks = takes_records && has_place && feed.wanted() == Wanted::Stream;
    if takes_blocks && feed.asks_summary(seed) {
        let digits: String = seed.0.iter().map(|byte| format!("{byte:02x}")).collect();
        return cx.reply.simple(&format!("SUMMARY {digits}"));
    }
    send_all(cx, &feed);
}

/// Sends all data to a connection, from now on.
fn send_all(cx: &mut Cx<'_>, feed: &Feed) {
    if !feed.takes_mark() {
        let text = "ERR all data is sent without a length: the replica has to know that (REPLCONF \
                    capa eof), as every Redis since 3.0 does";
        return cx.reply.error(text);
    }
    if let Err(text) = feed.begin_sync() {
        cx.reply.error(&text);
    }
}

/// What the connection is fed with that asks for all data; `None` if it cannot have it, or has it
/// already, and was answered.
fn asking(cx: &mut Cx<'_>, now_ms: u64) -> Option<Arc<Feed>> {
    let replication = &cx.service.replication;
    let is_linked = replication.link().state == LinkState::Connected;
    if replication.is_replica() && !is_linked {
        cx.reply.error("NOMASTERLINK Can't SYNC while not connected with my master");
        return None;
    }
    let feed = feed(cx, now_ms).filter(|feed| feed.phase() == Phase::Greeting)?;
    if !replication.can_feed(&feed, now_ms) {
        log::info!("replica {} takes commands only and has to come again", cx.client.peer);
        cx.reply.error("NOMASTERLINK the link to the primary is made anew without records");
        return None;
    }
    Some(feed)
}

/// `PSYNC id offset FAILOVER`: the primary wants this replica of its history `id` to take its
/// place.
fn take_over(service: &Service, id: &[u8]) -> Result<(), String> {
    let replication = &service.replication;
    if !replication.is_replica() {
        return Err("ERR PSYNC FAILOVER can't be sent to a master.".into());
    }
    if replication.history().id.as_bytes() != id {
        return Err("ERR PSYNC FAILOVER replid must match my replid.".into());
    }
    log::info!("the primary hands over its role");
    replicaof::set(service, None).map_err(|error| format!("ERR {error}"))
}

/// FAILOVER: lets a replica take the place of this primary.
pub(crate) fn failover(cx: &mut Cx<'_>, args: Args<'_>) {
    let (mut wish, mut aborts) = (Wish::default(), false);
    let mut at = 1;
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.is(at, "timeout") && left >= 1 && wish.timeout_ms.is_none() {
            let Some(ms) = parse_i64(args.get(at + 1)) else { return cx.reply.error(NOT_INTEGER) };
            let Some(ms) = u64::try_from(ms).ok().filter(|ms| *ms > 0) else {
                return cx.reply.error("ERR FAILOVER timeout must be greater than 0");
            };
            wish.timeout_ms = Some(ms);
            at += 2;
        } else if args.is(at, "to") && left >= 2 && wish.target.is_none() {
            let port = parse_i64(args.get(at + 2)).and_then(|port| u16::try_from(port).ok());
            let Some(port) = port else { return cx.reply.error(NOT_INTEGER) };
            let host = String::from_utf8_lossy(args.get(at + 1)).into_owned();
            wish.target = Some((host, port));
            at += 3;
        } else if args.is(at, "force") && !wish.is_forced {
            wish.is_forced = true;
            at += 1;
        } else if args.is(at, "abort") && !aborts {
            aborts = true;
            at += 1;
        } else {
            return cx.reply.error(SYNTAX);
        }
    }
    let service = cx.service;
    if service.cluster.is_some() {
        return cx.reply.error("ERR FAILOVER not allowed in cluster mode.");
    }
    let done = match aborts {
        true => match service.abort_failover("it was aborted by FAILOVER ABORT") {
            Ok(true) => Ok(()),
            Ok(false) => Err("ERR No failover in progress.".to_string()),
            Err(error) => Err(format!("ERR {error}")),
        },
        false => match service.itself() {
            Some(service) => service.begin_failover(wish),
            None => Err("ERR the server is being started or stopped".into()),
        },
    };
    match done {
        Ok(()) => cx.reply.ok(),
        Err(text) => cx.reply.error(&text),
    }
}

/// SYNC: all data without a position, and the stream. Tools know it (`redis-cli --rdb`, which wants
/// no stream, and `redis-cli --replica`); replicas ask with PSYNC since Redis 2.8.
pub(crate) fn sync(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(feed) = asking(cx, cx.service.monotonic_ms()) else { return };
    feed.set_bare();
    send_all(cx, &feed);
}

/// ROLE.
pub(crate) fn role(cx: &mut Cx<'_>, _: Args<'_>) {
    let replication = &cx.service.replication;
    let reply = &mut cx.reply;
    if let (Role::Replica { host, port }, _) = replication.role() {
        reply.array(5);
        reply.bulk(b"slave");
        reply.bulk(host.as_bytes());
        reply.integer(i64::from(port));
        reply.bulk(replication.link().state.name().as_bytes());
        return reply.integer(replication.offset() as i64);
    }
    let replicas = replication.replicas();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(replication.offset() as i64);
    reply.array(replicas.len());
    for feed in replicas {
        let (host, port) = feed.address();
        reply.array(3);
        reply.bulk(host.as_bytes());
        reply.bulk(port.to_string().as_bytes());
        reply.bulk(feed.acknowledged.load(Relaxed).to_string().as_bytes());
    }
}

/// WAIT: until so many replicas have what was written, or some time is over.
fn wait(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let service = objects.service();
    let replication = &service.replication;
    let wanted = parse_i64(args.get(1)).ok_or_else(|| Failure::reply(NOT_INTEGER))?;
    let timeout = parse_i64(args.get(2))
        .ok_or_else(|| Failure::reply("ERR timeout is not an integer or out of range"))?;
    let timeout_ms =
        u64::try_from(timeout).map_err(|_| Failure::reply("ERR timeout is negative"))?;
    if replication.is_replica() {
        let text = "ERR WAIT cannot be used with replica instances. Please also note that since \
                    Redis 4.0 if a replica is configured to be writable (which is not the default) \
                    writes to replicas are just local and are not propagated.";
        return Err(Failure::reply(text));
    }
    let there = reached(objects, (wanted, timeout_ms), false)?;
    reply.integer(there as i64);
    Ok(())
}

/// How many replicas have all that was written before the request, on the disk if they have to be
/// there: as soon as they are enough, or the time is over.
fn reached(
    objects: &Objects<'_>,
    (wanted, timeout_ms): (i64, u64),
    on_disk: bool,
) -> Result<usize, Failure> {
    let service = objects.service();
    let replication = &service.replication;
    // What was written before is in the stream: its own writes are answered.
    let known = objects.resolved.first().and_then(|text| std::str::from_utf8(text).ok());
    let known = known.and_then(|text| text.parse().ok());
    let offset = known.unwrap_or_else(|| replication.offset());
    let there = replication.acknowledged(offset, on_disk);
    if i64::try_from(there).is_ok_and(|there| there >= wanted) || objects.is_over {
        return Ok(there);
    }
    if known.is_none() && replication.tells() {
        let mut effects = Effects::default();
        effects.push(None, &[b"REPLCONF", b"GETACK", b"*"]);
        service.tell_replicas(&mut effects, false);
    }
    Err(Failure::Wait(Wait {
        timeout_ms,
        keys: vec![ACKNOWLEDGED.into()],
        vain: Vain::Value,
        shares: true,
        resolved: vec![offset.to_string().into_bytes()],
    }))
}

/// `WAITAOF LOCAL REPLICAS MILLISECONDS`: with LOCAL 1 until every write that was answered survives
/// a power cut here, and until so many replicas have said the same of theirs, or the time is over.
fn waitaof(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let numbers = [1, 2, 3].map(|at| parse_i64(args.get(at)));
    let [Some(local), Some(wanted), Some(timeout)] = numbers else {
        return Err(Failure::reply(NOT_INTEGER));
    };
    if !(0..=1).contains(&local) || wanted < 0 {
        let text = "ERR value is out of range, value must between 0 and 1";
        return Err(Failure::reply(text));
    }
    let timeout_ms =
        u64::try_from(timeout).map_err(|_| Failure::reply("ERR timeout is negative"))?;
    let service = objects.service();
    if service.replication.is_replica() {
        let text = "ERR WAITAOF cannot be used with replica instances. Please also note that \
                    writes to replicas are just local and are not propagated.";
        return Err(Failure::reply(text));
    }
    let databases = &service.databases;
    let mut opened = (0..databases.count()).filter_map(|db| databases.opened(db));
    let can_sync = opened.all(|engine| engine.descriptor().capabilities.synced);
    if local == 1 && !can_sync {
        let text = "ERR WAITAOF cannot be used when numlocal is set but the store does not \
                    survive a power cut: INFO persistence says what it survives \
                    (durability_class)";
        return Err(Failure::reply(text));
    }
    // At the first run; what was written since is not asked for.
    if local == 1 && objects.resolved.is_empty() {
        let mut opened = (0..databases.count()).filter_map(|db| databases.opened(db));
        opened.try_for_each(|engine| engine.sync())?;
    }
    let there = reached(objects, (wanted, timeout_ms), true)?;
    let is_synced = local == 1 || service.options.durability == Durability::Synced;
    reply.array(2);
    reply.integer(i64::from(can_sync && is_synced));
    reply.integer(there as i64);
    Ok(())
}

/// Appends a line of INFO.
fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    write!(out, "{name}:{value}\r\n").expect("a string takes every write");
}

/// The lines about the link to the primary at `host` and `port`.
fn link_info(keys: &Keyspace<'_>, (host, port): (&str, u16), out: &mut String) {
    let service = keys.service;
    let replication = &service.replication;
    let link = replication.link().clone();
    let (is_up, offset) = (link.state == LinkState::Connected, replication.offset());
    let unix_ms = service.unix_ms();
    let since = |ms: u64| match ms {
        0 => -1,
        ms => (unix_ms.saturating_sub(ms) / 1000) as i64,
    };
    line(out, "role", "slave");
    line(out, "master_host", host);
    line(out, "master_port", port);
    line(out, "master_link_status", if is_up { "up" } else { "down" });
    line(out, "master_last_io_seconds_ago", since(link.last_io_unix_ms));
    line(out, "master_sync_in_progress", u8::from(link.state == LinkState::Sync));
    if let Some(why) = link.failed.as_ref().filter(|_| !is_up) {
        // A line of INFO ends with the first end of a line.
        line(out, "silica_master_link_error", why.replace(['\r', '\n'], " "));
    }
    line(out, "slave_read_repl_offset", offset);
    line(out, "slave_repl_offset", offset);
    if link.state == LinkState::Sync {
        let left = link.sync_bytes_total.saturating_sub(link.sync_bytes_read);
        line(out, "master_sync_total_bytes", link.sync_bytes_total);
        line(out, "master_sync_read_bytes", link.sync_bytes_read);
        line(out, "master_sync_left_bytes", left);
        line(out, "master_sync_last_io_seconds_ago", since(link.last_io_unix_ms));
    }
    if !is_up {
        line(out, "master_link_down_since_seconds", since(link.down_since_unix_ms));
    }
    line(out, "slave_priority", replication.settings.priority.load(Relaxed));
    line(out, "slave_read_only", u8::from(replication.is_read_only_replica()));
    line(out, "replica_announced", 1);
}

/// The section of INFO.
pub(crate) fn info(keys: &Keyspace<'_>, out: &mut String) {
    let service = keys.service;
    let replication = &service.replication;
    let (history, offset) = replication.position();
    let now_ms = service.monotonic_ms();
    match &replication.role().0 {
        Role::Primary => line(out, "role", "master"),
        Role::Replica { host, port } => link_info(keys, (host, *port), out),
    }
    let replicas = replication.replicas();
    line(out, "connected_slaves", replicas.len());
    let min = replication.settings.replicas_min.load(Relaxed);
    if min > 0 {
        line(out, "min_slaves_good_slaves", replication.good_replicas());
    }
    for (number, feed) in replicas.iter().enumerate() {
        let (host, port) = feed.address();
        let state = match feed.phase() {
            Phase::Online(_) => "online",
            Phase::Loading(_) | Phase::Sync(Some(_)) => "send_bulk",
            _ => "wait_bgsave",
        };
        let lag = now_ms.saturating_sub(feed.heard_ms.load(Relaxed)) / 1000;
        let has = feed.acknowledged.load(Relaxed);
        let name = format!("slave{number}");
        let text = format!("ip={host},port={port},state={state},offset={has},lag={lag}");
        line(out, &name, &text);
    }
    let none = || "0".repeat(40);
    let (second, until) = history.second.map_or((none(), -1), |(id, at)| (id, at as i64 + 1));
    let (start, len, is_kept) = replication.kept();
    line(out, "master_failover_state", replication.failover_state());
    line(out, "master_replid", history.id);
    line(out, "master_replid2", second);
    line(out, "master_repl_offset", offset);
    line(out, "second_repl_offset", until);
    line(out, "repl_backlog_active", u8::from(is_kept));
    line(out, "repl_backlog_size", replication.settings.backlog_bytes.load(Relaxed));
    line(out, "repl_backlog_first_byte_offset", start + u64::from(is_kept));
    line(out, "repl_backlog_histlen", len);
    line(out, "silica_repl_form", replication.form());
}
