//! In which stages a sample of bursts spends its time, if somebody observes the server.

use silica::engine::{Stage, StageTimes};
use silica_base::Striped;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// One burst in so many is asked for its stages: each look at the clock takes 30 ns, and a read
/// enters up to ten stages.
const SAMPLED: u64 = 256;

/// Where the reads of a sample of bursts spent their time, if somebody observes the server.
#[derive(Debug, Default)]
pub(crate) struct StageSums {
    is_observed: AtomicBool,
    /// Nanoseconds in each stage.
    nanoseconds: Striped<[AtomicU64; Stage::ALL.len()]>,
    bursts: AtomicU64,
}

impl StageSums {
    /// True if a burst that is handed to a worker at `now_ns` belongs to the sample.
    pub(crate) fn takes(&self, now_ns: u64) -> bool {
        // The low bits of a time are spread over all by an odd factor (Fibonacci hashing).
        let spread = now_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        spread.is_multiple_of(SAMPLED)
    }

    /// Begins to be observed.
    pub(crate) fn observe(&self) {
        self.is_observed.store(true, Relaxed);
    }

    /// Bursts of the sample, and the nanoseconds of each stage.
    pub(crate) fn sums(&self) -> (u64, [u64; Stage::ALL.len()]) {
        // A stage's place in the array is its number, not its place in the order of showing.
        let sums = std::array::from_fn(|index| self.nanoseconds.sum(|all| &all[index]));
        (self.bursts.load(Relaxed), sums)
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.is_observed.load(Relaxed)
    }

    /// Adds what the stages of a burst took, and how long the burst waited for its worker.
    pub(crate) fn add(&self, times: &StageTimes, queued_ns: u64) {
        let mine = self.nanoseconds.mine();
        mine.add(|sums| &sums[Stage::Queue as usize], queued_ns);
        for (stage, time) in times.iter() {
            mine.add(|sums| &sums[stage as usize], time.nanoseconds);
        }
        self.bursts.fetch_add(1, Relaxed);
    }
}
