//! `ttl`, `expire`, `persist`, and the writes that tell what they did.

use crate::text;
use serde_json::{Map, Value};
use silica::{
    Durability, EntryRef, Error, ErrorKind, Keyspace, Result, TimeToLive, Update, WriteBatch,
    expires_after,
};
use silica_console::Output;
use std::collections::BTreeSet;
use std::time::Duration;

/// Maps `key` to `value`, for a time where there is one.
pub(crate) fn put(
    keyspace: &Keyspace,
    (key, value): (&[u8], &[u8]),
    ttl: Option<Duration>,
    durability: Durability,
    output: &mut Output,
) -> Result<()> {
    let expires_unix_ms = ttl.map(expires_after).transpose()?.unwrap_or(0);
    let entry = EntryRef { expires_unix_ms, ..EntryRef::new(value) };
    keyspace.write_with(WriteBatch::new().put_entry(key, entry), durability)?;
    output.answer("OK")?;
    acknowledge(1, output);
    Ok(())
}

/// Removes `keys`, all or none, and tells how many were there.
pub(crate) fn delete(
    keyspace: &Keyspace,
    keys: &[Vec<u8>],
    durability: Durability,
    output: &mut Output,
) -> Result<()> {
    // Each key counts once, as a client of Redis expects.
    let keys: BTreeSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let keys: Vec<&[u8]> = keys.into_iter().collect();
    let atomic = keyspace.engine().as_atomic().ok_or_else(|| {
        let message = "this engine does not tell what it removes; use an engine that can update";
        Error::new(ErrorKind::Unsupported, message)
    })?;
    let mut removed = 0;
    atomic.update_all(&keys, durability, &mut |entries| {
        removed = entries.iter().flatten().count();
        let update = |entry: &Option<_>| entry.map_or(Update::Keep, |_| Update::Delete);
        entries.iter().map(update).collect()
    })?;
    output.answer(format!("{removed} removed"))?;
    acknowledge(keys.len(), output);
    output.object().insert("removed".into(), removed.into());
    Ok(())
}

fn acknowledge(operations: usize, output: &mut Output) {
    output.object().insert("ok".into(), true.into());
    output.object().insert("operations".into(), operations.into());
}

/// Tells how long each key lives: exit code 1 where one is not there.
pub(crate) fn ttl(
    keyspace: &Keyspace,
    keys: &[Vec<u8>],
    hex: bool,
    output: &mut Output,
) -> Result<()> {
    let mut entries = Vec::new();
    for key in keys {
        let found = keyspace.ttl(key)?;
        let mut entry = Map::new();
        text::insert_bytes(&mut entry, "key", key, hex);
        entry.insert("found".into(), found.is_some().into());
        match found {
            None => missing(key, hex, output),
            Some(TimeToLive::Unlimited) => {
                entry.insert("ttl_ms".into(), Value::Null);
                output.line("unlimited")?;
            }
            Some(TimeToLive::Left(left)) => {
                let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                entry.insert("ttl_ms".into(), ms.into());
                output.line(humantime::format_duration(left).to_string())?;
            }
        }
        entries.push(Value::Object(entry));
    }
    output.entries(entries);
    Ok(())
}

/// Lets `key` live for `ttl` from now on.
pub(crate) fn expire(
    keyspace: &Keyspace,
    key: &[u8],
    ttl: Duration,
    hex: bool,
    output: &mut Output,
) -> Result<()> {
    let found = keyspace.expire(key, ttl)?;
    if found {
        output.answer("OK")?;
    } else {
        missing(key, hex, output);
    }
    output.object().insert("found".into(), found.into());
    Ok(())
}

/// Lets `keys` live without a limit. A key that has none already is fine.
pub(crate) fn persist(
    keyspace: &Keyspace,
    keys: &[Vec<u8>],
    hex: bool,
    output: &mut Output,
) -> Result<()> {
    let mut entries = Vec::new();
    for key in keys {
        let changed = keyspace.persist(key)?;
        let found = changed || keyspace.ttl(key)?.is_some();
        if found {
            output.answer(if changed { "OK" } else { "it had no limit" })?;
        } else {
            missing(key, hex, output);
        }
        let mut entry = Map::new();
        text::insert_bytes(&mut entry, "key", key, hex);
        entry.insert("found".into(), found.into());
        entry.insert("changed".into(), changed.into());
        entries.push(Value::Object(entry));
    }
    output.entries(entries);
    Ok(())
}

/// Says that there is no such key: exit code 1, and no error.
pub(crate) fn missing(key: &[u8], hex: bool, output: &mut Output) {
    output.missing();
    if !output.is_json() {
        eprintln!("silica: no key {}", text::show(key, hex));
    }
}
