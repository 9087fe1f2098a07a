//! Values that are too large for a slot: the engine's side of the value log.

use crate::jobs::lock_job;
use crate::silt::Silt;
use crate::state::{Edit, StoreState};
use crate::value_log::{Found, Pin, SegmentOf};
use crate::value_segment::{self, Pointer, Walk, WalkedRecord};
use silica_base::{Error, ErrorKind, Result};
use silica_device::{Device, DeviceFile};
use silica_engine::optimistic::Optimistic;
use silica_engine::{Checkpoint, EntryRef, Op, OpKind};
use silica_parts::frame::Frame;
use silica_parts::wal::{self, Segment};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a segment that one step of reclaiming looks at.
const RECLAIM_STEP_BYTES: u64 = 1 << 20;
/// Pieces in which an open segment goes into a checkpoint.
const PIECE_BYTES: usize = 1 << 20;

/// The values of a batch that are in the value log. Their segments are not reclaimed while this
/// lives, so it must live until the batch is in the log.
pub(crate) struct StoredValues<F> {
    /// Encoded pointers by index of the operation; empty where no value was large.
    pub(crate) pointers: Vec<Option<Vec<u8>>>,
    pins: Vec<Pin<F>>,
}

impl<F> Default for StoredValues<F> {
    fn default() -> Self {
        StoredValues { pointers: Vec::new(), pins: Vec::new() }
    }
}

impl<F> StoredValues<F> {
    pub(crate) fn push(&mut self, (pointer, pin): (Vec<u8>, Pin<F>)) {
        self.pointers.push(Some(pointer));
        self.pins.push(pin);
    }
}

/// A value-log segment whose live values are being moved.
pub(crate) struct Reclaim<F> {
    walk: Walk<F>,
}

impl<D: Device> Silt<D> {
    /// Puts a value into the value log: the encoded pointer.
    pub(crate) fn store_value(&self, key: &[u8], value: &[u8]) -> Result<(Vec<u8>, Pin<D::File>)> {
        let register = |number| self.edit(&[Edit::ValueSegment(number)]);
        let appended = self.values.append(key, value, &register);
        if self.values.is_poisoned() {
            self.log.poison();
        }
        let (pointer, pin) = appended?;
        let bytes = value_segment::record_bytes(key.len(), value.len());
        self.metrics.value_log_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.note_space(bytes);
        Ok((pointer.encode().to_vec(), pin))
    }

    /// Counts values as garbage whose batch was not written.
    pub(crate) fn forget_values(&self, stored: &StoredValues<D::File>) {
        stored.pointers.iter().flatten().for_each(|pointer| self.note_dead_pointer(pointer));
    }

    /// The value that a pointer frame points at, or `None` where its segment was reclaimed since
    /// the frame was found.
    fn load_value(&self, frame: &Frame<'_>) -> Result<Option<Vec<u8>>> {
        self.values.read(&pointer_of(frame)?, frame.key)
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
            let number = pointer_of(frame)?.segment;
            let message = format!("an entry points into value-log segment {number}, which is gone");
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        self.with_value(&newest, then)
    }

    /// Counts a value as garbage: nothing points to it any more.
    pub(crate) fn note_dead_pointer(&self, pointer: &[u8]) {
        if let Some(pointer) = Pointer::decode(pointer) {
            self.values.note_dead(&pointer);
        }
    }

    /// Writes down what is garbage, so that it is known after the next open.
    pub(crate) fn note_dead_values(&self) -> Result<()> {
        let known = self.book.lock().expect("no panic while held").state.value_dead.clone();
        let mut dead = self.values.dead();
        dead.retain(|(number, bytes)| known.get(number) != Some(bytes));
        // One edit, since each is a sync.
        if dead.is_empty() { Ok(()) } else { self.edit(&[Edit::ValueDead(dead)]) }
    }

    pub(crate) fn sync_values(&self) -> Result<()> {
        self.values.sync()
    }

    /// Called by [`silica_engine::Admin::clear`] with the writer locked: the next value goes to a
    /// new segment. The segments that hold no value of a write under way, so none that anything
    /// will ever point to.
    pub(crate) fn seal_values(&self) -> Vec<u32> {
        let mut garbage = Vec::new();
        for segment in self.values.seal() {
            segment.dead.store(segment.end.load(Ordering::Acquire), Ordering::Relaxed);
            if segment.pins.load(Ordering::Acquire) == 0 {
                garbage.push(segment.number);
            }
        }
        garbage
    }

    /// Removes the segments that [`Silt::seal_values`] found.
    pub(crate) fn clear_values(&self, garbage: &[u32]) -> Result<()> {
        let mut reclaim = self.jobs.upkeep.lock().expect("no panic while held");
        *reclaim = None;
        let lives = |n: &&u32| self.values.segment(**n).is_some();
        garbage.iter().filter(lives).try_for_each(|n| self.release_values(*n))
    }

    fn release_values(&self, number: u32) -> Result<()> {
        self.edit(&[Edit::ReleaseValueSegment(number)])?;
        self.values.release(number);
        self.device.remove(&value_segment::name(number))
    }

    /// Hands the segments that `state` names to `target`. Upkeep is held, so none goes away.
    pub(crate) fn checkpoint_values(
        &self,
        state: &StoreState,
        target: &mut dyn Checkpoint,
    ) -> Result<()> {
        for number in &state.value_segments {
            let name = value_segment::name(*number);
            let segment = self
                .values
                .segment(*number)
                .ok_or_else(|| Error::new(ErrorKind::Corruption, format!("{name} is not open")))?;
            if segment.settled.load(Ordering::Acquire) {
                target.immutable(&name)?;
                continue;
            }
            let file = segment.file();
            let mut buf = vec![0; PIECE_BYTES];
            let mut at = 0;
            loop {
                let filled = file.read_at(at, &mut buf)?;
                if filled == 0 {
                    break;
                }
                target.piece(&name, &buf[..filled])?;
                at += filled as u64;
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
                    return Ok(Some(RECLAIM_STEP_BYTES));
                }
            }
            let victim = self.values.pick_victim(self.value_log_dead_percent());
            let Some(victim) = victim else { return Ok(None) };
            *slot = Some(Reclaim { walk: Walk::new(victim)? });
        }
        let job = slot.as_mut().expect("set above");
        let segment = job.walk.segment().clone();
        match self.step_reclaim(job) {
            Ok((bytes, false)) => Ok(Some(bytes)),
            Ok((bytes, true)) => {
                *slot = None;
                // The new places of its values must be durable before the old ones go.
                self.sync_log()?;
                self.release_values(segment.number)?;
                Ok(Some(bytes))
            }
            Err(error) => {
                *slot = None;
                if error.kind() == ErrorKind::Corruption {
                    segment.damaged.store(true, Ordering::Relaxed);
                }
                Err(error)
            }
        }
    }

    /// Moves the live ones of the next records of the segment in hand; true at its end.
    fn step_reclaim(&self, job: &mut Reclaim<D::File>) -> Result<(u64, bool)> {
        let mut bytes = 0;
        while bytes < RECLAIM_STEP_BYTES {
            let Some(record) = job.walk.next_record()? else {
                let skipped = job.walk.skipped;
                if skipped > 0 {
                    let name = job.walk.segment().name();
                    ::log::info!("{skipped} bytes of {name} were no records");
                }
                return Ok((bytes.max(1), true));
            };
            // A look at a dead record costs a read as well.
            bytes += 4096;
            if self.move_if_live(job.walk.segment(), &record)? {
                bytes += u64::from(record.pointer.length);
            }
        }
        Ok((bytes, false))
    }

    /// Writes the value of `record` anew where an entry points at it; true where one did.
    fn move_if_live(&self, segment: &Arc<SegmentOf<D>>, record: &WalkedRecord) -> Result<bool> {
        let key = &record.key[..];
        loop {
            // Taken before the read: whatever changes the key from here on changes it.
            let expected = self.seen(key);
            let Some(newest) = self.newest_frame(key)? else { return Ok(false) };
            let (frame, _) = Frame::decode(&newest).expect("it was just encoded");
            if !frame.is_pointer() || pointer_of(&frame)? != record.pointer {
                return Ok(false);
            }
            let mut stored = StoredValues::default();
            let (expires_unix_ms, user_bits) = (frame.expires_unix_ms, frame.user_bits);
            let kind = if self.is_expired(&frame) {
                OpKind::Delete
            } else {
                let value = segment.read(&record.pointer, key)?;
                stored.push(self.store_value(key, &value)?);
                OpKind::Put(EntryRef { value: b"", expires_unix_ms, user_bits })
            };
            let mut writer = self.writer.lock().expect("no panic while held");
            if self.seen(key) != expected {
                drop(writer);
                self.forget_values(&stored);
                continue;
            }
            let moved = self.append_uncounted(&mut writer, &[Op { key, kind }], &stored.pointers);
            moved.inspect_err(|_| self.forget_values(&stored))?;
            return Ok(true);
        }
    }

    /// Looks whether the log holds records whose values a power cut took: the sequence number of
    /// the first. Values are synced before the records that point at them, so only records that
    /// nothing says were durable need a look; such a record ends the log like a torn one.
    pub(crate) fn find_lost_value(
        &self,
        list: &[Arc<Segment<D::Log>>],
        durable_end: u64,
    ) -> Result<Option<u64>> {
        if self.values.segments().is_empty() {
            return Ok(None);
        }
        let mut synced_through = 0;
        wal::for_each_record(list, &mut |_, record| {
            synced_through = synced_through.max(record.header.synced_through);
            Ok(true)
        })?;
        let mut seen = Found::new();
        let mut lost = None;
        wal::for_each_record(list, &mut |at, record| {
            let sequence = record.header.sequence;
            if sequence > synced_through
                && at >= durable_end
                && !self.values_are_there(at, record.payload, &mut seen)?
            {
                lost = Some(sequence);
            }
            Ok(lost.is_none())
        })?;
        self.values.make_durable(&seen)?;
        Ok(lost)
    }

    /// True where every value that the record at log position `at` points at checks. They go into
    /// `seen`.
    fn values_are_there(&self, at: u64, payload: &[u8], seen: &mut Found) -> Result<bool> {
        for (offset, frame) in wal::frames(payload).flatten() {
            let floor = self.partition_of(self.hash(frame.key)).read().version.floor;
            if !frame.is_pointer() || at + (offset as u64) < floor {
                continue;
            }
            let pointer = pointer_of(&frame)?;
            // A segment that is gone was reclaimed: everything up to then was durable.
            match self.values.read(&pointer, frame.key) {
                Ok(_) => {
                    let end = pointer.offset + u64::from(pointer.length);
                    let range = seen.entry(pointer.segment).or_insert(pointer.offset..end);
                    range.start = range.start.min(pointer.offset);
                    range.end = range.end.max(end);
                }
                Err(error) if error.kind() == ErrorKind::Corruption => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    pub(crate) fn value_log_live_bytes(&self) -> u64 {
        self.values.bytes().1
    }

    pub(crate) fn value_log_bytes(&self) -> u64 {
        self.values.bytes().0
    }
}

fn pointer_of(frame: &Frame<'_>) -> Result<Pointer> {
    Pointer::decode(frame.value).ok_or_else(|| {
        Error::new(ErrorKind::Corruption, "an entry's pointer into the value log is damaged")
    })
}
