//! The engine's options table and the configuration read from it.

use crate::policy::Policy;
use silica_device::READS_MAX;
use silica_engine::OptionKind::{Choice, Count, Size};
use silica_engine::{OptionKind, OptionSpec, OptionValues, part};
use silica_parts::table::Compression;
use silica_parts::{BITS_MAX, FuseFilter, Room};

const MIB: u64 = 1 << 20;
/// Bits that filters of younger runs have more than those of the oldest ones.
const UPPER_FILTER_BITS: u32 = 5;

/// Segments that a log of full length has at least.
const LOG_SEGMENTS_MIN: u64 = 8;

/// Parts of the room on the device that the pieces of a store are at most where no size is given
/// for them: what is kept in reserve is a small multiple of them. Pieces of the usual sizes need
/// 16 times a bucket's live bytes, which is half of the memory, and more for the value log.
const BUCKET_PART: u64 = 20;
const LOG_PART: u64 = 32;
const MEMTABLE_PART: u64 = 32;
const VALUE_SEGMENT_PART: u64 = 20;
const INLINE_VALUE_PART: u64 = 128;

/// What jobs need of the memory for each key of the filter that is built, its hash included.
pub(crate) const BUILT_KEY_BYTES: u64 = FuseFilter::BUILT_KEY_BYTES + 8;
/// The part for the filter that is built next. A bucket has no more keys than that has room for.
pub(crate) const FILTERS_PART_MAX: u64 = 4;

/// The part of the memory that the runs of a compaction share for reading ahead.
pub(crate) const READ_AHEAD_PART: u64 = 16;

/// Larger values never go through log and tables: a record of the log is in memory as a whole.
const INLINE_VALUE_BYTES_MOST: u64 = 16 * MIB;
/// Where no size is given: the part of the memory that a value in log and tables takes at most. A
/// write has it in a record, and each job that reads or writes its table has it two or three times.
const INLINE_VALUE_MEMORY_PART: u64 = 64;
/// A value of this size lies in log and tables however little memory there is.
const INLINE_VALUE_BYTES_LEAST: u64 = 64 << 10;

const fn spec(name: &'static str, kind: OptionKind, default: u64, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind, default, fixed: false, tunable: true, doc }
}

/// Every option of the WipDB engine.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        tunable: false,
        ..spec(
            "memory_bytes",
            Size(64 << 10, 1 << 44),
            256 * MIB,
            "memory of the keyspace: log window, memtables, filters, indexes and buffers",
        )
    },
    spec(
        "memtable_bytes_max",
        Size(0, 1 << 36),
        0,
        "bytes of entries that are in no table yet, each counted as 96 at least; 0 takes a \
         fifth of the memory",
    ),
    spec(
        "log_bytes_max",
        Size(0, 1 << 37),
        0,
        "bytes of the log before the buckets at its tail are flushed; 0 takes 7/16 of the memory, \
         or less where filters need it, but at least an eighth",
    ),
    spec("segment_bytes", Size(4 << 10, 1 << 32), 16 * MIB, "bytes of a log segment at most"),
    spec("runs_min", Count(2, 64), 4, "runs from which on reads may have a bucket compacted"),
    spec("runs_max", Count(2, 64), 20, "runs of a level at which they are merged into one"),
    spec(
        "read_weight",
        Count(0, 1000),
        10,
        "how much reads count when buckets are compacted, against the number of runs; 0 for not",
    ),
    spec(
        "space_amplification_percent_max",
        Count(105, 10_000),
        140,
        "bytes of tables per live byte, in percent, at which buckets are rewritten",
    ),
    spec(
        "write_amplification_percent_max",
        Count(200, 100_000),
        2000,
        "bytes written per byte of users, log included, in percent, over which buckets are \
         compacted only where their runs are too many",
    ),
    spec(
        "bucket_bytes_max",
        Size(0, 1 << 40),
        0,
        "live bytes of a bucket at which it is split; 0 takes half of the memory. Buckets of many \
         small entries are split earlier, where their filters would take a quarter of it",
    ),
    OptionSpec {
        fixed: true,
        tunable: false,
        ..spec(
            "first_buckets",
            Count(1, 4096),
            1,
            "buckets of a new store, which share the keys evenly by their first eight bytes",
        )
    },
    spec("split_buckets", Count(2, 64), 8, "buckets that a bucket is split into"),
    spec(
        "filter_bits",
        Count(0, 12),
        7,
        "bits of a place of the filter of a bucket's oldest run, where most keys are; those of the \
         others, which are asked in vain more often, have five more, but at most 16; 0 for none",
    ),
    spec(
        "compression",
        Choice(&["none", "lz4", "zstd"]),
        0,
        "how tables are compressed that are written from now on",
    ),
    spec(
        "inline_value_bytes_max",
        Size(0, INLINE_VALUE_BYTES_MOST),
        INLINE_VALUE_BYTES_MOST,
        "larger values lie apart in the value log: they are not written again by compactions, and \
         cost one more read. Where it is not given, 1/64 of the memory at most, but 64 KiB at least",
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
    spec("block_bytes", Size(4 << 10, 1 << 20), 4 << 10, "bytes of a table's block at least"),
    spec(
        "read_depth",
        Count(1, READS_MAX as u64),
        READS_MAX as u64,
        "device reads of one burst of gets in flight at a time",
    ),
    OptionSpec {
        tunable: false,
        ..spec(
            "changes_bytes_max",
            Size(0, 1 << 36),
            0,
            "bytes of the memory in which the last committed batches are kept for readers of \
             changes; 0 keeps none",
        )
    },
];

/// What the options say.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) memory_bytes: u64,
    room: Room,
    /// Given ones; 0 for what the memory allows.
    memtable_bytes_max: u64,
    log_bytes_max: u64,
    segment_bytes: u64,
    pub(crate) policy: Policy,
    pub(crate) write_amplification_percent_max: u64,
    pub(crate) first_buckets: usize,
    pub(crate) split_buckets: usize,
    filter_bits: u32,
    pub(crate) compression: Compression,
    pub(crate) inline_value_bytes_max: usize,
    pub(crate) value_log_segment_bytes: u64,
    pub(crate) value_log_dead_percent: u64,
    pub(crate) block_bytes: usize,
    pub(crate) read_depth: usize,
    pub(crate) changes_bytes_max: usize,
}

/// The largest value that goes through log and tables of a store with this memory.
fn inline_value_bytes(memory_bytes: u64) -> u64 {
    let part = memory_bytes / INLINE_VALUE_MEMORY_PART;
    part.clamp(INLINE_VALUE_BYTES_LEAST, INLINE_VALUE_BYTES_MOST)
}

impl Config {
    pub(crate) fn new(options: &OptionValues) -> Self {
        let value = |name| options.value(OPTIONS, name);
        Config {
            memory_bytes: value("memory_bytes"),
            room: Room::UNBOUNDED,
            memtable_bytes_max: value("memtable_bytes_max"),
            log_bytes_max: value("log_bytes_max"),
            segment_bytes: value("segment_bytes"),
            policy: Policy {
                runs_min: value("runs_min").min(value("runs_max")) as usize,
                runs_max: value("runs_max") as usize,
                read_weight: value("read_weight"),
                space_amplification_percent_max: value("space_amplification_percent_max"),
                bucket_bytes_max: match value("bucket_bytes_max") {
                    0 => value("memory_bytes") / 2,
                    given => given,
                },
                bucket_keys_max: value("memory_bytes") / FILTERS_PART_MAX / BUILT_KEY_BYTES,
            },
            write_amplification_percent_max: value("write_amplification_percent_max"),
            first_buckets: value("first_buckets") as usize,
            split_buckets: value("split_buckets") as usize,
            filter_bits: value("filter_bits") as u32,
            compression: [Compression::None, Compression::Lz4, Compression::Zstd]
                [value("compression") as usize],
            inline_value_bytes_max: options
                .given("inline_value_bytes_max")
                .unwrap_or_else(|| inline_value_bytes(value("memory_bytes")))
                as usize,
            value_log_segment_bytes: value("value_log_segment_bytes"),
            value_log_dead_percent: value("value_log_dead_percent"),
            block_bytes: value("block_bytes") as usize,
            read_depth: value("read_depth") as usize,
            changes_bytes_max: value("changes_bytes_max") as usize,
        }
    }

    /// Free bytes from which on a device bounds nothing.
    pub(crate) fn room_enough(&self) -> u64 {
        let largest = self.policy.bucket_bytes_max.max(self.value_log_segment_bytes);
        largest.max(self.memory_bytes).saturating_mul(LOG_PART)
    }

    /// The options for a device that has this room: pieces whose size is not given, and files that
    /// grow up to a size, are no larger than it allows.
    pub(crate) fn within(mut self, room: Room, options: &OptionValues) -> Self {
        let is_given = |name| options.given(name).is_some_and(|bytes| bytes > 0);
        self.room = room;
        if !is_given("bucket_bytes_max") {
            let policy = &mut self.policy;
            policy.bucket_bytes_max = room.at_most(policy.bucket_bytes_max, BUCKET_PART);
        }
        if !is_given("value_log_segment_bytes") {
            let bytes = room.at_most(self.value_log_segment_bytes, VALUE_SEGMENT_PART);
            self.value_log_segment_bytes = bytes;
        }
        if options.given("inline_value_bytes_max").is_none() {
            let bytes = room.at_most(self.inline_value_bytes_max as u64, INLINE_VALUE_PART);
            self.inline_value_bytes_max = bytes as usize;
        }
        self
    }

    /// Bits of a place of the filter of a bucket's oldest run, or of another.
    pub(crate) fn filter_bits(&self, is_oldest: bool) -> u32 {
        let more = if is_oldest || self.filter_bits == 0 { 0 } else { UPPER_FILTER_BITS };
        (self.filter_bits + more).min(BITS_MAX)
    }

    /// Bytes of entries that are in no table yet.
    pub(crate) fn memtable_bytes_max(&self, memory_bytes: u64) -> u64 {
        match self.memtable_bytes_max {
            0 => self.room.at_most(part::MEMTABLES.of_bytes(memory_bytes), MEMTABLE_PART),
            given => given,
        }
    }

    /// Bytes of the log.
    pub(crate) fn log_bytes_max(&self, memory_bytes: u64) -> u64 {
        match self.log_bytes_max {
            0 => self.room.at_most(part::ORDERED_LOG.of_bytes(memory_bytes), LOG_PART),
            given => given,
        }
    }

    /// True where the log's length does not follow from the memory.
    pub(crate) fn gives_log_bytes(&self) -> bool {
        self.log_bytes_max > 0
    }

    /// Bytes of a segment of the log.
    pub(crate) fn segment_bytes(&self, memory_bytes: u64) -> u64 {
        self.segment_bytes.min(self.log_bytes_max(memory_bytes) / LOG_SEGMENTS_MIN).max(4 << 10)
    }
}
