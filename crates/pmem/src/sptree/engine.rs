//! The engine as others know it.

use super::admin::{checkpoint, clear, close, count, inspect};
use super::metrics::report;
use super::options::Config;
use super::ordered::scan;
use super::read::read_many;
use super::tree::SpTree;
use super::upkeep::{maintain, verify};
use super::write::{prefetch_leaves, seen, write_if};
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::optimistic::{Conditions, Optimistic, Seen};
use silica_engine::{
    Admin, Atomic, Budget, Checkpoint, Count, Descriptor, Durability, Engine, EntryRef, GetSink,
    MetricVisitor, Ordered, Progress, Scan, WriteBatch,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Writes of a burst whose leaves are asked for together.
const WRITTEN_TOGETHER: usize = 16;

impl<R: Region> Engine for SpTree<R> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        read_many(self, keys, sink)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.check_writable(durability)?;
        if batch.is_empty() {
            return Ok(());
        }
        write_if(self, batch, Conditions::NONE).map(|_| ())
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.check_writable(durability)?;
        let mut one = WriteBatch::new();
        for ops in batch.ops().chunks(WRITTEN_TOGETHER) {
            prefetch_leaves(self, ops);
            for op in ops {
                one.clear();
                one.push(*op);
                write_if(self, &one, Conditions::NONE)?;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // Every write is fenced before it returns.
        self.check_synced()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        maintain(self, budget)
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        report(self, visitor);
    }

    fn verify(&self) -> Result<()> {
        verify(self)
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl<R: Region> Optimistic for SpTree<R> {
    fn seen(&self, key: &[u8]) -> Seen {
        seen(self, key)
    }

    fn write_if(
        &self,
        batch: &WriteBatch<'_>,
        conditions: Conditions<'_>,
        durability: Durability,
    ) -> Result<bool> {
        self.check_writable(durability)?;
        write_if(self, batch, conditions)
    }

    /// A batch of several keys has the gate to itself until all of it is visible.
    fn settle(&self) {
        drop(self.gate.read());
    }

    fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn count_superseded(&self, puts: u64, deletes: u64) {
        let mine = self.counts.mine();
        mine.add(|counts| &counts.puts, puts);
        mine.add(|counts| &counts.deletes, deletes);
    }
}

impl<R: Region> Scan for SpTree<R> {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        scan(self, cursor, limit, visit)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        super::ordered::cursor_of(key)
    }
}

impl<R: Region> Admin for SpTree<R> {
    fn count(&self, exact: bool) -> Result<Count> {
        count(self, exact)
    }

    fn clear(&self) -> Result<()> {
        self.check_writable(Durability::Buffered)?;
        clear(self)
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        checkpoint(self, target)
    }

    fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
        self.space.set_limit(Config::region_bytes(bytes));
        self.log.set_limit(Config::region_bytes(bytes));
        self.share_memory();
    }

    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        close(self, progress)
    }

    fn inspect(&self) -> Result<String> {
        Ok(inspect(self))
    }
}
