//! Gets: the index names a place, and the item is read there, from a slab in memory or from as few
//! pages of flash as it has. All reads of a burst are under way together.
//!
//! Nothing is locked meanwhile. If the item was moved or its slab given up, what is read does not
//! match, and the key is looked up again: the index then names another place or none. If it names
//! the same and it does not match again, the item is damaged, and is a miss.

use crate::atomic::{Owned, Seen};
use crate::cache::Dida;
use crate::flash::{Flash, PageRead};
use crate::item::{self, Item};
use crate::layout::Place;
use crate::slabs::Whereabouts;
use silica_base::{AlignedBuf, Result};
use silica_device::blocks::{FlashFault, FlashResult};
use silica_device::{Device, LogFile};
use silica_engine::GetSink;
use std::sync::atomic::Ordering;

/// Bytes of the reads that are under way together at most, unless it is one.
const BURST_BYTES: usize = 8 << 20;
/// From so many bytes on a value is asked about before it is reported.
const LARGE_BYTES: usize = 4096;
/// Times that an item is read before it counts as damaged.
const ATTEMPTS: u32 = 4;

/// Where a key's item is, as the index says.
enum Sought<L> {
    Memory(std::sync::Arc<L>),
    Flash {
        block: u32,
        first: u32,
        pages: u32,
    },
    /// Its slab is on its way from memory to flash, or away: to be looked up again.
    Moving,
}

/// A key whose item is being read.
struct Reading {
    index: usize,
    hash: u64,
    slot: u64,
    sequence: u64,
    attempt: u32,
}

/// How an item compares with the key that was sought.
#[derive(PartialEq, Eq)]
enum Outcome {
    Found,
    /// It is not there, or has expired.
    Missing,
    /// What is there is not what the index names.
    Unmatched,
}

impl<F: Flash, D: Device> Dida<F, D> {
    fn seek(&self, slot: u64) -> Sought<D::Log> {
        let place = self.layout.place_of(slot);
        match self.slabs.get(place.slab).whereabouts() {
            Whereabouts::Memory(number) => match self.streams.resident(number, place.slab) {
                Some(log) => Sought::Memory(log),
                None => Sought::Moving,
            },
            Whereabouts::Block(block) => {
                let (first, pages) = self.layout.pages_of_slot(slot);
                Sought::Flash { block, first, pages }
            }
            Whereabouts::Nowhere => Sought::Moving,
        }
    }

    /// Looks up a burst that somebody asked for. With `left`, what would have to be read from flash
    /// goes there instead.
    pub(crate) fn read_burst(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: Option<&mut Vec<usize>>,
    ) -> Result<()> {
        let (looked_up, hits) = self.look_up(keys, sink, left)?;
        self.counts.gets.fetch_add(looked_up, Ordering::Relaxed);
        self.counts.hits.fetch_add(hits, Ordering::Relaxed);
        Ok(())
    }

    /// Looks up a burst and counts nothing; returns how many keys were looked up, and how many were
    /// found.
    pub(crate) fn look_up(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        mut left: Option<&mut Vec<usize>>,
    ) -> Result<(u64, u64)> {
        let mut now = None;
        let mut hits = 0;
        let mut reads: Vec<PageRead> = Vec::new();
        let mut readings: Vec<Reading> = Vec::new();
        let mut bytes = 0;
        let mut again: Vec<Reading> = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let hash = self.seed.low(key);
            let Some(found) = self.index.find(&self.layout, hash) else { continue };
            let mut reading = self.reading(index, hash, found.slot, 0);
            match self.seek(found.slot) {
                Sought::Memory(log) => {
                    let place = self.layout.place_of(found.slot);
                    match self.report(key, &reading, behind(&*log, place), place, sink, &mut now) {
                        Outcome::Found => hits += 1,
                        Outcome::Missing => {}
                        Outcome::Unmatched => again.push(reading),
                    }
                }
                Sought::Flash { block, first, pages } => {
                    if let Some(left) = &mut left {
                        left.push(index);
                        continue;
                    }
                    let len = pages as usize * self.layout.shape.page_bytes as usize;
                    if bytes + len > BURST_BYTES && !reads.is_empty() {
                        let batch = std::mem::take(&mut reads);
                        let of = std::mem::take(&mut readings);
                        hits += self.read_batch(keys, of, batch, sink, &mut now, &mut again);
                        bytes = 0;
                    }
                    bytes += len;
                    reading.attempt += 1;
                    let of = readings.len();
                    readings.push(reading);
                    reads.push(PageRead { of, block, first, pages: AlignedBuf::zeroed(len) });
                }
                Sought::Moving => again.push(reading),
            }
        }
        if !reads.is_empty() {
            hits += self.read_batch(keys, readings, reads, sink, &mut now, &mut again);
        }
        for reading in again {
            if let Some(left) = &mut left {
                left.push(reading.index);
            } else if self.read_again(keys[reading.index], reading, sink, &mut now)? {
                hits += 1;
            }
        }
        let missed = left.map_or(0, |left| left.len());
        Ok(((keys.len() - missed.min(keys.len())) as u64, hits))
    }

    fn reading(&self, index: usize, hash: u64, slot: u64, attempt: u32) -> Reading {
        let slab = self.slabs.get(self.layout.place_of(slot).slab);
        let sequence = slab.sequence.load(Ordering::Relaxed);
        Reading { index, hash, slot, sequence, attempt }
    }

    /// Reads items from flash, all at the same time; how many were found.
    fn read_batch(
        &self,
        keys: &[&[u8]],
        readings: Vec<Reading>,
        reads: Vec<PageRead>,
        sink: &mut dyn GetSink,
        now: &mut Option<u64>,
        again: &mut Vec<Reading>,
    ) -> u64 {
        let mut hits = 0;
        let mut readings: Vec<Option<Reading>> = readings.into_iter().map(Some).collect();
        self.counts.device_reads.fetch_add(reads.len() as u64, Ordering::Relaxed);
        self.flash.read_many(reads, &mut |read, result| {
            let reading = readings[read.of].take().expect("each read ends once");
            let key = keys[reading.index];
            match self.judge(key, &reading, &read.pages, result, sink, now) {
                Outcome::Found => hits += 1,
                Outcome::Missing => {}
                Outcome::Unmatched => again.push(reading),
            }
        });
        hits
    }

    /// What pages that were read say of a key.
    fn judge(
        &self,
        key: &[u8],
        reading: &Reading,
        pages: &[u8],
        result: FlashResult<()>,
        sink: &mut dyn GetSink,
        now: &mut Option<u64>,
    ) -> Outcome {
        if result.is_err() {
            return Outcome::Unmatched;
        }
        let place = self.layout.place_of(reading.slot);
        let at = place.offset as usize % self.layout.shape.page_bytes as usize;
        self.report(key, reading, &pages[at..], place, sink, now)
    }

    /// Reports the item in `bytes` if it is the key's.
    fn report(
        &self,
        key: &[u8],
        reading: &Reading,
        bytes: &[u8],
        place: Place,
        sink: &mut dyn GetSink,
        now: &mut Option<u64>,
    ) -> Outcome {
        let seal = self.seal(reading.sequence);
        let Some((Item { key: own, entry }, _)) = item::decode(bytes, seal, place.offset) else {
            return Outcome::Unmatched;
        };
        if own != key {
            // A stranger with the key's tag, unless the index says something else by now.
            let named = self.named(reading.hash);
            let is_same = named == Some((reading.slot, reading.sequence));
            return if is_same { Outcome::Missing } else { Outcome::Unmatched };
        }
        let expires = entry.expires_unix_ms;
        if expires != 0 && expires <= *now.get_or_insert_with(|| self.clock.unix_ms()) {
            return Outcome::Missing;
        }
        self.slabs.get(place.slab).touch(self.tick());
        if entry.value.len() < LARGE_BYTES || sink.wants(reading.index, entry.value.len()) {
            sink.found(reading.index, entry);
        }
        Outcome::Found
    }

    /// Looks a key up until the index and the item that it names agree. True if it is found.
    fn read_again(
        &self,
        key: &[u8],
        mut last: Reading,
        sink: &mut dyn GetSink,
        now: &mut Option<u64>,
    ) -> Result<bool> {
        loop {
            let Some(found) = self.index.find(&self.layout, last.hash) else { return Ok(false) };
            let is_same = found.slot == last.slot;
            let attempt = if is_same { last.attempt } else { 0 };
            let reading = self.reading(last.index, last.hash, found.slot, attempt);
            let is_same = is_same && reading.sequence == last.sequence;
            if is_same && attempt >= ATTEMPTS {
                return self.give_up(&reading).map(|()| false);
            }
            let place = self.layout.place_of(found.slot);
            let (outcome, is_read) = match self.seek(found.slot) {
                Sought::Memory(log) => {
                    (self.report(key, &reading, behind(&*log, place), place, sink, now), true)
                }
                Sought::Flash { block, first, pages } => {
                    let len = pages as usize * self.layout.shape.page_bytes as usize;
                    let mut buffer = AlignedBuf::zeroed(len);
                    self.counts.device_reads.fetch_add(1, Ordering::Relaxed);
                    let result = self.flash.read(block, first, &mut buffer);
                    if let Err(error) = &result
                        && matches!(error.fault(), FlashFault::PowerLost | FlashFault::Io)
                    {
                        return result.map(|()| false).map_err(Into::into);
                    }
                    (self.judge(key, &reading, &buffer, result, sink, now), true)
                }
                Sought::Moving => {
                    std::hint::spin_loop();
                    (Outcome::Unmatched, false)
                }
            };
            match outcome {
                Outcome::Found => return Ok(true),
                Outcome::Missing => return Ok(false),
                Outcome::Unmatched => {
                    last = Reading { attempt: attempt + u32::from(is_read), ..reading };
                }
            }
        }
    }

    /// The item that a slot names is damaged: it leaves the index.
    #[cold]
    fn give_up(&self, reading: &Reading) -> Result<()> {
        let guard = self.index.lock(self.layout.bucket(reading.hash));
        let place = self.layout.place_of(reading.slot);
        let found = self.index.find_at(&self.layout, reading.hash, place);
        let Some(found) = found.filter(|found| found.slot == reading.slot) else { return Ok(()) };
        self.record(&[self.dead(place)])?;
        self.index.store(found.at, 0);
        self.bury(place);
        self.counts.damaged.fetch_add(1, Ordering::Relaxed);
        drop(guard);
        self.journal.settle()
    }

    /// The entry of a key, and what to compare later.
    pub(crate) fn see(&self, key: &[u8], hash: u64) -> Result<Seen> {
        struct One(Option<Owned>);
        impl GetSink for One {
            fn found(&mut self, _index: usize, entry: silica_engine::EntryRef<'_>) {
                self.0 = Some(Owned::new(entry));
            }
        }
        loop {
            let before = self.named(hash);
            let mut sink = One(None);
            let (mut now, mut is_read) = (None, true);
            if let Some((slot, _)) = before {
                let reading = self.reading(0, hash, slot, 0);
                self.read_again(key, reading, &mut sink, &mut now)?;
                is_read = self.named(hash) == before;
            }
            if is_read {
                return Ok(Seen { slot: before, entry: sink.0 });
            }
        }
    }

    /// The slot of a hash, and the sequence of its slab.
    fn named(&self, hash: u64) -> Option<(u64, u64)> {
        let found = self.index.find(&self.layout, hash)?;
        let slab = self.slabs.get(self.layout.place_of(found.slot).slab);
        Some((found.slot, slab.sequence.load(Ordering::Relaxed)))
    }
}

/// Bytes of a slab in memory from a place on; none if the slab is a newer one, which does not reach
/// so far yet.
fn behind<L: LogFile>(log: &L, place: Place) -> &[u8] {
    let offset = u64::from(place.offset);
    match log.len().checked_sub(offset) {
        Some(len) => log.bytes(offset, len as usize),
        None => &[],
    }
}
