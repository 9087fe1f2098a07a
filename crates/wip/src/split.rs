//! Splitting a bucket: its children share its tables and its memtables, each of them seeing the
//! keys that are its own, and rewrite them when they are compacted. So a split is one edit of the
//! manifest. And joining neighbours: their runs are put side by side.
//!
//! A child has no part of a table that has no entry in its range. So if keys come in their order,
//! most tables have one owner, and a table goes when that one is compacted.
//!
//! 1. The edit is durable before anybody sees the new buckets.
//! 2. Positions of the log that are in no table are handed over while no writer is at work, so none
//!    is lost.
//! 3. A reader who has the old list of buckets finds in the old bucket all that was there when it
//!    got the list.

use crate::bucket::{Bucket, LogEntries, Stores, Version};
use crate::buckets::Buckets;
use crate::contents::Contents;
use crate::deleted;
use crate::memtable::Entries;
use crate::metrics::add;
use crate::policy::LEVEL_MAX;
use crate::run::{Part, Run};
use crate::state::Edit;
use crate::writer::NewEntry;
use silica_base::Result;
use silica_device::Device;
use silica_parts::value_log::Garbage;
use silica_parts::wal::POSITION_BYTES;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Separators of a run that are looked at, at most.
const SAMPLES_MAX: usize = 1000;

/// Splits a bucket, unless it has too few keys for that.
pub(crate) fn split<D: Device>(contents: &Contents<D>, bucket: &Arc<Bucket<D>>) -> Result<()> {
    let Some(cut) = cut_of(contents, bucket) else { return Ok(()) };
    // Before the lock, since it reads. Meanwhile only flushes change the runs of this bucket.
    let empty = empty_parts(contents, &bucket.read().version.clone(), &cut);
    let guard = contents.lock_install();
    let buckets = contents.buckets();
    let place = buckets.place(&bucket.lower);
    if !Arc::ptr_eq(buckets.at(place), bucket) {
        return Ok(());
    }
    let version = bucket.read().version.clone();
    let child = |(child, (lower, upper))| {
        Arc::new(within(&version, lower, upper, &|part| {
            empty.contains(&(part.table.number, child))
        }))
    };
    let versions: Vec<_> = cut.children().enumerate().map(child).collect();
    let states = cut.lowers.iter().cloned().zip(versions.iter().map(|v| Bucket::state(v)));
    let edit = Edit::Buckets { gone: vec![bucket.lower.clone()], new: states.collect() };
    contents.edit_buckets(edit, &Garbage::default())?;
    let writer = contents.writer.lock();
    let mut stores = bucket.write();
    if stores.is_written() {
        stores.freeze(contents.log.end() / POSITION_BYTES);
    }
    let children = cut.children().zip(versions).map(|((lower, upper), version)| {
        let frozen = stores.frozen.clone();
        let deleted = deleted::within(&stores.deleted, lower, upper);
        let stores = Stores::of(version, frozen, deleted);
        Arc::new(Bucket::new(lower.to_vec(), stores))
    });
    let list = buckets.with(place..place + 1, children.collect());
    drop(stores);
    contents.take_over(list, [bucket]);
    drop((writer, guard));
    add(&contents.metrics.splits, 1);
    Ok(())
}

/// Where to cut a bucket; `None` if it has too few keys for that, or is no more.
fn cut_of<D: Device>(contents: &Contents<D>, bucket: &Arc<Bucket<D>>) -> Option<Cut> {
    let buckets = contents.buckets();
    let place = buckets.place(&bucket.lower);
    if !Arc::ptr_eq(buckets.at(place), bucket) {
        return None;
    }
    let upper = buckets.upper(place).map(<[u8]>::to_vec);
    let version = bucket.read().version.clone();
    let count = contents.config.split_buckets;
    let mut lowers = splitters(&version, &bucket.lower, upper.as_deref(), count);
    if lowers.is_empty() {
        // Not to be tried again soon.
        bucket.split_from_bytes.store(2 * version.shape().live_bytes(), Ordering::Relaxed);
        return None;
    }
    lowers.insert(0, bucket.lower.clone());
    Some(Cut { lowers, upper })
}

/// The tables of a version, by number, and the children of a cut in whose ranges they have no
/// entry.
fn empty_parts<D: Device>(
    contents: &Contents<D>,
    version: &Version<D>,
    cut: &Cut,
) -> BTreeSet<(u64, usize)> {
    let parts = || version.runs.iter().flatten();
    let of_child = |(child, (lower, upper))| {
        let own = parts().filter_map(move |part: &Part<D>| part.within(lower, upper));
        own.map(move |part| (child, part))
    };
    let owned = cut.children().enumerate().flat_map(of_child);
    let empty = owned.filter(|(_, part)| contents.tables.is_empty_part(part));
    empty.map(|(child, part)| (part.table.number, child)).collect()
}

/// Makes one bucket of two neighbours.
pub(crate) fn join<D: Device>(
    contents: &Contents<D>,
    one: &Arc<Bucket<D>>,
    other: &Arc<Bucket<D>>,
) -> Result<()> {
    let guard = contents.lock_install();
    let buckets = contents.buckets();
    let place = buckets.place(&one.lower);
    let are_there = buckets.upper(place).is_some()
        && Arc::ptr_eq(buckets.at(place), one)
        && Arc::ptr_eq(buckets.at(place + 1), other);
    if !are_there {
        return Ok(());
    }
    let clipped = |place: usize| {
        let bucket = buckets.at(place);
        let version = bucket.read().version.clone();
        within(&version, &bucket.lower, buckets.upper(place), &|_| false)
    };
    let version = Arc::new(side_by_side(&clipped(place), &clipped(place + 1)));
    let new = vec![(one.lower.clone(), Bucket::state(&version))];
    let edit = Edit::Buckets { gone: vec![other.lower.clone()], new };
    contents.edit_buckets(edit, &Garbage::default())?;
    let writer = contents.writer.lock();
    let stores = gather(contents, &buckets, place..place + 2, Stores::new(version));
    let joined = vec![Arc::new(Bucket::new(one.lower.clone(), stores))];
    let list = buckets.with(place..place + 2, joined);
    contents.take_over(list, [one, other]);
    drop((writer, guard));
    add(&contents.metrics.joins, 1);
    Ok(())
}

/// Puts what is in no table of the buckets at `places` into one memtable; it is little. The
/// writer is locked.
fn gather<D: Device>(
    contents: &Contents<D>,
    buckets: &Buckets<D>,
    places: Range<usize>,
    mut stores: Stores<D>,
) -> Stores<D> {
    let segments = contents.log.segments();
    let entries = LogEntries(&segments);
    let mut positions = Vec::new();
    let mut before = 0;
    let kept_before = contents.snapshots.newest();
    for place in places {
        let (bucket, upper) = (buckets.at(place), buckets.upper(place));
        let old = bucket.read();
        let memtables = old.frozen.iter().map(|frozen| &frozen.memtable).chain([&old.active]);
        // A memtable that a split shared out has keys of others, too, who may have newer
        // versions in tables.
        let is_own = |position: &u64| {
            let key = entries.entry(*position).key;
            *bucket.lower <= *key && upper.is_none_or(|upper| *key < *upper)
        };
        positions.extend(memtables.flat_map(|one| one.positions()).filter(is_own));
        before += old.unflushed_bytes();
        stores.deleted.extend(old.deleted.iter().cloned());
    }
    positions.sort_unstable();
    for position in positions {
        let frame = entries.entry(position);
        let new = NewEntry { frame, position, hash: contents.seed.low(frame.key) };
        let growth = stores.insert(contents.seed, &new, kept_before, &entries, true);
        contents.note_replaced(&growth, &entries);
    }
    let gone = before.saturating_sub(stores.unflushed_bytes());
    contents.metrics.sub_unflushed(gone);
    stores
}

/// The runs of two neighbours, the older ones together as far as their levels are the same.
fn side_by_side<D: Device>(one: &Version<D>, other: &Version<D>) -> Version<D> {
    let level = |run: &&Run<D>| run.first().map_or(0, |part| part.level);
    let mut runs = Vec::new();
    for wanted in 0..=LEVEL_MAX {
        let of = |version: &Version<D>| -> Vec<Run<D>> {
            version.runs.iter().filter(|run| level(run) == wanted).cloned().collect()
        };
        let (mut of_one, of_other) = (of(one), of(other));
        of_one.resize(of_one.len().max(of_other.len()), Run::default());
        for (run, more) in of_one.iter_mut().zip(of_other) {
            run.parts_mut().extend(more.iter().cloned());
        }
        runs.extend(of_one);
    }
    let deleted = [&one.deleted[..], &other.deleted].concat();
    Version::new(runs, one.floor.min(other.floor), deleted).after(one).after(other)
}

/// Where a bucket is cut: the least key of each child, and the end of the last one.
struct Cut {
    lowers: Vec<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

impl Cut {
    /// The range of keys of each child.
    fn children(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let uppers = self.lowers[1..].iter().map(|lower| Some(&lower[..]));
        self.lowers.iter().map(|lower| &lower[..]).zip(uppers.chain([self.upper.as_deref()]))
    }
}

/// A version's runs as far as they are in `lower..upper`, but for parts that are `left_out`.
fn within<D: Device>(
    version: &Version<D>,
    lower: &[u8],
    upper: Option<&[u8]>,
    left_out: &dyn Fn(&Part<D>) -> bool,
) -> Version<D> {
    let part = |run: &Run<D>| -> Run<D> {
        let own = run.iter().filter_map(|part| part.within(lower, upper));
        own.filter(|part| !left_out(part)).collect()
    };
    let runs = version.runs.iter().map(part).filter(|run| !run.is_empty()).collect();
    let deleted = deleted::within(&version.deleted, lower, upper);
    Version::new(runs, version.floor, deleted).after(version)
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
