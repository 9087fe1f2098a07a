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
//! through as long as merges keep the room that they need.

use crate::jobs::lock_job;
use crate::options::MISS_FILTER_BITS;
use crate::packed::CHUNK_BYTES;
use crate::partition::Version;
use crate::silt::Silt;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::{Budget, Op, OpKind, WriteBatch};
use silica_parts::frame::Frame;
use silica_parts::value_log::Pointer;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of writes between two looks at the free space, and of work that a refused put tries.
const LOOK_EVERY_BYTES: u64 = 64 << 10;
/// For the edits of the manifest, their snapshot, and file headers.
const BOOK_BYTES: u64 = 32 << 10;
/// Chunks of a hash store beyond its entries.
const HASH_STORE_CHUNKS: u64 = 4;
/// While room is short a partition is merged when its young entries are one in this many.
const SHORT_MERGE_SHARE: u64 = 50;
/// While room is short a value-log segment is reclaimed at this dead share.
const SHORT_DEAD_PERCENT: u64 = 25;
/// After a put was refused it is at this one.
const WANTED_DEAD_PERCENT: u64 = 1;
/// The most bytes of a refused put that later work makes room for.
const WANTED_BYTES_MAX: u64 = 4 << 20;
/// Pieces of work that a put tries before it is refused; and one that takes no more than what it
/// overwrites.
const TRIES_MAX: u64 = 4;
const SHRINKING_TRIES_MAX: u64 = 4096;
/// So many of the latter may find nothing to do: others may have it in hand.
const IDLE_TRIES_MAX: u32 = 64;
/// What a put takes before what it overwrites becomes free.
const PUT_TIMES: u64 = 2;

/// What is known of the room on the device.
#[derive(Default)]
pub(crate) struct Space {
    /// Less is free than maintenance may need.
    short: AtomicBool,
    /// Bytes written since the last look.
    unseen_bytes: AtomicU64,
    /// Bytes that the conversion and the merge in hand have written already.
    pub(crate) converting_bytes: AtomicU64,
    pub(crate) merging_bytes: AtomicU64,
    /// Bytes of a put that was refused, until there is room for it or nothing is left to do.
    wanted_bytes: AtomicU64,
}

impl<D: Device> Silt<D> {
    /// True while less is free than maintenance may need.
    pub(crate) fn is_short_of_space(&self) -> bool {
        self.space.short.load(Ordering::Relaxed)
    }

    /// Counts bytes written, and looks at the free space now and then.
    pub(crate) fn note_space(&self, bytes: u64) {
        let unseen = self.space.unseen_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unseen >= self.look_every_bytes() {
            self.look_at_space(0);
        }
    }

    fn look_every_bytes(&self) -> u64 {
        LOOK_EVERY_BYTES.min(self.config.segment_bytes(self.memory_bytes()) / 4)
    }

    /// Compares what is free with what maintenance needs beside `more` bytes; true where it is
    /// less. Room is short as long as it would be with the put that was refused.
    pub(crate) fn look_at_space(&self, more: u64) -> bool {
        self.space.unseen_bytes.store(0, Ordering::Relaxed);
        let needed = self.space_needed_bytes();
        let most = needed + more.max(self.wanted_bytes());
        let mut free = self.free_bytes();
        if free < most && self.log.remove_spares() > 0 {
            free = self.free_bytes();
        }
        self.space.short.store(free < most, Ordering::Relaxed);
        if free >= most {
            self.space.wanted_bytes.store(0, Ordering::Relaxed);
        }
        free < needed + more
    }

    /// Bytes that are free, or that jobs in hand have written or are to remove.
    fn free_bytes(&self) -> u64 {
        let in_hand = self.space.converting_bytes.load(Ordering::Relaxed)
            + self.space.merging_bytes.load(Ordering::Relaxed)
            + self.discarded_bytes();
        // A device that does not tell is taken to have room: it will say when it has not.
        self.device.free_bytes().unwrap_or(u64::MAX / 2).saturating_add(in_hand)
    }

    /// Bytes of a put that was refused and that work is to make room for; 0 for none.
    fn wanted_bytes(&self) -> u64 {
        self.space.wanted_bytes.load(Ordering::Relaxed)
    }

    /// Nothing is left to do that would free any: the next refused put asks again.
    pub(crate) fn stop_wanting(&self) {
        if self.space.wanted_bytes.swap(0, Ordering::Relaxed) > 0 {
            self.look_at_space(0);
        }
    }

    /// Bytes that maintenance takes at the worst before it frees any, and those of puts that take
    /// no more than what they overwrite.
    fn space_needed_bytes(&self) -> u64 {
        // Not more than what is there to be overwritten.
        let overwritten = self.log.end() + self.value_log_bytes();
        self.merge_needed_bytes() + self.log_bytes_max().min(overwritten)
    }

    /// Bytes that maintenance takes at the worst before it frees any.
    fn merge_needed_bytes(&self) -> u64 {
        let versions: Vec<_> = self.partitions.iter().map(|p| p.version()).collect();
        let filter_bits = self.config.sorted_filter_bits.unwrap_or(MISS_FILTER_BITS as u32);
        let merge = versions.iter().map(|v| merge_output_bytes(v, filter_bits)).max().unwrap_or(0);
        let floor = versions.iter().map(|v| v.floor).min().unwrap_or(0);
        let end = self.log.end();
        let window = end.saturating_sub(floor).min(self.log.mapped_bytes());
        let segment = self.config.segment_bytes(self.memory_bytes()).min(window);
        // Of a segment that is reclaimed for little nearly all of it moves.
        let values = self.values.largest_segment_bytes();
        // Each hash store has an index, a footer, and chunks that are not full.
        let stores = versions.iter().map(|v| v.frozen.len() as u64 + 1).sum::<u64>();
        let chunks = stores * HASH_STORE_CHUNKS * CHUNK_BYTES as u64;
        merge + window + window / 8 + chunks + segment + values + BOOK_BYTES
    }

    /// Dead share at which value-log segments are reclaimed now.
    pub(crate) fn value_log_dead_percent(&self) -> u64 {
        let usual = self.config.value_log_dead_percent;
        match self.is_short_of_space() {
            true if self.wanted_bytes() > 0 => usual.min(WANTED_DEAD_PERCENT),
            true => usual.min(SHORT_DEAD_PERCENT),
            false => usual,
        }
    }

    /// The partition whose merge frees space and takes the least of it, while that is short.
    pub(crate) fn merge_for_space(&self) -> Option<usize> {
        if !self.is_short_of_space() {
            return None;
        }
        let (is_wanted, now) = (self.wanted_bytes() > 0, self.clock.unix_ms());
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

    /// While space is short: freezes log stores whose entries make a merge worth its while.
    pub(crate) fn freeze_for_merges(&self) {
        if !self.is_short_of_space() {
            return;
        }
        let is_wanted = self.wanted_bytes() > 0;
        let mut writer = self.writer.lock().expect("no panic while held");
        for (index, partition) in self.partitions.iter().enumerate() {
            let mut stores = partition.write();
            let young = stores.version.hash_store_entries() + u64::from(stores.active.len());
            let old = stores.version.sorted_store_entries();
            if stores.version.frozen.is_empty()
                && !stores.active.is_empty()
                && (is_wanted || young * SHORT_MERGE_SHARE >= old)
            {
                let seed = writer.next_table_seed();
                self.freeze(&mut stores, index, seed, self.log.end());
            }
        }
    }

    /// Before the puts of a batch: where room is short, tries to make some, and refuses them where
    /// that does not help. Deletes are let through, and what takes no more than it overwrites: they
    /// make space.
    pub(crate) fn refuse_if_short(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let bytes: u64 = batch.ops().iter().map(put_bytes).sum();
        let is_large = bytes >= self.look_every_bytes() && self.look_at_space(bytes);
        if !is_large && !self.is_short_of_space() {
            return Ok(());
        }
        self.make_room_for(batch, bytes)
    }

    #[cold]
    fn make_room_for(&self, batch: &WriteBatch<'_>, bytes: u64) -> Result<()> {
        if !self.look_at_space(bytes) {
            return Ok(());
        }
        let shrinks = bytes <= self.overwritten_bytes(batch)?;
        let fits = || shrinks && self.free_bytes() >= self.merge_needed_bytes() + PUT_TIMES * bytes;
        if fits() {
            return Ok(());
        }
        let mut idle = 0;
        for _ in 0..if shrinks { SHRINKING_TRIES_MAX } else { TRIES_MAX } {
            self.space.wanted_bytes.fetch_max(bytes.clamp(1, WANTED_BYTES_MAX), Ordering::Relaxed);
            self.space.short.store(true, Ordering::Relaxed);
            let worked = self.run_jobs(Budget::amid_work(LOOK_EVERY_BYTES), shrinks);
            if !self.look_at_space(bytes) || fits() {
                return Ok(());
            }
            idle = if worked?.bytes == 0 { idle + 1 } else { 0 };
            if idle > if shrinks { IDLE_TRIES_MAX } else { 0 } {
                break;
            }
            if idle > 0 {
                // Another thread may have in hand what is to be done.
                drop(lock_job(&self.jobs.upkeep, true));
            }
        }
        let message = format!(
            "the disk has {} bytes left, and the store keeps {} of them to merge and to delete; \
             delete entries, which frees their space after a while, or make room on the disk",
            self.device.free_bytes().unwrap_or(0),
            self.space_needed_bytes()
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Bytes of the entries that a batch takes the place of, or deletes.
    fn overwritten_bytes(&self, batch: &WriteBatch<'_>) -> Result<u64> {
        let keys: BTreeSet<&[u8]> = batch.ops().iter().map(|op| op.key).collect();
        keys.into_iter().map(|key| self.entry_bytes(key)).sum()
    }

    /// Bytes of the newest entry of a key, its value where that lies apart included; 0 where there
    /// is none.
    fn entry_bytes(&self, key: &[u8]) -> Result<u64> {
        let Some(newest) = self.newest_frame(key)? else { return Ok(0) };
        let (frame, _) = Frame::decode(&newest).expect("it was just encoded");
        match (frame.is_tombstone(), frame.is_pointer()) {
            (true, _) => Ok(0),
            (_, true) => Ok(Pointer::of(&frame)?.record_bytes()),
            _ => Ok((key.len() + frame.value.len()) as u64),
        }
    }
}

/// Bytes of the key and the value that an operation puts.
fn put_bytes(op: &Op<'_>) -> u64 {
    match op.kind {
        OpKind::Put(entry) => (op.key.len() + entry.value.len()) as u64,
        OpKind::Delete => 0,
    }
}

/// Bytes that a merge of `version` writes at the most: its inputs' files, and a filter that they
/// may not have.
fn merge_output_bytes<D: Device>(version: &Version<D>, filter_bits: u32) -> u64 {
    let entries = version.hash_store_entries() + version.sorted_store_entries();
    version.file_bytes() + entries * (u64::from(filter_bits) + 2) / 8
}
