//! The reference engine in partitions that threads can own, as a cache's are: who writes one that
//! somebody owns is refused.

use super::Probe;
use silica_engine::{
    Durability, Engine, EntryRef, Error, ErrorKind, GetSink, Result, Shard, Sharded, Update,
    WriteBatch,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// More than the loops of a test, and no multiple of them.
const PARTITIONS: usize = 5;

pub(super) fn partition_of(key: &[u8]) -> usize {
    key.iter().map(|byte| usize::from(*byte)).sum::<usize>() % PARTITIONS
}

/// Which partitions have owners.
#[derive(Default)]
pub(crate) struct Owned([AtomicBool; PARTITIONS]);

impl Owned {
    /// An error where a partition of `keys` has an owner.
    pub(super) fn refuse<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> Result<()> {
        let mut owned = keys.into_iter().filter(|key| self.has(partition_of(key)));
        owned.next().map_or(Ok(()), |key| Err(is_owned(key)))
    }

    /// Refuses if any partition has an owner.
    pub(super) fn refuse_all(&self) -> Result<()> {
        let mut owned = (0..PARTITIONS).filter(|partition| self.has(*partition));
        owned.next().map_or(Ok(()), |_| Err(is_owned(b"all")))
    }

    fn has(&self, partition: usize) -> bool {
        self.0[partition].load(Ordering::SeqCst)
    }
}

fn is_owned(key: &[u8]) -> Error {
    let message = format!("'{}' belongs to a shard", key.escape_ascii());
    Error::new(ErrorKind::Locked, message)
}

struct Part {
    number: usize,
    inner: Arc<dyn Engine>,
    owned: Arc<Owned>,
    delay: Duration,
    gets: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
    updates: Arc<AtomicU64>,
}

impl Sharded for Probe {
    fn shards(&self) -> usize {
        PARTITIONS
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        partition_of(key)
    }

    fn take(&self, number: usize) -> Result<Box<dyn Shard>> {
        if self.owned.0[number].swap(true, Ordering::SeqCst) {
            return Err(is_owned(b"the partition"));
        }
        self.take_calls.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Part {
            number,
            inner: Arc::clone(&self.inner),
            owned: Arc::clone(&self.owned),
            delay: self.delay,
            gets: Arc::clone(&self.get_calls),
            writes: Arc::clone(&self.write_calls),
            updates: Arc::clone(&self.update_calls),
        }))
    }
}

impl Part {
    fn check<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        assert!(self.owned.has(self.number), "who uses a shard owns it");
        match keys.find(|key| partition_of(key) != self.number) {
            Some(_) => Err(Error::new(ErrorKind::Config, "a key of another partition")),
            None => Ok(()),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.owned.0[self.number].store(false, Ordering::SeqCst);
    }
}

impl Shard for Part {
    fn number(&self) -> usize {
        self.number
    }

    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.check(keys.iter().copied())?;
        self.gets.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.delay);
        self.inner.get_many(keys, sink)
    }

    fn write(&mut self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.check(batch.ops().iter().map(|op| op.key))?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write(batch, durability)
    }

    fn update_many(
        &mut self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        self.check(keys.iter().copied())?;
        self.updates.fetch_add(1, Ordering::Relaxed);
        super::refuse_fire(keys)?;
        let atomic = self.inner.as_atomic().expect("engines of these tests have this view");
        atomic.update_many(keys, durability, decide)
    }
}
