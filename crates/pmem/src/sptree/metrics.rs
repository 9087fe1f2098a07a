//! What the engine counts.

use super::counts::Counts;
use super::tree::SpTree;
use crate::space::{DURABILITY_CLASS, MEDIA_METRICS};
use silica_base::Striped;
use silica_device::region::Region;
use silica_engine::{Metric, MetricVisitor};
use std::sync::atomic::Ordering;

/// What a store of `sptree` counts that no other engine does.
pub const METRICS: &[Metric] = &[
    Metric::gauge("region_bytes", "bytes of the region"),
    Metric::gauge("region_live_bytes", "bytes of leaves and entries in the region"),
    DURABILITY_CLASS,
    MEDIA_METRICS[0],
    MEDIA_METRICS[1],
    Metric::gauge("leaves", "leaves"),
    Metric::gauge("leaves_unchecked", "leaves that were not checked since the opening"),
    Metric::gauge(
        "nodes_folded",
        "nodes that stand for the leaves behind theirs until somebody comes there",
    ),
    Metric::gauge("top_copy_bytes", "bytes of the copy of the top layer in the region"),
    Metric::gauge("history_bytes", "memory of what keys were for snapshots that are held"),
    Metric::counter("leaf_splits", "leaves split"),
    Metric::counter("leaf_merges", "leaves merged with a neighbour"),
    Metric::counter("leaves_sorted", "leaves sorted for a range"),
    Metric::gauge("write_buffers", "leaves that have a write buffer"),
    Metric::gauge("write_buffer_bytes", "memory of write buffers"),
    Metric::gauge("log_bytes", "bytes of the log of write buffers in the region"),
    Metric::counter("log_records", "records written to the log of write buffers"),
    Metric::counter("buffer_merges", "write buffers that went to their leaves"),
    Metric::counter("buffer_evictions", "write buffers taken from leaves with few writes"),
    Metric::counter("filter_misses", "keys that a filter said are not there"),
    Metric::counter("redo_records", "changes of several words at once"),
];

/// Reports everything.
pub(crate) fn report<R: Region>(tree: &SpTree<R>, visitor: &mut dyn MetricVisitor) {
    let counts: &Striped<Counts> = &tree.counts;
    let space = &tree.space;
    let entries = tree.entries_guess();
    let index = tree.index_bytes();
    let values: [(&'static str, f64); 32] = [
        ("gets", counts.sum(|c| &c.gets) as f64),
        ("get_hits", counts.sum(|c| &c.hits) as f64),
        ("filter_misses", counts.sum(|c| &c.filter_misses) as f64),
        ("filter_false_positives", counts.sum(|c| &c.false_positives) as f64),
        ("puts", counts.sum(|c| &c.puts) as f64),
        ("deletes", counts.sum(|c| &c.deletes) as f64),
        ("user_bytes_written", counts.sum(|c| &c.user_bytes) as f64),
        ("leaf_splits", counts.sum(|c| &c.splits) as f64),
        ("leaf_merges", counts.sum(|c| &c.merges) as f64),
        ("leaves_sorted", counts.sum(|c| &c.sorted) as f64),
        ("write_buffers", tree.buffers.count() as f64),
        ("write_buffer_bytes", tree.buffers.bytes() as f64),
        ("log_bytes", tree.log.bytes() as f64),
        ("log_records", tree.log.records.load(Ordering::Relaxed) as f64),
        ("buffer_merges", counts.sum(|c| &c.buffer_merges) as f64),
        ("buffer_evictions", counts.sum(|c| &c.buffer_evictions) as f64),
        ("entries_estimate", entries as f64),
        ("partitions", 1.0),
        ("index_bytes", index as f64),
        ("index_bytes_per_key", index as f64 / entries.max(1) as f64),
        ("memory_budget_bytes", tree.memory_bytes() as f64),
        ("region_bytes", space.region().len() as f64),
        ("disk_bytes", space.region().len() as f64),
        ("region_live_bytes", space.live_bytes() as f64),
        ("live_bytes", space.live_bytes() as f64),
        ("durability_class", f64::from(space.durability_class())),
        ("leaves", tree.top.leaves() as f64),
        ("leaves_unchecked", tree.unchecked() as f64),
        ("nodes_folded", tree.folded() as f64),
        ("top_copy_bytes", tree.anchors.region_bytes() as f64),
        ("history_bytes", tree.history.bytes() as f64),
        ("redo_records", f64::from(space.redo_records())),
    ];
    for (name, value) in values {
        visitor.metric(name, value);
    }
    space.report_media(visitor);
}
