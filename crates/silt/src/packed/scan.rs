//! Sequential reading with large read-ahead, for merges, scans and verification.

use super::chunk::{self, CHUNK_BYTES, PAYLOAD_BYTES, Trailer};
use super::layout::Extent;
use super::reader::PackedReader;
use silica_base::{AlignedBuf, Result};
use silica_device::DeviceFile;
use silica_parts::frame::{Frame, Header};
use std::ops::Range;
use std::sync::Arc;

/// Read-ahead that reaches a device's sequential bandwidth.
pub const READ_AHEAD_BYTES: usize = 1 << 20;
/// Chunks of the first read: a scan that soon ends does not read a megabyte. Each read that
/// follows on is twice as long, up to the read-ahead.
const FIRST_READ_CHUNKS: u64 = 8;

/// Walks the entries of a file in order. After [`ChunkScan::advance`] returned true, the other
/// methods speak of the entry it moved to.
///
/// Entries inside a chunk are borrowed from the read buffer; only those that cross a border are
/// copied together.
pub struct ChunkScan<F> {
    reader: Arc<PackedReader<F>>,
    buf: AlignedBuf,
    read_ahead_chunks: u64,
    /// Chunks of the next read.
    next_read_chunks: u64,
    /// Number of the chunk at the start of `buf`.
    buf_chunk: u64,
    buf_chunks: u64,
    /// The chunk being walked and its trailer.
    chunk: u64,
    trailer: Trailer,
    /// Payload offset of the next entry.
    at: usize,
    entry: Entry,
    joined: Vec<u8>,
}

/// The entry moved to.
#[derive(Debug, Clone, Default)]
struct Entry {
    chunk: u64,
    /// In `joined` if it crosses a border, otherwise in `buf`.
    is_joined: bool,
    frame: Range<usize>,
    key: Range<usize>,
    flags: u8,
}

impl<F: DeviceFile> ChunkScan<F> {
    pub(super) fn new(reader: Arc<PackedReader<F>>, chunk: u64, read_ahead_bytes: usize) -> Self {
        ChunkScan {
            reader,
            buf: AlignedBuf::zeroed(0),
            read_ahead_chunks: (read_ahead_bytes / CHUNK_BYTES).max(1) as u64,
            next_read_chunks: FIRST_READ_CHUNKS,
            buf_chunk: 0,
            buf_chunks: 0,
            chunk,
            trailer: Trailer { first: 0, used: 0 },
            at: usize::MAX,
            entry: Entry::default(),
            joined: Vec::new(),
        }
    }

    /// The file being read.
    pub fn reader(&self) -> &Arc<PackedReader<F>> {
        &self.reader
    }

    /// Goes back or forth to `chunk`: the next entry is the first that starts there or behind.
    pub fn restart(&mut self, chunk: u64) {
        self.chunk = chunk;
        self.at = usize::MAX;
    }

    /// Reads this much at a time from the next read on.
    pub fn set_read_ahead(&mut self, bytes: usize) {
        self.read_ahead_chunks = (bytes / CHUNK_BYTES).max(1) as u64;
    }

    /// Makes `chunk` the chunk being walked; false behind the last one.
    fn enter(&mut self, chunk: u64) -> Result<bool> {
        let data_chunks = self.reader.footer().data_chunks;
        if chunk >= data_chunks {
            return Ok(false);
        }
        if chunk < self.buf_chunk || chunk >= self.buf_chunk + self.buf_chunks {
            let follows_on = self.buf_chunks > 0 && chunk == self.buf_chunk + self.buf_chunks;
            let wanted = if follows_on { self.next_read_chunks } else { FIRST_READ_CHUNKS };
            let chunks = wanted.min(self.read_ahead_chunks).min(data_chunks - chunk);
            self.next_read_chunks = 2 * chunks;
            // A failed read leaves the buffer's bytes undefined.
            self.buf_chunks = 0;
            let extent = Extent { chunk, chunks: chunks as u32, at: 0 };
            self.reader.read(extent, &mut self.buf)?;
            (self.buf_chunk, self.buf_chunks) = (chunk, chunks);
        }
        let start = (chunk - self.buf_chunk) as usize * CHUNK_BYTES;
        let (name, file_id) = (self.reader.name(), self.reader.footer().file_id);
        self.trailer = chunk::check(&self.buf[start..], name, file_id, chunk)?;
        self.chunk = chunk;
        Ok(true)
    }

    /// True where the next entry starts in the chunk of the current one.
    pub(super) fn is_inside_chunk(&self) -> bool {
        self.chunk == self.entry.chunk && self.at < self.trailer.used
    }

    fn payload(&self) -> Range<usize> {
        let start = (self.chunk - self.buf_chunk) as usize * CHUNK_BYTES;
        start..start + self.trailer.used
    }

    /// Moves to the next entry; false at the end. After an error the scan is over.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        if self.at == usize::MAX {
            if !self.enter(self.chunk)? {
                return Ok(false);
            }
            self.at = self.trailer.first;
        }
        while self.at >= self.trailer.used {
            if !self.enter(self.chunk + 1)? {
                return Ok(false);
            }
            self.at = self.trailer.first;
        }
        let payload = self.payload();
        let start = payload.start + self.at;
        match Frame::decode(&self.buf[start..payload.end]) {
            Some((frame, len)) => {
                let key_end = len - frame.value.len();
                let key = key_end - frame.key.len()..key_end;
                self.at += len;
                self.entry = Entry {
                    chunk: self.chunk,
                    is_joined: false,
                    frame: start..start + len,
                    key: start + key.start..start + key.end,
                    flags: frame.flags,
                };
                Ok(true)
            }
            None => self.advance_crossing(start..payload.end),
        }
    }

    fn advance_crossing(&mut self, head: Range<usize>) -> Result<bool> {
        let (chunk, offset) = (self.chunk, self.at);
        if self.trailer.used < PAYLOAD_BYTES {
            return Err(self.reader.damaged(chunk, offset, "no entry where one should start"));
        }
        self.joined.clear();
        self.joined.extend_from_slice(&self.buf[head]);
        loop {
            if !self.enter(self.chunk + 1)? {
                return Err(self.reader.damaged(chunk, offset, "an entry does not end"));
            }
            let payload = self.payload();
            let start = payload.start;
            self.joined.extend_from_slice(&self.buf[start..start + self.trailer.first]);
            if self.trailer.first < PAYLOAD_BYTES {
                break;
            }
            // The entry may end exactly at the border.
            if Header::decode(&self.joined).is_some_and(|h| h.frame_len() <= self.joined.len()) {
                break;
            }
        }
        self.at = self.trailer.first;
        let Some((frame, len)) = Frame::decode(&self.joined) else {
            return Err(self.reader.damaged(chunk, offset, "an entry does not end"));
        };
        if len != self.joined.len() {
            return Err(self.reader.damaged(chunk, offset, "an entry ends before the next starts"));
        }
        let key_end = len - frame.value.len();
        let key = key_end - frame.key.len()..key_end;
        let flags = frame.flags;
        self.entry = Entry { chunk, is_joined: true, frame: 0..len, key, flags };
        Ok(true)
    }

    /// The chunk that the entry starts in.
    #[inline]
    pub fn chunk(&self) -> u64 {
        self.entry.chunk
    }

    /// Byte offset in the file of the chunk that the entry starts in.
    pub fn offset(&self) -> u64 {
        self.entry.chunk * CHUNK_BYTES as u64
    }

    /// The entry's flags.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.entry.flags
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.entry.is_joined { &self.joined } else { &self.buf }
    }

    /// The entry's encoded frame.
    #[inline]
    pub fn frame_bytes(&self) -> &[u8] {
        &self.bytes()[self.entry.frame.clone()]
    }

    /// The entry's key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes()[self.entry.key.clone()]
    }

    /// Where the key lies in the frame.
    #[inline]
    pub(crate) fn key_range(&self) -> Range<usize> {
        let start = self.entry.frame.start;
        self.entry.key.start - start..self.entry.key.end - start
    }
}
