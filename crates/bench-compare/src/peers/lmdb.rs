//! LMDB, through its C interface.

mod api;

use super::directory;
use super::library::{c_path, lent, text};
use super::writes::Writes;
use crate::peer::{About, Peer, Setting, Setup};
use api::{
    Api, Cursor, Dbi, Env, FIRST, MAP_FULL, NEXT, NOMEMINIT, NORDAHEAD, NOSYNC, NOTFOUND, NOTLS,
    RDONLY, SET_RANGE, Stat, Txn, Val,
};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::ffi::{c_int, c_uint};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

/// The map is address space and no memory, so it may be far too large.
const MAP_BYTES_MIN: u64 = 16 << 30;
const MAP_BYTES_MAX: u64 = 4 << 40;
/// Readers that the lock file has room for by default.
const READERS_MIN: c_uint = 126;

/// LMDB.
pub(crate) struct Lmdb;

/// LMDB, which has no variants.
pub(crate) const PEERS: &[Lmdb] = &[Lmdb];
const ABOUT: About = About::embedded("lmdb", "LMDB, memory-mapped B+ tree, copy on write");

fn map_bytes(setup: &Setup) -> u64 {
    let shape = setup.plan.shape;
    let entries = setup.plan.keys.saturating_add(setup.plan.operations);
    // Half-full pages, large values that take whole pages, and pages that old readers hold.
    let bytes = entries.saturating_mul(8 * (shape.key_bytes + shape.value_bytes + 64) as u64);
    bytes.clamp(MAP_BYTES_MIN, MAP_BYTES_MAX) & !0xFFFF
}

impl Peer for Lmdb {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn version(&self) -> Result<String> {
        let api = Api::get()?;
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the three places are alive during the call.
        unsafe { api.mdb_version(&mut major, &mut minor, &mut patch) };
        Ok(format!("{major}.{minor}.{patch}"))
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        let row = |name, value: String, why| Setting { name, value, why };
        vec![
            row(
                "mapsize",
                map_bytes(setup).to_string(),
                "address space only; what is cached of it is page cache, which is all the memory",
            ),
            row(
                "MDB_NORDAHEAD",
                "on".to_string(),
                "read-ahead is of no use to random reads of more than fits in memory",
            ),
            row(
                "MDB_NOMEMINIT",
                "on".to_string(),
                "pages need not be zeroed before they are filled",
            ),
            row(
                "MDB_WRITEMAP",
                "off".to_string(),
                "its manual: slower for data larger than memory, and wild pointers harm the data",
            ),
            row("MDB_NOTLS", "on".to_string(), "a session's reader slot is renewed for each burst"),
            row(
                "MDB_NOSYNC",
                "on for buffered writes, off for synced ones".to_string(),
                "the manual's way not to wait for the device at each commit",
            ),
        ]
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let api = Api::get()?;
        let mut env = null_mut();
        // SAFETY: the place is alive during the call.
        api.check(unsafe { api.mdb_env_create(&mut env) })?;
        let directory = setup.directory.clone();
        let writer = Mutex::new(Durability::Synced);
        let mut store = Store { api, env, dbi: 0, directory, writer, writes: Writes::default() };
        store.prepare(setup)?;
        Ok(Box::new(store))
    }
}

/// An environment with its one database.
struct Store {
    api: &'static Api,
    env: *mut Env,
    dbi: Dbi,
    directory: PathBuf,
    /// Held by the one who writes: what the environment's flags say about commits.
    writer: Mutex<Durability>,
    writes: Writes,
}

// SAFETY: an environment may be used by several threads at once; its flags are changed only by the
// one who holds `writer`.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the store, so there are no transactions any more.
        unsafe { self.api.mdb_env_close(self.env) };
    }
}

impl Store {
    fn prepare(&mut self, setup: &Setup) -> Result<()> {
        let (api, env) = (self.api, self.env);
        let path = c_path(&setup.directory)?;
        let readers = READERS_MIN.max(2 * setup.plan.threads as c_uint);
        let flags = NORDAHEAD | NOMEMINIT | NOTLS;
        // SAFETY: the environment was just made; the path is alive during the call.
        unsafe {
            api.check(api.mdb_env_set_mapsize(env, map_bytes(setup) as usize))?;
            api.check(api.mdb_env_set_maxreaders(env, readers))?;
            api.check(api.mdb_env_open(env, path.as_ptr(), flags, 0o644))?;
        }
        let mut dbi = 0;
        self.transaction(Durability::Synced, |txn| {
            // SAFETY: the transaction is live; no name means the main database.
            api.check(unsafe { api.mdb_dbi_open(txn, null(), 0, &mut dbi) })
        })?;
        self.dbi = dbi;
        Ok(())
    }

    /// Does `work` in a write transaction, whose commit is as durable as `durability` says.
    fn transaction(
        &self,
        durability: Durability,
        work: impl FnOnce(*mut Txn) -> Result<()>,
    ) -> Result<()> {
        let (api, env) = (self.api, self.env);
        // LMDB has a lock for writers of its own; this one is free whenever that one is.
        let mut current = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != durability {
            let on = c_int::from(durability == Durability::Buffered);
            // SAFETY: the environment is open, and the flags are ours while we hold the lock.
            api.check(unsafe { api.mdb_env_set_flags(env, NOSYNC, on) })?;
            *current = durability;
        }
        let mut txn = null_mut();
        // SAFETY: the environment is open and the place alive.
        api.check(unsafe { api.mdb_txn_begin(env, null_mut(), 0, &mut txn) })?;
        if let Err(error) = work(txn) {
            // SAFETY: the transaction is live and ends here.
            unsafe { api.mdb_txn_abort(txn) };
            return Err(error);
        }
        // SAFETY: the transaction is live and ends here.
        api.check(unsafe { api.mdb_txn_commit(txn) })
    }
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: false }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let api = self.api;
        let mut txn = null_mut();
        // SAFETY: the environment is open and the place alive.
        api.check(unsafe { api.mdb_txn_begin(self.env, null_mut(), RDONLY, &mut txn) })?;
        // Made first, so that the transaction ends where the cursor cannot be opened.
        let mut connection = Connection { store: self, durability, txn, cursor: null_mut() };
        // SAFETY: the transaction is live until it is reset.
        unsafe {
            api.check(api.mdb_cursor_open(txn, self.dbi, &mut connection.cursor))?;
            api.mdb_txn_reset(txn);
        }
        Ok(Box::new(connection))
    }

    /// LMDB does nothing in the background.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the environment is open.
        self.api.check(unsafe { self.api.mdb_env_sync(self.env, 1) })
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut stat = Stat::default();
        // SAFETY: the environment is open and the place alive.
        self.api.check(unsafe { self.api.mdb_env_stat(self.env, &mut stat) })?;
        let mut metrics = self.writes.metrics();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("entries_estimate", stat.entries as u64);
        add("index_bytes", stat.branch_pages as u64 * u64::from(stat.page_bytes));
        add("disk_bytes", directory::bytes(&self.directory));
        Ok(metrics)
    }
}

/// What one thread uses: a read transaction that is renewed for each burst, and its cursor.
struct Connection<'a> {
    store: &'a Store,
    durability: Durability,
    txn: *mut Txn,
    cursor: *mut Cursor,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let api = self.store.api;
        // SAFETY: the session made both and is gone. A cursor may be closed while its read
        // transaction is reset.
        unsafe {
            if !self.cursor.is_null() {
                api.mdb_cursor_close(self.cursor);
            }
            api.mdb_txn_abort(self.txn);
        }
    }
}

impl Connection<'_> {
    /// Does `work` with the read transaction live.
    fn reading(&mut self, work: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let api = self.store.api;
        // SAFETY: the transaction is reset between two bursts.
        api.check(unsafe { api.mdb_txn_renew(self.txn) })?;
        let outcome = work(self);
        // SAFETY: the transaction is live, and nobody holds what it lent any more.
        unsafe { api.mdb_txn_reset(self.txn) };
        outcome
    }
}

impl Session for Connection<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let (api, dbi) = (self.store.api, self.store.dbi);
        self.reading(|this| {
            for (index, key) in keys.iter().enumerate() {
                let (mut key, mut value) = (Val::of(key), Val::of(&[]));
                // SAFETY: the transaction is live, the key too.
                match unsafe { api.mdb_get(this.txn, dbi, &mut key, &mut value) } {
                    // SAFETY: the value is in the map, where it stays while the transaction lives.
                    0 => sink.found(index, unsafe { value.bytes() }),
                    NOTFOUND => {}
                    code => return api.check(code),
                }
            }
            Ok(())
        })
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let (store, api) = (self.store, self.store.api);
        store.transaction(self.durability, |txn| {
            entries.iter().try_for_each(|(key, value)| {
                let (mut key, mut value) = (Val::of(key), Val::of(value));
                // SAFETY: the transaction is live; the bytes are copied during the call.
                api.check(unsafe { api.mdb_put(txn, store.dbi, &mut key, &mut value, 0) })
            })
        })?;
        store.writes.count_puts(entries.len());
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let (store, api) = (self.store, self.store.api);
        store.transaction(self.durability, |txn| {
            keys.iter().try_for_each(|key| {
                let mut key = Val::of(key);
                // SAFETY: the transaction is live, the key too.
                match unsafe { api.mdb_del(txn, store.dbi, &mut key, null_mut()) } {
                    NOTFOUND => Ok(()),
                    code => api.check(code),
                }
            })
        })?;
        store.writes.count_deletes(keys.len());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let api = self.store.api;
        self.reading(|this| {
            // SAFETY: the transaction is live and the cursor was opened for this database.
            api.check(unsafe { api.mdb_cursor_renew(this.txn, this.cursor) })?;
            // The empty key is none that LMDB knows.
            let mut step = if from.is_empty() { FIRST } else { SET_RANGE };
            let (mut key, mut value) = (Val::of(from), Val::of(&[]));
            for _ in 0..count {
                // SAFETY: the cursor is renewed, the key alive.
                match unsafe { api.mdb_cursor_get(this.cursor, &mut key, &mut value, step) } {
                    // SAFETY: both are in the map, where they stay while the transaction lives.
                    0 => unsafe { entry(key.bytes(), value.bytes()) },
                    NOTFOUND => break,
                    code => return api.check(code),
                }
                step = NEXT;
            }
            Ok(())
        })
    }
}

impl Val {
    /// What LMDB reads of `bytes`; it does not write there.
    fn of(bytes: &[u8]) -> Self {
        Val { length: bytes.len(), data: bytes.as_ptr().cast_mut().cast() }
    }

    /// What LMDB lends.
    ///
    /// # Safety
    /// It stays as it is during `'a`.
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: the caller vouches for it.
        unsafe { lent(self.data.cast_const().cast(), self.length) }
    }
}

impl Api {
    fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text is the library's own.
        let what = unsafe { text(self.mdb_strerror(code)) };
        let kind = if code == MAP_FULL { ErrorKind::Full } else { ErrorKind::Io };
        Err(Error::new(kind, format!("LMDB: {what}")))
    }
}
