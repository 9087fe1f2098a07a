//! Which entries go to flash, so that no more is written to it than the user wants.

use silica_base::{Clock, Prng};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Nanoseconds of a day, and days of a year.
const DAY_NS: f64 = 86_400e9;
const YEAR_DAYS: f64 = 365.25;
/// What may be written at once: the budget of this time.
const BURST_NS: f64 = 600e9;
/// Bytes that have to be written before it is believed how many bytes of flash one of an entry
/// costs.
const BELIEVED_BYTES: u64 = 4 << 20;

/// Bytes written to flash so far.
pub(crate) type Written = Box<dyn Fn() -> u64 + Send + Sync>;

/// Lets entries to flash at random, as many as the budget of bytes allows: a rate that is refilled
/// all the time and has a burst of ten minutes. What the cache itself writes for each byte of an
/// entry (copies, checkpoints, what slabs leave empty) is measured and charged.
pub(crate) struct Admission {
    clock: Arc<dyn Clock>,
    written: Written,
    flash_bytes: u64,
    /// Times that a block can be erased; 0 if unknown.
    endurance: u64,
    opened_ns: u64,
    /// Bytes a nanosecond; infinite without a budget.
    rate: f64,
    burst: f64,
    state: Mutex<State>,
    admitted: AtomicU64,
    refused: AtomicU64,
    refused_entries: AtomicU64,
}

struct State {
    prng: Prng,
    /// Bytes that may be written.
    credit: f64,
    refilled_ns: u64,
}

/// What was written, and what that means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wear {
    pub(crate) bytes: u64,
    pub(crate) drive_writes_per_day: f64,
    /// 0 if unknown.
    pub(crate) years: f64,
}

impl Admission {
    /// `drive_writes_per_day` times `flash_bytes` may be written in a day; `None` for any number.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        written: Written,
        flash_bytes: u64,
        endurance: u64,
        drive_writes_per_day: Option<f64>,
    ) -> Self {
        let of_day = |writes: f64| writes * flash_bytes as f64 / DAY_NS;
        let rate = drive_writes_per_day.map_or(f64::INFINITY, of_day);
        let burst = rate * BURST_NS;
        let now_ns = clock.monotonic_ns();
        let state = State { prng: Prng::new(0x5eed), credit: burst / 2.0, refilled_ns: now_ns };
        Admission {
            clock,
            written,
            flash_bytes,
            endurance,
            opened_ns: now_ns,
            rate,
            burst,
            state: Mutex::new(state),
            admitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            refused_entries: AtomicU64::new(0),
        }
    }

    /// Nanoseconds of the clock by which it counts.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// True if an entry of `bytes` bytes goes to flash.
    pub(crate) fn admits(&self, bytes: usize) -> bool {
        let admits = self.rate == f64::INFINITY || self.has_credit(bytes);
        let count = if admits { &self.admitted } else { &self.refused };
        count.fetch_add(bytes as u64, Ordering::Relaxed);
        self.refused_entries.fetch_add(u64::from(!admits), Ordering::Relaxed);
        admits
    }

    fn has_credit(&self, bytes: usize) -> bool {
        let cost = bytes as f64 * self.cost();
        let mut state = self.state.lock().expect("no panic while locked");
        let now_ns = self.clock.monotonic_ns();
        let passed = now_ns.saturating_sub(state.refilled_ns) as f64;
        state.refilled_ns = now_ns;
        state.credit = (state.credit + passed * self.rate).min(self.burst);
        // Fewer the less is left: entries are chosen at random instead of those that come first.
        let chance = (2.0 * state.credit / self.burst).min(1.0);
        let admits = state.credit >= cost && state.prng.unit() < chance;
        if admits {
            state.credit -= cost;
        }
        admits
    }

    /// Bytes that are written for each byte of an entry.
    fn cost(&self) -> f64 {
        let admitted = self.admitted.load(Ordering::Relaxed);
        if admitted < BELIEVED_BYTES {
            return 1.0;
        }
        ((self.written)() as f64 / admitted as f64).max(1.0)
    }

    pub(crate) fn admitted_bytes(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused_bytes(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn refused_entries(&self) -> u64 {
        self.refused_entries.load(Ordering::Relaxed)
    }

    /// What was written since the cache was opened.
    pub(crate) fn written(&self) -> Wear {
        let bytes = (self.written)();
        let days = self.clock.monotonic_ns().saturating_sub(self.opened_ns) as f64 / DAY_NS;
        let drives = bytes as f64 / self.flash_bytes.max(1) as f64;
        let drive_writes_per_day = if days > 0.0 { drives / days } else { 0.0 };
        let years = match drive_writes_per_day {
            // The first hour, in which a cache is filled, says nothing of the years to come.
            rate if rate > 0.0 && days * 24.0 >= 1.0 => self.endurance as f64 / rate / YEAR_DAYS,
            _ => 0.0,
        };
        Wear { bytes, drive_writes_per_day, years }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::ManualClock;

    /// A week of puts at a rate that changes by the hour, of which each byte costs `cost`.
    fn week(drive_writes: f64, cost: f64) -> f64 {
        let clock = Arc::new(ManualClock::default());
        let written = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&written);
        let flash: u64 = 1 << 30;
        let clock_of = Arc::clone(&clock) as Arc<dyn Clock>;
        let admission = Admission::new(
            clock_of,
            Box::new(move || seen.load(Ordering::Relaxed)),
            flash,
            3000,
            Some(drive_writes),
        );
        for second in (0..7 * 86_400_u64).step_by(4) {
            clock.advance_ns(4_000_000_000);
            for _ in 0..2 + second / 3600 % 7 {
                if admission.admits(40_000) {
                    written.fetch_add((40_000.0 * cost) as u64, Ordering::Relaxed);
                }
            }
        }
        assert!(admission.refused_bytes() > 0);
        admission.written().drive_writes_per_day
    }

    #[test]
    fn a_week_of_writes_keeps_to_the_budget() {
        for (drive_writes, cost) in [(0.5, 1.0), (1.0, 1.4), (0.3, 2.0)] {
            let measured = week(drive_writes, cost);
            assert!((measured / drive_writes - 1.0).abs() < 0.05, "{measured} for {drive_writes}");
        }
    }

    #[test]
    fn without_a_budget_all_is_admitted() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let admission = Admission::new(clock, Box::new(|| 0), 1 << 30, 0, None);
        assert!((0..1000).all(|_| admission.admits(1 << 20)));
        let wear = admission.written();
        assert_eq!((wear.drive_writes_per_day, wear.years), (0.0, 0.0));
    }
}
