//! Transactions: reads of one moment and writes that happen together, or not at all where somebody
//! else was faster.

use crate::Keyspace;
use crate::ordered::{Bounds, Merged, Put, Range, RangeIterator, Snapshot, Write};
use silica_engine::{
    EntryRef, Error, ErrorKind, KeyRange, Op, OpKind, Ordered, Reads, Result, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Keyspace {
    /// Begins a transaction on an engine that keeps an order. It takes no locks: of two that touch
    /// the same keys the one that commits first wins, and the other's commit fails with
    /// [`ErrorKind::Conflict`].
    ///
    /// ```
    /// # let name = format!("silica-doc-transaction-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip").open(&path)?;
    /// use silica::ErrorKind;
    ///
    /// let accounts = store.keyspace("accounts")?;
    /// accounts.put("ann", "70")?;
    /// let mut transaction = accounts.transaction()?;
    /// let ann = transaction.get_for_update("ann")?;
    /// transaction.put("ann", "60");
    /// transaction.put("bob", "10");
    /// assert_eq!(transaction.range(..)?.count(), 2);
    ///
    /// accounts.put("ann", "0")?;
    /// assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// assert_eq!(accounts.get("bob")?, None);
    /// # assert_eq!(ann.as_deref(), Some(&b"70"[..]));
    /// # drop((accounts, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn transaction(&self) -> Result<Transaction> {
        let ordered = self.ordered()?;
        Ok(Transaction {
            snapshot: self.snapshot()?,
            ordered,
            keyspace: self.clone(),
            writes: BTreeMap::new(),
            reads: BTreeSet::new(),
            expires_unix_ms: 0,
        })
    }
}

/// Reads of the moment when it began, and writes that nobody else sees before they are committed.
/// Dropped without a commit, it has done nothing.
pub struct Transaction {
    keyspace: Keyspace,
    ordered: Arc<dyn Ordered>,
    snapshot: Snapshot,
    writes: BTreeMap<Vec<u8>, Write>,
    /// Keys that must be at the commit what they were.
    reads: BTreeSet<Vec<u8>>,
    /// When the first of their entries expires; 0 if none does.
    expires_unix_ms: u64,
}

impl Transaction {
    /// The value of `key`: what was written here, or else what there was at the beginning. Others
    /// may change it before the commit.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        match self.writes.get(key.as_ref()) {
            Some(write) => Ok(self.live(write).map(|put| put.value.clone())),
            None => self.snapshot.get(key),
        }
    }

    /// The value of `key`, as [`Transaction::get`] returns it. The commit fails if somebody else
    /// writes `key` before it, or if its entry expires.
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.reads.insert(key.to_vec());
        if let Some(write) = self.writes.get(key) {
            return Ok(self.live(write).map(|put| put.value.clone()));
        }
        let found = self.snapshot.entry(key)?;
        if let Some(expires) = found.as_ref().map(|put| put.expires_unix_ms).filter(|at| *at > 0) {
            let first = if self.expires_unix_ms == 0 { u64::MAX } else { self.expires_unix_ms };
            self.expires_unix_ms = first.min(expires);
        }
        Ok(found.map(|put| put.value))
    }

    /// What a write leaves at the moment that the transaction sees.
    fn live<'w>(&self, write: &'w Write) -> Option<&'w Put> {
        let now_ms = self.snapshot.inner().unix_ms();
        let lives = |put: &&Put| put.expires_unix_ms == 0 || put.expires_unix_ms > now_ms;
        write.as_ref().filter(lives)
    }

    /// Maps `key` to `value`; the commit fails where somebody else writes `key` before it.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_entry(key, EntryRef::new(value.as_ref()));
    }

    /// The same with meta.
    pub fn put_entry(&mut self, key: impl AsRef<[u8]>, entry: EntryRef<'_>) {
        self.writes.insert(key.as_ref().to_vec(), Some(Put::new(entry)));
    }

    /// Removes `key`; the commit fails where somebody else writes `key` before it.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.writes.insert(key.as_ref().to_vec(), None);
    }

    /// Keys and values of a range, those written here among them.
    pub fn range(&self, range: impl Bounds) -> Result<Range> {
        let range = range.key_range();
        Ok(Range::new(self.at(&range)?, self.at(&range)?))
    }

    /// As [`Keyspace::iterator`], with the entries written here so far.
    pub fn iterator(&self, range: impl Bounds) -> Result<RangeIterator> {
        self.at(&range.key_range())
    }

    fn at(&self, range: &KeyRange) -> Result<RangeIterator> {
        let within = self.writes.iter().filter(|(key, _)| range.contains(key));
        let writes = within.map(|(key, write)| (key.clone(), self.live(write).cloned())).collect();
        let below = self.snapshot.entries(range)?;
        Ok(RangeIterator::new(Box::new(Merged::new(below, writes)), self.keyspace.clone()))
    }

    /// Writes everything in one step, as durable as the store was opened for.
    ///
    /// # Errors
    /// `Conflict`, and nothing has happened, if a key written here or read with
    /// [`Transaction::get_for_update`] was written by somebody else since the transaction began, or
    /// an entry read so has expired: begin it anew.
    pub fn commit(self) -> Result<()> {
        self.keyspace.check_open()?;
        let mut batch = WriteBatch::new();
        for (key, write) in &self.writes {
            let put = write.as_ref().map(Put::entry);
            batch.push(Op { key, kind: put.map_or(OpKind::Delete, OpKind::Put) });
        }
        let conditions: BTreeSet<&[u8]> =
            self.reads.iter().chain(self.writes.keys()).map(Vec::as_slice).collect();
        let conditions: Vec<&[u8]> = conditions.into_iter().collect();
        let (snapshot, durability) = (self.snapshot.inner(), self.keyspace.durability());
        let reads = Reads { keys: &conditions, expires_unix_ms: self.expires_unix_ms };
        if !self.ordered.commit(snapshot, reads, &batch, durability)? {
            let message = format!(
                "a key of this transaction on keyspace '{}' was written by somebody else since it \
                 began, or has expired; begin it anew",
                self.keyspace.name()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.keyspace.wake();
        Ok(())
    }

    /// Forgets everything; the same as dropping it.
    pub fn rollback(self) {}
}
