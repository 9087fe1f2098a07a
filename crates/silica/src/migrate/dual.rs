//! Two engines during a migration: one has everything, the other one gets it.
//!
//! Invariants:
//!
//! 1. Writes, and pieces that are copied, happen one after the other, each first on the source and
//!    then on the target. So what was copied or written is the same on both, until the target
//!    fails.
//! 2. A target that fails takes part no more; its error ends the migration, and no write of a user.
//! 3. When it is over, no write happens here any more.
//! 4. In the same turn a key is noted in the journal and written to both.

use super::journal::{Journal, Touch};
use super::switch::{admin, ordered};
use super::updates::atomic;
use silica_engine::{
    Durability, Engine, EntryRef, Error, Expected, KeyRange, Op, Reads, Result, Snapshot, Update,
    WriteBatch, keys_of_ranges,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys of one batch of deletes.
const DELETES: usize = 1024;

pub(crate) struct Dual {
    pub(crate) source: Arc<dyn Engine>,
    pub(crate) target: Arc<dyn Engine>,
    /// Where it is noted what is written, if the migration may go on after an interruption.
    journal: Option<Arc<Journal>>,
    turn: Mutex<Phase>,
    /// Writers that wait for their turn.
    waiting: AtomicUsize,
}

/// How far it is.
pub(crate) enum Phase {
    Both,
    /// The target failed so.
    Failed(Error),
    /// Entries are on one engine alone, which the switch knows.
    Over,
}

/// The outcome of a write, or that it must be tried on the switch's new route.
pub(crate) enum Write<T> {
    Done(Result<T>),
    Elsewhere,
}

impl<T> Write<T> {
    /// The outcome without what the write returned.
    pub(crate) fn done(self) -> Write<()> {
        self.map(drop)
    }

    fn map<U>(self, map: impl FnOnce(T) -> U) -> Write<U> {
        match self {
            Write::Done(outcome) => Write::Done(outcome.map(map)),
            Write::Elsewhere => Write::Elsewhere,
        }
    }
}

impl Dual {
    pub(crate) fn new(
        source: Arc<dyn Engine>,
        target: Arc<dyn Engine>,
        journal: Option<Arc<Journal>>,
    ) -> Self {
        let (turn, waiting) = (Mutex::new(Phase::Both), AtomicUsize::new(0));
        Dual { source, target, journal, turn, waiting }
    }

    pub(crate) fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copier's turn: writers who wait go first.
    pub(crate) fn turn(&self) -> Result<MutexGuard<'_, Phase>> {
        while self.waiting.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        let phase = self.lock();
        match &*phase {
            Phase::Failed(error) => Err(error.duplicate()),
            _ => Ok(phase),
        }
    }

    /// Writes go to the source alone, and then elsewhere.
    pub(crate) fn end(&self) {
        *self.lock() = Phase::Over;
    }

    /// Notes what it touches, does `on_source`, and with what that returns `on_target`.
    fn both<T>(
        &self,
        touch: Touch<'_>,
        durability: Durability,
        on_source: impl FnOnce(&Arc<dyn Engine>) -> Result<T>,
        on_target: impl FnOnce(&Arc<dyn Engine>, &T) -> Result<()>,
    ) -> Write<T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut phase = self.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if matches!(*phase, Phase::Over) {
            return Write::Elsewhere;
        }
        if let Some(Err(error)) = self.journal.as_ref().map(|journal| journal.touch(touch)) {
            return Write::Done(Err(error));
        }
        let done = match on_source(&self.source) {
            Ok(done) => done,
            Err(error) => return Write::Done(Err(error)),
        };
        if matches!(*phase, Phase::Both)
            && let Err(error) = on_target(&self.target, &done)
        {
            *phase = Phase::Failed(error);
        }
        drop(phase);
        // Together with the others who wait for the device.
        let synced = match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.source.sync(),
        };
        Write::Done(synced.map(|()| done))
    }

    pub(crate) fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Write<()> {
        self.both(
            Touch::Batch(batch),
            durability,
            |source| {
                let doomed = self.doomed(batch)?;
                source.write(batch, Durability::Buffered).map(|()| doomed)
            },
            |target, doomed| write_to_target(target, batch, doomed.as_deref()),
        )
        .done()
    }

    pub(crate) fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Write<usize> {
        let updates = std::cell::RefCell::new(vec![Update::Keep; keys.len()]);
        self.both(
            Touch::Keys(keys),
            durability,
            |source| {
                atomic(source)?.update_many(keys, Durability::Buffered, &mut |index, entry| {
                    let update = decide(index, entry);
                    updates.borrow_mut()[index] = update.clone();
                    update
                })
            },
            |target, done| apply(target, &keys[..*done], &updates.borrow()),
        )
    }

    pub(crate) fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Write<()> {
        let last = std::cell::RefCell::new(Vec::new());
        self.both(
            Touch::Keys(keys),
            durability,
            |source| {
                atomic(source)?.update_all(keys, Durability::Buffered, &mut |entries| {
                    let updates = decide(entries);
                    last.borrow_mut().clone_from(&updates);
                    updates
                })
            },
            |target, ()| apply(target, keys, &last.borrow()),
        )
    }

    pub(crate) fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Write<bool> {
        let batch: WriteBatch<'_> = ops.iter().copied().collect();
        self.both(
            Touch::Batch(&batch),
            durability,
            |source| {
                let (doomed, source) = (self.doomed(&batch)?, atomic(source)?);
                let done = source.write_expecting(expected, ops, Durability::Buffered)?;
                Ok((done, doomed))
            },
            |target, (done, doomed)| match done {
                true => write_to_target(target, &batch, doomed.as_deref()),
                false => Ok(()),
            },
        )
        .map(|(done, _)| done)
    }

    pub(crate) fn clear(&self) -> Write<()> {
        let clear = |engine: &Arc<dyn Engine>| admin(engine)?.clear();
        self.both(Touch::Anything, Durability::Buffered, clear, |target, ()| clear(target))
    }

    pub(crate) fn delete_range(&self, range: &KeyRange, durability: Durability) -> Write<()> {
        let delete =
            |engine: &Arc<dyn Engine>| ordered(engine)?.delete_range(range, Durability::Buffered);
        let on_source = |source: &Arc<dyn Engine>| {
            let before = ordered(source)?.snapshot()?;
            delete(source).map(|()| before)
        };
        let done =
            self.both(Touch::Anything, durability, on_source, |target, before| {
                match target.descriptor().capabilities.ordered {
                    true => delete(target),
                    false => delete_each(target, before, range),
                }
            });
        done.done()
    }

    pub(crate) fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Write<bool> {
        self.both(
            Touch::Batch(batch),
            durability,
            |source| {
                let doomed = self.doomed(batch)?;
                let source = ordered(source)?;
                let done = source.commit(snapshot, reads, batch, Durability::Buffered)?;
                Ok((done, doomed))
            },
            |target, (done, doomed)| match done {
                true => write_to_target(target, batch, doomed.as_deref()),
                false => Ok(()),
            },
        )
        .map(|(done, _)| done)
    }

    /// The keys that `batch` removes with ranges of keys, if the target has to be told of each.
    fn doomed(&self, batch: &WriteBatch<'_>) -> Result<Option<Doomed>> {
        if !batch.has_ranges() || self.target.descriptor().capabilities.ordered {
            return Ok(None);
        }
        keys_of_ranges(&ordered(&self.source)?.snapshot()?, batch).map(Some)
    }
}

/// For each range that a batch deletes, its keys.
type Doomed = Vec<Vec<Vec<u8>>>;

fn write_to_target(
    target: &Arc<dyn Engine>,
    batch: &WriteBatch<'_>,
    doomed: Option<&[Vec<Vec<u8>>]>,
) -> Result<()> {
    match doomed {
        Some(doomed) => target.write(&batch.without_ranges(doomed), Durability::Buffered),
        None => target.write(batch, Durability::Buffered),
    }
}

/// Does to `keys` what was decided.
fn apply(target: &Arc<dyn Engine>, keys: &[&[u8]], updates: &[Update]) -> Result<()> {
    let mut batch = WriteBatch::new();
    for (key, update) in keys.iter().zip(updates) {
        if let Some(kind) = update.kind() {
            batch.push(Op { key, kind });
        }
    }
    if batch.is_empty() { Ok(()) } else { target.write(&batch, Durability::Buffered) }
}

/// Removes from an engine without order the keys that `before` has in `range`.
fn delete_each(
    target: &Arc<dyn Engine>,
    before: &Arc<dyn Snapshot>,
    range: &KeyRange,
) -> Result<()> {
    let mut iterator = Arc::clone(before).iterate(range)?;
    let mut is_there = iterator.seek_to_first()?;
    while is_there {
        let mut keys = Vec::new();
        while is_there && keys.len() < DELETES {
            keys.push(iterator.key().to_vec());
            is_there = iterator.next()?;
        }
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| {
            batch.delete(key);
        });
        target.write(&batch, Durability::Buffered)?;
    }
    Ok(())
}
