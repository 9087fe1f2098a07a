//! Slabs in memory: those that are being filled, one for each kind of entry, and those that wait to
//! be written to flash.
//!
//! A slab in memory is a log file, so what is in it outlives the process. Its bytes never change,
//! so readers need no lock once they have it.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::item::Item;
use crate::layout::{Layout, Place};
use crate::slab::{self, FOOTER_BYTES, HEADER_BYTES, Kind, SUMMED_BYTES_MAX};
use crate::slabs::Whereabouts;
use silica_base::{Error, ErrorKind, Result};
use silica_device::{Device, LogFile};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};

/// Kinds of entries by how long they are expected to stay: entries of a slab should die together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// What was just put.
    New,
    /// What was just put and expires soon.
    Short,
    /// What was copied by the collector.
    Old,
}

/// Number of streams.
pub(crate) const STREAMS: usize = 3;
/// What expires within this is expected to expire before its slab is collected.
pub(crate) const SHORT_MS: u64 = 10 * 60 * 1000;
/// Names of the files of slabs.
pub(crate) const PREFIX: &str = "LOG-slab-";

/// The name of a slab's file.
pub(crate) fn name(file: u64) -> String {
    format!("{PREFIX}{file:08x}")
}

/// A slab that is being filled, or waits to be written.
pub(crate) struct Open<L> {
    pub(crate) number: u32,
    pub(crate) place: u32,
    pub(crate) sequence: u64,
    pub(crate) file: u64,
    pub(crate) log: Arc<L>,
    /// Its first byte behind all items.
    pub(crate) end: u32,
    pub(crate) summary: Vec<u8>,
    pub(crate) before: u32,
    pub(crate) items: u32,
}

/// A place in memory with an empty log in it.
struct Spare<L> {
    place: u32,
    file: u64,
    log: L,
}

/// A slab in memory as readers find it.
struct Resident<L> {
    number: u32,
    log: Arc<L>,
}

/// All places in memory.
pub(crate) struct Streams<L> {
    residents: Box<[RwLock<Option<Resident<L>>>]>,
    open: [Mutex<Option<Open<L>>>; STREAMS],
    waiting: Mutex<Waiting<L>>,
    /// A place in memory became free.
    has_room: Condvar,
    next_file: AtomicU64,
}

struct Waiting<L> {
    spares: Vec<Spare<L>>,
    free: Vec<u32>,
    sealed: VecDeque<Open<L>>,
    /// Slabs that somebody writes just now.
    under_way: u32,
}

impl<L> Streams<L> {
    /// `places` places; names of files begin with number `next_file`.
    pub(crate) fn new(places: u32, next_file: u64) -> Self {
        let free = (0..places).rev().collect();
        let waiting = Waiting { spares: Vec::new(), free, sealed: VecDeque::new(), under_way: 0 };
        Streams {
            residents: (0..places).map(|_| RwLock::new(None)).collect(),
            open: std::array::from_fn(|_| Mutex::new(None)),
            waiting: Mutex::new(waiting),
            has_room: Condvar::new(),
            next_file: AtomicU64::new(next_file),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<L>> {
        self.waiting.lock().expect("no panic while locked")
    }

    fn stream(&self, stream: usize) -> MutexGuard<'_, Option<Open<L>>> {
        self.open[stream].lock().expect("no panic while locked")
    }

    /// The log of slab `number`, if it is in this place.
    pub(crate) fn resident(&self, place: u32, number: u32) -> Option<Arc<L>> {
        let resident = self.residents[place as usize].read().expect("no panic while locked");
        resident.as_ref().filter(|slab| slab.number == number).map(|slab| Arc::clone(&slab.log))
    }

    fn set_resident(&self, place: u32, resident: Option<Resident<L>>) {
        *self.residents[place as usize].write().expect("no panic while locked") = resident;
    }

    /// Slabs that wait to be written.
    pub(crate) fn sealed_count(&self) -> usize {
        self.waiting().sealed.len()
    }

    /// Takes the slab that waits for longest.
    pub(crate) fn take_sealed(&self) -> Option<Open<L>> {
        let mut waiting = self.waiting();
        let sealed = waiting.sealed.pop_front()?;
        waiting.under_way += 1;
        Some(sealed)
    }

    /// Has a slab wait that could not be written.
    pub(crate) fn put_back(&self, sealed: Open<L>) {
        let mut waiting = self.waiting();
        waiting.sealed.push_front(sealed);
        waiting.under_way -= 1;
        self.has_room.notify_all();
    }

    /// A slab that was taken is no longer in memory.
    pub(crate) fn leave(&self, place: u32) {
        self.set_resident(place, None);
        let mut waiting = self.waiting();
        waiting.free.push(place);
        waiting.under_way -= 1;
        self.has_room.notify_all();
    }

    /// Puts a slab that a file has into a free place, if there is one, to be written.
    pub(crate) fn adopt(&self, slab: impl FnOnce(u32) -> Open<L>) -> bool {
        let Some(place) = self.waiting().free.pop() else { return false };
        let open = slab(place);
        let resident = Resident { number: open.number, log: Arc::clone(&open.log) };
        self.set_resident(place, Some(resident));
        self.waiting().sealed.push_back(open);
        true
    }

    /// True if there is a place for another slab.
    pub(crate) fn has_free_place(&self) -> bool {
        !self.waiting().free.is_empty()
    }
}

/// The file that a slab gets is full, and there is no other at hand: nothing was appended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl<F: Flash, D: Device> Dida<F, D> {
    /// Appends an item to a slab in memory, and counts it as alive. For who holds the lock of its
    /// bucket, so that nobody collects the slab before the index names the item.
    pub(crate) fn append(
        &self,
        stream: Stream,
        hash: u64,
        item: &Item<'_>,
    ) -> Result<std::result::Result<Place, NoRoom>> {
        let bytes = self.layout.padded(item.bytes());
        let mut open = self.streams.stream(stream as usize);
        if open.as_ref().is_none_or(|slab| !has_room(&self.layout, slab, bytes))
            && !self.open_next(&mut open)?
        {
            return Ok(Err(NoRoom));
        }
        let slab = open.as_mut().expect("it was opened");
        let offset = slab.end;
        let seal = self.seal(slab.sequence);
        let header = item.header(seal, offset);
        let filler = [0; 64];
        let filler = &filler[..bytes - item.bytes()];
        slab.log.append(&[header.as_bytes(), item.key, item.entry.value, filler])?;
        slab::sum_up(&mut slab.summary, hash, offset, slab.before, self.layout.granule_bits);
        slab.end = offset + bytes as u32;
        slab.before = offset;
        slab.items += 1;
        let known = self.slabs.get(slab.number);
        known.items.store(slab.items, Ordering::Relaxed);
        known.items_end.store(slab.end, Ordering::Relaxed);
        known.live.fetch_add(1, Ordering::Relaxed);
        Ok(Ok(Place { slab: slab.number, offset }))
    }

    /// Seals the slab of a stream and begins another one; false if no place is ready.
    fn open_next(&self, open: &mut Option<Open<D::Log>>) -> Result<bool> {
        let mut waiting = self.streams.waiting();
        let Some(spare) = waiting.spares.pop() else { return Ok(false) };
        if let Some(full) = open.take() {
            waiting.sealed.push_back(full);
        }
        drop(waiting);
        let number = self.slabs.take().expect("a number for each place and block");
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let Spare { place, file, log } = spare;
        if let Err(error) = log.append(&[&slab::header(Kind::Items, self.store, sequence)]) {
            self.slabs.release(number);
            self.streams.waiting().free.push(place);
            return Err(error);
        }
        let log = Arc::new(log);
        let resident = Resident { number, log: Arc::clone(&log) };
        self.streams.set_resident(place, Some(resident));
        self.slabs.begin(number, sequence, self.tick(), Whereabouts::Memory(place));
        let (end, before) = (HEADER_BYTES as u32, HEADER_BYTES as u32);
        let summary = Vec::new();
        *open = Some(Open { number, place, sequence, file, log, end, summary, before, items: 0 });
        Ok(true)
    }

    /// Has `count` places in memory ready for new slabs. Writes slabs to flash if there are too
    /// few, or waits for those who do.
    pub(crate) fn make_room(&self, count: usize) -> Result<()> {
        loop {
            let mut waiting = self.streams.waiting();
            if waiting.spares.len() >= count {
                return Ok(());
            }
            if let Some(place) = waiting.free.pop() {
                drop(waiting);
                self.make_spare(place)?;
                continue;
            }
            if waiting.sealed.is_empty() {
                if waiting.under_way == 0 {
                    // All places are open slabs: as many as there are will have to do.
                    return self.seal_one();
                }
                let waited = self.streams.has_room.wait(waiting);
                drop(waited.expect("no panic while locked"));
                continue;
            }
            drop(waiting);
            self.counts.writes_slowed.fetch_add(1, Ordering::Relaxed);
            self.drain_one()?;
        }
    }

    /// Seals the fullest slab that is open.
    fn seal_one(&self) -> Result<()> {
        let filled =
            |stream: &usize| self.streams.stream(*stream).as_ref().map_or(0, |slab| slab.end);
        let fullest = (0..STREAMS).max_by_key(filled).expect("there are streams");
        let sealed = self.streams.stream(fullest).take();
        self.streams.waiting().sealed.extend(sealed);
        Ok(())
    }

    /// Puts an empty log into a place.
    fn make_spare(&self, place: u32) -> Result<()> {
        let file = self.streams.next_file.fetch_add(1, Ordering::Relaxed);
        let created = self.files.create_log(&name(file), self.layout.shape.slab_bytes());
        let mut waiting = self.streams.waiting();
        match created {
            Ok(log) => waiting.spares.push(Spare { place, file, log }),
            Err(error) => {
                waiting.free.push(place);
                let told = "a slab in memory needs a file of its own; make room for it";
                let is_full = error.kind() == ErrorKind::Full;
                return Err(if is_full { error.within(told) } else { error });
            }
        }
        Ok(())
    }

    /// Has a spare place ready if one is free, so that writers find it.
    pub(crate) fn prepare_place(&self) -> Result<bool> {
        let mut waiting = self.streams.waiting();
        if !waiting.spares.is_empty() {
            return Ok(false);
        }
        let Some(place) = waiting.free.pop() else { return Ok(false) };
        drop(waiting);
        self.make_spare(place).map(|()| true)
    }

    /// Seals all slabs that are open.
    pub(crate) fn seal_all(&self) {
        for stream in 0..STREAMS {
            let mut open = self.streams.stream(stream);
            let sealed = open.take();
            self.streams.waiting().sealed.extend(sealed);
        }
    }

    /// Forgets all slabs in memory. For who holds all locks of the index and cleared it; slabs
    /// that somebody writes just now are left to them.
    pub(crate) fn forget_memory(&self) -> Result<()> {
        self.seal_all();
        let sealed: Vec<_> = {
            let mut waiting = self.streams.waiting();
            waiting.under_way += waiting.sealed.len() as u32;
            waiting.sealed.drain(..).collect()
        };
        for slab in sealed {
            self.slabs.release(slab.number);
            self.streams.leave(slab.place);
            self.files.remove(&name(slab.file))?;
        }
        Ok(())
    }

    /// Sequences of the slabs in memory, with those that somebody writes just now.
    pub(crate) fn memory_sequences(&self) -> Vec<u64> {
        let sequence =
            |(_, slab): (u32, &crate::slabs::Slab)| slab.sequence.load(Ordering::Relaxed);
        self.slabs.in_memory().map(sequence).collect()
    }
}

/// True if a slab has room for an item of `bytes` bytes and for what the summary says of it.
fn has_room<L>(layout: &Layout, slab: &Open<L>, bytes: usize) -> bool {
    let needed = slab.end as usize + bytes + slab.summary.len() + SUMMED_BYTES_MAX;
    needed + FOOTER_BYTES <= layout.shape.slab_bytes() as usize
}

/// The error of an item that no slab has room for.
pub(crate) fn too_large(bytes: usize, most: usize, what: &str) -> Error {
    let message = format!(
        "a {what} of {bytes} bytes is over the flash cache's limit of {most}; store it elsewhere, \
         or use flash with larger blocks"
    );
    Error::new(ErrorKind::TooLarge, message)
}
