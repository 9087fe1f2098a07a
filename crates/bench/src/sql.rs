//! A table of keys and values under SQL: what the papers on SQLite measure, on our storage and on
//! SQLite's own, in one build.
//!
//! Statements are prepared anew each time, as programs do that know of nothing else, or once.

use crate::target::{Abilities, Session, Sink, Target};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_sql::sql::{Sql, SqlError, Statement, ValueRef};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS entries (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";
const GET: &str = "SELECT v FROM entries WHERE k = ?";
const PUT: &str = "INSERT OR REPLACE INTO entries VALUES (?, ?)";
const DELETE: &str = "DELETE FROM entries WHERE k = ?";
const SCAN: &str = "SELECT k, v FROM entries WHERE k >= ? ORDER BY k LIMIT ?";
/// Longer than any checkpoint or commit that one waits for.
const BUSY_SECONDS: u64 = 60;

/// How a table is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlOptions {
    /// `silica` or `sqlite`.
    pub storage: &'static str,
    /// The store's memory number, and SQLite's `cache_size`.
    pub memory_bytes: u64,
    /// Of that, what kept results take; `None` for the default.
    pub results_bytes: Option<u64>,
    /// Statements are prepared once for each session.
    pub is_prepared: bool,
}

/// The table in an open database.
pub struct SqlStore {
    directory: PathBuf,
    options: SqlOptions,
    /// For what is nobody's session, and keeps the database open.
    own: Mutex<Sql>,
    puts: AtomicU64,
    deletes: AtomicU64,
    gets: AtomicU64,
}

fn failed(error: SqlError) -> Error {
    let kind = match error.code & 0xff {
        5 | 6 => ErrorKind::Locked,
        8 => ErrorKind::ReadOnly,
        11 | 26 => ErrorKind::Corruption,
        13 => ErrorKind::Full,
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.to_string())
}

impl SqlStore {
    /// Opens the table in `directory`, and makes what is not there.
    ///
    /// # Errors
    /// What the database says.
    pub fn open(directory: &Path, options: SqlOptions) -> Result<Self> {
        std::fs::create_dir_all(directory)
            .map_err(|e| Error::io(format!("creating {}", directory.display()), e))?;
        let mut own = connect(directory, options, Durability::Buffered)?;
        own.run(TABLE).map_err(failed)?;
        Ok(SqlStore {
            directory: directory.to_path_buf(),
            options,
            own: Mutex::new(own),
            puts: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            gets: AtomicU64::new(0),
        })
    }

    /// The version of SQLite whose parser and machine it is.
    pub fn sqlite_version() -> String {
        let version = Sql::open(":memory:").and_then(|mut sql| {
            let rows = sql.query("SELECT sqlite_version()", &[])?;
            Ok(String::from_utf8_lossy(bytes(rows[0][0].as_ref())).into_owned())
        });
        version.unwrap_or_default()
    }

    fn own(&self) -> MutexGuard<'_, Sql> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rows there are.
    ///
    /// # Errors
    /// What the database says.
    pub fn rows(&self) -> Result<u64> {
        let rows = self.own().query("SELECT count(*) FROM entries", &[]).map_err(failed)?;
        match rows[0][0].as_ref() {
            ValueRef::Integer(count) => Ok(count as u64),
            _ => Ok(0),
        }
    }
}

fn connect(directory: &Path, options: SqlOptions, durability: Durability) -> Result<Sql> {
    let SqlOptions { storage, memory_bytes, .. } = options;
    let path = directory.join("entries.db").display().to_string();
    // What a URI gives a meaning of its own.
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let mut uri = format!("file:{path}?storage={storage}&memory_bytes={memory_bytes}");
    if let Some(bytes) = options.results_bytes {
        uri += &format!("&results_bytes={bytes}");
    }
    let mut sql = Sql::open(uri).map_err(failed)?;
    sql.set_busy_timeout(Duration::from_secs(BUSY_SECONDS));
    let synchronous = match durability {
        Durability::Buffered => "NORMAL",
        Durability::Synced => "FULL",
    };
    let pragmas = format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; \
         PRAGMA cache_size = -{}",
        memory_bytes >> 10
    );
    sql.run(&pragmas).map_err(failed)?;
    Ok(sql)
}

impl Target for SqlStore {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: false }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let sql = connect(&self.directory, self.options, durability)?;
        Ok(Box::new(SqlSession { store: self, sql }))
    }

    fn settle(&self) -> Result<()> {
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        self.own().query("PRAGMA wal_checkpoint(TRUNCATE)", &[]).map_err(failed).map(drop)
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = MetricsMap::default();
        for (name, count) in
            [("gets", &self.gets), ("puts", &self.puts), ("deletes", &self.deletes)]
        {
            metrics.0.insert(name, count.load(Ordering::Relaxed) as f64);
        }
        Ok(metrics)
    }
}

/// What one thread uses.
struct SqlSession<'s> {
    store: &'s SqlStore,
    sql: Sql,
}

fn run<'v>(
    statement: &mut Statement<'_>,
    values: impl IntoIterator<Item = ValueRef<'v>>,
    mut row: impl FnMut(&Statement<'_>),
) -> Result<(), SqlError> {
    statement.reset();
    for (at, value) in values.into_iter().enumerate() {
        statement.bind_one(at + 1, value)?;
    }
    while statement.step()? {
        row(statement);
    }
    Ok(())
}

fn bytes(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => b"",
    }
}

impl SqlSession<'_> {
    /// Runs `text` with each of `rows`, in one transaction if there are several.
    fn each<'v, const N: usize>(
        &self,
        text: &str,
        begin: &str,
        rows: impl ExactSizeIterator<Item = [ValueRef<'v>; N]>,
        mut row: impl FnMut(usize, &Statement<'_>),
    ) -> Result<(), SqlError> {
        let is_one = rows.len() == 1;
        let plain = |text: &str| run(&mut self.sql.prepare(text)?, [], |_| {});
        if !is_one {
            plain(begin)?;
        }
        let work = || -> Result<(), SqlError> {
            let mut kept = match self.store.options.is_prepared {
                true => Some(self.sql.prepare(text)?),
                false => None,
            };
            for (index, values) in rows.enumerate() {
                match &mut kept {
                    Some(statement) => run(statement, values, |found| row(index, found))?,
                    None => {
                        run(&mut self.sql.prepare(text)?, values, |found| row(index, found))?;
                    }
                }
            }
            Ok(())
        };
        let outcome = work();
        match (&outcome, is_one) {
            (_, true) => outcome,
            (Ok(()), false) => plain("COMMIT"),
            (Err(_), false) => {
                // The first error is the one to tell; some have rolled back by themselves.
                let _ = plain("ROLLBACK");
                outcome
            }
        }
    }
}

impl Session for SqlSession<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        self.store.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let rows = keys.iter().map(|key| [ValueRef::Blob(key)]);
        let found = |index: usize, row: &Statement<'_>| sink.found(index, bytes(row.value(0)));
        self.each(GET, "BEGIN", rows, found).map_err(failed)
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.store.puts.fetch_add(entries.len() as u64, Ordering::Relaxed);
        let rows = entries.iter().map(|(key, value)| [ValueRef::Blob(key), ValueRef::Blob(value)]);
        self.each(PUT, "BEGIN IMMEDIATE", rows, |_, _| {}).map_err(failed)
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.store.deletes.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let rows = keys.iter().map(|key| [ValueRef::Blob(key)]);
        self.each(DELETE, "BEGIN IMMEDIATE", rows, |_, _| {}).map_err(failed)
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let values = [ValueRef::Blob(from), ValueRef::Integer(count)];
        let found = |_, row: &Statement<'_>| entry(bytes(row.value(0)), bytes(row.value(1)));
        self.each(SCAN, "BEGIN", [values].into_iter(), found).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn every_sqlitekv_workload_runs_on_both_storages_to_the_same_answers() {
        for name in ["sqlitekv-update-heavy", "sqlitekv-insert-random", "sqlitekv-delete", "ycsb-e"]
        {
            let mut hashes = Vec::new();
            for storage in ["silica", "sqlite"] {
                for is_prepared in [false, true] {
                    let scratch = std::env::temp_dir().join(format!(
                        "silica-bench-sql-{}-{name}-{storage}-{is_prepared}",
                        std::process::id()
                    ));
                    let options = SqlOptions {
                        storage,
                        memory_bytes: 16 << 20,
                        results_bytes: None,
                        is_prepared,
                    };
                    let store = SqlStore::open(&scratch, options).expect("opens");
                    let plan =
                        Plan { keys: 300, operations: 300, ..Plan::new(name).expect("a plan") };
                    if !plan.workload.is_fill() {
                        crate::fill(&plan, &store, &mut |_, _| {}).expect("filled");
                        assert_eq!(store.rows().expect("counted"), 300);
                    }
                    let run = crate::drive(&plan, &store, name, &mut |_, _| {}).expect("driven");
                    hashes.push(run.tally.result_hash());
                    drop(store);
                    std::fs::remove_dir_all(scratch).ok();
                }
            }
            assert!(hashes.windows(2).all(|two| two[0] == two[1]), "{name}: {hashes:?}");
        }
    }
}
