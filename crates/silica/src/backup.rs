//! Backup of an open store into another directory, and restore.
//!
//! Invariants:
//!
//! 1. A backup is a store: `silica` can open it as it is.
//! 2. The catalog is written last, after every other file was synced. A directory without it is
//!    an interrupted backup and no program takes it for a store.
//! 3. Only immutable files are hard-linked, so that neither side can change the other.
//! 4. A backup that is brought up to date is replaced as a whole by a new one beside it: whenever
//!    the machine stops, one of the two is complete.

use crate::around::{refuse_within_store, resolve};
use crate::catalog::{Catalog, FILE};
use crate::keyspace::Keyspace;
use crate::{OpenOptions, Silica};
use silica_device::{Device, DeviceFile, DeviceOptions, FileDevice, Mode};
use silica_engine::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// What is compared of a file to know that it is in an earlier backup: its length, and so much of
/// its end. There a table has its counts, its filter and checksums bound to its store and number.
const TAIL_BYTES: u64 = 64 << 10;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// What a backup or restore did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Keyspaces in it.
    pub keyspaces: u64,
    /// Immutable files that were linked (or copied, on another file system).
    pub files_linked: u64,
    /// Those of them that an earlier backup had already: they were linked from there.
    pub files_shared: u64,
    /// Files that were written.
    pub files_written: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Keyspaces in memory, which are empty in the backup.
    pub empty: u64,
}

/// What a backup is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupKind<'a> {
    /// From the store alone.
    New,
    /// From the store, and from an earlier backup of it in this directory
    /// ([`Silica::backup_since`]).
    Since(&'a Path),
    /// From the store and an earlier backup, whose place it takes ([`Silica::update_backup`]).
    Update,
}

/// Told how far a backup is; its error ends it.
type Tell<'a> = dyn FnMut(&BackupReport) -> Result<()> + 'a;

/// Receives the checkpoint of one keyspace.
struct Target<'a, 't> {
    tell: &'a mut Tell<'t>,
    source: &'a FileDevice,
    target: FileDevice,
    /// This keyspace in an earlier backup.
    previous: Option<FileDevice>,
    /// Files written so far, and their lengths.
    written: BTreeMap<String, (<FileDevice as Device>::File, u64)>,
    report: &'a mut BackupReport,
}

impl silica_engine::Checkpoint for Target<'_, '_> {
    fn immutable(&mut self, name: &str) -> Result<()> {
        (self.tell)(self.report)?;
        self.report.files_linked += 1;
        match &self.previous {
            Some(previous) if is_same(self.source, previous, name)? => {
                self.report.files_shared += 1;
                previous.link_into(name, &self.target, name)
            }
            _ => self.source.link_into(name, &self.target, name),
        }
    }

    fn piece(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        if !self.written.contains_key(name) {
            let file = self.target.create(name, Mode::Buffered)?;
            self.written.insert(name.to_string(), (file, 0));
            self.report.files_written += 1;
        }
        (self.tell)(self.report)?;
        let (file, len) = self.written.get_mut(name).expect("it was put there");
        file.write_at(*len, bytes)?;
        *len += bytes.len() as u64;
        self.report.bytes_written += bytes.len() as u64;
        Ok(())
    }
}

impl Target<'_, '_> {
    fn finish(&self) -> Result<()> {
        for (file, _) in self.written.values() {
            file.sync()?;
        }
        self.target.sync_dir()
    }
}

impl Silica {
    /// Writes a backup of every keyspace into the new or empty directory `target` while reads
    /// and writes go on. Everything acknowledged before the call is in it; files that do not
    /// change any more are hard-linked where `target` is on the same file system.
    ///
    /// Each keyspace is one consistent moment; the keyspaces follow one another. Those in memory
    /// are in the backup, and empty; [`BackupReport::empty`] counts them. A directory inside a
    /// store is refused.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("silica-doc-backup-{}", std::process::id()));
    /// # let (here, there) = (path.join("store"), path.join("backup"));
    /// let store = silica::open(&here)?;
    /// store.keyspace("users")?.put("ann", "blue")?;
    /// store.backup(&there)?;
    /// store.keyspace("users")?.delete("ann")?;
    ///
    /// let yesterday = silica::open(&there)?;
    /// assert_eq!(yesterday.keyspace("users")?.get("ann")?, Some(b"blue".to_vec()));
    /// # drop((store, yesterday));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(target, BackupKind::New, &mut |_| Ok(()))
    }

    /// A backup as by [`Silica::backup`]; the directory `previous` holds an earlier backup of this
    /// store: files that are in it and did not change are linked from there, so that on another
    /// file system than the store's, too, only what is new is copied.
    pub fn backup_since(
        &self,
        target: impl AsRef<Path>,
        previous: impl AsRef<Path>,
    ) -> Result<BackupReport> {
        self.backup_with(target, BackupKind::Since(previous.as_ref()), &mut |_| Ok(()))
    }

    /// Brings the backup in the directory `target` up to date: a new one is made beside it as
    /// [`Silica::backup_since`] does, and takes its place when it is complete. Until then the old
    /// one is as it was.
    pub fn update_backup(&self, target: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(target, BackupKind::Update, &mut |_| Ok(()))
    }

    /// Backs up as `kind` says; `tell` is told how far it is before each file and piece of one, and
    /// an error that it returns ends the backup. Of one that fails nothing is left.
    pub fn backup_with(
        &self,
        target: impl AsRef<Path>,
        kind: BackupKind<'_>,
        tell: &mut dyn FnMut(&BackupReport) -> Result<()>,
    ) -> Result<BackupReport> {
        let target = target.as_ref();
        match kind {
            BackupKind::New => self.backup_beside(target, None, tell),
            BackupKind::Since(previous) => {
                self.backup_beside(target, Some(&open_backup(previous)?), tell)
            }
            BackupKind::Update => self.backup_over(target, tell),
        }
    }

    fn backup_over(&self, target: &Path, tell: &mut Tell<'_>) -> Result<BackupReport> {
        if resolve(target) == resolve(self.path()) {
            let message = format!(
                "{} is the store itself; give the directory of one of its backups",
                target.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let previous = open_backup(target)?;
        let target = &target.canonicalize().map_err(|e| failed("find", target, e))?;
        let beside = |ending: &str| {
            let mut name = target.file_name().unwrap_or_default().to_owned();
            name.push(ending);
            target.with_file_name(name)
        };
        let (new, old) = (beside(".new"), beside(".old"));
        if new.exists() {
            // Of an update that did not come to its end.
            std::fs::remove_dir_all(&new).map_err(|e| failed("remove", &new, e))?;
        }
        let report = self.backup_beside(&new, Some(&previous), tell)?;
        for (from, to) in [(target, &old), (&new, target)] {
            std::fs::rename(from, to).map_err(|e| failed("rename", from, e))?;
        }
        drop(previous);
        std::fs::remove_dir_all(&old).map_err(|e| failed("remove", &old, e))?;
        Ok(report)
    }

    fn backup_beside(
        &self,
        path: &Path,
        previous: Option<&FileDevice>,
        tell: &mut Tell<'_>,
    ) -> Result<BackupReport> {
        let target = new_directory(path, "a backup")?;
        let done = self.backup_into(&target, previous, tell);
        drop(target);
        done.inspect_err(|_| {
            // It was empty before, and is no backup.
            if let Err(e) = std::fs::remove_dir_all(path) {
                log::warn!("removing the unfinished backup {}: {e}", path.display());
            }
        })
    }

    fn backup_into(
        &self,
        target: &FileDevice,
        previous: Option<&FileDevice>,
        tell: &mut Tell<'_>,
    ) -> Result<BackupReport> {
        // No keyspace changes its engine meanwhile.
        let _held = self.hold_backups();
        let mut report = BackupReport::default();
        let mut catalog = Catalog::default();
        for info in self.keyspaces()? {
            let keyspace = self.keyspace(&info.name)?;
            let within = |e: Error| e.within(format_args!("backup of keyspace '{}'", info.name));
            if keyspace.engine().descriptor().capabilities.durable {
                let copied = self.backup_keyspace(&keyspace, target, previous, &mut report, tell);
                copied.map_err(within)?;
            } else {
                log::info!("keyspace '{}' is in memory: empty in the backup", info.name);
                report.keyspaces += 1;
                report.empty += 1;
            }
            let mut record = self.record(&info.name)?;
            record.options.retain(|(name, _)| name != crate::catalog::MIGRATION);
            catalog.add(record);
        }
        tell(&report)?;
        target.sync_dir()?;
        catalog.save(target)?;
        Ok(report)
    }

    fn backup_keyspace(
        &self,
        keyspace: &Keyspace,
        target: &FileDevice,
        previous: Option<&FileDevice>,
        report: &mut BackupReport,
        tell: &mut Tell<'_>,
    ) -> Result<()> {
        let directory = &keyspace.directory();
        let is_there = |device: &&FileDevice| {
            device.subdirectories().is_ok_and(|all| all.iter().any(|d| d == directory))
        };
        let previous = previous.filter(is_there);
        let mut files = Target {
            tell,
            source: &self.device().subdirectory(directory)?,
            target: target.subdirectory(directory)?,
            previous: previous.map(|p| p.subdirectory(directory)).transpose()?,
            written: BTreeMap::new(),
            report,
        };
        keyspace.admin()?.checkpoint(&mut files)?;
        files.finish()?;
        files.report.keyspaces += 1;
        Ok(())
    }
}

/// Copies the backup in the directory `backup` to the new or empty directory `target`, and checks
/// the copy with [`Silica::verify`]. The backup is only read and shares no file with the copy.
pub fn restore(
    backup: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: OpenOptions,
) -> Result<BackupReport> {
    let (backup, target_path) = (backup.as_ref(), target.as_ref());
    let file = backup.join(FILE).display().to_string();
    let source = open_backup(backup)?;
    let catalog = Catalog::load(&source, &file)?.ok_or_else(|| incomplete(backup))?;
    let target = new_directory(target_path, "the restored store")?;
    let mut report = BackupReport::default();
    for record in &catalog.keyspaces {
        let from = source.subdirectory(&record.directory())?;
        let to = target.subdirectory(&record.directory())?;
        for name in from.list()? {
            report.bytes_written += copy(&from, &to, &name)?;
            report.files_written += 1;
        }
        to.sync_dir()?;
        report.keyspaces += 1;
    }
    target.sync_dir()?;
    catalog.save(&target)?;
    drop((source, target));
    let store = options.create(false).background_threads(0).open(target_path)?;
    store.verify().map_err(|e| e.within("the restored store"))?;
    store.close()?;
    Ok(report)
}

/// Opens a backup that is complete, and that nobody has open.
fn open_backup(path: &Path) -> Result<FileDevice> {
    if !path.join(FILE).exists() {
        return Err(incomplete(path));
    }
    FileDevice::open(path, DeviceOptions { create: false, ..DeviceOptions::default() })
}

fn incomplete(path: &Path) -> Error {
    let message = format!(
        "{} is not a complete backup: it has no file 'silica'; give the directory that \
         `silica backup` wrote",
        path.display()
    );
    Error::new(ErrorKind::NotFound, message)
}

fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("{what} {}", path.display()), error)
}

/// True where both have the same file of this name.
fn is_same(one: &FileDevice, other: &FileDevice, name: &str) -> Result<bool> {
    if !other.list()?.iter().any(|n| n == name) {
        return Ok(false);
    }
    let tail = |device: &FileDevice| -> Result<(u64, Vec<u8>)> {
        let file = device.open(name, Mode::Buffered)?;
        let len = file.len()?;
        let mut bytes = vec![0; len.min(TAIL_BYTES) as usize];
        file.read_at(len - bytes.len() as u64, &mut bytes)?;
        Ok((len, bytes))
    };
    Ok(tail(one)? == tail(other)?)
}

fn copy(from: &FileDevice, to: &FileDevice, name: &str) -> Result<u64> {
    let (source, target) = (from.open(name, Mode::Buffered)?, to.create(name, Mode::Buffered)?);
    let mut buf = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let filled = source.read_at(at, &mut buf)?;
        if filled == 0 {
            break;
        }
        target.write_at(at, &buf[..filled])?;
        at += filled as u64;
    }
    target.sync()?;
    Ok(at)
}

/// Opens `path`, which must be missing or empty and not in a store, as a device.
fn new_directory(path: &Path, what: &str) -> Result<FileDevice> {
    let occupied = path.exists()
        && !(path.is_dir()
            && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()));
    if occupied {
        let message = format!(
            "{what} needs a new or empty directory, and {} is neither; give another path",
            path.display()
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    refuse_within_store(path, what)?;
    FileDevice::open(path, DeviceOptions { create: true, ..DeviceOptions::default() })
}
