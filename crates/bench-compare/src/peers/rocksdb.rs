//! RocksDB, through its C interface.

mod api;
mod options;

use super::leveled::{Database, Get, ReadOptions};
use super::library::{c_path, lent, version_of_file};
use crate::peer::{About, Peer, Setting, Setup};
use api::{Api, ColumnFamily, Pinned};
use options::Knobs;
use silica::{Durability, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::time::Duration;

/// RocksDB with one kind of compression.
pub(crate) struct RocksDb {
    about: About,
    compression: options::Compression,
}

/// RocksDB without and with compression.
pub(crate) const PEERS: &[RocksDb] = &[
    RocksDb {
        about: About::embedded("rocksdb", "RocksDB, log-structured merge tree, direct I/O"),
        compression: options::Compression::None,
    },
    RocksDb {
        about: About::embedded("rocksdb:lz4", "RocksDB with LZ4 compression").variant(),
        compression: options::Compression::Lz4,
    },
];

impl Peer for RocksDb {
    fn about(&self) -> &About {
        &self.about
    }

    fn version(&self) -> Result<String> {
        Api::get()?;
        Ok(version_of_file("librocksdb.so").unwrap_or_else(|| "unknown".to_string()))
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        Knobs::new(setup, self.compression).settings()
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let (api, interface) = (Api::get()?, api::interface()?);
        let knobs = Knobs::new(setup, self.compression);
        let path = c_path(&setup.directory)?;
        let options = knobs.with_priority(api, interface, knobs.options(api))?;
        let mut family: *mut ColumnFamily = null_mut();
        // SAFETY: one name, one set of options and room for one handle, all alive during the call.
        let db = interface.tried(|error| unsafe {
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
        let database = Database::new(interface, db?, setup.directory.clone());
        Ok(Box::new(Store { api, family, database }))
    }
}

/// An open database.
struct Store {
    api: &'static Api,
    /// The only column family, which the burst of gets wants to be told.
    family: *mut ColumnFamily,
    database: Database,
}

// SAFETY: the column family's handle is only read until it is given back.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the store, so nobody uses the handle any more, and the database
        // is closed behind it.
        unsafe { self.api.rocksdb_column_family_handle_destroy(self.family) };
    }
}

impl Store {
    /// A property that is a number; 0 where this version does not know it.
    fn property(&self, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: the database is open, the name ends with a zero byte.
        let code = unsafe {
            self.api.rocksdb_property_int(self.database.pointer(), name.as_ptr(), &mut value)
        };
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

    /// Waits until it is not busy, looking again after each `pause`.
    fn wait(&self, pause: Duration) -> Result<()> {
        // One compaction ends before the next is scheduled: the second look sees the next.
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
            std::thread::sleep(pause);
        }
        match self.property(c"rocksdb.background-errors") {
            0 => Ok(()),
            errors => {
                let what = format!("{errors} errors in the background; see the LOG file");
                Err(self.database.interface().failure(&what))
            }
        }
    }

    fn flush(&self) -> Result<()> {
        let (api, db) = (self.api, self.database.pointer());
        // SAFETY: the options are alive during the call and nobody else's.
        unsafe {
            let options = api.rocksdb_flushoptions_create();
            api.rocksdb_flushoptions_set_wait(options, 1);
            let interface = self.database.interface();
            let flushed = interface.tried(|error| api.rocksdb_flush(db, options, error));
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
        let burst = Burst::of(self);
        Ok(Box::new(self.database.connect(durability, burst)))
    }

    fn settle(&self) -> Result<()> {
        self.flush()?;
        self.wait(Duration::from_millis(10))
    }

    fn catch_up(&self) -> Result<()> {
        self.wait(Duration::from_micros(100))
    }

    fn sync(&self) -> Result<()> {
        let (interface, db) = (self.database.interface(), self.database.pointer());
        // SAFETY: the database is open.
        interface.tried(|error| unsafe { self.api.rocksdb_flush_wal(db, 1, error) })
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = self.database.metrics();
        let entries = self.property(c"rocksdb.estimate-num-keys");
        metrics.0.insert("entries_estimate", entries as f64);
        Ok(metrics)
    }
}

/// What the interface wants of a burst of gets, kept for its allocations.
struct Burst<'a> {
    store: &'a Store,
    keys: Vec<*const c_char>,
    lengths: Vec<usize>,
    values: Vec<*mut Pinned>,
    errors: Vec<*mut c_char>,
}

impl<'a> Burst<'a> {
    fn of(store: &'a Store) -> Self {
        let (keys, lengths, values, errors) = Default::default();
        Burst { store, keys, lengths, values, errors }
    }

    fn get(&self, read: *const ReadOptions, key: &[u8], sink: &mut dyn Sink) -> Result<()> {
        let (api, database) = (self.store.api, &self.store.database);
        // SAFETY: the key is alive during the call.
        let pinned = database.interface().tried(|error| unsafe {
            let data = key.as_ptr().cast();
            api.rocksdb_get_pinned(database.pointer(), read, data, key.len(), error)
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

    fn get_burst(
        &mut self,
        read: *const ReadOptions,
        keys: &[&[u8]],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let (store, database) = (self.store, &self.store.database);
        self.keys.clear();
        self.lengths.clear();
        self.keys.extend(keys.iter().map(|key| key.as_ptr().cast::<c_char>()));
        self.lengths.extend(keys.iter().map(|key| key.len()));
        self.values.clear();
        self.values.resize(keys.len(), null_mut());
        self.errors.clear();
        self.errors.resize(keys.len(), null_mut());
        // SAFETY: all four arrays are as long as the call is told, and the keys are alive.
        unsafe {
            store.api.rocksdb_batched_multi_get_cf(
                database.pointer(),
                read,
                store.family,
                keys.len(),
                self.keys.as_ptr(),
                self.lengths.as_ptr(),
                self.values.as_mut_ptr(),
                self.errors.as_mut_ptr(),
                false,
            );
        }
        let mut outcome = Ok(());
        for (index, (value, error)) in self.values.iter().zip(&self.errors).enumerate() {
            outcome = outcome.and(database.interface().check(*error));
            self.tell(*value, index, sink);
        }
        outcome
    }
}

impl Get for Burst<'_> {
    fn get_many(
        &mut self,
        _: &Database,
        read: *const ReadOptions,
        keys: &[&[u8]],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        match keys {
            [key] => self.get(read, key, sink),
            keys => self.get_burst(read, keys, sink),
        }
    }
}
