//! What the metrics of a cache are now.

use crate::cache::Dida;
use crate::flash::Flash;
use silica_device::Device;
use silica_engine::MetricVisitor;
use std::sync::atomic::{AtomicU64, Ordering};

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
        let (streams, streamed_bytes) = self.flash.streams();
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
            ("flash_capacity_bytes", u64::from(usable) * slab_bytes),
            ("free_blocks_low", u64::from(marks.low)),
            ("free_blocks_high", u64::from(marks.high)),
            ("journal_bytes", self.journal.bytes()),
            ("flash_write_streams", u64::from(streams)),
            ("flash_streamed_bytes", streamed_bytes),
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
