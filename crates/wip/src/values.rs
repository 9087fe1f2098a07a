//! Values that lie apart: the engine's side of the value log.
//!
//! 1. A value is in the value log before the record that points at it is in the log, and its
//!    segment is pinned until the memtable has the entry. Every sync of the log syncs the values
//!    first, and a flush syncs the log before its edit: no table points at what a power cut takes.
//! 2. A version in a memtable or in a table may point into a segment that is gone. Then it is
//!    hidden from everybody: a newer version, which the move wrote or a user, lies before it, and
//!    no snapshot is held that was taken before that one.
//! 3. A segment is emptied record by record: where the newest version of the key, as a get sees
//!    it, points at the record, the value is appended anew and the entry written again, on the
//!    condition that the key has not changed since. Hidden, deleted and expired ones do not move;
//!    of an expired one a tombstone is written, since a clock may go back.
//! 4. After its last record the log is synced, and the log's end noted. The segment goes when no
//!    snapshot from before that position is held: whoever came later sees the new places. A get
//!    without a snapshot that finds an old pointer and no segment looks its key up again.
//! 5. What is garbage is counted where a version leaves memtables or tables, and is in the manifest
//!    before the edit that lets it leave. A crash may leave the number too large by what the log
//!    brings back, or too small by writes that were under way.

use crate::bucket::Version;
use crate::contents::Contents;
use crate::deleted::deleted_at;
use crate::metrics::add;
use crate::value_jobs::ValueJob;
use crate::wip::Wip;
use silica_base::{ErrorKind, Result};
use silica_device::Device;
use silica_engine::optimistic::{Condition, Conditions, Optimistic};
use silica_engine::{EntryRef, Op, OpKind, WriteBatch};
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::value_log::{self, Pointer, Reclaim, SegmentOf, Stored, WalkedRecord};
use silica_parts::wal::POSITION_BYTES;
use std::sync::Arc;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;

/// Bytes of values after which a writer looks at the garbage.
const ASSIST_EVERY_BYTES: u64 = 1 << 20;
/// What a writer reclaims for each byte of values that it wrote, where there is too much garbage.
const ASSIST_BYTES_PER_BYTE: u64 = 4;
/// Segments of garbage that are never too much.
const GARBAGE_SEGMENTS: u64 = 2;

/// The newest version of a key, as far as moving its value goes.
struct Newest {
    flags: u8,
    expires_unix_ms: u64,
    user_bits: u32,
    value: Vec<u8>,
    sequence: u64,
}

impl<D: Device> Wip<D> {
    /// Puts the values of a batch that are too large for the log into the value log.
    pub(crate) fn store_large_values(&self, batch: &WriteBatch<'_>) -> Result<Stored<D::File>> {
        let large = self.config.inline_value_bytes_max;
        if batch.ops().iter().all(|op| op.value_over(large).is_none()) {
            return Ok(Stored::default());
        }
        self.log.check()?;
        let ops = batch.ops().iter();
        let stored = self.store_values(ops.map(|op| Some((op.key, op.value_over(large)?))))?;
        self.value_jobs.debt_bytes.fetch_add(stored.bytes, Ordering::Relaxed);
        Ok(stored)
    }

    /// Puts values into the value log: keys with their values, `None` for what has none there.
    pub(crate) fn store_values<'v>(
        &self,
        values: impl Iterator<Item = Option<(&'v [u8], &'v [u8])>>,
    ) -> Result<Stored<D::File>> {
        let stored = self.journal.store_values(values)?;
        add(&self.metrics.value_log_bytes, stored.bytes);
        self.space.count(stored.bytes);
        Ok(stored)
    }

    /// True where a full segment waits for its sync, or there is so much garbage that writers are
    /// to help.
    pub(crate) fn values_press(&self) -> bool {
        self.values.has_full() || self.has_too_much_garbage()
    }

    fn has_too_much_garbage(&self) -> bool {
        let (all, live) = self.values.bytes();
        // Segments are reclaimed from this percentage on; half of the way up to the next is much.
        let percent = self.config.value_log_dead_percent;
        let most = all / 100 * (percent + (100 - percent) / 4);
        all - live > most + GARBAGE_SEGMENTS * self.config.value_log_segment_bytes
    }

    /// A writer's share of reclaiming, where garbage grows faster than it goes. The write itself is
    /// done, so an error here is for later ones.
    pub(crate) fn assist_values(&self) {
        let jobs = &self.value_jobs;
        if jobs.debt_bytes.load(Ordering::Relaxed) < ASSIST_EVERY_BYTES {
            return;
        }
        let debt = jobs.debt_bytes.swap(0, Ordering::Relaxed);
        let mut left = debt.saturating_mul(ASSIST_BYTES_PER_BYTE);
        while left > 0 && self.has_too_much_garbage() {
            match self.spread_poison(self.step_values()) {
                Ok(Some(bytes)) => left = left.saturating_sub(bytes),
                Ok(None) => return,
                Err(error) => {
                    ::log::warn!("reclaiming a WipDB store's values: {error}");
                    return;
                }
            }
        }
    }

    /// One step of the value log's upkeep: full segments become durable and are opened for direct
    /// reads, the one with most garbage is emptied, and those that are empty go. The bytes it cost,
    /// or `None` where nothing is due.
    pub(crate) fn step_values(&self) -> Result<Option<u64>> {
        let mut job = match self.value_jobs.job.try_lock() {
            Ok(job) => job,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Poisoned(_)) => unreachable!("no panic while held"),
        };
        if self.release_emptied(&mut job)? {
            return Ok(Some(Reclaim::<D::File>::STEP_BYTES));
        }
        if job.reclaim.is_none() {
            if self.values.has_full() {
                // The log first: it bounds what recovery has to look at.
                self.sync_log()?;
                self.values.sync()?;
                if self.values.settle()? {
                    return Ok(Some(Reclaim::<D::File>::STEP_BYTES));
                }
            }
            let percent = self.space_context().value_log_dead_percent();
            if self.space.is_short() && self.values.seal_garbage(percent) {
                return Ok(Some(Reclaim::<D::File>::STEP_BYTES));
            }
            let victim = self.values.pick_victim(percent);
            let Some(victim) = victim else { return Ok(None) };
            job.reclaim = Some(Reclaim::new(victim)?);
        }
        let reclaim = job.reclaim.as_mut().expect("set above");
        let segment = reclaim.segment().clone();
        match reclaim.step(|segment, record| self.move_if_live(segment, record)) {
            Ok((bytes, false)) => Ok(Some(bytes)),
            Ok((bytes, true)) => {
                let skipped = reclaim.skipped_bytes();
                if skipped > 0 {
                    ::log::info!("{skipped} bytes of {} were no records", segment.name());
                }
                job.reclaim = None;
                // The new places of its values must be durable before the old ones go.
                self.sync_log()?;
                segment.set_emptied();
                job.emptied.push((segment.number, self.log.end() / POSITION_BYTES));
                self.release_emptied(&mut job)?;
                Ok(Some(bytes))
            }
            Err(error) => {
                job.reclaim = None;
                if error.kind() == ErrorKind::Corruption {
                    segment.set_damaged();
                }
                Err(error)
            }
        }
    }

    /// Removes the segments that nobody can ask for any more; true where there was one.
    fn release_emptied(&self, job: &mut ValueJob<D::File>) -> Result<bool> {
        let oldest = self.snapshots.positions().first().copied().unwrap_or(u64::MAX);
        let Some(at) = job.emptied.iter().position(|(_, end)| *end <= oldest) else {
            return Ok(false);
        };
        self.release_values(job.emptied[at].0)?;
        job.emptied.swap_remove(at);
        Ok(true)
    }

    fn release_values(&self, number: u32) -> Result<()> {
        self.journal.release_values(number)?;
        self.tables.remove_file(&value_log::name(number));
        Ok(())
    }

    /// Everything that was stored up to position `end` is garbage: removes the segments with the
    /// numbers `garbage`, as soon as no snapshot from before is held.
    pub(crate) fn clear_values(
        &self,
        job: &mut ValueJob<D::File>,
        garbage: &[u32],
        end: u64,
    ) -> Result<()> {
        job.reclaim = None;
        for segment in garbage.iter().filter_map(|number| self.values.segment(*number)) {
            segment.set_emptied();
            if !job.emptied.iter().any(|(number, _)| *number == segment.number) {
                job.emptied.push((segment.number, end));
            }
        }
        while self.release_emptied(job)? {}
        Ok(())
    }

    /// Writes the value of `record` anew where the newest version of its key points at it; true
    /// where it did.
    fn move_if_live(&self, segment: &Arc<SegmentOf<D>>, record: &WalkedRecord) -> Result<bool> {
        let key = &record.key[..];
        loop {
            // Taken before the read: whatever changes the key from here on changes it.
            let expected = self.seen(key);
            let Some(newest) = newest(self, key)? else { return Ok(false) };
            if newest.flags & POINTER == 0 || Pointer::in_entry(&newest.value)? != record.pointer {
                return Ok(false);
            }
            let mut stored = Stored::default();
            let (expires_unix_ms, user_bits) = (newest.expires_unix_ms, newest.user_bits);
            let has_expired = expires_unix_ms != 0 && expires_unix_ms <= self.clock.unix_ms();
            let kind = if has_expired {
                OpKind::Delete
            } else {
                let value = segment.read(&record.pointer, key)?;
                stored = self.store_values([Some((key, &value[..]))].into_iter())?;
                OpKind::Put(EntryRef { value: b"", expires_unix_ms, user_bits })
            };
            let conditions = [Condition { key, seen: expected }];
            let mut writer = self.writer.lock();
            if !self.all_hold(Conditions { keys: &conditions, expires_unix_ms: 0 }) {
                drop(writer);
                self.values.forget(&stored);
                continue;
            }
            let moved = self.append_uncounted::<false>(&mut writer, &[Op { key, kind }], &stored);
            moved.inspect_err(|_| self.values.forget(&stored))?;
            return Ok(true);
        }
    }
}

/// The newest version of a key, unless it is deleted.
fn newest<D: Device>(contents: &Contents<D>, key: &[u8]) -> Result<Option<Newest>> {
    let hash = contents.seed.low(key);
    let (found, version, deleted) = contents.with_stores(key, |_, stores| {
        let found = contents.find_young(stores, key, |found| Newest {
            flags: found.entry.flags,
            expires_unix_ms: found.entry.expires_unix_ms,
            user_bits: found.entry.user_bits,
            value: found.entry.value.to_vec(),
            sequence: found.position,
        });
        (found, stores.version.clone(), deleted_at(&stores.deleted, key, u64::MAX))
    });
    let deleted = deleted.max(deleted_at(&version.deleted, key, u64::MAX));
    let newest = match found {
        Some(found) => Some(found),
        None => newest_in_tables(contents, &version, key, hash)?,
    };
    Ok(newest.filter(|newest| newest.flags & TOMBSTONE == 0 && newest.sequence >= deleted))
}

/// Bytes of the newest entry of a key, its value where that lies apart included; 0 where there
/// is none.
pub(crate) fn entry_bytes<D: Device>(contents: &Contents<D>, key: &[u8]) -> Result<u64> {
    let Some(newest) = newest(contents, key)? else { return Ok(0) };
    let value = match newest.flags & POINTER != 0 {
        true => Pointer::in_entry(&newest.value)?.record_bytes(),
        false => (key.len() + newest.value.len()) as u64,
    };
    Ok(value)
}

fn newest_in_tables<D: Device>(
    contents: &Contents<D>,
    version: &Version<D>,
    key: &[u8],
    hash: u64,
) -> Result<Option<Newest>> {
    for part in version.parts_with(key, hash) {
        let mut cursor = part.table.table.cursor_through(&contents.tables.cache, 0);
        if cursor.seek(key, u64::MAX)? && cursor.version().key == key {
            let found = cursor.version();
            return Ok(Some(Newest {
                flags: found.flags,
                expires_unix_ms: found.expires_unix_ms,
                user_bits: found.user_bits,
                value: found.value.to_vec(),
                sequence: found.sequence,
            }));
        }
    }
    Ok(None)
}
