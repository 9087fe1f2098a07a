//! How many entries there are: guessed from footers and filters, or counted.

use crate::bucket::{LogEntries, Version};
use crate::contents::Contents;
use crate::iterator::Iter;
use crate::memtable::Entries;
use crate::run::Part;
use crate::snapshot::Held;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{Count, EntryIter, Intent, IterateOptions, KeyRange};
use std::sync::Arc;

/// Entries of each memtable that are looked for in the tables below, about.
const SAMPLES: usize = 64;

/// Stores of fewer entries are counted exactly even when that was not asked for.
const COUNT_ALWAYS_ENTRIES: u64 = 100_000;

/// What is known of a bucket, or of all, without a read of the device.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    /// Versions of tables, and those that live, as far as is known.
    versions: u64,
    old: u64,
    /// Versions of memtables.
    young: u64,
    /// Keys of memtables that were looked for in the tables, and those not found.
    asked: u64,
    new: u64,
}

impl Known {
    fn count(&self) -> Count {
        let growth = if self.asked == 0 { 1.0 } else { self.new as f64 / self.asked as f64 };
        let estimate = self.old + (self.young as f64 * growth) as u64;
        Count { low: 0, estimate, high: self.versions + self.young }
    }
}

impl<D: Device> Part<D> {
    /// About how many of the table's versions are in the part: its share of the blocks.
    pub(crate) fn versions(&self) -> u64 {
        let table = &self.table.table;
        let share = self.blocks().len() as f64 / table.blocks() as f64;
        (table.footer().versions as f64 * share) as u64
    }
}

fn known<D: Device>(contents: &Contents<D>) -> Known {
    let mut all = Known::default();
    contents.for_each_bucket(|_, _, stores| {
        let version = &stores.version;
        let (shape, parts) = (version.shape(), version.runs.iter().flatten());
        let versions = parts.map(Part::versions).sum::<u64>();
        let live = shape.live_bytes() as f64 / shape.bytes().max(1) as f64;
        all.old += (versions as f64 * live) as u64;
        all.versions += versions;
        let frozen = stores.frozen.iter().map(|frozen| &frozen.memtable);
        for directory in frozen.chain([&stores.active]) {
            all.young += directory.len() as u64;
            sample(contents, version, &directory.some_positions(SAMPLES), &mut all);
        }
    });
    all
}

/// Looks for some entries of a memtable in the tables' filters.
fn sample<D: Device>(
    contents: &Contents<D>,
    version: &Version<D>,
    positions: &[u64],
    known: &mut Known,
) {
    let segments = contents.log.segments();
    let entries = LogEntries(&segments);
    for position in positions {
        let frame = entries.entry(*position);
        let hash = contents.seed.low(frame.key);
        let mut parts = version.runs.iter().flatten().filter(|part| part.has(frame.key));
        let is_new = !parts.any(|part| part.table.table.may_contain(hash));
        known.asked += 1;
        known.new += u64::from(is_new && !frame.is_tombstone());
    }
}

/// The number of entries.
pub(crate) fn count_entries<D: Device>(contents: &Contents<D>, exact: bool) -> Result<Count> {
    let known = known(contents);
    let high = known.versions + known.young;
    if exact || high < COUNT_ALWAYS_ENTRIES {
        let n = count_exactly(contents)?;
        return Ok(Count { low: n, estimate: n, high: n });
    }
    Ok(known.count())
}

/// The number of entries without a walk.
pub(crate) fn estimate_entries<D: Device>(contents: &Contents<D>) -> Count {
    known(contents).count()
}

pub(crate) fn count_exactly<D: Device>(contents: &Contents<D>) -> Result<u64> {
    let options = IterateOptions { is_of_keys: true, intent: Intent::Scan };
    let mut iter = Iter::with(Arc::new(Held::new(contents)), &KeyRange::ALL, options);
    let (mut count, mut is_there) = (0, iter.seek_to_first()?);
    while is_there {
        count += 1;
        is_there = iter.next()?;
    }
    Ok(count)
}
