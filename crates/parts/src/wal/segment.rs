//! One segment of the log: header, then records.
//!
//! `docs/formats/log.md` has the bytes. Records use the shared framing; this file adds the
//! segment header and the frames inside a record.

use super::Recovered;
use crate::frame::Frame;
use crate::framing::{self, End, RecordHeader, RecordReader};
use silica_base::{Checksum, Error, Format, Result};
use silica_device::{Device, DeviceFile, LOG_PREFIX, LogFile, Mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kind of a record that holds frames.
const BATCH: u8 = 1;

/// First bytes of every segment.
pub const MAGIC: [u8; 8] = *b"SILICALG";
/// How every segment begins. What it says has the same place in both versions.
const FORMAT: Format =
    Format { name: "log", magic: &MAGIC, version_bytes: 4, version: 2, steps: &[|_| ()] };
/// The version of segments that say what their first sequence number is, also of those written
/// today: a release that knows no other reads them.
const VERSION_THAT_SAYS: u32 = 1;
/// Stands for the first sequence number in the header of a segment that goes on where the one
/// before it ends, wherever that may be.
pub(super) const CONTINUES: u64 = 0;
/// Bytes of the segment header; the first record starts here.
pub const HEADER_BYTES: usize = 64;

/// Bytes that recovery writes at once.
const PIECE_BYTES: usize = 1 << 20;

/// More bytes and records than a log is ever given; sums with them do not overflow.
const COUNT_MAX: u64 = 1 << 62;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    /// Logical position of the segment's first byte.
    pub(super) start: u64,
    pub(super) capacity: u64,
    /// Sequence number of the first record, or [`CONTINUES`].
    pub(super) first_sequence: u64,
}

/// Bytes of room before the payload in a record to append.
pub const RECORD_ROOM_BYTES: usize = framing::HEADER_BYTES;

/// A mapped segment.
pub struct Segment<L> {
    /// That of its name.
    pub number: u64,
    /// Logical position of its first byte.
    pub start: u64,
    /// Bytes of its file.
    pub capacity: u64,
    /// Sequence number of its first record. Of one that continues it may change while the log is
    /// read at open, by the one thread that does: so it is relaxed.
    first_sequence: AtomicU64,
    /// It goes on where the segment before it ends, and its header does not say where that is.
    pub continues: bool,
    file_id: u64,
    /// The mapped file.
    pub log: L,
}

/// Name of segment `number`.
pub fn name(number: u64) -> String {
    format!("{LOG_PREFIX}{number:08}")
}

/// The number in a segment's name.
pub fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix(LOG_PREFIX)?.parse().ok()
}

/// Capacity of a segment that holds one record of `record_bytes`.
pub fn bytes_needed(record_bytes: u64) -> u64 {
    (HEADER_BYTES as u64 + record_bytes).next_multiple_of(4096)
}

/// What the checksums of segment `number` are bound to.
pub(super) fn file_id(store_id: u64, number: u64) -> u64 {
    store_id ^ number.rotate_left(32) ^ u64::from_le_bytes(MAGIC)
}

impl Header {
    fn encode(&self, file_id: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        FORMAT.begin_in(&mut bytes);
        if self.first_sequence != CONTINUES {
            bytes[8..12].copy_from_slice(&VERSION_THAT_SAYS.to_le_bytes());
        }
        for (i, field) in
            [self.number, self.start, self.capacity, self.first_sequence].iter().enumerate()
        {
            bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&field.to_le_bytes());
        }
        let sum = Checksum::at(file_id, 0).update(&bytes[..56]).finish();
        bytes[56..60].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], name: &str, file_id: u64) -> Result<Header> {
        let damaged = |detail| Error::corruption(name, 0, detail);
        let bytes = bytes.get(..HEADER_BYTES).ok_or_else(|| damaged("the header is cut short"))?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if !FORMAT.begins(bytes) {
            return Err(damaged("this is not a log segment"));
        }
        let sum = Checksum::at(file_id, 0).update(&bytes[..56]).finish();
        if u32_at(56) != sum || bytes[60..] != [0; 4] {
            return Err(damaged("the header's checksum does not match"));
        }
        let version = FORMAT.version_of(name, 0, bytes)?;
        if (version == FORMAT.version) != (u64_at(40) == CONTINUES) {
            return Err(damaged("its version and its first sequence number do not go together"));
        }
        Ok(Header {
            number: u64_at(16),
            start: u64_at(24),
            capacity: u64_at(32),
            first_sequence: u64_at(40),
        })
    }
}

impl<L: LogFile> Segment<L> {
    /// Makes an empty log a segment; its header and its name are not durable yet.
    pub(super) fn create(log: L, store_id: u64, header: &Header) -> Result<Self> {
        let file_id = file_id(store_id, header.number);
        log.append(&[&header.encode(file_id)])?;
        Ok(Segment::new(header, file_id, log))
    }

    /// Hands the first `len` bytes and the zeroes behind them to `target`, with the file's name,
    /// one after the other: for a checkpoint.
    pub fn copy(&self, len: u64, target: &mut dyn FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
        let name = name(self.number);
        target(&name, self.log.bytes(0, len as usize))?;
        let mut left = self.capacity - len;
        let zeroes = vec![0; left.min(PIECE_BYTES as u64) as usize];
        while left > 0 {
            let n = left.min(zeroes.len() as u64);
            target(&name, &zeroes[..n as usize])?;
            left -= n;
        }
        Ok(())
    }

    /// Opens segment `number`, which the manifest names, to be read. One that continues begins
    /// with the record at its beginning, until the one before it was read.
    pub fn open<D: Device<Log = L>>(device: &D, store_id: u64, number: u64) -> Result<Self> {
        let name = name(number);
        let file_id = file_id(store_id, number);
        let log = device.open_log(&name)?;
        let whole = log.bytes(0, log.len() as usize);
        let header = Header::decode(whole, &name, file_id)?;
        if header.number != number || header.capacity != log.len() {
            let (number, capacity) = (header.number, header.capacity);
            let detail = format!("its header says segment {number} of {capacity} bytes");
            return Err(Error::corruption(&name, 16, detail));
        }
        if header.start >= COUNT_MAX || header.first_sequence >= COUNT_MAX {
            return Err(Error::corruption(&name, 24, "no log ever gets as far as its header says"));
        }
        let segment = Segment::new(&header, file_id, log);
        if segment.continues {
            segment.begin_at(segment.own_sequence().unwrap_or(CONTINUES));
        }
        Ok(segment)
    }

    /// The sequence number of the record at the beginning, if there is a valid one.
    fn own_sequence(&self) -> Option<u64> {
        let bytes = self.log.bytes(0, self.log.len() as usize);
        framing::sequence_at(self.file_id, bytes, HEADER_BYTES, COUNT_MAX)
    }

    /// Sequence number of its first record.
    pub fn first_sequence(&self) -> u64 {
        self.first_sequence.load(Ordering::Relaxed)
    }

    /// Has it begin with a record of this sequence number.
    pub(super) fn begin_at(&self, sequence: u64) {
        self.first_sequence.store(sequence, Ordering::Relaxed);
    }

    /// True for one that begins where `before` ends, the one before it in the log, and does not
    /// say where that is: the number of records before it does.
    ///
    /// # Errors
    /// Where it has no segment before it, as those are not needed any more, and no valid record at
    /// its beginning: that one was durable before they went.
    pub(super) fn follows(&self, before: Option<&Segment<L>>) -> Result<bool> {
        if !self.continues || before.is_some_and(|before| before.end() == self.start) {
            return Ok(self.continues);
        }
        if self.first_sequence() != CONTINUES {
            return Ok(false);
        }
        let detail = "its first record was durable and does not check";
        Err(Error::corruption(name(self.number), HEADER_BYTES as u64, detail))
    }

    /// Lets a segment found at open begin where `before` ends, the one before it in the log, if it
    /// says nothing else, or with its own first record where it is behind what is damaged: so that
    /// no record is missed which checks.
    ///
    /// # Errors
    /// Where nothing says where it begins.
    pub fn salvage_behind(&self, before: Option<&Segment<L>>) -> Result<()> {
        if !self.follows(before)? {
            return Ok(());
        }
        let own = self.first_sequence();
        let mut reader = before.expect("it follows one").reader();
        while reader.next_record().is_some() {}
        self.begin_at(reader.next_sequence());
        if own > self.first_sequence() && matches!(self.reader().end(), End::Damaged(_)) {
            self.begin_at(own);
        }
        Ok(())
    }

    fn new(header: &Header, file_id: u64, log: L) -> Self {
        Segment {
            number: header.number,
            start: header.start,
            capacity: header.capacity,
            first_sequence: AtomicU64::new(header.first_sequence),
            continues: header.first_sequence == CONTINUES,
            file_id,
            log,
        }
    }

    /// True where something was appended.
    pub(super) fn has_records(&self) -> bool {
        self.log.len() > HEADER_BYTES as u64
    }

    /// Logical position after the segment's capacity.
    pub fn end(&self) -> u64 {
        self.start + self.capacity
    }

    /// True where a record of `record_bytes` still fits.
    pub fn fits(&self, record_bytes: u64) -> bool {
        self.log.len() + record_bytes <= self.capacity
    }

    /// Appends a record, [`RECORD_ROOM_BYTES`] of room and its payload; the logical position of
    /// the payload, or `None` where it does not fit. Callers may come together: each record has its
    /// place and its sequence number at once, and they are there in that order.
    #[inline]
    pub(super) fn append(&self, synced_through: u64, record: &mut Vec<u8>) -> Result<Option<u64>> {
        let len = record.len().next_multiple_of(framing::ALIGN_BYTES);
        let Some(mut reserved) = self.log.reserve(len as u64)? else { return Ok(None) };
        let (offset, sequence) = (reserved.offset(), self.sequence_of(reserved.ordinal()));
        let header = RecordHeader { kind: BATCH, sequence, synced_through };
        framing::seal(self.file_id, offset, &header, record);
        reserved.bytes().copy_from_slice(record);
        reserved.publish();
        Ok(Some(self.start + offset + RECORD_ROOM_BYTES as u64))
    }

    /// The sequence number of the record behind `appends` ones, the first of which is the header.
    fn sequence_of(&self, appends: u64) -> u64 {
        self.first_sequence() + appends - 1
    }

    /// The sequence number of the next record, of a segment that this process made.
    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence_of(self.log.appends())
    }

    /// Calls `visit` with the logical position and the payload of every record of a segment found
    /// at open, up to the one with sequence number `cut`, from which on an earlier recovery cut
    /// the log. A torn tail ends it; damage is an error.
    pub fn read_records(
        &self,
        cut: Option<u64>,
        visit: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Recovered> {
        let mut reader = self.reader();
        let is_cut = |reader: &RecordReader<'_>| cut.is_some_and(|c| reader.next_sequence() >= c);
        while !is_cut(&reader)
            && let Some(record) = reader.next_record()
        {
            if record.header.kind != BATCH {
                let detail = "a record of an unknown kind";
                return Err(Error::corruption(name(self.number), record.payload_offset, detail));
            }
            visit(self.start + record.payload_offset, record.payload)?;
        }
        if let End::Damaged(at) = reader.end()
            && !is_cut(&reader)
        {
            let detail = "a record that was durable does not check";
            return Err(Error::corruption(name(self.number), at, detail));
        }
        Ok(Recovered { next_sequence: reader.next_sequence(), end: self.start + reader.offset() })
    }

    /// The greatest sequence number that its records up to position `end` say is durable.
    pub(super) fn synced_through(&self, end: u64) -> u64 {
        let mut reader = self.reader();
        let mut synced_through = 0;
        while self.start + reader.offset() < end
            && let Some(record) = reader.next_record()
        {
            synced_through = synced_through.max(record.header.synced_through);
        }
        synced_through
    }

    /// Makes the records of a segment found at open durable up to `end`; those below `durable_end`
    /// and those up to the sequence number `synced_through` are. What nothing says was synced is
    /// written again before the sync: where an earlier process saw a sync fail, the page cache may
    /// hold bytes that it takes for clean and that are not on the medium. Bytes are replaced by
    /// the same ones, and docs/formats/log.md says what is assumed of the medium where the power
    /// fails meanwhile.
    pub fn make_durable<D: Device<Log = L>>(
        &self,
        device: &D,
        durable_end: u64,
        synced_through: u64,
        end: u64,
    ) -> Result<()> {
        let mut reader = self.reader();
        while self.start + reader.offset() < durable_end.min(end)
            || reader.next_sequence() <= synced_through
        {
            if reader.next_record().is_none() {
                break;
            }
        }
        let from = reader.offset();
        while self.start + reader.offset() < end && reader.next_record().is_some() {}
        let to = reader.offset().min(end.saturating_sub(self.start));
        if from >= to {
            return Ok(());
        }
        let file = device.open(&name(self.number), Mode::Buffered)?;
        for at in (from..to).step_by(PIECE_BYTES) {
            let piece = self.log.bytes(at, PIECE_BYTES.min((to - at) as usize));
            // A copy: the bytes are a mapping of what is written.
            let copy = piece.to_vec();
            file.write_at(at, &copy)?;
        }
        file.sync().map_err(|e| e.within(name(self.number)))
    }

    /// A reader of the records of a segment found at open.
    pub fn reader(&self) -> RecordReader<'_> {
        let bytes = self.log.bytes(0, self.log.len() as usize);
        // What is missing may lie in the segments before one that continues.
        let gap = if self.continues { self.start / RECORD_ROOM_BYTES as u64 } else { 0 };
        RecordReader::new(self.file_id, bytes, HEADER_BYTES, self.first_sequence()).behind(gap)
    }
}

/// The frames of a record's payload with their offsets; `None` stands for bytes that are no frame.
pub fn frames(payload: &[u8]) -> impl Iterator<Item = Option<(usize, Frame<'_>)>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= payload.len() {
            return None;
        }
        let start = at;
        match Frame::decode(&payload[start..]) {
            Some((frame, len)) => {
                at = (start + len).next_multiple_of(8);
                Some(Some((start, frame)))
            }
            None => {
                at = payload.len();
                Some(None)
            }
        }
    })
}

/// A list of segments as recovery found it.
pub type SegmentList<L> = Vec<Arc<Segment<L>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_every_flip_is_found() {
        let header = Header { number: 3, start: 64, capacity: 4096, first_sequence: 9 };
        let bytes = header.encode(7);
        assert_eq!(Header::decode(&bytes, "LOG-3", 7).expect("decodes"), header);
        assert!(Header::decode(&bytes, "LOG-3", 8).is_err());
        for i in 0..HEADER_BYTES {
            let mut flipped = bytes;
            flipped[i] ^= 1;
            assert!(Header::decode(&flipped, "LOG-3", 7).is_err(), "byte {i}");
        }
    }

    #[test]
    fn frames_of_a_payload_are_found_at_aligned_offsets() {
        let mut payload = Vec::new();
        for key in [&b"a"[..], b"bb", b"ccccccccc"] {
            payload.resize(payload.len().next_multiple_of(8), 0);
            Frame::put(key, b"v").encode(&mut payload);
        }
        let found: Vec<_> = frames(&payload).map(|f| f.expect("whole")).collect();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|(at, _)| at % 8 == 0));
        assert_eq!(found[2].1.key, b"ccccccccc");
    }
}
