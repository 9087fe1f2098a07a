//! redb, a B+ tree in one file.

use super::writes::Writes;
use super::{crates, directory};
use crate::peer::{About, Peer, Setting, Setup};
use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata, StorageBackend,
    Table, TableDefinition,
};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");
const FILE: &str = "entries.redb";

/// redb.
pub(crate) struct Redb;

/// redb, which has no variants.
pub(crate) const PEERS: &[Redb] = &[Redb];
const ABOUT: About = About::embedded("redb", "redb, B+ tree in Rust, copy on write");

/// Of the memory, so many parts of [`CACHE_OF`] are redb's own cache.
const CACHE_PARTS: u64 = 3;
const CACHE_OF: u64 = 4;

fn cache_bytes(setup: &Setup) -> u64 {
    setup.memory_bytes / CACHE_OF * CACHE_PARTS
}

impl Peer for Redb {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn version(&self) -> Result<String> {
        crates::version("redb")
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        let row = |name, value: String, why| Setting { name, value, why };
        vec![
            row(
                "set_cache_size",
                cache_bytes(setup).to_string(),
                "three quarters of the memory: a hit costs no call of the system, while the page \
                 cache, which has the rest, holds what is read and written anyway",
            ),
            row(
                "set_durability",
                "Immediate; for buffered writes a file whose sync does nothing".to_string(),
                "its other durability, None, keeps commits in this process and loses them with it",
            ),
            row(
                "set_two_phase_commit",
                "false".to_string(),
                "the default: one sync a commit, told from a torn one by checksums",
            ),
            row(
                "set_quick_repair",
                "false".to_string(),
                "the default: faster commits, a slower start after a crash",
            ),
        ]
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let path = setup.directory.join(FILE);
        let opening = |e| Error::io(format!("redb: opening {}", path.display()), e);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = Arc::new(file.map_err(opening)?);
        let syncs = Arc::new(AtomicBool::new(true));
        let backend = Backend { file: Arc::clone(&file), syncs: Arc::clone(&syncs) };
        let cache = usize::try_from(cache_bytes(setup)).unwrap_or(usize::MAX);
        let mut builder = Builder::new();
        let database = builder.set_cache_size(cache).create_with_backend(backend).map_err(told)?;
        let directory = setup.directory.clone();
        let store = Store { database, file, syncs, directory, writes: Writes::default() };
        // Made now, so that readers find it.
        store.transaction(Durability::Synced, |_| Ok(()))?;
        Ok(Box::new(store))
    }
}

/// The file, whose sync does nothing while the commit under way is a buffered one.
#[derive(Debug)]
struct Backend {
    file: Arc<File>,
    syncs: Arc<AtomicBool>,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs.load(Relaxed) { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}

fn told(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(source) => Error::io("redb", source),
        error => Error::new(ErrorKind::Io, format!("redb: {error}")),
    }
}

/// An open database.
struct Store {
    database: Database,
    file: Arc<File>,
    /// Changed only by the one who has the write transaction.
    syncs: Arc<AtomicBool>,
    directory: PathBuf,
    writes: Writes,
}

impl Drop for Store {
    fn drop(&mut self) {
        // What the database does when it is closed is synced.
        self.syncs.store(true, Relaxed);
    }
}

impl Store {
    /// Does `work` in a write transaction, whose commit is as durable as `durability` says.
    fn transaction(
        &self,
        durability: Durability,
        work: impl FnOnce(&mut Table<'_, &[u8], &[u8]>) -> Result<()>,
    ) -> Result<()> {
        // Waits until the writer before is through.
        let transaction = self.database.begin_write().map_err(told)?;
        self.syncs.store(durability == Durability::Synced, Relaxed);
        let mut table = transaction.open_table(TABLE).map_err(told)?;
        work(&mut table)?;
        drop(table);
        transaction.commit().map_err(told)
    }

    /// The entries as they are now.
    fn snapshot(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        self.database.begin_read().map_err(told)?.open_table(TABLE).map_err(told)
    }
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: false }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Connection { store: self, durability }))
    }

    /// redb does nothing in the background.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("redb: syncing the file", e))
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let entries = self.snapshot()?.len().map_err(told)?;
        let mut metrics = self.writes.metrics();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("entries_estimate", entries);
        add("disk_bytes", directory::bytes(&self.directory));
        Ok(metrics)
    }
}

/// What one thread uses.
struct Connection<'a> {
    store: &'a Store,
    durability: Durability,
}

impl Session for Connection<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let table = self.store.snapshot()?;
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = table.get(*key).map_err(told)? {
                sink.found(index, value.value());
            }
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.store.transaction(self.durability, |table| {
            for (key, value) in entries {
                table.insert(key, value).map_err(told)?;
            }
            Ok(())
        })?;
        self.store.writes.count_puts(entries.len());
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.store.transaction(self.durability, |table| {
            for key in keys {
                table.remove(key).map_err(told)?;
            }
            Ok(())
        })?;
        self.store.writes.count_deletes(keys.len());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let table = self.store.snapshot()?;
        for found in table.range::<&[u8]>(from..).map_err(told)?.take(count) {
            let (key, value) = found.map_err(told)?;
            entry(key.value(), value.value());
        }
        Ok(())
    }
}
