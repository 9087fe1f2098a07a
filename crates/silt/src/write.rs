//! The way of a write: frames → one log record → tables → (group commit) → a share of the
//! maintenance that it causes.

use crate::jobs::ASSIST_EVERY_BYTES;
use crate::jobs::lock_job;
use crate::partition::{InLog, NewFrame, Stores};
use crate::silt::Silt;
use crate::space::LOOK_EVERY_BYTES;
use crate::state::Edit;
use silica_base::{Error, ErrorKind, KeyHash, Result};
use silica_device::Device;
use silica_engine::optimistic::{Conditions, Optimistic};
use silica_engine::{Budget, Durability, Op, OpKind, WriteBatch};
use silica_parts::frame::{Frame, POINTER};
use silica_parts::value_log::Pointer;
use silica_parts::value_log::Stored;
use silica_parts::wal::{Appender, RECORD_ROOM_BYTES};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Pieces of work that a put tries before it is refused; and one that takes no more than what it
/// overwrites.
const TRIES_MAX: u64 = 4;
const SHRINKING_TRIES_MAX: u64 = 4096;
/// So many of the latter may find nothing to do: others may have it in hand.
const IDLE_TRIES_MAX: u32 = 64;
/// What a put takes before what it overwrites becomes free.
const PUT_TIMES: u64 = 2;

/// What the one writer at a time works with.
pub(crate) struct Writer<L> {
    pub(crate) appender: Appender<L>,
    /// The record in hand: room for its header, then its frames.
    record: Vec<u8>,
    frames: Vec<Placed>,
    table_seed: u64,
    /// Bytes of writes since the last look at the backlog.
    debt_bytes: u64,
}

/// What [`Silt::finish_write`] is to act on.
struct Written {
    /// Bytes of the frames.
    bytes: u64,
    /// Where it is time for a look at the backlog, the bytes written since the last.
    debt: Option<u64>,
}

/// A frame in the payload.
struct Placed {
    hash: KeyHash,
    /// From the start of the payload.
    offset: usize,
    len: usize,
}

impl<L> Writer<L> {
    pub(crate) fn new(appender: Appender<L>) -> Self {
        let (record, frames) = (Vec::new(), Vec::new());
        Writer { appender, record, frames, table_seed: 0, debt_bytes: 0 }
    }

    /// A seed for the displacement choices of the next table.
    pub(crate) fn next_table_seed(&mut self) -> u64 {
        self.table_seed += 1;
        self.table_seed
    }

    /// Begins a record.
    fn clear(&mut self) {
        self.record.clear();
        self.record.resize(RECORD_ROOM_BYTES, 0);
        self.frames.clear();
    }

    fn push(&mut self, hash: KeyHash, frame: &Frame<'_>) {
        self.record.resize(self.record.len().next_multiple_of(8), 0);
        let start = self.record.len();
        frame.encode(&mut self.record);
        let len = self.record.len() - start;
        self.frames.push(Placed { hash, offset: start - RECORD_ROOM_BYTES, len });
    }

    /// Counts written bytes.
    fn written(&mut self, bytes: u64) -> Written {
        self.debt_bytes += bytes;
        let due = self.debt_bytes >= ASSIST_EVERY_BYTES;
        Written { bytes, debt: due.then(|| std::mem::take(&mut self.debt_bytes)) }
    }
}

impl<D: Device> Silt<D> {
    pub(crate) fn write_batch(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        if batch.is_empty() {
            return self.journal.log.check();
        }
        self.check_limits(batch)?;
        if batch.ops().iter().any(|op| op.kind != OpKind::Delete) {
            self.refuse_if_stuck()?;
            self.refuse_if_short(batch)?;
        }
        let stored = self.store_large_values(batch)?;
        let mut writer = self.writer.lock().expect("no panic while held");
        let appended = self.append_ops(&mut writer, batch.ops(), &stored);
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
        if batch.ops().iter().any(|op| op.kind != OpKind::Delete) {
            self.refuse_if_stuck()?;
            self.refuse_if_short(batch)?;
        }
        let stored = self.store_large_values(batch)?;
        let mut writer = self.writer.lock().expect("no panic while held");
        if !self.all_hold(conditions) {
            drop(writer);
            self.journal.values.forget(&stored);
            return Ok(false);
        }
        let appended = self.append_ops(&mut writer, batch.ops(), &stored);
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
        self.space.note_space(stored.bytes);
        Ok(stored)
    }

    /// Appends one record with all `ops` and puts them into the tables. The writer is
    /// locked.
    fn append_ops(
        &self,
        writer: &mut Writer<D::Log>,
        ops: &[Op<'_>],
        stored: &Stored<D::File>,
    ) -> Result<Written> {
        let bytes = self.append_uncounted(writer, ops, stored)?;
        let deletes = ops.iter().filter(|op| op.kind == OpKind::Delete).count() as u64;
        self.ground.metrics.count_write(ops.len() as u64 - deletes, deletes, bytes);
        Ok(writer.written(bytes))
    }

    /// As [`Silt::append_ops`], for entries that are only moved: no user wrote them. The bytes of
    /// the frames.
    pub(crate) fn append_uncounted(
        &self,
        writer: &mut Writer<D::Log>,
        ops: &[Op<'_>],
        stored: &Stored<D::File>,
    ) -> Result<u64> {
        writer.clear();
        for (i, op) in ops.iter().enumerate() {
            let hash = self.ground.hash(op.key);
            // The buckets are on their way while the record is made and appended.
            self.partitions.partition_of(hash).read().prefetch(hash);
            writer.push(hash, &frame_of(op, stored.pointer(i)));
        }
        let register = |number| {
            // A power cut may take the tail of the last segment only: with records behind it, a
            // missing tail would be a gap.
            self.journal.sync_log()?;
            self.journal.edit(&[Edit::LogSegment(number)])
        };
        let at = self.journal.log.append(&mut writer.appender, &mut writer.record, &register)?;
        let frames = std::mem::take(&mut writer.frames);
        let mut segments = None;
        let log_end = self.journal.log.end();
        let mut bytes = 0;
        let superseded = superseded(&frames, ops);
        for (i, (placed, op)) in frames.iter().zip(ops).enumerate() {
            if superseded.binary_search(&i).is_ok() {
                stored
                    .pointer(i)
                    .iter()
                    .for_each(|pointer| self.journal.values.note_dead_at(pointer));
                bytes += placed.len as u64;
                continue;
            }
            let mut stores = self.partitions.partition_of(placed.hash).write();
            // For most new keys no tag matches, and then no segment is looked at.
            let old = if stores.may_be_in_log(placed.hash) {
                let segments = segments.get_or_insert_with(|| self.journal.log.segments());
                stores.find_in_log(segments, log_end, placed.hash, op.key)
            } else {
                None
            };
            let seen = old.as_ref().and_then(|o| o.active_slot);
            self.note_overwritten(&old);
            old.iter().for_each(|old| stores.forget_expiry(placed.hash, old));
            let (at, len) = (at + placed.offset as u64, placed.len as u64);
            let frame = NewFrame::new(placed.hash, at, len, &frame_of(op, stored.pointer(i)));
            self.put_into_table(&mut stores, writer, &frame, seen);
            bytes += len;
        }
        writer.frames = frames;
        Ok(bytes)
    }

    /// Points the active table at `frame`, freezing a full one before.
    pub(crate) fn put_into_table(
        &self,
        stores: &mut Stores<D>,
        writer: &mut Writer<D::Log>,
        frame: &NewFrame,
        seen: Option<u32>,
    ) {
        if !stores.place(frame, seen) {
            let index = self.ground.partition_index(frame.hash);
            self.freeze(stores, index, writer.next_table_seed(), frame.at);
            assert!(stores.place(frame, None), "an empty table takes an entry");
        }
    }

    fn note_overwritten(&self, old: &Option<InLog<'_>>) {
        if let Some(old) = old.as_ref().filter(|o| o.active_slot.is_some()) {
            self.ground.metrics.overwrites_in_log_store.fetch_add(1, Ordering::Relaxed);
            self.journal.note_dead_value(&old.frame);
        }
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
        let mut idle = 0;
        for _ in 0..if shrinks { SHRINKING_TRIES_MAX } else { TRIES_MAX } {
            self.space.want(bytes);
            let worked = self.run_jobs(Budget::amid_work(LOOK_EVERY_BYTES), shrinks);
            if !self.space.look_at_space(bytes) || fits() {
                return Ok(());
            }
            idle = if worked?.bytes == 0 { idle + 1 } else { 0 };
            if idle > if shrinks { IDLE_TRIES_MAX } else { 0 } {
                break;
            }
            if idle > 0 {
                // Another thread may have in hand what is to be done.
                drop(lock_job(&self.jobs.upkeep, true));
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
        let Some(newest) = self.newest_frame(key)? else { return Ok(0) };
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
            self.assist(debt);
        }
        Ok(())
    }
}

/// Bytes of the key and the value that an operation puts.
fn put_bytes(op: &Op<'_>) -> u64 {
    match op.kind {
        OpKind::Put(entry) => (op.key.len() + entry.value.len()) as u64,
        OpKind::Delete => 0,
    }
}

/// Indices, ascending, of the operations whose key a later one of the batch writes again. They
/// must not get into the tables: a reader would see the key in a state that no batch left it in.
fn superseded(frames: &[Placed], ops: &[Op<'_>]) -> Vec<usize> {
    if frames.len() < 2 {
        return Vec::new();
    }
    let mut hashes: Vec<u64> = frames.iter().map(|frame| frame.hash.high()).collect();
    hashes.sort_unstable();
    // Mostly all keys differ, which the sorted hashes tell quickly.
    if hashes.windows(2).all(|pair| pair[0] != pair[1]) {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..frames.len()).collect();
    order.sort_unstable_by_key(|&i| (frames[i].hash, ops[i].key, i));
    let same = |pair: &&[usize]| ops[pair[0]].key == ops[pair[1]].key;
    let mut found: Vec<usize> = order.windows(2).filter(same).map(|pair| pair[0]).collect();
    found.sort_unstable();
    found
}

fn frame_of<'a>(op: &Op<'a>, pointer: Option<&'a [u8]>) -> Frame<'a> {
    match (op.kind, pointer) {
        (OpKind::Delete, _) => Frame::tombstone(op.key),
        (OpKind::Put(entry), pointer) => Frame {
            flags: if pointer.is_some() { POINTER } else { 0 },
            expires_unix_ms: entry.expires_unix_ms,
            user_bits: entry.user_bits,
            key: op.key,
            value: pointer.unwrap_or(entry.value),
        },
    }
}
