//! LevelDB, through its C interface.

mod api;
mod options;

use super::directory;
use super::leveled::{Database, Get, ReadOptions};
use super::library::{c_path, lent};
use crate::peer::{About, Peer, Setting, Setup};
use api::{Api, Cache, FilterPolicy};
use options::Knobs;
use silica::{Durability, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::ffi::CStr;
use std::time::Duration;

/// LevelDB with one kind of compression.
pub(crate) struct LevelDb {
    about: About,
    snappy: bool,
}

/// LevelDB without and with compression.
pub(crate) const PEERS: &[LevelDb] = &[
    LevelDb {
        about: About::embedded("leveldb", "LevelDB, log-structured merge tree"),
        snappy: false,
    },
    LevelDb {
        about: About::embedded("leveldb:snappy", "LevelDB with Snappy compression").variant(),
        snappy: true,
    },
];

impl Peer for LevelDb {
    fn about(&self) -> &About {
        &self.about
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
        let (api, interface) = (Api::get()?, api::interface()?);
        let path = c_path(&setup.directory)?;
        let (options, cache, filter) = Knobs::new(setup, self.snappy).options(api);
        let helpers = Helpers { api, cache, filter };
        // SAFETY: the options and the path are alive during the call.
        let db =
            interface.tried(|error| unsafe { api.leveldb_open(options, path.as_ptr(), error) });
        // SAFETY: the store keeps a copy of the options, which nothing else holds.
        unsafe { api.leveldb_options_destroy(options) };
        let database = Database::new(interface, db?, setup.directory.clone());
        Ok(Box::new(Store { api, database, _helpers: helpers }))
    }
}

/// What an open database uses and does not own; given back when this is dropped.
struct Helpers {
    api: &'static Api,
    cache: *mut Cache,
    filter: *mut FilterPolicy,
}

// SAFETY: the cache and the filter are only given back.
unsafe impl Send for Helpers {}
// SAFETY: as above.
unsafe impl Sync for Helpers {}

impl Drop for Helpers {
    fn drop(&mut self) {
        // SAFETY: the database was the only user of the cache and the filter, and it is closed.
        unsafe {
            self.api.leveldb_cache_destroy(self.cache);
            self.api.leveldb_filterpolicy_destroy(self.filter);
        }
    }
}

/// An open database; it is closed before what it uses is given back.
struct Store {
    api: &'static Api,
    database: Database,
    _helpers: Helpers,
}

impl Store {
    /// Writes the memtable to a table and waits for the compaction that is running.
    fn flush(&self) {
        let empty = c"".as_ptr();
        // SAFETY: the database is open. No table reaches down to the empty key, so that nothing
        // is compacted, but the request waits for its turn.
        unsafe { self.api.leveldb_compact_range(self.database.pointer(), empty, 0, empty, 0) };
    }

    fn property(&self, name: &CStr) -> String {
        // SAFETY: the database is open; the text is the caller's and given back once.
        unsafe {
            let value = self.api.leveldb_property_value(self.database.pointer(), name.as_ptr());
            self.database.interface().owned_text(value)
        }
    }

    /// Writes nothing, which syncs the log and tells errors of background work.
    fn sync_log(&self) -> Result<()> {
        self.database.connect(Durability::Synced, OneByOne(self.api)).write()
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
        Ok(Box::new(self.database.connect(durability, OneByOne(self.api))))
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

    /// A memtable that is being written to a table still has its log, beside the next one's.
    fn catch_up(&self) -> Result<()> {
        while directory::files(self.database.directory(), "log") > 1
            || needs_compaction(&self.property(c"leveldb.sstables"))
        {
            self.sync_log()?;
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// The log that a full memtable leaves behind is not synced by a later synced write, so all
    /// goes to tables, which are.
    fn sync(&self) -> Result<()> {
        self.flush();
        self.sync_log()
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Ok(self.database.metrics())
    }
}

/// LevelDB has no bursts of gets.
struct OneByOne(&'static Api);

impl Get for OneByOne {
    fn get_many(
        &mut self,
        database: &Database,
        read: *const ReadOptions,
        keys: &[&[u8]],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let interface = database.interface();
        for (index, key) in keys.iter().enumerate() {
            let mut length = 0;
            // SAFETY: the key is alive during the call.
            let value = interface.tried(|error| unsafe {
                let data = key.as_ptr().cast();
                self.0.leveldb_get(database.pointer(), read, data, key.len(), &mut length, error)
            })?;
            if !value.is_null() {
                // SAFETY: the value is a copy of that length, and given back once.
                unsafe {
                    sink.found(index, lent(value, length));
                    interface.free(value);
                }
            }
        }
        Ok(())
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
