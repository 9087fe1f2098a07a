//! A keyspace whose calls are futures.

use super::pool::{Call, Owned, Pool, Write};
use super::range::Range;
use crate::Transaction;
use crate::expiry::TimeToLive;
use crate::expiry::entry_for;
use crate::ordered::Bounds;
use silica_engine::{Count, Durability, EntryRef, Result, Update, WriteBatch};
use std::time::Duration;

/// A [`Keyspace`](crate::Keyspace) whose calls are futures. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keyspace {
    pool: Pool,
    keyspace: crate::Keyspace,
}

impl Keyspace {
    pub(super) fn new(pool: Pool, keyspace: crate::Keyspace) -> Self {
        Keyspace { pool, keyspace }
    }

    /// The keyspace itself, whose calls wait.
    pub fn waiting(&self) -> &crate::Keyspace {
        &self.keyspace
    }

    /// The value of `key`: at once if memory has it, else as one of a burst with other gets that
    /// wait.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get).
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let copied = |entry: Option<EntryRef<'_>>| entry.map(|entry| entry.value.to_vec());
        if let Some(value) = self.keyspace.get_at_hand(&key, copied)? {
            return Ok(value);
        }
        let (keyspace, key) = (self.keyspace.clone(), key.as_ref().to_vec());
        self.pool.ask(|answer| Call::Get { keyspace, key, answer }).await
    }

    /// The values of all `keys`, in their order, looked up as one burst.
    ///
    /// # Errors
    /// As [`Keyspace::get_many`](crate::Keyspace::get_many).
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_ref().to_vec()).collect();
        self.run(move |keyspace| keyspace.get_many(&keys)).await
    }

    /// Maps `key` to `value`, as durable as the store was opened for. Writes that wait together
    /// share a sync.
    ///
    /// # Errors
    /// As [`Keyspace::put`](crate::Keyspace::put).
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key.as_ref(), value.as_ref());
        self.write(&batch).await
    }

    /// Maps `key` to `value` for `ttl`.
    ///
    /// # Errors
    /// As [`Keyspace::put_with_ttl`](crate::Keyspace::put_with_ttl).
    pub async fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let entry = entry_for(value.as_ref(), ttl)?;
        let mut batch = WriteBatch::new();
        batch.put_entry(key.as_ref(), entry);
        self.write(&batch).await
    }

    /// Removes `key`; a missing one is not an error.
    ///
    /// # Errors
    /// As [`Keyspace::delete`](crate::Keyspace::delete).
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key.as_ref());
        self.write(&batch).await
    }

    /// Applies `batch` atomically, as durable as the store was opened for.
    ///
    /// # Errors
    /// As [`Keyspace::write`](crate::Keyspace::write).
    pub async fn write(&self, batch: &WriteBatch<'_>) -> Result<()> {
        self.write_with(batch, self.keyspace.durability()).await
    }

    /// Applies `batch` atomically, as durable as asked.
    ///
    /// # Errors
    /// As [`Keyspace::write_with`](crate::Keyspace::write_with).
    pub async fn write_with(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let ops: Vec<Owned> = batch.ops().iter().map(Owned::of).collect();
        let keyspace = self.keyspace.clone();
        self.pool.ask(|answer| Call::Write(Write { keyspace, ops, durability, answer })).await
    }

    /// As [`Keyspace::update`](crate::Keyspace::update); `decide` runs on a thread of the pool,
    /// perhaps several times.
    ///
    /// # Errors
    /// As there.
    pub async fn update(
        &self,
        key: impl AsRef<[u8]>,
        decide: impl FnMut(Option<EntryRef<'_>>) -> Update + Send + 'static,
    ) -> Result<()> {
        let key = key.as_ref().to_vec();
        self.run(move |keyspace| keyspace.update(key, decide)).await
    }

    /// Runs `work` in a transaction and commits it; after a conflict all of it again. It runs on a
    /// thread of the pool.
    ///
    /// # Errors
    /// What `work` returns, whose writes then do not happen; as
    /// [`Transaction::commit`](crate::Transaction::commit), but no conflict.
    pub async fn transact<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run(move |keyspace| {
            loop {
                let mut transaction = keyspace.transaction()?;
                let done = work(&mut transaction)?;
                match transaction.commit() {
                    Ok(()) => return Ok(done),
                    Err(error) if error.kind() == crate::ErrorKind::Conflict => {}
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// The entries of a range as they are now, in order; they come a page at a time, as they are
    /// asked for.
    ///
    /// # Errors
    /// As [`Keyspace::range`](crate::Keyspace::range).
    pub async fn range(&self, range: impl Bounds) -> Result<Range> {
        let range = range.key_range();
        let range = self.run(move |keyspace| keyspace.range(range)).await?;
        Ok(Range::new(self.pool.clone(), range))
    }

    /// How long `key` lives from now on; `None` if it is not there.
    ///
    /// # Errors
    /// As [`Keyspace::ttl`](crate::Keyspace::ttl).
    pub async fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<TimeToLive>> {
        let key = key.as_ref().to_vec();
        self.run(move |keyspace| keyspace.ttl(key)).await
    }

    /// As [`Keyspace::count`](crate::Keyspace::count).
    ///
    /// # Errors
    /// As there.
    pub async fn count(&self, exact: bool) -> Result<Count> {
        self.run(move |keyspace| keyspace.count(exact)).await
    }

    /// Makes every write that was answered before the call survive a power cut.
    ///
    /// # Errors
    /// As [`Keyspace::sync`](crate::Keyspace::sync).
    pub async fn sync(&self) -> Result<()> {
        self.run(crate::Keyspace::sync).await
    }

    /// Runs anything else on the keyspace, on a thread of the pool.
    ///
    /// # Errors
    /// What `work` returns.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&crate::Keyspace) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let keyspace = self.keyspace.clone();
        self.pool.run(move || work(&keyspace)).await
    }
}
