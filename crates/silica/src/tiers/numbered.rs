//! One of several databases in a cache with flash behind it, as an engine of its own.

use super::databases::All;
use silica_engine::{
    Admin, Atomic, Checkpoint, Count, Descriptor, Durability, Engine, EntryRef, Expected, GetSink,
    Intent, Layer, MetricVisitor, Op, OwnEntries, Result, Scan, Sharded, Stages, Update,
    WriteBatch, scan_own,
};
use silica_parts::spaces::{Naming, PREFIX_BYTES};
use std::sync::Arc;

/// A database.
pub(super) struct Numbered {
    all: Arc<All>,
    naming: Naming,
    descriptor: Descriptor,
}

impl Numbered {
    /// The database of `all` whose keys `naming` says.
    pub(super) fn new(all: &Arc<All>, naming: Naming) -> Self {
        let mut descriptor = *all.engine.descriptor();
        descriptor.limits.key_bytes_max -= PREFIX_BYTES;
        Numbered { all: Arc::clone(all), naming, descriptor }
    }

    /// Calls `work` with the operations as they are stored.
    fn with_ops<T>(&self, ops: &[Op<'_>], work: impl FnOnce(&[Op<'_>]) -> T) -> T {
        if self.naming.keeps(ops.iter().map(|op| op.key)) {
            return work(ops);
        }
        let keys: Vec<&[u8]> = ops.iter().map(|op| op.key).collect();
        self.naming.with_keys(&keys, |stored| work(&Op::on_keys(ops, stored)))
    }

    /// Calls `write` with the batch as it is stored, while nobody clears the database.
    fn writing(
        &self,
        batch: &WriteBatch<'_>,
        write: impl FnOnce(&WriteBatch<'_>) -> Result<()>,
    ) -> Result<()> {
        Op::refuse_ranges(batch.ops(), self.descriptor.name)?;
        let _writing = self.all.gate.read();
        self.all.note_written(self.naming.space())?;
        self.with_ops(batch.ops(), |ops| {
            let mut stored = WriteBatch::new();
            for op in ops {
                stored.push(*op);
            }
            write(&stored)
        })
    }

    /// True of the one that tells the figures of all, and saves all.
    fn is_first(&self) -> bool {
        self.naming.space() == 0
    }

    fn atomic(&self) -> &dyn Atomic {
        self.all.engine.as_atomic().expect("a cache of two tiers has this view")
    }

    fn scanner(&self) -> &dyn Scan {
        self.all.engine.as_scan().expect("a cache of two tiers has this view")
    }

    fn admin(&self) -> &dyn Admin {
        self.all.engine.as_admin().expect("a cache of two tiers has this view")
    }
}

impl Layer for Numbered {
    type Inner = dyn Engine;

    fn inner(&self) -> &Arc<dyn Engine> {
        &self.all.engine
    }

    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.naming.with_keys(keys, |keys| self.all.engine.get_many(keys, sink))
    }

    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        self.naming.with_keys(keys, |keys| self.all.engine.get_many_with(keys, intent, sink))
    }

    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        self.naming.with_keys(keys, |keys| self.all.engine.get_many_at_hand(keys, sink, left))
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        self.naming.with_keys(keys, |keys| self.all.engine.get_many_staged(keys, sink, stages))
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.writing(batch, |stored| self.all.engine.write(stored, durability))
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.writing(batch, |stored| self.all.engine.write_each(stored, durability))
    }

    /// The figures of all databases stand with the one that is database 0 at first, so that sums
    /// over all are right.
    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        let entries = self.all.count(self.naming.space()).map_or(0, |count| count.estimate);
        match self.is_first() {
            true => self.all.engine.metrics(&mut OwnEntries { visitor, entries }),
            false => visitor.metric("entries_estimate", entries as f64),
        }
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_sharded(&self) -> Option<&dyn Sharded> {
        None
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Scan for Numbered {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        scan_own(self.scanner(), cursor, limit, |stored| self.naming.key_of(stored), visit)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        self.naming.with_key(key, |key| self.scanner().cursor_of(key))
    }
}

impl Atomic for Numbered {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        let _writing = self.all.gate.read();
        self.all.note_written(self.naming.space())?;
        self.naming.with_key(key, |key| self.atomic().update(key, durability, decide))
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let _writing = self.all.gate.read();
        self.all.note_written(self.naming.space())?;
        self.naming.with_keys(keys, |keys| self.atomic().update_many(keys, durability, decide))
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let _writing = self.all.gate.read();
        self.all.note_written(self.naming.space())?;
        self.naming.with_keys(keys, |keys| self.atomic().update_all(keys, durability, decide))
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        let _writing = self.all.gate.read();
        self.all.note_written(self.naming.space())?;
        let keys: Vec<&[u8]> = expected.iter().map(|expected| expected.key).collect();
        self.naming.with_keys(&keys, |keys| {
            let pairs = keys.iter().zip(expected);
            let expected: Vec<_> =
                pairs.map(|(key, expected)| Expected { key, entry: expected.entry }).collect();
            let write = |ops: &[Op<'_>]| self.atomic().write_expecting(&expected, ops, durability);
            self.with_ops(ops, write)
        })
    }

    fn order_epoch(&self) -> Option<u64> {
        self.atomic().order_epoch()
    }

    fn settle(&self) {
        self.atomic().settle();
    }
}

impl Admin for Numbered {
    fn count(&self, exact: bool) -> Result<Count> {
        if !exact {
            return self.all.count(self.naming.space());
        }
        let mut entries = 0;
        self.scan(0, usize::MAX, &mut |_, _| entries += 1)?;
        Ok(Count { low: entries, estimate: entries, high: entries })
    }

    fn clear(&self) -> Result<()> {
        self.all.clear(self.naming.space())
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        self.admin().checkpoint(target)
    }

    /// Closes all databases; those that are closed later have nothing to do.
    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.admin().close(progress)
    }

    fn save(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        if self.is_first() { self.admin().save(progress) } else { Ok(true) }
    }

    fn inspect(&self) -> Result<String> {
        self.admin().inspect()
    }
}
