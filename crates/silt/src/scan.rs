//! Iteration in hash order over log stores, hash stores and the sorted store at once.

use crate::merge::{EntryStream, MergeStream};
use crate::packed::{CHUNK_BYTES, READ_AHEAD_BYTES};
use crate::partition::{Stores, Version};
use crate::position::expand;
use crate::read::Reads;
use crate::silt::Silt;
use crate::store_stream::StoreStream;
use silica_base::{Error, ErrorKind, KeyHash, Result};
use silica_device::{Device, DeviceFile, LogFile};
use silica_engine::{Count, EntryRef, Scan};
use silica_parts::frame::Frame;
use silica_parts::wal::Segments;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Entries of log stores with hashes in a range, sorted; of each key the newest.
pub(crate) struct LogStream<L> {
    segments: Arc<Segments<L>>,
    /// Hash and logical position.
    entries: Vec<(KeyHash, u64)>,
    /// One more than the index of the current entry.
    next: usize,
}

impl<L: LogFile> LogStream<L> {
    fn frame_at(&self, at: u64) -> (Frame<'_>, &[u8]) {
        let bytes = self.segments.bytes_from(at).expect("collected from these segments");
        let (frame, len) = Frame::decode(bytes).expect("collected as a whole frame");
        (frame, &bytes[..len])
    }

    fn current(&self) -> (KeyHash, u64) {
        self.entries[self.next - 1]
    }
}

impl<L: LogFile> EntryStream for LogStream<L> {
    fn advance(&mut self) -> Result<bool> {
        self.next = (self.next + 1).min(self.entries.len() + 1);
        Ok(self.next <= self.entries.len())
    }

    fn hash(&self) -> KeyHash {
        self.current().0
    }

    fn key(&self) -> &[u8] {
        self.frame_at(self.current().1).0.key
    }

    fn frame_bytes(&self) -> &[u8] {
        self.frame_at(self.current().1).1
    }
}

/// What a scan merges.
enum ScanStream<F, L> {
    Log(LogStream<L>),
    Store(Box<StoreStream<F>>),
}

impl<F: DeviceFile, L: LogFile> EntryStream for ScanStream<F, L> {
    fn advance(&mut self) -> Result<bool> {
        match self {
            ScanStream::Log(stream) => stream.advance(),
            ScanStream::Store(stream) => stream.advance(),
        }
    }

    fn hash(&self) -> KeyHash {
        match self {
            ScanStream::Log(stream) => stream.hash(),
            ScanStream::Store(stream) => stream.hash(),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            ScanStream::Log(stream) => stream.key(),
            ScanStream::Store(stream) => stream.key(),
        }
    }

    fn frame_bytes(&self) -> &[u8] {
        match self {
            ScanStream::Log(stream) => stream.frame_bytes(),
            ScanStream::Store(stream) => stream.frame_bytes(),
        }
    }
}

/// A consistent look at one block of one partition.
struct BlockView<D: Device> {
    version: Arc<Version<D>>,
    log: LogStream<D::Log>,
}

impl<D: Device> Reads<D> {
    /// Everything of a partition whose `hash.high()` lies in `range`, which is inside the
    /// partition.
    fn view_block(&self, partition: usize, range: &RangeInclusive<u64>) -> Result<BlockView<D>> {
        let stores = self.partitions[partition].read();
        let segments = self.journal.log.segments();
        let mut entries = Vec::new();
        self.collect(&stores, &segments, range, &mut entries)?;
        Ok(BlockView {
            version: stores.version.clone(),
            log: LogStream { segments: segments.clone(), entries, next: 0 },
        })
    }

    fn collect(
        &self,
        stores: &Stores<D>,
        segments: &Segments<D::Log>,
        range: &RangeInclusive<u64>,
        out: &mut Vec<(KeyHash, u64)>,
    ) -> Result<()> {
        let log_end = self.journal.log.end();
        let frozen = stores.version.frozen.iter().map(|f| &f.table);
        for table in std::iter::once(&stores.active).chain(frozen) {
            // Tables differ in shape: all blocks of this one that the range touches.
            let geometry = table.geometry();
            let block = |high: u64| geometry.block_of(KeyHash(u128::from(high) << 64));
            let first = geometry.buckets_of_block(block(*range.start())).start;
            let last = geometry.buckets_of_block(block(*range.end())).end;
            for (_, _, short) in table.occupied_in(first..last) {
                let at = expand(log_end, short);
                let hash = self.ground.hash(log_key(segments, at)?);
                if range.contains(&hash.high()) {
                    out.push((hash, at));
                }
            }
        }
        // Of equal keys the one with the highest position is the newest.
        let key_of = |at: u64| log_key(segments, at).unwrap_or(b"");
        out.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| key_of(a.1).cmp(key_of(b.1))).then(b.1.cmp(&a.1))
        });
        out.dedup_by(|b, a| a.0 == b.0 && key_of(a.1) == key_of(b.1));
        Ok(())
    }

    /// Visits the newest frame of every key with `from <= hash.high()`, tombstones and expired
    /// ones included, in hash order until `visit` says no. Goes on block by block; the next
    /// position, which is even, or `None` at the end.
    pub(crate) fn walk(
        &self,
        from: u64,
        read_ahead: usize,
        visit: &mut dyn FnMut(KeyHash, &Frame<'_>) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let mut position = from;
        loop {
            let hash = KeyHash(u128::from(position) << 64);
            let (partition, geometry) =
                (self.ground.partition_index(hash), self.partitions.geometry_at(hash));
            let block = geometry.block_of(hash);
            let (_, last) = geometry.block_range(partition as u64, block);
            let range = position..=last;
            if let Some(next) = self.walk_block(partition, range, read_ahead, visit)? {
                return Ok(Some(next));
            }
            if last == u64::MAX {
                return Ok(None);
            }
            position = last + 1;
        }
    }

    /// Visits one block; where to go on if `visit` said no.
    fn walk_block(
        &self,
        partition: usize,
        range: RangeInclusive<u64>,
        read_ahead: usize,
        visit: &mut dyn FnMut(KeyHash, &Frame<'_>) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let view = self.view_block(partition, &range)?;
        let start = KeyHash(u128::from(*range.start()) << 64);
        let mut streams = vec![ScanStream::Log(view.log)];
        let stores = self.partitions.store_streams(&view.version, start, read_ahead)?;
        streams.extend(stores.into_iter().map(|s| ScanStream::Store(Box::new(s))));
        let mut merged = MergeStream::new(streams);
        let mut last_visited = None;
        let mut stopped = false;
        while merged.advance()? {
            let hash = merged.hash();
            if !range.contains(&hash.high()) {
                break;
            }
            // Entries that share a cursor position are visited together.
            let position = hash.high() & !1;
            if stopped && last_visited != Some(position) {
                return Ok(Some(position));
            }
            stopped |= !visit(hash, &merged.frame())?;
            last_visited = Some(position);
        }
        Ok((stopped && *range.end() < u64::MAX).then(|| *range.end() + 1))
    }

    /// Walks all entries.
    pub(crate) fn count_exactly(&self) -> Result<Count> {
        let mut n = 0;
        self.walk(0, READ_AHEAD_BYTES, &mut |_, frame| {
            n += u64::from(!frame.is_tombstone() && !self.ground.is_expired(frame));
            Ok(true)
        })?;
        Ok(Count { low: n, estimate: n, high: n })
    }
}

fn log_key<L: LogFile>(segments: &Segments<L>, at: u64) -> Result<&[u8]> {
    let frame = segments.bytes_from(at).and_then(Frame::decode);
    frame.map(|(frame, _)| frame.key).ok_or_else(|| {
        Error::new(ErrorKind::Corruption, format!("log position {at} holds no entry"))
    })
}

impl<D: Device> Scan for Silt<D> {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let mut visited = 0;
        // A short scan reads little; a long one reads as far ahead as pays.
        let read_ahead = (limit.saturating_mul(256)).clamp(CHUNK_BYTES, READ_AHEAD_BYTES);
        // Positions are even, so that half of one is a cursor.
        let Some(from) = cursor.checked_mul(2) else { return Ok(None) };
        let next = self.reads.walk(from, read_ahead, &mut |_, frame| {
            if !frame.is_tombstone() && !self.ground.is_expired(frame) {
                let there = self.reads.with_value(frame, &mut |entry| visit(frame.key, entry))?;
                visited += usize::from(there);
            }
            Ok(visited < limit)
        })?;
        Ok(next.map(|position| position / 2))
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        self.ground.hash(key).high() / 2
    }
}
