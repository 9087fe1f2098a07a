//! Commands that move or copy a whole entry, expiry included.

use super::{Keyspace, SYNTAX, across, atomic, database_number, types};
use crate::burst::Args;
use crate::table::Run;
use silica::engine::{Durability, Engine, EngineExt, EntryRef, Result, Update};
use silica_proto::Reply;
use silica_types::{PageId, is_marked, pages_of};

fn same(entry: EntryRef<'_>) -> Update {
    let EntryRef { value, expires_unix_ms, user_bits } = entry;
    Update::Put { value: value.to_vec(), expires_unix_ms, user_bits }
}

/// The id of the pages of what `entry` is, if it has any.
fn id_of(entry: EntryRef<'_>) -> Option<u64> {
    is_marked(entry.user_bits).then(|| pages_of(entry.value)).flatten().map(|(id, _)| id)
}

/// The id of the pages of what is at `key`.
fn pages_at(keys: &Keyspace<'_>, key: &[u8]) -> Result<Option<u64>> {
    keys.engine.get_with(key, |entry| entry.and_then(id_of))
}

/// RENAME and RENAMENX.
pub(crate) fn rename(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let only_new = args.is(0, "renamenx");
    let names = [args.get(1), args.get(2)];
    keys.claim_entries(&names, 2)?;
    let (mut found, mut moved, mut is_known) = (false, false, false);
    while !is_known {
        // The first page of an object has the name of its key.
        let pages = pages_at(keys, names[0])?;
        let first = pages.map(|id| PageId { object: id, number: 0 }.key());
        let mut all = names.to_vec();
        all.extend(first.iter().map(|key| &key[..]));
        atomic(keys.engine)?.update_all(&all, Durability::Buffered, &mut |entries| {
            found = entries[0].is_some();
            moved = found && (!only_new || entries[1].is_none());
            is_known = entries[0].and_then(id_of) == pages;
            match entries[0].filter(|_| moved && is_known && names[0] != names[1]) {
                Some(entry) => {
                    let mut updates = vec![Update::Delete, same(entry)];
                    updates.extend(pages.map(|_| Update::put(names[1].to_vec())));
                    updates
                }
                None => vec![Update::Keep; all.len()],
            }
        })?;
    }
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
            let number = database_number(args.get(index))?;
            if number != 0 && keys.service.cluster.is_some() {
                return Err("ERR DB index is out of range");
            }
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
    let Some(entry) = across::entry_of(keys, args.get(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let target = keys.service.databases.engine(options.db)?;
    let entry = (entry, options.replaces);
    let stored = across::store_copy(keys, target, args.get(2), entry)?;
    reply.integer(i64::from(stored));
    Ok(())
}

/// Pages of an object that are copied where other requests wait for it: less than half a
/// millisecond.
pub(super) const PAGES_AT_ONCE: u64 = 256;

/// True of a COPY that takes longer than other requests should wait. An object that cannot be read
/// takes no time.
pub(crate) fn takes_long(engine: &dyn Engine, args: Args<'_>) -> bool {
    let pages = |entry: EntryRef<'_>| pages_of(entry.value).filter(|_| is_marked(entry.user_bits));
    let is_large = |entry: Option<EntryRef<'_>>| {
        entry.and_then(pages).is_some_and(|(_, end)| end > PAGES_AT_ONCE)
    };
    args.is(0, "copy") && engine.get_with(args.get(1), is_large).unwrap_or(false)
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
    if pages_at(keys, names[0])?.is_some() {
        let copied = types::generic::copy(keys, (names[0], names[1]), replace)?;
        reply.integer(i64::from(copied));
        return Ok(());
    }
    let mut copied = false;
    atomic(keys.engine)?.update_all(&names, Durability::Buffered, &mut |entries| {
        let source = entries[0].filter(|_| replace || entries[1].is_none());
        copied = source.is_some();
        vec![Update::Keep, source.map_or(Update::Keep, same)]
    })?;
    reply.integer(i64::from(copied));
    Ok(())
}
