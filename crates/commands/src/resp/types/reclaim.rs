//! Space of objects that are no more.
//!
//! Who removes a large object removes only the entry of its key. Its pages are removed later, apart
//! from other requests: at once, as far as the command knew of them ([`DeadPages::add`]); and those
//! of objects that expired, or were overwritten blindly, by a walk that goes over the first pages
//! of all objects again and again, some each second. The first page of an object has the name of
//! its key: if that key has no object with these pages, nobody has.
//!
//! An id is never used twice, and an object's first page changes its name together with the
//! object's key. So if the first page still has the same name *after* the key was found without the
//! object, the object is gone for good.

use crate::agreement::Need;
use crate::burst::{Args, Burst, Input, Output, Request};
use crate::lane::Lane;
use crate::push::Owner;
use crate::resp::Keyspace;
use crate::service::Service;
use crate::table::Run;
use silica::engine::{
    Durability, Engine, EngineExt, EntryIter, EntryRef, KeyRange, Result, WriteBatch,
};
use silica_proto::Reply;
use silica_types::{PREFIX, PageId, is_inner, is_marked, owner_of_entry, pages_of};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects whose pages are known to be dead, at most: the others are found by the walk.
const KNOWN_MAX: usize = 64 << 10;
/// Pages that are removed in one write, and in one turn.
const BATCH: u64 = 512;
const PAGES_A_TURN: u64 = 20_000;
/// Objects that a turn of the walk looks at: at least, and at most; between these as many as take
/// the walk over all of them in so many turns.
const OBJECTS_MIN: u64 = 200;
const OBJECTS_MAX: u64 = 5_000;
const TURNS: u64 = 600;
/// Entries that a turn of the count of pages looks at, and those of one step.
const COUNTED_A_TURN: u64 = 200_000;
const COUNTED_A_STEP: usize = 1_024;
/// Entries that a turn of the walk looks at if keys have no order: in memory, and on a device.
const SCANNED_IN_MEMORY: usize = 10_000;
const SCANNED_ON_DEVICE: usize = 500;

/// The pages of an object, from a number on, or of one whose key is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dead {
    id: u64,
    from: u64,
    end: u64,
}

/// The walk over the objects of a database.
#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    /// The least id that was not looked at.
    next: u64,
    /// Objects so far, and of the walk before.
    seen: u64,
    before: u64,
    /// The last walk has met no object, and nobody has made one since.
    rests: bool,
}

/// The count of the pages that a database had when the server began, as far as it has come.
#[derive(Debug, Clone, Copy, Default)]
struct Counting {
    cursor: u64,
    pages: u64,
}

#[derive(Debug, Default)]
struct Inner {
    known: BTreeMap<usize, VecDeque<Dead>>,
    walks: BTreeMap<usize, Walk>,
    counting: BTreeMap<usize, Counting>,
    /// How far the walks over entries without an order have come.
    scans: BTreeMap<usize, u64>,
}

/// What is to be removed, and what was.
#[derive(Debug, Default)]
pub(crate) struct DeadPages {
    inner: Mutex<Inner>,
    /// Pages that were removed.
    reclaimed: AtomicU64,
    /// Pages that commands have made, less those that they have removed, since the server began.
    made: [AtomicI64; crate::databases::DATABASES_MAX as usize],
    /// Those that were there before are among them.
    is_counted: [AtomicBool; crate::databases::DATABASES_MAX as usize],
    /// Loads that are under way.
    pauses: AtomicUsize,
}

/// Until it is dropped, nothing is reclaimed.
pub(crate) struct Paused<'d>(&'d DeadPages);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.pauses.fetch_sub(1, Relaxed);
    }
}

impl DeadPages {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages below `end` of the object `id` of database `db` have no owner any more.
    pub(crate) fn add(&self, db: usize, (id, end): (u64, u64)) {
        let mut inner = self.inner();
        let known = inner.known.entry(db).or_default();
        if known.len() < KNOWN_MAX {
            known.push_back(Dead { id, from: 0, end });
        }
    }

    /// Commands have made so many pages more than they have removed.
    pub(crate) fn note_made(&self, db: usize, pages: i64) {
        if pages != 0 {
            self.made[db].fetch_add(pages, Relaxed);
        }
    }

    /// Pages that commands have made since the server began.
    pub(crate) fn made(&self, db: usize) -> u64 {
        u64::try_from(self.made[db].load(Relaxed)).unwrap_or(0)
    }

    /// Database `db` is empty.
    pub(crate) fn note_cleared(&self, db: usize) {
        self.made[db].store(0, Relaxed);
        self.is_counted[db].store(true, Relaxed);
        self.inner().counting.remove(&db);
    }

    /// Other data takes the place of what database `db` held, perhaps with objects of the same ids.
    /// The caller is alone with the databases.
    pub(crate) fn note_replaced(&self, db: usize) {
        let mut inner = self.inner();
        inner.known.remove(&db);
        inner.walks.remove(&db);
        inner.counting.remove(&db);
        inner.scans.remove(&db);
        self.made[db].store(0, Relaxed);
        self.is_counted[db].store(false, Relaxed);
    }

    /// Nothing is reclaimed until what is returned is dropped: pages may come before their objects.
    pub(crate) fn pause(&self) -> Paused<'_> {
        self.pauses.fetch_add(1, Relaxed);
        Paused(self)
    }

    /// Pages that were reclaimed.
    pub(crate) fn reclaimed(&self) -> u64 {
        self.reclaimed.load(Relaxed)
    }

    /// True if there is something to do in database `db`, whose engine is `engine`.
    fn is_due(&self, db: usize, engine: &dyn Engine) -> bool {
        if self.pauses.load(Relaxed) > 0 {
            return false;
        }
        let inner = self.inner();
        let has_known = inner.known.get(&db).is_some_and(|known| !known.is_empty());
        let rests = inner.walks.get(&db).is_some_and(|walk| walk.rests) && self.made(db) == 0;
        let is_ordered = engine.descriptor().capabilities.ordered;
        let may_evict = engine.descriptor().capabilities.may_evict;
        let is_to_walk = if is_ordered { !rests } else { self.made(db) > 0 && !may_evict };
        has_known || is_to_walk || self.is_to_count(db, engine)
    }

    /// True if nobody knows how many pages database `db`, whose keys have no order, had when the
    /// server began.
    fn is_to_count(&self, db: usize, engine: &dyn Engine) -> bool {
        let capabilities = engine.descriptor().capabilities;
        let can_be = !capabilities.ordered && engine.as_scan().is_some();
        can_be && !self.is_counted[db].load(Relaxed)
    }

    /// Database `db` has `pages` pages, or had a moment ago.
    fn note_counted(&self, db: usize, pages: u64) {
        // What was made meanwhile may be among them.
        self.made[db].fetch_max(i64::try_from(pages).unwrap_or(i64::MAX), Relaxed);
        self.is_counted[db].store(true, Relaxed);
    }

    /// Goes on with the count of the pages that a database had when the server began.
    fn count_some(&self, keys: &Keyspace<'_>) -> Result<()> {
        let Some(scan) = keys.engine.as_scan() else { return Ok(()) };
        if !self.is_to_count(keys.db, keys.engine) {
            return Ok(());
        }
        let known = self.inner().counting.get(&keys.db).copied();
        let Counting { mut cursor, mut pages } = known.unwrap_or_default();
        let a_turn = match keys.engine.descriptor().capabilities.may_wait {
            true => SCANNED_ON_DEVICE as u64,
            false => COUNTED_A_TURN,
        };
        for _ in 0..a_turn.div_ceil(COUNTED_A_STEP as u64) {
            let mut visit = |key: &[u8], _: EntryRef<'_>| pages += u64::from(is_inner(key));
            let Some(next) = scan.scan(cursor, COUNTED_A_STEP, &mut visit)? else {
                self.note_counted(keys.db, pages);
                self.inner().counting.remove(&keys.db);
                return Ok(());
            };
            cursor = next;
        }
        self.inner().counting.insert(keys.db, Counting { cursor, pages });
        Ok(())
    }

    /// Removes some pages of database `db` that are known to be dead.
    fn remove_known(&self, keys: &Keyspace<'_>) -> Result<()> {
        let mut left = PAGES_A_TURN;
        while left > 0 {
            let next = self.inner().known.get_mut(&keys.db).and_then(VecDeque::pop_front);
            let Some(Dead { id, from, end }) = next else { break };
            if keys.engine.descriptor().capabilities.ordered {
                remove_all(keys.engine, id)?;
                left = left.saturating_sub(BATCH);
                self.count(keys.db, end);
                continue;
            }
            let to = end.min(from.saturating_add(left.min(BATCH)));
            remove(keys.engine, id, from..to)?;
            self.count(keys.db, to - from);
            left -= to - from;
            if to < end {
                let rest = Dead { id, from: to, end };
                self.inner().known.entry(keys.db).or_default().push_front(rest);
            }
        }
        Ok(())
    }

    fn count(&self, db: usize, pages: u64) {
        self.reclaimed.fetch_add(pages, Relaxed);
        self.note_made(db, -(pages as i64));
    }

    /// Goes on with the walk over the entries of a database whose keys have no order: each page
    /// that it meets of an object that is gone is removed.
    fn walk_unordered(&self, keys: &Keyspace<'_>) -> Result<()> {
        let capabilities = keys.engine.descriptor().capabilities;
        // A cache may have evicted the first page of an object, and evicts what nobody reads.
        let is_due = self.made(keys.db) > 0 && !capabilities.may_evict;
        let Some(scan) = keys.engine.as_scan().filter(|_| is_due) else { return Ok(()) };
        let most = if capabilities.may_wait { SCANNED_ON_DEVICE } else { SCANNED_IN_MEMORY };
        let cursor = self.inner().scans.get(&keys.db).copied().unwrap_or(0);
        let mut pages = Vec::new();
        let next = scan.scan(cursor, most, &mut |key, _| pages.extend(PageId::of_key(key)))?;
        self.inner().scans.insert(keys.db, next.unwrap_or(0));
        pages.sort_unstable();
        for own in pages.chunk_by(|one, other| one.object == other.object) {
            let first = PageId { number: 0, ..own[0] }.key();
            if !is_gone(keys.engine, own[0].object, keys.engine.get(&first)?)? {
                continue;
            }
            let dead: Vec<_> = own.iter().map(|page| page.key()).collect();
            let mut batch = WriteBatch::new();
            for key in &dead {
                batch.delete(key);
            }
            keys.engine.write_each(&batch, Durability::Buffered)?;
            self.count(keys.db, dead.len() as u64);
        }
        Ok(())
    }

    /// Goes on with the walk over the objects of a database.
    fn walk(&self, keys: &Keyspace<'_>) -> Result<()> {
        let Some(ordered) = keys.whole.and_then(|engine| Arc::clone(engine).as_ordered()) else {
            return self.walk_unordered(keys);
        };
        let mut walk = self.inner().walks.get(&keys.db).copied().unwrap_or_default();
        let most = (walk.before / TURNS).clamp(OBJECTS_MIN, OBJECTS_MAX);
        let mut iterator = ordered.snapshot()?.iterate(&KeyRange::prefix(&PREFIX))?;
        for _ in 0..most {
            if !iterator.seek(&PageId { object: walk.next, number: 0 }.key())? {
                walk = Walk { before: walk.seen, rests: walk.seen == 0, ..Walk::default() };
                break;
            }
            let Some(object) = owner_of_entry(iterator.key()) else { break };
            walk.seen += 1;
            if is_dead(keys.engine, &*iterator, object)? {
                remove_all(keys.engine, object)?;
                self.reclaimed.fetch_add(1, Relaxed);
            }
            let Some(next) = object.checked_add(1) else { break };
            walk.next = next;
        }
        self.inner().walks.insert(keys.db, walk);
        Ok(())
    }
}

/// True if the object `id` is gone for good, at whose first page or element `iterator` is.
fn is_dead(engine: &dyn Engine, iterator: &dyn EntryIter, id: u64) -> Result<bool> {
    let first = PageId { object: id, number: 0 }.key();
    let name = match iterator.key() == first {
        true => Some(iterator.entry().value.to_vec()),
        false => engine.get(&first)?,
    };
    is_gone(engine, id, name)
}

/// True if the object `id`, whose first page has `name`, is gone for good.
fn is_gone(engine: &dyn Engine, id: u64, mut name: Option<Vec<u8>>) -> Result<bool> {
    let first = PageId { object: id, number: 0 }.key();
    loop {
        // Without a first page nobody has its pages: it comes and goes with them.
        let Some(key) = &name else { return Ok(true) };
        let owner = engine.get_with(key, |entry| {
            entry.filter(|entry| is_marked(entry.user_bits)).and_then(|e| pages_of(e.value))
        })?;
        if owner.is_some_and(|(own, _)| own == id) {
            return Ok(false);
        }
        let now = engine.get(&first)?;
        if now == name {
            return Ok(true);
        }
        name = now;
    }
}

/// Removes all pages and elements of the object `id` of an engine in order.
fn remove_all(engine: &dyn Engine, id: u64) -> Result<()> {
    let lower = PageId { object: id, number: 0 }.key();
    let upper = PageId { object: id, number: u64::MAX }.key();
    let mut batch = WriteBatch::new();
    batch.delete_range(&lower, Some(&upper));
    engine.write(&batch, Durability::Buffered)
}

fn remove(engine: &dyn Engine, id: u64, numbers: std::ops::Range<u64>) -> Result<()> {
    let keys: Vec<_> = numbers.map(|number| PageId { object: id, number }.key()).collect();
    let mut batch = WriteBatch::new();
    for key in &keys {
        batch.delete(key);
    }
    engine.write_each(&batch, Durability::Buffered)
}

/// Pages among the entries of the engine of `keys`, of which there are about `entries`.
pub(crate) fn pages_in(keys: &Keyspace<'_>, entries: u64, counted_max: u64) -> Result<u64> {
    let range = KeyRange::prefix(&PREFIX);
    let ordered = keys.whole.and_then(|engine| Arc::clone(engine).as_ordered());
    if let Some(ordered) = ordered {
        let (mut count, mut iterator) = (0, Arc::clone(&ordered).snapshot()?.iterate(&range)?);
        let mut is_there = iterator.seek_to_first()?;
        if is_there && entries > counted_max {
            return Ok(ordered.range_size(&range).entries);
        }
        while is_there {
            (count, is_there) = (count + 1, iterator.next()?);
        }
        return Ok(count);
    }
    let dead_pages = &keys.service.dead_pages;
    let made = dead_pages.made(keys.db);
    let may_have = made > 0 || dead_pages.is_to_count(keys.db, keys.engine);
    match keys.engine.as_scan() {
        Some(scan) if entries <= counted_max && may_have => {
            let (mut next, mut count) = (Some(0), 0);
            while let Some(cursor) = next {
                next = scan.scan(cursor, 1024, &mut |key, _| count += u64::from(is_inner(key)))?;
            }
            dead_pages.note_counted(keys.db, count);
            Ok(count)
        }
        _ => Ok(made),
    }
}

/// A turn of all databases.
fn reclaim(keys: &Keyspace<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<()> {
    let (service, databases) = (keys.service, &keys.service.databases);
    if !may_write(service) {
        return Ok(());
    }
    for db in 0..databases.count() {
        let Some(engine) = databases.opened(db).filter(|e| service.dead_pages.is_due(db, *e))
        else {
            continue;
        };
        let keys = Keyspace { db, engine, whole: databases.whole(db), ..*keys };
        service.dead_pages.remove_known(&keys)?;
        service.dead_pages.count_some(&keys)?;
        service.dead_pages.walk(&keys)?;
    }
    Ok(())
}

/// False on a member of a group that does not lead: what it has may be old, or in between.
fn may_write(service: &Service) -> bool {
    let agreement = service.options.agreement.as_ref();
    agreement.is_none_or(|agreement| agreement.refuse(Need::Write, None).is_none())
}

/// A burst that belongs to no connection and reclaims pages.
pub(crate) fn burst(service: &Service, from: usize) -> Option<Burst> {
    if !may_write(service) {
        return None;
    }
    let databases = &service.databases;
    let is_due = |db: &usize| {
        databases.opened(*db).is_some_and(|engine| service.dead_pages.is_due(*db, engine))
    };
    (0..databases.count()).find(is_due)?;
    let (silent, long) = (true, true);
    let request = Request { silent, long, ..Request::new(Run::Whole(reclaim), 0, 0) };
    let input = Input { requests: vec![request], is_internal: true, ..Input::default() };
    let mut burst = Burst::new(from, Lane::Long);
    burst.push(Owner { slot: usize::MAX, client: 0 }, input, Output::new(Vec::new(), 0, 1));
    Some(burst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_testkit::Reference;

    #[test]
    fn other_data_is_walked_anew_and_nothing_of_it_is_dead_before() {
        let (pages, engine) = (DeadPages::default(), Reference::new());
        pages.inner().walks.insert(3, Walk { rests: true, ..Walk::default() });
        assert!(!pages.is_due(3, &engine), "there was no object");
        pages.note_replaced(3);
        assert!(pages.is_due(3, &engine), "there may be some");
        pages.add(3, (7, 9));
        pages.note_replaced(3);
        assert!(pages.inner().known.is_empty(), "the object may be there again");
        let paused = pages.pause();
        assert!(!pages.is_due(3, &engine), "a load is under way");
        drop(paused);
        assert!(pages.is_due(3, &engine));
    }
}
