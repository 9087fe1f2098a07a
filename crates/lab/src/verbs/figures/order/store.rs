//! A keyspace of which only some capabilities are asked for, as a store for the driver.

use silica::{
    DEFAULT_KEYSPACE, Durability, EntryRef, GetSink, Keyspace, MetricsMap, OpenOptions, Registry,
    Result, Silica, Snapshot, WriteBatch, expires_after,
};
use silica_bench::{Abilities, Session, Sink, Target};
use std::path::Path;
use std::time::Duration;

/// Long enough that no entry goes while it is measured.
const TIME_TO_LIVE: Duration = Duration::from_secs(24 * 3600);

/// What is asked of a store beside gets and puts of single keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Demands {
    /// The entries of a call are put in one step.
    pub(super) atomic: bool,
    /// A snapshot is held while the load runs.
    pub(super) snapshot: bool,
    /// Each call is an optimistic transaction.
    pub(super) transaction: bool,
    /// Each entry has a time to live.
    pub(super) expiry: bool,
}

/// An open store of one engine.
pub(super) struct Capable {
    demands: Demands,
    pub(super) keyspace: Keyspace,
    // Goes after the keyspace: it has the threads of the background work.
    _store: Silica,
}

impl Capable {
    /// Makes an empty store; nothing but the memory and how the engine evicts is set.
    ///
    /// # Errors
    /// Those of opening a store.
    pub(super) fn open(
        directory: &Path,
        engine: &str,
        memory_bytes: u64,
        demands: Demands,
    ) -> Result<Capable> {
        let registry = Registry::builtin();
        let spec = registry.find(engine)?;
        let mut options = OpenOptions::new().engine(engine).memory_bytes(memory_bytes);
        if spec.options.iter().any(|option| option.name == "eviction") {
            options = options.set("eviction", "none");
        }
        let store = options.seed([7; 16]).open(directory)?;
        let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
        Ok(Capable { demands, keyspace, _store: store })
    }
}

impl Target for Capable {
    fn abilities(&self) -> Abilities {
        self.keyspace.abilities()
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let held = self.demands.snapshot.then(|| self.keyspace.snapshot()).transpose()?;
        Ok(Box::new(Asking { store: self, _held: held, durability }))
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.settle()
    }

    fn sync(&self) -> Result<()> {
        // What lies in memory cannot be synced, and needs not be.
        let can = self.keyspace.engine().descriptor().capabilities.synced;
        if can { self.keyspace.sync() } else { Ok(()) }
    }

    fn metrics(&self) -> Result<MetricsMap> {
        self.keyspace.metrics()
    }
}

/// One thread's use of the store.
struct Asking<'a> {
    store: &'a Capable,
    _held: Option<Snapshot>,
    durability: Durability,
}

struct Forward<'a>(&'a mut dyn Sink);

impl GetSink for Forward<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0.found(index, entry.value);
    }
}

impl Asking<'_> {
    /// When entries that are put now expire; 0 for never.
    fn expires_unix_ms(&self) -> Result<u64> {
        if self.store.demands.expiry { expires_after(TIME_TO_LIVE) } else { Ok(0) }
    }

    fn write(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let engine = self.store.keyspace.engine();
        match self.store.demands.atomic {
            true => engine.write(batch, self.durability),
            false => engine.write_each(batch, self.durability),
        }
    }
}

impl Session for Asking<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let keyspace = &self.store.keyspace;
        if !self.store.demands.transaction {
            return keyspace.engine().get_many(keys, &mut Forward(sink));
        }
        let transaction = keyspace.transaction()?;
        for (index, key) in keys.iter().enumerate() {
            transaction.get_with(key, |entry| {
                if let Some(entry) = entry {
                    sink.found(index, entry.value);
                }
            })?;
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let expires_unix_ms = self.expires_unix_ms()?;
        if self.store.demands.transaction {
            let mut transaction = self.store.keyspace.transaction()?;
            for (key, value) in entries {
                let entry = EntryRef { expires_unix_ms, ..EntryRef::new(value) };
                transaction.put_entry(key, entry);
            }
            return transaction.commit_with(self.durability);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in entries {
            batch.put_entry(key, EntryRef { expires_unix_ms, ..EntryRef::new(value) });
        }
        self.write(&batch)
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.delete(key);
        }
        self.write(&batch)
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut iterator = self.store.keyspace.iterator(..)?;
        let mut is_there = iterator.seek(from)?;
        for left in (0..count).rev() {
            if !is_there {
                break;
            }
            if let (Some(key), Some(value)) = (iterator.key(), iterator.value()) {
                entry(key, value);
            }
            is_there = left > 0 && iterator.next()?;
        }
        Ok(())
    }
}
