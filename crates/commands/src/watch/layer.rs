//! What stands before a database's engine and marks those who watch what is written.

use super::{PlaceWatchers, Watchers};
use silica::engine::transaction::CommitTurns;
use silica::engine::{
    Atomic, Durability, Engine, EntryRef, Expected, GetSink, KeyRange, Layer, Near, Op, Ordered,
    RangeSize, Reads, Result, Shard, Snapshot, Update, WriteBatch,
};
use std::sync::Arc;

/// An engine whose writes are told to those who watch its keys. Clearing marks nobody: who watches
/// a key that was there no longer finds it. Who takes a shard of it makes that a [`WatchedShard`].
pub(crate) struct Watched {
    watchers: Arc<PlaceWatchers>,
    engine: Arc<dyn Engine>,
}

impl Watched {
    pub(crate) fn wrap(watchers: &Arc<PlaceWatchers>, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Watched { watchers: Arc::clone(watchers), engine })
    }
}

impl Watchers {
    fn batch<T>(&self, batch: &WriteBatch<'_>, write: impl FnOnce() -> T) -> T {
        let keys = batch.ops().iter().map(|op| op.key);
        self.write(keys.clone(), |is_active| {
            if is_active {
                keys.for_each(|key| self.mark(key));
            }
            write()
        })
    }

    fn updates(
        &self,
        keys: &[&[u8]],
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
        update: impl FnOnce(&mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update) -> Result<usize>,
    ) -> Result<usize> {
        self.write(keys.iter().copied(), |is_active| match is_active {
            false => update(decide),
            true => update(&mut |index, current| {
                let update = decide(index, current);
                if update != Update::Keep {
                    self.mark(keys[index]);
                }
                update
            }),
        })
    }
}

impl Layer for Watched {
    type Inner = dyn Engine;

    fn inner(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.watchers.now().batch(batch, || self.engine.write(batch, durability))
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.watchers.now().batch(batch, || self.engine.write_each(batch, durability))
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        self.engine.as_atomic().map(|_| self as &dyn Atomic)
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        let ordered = Arc::clone(&self.engine).as_ordered()?;
        Some(Arc::new(WatchedOrdered { watchers: Arc::clone(&self.watchers), ordered }))
    }
}

/// The ordered view of an engine whose commits are told to those who watch keys. Deleted ranges
/// mark nobody, as clearing does not.
struct WatchedOrdered {
    watchers: Arc<PlaceWatchers>,
    ordered: Arc<dyn Ordered>,
}

impl Ordered for WatchedOrdered {
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Arc::clone(&self.ordered).snapshot()
    }

    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        self.ordered.delete_range(range, durability)
    }

    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<bool> {
        let commit = || self.ordered.commit(snapshot, reads, batch, durability);
        self.watchers.now().batch(batch, commit)
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        self.ordered.commit_turns()
    }

    fn sync_commits(&self) -> Result<()> {
        self.ordered.sync_commits()
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        self.ordered.range_size(range)
    }

    fn near(&self, random: u64) -> Option<Near> {
        self.ordered.near(random)
    }

    fn compact_range(&self, range: &KeyRange) -> Result<()> {
        self.ordered.compact_range(range)
    }
}

impl Atomic for Watched {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_many(&[key], durability, &mut |_, current| decide(current)).map(|_| ())
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let atomic = crate::engine_calls::atomic(&*self.engine)?;
        self.watchers
            .now()
            .updates(keys, decide, |decide| atomic.update_many(keys, durability, decide))
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let atomic = crate::engine_calls::atomic(&*self.engine)?;
        let watchers = self.watchers.now();
        watchers.write(keys.iter().copied(), |is_active| match is_active {
            false => atomic.update_all(keys, durability, decide),
            true => atomic.update_all(keys, durability, &mut |entries| {
                let updates = decide(entries);
                let changed = keys.iter().zip(&updates).filter(|(_, u)| **u != Update::Keep);
                changed.for_each(|(key, _)| watchers.mark(key));
                updates
            }),
        })
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        let atomic = crate::engine_calls::atomic(&*self.engine)?;
        let watchers = self.watchers.now();
        let keys = ops.iter().map(|op| op.key);
        watchers.write(keys.clone(), |is_active| match is_active {
            false => atomic.write_expecting(expected, ops, durability),
            true => atomic.update_expecting(expected, ops, durability, &mut || {
                keys.clone().for_each(|key| watchers.mark(key));
            }),
        })
    }

    fn order_epoch(&self) -> Option<u64> {
        self.engine.as_atomic().and_then(Atomic::order_epoch)
    }

    fn settle(&self) {
        if let Some(atomic) = self.engine.as_atomic() {
            atomic.settle();
        }
    }
}

/// A shard whose writes are told to those who watch its keys.
struct WatchedShard {
    watchers: Arc<PlaceWatchers>,
    shard: Box<dyn Shard>,
}

impl PlaceWatchers {
    /// `shard`, with its writes told to those who watch its keys.
    pub fn wrap_shard(self: &Arc<Self>, shard: Box<dyn Shard>) -> Box<dyn Shard> {
        Box::new(WatchedShard { watchers: Arc::clone(self), shard })
    }
}

impl Shard for WatchedShard {
    fn number(&self) -> usize {
        self.shard.number()
    }

    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.shard.get_many(keys, sink)
    }

    fn write(&mut self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let WatchedShard { watchers, shard } = self;
        watchers.now().batch(batch, || shard.write(batch, durability))
    }

    fn update_many(
        &mut self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let WatchedShard { watchers, shard } = self;
        watchers.now().updates(keys, decide, |decide| shard.update_many(keys, durability, decide))
    }
}
