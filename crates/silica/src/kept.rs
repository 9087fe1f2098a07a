//! A cache without a directory, and the thread that looks after it.

use crate::scheduler::{PAUSE_MAX, PAUSE_MAX_OF_CACHES, Scheduler};
use silica_engine::{Engine, Layer};
use std::sync::Arc;
use std::time::Duration;

/// An engine that is maintained for as long as this lives.
pub(crate) struct Kept<E> {
    engine: Arc<E>,
    scheduler: Scheduler,
}

impl<E: Engine + 'static> Kept<E> {
    /// One in memory.
    pub(crate) fn new(engine: E, bytes_per_second: u64) -> Self {
        Self::with_pause(engine, bytes_per_second, PAUSE_MAX_OF_CACHES)
    }

    /// One with slabs on their way to flash, for which writers wait.
    pub(crate) fn new_on_flash(engine: E, bytes_per_second: u64) -> Self {
        Self::with_pause(engine, bytes_per_second, PAUSE_MAX)
    }

    fn with_pause(engine: E, bytes_per_second: u64, pause_max: Duration) -> Self {
        let engine = Arc::new(engine);
        let scheduler = Scheduler::start(1, bytes_per_second, pause_max);
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

impl<E: Engine> Layer for Kept<E> {
    type Inner = E;

    fn inner(&self) -> &Arc<E> {
        &self.engine
    }
}
