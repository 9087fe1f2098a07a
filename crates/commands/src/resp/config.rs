//! CONFIG: the settings, in the words that clients of Redis know.

use super::{Cx, SYNTAX, introspect};
use crate::acl::DEFAULT;
use crate::burst::Args;
use crate::glob::Pattern;
use crate::resp::events::Classes;
use crate::service::Service;
use silica::engine::Durability;
use silica_proto::{Limits, parse_i64};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

/// The least that stores work with.
const STORES_BYTES_MIN: u64 = 1 << 20;

/// A change that was found to be possible, and is made by this; or why it fails after all.
type Ready = Box<dyn FnOnce(&Service) -> Result<(), String>>;

/// How a setting can be changed while the server runs.
enum Change {
    /// Not at all.
    Never,
    Number(RangeInclusive<i64>, fn(&Service, i64)),
    /// By what a text says, or why it is wrong.
    Text(fn(&Service, &[u8]) -> Result<Ready, String>),
}

/// The file that a server has its settings from.
pub trait SettingsFile: std::fmt::Debug + Send + Sync {
    /// Writes these names and values to it, in the place of what it says of the names; all else
    /// stays as it is.
    fn rewrite(&self, settings: &[(&str, String)]) -> silica::engine::Result<()>;
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
    "databases": |service| service.options.databases.to_string();
    "durability": |service| synced(service, "synced", "buffered");
    "io-threads": |service| service.options.loops.to_string();
    "latency-monitor-threshold": |service| service.latency.millis_min.load(Relaxed).to_string(),
        0..=i64::MAX => |service, n| service.latency.millis_min.store(n as u64, Relaxed);
    "latency-tracking": |service| yes_or_no(service.times.is_on.load(Relaxed)) => latency_tracking;
    "lua-time-limit": |service| service.runnings.busy_ms().to_string(),
        0..=i64::MAX => |service, n| service.runnings.set_busy_ms(n as u64);
    "maxclients": |service| service.clients_max.load(Relaxed).to_string(),
        1..=0xFFFF_FFFF => |service, n| service.clients_max.store(n as usize, Relaxed);
    "maxmemory": |service| service.memory_bytes().to_string() => memory;
    "maxmemory-clients": |service| service.options.clients_bytes_max.to_string();
    "maxmemory-policy": |service| service.eviction_policy().into() => policy;
    "notify-keyspace-events": |service| service.events.classes().text() => events;
    "port": |service| service.front.port().to_string();
    "proto-max-bulk-len": |_| Limits::OPEN.bulk_bytes_max.to_string();
    "request-timeout": |service| (service.request_ms_max.load(Relaxed) / 1000).to_string(),
        0..=10_000_000 => |service, n| service.request_ms_max.store(1000 * n as u64, Relaxed);
    "requirepass": |service| {
        // Of passwords only hashes are kept.
        let is_open = service.acl.get(DEFAULT).is_none_or(|user| !user.has_passwords());
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
    "timeout": |service| (service.idle_ms_max() / 1000).to_string(),
        0..=10_000_000 => |service, n| service.idle_ms_max.store(1000 * n as u64, Relaxed);
    "tracking-table-max-keys": |service| service.tracking.keys_max().to_string(),
        0..=i64::MAX => |service, n| service.tracking.set_keys_max(service, n as usize);
};

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
fn memory(service: &Service, text: &[u8]) -> Result<Ready, String> {
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
fn policy(service: &Service, text: &[u8]) -> Result<Ready, String> {
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

/// `CONFIG SET latency-tracking`.
fn latency_tracking(_: &Service, text: &[u8]) -> Result<Ready, String> {
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

/// `CONFIG SET notify-keyspace-events`.
fn events(_: &Service, text: &[u8]) -> Result<Ready, String> {
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
fn password(_: &Service, text: &[u8]) -> Result<Ready, String> {
    let word = match text {
        b"" => b"nopass".to_vec(),
        text => [b">", text].concat(),
    };
    Ok(Box::new(move |service| {
        let words = [&b"resetpass"[..], &word];
        service.acl.set(DEFAULT, words.into_iter(), &service.budget)
    }))
}

/// A change that was found to be possible.
struct Wanted {
    setting: &'static Setting,
    /// `None` where nothing has to be done.
    change: Option<Ready>,
}

fn check(service: &Service, name: &[u8], value: &[u8]) -> Result<Wanted, String> {
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
) -> Result<(), String> {
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
pub(crate) fn rewrite(cx: &mut Cx<'_>, _: Args<'_>) {
    let service = cx.service;
    let Some(file) = &service.options.settings_file else {
        return cx.reply.error("ERR The server is running without a config file");
    };
    let changed = service.changed_settings().clone();
    // A password is nowhere but in the hash of it.
    let kept = SETTINGS.iter().filter(|s| changed.contains(s.name) && s.name != "requirepass");
    let pairs: Vec<_> = kept.map(|setting| (setting.name, (setting.show)(service))).collect();
    match file.rewrite(&pairs) {
        Ok(()) => cx.reply.ok(),
        Err(error) => {
            log::warn!("CONFIG REWRITE: {error}");
            cx.reply.error(&format!("ERR Rewriting config file: {error}"));
        }
    }
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
