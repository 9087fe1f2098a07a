//! CONFIG: the settings, in the words that clients of Redis know.

use super::{Cx, Keyspace, SYNTAX, introspect, replicaof};
use crate::burst::Args;
use crate::clients::DEFAULT_USER;
use crate::cluster::{ClusterOptions, encryption};
use crate::glob::Pattern;
use crate::resp::events::Classes;
use crate::service::Service;
use silica::engine::{Durability, Result};
use silica_proto::{Limits, Reply, parse_i64};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

/// The least that stores work with.
const STORES_BYTES_MIN: u64 = 1 << 20;

/// A change that was found to be possible, and is made by this; or why it fails after all.
pub(crate) type Ready = Box<dyn FnOnce(&Service) -> std::result::Result<(), String>>;

/// How a setting can be changed while the server runs.
enum Change {
    /// Not at all.
    Never,
    Number(RangeInclusive<i64>, fn(&Service, i64)),
    /// By what a text says, or why it is wrong.
    Text(fn(&Service, &[u8]) -> std::result::Result<Ready, String>),
}

/// The file that a server has its settings from.
pub trait SettingsFile: std::fmt::Debug + Send + Sync {
    /// Writes these names and values to it, in the place of what it says of the names; all else
    /// stays as it is.
    fn rewrite(&self, settings: &[(&str, String)]) -> Result<()>;
}

/// A setting.
struct Setting {
    name: &'static str,
    show: fn(&Service) -> String,
    change: Change,
}

impl Setting {
    fn failed(&self, why: &str) -> String {
        let name = self.name;
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
    }
}

macro_rules! settings {
    ($($name:literal: $show:expr $(=> $change:expr)? $(, $range:expr => $set:expr)?;)*) => {
        &[$(Setting {
            name: $name,
            show: $show,
            change: settings!(@change $($range => $set)? $($change)?),
        }),*]
    };
    (@change) => { Change::Never };
    (@change $change:expr) => { Change::Text($change) };
    (@change $range:expr => $set:expr) => { Change::Number($range, $set) };
}

static SETTINGS: &[Setting] = settings! {
    "acllog-max-len": |service| service.acl.log.len_max.load(Relaxed).to_string(),
        0..=100_000 => |service, n| service.acl.log.len_max.store(n as usize, Relaxed);
    "appendfsync": |service| synced(service, "always", "everysec");
    "appendonly": |_| "yes".into();
    "bind": |service| {
        let all = service.options.listen.iter().map(|a| a.ip().to_string());
        all.collect::<Vec<_>>().join(" ")
    };
    "busy-reply-threshold": |service| service.runnings.busy_ms().to_string(),
        0..=i64::MAX => |service, n| service.runnings.set_busy_ms(n as u64);
    "client-query-buffer-limit": |_| Limits::OPEN.request_bytes_max.to_string();
    "client-output-buffer-limit": |service| {
        let bytes = service.replication.settings.behind_bytes_max.load(Relaxed);
        format!("normal 0 0 0 slave {bytes} 0 0 pubsub 0 0 0")
    } => output_limit;
    "cluster-announce-ip": |service| {
        announced(service).map_or_else(String::new, |options| options.host.clone())
    };
    "cluster-announce-port": |service| {
        announced(service).map_or(0, |options| options.port).to_string()
    };
    "cluster-enabled": |service| yes_or_no(service.cluster.is_some());
    "cluster-require-full-coverage": |service| yes_or_no(
        service.cluster.as_ref().is_none_or(|cluster| !cluster.options.serves_parts)
    );
    "databases": |service| service.options.databases.to_string();
    "durability": |service| synced(service, "synced", "buffered");
    "io-threads": |service| service.options.loops.to_string();
    "latency-monitor-threshold": |service| service.latency.millis_min.load(Relaxed).to_string(),
        0..=i64::MAX => |service, n| service.latency.millis_min.store(n as u64, Relaxed);
    "latency-tracking": |service| yes_or_no(service.times.is_on.load(Relaxed)) => latency_tracking;
    "lua-time-limit": |service| service.runnings.busy_ms().to_string(),
        0..=i64::MAX => |service, n| service.runnings.set_busy_ms(n as u64);
    "masterauth": |service| {
        let is_set = !replicaof::auth(service).1.is_empty();
        if is_set { "(hidden)" } else { "" }.into()
    } => master_password;
    "masteruser": |service| replicaof::auth(service).0.clone() => master_user;
    "maxclients": |service| service.clients_max.load(Relaxed).to_string(),
        1..=0xFFFF_FFFF => |service, n| service.clients_max.store(n as usize, Relaxed);
    "maxmemory": |service| service.memory_bytes().to_string() => memory;
    "maxmemory-clients": |service| service.options.clients_bytes_max.to_string();
    "maxmemory-policy": |service| service.eviction_policy().into() => policy;
    "min-replicas-max-lag": |service| {
        service.replication.settings.lag_seconds_max.load(Relaxed).to_string()
    }, 0..=i64::MAX => |service, n| {
        service.replication.settings.lag_seconds_max.store(n as u64, Relaxed);
    };
    "min-replicas-to-write": |service| {
        service.replication.settings.replicas_min.load(Relaxed).to_string()
    }, 0..=0xFFFF => |service, n| {
        service.replication.settings.replicas_min.store(n as usize, Relaxed);
    };
    "notify-keyspace-events": |service| service.events.classes().text() => events;
    "port": |service| service.front.port().to_string();
    "proto-max-bulk-len": |service| {
        // What a small cache takes is less.
        let engine = service.databases.opened(0);
        let takes = engine.map(|engine| engine.descriptor().limits.value_bytes_max);
        let max = Limits::OPEN.bulk_bytes_max;
        takes.map_or(max, |takes| takes.min(max)).to_string()
    };
    "repl-records": |service| yes_or_no(
        service.replication.settings.has_records.load(Relaxed)
    ) => has_records;
    "repl-skip-unknown": |service| yes_or_no(
        service.replication.settings.skips_unknown.load(Relaxed)
    ) => skips_unknown;
    "replicaof": replicaof::shown => follows;
    "repl-backlog-size": |service| {
        service.replication.settings.backlog_bytes.load(Relaxed).to_string()
    } => backlog_size;
    "repl-backlog-ttl": |service| {
        service.replication.settings.backlog_seconds.load(Relaxed).to_string()
    }, 0..=i64::MAX / 1000 => |service, n| {
        service.replication.settings.backlog_seconds.store(n as u64, Relaxed);
    };
    "repl-diskless-sync": |_| "yes".into();
    "repl-ping-replica-period": |service| {
        service.replication.settings.ping_seconds.load(Relaxed).to_string()
    }, 1..=0xFFFF_FFFF => |service, n| {
        service.replication.settings.ping_seconds.store(n as u64, Relaxed);
    };
    "repl-timeout": |service| {
        service.replication.settings.timeout_seconds.load(Relaxed).to_string()
    }, 1..=0xFFFF_FFFF => |service, n| {
        service.replication.settings.timeout_seconds.store(n as u64, Relaxed);
    };
    "replica-announce-ip": |service| replicaof::announced_ip(service).clone() => announced_ip;
    "replica-announce-port": |service| {
        service.replication.settings.announce_port.load(Relaxed).to_string()
    }, 0..=0xFFFF => |service, n| {
        service.replication.settings.announce_port.store(n as u64, Relaxed);
    };
    "replica-priority": |service| {
        service.replication.settings.priority.load(Relaxed).to_string()
    }, 0..=i64::MAX => |service, n| {
        service.replication.settings.priority.store(n as u64, Relaxed);
    };
    "replica-read-only": |service| {
        yes_or_no(service.replication.settings.is_read_only.load(Relaxed))
    } => read_only;
    "request-timeout": |service| (service.request_ms_max.load(Relaxed) / 1000).to_string(),
        0..=10_000_000 => |service, n| service.request_ms_max.store(1000 * n as u64, Relaxed);
    "requirepass": |service| {
        // Of passwords only hashes are kept.
        let is_open = service.acl.get(DEFAULT_USER).is_none_or(|user| !user.has_passwords());
        if is_open { "" } else { "(hidden)" }.into()
    } => password;
    "save": |_| String::new();
    "slowlog-log-slower-than": |service| service.slowlog.micros_min.load(Relaxed).to_string(),
        -1..=i64::MAX => |service, n| service.slowlog.micros_min.store(n, Relaxed);
    "slowlog-max-len": |service| service.slowlog.len_max.load(Relaxed).to_string(),
        0..=i64::MAX => |service, n| service.slowlog.len_max.store(n as usize, Relaxed);
    "slowlog-stages": |service| u8::from(service.slowlog.shows_stages()).to_string(),
        0..=1 => |service, n| service.slowlog.stages.store(n == 1, Relaxed);
    "sql-time-limit": |service| service.sql.ms_max().to_string(),
        0..=i64::MAX => |service, n| service.sql.set_ms_max(n as u64);
    "tcp-keepalive": |_| "0".into();
    "tls-cluster": |service| yes_or_no(service.encryption.cluster.load(Relaxed))
        => encryption::cluster;
    "tls-port": |service| service.front.tls_port().to_string();
    "tls-replication": |service| yes_or_no(service.encryption.replication.load(Relaxed))
        => encryption::replication;
    "timeout": |service| (service.idle_ms_max() / 1000).to_string(),
        0..=10_000_000 => |service, n| service.idle_ms_max.store(1000 * n as u64, Relaxed);
    "tracking-table-max-keys": |service| service.tracking.keys_max().to_string(),
        0..=i64::MAX => |service, n| service.tracking.set_keys_max(service, n as usize);
    "zset-max-paged-entries": |service| service.zset_paged_max.load(Relaxed).to_string(),
        0..=i64::MAX => |service, n| service.zset_paged_max.store(n as u64, Relaxed);
};

/// What a node of a cluster was told to announce, if it was; the address in use is in the map.
fn announced(service: &Service) -> Option<&ClusterOptions> {
    let options = service.cluster.as_ref().map(|cluster| &cluster.options);
    options.filter(|options| options.is_announced)
}

fn synced(service: &Service, yes: &str, no: &str) -> String {
    let is_synced = service.options.durability == Durability::Synced;
    if is_synced { yes } else { no }.into()
}

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "config");
}

pub(crate) fn get(cx: &mut Cx<'_>, args: Args<'_>) {
    let compile = |pattern: &[u8]| Pattern::new(&pattern.to_ascii_lowercase());
    let patterns: Vec<Pattern> = args.from(2).map(compile).collect();
    let wanted = |setting: &&Setting| {
        patterns.iter().any(|pattern| pattern.matches(setting.name.as_bytes()))
    };
    let chosen: Vec<&Setting> = SETTINGS.iter().filter(wanted).collect();
    cx.reply.map(chosen.len());
    for setting in chosen {
        cx.reply.bulk(setting.name.as_bytes());
        cx.reply.bulk((setting.show)(cx.service).as_bytes());
    }
}

/// `CONFIG SET maxmemory`: the stores get what the clients' part leaves.
fn memory(service: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let bytes = parse_memory(text).ok_or("argument must be a memory value")?;
    let least = service.options.clients_bytes_max as u64 + STORES_BYTES_MIN;
    if bytes < least {
        return Err(format!(
            "clients have {} bytes of it, and stores need {STORES_BYTES_MIN}; give {least}",
            service.options.clients_bytes_max
        ));
    }
    Ok(Box::new(move |service| service.set_memory_bytes(bytes).map_err(|error| error.to_string())))
}

/// The policies that Redis knows.
const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

/// `CONFIG SET maxmemory-policy`: what becomes of entries when memory is full is the engine's, so
/// another policy is refused.
fn policy(service: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let is = |known: &&str| text.eq_ignore_ascii_case(known.as_bytes());
    let Some(wanted) = POLICIES.iter().copied().find(|known| is(known)) else {
        return Err(format!("argument(s) must be one of the following: {}", POLICIES.join(", ")));
    };
    match service.eviction_policy() {
        is if is == wanted => Ok(Box::new(|_| Ok(()))),
        "noeviction" => Err(format!(
            "the database is a store, which evicts nothing (noeviction); a server that is started \
             with --cache SIZE evicts, by what is nearest to allkeys-lru and not by {wanted}"
        )),
        is => Err(format!(
            "the database is a cache, whose policy is nearest to {is} and is chosen at its start: \
             --set eviction=lru, approximate-lru, second-chance, fifo or s3-fifo, or none for a \
             store (noeviction)"
        )),
    }
}

/// Bytes, with the units that Redis knows: `k` is 1,000 and `kb` 1,024, and so on.
fn parse_memory(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.into()
}

/// `CONFIG SET repl-backlog-size`.
fn backlog_size(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let bytes = parse_memory(text).filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or("argument must be a memory value")?;
    Ok(Box::new(move |service| {
        service.replication.settings.backlog_bytes.store(bytes as usize, Relaxed);
        Ok(())
    }))
}

/// `CONFIG SET client-output-buffer-limit`: of the classes only that of replicas has one here.
fn output_limit(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let wrong = || "give class, hard limit, soft limit and soft seconds of each class";
    let mut limit = None;
    for four in words.chunks(4) {
        let [class, hard, _, _] = four else { return Err(wrong().into()) };
        let bytes = parse_memory(hard.as_bytes()).ok_or_else(wrong)?;
        match *class {
            "slave" | "replica" => limit = Some(if bytes == 0 { u64::MAX >> 1 } else { bytes }),
            "normal" | "pubsub" => {}
            _ => return Err(wrong().into()),
        }
    }
    Ok(Box::new(move |service| {
        if let Some(bytes) = limit {
            service.replication.settings.behind_bytes_max.store(bytes, Relaxed);
        }
        Ok(())
    }))
}

/// `CONFIG SET replica-read-only`.
fn read_only(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let is_on = match &text.to_ascii_lowercase()[..] {
        b"yes" => true,
        b"no" => false,
        _ => return Err("argument must be 'yes' or 'no'".into()),
    };
    Ok(Box::new(move |service| {
        service.replication.settings.is_read_only.store(is_on, Relaxed);
        Ok(())
    }))
}

/// `CONFIG SET latency-tracking`.
fn latency_tracking(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let is_on = match &text.to_ascii_lowercase()[..] {
        b"yes" => true,
        b"no" => false,
        _ => return Err("argument must be 'yes' or 'no'".into()),
    };
    Ok(Box::new(move |service| {
        service.times.is_on.store(is_on, Relaxed);
        Ok(())
    }))
}

/// `CONFIG SET masterauth`: the password that a replica says to its primary.
fn master_password(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let text = String::from_utf8(text.to_vec()).map_err(|_| "argument must be text")?;
    Ok(Box::new(move |service| {
        replicaof::auth(service).1 = text;
        Ok(())
    }))
}

/// `CONFIG SET replica-announce-ip`: the address that a replica tells its primary; empty for the
/// one that its link comes from.
fn announced_ip(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let text = String::from_utf8(text.to_vec()).map_err(|_| "argument must be text")?;
    Ok(Box::new(move |service| {
        *replicaof::announced_ip(service) = text;
        Ok(())
    }))
}

/// `CONFIG SET masteruser`: the user that a replica is for its primary.
fn master_user(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let text = String::from_utf8(text.to_vec()).map_err(|_| "argument must be text")?;
    Ok(Box::new(move |service| {
        replicaof::auth(service).0 = text;
        Ok(())
    }))
}

/// `CONFIG SET repl-records`.
fn has_records(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let is_on = match &text.to_ascii_lowercase()[..] {
        b"yes" => true,
        b"no" => false,
        _ => return Err("argument must be 'yes' or 'no'".into()),
    };
    Ok(Box::new(move |service| {
        service.replication.settings.has_records.store(is_on, Relaxed);
        Ok(())
    }))
}

/// `CONFIG SET repl-skip-unknown`.
fn skips_unknown(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let skips = match &text.to_ascii_lowercase()[..] {
        b"yes" => true,
        b"no" => false,
        _ => return Err("argument must be 'yes' or 'no'".into()),
    };
    Ok(Box::new(move |service| {
        service.replication.settings.skips_unknown.store(skips, Relaxed);
        Ok(())
    }))
}

/// The setting `replicaof`, which a file of options has: REPLICAOF is the command for it.
fn follows(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let wanted = replicaof::parse(text)?;
    Ok(Box::new(move |service| replicaof::set(service, wanted).map_err(|error| error.to_string())))
}

/// `CONFIG SET notify-keyspace-events`.
fn events(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let Some(classes) = Classes::parse(text) else {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
    };
    Ok(Box::new(move |service| {
        service.events.set_classes(classes);
        Ok(())
    }))
}

/// `CONFIG SET requirepass`: the only password of the user who everybody is at first; none where
/// it is empty.
fn password(_: &Service, text: &[u8]) -> std::result::Result<Ready, String> {
    let word = match text {
        b"" => b"nopass".to_vec(),
        text => [b">", text].concat(),
    };
    Ok(Box::new(move |service| {
        let words = [&b"resetpass"[..], &word];
        service.acl.set(DEFAULT_USER, words.into_iter(), &service.budget)
    }))
}

/// A change that was found to be possible.
struct Wanted {
    setting: &'static Setting,
    /// `None` where nothing has to be done.
    change: Option<Ready>,
}

fn check(service: &Service, name: &[u8], value: &[u8]) -> std::result::Result<Wanted, String> {
    let find = |setting: &&Setting| name.eq_ignore_ascii_case(setting.name.as_bytes());
    let Some(setting) = SETTINGS.iter().find(find) else {
        let name = String::from_utf8_lossy(name);
        return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"));
    };
    let is_same = (setting.show)(service).as_bytes() == value;
    let (range, set) = match &setting.change {
        _ if is_same => return Ok(Wanted { setting, change: None }),
        Change::Never => return Err(setting.failed("can't set immutable config")),
        Change::Text(ready) => {
            let change = ready(service, value).map_err(|why| setting.failed(&why))?;
            return Ok(Wanted { setting, change: Some(change) });
        }
        Change::Number(range, set) => (range, *set),
    };
    match parse_i64(value) {
        None => Err(setting.failed("argument couldn't be parsed into an integer")),
        Some(n) if !range.contains(&n) => Err(setting.failed(&format!(
            "argument must be between {} and {} inclusive",
            range.start(),
            range.end()
        ))),
        Some(n) => {
            let change: Ready = Box::new(move |service| {
                set(service, n);
                Ok(())
            });
            Ok(Wanted { setting, change: Some(change) })
        }
    }
}

/// Makes the changes that pairs of names and values say: all of them, or none where one of them is
/// wrong. Notes which settings are not any more as they were at the start.
pub(crate) fn change<'t>(
    service: &Service,
    pairs: impl Iterator<Item = (&'t [u8], &'t [u8])>,
) -> std::result::Result<(), String> {
    let mut all: Vec<Wanted> = Vec::new();
    for (name, value) in pairs {
        let wanted = check(service, name, value)?;
        if all.iter().any(|other| other.setting.name == wanted.setting.name) {
            return Err(wanted.setting.failed("duplicate parameter"));
        }
        all.push(wanted);
    }
    for Wanted { setting, change } in all {
        let Some(change) = change else { continue };
        change(service).map_err(|why| setting.failed(&why))?;
        service.changed_settings().insert(setting.name);
    }
    Ok(())
}

pub(crate) fn set(cx: &mut Cx<'_>, args: Args<'_>) {
    if !args.len().is_multiple_of(2) {
        return cx.reply.error(SYNTAX);
    }
    let pairs = (2..args.len()).step_by(2).map(|at| (args.get(at), args.get(at + 1)));
    match change(cx.service, pairs) {
        Ok(()) => cx.reply.ok(),
        Err(text) => cx.reply.error(&text),
    }
}

pub(crate) fn resetstat(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.service.stats.reset();
    cx.service.calls.reset();
    cx.service.errors.reset();
    cx.service.times.reset();
    cx.reply.ok();
}

/// Writes what was changed to the file that the server has its settings from.
pub(crate) fn rewrite(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let service = keys.service;
    let Some(file) = &service.options.settings_file else {
        reply.error("ERR The server is running without a config file");
        return Ok(());
    };
    let changed = service.changed_settings().clone();
    // A password is nowhere but in the hash of it, and one that is hidden is not written either.
    let is_secret = |name: &str| ["requirepass", "masterauth"].contains(&name);
    let kept = SETTINGS.iter().filter(|s| changed.contains(s.name) && !is_secret(s.name));
    let pairs: Vec<_> = kept.map(|setting| (setting.name, (setting.show)(service))).collect();
    match file.rewrite(&pairs) {
        Ok(()) => reply.ok(),
        Err(error) => {
            log::warn!("CONFIG REWRITE: {error}");
            reply.error(&format!("ERR Rewriting config file: {error}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse_memory;

    #[test]
    fn memory_has_the_units_of_redis() {
        let all =
            ["100", "7b", "1k", "1KB", "2m", "2mb", "3g", "3GB", "x", "1tb", "", "-1", "1.5g"];
        let bytes = all.map(|text| parse_memory(text.as_bytes()));
        assert_eq!(bytes[..4], [Some(100), Some(7), Some(1000), Some(1024)]);
        assert_eq!(bytes[4..6], [Some(2_000_000), Some(2 << 20)]);
        assert_eq!(bytes[6..8], [Some(3_000_000_000), Some(3 << 30)]);
        assert!(bytes[8..].iter().all(Option::is_none), "{bytes:?}");
    }
}
