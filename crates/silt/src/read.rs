//! The way of a get: hash → partition → log stores in memory → one device read per candidate in
//! the hash stores and the sorted store, all keys of the burst together.

use crate::entry::Frame;
use crate::hash_store::Candidates;
use crate::metrics::add;
use crate::packed::{Extent, Found, PackedReader};
use crate::partition::Version;
use crate::silt::Silt;
use crate::sorted_store::Plan;
use silica_base::{AlignedBuf, Error, KeyHash, Result};
use silica_device::{Device, Read};
use silica_engine::GetSink;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// Read buffers that one burst leaves to the next.
    static BUFFERS: RefCell<Vec<AlignedBuf>> = const { RefCell::new(Vec::new()) };
}

/// Buffers kept per thread, and the largest one worth keeping.
const BUFFERS_KEPT: usize = 64;
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// A key that the log stores did not answer.
struct Pending<D: Device> {
    index: usize,
    hash: KeyHash,
    version: Arc<Version<D>>,
    /// The store being asked: hash stores youngest first, then the sorted store.
    store: usize,
    /// Places in that store still to be read; the next one last.
    extents: Vec<Extent>,
    asked: bool,
}

/// What a burst counts.
#[derive(Default)]
struct Tally {
    log: u64,
    hash: u64,
    sorted: u64,
    reads: u64,
    false_positives: u64,
}

/// Takes the newest frame of the key with an index; true where it counts as a hit.
type OnFrame<'a> = dyn FnMut(usize, &Frame<'_>) -> Result<bool> + 'a;

impl<D: Device> Silt<D> {
    pub(crate) fn read_burst(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let report = &mut |index, frame: &Frame<'_>| self.report(index, frame, sink);
        let tally = self.find_frames(keys, report)?;
        self.count_reads(keys.len(), &tally);
        Ok(())
    }

    /// The newest frame of `key`, a tombstone included, encoded.
    pub(crate) fn newest_frame(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut newest = None;
        self.find_frames(&[key], &mut |_, frame| {
            let mut bytes = Vec::with_capacity(frame.encoded_len());
            frame.encode(&mut bytes);
            newest = Some(bytes);
            Ok(true)
        })?;
        Ok(newest)
    }

    /// Calls `found` with the newest frame of every key that has one; it says whether the key
    /// counts as a hit.
    fn find_frames(&self, keys: &[&[u8]], found: &mut OnFrame<'_>) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut pending = Vec::new();
        let hashes = self.hash_and_prefetch(keys.iter().copied());
        for (index, (key, hash)) in keys.iter().zip(hashes).enumerate() {
            let stores = self.partition_of(hash).read();
            // Taken under the partition's lock: no segment that its tables point at is missing.
            let segments = self.log.segments();
            let newest = stores.find_in_log(&segments, self.log.end(), hash, key);
            if let Some(newest) = newest {
                drop(stores);
                tally.log += u64::from(found(index, &newest.frame)?);
                continue;
            }
            let version = stores.version.clone();
            let extents = Vec::new();
            pending.push(Pending { index, hash, version, store: 0, extents, asked: false });
        }
        if !pending.is_empty() {
            let mut buffers = BUFFERS.take();
            let result = self.read_stores(keys, pending, &mut buffers, &mut tally, found);
            buffers.truncate(BUFFERS_KEPT);
            buffers.retain(|b| b.capacity() <= BUFFER_BYTES_KEPT);
            BUFFERS.set(buffers);
            result?;
        }
        Ok(tally)
    }

    /// Hashes a burst of keys and asks the processor for the table lines that they will need.
    pub(crate) fn hash_and_prefetch<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
    ) -> Vec<KeyHash> {
        let is_burst = keys.len() > 1;
        keys.map(|key| {
            let hash = self.hash(key);
            if is_burst {
                self.partition_of(hash).read().active.prefetch(hash);
            }
            hash
        })
        .collect()
    }

    fn count_reads(&self, keys: usize, tally: &Tally) {
        let m = &self.metrics;
        add(&m.gets, keys as u64);
        for (counter, n) in [
            (&m.hits_log, tally.log),
            (&m.hits_hash, tally.hash),
            (&m.hits_sorted, tally.sorted),
            (&m.get_reads, tally.reads),
            (&m.false_positives, tally.false_positives),
        ] {
            if n > 0 {
                add(counter, n);
            }
        }
    }

    /// Reports `frame`, which is the newest of its key; true where the key exists.
    fn report(&self, index: usize, frame: &Frame<'_>, sink: &mut dyn GetSink) -> Result<bool> {
        if frame.is_tombstone() || self.is_expired(frame) {
            return Ok(false);
        }
        self.with_value(frame, &mut |entry| sink.found(index, entry))
    }

    /// True where the frame's time is over.
    #[inline]
    pub(crate) fn is_expired(&self, frame: &Frame<'_>) -> bool {
        frame.expires_unix_ms != 0 && frame.expires_unix_ms <= self.clock.unix_ms()
    }

    /// Asks the stores of all pending keys, one read per key and round, until each is decided.
    fn read_stores(
        &self,
        keys: &[&[u8]],
        mut pending: Vec<Pending<D>>,
        buffers: &mut Vec<AlignedBuf>,
        tally: &mut Tally,
        found: &mut OnFrame<'_>,
    ) -> Result<()> {
        loop {
            let mut failed = None;
            pending.retain_mut(|p| match p.next_extent() {
                Ok(more) => more,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            self.search_unindexed(&mut pending, keys, tally, found)?;
            if pending.is_empty() {
                return Ok(());
            }
            self.read_round(&pending, buffers, tally)?;
            let mut index = 0;
            let mut result = Ok(());
            pending.retain_mut(|p| {
                index += 1;
                let decided = self.search(p, keys, &mut buffers[index - 1], tally, found);
                decided.map_or_else(
                    |error| {
                        result = Err(error);
                        false
                    },
                    |decided| !decided,
                )
            });
            result?;
        }
    }

    /// Answers the keys whose sorted store has no index in memory, one after the other.
    fn search_unindexed(
        &self,
        pending: &mut Vec<Pending<D>>,
        keys: &[&[u8]],
        tally: &mut Tally,
        found: &mut OnFrame<'_>,
    ) -> Result<()> {
        let mut index = 0;
        while index < pending.len() {
            if !pending[index].extents.is_empty() {
                index += 1;
                continue;
            }
            let p = pending.swap_remove(index);
            let store = p.version.sorted_store.as_ref().expect("only a sorted store is searched");
            let reads_before = self.device.counters().snapshot().reads;
            let mut buf = AlignedBuf::zeroed(0);
            let newest = store.lookup(p.hash, keys[p.index], &mut buf)?;
            tally.reads += self.device.counters().snapshot().reads - reads_before;
            if let Some(frame) = newest {
                tally.sorted += u64::from(found(p.index, &frame)?);
            }
        }
        Ok(())
    }

    /// One submission: the next extent of every pending key, into the buffer of the same index.
    fn read_round(
        &self,
        pending: &[Pending<D>],
        buffers: &mut Vec<AlignedBuf>,
        tally: &mut Tally,
    ) -> Result<()> {
        while buffers.len() < pending.len() {
            buffers.push(AlignedBuf::zeroed(0));
        }
        let mut reads = Vec::with_capacity(pending.len());
        for (p, buf) in pending.iter().zip(buffers.iter_mut()) {
            let extent = p.extents.last().expect("a pending key has an extent");
            buf.resize(extent.bytes());
            reads.push(Read::new(p.reader().file(), extent.offset(), buf));
        }
        self.device.read_many(&mut reads);
        tally.reads += reads.len() as u64;
        for (read, p) in reads.iter_mut().zip(pending) {
            let filled = std::mem::replace(&mut read.result, Ok(0))?;
            if filled < read.buf.len() {
                let at = read.offset + filled as u64;
                return Err(Error::corruption(p.reader().name(), at, "the file ends early"));
            }
        }
        Ok(())
    }

    /// Looks for the key of `p` in what was read; true where the key is decided.
    fn search(
        &self,
        p: &mut Pending<D>,
        keys: &[&[u8]],
        buf: &mut AlignedBuf,
        tally: &mut Tally,
        found: &mut OnFrame<'_>,
    ) -> Result<bool> {
        let extent = p.extents.pop().expect("its extent was just read");
        let key = keys[p.index];
        let in_hash_store = p.store < p.version.hash_stores.len();
        match p.find(buf, extent, key)? {
            Found::Entry(frame) => {
                let there = u64::from(found(p.index, &frame)?);
                *(if in_hash_store { &mut tally.hash } else { &mut tally.sorted }) += there;
                Ok(true)
            }
            Found::Absent => {
                tally.false_positives += u64::from(in_hash_store);
                Ok(false)
            }
            Found::More(extent) => {
                p.extents.push(extent);
                Ok(false)
            }
        }
    }
}

impl<D: Device> Pending<D> {
    /// Makes sure that an extent is waiting; false where no store is left.
    fn next_extent(&mut self) -> Result<bool> {
        while self.extents.is_empty() {
            if self.asked {
                self.store += 1;
            }
            self.asked = true;
            if let Some(store) = self.version.hash_stores.get(self.store) {
                let mut candidates = Candidates::new();
                store.candidates(self.hash, &mut candidates)?;
                self.extents.extend(candidates.extents().iter().rev());
            } else if self.store > self.version.hash_stores.len() {
                return Ok(false);
            } else if let Some(store) = &self.version.sorted_store {
                match store.plan(self.hash) {
                    Plan::Read(extent) => self.extents.push(extent),
                    Plan::Absent => {}
                    Plan::Search => return Ok(true),
                }
            }
        }
        Ok(true)
    }

    fn reader(&self) -> &PackedReader<D::File> {
        match self.version.hash_stores.get(self.store) {
            Some(store) => store.reader(),
            None => self.version.sorted_store.as_ref().expect("an extent came from it").reader(),
        }
    }

    fn find<'b>(&self, buf: &'b mut [u8], extent: Extent, key: &[u8]) -> Result<Found<'b>> {
        match self.version.hash_stores.get(self.store) {
            Some(store) => store.find(buf, extent, key),
            None => {
                let store = self.version.sorted_store.as_ref().expect("an extent came from it");
                store.find(buf, extent, self.hash, key)
            }
        }
    }
}
