//! Snapshots: a position of the log and a time. A version is seen if its position is below the
//! snapshot's and it expires after the snapshot's time.
//!
//! 1. A snapshot is taken with the writer locked, at the end of the log: all records below it are
//!    in the memtables, and whatever is written later lies behind it.
//! 2. While it is held, of each key the newest version below it stays: in memtables
//!    ([`Snapshots::newest`]), flushes and compactions ([`Wip::live_snapshots`]).
//! 3. A flush or a compaction asks for the snapshots after it knows what it will write, all of
//!    which is below every later snapshot's position. So for those the newest version is enough.
//! 4. The clock is read with the snapshots locked, by who takes one and by who asks what is over
//!    for all of them ([`Wip::keeper`]): no later snapshot has an earlier time, unless the clock
//!    goes back.

use crate::iterator::Iter;
use crate::merge::Keeper;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{EntryIter, GetSink, KeyRange, Snapshot};
use silica_parts::wal::POSITION_BYTES;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// How many snapshots are held of each moment: a position and a time.
type Moments = BTreeMap<(u64, u64), usize>;

/// The snapshots that are held.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    held: Mutex<Moments>,
    newest: AtomicU64,
}

impl Snapshots {
    fn held(&self) -> MutexGuard<'_, Moments> {
        self.held.lock().expect("no panic while held")
    }

    fn change<T>(&self, change: impl FnOnce(&mut Moments) -> T) -> T {
        let mut held = self.held();
        let changed = change(&mut held);
        let newest = held.last_key_value().map_or(0, |((position, _), _)| *position);
        // Relaxed: it grows with the writer locked, who alone reads it, and where it shrinks an old
        // value only keeps more.
        self.newest.store(newest, Ordering::Relaxed);
        changed
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
    /// What expires by then is not there.
    pub(crate) unix_ms: u64,
}

impl<D: Device, W: Deref<Target = Wip<D>>> Held<D, W> {
    pub(crate) fn new(wip: W) -> Self {
        let writer = wip.writer.lock().expect("no panic while held");
        // A repaired store has entries and no log yet: what has number 0 is seen.
        let position = (wip.log.end() / POSITION_BYTES).max(1);
        let unix_ms = wip.snapshots.change(|held| {
            let unix_ms = wip.clock.unix_ms();
            *held.entry((position, unix_ms)).or_default() += 1;
            unix_ms
        });
        drop(writer);
        Held { wip, position, unix_ms }
    }
}

impl<D: Device, W: Deref<Target = Wip<D>>> Drop for Held<D, W> {
    fn drop(&mut self) {
        self.wip.snapshots.change(|held| {
            let moment = (self.position, self.unix_ms);
            let count = held.get_mut(&moment).expect("it is held");
            *count -= 1;
            if *count == 0 {
                held.remove(&moment);
            }
        });
    }
}

impl<D: Device> Snapshot for Held<D, Arc<Wip<D>>> {
    fn sequence(&self) -> u64 {
        self.position
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        if self.position == 0 {
            // Nothing was ever written before.
            return Ok(());
        }
        self.wip.read_burst(keys, (self.position, Some(self.unix_ms)), sink)
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        Ok(Box::new(Iter::new(self, range)))
    }
}

impl<D: Device> Wip<D> {
    /// Positions of the snapshots that are held, ascending.
    pub(crate) fn live_snapshots(&self) -> Vec<u64> {
        positions_of(&self.snapshots.held())
    }

    /// What expires by this time is over for all snapshots, those to come too.
    pub(crate) fn over_ms(&self) -> u64 {
        self.over_for(&self.snapshots.held())
    }

    /// The position of the oldest snapshot that is held and the earliest time of any.
    pub(crate) fn oldest_moment(&self) -> (u64, u64) {
        let held = self.snapshots.held();
        let oldest = held.first_key_value().map_or(u64::MAX, |((position, _), _)| *position);
        (oldest, self.over_for(&held))
    }

    fn over_for(&self, held: &Moments) -> u64 {
        let times = held.keys().map(|(_, unix_ms)| *unix_ms);
        times.chain([self.clock.unix_ms()]).min().expect("there is now")
    }

    /// Decides what the snapshots that are held need, and those to come. With `is_last`, nothing
    /// older is anywhere behind what is merged.
    pub(crate) fn keeper(&self, is_last: bool) -> Keeper {
        let held = self.snapshots.held();
        Keeper::new(positions_of(&held), is_last, self.over_for(&held))
    }
}

fn positions_of(held: &Moments) -> Vec<u64> {
    let mut positions: Vec<u64> = held.keys().map(|(position, _)| *position).collect();
    positions.dedup();
    positions
}
