//! Values of vertices: two copies in the results' area, each written from its first segment on.

use crate::memory::{Memory, Reserved};
use crate::program::Fixed;
use crate::state::SEGMENTS;
use crate::storage::{Area, Storage};
use crate::stream::whole_pages;
use silica_base::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::ops::Range;

/// The two copies of the values of a graph.
pub(crate) struct Copies<'a, S, V> {
    storage: &'a S,
    vertices: u64,
    /// Segments of a copy.
    segments: u64,
    value: PhantomData<V>,
}

impl<'a, S: Storage, V: Fixed> Copies<'a, S, V> {
    pub(crate) fn new(storage: &'a S, vertices: u64) -> Result<Self> {
        let segment_bytes = storage.segment_pages() * storage.page_bytes() as u64;
        let segments = (vertices * V::BYTES as u64).div_ceil(segment_bytes);
        let needed = SEGMENTS + 2 * segments;
        if let Some(there) = storage.segments(Area::Results).filter(|there| *there < needed) {
            let message = format!(
                "values of {vertices} vertices need {needed} segments of {segment_bytes} bytes, \
                 and there are {there}; use a larger flash"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        Ok(Copies { storage, vertices, segments, value: PhantomData })
    }

    /// Gives up whatever the area has behind the records: values of another program may have
    /// another length, and pages that stay would be copied.
    pub(crate) fn clear(&self) -> Result<()> {
        let segments = self.storage.segments(Area::Results).unwrap_or(SEGMENTS);
        self.storage.trim(Area::Results, SEGMENTS, segments - SEGMENTS)
    }

    fn first_page(&self, copy: u32) -> u64 {
        (SEGMENTS + u64::from(copy) * self.segments) * self.storage.segment_pages()
    }

    fn values_of_page(&self) -> u64 {
        (self.storage.page_bytes() / V::BYTES) as u64
    }

    /// Reads the values of some vertices into `out`, by way of `bytes`.
    pub(crate) fn read(
        &self,
        copy: u32,
        vertices: Range<u64>,
        bytes: &mut [u8],
        out: &mut [V],
    ) -> Result<()> {
        debug_assert_eq!(out.len() as u64, vertices.end - vertices.start);
        let per_page = self.values_of_page();
        let page_bytes = self.storage.page_bytes();
        let room = (bytes.len() / page_bytes) as u64;
        let mut at = vertices.start;
        let mut out = out;
        while at < vertices.end {
            let page = at / per_page;
            let pages = (vertices.end.div_ceil(per_page) - page).min(room);
            let bytes = &mut bytes[..pages as usize * page_bytes];
            self.storage.read(Area::Results, self.first_page(copy) + page, bytes)?;
            let end = ((page + pages) * per_page).min(vertices.end);
            let (now, later) = out.split_at_mut((end - at) as usize);
            let skipped = (at - page * per_page) as usize * V::BYTES;
            for (value, bytes) in now.iter_mut().zip(bytes[skipped..].chunks_exact(V::BYTES)) {
                *value = V::get(bytes);
            }
            (at, out) = (end, later);
        }
        Ok(())
    }

    /// Writes a copy from its beginning. What it had has as many pages, so every block of it dies
    /// when it is written over, and nothing needs to be given up before.
    pub(crate) fn writer(&self, copy: u32, memory: &Memory) -> Result<ValueWriter<'a, S, V>> {
        let page_bytes = self.storage.page_bytes();
        let room = (memory.free_bytes() / 16).min(WRITE_BYTES) as usize;
        let buffer_bytes = whole_pages(room.saturating_sub(page_bytes), page_bytes);
        Ok(ValueWriter {
            storage: self.storage,
            page: self.first_page(copy),
            buffer: Vec::with_capacity(buffer_bytes),
            buffer_bytes,
            value: PhantomData,
            _reserved: memory.take(buffer_bytes as u64, "the buffer of results")?,
        })
    }

    /// The values of a copy in their order, `step` vertices at a time.
    pub(crate) fn steps(&self, step: u64) -> impl Iterator<Item = Range<u64>> + use<S, V> {
        let vertices = self.vertices;
        let step = step.max(1);
        (0..vertices.div_ceil(step))
            .map(move |number| number * step..((number + 1) * step).min(vertices))
    }
}

/// Bytes that are written at a time at most.
const WRITE_BYTES: u64 = 1 << 20;

/// Writes values in their order.
pub(crate) struct ValueWriter<'a, S, V> {
    storage: &'a S,
    page: u64,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    value: PhantomData<V>,
    _reserved: Reserved,
}

impl<S: Storage, V: Fixed> ValueWriter<'_, S, V> {
    pub(crate) fn push(&mut self, values: &[V]) -> Result<()> {
        for value in values {
            let at = self.buffer.len();
            self.buffer.resize(at + V::BYTES, 0);
            value.put(&mut self.buffer[at..]);
            if self.buffer.len() == self.buffer_bytes {
                self.write()?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.storage.write(Area::Results, self.page, &self.buffer)?;
        self.page += (self.buffer.len() / self.storage.page_bytes()) as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left; durable after a sync.
    pub(crate) fn finish(mut self) -> Result<()> {
        let whole = self.buffer.len().next_multiple_of(self.storage.page_bytes());
        self.buffer.resize(whole, 0);
        self.write()
    }
}

/// Values of sources, as they slide past a shard (003…, 3.7.3: the sliding window).
pub(crate) struct Window<V> {
    values: Vec<V>,
    bytes: Vec<u8>,
    first: u64,
    filled: usize,
}

impl<V: Fixed> Window<V> {
    /// Memory of a window that reads `bytes` at a time.
    pub(crate) fn memory_bytes(bytes: usize) -> u64 {
        (bytes + bytes / V::BYTES * size_of::<V>()) as u64
    }

    pub(crate) fn new(bytes: usize) -> Self {
        let values = vec![V::default(); bytes / V::BYTES];
        Window { values, bytes: vec![0; bytes], first: 0, filled: 0 }
    }

    /// Forgets what it holds.
    pub(crate) fn reset(&mut self) {
        self.filled = 0;
    }

    /// The value of a vertex of a copy.
    #[inline]
    pub(crate) fn value<S: Storage>(
        &mut self,
        copies: &Copies<'_, S, V>,
        copy: u32,
        vertex: u32,
    ) -> Result<V> {
        let at = u64::from(vertex).wrapping_sub(self.first);
        if at < self.filled as u64 {
            return Ok(self.values[at as usize]);
        }
        let per_page = copies.values_of_page();
        self.first = u64::from(vertex) / per_page * per_page;
        let end = (self.first + self.values.len() as u64).min(copies.vertices);
        if u64::from(vertex) >= end {
            let what = "a source is not among the vertices; build the graph again";
            return Err(Error::corruption("a shard of the graph", u64::from(vertex), what));
        }
        self.filled = (end - self.first) as usize;
        let out = &mut self.values[..self.filled];
        copies.read(copy, self.first..end, &mut self.bytes, out)?;
        Ok(self.values[(u64::from(vertex) - self.first) as usize])
    }
}
