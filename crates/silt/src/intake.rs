//! How entries come in: frames → one log record → tables, by one writer at a time.

use crate::ground::Ground;
use crate::journal::{Journal, note_dead_value};
use crate::partition::{InLog, NewFrame, Stores};
use crate::partitions::Partitions;
use crate::state::Edit;
use silica_base::{KeyHash, Result};
use silica_device::Device;
use silica_engine::{Op, OpKind};
use silica_parts::frame::{Frame, POINTER};
use silica_parts::value_log::Stored;
use silica_parts::wal::{Appender, RECORD_ROOM_BYTES};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Bytes of writes between two looks at the backlog.
pub(crate) const ASSIST_EVERY_BYTES: u64 = 64 << 10;

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

/// What is to be acted on after a write.
pub(crate) struct Written {
    /// Bytes of the frames.
    pub(crate) bytes: u64,
    /// Where it is time for a look at the backlog, the bytes written since the last.
    pub(crate) debt: Option<u64>,
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

/// The writer, and what it writes to.
pub(crate) struct Intake<D: Device> {
    pub(crate) ground: Arc<Ground<D>>,
    pub(crate) journal: Arc<Journal<D>>,
    pub(crate) partitions: Arc<Partitions<D>>,
    pub(crate) writer: Mutex<Writer<D::Log>>,
}

impl<D: Device> Intake<D> {
    pub(crate) fn new(partitions: &Arc<Partitions<D>>, appender: Appender<D::Log>) -> Self {
        Intake {
            ground: Arc::clone(&partitions.ground),
            journal: Arc::clone(&partitions.journal),
            partitions: Arc::clone(partitions),
            writer: Mutex::new(Writer::new(appender)),
        }
    }

    /// Appends one record with all `ops` and puts them into the tables. The writer is
    /// locked.
    #[inline]
    pub(crate) fn append_ops(
        &self,
        writer: &mut Writer<D::Log>,
        ops: &[Op<'_>],
        stored: &Stored<D::File>,
    ) -> Result<Written> {
        let bytes = self.append_uncounted(writer, ops, stored)?;
        let deletes = ops.iter().filter(|op| op.kind.is_delete()).count() as u64;
        self.ground.metrics.count_write(ops.len() as u64 - deletes, deletes, bytes);
        Ok(writer.written(bytes))
    }

    /// As [`Intake::append_ops`], for entries that are only moved: no user wrote them. The bytes of
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
    #[inline]
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

    #[inline]
    fn note_overwritten(&self, old: &Option<InLog<'_>>) {
        if let Some(old) = old.as_ref().filter(|o| o.active_slot.is_some()) {
            self.ground.metrics.overwrites_in_log_store.fetch_add(1, Ordering::Relaxed);
            note_dead_value(&self.journal, &old.frame);
        }
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
        (OpKind::DeleteRange(_), _) => unreachable!("batches with ranges are refused"),
        (OpKind::Put(entry), pointer) => Frame {
            flags: if pointer.is_some() { POINTER } else { 0 },
            expires_unix_ms: entry.expires_unix_ms,
            user_bits: entry.user_bits,
            key: op.key,
            value: pointer.unwrap_or(entry.value),
        },
    }
}
