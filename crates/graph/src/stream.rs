//! Streams of bytes in segments of the shards' area.

use crate::memory::{Memory, Reserved};
use crate::storage::{Area, Storage};
use silica_base::{Error, ErrorKind, Result};
use std::sync::{Mutex, MutexGuard};

/// Bytes of a buffer at most.
const BUFFER_BYTES: u64 = 256 << 10;

/// A sequence of bytes that was written once: in these segments, the last of them partly used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) segments: Vec<u32>,
    /// Bytes that count; the last page may have more.
    pub(crate) bytes: u64,
}

/// Segments that no stream has.
#[derive(Debug)]
struct Free {
    /// Given back.
    again: Vec<u32>,
    /// From here on none was ever used.
    next: u32,
    limit: u32,
    /// Of streams that are not needed, and not given back yet.
    waiting: Vec<u32>,
}

/// One in so many segments waits to be given back: each time costs a page of trims and a sync,
/// which writes what is only sorted for the next merge.
const WAITING_SHARE: u32 = 16;

/// A storage, the memory for work on it, and its free segments.
pub(crate) struct Workspace<'a, S> {
    pub(crate) storage: &'a S,
    pub(crate) memory: &'a Memory,
    /// Memory that was free when the workspace was made.
    pub(crate) room_bytes: u64,
    free: Mutex<Free>,
}

impl<'a, S: Storage> Workspace<'a, S> {
    /// A workspace whose segments are free from `first` on.
    pub(crate) fn new(storage: &'a S, memory: &'a Memory, first: u32) -> Self {
        let limit = storage.segments(Area::Shards).unwrap_or(u64::from(u32::MAX));
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let free = Free { again: Vec::new(), next: first, limit, waiting: Vec::new() };
        let room_bytes = memory.free_bytes();
        Workspace { storage, memory, room_bytes, free: Mutex::new(free) }
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.storage.page_bytes()
    }

    /// Bytes of a buffer that takes one in `share` of the memory that is free.
    pub(crate) fn buffer_bytes(&self, share: u64) -> usize {
        let bytes = (self.memory.free_bytes() / share).min(BUFFER_BYTES) as usize;
        bytes / self.page_bytes() * self.page_bytes()
    }

    fn segment_bytes(&self) -> u64 {
        self.storage.segment_pages() * self.page_bytes() as u64
    }

    fn allocate(&self) -> Result<u32> {
        let mut free = self.free();
        if free.again.is_empty() && free.next == free.limit {
            drop(free);
            self.give_back()?;
            free = self.free();
        }
        if let Some(segment) = free.again.pop() {
            return Ok(segment);
        }
        if free.next == free.limit {
            let message = format!(
                "the {} segments of {} bytes for shards are full; sorting needs 16 bytes of them \
                 for each edge: use a larger flash",
                free.limit,
                self.segment_bytes()
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        free.next += 1;
        Ok(free.next - 1)
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().expect("no panic while locked")
    }

    /// The segments of streams are not needed any more. They are given back when they are many, or
    /// when others are wanted.
    pub(crate) fn release(&self, streams: impl IntoIterator<Item = Stream>) -> Result<()> {
        let mut free = self.free();
        free.waiting.extend(streams.into_iter().flat_map(|stream| stream.segments));
        // Files are not limited, and giving back costs nothing there.
        let is_limited = self.storage.segments(Area::Shards).is_some();
        if is_limited && free.waiting.len() < (free.limit / WAITING_SHARE) as usize {
            return Ok(());
        }
        drop(free);
        self.give_back()
    }

    /// Gives back all that was released.
    pub(crate) fn give_back(&self) -> Result<()> {
        let mut segments = std::mem::take(&mut self.free().waiting);
        segments.sort_unstable();
        let runs = segments.chunk_by(|a, b| a + 1 == *b);
        let runs: Vec<_> = runs.map(|run| (u64::from(run[0]), run.len() as u64)).collect();
        if !runs.is_empty() {
            self.storage.trim_all(Area::Shards, &runs)?;
        }
        self.free().again.extend(segments.iter().rev());
        Ok(())
    }

    /// Reads whole pages of a stream from byte `at` on, which is a page's first.
    pub(crate) fn read(&self, stream: &Stream, at: u64, out: &mut [u8]) -> Result<()> {
        let (page_bytes, segment_pages) = (self.page_bytes(), self.storage.segment_pages());
        let (mut page, mut out) = (at / page_bytes as u64, out);
        let mut reads = Vec::new();
        while !out.is_empty() {
            let (segment, within) = (page / segment_pages, page % segment_pages);
            let room = ((segment_pages - within) as usize * page_bytes).min(out.len());
            let (now, later) = out.split_at_mut(room);
            let segment = stream.segments.get(segment as usize).ok_or_else(|| {
                Error::corruption("a graph's stream", at, "it ends before what is read of it")
            })?;
            let pages = (now.len() / page_bytes) as u64;
            reads.push((u64::from(*segment) * segment_pages + within, now));
            page += pages;
            out = later;
        }
        self.storage.read_all(Area::Shards, reads)
    }
}

/// Appends to a new stream.
pub(crate) struct StreamWriter<'w, 'a, S> {
    space: &'w Workspace<'a, S>,
    stream: Stream,
    /// Whole pages of them are written when it is full.
    buffer: Vec<u8>,
    buffer_bytes: usize,
    /// Pages that are written.
    pages: u64,
    _reserved: Reserved,
}

impl<'w, 'a, S: Storage> StreamWriter<'w, 'a, S> {
    /// A stream that is written in pieces of about `buffer_bytes`, a page at least.
    pub(crate) fn new(space: &'w Workspace<'a, S>, buffer_bytes: usize) -> Result<Self> {
        let buffer_bytes = whole_pages(buffer_bytes, space.page_bytes());
        let reserved = space.memory.take(buffer_bytes as u64, "the buffers of streams")?;
        let stream = Stream::default();
        let buffer = Vec::with_capacity(buffer_bytes);
        Ok(StreamWriter { space, stream, buffer, buffer_bytes, pages: 0, _reserved: reserved })
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.pages * self.space.page_bytes() as u64 + self.buffer.len() as u64
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let room = self.buffer_bytes - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            if self.buffer.len() == self.buffer_bytes {
                self.write()?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Fills the page that was begun with zeroes.
    pub(crate) fn pad(&mut self) -> Result<()> {
        let page_bytes = self.space.page_bytes();
        self.buffer.resize(self.buffer.len().next_multiple_of(page_bytes), 0);
        if self.buffer.len() == self.buffer_bytes { self.write() } else { Ok(()) }
    }

    /// Writes the buffer, which has whole pages.
    fn write(&mut self) -> Result<()> {
        let (page_bytes, segment_pages) =
            (self.space.page_bytes(), self.space.storage.segment_pages());
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            let within = self.pages % segment_pages;
            if within == 0 {
                self.stream.segments.push(self.space.allocate()?);
            }
            let room = (segment_pages - within) as usize * page_bytes;
            let (now, later) = rest.split_at(room.min(rest.len()));
            let segment = *self.stream.segments.last().expect("one was allocated");
            let page = u64::from(segment) * segment_pages + within;
            self.space.storage.write(Area::Shards, page, now)?;
            self.pages += (now.len() / page_bytes) as u64;
            rest = later;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left. The stream is durable after a sync of the storage.
    pub(crate) fn finish(mut self) -> Result<Stream> {
        let bytes = self.len();
        self.pad()?;
        self.write()?;
        Ok(Stream { bytes, ..self.stream })
    }
}

/// Reads a stream from its beginning.
pub(crate) struct StreamReader<'w, 'a, S> {
    space: &'w Workspace<'a, S>,
    pub(crate) stream: Stream,
    /// Where the buffer begins.
    begin: u64,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    _reserved: Reserved,
}

impl<'w, 'a, S: Storage> StreamReader<'w, 'a, S> {
    /// A reader in pieces of about `buffer_bytes`, a page at least.
    pub(crate) fn new(
        space: &'w Workspace<'a, S>,
        stream: Stream,
        buffer_bytes: usize,
    ) -> Result<Self> {
        let bytes = whole_pages(buffer_bytes, space.page_bytes());
        let reserved = space.memory.take(bytes as u64, "the buffers of streams")?;
        let buffer = vec![0; bytes];
        Ok(StreamReader { space, stream, begin: 0, buffer, at: 0, filled: 0, _reserved: reserved })
    }

    /// The next number of 8 bytes.
    pub(crate) fn next_u64(&mut self) -> Result<Option<u64>> {
        if self.at == self.filled && !self.fill()? {
            return Ok(None);
        }
        let bytes = self.buffer[self.at..self.at + 8].try_into().expect("pages have whole numbers");
        self.at += 8;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    /// The next number of 4 bytes.
    pub(crate) fn next_u32(&mut self) -> Result<Option<u32>> {
        if self.at == self.filled && !self.fill()? {
            return Ok(None);
        }
        let bytes = self.buffer[self.at..self.at + 4].try_into().expect("pages have whole numbers");
        self.at += 4;
        Ok(Some(u32::from_le_bytes(bytes)))
    }

    /// Moves to byte `at`, a number's first.
    pub(crate) fn seek(&mut self, at: u64) -> Result<()> {
        let page = self.space.page_bytes() as u64;
        (self.begin, self.at, self.filled) = (at / page * page, 0, 0);
        if self.fill()? {
            self.at = ((at % page) as usize).min(self.filled);
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<bool> {
        // The first read is half as long. Buffers divide segments, so some of the later ones lie in
        // two segments, whose blocks are read side by side.
        let is_first = self.begin == 0 && self.filled == 0;
        let room = if is_first { self.buffer.len() / 2 } else { self.buffer.len() };
        let room = room.max(self.space.page_bytes()) / self.space.page_bytes();
        self.begin += self.filled as u64;
        let left = self.stream.bytes.saturating_sub(self.begin);
        self.at = 0;
        self.filled = left.min((room * self.space.page_bytes()) as u64) as usize;
        if self.filled == 0 {
            return Ok(false);
        }
        let pages = whole_pages(self.filled, self.space.page_bytes());
        self.space.read(&self.stream, self.begin, &mut self.buffer[..pages])?;
        Ok(true)
    }
}

/// As many whole pages as `bytes` need, one at least.
pub(crate) fn whole_pages(bytes: usize, page_bytes: usize) -> usize {
    bytes.next_multiple_of(page_bytes).max(page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::PolicyStorage;
    use silica_device::blocks::{FlashDevice, Geometry};
    use silica_device::sim::{SimFlash, SimFlashOptions};

    /// Each time that streams are given back costs a sync, which writes what is only sorted.
    #[test]
    fn streams_are_given_back_together_and_when_segments_are_wanted() {
        let geometry = Geometry {
            channels: 2,
            luns: 2,
            blocks: 64,
            pages: 16,
            page_bytes: 512,
            spare_bytes: 64,
        };
        let flash = SimFlash::new(1, SimFlashOptions::flash(geometry));
        let storage = PolicyStorage::format(flash.clone()).unwrap();
        let memory = Memory::new(1 << 20);
        let space = Workspace::new(&storage, &memory, 1);
        let segments = storage.segments(Area::Shards).unwrap();
        let write = || {
            let mut writer = StreamWriter::new(&space, 512).unwrap();
            writer.push(&[7; 1024]).unwrap();
            writer.finish().unwrap()
        };
        let before = flash.counters().syncs();
        // Ten times as many as there are: those that wait are given back in time.
        let rounds = segments * 10;
        for _ in 0..rounds {
            space.release([write()]).unwrap();
        }
        let syncs = flash.counters().syncs() - before;
        assert!(syncs <= rounds / 8, "{syncs} syncs for {rounds} streams");
        // All but the one that others begin with can be had at once.
        let held: Vec<Stream> = (1..segments).map(|_| write()).collect();
        space.release(held).unwrap();
        space.give_back().unwrap();
        assert_eq!(space.free().waiting, []);
    }
}
