//! The engine as the facade knows it.

use crate::{Mica, OPTIONS};
use silica_device::FileDevice;
use silica_engine::{EngineSpec, Metric};
use std::sync::Arc;

/// MICA in memory, with an image on files at a clean close if `warm_restart` asks for one.
pub static ENGINE: EngineSpec<FileDevice> = EngineSpec::new(
    "mica",
    "A cache in memory, at two cache lines a get; empty after a crash",
    OPTIONS,
    |device, options, environment| Ok(Arc::new(Mica::open_on(device, options, environment)?)),
)
.in_memory(|options| options.value(OPTIONS, "warm_restart") == 0)
.with_metrics(METRICS);

/// What `mica` counts that no other engine does.
pub const METRICS: &[Metric] = &[
    Metric::counter("updates_in_place", "puts that overwrote the old entry where it was"),
    Metric::counter("entries_moved", "entries written anew because they were used"),
    Metric::counter("evictions_from_log", "entries dropped because the log needed their place"),
    Metric::counter("evictions_from_index", "entries dropped because the index needed their slot"),
    Metric::counter("expirations", "entries removed because they had expired"),
    Metric::gauge("free_bytes", "bytes that a memory engine has free for entries"),
    Metric::gauge(
        "returned_bytes",
        "free bytes that the operating system has, in whole huge pages",
    ),
    Metric::gauge("reserved_page_bytes", "memory in 2 MiB pages that the system had reserved"),
    Metric::gauge("management_bytes", "memory of an engine's partitions besides index and log"),
    Metric::gauge(
        "largest_free_bytes",
        "the largest free piece of memory for entries, or nearly the largest",
    ),
    Metric::ratio("hit_ratio", "keys found per key looked up"),
    Metric::ratio("fragmentation", "part of the free bytes that is not in the largest pieces"),
];
