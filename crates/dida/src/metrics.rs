//! Counters.

use silica_engine::Metric;
use std::sync::atomic::AtomicU64;

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
    Metric::gauge("flash_capacity_bytes", "bytes of those blocks"),
    Metric::gauge("free_blocks_low", "free blocks below which slabs are dropped"),
    Metric::gauge("free_blocks_high", "free blocks below which slabs are emptied"),
    Metric::gauge("journal_bytes", "bytes of the journal of deletes and overwrites"),
    Metric::gauge("flash_write_streams", "placement streams that the drive keeps apart"),
    Metric::counter("flash_streamed_bytes", "bytes written to flash with a placement stream"),
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
