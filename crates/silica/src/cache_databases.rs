//! A cache in memory whose numbered databases share the memory.

use crate::scheduler::{PAUSE_MAX_OF_CACHES, Scheduler};
use silica_engine::{Engine, Result};
use silica_mica::{DATABASES_MAX, MicaDatabases};
use std::sync::Arc;

/// Databases of a cache, numbered from 0 on. None of them has a part of the memory of its own: what
/// was not used for the longest time goes, whose it may be.
///
/// ```
/// use silica::{Durability, EngineExt, OpenOptions};
///
/// let all = OpenOptions::new().memory_bytes(16 << 20).open_cache_databases()?;
/// let (first, second) = (all.database(0)?, all.database(1)?);
/// first.put(b"key", b"of the first", Durability::Buffered)?;
/// assert_eq!(second.get(b"key")?, None);
/// all.swap(0, 1)?;
/// assert_eq!(all.database(1)?.get(b"key")?.as_deref(), Some(&b"of the first"[..]));
/// # Ok::<(), silica::Error>(())
/// ```
#[derive(Clone)]
pub struct CacheDatabases {
    all: MicaDatabases,
    /// Stops when nobody has a database any more.
    sweeper: Arc<Sweeper>,
}

/// The thread that removes what has expired, if there is one.
struct Sweeper(Option<Scheduler>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        // When this returns the engine goes, and what it had locked with it.
        self.0.iter().for_each(|scheduler| scheduler.stop());
    }
}

impl CacheDatabases {
    /// Databases that there are.
    pub const COUNT: usize = DATABASES_MAX;

    pub(crate) fn new(all: MicaDatabases, threads: usize, bytes_per_second: u64) -> Self {
        let start = || {
            let scheduler = Scheduler::start(1, bytes_per_second, PAUSE_MAX_OF_CACHES);
            scheduler.add("cache", all.whole());
            scheduler
        };
        let sweeper = Arc::new(Sweeper((threads > 0).then(start)));
        CacheDatabases { all, sweeper }
    }

    /// Database `number`, for as long as it is wanted. Saving or closing one does so with all.
    ///
    /// # Errors
    /// `Config` if the number is [`CacheDatabases::COUNT`] or more.
    pub fn database(&self, number: usize) -> Result<Arc<dyn Engine>> {
        self.all.database(number, Arc::clone(&self.sweeper) as Arc<dyn Send + Sync>)
    }

    /// Swaps two databases for who asks for them from now on; an image keeps which is which. O(1).
    ///
    /// # Errors
    /// `Config` if a number is [`CacheDatabases::COUNT`] or more.
    pub fn swap(&self, one: usize, other: usize) -> Result<()> {
        self.all.swap(one, other)
    }
}

impl std::fmt::Debug for CacheDatabases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CacheDatabases({})", self.sweeper.0.is_some())
    }
}
