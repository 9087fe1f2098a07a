//! A mapped file.
//!
//! Invariants:
//!
//! 1. The file has its full length and its space before it is mapped, so that a store finds its
//!    page. A page that the kernel cannot give is a signal that nothing can answer.
//! 2. One opening at a time: the file is locked (`flock`) for as long as it is mapped. Whoever
//!    cuts the file nevertheless takes the process down.
//! 3. Mapped bytes are touched as atomic words only, through shared references.
//! 4. In the class `Pages`, a fence holds the list of what was flushed until the sync has ended:
//!    a thread whose ranges another thread has taken waits for that one's sync.
//! 5. A sync that failed is final.

use super::lines::WriteBack;
use super::{
    LINE_BYTES, Region, RegionClass, XPLINE_BYTES, lines_of, read_words, word_index, write_words,
};
use crate::os::{LockedFile, failed, reserve, sync_directory};
use memmap2::MmapRaw;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use silica_base::{Error, ErrorKind, Result};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Regions are mapped in pages of this size.
const MAP_BYTES: u64 = 4096;
/// Magic numbers of file systems in memory (statfs(2)).
const TMPFS: u64 = 0x0102_1994;
const HUGETLBFS: u64 = 0x9584_58F6;

/// A mapped file, for all classes of regions.
pub struct FileRegion {
    start: NonNull<AtomicU64>,
    bytes: u64,
    class: RegionClass,
    write_back: WriteBack,
    /// Flushed and not synced, in bytes; class `Pages` only.
    flushed: Mutex<Vec<Range<u64>>>,
    is_poisoned: AtomicBool,
    path: PathBuf,
    /// Unmaps when it is dropped, if it was not mapped with MAP_SYNC.
    _mapping: Option<MmapRaw>,
    /// Locked for as long as this is there.
    _file: LockedFile,
}

// SAFETY: the mapping is owned, and its bytes are touched as `AtomicU64` only, which is `Send`.
unsafe impl Send for FileRegion {}
// SAFETY: as above, and `AtomicU64` is `Sync`.
unsafe impl Sync for FileRegion {}

impl FileRegion {
    /// Creates the file `path`, which must not exist, with `bytes` zero bytes and their space,
    /// and maps it. Its name is durable.
    ///
    /// # Errors
    /// `Config` if `bytes` is 0 or no multiple of 4096; `Full` if there is no space; `Io`.
    pub fn create(path: &Path, bytes: u64) -> Result<Self> {
        if bytes == 0 || !bytes.is_multiple_of(MAP_BYTES) {
            let message =
                format!("a region of {bytes} bytes cannot be; use a multiple of {MAP_BYTES}");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|e| failed("create", path, e))?;
        let made = LockedFile::lock(file, path).and_then(|file| {
            reserve(&file, bytes)
                .and_then(|()| file.sync_all())
                .map_err(|e| failed("reserve space for", path, e))?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_directory(parent.unwrap_or(Path::new(".")))?;
            Self::map(file, path, bytes)
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
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|e| failed("open", path, e))?;
        let file = LockedFile::lock(file, path)?;
        let bytes = file.metadata().map_err(|e| failed("look at", path, e))?.len();
        if let Some(expected) = expected.filter(|expected| *expected != bytes) {
            let detail = format!("it has {bytes} bytes, not {expected}: it was cut or extended");
            return Err(Error::corruption(path.display(), bytes.min(expected), detail));
        }
        if bytes == 0 || !bytes.is_multiple_of(MAP_BYTES) {
            let detail = format!("{bytes} bytes are no region, which is whole pages of 4096");
            return Err(Error::corruption(path.display(), bytes, detail));
        }
        reserve(&file, bytes).map_err(|e| failed("reserve space for", path, e))?;
        Self::map(file, path, bytes)
    }

    fn map(file: LockedFile, path: &Path, bytes: u64) -> Result<Self> {
        let region = |start, class, write_back, mapping, file| FileRegion {
            start,
            bytes,
            class,
            write_back,
            flushed: Mutex::new(Vec::new()),
            is_poisoned: AtomicBool::new(false),
            path: path.to_path_buf(),
            _mapping: mapping,
            _file: file,
        };
        if let Some(write_back) = WriteBack::available().first()
            && let Some(start) = map_sync(&file, bytes)
        {
            return Ok(region(start, RegionClass::Lines, *write_back, None, file));
        }
        let options = memmap2::MmapOptions::new().len(bytes as usize).clone();
        let mapping = options.map_raw(&*file).map_err(|e| failed("map", path, e))?;
        let start = NonNull::new(mapping.as_mut_ptr().cast()).expect("a mapping is not at 0");
        let class = match rustix::fs::fstatfs(&*file) {
            Ok(found) if [TMPFS, HUGETLBFS].contains(&(found.f_type as u64)) => {
                RegionClass::Process
            }
            _ => RegionClass::Pages,
        };
        Ok(region(start, class, WriteBack::Nothing, Some(mapping), file))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `start` is the beginning of a mapping of `bytes` bytes, page aligned, that
        // lives as long as `self`; invariant 1 keeps its pages there, and invariant 3 keeps
        // everybody in this process from looking at it as anything else. The lock keeps other
        // processes of ours away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), (self.bytes / 8) as usize) }
    }

    /// Syncs what was flushed.
    fn sync_flushed(&self) -> Result<()> {
        let mut flushed = self.flushed.lock().expect("no panic while locked");
        if self.is_poisoned.load(Ordering::Relaxed) {
            let message =
                format!("an earlier sync of {} failed; open it again", self.path.display());
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        let ranges = merged(std::mem::take(&mut *flushed));
        for range in ranges {
            // SAFETY: the range lies in the mapping, which lives as long as `self`; `msync` only
            // reads it.
            let synced = unsafe {
                let start = self.start.as_ptr().cast::<u8>().add(range.start as usize);
                let len = (range.end - range.start) as usize;
                rustix::mm::msync(start.cast::<c_void>(), len, MsyncFlags::SYNC)
            };
            if let Err(e) = synced {
                self.is_poisoned.store(true, Ordering::Relaxed);
                return Err(failed("sync", &self.path, e.into()));
            }
        }
        Ok(())
    }
}

/// Maps a file of persistent memory so that lines need no help of the file system; `None` if the
/// file is on anything else.
fn map_sync(file: &File, bytes: u64) -> Option<NonNull<AtomicU64>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this
    // process.
    let mapped = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            bytes as usize,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            file,
            0,
        )
    };
    NonNull::new(mapped.ok()?.cast())
}

/// Ranges as whole pages, in order, those that touch as one.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    for range in &mut ranges {
        *range = range.start / MAP_BYTES * MAP_BYTES..range.end.next_multiple_of(MAP_BYTES);
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

impl Region for FileRegion {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn class(&self) -> RegionClass {
        self.class
    }

    #[inline]
    fn load(&self, offset: u64) -> u64 {
        u64::from_le(self.words()[word_index(offset)].load(Ordering::Acquire))
    }

    #[inline]
    fn store(&self, offset: u64, value: u64) {
        self.words()[word_index(offset)].store(value.to_le(), Ordering::Release);
    }

    #[inline]
    fn read(&self, offset: u64, bytes: &mut [u8]) {
        read_words(self.words(), offset, bytes);
    }

    #[inline]
    fn write(&self, offset: u64, bytes: &[u8]) {
        let words = self.words();
        let load = |word: usize| u64::from_le(words[word].load(Ordering::Relaxed));
        let store = |word: usize, value: u64| words[word].store(value.to_le(), Ordering::Relaxed);
        write_words(offset, bytes, load, store);
    }

    fn stream(&self, offset: u64, bytes: &[u8]) {
        if self.class != RegionClass::Lines || !WriteBack::STREAMS {
            self.write(offset, bytes);
            return self.flush(offset, bytes.len() as u64);
        }
        let words = self.words();
        let load = |word: usize| u64::from_le(words[word].load(Ordering::Relaxed));
        let stream = |word: usize, value: u64| WriteBack::stream(&words[word], value.to_le());
        write_words(offset, bytes, load, stream);
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        let lines = lines_of(offset, len, self.bytes);
        match self.class {
            RegionClass::Process => {}
            RegionClass::Lines => {
                for line in lines {
                    self.write_back.line(&self.words()[(line * LINE_BYTES / 8) as usize]);
                }
            }
            RegionClass::Pages if lines.is_empty() => {}
            RegionClass::Pages => {
                let range = lines.start * LINE_BYTES..lines.end * LINE_BYTES;
                let mut flushed = self.flushed.lock().expect("no panic while locked");
                match flushed.last_mut().filter(|last| last.end == range.start) {
                    Some(last) => last.end = range.end,
                    None => flushed.push(range),
                }
            }
        }
    }

    #[inline]
    fn fence(&self) -> Result<()> {
        match self.class {
            RegionClass::Lines | RegionClass::Process => {
                self.write_back.fence();
                Ok(())
            }
            RegionClass::Pages => self.sync_flushed(),
        }
    }
}

impl Drop for FileRegion {
    fn drop(&mut self) {
        if self._mapping.is_none() {
            // SAFETY: `map_sync` mapped these bytes, and nothing borrows them any more.
            let unmapped = unsafe {
                rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes as usize)
            };
            if let Err(e) = unmapped {
                log::warn!("{} stays mapped: {e}", self.path.display());
            }
        }
    }
}

const _: () = assert!(MAP_BYTES.is_multiple_of(XPLINE_BYTES));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_whole_pages_once() {
        let ranges = vec![9000..9064, 0..64, 4000..4160, 64..128, 20_480..20_481];
        assert_eq!(merged(ranges), [0..12_288, 20_480..24_576]);
        assert_eq!(merged(Vec::new()), []);
    }

    #[test]
    fn lines_are_written_back_by_every_instruction() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("region");
        let mut region = FileRegion::create(&path, 8192).unwrap();
        region.class = RegionClass::Lines;
        for write_back in WriteBack::available() {
            region.write_back = write_back;
            region.write(100, &[7; 300]);
            region.flush(100, 300);
            region.fence().unwrap();
            let mut bytes = [0; 300];
            region.read(100, &mut bytes);
            assert_eq!(bytes, [7; 300]);
            for (offset, len) in [(64, 256), (61, 70), (8, 3), (4, 8), (0, 0)] {
                let new: Vec<u8> = (0..len).map(|i| (i + offset) as u8).collect();
                region.stream(offset, &new);
                region.fence().unwrap();
                let mut bytes = vec![0; len as usize];
                region.read(offset, &mut bytes);
                assert_eq!(bytes, new, "{len} bytes at {offset}");
            }
            let mut beside = [0; 2];
            region.read(320, &mut beside);
            assert_eq!(beside, [7; 2], "bytes beside stay");
        }
    }

    #[test]
    fn a_fence_takes_what_was_flushed() {
        let dir = tempfile::tempdir().unwrap();
        let mut region = FileRegion::create(&dir.path().join("region"), 16_384).unwrap();
        region.class = RegionClass::Pages;
        region.flush(100, 8);
        region.flush(128, 64);
        region.flush(9000, 1);
        let flushed = |region: &FileRegion| region.flushed.lock().unwrap().clone();
        assert_eq!(flushed(&region), [64..192, 8960..9024]);
        region.fence().unwrap();
        assert_eq!(flushed(&region), []);
    }

    #[test]
    fn a_failed_sync_is_final() {
        let dir = tempfile::tempdir().unwrap();
        let mut region = FileRegion::create(&dir.path().join("region"), 8192).unwrap();
        region.class = RegionClass::Pages;
        // The kernel refuses to sync what is not mapped.
        region.flushed.get_mut().unwrap().push(1 << 40..(1 << 40) + 64);
        assert_eq!(region.fence().unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(region.fence().unwrap_err().kind(), ErrorKind::Poisoned);
    }
}
