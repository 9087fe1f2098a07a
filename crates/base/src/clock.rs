//! Time as an argument.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from. Engines take a clock so that expiry and throttling replay exactly.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn unix_ms(&self) -> u64;
    /// Microseconds since the Unix epoch, as fine as the clock goes.
    fn unix_us(&self) -> u64 {
        self.unix_ms() * 1000
    }
    /// Nanoseconds since an arbitrary fixed point; never goes back.
    fn monotonic_ns(&self) -> u64;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock(Instant);

// The one place below the facade that reads the machine's clocks.
#[allow(clippy::disallowed_methods)]
impl Default for SystemClock {
    fn default() -> Self {
        SystemClock(Instant::now())
    }
}

#[allow(clippy::disallowed_methods)]
impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
    }

    fn unix_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the clock on by `ns` nanoseconds.
    pub fn advance_ns(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_stands_until_advanced() {
        let clock = ManualClock::default();
        assert_eq!(clock.unix_ms(), 0);
        clock.advance_ns(3_000_000);
        assert_eq!(clock.unix_ms(), 3);
    }
}
