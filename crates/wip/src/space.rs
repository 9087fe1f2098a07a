//! Room on the device: puts leave enough of it free that maintenance, and with it deletes, can go
//! on when there is no more.
//!
//! A flush and a compaction write their output before their inputs go, and so need room to make
//! room. Puts are refused with `Full` while less is free than the largest of these steps and the
//! log of deletes take. Deletes and maintenance may use that rest. While it is not whole,
//! maintenance does only what frees space: it flushes all memtables together, or those with a few
//! percent of their bucket's bytes, and compacts the bucket with the most dead bytes of those whose
//! output fits, until there is room again.
//!
//! After a put was refused, nothing is too little: all memtables are flushed, every bucket of more
//! than one run or with any dead bytes is compacted, and the value log gives back what it can,
//! until there is room for such a put or nothing is left to do. So what deletes hide becomes free
//! while somebody wants it, and a full disk without garbage costs no work. The put itself waits
//! while work goes on that frees space, its own or that of others.
//!
//! A put that takes no more than what it overwrites makes room, too, like a delete. It is let
//! through as long as compactions keep the room that they need. Both may be faster than
//! maintenance: their writer waits for it while the log is longer than what is reserved for them.

use crate::bucket::{Bucket, Frozen, Version};
use crate::contents::Contents;
use crate::dead::unneeded_bytes;
use crate::memory::MemoryBudget;
use silica_device::Device;
use silica_parts::wal::POSITION_BYTES;
use silica_parts::{RoomWatch, free_bytes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of writes between two looks at the free space where there is little, and where there is
/// so much that a part in [`LOOK_PART`] of it is more.
pub(crate) const LOOK_EVERY_BYTES: u64 = 64 << 10;
const LOOK_EVERY_BYTES_MAX: u64 = 16 << 20;
const LOOK_PART: u64 = 16;
/// For the edits of the manifest, their snapshot, and file headers.
const BOOK_BYTES: u64 = 32 << 10;
/// Blocks that a bucket's table may be longer by when a few of its entries were deleted.
const ROUNDING_BLOCKS: u64 = 2;
/// While room is short, what is young in a bucket is flushed and compacted where it is one part in
/// so many of the bucket.
const YOUNG_PART: u64 = 50;
/// A bucket is rewritten for dead bytes alone where they are at least one part in so many.
const DEAD_PART: u64 = 16;
/// The part of dead bytes from which on a bucket is rewritten after a put was refused: estimates of
/// nearly nothing are no reason to begin again.
const WANTED_DEAD_PART: u64 = 512;
/// While room is short, all is flushed where the log has so many segments, or where what is in no
/// table comes to so many times of what it is otherwise.
const LOG_SEGMENTS: u64 = 3;
const UNFLUSHED_TIMES: u64 = 2;
/// So many looks for work pass after a job did not fit, unless more becomes free.
const PAUSES: u64 = 16;

/// What is known of the room on the device.
#[derive(Default)]
pub(crate) struct SpaceAccount {
    room: RoomWatch,
    /// Looks for work that are to pass, unless more is free than this.
    pauses: AtomicU64,
    paused_at_bytes: AtomicU64,
}

impl SpaceAccount {
    /// True while less is free than maintenance may need.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.room.is_short()
    }

    /// Counts bytes written.
    #[inline]
    pub(crate) fn count(&self, bytes: u64) {
        self.room.count(bytes);
    }

    /// Bytes that one of many writers may keep to itself before it counts them.
    #[inline]
    pub(crate) fn uncounted_bytes_max(&self) -> u64 {
        self.room.uncounted_bytes_max()
    }

    /// True where a look at the free space is due.
    #[inline]
    pub(crate) fn is_look_due(&self) -> bool {
        self.room.is_look_due()
    }

    /// True if a put may try once more which its own tries did not help.
    pub(crate) fn may_try_on(&self, free: u64) -> bool {
        self.room.may_try_on(free)
    }

    /// Has later work make room for a put of so many bytes, which is refused.
    pub(crate) fn want(&self, bytes: u64) {
        self.room.want(bytes);
    }
}

/// What decides about space: the account, and what it is compared with. It runs no jobs.
pub(crate) struct SpaceContext<'w, D: Device> {
    pub(crate) contents: &'w Contents<D>,
    pub(crate) memory: &'w MemoryBudget,
    pub(crate) account: &'w SpaceAccount,
}

impl<D: Device> SpaceContext<'_, D> {
    pub(crate) fn free_bytes(&self) -> u64 {
        free_bytes(&*self.contents.device)
    }

    /// Compares what is free with what maintenance needs beside `more` bytes; true where it is
    /// less. Room is short as long as it would be with the put that was refused.
    pub(crate) fn look(&self, more: u64) -> bool {
        let give_back = || self.contents.log.remove_spares();
        let room = &self.account.room;
        let needed = self.needed_bytes();
        let (is_too_little, left) = room.look(needed, more, || self.free_bytes(), give_back);
        let least = LOOK_EVERY_BYTES.min(self.memory.log_bytes_max(&self.contents.config) / 16);
        room.look_after((left / LOOK_PART).clamp(least, LOOK_EVERY_BYTES_MAX));
        is_too_little
    }

    /// Bytes of a put that was refused and that work is to make room for; 0 for none.
    fn wanted_bytes(&self) -> u64 {
        self.account.room.wanted_bytes()
    }

    /// Nothing is left to do that would free any: the next refused put asks again.
    pub(crate) fn stop_wanting(&self) {
        if self.account.room.stop_wanting() {
            self.look(0);
        }
    }

    /// The share of a segment of the value log, in percent, that is garbage at which it is emptied.
    pub(crate) fn value_log_dead_percent(&self) -> u64 {
        self.account.room.dead_percent(self.contents.config.value_log_dead_percent)
    }

    /// Bytes that maintenance takes at the worst before it frees any, and those that deletes take.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.compaction_needed_bytes() + self.deletes_needed_bytes()
    }

    /// What deletes write while maintenance is at work, in the log and in a table: not more than
    /// what is there.
    fn deletes_needed_bytes(&self) -> u64 {
        let buckets = self.contents.buckets();
        let all: u64 = buckets.iter().map(|bucket| bucket.read().version.bytes()).sum();
        let unflushed = self.contents.metrics.unflushed_bytes();
        let segments = self.log_for_space_bytes() + 2 * self.log_segment_bytes();
        2 * segments.min(all.max(LOOK_EVERY_BYTES) + unflushed)
    }

    /// Bytes that maintenance takes at the worst before it frees any.
    pub(crate) fn compaction_needed_bytes(&self) -> u64 {
        let buckets = self.contents.buckets();
        let files = |bucket: &Arc<Bucket<D>>| file_bytes(&bucket.read().version);
        let compaction = buckets.iter().map(files).max().unwrap_or(0);
        let unflushed = self.contents.metrics.unflushed_bytes();
        let (rounding, values) =
            (self.rounding_bytes(), self.contents.values.largest_segment_bytes());
        compaction + compaction / 8 + unflushed + unflushed / 4 + rounding + values + BOOK_BYTES
    }

    /// Bytes by which all tables together may get longer although their entries get fewer and
    /// shorter.
    pub(crate) fn rounding_bytes(&self) -> u64 {
        self.contents.buckets().len() as u64
            * ROUNDING_BLOCKS
            * self.contents.config.block_bytes as u64
    }

    pub(crate) fn log_segment_bytes(&self) -> u64 {
        self.memory.log_segment_bytes(&self.contents.config)
    }

    /// Bytes of the log at which all is flushed while room is short.
    pub(crate) fn log_for_space_bytes(&self) -> u64 {
        self.memory
            .log_bytes_max(&self.contents.config)
            .min(LOG_SEGMENTS * self.log_segment_bytes())
    }

    /// Bytes of the log from its oldest entry on that is in no table.
    pub(crate) fn unflushed_log_bytes(&self) -> u64 {
        let buckets = self.contents.buckets();
        let oldest = buckets.iter().filter_map(|bucket| bucket.read().oldest()).min();
        let oldest = oldest.map_or(u64::MAX, |oldest| oldest * POSITION_BYTES);
        self.contents.log.end().saturating_sub(oldest)
    }

    /// While room is short: true where what is in no table takes too much of the log or of the
    /// memory.
    pub(crate) fn is_flush_due(&self) -> bool {
        let unflushed = self.contents.metrics.unflushed_bytes();
        self.unflushed_log_bytes() > self.log_for_space_bytes()
            || unflushed > UNFLUSHED_TIMES * self.memory.memtable_bytes_max(&self.contents.config)
    }

    /// A job did not fit.
    pub(crate) fn note_full(&self) {
        self.account.room.set_short();
        self.account.paused_at_bytes.store(self.free_bytes(), Ordering::Relaxed);
        self.account.pauses.store(PAUSES, Ordering::Relaxed);
    }

    /// True where a job did not fit a short while ago and nothing became free.
    pub(crate) fn pauses(&self) -> bool {
        let pauses = self.account.pauses.load(Ordering::Relaxed);
        if pauses == 0 || self.free_bytes() > self.account.paused_at_bytes.load(Ordering::Relaxed) {
            return false;
        }
        self.account.pauses.store(pauses - 1, Ordering::Relaxed);
        true
    }

    /// While room is short: the memtables whose entries make a compaction worth its while. They go
    /// together: a small table takes much more than its entries.
    pub(crate) fn flush(
        &self,
        is_free: impl Fn(&Arc<Frozen>) -> bool,
        is_due: bool,
    ) -> Vec<Arc<Frozen>> {
        let buckets = self.contents.buckets();
        let takes_all = is_due || self.wanted_bytes() > 0;
        let worth = buckets.iter().filter(|bucket| {
            let stores = bucket.read();
            let (young, bytes) = (stores.unflushed_bytes(), stores.version.bytes());
            let is_large = young > 0 && young * YOUNG_PART >= bytes;
            // Each entry may hide one of its key in the tables.
            let hides_many = stores.unflushed_entries() * DEAD_PART >= stores.version.versions()
                && stores.version.versions() > 0;
            let is_idle = stores.frozen.last().is_none_or(&is_free);
            is_idle && (takes_all || is_large || hides_many || !stores.deleted.is_empty())
        });
        let mut chosen: Vec<Arc<Frozen>> = Vec::new();
        for frozen in
            worth.filter_map(|bucket| self.contents.oldest_frozen(bucket)).filter(&is_free)
        {
            // Buckets that a split made share theirs.
            if !chosen.iter().any(|other| Arc::ptr_eq(other, &frozen)) {
                chosen.push(frozen);
            }
        }
        chosen
    }

    /// While room is short: the bucket whose compaction frees most of those that fit, or that takes
    /// the least where none does; and the number of its runs.
    pub(crate) fn compaction(
        &self,
        is_free: impl Fn(&Arc<Bucket<D>>) -> bool,
    ) -> Option<(Arc<Bucket<D>>, usize)> {
        let buckets = self.contents.buckets();
        let all: Vec<_> = buckets.iter().map(|bucket| bucket.read().version.clone()).collect();
        let shared = unneeded_bytes(&all);
        let (seen_from, over_ms) = self.contents.snapshots.oldest_moment();
        let is_wanted = self.wanted_bytes() > 0;
        // What compactions under way will write is not free any more, and one that does not fit
        // may begin only if it is alone.
        let busy = || buckets.iter().zip(&all).filter(|(bucket, _)| !is_free(bucket));
        let taken: u64 = busy().map(|(_, version)| version.shape().live_bytes()).sum();
        let (is_first, taken) = (busy().next().is_none(), taken + BOOK_BYTES);
        let free = self.free_bytes().saturating_sub(taken);
        let mut best: Option<(bool, u64, &Arc<Bucket<D>>, usize)> = None;
        for (bucket, version) in buckets.iter().zip(&all) {
            let (bytes, shape) = (version.bytes(), version.shape_at(over_ms));
            let oldest = shape.runs.last().map_or(0, |run| run.bytes);
            // What a snapshot sees stays, however often it is rewritten.
            let is_unseen = version.is_older_than(seen_from);
            let estimated = if is_unseen { shape.dead_bytes() } else { 0 };
            let dead = estimated + version.unneeded_bytes(&shared);
            let is_young = version.runs.len() > 1 && (bytes - oldest) * YOUNG_PART >= bytes;
            let has_ranges = is_unseen && !version.deleted.is_empty();
            let part = if is_wanted { WANTED_DEAD_PART } else { DEAD_PART };
            let is_dead = dead > 0 && dead * part >= bytes;
            let is_young = is_young || is_wanted && version.runs.len() > 1;
            if version.runs.is_empty() || !is_free(bucket) || !(is_young || is_dead || has_ranges) {
                continue;
            }
            let output = shape.live_bytes();
            let fits = output <= free;
            if !fits && !is_first {
                continue;
            }
            let rank = if fits { dead } else { u64::MAX - output };
            if best.is_none_or(|(b_fits, b_rank, ..)| (b_fits, b_rank) < (fits, rank)) {
                best = Some((fits, rank, bucket, version.runs.len()));
            }
        }
        best.map(|(_, _, bucket, count)| (Arc::clone(bucket), count))
    }

    /// While room is short: a bucket whose tables have expired to the last entry, and the number of
    /// its runs. Its compaction writes nothing, so it fits however little is free.
    pub(crate) fn expired_bucket(
        &self,
        is_free: impl Fn(&Arc<Bucket<D>>) -> bool,
    ) -> Option<(Arc<Bucket<D>>, usize)> {
        let over_ms = self.contents.snapshots.over_ms();
        self.contents.buckets().iter().filter(|bucket| is_free(bucket)).find_map(|bucket| {
            let version = bucket.read().version.clone();
            let mut parts = version.runs.iter().flatten().peekable();
            let is_expired =
                parts.peek().is_some() && parts.all(|part| part.table.table.is_over(over_ms));
            is_expired.then(|| (Arc::clone(bucket), version.runs.len()))
        })
    }
}

/// Bytes of all tables that have a part in `version`: before the last one of the buckets that
/// share them is compacted, none of them goes.
fn file_bytes<D: Device>(version: &Version<D>) -> u64 {
    let parts = version.runs.iter().flatten();
    let files = silica_base::compact_map(
        parts.map(|part| (part.table.number, part.table.table.file_bytes())),
    );
    files.values().sum()
}
