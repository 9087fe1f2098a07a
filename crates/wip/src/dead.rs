//! What is dead in tables besides what their samples tell: entries that have expired, and bytes of
//! shared tables that no bucket sees any more.
//!
//! 1. Tables know when their entries expire, so that is known at any time without a read.
//! 2. Buckets that a split made share tables. A table goes with the last of them that is compacted;
//!    until then it takes its whole file, however little of it they still see. Those that are left
//!    answer for the rest, each for an equal share: the fewer they are the more each of them holds
//!    up, and the sooner it is compacted.

use crate::bucket::Version;
use crate::facts::{Clipped, Facts};
use crate::policy::Shape;
use crate::run::Part;
use silica_device::Device;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Buckets may both need the block at their border, and estimates are not worth a rewrite: less
/// than one part in so many of a table counts as needed.
const UNNEEDED_PART_MIN: u64 = 16;

impl<D: Device> Part<D> {
    /// The part of the table's blocks that it sees.
    fn share(&self) -> f64 {
        self.blocks().len() as f64 / self.table.table.blocks() as f64
    }
}

impl<D: Device> Version<D> {
    fn known(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::of(&self.runs))
    }

    /// The shape as it is when all that expires by `over_ms` is dead.
    pub(crate) fn shape_at(&self, over_ms: u64) -> Cow<'_, Shape> {
        if !self.known().expires {
            return Cow::Borrowed(self.shape());
        }
        let over = |part: &Part<D>| part.bytes() as f64 * part.table.table.part_over(over_ms);
        let mut shape = self.shape().clone();
        for (run, shape) in self.runs.iter().zip(&mut shape.runs) {
            shape.expired_bytes = run.iter().map(over).sum::<f64>() as u64;
        }
        Cow::Owned(shape)
    }

    /// Bytes in the value log whose entries expire by `over_ms`, about.
    pub(crate) fn apart_bytes_over(&self, over_ms: u64) -> u64 {
        if !self.known().expires {
            return 0;
        }
        let over = |part: &Part<D>| {
            let expiries = part.table.table.expiries();
            expiries.map_or(0.0, |expiries| expiries.apart_bytes_over(over_ms)) * part.share()
        };
        self.runs.iter().flatten().map(over).sum::<f64>() as u64
    }

    /// Bytes of its tables that no bucket sees, as far as it answers for them by `unneeded`.
    pub(crate) fn unneeded_bytes(&self, unneeded: &BTreeMap<u64, u64>) -> u64 {
        if unneeded.is_empty() {
            return 0;
        }
        let of = |clipped: &Clipped| unneeded.get(&clipped.table).copied().unwrap_or(0);
        self.known().clipped.iter().map(of).sum()
    }
}

/// Of each table that not all of is seen, the bytes that no bucket sees, for each of its parts.
pub(crate) fn unneeded_bytes<D: Device>(versions: &[Arc<Version<D>>]) -> BTreeMap<u64, u64> {
    let mut tables: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for clipped in versions.iter().flat_map(|version| &version.known().clipped) {
        let (seen, parts, bytes) = tables.entry(clipped.table).or_default();
        *seen += clipped.seen_bytes;
        *parts += 1;
        *bytes = clipped.bytes;
    }
    let unneeded = |(table, (seen, parts, bytes)): (u64, (u64, u64, u64))| {
        let rest = bytes.saturating_sub(seen);
        (rest > bytes / UNNEEDED_PART_MIN).then_some((table, rest / parts))
    };
    silica_base::compact_map(tables.into_iter().filter_map(unneeded))
}

#[cfg(test)]
#[path = "dead_tests.rs"]
mod tests;
