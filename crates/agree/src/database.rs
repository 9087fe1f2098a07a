//! The database that members agree about, and its generations: a snapshot of the leader's is loaded
//! into a keyspace of its own, which then takes the database's place.

use silica::engine::{
    Descriptor, Durability, Engine, EntryRef, Error, ErrorKind, KeyRange, Result, Snapshot,
    WriteBatch,
};
use silica::{DEFAULT_KEYSPACE, Silica};
use std::sync::{Arc, PoisonError, RwLock};

/// The keyspace of the log.
pub(crate) const LOG_KEYSPACE: &str = "agreement";
/// The keyspace that a snapshot is loaded into.
const STAGING_KEYSPACE: &str = "agreement-staging";

/// Bytes of entries that are loaded in one write.
pub(crate) const LOAD_BYTES: usize = 1 << 20;

/// The database in its present generation.
pub(crate) struct Database {
    store: Arc<Silica>,
    current: RwLock<(u64, Arc<dyn Engine>)>,
    descriptor: Descriptor,
}

impl Database {
    /// The default keyspace of `store`.
    ///
    /// # Errors
    /// Fails if the engine keeps no order: snapshots need one.
    pub(crate) fn open(store: Arc<Silica>) -> Result<Self> {
        let engine = Arc::clone(store.keyspace(DEFAULT_KEYSPACE)?.engine());
        let descriptor = *engine.descriptor();
        if !descriptor.capabilities.ordered || !descriptor.capabilities.atomic {
            let message = format!(
                "members agree about a database whose engine keeps its keys in order, and {} does \
                 not; use engine wip",
                descriptor.name
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(Database { store, current: RwLock::new((0, engine)), descriptor })
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The engine of the present generation.
    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// The engine of the present generation, and the number of that.
    pub(crate) fn generation(&self) -> (u64, Arc<dyn Engine>) {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if it holds nothing.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        let mut iterator = self.snapshot()?.iterate(&KeyRange::ALL)?;
        Ok(!iterator.seek_to_first()?)
    }

    /// What it holds now.
    pub(crate) fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let lacks = || Error::new(ErrorKind::Config, "the database's engine has no snapshots");
        self.engine().as_ordered().ok_or_else(lacks)?.snapshot()
    }

    /// An empty keyspace to load a snapshot into.
    pub(crate) fn stage(&self) -> Result<Staging> {
        if self.store.existing(STAGING_KEYSPACE)?.is_some() {
            self.store.drop_keyspace(STAGING_KEYSPACE)?;
        }
        let name = self.descriptor.name;
        let keyspace = self.store.create_keyspace(STAGING_KEYSPACE, name, &[])?;
        Ok(Staging { engine: Arc::clone(keyspace.engine()), batch: Vec::new(), entries: 0 })
    }

    /// Lets what was loaded take the database's place; what was there before is removed.
    pub(crate) fn adopt(&self) -> Result<()> {
        self.store.swap_keyspaces(DEFAULT_KEYSPACE, STAGING_KEYSPACE)?;
        let engine = Arc::clone(self.store.keyspace(DEFAULT_KEYSPACE)?.engine());
        {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            *current = (current.0 + 1, engine);
        }
        // Readers of the old generation may be at work still: they end with an error.
        self.store.drop_keyspace(STAGING_KEYSPACE)
    }

    /// Loads all of `snapshot` into a new generation.
    pub(crate) fn load(&self, snapshot: Arc<dyn Snapshot>) -> Result<()> {
        let mut staging = self.stage()?;
        let mut iterator = snapshot.iterate(&KeyRange::ALL)?;
        let mut is_there = iterator.seek_to_first()?;
        while is_there {
            staging.put(iterator.key(), iterator.entry())?;
            is_there = iterator.next()?;
        }
        staging.finish().map(drop)
    }
}

/// A generation that is being loaded.
pub(crate) struct Staging {
    engine: Arc<dyn Engine>,
    batch: Vec<u8>,
    entries: u64,
}

impl Staging {
    /// Adds an entry.
    pub(crate) fn put(&mut self, key: &[u8], entry: EntryRef<'_>) -> Result<()> {
        let mut one = WriteBatch::new();
        one.put_entry(key, entry);
        one.ops().iter().for_each(|op| crate::effects::encode_op(op, &mut self.batch));
        self.entries += 1;
        if self.batch.len() < LOAD_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Adds entries that are encoded as effects.
    pub(crate) fn put_encoded(&mut self, bytes: &[u8]) -> Result<()> {
        let batch = crate::effects::decode(bytes)?;
        self.entries += batch.len() as u64;
        self.engine.write(&batch, Durability::Buffered)
    }

    fn flush(&mut self) -> Result<()> {
        let batch = crate::effects::decode(&self.batch)?;
        if !batch.is_empty() {
            self.engine.write(&batch, Durability::Buffered)?;
        }
        self.batch.clear();
        Ok(())
    }

    /// Syncs all of it; how many entries there are.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.engine.sync()?;
        Ok(self.entries)
    }
}
