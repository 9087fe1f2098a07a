//! INFO.

use super::expiring::{Expiring, sample};
use super::session::COMPATIBLE_VERSION;
use super::whole::size;
use super::{Keyspace, replicas};
use crate::burst::Args;
use crate::process;
use silica::engine::{MetricVisitor, Result};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

type Section = fn(&Keyspace<'_>, &mut String) -> Result<()>;

/// The section that must be asked for.
const COMMANDS: &str = "Commandstats";

/// The section that only members of a group have.
const AGREEMENT: &str = "Agreement";

const SECTIONS: &[(&str, Section)] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    (AGREEMENT, agreement),
    ("CPU", cpu),
    (COMMANDS, commandstats),
    ("Errorstats", errorstats),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
    ("Silica", silica),
];

/// The sections that `args` name, or all.
pub(crate) fn text(keys: &Keyspace<'_>, args: Args<'_>) -> Result<String> {
    let has = |word: &str| (1..args.len()).any(|i| args.is(i, word));
    let all = has("all") || has("everything");
    let usual = args.len() == 1 || has("default");
    let mut out = String::new();
    for (name, section) in SECTIONS {
        if *name == AGREEMENT && keys.service.options.agreement.is_none() {
            continue;
        }
        if all || usual && *name != COMMANDS || has(name) {
            if !out.is_empty() {
                out.push_str("\r\n");
            }
            line(&mut out, format_args!("# {name}"));
            section(keys, &mut out)?;
        }
    }
    Ok(out)
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes every write");
    out.push_str("\r\n");
}

macro_rules! lines {
    ($out:expr, $($name:literal: $value:expr,)*) => {
        $(line($out, format_args!("{}:{}", $name, $value));)*
    };
}

fn server(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let service = keys.service;
    let up_s = service.unix_ms().saturating_sub(service.started_ms) / 1000;
    lines!(out,
        "redis_version": COMPATIBLE_VERSION,
        "silica_version": env!("CARGO_PKG_VERSION"),
        "redis_mode": if service.cluster.is_some() { "cluster" } else { "standalone" },
        "os": process::system(),
        "arch_bits": usize::BITS,
        "multiplexing_api": "mio",
        "process_id": std::process::id(),
        "run_id": service.run_id,
        "tcp_port": service.front.port(),
        "server_time_usec": service.unix_ms() * 1000,
        "uptime_in_seconds": up_s,
        "uptime_in_days": up_s / 86_400,
        "event_loops": service.options.loops,
        "io_workers": service.options.io_workers,
    );
    Ok(())
}

fn clients(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    lines!(out,
        "connected_clients": keys.service.clients.count(),
        "maxclients": keys.service.clients_max.load(Relaxed),
        "blocked_clients": keys.service.waiters.count(),
        "tracking_clients": keys.service.tracking.count(),
        "open_descriptors": process::open_descriptors(),
    );
    Ok(())
}

fn memory(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let process::Memory { used, resident, peak, of_system } = process::memory();
    let config = &keys.service.options;
    let memory_bytes = keys.service.memory_bytes();
    let clients = keys.service.budget.used() as u64;
    let (scripts, scripts_bytes) = keys.service.scripts.usage();
    let libraries = keys.service.libraries.list();
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    lines!(out,
        "used_memory": used,
        "used_memory_human": human(used),
        "used_memory_rss": resident,
        "used_memory_rss_human": human(resident),
        "used_memory_peak": peak,
        "used_memory_peak_human": human(peak),
        "used_memory_peak_perc": format!("{:.2}%", percent(resident, peak)),
        "used_memory_dataset": used.saturating_sub(clients),
        "total_system_memory": of_system,
        "total_system_memory_human": human(of_system),
        "mem_fragmentation_ratio": format!("{:.2}", percent(resident, used) / 100.0),
        "mem_fragmentation_bytes": resident.saturating_sub(used),
        "mem_clients_normal": clients,
        "clients_bytes": clients,
        "clients_bytes_max": config.clients_bytes_max,
        "number_of_cached_scripts": scripts,
        "used_memory_scripts": scripts_bytes,
        "number_of_libraries": libraries.len(),
        "number_of_functions": libraries.iter().map(|l| l.functions.len()).sum::<usize>(),
        "stores_bytes_max": memory_bytes.saturating_sub(config.clients_bytes_max as u64),
        "maxmemory": memory_bytes,
        "maxmemory_human": human(memory_bytes),
        "maxmemory_policy": keys.service.eviction_policy(),
    );
    Ok(())
}

/// Bytes as Redis writes them for people: `1.50M`.
fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T", "P", "E"];
    let power = bytes.checked_ilog2().unwrap_or(0) / 10;
    match power.checked_sub(1) {
        None => format!("{bytes}B"),
        Some(unit) => {
            let scaled = bytes as f64 / 1024_f64.powi(power as i32);
            format!("{scaled:.2}{}", units[unit as usize])
        }
    }
}

fn persistence(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let capabilities = keys.engine.descriptor().capabilities;
    let durable = capabilities.durable;
    let survives = match capabilities {
        _ if capabilities.durable && capabilities.synced => "power",
        _ if capabilities.durable => "process",
        _ => "none",
    };
    let service = keys.service;
    let saved_ms = service.databases.jobs.saved_unix_ms().unwrap_or(service.started_ms);
    lines!(out,
        "loading": 0,
        "durable": u8::from(durable),
        "durability": format!("{:?}", keys.service.options.durability).to_lowercase(),
        "durability_class": survives,
        "aof_enabled": u8::from(durable),
        "rdb_changes_since_last_save": changes(keys),
        "rdb_last_save_time": saved_ms / 1000,
    );
    Ok(())
}

/// Puts and deletes since the start.
fn changes(keys: &Keyspace<'_>) -> u64 {
    ["puts", "deletes"].iter().filter_map(|metric| keys.service.databases.total(metric)).sum()
}

fn stats(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let service = keys.service;
    for (name, value) in service.stats.list() {
        line(out, format_args!("{name}:{value}"));
    }
    let rate = service.rates.rate(&service.stats, service.monotonic_ms());
    let kib = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    lines!(out,
        "instantaneous_ops_per_sec": rate.requests,
        "instantaneous_input_kbps": kib(rate.bytes_received),
        "instantaneous_output_kbps": kib(rate.bytes_sent),
        "evicted_keys": service.databases.total("evictions").unwrap_or(0),
        "expired_keys": service.databases.total("expirations").unwrap_or(0),
    );
    let tracked = service.tracking.totals();
    lines!(out,
        "pubsub_channels": keys.service.topics.channels(),
        "pubsub_patterns": keys.service.topics.patterns(),
        "tracking_total_keys": tracked.0,
        "tracking_total_items": tracked.1,
        "tracking_total_prefixes": tracked.2,
        "object_pages_reclaimed": service.dead_pages.reclaimed(),
        "sync_full": service.replication.syncs[0].load(Relaxed),
        "sync_partial_ok": service.replication.syncs[1].load(Relaxed),
        "sync_partial_err": service.replication.syncs[2].load(Relaxed),
    );
    Ok(())
}

fn cpu(_: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let (user, system) = process::cpu_seconds();
    lines!(out, "used_cpu_sys": system, "used_cpu_user": user,);
    Ok(())
}

fn commandstats(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    keys.service.calls.write(&keys.service.stats, out);
    Ok(())
}

fn errorstats(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    keys.service.errors.write(out);
    Ok(())
}

fn cluster(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    lines!(out, "cluster_enabled": u8::from(keys.service.cluster.is_some()),);
    Ok(())
}

fn replication(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    replicas::info(keys, out);
    Ok(())
}

fn agreement(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let agreement = keys.service.options.agreement.iter();
    agreement.for_each(|agreement| out.push_str(&agreement.info()));
    Ok(())
}

fn keyspace(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let databases = &keys.service.databases;
    for db in 0..databases.count() {
        let Some(engine) = databases.opened(db) else { continue };
        if engine.as_admin().is_none() {
            continue;
        }
        let keys_of_db = Keyspace { engine, db, whole: databases.whole(db), ..*keys };
        let count = size(&keys_of_db)?;
        if count.high > 0 {
            // Programs that read this know these three fields and no others. The bounds of an
            // estimate are in the last section.
            let Expiring { share, ttl_ms } =
                sample(&keys_of_db, databases.whole(db), count.estimate)?;
            let expires = (count.estimate as f64 * share).round();
            line(
                out,
                format_args!("db{db}:keys={},expires={expires},avg_ttl={ttl_ms}", count.estimate),
            );
        }
    }
    Ok(())
}

struct Lines<'o> {
    out: &'o mut String,
    db: usize,
}

impl MetricVisitor for Lines<'_> {
    fn metric(&mut self, name: &'static str, value: f64) {
        line(self.out, format_args!("db{}_{name}:{value}", self.db));
    }
}

fn silica(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    for db in 0..keys.service.databases.count() {
        if let Some(engine) = keys.service.databases.opened(db) {
            let descriptor = engine.descriptor();
            line(out, format_args!("db{db}_engine:{}", descriptor.name));
            let in_memory = u8::from(!descriptor.capabilities.durable);
            line(out, format_args!("db{db}_in_memory:{in_memory}"));
            if engine.as_admin().is_some() {
                let whole = keys.service.databases.whole(db);
                let count = size(&Keyspace { engine, db, whole, ..*keys })?;
                line(out, format_args!("db{db}_keys_low:{}", count.low));
                line(out, format_args!("db{db}_keys_high:{}", count.high));
            }
            engine.metrics(&mut Lines { out, db });
        }
    }
    Ok(())
}
