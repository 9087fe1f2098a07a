//! A sorted store read in its own order.

use super::SortedStore;
use crate::Hasher;
use crate::merge::EntryStream;
use crate::packed::ChunkScan;
use silica_base::{KeyHash, Result};
use silica_device::DeviceFile;

/// Entries in hash order, borrowed from the read-ahead buffer.
pub struct SortedStoreStream<F> {
    scan: ChunkScan<F>,
    hasher: Hasher,
    start: KeyHash,
    hash: KeyHash,
}

impl<F: DeviceFile> SortedStoreStream<F> {
    pub(super) fn new(
        store: &SortedStore<F>,
        start: KeyHash,
        read_ahead_bytes: usize,
    ) -> Result<Self> {
        let hasher = store.hasher;
        let mut scan = store.reader.scan(0, read_ahead_bytes);
        let bounds = store.bounds(start);
        if start.0 > bounds.0 {
            scan.seek(start.0, bounds, |key| hasher.hash(key).0)?;
            scan.set_read_ahead(read_ahead_bytes);
        }
        Ok(SortedStoreStream { scan, hasher, start, hash: KeyHash(0) })
    }

    /// The chunk that the current entry starts in.
    pub fn chunk(&self) -> u64 {
        self.scan.chunk()
    }
}

impl<F: DeviceFile> EntryStream for SortedStoreStream<F> {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        while self.scan.advance()? {
            self.hash = self.hasher.hash(self.scan.key());
            if self.hash >= self.start {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[inline]
    fn hash(&self) -> KeyHash {
        self.hash
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.scan.key()
    }

    #[inline]
    fn frame_bytes(&self) -> &[u8] {
        self.scan.frame_bytes()
    }
}
