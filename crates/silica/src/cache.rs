//! A cache in memory, without a directory.

use crate::OpenOptions;
use crate::expiry::entry_for;
use crate::expiry::{self, TimeToLive};
use silica_engine::{
    Admin, Atomic, Count, Durability, Engine, EngineExt, EntryRef, Error, ErrorKind, MetricsMap,
    Result, Scan, Update, WriteBatch,
};
use std::sync::Arc;
use std::time::Duration;

/// Entries that [`Cache::keys`] fetches at a time.
const SCAN_ENTRIES: usize = 256;

/// A cache in memory: full, it drops entries, and nothing outlives the process but an
/// [image](OpenOptions::image). Cheap to clone; all clones are the same cache. Any number of
/// threads may use it at the same time.
///
/// ```
/// use silica::Cache;
/// use std::time::Duration;
///
/// let cache = Cache::new(16 << 20)?;
/// cache.put("ann", "blue")?;
/// cache.put_with_ttl("bob", "red", Duration::from_secs(60))?;
/// assert_eq!(cache.get("ann")?.as_deref(), Some(&b"blue"[..]));
/// assert!(cache.ttl("bob")?.is_some());
/// cache.delete("ann")?;
/// assert_eq!(cache.get("ann")?, None);
/// # Ok::<(), silica::Error>(())
/// ```
#[derive(Clone)]
pub struct Cache {
    engine: Arc<dyn Engine>,
}

impl Cache {
    /// A cache of `bytes` of memory, all of it.
    ///
    /// # Errors
    /// As [`OpenOptions::open_cache`].
    pub fn new(bytes: u64) -> Result<Self> {
        Self::open(OpenOptions::new().memory_bytes(bytes))
    }

    /// A cache with `options`, as [`OpenOptions::open_cache`] takes them.
    ///
    /// # Errors
    /// As [`OpenOptions::open_cache`].
    pub fn open(options: OpenOptions) -> Result<Self> {
        Ok(Cache { engine: options.open_cache()? })
    }

    /// The engine itself, for bursts with borrowed values and for capability views.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    fn admin(&self) -> Result<&dyn Admin> {
        self.engine.as_admin().ok_or_else(|| lacks("count, clear or be saved"))
    }

    fn scanner(&self) -> Result<&dyn Scan> {
        self.engine.as_scan().ok_or_else(|| lacks("iterate"))
    }

    fn atomic(&self) -> Result<&dyn Atomic> {
        self.engine.as_atomic().ok_or_else(|| lacks("update atomically"))
    }

    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.engine.get(key.as_ref())
    }

    /// Calls `read` with the entry of `key`, borrowed. `read` is to be short, and to call no cache.
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        self.engine.get_with(key.as_ref(), read)
    }

    /// The values of all `keys`, in their order, looked up as one burst.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.engine.get_all(&keys)
    }

    /// Maps `key` to `value`.
    ///
    /// # Errors
    /// `TooLarge` if the entry is larger than the cache takes; `Full` if it may not drop entries
    /// (`eviction=none`) and has no room.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.engine.put(key.as_ref(), value.as_ref(), Durability::Buffered)
    }

    /// Maps `key` to `value` for `ttl`. A later [`put`](Cache::put) ends the time to live.
    ///
    /// # Errors
    /// As [`put`](Cache::put), and `Config` if `ttl` is zero or longer than 292 million years.
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let entry = entry_for(value.as_ref(), ttl)?;
        let mut batch = WriteBatch::new();
        batch.put_entry(key.as_ref(), entry);
        self.write(&batch)
    }

    /// Removes `key`; a missing one is not an error.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.engine.delete(key.as_ref(), Durability::Buffered)
    }

    /// Applies `batch` atomically.
    pub fn write(&self, batch: &WriteBatch<'_>) -> Result<()> {
        self.engine.write(batch, Durability::Buffered)
    }

    /// As [`Keyspace::update`](crate::Keyspace::update).
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.atomic()?.update(key.as_ref(), Durability::Buffered, &mut decide)
    }

    /// How long `key` lives from now on; `None` if it is not there.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<TimeToLive>> {
        expiry::ttl_of(&*self.engine, key.as_ref())
    }

    /// As [`Keyspace::expire`](crate::Keyspace::expire).
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        expiry::expire_by(ttl, |decide| self.update(key, decide))
    }

    /// As [`Keyspace::persist`](crate::Keyspace::persist).
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        expiry::persist_by(|decide| self.update(key, decide))
    }

    /// All keys, in no order. One that is there during the whole walk is met at least once.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>> {
        let (scan, mut keys, mut cursor) = (self.scanner()?, Vec::new(), Some(0));
        while let Some(from) = cursor {
            cursor = scan.scan(from, SCAN_ENTRIES, &mut |key, _| keys.push(key.to_vec()))?;
        }
        Ok(keys)
    }

    /// The number of entries; an estimate with bounds unless `exact`, which walks the cache.
    pub fn count(&self, exact: bool) -> Result<Count> {
        self.admin()?.count(exact)
    }

    /// Removes every entry.
    pub fn clear(&self) -> Result<()> {
        self.admin()?.clear()
    }

    /// All metrics.
    pub fn metrics(&self) -> MetricsMap {
        let mut metrics = MetricsMap::default();
        self.engine.metrics(&mut metrics);
        metrics
    }

    /// Leaves the [image](OpenOptions::image), if there is to be one. Every handle refuses calls
    /// from then on.
    pub fn close(self) -> Result<()> {
        self.admin()?.close(&mut |_, _| {})
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.engine.descriptor().name)
    }
}

fn lacks(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the cache's engine cannot {what}"))
}
