//! The way of a write: room for it → large values → the log and the tables → (group commit) → a
//! share of the maintenance that it causes.

use crate::intake::Written;
use crate::silt::Silt;
use crate::space::LOOK_EVERY_BYTES;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::optimistic::{Conditions, Optimistic};
use silica_engine::{Budget, Durability, Op, OpKind, WriteBatch};
use silica_parts::frame::Frame;
use silica_parts::value_log::{Pointer, Stored};
use std::collections::BTreeSet;

/// Pieces of work that a put tries before it is refused, unless work goes on that frees space; and
/// one that takes no more than what it overwrites.
const TRIES_MAX: u64 = 4;
const SHRINKING_TRIES_MAX: u64 = 4096;
/// So many of the latter may find nothing to do: others may have it in hand.
const IDLE_TRIES_MAX: u32 = 64;
/// What a put takes before what it overwrites becomes free.
const PUT_TIMES: u64 = 2;

impl<D: Device> Silt<D> {
    pub(crate) fn write_batch(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        if batch.is_empty() {
            return self.journal.log.check();
        }
        self.check_limits(batch)?;
        if batch.ops().iter().any(|op| !op.kind.is_delete()) {
            self.scheduler.refuse_if_stuck()?;
            self.refuse_if_short(batch)?;
        }
        let stored = self.store_large_values(batch)?;
        let mut writer = self.intake.writer.lock().expect("no panic while held");
        let appended = self.intake.append_ops(&mut writer, batch.ops(), &stored);
        drop(writer);
        let written = appended.inspect_err(|_| self.journal.values.forget(&stored))?;
        drop(stored);
        self.finish_write(durability, &written)
    }

    /// Writes `batch` where all `conditions` still hold; false where one does not.
    pub(crate) fn write_batch_if(
        &self,
        batch: &WriteBatch<'_>,
        conditions: Conditions<'_>,
        durability: Durability,
    ) -> Result<bool> {
        self.check_limits(batch)?;
        if batch.ops().iter().any(|op| !op.kind.is_delete()) {
            self.scheduler.refuse_if_stuck()?;
            self.refuse_if_short(batch)?;
        }
        let stored = self.store_large_values(batch)?;
        let mut writer = self.intake.writer.lock().expect("no panic while held");
        if !self.all_hold(conditions) {
            drop(writer);
            self.journal.values.forget(&stored);
            return Ok(false);
        }
        let appended = self.intake.append_ops(&mut writer, batch.ops(), &stored);
        drop(writer);
        let written = appended.inspect_err(|_| self.journal.values.forget(&stored))?;
        drop(stored);
        self.finish_write(durability, &written)?;
        Ok(true)
    }

    fn check_limits(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let limits = &self.descriptor.limits;
        let too_large = |what: &str, bytes: usize, max: usize| {
            let message = format!("a {what} of {bytes} bytes is over the limit of {max} bytes");
            Err(Error::new(ErrorKind::TooLarge, message))
        };
        let mut total = 0usize;
        batch.refuse_ranges(self.descriptor.name)?;
        for op in batch.ops() {
            if op.key.len() > limits.key_bytes_max {
                return too_large("key", op.key.len(), limits.key_bytes_max);
            }
            total += op.key.len() + 64;
            if let OpKind::Put(entry) = op.kind {
                if entry.value.len() > limits.value_bytes_max {
                    return too_large("value", entry.value.len(), limits.value_bytes_max);
                }
                total += entry.value.len().min(self.ground.config.inline_value_bytes_max);
            }
        }
        if total > limits.batch_bytes_max {
            return too_large("batch", total, limits.batch_bytes_max);
        }
        Ok(())
    }

    /// Puts values that are too large for a slot into the value log.
    fn store_large_values(&self, batch: &WriteBatch<'_>) -> Result<Stored<D::File>> {
        let large_max = self.ground.config.inline_value_bytes_max;
        if batch.ops().iter().all(|op| op.value_over(large_max).is_none()) {
            return Ok(Stored::default());
        }
        self.journal.log.check()?;
        let ops = batch.ops().iter();
        let stored =
            self.journal.store_values(ops.map(|op| Some((op.key, op.value_over(large_max)?))))?;
        self.ground.note_stored_values(stored.bytes);
        self.space.note_space(stored.bytes);
        Ok(stored)
    }

    /// Before the puts of a batch: where room is short, tries to make some, and refuses them where
    /// that does not help. Deletes are let through, and what takes no more than it overwrites: they
    /// make space.
    pub(crate) fn refuse_if_short(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let bytes: u64 = batch.ops().iter().map(put_bytes).sum();
        let is_large = bytes >= self.space.look_every_bytes() && self.space.look_at_space(bytes);
        if !is_large && !self.ground.is_short_of_space() {
            return Ok(());
        }
        self.make_room_for(batch, bytes)
    }

    #[cold]
    fn make_room_for(&self, batch: &WriteBatch<'_>, bytes: u64) -> Result<()> {
        if !self.space.look_at_space(bytes) {
            return Ok(());
        }
        let shrinks = bytes <= self.overwritten_bytes(batch)?;
        let fits = || {
            shrinks
                && self.space.free_bytes() >= self.space.merge_needed_bytes() + PUT_TIMES * bytes
        };
        if fits() {
            return Ok(());
        }
        let (mut tries, mut idle) = (0, 0);
        let may_try = |tries| match shrinks {
            true => tries < SHRINKING_TRIES_MAX,
            false => tries < TRIES_MAX || self.ground.room.may_try_on(self.space.free_bytes()),
        };
        while may_try(tries) {
            tries += 1;
            self.ground.room.want(bytes);
            let worked = self.scheduler.run_jobs(Budget::amid_work(LOOK_EVERY_BYTES), true);
            if !self.space.look_at_space(bytes) || fits() {
                return Ok(());
            }
            idle = if worked?.bytes == 0 { idle + 1 } else { 0 };
            // Another thread may have in hand what is to be done.
            let others_work = idle > 0 && self.scheduler.reclaims.wait_a_while();
            if idle > if shrinks { IDLE_TRIES_MAX } else { 1 } && !others_work {
                break;
            }
        }
        let message = format!(
            "the disk has {} bytes left, and the store keeps {} of them to merge and to delete; \
             delete entries, which frees their space after a while, or make room on the disk",
            self.ground.device.free_bytes().unwrap_or(0),
            self.space.space_needed_bytes()
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Bytes of the entries that a batch takes the place of, or deletes.
    fn overwritten_bytes(&self, batch: &WriteBatch<'_>) -> Result<u64> {
        let keys: BTreeSet<&[u8]> = batch.ops().iter().map(|op| op.key).collect();
        keys.into_iter().map(|key| self.entry_bytes(key)).sum()
    }

    /// Bytes of the newest entry of a key, its value where that lies apart included; 0 where there
    /// is none.
    fn entry_bytes(&self, key: &[u8]) -> Result<u64> {
        let Some(newest) = self.reads.newest_frame(key)? else { return Ok(0) };
        let (frame, _) = Frame::decode(&newest).expect("it was just encoded");
        match (frame.is_tombstone(), frame.is_pointer()) {
            (true, _) => Ok(0),
            (_, true) => Ok(Pointer::of(&frame)?.record_bytes()),
            _ => Ok((key.len() + frame.value.len()) as u64),
        }
    }

    fn finish_write(&self, durability: Durability, written: &Written) -> Result<()> {
        if durability == Durability::Synced {
            self.journal.sync_log()?;
        }
        self.space.note_space(written.bytes);
        if let Some(debt) = written.debt {
            self.scheduler.assist(debt);
        }
        if self.ground.is_short_of_space() && self.space.is_log_long() {
            self.wait_for_log();
        }
        Ok(())
    }

    /// While room is short: does maintenance until the log is no longer than what is reserved for
    /// it. Else deletes would take the room that merges need which make some.
    #[cold]
    fn wait_for_log(&self) {
        for _ in 0..SHRINKING_TRIES_MAX {
            let worked = self.scheduler.run_jobs(Budget::amid_work(LOOK_EVERY_BYTES), true);
            let goes_on = worked.inspect_err(|e| ::log::debug!("work on a full disk: {e}"));
            if !goes_on.is_ok_and(|done| done.bytes > 0) || !self.space.is_log_long() {
                return;
            }
        }
    }
}

/// Bytes of the key and the value that an operation puts.
fn put_bytes(op: &Op<'_>) -> u64 {
    match op.kind {
        OpKind::Put(entry) => (op.key.len() + entry.value.len()) as u64,
        OpKind::Delete | OpKind::DeleteRange(_) => 0,
    }
}
