//! Reclaiming segments of the value log: what lives in them is written anew.

use crate::ground::Ground;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::partitions::Partitions;
use crate::read::Reads;
use crate::slot::lock_job;
use crate::space::Space;
use silica_base::{ErrorKind, Result};
use silica_device::Device;
use silica_engine::{EntryRef, Op, OpKind};
use silica_parts::frame::Frame;
use silica_parts::value_log::{self, Pointer, Reclaim, SegmentOf, Stored, WalkedRecord};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// The longest wait of a writer for a segment that another thread has in hand.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// The segment that is reclaimed, and what that takes: its values are written anew.
pub(crate) struct Reclaims<D: Device> {
    ground: Arc<Ground<D>>,
    journal: Arc<Journal<D>>,
    space: Arc<Space<D>>,
    reads: Reads<D>,
    intake: Arc<Intake<D>>,
    slot: Mutex<Option<Reclaim<D::File>>>,
    /// Signalled after each step; its lock guards nothing.
    stepped: Condvar,
    waiting: Mutex<()>,
}

impl<D: Device> Reclaims<D> {
    pub(crate) fn new(
        partitions: &Arc<Partitions<D>>,
        space: &Arc<Space<D>>,
        intake: &Arc<Intake<D>>,
    ) -> Self {
        Reclaims {
            ground: Arc::clone(&partitions.ground),
            journal: Arc::clone(&partitions.journal),
            space: Arc::clone(space),
            reads: Reads::new(partitions),
            intake: Arc::clone(intake),
            slot: Mutex::new(None),
            stepped: Condvar::new(),
            waiting: Mutex::new(()),
        }
    }

    /// Holds the segment in hand: no segment goes while the guard lives.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Option<Reclaim<D::File>>> {
        self.slot.lock().expect("no panic while held")
    }

    /// Where another thread has a segment in hand: waits a while for it.
    pub(crate) fn wait_a_while(&self) -> bool {
        if !matches!(self.slot.try_lock(), Err(TryLockError::WouldBlock)) {
            return false;
        }
        let waiting = self.waiting.lock().expect("no panic while held");
        drop(self.stepped.wait_timeout(waiting, WAIT_MAX));
        true
    }

    /// Removes the segments that [`ValueLog::seal`](value_log::ValueLog::seal) found.
    pub(crate) fn clear(&self, garbage: &[u32]) -> Result<()> {
        let mut held = self.hold();
        *held = None;
        let lives = |n: &&u32| self.journal.values.segment(**n).is_some();
        garbage.iter().filter(lives).try_for_each(|n| self.release_values(*n))
    }

    fn release_values(&self, number: u32) -> Result<()> {
        self.journal.release_values(number)?;
        self.ground.device.remove(&value_log::name(number))
    }

    /// One step of the value log's upkeep: full segments become durable and are opened for direct
    /// reads, and the one with most garbage is reclaimed. The bytes it cost, or `None` where
    /// nothing is due.
    pub(crate) fn step(&self) -> Result<Option<u64>> {
        let Some(mut slot) = lock_job(&self.slot, false) else { return Ok(None) };
        let result = self.step_held(&mut slot);
        drop(slot);
        self.stepped.notify_all();
        result
    }

    fn step_held(&self, slot: &mut Option<Reclaim<D::File>>) -> Result<Option<u64>> {
        if slot.is_none() {
            if self.journal.values.has_full() {
                // The log first: it bounds what recovery has to look at.
                self.journal.sync_log()?;
                self.journal.values.sync()?;
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
            let expected = self.reads.seen(key);
            let Some(newest) = self.reads.newest_frame(key)? else { return Ok(false) };
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
                self.ground.note_stored_values(stored.bytes);
                self.space.note_space(stored.bytes);
                OpKind::Put(EntryRef { value: b"", expires_unix_ms, user_bits })
            };
            let mut writer = self.intake.writer.lock().expect("no panic while held");
            if self.reads.seen(key) != expected {
                drop(writer);
                self.journal.values.forget(&stored);
                continue;
            }
            let moved = self.intake.append_uncounted(&mut writer, &[Op { key, kind }], &stored);
            moved.inspect_err(|_| self.journal.values.forget(&stored))?;
            return Ok(true);
        }
    }
}
