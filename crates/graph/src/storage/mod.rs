//! Where a graph's bytes live: pages in two areas, written in order within segments.

mod files;
mod policy;

pub use files::FileStorage;
pub use policy::{ConventionalStorage, PolicyStorage};

use silica_base::Result;
use std::sync::atomic::{AtomicU64, Ordering};

/// The two parts of the logical space (003…, 3.7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// Shards and what else is written once: block mapping, never rewritten.
    Shards,
    /// Values of vertices and records of the state: block mapping, greedy collection.
    Results,
}

/// What a storage moved since it was opened.
#[derive(Debug, Default)]
pub struct StorageCounters {
    read: AtomicU64,
    written: AtomicU64,
}

impl StorageCounters {
    /// Bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes written.
    pub fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn note_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn note_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Pages in two areas. A *segment* is what the medium gives back as a whole: the pages of a logical
/// block. The engine writes the pages of a segment in their order, from the first one on.
pub trait Storage: Send + Sync {
    /// Bytes of a page; a multiple of 8.
    fn page_bytes(&self) -> usize;

    /// Pages of a segment.
    fn segment_pages(&self) -> u64;

    /// Segments of an area; `None` if it grows as it is written.
    fn segments(&self, area: Area) -> Option<u64>;

    /// Memory that the storage itself takes, in bytes.
    fn memory_bytes(&self) -> u64;

    /// Reads whole pages. Pages that were never written are zeroes.
    ///
    /// # Errors
    /// What the device said; `Corruption` if a page cannot be read.
    fn read(&self, area: Area, first_page: u64, out: &mut [u8]) -> Result<()>;

    /// Reads whole pages from several pages on, side by side if the medium can.
    ///
    /// # Errors
    /// As [`Storage::read`].
    fn read_all(&self, area: Area, reads: Vec<(u64, &mut [u8])>) -> Result<()> {
        reads.into_iter().try_for_each(|(first_page, out)| self.read(area, first_page, out))
    }

    /// Writes whole pages.
    ///
    /// # Errors
    /// What the device said; `Full`.
    fn write(&self, area: Area, first_page: u64, bytes: &[u8]) -> Result<()>;

    /// Gives the contents of segments up: they may read as anything until they are written again.
    ///
    /// # Errors
    /// What the device said.
    fn trim(&self, area: Area, first_segment: u64, count: u64) -> Result<()>;

    /// Gives several runs of segments up at once: the first of each, and how many.
    ///
    /// # Errors
    /// What the device said.
    fn trim_all(&self, area: Area, runs: &[(u64, u64)]) -> Result<()> {
        runs.iter().try_for_each(|(first, count)| self.trim(area, *first, *count))
    }

    /// Makes what was written and trimmed survive a power cut.
    ///
    /// # Errors
    /// What the device said. A sync that failed is final.
    fn sync(&self) -> Result<()>;

    /// What was moved.
    fn counters(&self) -> &StorageCounters;
}

/// A storage whose medium is chosen at run time.
impl Storage for Box<dyn Storage> {
    fn page_bytes(&self) -> usize {
        (**self).page_bytes()
    }

    fn segment_pages(&self) -> u64 {
        (**self).segment_pages()
    }

    fn segments(&self, area: Area) -> Option<u64> {
        (**self).segments(area)
    }

    fn memory_bytes(&self) -> u64 {
        (**self).memory_bytes()
    }

    fn read(&self, area: Area, first_page: u64, out: &mut [u8]) -> Result<()> {
        (**self).read(area, first_page, out)
    }

    fn read_all(&self, area: Area, reads: Vec<(u64, &mut [u8])>) -> Result<()> {
        (**self).read_all(area, reads)
    }

    fn write(&self, area: Area, first_page: u64, bytes: &[u8]) -> Result<()> {
        (**self).write(area, first_page, bytes)
    }

    fn trim(&self, area: Area, first_segment: u64, count: u64) -> Result<()> {
        (**self).trim(area, first_segment, count)
    }

    fn trim_all(&self, area: Area, runs: &[(u64, u64)]) -> Result<()> {
        (**self).trim_all(area, runs)
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }

    fn counters(&self) -> &StorageCounters {
        (**self).counters()
    }
}
