//! Positional files of a real file system.

use super::directory::Shared;
use super::pool::Kind;
use super::transfer::FileTransfer;
use super::{DeviceFile, Lifetime};
use super::{InodeId, check_room, failed, read_full, write_all};
use crate::os::allocate;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use silica_base::{AlignedBuf, BLOCK_BYTES, Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of a [`super::FileDevice`].
pub struct PlainFile {
    /// Shared with the threads that read from it for a queue.
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    /// The caller promised aligned I/O.
    pub(super) aligned: bool,
    /// The kernel holds us to it.
    pub(super) direct: bool,
    /// What is written is dropped: the file was there, and its device is only read.
    pub(super) drops: bool,
    pub(super) inode: InodeId,
    /// What the kernel was told of.
    pub(super) lifetime: Option<Lifetime>,
    pub(super) shared: Arc<Shared>,
}

impl PlainFile {
    /// What a short count of a read is a multiple of, unless the file ended.
    pub(super) fn granule(&self) -> usize {
        if self.direct { BLOCK_BYTES } else { 1 }
    }

    pub(super) fn check_alignment(&self, offset: u64, bytes: &[u8]) {
        let aligned = offset.is_multiple_of(BLOCK_BYTES as u64)
            && bytes.len().is_multiple_of(BLOCK_BYTES)
            && (bytes.as_ptr() as usize).is_multiple_of(BLOCK_BYTES);
        assert!(
            !self.aligned || aligned,
            "direct I/O needs multiples of {BLOCK_BYTES}: offset {offset}, length {}, address {:p}",
            bytes.len(),
            bytes.as_ptr()
        );
    }
}

impl Drop for PlainFile {
    /// The last who has a removed file waits until its blocks are free, and, on some file systems,
    /// until the device has discarded them.
    fn drop(&mut self) {
        let is_removed = self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0);
        if is_removed {
            // Something has to be in its place.
            let file = std::mem::replace(&mut self.file, self.shared.lock.clone());
            self.shared.transfers.close(file);
        }
    }
}

impl DeviceFile for PlainFile {
    type Transfer = FileTransfer;

    fn with_lifetime(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = self.shared.hints.give(&self.file, lifetime);
        self
    }

    fn begin_read(&self, offset: u64, buf: AlignedBuf) -> FileTransfer {
        FileTransfer::begin(Kind::Read, self, offset, buf)
    }

    fn begin_write(&self, offset: u64, buf: AlignedBuf) -> FileTransfer {
        FileTransfer::begin(Kind::Write, self, offset, buf)
    }

    fn begin_write_and_sync(&self, offset: u64, buf: AlignedBuf) -> FileTransfer {
        FileTransfer::begin(Kind::WriteAndSync, self, offset, buf)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.check_alignment(offset, buf);
        let read = read_full(&self.file, offset, buf, self.granule())
            .map_err(|e| failed("read", &self.path, e))?;
        self.shared.counters.add_read(read as u64);
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_alignment(offset, bytes);
        if self.drops {
            return Ok(());
        }
        write_all(&self.file, offset, bytes).map_err(|e| failed("write", &self.path, e))?;
        self.shared.counters.add_write(bytes.len() as u64, self.lifetime);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.shared.sync_inode(&self.file, self.inode, &self.path)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        if self.shared.unwritten.is_some() {
            return Ok(());
        }
        let failed = |e: io::Error| failed("reserve space for", &self.path, e);
        let metadata = self.file.metadata().map_err(failed)?;
        let there = metadata.blocks() * 512;
        if len <= metadata.len().min(there) {
            return Ok(());
        }
        check_room(&self.file, len.saturating_sub(there)).map_err(failed)?;
        match allocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            // Reserving is a service; where the file system has none, writes find out.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => {
                // Gives back what was reserved past the end before space ran out.
                let _ = self.file.set_len(metadata.len());
                Err(failed(e.into()))
            }
        }
    }

    fn truncate(&self, len: u64) -> Result<()> {
        if self.drops {
            return Ok(());
        }
        self.file.set_len(len).map_err(|e| failed("truncate", &self.path, e))
    }

    fn len(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        metadata.map(|m| m.len()).map_err(|e| failed("look at", &self.path, e))
    }
}

/// The error of every sync after a failed one.
pub(super) fn poisoned(path: &std::path::Path) -> Error {
    let path = path.display();
    let message =
        format!("an earlier sync of {path} failed; reopen the store to find what is kept");
    Error::new(ErrorKind::Poisoned, message)
}
