//! Transactions: reads of one moment and writes that happen together, or not at all where somebody
//! else was faster.

use crate::Keyspace;
use crate::ordered::{Bounds, Range, RangeIterator};
use silica_engine::transaction::{Savepoint, TransactionOptions};
use silica_engine::{Durability, EntryRef, Error, ErrorKind, Result, transaction};

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
        self.transaction_with(TransactionOptions::default())
    }

    /// Begins a transaction that may be exclusive: no other one of the keyspace commits while it
    /// is open.
    ///
    /// ```
    /// # let name = format!("silica-doc-exclusive-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("wip").open(&path)?;
    /// use silica::engine::transaction::{TransactionOptions, Wait};
    /// use silica::ErrorKind;
    ///
    /// let keyspace = store.keyspace("k")?;
    /// let alone = TransactionOptions { is_exclusive: true, wait: Wait::No };
    /// let mut first = keyspace.transaction_with(alone)?;
    /// first.put("key", "1");
    /// let second = keyspace.transaction_with(alone);
    /// assert_eq!(second.err().map(|error| error.kind()), Some(ErrorKind::Busy));
    /// first.commit()?;
    /// # drop((keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another exclusive one is open for longer than `options.wait` says.
    pub fn transaction_with(&self, options: TransactionOptions) -> Result<Transaction> {
        let inner = transaction::Transaction::begin(self.ordered()?, options)?;
        Ok(Transaction { keyspace: self.clone(), inner })
    }
}

/// Reads of the moment when it began, and writes that nobody else sees before they are committed.
/// Dropped without a commit, it has done nothing.
///
/// [`silica_engine::transaction`] has what is visible when.
pub struct Transaction {
    keyspace: Keyspace,
    inner: transaction::Transaction,
}

impl Transaction {
    /// The value of `key`: what was written here, or else what there was at the beginning. Others
    /// may change it before the commit.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, |entry| entry.map(|entry| entry.value.to_vec()))
    }

    /// Calls `read` with the entry that [`Transaction::get`] finds, borrowed.
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        self.keyspace.check_open()?;
        self.inner.get(key.as_ref(), read)
    }

    /// The value of `key`, as [`Transaction::get`] returns it. The commit fails if somebody else
    /// writes `key` before it, or if its entry expires.
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.keyspace.check_open()?;
        let value = |entry: Option<EntryRef<'_>>| entry.map(|entry| entry.value.to_vec());
        self.inner.get_for_update(key.as_ref(), value)
    }

    /// Maps `key` to `value`; the commit fails where somebody else writes `key` before it.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_entry(key, EntryRef::new(value.as_ref()));
    }

    /// Maps `key` to `entry`, its expiry and user bits included; otherwise as [`Transaction::put`].
    pub fn put_entry(&mut self, key: impl AsRef<[u8]>, entry: EntryRef<'_>) {
        self.inner.put(key.as_ref(), entry);
    }

    /// Removes `key`; the commit fails where somebody else writes `key` before it.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.inner.delete(key.as_ref());
    }

    /// Removes all keys of a range; the commit fails if somebody else writes or adds one of them
    /// before it.
    pub fn delete_range(&mut self, range: impl Bounds) {
        self.inner.delete_range(&range.key_range());
    }

    /// Keys and values of a range, those written here among them, also those that are written
    /// while it is gone through.
    pub fn range(&self, range: impl Bounds) -> Result<Range> {
        let range = range.key_range();
        Ok(Range::new(self.iterator(&range)?, self.iterator(&range)?))
    }

    /// As [`Transaction::range`]. The commit fails if somebody else writes, deletes or adds a key
    /// in the range before it.
    pub fn range_for_update(&mut self, range: impl Bounds) -> Result<Range> {
        let range = range.key_range();
        self.inner.watch_range(range.clone());
        self.range(&range)
    }

    /// As [`Keyspace::iterator`], with the entries written here. Each move sees them as they are
    /// then, in both directions.
    pub fn iterator(&self, range: impl Bounds) -> Result<RangeIterator> {
        self.keyspace.check_open()?;
        let cursor = self.inner.cursor(&range.key_range())?;
        Ok(RangeIterator::new(Box::new(cursor), self.keyspace.clone()))
    }

    /// Marks the state of the writes, to return to it. Savepoints nest.
    pub fn savepoint(&mut self) -> Savepoint {
        self.inner.savepoint()
    }

    /// Takes back the writes since `savepoint`, which stays; later savepoints go.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the savepoint is gone.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.roll_back_to(savepoint)
    }

    /// Forgets `savepoint` and later ones, and keeps the writes.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the savepoint is gone.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.release(savepoint)
    }

    /// Writes everything in one step, as durable as the store was opened for.
    ///
    /// # Errors
    /// `Conflict`, and nothing has happened, if a key written here or read with
    /// [`Transaction::get_for_update`], or anything in a range deleted here or read with
    /// [`Transaction::range_for_update`], was written by somebody else since the transaction began,
    /// or an entry read so has expired: begin it anew. `Busy` if an exclusive transaction is open
    /// for longer than it may wait. `TooLarge` if the writes are over what the engine
    /// takes in one commit; `wip` takes any number.
    pub fn commit(self) -> Result<()> {
        let durability = self.keyspace.durability();
        self.commit_with(durability)
    }

    /// As [`Transaction::commit`], as durable as asked.
    pub fn commit_with(mut self, durability: Durability) -> Result<()> {
        self.keyspace.check_open()?;
        self.inner.commit(durability).map_err(|error| match error.kind() {
            ErrorKind::Conflict => {
                let message = format!("keyspace '{}': {error}", self.keyspace.name());
                Error::new(ErrorKind::Conflict, message)
            }
            _ => error,
        })?;
        self.keyspace.wake();
        Ok(())
    }

    /// Forgets everything; the same as dropping it.
    pub fn rollback(self) {}
}
