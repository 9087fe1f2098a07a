//! fjall, a log-structured merge tree.

use super::writes::Writes;
use super::{crates, directory};
use crate::peer::{About, Peer, Setting, Setup};
use fjall::config::{CompressionPolicy, HashRatioPolicy};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode,
    Readable,
};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::path::PathBuf;
use std::time::Duration;

const KEYSPACE: &str = "entries";
/// Its writers wait while four memtables wait to be flushed; one more is being filled.
const MEMTABLES: u64 = 5;
const MEMTABLE_BYTES_MIN: u64 = 256 << 10;
/// Its default.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
/// With fewer threads, as it has by default on fewer cores, all may be compacting while nobody
/// flushes; then the memtable grows without bound.
const THREADS_MIN: usize = 4;
/// What its documentation's example gives to blocks for point reads.
const HASH_RATIO: f32 = 0.75;
/// Nothing is under way if that was so at two looks so far apart: work that ends starts other work.
const QUIET: Duration = Duration::from_millis(20);

/// fjall with one kind of compression.
pub(crate) struct Fjall {
    about: About,
    lz4: bool,
}

/// fjall without and with compression.
pub(crate) const PEERS: &[Fjall] = &[
    Fjall {
        about: About::embedded("fjall", "fjall, log-structured merge tree in Rust"),
        lz4: false,
    },
    Fjall {
        about: About::embedded("fjall:lz4", "fjall with LZ4 compression").variant(),
        lz4: true,
    },
];

/// What differs from fjall's defaults.
struct Knobs {
    memtable_bytes: u64,
    cache_bytes: u64,
    threads: usize,
    lz4: bool,
}

impl Knobs {
    fn new(setup: &Setup, lz4: bool) -> Self {
        let memory = setup.memory_bytes;
        let of_each = memory / 2 / MEMTABLES;
        let memtable_bytes = of_each.clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.max(THREADS_MIN);
        Knobs { memtable_bytes, cache_bytes: memory / 4, threads, lz4 }
    }

    fn compression(&self) -> &'static str {
        if self.lz4 { "LZ4 from level 2 on, and of large values in the journal" } else { "none" }
    }

    fn settings(&self) -> Vec<Setting> {
        let row = |name, value: String, why| Setting { name, value, why };
        vec![
            row(
                "max_memtable_size",
                self.memtable_bytes.to_string(),
                "half of the memory for the five that there may be: one that is filled, four that \
                 wait to be flushed; at most the default",
            ),
            row(
                "cache_size",
                self.cache_bytes.to_string(),
                "a quarter of the memory, as its documentation recommends; files are read through \
                 the page cache, which has the rest",
            ),
            row(
                "worker_threads",
                self.threads.to_string(),
                "the cores, at least 4: with two, both may be compacting while nobody flushes, and \
                 the memtable grows without bound",
            ),
            row(
                "data_block_hash_ratio_policy",
                HASH_RATIO.to_string(),
                "gets find the key in its block without a search",
            ),
            row("compression", self.compression().to_string(), "compared both off and on"),
            row(
                "PersistMode",
                "Buffer for buffered writes, SyncData for synced ones".to_string(),
                "Buffer writes the journal to the system, SyncData to the device too",
            ),
        ]
    }

    fn options(&self) -> KeyspaceCreateOptions {
        let options = KeyspaceCreateOptions::default()
            .max_memtable_size(self.memtable_bytes)
            .data_block_hash_ratio_policy(HashRatioPolicy::all(HASH_RATIO));
        // Its default is what it recommends with LZ4.
        if self.lz4 {
            return options;
        }
        options.data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
    }

    fn journal_compression(&self) -> CompressionType {
        if self.lz4 { CompressionType::Lz4 } else { CompressionType::None }
    }
}

impl Peer for Fjall {
    fn about(&self) -> &About {
        &self.about
    }

    fn version(&self) -> Result<String> {
        crates::version("fjall")
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        Knobs::new(setup, self.lz4).settings()
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let knobs = Knobs::new(setup, self.lz4);
        let database = Database::builder(&setup.directory)
            .cache_size(knobs.cache_bytes)
            .worker_threads(knobs.threads)
            .journal_compression(knobs.journal_compression())
            .open()
            .map_err(told)?;
        let keyspace = database.keyspace(KEYSPACE, || knobs.options()).map_err(told)?;
        let directory = setup.directory.clone();
        Ok(Box::new(Store { keyspace, database, directory, writes: Writes::default() }))
    }
}

fn told(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Io(source) => Error::io("fjall", source),
        error => Error::new(ErrorKind::Io, format!("fjall: {error}")),
    }
}

/// An open database with its one keyspace.
struct Store {
    keyspace: Keyspace,
    database: Database,
    directory: PathBuf,
    writes: Writes,
}

impl Store {
    fn is_quiet(&self) -> bool {
        self.database.outstanding_flushes() == 0
            && self.keyspace.sealed_memtable_count() == 0
            && self.database.active_compactions() == 0
    }
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: false }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let persist = match durability {
            Durability::Buffered => PersistMode::Buffer,
            Durability::Synced => PersistMode::SyncData,
        };
        Ok(Box::new(Connection { store: self, persist }))
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(told)?;
        let mut quiet = 0;
        while quiet < 2 {
            quiet = if self.is_quiet() { quiet + 1 } else { 0 };
            std::thread::sleep(QUIET);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(told)
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = self.writes.metrics();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("entries_estimate", self.keyspace.approximate_len() as u64);
        add("disk_bytes", directory::bytes(&self.directory));
        Ok(metrics)
    }
}

/// What one thread uses.
struct Connection<'a> {
    store: &'a Store,
    persist: PersistMode,
}

impl Connection<'_> {
    fn batch(&self, entries: usize) -> OwnedWriteBatch {
        OwnedWriteBatch::with_capacity(self.store.database.clone(), entries)
            .durability(Some(self.persist))
    }
}

impl Session for Connection<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let store = self.store;
        if let [key] = keys {
            if let Some(value) = store.keyspace.get(key).map_err(told)? {
                sink.found(0, &value);
            }
            return Ok(());
        }
        let snapshot = store.database.snapshot();
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = snapshot.get(&store.keyspace, key).map_err(told)? {
                sink.found(index, &value);
            }
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = self.batch(entries.len());
        for (key, value) in entries {
            batch.insert(&self.store.keyspace, *key, *value);
        }
        batch.commit().map_err(told)?;
        self.store.writes.count_puts(entries.len());
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut batch = self.batch(keys.len());
        for key in keys {
            batch.remove(&self.store.keyspace, *key);
        }
        batch.commit().map_err(told)?;
        self.store.writes.count_deletes(keys.len());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        for found in self.store.keyspace.range(from..).take(count) {
            let (key, value) = found.into_inner().map_err(told)?;
            entry(&key, &value);
        }
        Ok(())
    }
}
