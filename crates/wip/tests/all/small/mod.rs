//! Small stores.

use silica_engine::OptionValues;

/// Limits at which a few thousand entries are in several buckets, and then `more`.
pub(crate) fn options(more: &[(&str, u64)]) -> OptionValues {
    let mut options = OptionValues::default();
    let limits = [
        ("memory_bytes", 8 << 20),
        ("memtable_bytes_max", 16 << 10),
        ("log_bytes_max", 64 << 10),
        ("segment_bytes", 16 << 10),
        ("runs_max", 4),
        ("bucket_bytes_max", 64 << 10),
        ("split_buckets", 4),
    ];
    for (name, value) in limits.iter().chain(more) {
        options.set(name, *value);
    }
    options
}
