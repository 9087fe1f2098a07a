//! Backup of an open store into another directory, and restore.
//!
//! Invariants:
//!
//! 1. A backup is a store: `silica` can open it as it is.
//! 2. The catalog is written last, after every other file was synced. A directory without it is
//!    an interrupted backup and no program takes it for a store.
//! 3. Only immutable files are hard-linked, so that neither side can change the other.

use crate::catalog::{Catalog, FILE};
use crate::keyspace::Keyspace;
use crate::{OpenOptions, Silica};
use silica_device::{Device, DeviceFile, DeviceOptions, FileDevice, Mode};
use silica_engine::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// What a backup or restore did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Keyspaces in it.
    pub keyspaces: u64,
    /// Immutable files that were linked (or copied, on another file system).
    pub files_linked: u64,
    /// Files that were written.
    pub files_written: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

/// Receives the checkpoint of one keyspace.
struct Target<'a> {
    source: &'a FileDevice,
    target: FileDevice,
    /// Files written so far, and their lengths.
    written: BTreeMap<String, (<FileDevice as Device>::File, u64)>,
    report: &'a mut BackupReport,
}

impl silica_engine::Checkpoint for Target<'_> {
    fn immutable(&mut self, name: &str) -> Result<()> {
        self.source.link_into(name, &self.target, name)?;
        self.report.files_linked += 1;
        Ok(())
    }

    fn piece(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        if !self.written.contains_key(name) {
            let file = self.target.create(name, Mode::Buffered)?;
            self.written.insert(name.to_string(), (file, 0));
            self.report.files_written += 1;
        }
        let (file, len) = self.written.get_mut(name).expect("it was put there");
        file.write_at(*len, bytes)?;
        *len += bytes.len() as u64;
        self.report.bytes_written += bytes.len() as u64;
        Ok(())
    }
}

impl Target<'_> {
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
    /// are in the backup, and empty.
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
        let target = new_directory(target.as_ref(), "a backup")?;
        let mut report = BackupReport::default();
        let mut catalog = Catalog::default();
        for info in self.keyspaces()? {
            let keyspace = self.keyspace(&info.name)?;
            let within = |e: Error| e.within(format_args!("backup of keyspace '{}'", info.name));
            if keyspace.engine().descriptor().capabilities.durable {
                self.backup_keyspace(&keyspace, &target, &mut report).map_err(within)?;
            } else {
                log::info!("keyspace '{}' is in memory: empty in the backup", info.name);
                report.keyspaces += 1;
            }
            catalog.add(self.record(&info.name)?);
        }
        target.sync_dir()?;
        catalog.save(&target)?;
        Ok(report)
    }

    fn backup_keyspace(
        &self,
        keyspace: &Keyspace,
        target: &FileDevice,
        report: &mut BackupReport,
    ) -> Result<()> {
        let mut files = Target {
            source: &self.device().subdirectory(keyspace.directory())?,
            target: target.subdirectory(keyspace.directory())?,
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
    let missing = || {
        let message = format!(
            "{} is not a complete backup: it has no file 'silica'; give the directory that \
             `silica backup` wrote",
            backup.display()
        );
        Error::new(ErrorKind::NotFound, message)
    };
    if !backup.join(FILE).exists() {
        return Err(missing());
    }
    let source = FileDevice::open(backup, DeviceOptions { create: false, ..options.device })?;
    let catalog = Catalog::load(&source, &file)?.ok_or_else(missing)?;
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

/// Opens `path`, which must be missing or empty, as a device.
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
    FileDevice::open(path, DeviceOptions { create: true, ..DeviceOptions::default() })
}
