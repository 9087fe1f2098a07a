//! Which keys have passed each bucket: a filter in memory that ends searches early.
//!
//! A search that finds nothing in a full bucket goes on in the next one. Sixteen bits a bucket say
//! whether any key that chooses that bit lies beyond; if none does, the search ends. The bits
//! follow from the keys, so the region does not have them: a write there would cost another line.
//! They are computed when a shard is checked after an opening, before anything reads the shard, and
//! when it is rebuilt. Deletes leave bits set, which costs searches and loses nothing.
//!
//! Buckets are found by where they lie in the region. A bucket without a place here counts as
//! passed by all keys.

use super::bucket::BUCKET_BYTES;
use super::protocol::mark_passed;
use super::shards::Buckets;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// Buckets of a chunk: 4 MiB of the region.
const CHUNK: usize = 1 << 14;

type Chunk = [AtomicU16; CHUNK];

/// The bits of all buckets of a region.
pub(super) struct Passed {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    /// Chunks that are there.
    count: AtomicUsize,
}

/// The bit that keys with this hash choose. Independent of their tag and of their home.
#[inline(always)]
pub(super) fn bit_of(hash: u64) -> u16 {
    1 << (hash >> 8 & 15)
}

fn new_chunk() -> Box<Chunk> {
    let words: Box<[AtomicU16]> = (0..CHUNK).map(|_| AtomicU16::new(u16::MAX)).collect();
    words.try_into().expect("as many as were made")
}

impl Passed {
    /// For a region of `region_bytes` bytes at most.
    pub(super) fn new(region_bytes: u64) -> Passed {
        let chunks = region_bytes.div_ceil(BUCKET_BYTES * CHUNK as u64);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        Passed { chunks, count: AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn place(at: u64) -> (usize, usize) {
        let number = (at / BUCKET_BYTES) as usize;
        (number / CHUNK, number % CHUNK)
    }

    /// False if no key with this hash lies beyond the bucket at `at`.
    #[inline(always)]
    pub(super) fn may_have(&self, at: u64, hash: u64) -> bool {
        let (chunk, place) = Self::place(at);
        let Some(chunk) = self.chunks.get(chunk).and_then(OnceLock::get) else { return true };
        chunk[place].load(Ordering::Relaxed) & bit_of(hash) != 0
    }

    /// Notes that a key with this hash lies beyond the bucket at `at`. Only for the holder of the
    /// shard's lock, before the commit word is stored that makes the key visible.
    #[inline]
    pub(super) fn mark(&self, at: u64, hash: u64) {
        let (chunk, place) = Self::place(at);
        if let Some(chunk) = self.chunks.get(chunk).and_then(OnceLock::get) {
            mark_passed(&chunk[place], bit_of(hash));
        }
    }

    /// Sets the bits of all of a shard's buckets, before any reader is told of them.
    pub(super) fn set_all(&self, buckets: Buckets, bits: impl Fn(u64) -> u16) {
        for number in 0..buckets.count {
            let (chunk, place) = Self::place(buckets.at(number));
            let Some(chunk) = self.chunks.get(chunk) else { return };
            let chunk = chunk.get_or_init(|| {
                self.count.fetch_add(1, Ordering::Relaxed);
                new_chunk()
            });
            chunk[place].store(bits(number), Ordering::Relaxed);
        }
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let chunks = self.count.load(Ordering::Relaxed) * size_of::<Chunk>();
        (size_of_val(&*self.chunks) + chunks) as u64
    }
}
