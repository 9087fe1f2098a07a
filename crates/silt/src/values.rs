//! Values that are too large for a slot: the engine's side of the value log.

use crate::jobs::lock_job;
use crate::silt::Silt;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::optimistic::Optimistic;
use silica_engine::{EntryRef, Op, OpKind};
use silica_parts::frame::Frame;
use silica_parts::value_log::{Pointer, Reclaim, SegmentOf, Stored, WalkedRecord};
use std::sync::Arc;

impl<D: Device> Silt<D> {
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
        if let Some(value) = self.journal.load_value(frame)? {
            then(EntryRef { value: &value, expires_unix_ms, user_bits });
            return Ok(true);
        }
        // A segment goes only after everything live in it is elsewhere.
        let Some(newest) = self.newest_frame(frame.key)? else { return Ok(false) };
        let (newest, _) = Frame::decode(&newest).expect("it was just encoded");
        if newest.is_tombstone() || self.ground.is_expired(&newest) {
            return Ok(false);
        }
        if newest.is_pointer() && newest.value == frame.value {
            let number = Pointer::of(frame)?.segment;
            let message = format!("an entry points into value-log segment {number}, which is gone");
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        self.with_value(&newest, then)
    }

    /// Removes the segments that [`ValueLog::seal`](value_log::ValueLog::seal) found.
    pub(crate) fn clear_values(&self, garbage: &[u32]) -> Result<()> {
        let mut reclaim = self.jobs.upkeep.lock().expect("no panic while held");
        *reclaim = None;
        let lives = |n: &&u32| self.journal.values.segment(**n).is_some();
        garbage.iter().filter(lives).try_for_each(|n| self.journal.release_values(*n))
    }

    /// One piece of upkeep; the bytes it cost, or `None` where nothing is to be done.
    pub(crate) fn step_upkeep(&self) -> Result<Option<u64>> {
        if let Some(bytes) = self.memory.step_indexes()? {
            return Ok(Some(bytes));
        }
        self.step_value_log()
    }

    /// One step of the value log's upkeep: full segments become durable and are opened for direct
    /// reads, and the one with most garbage is reclaimed. The bytes it cost, or `None` where
    /// nothing is due.
    pub(crate) fn step_value_log(&self) -> Result<Option<u64>> {
        let Some(mut slot) = lock_job(&self.jobs.upkeep, false) else { return Ok(None) };
        if slot.is_none() {
            if self.journal.values.has_full() {
                // The log first: it bounds what recovery has to look at.
                self.journal.sync_log()?;
                self.journal.sync_values()?;
                if self.journal.values.settle()? {
                    return Ok(Some(Reclaim::<D::File>::STEP_BYTES));
                }
            }
            let percent = self.space.value_log_dead_percent();
            if self.ground.is_short_of_space() && self.journal.values.seal_garbage(percent) {
                return Ok(Some(Reclaim::<D::File>::STEP_BYTES));
            }
            let victim = self.journal.values.pick_victim(percent);
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
                self.journal.sync_log()?;
                self.journal.release_values(segment.number)?;
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
            let kind = if self.ground.is_expired(&frame) {
                OpKind::Delete
            } else {
                let value = segment.read(&record.pointer, key)?;
                stored = self.journal.store_values([Some((key, &value[..]))].into_iter())?;
                self.space.note_space(stored.bytes);
                OpKind::Put(EntryRef { value: b"", expires_unix_ms, user_bits })
            };
            let mut writer = self.writer.lock().expect("no panic while held");
            if self.seen(key) != expected {
                drop(writer);
                self.journal.values.forget(&stored);
                continue;
            }
            let moved = self.append_uncounted(&mut writer, &[Op { key, kind }], &stored);
            moved.inspect_err(|_| self.journal.values.forget(&stored))?;
            return Ok(true);
        }
    }
}
