//! Objects (hashes, lists, sets, sorted sets, streams) of a keyspace, as `silica verify` checks
//! them and `silica export` reads them.

use silica::engine::Scan;
use silica::{EntryRef, Error, ErrorKind, KeyRange, Keyspace, Result};
use silica_types::{Direction, Kind, Object, Page, PageId, Pages, check, is_inner, owner_of_entry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries that are fetched at a time where an engine keeps no order.
const STEP: usize = 256;

/// Pages of a keyspace, to be read.
pub(crate) struct Stored<'k>(pub(crate) &'k Keyspace);

impl Pages for Stored<'_> {
    fn get(&mut self, page: PageId) -> Result<Arc<Page>> {
        let missing = || {
            let PageId { object, number } = page;
            let text = format!("page {number} of the object {object:016x} is missing");
            Error::new(ErrorKind::Corruption, text)
        };
        self.0.get(page.key())?.map(|bytes| Arc::new(bytes.into())).ok_or_else(missing)
    }

    fn put(&mut self, _: PageId, _: Arc<Page>) {}

    fn remove(&mut self, _: PageId) {}

    fn new_id(&mut self) -> Result<u64> {
        Err(Error::new(ErrorKind::Unsupported, "objects are only read here"))
    }

    fn element(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(key)
    }

    fn walk_elements(
        &mut self,
        (lower, upper): (&[u8], &[u8]),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let is_forward = direction == Direction::Forward;
        if let Some(ordered) = Arc::clone(self.0.engine()).as_ordered() {
            let mut iterator = ordered.snapshot()?.iterate(&KeyRange::new(lower, upper))?;
            let mut is_there =
                if is_forward { iterator.seek_to_first()? } else { iterator.seek_to_last()? };
            while is_there && each(iterator.key(), iterator.entry().value) {
                is_there = if is_forward { iterator.next()? } else { iterator.prev()? };
            }
            return Ok(());
        }
        // They came from a keyspace in order.
        let mut found = BTreeMap::new();
        each_entry(self.0, &mut |key, entry| {
            if key >= lower && key < upper {
                found.insert(key.to_vec(), entry.value.to_vec());
            }
            Ok(())
        })?;
        while let Some((key, value)) = if is_forward { found.pop_first() } else { found.pop_last() }
            && each(&key, &value)
        {}
        Ok(())
    }
}

/// What a check has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) objects: u64,
    pub(crate) elements: u64,
    /// Pages of these objects.
    pub(crate) pages: u64,
    /// Pages that no object has: a server removes them.
    pub(crate) dead_pages: u64,
}

/// Checks every object of `keyspace`.
pub(crate) fn check_all(keyspace: &Keyspace, found: &mut Found) -> Result<()> {
    let (mut all, mut named) = (0, 0);
    each_entry(keyspace, &mut |key, entry| {
        if is_inner(key) {
            // The mark of a replica is no page.
            all += u64::from(owner_of_entry(key).is_some());
            return Ok(());
        }
        let Some(kind) = Kind::of_user_bits(entry.user_bits) else { return Ok(()) };
        let within = |error: Error| {
            let name = String::from_utf8_lossy(key);
            error.within(format_args!("the {} '{name}' of '{}'", kind.name(), keyspace.name()))
        };
        let object = Object::decode(kind, entry.value).map_err(within)?;
        let checked = check(&object, &mut Stored(keyspace)).map_err(within)?;
        if let Some(id) = object.id() {
            let first = PageId { object: id, number: 0 };
            let owner = Stored(keyspace).get(first).map_err(within)?;
            if **owner != *key {
                let text = format!("page 0 of the object {id:016x} names another key");
                return Err(within(Error::new(ErrorKind::Corruption, text)));
            }
            named += 1;
        }
        named += checked.pages.len() as u64;
        named += if object.is_of_entries() { checked.elements } else { 0 };
        found.objects += 1;
        found.elements += checked.elements;
        Ok(())
    })?;
    found.pages += named;
    found.dead_pages += u64::saturating_sub(all, named);
    Ok(())
}

/// Calls `each` with the entries of `keyspace`: of one moment if the engine keeps an order.
pub(crate) fn each_entry(
    keyspace: &Keyspace,
    each: &mut dyn FnMut(&[u8], &EntryRef<'_>) -> Result<()>,
) -> Result<()> {
    if let Some(ordered) = Arc::clone(keyspace.engine()).as_ordered() {
        let mut iterator = ordered.snapshot()?.iterate(&KeyRange::ALL)?;
        let mut is_there = iterator.seek_to_first()?;
        while is_there {
            each(iterator.key(), &iterator.entry())?;
            is_there = iterator.next()?;
        }
        return Ok(());
    }
    match keyspace.engine().as_scan() {
        Some(scan) => each_by_position(scan, each),
        None => {
            let message = "the engine of this keyspace cannot list its entries";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

fn each_by_position(
    scan: &dyn Scan,
    each: &mut dyn FnMut(&[u8], &EntryRef<'_>) -> Result<()>,
) -> Result<()> {
    let mut next = Some(0);
    while let Some(cursor) = next {
        let mut outcome = Ok(());
        next = scan.scan(cursor, STEP, &mut |key, entry| {
            if outcome.is_ok() {
                outcome = each(key, &entry);
            }
        })?;
        outcome?;
    }
    Ok(())
}
