//! `stats`.

use super::COMPATIBLE_VERSION;
use crate::burst::Args;
use crate::database_set::metric_of;
use crate::process;
use crate::resp::Keyspace;
use crate::resp::whole::size;
use silica::engine::{MetricVisitor, Result};
use silica_proto::Reply;
use silica_proto::memcached::{Fault, fault};
use std::sync::atomic::Ordering::Relaxed;

/// Answers `stats` and its like.
pub(crate) fn stats(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    write(keys, if args.len() > 1 { args.get(1) } else { b"" }, reply.raw())
}

/// Appends the lines that `word` asks for.
pub(super) fn write(keys: &Keyspace<'_>, word: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let line: &[u8] = match word {
        b"" => {
            general(keys, out)?;
            b"END\r\n"
        }
        b"settings" => {
            settings(keys, out);
            b"END\r\n"
        }
        b"databases" => {
            databases(keys, out)?;
            b"END\r\n"
        }
        b"conns" => {
            conns(keys, out);
            b"END\r\n"
        }
        b"reset" => {
            keys.service.stats.reset();
            b"RESET\r\n"
        }
        // There are no slab classes, so nothing is told of any.
        b"items" | b"slabs" => b"END\r\n",
        b"sizes" => b"STAT sizes_status disabled\r\nEND\r\n",
        b"detail" => b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
        b"cachedump" => b"CLIENT_ERROR stats cachedump not allowed\r\n",
        _ => {
            fault(out, Fault::Unknown);
            return Ok(());
        }
    };
    out.extend_from_slice(line);
    Ok(())
}

fn stat(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
}

fn general(keys: &Keyspace<'_>, out: &mut Vec<u8>) -> Result<()> {
    let (service, counters) = (keys.service, &keys.service.stats);
    let now_ms = service.unix_ms();
    let (hits, misses) = (counters.get("keyspace_hits"), counters.get("keyspace_misses"));
    stat(out, "pid", std::process::id());
    stat(out, "uptime", now_ms.saturating_sub(service.started_ms) / 1000);
    stat(out, "time", now_ms / 1000);
    stat(out, "version", COMPATIBLE_VERSION);
    stat(out, "silica_version", env!("CARGO_PKG_VERSION"));
    stat(out, "engine", keys.engine.descriptor().name);
    stat(out, "pointer_size", usize::BITS);
    stat(out, "max_connections", service.clients_max.load(Relaxed));
    stat(out, "curr_connections", service.clients.count());
    stat(out, "total_connections", counters.get("total_connections_received"));
    stat(out, "rejected_connections", counters.get("rejected_connections"));
    stat(out, "cmd_get", hits + misses);
    stat(out, "cmd_set", counters.get("memcached_stores"));
    stat(out, "get_hits", hits);
    stat(out, "get_misses", misses);
    stat(out, "bytes_read", counters.get("total_net_input_bytes"));
    stat(out, "bytes_written", counters.get("total_net_output_bytes"));
    stat(out, "limit_maxbytes", service.memory_bytes());
    stat(out, "accepting_conns", 1);
    stat(out, "threads", service.front.loops());
    if keys.engine.as_admin().is_some() {
        stat(out, "curr_items", size(keys)?.estimate);
    }
    let (user, system) = process::cpu_seconds();
    stat(out, "rusage_user", format_args!("{user:.6}"));
    stat(out, "rusage_system", format_args!("{system:.6}"));
    for (name, metric) in
        [("bytes", "live_bytes"), ("evictions", "evictions"), ("reclaimed", "expirations")]
    {
        if let Some(value) = metric_of(keys.engine, metric) {
            stat(out, name, value);
        }
    }
    Ok(())
}

/// The engine and the figures of every database that is open.
fn databases(keys: &Keyspace<'_>, out: &mut Vec<u8>) -> Result<()> {
    struct Metrics<'o>(&'o mut Vec<u8>, usize);
    impl MetricVisitor for Metrics<'_> {
        fn metric(&mut self, name: &'static str, value: f64) {
            stat(self.0, &format!("{}:{name}", self.1), value);
        }
    }
    for db in 0..keys.service.databases.count() {
        let Some(engine) = keys.service.databases.opened(db) else { continue };
        stat(out, &format!("{db}:engine"), engine.descriptor().name);
        if engine.as_admin().is_some() {
            let whole = keys.service.databases.whole(db);
            let keys_of_db = Keyspace { engine, db, whole, ..*keys };
            stat(out, &format!("{db}:curr_items"), size(&keys_of_db)?.estimate);
        }
        engine.metrics(&mut Metrics(out, db));
    }
    Ok(())
}

fn settings(keys: &Keyspace<'_>, out: &mut Vec<u8>) {
    stat(out, "maxbytes", keys.service.memory_bytes());
    stat(out, "maxconns", keys.service.clients_max.load(Relaxed));
    stat(out, "tcpport", keys.service.front.port());
    stat(out, "num_threads", keys.service.front.loops());
    stat(out, "item_size_max", silica_proto::memcached::Limits::OPEN.value_bytes_max);
    stat(out, "cas_enabled", "yes");
    stat(out, "flush_enabled", "yes");
    stat(out, "auth_enabled_ascii", if keys.service.acl.lets_in() { "no" } else { "yes" });
}

fn conns(keys: &Keyspace<'_>, out: &mut Vec<u8>) {
    let now_ms = keys.service.unix_ms();
    for client in keys.service.clients.all() {
        let idle = now_ms.saturating_sub(client.active_ms.load(Relaxed)) / 1000;
        stat(
            out,
            &format!("{}:addr", client.id),
            format_args!("{}:{}", client.peer.kind(), client.peer),
        );
        stat(
            out,
            &format!("{}:listen_addr", client.id),
            format_args!("{}:{}", client.local.kind(), client.local),
        );
        stat(out, &format!("{}:secs_since_last_cmd", client.id), idle);
    }
}
