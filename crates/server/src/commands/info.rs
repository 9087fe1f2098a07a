//! INFO.

use super::Keyspace;
use super::session::COMPATIBLE_VERSION;
use crate::burst::Args;
use crate::process;
use silica::engine::{MetricVisitor, Result};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

type Section = fn(&Keyspace<'_>, &mut String) -> Result<()>;

/// The section that must be asked for.
const COMMANDS: &str = "Commandstats";

const SECTIONS: &[(&str, Section)] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    (COMMANDS, commandstats),
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
    let shared = keys.shared;
    let up_s = shared.unix_ms().saturating_sub(shared.started_ms) / 1000;
    lines!(out,
        "redis_version": COMPATIBLE_VERSION,
        "silica_version": env!("CARGO_PKG_VERSION"),
        "redis_mode": "standalone",
        "os": std::env::consts::OS,
        "arch_bits": usize::BITS,
        "multiplexing_api": "mio",
        "process_id": std::process::id(),
        "tcp_port": shared.port(),
        "server_time_usec": shared.unix_ms() * 1000,
        "uptime_in_seconds": up_s,
        "uptime_in_days": up_s / 86_400,
        "event_loops": shared.config.loops,
        "io_workers": shared.config.io_workers,
    );
    Ok(())
}

fn clients(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    lines!(out,
        "connected_clients": keys.shared.clients.count(),
        "maxclients": keys.shared.clients_max.load(Relaxed),
        "blocked_clients": 0,
        "open_descriptors": process::open_descriptors(),
    );
    Ok(())
}

fn memory(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let (resident, peak) = process::resident_bytes();
    let config = &keys.shared.config;
    lines!(out,
        "used_memory": resident,
        "used_memory_rss": resident,
        "used_memory_peak": peak,
        "mem_clients_normal": keys.shared.held_bytes.load(Relaxed),
        "clients_bytes": keys.shared.held_bytes.load(Relaxed),
        "clients_bytes_max": config.clients_bytes_max,
        "stores_bytes_max": config.memory_bytes.saturating_sub(config.clients_bytes_max as u64),
        "maxmemory": config.memory_bytes,
        "maxmemory_policy": keys.shared.eviction_policy(),
    );
    Ok(())
}

fn persistence(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let durable = keys.engine.descriptor().capabilities.durable;
    lines!(out,
        "loading": 0,
        "durable": u8::from(durable),
        "durability": format!("{:?}", keys.shared.config.durability).to_lowercase(),
        "aof_enabled": u8::from(durable),
    );
    Ok(())
}

fn stats(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    for (name, value) in keys.shared.stats.list() {
        line(out, format_args!("{name}:{value}"));
    }
    for (name, metric) in [("evicted_keys", "evictions"), ("expired_keys", "expirations")] {
        if let Some(value) = keys.shared.store.total(metric) {
            line(out, format_args!("{name}:{value}"));
        }
    }
    lines!(out,
        "pubsub_channels": keys.shared.topics.channels(None).len(),
        "pubsub_patterns": keys.shared.topics.patterns(),
    );
    Ok(())
}

fn cpu(_: &Keyspace<'_>, out: &mut String) -> Result<()> {
    let (user, system) = process::cpu_seconds();
    lines!(out, "used_cpu_sys": system, "used_cpu_user": user,);
    Ok(())
}

fn commandstats(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    keys.shared.calls.write(&keys.shared.stats, out);
    Ok(())
}

fn cluster(_: &Keyspace<'_>, out: &mut String) -> Result<()> {
    lines!(out, "cluster_enabled": 0,);
    Ok(())
}

fn replication(_: &Keyspace<'_>, out: &mut String) -> Result<()> {
    lines!(out, "role": "master", "connected_slaves": 0,);
    Ok(())
}

fn keyspace(keys: &Keyspace<'_>, out: &mut String) -> Result<()> {
    for db in 0..keys.shared.store.count() {
        let admin = keys.shared.store.opened(db).and_then(|engine| engine.as_admin());
        let Some(admin) = admin else { continue };
        let count = admin.count(false)?;
        if count.high > 0 {
            // Programs that read this know these three fields and no others. How many keys expire
            // is not counted; the bounds of the estimate are in the last section.
            line(out, format_args!("db{db}:keys={},expires=0,avg_ttl=0", count.estimate));
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
    for db in 0..keys.shared.store.count() {
        if let Some(engine) = keys.shared.store.opened(db) {
            let descriptor = engine.descriptor();
            line(out, format_args!("db{db}_engine:{}", descriptor.name));
            let in_memory = u8::from(!descriptor.capabilities.durable);
            line(out, format_args!("db{db}_in_memory:{in_memory}"));
            if let Some(admin) = engine.as_admin() {
                let count = admin.count(false)?;
                line(out, format_args!("db{db}_keys_low:{}", count.low));
                line(out, format_args!("db{db}_keys_high:{}", count.high));
            }
            engine.metrics(&mut Lines { out, db });
        }
    }
    Ok(())
}
