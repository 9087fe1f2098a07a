//! What commands of any type do with objects: copies, and what is known of them.

use super::{Done, Failure, Objects, TypeCommand};
use crate::burst::Args;
use crate::overlay::Owned;
use crate::resp::{Keyspace, NOT_INTEGER, SYNTAX};
use silica::engine::{Durability, Engine, Error, ErrorKind, Result, WriteBatch};
use silica_proto::{Reply, parse_i64};
use silica_types::{
    Direction, Hash, KEY_BYTES, Kind, List, Object, PageId, Pages, Set, entries_of_object,
    entry_for,
};

pub(crate) static ENCODING: TypeCommand = TypeCommand::read(encoding).with_key_at(2);

pub(crate) static USAGE: TypeCommand = TypeCommand::read(usage).with_key_at(0);

/// What an entry takes beside its key and value: its frame and its place in an index, about.
const ENTRY_BYTES: usize = 16;
/// Leaves of an object that are measured, if the request does not say how many.
const SAMPLES: usize = 5;

/// The longest text that Redis keeps beside its object.
const SHORT_BYTES_MAX: usize = 44;
/// Times that a copy is tried whose source others change.
const RUNS_MAX: usize = 1000;
/// Elements that are entries, of which so many are copied at once.
const ELEMENTS_AT_ONCE: usize = 512;

/// OBJECT ENCODING: what Redis would call it.
fn encoding(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    match encoding_of(objects, args.get(2))? {
        Some(name) => reply.bulk(name.as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

/// What Redis would call the form of what `key` holds; `None` if there is nothing.
pub(crate) fn encoding_of(objects: &mut Objects<'_>, key: &[u8]) -> Done<Option<&'static str>> {
    Ok(Some(match objects.kind(key)? {
        None => return Ok(None),
        Some(None) => {
            let (value, _) = objects.string(key)?.unwrap_or_default();
            let is_number = parse_i64(&value).is_some_and(|n| n.to_string().as_bytes() == value);
            match value.len() {
                _ if is_number => "int",
                0..=SHORT_BYTES_MAX => "embstr",
                _ => "raw",
            }
        }
        Some(Some(kind)) => {
            let opened = objects.open(key, kind)?.ok_or_else(Failure::wrong_type)?;
            let name = name_of(&opened.object);
            objects.close(opened);
            name
        }
    }))
}

/// How many parts of an object MEMORY USAGE measures; 0 for all.
fn samples(args: Args<'_>) -> Done<usize> {
    let mut samples = SAMPLES;
    for at in (3..args.len()).step_by(2) {
        if at + 1 == args.len() || !args.is(at, "samples") {
            return Err(Failure::reply(SYNTAX));
        }
        let number = parse_i64(args.get(at + 1)).ok_or_else(|| Failure::reply(NOT_INTEGER))?;
        samples = usize::try_from(number).map_err(|_| Failure::reply(SYNTAX))?;
    }
    Ok(samples)
}

/// MEMORY USAGE: of an object, its pages count, some of which are measured.
fn usage(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (key, samples) = (args.get(2), samples(args)?);
    let Some((len, kind)) = objects.measure(key)? else {
        reply.null();
        return Ok(());
    };
    let mut bytes = key.len() + len + ENTRY_BYTES;
    if let Some(kind) = kind
        && let Some(mut opened) = objects.open(key, kind)?
    {
        let pages = pages_bytes(&mut opened.object, objects.pages(), samples);
        objects.close(opened);
        bytes += pages?;
    }
    reply.integer(bytes as i64);
    Ok(())
}

/// What the elements of `object` take, which are entries, by the size of `samples` of them.
fn entries_bytes(object: &Object, pages: &mut dyn Pages, samples: usize) -> Result<usize> {
    let Some(id) = object.id() else { return Ok(0) };
    let (mut bytes, mut measured) = (0, 0);
    let (from, end) = entries_of_object(id);
    pages.walk_elements((&from, &end), Direction::Forward, &mut |key, value| {
        (bytes, measured) = (bytes + key.len() + value.len() + ENTRY_BYTES, measured + 1);
        samples == 0 || measured < samples
    })?;
    let count = usize::try_from(object.len(0) + object.len(1)).unwrap_or(usize::MAX);
    Ok((bytes / measured.max(1)).saturating_mul(count))
}

/// What the pages of `object` take, by the size of `samples` of them.
fn pages_bytes(object: &mut Object, pages: &mut dyn Pages, samples: usize) -> Result<usize> {
    if object.is_of_entries() {
        return entries_bytes(object, pages, samples);
    }
    let all = object.page_ids(pages)?;
    let step = if samples == 0 { 1 } else { all.len().div_ceil(samples).max(1) };
    let (mut bytes, mut measured) = (0, 0);
    for page in all.iter().step_by(step) {
        bytes += pages.get(*page)?.len();
        measured += 1;
    }
    let average = bytes.checked_div(measured).unwrap_or(0);
    // Page 0 has the name of the key, which was counted.
    Ok((average + KEY_BYTES + ENTRY_BYTES) * all.len())
}

/// What OBJECT ENCODING says of `object`.
fn name_of(object: &Object) -> &'static str {
    match object.kind() {
        Kind::Hash => Hash::encoding(object),
        Kind::List => List::encoding(object),
        Kind::Set => Set::encoding(object),
        Kind::Zset => "skiplist",
        Kind::Stream => "stream",
    }
}

/// Copies the object at `from`, which has pages, to `to` within a database; false if something is
/// there and is not to be replaced.
pub(crate) fn copy(
    keys: &Keyspace<'_>,
    (from, to): (&[u8], &[u8]),
    replaces: bool,
) -> Result<bool> {
    for _ in 0..RUNS_MAX {
        let (now_ms, bytes_max) = (keys.service.expiry_ms(), keys.service.budget.max() / 4);
        let mut objects = Objects::new(keys.service, keys.engine, keys.db, now_ms, bytes_max);
        objects.begin(0, true, false);
        match objects.copy(from, to, replaces) {
            // Others may have changed the pages while they were read.
            Err(error) if error.kind() == ErrorKind::Corruption && !objects.is_current()? => {
                continue;
            }
            copied => {
                let copied = copied?;
                objects.end()?;
                if objects.commit()? {
                    return Ok(copied);
                }
            }
        }
    }
    let text = "others have changed the key during each attempt to copy it; try again";
    Err(Error::new(ErrorKind::Busy, text))
}

/// Makes the pages of `entry`, an object of the database of `keys`, also pages in `target`, under a
/// new name, which `entry` gets. Nobody else may run.
pub(crate) fn copy_pages(
    keys: &Keyspace<'_>,
    target: &dyn Engine,
    (entry, key): (&mut Owned, &[u8]),
) -> Result<()> {
    let Some(kind) = Kind::of_user_bits(entry.user_bits) else { return Ok(()) };
    let mut object = Object::decode(kind, &entry.value)?;
    if object.id().is_none() {
        return Ok(());
    }
    let (service, bytes_max) = (keys.service, keys.service.budget.max() / 4);
    let mut from = Objects::new(service, keys.engine, keys.db, 0, bytes_max);
    let mut to = Objects::new(service, target, keys.db, 0, bytes_max);
    let id = to.pages().new_id()?;
    let mut batch = WriteBatch::new();
    let first = PageId { object: id, number: 0 };
    let mut pages = vec![(first.key(), key.to_vec())];
    for page in object.page_ids(from.pages())? {
        let bytes = from.pages().get(page)?.to_vec();
        pages.push((PageId { object: id, ..page }.key(), bytes));
    }
    for (key, bytes) in &pages {
        batch.put(key, bytes);
    }
    target.write(&batch, Durability::Buffered)?;
    copy_elements(from.pages(), &object, (target, id))?;
    object.rename_pages(id);
    entry.value = object.encode();
    Ok(())
}

/// Makes the elements of `object`, if they are entries, also entries of `target`, under the name
/// `id`.
pub(crate) fn copy_elements(
    from: &mut dyn Pages,
    object: &Object,
    (target, id): (&dyn Engine, u64),
) -> Result<()> {
    let Some(own) = object.id().filter(|_| object.is_of_entries()) else { return Ok(()) };
    let (mut lower, upper) = entries_of_object(own);
    loop {
        let mut some: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        from.walk_elements((&lower, &upper), Direction::Forward, &mut |key, value| {
            some.push((key.to_vec(), value.to_vec()));
            some.len() < ELEMENTS_AT_ONCE
        })?;
        let Some((last, _)) = some.last() else { return Ok(()) };
        lower = [last, &[0][..]].concat();
        some.iter_mut().for_each(|(key, _)| *key = entry_for(key, id));
        let mut batch = WriteBatch::new();
        for (key, value) in &some {
            batch.put(key, value);
        }
        target.write_each(&batch, Durability::Buffered)?;
    }
}

impl Objects<'_> {
    /// Stores a copy of what `from` holds at `to`; false if nothing is there, or something is at
    /// `to` and is not to be replaced.
    fn copy(&mut self, from: &[u8], to: &[u8], replaces: bool) -> Result<bool> {
        // A copy of its value would have pages of its own, which nobody removes.
        if !self.is_there(from)? || (self.is_there(to)? && !replaces) {
            return Ok(false);
        }
        let value = self.value_of(from)?;
        self.replace(to, value)?;
        Ok(true)
    }
}
