//! Where a hash may live in a table.

use silica_base::{Error, ErrorKind, KeyHash, Result};

/// Slots of a bucket.
pub const BUCKET_SLOTS: u32 = 4;
/// Logarithm of the buckets of a block that [`Geometry::with_slots`] chooses: the smallest block
/// that lets tables of 2^17 slots fill to 95 % (docs/formats/filter.md has the curve).
pub const BLOCK_BUCKETS_LOG2_DEFAULT: u32 = 11;
/// Most buckets of a table: slots still fit 32 bits with room to spare.
const BUCKETS_MAX: u64 = 1 << 28;
/// Most bits in front of the bucket index.
const SKIP_BITS_MAX: u32 = 32;

/// The shape of a cuckoo table: everything that decides where a hash may live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bits of the hash that chose the partition; the bucket index comes from the bits after.
    pub skip_bits: u32,
    /// Blocks of the table.
    pub blocks: u32,
    /// Logarithm of the buckets of a block.
    pub block_buckets_log2: u32,
    /// Bits of a tag.
    pub tag_bits: u32,
}

impl Geometry {
    /// Checks and makes a geometry.
    pub fn new(
        skip_bits: u32,
        blocks: u32,
        block_buckets_log2: u32,
        tag_bits: u32,
    ) -> Result<Self> {
        let fits = skip_bits <= SKIP_BITS_MAX
            && (1..=16).contains(&block_buckets_log2)
            && (4..=16).contains(&tag_bits)
            && blocks >= 1
            && u64::from(blocks) << block_buckets_log2 <= BUCKETS_MAX;
        let geometry = Geometry { skip_bits, blocks, block_buckets_log2, tag_bits };
        if fits {
            return Ok(geometry);
        }
        Err(Error::new(
            ErrorKind::Config,
            format!(
                "{geometry:?} is no shape of a cuckoo table: at most {SKIP_BITS_MAX} partition \
                 bits, blocks of 2 to 65536 buckets, tags of 4 to 16 bits and at least one and at \
                 most {BUCKETS_MAX} buckets"
            ),
        ))
    }

    /// The geometry with blocks of the default size (smaller for a small table) and at least
    /// `slots` slots.
    pub fn with_slots(skip_bits: u32, slots: u32, tag_bits: u32) -> Result<Self> {
        let buckets = slots.div_ceil(BUCKET_SLOTS).max(2);
        let log2 = BLOCK_BUCKETS_LOG2_DEFAULT.min(buckets.next_power_of_two().ilog2());
        Geometry::new(skip_bits, buckets.div_ceil(1 << log2), log2, tag_bits)
    }

    /// Buckets of the table.
    #[inline]
    pub fn buckets(&self) -> u32 {
        self.blocks << self.block_buckets_log2
    }

    /// Slots of the table.
    #[inline]
    pub fn slots(&self) -> u32 {
        BUCKET_SLOTS * self.buckets()
    }

    /// The tag of `h`: 1 to 2^tag_bits - 1; 0 marks an empty slot.
    #[inline]
    pub fn tag(&self, h: KeyHash) -> u16 {
        let tags = (1u64 << self.tag_bits) - 1;
        (((h.low() >> 32) * tags) >> 32) as u16 + 1
    }

    /// The first bucket of `h`; monotone in the hash within a partition.
    #[inline]
    pub fn bucket(&self, h: KeyHash) -> u32 {
        let position = h.high() << self.skip_bits;
        ((u128::from(position) * u128::from(self.buckets())) >> 64) as u32
    }

    /// The other bucket of an entry with `tag` in `bucket`: in the same block, never `bucket`
    /// itself, and the alternative of the alternative is `bucket`.
    #[inline]
    pub fn alternative(&self, bucket: u32, tag: u16) -> u32 {
        let mixed = u32::from(tag).wrapping_mul(0x9E37_79B1);
        bucket ^ (mixed >> (32 - self.block_buckets_log2)).max(1)
    }

    /// The block of `bucket`.
    #[inline]
    pub fn block_of_bucket(&self, bucket: u32) -> u32 {
        bucket >> self.block_buckets_log2
    }

    /// The block of `h`.
    #[inline]
    pub fn block_of(&self, h: KeyHash) -> u32 {
        self.block_of_bucket(self.bucket(h))
    }

    /// The buckets of `block`.
    pub fn buckets_of_block(&self, block: u32) -> std::ops::Range<u32> {
        block << self.block_buckets_log2..(block + 1) << self.block_buckets_log2
    }

    /// First and last value of [`KeyHash::high`] in `partition` whose bucket lies in `block`.
    pub fn block_range(&self, partition: u64, block: u32) -> (u64, u64) {
        // The first position p (64 bits) with floor(p * blocks / 2^64) >= block.
        let start = |block: u32| (u128::from(block) << 64).div_ceil(u128::from(self.blocks));
        let first = start(block).div_ceil(1 << self.skip_bits);
        let last = (start(block + 1) - 1) >> self.skip_bits;
        let base = if self.skip_bits == 0 { 0 } else { partition << (64 - self.skip_bits) };
        (base | first as u64, base | last as u64)
    }
}
