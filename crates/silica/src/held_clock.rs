//! A clock that is held back: by it the entries of a replica expire.

use crate::{OpenOptions, Silica};
use silica_base::{Clock, HashSeed, SystemClock};
use silica_engine::{Environment, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How late a clock that is held back is at most.
const LATE_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// The machine's clocks, of which the Unix time can be held back: for the data of a replica.
///
/// A key expires when its primary says so. What the primary does with it before that reaches a
/// replica later, maybe when the key's time is over by the replica's own clock. So the engines of a
/// replica take a time from here that its primary had passed when it wrote what was applied last;
/// readers compare with the machine's clock.
#[derive(Debug, Default)]
pub struct HeldClock {
    machine: SystemClock,
    is_held: AtomicBool,
    /// A time that has passed where the data comes from.
    passed_ms: AtomicU64,
}

impl Silica {
    /// The clock by which entries expire. While it is held back they stay, and whoever reads them
    /// compares their time with the machine's.
    pub fn clock(&self) -> &Arc<HeldClock> {
        &self.clock
    }
}

impl HeldClock {
    /// A clock that is held back from the start on, if it `is_held`.
    pub(crate) fn start(is_held: bool) -> Arc<Self> {
        let clock = HeldClock::default();
        clock.is_held.store(is_held, Ordering::Relaxed);
        Arc::new(clock)
    }

    /// What an engine is opened with that goes by it.
    pub(crate) fn environment(self: &Arc<Self>, options: &OpenOptions) -> Result<Environment> {
        let clock = Arc::clone(self) as Arc<dyn Clock>;
        Ok(Environment { clock, seed: HashSeed(options.new_seed()?) })
    }

    /// Holds the clock back from now on, a day behind the machine's until [`HeldClock::pass`] says
    /// more.
    pub fn hold(&self) {
        self.passed_ms.store(0, Ordering::Relaxed);
        self.is_held.store(true, Ordering::Relaxed);
    }

    /// The Unix time `ms` has passed where the data comes from.
    pub fn pass(&self, ms: u64) {
        self.passed_ms.fetch_max(ms, Ordering::Relaxed);
    }

    /// Goes with the machine's clock from now on.
    pub fn release(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }

    /// True if it is held back.
    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }
}

impl Clock for HeldClock {
    fn unix_ms(&self) -> u64 {
        let now_ms = self.machine.unix_ms();
        match self.is_held() {
            true => {
                let passed_ms = self.passed_ms.load(Ordering::Relaxed).min(now_ms);
                passed_ms.max(now_ms.saturating_sub(LATE_MS_MAX))
            }
            false => now_ms,
        }
    }

    fn monotonic_ns(&self) -> u64 {
        self.machine.monotonic_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_held_goes_on_as_it_is_told() {
        let (machine, clock) = (SystemClock::default(), HeldClock::default());
        let now_ms = machine.unix_ms();
        assert!(clock.unix_ms() >= now_ms && !clock.is_held());
        clock.hold();
        assert!(clock.unix_ms() < now_ms - LATE_MS_MAX + 60_000);
        clock.pass(now_ms - 5_000);
        clock.pass(now_ms - 9_000);
        assert_eq!(clock.unix_ms(), now_ms - 5_000);
        clock.pass(now_ms + 1_000_000);
        assert!(clock.unix_ms() < now_ms + 60_000, "never ahead of the machine's");
        clock.release();
        assert!(clock.unix_ms() >= now_ms);
    }
}
