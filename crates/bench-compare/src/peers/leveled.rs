//! What LevelDB and RocksDB, which began as a copy of it, have in common: C interfaces whose
//! functions differ in their prefix only, and so one session over both.

use super::directory;
use super::library::{Source, c_calls, lent, text};
use super::writes::Writes;
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Session, Sink};
use std::ffi::{c_char, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// `leveldb_t`, `rocksdb_t`.
pub(super) enum Db {}
/// `…_readoptions_t`.
pub(super) enum ReadOptions {}
/// `…_writeoptions_t`.
pub(super) enum WriteOptions {}
/// `…_writebatch_t`.
pub(super) enum Batch {}
/// `…_iterator_t`.
pub(super) enum Iter {}

c_calls! {
    /// The functions that both have, without their prefix.
    struct Calls;

    fn close(db: *mut Db);
    fn free(memory: *mut c_void);

    fn write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut Batch,
        error: *mut *mut c_char,
    );
    fn writebatch_create() -> *mut Batch;
    fn writebatch_destroy(batch: *mut Batch);
    fn writebatch_clear(batch: *mut Batch);
    fn writebatch_put(
        batch: *mut Batch,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
    );
    fn writebatch_delete(batch: *mut Batch, key: *const c_char, key_length: usize);

    fn create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iter;
    fn iter_destroy(iterator: *mut Iter);
    fn iter_seek(iterator: *mut Iter, key: *const c_char, key_length: usize);
    fn iter_valid(iterator: *const Iter) -> c_uchar;
    fn iter_next(iterator: *mut Iter);
    fn iter_key(iterator: *const Iter, length: *mut usize) -> *const c_char;
    fn iter_value(iterator: *const Iter, length: *mut usize) -> *const c_char;
    fn iter_get_error(iterator: *const Iter, error: *mut *mut c_char);

    fn readoptions_create() -> *mut ReadOptions;
    fn readoptions_destroy(options: *mut ReadOptions);
    fn writeoptions_create() -> *mut WriteOptions;
    fn writeoptions_destroy(options: *mut WriteOptions);
    fn writeoptions_set_sync(options: *mut WriteOptions, sync: c_uchar);
}

/// The common functions of one of the libraries.
pub(super) struct Interface {
    name: &'static str,
    calls: Calls,
}

/// Where an [`Interface`] is kept once it is opened.
pub(super) type Opened = OnceLock<Result<Interface>>;

impl Interface {
    /// The functions of `source`, whose names have `prefix`; opened once.
    pub(super) fn get(
        opened: &'static Opened,
        source: &'static Source,
        prefix: &str,
    ) -> Result<&'static Self> {
        let load = || Ok(Interface { name: source.name, calls: Calls::load(source, prefix)? });
        opened.get_or_init(load).as_ref().map_err(Error::duplicate)
    }

    /// Calls a function that reports an error through its last argument.
    pub(super) fn tried<T>(&self, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
        let mut error = null_mut();
        let value = call(&mut error);
        self.check(error).map(|()| value)
    }

    /// What the error says, if there is one; it is given back to the library.
    pub(super) fn check(&self, error: *mut c_char) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the library made the text, which is given back once.
        let what = unsafe { self.owned_text(error) };
        Err(self.failure(&what))
    }

    /// A copy of a text of the library's, which gets its own back; nothing for a null pointer.
    ///
    /// # Safety
    /// `from` is null or a string that the library made for its caller, who gives it back here.
    pub(super) unsafe fn owned_text(&self, from: *mut c_char) -> String {
        // SAFETY: the caller vouches for the string.
        unsafe {
            let owned = text(from);
            self.free(from);
            owned
        }
    }

    /// Gives back memory that the library made for its caller.
    ///
    /// # Safety
    /// `memory` is null or such memory, and nobody uses it any more.
    pub(super) unsafe fn free(&self, memory: *mut c_char) {
        // SAFETY: the caller vouches for the memory.
        unsafe { self.calls.free(memory.cast()) }
    }

    pub(super) fn failure(&self, what: &str) -> Error {
        Error::new(ErrorKind::Io, format!("{}: {what}", self.name))
    }
}

/// An open database, or one that could not be opened, and what was done to it; closed when this is
/// dropped.
pub(super) struct Database {
    interface: &'static Interface,
    db: *mut Db,
    directory: PathBuf,
    writes: Writes,
}

// SAFETY: the headers say that a database may be used by several threads at once.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // SAFETY: sessions borrow the database, so nobody uses it any more.
            unsafe { self.interface.calls.close(self.db) };
        }
    }
}

impl Database {
    /// Takes what was opened in `directory`; null where that failed.
    pub(super) fn new(interface: &'static Interface, db: *mut Db, directory: PathBuf) -> Self {
        Database { interface, db, directory, writes: Writes::default() }
    }

    pub(super) fn interface(&self) -> &'static Interface {
        self.interface
    }

    pub(super) fn pointer(&self) -> *mut Db {
        self.db
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What sessions did, and the bytes of the directory.
    pub(super) fn metrics(&self) -> MetricsMap {
        let mut metrics = self.writes.metrics();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("disk_bytes", directory::bytes(&self.directory));
        metrics
    }

    /// A session that gets by `get`.
    pub(super) fn connect<G: Get>(&self, durability: Durability, get: G) -> Connection<'_, G> {
        let calls = &self.interface.calls;
        // SAFETY: these make new objects; the session owns them.
        let (read, write, batch) = unsafe {
            let write = calls.writeoptions_create();
            calls.writeoptions_set_sync(write, u8::from(durability == Durability::Synced));
            (calls.readoptions_create(), write, calls.writebatch_create())
        };
        Connection { database: self, read, write, batch, get }
    }
}

/// How one of the libraries gets, in which they differ.
pub(super) trait Get {
    /// Looks up `keys` and tells `sink` of those found.
    fn get_many(
        &mut self,
        database: &Database,
        read: *const ReadOptions,
        keys: &[&[u8]],
        sink: &mut dyn Sink,
    ) -> Result<()>;
}

/// What one thread uses.
pub(super) struct Connection<'a, G> {
    database: &'a Database,
    read: *mut ReadOptions,
    write: *mut WriteOptions,
    batch: *mut Batch,
    get: G,
}

impl<G> Drop for Connection<'_, G> {
    fn drop(&mut self) {
        let calls = &self.database.interface.calls;
        // SAFETY: the session made them and is gone.
        unsafe {
            calls.writebatch_destroy(self.batch);
            calls.writeoptions_destroy(self.write);
            calls.readoptions_destroy(self.read);
        }
    }
}

impl<G> Connection<'_, G> {
    /// Writes the batch and empties it.
    pub(super) fn write(&mut self) -> Result<()> {
        let (database, interface) = (self.database, self.database.interface);
        // SAFETY: the options and the batch are this session's.
        let written = interface.tried(|error| unsafe {
            interface.calls.write(database.db, self.write, self.batch, error);
        });
        // SAFETY: the write is done with the batch.
        unsafe { interface.calls.writebatch_clear(self.batch) };
        written
    }
}

impl<G: Get> Session for Connection<'_, G> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        self.get.get_many(self.database, self.read, keys, sink)
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let calls = &self.database.interface.calls;
        for (key, value) in entries {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the batch copies the bytes, which are alive during the call.
            unsafe { calls.writebatch_put(self.batch, k, key.len(), v, value.len()) };
        }
        self.write()?;
        self.database.writes.count_puts(entries.len());
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let calls = &self.database.interface.calls;
        for key in keys {
            // SAFETY: the batch copies the bytes, which are alive during the call.
            unsafe { calls.writebatch_delete(self.batch, key.as_ptr().cast(), key.len()) };
        }
        self.write()?;
        self.database.writes.count_deletes(keys.len());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let (interface, calls) = (self.database.interface, &self.database.interface.calls);
        // SAFETY: the iterator is valid where its key and value are asked for, they are not used
        // after it moves, and it is destroyed once.
        unsafe {
            let iterator = calls.create_iterator(self.database.db, self.read);
            calls.iter_seek(iterator, from.as_ptr().cast(), from.len());
            for _ in 0..count {
                if calls.iter_valid(iterator) == 0 {
                    break;
                }
                let (mut key_length, mut value_length) = (0, 0);
                let key = calls.iter_key(iterator, &mut key_length);
                let value = calls.iter_value(iterator, &mut value_length);
                entry(lent(key, key_length), lent(value, value_length));
                calls.iter_next(iterator);
            }
            let outcome = interface.tried(|error| calls.iter_get_error(iterator, error));
            calls.iter_destroy(iterator);
            outcome
        }
    }
}
