//! What every medium asks of the operating system: whole reads and writes, space, syncs of
//! directories, and errors that say what to do.
//!
//! Invariant: everything that the kernel may do in part (short reads and writes, interrupted calls)
//! is completed here or reported as an error.

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use silica_base::{Error, ErrorKind, Result};
use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What tells two inodes apart.
pub(crate) type InodeId = (u64, u64);

pub(crate) fn inode_id(metadata: &Metadata) -> InodeId {
    (metadata.dev(), metadata.ino())
}

/// An error about `path`, with the fix where there is one.
pub(crate) fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    let has_too_many = source.raw_os_error() == Some(Errno::MFILE.raw_os_error());
    let fix = match source.kind() {
        _ if has_too_many => " (let this process have more files open: raise `ulimit -n`)",
        io::ErrorKind::PermissionDenied => {
            " (the user who runs this process needs read and write access to it)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (remount the file system for writing)",
        io::ErrorKind::StorageFull => " (free some space or move the store to a larger disk)",
        _ => "",
    };
    Error::io(format!("cannot {what} {}{fix}", path.display()), source)
}

/// Says why a file could not be made; that there is one already is the caller's choice of a name.
pub(crate) fn create_failed(path: &Path, source: io::Error) -> Error {
    if source.kind() != io::ErrorKind::AlreadyExists {
        return failed("create", path, source);
    }
    let message = format!("{} is there already; choose another name, or remove it", path.display());
    Error::new(ErrorKind::Config, message)
}

/// Repeats `call` for as long as a signal interrupts it.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_all(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    write_all_by(|bytes, offset| file.write_at(bytes, offset), offset, bytes)
}

/// Writes all of `bytes` by calls that may write a part of them.
fn write_all_by(
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
    mut offset: u64,
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = uninterrupted(|| write(bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Reads until `buf` is full or the file ends. `granule` is what the kernel counts a direct read
/// in: a count that is no multiple of it means the end of the file (1 for buffered reads).
pub(crate) fn read_full(
    file: &File,
    offset: u64,
    buf: &mut [u8],
    granule: usize,
) -> io::Result<usize> {
    read_full_by(|buf, offset| file.read_at(buf, offset), offset, buf, granule)
}

/// Reads by calls that may read a part of what is there.
fn read_full_by(
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    offset: u64,
    buf: &mut [u8],
    granule: usize,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        let n = uninterrupted(|| read(&mut buf[filled..], offset + filled as u64))?;
        filled += n;
        if n == 0 || !filled.is_multiple_of(granule) {
            break;
        }
    }
    Ok(filled)
}

/// Fails with `StorageFull` where the file system has no room for `more` bytes. Asking first
/// keeps a hopeless reservation from filling the disk on its way to failing.
pub(crate) fn check_room(file: &File, more: u64) -> io::Result<()> {
    let space = rustix::fs::fstatvfs(file)?;
    // Files in memory have no file system of a size.
    if space.f_blocks > 0 && more > space.f_bavail.saturating_mul(space.f_frsize) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

/// Unlocks a file (`flock`) that is about to be closed. Closing is not enough: a process that
/// somebody starts meanwhile has a copy of the descriptor until it runs its own program, and would
/// keep the lock so long.
pub(crate) fn unlock(file: &File) {
    if let Err(e) = rustix::fs::flock(file, FlockOperation::Unlock) {
        log::warn!("a file stays locked until it is closed: {e}");
    }
}

/// A file that is locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// Locks a file against all others.
    pub(crate) fn lock(file: File, path: &Path) -> Result<Self> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(LockedFile(file)),
            Err(Errno::WOULDBLOCK) => {
                let message =
                    format!("{} is open elsewhere; stop that process first", path.display());
                Err(Error::new(ErrorKind::Locked, message))
            }
            Err(e) => Err(failed("lock", path, e.into())),
        }
    }
}

impl Deref for LockedFile {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        unlock(&self.0);
    }
}

/// A directory that is to be synced.
pub(crate) struct OpenDirectory {
    file: File,
    pub(crate) inode: InodeId,
}

impl OpenDirectory {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|e| failed("open the directory", path, e))?;
        Ok(OpenDirectory { file, inode: inode_id(&metadata) })
    }

    /// Makes its names durable. For messages: it is at `path`.
    pub(crate) fn sync(&self, path: &Path) -> Result<()> {
        self.file.sync_all().map_err(|e| failed("sync the directory", path, e))
    }
}

/// Syncs a directory.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    OpenDirectory::open(path)?.sync(path)
}

/// `fallocate`, repeated for as long as a signal interrupts it, as completions of io_uring do.
pub(crate) fn allocate(
    file: &File,
    flags: FallocateFlags,
    from: u64,
    len: u64,
) -> std::result::Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(file, flags, from, len) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Gives an empty file its length and its space.
pub(crate) fn reserve(file: &File, capacity: u64) -> io::Result<()> {
    reserve_behind(file, 0, capacity)
}

/// Extends a file that has `from` bytes to `bytes`, with space for what is new. If it fails, the
/// file may be longer.
pub(crate) fn reserve_behind(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    if bytes == from {
        return Ok(());
    }
    check_room(file, bytes - from)?;
    match allocate(file, FallocateFlags::empty(), from, bytes - from) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeroes = vec![0; (bytes - from).min(1 << 20) as usize];
            let mut at = from;
            while at < bytes {
                let len = (bytes - at).min(zeroes.len() as u64);
                write_all(file, at, &zeroes[..len as usize])?;
                at += len;
            }
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

/// Takes space for the holes of a range within the file. File systems that cannot (those without
/// holes among them) are believed to have it.
pub(crate) fn fill_holes(file: &File, from: u64, len: u64) -> io::Result<()> {
    match allocate(file, FallocateFlags::KEEP_SIZE, from, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Gives the space of a range within the file back; its bytes are zero from here on. File systems
/// without holes keep space and bytes.
pub(crate) fn punch_hole(file: &File, from: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match allocate(file, flags, from, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// A number that is another one each time the machine was started. If the kernel does not tell, it
/// is another one at each call: that what was there before a start of the machine is believed lost
/// is the safe mistake.
pub(crate) fn boot_number() -> u64 {
    let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    told.and_then(|id| folded_id(&id)).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_nanos() as u64)
    })
}

/// The two halves of a UUID in one: some of its bits are the same in all of them.
fn folded_id(id: &str) -> Option<u64> {
    let digits: String = id.trim().chars().filter(|digit| *digit != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok()?;
    Some(id as u64 ^ (id >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{Interrupted, StorageFull, WriteZero};

    #[test]
    fn errors_that_a_user_can_mend_name_the_fix() {
        let said = |errno: Errno| failed("open", Path::new("t"), errno.into()).to_string();
        assert!(said(Errno::MFILE).contains("ulimit -n"));
        assert!(said(Errno::ACCESS).contains("read and write access"));
        assert!(said(Errno::NOSPC).contains("free some space"));
    }

    #[test]
    fn a_start_of_the_machine_has_a_number() {
        assert_eq!(boot_number(), boot_number());
        assert_eq!(folded_id("00000000-0000-0001-0000-000000000006\n"), Some(7));
        assert_eq!(folded_id("no id"), None);
    }

    #[test]
    fn a_lock_ends_with_its_owner_not_with_copies_of_the_descriptor() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = || LockedFile::lock(file.reopen().unwrap(), file.path());
        let locked = lock().unwrap();
        // As a process has it that is being started.
        let copy = locked.try_clone().unwrap();
        assert_eq!(lock().map(|_| ()).unwrap_err().kind(), ErrorKind::Locked);
        drop(locked);
        drop(lock().unwrap());
        drop(copy);
    }

    #[test]
    fn short_and_interrupted_writes_are_completed() {
        let mut disk = vec![0; 10];
        let mut calls = 0;
        let write = |bytes: &[u8], offset: u64| {
            calls += 1;
            if calls % 2 == 1 {
                return Err(Interrupted.into());
            }
            let n = bytes.len().min(3);
            disk[offset as usize..][..n].copy_from_slice(&bytes[..n]);
            Ok(n)
        };
        write_all_by(write, 1, b"12345678").unwrap();
        assert_eq!(disk, b"\x0012345678\x00");
    }

    #[test]
    fn a_write_that_stops_short_is_an_error() {
        let stuck = write_all_by(|_, _| Ok(0), 0, b"12").unwrap_err();
        assert_eq!(stuck.kind(), WriteZero);
        let mut room = 1;
        let full = |_: &[u8], _: u64| match std::mem::take(&mut room) {
            0 => Err(StorageFull.into()),
            n => Ok(n),
        };
        assert_eq!(write_all_by(full, 0, b"12").unwrap_err().kind(), StorageFull);
    }

    #[test]
    fn short_reads_go_on_until_the_end() {
        let disk = b"0123456789";
        let mut interrupt = true;
        let mut pieces = |piece: usize, len: usize, granule: usize| {
            let read = |buf: &mut [u8], offset: u64| {
                interrupt = !interrupt;
                if !interrupt {
                    return Err(Interrupted.into());
                }
                let rest = &disk[disk.len().min(offset as usize)..];
                let n = rest.len().min(piece).min(buf.len());
                buf[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            };
            let mut buf = vec![0; len];
            let n = read_full_by(read, 1, &mut buf, granule).unwrap();
            String::from_utf8(buf[..n].to_vec()).unwrap()
        };
        assert_eq!(pieces(4, 7, 1), "1234567");
        assert_eq!(pieces(4, 20, 1), "123456789");
        // 4 + 4 + 1 bytes: the odd count is the end, and nothing is read at an odd offset.
        assert_eq!(pieces(4, 20, 4), "123456789");
        assert_eq!(pieces(3, 20, 4), "123");
    }
}
