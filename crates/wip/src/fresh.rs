//! Blocks that a burst has read and that go into the cache under the reads of the next one of the
//! thread.
//!
//! Keeping a block takes a third of what is done with it once it is there, and where the reads of a
//! burst come together, as they do from some disks, all of that is done while the device has
//! nothing to do. Until then the thread's own gets find the blocks here; another thread, or an
//! iterator, that asks for one reads it again, as it would have a moment before.

use silica_base::AlignedBuf;
use silica_parts::{BlockCache, BlockId};

/// Blocks at most, and bytes of the largest one: what a thread may have besides the cache.
const BLOCKS_MAX: usize = 32;
pub(crate) const BLOCK_BYTES_MAX: usize = 16 << 10;

/// What a thread has read of the blocks of one cache.
#[derive(Default)]
pub(crate) struct Fresh {
    /// Which cache.
    cache: u64,
    /// The blocks: their buffers begin with so many bytes of them.
    blocks: Vec<(BlockId, AlignedBuf, usize)>,
}

impl Fresh {
    pub(crate) const NOTHING: Fresh = Fresh { cache: 0, blocks: Vec::new() };

    /// Those of `cache`; blocks of another one are forgotten: they may have the same ids.
    pub(crate) fn of(mut self, cache: &BlockCache) -> Fresh {
        if self.cache != cache.number() {
            self.blocks.clear();
            self.cache = cache.number();
        }
        self
    }

    pub(crate) fn has(&self, id: BlockId) -> bool {
        self.blocks.iter().any(|(other, ..)| *other == id)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blocks.len() >= BLOCKS_MAX
    }

    /// Adds block `id`, which is the first `len` bytes of `buf`.
    pub(crate) fn add(&mut self, id: BlockId, buf: AlignedBuf, len: usize) {
        self.blocks.push((id, buf, len));
    }

    /// Puts all blocks into `cache`, whose they are, and passes on their buffers.
    pub(crate) fn keep(&mut self, cache: &BlockCache, mut spare: impl FnMut(AlignedBuf)) {
        for (id, buf, len) in self.blocks.drain(..) {
            cache.insert(id, &buf[..len]);
            spare(buf);
        }
    }
}
