//! The keys of a database, as a replica gets them.

use super::Effects;
use super::blocks::Range;
use crate::budget::Claim;
use crate::budget::out_of_memory;
use crate::marks::MARK_KEY;
use silica::engine::{Engine, EngineExt, EntryRef, Error, ErrorKind, KeyRange, Result};
use silica::engine::{Snapshot, SnapshotExt};
use silica_base::HashSeed;
use silica_proto::rdb::{self, FileWriter, ObjectEntry};
use silica_types::{Direction, Kind, Object, Page, PageId, Pages, is_inner, to_rdb};
use std::sync::Arc;

/// Bytes of an object in memory for each page that it has made.
const PAGE_BYTES: usize = 3 * 4096;
/// Bytes of an object in memory for each of its elements' entries, of which an element has two.
const ELEMENT_BYTES: usize = 128;

/// Where pages are read from.
pub(super) type Read<'r> = &'r dyn Fn(&[u8]) -> Result<Option<Vec<u8>>>;
/// Where objects are read from: their pages, and their elements if these are entries.
type Source<'s> = (Read<'s>, Option<&'s Arc<dyn Snapshot>>);

/// Pages that are only read, and elements that are entries.
struct Stored<'r>(Read<'r>, Option<&'r Arc<dyn Snapshot>>);

impl Pages for Stored<'_> {
    fn get(&mut self, page: PageId) -> Result<Arc<Page>> {
        let missing = || {
            let PageId { object, number } = page;
            let text = format!("page {number} of the object {object:016x} is missing");
            Error::new(ErrorKind::Corruption, text)
        };
        (self.0)(&page.key())?.map(|bytes| Arc::new(bytes.into())).ok_or_else(missing)
    }

    fn put(&mut self, _: PageId, _: Arc<Page>) {}

    fn remove(&mut self, _: PageId) {}

    fn new_id(&mut self) -> Result<u64> {
        Err(Error::new(ErrorKind::Unsupported, "objects are only read here"))
    }

    fn element(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        (self.0)(key)
    }

    fn walk_elements(
        &mut self,
        (lower, upper): (&[u8], &[u8]),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let snapshot = self.1.ok_or_else(|| {
            let text = "the elements of a sorted set cannot be listed where keys have no order";
            Error::new(ErrorKind::Unsupported, text)
        })?;
        walk_range(snapshot, (lower, upper), direction, each)
    }
}

/// Calls `each` with the entries of a range of keys, in order or against it, until it returns
/// false.
fn walk_range(
    snapshot: &Arc<dyn Snapshot>,
    (lower, upper): (&[u8], &[u8]),
    direction: Direction,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let mut iterator = Arc::clone(snapshot).iterate(&KeyRange::new(lower, upper))?;
    let is_forward = direction == Direction::Forward;
    let mut is_there =
        if is_forward { iterator.seek_to_first()? } else { iterator.seek_to_last()? };
    while is_there && each(iterator.key(), iterator.entry().value) {
        is_there = if is_forward { iterator.next()? } else { iterator.prev()? };
    }
    Ok(())
}

/// The value of an object of `kind` as RDB has it, whole; its memory is claimed.
fn object_value(
    (kind, value): (Kind, &[u8]),
    (read, snapshot): (Read<'_>, Option<&Arc<dyn Snapshot>>),
    claim: &Claim,
    now_ms: u64,
) -> Result<rdb::Object> {
    let mut object = Object::decode(kind, value)?;
    let each = if object.is_of_entries() { ELEMENT_BYTES } else { PAGE_BYTES };
    let bytes = usize::try_from(object.pages_end()).unwrap_or(usize::MAX).saturating_mul(each);
    claim.set(0);
    claim.grow(bytes).map_err(out_of_memory)?;
    to_rdb(&mut object, &mut Stored(read, snapshot), now_ms)
}

/// Calls `take` with pieces of an RDB file that has all keys of `snapshot`, which is database `db`;
/// `expires` is told of keys that expire.
pub(super) fn write_all(
    snapshot: &Arc<dyn Snapshot>,
    db: u8,
    (writer, claim): (&mut FileWriter, &Claim),
    expires: &mut dyn FnMut(&[u8], u64),
    take: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let read = |key: &[u8]| snapshot.get_with(key, |entry| entry.map(|e| e.value.to_vec()));
    let mut iterator = Arc::clone(snapshot).iterate(&KeyRange::ALL)?;
    let mut is_there = iterator.seek_to_first()?;
    let (mut out, database) = (Vec::new(), u64::from(db));
    while is_there {
        let (key, entry) = (iterator.key(), iterator.entry());
        if !is_inner(key) {
            if entry.expires_unix_ms != 0 {
                expires(key, entry.expires_unix_ms);
            }
            let now_ms = snapshot.unix_ms();
            let from: Source<'_> = (&read, Some(snapshot));
            write_entry((database, key, entry), from, (writer, claim), now_ms, &mut out)?;
        }
        take(&mut out)?;
        is_there = iterator.next()?;
    }
    Ok(())
}

/// Adds a key to an RDB file, if it is in `engine`, which is database `db`.
pub(super) fn write_key(
    engine: &dyn Engine,
    (db, key): (u8, &[u8]),
    to: (&mut FileWriter, &Claim),
    now_ms: u64,
    out: &mut Vec<u8>,
) -> Result<()> {
    let copy = |entry: EntryRef<'_>| (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
    let Some((value, expires_unix_ms, user_bits)) =
        engine.get_with(key, |entry| entry.map(copy))?
    else {
        return Ok(());
    };
    let entry = EntryRef { value: &value, expires_unix_ms, user_bits };
    write_entry((db.into(), key, entry), (&|key| engine.get(key), None), to, now_ms, out)
}

/// Adds an entry to an RDB file, with the pages and elements of objects that `from` has.
fn write_entry(
    (database, key, entry): (u64, &[u8], EntryRef<'_>),
    from: Source<'_>,
    (writer, claim): (&mut FileWriter, &Claim),
    now_ms: u64,
    out: &mut Vec<u8>,
) -> Result<()> {
    let EntryRef { value, expires_unix_ms, user_bits } = entry;
    let Some(kind) = Kind::of_user_bits(user_bits) else {
        let (key, value) = (key.into(), value.into());
        writer.entry(&rdb::Entry { database, key, value, expires_unix_ms, user_bits }, out);
        return Ok(());
    };
    let value = object_value((kind, value), from, claim, now_ms)?;
    // One whose last fields have expired is nothing for others.
    if !matches!(&value, rdb::Object::Hash(fields) if fields.is_empty()) {
        let key = key.to_vec();
        writer.object(&ObjectEntry { database, key, value, expires_unix_ms }, out);
    }
    claim.set(0);
    Ok(())
}

/// Calls `take` with all entries of `snapshot`, those that no user sees included, range by range:
/// if they end by keys, as both sides cut them under `seed`. `expires` is told of keys that expire.
pub(crate) fn each_range(
    snapshot: &Arc<dyn Snapshot>,
    (seed, by_keys): (HashSeed, bool),
    expires: &mut dyn FnMut(&[u8], u64),
    take: &mut dyn FnMut(&Range) -> Result<()>,
) -> Result<()> {
    let mut iterator = Arc::clone(snapshot).iterate(&KeyRange::ALL)?;
    let mut is_there = iterator.seek_to_first()?;
    let mut range = Range::new(seed);
    while is_there {
        let (key, entry) = (iterator.key(), iterator.entry());
        if entry.expires_unix_ms != 0 && !is_inner(key) {
            expires(key, entry.expires_unix_ms);
        }
        // The mark of a replica is its own.
        if key != MARK_KEY && range.add(key, entry, by_keys) {
            take(&range)?;
            range.clear();
        }
        is_there = iterator.next()?;
    }
    if range.entries > 0 { take(&range) } else { Ok(()) }
}

/// Adds commands that make `key` what it is in `engine`, which is database `db`: nothing if it is
/// not there. Returns when it expires; 0 for never.
pub(crate) fn push_key(
    (engine, whole): (&dyn Engine, Option<&Arc<dyn Engine>>),
    (db, key): (u8, &[u8]),
    claim: &Claim,
    now_ms: u64,
    effects: &mut Effects,
) -> Result<u64> {
    let copy = |entry: EntryRef<'_>| (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
    let Some((value, expires, user_bits)) = engine.get_with(key, |entry| entry.map(copy))? else {
        return Ok(0);
    };
    let at = expires.to_string();
    let Some(kind) = Kind::of_user_bits(user_bits) else {
        effects.put(db, key, EntryRef { value: &value, expires_unix_ms: expires, user_bits });
        return Ok(expires);
    };
    let read = |key: &[u8]| engine.get(key);
    let ordered = whole.and_then(|engine| Arc::clone(engine).as_ordered());
    let snapshot = ordered.map(|ordered| ordered.snapshot()).transpose()?;
    let from: Source<'_> = (&read, snapshot.as_ref());
    let payload = rdb::dump_object(&object_value((kind, &value), from, claim, now_ms)?);
    claim.set(0);
    let args: [&[u8]; 6] = [b"RESTORE", key, at.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
    effects.push(Some(db), &args);
    Ok(expires)
}

/// Adds a command that makes `key` a string that expires at a time; 0 for never.
pub(super) fn push_set(effects: &mut Effects, db: u8, key: &[u8], value: &[u8], expires: u64) {
    match expires {
        0 => effects.push(Some(db), &[b"SET", key, value]),
        at => effects.push(Some(db), &[b"SET", key, value, b"PXAT", at.to_string().as_bytes()]),
    }
}
