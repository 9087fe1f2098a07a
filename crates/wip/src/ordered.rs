//! The view in the order of the keys.

use crate::contents::Contents;
use crate::ingest::ingest_files;
use crate::iterator::Iter;
use crate::large_commit::commit_large;
use crate::near::near_random;
use crate::read::read_keys;
use crate::snapshot::Held;
use crate::staging::Staged;
use crate::unwritten::{Quiet, unwritten_since};
use crate::whole_ranges::{compact, size_of};
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::optimistic::{Conditions, Optimistic};
use silica_engine::transaction::CommitTurns;
use silica_engine::{
    Durability, EntryIter, GetSink, Ingested, Intent, IterateOptions, KeyRange, Near, Ordered,
    RangeSize, Reads, Snapshot, SortedFile, Staging, WriteBatch,
};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Times that a commit looks again where a flush came between.
const TRIES_MAX: usize = 8;

impl<D: Device> Ordered for Wip<D> {
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(Held::new(Opened(self))))
    }

    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        let (lower, upper) = range.half_open();
        self.spread_poison(self.delete_keys(lower, upper, durability))
    }

    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<bool> {
        if self.checked_bytes(batch)? > self.record_bytes_max.load(Ordering::Relaxed) {
            return self.spread_poison(commit_large(self, snapshot.sequence(), reads, batch));
        }
        let Reads { keys, ranges, expires_unix_ms } = reads;
        for _ in 0..TRIES_MAX {
            let Some(mut quiet) = Quiet::since(self, snapshot.sequence(), ranges)? else {
                return Ok(false);
            };
            let Some(unwritten) = unwritten_since(self, snapshot.sequence(), keys)? else {
                return Ok(false);
            };
            let conditions = Conditions { keys: &unwritten, expires_unix_ms };
            let is_done = match batch.is_empty() {
                true => self.all_hold(conditions) && quiet.holds(self),
                false => {
                    let written = self.write_batch_if(batch, conditions, &mut quiet, durability);
                    self.spread_poison(written)?
                }
            };
            if is_done {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        &self.commit_turns
    }

    fn staging(self: Arc<Self>) -> Option<Box<dyn Staging>> {
        Some(Box::new(Staged::new(self)))
    }

    fn sync_commits(&self) -> Result<()> {
        self.sync_log()
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        size_of(self, range)
    }

    fn near(&self, random: u64) -> Option<Near> {
        near_random(self, random)
    }

    fn compact_range(&self, range: &KeyRange) -> Result<()> {
        self.spread_poison(compact(self, range))
    }

    fn ingest(&self, files: &[SortedFile], progress: &mut dyn FnMut(u64, u64)) -> Result<Ingested> {
        self.spread_poison(ingest_files(self, files, progress))
    }
}

/// The contents of a store that stays open for whoever has this.
pub(crate) struct Opened<D: Device>(pub(crate) Arc<Wip<D>>);

impl<D: Device> Deref for Opened<D> {
    type Target = Contents<D>;

    #[inline]
    fn deref(&self) -> &Contents<D> {
        self.0.contents()
    }
}

impl<D: Device> Snapshot for Held<D, Opened<D>> {
    fn sequence(&self) -> u64 {
        self.position
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.get_many_with(keys, Intent::Foreground, sink)
    }

    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        if self.position == 0 {
            // Nothing was ever written before.
            return Ok(());
        }
        let at = (self.position, Some(self.unix_ms));
        read_keys(&self.contents, keys, at, intent, sink)
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        Ok(Box::new(Iter::new(self, range)))
    }

    fn iterate_with(
        self: Arc<Self>,
        range: &KeyRange,
        options: IterateOptions,
    ) -> Result<Box<dyn EntryIter>> {
        Ok(Box::new(Iter::with(self, range, options)))
    }
}
