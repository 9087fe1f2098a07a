//! A cache of tables' blocks.
//!
//! What is kept is a block's bytes after they were checked and decompressed: who finds one here
//! neither reads a device nor compares a checksum. The cache is [`quick_cache`]: like S3-FIFO it
//! lets what is new into a small queue first and keeps what is asked for again, or was asked for
//! before it was forgotten, so that one long scan does not drive out what gets come back to; blocks
//! are weighted by their bytes; a hit takes a shared lock of one of many shards and moves nothing.
//!
//! Blocks that are written come in, too, as long as there is room: what was merged would have to
//! be read anew otherwise, however warm it was. Blocks of a table that is gone are taken out, or
//! are asked for no more and fall out. No block is ever found for another one: file ids are unique
//! in the life of a store.

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use silica_base::{KeptBytes, Striped};
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of the cache that are locked by themselves, powers of two, as many as there are bytes for
/// in each: who finds a block writes the shard's lock, which others wait for.
const SHARDS_MIN: u64 = 16;
const SHARDS_MAX: u64 = 256;
const SHARD_BYTES: u64 = 4 << 20;
/// The lowest bit of a hash that tells the shard.
const SHARD_BIT: u32 = 32;
/// What a block takes besides its bytes: its place in the tables, the counters of its memory, and
/// what is remembered of blocks that are gone.
const BLOCK_OVERHEAD_BYTES: u64 = 160;
/// One part in so many of the cache is left to blocks that are read.
const READ_PART: u64 = 8;
/// Bytes of a block, roughly.
const BLOCK_BYTES_USUAL: u64 = 4096;

/// Which block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The id of the table's file.
    pub file: u64,
    /// The block's number in it.
    pub block: u32,
}

/// The bytes of a block, which stay as long as somebody has them. The bytes of all blocks lie
/// together, in large pages, and the counters of those who have them lie together, too.
#[derive(Debug, Clone)]
pub struct CachedBlock(KeptBytes);

impl Deref for CachedBlock {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Debug, Clone, Copy)]
struct Bytes;

impl Weighter<BlockId, CachedBlock> for Bytes {
    fn weight(&self, _: &BlockId, block: &CachedBlock) -> u64 {
        KeptBytes::memory_bytes(block.len()) as u64 + BLOCK_OVERHEAD_BYTES
    }
}

/// Mixes the numbers of a [`BlockId`]. Nobody chooses them, so it needs no secret.
#[derive(Debug, Clone, Copy, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        let file = self.0;
        self.write_u64(u64::from(n));
        // The blocks of a table go round the shards: by chance, some shards would have to give up
        // blocks while others have room, where all of them just fit.
        let shard = (file.wrapping_add(u64::from(n)) % SHARDS_MAX) << SHARD_BIT;
        self.0 = self.0 & !((SHARDS_MAX - 1) << SHARD_BIT) | shard;
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        let product = u128::from(self.0 ^ n ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl BuildHasher for Mixer {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

/// See the module's documentation.
pub struct BlockCache {
    number: u64,
    blocks: Cache<BlockId, CachedBlock, Bytes, Mixer>,
    bytes_max: AtomicU64,
    lookups: Striped<Lookups>,
}

#[derive(Debug, Default)]
struct Lookups {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl BlockCache {
    /// An empty cache for so many bytes, what it needs for itself included. `bytes_usual` is what
    /// [`BlockCache::set_bytes_max`] may make of them.
    pub fn new(bytes_max: u64, bytes_usual: u64) -> Self {
        let count = (bytes_usual / BLOCK_BYTES_USUAL).max(1);
        let mut options = OptionsBuilder::new();
        let shards = (bytes_usual / SHARD_BYTES).next_power_of_two().clamp(SHARDS_MIN, SHARDS_MAX);
        options
            .shards(shards as usize)
            .estimated_items_capacity(count as usize)
            .weight_capacity(bytes_max);
        let options = options.build().expect("everything is set that has to be");
        let blocks = Cache::with_options(options, Bytes, Mixer(0), DefaultLifecycle::default());
        KeptBytes::set_room(0, bytes_max as usize);
        static CACHES: AtomicU64 = AtomicU64::new(0);
        let number = CACHES.fetch_add(1, Ordering::Relaxed);
        let bytes_max = AtomicU64::new(bytes_max);
        BlockCache { number, blocks, bytes_max, lookups: Striped::default() }
    }

    /// Which cache of the process it is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes that it may take.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Gives it another limit; where there are more bytes, some go.
    pub fn set_bytes_max(&self, bytes: u64) {
        let before = self.bytes_max.swap(bytes, Ordering::Relaxed);
        if before != bytes {
            self.blocks.set_capacity(bytes);
            KeptBytes::set_room(before as usize, bytes as usize);
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// The bytes of a block, where they are here.
    #[inline]
    pub fn get(&self, id: BlockId) -> Option<CachedBlock> {
        self.blocks.get(&id)
    }

    /// Keeps the bytes of a block.
    pub fn insert(&self, id: BlockId, bytes: &[u8]) {
        if bytes.len() as u64 <= self.bytes_max() {
            self.blocks.insert(id, CachedBlock(KeptBytes::new(bytes)));
        }
    }

    /// Keeps the bytes of a block that was written, where no other has to go for it.
    pub fn insert_written(&self, id: BlockId, bytes: &[u8]) {
        let max = self.bytes_max();
        let taken = self.bytes() + bytes.len() as u64 + BLOCK_OVERHEAD_BYTES;
        if taken <= max - max / READ_PART {
            self.insert(id, bytes);
        }
    }

    /// Takes a block out, whose table is gone.
    pub fn remove(&self, id: BlockId) {
        self.blocks.remove(&id);
    }

    /// Counts lookups: whoever makes many does it once for all of them.
    #[inline]
    pub fn count(&self, hits: u64, misses: u64) {
        let mine = self.lookups.mine();
        mine.add(|lookups| &lookups.hits, hits);
        mine.add(|lookups| &lookups.misses, misses);
    }

    /// Lookups that found their block, as far as they were counted.
    pub fn hits(&self) -> u64 {
        self.lookups.sum(|lookups| &lookups.hits)
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.lookups.sum(|lookups| &lookups.misses)
    }
}

impl Drop for BlockCache {
    fn drop(&mut self) {
        KeptBytes::set_room(self.bytes_max() as usize, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_written_come_in_while_there_is_room_and_drive_out_none() {
        let cache = BlockCache::new(1 << 20, 1 << 20);
        (0..20).for_each(|n| cache.insert(id(n), &[1; 4000]));
        (100..1000).for_each(|n| cache.insert_written(id(n), &[2; 4000]));
        assert!((0..20).all(|n| cache.get(id(n)).is_some()));
        assert!(cache.get(id(100)).is_some_and(|bytes| bytes[..] == [2; 4000]));
        assert!(cache.get(id(999)).is_none(), "there is no room");
        assert!(cache.bytes() <= (1 << 20) - (1 << 17), "an eighth is left");
        let before = cache.bytes();
        cache.remove(id(100));
        assert!(cache.get(id(100)).is_none() && cache.bytes() < before);
    }

    fn id(n: u64) -> BlockId {
        BlockId { file: n >> 8, block: n as u32 & 0xFF }
    }

    #[test]
    fn a_table_that_just_fits_is_kept_as_a_whole() {
        let max = 8 << 20;
        let cache = BlockCache::new(max, max);
        let count = (max - max / 32) / (4096 + BLOCK_OVERHEAD_BYTES);
        let id = |block| BlockId { file: 77, block: block as u32 };
        (0..count).for_each(|n| cache.insert(id(n), &[1; 4096]));
        let found = (0..count).filter(|n| cache.get(id(*n)).is_some()).count() as u64;
        assert_eq!(found, count);
    }

    #[test]
    fn blocks_come_back_and_the_limit_holds_when_it_changes() {
        let cache = BlockCache::new(1 << 20, 1 << 20);
        for n in 0..1000 {
            cache.insert(id(n), &n.to_le_bytes().repeat(512));
            assert!(cache.bytes() <= cache.bytes_max());
        }
        let found = |cache: &BlockCache| {
            let found: Vec<u64> = (0..1000).filter(|n| cache.get(id(*n)).is_some()).collect();
            let is_right = |n: &u64| {
                cache.get(id(*n)).is_none_or(|bytes| *bytes == n.to_le_bytes().repeat(512))
            };
            assert!(found.iter().all(is_right));
            found.len()
        };
        assert!((200..=256).contains(&found(&cache)), "{}", found(&cache));
        cache.set_bytes_max(100 << 10);
        assert!(cache.bytes() <= 100 << 10 && found(&cache) > 10);
        cache.set_bytes_max(0);
        assert_eq!((cache.bytes(), found(&cache)), (0, 0));
        cache.insert(id(1), b"no room");
        assert!(cache.get(id(1)).is_none());
        cache.set_bytes_max(1 << 20);
        cache.insert(id(1), b"room");
        assert_eq!(cache.get(id(1)).as_deref(), Some(&b"room"[..]));
    }

    #[test]
    fn one_long_scan_does_not_drive_out_what_is_asked_for_again_and_again() {
        let cache = BlockCache::new(1 << 20, 1 << 20);
        let block = [7; 4000];
        for _ in 0..3 {
            for n in 0..100 {
                if cache.get(id(n)).is_none() {
                    cache.insert(id(n), &block);
                }
            }
        }
        for n in 1000..100_000 {
            cache.insert(id(n), &block);
        }
        let left = (0..100).filter(|n| cache.get(id(*n)).is_some()).count();
        assert!(left > 90, "{left} of 100 blocks are left");
    }
}
