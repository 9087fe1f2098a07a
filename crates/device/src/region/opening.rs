//! How a [`FileRegion`] comes to be: created, opened, handed on.

use super::file::FileRegion;
use super::lines::WriteBack;
use super::mapping::Mapping;
use super::pages::{check_bytes, class_of_file, page_bytes};
use super::{RegionClass, platform};
use crate::os::{LockedFile, failed, fill_holes, reserve, sync_directory};
use rustix::fs::MemfdFlags;
use silica_base::{Error, Result};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// When lines are written back and waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flush {
    /// If the medium needs it.
    #[default]
    AsNeeded,
    /// On every medium: benchmarks see the cost of persistent memory's instructions without it.
    Always,
}

/// How a [`FileRegion`] is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionOptions {
    /// When lines are written back and waited for.
    pub flush: Flush,
    /// Bytes of addresses that are reserved, up to which a region can grow; half as often as the
    /// kernel refuses. They cost no memory.
    pub address_bytes: u64,
    /// Take space for holes that the file has when it is opened. Without it, an owner who
    /// releases space calls [`super::Region::reserve`] before it stores there again.
    pub fills_holes: bool,
}

impl RegionOptions {
    /// What [`RegionOptions::default`] gives.
    pub const USUAL: RegionOptions =
        RegionOptions { flush: Flush::AsNeeded, address_bytes: 1 << 40, fills_holes: true };
}

impl Default for RegionOptions {
    fn default() -> Self {
        Self::USUAL
    }
}

impl FileRegion {
    /// Creates the file `path`, which must not exist, with `bytes` zero bytes and their space,
    /// and maps it. Its name is durable. On hugetlbfs it has whole huge pages.
    ///
    /// # Errors
    /// `Config` if `bytes` is 0 or no multiple of 4096; `Full` if there is no space; `Io`.
    pub fn create(path: &Path, bytes: u64) -> Result<Self> {
        Self::create_with(path, bytes, RegionOptions::default())
    }

    /// [`FileRegion::create`] with options.
    ///
    /// # Errors
    /// As for [`FileRegion::create`].
    pub fn create_with(path: &Path, bytes: u64, options: RegionOptions) -> Result<Self> {
        check_bytes(bytes)?;
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|e| failed("create", path, e))?;
        let made = LockedFile::lock(file, path).and_then(|file| {
            let bytes = bytes.next_multiple_of(page_bytes(&file));
            reserve(&file, bytes)
                .and_then(|()| file.sync_all())
                .map_err(|e| failed("reserve space for", path, e))?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_directory(parent.unwrap_or(Path::new(".")))?;
            Self::map(file, path, bytes, options)
        });
        made.inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    }

    /// Maps the file `path`. With `expected`, a file of another length is refused.
    ///
    /// # Errors
    /// `NotFound`; `Corruption` if its length is not the expected one or cannot be a region's;
    /// `Locked` if it is open elsewhere; `Full` if its space is not reserved and there is none;
    /// `Io`.
    pub fn open(path: &Path, expected: Option<u64>) -> Result<Self> {
        Self::open_with(path, expected, RegionOptions::default())
    }

    /// [`FileRegion::open`] with options.
    ///
    /// # Errors
    /// As for [`FileRegion::open`].
    pub fn open_with(path: &Path, expected: Option<u64>, options: RegionOptions) -> Result<Self> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|e| failed("open", path, e))?;
        Self::from_named(file, path, expected, options)
    }

    /// Maps a file that somebody else opened and handed on, as a supervisor does with a file in
    /// memory (`memfd_create`) that is to survive this process. A lock counts for all that share
    /// the descriptor.
    ///
    /// # Errors
    /// As for [`FileRegion::open`].
    pub fn from_file(file: File, options: RegionOptions) -> Result<Self> {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(&link).unwrap_or_else(|_| link.into());
        Self::from_named(file, &path, None, options)
    }

    /// Creates a file of `bytes` zero bytes that is in memory and has no name in a file system
    /// (`memfd_create`); `name` is for messages. It survives this process if [`FileRegion::file`]
    /// is handed on.
    ///
    /// # Errors
    /// As for [`FileRegion::create`].
    pub fn in_memory(name: &str, bytes: u64, options: RegionOptions) -> Result<Self> {
        check_bytes(bytes)?;
        let path = PathBuf::from(format!("memfd:{name}"));
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC);
        let file = File::from(file.map_err(|e| failed("create", &path, e.into()))?);
        reserve(&file, bytes).map_err(|e| failed("reserve space for", &path, e))?;
        Self::from_named(file, &path, None, options)
    }

    fn from_named(
        file: File,
        path: &Path,
        expected: Option<u64>,
        options: RegionOptions,
    ) -> Result<Self> {
        let file = LockedFile::lock(file, path)?;
        let bytes = file.metadata().map_err(|e| failed("look at", path, e))?.len();
        let page_bytes = page_bytes(&file);
        let expected = expected.map(|expected| expected.next_multiple_of(page_bytes));
        if let Some(expected) = expected.filter(|expected| *expected != bytes) {
            let detail = format!("it has {bytes} bytes, not {expected}: it was cut or extended");
            return Err(Error::corruption(path.display(), bytes.min(expected), detail));
        }
        if bytes == 0 || !bytes.is_multiple_of(page_bytes) {
            let detail = format!("{bytes} bytes are no region, which is whole pages of 4096");
            return Err(Error::corruption(path.display(), bytes, detail));
        }
        if options.fills_holes {
            fill_holes(&file, 0, bytes).map_err(|e| failed("reserve space for", path, e))?;
        }
        Self::map(file, path, bytes, options)
    }

    fn map(file: LockedFile, path: &Path, bytes: u64, options: RegionOptions) -> Result<Self> {
        let page_bytes = page_bytes(&file);
        let class = class_of_file(&file, page_bytes);
        let is_sync = class == RegionClass::Lines;
        let needs_flush = is_sync && !platform::flushes_caches(&file);
        let best = WriteBack::available().first().copied();
        let write_back = match options.flush {
            Flush::AsNeeded if !needs_flush => WriteBack::Nothing,
            _ => best.unwrap_or(WriteBack::Nothing),
        };
        let mapping = Mapping::reserve(options.address_bytes, bytes, is_sync)
            .and_then(|mapping| mapping.extend(&file, bytes).map(|()| mapping))
            .map_err(|e| failed("map", path, e))?;
        Ok(FileRegion {
            mapping,
            class,
            write_back,
            waits: is_sync || options.flush == Flush::Always,
            page_bytes,
            is_poisoned: AtomicBool::new(false),
            length: Mutex::new(()),
            path: path.to_path_buf(),
            file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;

    #[test]
    fn lines_are_written_back_if_the_medium_or_a_benchmark_wants_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("region");
        let region = FileRegion::create(&path, 4096).unwrap();
        assert_eq!(region.writes_lines_back(), region.class() == RegionClass::Lines);
        drop(region);
        let options = RegionOptions { flush: Flush::Always, ..RegionOptions::default() };
        let region = FileRegion::open_with(&path, None, options).unwrap();
        assert_eq!(region.writes_lines_back(), !WriteBack::available().is_empty());
    }
}
