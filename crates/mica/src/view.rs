//! One of several databases in a cache, as an engine of its own.
//!
//! What stands before its keys in the cache: [`silica_parts::spaces`].

use crate::family::{Family, Naming, PREFIX_BYTES};
use crate::limits::at_most;
use crate::mica::Mica;
use silica_base::{HashSeed, Result};
use silica_engine::{
    Admin, Atomic, Budget, Checkpoint, Count, Descriptor, Durability, Engine, EntryRef, Expected,
    GetSink, MetricVisitor, Op, OwnEntries, Progress, Scan, Shard, Sharded, Stage, StageWatch,
    Stages, Update, WriteBatch, scan_own,
};
use std::sync::Arc;

/// A database.
pub(crate) struct View {
    mica: Arc<Mica>,
    naming: Naming,
    descriptor: Descriptor,
    _keeper: Arc<dyn Send + Sync>,
}

/// Calls `work` with the operations as they are stored.
fn with_ops<T>(naming: &Naming, ops: &[Op<'_>], work: impl FnOnce(&[Op<'_>]) -> T) -> T {
    if naming.keeps(ops.iter().map(|op| op.key)) {
        return work(ops);
    }
    let keys: Vec<&[u8]> = ops.iter().map(|op| op.key).collect();
    naming.with_keys(&keys, |stored| work(&Op::on_keys(ops, stored)))
}

impl View {
    pub(crate) fn new(
        mica: &Arc<Mica>,
        family: &Arc<Family>,
        space: usize,
        keeper: Arc<dyn Send + Sync>,
    ) -> Self {
        let mut descriptor = mica.descriptor;
        // Of space 0 for keys that begin with the mark.
        descriptor.limits.key_bytes_max -= if space == 0 { 1 } else { PREFIX_BYTES };
        let naming = Naming::new(family, space);
        View { mica: Arc::clone(mica), naming, descriptor, _keeper: keeper }
    }

    /// Refuses keys that are over the limit of the database.
    fn check<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let most = self.descriptor.limits.key_bytes_max;
        keys.try_for_each(|key| at_most(key.len(), most, "key"))
    }

    fn is_first(&self) -> bool {
        self.naming.space() == 0
    }
}

impl Engine for View {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.naming.with_keys(keys, |keys| self.mica.get_many(keys, sink))
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        stages.enter(Stage::Memory);
        self.get_many(keys, sink)
    }

    fn reports_in_order(&self) -> bool {
        true
    }

    fn write(&self, batch: &WriteBatch<'_>, _: Durability) -> Result<()> {
        let bytes_max = self.descriptor.limits.batch_bytes_max;
        self.check(batch.ops().iter().map(|op| op.key))?;
        with_ops(&self.naming, batch.ops(), |ops| self.mica.apply(ops, bytes_max))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.mica.maintain(budget)
    }

    /// The figures of all databases stand with the space that is the first database at first, so
    /// that sums over all databases are right.
    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        let entries = self.mica.entries_of(self.naming.space());
        match self.is_first() {
            true => self.mica.metrics(&mut OwnEntries { visitor, entries }),
            false => visitor.metric("entries_estimate", entries as f64),
        }
    }

    fn verify(&self) -> Result<()> {
        self.mica.verify()
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Scan for View {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        scan_own(&*self.mica, cursor, limit, |stored| self.naming.key_of(stored), visit)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        self.naming.with_key(key, |key| self.mica.cursor_of(key))
    }
}

impl Atomic for View {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.check([key].into_iter())?;
        self.naming.with_key(key, |key| self.mica.update(key, durability, decide))
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        self.check(keys.iter().copied())?;
        self.naming.with_keys(keys, |keys| self.mica.update_many(keys, durability, decide))
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.check(keys.iter().copied())?;
        self.naming.with_keys(keys, |keys| self.mica.update_all(keys, durability, decide))
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        self.check(ops.iter().map(|op| op.key))?;
        let keys = expected.iter().map(|expected| expected.key);
        if self.naming.keeps(keys.clone()) {
            let write = |ops: &[Op<'_>]| self.mica.write_expecting(expected, ops, durability);
            return with_ops(&self.naming, ops, write);
        }
        let keys: Vec<&[u8]> = keys.collect();
        self.naming.with_keys(&keys, |keys| {
            let entries = expected.iter().map(|expected| expected.entry);
            let pairs = keys.iter().zip(entries);
            let expected: Vec<_> = pairs.map(|(key, entry)| Expected { key, entry }).collect();
            let write = |ops: &[Op<'_>]| self.mica.write_expecting(&expected, ops, durability);
            with_ops(&self.naming, ops, write)
        })
    }

    fn order_epoch(&self) -> Option<u64> {
        self.mica.order_epoch()
    }
}

impl Admin for View {
    fn count(&self, exact: bool) -> Result<Count> {
        if exact {
            let mut entries = 0;
            self.scan(0, usize::MAX, &mut |_, _| entries += 1)?;
            return Ok(Count { low: entries, estimate: entries, high: entries });
        }
        let entries = self.mica.entries_of(self.naming.space());
        Ok(Count { low: 0, estimate: entries, high: entries })
    }

    fn clear(&self) -> Result<()> {
        self.mica.clear_space(self.naming.family(), self.naming.space())
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        self.mica.checkpoint(target)
    }

    /// All databases are closed with the first space.
    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        if self.is_first() { self.mica.close(progress) } else { Ok(()) }
    }

    /// All databases are saved with the first space.
    fn save(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        if self.is_first() { self.mica.save(progress) } else { Ok(self.mica.home.is_some()) }
    }

    fn inspect(&self) -> Result<String> {
        self.mica.inspect()
    }
}

impl Sharded for View {
    fn shards(&self) -> usize {
        self.mica.shards()
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        self.naming.with_key(key, |key| self.mica.shard_of(key))
    }

    fn shards_of(&self, keys: &[&[u8]], each: &mut dyn FnMut(usize, usize)) {
        self.naming.with_keys(keys, |keys| self.mica.shards_of(keys, each));
    }

    /// Only of the first space, and there keys that begin with 0xFF are elsewhere: who sends these
    /// by the seed finds another partition's owner, who hands them on.
    fn seed(&self) -> Option<HashSeed> {
        if self.is_first() { self.mica.seed() } else { None }
    }

    /// A partition is the same one for all databases: who has it for one has to give that up before
    /// taking it for another.
    fn take(&self, number: usize) -> Result<Box<dyn Shard>> {
        let shard = self.mica.take(number)?;
        Ok(Box::new(ViewShard { naming: self.naming.clone(), shard }))
    }
}

/// A partition, as the owner uses it for one database.
struct ViewShard {
    naming: Naming,
    shard: Box<dyn Shard>,
}

impl Shard for ViewShard {
    fn number(&self) -> usize {
        self.shard.number()
    }

    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let ViewShard { naming, shard } = self;
        naming.with_keys(keys, |keys| shard.get_many(keys, sink))
    }

    fn write(&mut self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let ViewShard { naming, shard } = self;
        if naming.keeps(batch.ops().iter().map(|op| op.key)) {
            return shard.write(batch, durability);
        }
        with_ops(naming, batch.ops(), |ops| {
            let mut stored = WriteBatch::new();
            for op in ops {
                stored.push(*op);
            }
            shard.write(&stored, durability)
        })
    }

    fn update_many(
        &mut self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let ViewShard { naming, shard } = self;
        naming.with_keys(keys, |keys| shard.update_many(keys, durability, decide))
    }
}
