//! Snapshots: a position of the log and a time. A version is seen if its position is below the
//! snapshot's and it expires after the snapshot's time.
//!
//! 1. A snapshot is taken with the writer locked, at the end of the log: all records below it are
//!    in the memtables, and whatever is written later lies behind it.
//! 2. While it is held, of each key the newest version below it stays: in memtables
//!    ([`SnapshotSet::newest`]), flushes and compactions ([`SnapshotSet::positions`]).
//! 3. A flush or a compaction asks for the snapshots after it knows what it will write, all of
//!    which is below every later snapshot's position. So for those the newest version is enough.
//! 4. The clock is read with the snapshots locked, by who takes one and by who asks what is over
//!    for all of them ([`SnapshotSet::keeper`]): no later snapshot has an earlier time, unless the
//!    clock goes back.

use crate::merge::Keeper;
use silica_base::Clock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// How many snapshots are held of each moment: a position and a time.
type Moments = BTreeMap<(u64, u64), usize>;

/// The snapshots that are held, and the time that they and later ones have.
pub(crate) struct SnapshotSet {
    clock: Arc<dyn Clock>,
    held: Mutex<Moments>,
    newest: AtomicU64,
}

impl SnapshotSet {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        SnapshotSet { clock, held: Mutex::default(), newest: AtomicU64::new(0) }
    }

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

    /// Counts a snapshot of what is before `position`, as of now; the time.
    pub(crate) fn hold(&self, position: u64) -> u64 {
        self.change(|held| {
            let unix_ms = self.clock.unix_ms();
            *held.entry((position, unix_ms)).or_default() += 1;
            unix_ms
        })
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, position: u64, unix_ms: u64) {
        self.change(|held| {
            let moment = (position, unix_ms);
            let count = held.get_mut(&moment).expect("it is held");
            *count -= 1;
            if *count == 0 {
                held.remove(&moment);
            }
        });
    }

    /// The newest one, 0 where there is none. Versions at or behind it may give way to newer ones.
    /// Only for the writer.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// Positions of the snapshots that are held, ascending.
    pub(crate) fn positions(&self) -> Vec<u64> {
        positions_of(&self.held())
    }

    /// What expires by this time is over for all snapshots, those to come too.
    pub(crate) fn over_ms(&self) -> u64 {
        self.over_for(&self.held())
    }

    /// The position of the oldest snapshot that is held and the earliest time of any.
    pub(crate) fn oldest_moment(&self) -> (u64, u64) {
        let held = self.held();
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
        let held = self.held();
        Keeper::new(positions_of(&held), is_last, self.over_for(&held))
    }
}

fn positions_of(held: &Moments) -> Vec<u64> {
    let mut positions: Vec<u64> = held.keys().map(|(position, _)| *position).collect();
    positions.dedup();
    positions
}
