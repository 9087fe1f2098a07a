//! RocksDB, through its C interface.

mod api;
mod options;

use super::directory;
use super::library::{c_path, lent, text, version_of_file};
use crate::peer::{Class, Peer, Setting, Setup};
use api::{Api, Batch, ColumnFamily, Db, Pinned, ReadOptions, WriteOptions};
use options::Knobs;
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::ffi::{CStr, c_char};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// RocksDB with one kind of compression.
pub(crate) struct RocksDb {
    name: &'static str,
    doc: &'static str,
    compression: options::Compression,
}

/// RocksDB without and with compression.
pub(crate) const PEERS: &[RocksDb] = &[
    RocksDb {
        name: "rocksdb",
        doc: "RocksDB, log-structured merge tree, direct I/O",
        compression: options::Compression::None,
    },
    RocksDb {
        name: "rocksdb:lz4",
        doc: "RocksDB with LZ4 compression",
        compression: options::Compression::Lz4,
    },
];

impl Peer for RocksDb {
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
        Api::get()?;
        Ok(version_of_file("librocksdb.so").unwrap_or_else(|| "unknown".to_string()))
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        Knobs::new(setup, self.compression).settings()
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let api = Api::get()?;
        let knobs = Knobs::new(setup, self.compression);
        let path = c_path(&setup.directory)?;
        let options = knobs.options(api);
        let mut family: *mut ColumnFamily = null_mut();
        // SAFETY: one name, one set of options and room for one handle, all alive during the call.
        let db = api.tried(|error| unsafe {
            api.rocksdb_open_column_families(
                options,
                path.as_ptr(),
                1,
                &c"default".as_ptr(),
                &options.cast_const(),
                &mut family,
                error,
            )
        });
        // SAFETY: the store keeps a copy of the options, which nothing else holds.
        unsafe { api.rocksdb_options_destroy(options) };
        let directory = setup.directory.clone();
        let (puts, deletes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Box::new(Store { api, db: db?, family, directory, puts, deletes }))
    }
}

/// An open database.
struct Store {
    api: &'static Api,
    db: *mut Db,
    /// The only column family, which the burst of gets wants to be told.
    family: *mut ColumnFamily,
    directory: PathBuf,
    puts: AtomicU64,
    deletes: AtomicU64,
}

// SAFETY: the header says that a database may be used by several threads at once; the column
// family's handle is only read.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the store, so nobody uses it any more; the handle goes first.
        unsafe {
            self.api.rocksdb_column_family_handle_destroy(self.family);
            self.api.rocksdb_close(self.db);
        }
    }
}

impl Store {
    /// A property that is a number; 0 where this version does not know it.
    fn property(&self, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: the database is open, the name ends with a zero byte.
        let code = unsafe { self.api.rocksdb_property_int(self.db, name.as_ptr(), &mut value) };
        if code == 0 { value } else { 0 }
    }

    fn is_busy(&self) -> bool {
        [
            c"rocksdb.mem-table-flush-pending",
            c"rocksdb.num-running-flushes",
            c"rocksdb.compaction-pending",
            c"rocksdb.num-running-compactions",
        ]
        .iter()
        .any(|name| self.property(name) > 0)
    }

    fn flush(&self) -> Result<()> {
        let api = self.api;
        // SAFETY: the options are alive during the call and nobody else's.
        unsafe {
            let options = api.rocksdb_flushoptions_create();
            api.rocksdb_flushoptions_set_wait(options, 1);
            let flushed = api.tried(|error| api.rocksdb_flush(self.db, options, error));
            api.rocksdb_flushoptions_destroy(options);
            flushed
        }
    }
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: false }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let api = self.api;
        // SAFETY: these make new objects; the session owns them.
        let (read, write, batch) = unsafe {
            let write = api.rocksdb_writeoptions_create();
            api.rocksdb_writeoptions_set_sync(write, u8::from(durability == Durability::Synced));
            (api.rocksdb_readoptions_create(), write, api.rocksdb_writebatch_create())
        };
        Ok(Box::new(Connection { store: self, read, write, batch, burst: Burst::default() }))
    }

    fn settle(&self) -> Result<()> {
        self.flush()?;
        // One compaction ends before the next is scheduled: the second look sees the next.
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
            std::thread::sleep(Duration::from_millis(10));
        }
        match self.property(c"rocksdb.background-errors") {
            0 => Ok(()),
            errors => Err(failure(&format!("{errors} errors in the background; see the LOG file"))),
        }
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the database is open.
        self.api.tried(|error| unsafe { self.api.rocksdb_flush_wal(self.db, 1, error) })
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = MetricsMap::default();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("puts", self.puts.load(Relaxed));
        add("deletes", self.deletes.load(Relaxed));
        add("entries_estimate", self.property(c"rocksdb.estimate-num-keys"));
        add("disk_bytes", directory::bytes(&self.directory));
        Ok(metrics)
    }
}

/// What the interface wants of a burst of gets, kept for its allocations.
#[derive(Default)]
struct Burst {
    keys: Vec<*const c_char>,
    lengths: Vec<usize>,
    values: Vec<*mut Pinned>,
    errors: Vec<*mut c_char>,
}

/// What one thread uses.
struct Connection<'a> {
    store: &'a Store,
    read: *mut ReadOptions,
    write: *mut WriteOptions,
    batch: *mut Batch,
    burst: Burst,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let api = self.store.api;
        // SAFETY: the session made them and is gone.
        unsafe {
            api.rocksdb_writebatch_destroy(self.batch);
            api.rocksdb_writeoptions_destroy(self.write);
            api.rocksdb_readoptions_destroy(self.read);
        }
    }
}

impl Connection<'_> {
    fn get(&self, key: &[u8], sink: &mut dyn Sink) -> Result<()> {
        let api = self.store.api;
        // SAFETY: the key is alive during the call.
        let pinned = api.tried(|error| unsafe {
            let data = key.as_ptr().cast();
            api.rocksdb_get_pinned(self.store.db, self.read, data, key.len(), error)
        })?;
        self.tell(pinned, 0, sink);
        Ok(())
    }

    /// Hands a value, if there is one, to `sink` and gives it back to the library.
    fn tell(&self, pinned: *mut Pinned, index: usize, sink: &mut dyn Sink) {
        if pinned.is_null() {
            return;
        }
        let mut length = 0;
        // SAFETY: the value is pinned until it is destroyed, which is done once.
        unsafe {
            let value = self.store.api.rocksdb_pinnableslice_value(pinned, &mut length);
            sink.found(index, lent(value, length));
            self.store.api.rocksdb_pinnableslice_destroy(pinned);
        }
    }

    fn get_burst(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let (store, api) = (self.store, self.store.api);
        let burst = &mut self.burst;
        burst.keys.clear();
        burst.lengths.clear();
        burst.keys.extend(keys.iter().map(|key| key.as_ptr().cast::<c_char>()));
        burst.lengths.extend(keys.iter().map(|key| key.len()));
        burst.values.clear();
        burst.values.resize(keys.len(), null_mut());
        burst.errors.clear();
        burst.errors.resize(keys.len(), null_mut());
        // SAFETY: all four arrays are as long as the call is told, and the keys are alive.
        unsafe {
            api.rocksdb_batched_multi_get_cf(
                store.db,
                self.read,
                store.family,
                keys.len(),
                burst.keys.as_ptr(),
                burst.lengths.as_ptr(),
                burst.values.as_mut_ptr(),
                burst.errors.as_mut_ptr(),
                false,
            );
        }
        let mut outcome = Ok(());
        for (index, (value, error)) in self.burst.values.iter().zip(&self.burst.errors).enumerate()
        {
            outcome = outcome.and(api.check(*error));
            self.tell(*value, index, sink);
        }
        outcome
    }

    fn write(&mut self) -> Result<()> {
        let (store, api) = (self.store, self.store.api);
        // SAFETY: the options and the batch are this session's.
        let written = api.tried(|error| unsafe {
            api.rocksdb_write(store.db, self.write, self.batch, error);
        });
        // SAFETY: the write is done with the batch.
        unsafe { api.rocksdb_writebatch_clear(self.batch) };
        written
    }
}

impl Session for Connection<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        match keys {
            [key] => self.get(key, sink),
            keys => self.get_burst(keys, sink),
        }
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        for (key, value) in entries {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the batch copies the bytes, which are alive during the call.
            unsafe {
                self.store.api.rocksdb_writebatch_put(self.batch, k, key.len(), v, value.len());
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
                self.store.api.rocksdb_writebatch_delete(self.batch, data, key.len());
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
            let iterator = api.rocksdb_create_iterator(self.store.db, self.read);
            api.rocksdb_iter_seek(iterator, from.as_ptr().cast(), from.len());
            for _ in 0..count {
                if api.rocksdb_iter_valid(iterator) == 0 {
                    break;
                }
                let (mut key_length, mut value_length) = (0, 0);
                let key = api.rocksdb_iter_key(iterator, &mut key_length);
                let value = api.rocksdb_iter_value(iterator, &mut value_length);
                entry(lent(key, key_length), lent(value, value_length));
                api.rocksdb_iter_next(iterator);
            }
            let outcome = api.tried(|error| api.rocksdb_iter_get_error(iterator, error));
            api.rocksdb_iter_destroy(iterator);
            outcome
        }
    }
}

impl Api {
    /// Calls a function that reports an error through its last argument.
    fn tried<T>(&self, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
        let mut error = null_mut();
        let value = call(&mut error);
        self.check(error).map(|()| value)
    }

    /// What the error says, if there is one; it is given back to the library.
    fn check(&self, error: *mut c_char) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the library made the text, and it is freed once.
        let what = unsafe {
            let what = text(error);
            self.rocksdb_free(error.cast());
            what
        };
        Err(failure(&what))
    }
}

fn failure(what: &str) -> Error {
    Error::new(ErrorKind::Io, format!("RocksDB: {what}"))
}
