//! A cache without a directory, and the thread that looks after it.

use crate::scheduler::{PAUSE_MAX_OF_CACHES, Scheduler};
use silica_engine::{
    Admin, Atomic, Budget, Descriptor, Durability, Engine, GetSink, MetricVisitor, Progress,
    Result, Scan, Sharded, WriteBatch,
};
use std::sync::Arc;

/// An engine that is maintained for as long as this lives.
pub(crate) struct Kept<E> {
    engine: Arc<E>,
    scheduler: Scheduler,
}

impl<E: Engine + 'static> Kept<E> {
    pub(crate) fn new(engine: E, bytes_per_second: u64) -> Self {
        let engine = Arc::new(engine);
        let scheduler = Scheduler::start(1, bytes_per_second, PAUSE_MAX_OF_CACHES);
        scheduler.add("cache", Arc::clone(&engine) as Arc<dyn Engine>);
        Kept { engine, scheduler }
    }
}

impl<E> Drop for Kept<E> {
    fn drop(&mut self) {
        // When this returns the engine goes, and what it had locked with it.
        self.scheduler.stop();
    }
}

impl<E: Engine> Engine for Kept<E> {
    fn descriptor(&self) -> &Descriptor {
        self.engine.descriptor()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.engine.get_many(keys, sink)
    }

    fn reports_in_order(&self) -> bool {
        self.engine.reports_in_order()
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.engine.write(batch, durability)
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.engine.write_each(batch, durability)
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.engine.maintain(budget)
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.engine.metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        self.engine.verify()
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        self.engine.as_scan()
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        self.engine.as_atomic()
    }

    fn as_sharded(&self) -> Option<&dyn Sharded> {
        self.engine.as_sharded()
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        self.engine.as_admin()
    }
}
