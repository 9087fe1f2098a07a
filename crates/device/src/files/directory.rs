//! The directory: lock, names, and which way I/O goes.

use super::claim::{in_use, note_holder};
use super::lifetime::Hints;
use super::log::MappedLog;
use super::logs::Logs;
use super::names;
use super::plain::{PlainFile, poisoned};
use super::pool::{Pool, TRANSFER_THREADS};
use super::reads::{FileReads, Together};
use super::unwritten::{Named, Unwritten};
use super::{Device, Mode};
use super::{InodeId, Inodes, OpenDirectory, failed, inode_id, make_direct, sync_directory};
use crate::Counters;
use crate::os::unlock;
use rustix::fs::FlockOperation;
use silica_base::{Error, ErrorKind, Result};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which way reads and writes take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring where the kernel allows it, else threads; past the page cache where the file
    /// system allows it, else through it.
    #[default]
    Auto,
    /// io_uring, or an error where it is refused.
    Uring,
    /// pread and pwrite, with a small pool of threads for bursts.
    Threads,
    /// pread and pwrite through the page cache, in the calling thread.
    Buffered,
}

/// How to open a [`FileDevice`].
#[derive(Debug, Clone, Copy)]
pub struct DeviceOptions {
    /// Create the directory where it is missing.
    pub create: bool,
    /// Which way reads and writes take.
    pub io: IoChoice,
    /// Write nothing: what would be written is kept in memory for as long as the device is open.
    pub read_only: bool,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        DeviceOptions { create: true, io: IoChoice::Auto, read_only: false }
    }
}

/// What all handles of one opened directory tree share.
pub(super) struct Shared {
    /// Locked for as long as this is there.
    pub(super) lock: Arc<File>,
    /// Locked, too, where the file system can: somebody may remove or replace the file of the lock.
    directory_lock: Option<File>,
    pub(super) counters: Counters,
    /// How reads come to be in flight together.
    pub(super) together: Together,
    /// Threads for what goes on by itself.
    pub(super) transfers: Pool,
    /// Try direct I/O for files of [`Mode::Direct`].
    direct: bool,
    direct_refused: AtomicBool,
    /// How the kernel is told of lifetimes.
    pub(super) hints: Hints,
    /// Inodes with a failed sync.
    pub(super) poisoned: Inodes,
    /// Inodes of logs that are being appended to.
    pub(super) appending: Inodes,
    /// Of a device that is only read: what it does not write.
    pub(super) unwritten: Option<Unwritten>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        [Some(&*self.lock), self.directory_lock.as_ref()].into_iter().flatten().for_each(unlock);
    }
}

impl Shared {
    /// Syncs a file's bytes; a failure is final for its inode.
    pub(super) fn sync_inode(&self, file: &File, inode: InodeId, path: &Path) -> Result<()> {
        if self.poisoned.contains(inode) {
            return Err(poisoned(path));
        }
        if self.unwritten.is_some() {
            return Ok(());
        }
        if let Err(e) = file.sync_data() {
            self.poisoned.insert(inode);
            return Err(failed("sync", path, e));
        }
        self.counters.add_sync();
        Ok(())
    }

    /// Takes the file past the page cache where that is wanted and possible.
    fn try_direct(&self, file: &File, path: &Path) -> Result<bool> {
        if !self.direct {
            return Ok(false);
        }
        let direct = make_direct(file).map_err(|e| failed("open", path, e))?;
        if !direct && !self.direct_refused.swap(true, Ordering::Relaxed) {
            log::warn!(
                "{}: the file system refuses direct I/O; using the page cache",
                path.display()
            );
        }
        Ok(direct)
    }
}

/// A directory of a real file system, locked against other processes.
pub struct FileDevice {
    path: PathBuf,
    /// Open for its syncs: a process that has too many files open must not fail one.
    opened: OpenDirectory,
    /// Where logs are, if not here.
    logs: Option<Logs>,
    shared: Arc<Shared>,
}

impl FileDevice {
    /// Opens and locks the directory at `path`: for itself or, to be only read, together with
    /// others that only read it.
    pub fn open(path: &Path, options: DeviceOptions) -> Result<FileDevice> {
        if options.create && !options.read_only {
            create_directories(path)?;
        }
        crate::limits::allow_many_descriptors();
        let (lock, directory_lock) = if options.read_only {
            share_locks(path)?
        } else {
            let mut lock = take_lock(path)?;
            let directory_lock =
                lock_directory(path, &mut lock, FlockOperation::NonBlockingLockExclusive)?;
            note_holder(&path.join(names::LOCK_NAME), &lock)?;
            (lock, directory_lock)
        };
        let hints = if options.read_only { Hints::none() } else { Hints::of(&lock) };
        let shared = Shared {
            lock: Arc::new(lock),
            directory_lock,
            counters: Counters::default(),
            together: Together::choose(options.io, path)?,
            transfers: Pool::new(TRANSFER_THREADS),
            direct: options.io != IoChoice::Buffered,
            direct_refused: AtomicBool::new(false),
            hints,
            poisoned: Inodes::default(),
            appending: Inodes::default(),
            unwritten: options.read_only.then(Unwritten::default),
        };
        FileDevice::at(path.to_path_buf(), Arc::new(shared))
    }

    fn at(path: PathBuf, shared: Arc<Shared>) -> Result<FileDevice> {
        let opened = OpenDirectory::open(&path)?;
        let logs = Logs::of(&path, shared.unwritten.is_some())?;
        Ok(FileDevice { opened, path, logs, shared })
    }

    /// Has the logs of this directory (files whose names begin with [`crate::LOG_PREFIX`]) in the
    /// directory `path`, which is created or must be empty. The directory has a link to it, so
    /// later openings need not be told.
    ///
    /// # Errors
    /// `Config` where this directory has files already, or the other one.
    pub fn put_logs(self, path: &Path) -> Result<FileDevice> {
        if self.logs.is_some() || !self.list()?.is_empty() {
            let message = format!(
                "{} has files already, so its logs stay where they are",
                self.path.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Logs::put(&self.path, path)?;
        FileDevice::at(self.path, self.shared)
    }

    /// The directory where the logs are, if that is another one.
    pub fn logs_path(&self) -> Option<&Path> {
        self.logs.as_ref().map(|logs| &*logs.path)
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True where nothing is written.
    pub fn is_read_only(&self) -> bool {
        self.shared.unwritten.is_some()
    }

    /// Where the file `name` is.
    pub(crate) fn child(&self, name: &str) -> Result<PathBuf> {
        names::check(name)?;
        let logs = self.logs.as_ref().filter(|_| name.starts_with(names::LOG_PREFIX));
        Ok(logs.map_or(&self.path, |logs| &logs.path).join(name))
    }

    fn plain(&self, file: File, path: PathBuf, mode: Mode) -> Result<PlainFile> {
        let metadata = file.metadata().map_err(|e| failed("open", &path, e))?;
        let aligned = mode == Mode::Direct;
        let direct = aligned && self.shared.try_direct(&file, &path)?;
        let (inode, shared) = (inode_id(&metadata), self.shared.clone());
        let drops =
            self.is_read_only() && !is_writable(&file).map_err(|e| failed("open", &path, e))?;
        let file = Arc::new(file);
        Ok(PlainFile { file, path, aligned, direct, drops, inode, lifetime: None, shared })
    }

    /// Creates an empty file; where what follows fails, the file goes again.
    fn create_with<T>(
        &self,
        name: &str,
        make: impl FnOnce(File, PathBuf, InodeId) -> Result<T>,
    ) -> Result<T> {
        let path = self.child(name)?;
        let file = match &self.shared.unwritten {
            Some(unwritten) => unwritten.create(&path)?,
            None => {
                let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
                file.map_err(|e| failed("create", &path, e))?
            }
        };
        let metadata = file.metadata().map_err(|e| failed("create", &path, e))?;
        // Inode numbers come again: this one starts with a clean record.
        self.shared.poisoned.remove(inode_id(&metadata));
        make(file, path.clone(), inode_id(&metadata)).inspect_err(|_| {
            let _ = self.remove(name);
        })
    }

    fn open_existing(&self, path: &Path) -> Result<File> {
        let file = match &self.shared.unwritten {
            None => OpenOptions::new().read(true).write(true).open(path),
            Some(unwritten) => match unwritten.find(path)? {
                Named::Here(file) => Ok(file),
                Named::Gone => Err(io::ErrorKind::NotFound.into()),
                Named::AsThere => File::open(path),
            },
        };
        file.map_err(|e| failed("open", path, e))
    }

    /// Names of the entries of `path` that `wanted` accepts, sorted.
    fn entries(path: &Path, wanted: impl Fn(&fs::FileType) -> bool) -> Result<Vec<String>> {
        let failed = |e| failed("list", path, e);
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().into_string();
            if let Ok(name) = name
                && wanted(&entry.file_type().map_err(failed)?)
                && names::check(&name).is_ok()
            {
                found.push(name);
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// Creates the directory and what is missing above it, durably: a store in a directory whose own
/// name is lost would be lost with it.
pub(super) fn create_directories(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    create_directories(parent)?;
    match fs::create_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(failed("create the directory", path, e)),
        Ok(()) => sync_directory(parent),
    }
}

/// Locks the directory against other processes.
fn take_lock(directory: &Path) -> Result<File> {
    let path = directory.join(names::LOCK_NAME);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(|e| failed("open", &path, e))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(locked(directory, &mut file)),
        Err(e) => return Err(failed("lock", &path, e.into())),
    }
    Ok(file)
}

/// Locks the directory itself, whose lock `file` is held; `None` if its file system cannot.
fn lock_directory(
    directory: &Path,
    file: &mut File,
    operation: FlockOperation,
) -> Result<Option<File>> {
    let opened = File::open(directory).map_err(|e| failed("open", directory, e))?;
    match rustix::fs::flock(&opened, operation) {
        Ok(()) => Ok(Some(opened)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(locked(directory, file)),
        Err(_) => Ok(None),
    }
}

/// Has the directory locked against processes that write to it for as long as it is only read: by
/// its lock file, and by itself, if that file was removed.
fn share_locks(directory: &Path) -> Result<(File, Option<File>)> {
    let mut file = share_lock(directory)?;
    let operation = FlockOperation::NonBlockingLockShared;
    let directory_lock = lock_directory(directory, &mut file, operation)?;
    Ok((file, directory_lock))
}

/// Shares the lock file. Without one nobody ever wrote to the directory here, or it was removed; it
/// may not be possible to make one.
fn share_lock(directory: &Path) -> Result<File> {
    let path = directory.join(names::LOCK_NAME);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return File::open(directory).map_err(|e| failed("open the directory", directory, e));
        }
        Err(e) => return Err(failed("open", &path, e)),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(locked(directory, &mut file)),
        Err(e) => Err(failed("lock", &path, e.into())),
    }
}

/// True for a file that was opened for writing, too.
fn is_writable(file: &File) -> io::Result<bool> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(flags & rustix::fs::OFlags::RWMODE != rustix::fs::OFlags::RDONLY)
}

fn locked(directory: &Path, file: &mut File) -> Error {
    in_use(directory, file, "directory")
}

impl Device for FileDevice {
    type File = PlainFile;
    type Log = MappedLog;
    type Reads<'d, T: AsRef<PlainFile>> = FileReads<'d, T>;

    fn create(&self, name: &str, mode: Mode) -> Result<PlainFile> {
        self.create_with(name, |file, path, _| self.plain(file, path, mode))
    }

    fn open(&self, name: &str, mode: Mode) -> Result<PlainFile> {
        let path = self.child(name)?;
        self.plain(self.open_existing(&path)?, path, mode)
    }

    fn create_log(&self, name: &str, capacity: u64) -> Result<MappedLog> {
        self.create_with(name, |file, path, inode| {
            MappedLog::create(file, path, inode, capacity, self.shared.clone())
        })
    }

    fn reuse_log(&self, log: MappedLog, from: &str, to: &str) -> Result<MappedLog> {
        let (from, to) = (self.child(from)?, self.child(to)?);
        log.check_reusable(&from)?;
        fs::rename(&from, &to).map_err(|e| failed("rename", &from, e))?;
        Ok(log.emptied(to))
    }

    fn open_log(&self, name: &str) -> Result<MappedLog> {
        let path = self.child(name)?;
        let file = self.open_existing(&path)?;
        let metadata = file.metadata().map_err(|e| failed("open", &path, e))?;
        MappedLog::open(file, path, inode_id(&metadata), self.shared.clone())
    }

    fn reads<T: AsRef<PlainFile>>(&self, depth: usize) -> FileReads<'_, T> {
        FileReads::new(&self.shared, depth)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.child(from)?, self.child(to)?);
        if let Some(unwritten) = &self.shared.unwritten {
            return unwritten.rename(&from, &to);
        }
        fs::rename(&from, to).map_err(|e| failed("rename", &from, e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.child(name)?;
        if let Some(unwritten) = &self.shared.unwritten {
            return unwritten.remove(&path);
        }
        fs::remove_file(&path).map_err(|e| failed("remove", &path, e))
    }

    fn link_into(&self, name: &str, target: &Self, target_name: &str) -> Result<()> {
        use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
        let (from, to) = (self.child(name)?, target.child(target_name)?);
        if self.is_read_only() || target.is_read_only() {
            let source = self.open_existing(&from)?;
            return target.create_with(target_name, |file, path, _| copy(&source, &file, &path));
        }
        match fs::hard_link(&from, &to) {
            Ok(()) => Ok(()),
            Err(e)
                if matches!(
                    e.kind(),
                    CrossesDevices | PermissionDenied | TooManyLinks | Unsupported
                ) =>
            {
                let source = File::open(&from).map_err(|e| failed("open", &from, e))?;
                target.create_with(target_name, |file, path, _| copy(&source, &file, &path))
            }
            Err(e) => Err(failed("link", &from, e)),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = Self::entries(&self.path, fs::FileType::is_file)?;
        if let Some(logs) = &self.logs {
            let is_log = |name: &String| name.starts_with(names::LOG_PREFIX);
            let more = Self::entries(&logs.path, fs::FileType::is_file)?;
            names.extend(more.into_iter().filter(is_log));
            names.sort_unstable();
        }
        if let Some(unwritten) = &self.shared.unwritten {
            unwritten.correct(&self.path, &mut names);
            self.logs.iter().for_each(|logs| unwritten.correct(&logs.path, &mut names));
        }
        Ok(names)
    }

    fn sync_dir(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let logs = self.logs.as_ref().map(|logs| (&logs.path, &logs.opened));
        for (path, opened) in [(&self.path, &self.opened)].into_iter().chain(logs) {
            if self.shared.poisoned.contains(opened.inode) {
                return Err(poisoned(path));
            }
            opened.sync(path).inspect_err(|_| self.shared.poisoned.insert(opened.inode))?;
            self.shared.counters.add_sync();
        }
        Ok(())
    }

    fn subdirectory(&self, name: &str) -> Result<Self> {
        let path = self.child(name)?;
        if self.is_read_only() {
            return FileDevice::at(path, self.shared.clone());
        }
        match fs::create_dir(&path) {
            Ok(()) => sync_directory(&self.path)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed("create the directory", &path, e)),
        }
        FileDevice::at(path, self.shared.clone())
    }

    fn subdirectories(&self) -> Result<Vec<String>> {
        Self::entries(&self.path, fs::FileType::is_dir)
    }

    fn free_bytes(&self) -> Result<u64> {
        if self.is_read_only() {
            // Nothing is written, so nothing lacks room.
            return Ok(u64::MAX / 2);
        }
        let space = rustix::fs::statvfs(&self.path)
            .map_err(|e| failed("ask for the free space of", &self.path, e.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn takes_lifetimes(&self) -> bool {
        self.shared.hints.are_taken()
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

/// False where this process may not write to the directory `path`: it is another user's, or on a
/// file system that is mounted to be read only. A store's lock file has to be writable, too.
pub fn is_writable_directory(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    let lock = path.join(names::LOCK_NAME);
    access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        && (!lock.exists() || access(&lock, Access::WRITE_OK).is_ok())
}

/// Bytes of the file system that `path` is on, used or not.
pub fn capacity_bytes(path: &Path) -> Result<u64> {
    let space = rustix::fs::statvfs(path)
        .map_err(|e| failed("ask for the file system's size of", path, e.into()))?;
    Ok(space.f_blocks.saturating_mul(space.f_frsize))
}

/// Copies a file's bytes and makes them durable.
fn copy(mut from: &File, mut to: &File, path: &Path) -> Result<()> {
    io::copy(&mut from, &mut to).map_err(|e| failed("copy to", path, e))?;
    to.sync_all().map_err(|e| failed("sync", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_being_started_keeps_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FileDevice::open(dir.path(), DeviceOptions::default());
        let device = open().unwrap();
        let copies = (
            device.shared.lock.try_clone().unwrap(),
            device.shared.directory_lock.as_ref().map(|lock| lock.try_clone().unwrap()),
        );
        assert_eq!(open().map(|_| ()).unwrap_err().kind(), ErrorKind::Locked);
        drop(device);
        drop(open().unwrap());
        drop(copies);
    }
}
