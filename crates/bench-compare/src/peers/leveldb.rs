//! LevelDB, through its C interface.

mod api;
mod options;

use super::directory;
use super::library::{c_path, lent, text};
use crate::peer::{Class, Peer, Setting, Setup};
use api::{Api, Batch, Cache, Db, FilterPolicy, ReadOptions, WriteOptions};
use options::Knobs;
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::ffi::{CStr, c_char};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// LevelDB with one kind of compression.
pub(crate) struct LevelDb {
    name: &'static str,
    doc: &'static str,
    snappy: bool,
}

/// LevelDB without and with compression.
pub(crate) const PEERS: &[LevelDb] = &[
    LevelDb { name: "leveldb", doc: "LevelDB, log-structured merge tree", snappy: false },
    LevelDb { name: "leveldb:snappy", doc: "LevelDB with Snappy compression", snappy: true },
];

impl Peer for LevelDb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn class(&self) -> Class {
        Class::Embedded
    }

    fn version(&self) -> Result<String> {
        let api = Api::get()?;
        // SAFETY: these ask nothing of their caller.
        let (major, minor) = unsafe { (api.leveldb_major_version(), api.leveldb_minor_version()) };
        Ok(format!("{major}.{minor}"))
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        Knobs::new(setup, self.snappy).settings()
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let api = Api::get()?;
        let path = c_path(&setup.directory)?;
        let (options, cache, filter) = Knobs::new(setup, self.snappy).options(api);
        // SAFETY: the options and the path are alive during the call.
        let db = api.tried(|error| unsafe { api.leveldb_open(options, path.as_ptr(), error) });
        // SAFETY: the store keeps a copy of the options, which nothing else holds.
        unsafe { api.leveldb_options_destroy(options) };
        let directory = setup.directory.clone();
        let (puts, deletes) = (AtomicU64::new(0), AtomicU64::new(0));
        // Made before the outcome is looked at, so that the cache and the filter are given back.
        let mut store = Store { api, db: null_mut(), cache, filter, directory, puts, deletes };
        store.db = db?;
        Ok(Box::new(store))
    }
}

/// An open database, or one that could not be opened.
struct Store {
    api: &'static Api,
    db: *mut Db,
    cache: *mut Cache,
    filter: *mut FilterPolicy,
    directory: PathBuf,
    puts: AtomicU64,
    deletes: AtomicU64,
}

// SAFETY: the header says that a database may be used by several threads at once; the cache and
// the filter are only given back.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the store, so nobody uses it any more; the database is the only
        // user of the cache and the filter.
        unsafe {
            if !self.db.is_null() {
                self.api.leveldb_close(self.db);
            }
            self.api.leveldb_cache_destroy(self.cache);
            self.api.leveldb_filterpolicy_destroy(self.filter);
        }
    }
}

impl Store {
    /// Writes the memtable to a table and waits for the compaction that is running.
    fn flush(&self) {
        let empty = c"".as_ptr();
        // SAFETY: the database is open. No table reaches down to the empty key, so that nothing
        // is compacted, but the request waits for its turn.
        unsafe { self.api.leveldb_compact_range(self.db, empty, 0, empty, 0) };
    }

    fn property(&self, name: &CStr) -> String {
        // SAFETY: the database is open; the text is the caller's and freed once.
        unsafe {
            let value = self.api.leveldb_property_value(self.db, name.as_ptr());
            let owned = text(value);
            self.api.leveldb_free(value.cast());
            owned
        }
    }

    /// Writes nothing, which syncs the log and tells errors of background work.
    fn sync_log(&self) -> Result<()> {
        let mut session = self.connection(Durability::Synced);
        session.write()
    }

    fn connection(&self, durability: Durability) -> Connection<'_> {
        let api = self.api;
        // SAFETY: these make new objects; the session owns them.
        let (read, write, batch) = unsafe {
            let write = api.leveldb_writeoptions_create();
            api.leveldb_writeoptions_set_sync(write, u8::from(durability == Durability::Synced));
            (api.leveldb_readoptions_create(), write, api.leveldb_writebatch_create())
        };
        Connection { store: self, read, write, batch }
    }
}

/// Files in level 0 from which on LevelDB compacts it.
const LEVEL0_FILES: usize = 4;
/// Levels; the last is never compacted.
const LEVELS: usize = 7;

/// True where LevelDB has a level to compact, given its property `leveldb.sstables`: a line
/// ` NUMBER:BYTES[...` for each table below a line `--- level N ---`.
fn needs_compaction(tables: &str) -> bool {
    let (mut level, mut files, mut bytes) = (0, 0, 0);
    // Level 1 holds 10 MiB, each other ten times the one above.
    let is_full = |level: usize, files: usize, bytes: u64| match level {
        0 => files >= LEVEL0_FILES,
        level if level + 1 < LEVELS => bytes >= (10 << 20) * 10u64.pow(level as u32 - 1),
        _ => false,
    };
    for line in tables.lines() {
        if let Some(number) = line.strip_prefix("--- level ") {
            if is_full(level, files, bytes) {
                return true;
            }
            level = number.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(LEVELS);
            (files, bytes) = (0, 0);
        } else if let Some((_, rest)) = line.split_once(':') {
            files += 1;
            bytes += rest.split('[').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    is_full(level, files, bytes)
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: false }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.connection(durability)))
    }

    fn settle(&self) -> Result<()> {
        self.flush();
        while needs_compaction(&self.property(c"leveldb.sstables")) {
            self.sync_log()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        self.flush();
        self.sync_log()
    }

    /// The log that a full memtable leaves behind is not synced by a later synced write, so all
    /// goes to tables, which are.
    fn sync(&self) -> Result<()> {
        self.flush();
        self.sync_log()
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = MetricsMap::default();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("puts", self.puts.load(Relaxed));
        add("deletes", self.deletes.load(Relaxed));
        add("disk_bytes", directory::bytes(&self.directory));
        Ok(metrics)
    }
}

/// What one thread uses.
struct Connection<'a> {
    store: &'a Store,
    read: *mut ReadOptions,
    write: *mut WriteOptions,
    batch: *mut Batch,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let api = self.store.api;
        // SAFETY: the session made them and is gone.
        unsafe {
            api.leveldb_writebatch_destroy(self.batch);
            api.leveldb_writeoptions_destroy(self.write);
            api.leveldb_readoptions_destroy(self.read);
        }
    }
}

impl Connection<'_> {
    fn write(&mut self) -> Result<()> {
        let (store, api) = (self.store, self.store.api);
        // SAFETY: the options and the batch are this session's.
        let written = api.tried(|error| unsafe {
            api.leveldb_write(store.db, self.write, self.batch, error);
        });
        // SAFETY: the write is done with the batch.
        unsafe { api.leveldb_writebatch_clear(self.batch) };
        written
    }
}

impl Session for Connection<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let (store, api) = (self.store, self.store.api);
        for (index, key) in keys.iter().enumerate() {
            let mut length = 0;
            // SAFETY: the key is alive during the call.
            let value = api.tried(|error| unsafe {
                let data = key.as_ptr().cast();
                api.leveldb_get(store.db, self.read, data, key.len(), &mut length, error)
            })?;
            if !value.is_null() {
                // SAFETY: the value is a copy of that length, and freed once.
                unsafe {
                    sink.found(index, lent(value, length));
                    api.leveldb_free(value.cast());
                }
            }
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        for (key, value) in entries {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the batch copies the bytes, which are alive during the call.
            unsafe {
                self.store.api.leveldb_writebatch_put(self.batch, k, key.len(), v, value.len());
            }
        }
        self.write()?;
        self.store.puts.fetch_add(entries.len() as u64, Relaxed);
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        for key in keys {
            // SAFETY: the batch copies the bytes, which are alive during the call.
            unsafe {
                let data = key.as_ptr().cast();
                self.store.api.leveldb_writebatch_delete(self.batch, data, key.len());
            }
        }
        self.write()?;
        self.store.deletes.fetch_add(keys.len() as u64, Relaxed);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let api = self.store.api;
        // SAFETY: the iterator is valid where its key and value are asked for, they are not used
        // after it moves, and it is destroyed once.
        unsafe {
            let iterator = api.leveldb_create_iterator(self.store.db, self.read);
            api.leveldb_iter_seek(iterator, from.as_ptr().cast(), from.len());
            for _ in 0..count {
                if api.leveldb_iter_valid(iterator) == 0 {
                    break;
                }
                let (mut key_length, mut value_length) = (0, 0);
                let key = api.leveldb_iter_key(iterator, &mut key_length);
                let value = api.leveldb_iter_value(iterator, &mut value_length);
                entry(lent(key, key_length), lent(value, value_length));
                api.leveldb_iter_next(iterator);
            }
            let outcome = api.tried(|error| api.leveldb_iter_get_error(iterator, error));
            api.leveldb_iter_destroy(iterator);
            outcome
        }
    }
}

impl Api {
    /// Calls a function that reports an error through its last argument.
    fn tried<T>(&self, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
        let mut error = null_mut();
        let value = call(&mut error);
        if error.is_null() {
            return Ok(value);
        }
        // SAFETY: the library made the text, and it is freed once.
        let what = unsafe {
            let what = text(error);
            self.leveldb_free(error.cast());
            what
        };
        Err(Error::new(ErrorKind::Io, format!("LevelDB: {what}")))
    }
}

#[cfg(test)]
mod tests {
    use super::needs_compaction;

    #[test]
    fn full_levels_need_compaction() {
        let level0 = "--- level 0 ---\n 12:900['a' @ 1 : 1 .. 'b' @ 2 : 1]\n";
        assert!(!needs_compaction(level0));
        let three = format!("{level0} 13:9['a:b']\n 14:9['c']\n--- level 1 ---\n");
        assert!(!needs_compaction(&three));
        let four = three.replace("--- level 1", " 15:9['d']\n--- level 1");
        assert!(needs_compaction(&four));
        let level1 = format!("{three} 2:10485759['a' .. 'b']\n--- level 2 ---\n 3:104857599['']\n");
        assert!(!needs_compaction(&level1));
        assert!(needs_compaction(&level1.replace("104857599", "104857600")));
        assert!(needs_compaction(&level1.replace("10485759[", "10485760[")));
        assert!(!needs_compaction("--- level 6 ---\n 3:99999999999999['']\n"));
    }
}
