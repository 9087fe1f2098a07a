//! Splitting a bucket: its children share its tables, each of them seeing the keys that are its
//! own, and rewrite them when they are compacted. So a split itself is one edit of the manifest.
//!
//! 1. The edit is durable before anybody sees the children.
//! 2. Positions of the log that are in no table move to the children's memtables while no writer is
//!    at work, so none is in two places or in none.
//! 3. A reader who has the old list of buckets finds in the old bucket all that was there when it
//!    got the list.

use crate::bucket::{Bucket, LogEntries, Stores, Version};
use crate::buckets::Buckets;
use crate::memtable::{Entries, Memtable};
use crate::run::Run;
use crate::state::Edit;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use std::sync::Arc;

/// Separators of a run that are looked at, at most.
const SAMPLES_MAX: usize = 1000;

impl<D: Device> Wip<D> {
    /// Splits a bucket where its keys are many enough; false where they are not.
    pub(crate) fn split(&self, bucket: &Arc<Bucket<D>>) -> Result<bool> {
        let buckets = self.buckets();
        let place = buckets.place(&bucket.lower);
        let upper = buckets.upper(place).map(<[u8]>::to_vec);
        let version = bucket.read().version.clone();
        let mut lowers =
            splitters(&version, &bucket.lower, upper.as_deref(), self.config.split_buckets);
        if lowers.is_empty() {
            return Ok(false);
        }
        lowers.insert(0, bucket.lower.clone());
        let uppers = lowers[1..].iter().map(|lower| Some(&lower[..])).chain([upper.as_deref()]);
        let versions: Vec<_> = lowers
            .iter()
            .zip(uppers)
            .map(|(lower, upper)| Arc::new(within(&version, lower, upper)))
            .collect();
        let new = lowers.iter().cloned().zip(versions.iter().map(|v| Bucket::state(v))).collect();
        self.edit_buckets(Edit::Buckets { gone: vec![bucket.lower.clone()], new })?;
        let children = versions.into_iter().map(Stores::new).collect();
        let writer = self.writer.lock().expect("no panic while held");
        let children = self.hand_over(bucket, &lowers, children);
        let children = lowers.into_iter().zip(children).map(|(l, s)| Arc::new(Bucket::new(l, s)));
        let list = buckets.with(place, children.collect());
        self.take_over(list, [bucket]);
        drop(writer);
        Ok(true)
    }

    /// Lets another list of buckets be the store's, in which those of `gone` are not.
    pub(crate) fn take_over<'b>(
        &self,
        list: Buckets<D>,
        gone: impl IntoIterator<Item = &'b Arc<Bucket<D>>>,
    ) where
        D: 'b,
    {
        *self.buckets.write().expect("no panic while held") = Arc::new(list);
        // Nothing is taken from the log before, so who got here earlier finds what it needs.
        gone.into_iter().for_each(|bucket| bucket.write().is_gone = true);
    }

    /// Puts what is in no table into the children's memtables. The writer is locked.
    fn hand_over(
        &self,
        bucket: &Bucket<D>,
        lowers: &[Vec<u8>],
        mut children: Vec<Stores<D>>,
    ) -> Vec<Stores<D>> {
        let stores = bucket.read();
        let segments = self.log.segments();
        let entries = LogEntries(&segments);
        let kept_before = self.snapshots.newest();
        let frozen = stores.frozen.iter().map(|frozen| &frozen.memtable);
        let mut positions: Vec<u64> =
            frozen.chain([&stores.active]).flat_map(Memtable::positions).collect();
        positions.sort_unstable();
        for position in positions {
            let key = entries.entry(position).key;
            let child = lowers.partition_point(|lower| **lower <= *key) - 1;
            let bytes = entries.bytes(position);
            children[child].insert(self.seed, key, position, bytes, kept_before, &entries);
        }
        let before = stores.unflushed_bytes();
        let now = children.iter().map(Stores::unflushed_bytes).sum::<u64>();
        self.unflushed_bytes.fetch_sub(before - now, std::sync::atomic::Ordering::Relaxed);
        children
    }
}

/// A version's runs as far as they are in `lower..upper`.
fn within<D: Device>(version: &Version<D>, lower: &[u8], upper: Option<&[u8]>) -> Version<D> {
    let part = |run: &Run<D>| -> Run<D> {
        run.iter().filter_map(|part| part.within(lower, upper)).collect()
    };
    let runs = version.runs.iter().map(part).filter(|run| !run.is_empty()).collect();
    Version { runs, floor: version.floor }
}

/// Keys in `lower..upper`, but `lower`, that cut a version's runs into `count` parts of about the
/// same size; fewer where there are not so many blocks.
fn splitters<D: Device>(
    version: &Version<D>,
    lower: &[u8],
    upper: Option<&[u8]>,
    count: usize,
) -> Vec<Vec<u8>> {
    let mut samples: Vec<(Vec<u8>, u64)> = Vec::new();
    for part in version.runs.iter().flatten() {
        let blocks = part.blocks();
        let step = blocks.len().div_ceil(SAMPLES_MAX);
        for block in blocks.step_by(step) {
            let separator = part.table.table.separator(block);
            let is_inside = *separator > *lower && upper.is_none_or(|upper| *separator < *upper);
            if is_inside && part.has(&separator) {
                samples.push((separator, step as u64 * part.table.table.place(block).len as u64));
            }
        }
    }
    samples.sort_unstable();
    let all: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut sum = 0;
    for (separator, bytes) in samples {
        sum += bytes;
        let wanted = (found.len() as u64 + 1) * all / count as u64;
        if sum >= wanted && found.len() + 1 < count && found.last() != Some(&separator) {
            found.push(separator);
        }
    }
    found
}
