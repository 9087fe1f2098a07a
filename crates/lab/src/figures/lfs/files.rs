//! What a load works on: files by number, of whichever file system.

use silica_base::{Error, ErrorKind, Result};
use silica_lfs::{Fault, Ground, Kind, Lfs, Make, Time};

/// The directory that is there from the beginning.
pub const ROOT: u64 = silica_lfs::ROOT;

/// How much a file system holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Pages that files can have.
    pub pages: u64,
    /// Those of them that none has.
    pub free_pages: u64,
}

/// What a file system and the device below did since they were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Device time, in nanoseconds.
    pub now_ns: u64,
    /// Pages that the file system wrote.
    pub written: u64,
    /// Pages that the file system copied to collect its own space.
    pub file_copies: u64,
    /// Pages that the device copied to collect its own space.
    pub flash_copies: u64,
    /// Blocks that the device erased.
    pub erases: u64,
}

/// A file system under a load. Contents are zeroes.
///
/// Every call fails with `Full` if the load does not fit, and with what the device says.
#[allow(clippy::missing_errors_doc)]
pub trait Files {
    /// Bytes of a page of the device, in which a load counts.
    fn page_bytes(&self) -> u64;

    /// How much there is.
    fn usage(&self) -> Result<Usage>;

    /// Makes a file or a directory and returns its number.
    fn make(&mut self, parent: u64, name: &str, is_directory: bool) -> Result<u64>;

    /// Appends zeroes to a file and returns how many bytes it had.
    fn append(&mut self, file: u64, bytes: u64) -> Result<u64>;

    /// Bytes of a file.
    fn bytes(&self, file: u64) -> Result<u64>;

    /// Reads a part of a file from the device: no cache has it.
    fn read(&mut self, file: u64, at: u64, bytes: u64) -> Result<()>;

    /// Removes a file.
    fn unlink(&mut self, parent: u64, name: &str, file: u64) -> Result<()>;

    /// Makes a file empty.
    fn empty(&mut self, file: u64) -> Result<()>;

    /// Makes everything durable.
    fn sync(&mut self) -> Result<()>;

    /// All clients have done their list of operations once more.
    fn end_round(&mut self) -> Result<()> {
        Ok(())
    }

    /// What was done so far.
    fn work(&self) -> Work;
}

/// Our file system, and what its ground says of its work.
pub(super) struct Ours<'l, G> {
    pub(super) lfs: &'l Lfs<G>,
    /// Time, copies and erases of the device.
    pub(super) below: &'l dyn Fn() -> Work,
}

const NOW: Time = Time { seconds: 0, nanoseconds: 0 };

fn failed(fault: Fault) -> Error {
    match fault {
        Fault::Store(error) => error,
        fault => Error::new(ErrorKind::Full, format!("the load does not fit: {fault}")),
    }
}

impl<G: Ground> Files for Ours<'_, G> {
    fn page_bytes(&self) -> u64 {
        self.lfs.page_bytes() as u64
    }

    fn usage(&self) -> Result<Usage> {
        let usage = self.lfs.usage();
        Ok(Usage { pages: usage.pages, free_pages: usage.free_pages })
    }

    fn make(&mut self, parent: u64, name: &str, is_directory: bool) -> Result<u64> {
        let kind = if is_directory { Kind::Directory } else { Kind::File };
        let what = Make { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, target: b"" };
        self.lfs.make(parent, name.as_bytes(), &what, NOW).map_err(failed)
    }

    fn append(&mut self, file: u64, bytes: u64) -> Result<u64> {
        self.lfs.write(file, None, &vec![0; bytes as usize], NOW).map_err(failed)
    }

    fn bytes(&self, file: u64) -> Result<u64> {
        Ok(self.lfs.attributes(file).map_err(failed)?.0.size)
    }

    fn read(&mut self, file: u64, at: u64, bytes: u64) -> Result<()> {
        let mut to = vec![0; bytes as usize];
        self.lfs.read(file, at, &mut to).map(drop).map_err(failed)
    }

    fn unlink(&mut self, parent: u64, name: &str, _file: u64) -> Result<()> {
        self.lfs.unlink(parent, name.as_bytes(), NOW).map_err(failed)
    }

    fn empty(&mut self, file: u64) -> Result<()> {
        self.lfs.truncate(file, 0, NOW).map_err(failed)
    }

    fn sync(&mut self) -> Result<()> {
        self.lfs.sync().map_err(failed)
    }

    fn work(&self) -> Work {
        let own = self.lfs.statistics();
        Work { written: own.pages_written, file_copies: own.pages_copied, ..(self.below)() }
    }
}
