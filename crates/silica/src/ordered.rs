//! Keyspaces whose keys are in order: ranges, snapshots, iterators.
//!
//! What is handed out here keeps its keyspace's engine, and of a snapshot what it needs, for as
//! long as it lives; after the store was closed its calls fail.

mod bounds;
mod iterator;
#[cfg(test)]
mod tests;

pub use bounds::Bounds;
pub use iterator::{Range, RangeIterator};

use crate::Keyspace;
use silica_engine::{
    Changes, EntryIter, EntryRef, Error, ErrorKind, GetSink, IterateOptions, KeyRange, Ordered,
    RangeSize, Result, Snapshot as EngineSnapshot, SnapshotExt,
};
use std::sync::Arc;

impl Keyspace {
    /// The view of an engine that keeps an order.
    pub(crate) fn ordered(&self) -> Result<Arc<dyn Ordered>> {
        self.check_open()?;
        Arc::clone(self.engine()).as_ordered().ok_or_else(|| {
            let message = format!(
                "engine '{}' of keyspace '{}' keeps no order; create the keyspace with engine \
                 'wip'",
                self.engine().descriptor().name,
                self.name()
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// The keyspace as it is now, for as long as the snapshot is kept.
    ///
    /// ```
    /// # let name = format!("silica-doc-snapshot-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip").open(&path)?;
    /// let users = store.keyspace("users")?;
    /// users.put("ann", "blue")?;
    /// let before = users.snapshot()?;
    /// users.put("ann", "green")?;
    /// users.put("bob", "red")?;
    /// assert_eq!(before.get("ann")?, Some(b"blue".to_vec()));
    /// assert_eq!(before.range(..)?.count(), 1);
    /// # drop((before, users, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` where the engine keeps no order, as of every call below.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot { inner: self.ordered()?.snapshot()?, keyspace: self.clone() })
    }

    /// Keys and values of a range as they are now, in order, from either end.
    ///
    /// ```
    /// # let name = format!("silica-doc-range-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip").open(&path)?;
    /// use silica::KeyRange;
    ///
    /// let keyspace = store.keyspace("k")?;
    /// for key in ["b/1", "a/2", "a/1", "c/1"] {
    ///     keyspace.put(key, "v")?;
    /// }
    /// let keys = |range: silica::Range| -> silica::Result<Vec<Vec<u8>>> {
    ///     range.map(|entry| entry.map(|(key, _)| key)).collect()
    /// };
    /// assert_eq!(keys(keyspace.range("a/2".."c")?)?, [b"a/2", b"b/1"]);
    /// assert_eq!(keys(keyspace.range(KeyRange::prefix(b"a/"))?)?, [b"a/1", b"a/2"]);
    /// let last = keyspace.range(..)?.next_back().transpose()?;
    /// assert_eq!(last, Some((b"c/1".to_vec(), b"v".to_vec())));
    /// # drop((keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn range(&self, range: impl Bounds) -> Result<Range> {
        self.snapshot()?.range(range)
    }

    /// A place among the entries of a range as they are now, which goes where it is told.
    ///
    /// ```
    /// # let name = format!("silica-doc-iterator-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip").open(&path)?;
    /// # let keyspace = store.keyspace("k")?;
    /// # ["ant", "bee", "cat"].iter().try_for_each(|key| keyspace.put(key, "v"))?;
    /// let mut iterator = keyspace.iterator(..)?;
    /// iterator.seek("b")?;
    /// assert_eq!(iterator.key(), Some(&b"bee"[..]));
    /// iterator.next()?;
    /// assert_eq!(iterator.key(), Some(&b"cat"[..]));
    /// iterator.seek_for_prev("b")?;
    /// assert_eq!(iterator.key(), Some(&b"ant"[..]));
    /// assert!(!iterator.prev()? && !iterator.valid());
    /// # drop((iterator, keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn iterator(&self, range: impl Bounds) -> Result<RangeIterator> {
        self.snapshot()?.iterator(range)
    }

    /// The stream of committed batches, for replicas and subscribers.
    ///
    /// ```
    /// # let name = format!("silica-doc-changes-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip");
    /// let store = store.set("changes_bytes_max", "1MiB").open(&path)?;
    /// let keyspace = store.keyspace("k")?;
    /// keyspace.put("before", "1")?;
    /// let changes = keyspace.changes()?;
    /// let (snapshot, point) = std::sync::Arc::clone(&changes).begin()?;
    /// keyspace.put("after", "2")?;
    /// let mut keys = Vec::new();
    /// changes.read(point, 1 << 20, &mut |_, batch| {
    ///     keys.extend(batch.ops().iter().map(|op| op.key.to_vec()));
    /// })?;
    /// assert_eq!(keys, [b"after"]);
    /// # drop((snapshot, changes, keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if the engine keeps no changes; `wip` does with `changes_bytes_max`.
    pub fn changes(&self) -> Result<Arc<dyn Changes>> {
        self.check_open()?;
        Arc::clone(self.engine()).as_changes().ok_or_else(|| {
            let message = format!(
                "keyspace '{}' keeps no changes; open it with engine 'wip' and the option \
                 changes_bytes_max",
                self.name()
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// Removes all keys of a range in one step, at the cost of one write.
    ///
    /// ```
    /// # let name = format!("silica-doc-delete-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip").open(&path)?;
    /// # let keyspace = store.keyspace("k")?;
    /// # ["2025-01", "2025-02", "2026-01"].iter().try_for_each(|key| keyspace.put(key, "v"))?;
    /// keyspace.delete_range(.."2026")?;
    /// assert_eq!(keyspace.range(..)?.count(), 1);
    /// # drop((keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn delete_range(&self, range: impl Bounds) -> Result<()> {
        self.ordered()?.delete_range(&range.key_range(), self.durability())?;
        self.wake();
        Ok(())
    }

    /// How much is in a range, as far as it is known without a read of the device.
    pub fn range_size(&self, range: impl Bounds) -> Result<RangeSize> {
        Ok(self.ordered()?.range_size(&range.key_range()))
    }

    /// Rewrites what is in a range so that only what is live takes space, and returns that space.
    pub fn compact_range(&self, range: impl Bounds) -> Result<()> {
        self.ordered()?.compact_range(&range.key_range())
    }

    /// A metric, or a line of [`Keyspace::inspect`], by its name; `None` where there is none of
    /// that name.
    ///
    /// ```
    /// # let name = format!("silica-doc-property-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::open(&path)?;
    /// # let keyspace = store.keyspace("k")?;
    /// keyspace.put("key", "value")?;
    /// assert_eq!(keyspace.get_property("puts")?.as_deref(), Some("1"));
    /// # drop((keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn get_property(&self, name: &str) -> Result<Option<String>> {
        if let Some(value) = self.metrics()?.0.get(name) {
            return Ok(Some(value.to_string()));
        }
        let text = self.inspect()?;
        let mut lines = text.lines().filter_map(|line| line.trim().split_once(": "));
        Ok(lines.find(|(found, _)| *found == name).map(|(_, value)| value.to_string()))
    }
}

/// A keyspace as it was at one moment: what expires later is there for as long as it is kept.
/// Cheap to clone; all clones are the same moment.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<dyn EngineSnapshot>,
    keyspace: Keyspace,
}

impl Snapshot {
    /// A number that grows from snapshot to snapshot, where something was written between.
    pub fn sequence(&self) -> u64 {
        self.inner.sequence()
    }

    /// The value that `key` had.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(self.get_many(&[key])?.pop().flatten())
    }

    /// The values that all `keys` had, in their order, looked up as one burst.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.keyspace.check_open()?;
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let mut values = Values(vec![None; keys.len()]);
        self.read(&keys, &mut values)?;
        Ok(values.0)
    }

    fn read(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.inner.get_many(keys, sink)
    }

    /// As [`Keyspace::range`].
    pub fn range(&self, range: impl Bounds) -> Result<Range> {
        let range = range.key_range();
        Ok(Range::new(self.at(&range)?, self.at(&range)?))
    }

    /// As [`Keyspace::iterator`].
    pub fn iterator(&self, range: impl Bounds) -> Result<RangeIterator> {
        self.at(&range.key_range())
    }

    /// As [`Snapshot::iterator`], for keys only or for reads that nobody waits for.
    ///
    /// ```
    /// # let name = format!("silica-doc-keys-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip").open(&path)?;
    /// # let keyspace = store.keyspace("k")?;
    /// # ["ant", "bee", "cat"].iter().try_for_each(|key| keyspace.put(key, "v"))?;
    /// use silica::engine::{Intent, IterateOptions};
    ///
    /// let snapshot = keyspace.snapshot()?;
    /// let keys = IterateOptions { is_of_keys: true, intent: Intent::Scan };
    /// let mut iterator = snapshot.iterator_with("b".., keys)?;
    /// assert!(iterator.seek_to_first()? && iterator.key() == Some(&b"bee"[..]));
    /// assert_eq!(snapshot.count("b"..)?, 2);
    /// # drop((iterator, snapshot, keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn iterator_with(
        &self,
        range: impl Bounds,
        options: IterateOptions,
    ) -> Result<RangeIterator> {
        self.keyspace.check_open()?;
        let inner = Arc::clone(&self.inner).iterate_with(&range.key_range(), options)?;
        Ok(RangeIterator::new(inner, self.keyspace.clone()))
    }

    /// The number of entries in a range, exactly: a walk through their keys.
    pub fn count(&self, range: impl Bounds) -> Result<u64> {
        self.keyspace.check_open()?;
        Arc::clone(&self.inner).count(&range.key_range())
    }

    /// Calls `read` with the entry that `key` had, borrowed: nothing is copied.
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        self.keyspace.check_open()?;
        self.inner.get_with(key.as_ref(), read)
    }

    fn at(&self, range: &KeyRange) -> Result<RangeIterator> {
        Ok(RangeIterator::new(self.entries(range)?, self.keyspace.clone()))
    }

    /// The engine's iterator over `range`.
    pub(crate) fn entries(&self, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        self.keyspace.check_open()?;
        Arc::clone(&self.inner).iterate(range)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({:?}, {})", self.keyspace.name(), self.sequence())
    }
}

struct Values(Vec<Option<Vec<u8>>>);

impl GetSink for Values {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.value.to_vec());
    }
}
