//! What a simulated region counts.

use crate::region::XPLINE_BYTES;

/// What a simulated region counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Words stored.
    pub words_stored: u64,
    /// Lines flushed, needless ones included.
    pub lines_flushed: u64,
    /// Lines flushed without a store since they were flushed last.
    pub flushes_needless: u64,
    /// Fences.
    pub fences: u64,
    /// Fences of a thread that had flushed nothing since its last one. Some order stores for other
    /// threads.
    pub fences_needless: u64,
    /// Syncs of everything.
    pub syncs: u64,
    /// Stores to pages that were released and not reserved again. On a file system that is full,
    /// each would end the process.
    pub stores_into_holes: u64,
    /// XPLines of 256 bytes written to the medium, after its buffer combined writes.
    pub xplines_written: u64,
    /// XPLines read from the medium: to modify those that were written in part, and, after
    /// [`super::SimRegion::count_media`], for loads and stores that missed the cache.
    pub xplines_read: u64,
}

impl RegionCounts {
    /// Bytes written to the medium.
    pub fn bytes_written(&self) -> u64 {
        self.xplines_written * XPLINE_BYTES
    }

    /// Bytes read from the medium.
    pub fn bytes_read(&self) -> u64 {
        self.xplines_read * XPLINE_BYTES
    }
}
