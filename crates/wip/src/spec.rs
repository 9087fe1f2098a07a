//! The engine as the facade knows it.

use crate::{OPTIONS, TableFiles, Wip, made, repair};
use silica_device::FileDevice;
use silica_engine::{EngineSpec, Metric};
use std::sync::Arc;

/// WipDB on files.
pub static ENGINE: EngineSpec<FileDevice> = EngineSpec::new(
    "wip",
    "Entries in the order of their keys, at a write amplification near 4",
    OPTIONS,
    |device, options, environment| Ok(Arc::new(Wip::open(device, options, environment)?)),
)
.with_repair(repair::<FileDevice>, made)
.with_ingest(|device, options| Box::new(TableFiles::new(device, options.into())))
.with_metrics(METRICS);

/// What a store of `wip` counts that no other engine does.
pub const METRICS: &[Metric] = &[
    Metric::counter("flushes", "memtables written to tables"),
    Metric::counter("shared_flushes", "flushes of several buckets into one table"),
    Metric::counter("flush_bytes_written", "bytes of tables written by flushes"),
    Metric::counter("compactions", "merges of runs into one"),
    Metric::counter("compaction_bytes_written", "bytes of tables written by compactions"),
    Metric::counter("bucket_splits", "buckets split"),
    Metric::counter("bucket_joins", "small buckets joined with a neighbour"),
    Metric::counter("writes_slowed_by_flush", "writes slowed by too much in memtables"),
    Metric::counter("writes_slowed_by_compaction", "writes slowed by buckets of too many runs"),
    Metric::counter("writes_slowed_by_log", "writes slowed by a log that was too long"),
    Metric::counter(
        "writes_waited_for_job",
        "waits of writers, 5 ms at most, for background work to end",
    ),
    Metric::counter("block_cache_hits", "lookups in the block cache that found their block"),
    Metric::counter("block_cache_misses", "lookups in the block cache that did not"),
    Metric::gauge("buckets", "buckets of key ranges"),
    Metric::gauge("runs", "runs of all buckets"),
    Metric::gauge("table_bytes", "bytes of all tables"),
    Metric::gauge("value_log_bytes", "bytes of the value log's segments"),
    Metric::gauge("memtable_index_bytes", "memory of the memtables' directories"),
    Metric::gauge("table_index_bytes", "memory of the tables' indexes and filters"),
    Metric::gauge("block_cache_bytes", "memory of the block cache"),
    Metric::gauge("block_cache_bytes_max", "memory that the block cache may take"),
];
