//! Large objects that go to another database: their pages are copied beside other requests, before
//! the step that makes them an object's, for which all others wait.
//!
//! 1. Pages belong to their object's entry: while that is what it was, they are. So the step takes
//!    the copies if the entry still is the one of which they were made.
//! 2. The first copy names the key, and is written before all others. Whatever clears the target
//!    meanwhile takes it away; then nothing is taken.
//! 3. What is not taken is reclaimed as pages without an owner are.

use crate::burst::Args;
use crate::overlay::Owned;
use crate::resp::moving::PAGES_AT_ONCE;
use crate::resp::types::Objects;
use crate::resp::types::generic::copy_elements;
use crate::resp::types::reclaim::Paused;
use crate::service::Service;
use silica::engine::{Durability, Engine, EngineExt, EntryRef, GetSink, Result, WriteBatch};
use silica_proto::parse_i64;
use silica_types::{Kind, Object, PageId, Pages, pages_of};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Times that pages are copied of an object that others change.
const TRIES_MAX: usize = 3;
/// Pages of a batch.
const BATCH: usize = 256;

/// Pages that were copied for an object which is not there yet.
pub(crate) struct Ahead<'s> {
    service: &'s Service,
    /// The entry of which they were made.
    from: Owned,
    /// The database that has them.
    db: usize,
    target: &'s dyn Engine,
    to: Vec<u8>,
    /// The object that they are of.
    object: Object,
    id: u64,
    is_taken: AtomicBool,
    /// They have no owner, and are to stay.
    _paused: Paused<'s>,
}

/// Where a command takes an object to: the key, its new key, and its database; whether it moves it.
fn aim<'a>(args: Args<'a>) -> Option<(&'a [u8], &'a [u8], usize, bool)> {
    if args.len() == 0 {
        // What the server asks of itself.
        return None;
    }
    let moves = args.is(0, "move");
    let number = match moves {
        true => args.get(2),
        false if args.is(0, "copy") => {
            let at = (3..args.len().checked_sub(1)?).rev().find(|at| args.is(*at, "db"))?;
            args.get(at + 1)
        }
        false => return None,
    };
    let db = usize::try_from(parse_i64(number)?).ok()?;
    Some((args.get(1), args.get(if moves { 1 } else { 2 }), db, moves))
}

impl<'s> Ahead<'s> {
    /// Copies the pages of the object that `args` take from database `db` to another one; `None`
    /// if it is not large, or others change it all the while. Whatever fails here fails again where
    /// it is told.
    pub(crate) fn copy(service: &'s Service, db: usize, args: Args<'_>) -> Option<Self> {
        let (key, to, target, moves) = aim(args)?;
        let databases = &service.databases;
        if service.cluster.is_some() || target >= databases.count() || target == db {
            return None;
        }
        let engine = databases.opened(db)?;
        for _ in 0..TRIES_MAX {
            let own = |entry: Option<EntryRef<'_>>| entry.map(Owned::of);
            let from = engine.get_with(key, own).ok()??;
            let target_engine = databases.engine(target).ok()?;
            let ahead = Ahead::new(service, from, (target, target_engine), to)?;
            let copied = ahead.copy_pages((engine, db), moves);
            let is_same = engine.get_with(key, |now| now == Some(ahead.from.entry()));
            if is_same.unwrap_or(false) {
                return copied.ok().map(|()| ahead);
            }
        }
        None
    }

    fn new(
        service: &'s Service,
        from: Owned,
        (db, target): (usize, &'s dyn Engine),
        to: &[u8],
    ) -> Option<Self> {
        let kind = Kind::of_user_bits(from.user_bits)?;
        let (_, end) = pages_of(&from.value)?;
        if end <= PAGES_AT_ONCE {
            return None;
        }
        let object = Object::decode(kind, &from.value).ok()?;
        let bytes_max = service.budget.max() / 4;
        let id = Objects::new(service, target, db, 0, bytes_max).pages().new_id().ok()?;
        let (is_taken, _paused) = (AtomicBool::new(false), service.dead_pages.pause());
        Some(Ahead { service, from, db, target, to: to.to_vec(), object, id, is_taken, _paused })
    }

    fn first(&self) -> PageId {
        PageId { object: self.id, number: 0 }
    }

    fn copy_pages(&self, (engine, db): (&dyn Engine, usize), moves: bool) -> Result<()> {
        let bytes_max = self.service.budget.max() / 4;
        let mut objects = Objects::new(self.service, engine, db, 0, bytes_max);
        let pages = self.object.clone().page_ids(objects.pages())?;
        let elements = if self.object.is_of_entries() { 2 * self.object.len(0) } else { 0 };
        let made = pages.len() as i64 + elements as i64 + 1;
        self.service.dead_pages.note_made(self.db, made);
        self.target.put(&self.first().key(), &self.to, Durability::Buffered)?;
        for pages in pages.chunks(BATCH) {
            let keys: Vec<_> = pages.iter().map(|page| page.key()).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut found = Found(vec![None; keys.len()]);
            engine.get_many(&keys, &mut found)?;
            let copies: Vec<_> =
                pages.iter().map(|page| PageId { object: self.id, ..*page }.key()).collect();
            let mut batch = WriteBatch::new();
            for (key, bytes) in copies.iter().zip(&found.0) {
                // What is missing was changed, and so was the entry.
                if let Some(bytes) = bytes {
                    batch.put(key, bytes);
                }
            }
            self.target.write_each(&batch, Durability::Buffered)?;
        }
        copy_elements(objects.pages(), &self.object, (self.target, self.id))?;
        // The step that moves the object syncs it before it is gone here: most of it is done then.
        if moves { self.target.sync() } else { Ok(()) }
    }

    /// The value of the object with these pages, if they are those of `entry`, which is to be `to`
    /// of `target`. They are its own then.
    pub(crate) fn take(
        &self,
        entry: &Owned,
        target: &dyn Engine,
        to: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let is_meant = *entry == self.from && *to == *self.to;
        if !is_meant || !std::ptr::addr_eq(target, self.target) {
            return Ok(None);
        }
        if target.get(&self.first().key())?.as_deref() != Some(to) {
            return Ok(None);
        }
        self.is_taken.store(true, Relaxed);
        let mut object = self.object.clone();
        object.rename_pages(self.id);
        Ok(Some(object.encode()))
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        if !self.is_taken.load(Relaxed) {
            self.service.dead_pages.add(self.db, (self.id, self.object.pages_end()));
        }
    }
}

/// Copies the values of pages that are found.
struct Found(Vec<Option<Vec<u8>>>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.value.to_vec());
    }
}
