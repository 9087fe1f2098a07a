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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A moment that snapshots are held of, and how many.
#[derive(Debug, Clone, Copy)]
struct Moment {
    position: u64,
    unix_ms: u64,
    count: usize,
}

/// In the order of their positions and times. Most iterators hold the newest moment for a short
/// while, so a list that keeps its memory takes a third of the instructions that a tree does.
type Moments = Vec<Moment>;

/// Where the moment is, or where it belongs.
fn place_of(held: &Moments, position: u64, unix_ms: u64) -> Result<usize, usize> {
    let wanted = (position, unix_ms);
    match held.last() {
        Some(last) if (last.position, last.unix_ms) == wanted => Ok(held.len() - 1),
        Some(last) if (last.position, last.unix_ms) > wanted => {
            held.binary_search_by_key(&wanted, |moment| (moment.position, moment.unix_ms))
        }
        _ => Err(held.len()),
    }
}

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

    fn note_newest(&self, held: &Moments) {
        let newest = held.last().map_or(0, |moment| moment.position);
        // Relaxed: it grows with the writer locked, who alone reads it, and where it shrinks an old
        // value only keeps more.
        self.newest.store(newest, Ordering::Relaxed);
    }

    /// Counts a snapshot of what is before `position`, as of now; the time.
    pub(crate) fn hold(&self, position: u64) -> u64 {
        let mut held = self.held();
        let unix_ms = self.clock.unix_ms();
        match place_of(&held, position, unix_ms) {
            Ok(at) => held[at].count += 1,
            Err(at) => held.insert(at, Moment { position, unix_ms, count: 1 }),
        }
        self.note_newest(&held);
        unix_ms
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, position: u64, unix_ms: u64) {
        let mut held = self.held();
        let at = place_of(&held, position, unix_ms).expect("it is held");
        held[at].count -= 1;
        if held[at].count == 0 {
            held.remove(at);
            self.note_newest(&held);
        }
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
        let oldest = held.first().map_or(u64::MAX, |moment| moment.position);
        (oldest, self.over_for(&held))
    }

    fn over_for(&self, held: &Moments) -> u64 {
        let times = held.iter().map(|moment| moment.unix_ms);
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
    let mut positions: Vec<u64> = held.iter().map(|moment| moment.position).collect();
    positions.dedup();
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{ManualClock, Prng};
    use std::collections::BTreeMap;

    #[test]
    fn moments_are_held_and_released_in_any_order() {
        let clock = Arc::new(ManualClock::default());
        let set = SnapshotSet::new(clock.clone());
        let (mut prng, mut model) = (Prng::new(5), BTreeMap::<(u64, u64), usize>::new());
        for step in 0..4000 {
            let is_release = !model.is_empty() && prng.below(2) == 0;
            if is_release {
                let at = prng.below(model.len() as u64) as usize;
                let ((position, unix_ms), count) =
                    model.iter_mut().nth(at).map(|(key, count)| (*key, count)).expect("it has");
                *count -= 1;
                set.release(position, unix_ms);
                model.retain(|_, count| *count > 0);
            } else {
                clock.advance_ns(prng.below(3) * 1_000_000);
                // Positions grow, mostly.
                let position = 1 + step / 8 + prng.below(3);
                let unix_ms = set.hold(position);
                *model.entry((position, unix_ms)).or_default() += 1;
            }
            let mut positions: Vec<u64> = model.keys().map(|(position, _)| *position).collect();
            positions.dedup();
            assert_eq!(set.newest(), positions.last().copied().unwrap_or(0));
            let oldest = positions.first().copied().unwrap_or(u64::MAX);
            let over = model.keys().map(|(_, unix_ms)| *unix_ms).min();
            assert_eq!(set.oldest_moment(), (oldest, over.unwrap_or(clock.unix_ms())));
            assert_eq!(set.positions(), positions);
        }
    }
}
