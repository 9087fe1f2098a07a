//! What the server is and holds now, as JSON: the fields of INFO, and what INFO has no room for.

use super::why::explained;
use serde_json::{Map, Number, Value, json};
use silica::engine::{Result, Stage};
use silica::tune::recommend::{Figure, Stall, Why};
use silica_commands::{ClientView, Service, SlowView};
use std::path::Path;

/// Sections of INFO that are asked for. `keyspace` reads entries to see how many expire, which a
/// page that is refreshed each second must not do.
const SECTIONS: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "silica"];

/// Connections and slow requests that are listed.
const CLIENTS_MAX: usize = 50;
const SLOW_MAX: usize = 20;

/// The status of the server; `directory` is where its stores are, if they are on a disk.
///
/// # Errors
/// What INFO fails with.
pub(super) fn json(service: &Service, directory: Option<&Path>) -> Result<String> {
    let mut status = fields(&service.info(&SECTIONS)?);
    let stages = Stage::ALL.map(Stage::name);
    let job = |(kind, state): &(&str, String)| json!({"kind": kind, "state": state});
    let jobs: Vec<Value> = service.jobs_seen().iter().map(job).collect();
    let more = json!({
        "unix_ms": service.unix_ms(),
        "disk": directory.and_then(disk),
        "client_list": service.clients_seen(CLIENTS_MAX).iter().map(client).collect::<Vec<_>>(),
        "slow_requests": service.slow_seen(SLOW_MAX).iter().map(slow).collect::<Vec<_>>(),
        "jobs": jobs,
        "stages": stages,
    });
    if let Value::Object(more) = more {
        status.extend(more);
    }
    Ok(Value::Object(status).to_string())
}

/// The sections of INFO's text as objects; those of the section `silica`, whose fields begin with
/// `dbN_`, as a list of databases.
fn fields(info: &str) -> Map<String, Value> {
    let (mut all, mut databases) = (Map::new(), Vec::<Map<String, Value>>::new());
    let mut section = String::new();
    for line in info.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            section = name.to_lowercase();
        } else if let Some((name, value)) = line.split_once(':') {
            let of_database = name.strip_prefix("db").and_then(|rest| rest.split_once('_'));
            let numbered = of_database.and_then(|(db, name)| Some((db.parse().ok()?, name)));
            if let Some((db, name)) = numbered.filter(|_| section == "silica") {
                let db: u64 = db;
                if databases.last().and_then(|last| last.get("db")) != Some(&json!(db)) {
                    databases.push(Map::from_iter([("db".to_string(), json!(db))]));
                }
                let database = databases.last_mut().expect("one was pushed");
                database.insert(name.to_string(), value_of(value));
                continue;
            }
            let fields = all.entry(section.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(fields) = fields {
                fields.insert(name.to_string(), value_of(value));
            }
        }
    }
    all.insert("databases".into(), databases.into_iter().map(Value::Object).collect());
    all
}

/// Characters of the longest number; ids of digits are longer.
const NUMBER_CHARS_MAX: usize = 24;

/// A field of INFO: a number if it is written as one.
fn value_of(text: &str) -> Value {
    let is_number = text.len() <= NUMBER_CHARS_MAX
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte));
    let whole = || text.parse::<u64>().ok().map(Number::from);
    let broken = || text.parse().ok().and_then(Number::from_f64);
    match whole().or_else(broken).filter(|_| is_number) {
        Some(number) => Value::Number(number),
        None => text.into(),
    }
}

/// Bytes of the file system that `directory` is on, and those that are free.
fn disk(directory: &Path) -> Option<Value> {
    let space = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    Some(json!({"bytes": bytes(space.f_blocks), "free_bytes": bytes(space.f_bavail)}))
}

fn client(client: &ClientView) -> Value {
    json!({
        "id": client.id,
        "address": client.peer,
        "name": client.name,
        "library": client.library,
        "user": client.user,
        "command": client.last_command,
        "db": client.db,
        "age_s": client.age_s,
        "idle_s": client.idle_s,
        "bytes": client.bytes,
    })
}

fn slow(slow: &SlowView) -> Value {
    json!({
        "id": slow.id,
        "unix_s": slow.unix_s,
        "micros": slow.micros,
        "request": slow.request,
        "address": slow.peer,
    })
}

/// What the models say of each open database, in figures and in words.
///
/// Cost: as `silica why`, some milliseconds for each database.
pub(super) fn models(service: &Service) -> String {
    let row = |(db, engine, why): (usize, &str, Result<Why>)| match why {
        Ok(why) => json!({
            "db": db,
            "engine": engine,
            "figures": why.figures.iter().map(figure).collect::<Vec<_>>(),
            "words": words(&why),
            "text": why.to_string(),
        }),
        Err(error) => json!({"db": db, "engine": engine, "words": [error.to_string()]}),
    };
    let all: Vec<Value> = explained(service).into_iter().map(row).collect();
    Value::from(all).to_string()
}

fn figure(figure: &Figure) -> Value {
    json!({
        "name": figure.name,
        "predicted": figure.predicted,
        "measured": figure.measured,
        "drift_percent": figure.drift_percent(),
    })
}

/// A whole number with commas between its thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let parts: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|part| std::str::from_utf8(part).expect("digits are ASCII"))
        .collect();
    parts.join(",")
}

/// The sentences of an answer.
fn words(why: &Why) -> Vec<String> {
    let prediction = &why.prediction;
    let mut words = vec![format!(
        "The model predicts {} operations a second, limited by {}.",
        grouped(prediction.throughput),
        prediction.bottleneck().name()
    )];
    if let Some((term, extra)) = &why.extra_bytes {
        let (sign, by) = if *extra < 0.0 { ("fewer", -extra) } else { ("more", *extra) };
        words.push(format!(
            "Measured write amplification differs most in the {term}: {by:.2} bytes {sign} for \
             each byte put."
        ));
    }
    let stall = |stall: &Stall| {
        let Stall { meaning, writes, share, .. } = stall;
        format!("{} writes ({:.2} %) waited: {meaning}.", grouped(*writes), 100.0 * share)
    };
    words.extend(why.stalls.iter().map(stall));
    words.extend(why.advice.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0.0, 999.4, 7_175_389.0].map(grouped), ["0", "999", "7,175,389"]);
    }

    #[test]
    fn fields_of_info_keep_their_numbers() {
        let info = "# Server\r\nredis_version:7.2.4\r\nrun_id:00e1\r\nuptime_in_seconds:61\r\n\
                    \r\n# Memory\r\nmem_fragmentation_ratio:1.25\r\n\
                    used_memory:18446744073709551615\r\n\r\n\
                    # Silica\r\ndb0_engine:wip\r\ndb0_gets:5\r\ndb12_engine:mica\r\n";
        let fields = Value::Object(fields(info));
        assert_eq!(
            fields,
            json!({
                "server": {"redis_version": "7.2.4", "run_id": "00e1", "uptime_in_seconds": 61},
                "memory": {"mem_fragmentation_ratio": 1.25, "used_memory": u64::MAX},
                "databases": [
                    {"db": 0, "engine": "wip", "gets": 5},
                    {"db": 12, "engine": "mica"},
                ],
            })
        );
    }
}
