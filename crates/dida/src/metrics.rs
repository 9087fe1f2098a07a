//! Counters.

use crate::cache::Dida;
use crate::flash::Flash;
use silica_device::Device;
use silica_engine::{Metric, MetricVisitor};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the flash cache counts that not all engines do.
pub const METRICS: &[Metric] = &[
    Metric::counter("slabs_written", "slabs written to flash"),
    Metric::counter("slabs_dropped", "slabs that were dropped with all that they had"),
    Metric::counter("slabs_emptied", "slabs of which the live entries were copied"),
    Metric::counter("slabs_levelled", "slabs that were collected to level wear"),
    Metric::counter("wear_levellings", "times that wear was levelled"),
    Metric::counter("collector_copied_bytes", "bytes of entries that the collector copied"),
    Metric::counter("collector_copied_entries", "entries that the collector copied"),
    Metric::counter("flash_erases", "blocks of flash that were given back to be erased"),
    Metric::counter("blocks_failed", "blocks of flash that failed while they were written"),
    Metric::counter("damaged_entries", "entries that could not be read and were dropped"),
    Metric::counter("evictions_with_slabs", "entries dropped with their slab"),
    Metric::counter("evictions_from_index", "entries dropped because the index needed their slot"),
    Metric::counter("expirations", "entries removed because they had expired"),
    Metric::counter("checkpoints", "checkpoints of the index"),
    Metric::gauge("flash_free_blocks", "blocks of flash that are free"),
    Metric::gauge("flash_usable_blocks", "blocks of flash that are not bad"),
    Metric::gauge("free_blocks_low", "free blocks below which slabs are dropped"),
    Metric::gauge("free_blocks_high", "free blocks below which slabs are emptied"),
    Metric::gauge("journal_bytes", "bytes of the journal of deletes and overwrites"),
    Metric::ratio("hit_ratio", "keys found per key looked up"),
];

/// Counters of a cache.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) gets: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) device_reads: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) slabs_written: AtomicU64,
    pub(crate) slab_bytes_written: AtomicU64,
    pub(crate) slabs_dropped: AtomicU64,
    pub(crate) slabs_emptied: AtomicU64,
    pub(crate) slabs_levelled: AtomicU64,
    pub(crate) wear_levellings: AtomicU64,
    pub(crate) copied_items: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) erases: AtomicU64,
    pub(crate) blocks_failed: AtomicU64,
    /// With those of checkpoints.
    pub(crate) blocks_written: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) evicted_with_slabs: AtomicU64,
    pub(crate) evicted_from_index: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) writes_slowed: AtomicU64,
}

impl<F: Flash, D: Device> Dida<F, D> {
    /// Bytes written to flash since the cache was opened.
    pub fn flash_bytes_written(&self) -> u64 {
        self.counts.blocks_written.load(Ordering::Relaxed) * self.layout.shape.slab_bytes()
    }

    pub(crate) fn report_metrics(&self, visitor: &mut dyn MetricVisitor) {
        let counts = &self.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (gets, hits) = (of(&counts.gets), of(&counts.hits));
        let reads = of(&counts.device_reads);
        let (with_slabs, from_index) =
            (of(&counts.evicted_with_slabs), of(&counts.evicted_from_index));
        let damaged = of(&counts.damaged);
        let entries = self.entries();
        let index = self.index.bytes() + self.slabs.bytes();
        let (free, usable) = (self.flash.free(), self.flash.usable());
        let marks = self.provision.marks(free, usable);
        let live: f64 = self.slabs.on_flash().map(|(_, slab, _)| slab.live_bytes()).sum();
        let slab_bytes = self.layout.shape.slab_bytes();
        let on_flash = self.slabs.on_flash().count() as u64 * slab_bytes;
        for (name, value) in [
            ("gets", gets),
            ("get_hits", hits),
            ("get_device_reads", reads),
            ("puts", of(&counts.puts)),
            ("deletes", of(&counts.deletes)),
            ("user_bytes_written", of(&counts.user_bytes)),
            ("log_bytes_written", of(&counts.slab_bytes_written)),
            ("writes_slowed", of(&counts.writes_slowed)),
            ("evictions", with_slabs + from_index + damaged),
            ("evictions_with_slabs", with_slabs),
            ("evictions_from_index", from_index),
            ("damaged_entries", damaged),
            ("expirations", of(&counts.expired)),
            ("entries_estimate", entries),
            ("index_bytes", index),
            ("log_bytes", u64::from(self.layout.memory_slabs) * slab_bytes),
            ("memory_budget_bytes", self.memory_bytes),
            ("live_bytes", live as u64),
            ("dead_bytes", on_flash.saturating_sub(live as u64)),
            ("disk_bytes", on_flash),
            ("slabs_written", of(&counts.slabs_written)),
            ("slabs_dropped", of(&counts.slabs_dropped)),
            ("slabs_emptied", of(&counts.slabs_emptied)),
            ("slabs_levelled", of(&counts.slabs_levelled)),
            ("wear_levellings", of(&counts.wear_levellings)),
            ("collector_copied_bytes", of(&counts.copied_bytes)),
            ("collector_copied_entries", of(&counts.copied_items)),
            ("flash_erases", of(&counts.erases)),
            ("blocks_failed", of(&counts.blocks_failed)),
            ("checkpoints", of(&counts.checkpoints)),
            ("flash_free_blocks", u64::from(free)),
            ("flash_usable_blocks", u64::from(usable)),
            ("free_blocks_low", u64::from(marks.low)),
            ("free_blocks_high", u64::from(marks.high)),
            ("journal_bytes", self.journal.bytes()),
        ] {
            visitor.metric(name, value as f64);
        }
        let ratio = |above: u64, below: u64| above as f64 / below.max(1) as f64;
        visitor.metric("index_bytes_per_key", ratio(index, entries));
        visitor.metric("hit_ratio", ratio(hits, gets));
        visitor.metric("device_reads_per_get", ratio(reads, gets));
        let written = self.flash_bytes_written();
        visitor.metric("write_amplification", ratio(written, of(&counts.user_bytes)));
    }
}
