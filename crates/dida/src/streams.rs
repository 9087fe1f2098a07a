//! Slabs in memory: those that are being filled, one for each kind of entry, and those that wait to
//! be written to flash.
//!
//! A slab in memory is a log file, so what is in it outlives the process. Its bytes never change,
//! so readers need no lock once they have it.

use crate::slab::HEADER_BYTES;
use silica_base::{Error, ErrorKind};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
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
    /// What was copied to level wear. It goes to the slabs of [`Stream::Old`], and those that
    /// consist of it to the most worn blocks.
    Still,
}

impl Stream {
    /// The number of its open slab.
    pub(crate) fn index(self) -> usize {
        match self {
            Stream::New => 0,
            Stream::Short => 1,
            Stream::Old | Stream::Still => 2,
        }
    }

    /// The placement stream on flash of its slabs.
    pub(crate) fn placement(self) -> u16 {
        1 + self.index() as u16
    }
}

/// The placement stream of checkpoints, which die before all others.
pub(crate) const CHECKPOINTS: u16 = 1 + STREAMS as u16;
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
    /// Its placement stream on flash; 0 if a recovery found it.
    pub(crate) placement: u16,
    pub(crate) log: Arc<L>,
    /// Its first byte behind all items.
    pub(crate) end: u32,
    pub(crate) summary: Vec<u8>,
    pub(crate) before: u32,
    pub(crate) items: u32,
    /// Those of them that were copied to level wear.
    pub(crate) still_items: u32,
}

impl<L> Open<L> {
    /// A slab without items in a place whose log has its header, or is about to be read.
    pub(crate) fn empty(number: u32, sequence: u64, placement: u16, spare: Spare<L>) -> Self {
        let Spare { place, file, log } = spare;
        Open {
            number,
            place,
            sequence,
            file,
            placement,
            log: Arc::new(log),
            end: HEADER_BYTES as u32,
            summary: Vec::new(),
            before: HEADER_BYTES as u32,
            items: 0,
            still_items: 0,
        }
    }

    /// True if most of it stays longer than anything else: its block is to rest.
    pub(crate) fn is_still(&self) -> bool {
        2 * self.still_items > self.items
    }
}

/// A place in memory with an empty log in it.
pub(crate) struct Spare<L> {
    pub(crate) place: u32,
    pub(crate) file: u64,
    pub(crate) log: L,
}

/// A slab in memory as readers find it.
pub(crate) struct Resident<L> {
    pub(crate) number: u32,
    pub(crate) log: Arc<L>,
}

/// All places in memory.
pub(crate) struct Streams<L> {
    residents: Box<[RwLock<Option<Resident<L>>>]>,
    open: [Mutex<Option<Open<L>>>; STREAMS],
    waiting: Mutex<Waiting<L>>,
    /// A place in memory became free.
    pub(crate) has_room: Condvar,
    pub(crate) next_file: AtomicU64,
}

/// What waits in memory.
pub(crate) struct Waiting<L> {
    pub(crate) spares: Vec<Spare<L>>,
    /// Places with nothing in them.
    pub(crate) free: Vec<u32>,
    pub(crate) sealed: VecDeque<Open<L>>,
    /// Slabs that somebody writes just now.
    pub(crate) under_way: u32,
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

    pub(crate) fn waiting(&self) -> MutexGuard<'_, Waiting<L>> {
        self.waiting.lock().expect("no panic while locked")
    }

    pub(crate) fn stream(&self, stream: usize) -> MutexGuard<'_, Option<Open<L>>> {
        self.open[stream].lock().expect("no panic while locked")
    }

    /// The log of slab `number`, if it is in this place.
    pub(crate) fn resident(&self, place: u32, number: u32) -> Option<Arc<L>> {
        let resident = self.residents[place as usize].read().expect("no panic while locked");
        resident.as_ref().filter(|slab| slab.number == number).map(|slab| Arc::clone(&slab.log))
    }

    pub(crate) fn set_resident(&self, place: u32, resident: Option<Resident<L>>) {
        *self.residents[place as usize].write().expect("no panic while locked") = resident;
    }

    /// Has the slab of a stream that is being filled wait to be written.
    pub(crate) fn seal(&self, stream: usize) {
        let mut open = self.stream(stream);
        let sealed = open.take();
        self.waiting().sealed.extend(sealed);
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

/// The error of an item that no slab has room for.
pub(crate) fn too_large(bytes: usize, most: usize, what: &str) -> Error {
    let message = format!(
        "a {what} of {bytes} bytes is over the flash cache's limit of {most}; store it elsewhere, \
         or use flash with larger blocks"
    );
    Error::new(ErrorKind::TooLarge, message)
}
