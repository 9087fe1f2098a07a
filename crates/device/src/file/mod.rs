//! A directory of a real file system.
//!
//! Invariants:
//!
//! 1. One process at a time: the `LOCK` file of the root directory is locked (`flock`) for as
//!    long as any device, file or log of it lives.
//! 2. A sync that failed is final: the inode is remembered as poisoned, and no handle of this
//!    process, not even one opened later, reports a successful sync for it.
//! 3. A log that is being appended to is never mapped a second time in this process.
//! 4. Everything the kernel may do in part (short reads and writes, interrupted calls) is
//!    completed here or reported as an error.

mod directory;
mod log;
mod plain;
mod pool;
mod uring;

pub use directory::{DeviceOptions, FileDevice, IoChoice};
pub use log::MappedLog;
pub use plain::PlainFile;

use silica_base::{Error, Result};
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

/// The reads of one submission.
type ReadBurst<'r> = [crate::Read<'r, PlainFile>];

/// What tells two inodes apart.
type InodeId = (u64, u64);

fn inode_id(metadata: &Metadata) -> InodeId {
    (metadata.dev(), metadata.ino())
}

/// A set of inodes.
#[derive(Default)]
struct Inodes(Mutex<BTreeSet<InodeId>>);

impl Inodes {
    fn insert(&self, id: InodeId) {
        self.0.lock().expect("no panic while locked").insert(id);
    }

    fn remove(&self, id: InodeId) {
        self.0.lock().expect("no panic while locked").remove(&id);
    }

    fn contains(&self, id: InodeId) -> bool {
        self.0.lock().expect("no panic while locked").contains(&id)
    }
}

/// An error about `path`, with the fix where there is one.
fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    let fix = match source.kind() {
        io::ErrorKind::PermissionDenied => {
            " (the user who runs this process needs read and write access to it)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (remount the file system for writing)",
        io::ErrorKind::StorageFull => " (free some space or move the store to a larger disk)",
        _ => "",
    };
    Error::io(format!("cannot {what} {}{fix}", path.display()), source)
}

/// Repeats `call` for as long as a signal interrupts it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Asks for direct I/O on an open file; false where the file system refuses it.
fn make_direct(file: &File) -> io::Result<bool> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    match rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::DIRECT) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Writes all of `bytes` at `offset`.
fn write_all(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    while !bytes.is_empty() {
        let written = uninterrupted(|| file.write_at(bytes, offset))?;
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
fn read_full(file: &File, offset: u64, buf: &mut [u8], granule: usize) -> io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let mut filled = 0;
    while filled < buf.len() {
        let n = uninterrupted(|| file.read_at(&mut buf[filled..], offset + filled as u64))?;
        filled += n;
        if n == 0 || !filled.is_multiple_of(granule) {
            break;
        }
    }
    Ok(filled)
}

/// Syncs a directory.
fn sync_directory(path: &Path) -> Result<()> {
    let directory = File::open(path).map_err(|e| failed("open the directory", path, e))?;
    directory.sync_all().map_err(|e| failed("sync the directory", path, e))
}
