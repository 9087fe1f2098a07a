//! Files that several processes may know by name: a [`FileLock`] keeps one to a single process,
//! [`rewrite_file`] replaces one that others may replace, too.

use super::{failed, inode_id, sync_directory};
use crate::os::unlock;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use silica_base::{Error, ErrorKind, Result};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a file's lock is called: the file's name and this.
const LOCK: &str = ".lock";
/// What a file's successor is called until it takes its place.
const NEW: &str = ".new";
/// How often a file that another process replaces is tried again, and after which time: for 5 s in
/// all. A replacement takes as long as a sync.
const TRIES_MAX: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(5);

/// A file that no other process takes for as long as this lives. The lock is a file beside it,
/// which stays, so the file itself may be missing, renamed and replaced.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes the file at `path`.
    ///
    /// # Errors
    /// `Locked` if it is taken, with the process that has it; `Io` if there can be no lock.
    pub fn take(path: &Path) -> Result<FileLock> {
        let beside = beside(path, LOCK);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&beside).map_err(|e| failed("open", &beside, e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(in_use(path, &mut file, "file")),
            Err(e) => return Err(failed("lock", &beside, e.into())),
        }
        note_holder(&beside, &file)?;
        Ok(FileLock(file))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        unlock(&self.0);
    }
}

/// Writes this process's number into a lock `file` at `path`, for the error message of whoever
/// comes next; the lock itself does not depend on it.
pub(super) fn note_holder(path: &Path, file: &File) -> Result<()> {
    let note = || -> io::Result<()> {
        file.set_len(0)?;
        (&*file).write_all(format!("{}\n", std::process::id()).as_bytes())
    };
    note().map_err(|e| failed("write", path, e))
}

/// The error of whoever finds `path`, which is a `kind`, locked by the process that the lock
/// `file` names.
pub(super) fn in_use(path: &Path, file: &mut File, kind: &str) -> Error {
    let mut text = String::new();
    let holder = match file.take(32).read_to_string(&mut text).map(|_| text.trim().parse::<u32>()) {
        Ok(Ok(pid)) => format!("process {pid}"),
        _ => "another process".to_string(),
    };
    let path = path.display();
    let message = format!("{path} is in use by {holder}; stop it or use another {kind}");
    Error::new(ErrorKind::Locked, message)
}

/// Replaces the file at `path`, durably, by what `make` returns; a crash leaves one of both. While
/// `make` runs no other process replaces the file in this way, so it may begin with a read of it.
/// The new file has `permissions`, or those of the file that is there.
///
/// # Errors
/// That of `make`; `Locked` if others replace the file for seconds; `Io`. The file is as before
/// then, unless it was its directory that was not synced.
pub fn rewrite_file(
    path: &Path,
    permissions: Option<Permissions>,
    make: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<()> {
    let new = beside(path, NEW);
    let mut file = successor(&new)?;
    let done = rewrite(path, permissions, &new, &mut file, make);
    if done.is_err() {
        // It is gone if it was the directory that was not synced.
        let _ = fs::remove_file(&new);
    }
    unlock(&file);
    done
}

fn rewrite(
    path: &Path,
    permissions: Option<Permissions>,
    new: &Path,
    file: &mut File,
    make: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<()> {
    let bytes = make()?;
    let permissions = match permissions {
        Some(permissions) => permissions,
        None => fs::metadata(path).map_err(|e| failed("open", path, e))?.permissions(),
    };
    let write = || {
        file.set_permissions(permissions)?;
        file.set_len(0)?;
        file.write_all(&bytes)?;
        file.sync_all()
    };
    write().map_err(|e| failed("write", new, e))?;
    fs::rename(new, path).map_err(|e| failed("rename", new, e))?;
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(directory) => sync_directory(directory),
        None => sync_directory(Path::new(".")),
    }
}

/// The file `new`, which others may be about to rename or to write: locked, and still called so.
fn successor(new: &Path) -> Result<File> {
    for _ in 0..TRIES_MAX {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(new).map_err(|e| failed("create", new, e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let inode =
                    |metadata: io::Result<fs::Metadata>| metadata.as_ref().ok().map(inode_id);
                if inode(fs::metadata(new)) == inode(file.metadata()) {
                    return Ok(file);
                }
                unlock(&file);
            }
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Err(e) => return Err(failed("lock", new, e.into())),
        }
    }
    let message = format!("{} is being written by another process; try again", new.display());
    Err(Error::new(ErrorKind::Locked, message))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    beside.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::test_size;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_of_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        let lock = FileLock::take(&path).unwrap();
        // It comes and goes.
        fs::write(&path, "1").unwrap();
        fs::remove_file(&path).unwrap();
        let error = FileLock::take(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        let wanted = format!("map is in use by process {}; stop it", std::process::id());
        assert!(error.to_string().contains(&wanted), "{error}");
        FileLock::take(&dir.path().join("map2")).expect("another file is free");
        drop(lock);
        FileLock::take(&path).expect("it is free again");
    }

    /// Each of several writers adds a line to the lines that it finds: none is lost, and who reads
    /// finds whole lines.
    #[test]
    fn rewritten_files_are_whole_and_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("options");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let rounds = test_size(5, 20, 200);
        let add = |writer: usize| {
            for round in 0..rounds {
                let make = || {
                    let mut text = fs::read(&path).unwrap();
                    text.extend_from_slice(format!("{writer} {round} end\n").as_bytes());
                    Ok(text)
                };
                rewrite_file(&path, None, make).unwrap();
                let read = fs::read_to_string(&path).unwrap();
                assert!(read.lines().all(|line| line.ends_with(" end")), "{read}");
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|writer| drop(scope.spawn(move || add(writer))));
        });
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(lines as u64, 4 * rounds);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!beside(&path, NEW).exists());
    }

    /// What a process that died has left beside the file, longer than the new text, and open to
    /// all, is no part of it.
    #[test]
    fn what_a_dead_process_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        let new = beside(&path, NEW);
        fs::write(&new, "half of a longer text").unwrap();
        fs::set_permissions(&new, Permissions::from_mode(0o666)).unwrap();
        let private = Some(Permissions::from_mode(0o600));
        rewrite_file(&path, private, || Ok(b"users".to_vec())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"users");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = rewrite_file(&path, None, || Err(Error::new(ErrorKind::Config, "no")));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(fs::read(&path).unwrap(), b"users");
    }
}
