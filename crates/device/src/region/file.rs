//! A mapped file.
//!
//! Invariants:
//!
//! 1. The file has its full length, and its space but for what was released, before it is mapped,
//!    so that a store finds its page. A page that the kernel cannot give is a signal that nothing
//!    can answer.
//! 2. One opening at a time: the file is locked (`flock`) for as long as it is mapped. Whoever
//!    cuts the file nevertheless takes the process down.
//! 3. The file is extended before more of it is mapped, and cut after less of it is: what is
//!    mapped is always there.
//! 4. A sync that failed is final.

use super::lines::WriteBack;
use super::mapping::Mapping;
use super::pages::check_bytes;
use super::{LINE_BYTES, Region, RegionClass, lines_of, read_words, word_index, write_words};
use crate::os::{LockedFile, failed, fill_holes, punch_hole, reserve_behind};
use silica_base::{Error, ErrorKind, Result};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// A mapped file, for all classes of regions.
pub struct FileRegion {
    pub(super) mapping: Mapping,
    pub(super) class: RegionClass,
    pub(super) write_back: WriteBack,
    /// True if a fence waits for stores to leave the processor: what is in its store buffer is lost
    /// when power fails, even on platforms that save its caches.
    pub(super) waits: bool,
    /// Bytes of the smallest piece of the file that is mapped or given back.
    pub(super) page_bytes: u64,
    pub(super) is_poisoned: AtomicBool,
    /// Held while the file's length changes.
    pub(super) length: Mutex<()>,
    pub(super) path: PathBuf,
    /// Locked for as long as this is there.
    pub(super) file: LockedFile,
}

impl FileRegion {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to be handed on.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes that the region can grow to.
    pub fn bytes_max(&self) -> u64 {
        self.mapping.limit()
    }

    /// True if [`Region::flush`] writes lines back. It does not if the medium has no use for it,
    /// or the platform flushes its caches itself when power fails.
    pub fn writes_lines_back(&self) -> bool {
        self.write_back != WriteBack::Nothing
    }

    /// Refuses a length that this region cannot have; whole pages of its medium otherwise.
    fn checked_length(&self, bytes: u64) -> Result<u64> {
        check_bytes(bytes)?;
        let limit = self.bytes_max();
        if bytes > limit {
            let path = self.path.display();
            let message = format!(
                "{path} cannot have {bytes} bytes: {limit} can be mapped; split the data, or open \
                 it again with more addresses (`ulimit -v`)"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(bytes.next_multiple_of(self.page_bytes))
    }

    /// Whole pages within a range of bytes.
    ///
    /// # Panics
    /// If the range reaches beyond the region.
    fn pages_within(&self, offset: u64, len: u64) -> Range<u64> {
        lines_of(offset, len, self.len());
        let end = (offset + len) / self.page_bytes * self.page_bytes;
        offset.next_multiple_of(self.page_bytes).min(end)..end
    }

    fn grow_file(&self, from: u64, bytes: u64) -> Result<()> {
        let grown = reserve_behind(&self.file, from, bytes)
            .and_then(|()| match self.class.survives_power_cut() {
                true => self.file.sync_all(),
                false => Ok(()),
            })
            .map_err(|e| failed("reserve space for", &self.path, e))
            .and_then(|()| {
                self.mapping.extend(&self.file, bytes).map_err(|e| failed("map", &self.path, e))
            });
        grown.inspect_err(|_| {
            if let Err(e) = self.file.set_len(from) {
                log::warn!("{} stays longer than it is mapped: {e}", self.path.display());
            }
        })
    }

    /// Makes the file shorter than what was mapped of it.
    fn cut_file(&self, bytes: u64) -> Result<()> {
        self.mapping.cut(bytes);
        let cut = self.file.set_len(bytes).and_then(|()| match self.class.survives_power_cut() {
            true => self.file.sync_all(),
            false => Ok(()),
        });
        cut.map_err(|e| failed("cut", &self.path, e))
    }

    /// A sync of everything by the kernel; a failure is final.
    fn sync_mapping(&self) -> Result<()> {
        if self.is_poisoned.load(Ordering::Relaxed) {
            let path = self.path.display();
            let message = format!("an earlier sync of {path} failed; open it again");
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        self.mapping.sync().map_err(|e| {
            self.is_poisoned.store(true, Ordering::Relaxed);
            failed("sync", &self.path, e)
        })
    }
}

impl Region for FileRegion {
    #[inline]
    fn len(&self) -> u64 {
        self.mapping.len()
    }

    fn class(&self) -> RegionClass {
        self.class
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let bytes = self.checked_length(bytes)?;
        let _one = self.length.lock().expect("no panic while locked");
        let from = self.len();
        match bytes.cmp(&from) {
            std::cmp::Ordering::Less => {
                let path = self.path.display();
                let message = format!("{path} has {from} bytes; cut it to {bytes} by truncate");
                Err(Error::new(ErrorKind::Config, message))
            }
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.grow_file(from, bytes),
        }
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        let bytes = self.checked_length(bytes)?;
        let _one = self.length.lock().expect("no panic while locked");
        let from = self.len();
        match bytes.cmp(&from) {
            std::cmp::Ordering::Greater => {
                let path = self.path.display();
                let message = format!("{path} has {from} bytes; extend it to {bytes} by grow");
                Err(Error::new(ErrorKind::Config, message))
            }
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => self.cut_file(bytes),
        }
    }

    fn release(&self, offset: u64, len: u64) -> Result<()> {
        let pages = self.pages_within(offset, len);
        if pages.is_empty() {
            return Ok(());
        }
        punch_hole(&self.file, pages.start, pages.end - pages.start)
            .map_err(|e| failed("give back space of", &self.path, e))
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<()> {
        lines_of(offset, len, self.len());
        if len == 0 {
            return Ok(());
        }
        let from = offset / self.page_bytes * self.page_bytes;
        let end = (offset + len).next_multiple_of(self.page_bytes);
        fill_holes(&self.file, from, end - from)
            .and_then(|()| match self.class.survives_power_cut() {
                true => self.file.sync_all(),
                false => Ok(()),
            })
            .map_err(|e| failed("reserve space for", &self.path, e))
    }

    fn sync(&self) -> Result<()> {
        self.fence()?;
        match self.class {
            RegionClass::Process => Ok(()),
            RegionClass::Lines | RegionClass::Pages => self.sync_mapping(),
        }
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        self.mapping.prefetch(offset);
    }

    #[inline]
    fn word(&self, offset: u64) -> u64 {
        u64::from_le(self.mapping.word(word_index(offset)).load(Ordering::Relaxed))
    }

    #[inline]
    fn load(&self, offset: u64) -> u64 {
        u64::from_le(self.mapping.word(word_index(offset)).load(Ordering::Acquire))
    }

    #[inline]
    fn store(&self, offset: u64, value: u64) {
        self.mapping.word(word_index(offset)).store(value.to_le(), Ordering::Release);
    }

    #[inline]
    fn read(&self, offset: u64, bytes: &mut [u8]) {
        let words = self.mapping.words(offset, bytes.len());
        let load = |word: usize| u64::from_le(words[word].load(Ordering::Relaxed));
        read_words(load, offset % 8, bytes);
    }

    #[inline]
    fn write(&self, offset: u64, bytes: &[u8]) {
        let words = self.mapping.words(offset, bytes.len());
        let load = |word: usize| u64::from_le(words[word].load(Ordering::Relaxed));
        let store = |word: usize, value: u64| words[word].store(value.to_le(), Ordering::Relaxed);
        write_words(offset % 8, bytes, load, store);
    }

    fn stream(&self, offset: u64, bytes: &[u8]) {
        if !self.writes_lines_back() || !WriteBack::STREAMS {
            self.write(offset, bytes);
            return self.flush(offset, bytes.len() as u64);
        }
        let words = self.mapping.words(offset, bytes.len());
        let load = |word: usize| u64::from_le(words[word].load(Ordering::Relaxed));
        let stream = |word: usize, value: u64| WriteBack::stream(&words[word], value.to_le());
        write_words(offset % 8, bytes, load, stream);
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        let lines = lines_of(offset, len, self.len());
        if !self.writes_lines_back() {
            return;
        }
        for line in lines {
            self.write_back.line(self.mapping.word((line * LINE_BYTES / 8) as usize));
        }
    }

    #[inline]
    fn fence(&self) -> Result<()> {
        match self.waits {
            true => self.write_back.fence(),
            false => fence(Ordering::AcqRel),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_back_by_every_instruction() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("region");
        let mut region = FileRegion::create(&path, 8192).unwrap();
        for write_back in WriteBack::available() {
            (region.write_back, region.waits) = (write_back, true);
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
    fn a_failed_sync_is_final() {
        let dir = tempfile::tempdir().unwrap();
        let mut region = FileRegion::create(&dir.path().join("region"), 8192).unwrap();
        region.class = RegionClass::Pages;
        region.sync().unwrap();
        // The kernel refuses to sync what is not mapped.
        region.mapping = Mapping::reserve(1 << 30, 4096, false).unwrap();
        region.mapping.pretend_to_have(1 << 46);
        assert_eq!(region.sync().unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(region.sync().unwrap_err().kind(), ErrorKind::Poisoned);
        region.fence().expect("a fence only orders");
    }
}
