//! The virtual time of a simulated device, held to a clock.

use silica_base::Clock;
use std::sync::Arc;
use std::time::Duration;

/// A sleep may end this much late, so the last part of a wait is spent awake, in nanoseconds.
const AWAKE_NS: u64 = 80_000;
/// Sleeps of a wait at most, in nanoseconds: a clock that is moved by hand may jump.
const SLEEP_NS_MAX: u64 = 1_000_000;

/// A clock, and where it stood when the device's time was 0.
#[derive(Clone)]
pub(super) struct Pace {
    clock: Arc<dyn Clock>,
    zero_ns: u64,
}

impl Pace {
    /// The clock shows now what the device's time is now.
    pub(super) fn new(clock: Arc<dyn Clock>, now_ns: u64) -> Self {
        let zero_ns = clock.monotonic_ns().wrapping_sub(now_ns);
        Pace { clock, zero_ns }
    }

    /// The device's time by the clock, in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns().wrapping_sub(self.zero_ns)
    }

    /// Returns when the device's time is `end_ns`.
    pub(super) fn wait_until(&self, end_ns: u64) {
        loop {
            let left_ns = end_ns.saturating_sub(self.now_ns());
            match left_ns {
                0 => return,
                1..=AWAKE_NS => std::thread::yield_now(),
                _ => {
                    let ns = (left_ns - AWAKE_NS).min(SLEEP_NS_MAX);
                    std::thread::sleep(Duration::from_nanos(ns));
                }
            }
        }
    }
}
