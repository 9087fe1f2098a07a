//! Changes of several words that survive a power cut all or not at all.
//!
//! Invariants:
//!
//! 1. Who changes words holds whatever keeps others from changing them, until the call ends.
//! 2. What the words name was flushed by the same thread: the first fence makes it durable.
//! 3. A record is durable before the first word of it is stored; the words are durable before the
//!    record goes; the record is gone durably before the call ends. So a record that an opening
//!    finds says of each of its words what it was or what it became, and nothing else was stored
//!    there.

use super::layout::{REDO, REDO_PLACES};
use super::{PAGE_BYTES, Space};
use silica_base::{Checksum, Error, Result};
use silica_device::region::Region;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};

/// Bytes of a change in the region.
const CHANGE_BYTES: usize = 24;
/// Changes that a place has room for.
const CHANGES_IN_PLACE: usize = (PAGE_BYTES as usize - 16) / CHANGE_BYTES;
const IS_ELSEWHERE: u64 = 1 << 31;

/// A word that changes together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Where the word lies, a multiple of 8.
    pub offset: u64,
    /// What it becomes.
    pub new: u64,
}

/// Which places of the redo are in use.
pub(super) struct Places {
    busy: Mutex<u32>,
    has_free: Condvar,
    /// Records written, for metrics.
    pub(super) records: AtomicU32,
}

impl Places {
    pub(super) fn new() -> Places {
        Places { busy: Mutex::new(0), has_free: Condvar::new(), records: AtomicU32::new(0) }
    }

    fn take(&self) -> u64 {
        let mut busy = self.busy.lock().expect("no panic while locked");
        loop {
            let place = u64::from(busy.trailing_ones());
            if place < REDO_PLACES {
                *busy |= 1 << place;
                return place;
            }
            busy = self.has_free.wait(busy).expect("no panic while locked");
        }
    }

    fn give_back(&self, place: u64) {
        *self.busy.lock().expect("no panic while locked") &= !(1 << place);
        self.has_free.notify_one();
    }
}

impl<R: Region> Space<R> {
    /// Stores words so that a power cut leaves all of them or none, and makes them durable with
    /// all that this thread flushed before. Costs four fences, and a line of the redo for each two
    /// or three changes; one fence if there is one change.
    ///
    /// The caller keeps others from changing these words; readers may see some of them changed and
    /// others not yet. No word may be named twice.
    ///
    /// # Errors
    /// `Full` if there are many changes and no room for their record: nothing has changed. `Io` or
    /// `Poisoned` from a fence: what is durable is decided by the next opening, and until then no
    /// word can be trusted.
    pub fn commit(&self, changes: &[Change]) -> Result<()> {
        match changes {
            [] => self.region.fence(),
            [one] => {
                self.region.fence()?;
                self.apply(&[*one]);
                self.region.fence()
            }
            _ => {
                let place = self.redo.take();
                let committed = self.commit_in(REDO + place * PAGE_BYTES, changes);
                self.redo.give_back(place);
                committed
            }
        }
    }

    fn apply(&self, changes: &[Change]) {
        for Change { offset, new } in changes {
            self.region.store(*offset, *new);
        }
        for Change { offset, .. } in changes {
            self.region.flush(*offset, 8);
        }
    }

    fn commit_in(&self, place: u64, changes: &[Change]) -> Result<()> {
        let mut bytes = Vec::with_capacity(changes.len() * CHANGE_BYTES);
        for Change { offset, new } in changes {
            for word in [*offset, self.region.load(*offset), *new] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        let is_elsewhere = changes.len() > CHANGES_IN_PLACE;
        let at = if is_elsewhere { self.allocate(bytes.len() as u64)? } else { place + 16 };
        let done = self.commit_at(place, at, &bytes, changes);
        if is_elsewhere {
            self.free(at);
        }
        done
    }

    fn commit_at(&self, place: u64, at: u64, bytes: &[u8], changes: &[Change]) -> Result<()> {
        let elsewhere = if at == place + 16 { 0 } else { at };
        self.region.write(at, bytes);
        self.region.flush(at, bytes.len() as u64);
        self.region.store(place + 8, elsewhere);
        self.region.flush(place + 8, 8);
        self.region.fence()?;
        let flag = if elsewhere == 0 { 0 } else { IS_ELSEWHERE };
        let sum = u64::from(record_sum(self.store, place, elsewhere, bytes));
        self.region.store(place, changes.len() as u64 | flag | sum << 32);
        self.region.flush(place, 8);
        self.region.fence()?;
        self.apply(changes);
        self.region.fence()?;
        self.region.store(place, 0);
        self.region.flush(place, 8);
        self.region.fence()?;
        self.redo.records.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn record_sum(store: u64, place: u64, elsewhere: u64, bytes: &[u8]) -> u32 {
    Checksum::at(store, place).update(&elsewhere.to_le_bytes()).update(bytes).finish()
}

/// Finishes the records that an opening finds; how many there were.
///
/// # Errors
/// `Corruption` if a word is neither what it was nor what it was to become.
pub(super) fn finish<R: Region>(region: &R, store: u64, file: &str) -> Result<u32> {
    let mut finished = 0;
    for number in 0..REDO_PLACES {
        let place = REDO + number * PAGE_BYTES;
        let head = region.load(place);
        if head == 0 {
            continue;
        }
        if let Some(bytes) = record(region, store, place, head) {
            redo(region, file, &bytes)?;
            region.fence()?;
            finished += 1;
        }
        region.store(place, 0);
        region.flush(place, 8);
    }
    region.fence()?;
    Ok(finished)
}

/// The changes of a whole record.
fn record<R: Region>(region: &R, store: u64, place: u64, head: u64) -> Option<Vec<u8>> {
    let elsewhere = region.load(place + 8);
    let is_elsewhere = head & IS_ELSEWHERE != 0;
    let count = (head & (IS_ELSEWHERE - 1)) as usize;
    let at = if is_elsewhere { elsewhere } else { place + 16 };
    let len = count * CHANGE_BYTES;
    let has_room = if is_elsewhere {
        at.checked_add(len as u64).is_some_and(|end| end <= region.len())
    } else {
        count <= CHANGES_IN_PLACE && elsewhere == 0
    };
    if !has_room {
        return None;
    }
    let mut bytes = vec![0; len];
    region.read(at, &mut bytes);
    (head >> 32 == u64::from(record_sum(store, place, elsewhere, &bytes))).then_some(bytes)
}

fn redo<R: Region>(region: &R, file: &str, bytes: &[u8]) -> Result<()> {
    for change in bytes.chunks_exact(CHANGE_BYTES) {
        let word = |n: usize| u64::from_le_bytes(change[8 * n..8 * n + 8].try_into().expect("8"));
        let (offset, old, new) = (word(0), word(1), word(2));
        let is_there = offset.is_multiple_of(8) && offset < region.len();
        if !is_there || ![old, new].contains(&region.load(offset)) {
            let detail = "a change that was begun does not fit what is there: restore a backup";
            return Err(Error::corruption(file, offset, detail));
        }
        region.store(offset, new);
        region.flush(offset, 8);
    }
    Ok(())
}
