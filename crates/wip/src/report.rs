//! What there is, in numbers.

use crate::contents::Contents;
use crate::dead::unneeded_bytes;
use silica_device::{Device, Lifetime};
use silica_engine::MetricVisitor;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reports what was written of each lifetime.
pub(crate) fn report_lifetimes<D: Device>(device: &D, visitor: &mut dyn MetricVisitor) {
    let lifetimes = if device.takes_lifetimes() { Lifetime::ALL.len() } else { 0 };
    let [short_lived, medium_lived, long_lived] = device.counters().snapshot().bytes_of_lifetime;
    for (name, value) in [
        ("write_lifetimes", lifetimes as u64),
        ("short_lived_bytes_written", short_lived),
        ("medium_lived_bytes_written", medium_lived),
        ("long_lived_bytes_written", long_lived),
    ] {
        visitor.metric(name, value as f64);
    }
}

/// Reports what there is of buckets and tables.
pub(crate) fn report_buckets<D: Device>(contents: &Contents<D>, visitor: &mut dyn MetricVisitor) {
    let waits = &contents.log.waits;
    for (name, counter) in
        [("writes_waited_for_sync", &waits.syncs), ("writes_waited_for_segment", &waits.segments)]
    {
        visitor.metric(name, counter.load(Ordering::Relaxed) as f64);
    }
    visitor.metric("log_segments_recycled", contents.log.recycled() as f64);
    let buckets = contents.buckets();
    let (mut runs, mut live, mut dead, mut tables) = (0, 0, 0, BTreeMap::new());
    // An entry of a memtable may be another version of one in a table.
    let mut entries = 0;
    let over_ms = contents.snapshots.over_ms();
    let versions = buckets.iter().map(|bucket| bucket.read().version.clone());
    let versions: Vec<_> = versions.collect();
    let unneeded = unneeded_bytes(&versions);
    for (bucket, version) in buckets.iter().zip(&versions) {
        let stores = bucket.read();
        let shape = version.shape_at(over_ms);
        let frozen = stores.frozen.iter().map(|frozen| frozen.memtable.len());
        entries += shape.live_keys() + (stores.active.len() + frozen.sum::<usize>()) as u64;
        drop(stores);
        runs += version.runs.len() as u64;
        live += shape.live_bytes();
        dead += shape.dead_bytes() + version.unneeded_bytes(&unneeded);
        for part in version.runs.iter().flatten() {
            tables.insert(part.table.number, part.table.table.file_bytes());
        }
    }
    let (values, live_values) = contents.values.bytes();
    let table_bytes = tables.values().sum();
    let disk = table_bytes + contents.log.file_bytes() + values;
    for (name, value) in [
        ("buckets", buckets.len() as u64),
        ("runs", runs),
        ("live_bytes", live + live_values),
        ("dead_bytes", dead + values - live_values),
        ("table_bytes", table_bytes),
        ("value_log_bytes", values),
        ("disk_bytes", disk),
        ("entries_estimate", entries),
    ] {
        visitor.metric(name, value as f64);
    }
    let m = &contents.metrics;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let written = [&m.flush_bytes, &m.compaction_bytes, &m.value_log_bytes];
    let written = written.map(load).iter().sum::<u64>() + m.calls.sum(|c| &c.log_bytes);
    let (gets, get_reads) = (m.calls.sum(|c| &c.gets), m.calls.sum(|c| &c.get_reads));
    for (name, part, whole) in [
        ("device_reads_per_get", get_reads, gets),
        ("write_amplification", written, m.calls.sum(|c| &c.user_bytes)),
        ("space_amplification", disk, live + live_values),
    ] {
        let ratio = if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        visitor.metric(name, ratio);
    }
}
