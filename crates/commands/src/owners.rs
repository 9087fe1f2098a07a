//! Threads that own the partitions of databases, as far as commands need them.

use crate::exec::Change;
use crate::table::{BurstLimits, Judged};
use crate::watch::Watchers;
use silica::engine::{Engine, Sharded};
use std::sync::Arc;

/// Threads each of which alone changes some partitions of each database.
pub trait Owners: Send + Sync {
    /// The engine of database `db`, whose keys `watchers` watch, with its partitions in the hands
    /// of their owners; `engine` itself if it has no partitions that threads can own.
    fn wrap(
        self: Arc<Self>,
        db: usize,
        engine: Arc<dyn Engine>,
        watchers: &Arc<Watchers>,
    ) -> Arc<dyn Engine>;

    /// Makes `changes` in database `db`, each by the owner of its key; the answers, and
    /// what was done. Does nothing
    /// and returns `None` if the calling thread is no owner.
    fn update(
        &self,
        db: usize,
        sharded: &dyn Sharded,
        changes: &[Change<'_>],
        burst_limits: &BurstLimits,
    ) -> Option<Vec<Judged>>;
}
