//! A hash store read in hash order: one block of the table after the other, each sorted.

use super::HashStore;
use crate::Hasher;
use crate::merge::EntryStream;
use crate::packed::ChunkScan;
use silica_base::{Error, KeyHash, Result};
use silica_device::DeviceFile;
use silica_parts::cuckoo::Geometry;
use std::ops::Range;

/// One entry of the block in memory.
struct Item {
    hash: KeyHash,
    /// The frame in the arena.
    frame: Range<usize>,
    /// Start of the key in the frame.
    key_start: u32,
    key_len: u32,
}

/// Entries in hash order. The entries of a block are copied together and sorted.
pub struct HashStoreStream<F> {
    scan: ChunkScan<F>,
    hasher: Hasher,
    geometry: Geometry,
    start: KeyHash,
    arena: Vec<u8>,
    block: Vec<Item>,
    /// Index in `block` behind the current entry.
    next: usize,
    /// The scan stands on the first entry of the next block, which has this hash.
    pending: Option<KeyHash>,
}

impl<F: DeviceFile> HashStoreStream<F> {
    pub(super) fn new(
        store: &HashStore<F>,
        start: KeyHash,
        chunk: Option<u64>,
        read_ahead_bytes: usize,
    ) -> Result<Self> {
        let (hasher, geometry) = (store.hasher, store.geometry);
        let mut scan = store.reader.scan(chunk.unwrap_or(0), read_ahead_bytes);
        if chunk.is_none() {
            let block = |hash| u128::from(geometry.block_of(hash));
            let bounds = (0, u128::from(geometry.blocks));
            scan.seek(block(start), bounds, |key| block(hasher.hash(key)))?;
            scan.set_read_ahead(read_ahead_bytes);
        }
        Ok(HashStoreStream {
            scan,
            hasher,
            geometry,
            start,
            arena: Vec::new(),
            block: Vec::new(),
            next: 0,
            pending: None,
        })
    }

    /// Collects the next block that has entries; false at the end of the store.
    fn load_block(&mut self) -> Result<bool> {
        self.arena.clear();
        self.block.clear();
        self.next = 0;
        let start_block = self.geometry.block_of(self.start);
        let mut block = None;
        loop {
            let hash = match self.pending.take() {
                Some(hash) => hash,
                None if self.scan.advance()? => self.hasher.hash(self.scan.key()),
                None => break,
            };
            let here = self.geometry.block_of(hash);
            if here < start_block {
                continue;
            }
            match block {
                None => block = Some(here),
                Some(block) if block == here => {}
                Some(block) if block < here => {
                    self.pending = Some(hash);
                    break;
                }
                Some(_) => {
                    let (name, at) = (self.scan.reader().name(), self.scan.offset());
                    return Err(Error::corruption(name, at, "an entry is in the wrong block"));
                }
            }
            if hash >= self.start {
                self.take(hash);
            }
        }
        let arena = &self.arena;
        self.block.sort_unstable_by(|a, b| {
            a.hash.cmp(&b.hash).then_with(|| a.key(arena).cmp(b.key(arena)))
        });
        Ok(!self.block.is_empty())
    }

    fn take(&mut self, hash: KeyHash) {
        let frame = self.scan.frame_bytes();
        let start = self.arena.len();
        self.arena.extend_from_slice(frame);
        let key = self.scan.key_range();
        self.block.push(Item {
            hash,
            frame: start..self.arena.len(),
            key_start: key.start as u32,
            key_len: key.len() as u32,
        });
    }

    fn current(&self) -> &Item {
        &self.block[self.next - 1]
    }
}

impl Item {
    fn key<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        let start = self.frame.start + self.key_start as usize;
        &arena[start..start + self.key_len as usize]
    }
}

impl<F: DeviceFile> EntryStream for HashStoreStream<F> {
    fn advance(&mut self) -> Result<bool> {
        while self.next == self.block.len() {
            // A block may hold only entries before the start.
            if !self.load_block()? && self.pending.is_none() {
                return Ok(false);
            }
        }
        self.next += 1;
        Ok(true)
    }

    fn hash(&self) -> KeyHash {
        self.current().hash
    }

    fn key(&self) -> &[u8] {
        self.current().key(&self.arena)
    }

    fn frame_bytes(&self) -> &[u8] {
        &self.arena[self.current().frame.clone()]
    }
}
