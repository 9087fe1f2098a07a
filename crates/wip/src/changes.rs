//! The stream of changes: a ring of the last batches in memory, recorded with the writer locked, so
//! in the order of the log. Its sequence numbers are positions of the log, as those of snapshots.
//!
//! What is no batch of the log begins another stream: a store that is opened, cleared while nobody
//! holds a snapshot, takes in sorted files, or a commit that is too large for the log. Values that
//! only move are no change. The manifest has the histories of the streams
//! (docs/formats/wip-manifest.md), and an opening fills the ring with the batches that the log
//! still has: so readers go on behind it.
//!
//! Invariant: a history is in the manifest before the log segment of its first batch. It may be
//! later than the opening if the disk was full then: see [`Contents::register_segment`].

use crate::contents::Contents;
use crate::snapshot::position_now;
use crate::state::Edit;
use crate::wip::Wip;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::{
    ChangePoint, ChangeRing, Changes, EntryRef, Histories, HistoryLink, Op, OpKind, Ordered,
    Snapshot, WriteBatch,
};
use silica_parts::frame::{Frame, RANGE};
use silica_parts::value_log::Pointer;
use silica_parts::wal::{self, POSITION_BYTES, SegmentList};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// The ring of a store that is being opened; nobody asks it before [`Contents::resume_changes`].
pub(crate) fn ring(bytes_max: usize) -> Option<ChangeRing> {
    (bytes_max > 0).then(|| ChangeRing::new(bytes_max, Histories::new(0, 0)))
}

/// The operation of a frame of the log, whose value is `value`; `None` for the mark of an ingest,
/// which deletes a range of no keys.
fn op_of<'a>(frame: &Frame<'a>, value: &'a [u8]) -> Option<Op<'a>> {
    let kind = if frame.flags & RANGE != 0 {
        if frame.key == frame.value {
            return None;
        }
        OpKind::DeleteRange((!frame.value.is_empty()).then_some(frame.value))
    } else if frame.is_tombstone() {
        OpKind::Delete
    } else {
        let Frame { expires_unix_ms, user_bits, .. } = *frame;
        OpKind::Put(EntryRef { value, expires_unix_ms, user_bits })
    };
    Some(Op { key: frame.key, kind })
}

/// Bytes that the batch of a record takes, nearly: what its values have apart included.
fn batch_bytes(payload: &[u8]) -> usize {
    let pointers = wal::frames(payload).flatten().filter(|(_, frame)| frame.is_pointer());
    let apart = pointers.filter_map(|(_, frame)| Pointer::in_entry(frame.value).ok());
    payload.len() + apart.map(|pointer| pointer.length as usize).sum::<usize>()
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

    /// The edit that begins another stream behind `position`, because something changes that is no
    /// batch; it goes before the edit that does. None if nobody ever asked for changes.
    pub(crate) fn history_edit(&self, position: u64) -> Option<Edit> {
        let last = self.with_state(|state| state.histories.last().map(|link| link.history));
        let history = self.new_history(last.or(self.changes.is_some().then_some(0))?, position);
        let link = HistoryLink { history, joined: position, first: position };
        Some(Edit::History { link, is_apart: true })
    }

    /// Begins the stream of an edit that [`Contents::history_edit`] has made and that is there.
    /// Only for the writer.
    pub(crate) fn begin_history(&self, edit: Option<&Edit>) {
        self.pending_history().take();
        if let (Some(ring), Some(Edit::History { link, .. })) = (&self.changes, edit) {
            ring.begin_history(link.history, link.first);
        }
    }

    /// An id for a history that begins at `position` behind `last`. No other one of this store has
    /// it, nor one of a copy of it that was opened at another moment.
    fn new_history(&self, last: u64, position: u64) -> u64 {
        let of = [last, position, self.clock.unix_ms()].map(u64::to_le_bytes).concat();
        self.seed.low(&of)
    }

    fn pending_history(&self) -> std::sync::MutexGuard<'_, Option<Edit>> {
        self.pending_history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a log segment into the manifest, and before it the history that is not there yet.
    pub(crate) fn register_segment(&self, number: u64) -> Result<()> {
        self.note_history()?;
        self.edit(&[Edit::LogSegment(number)])
    }

    /// Puts the history of this opening into the manifest if it is not there yet.
    pub(crate) fn note_history(&self) -> Result<()> {
        let mut pending = self.pending_history();
        if let Some(edit) = &*pending {
            self.edit_newest(std::slice::from_ref(edit))?;
            *pending = None;
        }
        Ok(())
    }

    /// Begins the history of this opening, whose log was recovered up to `end`: all histories of
    /// the store, if anybody ever asked for changes.
    ///
    /// # Errors
    /// Those of the manifest, but a full disk: then the history is noted with the next segment.
    pub(crate) fn join_histories(&self, end: u64) -> Result<Option<Histories>> {
        let links = self.with_state(|state| state.histories.clone());
        if self.changes.is_none() && links.is_empty() {
            return Ok(None);
        }
        let last = links.last();
        let (first, survived) = (position_now(self), end / POSITION_BYTES);
        let joined = survived.max(last.map_or(0, |last| last.joined)).min(first);
        let history = self.new_history(last.map_or(0, |last| last.history), first);
        let link = HistoryLink { history, joined, first };
        *self.pending_history() = Some(Edit::History { link, is_apart: false });
        match self.note_history() {
            Err(error) if error.kind() == ErrorKind::Full => {
                ::log::info!("the history of changes is noted with the next write: {error}");
            }
            noted => noted?,
        }
        Ok(Histories::of(&[&links[..], &[link]].concat()))
    }

    /// Goes on in `histories`, with those batches of theirs that the log still has up to `end`.
    pub(crate) fn resume_changes(&self, histories: Histories, end: u64) -> Result<()> {
        let Some(ring) = &self.changes else { return Ok(()) };
        let segments: SegmentList<D::Log> = self.log.segments().iter().cloned().collect();
        self.fill_ring(ring, histories, &segments, end)
    }

    /// Has the newest batches in `ring` that `segments` hold up to `end`, as many as it may keep.
    fn fill_ring(
        &self,
        ring: &ChangeRing,
        histories: Histories,
        segments: &SegmentList<D::Log>,
        end: u64,
    ) -> Result<()> {
        let start = segments.first().map_or(0, |first| first.start);
        let mut from = (start / POSITION_BYTES).max(histories.oldest_joined());
        let behind = |at: u64, payload: &[u8]| (at + payload.len() as u64).div_ceil(POSITION_BYTES);
        // What is read twice is records; of values that lie apart only those that are kept.
        let (mut sizes, mut bytes) = (VecDeque::new(), 0);
        wal::for_each_record(segments, &mut |at, record| {
            let sequence = behind(at, record.payload);
            if sequence > from && sequence * POSITION_BYTES <= end {
                let size = batch_bytes(record.payload);
                sizes.push_back((sequence, size));
                bytes += size;
                while bytes > ring.bytes_max()
                    && let Some((dropped, size)) = sizes.pop_front()
                {
                    (from, bytes) = (dropped, bytes - size);
                }
            }
            Ok(sequence * POSITION_BYTES < end)
        })?;
        ring.resume(histories, from);
        let skipped = segments.partition_point(|segment| segment.end() <= from * POSITION_BYTES);
        wal::for_each_record(&segments[skipped..], &mut |at, record| {
            let sequence = behind(at, record.payload);
            if sequence > from && sequence * POSITION_BYTES <= end {
                self.record_again(ring, sequence, record.payload);
            }
            Ok(sequence * POSITION_BYTES < end)
        })
    }

    /// Keeps the batch of a record that was found. If a value of it is not there any more, nothing
    /// up to it is kept.
    fn record_again(&self, ring: &ChangeRing, sequence: u64, payload: &[u8]) {
        let frames: Vec<Frame<'_>> =
            wal::frames(payload).flatten().map(|(_, frame)| frame).collect();
        let value = |frame: &Frame<'_>| match frame.is_pointer() {
            true => self.value_at(frame.key, frame.value).map(Some),
            false => Ok(None),
        };
        let Ok(apart) = frames.iter().map(value).collect::<Result<Vec<_>>>() else {
            return ring.forget(sequence);
        };
        let ops = frames
            .iter()
            .zip(&apart)
            .filter_map(|(frame, apart)| op_of(frame, apart.as_deref().unwrap_or(frame.value)));
        let ops: Vec<Op<'_>> = ops.collect();
        if !ops.is_empty() {
            ring.record(sequence, &ops);
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
