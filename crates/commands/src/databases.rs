//! Where the numbered databases of `SELECT` come from.

use crate::jobs::{self, BackupJob, Tell};
use silica::engine::{Engine, Error, ErrorKind, Result};
use silica::tune::recommend::Why;
use silica::{HeldClock, RecordBuffer, RecordOptions};
use silica_sql::sql::Sql;
use std::sync::Arc;

/// Databases that `SELECT` may reach at most.
pub const DATABASES_MAX: u32 = 16;

/// Where the numbered databases of `SELECT` come from.
pub trait Databases: Send + Sync {
    /// Opens database `index`, creating it where it does not exist. Called at most once for
    /// each index, on a thread that may wait.
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>>;

    /// Databases that are there already; they are opened at the start.
    fn listed(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Moves database `index` to another engine while it is served; `tell` is told how far it is,
    /// and its error ends it. What was done, in words.
    fn migrate(
        &self,
        index: u32,
        engine: &str,
        options: &[(&str, &str)],
        tell: &mut dyn FnMut(String) -> Result<()>,
    ) -> Result<String> {
        let _ = (index, engine, options, tell);
        Err(Error::new(ErrorKind::Unsupported, "databases without a directory keep their engine"))
    }

    /// Refuses a migration that would let database `index` forget what it keeps.
    fn check_migration(&self, index: u32, engine: &str, options: &[(&str, &str)]) -> Result<()> {
        let _ = (index, engine, options);
        Ok(())
    }

    /// Records what database `index` is asked.
    fn record(&self, index: u32, options: &RecordOptions) -> Result<RecordBuffer> {
        let _ = (index, options);
        Err(Error::new(ErrorKind::Unsupported, "databases without a directory are not recorded"))
    }

    /// What database `index` is asked, as text (docs/formats/sketch.md).
    fn workload(&self, index: u32) -> Result<String> {
        let _ = index;
        Err(Error::new(ErrorKind::Unsupported, "databases without a directory have no sketch"))
    }

    /// Writes a backup of all databases; what was done, in words. `tell` is told how far it is, and
    /// its error ends it.
    fn backup(&self, job: &BackupJob, tell: &mut Tell<'_>) -> Result<String> {
        let _ = (job, tell);
        let message = "databases without a directory have no files to back up; `silica export \
                       --addr` writes what they hold";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Checks all databases; what was done, in words.
    fn verify(&self, tell: &mut Tell<'_>) -> Result<String> {
        let all = self.listed();
        for (done, index) in all.iter().enumerate() {
            tell(format!("{done} of {} databases", all.len()))?;
            self.open(*index)?.verify()?;
        }
        Ok(format!("{} databases are well", all.len()))
    }

    /// Does all background work of all databases, and rewrites what is worth it; what was done, in
    /// words.
    fn compact(&self, tell: &mut Tell<'_>) -> Result<String> {
        let all = self.listed();
        for (done, index) in all.iter().enumerate() {
            tell(format!("{done} of {} databases", all.len()))?;
            jobs::compact(&self.open(*index)?, tell)?;
        }
        Ok(format!("{} databases are compact", all.len()))
    }

    /// The database of SQL called `name`; one that is missing is made if it `may_create`.
    fn sql(&self, name: &str, may_create: bool) -> Result<Option<Arc<silica_sql::Database>>> {
        let _ = (name, may_create);
        let message = "SQL needs a store in a directory, which this server has not; serve one";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The engine of the keyspace `name`, which is no numbered database; one that is missing is
    /// made if it `may_create`.
    fn named(&self, name: &str, may_create: bool) -> Result<Option<Arc<dyn Engine>>> {
        let _ = (name, may_create);
        Ok(None)
    }

    /// The names of keyspaces.
    fn names(&self) -> Result<Vec<String>> {
        Ok(self.listed().into_iter().map(keyspace_name).collect())
    }

    /// The clock by which entries expire, if it can be held back: for a replica.
    fn clock(&self) -> Option<Arc<HeldClock>> {
        None
    }

    /// True where database `index` may hold something already; `FLUSHALL` opens no others.
    fn exists(&self, index: u32) -> bool {
        let _ = index;
        true
    }

    /// Lets `index` stand for what `other` stood for, and the reverse, after a restart too, if the
    /// databases outlive it: both or neither. Called while nobody uses the databases.
    fn swap(&self, index: u32, other: u32) -> Result<()> {
        let _ = (index, other);
        Err(Error::new(ErrorKind::Unsupported, "the databases of this server cannot be swapped"))
    }

    /// Begins a generation of the databases, beside the one that is served; `None` if all of them
    /// are in memory, and two have no room.
    fn begin_generation(&self) -> Result<Option<Box<dyn Generation + '_>>> {
        Ok(None)
    }

    /// What a server before this one has left of its stream of replication, once, if nobody has
    /// written to the databases since.
    fn take_replication_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Keeps what is said of the stream of replication for the server that comes next; false if
    /// there is no place for it. Nothing is written to the databases any more.
    fn leave_replication_state(&self, bytes: &[u8]) -> Result<bool> {
        let _ = bytes;
        Ok(false)
    }

    /// Lets all databases together have `bytes` of memory from now on.
    fn set_memory_bytes(&self, bytes: u64) -> Result<()> {
        let _ = bytes;
        let message = "the memory of a cache is set when it starts; start it with another --cache";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// What the models say of database `index`, beside what it measured; `None` where nobody
    /// keeps what the models need.
    fn why(&self, index: u32) -> Result<Option<Why>> {
        let _ = index;
        Ok(None)
    }
}

/// Databases that are filled while others are served, and take their places together. Dropped
/// before, nothing of them is left.
pub trait Generation {
    /// What takes the place of database `index`, empty at first; `None` if that is in memory.
    fn engine(&mut self, index: u32) -> Result<Option<Arc<dyn Engine>>>;

    /// Makes what was written so far durable.
    fn sync(&self) -> Result<()>;

    /// Puts all of them in place: after a crash all of them are, or none. Called while nobody uses
    /// the databases.
    fn install(&mut self) -> Result<()>;
}

impl Generation for silica::Generation<'_> {
    fn engine(&mut self, index: u32) -> Result<Option<Arc<dyn Engine>>> {
        silica::Generation::engine(self, &keyspace_name(index))
    }

    fn sync(&self) -> Result<()> {
        silica::Generation::sync(self)
    }

    fn install(&mut self) -> Result<()> {
        silica::Generation::install(self)
    }
}

/// The keyspaces of a store: database 0 is the default keyspace, database N is `dbN`.
impl Databases for silica::Silica {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(self.keyspace(&keyspace_name(index))?.engine()))
    }

    fn clock(&self) -> Option<Arc<HeldClock>> {
        Some(Arc::clone(silica::Silica::clock(self)))
    }

    fn listed(&self) -> Vec<u32> {
        // Where the catalog cannot be asked, the first use of a database says why.
        let names = self.keyspaces().unwrap_or_default();
        let is_there = |index: &u32| names.iter().any(|info| info.name == keyspace_name(*index));
        (0..DATABASES_MAX).filter(is_there).collect()
    }

    fn migrate(
        &self,
        index: u32,
        engine: &str,
        options: &[(&str, &str)],
        tell: &mut dyn FnMut(String) -> Result<()>,
    ) -> Result<String> {
        let report =
            silica::Silica::migrate(self, &keyspace_name(index), engine, options, &mut |at| {
                tell(format!("{} {} of {}", at.phase, at.entries, at.entries_estimate))
            })?;
        Ok(format!(
            "done {} entries, {} copied, checksum {:016x}",
            report.entries, report.copied, report.checksum
        ))
    }

    fn check_migration(&self, index: u32, engine: &str, options: &[(&str, &str)]) -> Result<()> {
        self.check_kept(&keyspace_name(index), engine, options)
    }

    fn record(&self, index: u32, options: &RecordOptions) -> Result<RecordBuffer> {
        self.keyspace(&keyspace_name(index))?.record_buffered(options)
    }

    fn workload(&self, index: u32) -> Result<String> {
        Ok(self.keyspace(&keyspace_name(index))?.workload()?.to_string())
    }

    fn backup(&self, job: &BackupJob, tell: &mut Tell<'_>) -> Result<String> {
        let kind = match (&job.from, job.update) {
            (Some(from), _) => silica::BackupKind::Since(from),
            (None, true) => silica::BackupKind::Update,
            (None, false) => silica::BackupKind::New,
        };
        let report = self.backup_with(&job.target, kind, &mut |at| {
            let files = at.files_linked + at.files_written;
            tell(format!("{} keyspaces, {files} files", at.keyspaces))
        })?;
        Ok(format!(
            "{} keyspaces ({} in memory, empty): {} files linked, {} written with {} bytes",
            report.keyspaces,
            report.empty,
            report.files_linked,
            report.files_written,
            report.bytes_written
        ))
    }

    fn verify(&self, tell: &mut Tell<'_>) -> Result<String> {
        let all = self.keyspaces()?;
        for (done, info) in all.iter().enumerate() {
            tell(format!("{done} of {} keyspaces", all.len()))?;
            let within = |e: Error| e.within(format_args!("keyspace '{}'", info.name));
            self.keyspace(&info.name)?.verify().map_err(within)?;
        }
        Ok(format!("all well: {} keyspaces checked", all.len()))
    }

    fn compact(&self, tell: &mut Tell<'_>) -> Result<String> {
        let all = self.keyspaces()?;
        for (done, info) in all.iter().enumerate() {
            tell(format!("{done} of {} keyspaces", all.len()))?;
            jobs::compact(self.keyspace(&info.name)?.engine(), tell)?;
        }
        Ok(format!("{} keyspaces are compact", all.len()))
    }

    fn sql(&self, name: &str, may_create: bool) -> Result<Option<Arc<silica_sql::Database>>> {
        if !may_create && self.existing(name)?.is_none() {
            return Ok(None);
        }
        let refused =
            |error: silica_sql::sql::SqlError| Error::new(ErrorKind::Config, error.message);
        Sql::database(self, name).map(Some).map_err(refused)
    }

    fn named(&self, name: &str, may_create: bool) -> Result<Option<Arc<dyn Engine>>> {
        let keyspace = match may_create {
            true => Some(self.keyspace(name)?),
            false => self.existing(name)?,
        };
        Ok(keyspace.map(|keyspace| Arc::clone(keyspace.engine())))
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.keyspaces()?.into_iter().map(|info| info.name).collect())
    }

    fn exists(&self, index: u32) -> bool {
        // Where the catalog cannot be asked, opening it says why.
        self.existing(&keyspace_name(index)).map_or(true, |keyspace| keyspace.is_some())
    }

    fn swap(&self, index: u32, other: u32) -> Result<()> {
        self.swap_keyspaces(&keyspace_name(index), &keyspace_name(other))
    }

    fn begin_generation(&self) -> Result<Option<Box<dyn Generation + '_>>> {
        Ok(Some(Box::new(silica::Silica::begin_generation(self))))
    }

    fn take_replication_state(&self) -> Option<Vec<u8>> {
        silica::Silica::take_replication_state(self)
    }

    fn leave_replication_state(&self, bytes: &[u8]) -> Result<bool> {
        silica::Silica::leave_replication_state(self, bytes).map(|()| true)
    }

    fn set_memory_bytes(&self, bytes: u64) -> Result<()> {
        silica::Silica::set_memory_bytes(self, bytes)
    }

    fn why(&self, index: u32) -> Result<Option<Why>> {
        silica::Silica::why(self, &keyspace_name(index)).map(Some)
    }
}

/// The number of the database whose keyspace is `name`.
pub(crate) fn database_index(name: &str) -> Option<u32> {
    (0..DATABASES_MAX).find(|index| keyspace_name(*index) == name)
}

/// The name of the keyspace that is database `index` of a store.
pub fn keyspace_name(index: u32) -> String {
    match index {
        0 => silica::DEFAULT_KEYSPACE.into(),
        _ => format!("db{index}"),
    }
}
