//! Sizes of ranges, and their compaction on demand.

use crate::bucket::{Bucket, LogEntries, Stores};
use crate::compaction::Compaction;
use crate::contents::Contents;
use crate::flush::Flush;
use crate::job::Job;
use crate::memtable::{Entries, Memtable};
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{KeyRange, RangeSize};
use silica_parts::wal::POSITION_BYTES;
use std::sync::Arc;

/// Entries of a memtable that are looked at to guess how many are in a range.
const SAMPLES_MAX: usize = 256;

/// How much is in `range`, by the indexes in memory.
pub(crate) fn size_of<D: Device>(contents: &Contents<D>, range: &KeyRange) -> RangeSize {
    let (lower, upper) = range.half_open();
    let mut size = RangeSize::default();
    for_each_within(contents, &lower, upper.as_deref(), |lower, upper, bucket| {
        let stores = bucket.read();
        for part in stores.version.runs.iter().flatten() {
            let Some(own) = part.within(lower, upper) else { continue };
            size.bytes += own.bytes();
            size.entries += own.versions();
        }
        add_memtables(contents, &stores, lower, upper, &mut size);
    });
    size
}

fn add_memtables<D: Device>(
    contents: &Contents<D>,
    stores: &Stores<D>,
    lower: &[u8],
    upper: Option<&[u8]>,
    size: &mut RangeSize,
) {
    let frozen = stores.frozen.iter().map(|frozen| (&frozen.memtable, frozen.bytes));
    for (memtable, bytes) in frozen.chain([(&stores.active, stores.active_bytes())]) {
        let positions = Memtable::positions(memtable);
        // Behind the positions, to which others add meanwhile.
        let segments = contents.log.segments();
        let entries = LogEntries(&segments);
        let step = positions.len().div_ceil(SAMPLES_MAX).max(1);
        let (mut asked, mut inside) = (0u64, 0u64);
        for position in positions.iter().step_by(step) {
            let key = entries.entry(*position).key;
            asked += 1;
            inside += u64::from(lower <= key && upper.is_none_or(|upper| key < upper));
        }
        let share = inside as f64 / asked.max(1) as f64;
        size.entries += (positions.len() as f64 * share) as u64;
        size.bytes += (bytes as f64 * share) as u64;
    }
}

/// Calls `visit` with every bucket of `lower..upper` and what of that is in it.
fn for_each_within<D: Device>(
    contents: &Contents<D>,
    lower: &[u8],
    upper: Option<&[u8]>,
    mut visit: impl FnMut(&[u8], Option<&[u8]>, &Arc<Bucket<D>>),
) {
    let buckets = contents.buckets();
    for place in buckets.place(lower)..buckets.len() {
        let bucket = buckets.at(place);
        let from = bucket.lower.as_slice().max(lower);
        let to = match (buckets.upper(place), upper) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if to.is_some_and(|to| to <= from) {
            break;
        }
        visit(from, to, bucket);
    }
}

/// Rewrites the buckets of `range` until each is one run of what is live.
pub(crate) fn compact<D: Device>(wip: &Wip<D>, range: &KeyRange) -> Result<()> {
    let (mut lower, upper) = range.half_open();
    let end = wip.log.end() / POSITION_BYTES;
    loop {
        let buckets = wip.buckets();
        let place = buckets.place(&lower);
        let bucket = Arc::clone(buckets.at(place));
        let next = buckets.upper(place).map(<[u8]>::to_vec);
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return Ok(());
        }
        drop(buckets);
        compact_bucket(wip, &bucket, end)?;
        if bucket.read().is_gone {
            // Others took over.
            continue;
        }
        let Some(next) = next else { return Ok(()) };
        lower = next;
    }
}

/// Flushes what a bucket has below position `end`, and merges all of its runs.
fn compact_bucket<D: Device>(wip: &Wip<D>, bucket: &Arc<Bucket<D>>, end: u64) -> Result<()> {
    let is_unflushed = || {
        let stores = bucket.read();
        !stores.is_gone && stores.oldest().is_some_and(|oldest| oldest < end)
    };
    while is_unflushed() {
        wip.do_now(&|| {
            let frozen = wip.oldest_frozen(bucket)?;
            Flush::new(wip, vec![frozen]).map(Job::Flush)
        })?;
    }
    wip.do_now(&|| {
        let stores = bucket.read();
        let count = if stores.is_gone { 0 } else { stores.version.runs.len() };
        drop(stores);
        let compaction = || Box::new(Compaction::new(Arc::clone(bucket), count, 0));
        (count > 0).then(|| Job::Compaction(compaction()))
    })
}
