//! CONFIG: the settings, in the words that clients of Redis know.

use super::{Cx, SYNTAX, introspect};
use crate::burst::Args;
use crate::glob::Pattern;
use crate::service::Service;
use silica::engine::Durability;
use silica_proto::{Limits, parse_i64};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

/// How a setting can be changed while the server runs.
enum Change {
    /// Not at all.
    Never,
    Number(RangeInclusive<i64>, fn(&Service, i64)),
}

/// A setting.
struct Setting {
    name: &'static str,
    show: fn(&Service) -> String,
    change: Change,
}

macro_rules! settings {
    ($($name:literal: $show:expr $(, $range:expr => $set:expr)?;)*) => {
        &[$(Setting { name: $name, show: $show, change: settings!(@change $($range => $set)?) }),*]
    };
    (@change) => { Change::Never };
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
    "lua-time-limit": |service| service.runnings.busy_ms().to_string(),
        0..=i64::MAX => |service, n| service.runnings.set_busy_ms(n as u64);
    "maxclients": |service| service.clients_max.load(Relaxed).to_string(),
        1..=0xFFFF_FFFF => |service, n| service.clients_max.store(n as usize, Relaxed);
    "maxmemory": |service| service.options.memory_bytes.to_string();
    "maxmemory-clients": |service| service.options.clients_bytes_max.to_string();
    "maxmemory-policy": |service| service.eviction_policy().into();
    "port": |service| service.front.port().to_string();
    "proto-max-bulk-len": |_| Limits::OPEN.bulk_bytes_max.to_string();
    "request-timeout": |service| (service.request_ms_max.load(Relaxed) / 1000).to_string(),
        0..=10_000_000 => |service, n| service.request_ms_max.store(1000 * n as u64, Relaxed);
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
    "timeout": |_| "0".into();
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

/// A change that was found to be possible.
struct Wanted {
    setting: &'static Setting,
    /// `None` where nothing has to be done.
    number: Option<i64>,
}

fn check(service: &Service, name: &[u8], value: &[u8]) -> Result<Wanted, String> {
    let find = |setting: &&Setting| name.eq_ignore_ascii_case(setting.name.as_bytes());
    let Some(setting) = SETTINGS.iter().find(find) else {
        let name = String::from_utf8_lossy(name);
        return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"));
    };
    if (setting.show)(service).as_bytes() == value {
        return Ok(Wanted { setting, number: None });
    }
    let failed = |why: String| {
        let name = setting.name;
        Err(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
    };
    let Change::Number(range, _) = &setting.change else {
        return failed("can't set immutable config".into());
    };
    match parse_i64(value) {
        None => failed("argument couldn't be parsed into an integer".into()),
        Some(n) if !range.contains(&n) => failed(format!(
            "argument must be between {} and {} inclusive",
            range.start(),
            range.end()
        )),
        number => Ok(Wanted { setting, number }),
    }
}

/// All changes are made or none.
pub(crate) fn set(cx: &mut Cx<'_>, args: Args<'_>) {
    if !args.len().is_multiple_of(2) {
        return cx.reply.error(SYNTAX);
    }
    let mut all: Vec<Wanted> = Vec::new();
    for index in (2..args.len()).step_by(2) {
        let wanted = match check(cx.service, args.get(index), args.get(index + 1)) {
            Ok(wanted) => wanted,
            Err(text) => return cx.reply.error(&text),
        };
        let name = wanted.setting.name;
        if all.iter().any(|other| other.setting.name == name) {
            return cx.reply.error(&format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - duplicate \
                 parameter"
            ));
        }
        all.push(wanted);
    }
    for Wanted { setting, number } in all {
        if let (Change::Number(_, set), Some(n)) = (&setting.change, number) {
            set(cx.service, n);
        }
    }
    cx.reply.ok();
}

pub(crate) fn resetstat(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.service.stats.reset();
    cx.service.calls.reset();
    cx.service.errors.reset();
    cx.service.latency.reset_histogram();
    cx.reply.ok();
}

/// There is no file that a setting could be written to.
pub(crate) fn rewrite(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.error("ERR The server is running without a config file");
}
