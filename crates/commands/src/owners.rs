//! Threads that own the partitions of databases, as far as databases need them.

use crate::watch::PlaceWatchers;
use silica::engine::Engine;
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

    /// Does what others ask of the calling thread, if it is an owner; false if that was nothing.
    fn serve(&self) -> bool;
}
