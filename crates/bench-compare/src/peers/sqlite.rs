//! SQLite, through its C interface, as a store of keys and values.

mod api;

use super::directory;
use super::library::c_path;
use super::writes::Writes;
use crate::peer::{About, Peer, Setting, Setup};
use api::Parameter::{Bytes, Count};
use api::{Api, Connection, Parameter, Statement};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As much as SQLite is built to take.
const MMAP_BYTES: u64 = 0x7FFF_0000;
const PAGE_BYTES_MIN: u64 = 4096;
const PAGE_BYTES_MAX: u64 = 16384;
const TABLE: &str = "CREATE TABLE IF NOT EXISTS entries(
    key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";

/// A gigabyte of the smallest pages.
const WAL_PAGES_TO_FILL: u64 = 1 << 18;

/// SQLite.
pub(crate) struct Sqlite;

/// SQLite, which has no variants.
pub(crate) const PEERS: &[Sqlite] = &[Sqlite];
const ABOUT: About =
    About::embedded("sqlite", "SQLite, B tree with a write-ahead log, prepared SQL");

/// What differs from SQLite's defaults.
struct Knobs {
    page_bytes: u64,
    /// Of each connection.
    cache_bytes: u64,
    wal_pages: u64,
    /// Of the file, so much is read through a mapping.
    mapped_bytes: u64,
    is_filling: bool,
}

impl Knobs {
    fn new(setup: &Setup) -> Self {
        let shape = setup.plan.shape;
        // The key, the value and the header of the record.
        let row_bytes = (shape.key_bytes + shape.value_bytes + 16) as u64;
        // Rows above this leave a page of a table without row numbers for pages of their own.
        let fits = |page: u64| row_bytes <= (page - 12) * 64 / 255 - 23;
        let mut page_bytes = PAGE_BYTES_MIN;
        while page_bytes < PAGE_BYTES_MAX && !fits(page_bytes) {
            page_bytes *= 2;
        }
        Knobs {
            page_bytes,
            cache_bytes: setup.memory_bytes / 4 / (setup.plan.threads as u64 + 1),
            wal_pages: (setup.memory_bytes / 8 / page_bytes).clamp(1000, 65536),
            mapped_bytes: if fits_memory(setup) { MMAP_BYTES } else { 0 },
            is_filling: false,
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let row = |name, value: String, why| Setting { name, value, why };
        vec![
            row(
                "table",
                "WITHOUT ROWID, BLOB key and value".to_string(),
                "one tree with the rows in it, in place of an index and a table",
            ),
            row(
                "page_size",
                self.page_bytes.to_string(),
                "4096, or the next size that keeps a row within its page, at most 16384",
            ),
            row("journal_mode", "WAL".to_string(), "readers and a writer at the same time"),
            row(
                "synchronous",
                "NORMAL for buffered writes, FULL for synced ones".to_string(),
                "NORMAL syncs only at checkpoints, FULL at each commit too",
            ),
            row(
                "wal_autocheckpoint",
                format!("{} pages", self.wal_pages),
                "an eighth of the memory, so that pages written often go to the file once",
            ),
            row(
                "mmap_size",
                self.mapped_bytes.to_string(),
                "data that fit into the memory are read without a copy; of larger data a mapping \
                 would read what lies around each page, too",
            ),
            row(
                "cache_size",
                format!("{} KiB for each connection", self.cache_bytes / 1024),
                "a quarter of the memory; the page cache has the rest",
            ),
            row("secure_delete", "off".to_string(), "Debian's default overwrites what is deleted"),
            row(
                "statements",
                "prepared once, a connection for each session, writers take turns".to_string(),
                "a writer who finds another at work would sleep before it tries again",
            ),
        ]
    }
}

impl Peer for Sqlite {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn version(&self) -> Result<String> {
        Ok(Api::get()?.version())
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        Knobs::new(setup).settings()
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        open(setup, Knobs::new(setup))
    }

    /// Pages go to the file once, in the end, and nothing waits for the device before.
    fn open_to_fill(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        open(setup, Knobs { wal_pages: WAL_PAGES_TO_FILL, is_filling: true, ..Knobs::new(setup) })
    }
}

fn open(setup: &Setup, knobs: Knobs) -> Result<Box<dyn Target>> {
    let api = Api::get()?;
    let file = c_path(&setup.directory.join("entries.sqlite"))?;
    let own = connect(api, &file, &knobs, Durability::Synced)?;
    own.run(TABLE)?;
    Ok(Box::new(Store {
        api,
        file,
        knobs,
        own: Mutex::new(own),
        writer: Mutex::new(()),
        directory: setup.directory.clone(),
        writes: Writes::default(),
    }))
}

/// True where the data are smaller than half of the memory: pages of a tree are not full.
fn fits_memory(setup: &Setup) -> bool {
    let plan = &setup.plan;
    let value = plan.workload.sizes.mean_bytes(plan.shape.value_bytes);
    let live = plan.keys as f64 * (plan.shape.key_bytes as f64 + value);
    2.0 * live < setup.memory_bytes as f64
}

/// A new connection, set up.
fn connect(
    api: &'static Api,
    file: &CString,
    knobs: &Knobs,
    durability: Durability,
) -> Result<Connection> {
    let connection = Connection::open(api, file)?;
    let synchronous = match durability {
        _ if knobs.is_filling => "OFF",
        Durability::Synced => "FULL",
        Durability::Buffered => "NORMAL",
    };
    let Knobs { page_bytes, cache_bytes, wal_pages, mapped_bytes, .. } = knobs;
    connection.run(&format!(
        "PRAGMA page_size = {page_bytes};
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = {synchronous};
        PRAGMA wal_autocheckpoint = {wal_pages};
        PRAGMA mmap_size = {mapped_bytes};
        PRAGMA cache_size = -{};
        PRAGMA secure_delete = OFF",
        cache_bytes / 1024
    ))?;
    Ok(connection)
}

/// An open database.
struct Store {
    api: &'static Api,
    file: CString,
    knobs: Knobs,
    /// For what is nobody's session.
    own: Mutex<Connection>,
    /// Held by the one who writes.
    writer: Mutex<()>,
    directory: PathBuf,
    writes: Writes,
}

impl Store {
    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings all of the log to the file, which is synced.
    fn checkpoint(&self, kind: &str) -> Result<()> {
        let _writing = self.writing();
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_busy = false;
        let mut statement = own.prepare(&format!("PRAGMA wal_checkpoint({kind})"))?;
        statement.run(&[], |row| is_busy = row.number(0) != 0)?;
        if is_busy {
            let message = "SQLite: a reader keeps the log from its end; close its session";
            return Err(Error::new(ErrorKind::Locked, message));
        }
        Ok(())
    }
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: false }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let connection = connect(self.api, &self.file, &self.knobs, durability)?;
        Ok(Box::new(SqlSession {
            store: self,
            get: connection.prepare("SELECT value FROM entries WHERE key = ?1")?,
            put: connection.prepare(
                "INSERT INTO entries VALUES (?1, ?2)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            )?,
            delete: connection.prepare("DELETE FROM entries WHERE key = ?1")?,
            scan: connection
                .prepare("SELECT key, value FROM entries WHERE key >= ?1 ORDER BY key LIMIT ?2")?,
            read: connection.prepare("BEGIN")?,
            write: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            rollback: connection.prepare("ROLLBACK")?,
            _connection: connection,
        }))
    }

    /// SQLite does nothing in the background; the log is what is left to do.
    fn settle(&self) -> Result<()> {
        self.checkpoint("TRUNCATE")
    }

    fn sync(&self) -> Result<()> {
        self.checkpoint("FULL")
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = self.writes.metrics();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("disk_bytes", directory::bytes(&self.directory));
        Ok(metrics)
    }
}

/// What one thread uses; the statements go before their connection.
struct SqlSession<'a> {
    store: &'a Store,
    get: Statement,
    put: Statement,
    delete: Statement,
    scan: Statement,
    read: Statement,
    write: Statement,
    commit: Statement,
    rollback: Statement,
    _connection: Connection,
}

impl SqlSession<'_> {
    /// Does `work` in one transaction that `begin` starts, or in that which a single statement
    /// makes for itself.
    fn transaction(
        &mut self,
        begin: fn(&mut Self) -> &mut Statement,
        is_single: bool,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if is_single {
            return work(self);
        }
        begin(self).run_plain()?;
        let outcome = work(self).and_then(|()| self.commit.run_plain());
        if outcome.is_err() {
            // The first error is the one to tell; some have rolled back by themselves.
            let _ = self.rollback.run_plain();
        }
        outcome
    }

    /// Runs `statement` with each of `rows` in one write transaction.
    fn write_each<'p, const N: usize>(
        &mut self,
        statement: fn(&mut Self) -> &mut Statement,
        rows: impl ExactSizeIterator<Item = [Parameter<'p>; N]>,
    ) -> Result<()> {
        let store = self.store;
        let _writing = store.writing();
        self.transaction(
            |this| &mut this.write,
            rows.len() == 1,
            |this| {
                for row in rows {
                    statement(this).run(&row, |_| {})?;
                }
                Ok(())
            },
        )
    }
}

impl Session for SqlSession<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        self.transaction(
            |this| &mut this.read,
            keys.len() == 1,
            |this| {
                for (index, key) in keys.iter().enumerate() {
                    this.get.run(&[Bytes(key)], |row| sink.found(index, row.bytes(0)))?;
                }
                Ok(())
            },
        )
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let rows = entries.iter().map(|(key, value)| [Bytes(key), Bytes(value)]);
        self.write_each(|this| &mut this.put, rows)?;
        self.store.writes.count_puts(entries.len());
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.write_each(|this| &mut this.delete, keys.iter().map(|key| [Bytes(key)]))?;
        self.store.writes.count_deletes(keys.len());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.scan.run(&[Bytes(from), Count(count)], |row| entry(row.bytes(0), row.bytes(1)))
    }
}
