//! Options and metrics.

use crate::space::{DURABILITY_CLASS, MEDIA_METRICS};
use silica_base::{Error, ErrorKind, Result};
use silica_engine::OptionKind::{Count, Size};
use silica_engine::{Metric, OptionKind, OptionSpec, OptionValues};

/// A shard for so many bytes of the memory number: a resize of one that is full takes some hundred
/// microseconds (docs/benchmarks/turbo.md).
const SHARD_BYTES: u64 = 256 << 10;
/// More shards would make an empty store larger than 1 MiB.
const SHARDS_MAX: u64 = 1 << 15;
const SHARDS_MIN: u64 = 16;

const fn spec(
    name: &'static str,
    kind: OptionKind,
    default: u64,
    fixed: bool,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec { name, kind, default, fixed, tunable: false, doc }
}

/// Every option of the TurboHash engine.
pub const OPTIONS: &[OptionSpec] = &[
    spec(
        "memory_bytes",
        Size(1 << 20, 1 << 40),
        1 << 30,
        false,
        "limit of the region and of the memory that manages it; a write beyond it is refused",
    ),
    spec(
        "shards",
        Count(0, SHARDS_MAX),
        0,
        true,
        "divisions of the hash space, rounded down to a power of two; writers of one take turns, \
         and each grows by itself. 0 takes one for each 256 KiB of memory_bytes, 32,768 at most",
    ),
];

/// Binary logarithm of the number of shards that a new store gets.
pub(super) fn shard_bits(options: &OptionValues) -> u32 {
    let asked = options.value(OPTIONS, "shards");
    let shards = match asked {
        0 => (memory_bytes(options) / SHARD_BYTES).clamp(SHARDS_MIN, SHARDS_MAX),
        asked => asked,
    };
    shards.ilog2()
}

/// The memory number.
pub(super) fn memory_bytes(options: &OptionValues) -> u64 {
    options.value(OPTIONS, "memory_bytes")
}

/// Bytes that the region may have, if the shards take `shard_bytes` of memory.
///
/// # Errors
/// `Config` if nothing is left.
pub(super) fn region_limit(memory_bytes: u64, shard_bytes: u64) -> Result<u64> {
    let left = memory_bytes.saturating_sub(shard_bytes);
    if left < 512 << 10 {
        let message = format!(
            "memory_bytes={memory_bytes} is too little for this store, whose shards take \
             {shard_bytes} bytes of memory; give it 1 MiB more than that"
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    // The allocator's lists grow with the region, about 100 bytes for a page of 4096, and so do the
    // bits of passed keys: 32 bytes.
    Ok(left - left / 24)
}

/// What `turbo` counts that no other engine does.
pub const METRICS: &[Metric] = &[
    DURABILITY_CLASS,
    MEDIA_METRICS[0],
    MEDIA_METRICS[1],
    Metric::gauge("shards", "divisions of the hash space"),
    Metric::gauge("shards_unchecked", "shards that were not looked at since the opening"),
    Metric::gauge("buckets", "buckets of 256 bytes"),
    Metric::gauge("deleted_slots", "slots of deleted entries, over which searches go on"),
    Metric::gauge("region_bytes", "bytes of the region"),
    Metric::gauge("region_held_bytes", "bytes of the region in pages that hold something"),
    Metric::counter("resizes", "shards rebuilt with more or fewer buckets"),
    Metric::counter("cleanups", "shards rebuilt because of deleted slots"),
    Metric::counter("resize_ns", "nanoseconds spent in rebuilding shards"),
    Metric::gauge("resize_ns_max", "nanoseconds of the longest rebuilding of a shard"),
    Metric::counter("redo_records", "batches whose commit words changed by a redo"),
    Metric::counter("expirations", "entries removed because they had expired"),
    Metric::ratio("load_factor", "entries per slot that inserts fill: 13 of a bucket"),
];
