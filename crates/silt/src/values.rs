//! Values that are too large for a slot: the engine's side of the value log.

use crate::jobs::lock_job;
use crate::silt::Silt;
use crate::state::{Edit, StoreState};
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::optimistic::Optimistic;
use silica_engine::{Checkpoint, EntryRef, Op, OpKind};
use silica_parts::frame::Frame;
use silica_parts::value_log::{self, Pointer, Reclaim, SegmentOf, Stored, WalkedRecord};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<D: Device> Silt<D> {
    /// Puts values into the value log: of each operation of a batch the key and the value, where
    /// that is to go there.
    pub(crate) fn store_values<'v>(
        &self,
        values: impl Iterator<Item = Option<(&'v [u8], &'v [u8])>>,
    ) -> Result<Stored<D::File>> {
        let register = |number| self.edit(&[Edit::ValueSegment(number)]);
        let stored = self.values.append_all(values, &register);
        if self.values.is_poisoned() {
            self.log.poison();
        }
        let stored = stored?;
        self.metrics.value_log_bytes.fetch_add(stored.bytes, Ordering::Relaxed);
        self.note_space(stored.bytes);
        Ok(stored)
    }

    /// The value that a pointer frame points at, or `None` where its segment was reclaimed since
    /// the frame was found.
    fn load_value(&self, frame: &Frame<'_>) -> Result<Option<Vec<u8>>> {
        self.values.read(&Pointer::of(frame)?, frame.key)
    }

    /// Calls `then` with the entry of `frame`, its value fetched from the value log if it is
    /// there. Where the value was moved meanwhile, the entry is the newest of its key; false where
    /// that is gone.
    pub(crate) fn with_value(
        &self,
        frame: &Frame<'_>,
        then: &mut dyn FnMut(EntryRef<'_>),
    ) -> Result<bool> {
        let (expires_unix_ms, user_bits) = (frame.expires_unix_ms, frame.user_bits);
        if !frame.is_pointer() {
            then(EntryRef { value: frame.value, expires_unix_ms, user_bits });
            return Ok(true);
        }
        if let Some(value) = self.load_value(frame)? {
            then(EntryRef { value: &value, expires_unix_ms, user_bits });
            return Ok(true);
        }
        // A segment goes only after everything live in it is elsewhere.
        let Some(newest) = self.newest_frame(frame.key)? else { return Ok(false) };
        let (newest, _) = Frame::decode(&newest).expect("it was just encoded");
        if newest.is_tombstone() || self.is_expired(&newest) {
            return Ok(false);
        }
        if newest.is_pointer() && newest.value == frame.value {
            let number = Pointer::of(frame)?.segment;
            let message = format!("an entry points into value-log segment {number}, which is gone");
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        self.with_value(&newest, then)
    }

    /// Writes down what is garbage, so that it is known after the next open.
    pub(crate) fn note_dead_values(&self) -> Result<()> {
        let book = self.book.lock().expect("no panic while held");
        let dead = book.state.values.news_of(self.values.dead());
        drop(book);
        // One edit, since each is a sync.
        if dead.is_empty() { Ok(()) } else { self.edit(&[Edit::ValueDead(dead)]) }
    }

    pub(crate) fn sync_values(&self) -> Result<()> {
        self.values.sync()
    }

    /// Removes the segments that [`ValueLog::seal`](value_log::ValueLog::seal) found.
    pub(crate) fn clear_values(&self, garbage: &[u32]) -> Result<()> {
        let mut reclaim = self.jobs.upkeep.lock().expect("no panic while held");
        *reclaim = None;
        let lives = |n: &&u32| self.values.segment(**n).is_some();
        garbage.iter().filter(lives).try_for_each(|n| self.release_values(*n))
    }

    fn release_values(&self, number: u32) -> Result<()> {
        self.edit(&[Edit::ReleaseValueSegment(number)])?;
        self.values.release(number);
        self.device.remove(&value_log::name(number))
    }

    /// Hands those of `segments` that `state` names to `target`. Upkeep is held, so none goes away.
    pub(crate) fn checkpoint_values(
        &self,
        segments: &[Arc<SegmentOf<D>>],
        state: &StoreState,
        target: &mut dyn Checkpoint,
    ) -> Result<()> {
        let is_named = |s: &&Arc<SegmentOf<D>>| state.values.segments.contains(&s.number);
        for segment in segments.iter().filter(is_named) {
            if segment.is_settled() {
                target.immutable(&segment.name())?;
            } else {
                segment.copy(&mut |name, bytes| target.piece(name, bytes))?;
            }
        }
        Ok(())
    }

    /// One step of the value log's upkeep: full segments become durable and are opened for direct
    /// reads, and the one with most garbage is reclaimed. The bytes it cost, or `None` where
    /// nothing is due.
    pub(crate) fn step_value_log(&self) -> Result<Option<u64>> {
        let Some(mut slot) = lock_job(&self.jobs.upkeep, false) else { return Ok(None) };
        if slot.is_none() {
            if self.values.has_full() {
                // The log first: it bounds what recovery has to look at.
                self.sync_log()?;
                self.sync_values()?;
                if self.values.settle()? {
                    return Ok(Some(Reclaim::<D::File>::STEP_BYTES));
                }
            }
            let percent = self.value_log_dead_percent();
            if self.is_short_of_space() && self.values.seal_garbage(percent) {
                return Ok(Some(Reclaim::<D::File>::STEP_BYTES));
            }
            let victim = self.values.pick_victim(percent);
            let Some(victim) = victim else { return Ok(None) };
            *slot = Some(Reclaim::new(victim)?);
        }
        let job = slot.as_mut().expect("set above");
        let segment = job.segment().clone();
        match job.step(|segment, record| self.move_if_live(segment, record)) {
            Ok((bytes, false)) => Ok(Some(bytes)),
            Ok((bytes, true)) => {
                let skipped = job.skipped_bytes();
                if skipped > 0 {
                    ::log::info!("{skipped} bytes of {} were no records", segment.name());
                }
                *slot = None;
                // The new places of its values must be durable before the old ones go.
                self.sync_log()?;
                self.release_values(segment.number)?;
                Ok(Some(bytes))
            }
            Err(error) => {
                *slot = None;
                if error.kind() == ErrorKind::Corruption {
                    segment.set_damaged();
                }
                Err(error)
            }
        }
    }

    /// Writes the value of `record` anew where an entry points at it; true where one did.
    fn move_if_live(&self, segment: &Arc<SegmentOf<D>>, record: &WalkedRecord) -> Result<bool> {
        let key = &record.key[..];
        loop {
            // Taken before the read: whatever changes the key from here on changes it.
            let expected = self.seen(key);
            let Some(newest) = self.newest_frame(key)? else { return Ok(false) };
            let (frame, _) = Frame::decode(&newest).expect("it was just encoded");
            if !frame.is_pointer() || Pointer::of(&frame)? != record.pointer {
                return Ok(false);
            }
            let mut stored = Stored::default();
            let (expires_unix_ms, user_bits) = (frame.expires_unix_ms, frame.user_bits);
            let kind = if self.is_expired(&frame) {
                OpKind::Delete
            } else {
                let value = segment.read(&record.pointer, key)?;
                stored = self.store_values([Some((key, &value[..]))].into_iter())?;
                OpKind::Put(EntryRef { value: b"", expires_unix_ms, user_bits })
            };
            let mut writer = self.writer.lock().expect("no panic while held");
            if self.seen(key) != expected {
                drop(writer);
                self.values.forget(&stored);
                continue;
            }
            let moved = self.append_uncounted(&mut writer, &[Op { key, kind }], &stored);
            moved.inspect_err(|_| self.values.forget(&stored))?;
            return Ok(true);
        }
    }

    pub(crate) fn value_log_live_bytes(&self) -> u64 {
        self.values.bytes().1
    }

    pub(crate) fn value_log_bytes(&self) -> u64 {
        self.values.bytes().0
    }
}
