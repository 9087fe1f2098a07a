//! A keyspace: one engine and the convenient way to it.

use crate::migrate::Switch;
use crate::scheduler::Scheduler;
use crate::sketch;
use silica_base::SystemClock;
use silica_engine::{
    Admin, Budget, Count, Durability, Engine, EngineExt, EntryRef, Error, ErrorKind, GetSink,
    MetricsMap, Result, Scan, Stage, StageTimes, Stages, Update, WriteBatch,
};
use silica_tune::Workload;
use silica_tune::sketch::Totals;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries that an iterator fetches at a time.
const ITER_ENTRIES: usize = 256;
/// Work of one step of [`Keyspace::settle`].
const SETTLE_BYTES: u64 = 16 << 20;

/// What a store hands to a keyspace when it opens it.
pub(crate) struct Opened {
    /// The store's directory.
    pub(crate) root: PathBuf,
    pub(crate) name: String,
    pub(crate) directory: String,
    pub(crate) switch: Arc<Switch>,
    pub(crate) own_memory: bool,
    /// Memory of the whole store.
    pub(crate) memory_bytes: u64,
    pub(crate) durability: Option<Durability>,
    pub(crate) scheduler: Arc<Scheduler>,
}

/// Apart from the number of handles to it, which those write who clone one.
#[repr(align(128))]
struct Inner {
    opened: Opened,
    /// The opened engine, as everybody knows it.
    engine: Arc<dyn Engine>,
    /// Directory, and whether it has memory of its own: a migration changes them.
    place: Mutex<(String, bool)>,
    closed: AtomicBool,
    /// What its sketch had seen when it was opened.
    seen_before: Totals,
}

/// A named set of keys in a store. Cheap to clone; all clones are the same keyspace.
#[derive(Clone)]
pub struct Keyspace {
    inner: Arc<Inner>,
}

impl Keyspace {
    pub(crate) fn new(opened: Opened) -> Self {
        let engine: Arc<dyn Engine> = Arc::clone(&opened.switch) as _;
        let place = Mutex::new((opened.directory.clone(), opened.own_memory));
        let closed = AtomicBool::new(false);
        let seen_before = opened.switch.live().totals();
        Keyspace { inner: Arc::new(Inner { opened, engine, place, closed, seen_before }) }
    }

    /// True if `other` is the same keyspace of the same store.
    #[cfg(feature = "async")]
    pub(crate) fn is(&self, other: &Keyspace) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    #[inline]
    pub(crate) fn switch(&self) -> &Arc<Switch> {
        &self.inner.opened.switch
    }

    fn place(&self) -> MutexGuard<'_, (String, bool)> {
        self.inner.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is asked of the keyspace, as a sample of its calls shows: the mix of operations, sizes,
    /// the popularity of keys, the working set. The sketch is kept beside the keyspace and goes on
    /// after a restart. What it costs, `crates/silica/examples/sketch.rs` measures.
    ///
    /// Calls through partitions that threads own ([`Engine::as_sharded`]) and reads of snapshots
    /// are not seen.
    ///
    /// # Errors
    /// `Config` where too little was asked yet; `Unsupported` where the engine cannot count.
    pub fn workload(&self) -> Result<Workload> {
        let keys = self.count(false)?.estimate;
        let mut workload = self.switch().live().workload(keys)?;
        workload.memory_bytes = self.inner.opened.memory_bytes.max(1);
        Ok(workload)
    }

    /// What the sketch saw of the workload since the keyspace was opened.
    pub(crate) fn asked_since_opened(&self) -> Totals {
        self.switch().live().totals().minus(self.inner.seen_before)
    }

    /// Goes on with the sketch of the workload, as it does from the start, or rests it.
    pub fn sketch_workload(&self, on: bool) {
        self.switch().live().switch(on);
    }

    /// Another engine has taken over, in `directory`.
    pub(crate) fn move_to(&self, directory: String, own_memory: bool) {
        self.switch().live().move_to(sketch::file_of(self.root(), &directory));
        *self.place() = (directory, own_memory);
    }

    /// Refuses every later call.
    pub(crate) fn shut(&self) {
        self.inner.closed.store(true, Ordering::Release);
    }

    pub(crate) fn own_memory(&self) -> bool {
        self.place().1
    }

    pub(crate) fn root(&self) -> &Path {
        &self.inner.opened.root
    }

    pub(crate) fn directory(&self) -> String {
        self.place().0.clone()
    }

    /// Where calls go. Its type is known here, so that a call is passed on once, to the engine.
    #[inline]
    pub(crate) fn live(&self) -> Result<&Switch> {
        if self.inner.closed.load(Ordering::Acquire) {
            Err(self.is_closed())
        } else {
            Ok(self.switch())
        }
    }

    #[cold]
    fn is_closed(&self) -> Error {
        let message = format!("keyspace '{}' is closed or dropped; open it again", self.name());
        Error::new(ErrorKind::Closed, message)
    }

    /// Refuses where the keyspace is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.live().map(drop)
    }

    /// What writes survive where a call does not say: what the store was opened for.
    pub fn durability(&self) -> Durability {
        let usual = || self.switch().descriptor().capabilities.usual_durability();
        self.inner.opened.durability.unwrap_or_else(usual)
    }

    /// Tells the background threads that something was written.
    pub(crate) fn wake(&self) {
        self.inner.opened.scheduler.wake();
    }

    fn lacks(&self, what: &str) -> Error {
        let engine = self.engine().descriptor().name;
        let message = format!(
            "engine {engine} of keyspace '{}' cannot {what}; create a keyspace with an engine \
             that can",
            self.name()
        );
        Error::new(ErrorKind::Unsupported, message)
    }

    pub(crate) fn admin(&self) -> Result<&dyn Admin> {
        self.live()?.as_admin().ok_or_else(|| self.lacks("count, clear or be backed up"))
    }

    fn scanner(&self) -> Result<&dyn Scan> {
        self.live()?.as_scan().ok_or_else(|| self.lacks("iterate"))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.opened.name
    }

    /// The engine itself, for bursts with borrowed values and for capability views.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.inner.engine
    }

    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.live()?.get(key.as_ref())
    }

    /// Calls `read` with the entry of `key`, borrowed: nothing is copied. `read` is to be short,
    /// and to call no keyspace.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("silica-doc-with-{}", std::process::id()));
    /// # let store = silica::open(&path)?;
    /// let keyspace = store.keyspace("k")?;
    /// keyspace.put("key", "value")?;
    /// let bytes = keyspace.get_with("key", |entry| entry.map_or(0, |entry| entry.value.len()))?;
    /// assert_eq!(bytes, 5);
    /// # drop((keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        self.live()?.get_with(key.as_ref(), read)
    }

    /// As [`Keyspace::get_with`], as far as memory has the answer: `None` if the device would have
    /// to be asked, and nothing is waited for. For threads that may not wait.
    ///
    /// ```
    /// # let name = format!("silica-doc-at-hand-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::open(&path)?;
    /// let keyspace = store.keyspace("k")?;
    /// keyspace.put("key", "value")?;
    /// let length = keyspace.get_at_hand("key", |entry| entry.map(|entry| entry.value.len()))?;
    /// assert_eq!(length, Some(Some(5)), "what was just written is in memory");
    /// # drop((keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn get_at_hand<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<Option<T>> {
        struct Found<F>(F);
        impl<F: FnMut(EntryRef<'_>)> GetSink for Found<F> {
            fn found(&mut self, _: usize, entry: EntryRef<'_>) {
                (self.0)(entry);
            }
        }
        let (mut read, mut answer, mut left) = (Some(read), None, Vec::new());
        let found = |entry: EntryRef<'_>| answer = read.take().map(|read| read(Some(entry)));
        self.live()?.get_many_at_hand(&[key.as_ref()], &mut Found(found), &mut left)?;
        if !left.is_empty() {
            return Ok(None);
        }
        Ok(answer.or_else(|| read.take().map(|read| read(None))))
    }

    /// The value of `key`, and where finding it spent its time. It is a get like any other, but
    /// that it looks at the clock some ten times.
    pub fn get_staged(&self, key: impl AsRef<[u8]>) -> Result<(Option<Vec<u8>>, StageTimes)> {
        struct Taken(Option<Vec<u8>>);
        impl GetSink for Taken {
            fn found(&mut self, _: usize, entry: EntryRef<'_>) {
                self.0 = Some(entry.value.to_vec());
            }
        }
        let engine = self.live()?;
        let (clock, mut value) = (SystemClock::default(), Taken(None));
        let mut stages = Stages::start(&clock, Stage::Other);
        engine.get_many_staged(&[key.as_ref()], &mut value, &mut stages)?;
        let times = stages.stop();
        Ok((value.0, times))
    }

    /// The values of all `keys`, in their order, looked up as one burst.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.live()?.get_all(&keys)
    }

    /// Maps `key` to `value`, as durable as the store was opened for.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key.as_ref(), value.as_ref());
        self.write(&batch)
    }

    /// Removes `key`; a missing one is not an error.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key.as_ref());
        self.write(&batch)
    }

    /// Applies `batch` atomically, as durable as the store was opened for.
    pub fn write(&self, batch: &WriteBatch<'_>) -> Result<()> {
        self.write_with(batch, self.durability())
    }

    /// Applies `batch` atomically, as durable as asked.
    pub fn write_with(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.live()?.write(batch, durability)?;
        self.wake();
        Ok(())
    }

    /// Calls `decide` with the entry of `key` and applies what it returns, as one step with
    /// respect to every other write. `decide` may be called several times.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("silica-doc-update-{}", std::process::id()));
    /// # let store = silica::open(&path)?;
    /// use silica::Update;
    ///
    /// let counters = store.keyspace("counters")?;
    /// for _ in 0..3 {
    ///     counters.update("visits", |old| {
    ///         let old = old.map_or(0, |e| u64::from_le_bytes(e.value.try_into().unwrap()));
    ///         Update::put((old + 1).to_le_bytes().to_vec())
    ///     })?;
    /// }
    /// assert_eq!(counters.get("visits")?, Some(3u64.to_le_bytes().to_vec()));
    /// # drop((counters, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        let atomic = self.live()?.as_atomic().ok_or_else(|| self.lacks("update atomically"))?;
        atomic.update(key.as_ref(), self.durability(), &mut decide)?;
        self.wake();
        Ok(())
    }

    /// All keys and values, in the engine's own order (hash order for hashed engines).
    pub fn iter(&self) -> Iter {
        self.iter_from(0)
    }

    /// Goes on where an earlier iteration (even of an earlier process) stood.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("silica-doc-iter-{}", std::process::id()));
    /// # let store = silica::open(&path)?;
    /// # let keyspace = store.keyspace("k")?;
    /// # (0..1000).try_for_each(|i| keyspace.put(format!("{i}"), "v"))?;
    /// let mut first = keyspace.iter();
    /// let some = first.by_ref().take(256).count();
    /// let cursor = first.cursor().expect("there are more than 256 entries");
    /// assert_eq!(some + keyspace.iter_from(cursor).count(), 1000);
    /// # drop((first, keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn iter_from(&self, cursor: u64) -> Iter {
        Iter {
            keyspace: self.clone(),
            batch: Vec::new().into_iter(),
            batch_cursor: Some(cursor),
            next_cursor: Some(cursor),
        }
    }

    /// The number of entries; an estimate with bounds unless `exact`, which may walk the store.
    pub fn count(&self, exact: bool) -> Result<Count> {
        self.admin()?.count(exact)
    }

    /// Removes every entry, durably and atomically.
    pub fn clear(&self) -> Result<()> {
        self.admin()?.clear()
    }

    /// Walks everything and checks every invariant; the error names what is wrong and where.
    pub fn verify(&self) -> Result<()> {
        self.live()?.verify()
    }

    /// Makes every write that returned before the call survive a power cut.
    pub fn sync(&self) -> Result<()> {
        self.live()?.sync()
    }

    /// Makes every write that returned before the call survive the process: a [`Keyspace::sync`]
    /// where the engine is durable. One in memory that leaves an image at a clean close (`mica`
    /// with `warm_restart=on`) leaves it now, while writes wait; after a crash it is what it was
    /// then. False where the engine keeps nothing.
    pub fn save(&self) -> Result<bool> {
        let capabilities = self.engine().descriptor().capabilities;
        if capabilities.durable && !capabilities.synced {
            return Ok(true);
        }
        if capabilities.durable {
            return self.sync().map(|()| true);
        }
        self.admin()?.save(&mut |_, _| {})
    }

    /// True where a clean close leaves everything for the next opening. It does not of an engine
    /// in memory without an image: what such a keyspace holds goes with the process.
    pub fn is_kept_at_close(&self) -> bool {
        self.engine().descriptor().capabilities.kept_at_close
    }

    /// All metrics.
    pub fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = MetricsMap::default();
        self.live()?.metrics(&mut metrics);
        Ok(metrics)
    }

    /// Files and structures, for people, as lines of `name: value`.
    pub fn inspect(&self) -> Result<String> {
        self.admin()?.inspect()
    }

    /// Does background work until none is left.
    pub fn settle(&self) -> Result<()> {
        while self.live()?.maintain(Budget::of(SETTLE_BYTES))?.more {}
        Ok(())
    }
}

impl IntoIterator for &Keyspace {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({:?}, {})", self.name(), self.engine().descriptor().name)
    }
}

/// Keys and values of a keyspace, fetched in batches.
///
/// A key that is there during the whole iteration is met at least once; one that is rewritten
/// meanwhile may be met twice, and one that comes or goes meanwhile may be met or not.
pub struct Iter {
    keyspace: Keyspace,
    batch: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    /// Where the batch in hand began.
    batch_cursor: Option<u64>,
    /// Where the next batch begins; `None` after the last.
    next_cursor: Option<u64>,
}

impl Iter {
    /// Where to go on later with [`Keyspace::iter_from`], or `None` at the end. Entries of the
    /// batch in hand are met again.
    pub fn cursor(&self) -> Option<u64> {
        if self.batch.len() == 0 { self.next_cursor } else { self.batch_cursor }
    }

    fn fetch(&mut self, cursor: u64) -> Result<()> {
        let mut entries = Vec::with_capacity(ITER_ENTRIES);
        let scan = self.keyspace.scanner()?;
        let next = scan.scan(cursor, ITER_ENTRIES, &mut |key, entry| {
            entries.push((key.to_vec(), entry.value.to_vec()));
        })?;
        self.batch_cursor = Some(cursor);
        self.next_cursor = next;
        self.batch = entries.into_iter();
        Ok(())
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.batch.next() {
                return Some(Ok(entry));
            }
            let cursor = self.next_cursor?;
            if let Err(e) = self.fetch(cursor) {
                self.next_cursor = None;
                return Some(Err(e));
            }
        }
    }
}
