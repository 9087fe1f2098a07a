//! The engine's options table and the configuration read from it.

use crate::shape::{BLOCK_BUCKETS_OPTION, LOG_STORE_BLOCKS, Shape};
use silica_base::{Error, ErrorKind, Result};
use silica_device::READS_MAX;
use silica_engine::OptionKind::{Choice, Count, Size};
use silica_engine::{OptionSpec, OptionValues, part};
use silica_parts::Room;
use silica_parts::ect::EctParams;

const MIB: u64 = 1 << 20;

const fn spec(
    name: &'static str,
    kind: silica_engine::OptionKind,
    default: u64,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec { name, kind, default, fixed: false, tunable: true, doc }
}

/// Every option of the SILT engine.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        tunable: false,
        ..spec(
            "memory_bytes",
            Size(64 << 10, 1 << 44),
            256 * MIB,
            "memory of the keyspace: log window, tables, filters, indexes and merge buffers",
        )
    },
    OptionSpec {
        fixed: true,
        ..spec(
            "partitions",
            Count(1, 4096),
            8,
            "divisions of the hash space (a power of two), each with its own stores; more of \
             them bound the extra space of a merge",
        )
    },
    spec("tag_bits", Count(4, 16), 15, "bits of a key kept per slot; fewer cost false reads"),
    spec(
        "log_store_blocks",
        Count(1, 4096),
        LOG_STORE_BLOCKS as u64,
        "blocks of buckets in a partition's log store; where none are given, as many as the \
         entries that the log has room for take, in an eighth of the memory for all tables",
    ),
    spec(
        "log_store_block_buckets_log2",
        Count(2, 14),
        11,
        "buckets (of four slots) in a block, as a power of two; where neither this nor the blocks \
         are given, smaller in smaller tables",
    ),
    spec(
        "log_bytes_max",
        Size(0, 1 << 34),
        0,
        "bytes of the log before its oldest log store is converted; 0 takes a quarter of the \
         memory",
    ),
    spec(
        "segment_bytes",
        Size(SEGMENT_BYTES_MIN, 1 << 32),
        16 * MIB,
        "bytes of a log segment, at most a quarter of the log",
    ),
    spec(
        "merge_ratio_percent",
        Count(1, 10_000),
        28,
        "hash-store entries, as a share of the sorted store's, at which a partition is merged; \
         the write amplification is about 2 + 100 / this for updates, and up to 1 more while \
         new keys come",
    ),
    spec(
        "hash_stores_min",
        Count(1, 1024),
        2,
        "hash stores a partition gathers before it is merged for the first time",
    ),
    spec(
        "hash_stores_max",
        Count(2, 4096),
        64,
        "hash stores of a partition at which writers are slowed until it is merged",
    ),
    spec(
        "inline_value_bytes_max",
        Size(0, 64 << 10),
        2 << 10,
        "larger values go to the value log and cost one more read",
    ),
    spec(
        "read_depth",
        Count(1, READS_MAX as u64),
        READS_MAX as u64,
        "device reads of one burst of gets in flight at a time",
    ),
    spec("sorted_index", Choice(&["auto", "sparse", "dense"]), 0, "index of the sorted store"),
    spec("ect_group", Count(16, 4096), 256, "mean keys of a trie (g): fewer are faster, larger"),
    spec("ect_hmax", Count(2, 64), 64, "largest subtrie coded with Huffman tables"),
    spec(
        "sorted_filter_bits",
        Count(0, 16),
        MISS_FILTER_BITS,
        "bits per key (and two more) of a filter over the sorted store, which spares misses the \
         device; where none are given, a filter while all of them take at most a fortieth of the \
         memory; 0 for none",
    ),
    spec(
        "value_log_segment_bytes",
        Size(4 << 10, 1 << 34),
        256 * MIB,
        "bytes of a value-log segment",
    ),
    spec(
        "value_log_dead_percent",
        Count(1, 100),
        50,
        "dead share at which a value-log segment is reclaimed",
    ),
];

const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// Segments that the log has at least before it is at its limit, unless they were tiny: one stays
/// mapped until the last of its entries is converted.
const SEGMENTS_MIN: u64 = 4;

/// Parts of the room on the device that the log and a segment of the value log are at most where no
/// size is given: what is kept in reserve is a small multiple of them.
const LOG_PART: u64 = 48;
const VALUE_SEGMENT_PART: u64 = 20;

/// Bits per key of the filters that sorted stores get where the memory affords them.
pub(crate) const MISS_FILTER_BITS: u64 = 8;

/// The options as the engine uses them.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) memory_bytes: u64,
    room: Room,
    pub(crate) partition_bits: u32,
    pub(crate) shape: Shape,
    /// As given; 0 stands for a share of the memory.
    log_bytes_max: u64,
    /// As given.
    segment_bytes: u64,
    pub(crate) merge_ratio_percent: u64,
    pub(crate) hash_stores_min: usize,
    pub(crate) hash_stores_max: usize,
    pub(crate) inline_value_bytes_max: usize,
    pub(crate) read_depth: usize,
    pub(crate) sorted_index: u64,
    pub(crate) ect: EctParams,
    /// As given.
    pub(crate) sorted_filter_bits: Option<u32>,
    pub(crate) value_log_segment_bytes: u64,
    pub(crate) value_log_dead_percent: u64,
}

impl Config {
    /// Reads `values`; `partition_bits_stored` is that of an existing store.
    pub(crate) fn new(values: &OptionValues, partition_bits_stored: Option<u32>) -> Result<Self> {
        let get = |name| values.value(OPTIONS, name);
        let narrow = |name| get(name) as u32;
        let partitions = get("partitions");
        if !partitions.is_power_of_two() {
            let message = format!("option partitions: {partitions} is not a power of two");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let partition_bits = partition_bits_stored.unwrap_or(partitions.trailing_zeros());
        if values.given("partitions").is_some() && partitions != 1 << partition_bits {
            let message = format!(
                "option partitions is fixed when a store is created: this one has {}; leave the \
                 option out or load the data into a new store",
                1 << partition_bits
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let memory_bytes = get("memory_bytes");
        let log_bytes_max = get("log_bytes_max");
        Ok(Config {
            memory_bytes,
            room: Room::UNBOUNDED,
            partition_bits,
            shape: Shape::new(
                values,
                partition_bits,
                narrow("tag_bits"),
                narrow(BLOCK_BUCKETS_OPTION),
            )?,
            log_bytes_max,
            segment_bytes: get("segment_bytes"),
            merge_ratio_percent: get("merge_ratio_percent"),
            hash_stores_min: get("hash_stores_min") as usize,
            hash_stores_max: get("hash_stores_max") as usize,
            inline_value_bytes_max: get("inline_value_bytes_max") as usize,
            read_depth: get("read_depth") as usize,
            sorted_index: get("sorted_index"),
            ect: EctParams { group: get("ect_group") as u32, hmax: get("ect_hmax") as u32 },
            sorted_filter_bits: values.given("sorted_filter_bits").map(|bits| bits as u32),
            value_log_segment_bytes: get("value_log_segment_bytes"),
            value_log_dead_percent: get("value_log_dead_percent"),
        })
    }

    /// Free bytes from which on a device bounds nothing.
    pub(crate) fn room_enough(&self) -> u64 {
        self.value_log_segment_bytes.max(self.memory_bytes).saturating_mul(LOG_PART)
    }

    /// The options for a device that has this room: pieces whose size is not given are no larger
    /// than it allows.
    pub(crate) fn within(mut self, room: Room, options: &OptionValues) -> Self {
        self.room = room;
        if options.given("value_log_segment_bytes").is_none() {
            let bytes = room.at_most(self.value_log_segment_bytes, VALUE_SEGMENT_PART);
            self.value_log_segment_bytes = bytes;
        }
        self
    }

    /// Bytes of the log before its oldest log store is converted, with this memory number.
    pub(crate) fn log_bytes_max(&self, memory_bytes: u64) -> u64 {
        match self.log_bytes_max {
            0 => self.room.at_most(part::HASHED_LOG.of_bytes(memory_bytes), LOG_PART),
            given => given,
        }
    }

    /// Bytes of a log segment, with this memory number.
    pub(crate) fn segment_bytes(&self, memory_bytes: u64) -> u64 {
        let most = self.log_bytes_max(memory_bytes) / SEGMENTS_MIN;
        self.segment_bytes.min(most.max(2 * SEGMENT_BYTES_MIN))
    }

    /// Number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        1 << self.partition_bits
    }
}
