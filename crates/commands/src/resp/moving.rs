//! Commands that move or copy a whole entry, expiry included.

use super::{Keyspace, NOT_INTEGER, SYNTAX, atomic};
use crate::burst::Args;
use silica::engine::{Durability, EntryRef, Result, Update};
use silica_proto::{Reply, parse_i64};

fn same(entry: EntryRef<'_>) -> Update {
    let EntryRef { value, expires_unix_ms, user_bits } = entry;
    Update::Put { value: value.to_vec(), expires_unix_ms, user_bits }
}

/// RENAME and RENAMENX.
pub(crate) fn rename(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let only_new = args.is(0, "renamenx");
    let names = [args.get(1), args.get(2)];
    keys.claim_entries(&names, 2)?;
    let (mut found, mut moved) = (false, false);
    atomic(keys.engine)?.update_all(&names, Durability::Buffered, &mut |entries| {
        found = entries[0].is_some();
        moved = found && (!only_new || entries[1].is_none());
        match entries[0] {
            Some(entry) if moved && names[0] != names[1] => vec![Update::Delete, same(entry)],
            _ => vec![Update::Keep; 2],
        }
    })?;
    match (found, only_new) {
        (false, _) => reply.error("ERR no such key"),
        (true, false) => reply.ok(),
        (true, true) => reply.integer(i64::from(moved)),
    }
    Ok(())
}

/// Whether a COPY replaces what is there, or what is wrong with its options.
fn copy_options(keys: &Keyspace<'_>, args: Args<'_>) -> std::result::Result<bool, &'static str> {
    let (mut replace, mut db) = (false, keys.db);
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "replace") {
            replace = true;
        } else if args.is(index, "db") && index + 1 < args.len() {
            index += 1;
            let number = parse_i64(args.get(index)).ok_or(NOT_INTEGER)?;
            let known =
                usize::try_from(number).ok().filter(|n| *n < keys.service.databases.count());
            db = known.ok_or("ERR DB index is out of range")?;
        } else {
            return Err(SYNTAX);
        }
        index += 1;
    }
    match db == keys.db {
        true => Ok(replace),
        false => Err("ERR COPY works within one database only; leave DB out"),
    }
}

/// COPY within one database.
pub(crate) fn copy(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let replace = match copy_options(keys, args) {
        Ok(replace) => replace,
        Err(text) => {
            reply.error(text);
            return Ok(());
        }
    };
    let names = [args.get(1), args.get(2)];
    if names[0] == names[1] {
        reply.error("ERR source and destination objects are the same");
        return Ok(());
    }
    keys.claim_entries(&names, 2)?;
    let mut copied = false;
    atomic(keys.engine)?.update_all(&names, Durability::Buffered, &mut |entries| {
        let source = entries[0].filter(|_| replace || entries[1].is_none());
        copied = source.is_some();
        vec![Update::Keep, source.map_or(Update::Keep, same)]
    })?;
    reply.integer(i64::from(copied));
    Ok(())
}
