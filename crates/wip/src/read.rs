//! The way of a get: bucket → memtables in memory → one device read in the newest run whose filter
//! lets the key pass. The keys of a burst go one after the other through a window of reads in
//! flight: each is searched as its read ends, while the others are under way.

use crate::bucket::{LogEntries, Version};
use crate::metrics::add;
use crate::run::{Part, part_of};
use crate::wip::Wip;
use silica_base::{AlignedBuf, Error, Result};
use silica_device::{Device, Read, ReadQueue};
use silica_engine::{EntryRef, GetSink};
use silica_parts::frame::TOMBSTONE;
use silica_parts::table::{Lookup, Place};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Read buffers that one burst leaves to the next.
    static BUFFERS: Cell<Vec<AlignedBuf>> = const { Cell::new(Vec::new()) };
}

/// Buffers kept per thread, and the largest one worth keeping.
const BUFFERS_KEPT: usize = 64;
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// A key that no memtable has, on its way through the runs.
struct Search<D: Device> {
    index: usize,
    hash: u64,
    version: Arc<Version<D>>,
    /// The run to ask next.
    run: usize,
    /// What is being read.
    asked: Option<(Part<D>, usize)>,
}

impl<D: Device> AsRef<D::File> for Search<D> {
    fn as_ref(&self) -> &D::File {
        self.part().table.table.file()
    }
}

impl<D: Device> Search<D> {
    fn part(&self) -> &Part<D> {
        &self.asked.as_ref().expect("a read is of a part").0
    }

    /// Finds out what is to be read next; `None` where no run is left.
    fn step(&mut self, key: &[u8]) -> Option<Place> {
        while let Some(run) = self.version.runs.get(self.run) {
            self.run += 1;
            let Some(part) = part_of(run, key) else { continue };
            if part.table.table.may_contain(self.hash) {
                let block = part.table.table.block_of(key);
                let place = part.table.table.place(block);
                self.asked = Some((part.clone(), block));
                return Some(place);
            }
        }
        None
    }
}

impl<D: Device> Wip<D> {
    pub(crate) fn read_burst(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let mut burst = Burst {
            wip: self,
            keys,
            sink,
            reads: self.device.reads(self.config.read_depth),
            planned: Vec::new(),
            buffers: BUFFERS.take(),
            hits: 0,
            device_reads: 0,
            false_positives: 0,
        };
        for index in 0..keys.len() {
            burst.begin(index)?;
            burst.begin_reads()?;
        }
        while let Some(done) = burst.reads.pop() {
            burst.end_read(done)?;
            burst.begin_reads()?;
        }
        let m = &self.metrics;
        for (counter, n) in [
            (&m.gets, keys.len() as u64),
            (&m.hits, burst.hits),
            (&m.get_reads, burst.device_reads),
            (&m.false_positives, burst.false_positives),
        ] {
            add(counter, n);
        }
        BUFFERS.set(burst.buffers);
        Ok(())
    }
}

/// The keys of a burst that are not decided, and what they share. Where it ends early, the reads
/// in flight are waited for.
struct Burst<'b, D: Device> {
    wip: &'b Wip<D>,
    keys: &'b [&'b [u8]],
    sink: &'b mut dyn GetSink,
    reads: D::Reads<'b, Search<D>>,
    /// Found while the window was full.
    planned: Vec<(Search<D>, Place)>,
    buffers: Vec<AlignedBuf>,
    hits: u64,
    device_reads: u64,
    /// Reads that a filter asked for in vain.
    false_positives: u64,
}

impl<D: Device> Burst<'_, D> {
    /// Looks for a key in the memtables, and begins with the runs where it is not there.
    fn begin(&mut self, index: usize) -> Result<()> {
        let key = self.keys[index];
        let hash = self.wip.seed.low(key);
        let buckets = self.wip.buckets();
        let stores = buckets.of(key).read();
        // Taken under the bucket's lock: no segment that its memtables point at is missing.
        let segments = self.wip.log.segments();
        let version = stores.version.clone();
        let entries = LogEntries(&segments);
        if let Some(found) = stores.find(hash, key, &entries) {
            drop(stores);
            let frame = found.entry;
            let entry = EntryRef {
                value: frame.value,
                expires_unix_ms: frame.expires_unix_ms,
                user_bits: frame.user_bits,
            };
            self.report(index, frame.is_tombstone(), entry);
            return Ok(());
        }
        drop(stores);
        self.go_on(Search { index, hash, version, run: 0, asked: None });
        Ok(())
    }

    fn report(&mut self, index: usize, is_tombstone: bool, entry: EntryRef<'_>) {
        let expires = entry.expires_unix_ms;
        if !is_tombstone && (expires == 0 || expires > self.wip.clock.unix_ms()) {
            self.sink.found(index, entry);
            self.hits += 1;
        }
    }

    /// Plans the next read of a search, where it needs one.
    fn go_on(&mut self, mut search: Search<D>) {
        if let Some(place) = search.step(self.keys[search.index]) {
            self.planned.push((search, place));
        }
    }

    /// Begins the reads that are planned. Where the window is full, each takes the place of one
    /// that ended before that one is searched: the device never waits for the processor.
    fn begin_reads(&mut self) -> Result<()> {
        while let Some((search, place)) = self.planned.pop() {
            let done = if self.reads.is_full() { self.reads.pop() } else { None };
            let mut buf = self.buffers.pop().unwrap_or_else(|| AlignedBuf::zeroed(0));
            buf.resize(place.len);
            self.device_reads += 1;
            self.reads.push(Read { of: search, offset: place.offset, buf });
            if let Some(done) = done {
                self.end_read(done)?;
            }
        }
        Ok(())
    }

    /// Searches what a read brought, and goes on with its key.
    fn end_read(&mut self, (read, filled): (Read<Search<D>>, Result<usize>)) -> Result<()> {
        let Read { of: mut search, offset, buf } = read;
        let filled = filled?;
        let (part, block) = search.asked.take().expect("a read is of a part");
        let table = &part.table.table;
        if filled < buf.len() {
            return Err(Error::corruption(
                table.name(),
                offset + filled as u64,
                "the file ends early",
            ));
        }
        let key = self.keys[search.index];
        match table.search(block, &buf, key, u64::MAX)? {
            Lookup::Found(version) => {
                let entry = EntryRef {
                    value: version.value,
                    expires_unix_ms: version.expires_unix_ms,
                    user_bits: version.user_bits,
                };
                self.report(search.index, version.flags & TOMBSTONE != 0, entry);
            }
            Lookup::Next => {
                let place = table.place(block + 1);
                search.asked = Some((part.clone(), block + 1));
                self.planned.push((search, place));
            }
            Lookup::Absent => {
                self.false_positives += 1;
                self.go_on(search);
            }
        }
        if self.buffers.len() < BUFFERS_KEPT && buf.capacity() <= BUFFER_BYTES_KEPT {
            self.buffers.push(buf);
        }
        Ok(())
    }
}
