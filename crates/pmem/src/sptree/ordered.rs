//! The view in the order of the keys, and iteration by numbers.

use super::layout::{LEAF_BYTES, head};
use super::read::read_one;
use super::run::{Moment, Run};
use super::snapshot::Held;
use super::top::Seek;
use super::tree::SpTree;
use super::write::{merge_few, write_alone};
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::transaction::CommitTurns;
use silica_engine::{
    Durability, EntryRef, KeyRange, Near, Ordered, RangeSize, Reads, Snapshot, WriteBatch,
};
use std::sync::Arc;

impl<R: Region> Ordered for SpTree<R> {
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(Held::take(self)))
    }

    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        self.check_writable(durability)?;
        let (lower, upper) = range.half_open();
        let mut batch = WriteBatch::new();
        batch.delete_range(&lower, upper.as_deref());
        let few = {
            let _alone = self.gate.write();
            write_alone(self, &batch)?
        };
        merge_few(self, few);
        Ok(())
    }

    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<bool> {
        self.check_writable(durability)?;
        let sequence = snapshot.sequence();
        let few = {
            let _alone = self.gate.write();
            let has_changed = |range: &KeyRange| {
                let (lower, upper) = range.half_open();
                self.history.has_changed_within(&lower, upper.as_deref(), sequence)
            };
            let is_over =
                reads.expires_unix_ms != 0 && reads.expires_unix_ms <= self.clock.unix_ms();
            if is_over
                || reads.keys.iter().any(|key| self.history.has_changed(key, sequence))
                || reads.ranges.iter().any(has_changed)
            {
                return Ok(false);
            }
            write_alone(self, batch)?
        };
        merge_few(self, few);
        Ok(true)
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        &self.commit_turns
    }

    fn sync_commits(&self) -> Result<()> {
        self.check_synced()
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        let (lower, upper) = range.half_open();
        let leaves = self.top.leaves_within(&lower, upper.as_deref());
        let entries = self.entries() * leaves / self.top.leaves().max(1);
        RangeSize { entries, bytes: leaves * LEAF_BYTES }
    }

    fn near(&self, random: u64) -> Option<Near> {
        let entries = self.entries();
        let (key, leaves) = self.top.near((random >> 32) as u32);
        let among = (entries / leaves.max(1) as u64).max(1);
        (entries > 0).then_some(Near { key, among })
    }

    fn compact_range(&self, _range: &KeyRange) -> Result<()> {
        // Nothing that is dead stays: leaves are merged and space is given back as entries go.
        Ok(())
    }
}

/// The cursor that goes on with `key`: its first 63 bits.
pub(crate) fn cursor_of(key: &[u8]) -> u64 {
    head(key) >> 1
}

/// Visits entries from a cursor on.
pub(crate) fn scan<R: Region>(
    tree: &SpTree<R>,
    cursor: u64,
    limit: usize,
    visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
) -> Result<Option<u64>> {
    // The shorter keys of those that a cursor stands for come before this one.
    let first = (cursor << 1).to_be_bytes();
    let zeroes = first.iter().rev().take_while(|byte| **byte == 0).count();
    let mut from = first[..first.len() - zeroes].to_vec();
    let (mut run, mut large) = (Run::default(), Vec::new());
    let (mut visited, mut last) = (0, None);
    let moment = Moment { sequence: None, unix_ms: tree.clock.unix_ms(), is_of_keys: false };
    loop {
        run.load(tree, Some(&from), Seek::At, moment)?;
        for at in run.before(&from)..run.len() {
            let key = run.key(at);
            let cursor = cursor_of(key);
            if visited >= limit.max(1) && last != Some(cursor) {
                return Ok(Some(cursor));
            }
            let entry = run.entry(at);
            let (mut meta, mut value) = (entry.meta, run.value(at));
            if entry.is_lazy {
                large.clear();
                let read = read_one(tree, key, tree.hash(key), &mut large, &mut |_| true)?;
                let Some((its, start)) = read else { continue };
                (meta, value) = (its, &large[start..]);
            }
            let (expires_unix_ms, user_bits) = (meta.expires_unix_ms, meta.user_bits);
            visit(key, EntryRef { value, expires_unix_ms, user_bits });
            (visited, last) = (visited + 1, Some(cursor));
        }
        match run.bounds.upper.take() {
            Some(upper) => from = upper,
            None => return Ok(None),
        }
    }
}
