//! Commands on two databases. They run while no other burst does.

use super::{Keyspace, atomic, database_number, types};
use crate::burst::Args;
use crate::overlay::Owned;
use silica::engine::{Durability, Engine, EngineExt, Result, Update};
use silica_proto::Reply;

/// SWAPDB.
pub(crate) fn swapdb(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let databases = &keys.service.databases;
    if keys.service.cluster.is_some() {
        reply.error("ERR SWAPDB is not allowed in cluster mode");
        return Ok(());
    }
    let mut numbers = [0; 2];
    for (at, which) in ["first", "second"].into_iter().enumerate() {
        let Ok(number) = database_number(args.get(1 + at)) else {
            reply.error(&format!("ERR invalid {which} DB index"));
            return Ok(());
        };
        numbers[at] = usize::try_from(number).unwrap_or(usize::MAX);
    }
    if numbers.iter().any(|number| *number >= databases.count()) {
        reply.error("ERR DB index is out of range");
        return Ok(());
    }
    databases.swap(numbers[0], numbers[1])?;
    let [one, other] = numbers.map(|number| number as u8);
    keys.service.replication.timers.swap(one, other);
    reply.ok();
    Ok(())
}

/// A copy of the entry of `key`, for whose two copies memory is claimed.
pub(super) fn entry_of(keys: &Keyspace<'_>, key: &[u8]) -> Result<Option<Owned>> {
    keys.claim_entries(&[key], 2)?;
    keys.engine.get_with(key, |entry| entry.map(Owned::of))
}

/// Stores a copy of `entry` of this database in another one, with pages of its own; false if
/// something is there and is not to be replaced.
pub(super) fn store_copy(
    keys: &Keyspace<'_>,
    target: &dyn Engine,
    to: &[u8],
    (mut entry, replaces): (Owned, bool),
) -> Result<bool> {
    // What is not stored in the end is reclaimed as pages without an owner are.
    if replaces || target.get(to)?.is_none() {
        let taken = keys.ahead.map_or(Ok(None), |ahead| ahead.take(&entry, target, to))?;
        match taken {
            Some(value) => entry.value = value,
            None => types::generic::copy_pages(keys, target, (&mut entry, to))?,
        }
    }
    store(target, to, &entry, replaces)
}

/// Stores a copy of `entry` in another database; false if something is there and is not to be
/// replaced.
fn store(target: &dyn Engine, key: &[u8], entry: &Owned, replaces: bool) -> Result<bool> {
    let mut stored = false;
    atomic(target)?.update(key, Durability::Buffered, &mut |current| {
        stored = replaces || current.is_none();
        let Owned { value, expires_unix_ms, user_bits } = entry.clone();
        if stored { Update::Put { value, expires_unix_ms, user_bits } } else { Update::Keep }
    })?;
    Ok(stored)
}

/// MOVE.
pub(crate) fn move_key(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let databases = &keys.service.databases;
    if keys.service.cluster.is_some() {
        reply.error("ERR MOVE is not allowed in cluster mode");
        return Ok(());
    }
    let number = match database_number(args.get(2)) {
        Ok(number) => number,
        Err(text) => {
            reply.error(text);
            return Ok(());
        }
    };
    let number = usize::try_from(number).ok().filter(|number| *number < databases.count());
    let Some(number) = number else {
        reply.error("ERR DB index is out of range");
        return Ok(());
    };
    if number == keys.db {
        reply.error("ERR source and destination objects are the same");
        return Ok(());
    }
    let moved = keys.engine.get_with(args.get(1), |entry| entry.is_some())?
        && move_between(keys, databases.engine(number)?, args.get(1))?;
    reply.integer(i64::from(moved));
    Ok(())
}

/// Moves `key` to `target`, another database; false if it is not there, or is there already.
pub(crate) fn move_between(keys: &Keyspace<'_>, target: &dyn Engine, key: &[u8]) -> Result<bool> {
    let moved = match entry_of(keys, key)? {
        Some(entry) => store_copy(keys, target, key, (entry, false))?,
        None => false,
    };
    if moved {
        // Before it is gone from where it was: two databases have two logs, and a power cut may
        // leave more of one than of the other.
        target.sync()?;
        keys.engine.delete(key, Durability::Buffered)?;
    }
    Ok(moved)
}
