//! Commands that move or copy a whole entry, expiry included.

use super::{Keyspace, NOT_INTEGER, SYNTAX, across, atomic};
use crate::burst::Args;
use crate::table::Run;
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

/// What a COPY is asked for besides its keys.
struct CopyOptions {
    /// It replaces what is there.
    replaces: bool,
    /// The database of the copy.
    db: usize,
}

/// The options of a COPY, or what is wrong with them.
fn copy_options(
    keys: &Keyspace<'_>,
    args: Args<'_>,
) -> std::result::Result<CopyOptions, &'static str> {
    let mut options = CopyOptions { replaces: false, db: keys.db };
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "replace") {
            options.replaces = true;
        } else if args.is(index, "db") && index + 1 < args.len() {
            index += 1;
            let number = parse_i64(args.get(index)).ok_or(NOT_INTEGER)?;
            let known =
                usize::try_from(number).ok().filter(|n| *n < keys.service.databases.count());
            options.db = known.ok_or("ERR DB index is out of range")?;
        } else {
            return Err(SYNTAX);
        }
        index += 1;
    }
    Ok(options)
}

/// A COPY that names a database runs while nobody else does.
pub(crate) fn choose_copy(args: Args<'_>) -> Run {
    match (3..args.len()).any(|index| args.is(index, "db")) {
        true => Run::Across(copy_to),
        false => Run::UpdateAll(copy),
    }
}

/// COPY with the option DB.
fn copy_to(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let options = match copy_options(keys, args) {
        Ok(options) if options.db == keys.db => return copy(keys, args, reply),
        Ok(options) => options,
        Err(text) => {
            reply.error(text);
            return Ok(());
        }
    };
    let target = keys.service.databases.engine(options.db)?;
    let Some(entry) = across::entry_of(keys, args.get(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let stored = across::store(target, args.get(2), &entry, options.replaces)?;
    reply.integer(i64::from(stored));
    Ok(())
}

/// COPY within one database.
pub(crate) fn copy(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let replace = match copy_options(keys, args) {
        Ok(options) => options.replaces,
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
