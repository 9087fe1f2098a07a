//! Snapshots: positions of the log. A version is seen where its position is below the snapshot's.
//!
//! 1. A snapshot is taken with the writer locked, at the end of the log: all records below it are
//!    in the memtables, and whatever is written later lies behind it.
//! 2. While it is held, of each key the newest version below it stays: in memtables
//!    ([`Snapshots::newest`]), flushes and compactions ([`Wip::live_snapshots`]).
//! 3. A flush or a compaction asks for the snapshots after it knows what it will write, all of
//!    which is below every later snapshot's position. So for those the newest version is enough.

use crate::iterator::Iter;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{EntryIter, GetSink, KeyRange, Snapshot};
use silica_parts::wal::POSITION_BYTES;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The snapshots that are held: how many at each position.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<u64, usize>>,
    newest: AtomicU64,
}

impl Snapshots {
    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.held.lock().expect("no panic while held")
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, usize>)) {
        let mut held = self.held();
        change(&mut held);
        let newest = held.last_key_value().map_or(0, |(position, _)| *position);
        // Relaxed: it grows with the writer locked, who alone reads it, and where it shrinks an old
        // value only keeps more.
        self.newest.store(newest, Ordering::Relaxed);
    }

    /// The newest one, 0 where there is none. Versions at or behind it may give way to newer ones.
    /// Only for the writer.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }
}

/// A snapshot that somebody holds.
pub(crate) struct Held<D: Device, W: Deref<Target = Wip<D>>> {
    pub(crate) wip: W,
    pub(crate) position: u64,
}

impl<D: Device, W: Deref<Target = Wip<D>>> Held<D, W> {
    pub(crate) fn new(wip: W) -> Self {
        let writer = wip.writer.lock().expect("no panic while held");
        // A repaired store has entries and no log yet: what has number 0 is seen.
        let position = (wip.log.end() / POSITION_BYTES).max(1);
        wip.snapshots.change(|held| *held.entry(position).or_default() += 1);
        drop(writer);
        Held { wip, position }
    }
}

impl<D: Device, W: Deref<Target = Wip<D>>> Drop for Held<D, W> {
    fn drop(&mut self) {
        self.wip.snapshots.change(|held| {
            let count = held.get_mut(&self.position).expect("it is held");
            *count -= 1;
            if *count == 0 {
                held.remove(&self.position);
            }
        });
    }
}

impl<D: Device> Snapshot for Held<D, Arc<Wip<D>>> {
    fn sequence(&self) -> u64 {
        self.position
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        if self.position == 0 {
            // Nothing was ever written before.
            return Ok(());
        }
        self.wip.read_burst(keys, self.position, sink)
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        Ok(Box::new(Iter::new(self, range)))
    }
}

impl<D: Device> Wip<D> {
    /// Positions of the snapshots that are held, ascending.
    pub(crate) fn live_snapshots(&self) -> Vec<u64> {
        self.snapshots.held().keys().copied().collect()
    }
}
