//! The way of a write: frames → one log record → memtables → (group commit) → a share of the
//! maintenance that it causes.
//!
//! Threads write beside each other ([`WriteGate`](crate::write_gate::WriteGate)): each has a place
//! in the log and is in its memtables once all records before its own are in the log. All that
//! looks at more than its own keys waits until nobody writes: snapshots, conditions, ranges,
//! whatever freezes a memtable or changes the list of buckets. Who waited finds all below the log's
//! end in memtables, and nothing behind it.

use crate::batch_ranges::{covers, moved_lowers, with_lowers};
use crate::bucket::{Stores, Version};
use crate::buckets::Buckets;
use crate::deleted::DeletedRange;
use crate::space::LOOK_EVERY_BYTES;
use crate::unwritten::Quiet;
use crate::values::entry_bytes;
use crate::wip::{BATCH_BYTES_MAX, DESCRIPTOR, KEY_BYTES_MAX, Wip};
use crate::write_gate::{Entered, Locked};
use crate::writer::{NewEntry, Record, Writer};
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::optimistic::{Conditions, Optimistic};
use silica_engine::{Durability, Op, OpKind, WriteBatch};
use silica_parts::frame::{Frame, POINTER, RANGE};
use silica_parts::value_log::{POINTER_BYTES, Stored};
use silica_parts::wal::POSITION_BYTES;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{MutexGuard, TryLockError};

/// The frame of an operation, whose value may lie where `pointer` says.
pub(crate) fn frame_of<'a>(op: &Op<'a>, pointer: Option<&'a [u8]>) -> Frame<'a> {
    match op.kind {
        OpKind::Delete => Frame::tombstone(op.key),
        // A range before the empty key is none, and was left out.
        OpKind::DeleteRange(upper) => {
            Frame { flags: RANGE, ..Frame::put(op.key, upper.unwrap_or_default()) }
        }
        OpKind::Put(entry) => Frame {
            flags: if pointer.is_some() { POINTER } else { 0 },
            expires_unix_ms: entry.expires_unix_ms,
            user_bits: entry.user_bits,
            key: op.key,
            value: pointer.unwrap_or(entry.value),
        },
    }
}

/// Bytes of work that a put tries before it is refused, and how often at most, unless work goes on
/// that frees space.
const TRY_BYTES: u64 = 64 << 10;
const TRIES_MAX: u64 = 32;
/// Pieces of work that a put tries which takes no more than what it overwrites, and that a writer
/// waits for whose log is too long.
const SHRINKING_TRIES_MAX: u64 = 4096;
/// What a put takes before what it overwrites becomes free: its record in the log, and its entry in
/// a table.
const PUT_TIMES: u64 = 3;

/// Operations of a batch whose places in memtables are asked for before the log has them.
const PREFETCHED_MAX: usize = 16;
/// Times that a write waits for those who have the store's writes to themselves, before it asks for
/// that, too.
const ENTRIES_MAX: usize = 8;

thread_local! {
    /// The memory of this thread's last record.
    static SPARE: Cell<Record> = const { Cell::new(Record::NOTHING) };
}

impl<D: Device> Wip<D> {
    pub(crate) fn write_batch(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        if batch.is_empty() {
            return self.log.check();
        }
        self.write_batch_if(batch, Conditions::NONE, &mut Quiet::default(), durability).map(|_| ())
    }

    /// Writes `batch` if all `conditions` still hold and nobody has written the `quiet` ranges;
    /// false if not.
    pub(crate) fn write_batch_if(
        &self,
        batch: &WriteBatch<'_>,
        conditions: Conditions<'_>,
        quiet: &mut Quiet,
        durability: Durability,
    ) -> Result<bool> {
        check_record(self.checked_bytes(batch)?)?;
        if batch.has_ranges() {
            let lowers = moved_lowers(batch);
            let batch = with_lowers(batch, &lowers);
            if batch.is_empty() {
                self.log.check()?;
                return Ok(self.all_hold(conditions) && quiet.holds(self));
            }
            return self.write_checked_if::<true>(&batch, conditions, quiet, durability);
        }
        self.write_checked_if::<false>(batch, conditions, quiet, durability)
    }

    /// Writes a batch that is within the limits; with `RANGES` it may delete ranges.
    fn write_checked_if<const RANGES: bool>(
        &self,
        batch: &WriteBatch<'_>,
        conditions: Conditions<'_>,
        quiet: &mut Quiet,
        durability: Durability,
    ) -> Result<bool> {
        if batch.ops().iter().any(|op| !op.kind.is_delete()) {
            self.refuse_puts_if_short(batch)?;
            self.refuse_if_stuck()?;
        }
        let stored = self.store_large_values(batch)?;
        if !RANGES && conditions.is_none() && quiet.is_empty() && self.changes.is_none() {
            let written = self.write_beside_others(batch.ops(), &stored);
            if let Some(debt) = written.inspect_err(|_| self.values.forget(&stored))? {
                drop(stored);
                self.follow_write(debt, durability)?;
                return Ok(true);
            }
        }
        let is_known = quiet.catch_up(self);
        let (mut writer, installs) = match RANGES {
            true => self.lock_to_write_ranges(),
            false => (self.lock_to_write(), None),
        };
        if !is_known || !self.all_hold(conditions) || !quiet.holds(self) {
            drop(writer);
            self.values.forget(&stored);
            return Ok(false);
        }
        let appended = self.append_ops::<RANGES>(&mut writer, batch.ops(), &stored);
        appended.inspect_err(|_| self.values.forget(&stored))?;
        drop((stored, installs));
        self.end_write(writer, durability)?;
        Ok(true)
    }

    /// Before the puts of a batch: where room is short, tries to make some, and refuses them where
    /// that does not help. Deletes are let through, and what takes no more than it overwrites: they
    /// make space.
    pub(crate) fn refuse_puts_if_short(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let puts = batch.ops().iter().filter(|op| !op.kind.is_delete());
        let bytes = puts.map(user_bytes).sum();
        self.refuse_if_short(bytes, Some(batch))
    }

    /// Refuses `bytes` that are to be written, those of a batch or others, if room is short.
    pub(crate) fn refuse_if_short(&self, bytes: u64, batch: Option<&WriteBatch<'_>>) -> Result<()> {
        let is_large = bytes >= LOOK_EVERY_BYTES && self.space_context().look(bytes);
        if !is_large && !self.space.is_short() {
            return Ok(());
        }
        self.make_room_for(batch, bytes)
    }

    #[cold]
    fn make_room_for(&self, batch: Option<&WriteBatch<'_>>, bytes: u64) -> Result<()> {
        let space = self.space_context();
        if !space.look(bytes) {
            return Ok(());
        }
        let overwritten = batch.map_or(Ok(0), |batch| self.overwritten_bytes(batch))?;
        let shrinks = bytes <= overwritten;
        let fits = || {
            // What shrinks may use what is reserved for rounding: that is for just this.
            let compaction = space.compaction_needed_bytes();
            let compaction = compaction.saturating_sub(space.rounding_bytes());
            let needed = compaction + space.log_segment_bytes();
            shrinks && space.free_bytes() >= needed + PUT_TIMES * bytes
        };
        if fits() {
            return Ok(());
        }
        self.space.want(bytes);
        let mut tries = 0;
        let may_try = |tries| match shrinks {
            true => tries < SHRINKING_TRIES_MAX,
            false => tries < TRIES_MAX || self.space.may_try_on(space.free_bytes()),
        };
        while may_try(tries) {
            tries += 1;
            let worked = self.run_jobs(TRY_BYTES, true);
            if !self.space_context().look(bytes) || fits() {
                return Ok(());
            }
            match worked {
                Ok(progress) if progress.bytes > 0 => {}
                Err(error) if error.kind() != ErrorKind::Full => return Err(error),
                // What others have in hand may free what is needed; or else the value log does.
                _ if self.jobs.wait_for_others() => {}
                _ if self.step_values()?.is_some() => {}
                _ => break,
            }
        }
        let message = format!(
            "the disk has {} bytes left, and the store keeps {} of them to compact and to delete; \
             delete entries, which frees their space after a while, or make room on the disk",
            space.free_bytes(),
            space.needed_bytes()
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Bytes of the entries that a batch takes the place of, or deletes.
    fn overwritten_bytes(&self, batch: &WriteBatch<'_>) -> Result<u64> {
        let keys: BTreeSet<&[u8]> = batch.ops().iter().map(|op| op.key).collect();
        keys.into_iter().map(|key| entry_bytes(self, key)).sum()
    }

    /// After a write while room is short: waits for maintenance as long as the log is longer than
    /// what is reserved for deletes, and the jobs go on. Else deletes would take the room that the
    /// jobs need which make some.
    pub(crate) fn wait_for_space(&self) {
        let space = self.space_context();
        let is_long = || {
            let reserved = space.log_for_space_bytes() + space.log_segment_bytes();
            self.space.is_short() && space.unflushed_log_bytes() > reserved
        };
        let mut tries = SHRINKING_TRIES_MAX;
        while tries > 0 && is_long() {
            tries -= 1;
            let goes_on = match self.run_jobs(TRY_BYTES, true) {
                Ok(progress) => progress.bytes > 0 || self.jobs.wait_for_others(),
                Err(error) => {
                    ::log::debug!("background work on a full disk: {error}");
                    self.jobs.wait_for_others()
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Bytes of the batch's record in the log, nearly.
    ///
    /// # Errors
    /// `TooLarge` if a key or a value is over its limit.
    pub(crate) fn checked_bytes(&self, batch: &WriteBatch<'_>) -> Result<usize> {
        let limits = &DESCRIPTOR.limits;
        // The bound of a range may be right behind the longest key.
        let bound_bytes_max = limits.key_bytes_max + 1;
        let mut total = 0;
        for op in batch.ops() {
            let is_bound = matches!(op.kind, OpKind::DeleteRange(_));
            let key_bytes_max = if is_bound { bound_bytes_max } else { limits.key_bytes_max };
            at_most("key", op.key.len(), key_bytes_max)?;
            total += op.key.len() + 64;
            if let OpKind::Put(entry) = op.kind {
                at_most("value", entry.value.len(), limits.value_bytes_max)?;
                let is_apart = entry.value.len() > self.config.inline_value_bytes_max;
                total += if is_apart { POINTER_BYTES } else { entry.value.len() };
            } else if let OpKind::DeleteRange(upper) = op.kind {
                let upper_bytes = upper.map_or(0, <[u8]>::len);
                at_most("key", upper_bytes, bound_bytes_max)?;
                total += upper_bytes;
            }
        }
        Ok(total)
    }

    /// The writer, once writes are not held.
    pub(crate) fn lock_to_write(&self) -> Locked<'_, Writer<D::Log>> {
        self.writer.lock_when(|writer| !writer.is_held)
    }

    /// The writer, and the lock of those who install what jobs made; see `batch_ranges.rs`. Whoever
    /// installs may wait for the writer, so it is waited for without.
    fn lock_to_write_ranges(&self) -> (Locked<'_, Writer<D::Log>>, Option<MutexGuard<'_, ()>>) {
        loop {
            let writer = self.lock_to_write();
            match self.install.try_lock() {
                Ok(installs) => return (writer, Some(installs)),
                Err(TryLockError::Poisoned(_)) => panic!("no panic while held"),
                Err(TryLockError::WouldBlock) => {}
            }
            drop(writer);
            drop(self.lock_install());
        }
    }

    /// Lets writes wait, or go on.
    pub(crate) fn hold_writes(&self, holds: bool) {
        self.writer.lock().is_held = holds;
        // Beside others, too.
        if holds {
            self.writer.close();
        } else {
            self.writer.open();
        }
        self.writer.notify();
    }

    /// Appends a record that changes nothing, and takes a position for what comes from elsewhere: a
    /// range of no keys is deleted.
    pub(crate) fn mark(&self, writer: &mut Writer<D::Log>) -> Result<u64> {
        writer.record.fill([Frame { flags: RANGE, ..Frame::put(&[0], &[0]) }].into_iter());
        Ok(self.append(writer)? / POSITION_BYTES)
    }

    /// Lets the writer go, and does what follows a write.
    fn end_write(
        &self,
        mut writer: Locked<'_, Writer<D::Log>>,
        durability: Durability,
    ) -> Result<()> {
        let is_due = writer.debt_bytes >= self.jobs.assist_every();
        let debt = if is_due { std::mem::take(&mut writer.debt_bytes) } else { 0 };
        drop(writer);
        self.follow_write(debt, durability)
    }

    /// What follows a write: group commit, and a share of the maintenance, as large as the `debt`
    /// asks for.
    fn follow_write(&self, debt: u64, durability: Durability) -> Result<()> {
        if durability == Durability::Synced {
            self.sync_log()?;
        }
        if self.space.is_look_due() {
            self.space_context().look(0);
            self.wait_for_space();
        }
        if debt > 0 {
            self.assist(debt);
        }
        self.assist_values();
        Ok(())
    }

    /// Deletes all keys from `lower` on and before `upper`.
    pub(crate) fn delete_keys(
        &self,
        lower: Vec<u8>,
        upper: Option<Vec<u8>>,
        durability: Durability,
    ) -> Result<()> {
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return self.log.check();
        }
        for bound in [Some(&lower), upper.as_ref()].into_iter().flatten() {
            // A bound may be right behind the longest key.
            at_most("key", bound.len(), KEY_BYTES_MAX + 1)?;
        }
        let mut writer = self.lock_to_write();
        let value = upper.as_deref().unwrap_or_default();
        writer.record.fill([Frame { flags: RANGE, ..Frame::put(&lower, value) }].into_iter());
        let position = self.append(&mut writer)? / POSITION_BYTES;
        self.metrics.count_write(0, 1, lower.len() as u64);
        let kind = OpKind::DeleteRange(upper.as_deref());
        self.record_change(&[Op { key: &lower, kind }]);
        let publishing = self.writer.publish();
        self.insert_range(&DeletedRange { lower, upper, position }, |_| true);
        drop(publishing);
        self.end_write(writer, durability)
    }

    /// Puts a deleted range of the log into the buckets whose keys it has. Only for the writer.
    pub(crate) fn insert_range(
        &self,
        range: &DeletedRange,
        is_new_to: impl Fn(&Version<D>) -> bool,
    ) {
        let buckets = self.buckets();
        for place in buckets.place(&range.lower)..buckets.len() {
            let bucket = buckets.at(place);
            let Some(own) = range.within(&bucket.lower, buckets.upper(place)) else { break };
            let mut stores = bucket.write();
            if is_new_to(&stores.version) {
                stores.delete(own);
            }
        }
    }

    /// Appends one record with all `ops` and puts them into the memtables. The writer is locked.
    /// With `RANGES` some may be deletes of ranges.
    fn append_ops<const RANGES: bool>(
        &self,
        writer: &mut Writer<D::Log>,
        ops: &[Op<'_>],
        stored: &Stored<D::File>,
    ) -> Result<()> {
        self.append_uncounted::<RANGES>(writer, ops, stored)?;
        self.record_change(ops);
        self.count_ops(ops);
        Ok(())
    }

    pub(crate) fn count_ops(&self, ops: &[Op<'_>]) {
        let deletes = ops.iter().filter(|op| op.kind.is_delete()).count() as u64;
        let bytes = ops.iter().map(user_bytes).sum();
        self.metrics.count_write(ops.len() as u64 - deletes, deletes, bytes);
    }

    /// Appends entries that are only moved: no user wrote them.
    pub(crate) fn append_uncounted<const RANGES: bool>(
        &self,
        writer: &mut Writer<D::Log>,
        ops: &[Op<'_>],
        stored: &Stored<D::File>,
    ) -> Result<()> {
        // Nobody replaces them while the writer is locked.
        let buckets = self.buckets.load();
        self.prepare(&buckets, &mut writer.record, ops, stored, |_| true);
        let at = self.append(writer)?;
        let _publishing = self.writer.publish();
        self.insert_ops::<RANGES>(&buckets, &writer.record, at, (ops, stored), true);
        Ok(())
    }

    /// Writes a batch that deletes no range beside others who write. What its thread owes
    /// maintenance, or nothing yet; `None` where the store's writes have to be one's own for it.
    fn write_beside_others(&self, ops: &[Op<'_>], stored: &Stored<D::File>) -> Result<Option<u64>> {
        let Some(entered) = self.enter_to_write() else { return Ok(None) };
        let mut record = SPARE.take();
        let written = self.append_beside_others(&mut record, ops, stored);
        SPARE.set(record.kept());
        let Some(bytes) = written? else { return Ok(None) };
        let debt = entered.owe(bytes, self.jobs.assist_every());
        let counted = entered.keep(bytes, self.space.uncounted_bytes_max());
        drop(entered);
        if counted > 0 {
            self.space.count(counted);
        }
        Ok(Some(debt))
    }

    fn enter_to_write(&self) -> Option<Entered<'_>> {
        (0..ENTRIES_MAX).find_map(|_| {
            let entered = self.writer.enter();
            if entered.is_none() {
                self.writer.wait();
            }
            entered
        })
    }

    /// Appends one record with all `ops`, and puts them into the memtables; bytes of the record.
    fn append_beside_others(
        &self,
        record: &mut Record,
        ops: &[Op<'_>],
        stored: &Stored<D::File>,
    ) -> Result<Option<u64>> {
        // Nobody replaces them meanwhile.
        let buckets = self.buckets.load();
        if !self.prepare(&buckets, record, ops, stored, |stores| !stores.is_to_freeze()) {
            return Ok(None);
        }
        let Some(at) = self.log.append_beside_others(&mut record.bytes)? else { return Ok(None) };
        self.insert_ops::<false>(&buckets, record, at, (ops, stored), false);
        let bytes = record.bytes.len() as u64;
        self.metrics.calls.add(|c| &c.log_bytes, bytes);
        self.count_ops(ops);
        Ok(Some(bytes))
    }

    /// Has a record of `ops`, and the memory on its way that they go to; false, and no record, if
    /// `may` says no of a bucket.
    fn prepare(
        &self,
        buckets: &Buckets<D>,
        record: &mut Record,
        ops: &[Op<'_>],
        stored: &Stored<D::File>,
        may: impl Fn(&Stores<D>) -> bool,
    ) -> bool {
        record.places.clear();
        for op in ops {
            let (place, hash) = (buckets.place(op.key), self.seed.low(op.key));
            let stores = buckets.at(place).read();
            if !may(&stores) {
                return false;
            }
            if record.places.len() < PREFETCHED_MAX {
                // It is there by the time that the log has the entry.
                stores.prefetch_active(hash);
            }
            record.places.push((place, hash));
        }
        record.fill(ops.iter().enumerate().map(|(i, op)| frame_of(op, stored.pointer(i))));
        true
    }

    /// Puts the operations of a record whose payload is at `at` of the log into the memtables.
    fn insert_ops<const RANGES: bool>(
        &self,
        buckets: &Buckets<D>,
        record: &Record,
        at: u64,
        (ops, stored): (&[Op<'_>], &Stored<D::File>),
        freezes: bool,
    ) {
        let superseded = match RANGES {
            true => superseded_ops(ops),
            false => superseded(ops.len(), |i| ops[i].key),
        };
        for (i, (offset, op)) in record.frames.iter().zip(ops).enumerate() {
            if RANGES && matches!(op.kind, OpKind::DeleteRange(_)) {
                continue;
            }
            if superseded.binary_search(&i).is_err() {
                let position = (at + *offset as u64) / POSITION_BYTES;
                let (place, hash) = record.places[i];
                let frame = frame_of(op, stored.pointer(i));
                self.insert(buckets.at(place), &NewEntry { frame, position, hash }, freezes);
            } else if let Some(pointer) = stored.pointer(i) {
                self.values.note_dead_at(pointer);
            }
        }
        // After the keys that are put into them: so no reader misses one meanwhile.
        for (offset, op) in record.frames.iter().zip(ops).filter(|_| RANGES) {
            if let OpKind::DeleteRange(upper) = op.kind {
                let position = (at + *offset as u64) / POSITION_BYTES;
                let (lower, upper) = (op.key.to_vec(), upper.map(<[u8]>::to_vec));
                self.insert_range(&DeletedRange { lower, upper, position }, |_| true);
            }
        }
    }

    /// Appends the record in hand to the log; the position of its payload, in bytes.
    fn append(&self, writer: &mut Writer<D::Log>) -> Result<u64> {
        let register = |number| {
            // A power cut may take the tail of the last segment only: with records behind it, a
            // missing tail would be a gap.
            self.sync_log()?;
            // The log takes a segment more.
            self.share_memory(false);
            self.register_segment(number)
        };
        let at = self.log.append(&mut writer.appender, &mut writer.record.bytes, &register)?;
        let written = writer.record.bytes.len() as u64;
        writer.debt_bytes += written;
        self.space.count(written);
        self.metrics.calls.add(|c| &c.log_bytes, written);
        Ok(at)
    }
}

/// Indices, ascending, of the operations whose key a later one of the batch writes again. They
/// must not get into the memtables: a reader would see the key in a state that no batch left it in.
pub(crate) fn superseded<'k>(count: usize, key: impl Fn(usize) -> &'k [u8]) -> Vec<usize> {
    if count < 2 {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by_key(|&i| (key(i), i));
    let same = |pair: &&[usize]| key(pair[0]) == key(pair[1]);
    let mut found: Vec<usize> = order.windows(2).filter(same).map(|pair| pair[0]).collect();
    found.sort_unstable();
    found
}

/// Operations of a batch that later ones supersede; some of its keys a later range may delete.
pub(crate) fn superseded_ops(ops: &[Op<'_>]) -> Vec<usize> {
    let mut found = superseded(ops.len(), |i| ops[i].key);
    let ranges = ops.iter().enumerate().filter(|(_, op)| matches!(op.kind, OpKind::DeleteRange(_)));
    for (at, range) in ranges {
        found.extend((0..at).filter(|i| covers(range, ops[*i].key)));
        found.sort_unstable();
        found.dedup();
    }
    found
}

/// Bytes of an operation's key and value.
pub(crate) fn user_bytes(op: &Op<'_>) -> u64 {
    let value = if let OpKind::Put(entry) = op.kind { entry.value.len() } else { 0 };
    (op.key.len() + value) as u64
}

/// Refuses a batch of so many bytes if it is too large for a record of the log.
fn check_record(bytes: usize) -> Result<()> {
    if bytes <= BATCH_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "a batch of {bytes} bytes is over the limit of {BATCH_BYTES_MAX} bytes; write several, or \
         commit a transaction, which may be of any size"
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}

fn at_most(what: &str, bytes: usize, max: usize) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    let message = format!("a {what} of {bytes} bytes is over the limit of {max} bytes");
    Err(Error::new(ErrorKind::TooLarge, message))
}
