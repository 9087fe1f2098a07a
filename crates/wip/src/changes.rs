//! The stream of changes: a ring of the last batches in memory, recorded with the writer locked, so
//! in the order of the log. Its sequence numbers are positions of the log, as those of snapshots.
//!
//! What is no batch begins another stream: a store that is opened, cleared while nobody holds a
//! snapshot, or takes in sorted files. Values that only move are no change.

use crate::contents::Contents;
use crate::snapshot::position_now;
use crate::wip::Wip;
use silica_base::{Error, ErrorKind, HashSeed, Result};
use silica_device::Device;
use silica_engine::{ChangePoint, ChangeRing, Changes, Op, Ordered, Snapshot, WriteBatch};
use std::sync::Arc;

/// The ring of a store that is opened, whose log ends at position `end`. No earlier opening that
/// wrote anything had this `next_segment`, and none that cleared the store this time.
pub(crate) fn ring(
    bytes_max: usize,
    seed: HashSeed,
    (end, next_segment, unix_ms): (u64, u64, u64),
) -> Option<ChangeRing> {
    let of = [end, next_segment, unix_ms].map(u64::to_le_bytes).concat();
    let point = ChangePoint { history: seed.low(&of), sequence: end };
    (bytes_max > 0).then(|| ChangeRing::new(bytes_max, point))
}

impl<D: Device> Contents<D> {
    /// Keeps the operations of the batch that was appended last, if anybody may ask. Only for the
    /// writer.
    #[inline]
    pub(crate) fn record_change(&self, ops: &[Op<'_>]) {
        if let Some(ring) = &self.changes {
            ring.record(position_now(self), ops);
        }
    }

    /// Begins another stream: something has changed that was no batch. Only for the writer.
    pub(crate) fn begin_history(&self) {
        if let Some(ring) = &self.changes {
            ring.begin_history(position_now(self));
        }
    }
}

impl<D: Device> Wip<D> {
    fn ring(&self) -> Result<&ChangeRing> {
        self.contents().changes.as_ref().ok_or_else(|| {
            let message = "no changes are kept; set the option changes_bytes_max";
            Error::new(ErrorKind::Unsupported, message)
        })
    }
}

impl<D: Device> Changes for Wip<D> {
    fn begin(self: Arc<Self>) -> Result<(Arc<dyn Snapshot>, ChangePoint)> {
        let take = &mut || Ordered::snapshot(Arc::clone(&self));
        self.ring()?.begin(take)
    }

    fn now(&self) -> ChangePoint {
        self.ring().map_or(ChangePoint { history: 0, sequence: 0 }, ChangeRing::now)
    }

    fn read(
        &self,
        from: ChangePoint,
        bytes_max: usize,
        each: &mut dyn FnMut(ChangePoint, &WriteBatch<'_>),
    ) -> Result<ChangePoint> {
        self.ring()?.read(from, bytes_max, each)
    }
}
