//! Appending, syncing and reading values.

use super::garbage::Garbage;
use super::record_read::RecordRead;
use super::segment::{
    self, Header, POINTER_BYTES, Pointer, RECORD_HEADER_BYTES, Segment, record_bytes,
};
use super::state::State;
use silica_base::{Error, ErrorKind, Result};
use silica_device::{Device, DeviceFile, Mode};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Records up to this size are written in one piece.
const ONE_WRITE_BYTES: usize = 64 << 10;

/// Segments smaller than this part of a full one are small, and so many of them may lie about.
const SMALL_SHARE: u64 = 8;
const SMALL_SEGMENTS_MAX: usize = 16;

/// A segment file of a device.
pub type SegmentOf<D> = Segment<<D as Device>::File>;

/// Keeps a segment from being reclaimed while a write that stored a value there is under way.
pub struct Pin<F>(Arc<Segment<F>>);

impl<F> Pin<F> {
    fn new(segment: &Arc<Segment<F>>) -> Self {
        segment.pins.fetch_add(1, Ordering::AcqRel);
        Pin(segment.clone())
    }
}

impl<F> Drop for Pin<F> {
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The values of a batch that are in the value log. Their segments are not reclaimed while this
/// lives, so it must live until the batch is in the log.
pub struct Stored<F> {
    /// Encoded pointers by index of the operation; empty where no value was large.
    pointers: Vec<Option<[u8; POINTER_BYTES]>>,
    pins: Vec<Pin<F>>,
    /// Bytes that they take.
    pub bytes: u64,
}

impl<F> Default for Stored<F> {
    fn default() -> Self {
        Stored { pointers: Vec::new(), pins: Vec::new(), bytes: 0 }
    }
}

impl<F> Stored<F> {
    /// The encoded pointer of operation `index`, if its value is in the value log.
    pub fn pointer(&self, index: usize) -> Option<&[u8]> {
        self.pointers.get(index)?.as_ref().map(|pointer| &pointer[..])
    }
}

/// Values whose batch is written much later. Their segments are not reclaimed while this lives.
pub struct Kept<F> {
    pins: BTreeMap<u32, Pin<F>>,
    /// Bytes of their records.
    pub records: Garbage,
}

impl<F> Default for Kept<F> {
    fn default() -> Self {
        Kept { pins: BTreeMap::new(), records: Garbage::default() }
    }
}

impl<F> Kept<F> {
    /// Keeps the values of a batch, too.
    pub fn add(&mut self, stored: Stored<F>) {
        stored.pointers.iter().flatten().for_each(|pointer| self.records.add(pointer));
        self.pins.extend(stored.pins.into_iter().map(|pin| (pin.0.number, pin)));
    }

    /// Keeps what `other` keeps, too.
    pub fn add_all(&mut self, other: &Kept<F>) {
        self.records.add_all(&other.records);
        self.pins.extend(other.pins.iter().map(|(number, pin)| (*number, Pin::new(&pin.0))));
    }
}

/// Segments that may hold bytes which are not durable yet.
struct Open<F> {
    /// The segment that takes appends.
    current: Option<Arc<Segment<F>>>,
    /// Full ones that are not opened for direct reads yet.
    full: Vec<Arc<Segment<F>>>,
    next_number: u32,
}

/// The value log of one store.
pub struct ValueLog<D: Device> {
    pub(super) device: Arc<D>,
    store_id: u64,
    segment_bytes: u64,
    segments: RwLock<BTreeMap<u32, Arc<SegmentOf<D>>>>,
    open: Mutex<Open<D::File>>,
    /// One sync at a time: a second caller must not return before the first one's is done.
    sync: Mutex<()>,
    poisoned: AtomicBool,
}

impl<D: Device> ValueLog<D> {
    /// Opens the segments that the manifest names, with their dead bytes as far as known.
    pub fn open(device: Arc<D>, store_id: u64, segment_bytes: u64, state: &State) -> Result<Self> {
        let mut segments = BTreeMap::new();
        for &number in &state.segments {
            let dead = state.dead.get(&number).copied().unwrap_or(0);
            let segment = Segment::open(&*device, store_id, number)?;
            let payload = segment.record_bytes();
            segment.dead.store(dead.min(payload), Ordering::Relaxed);
            segments.insert(number, Arc::new(segment));
        }
        Ok(ValueLog {
            device,
            store_id,
            segment_bytes,
            segments: RwLock::new(segments),
            open: Mutex::new(Open { current: None, full: Vec::new(), next_number: state.next }),
            sync: Mutex::new(()),
            poisoned: AtomicBool::new(false),
        })
    }

    /// True after a failed sync.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    fn check(&self) -> Result<()> {
        if self.is_poisoned() {
            let message = "a sync of the value log failed earlier; reopen the store to go on from \
                           what is durable";
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        Ok(())
    }

    /// Appends a record; when it returns the bytes are the kernel's. The segment is not reclaimed
    /// while the pin is held, so it must live until an entry points at the value. `register` puts
    /// a new segment's number into the manifest.
    pub fn append(
        &self,
        key: &[u8],
        value: &[u8],
        register: &dyn Fn(u32) -> Result<()>,
    ) -> Result<(Pointer, Pin<D::File>)> {
        self.check()?;
        let bytes = record_bytes(key.len(), value.len());
        let (segment, offset, pin) = {
            let mut open = self.open.lock().expect("no panic while held");
            let segment = self.segment_for(&mut open, bytes, register)?;
            // Reserved here, written below without the lock.
            let offset = segment.end.fetch_add(bytes, Ordering::AcqRel);
            let pin = Pin::new(&segment);
            (segment, offset, pin)
        };
        let header = segment::encode_record_header(segment.file_id, offset, key, value);
        let written = write_record(&*segment.file(), offset, &header, key, value);
        // Set after the write and even where it failed: a sync from here on covers it.
        segment.dirty.store(true, Ordering::Release);
        if let Err(error) = written {
            segment.dead.fetch_add(bytes, Ordering::Relaxed);
            return Err(error.within(segment.name()));
        }
        let pointer = Pointer {
            segment: segment.number,
            offset,
            length: (RECORD_HEADER_BYTES + key.len() + value.len()) as u32,
            checksum: segment::checksum_in(&header),
        };
        Ok((pointer, pin))
    }

    /// Appends all of `values`, keys with the values that are to be stored, `None` for what else is
    /// in the batch. Where one fails, the others are garbage.
    pub fn append_all<'v>(
        &self,
        values: impl Iterator<Item = Option<(&'v [u8], &'v [u8])>>,
        register: &dyn Fn(u32) -> Result<()>,
    ) -> Result<Stored<D::File>> {
        let mut stored = Stored::default();
        for value in values {
            let Some((key, value)) = value else {
                stored.pointers.push(None);
                continue;
            };
            let appended = self.append(key, value, register);
            let (pointer, pin) = appended.inspect_err(|_| self.forget(&stored))?;
            stored.bytes += record_bytes(key.len(), value.len());
            stored.pointers.push(Some(pointer.encode()));
            stored.pins.push(pin);
        }
        Ok(stored)
    }

    /// Counts values as garbage whose batch was not written.
    pub fn forget(&self, stored: &Stored<D::File>) {
        stored.pointers.iter().flatten().for_each(|pointer| self.note_dead_at(pointer));
    }

    /// The segment that takes the next `bytes`.
    fn segment_for(
        &self,
        open: &mut Open<D::File>,
        bytes: u64,
        register: &dyn Fn(u32) -> Result<()>,
    ) -> Result<Arc<SegmentOf<D>>> {
        if let Some(current) = &open.current {
            let end = current.end.load(Ordering::Acquire);
            if end + bytes <= self.segment_bytes || current.is_empty() {
                return Ok(current.clone());
            }
        }
        let number = open.next_number;
        // Never tried twice: a failed creation may have left a file.
        open.next_number += 1;
        let header = Header { number };
        let created = Segment::create(&*self.device, self.store_id, &header);
        let created = Arc::new(created.inspect_err(|_| {
            // A segment that the manifest does not name is removed at open, too.
            let _ = self.device.remove(&segment::name(number));
        })?);
        let durable = created.file().sync().and_then(|()| self.device.sync_dir());
        durable.inspect_err(|_| self.poisoned.store(true, Ordering::Release))?;
        // Where this fails the file stays: the manifest may name it after all.
        register(number)?;
        self.segments.write().expect("no panic while held").insert(number, created.clone());
        open.full.extend(open.current.replace(created.clone()));
        Ok(created)
    }

    /// Makes every value appended before the call durable.
    pub fn sync(&self) -> Result<()> {
        let _one_at_a_time = self.sync.lock().expect("no panic while held");
        self.check()?;
        let segments: Vec<_> = {
            let open = self.open.lock().expect("no panic while held");
            open.full.iter().chain(&open.current).cloned().collect()
        };
        for segment in segments {
            if segment.dirty.swap(false, Ordering::AcqRel)
                && let Err(error) = segment.file().sync()
            {
                self.poisoned.store(true, Ordering::Release);
                return Err(error.within(segment.name()));
            }
        }
        Ok(())
    }

    /// Everything stored so far is garbage, and the next value goes to a new segment. The segments
    /// that hold no value of a write under way, so none that anything will ever point to.
    pub fn seal(&self) -> Vec<u32> {
        let mut open = self.open.lock().expect("no panic while held");
        let current = open.current.take();
        open.full.extend(current);
        let mut garbage = Vec::new();
        // Under the lock: no new segment comes in between.
        for segment in self.segments() {
            segment.dead.store(segment.end.load(Ordering::Acquire), Ordering::Relaxed);
            if segment.pins.load(Ordering::Acquire) == 0 {
                garbage.push(segment.number);
            }
        }
        garbage
    }

    /// Lets the segment that takes values take no more where `dead_percent` of it is garbage, so
    /// that it can be emptied; true where it was.
    pub fn seal_garbage(&self, dead_percent: u64) -> bool {
        let mut open = self.open.lock().expect("no panic while held");
        let is_garbage = |segment: &mut Arc<SegmentOf<D>>| {
            !segment.is_empty() && 100.0 * segment.dead_share() >= dead_percent as f64
        };
        let sealed = open.current.take_if(is_garbage);
        let is_sealed = sealed.is_some();
        open.full.extend(sealed);
        is_sealed
    }

    /// Opens full and durable segments for direct reads; true where there was one.
    pub fn settle(&self) -> Result<bool> {
        let ready = |s: &Arc<SegmentOf<D>>| {
            s.pins.load(Ordering::Acquire) == 0 && !s.dirty.load(Ordering::Acquire)
        };
        let (ready, rest): (Vec<_>, Vec<_>) = {
            let open = self.open.lock().expect("no panic while held");
            open.full.iter().cloned().partition(ready)
        };
        drop(rest);
        for segment in &ready {
            let file = self.device.open(&segment.name(), Mode::Direct)?;
            *segment.file.write().expect("no panic while held") = Arc::new(file);
            segment.settled.store(true, Ordering::Release);
        }
        let mut open = self.open.lock().expect("no panic while held");
        open.full.retain(|s| !s.settled.load(Ordering::Acquire));
        Ok(!ready.is_empty())
    }

    /// True where a full segment waits to be settled.
    pub fn has_full(&self) -> bool {
        !self.open.lock().expect("no panic while held").full.is_empty()
    }

    /// The segment `number`, where it lives.
    pub fn segment(&self, number: u32) -> Option<Arc<SegmentOf<D>>> {
        self.segments.read().expect("no panic while held").get(&number).cloned()
    }

    /// All live segments.
    pub fn segments(&self) -> Vec<Arc<SegmentOf<D>>> {
        self.segments.read().expect("no panic while held").values().cloned().collect()
    }

    /// The value of `key` that `pointer` names, or `None` where its segment was reclaimed.
    pub fn read(&self, pointer: &Pointer, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.segment(pointer.segment) {
            Some(segment) => segment.read(pointer, key).map(Some),
            None => Ok(None),
        }
    }

    /// What has to be read for the value of `key` that `pointer` names, or `None` where its segment
    /// was reclaimed.
    pub fn plan_read(&self, pointer: &Pointer, key: &[u8]) -> Result<Option<RecordRead<D::File>>> {
        match self.segment(pointer.segment) {
            Some(segment) => RecordRead::new::<D>(segment, *pointer, key).map(Some),
            None => Ok(None),
        }
    }

    /// Counts the record of `pointer` as garbage.
    pub fn note_dead(&self, pointer: &Pointer) {
        if let Some(segment) = self.segment(pointer.segment) {
            segment.dead.fetch_add(pointer.record_bytes(), Ordering::Relaxed);
        }
    }

    /// Counts what `garbage` has.
    pub fn note(&self, garbage: &Garbage) {
        for (number, bytes) in &garbage.0 {
            if let Some(segment) = self.segment(*number) {
                segment.dead.fetch_add(*bytes, Ordering::Relaxed);
            }
        }
    }

    /// Counts the record of an encoded pointer as garbage.
    pub fn note_dead_at(&self, pointer: &[u8]) {
        Pointer::decode(pointer).iter().for_each(|pointer| self.note_dead(pointer));
    }

    /// The segment with the largest share of garbage that may be reclaimed, if that is at least
    /// `dead_percent`; else the smallest one where many short runs have left many small ones.
    pub fn pick_victim(&self, dead_percent: u64) -> Option<Arc<SegmentOf<D>>> {
        let segments = self.segments.read().expect("no panic while held");
        let ready = segments.values().filter(|s| {
            s.settled.load(Ordering::Acquire)
                && s.pins.load(Ordering::Acquire) == 0
                && !s.left.load(Ordering::Relaxed)
        });
        let most = ready.clone().max_by(|a, b| a.dead_share().total_cmp(&b.dead_share()));
        if let Some(most) = most.filter(|s| 100.0 * s.dead_share() >= dead_percent as f64) {
            return Some(most.clone());
        }
        let bytes = |s: &&Arc<SegmentOf<D>>| s.end.load(Ordering::Relaxed);
        let small = ready.filter(|s| bytes(s) < self.segment_bytes / SMALL_SHARE);
        if small.clone().count() <= SMALL_SEGMENTS_MAX {
            return None;
        }
        small.min_by_key(bytes).cloned()
    }

    /// Takes a segment out; the caller removes the file once the manifest says so.
    pub fn release(&self, number: u32) {
        self.segments.write().expect("no panic while held").remove(&number);
        let mut open = self.open.lock().expect("no panic while held");
        open.full.retain(|s| s.number != number);
    }

    /// Bytes of the largest segment.
    pub fn largest_segment_bytes(&self) -> u64 {
        let segments = self.segments.read().expect("no panic while held");
        segments.values().map(|s| s.end.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// Bytes of all segments, and those of them that are not known to be garbage.
    pub fn bytes(&self) -> (u64, u64) {
        let segments = self.segments.read().expect("no panic while held");
        segments.values().fold((0, 0), |(all, live), segment| {
            let len = segment.end.load(Ordering::Relaxed);
            let dead = segment.dead.load(Ordering::Relaxed);
            (all + len, live + len.saturating_sub(dead + segment.header_bytes()))
        })
    }

    /// Dead bytes per segment, where there are any.
    pub fn dead(&self) -> Vec<(u32, u64)> {
        let segments = self.segments.read().expect("no panic while held");
        let dead = segments.values().map(|s| (s.number, s.dead.load(Ordering::Relaxed)));
        dead.filter(|(_, dead)| *dead > 0).collect()
    }
}

/// Writes a record: small ones in one piece, large ones without copying the value.
fn write_record<F: DeviceFile>(
    file: &F,
    offset: u64,
    header: &[u8],
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    let mut head = Vec::with_capacity(RECORD_HEADER_BYTES + key.len() + 8);
    head.extend_from_slice(header);
    head.extend_from_slice(key);
    let len = head.len() + value.len();
    let bytes = record_bytes(key.len(), value.len()) as usize;
    if bytes <= ONE_WRITE_BYTES {
        head.extend_from_slice(value);
        head.resize(bytes, 0);
        return file.write_at(offset, &head);
    }
    file.write_at(offset, &head)?;
    file.write_at(offset + head.len() as u64, value)?;
    match bytes - len {
        0 => Ok(()),
        pad => file.write_at(offset + len as u64, &[0; 8][..pad]),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
