//! The engine as the facade knows it.

use crate::{OPTIONS, Silt, made, repair};
use silica_device::FileDevice;
use silica_engine::{EngineSpec, Metric};
use std::sync::Arc;

/// SILT on files.
pub static ENGINE: EngineSpec<FileDevice> = EngineSpec::new(
    "silt",
    "Very many small entries on flash: half a byte of memory each at 100 million",
    OPTIONS,
    |device, options, environment| Ok(Arc::new(Silt::open(device, options, environment)?)),
)
.with_repair(repair::<FileDevice>, made)
.with_metrics(METRICS);

/// What a store of `silt` counts that no other engine does.
pub const METRICS: &[Metric] = &[
    Metric::counter("gets_from_log_store", "keys answered by a log store"),
    Metric::counter("gets_from_hash_store", "keys answered by a hash store"),
    Metric::counter("gets_from_sorted_store", "keys answered by the sorted store"),
    Metric::counter("conversion_bytes_written", "bytes of entries written by conversions"),
    Metric::counter("merge_bytes_written", "bytes of entries written by merges"),
    Metric::counter("overwrites_in_log_store", "entries overwritten while still in a log store"),
    Metric::counter("conversions", "log stores converted to hash stores"),
    Metric::counter("converted_entries", "entries written by conversions"),
    Metric::counter("merges", "merges into a sorted store"),
    Metric::counter("merged_entries", "entries written by merges"),
    Metric::counter("device_reads", "read operations of the device"),
    Metric::counter("device_bytes_read", "bytes read from the device"),
    Metric::counter("device_writes", "write operations of the device"),
    Metric::counter("device_bytes_written", "bytes written to the device"),
    Metric::counter("device_syncs", "syncs of the device"),
    Metric::gauge("log_store_entries", "entries in log stores"),
    Metric::gauge("hash_store_entries", "entries in hash stores"),
    Metric::gauge("sorted_store_entries", "entries in sorted stores"),
    Metric::gauge("hash_stores", "hash stores"),
    Metric::gauge("log_store_index_bytes", "memory of the log stores' tables"),
    Metric::gauge("hash_store_filter_bytes", "memory of the hash stores' filters"),
    Metric::gauge("sorted_store_index_bytes", "memory of the sorted stores' indexes"),
    Metric::gauge(
        "expired_bytes",
        "bytes of tables and of the value log whose entries have expired",
    ),
    Metric::ratio(
        "device_reads_per_get_predicted",
        "device reads per key looked up, from the paper's equation 6",
    ),
    Metric::ratio(
        "write_amplification_predicted",
        "entry bytes written to the device per entry byte put, from the paper's equation 4",
    ),
    Metric::ratio(
        "index_bytes_per_key_predicted",
        "index memory per entry, from the paper's equation 7",
    ),
];
