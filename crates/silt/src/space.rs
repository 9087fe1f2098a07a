//! Room on the device: puts leave enough of it free that maintenance, and with it deletes, can go
//! on when there is no more.
//!
//! A conversion and a merge write their output before their inputs go, and so need room to make
//! room. Puts are refused with `Full` while less is free than the largest of these steps takes.
//! Deletes and maintenance may use that rest. While it is not whole, maintenance does at once what
//! frees space (it merges what holds a few percent of deletes or overwritten entries, and reclaims
//! value-log segments earlier) until there is room again.
//!
//! After a put was refused nothing is too little: all log stores are converted, every partition
//! with a hash store is merged, and value-log segments of little garbage are reclaimed, until there
//! is room for such a put or nothing is left to do.
//!
//! A put that takes no more than what it overwrites makes room, too, like a delete. It is let
//! through as long as merges keep the room that they need. Both may be faster than maintenance:
//! their writer waits for it while the log is longer than what is reserved for them.

use crate::ground::Ground;
use crate::journal::Journal;
use crate::options::MISS_FILTER_BITS;
use crate::packed::CHUNK_BYTES;
use crate::partition::Version;
use crate::partitions::Partitions;
use silica_device::Device;
use silica_parts::free_bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of writes between two looks at the free space, and of work that a refused put tries.
pub(crate) const LOOK_EVERY_BYTES: u64 = 64 << 10;
/// For the edits of the manifest, their snapshot, and file headers.
const BOOK_BYTES: u64 = 32 << 10;
/// Chunks of a hash store beyond its entries.
const HASH_STORE_CHUNKS: u64 = 5;
/// While room is short a partition is merged when its young entries are one in this many.
pub(crate) const SHORT_MERGE_SHARE: u64 = 50;

/// What is known of the room on the device.
pub(crate) struct Space<D: Device> {
    ground: Arc<Ground<D>>,
    journal: Arc<Journal<D>>,
    partitions: Arc<Partitions<D>>,
    /// Bytes that the conversion and the merge in hand take of the device already.
    pub(crate) converting_bytes: AtomicU64,
    pub(crate) merging_bytes: AtomicU64,
}

impl<D: Device> Space<D> {
    pub(crate) fn new(partitions: &Arc<Partitions<D>>) -> Self {
        Space {
            ground: Arc::clone(&partitions.ground),
            journal: Arc::clone(&partitions.journal),
            partitions: Arc::clone(partitions),
            converting_bytes: AtomicU64::new(0),
            merging_bytes: AtomicU64::new(0),
        }
    }

    /// Counts bytes written, and looks at the free space now and then.
    #[inline]
    pub(crate) fn note_space(&self, bytes: u64) {
        self.ground.room.count(bytes);
        if self.ground.room.is_look_due() {
            self.look_at_space(0);
        }
    }

    pub(crate) fn look_every_bytes(&self) -> u64 {
        LOOK_EVERY_BYTES.min(self.ground.segment_bytes() / 4)
    }

    /// Compares what is free with what maintenance needs beside `more` bytes; true where it is
    /// less. Room is short as long as it would be with the put that was refused.
    pub(crate) fn look_at_space(&self, more: u64) -> bool {
        let room = &self.ground.room;
        room.look_after(self.look_every_bytes());
        let give_back = || self.journal.log.remove_spares();
        room.look(self.space_needed_bytes(), more, || self.free_bytes(), give_back).0
    }

    /// Bytes that are free, or that jobs in hand have written or are to remove.
    pub(crate) fn free_bytes(&self) -> u64 {
        let in_hand = self.converting_bytes.load(Ordering::Relaxed)
            + self.merging_bytes.load(Ordering::Relaxed)
            + self.partitions.discarded_bytes();
        free_bytes(&*self.ground.device).saturating_add(in_hand)
    }

    /// Nothing is left to do that would free any: the next refused put asks again.
    pub(crate) fn stop_wanting(&self) {
        if self.ground.room.stop_wanting() {
            self.look_at_space(0);
        }
    }

    /// Bytes that maintenance takes at the worst before it frees any, and those of puts that take
    /// no more than what they overwrite. Each log store may be frozen once before it is full: a put
    /// that is refused asks for that.
    pub(crate) fn space_needed_bytes(&self) -> u64 {
        // Not more than what is there to be overwritten.
        let overwritten = self.journal.log.end() + self.journal.values.bytes().0;
        self.needed_bytes(2) + self.ground.log_bytes_max().min(overwritten)
    }

    /// Bytes that maintenance takes at the worst before it frees any.
    pub(crate) fn merge_needed_bytes(&self) -> u64 {
        self.needed_bytes(1)
    }

    /// Bytes that conversions of all frozen log stores and of `more` in each partition take, and
    /// then the largest merge, before any become free.
    fn needed_bytes(&self, more: u64) -> u64 {
        let filter_bits = self.ground.config.sorted_filter_bits.unwrap_or(MISS_FILTER_BITS as u32);
        let versions: Vec<_> = self.partitions.iter().map(|p| p.version()).collect();
        let (log, end) = (&self.journal.log, self.journal.log.end());
        let window = |floor: u64| end.saturating_sub(floor).min(log.mapped_bytes());
        // Each hash store has an index, a footer, and chunks that are not full.
        let chunks = |version: &Version<D>| {
            (version.frozen.len() as u64 + more) * HASH_STORE_CHUNKS * CHUNK_BYTES as u64
        };
        // What is converted is merged after that.
        let merge = |version: &Arc<Version<D>>| {
            let window = window(version.floor);
            merge_output_bytes(version, filter_bits) + window + window / 8 + chunks(version)
        };
        let merge = versions.iter().map(merge).max().unwrap_or(0);
        let all = window(versions.iter().map(|version| version.floor).min().unwrap_or(0));
        let stores: u64 = versions.iter().map(|version| chunks(version)).sum();
        let segment = self.ground.segment_bytes().min(all);
        // Of a segment that is reclaimed for little nearly all of it moves.
        let values = self.journal.values.largest_segment_bytes();
        merge + all + all / 8 + stores + segment + values + BOOK_BYTES
    }

    /// True if the log is longer than what is reserved for writes that make room.
    pub(crate) fn is_log_long(&self) -> bool {
        let floor = self.partitions.iter().map(|p| p.version().floor).min().unwrap_or(0);
        let reserved = self.ground.log_bytes_max() + self.ground.segment_bytes();
        self.journal.log.end().saturating_sub(floor) > reserved
    }
    /// Dead share at which value-log segments are reclaimed now.
    pub(crate) fn value_log_dead_percent(&self) -> u64 {
        self.ground.room.dead_percent(self.ground.config.value_log_dead_percent)
    }

    /// The partition whose merge frees space and takes the least of it, while that is short.
    pub(crate) fn merge_for_space(&self) -> Option<usize> {
        if !self.ground.is_short_of_space() {
            return None;
        }
        let (is_wanted, now) = (self.ground.room.is_wanted(), self.ground.clock.unix_ms());
        let versions = self.partitions.iter().map(|p| p.version()).enumerate();
        let worth = versions.filter(|(_, version)| {
            let (young, old) = (version.hash_store_entries(), version.sorted_store_entries());
            let is_young = young > 0 && (is_wanted || young * SHORT_MERGE_SHARE >= old);
            let expired = version.expired_at(now).bytes();
            let bytes = version.file_bytes();
            is_young || expired > 0 && (is_wanted || expired * SHORT_MERGE_SHARE >= bytes)
        });
        let (index, _) = worth.min_by_key(|(_, version)| version.file_bytes())?;
        Some(index)
    }
}

/// Bytes that a merge of `version` writes at the most: its inputs' files, and a filter that they
/// may not have.
fn merge_output_bytes<D: Device>(version: &Version<D>, filter_bits: u32) -> u64 {
    let entries = version.hash_store_entries() + version.sorted_store_entries();
    version.file_bytes() + entries * (u64::from(filter_bits) + 2) / 8
}
