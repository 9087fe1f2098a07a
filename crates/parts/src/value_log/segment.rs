//! One segment file of the value log: header, then records.
//!
//! `docs/formats/value-log.md` has the bytes.

use crate::frame::Frame;
use silica_base::{AlignedBuf, BLOCK_BYTES, Checksum, Error, ErrorKind, Format, Result};
use silica_device::{Device, DeviceFile, Lifetime, Mode};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// First bytes of every segment.
pub const MAGIC: [u8; 8] = *b"SILICAVL";
/// Version of the format.
/// How every segment begins.
const FORMAT: Format =
    Format { name: "value log", magic: &MAGIC, version_bytes: 4, version: 1, steps: &[] };
/// Bytes of the segment header; the first record starts here.
pub const HEADER_BYTES: usize = 64;
/// Bytes in front of a record's key.
pub const RECORD_HEADER_BYTES: usize = 16;
/// Records start at multiples of this.
pub(super) const ALIGN_BYTES: u64 = 8;
/// Bytes of an encoded pointer.
pub const POINTER_BYTES: usize = 20;
/// Large values are read in pieces of this size, so that they are in memory only once.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes read at once when the records of a segment are walked.
const WALK_BYTES: usize = 256 << 10;
/// Longer keys and values are no records.
const KEY_BYTES_MAX: u32 = 64 << 10;
const VALUE_BYTES_MAX: u32 = 512 << 20;

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// Number of its segment.
    pub segment: u32,
    /// Where its record starts.
    pub offset: u64,
    /// Bytes of the record without padding: header, key and value.
    pub length: u32,
    /// The record's checksum.
    pub checksum: u32,
}

impl Pointer {
    /// The pointer as entries hold it.
    pub fn encode(&self) -> [u8; POINTER_BYTES] {
        let mut bytes = [0; POINTER_BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The pointer of a frame that has one.
    pub fn of(frame: &Frame<'_>) -> Result<Self> {
        Pointer::in_entry(frame.value)
    }

    /// The pointer that is the value of an entry.
    pub fn in_entry(value: &[u8]) -> Result<Self> {
        Pointer::decode(value).ok_or_else(|| {
            Error::new(ErrorKind::Corruption, "an entry's pointer into the value log is damaged")
        })
    }

    /// Bytes that its record takes, padding included.
    pub fn record_bytes(&self) -> u64 {
        u64::from(self.length).next_multiple_of(ALIGN_BYTES)
    }

    /// Reads an encoded pointer.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; POINTER_BYTES] = bytes.try_into().ok()?;
        Some(Pointer {
            segment: u32_at(bytes, 0),
            offset: u64::from_le_bytes(bytes[4..12].try_into().ok()?),
            length: u32_at(bytes, 12),
            checksum: u32_at(bytes, 16),
        })
    }
}

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u32,
}

/// Name of segment `number`.
pub fn name(number: u32) -> String {
    format!("VALUE-{number:08}")
}

/// The number in a segment's name.
pub fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("VALUE-")?.parse().ok()
}

fn file_id(store_id: u64, number: u32) -> u64 {
    store_id ^ u64::from(number).rotate_left(32) ^ u64::from_le_bytes(MAGIC)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Bytes that a record takes, padding included.
pub fn record_bytes(key_len: usize, value_len: usize) -> u64 {
    ((RECORD_HEADER_BYTES + key_len + value_len) as u64).next_multiple_of(ALIGN_BYTES)
}

/// The header of a record at `offset`.
pub fn encode_record_header(
    file_id: u64,
    offset: u64,
    key: &[u8],
    value: &[u8],
) -> [u8; RECORD_HEADER_BYTES] {
    let mut bytes = [0; RECORD_HEADER_BYTES];
    bytes[8..12].copy_from_slice(&(key.len() as u32).to_le_bytes());
    bytes[12..].copy_from_slice(&(value.len() as u32).to_le_bytes());
    let sum = header_checksum(file_id, offset, &bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    let sum = Checksum::at(file_id, offset).update(&bytes[4..]).update(key).update(value).finish();
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The record's checksum, from its header.
pub fn checksum_in(header: &[u8; RECORD_HEADER_BYTES]) -> u32 {
    u32_at(header, 0)
}

/// The checksum of the lengths alone: so that a record whose value is torn can be skipped. It is
/// seeded with the complement of the place, so that it never equals that of the whole.
fn header_checksum(file_id: u64, offset: u64, header: &[u8]) -> u32 {
    Checksum::at(!file_id, offset).update(&header[8..RECORD_HEADER_BYTES]).finish()
}

impl Header {
    fn encode(&self, file_id: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        FORMAT.begin_in(&mut bytes);
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        let sum = Checksum::at(file_id, 0).update(&bytes[..56]).finish();
        bytes[56..60].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], name: &str, file_id: u64) -> Result<Header> {
        let damaged = |detail| Error::corruption(name, 0, detail);
        let bytes = bytes.get(..HEADER_BYTES).ok_or_else(|| damaged("the header is cut short"))?;
        if !FORMAT.begins(bytes) {
            return Err(damaged("this is not a value-log segment"));
        }
        let sum = Checksum::at(file_id, 0).update(&bytes[..56]).finish();
        if u32_at(bytes, 56) != sum || bytes[60..] != [0; 4] {
            return Err(damaged("the header's checksum does not match"));
        }
        FORMAT.version_of(name, 0, bytes)?;
        Ok(Header { number: u32_at(bytes, 16) })
    }
}

/// A segment file and what is known of it.
pub struct Segment<F> {
    /// Its number.
    pub number: u32,
    pub(super) file_id: u64,
    pub(super) file: RwLock<Arc<F>>,
    /// Bytes reserved so far; every record lies below.
    pub(super) end: AtomicU64,
    /// Bytes of records that nothing points to, as far as known.
    pub(super) dead: AtomicU64,
    /// Writes under way that stored a value here.
    pub(super) pins: AtomicU32,
    /// Something was written since the last sync.
    pub(super) dirty: AtomicBool,
    /// Takes no more records, is durable and open for direct reads.
    pub(super) settled: AtomicBool,
    /// It is not to be reclaimed any more: that failed on a damaged record, or it is empty and
    /// waits for readers.
    pub(super) left: AtomicBool,
}

impl<F: DeviceFile> Segment<F> {
    /// Creates a segment; its header and its name are not durable yet.
    pub(super) fn create<D: Device<File = F>>(
        device: &D,
        store_id: u64,
        header: &Header,
    ) -> Result<Self> {
        let file_id = file_id(store_id, header.number);
        let file = device.create(&name(header.number), Mode::Buffered)?;
        let file = file.with_lifetime(Lifetime::Long);
        file.write_at(0, &header.encode(file_id))?;
        Ok(Segment::new(header.number, file_id, file, HEADER_BYTES as u64, false))
    }

    /// Opens segment `number`, which the manifest names, for direct reads.
    pub fn open<D: Device<File = F>>(device: &D, store_id: u64, number: u32) -> Result<Self> {
        let name = name(number);
        let file_id = file_id(store_id, number);
        let file = device.open(&name, Mode::Direct)?;
        let mut buf = AlignedBuf::zeroed(BLOCK_BYTES);
        let filled = file.read_at(0, &mut buf)?;
        let header = Header::decode(&buf[..filled], &name, file_id)?;
        if header.number != number {
            let detail = format!("its header says segment {}", header.number);
            return Err(Error::corruption(&name, 16, detail));
        }
        let len = file.len()?;
        Ok(Segment::new(number, file_id, file, len, true))
    }

    fn new(number: u32, file_id: u64, file: F, end: u64, settled: bool) -> Self {
        Segment {
            number,
            file_id,
            file: RwLock::new(Arc::new(file)),
            end: AtomicU64::new(end),
            dead: AtomicU64::new(0),
            pins: AtomicU32::new(0),
            dirty: AtomicBool::new(false),
            settled: AtomicBool::new(settled),
            left: AtomicBool::new(false),
        }
    }

    /// The file to read and write now.
    pub(super) fn file(&self) -> Arc<F> {
        self.file.read().expect("no panic while held").clone()
    }

    /// The file's name.
    pub fn name(&self) -> String {
        name(self.number)
    }

    /// True where it takes no more records, is durable and open for direct reads: its file stays as
    /// it is from now on.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Reclaiming it failed on a damaged record: it stays as it is.
    pub fn set_damaged(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Its values are elsewhere; it stays only until no reader follows an old pointer any more.
    pub fn set_emptied(&self) {
        self.dead.store(self.end.load(Ordering::Acquire), Ordering::Relaxed);
        self.left.store(true, Ordering::Relaxed);
    }

    /// Bytes of its records.
    pub fn record_bytes(&self) -> u64 {
        self.end.load(Ordering::Relaxed) - self.header_bytes()
    }

    /// Bytes of records that nothing points to, as far as known.
    pub fn dead_bytes(&self) -> u64 {
        self.dead.load(Ordering::Relaxed).min(self.record_bytes())
    }

    /// Bytes that never hold records.
    pub(super) fn header_bytes(&self) -> u64 {
        HEADER_BYTES as u64
    }

    /// Share of the records' bytes that nothing points to, as far as known.
    pub(super) fn dead_share(&self) -> f64 {
        let payload = self.record_bytes();
        let dead = self.dead_bytes();
        if payload == 0 { 1.0 } else { dead as f64 / payload as f64 }
    }

    /// True where no record was appended.
    pub(super) fn is_empty(&self) -> bool {
        self.end.load(Ordering::Acquire) == self.header_bytes()
    }

    /// The value of `key` whose record `pointer` names, checked.
    pub fn read(&self, pointer: &Pointer, key: &[u8]) -> Result<Vec<u8>> {
        let value_len = self.value_len(pointer, key)?;
        let head_len = RECORD_HEADER_BYTES + key.len();
        let mut head = Vec::with_capacity(head_len);
        let mut value = Vec::with_capacity(value_len);
        self.read_pieces(pointer.offset, pointer.length as usize, &mut |bytes| {
            let split = (head_len - head.len()).min(bytes.len());
            head.extend_from_slice(&bytes[..split]);
            value.extend_from_slice(&bytes[split..]);
        })?;
        self.check(pointer, key, &head, &value)?;
        Ok(value)
    }

    /// Bytes of the value of `key` whose record `pointer` names, where it may lie there.
    pub(super) fn value_len(&self, pointer: &Pointer, key: &[u8]) -> Result<usize> {
        let value_len = (pointer.length as usize)
            .checked_sub(RECORD_HEADER_BYTES + key.len())
            .filter(|len| *len <= VALUE_BYTES_MAX as usize)
            .ok_or_else(|| self.damaged(pointer, "an entry points at it with a wrong length"))?;
        let end = pointer.offset.checked_add(u64::from(pointer.length));
        if end.is_none_or(|end| end > self.end.load(Ordering::Acquire)) {
            return Err(self.damaged(pointer, "the record lies past the file's end"));
        }
        Ok(value_len)
    }

    /// Checks a record that was read: `head` is everything before the value.
    pub(super) fn check(
        &self,
        pointer: &Pointer,
        key: &[u8],
        head: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let sum = Checksum::at(self.file_id, pointer.offset).update(&head[4..]).update(value);
        let sum = sum.finish();
        let key_len = key.len() as u32;
        if sum != pointer.checksum || u32_at(head, 0) != sum || u32_at(head, 8) != key_len {
            return Err(self.damaged(pointer, "the value's checksum does not match"));
        }
        if head[RECORD_HEADER_BYTES..] != *key {
            return Err(self.damaged(pointer, "the value belongs to another key"));
        }
        Ok(())
    }

    fn damaged(&self, pointer: &Pointer, detail: &str) -> Error {
        Error::corruption(self.name(), pointer.offset, detail)
    }

    /// Hands a copy of the file to `target`, as far as it goes now.
    pub fn copy(&self, target: &mut dyn FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
        let (name, file) = (self.name(), self.file());
        let mut buf = vec![0; PIECE_BYTES];
        let mut at = 0;
        loop {
            let filled = file.read_at(at, &mut buf)?;
            if filled == 0 {
                return Ok(());
            }
            target(&name, &buf[..filled])?;
            at += filled as u64;
        }
    }

    /// Hands `len` bytes from `offset` on to `take`, read in aligned pieces.
    fn read_pieces(&self, offset: u64, len: usize, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let file = self.file();
        let block = BLOCK_BYTES as u64;
        let end = offset + len as u64;
        let mut at = offset - offset % block;
        let whole = (end.next_multiple_of(block) - at) as usize;
        let mut buf = AlignedBuf::zeroed(whole.min(PIECE_BYTES));
        while at < end {
            let wanted = (end.next_multiple_of(block) - at).min(PIECE_BYTES as u64) as usize;
            buf.resize(wanted);
            let filled = file.read_at(at, &mut buf)?;
            let from = offset.saturating_sub(at) as usize;
            let to = ((end - at) as usize).min(wanted);
            if filled < to {
                let at = at + filled as u64;
                return Err(Error::corruption(self.name(), at, "the file ends early"));
            }
            take(&buf[from..to]);
            at += wanted as u64;
        }
        Ok(())
    }
}

/// A record met on a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkedRecord {
    /// Where it is.
    pub pointer: Pointer,
    /// Its key.
    pub key: Vec<u8>,
    /// Bytes of its value.
    pub value_len: u32,
}

/// Walks the records of a segment that takes no more of them. Where a header is not valid (a
/// write that failed, or was lost in a power cut) the walk goes on at the next valid one.
pub struct Walk<F> {
    segment: Arc<Segment<F>>,
    at: u64,
    end: u64,
    buf: AlignedBuf,
    /// Where the bytes of `buf` lie, and how many were read.
    buf_start: u64,
    buf_len: usize,
    /// Bytes that belonged to no record.
    pub(super) skipped: u64,
}

impl<F: DeviceFile> Walk<F> {
    /// A walk from the first record on.
    pub fn new(segment: Arc<Segment<F>>) -> Result<Self> {
        let at = segment.header_bytes();
        // A write that failed may have reserved bytes past the file's end.
        let end = segment.end.load(Ordering::Acquire).min(segment.file().len()?);
        let buf = AlignedBuf::zeroed(WALK_BYTES);
        Ok(Walk { segment, at, end, buf, buf_start: 0, buf_len: 0, skipped: 0 })
    }

    /// The segment walked.
    pub fn segment(&self) -> &Arc<Segment<F>> {
        &self.segment
    }

    /// The next record; its value is not checked.
    pub fn next_record(&mut self) -> Result<Option<WalkedRecord>> {
        while self.at + RECORD_HEADER_BYTES as u64 <= self.end {
            if let Some(record) = self.record_here()? {
                let key_len = record.key.len();
                self.at += record_bytes(key_len, record.value_len as usize);
                return Ok(Some(record));
            }
            self.at += ALIGN_BYTES;
            self.skipped += ALIGN_BYTES;
        }
        Ok(None)
    }

    fn record_here(&mut self) -> Result<Option<WalkedRecord>> {
        let (at, end, file_id) = (self.at, self.end, self.segment.file_id);
        let header = self.bytes(at, RECORD_HEADER_BYTES)?;
        let (key_len, value_len) = (u32_at(header, 8), u32_at(header, 12));
        let length = RECORD_HEADER_BYTES as u64 + u64::from(key_len) + u64::from(value_len);
        let plausible = key_len <= KEY_BYTES_MAX && value_len <= VALUE_BYTES_MAX;
        if !plausible
            || at + length > end
            || u32_at(header, 4) != header_checksum(file_id, at, header)
        {
            return Ok(None);
        }
        let checksum = u32_at(header, 0);
        let key = self.bytes(at + RECORD_HEADER_BYTES as u64, key_len as usize)?.to_vec();
        let segment = self.segment.number;
        let pointer = Pointer { segment, offset: at, length: length as u32, checksum };
        Ok(Some(WalkedRecord { pointer, key, value_len }))
    }

    /// `len` bytes (at most a key) at `at`, which lie in the file.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8]> {
        let end = at + len as u64;
        if at < self.buf_start || end > self.buf_start + self.buf_len as u64 {
            self.buf_start = at - at % BLOCK_BYTES as u64;
            self.buf_len = self.segment.file().read_at(self.buf_start, &mut self.buf)?;
        }
        let from = (at - self.buf_start) as usize;
        self.buf[..self.buf_len]
            .get(from..from + len)
            .ok_or_else(|| Error::corruption(self.segment.name(), at, "the file ends early"))
    }
}
