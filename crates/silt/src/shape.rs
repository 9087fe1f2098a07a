//! The shape of log stores: as many slots as the log's share of a partition holds entries.
//!
//! A log store is frozen when the log is at its limit, whether its table is full or not, and a
//! hash store keeps a tag for every slot, occupied or not. So the table is made for the entries
//! that will come, of which the one before tells: so many per byte of the log. Stores of one
//! partition may differ in shape; each knows its own.

use silica_base::Result;
use silica_engine::OptionValues;
use silica_parts::cuckoo::{BLOCK_BUCKETS_LOG2_DEFAULT, BUCKET_SLOTS, Geometry};

/// Blocks of a log store of the largest shape, and about as many as smaller ones have: a merge
/// holds one block of each of its hash stores in memory.
pub(crate) const LOG_STORE_BLOCKS: u32 = 16;
/// Smaller blocks fill too unevenly.
const BLOCK_BUCKETS_LOG2_MIN: u32 = 5;
/// Share of the memory number that the tables of all partitions take at most.
const TABLES_SHARE: u64 = 8;
/// Bytes of a slot in memory.
const SLOT_BYTES: u64 = 6;
/// How full tables get before an insert finds no place.
pub(crate) const FILL_PERCENT: u64 = 90;

/// The option of [`Shape`] for the buckets of a block.
pub(crate) const BLOCK_BUCKETS_OPTION: &str = "log_store_block_buckets_log2";

/// What the options say of the shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) partition_bits: u32,
    pub(crate) tag_bits: u32,
    /// As given.
    blocks: Option<u32>,
    block_buckets_log2: Option<u32>,
    block_buckets_log2_max: u32,
}

impl Shape {
    /// Reads what `values` were given; the bits of tags, and what [`BLOCK_BUCKETS_OPTION`] is if
    /// nothing was given, come from the option table. Refuses what is no shape of a table.
    pub(crate) fn new(
        values: &OptionValues,
        partition_bits: u32,
        tag_bits: u32,
        block_buckets_log2_max: u32,
    ) -> Result<Self> {
        let given = |name| values.given(name).map(|n| n as u32);
        let shape = Shape {
            partition_bits,
            tag_bits,
            blocks: given("log_store_blocks"),
            block_buckets_log2: given(BLOCK_BUCKETS_OPTION),
            block_buckets_log2_max,
        };
        shape.of(shape.blocks.unwrap_or(LOG_STORE_BLOCKS), shape.block_buckets_log2_max)?;
        Ok(shape)
    }

    /// True where all tables are of one shape.
    pub(crate) fn is_given(&self) -> bool {
        self.blocks.is_some()
    }

    fn of(&self, blocks: u32, log2: u32) -> Result<Geometry> {
        Geometry::new(self.partition_bits, blocks, log2, self.tag_bits)
    }

    /// The shape of a table for `entries`, as far as the memory number allows it.
    pub(crate) fn geometry(&self, entries: u64, memory_bytes: u64) -> Geometry {
        let log2_max = self.block_buckets_log2_max;
        let (blocks, log2) = if let Some(blocks) = self.blocks {
            (blocks, log2_max)
        } else {
            let affordable = (memory_bytes / TABLES_SHARE / SLOT_BYTES) >> self.partition_bits;
            let largest = u64::from(LOG_STORE_BLOCKS * BUCKET_SLOTS) << log2_max;
            let wanted = entries.saturating_mul(100) / FILL_PERCENT;
            let slots = wanted.min(affordable).clamp(1, largest);
            let block_buckets = slots / u64::from(LOG_STORE_BLOCKS * BUCKET_SLOTS);
            let chosen = block_buckets
                .max(1)
                .ilog2()
                .clamp(BLOCK_BUCKETS_LOG2_MIN, BLOCK_BUCKETS_LOG2_DEFAULT);
            let log2 = self.block_buckets_log2.unwrap_or(chosen);
            (slots.div_ceil(u64::from(BUCKET_SLOTS) << log2) as u32, log2)
        };
        self.of(blocks, log2).expect("no larger than the largest, which is a shape")
    }
}

/// The first tables of a new store are frozen at different fill levels, so that partitions are
/// not converted all at once ever after.
pub(crate) fn staggered(partitions: usize, entries: u32, index: usize) -> u32 {
    let share = u64::from(entries) * (index as u64 + 1) / partitions as u64;
    share.max(1) as u32
}
