//! What took long: the log that SLOWLOG shows, and the peaks that LATENCY shows.
//!
//! Requests run in bursts, so it is bursts that are timed: a burst's time is what each of its
//! requests took to be answered. The log shows the first request of a slow burst, and how many ran
//! with it.

use crate::budget::{Budget, Share};
use silica_base::Striped;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds of which LATENCY keeps the peaks.
const PEAKS_MAX: usize = 160;
/// Powers of two of microseconds that are told apart; the last is over a day.
pub(crate) const POWERS: usize = 32;
/// Entries of the log, whatever is set.
const LEN_MAX: usize = 100_000;

/// A request that took long.
#[derive(Debug, Clone)]
pub(crate) struct Slow {
    pub(crate) id: u64,
    pub(crate) unix_s: u64,
    pub(crate) micros: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

impl Slow {
    fn held_bytes(&self) -> usize {
        let args: usize = self.args.iter().map(|arg| arg.len() + 48).sum();
        size_of::<(Slow, Share)>() + args + self.peer.len() + self.name.len() + 64
    }
}

/// The last requests that took long.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Microseconds from which on a burst is slow; negative for never.
    pub(crate) micros_min: AtomicI64,
    pub(crate) len_max: AtomicUsize,
    /// Entries say in which stages reads spent their time.
    pub(crate) stages: AtomicBool,
    next_id: AtomicU64,
    /// Memory of all entries.
    bytes: AtomicUsize,
    /// Newest first.
    list: Mutex<VecDeque<(Slow, Share)>>,
}

impl Default for SlowLog {
    fn default() -> Self {
        SlowLog {
            micros_min: AtomicI64::new(10_000),
            len_max: AtomicUsize::new(128),
            stages: AtomicBool::new(false),
            next_id: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            list: Mutex::default(),
        }
    }
}

impl SlowLog {
    fn list(&self) -> MutexGuard<'_, VecDeque<(Slow, Share)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True where entries say in which stages reads spent their time.
    pub(crate) fn shows_stages(&self) -> bool {
        self.stages.load(Relaxed)
    }

    /// The newest `count` entries.
    pub(crate) fn newest(&self, count: usize) -> Vec<Slow> {
        self.list().iter().take(count).map(|(slow, _)| slow.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.list().len()
    }

    pub(crate) fn clear(&self) {
        let mut list = self.list();
        list.clear();
        self.bytes.store(0, Relaxed);
    }

    /// Memory of all entries.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn is_slow(&self, micros: u64) -> bool {
        u64::try_from(self.micros_min.load(Relaxed)).is_ok_and(|min| micros >= min)
    }

    /// Adds an entry. Without memory for it, or if all take more than an eighth of the clients'
    /// memory, the oldest go.
    pub(crate) fn add(&self, mut slow: Slow, budget: &Arc<Budget>) {
        let len_max = self.len_max.load(Relaxed).min(LEN_MAX);
        let mut list = self.list();
        slow.id = self.next_id.fetch_add(1, Relaxed);
        let bytes = slow.held_bytes();
        let share = Share::new(budget);
        let mut all = self.bytes.load(Relaxed) + bytes;
        while all > budget.max() / 8 || list.len() >= len_max || share.grow(bytes).is_err() {
            match list.pop_back() {
                Some((_, share)) => all -= share.bytes(),
                None => break,
            }
        }
        if share.bytes() == bytes && len_max > 0 {
            list.push_front((slow, share));
        } else {
            all -= bytes;
        }
        self.bytes.store(all, Relaxed);
    }
}

/// A second in which something took long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peak {
    pub(crate) unix_s: u64,
    pub(crate) millis: u64,
}

/// The worst bursts of the last seconds that had slow ones.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// Milliseconds from which on a burst counts; 0 for never.
    pub(crate) millis_min: AtomicU64,
    /// Peaks, oldest first, and the highest ever.
    peaks: Mutex<(VecDeque<Peak>, u64)>,
    /// Bursts that took up to 1, 2, 4, … microseconds.
    bursts: Striped<[AtomicU64; POWERS]>,
}

impl Latency {
    fn peaks(&self) -> MutexGuard<'_, (VecDeque<Peak>, u64)> {
        self.peaks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peaks, oldest first.
    pub(crate) fn history(&self) -> Vec<Peak> {
        self.peaks().0.iter().copied().collect()
    }

    /// The last peak and the highest of all milliseconds.
    pub(crate) fn latest(&self) -> Option<(Peak, u64)> {
        let peaks = self.peaks();
        peaks.0.back().map(|last| (*last, peaks.1))
    }

    /// Forgets everything; true where there was something.
    pub(crate) fn clear(&self) -> bool {
        !std::mem::take(&mut *self.peaks()).0.is_empty()
    }

    pub(crate) fn count(&self, micros: u64) {
        let power = micros.max(1).next_power_of_two().trailing_zeros() as usize;
        self.bursts.add(|powers| &powers[power.min(POWERS - 1)], 1);
    }

    /// Bursts since the start by their power of two, whatever was reset.
    pub(crate) fn all_bursts(&self) -> [u64; POWERS] {
        std::array::from_fn(|power| self.bursts.sum(|powers| &powers[power]))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.millis_min.load(Relaxed) > 0
    }

    pub(crate) fn note(&self, millis: u64, unix_s: u64) {
        let min = self.millis_min.load(Relaxed);
        if min == 0 || millis < min {
            return;
        }
        let mut peaks = self.peaks();
        peaks.1 = peaks.1.max(millis);
        match peaks.0.back_mut() {
            Some(last) if last.unix_s == unix_s => last.millis = last.millis.max(millis),
            _ => peaks.0.push_back(Peak { unix_s, millis }),
        }
        if peaks.0.len() > PEAKS_MAX {
            peaks.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_seconds() {
        let latency = Latency::default();
        latency.note(1000, 1);
        assert_eq!(latency.latest(), None, "it is off");
        latency.millis_min.store(10, Relaxed);
        for (millis, unix_s) in [(9, 5), (50, 5), (20, 5), (60, 5), (15, 6)] {
            latency.note(millis, unix_s);
        }
        let peak = |unix_s, millis| Peak { unix_s, millis };
        assert_eq!(latency.history(), [peak(5, 60), peak(6, 15)]);
        assert_eq!(latency.latest(), Some((peak(6, 15), 60)));
        (10..500).for_each(|unix_s| latency.note(11, unix_s));
        assert_eq!(latency.history().len(), PEAKS_MAX);
        assert!(latency.clear() && !latency.clear());
    }
}
