//! Threads that own the partitions of databases, as far as commands need them.

use crate::exec::Change;
use crate::table::{BurstLimits, Judged};
use crate::watch::PlaceWatchers;
use silica::engine::{Engine, Sharded};
use std::sync::Arc;

/// Threads each of which alone changes some partitions of each database.
pub trait Owners: Send + Sync {
    /// The engine in place `place`, whose keys `watchers` watch, with its partitions in the hands
    /// of their owners; `engine` itself if it has no partitions that threads can own.
    fn wrap(
        self: Arc<Self>,
        place: usize,
        engine: Arc<dyn Engine>,
        watchers: &Arc<PlaceWatchers>,
    ) -> Arc<dyn Engine>;

    /// Makes `changes` in the database in place `place`, each by the owner of its key; the answers,
    /// and what was done. Does nothing and returns `None` if the calling thread is no owner.
    fn update(
        &self,
        place: usize,
        sharded: &dyn Sharded,
        changes: &[Change<'_>],
        burst_limits: &BurstLimits,
    ) -> Option<Vec<Judged>>;

    /// Does what others ask of the calling thread, if it is an owner; false if that was nothing.
    fn serve(&self) -> bool;
}
