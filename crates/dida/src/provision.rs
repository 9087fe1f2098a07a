//! How many blocks are kept free (papers: 003…, 2.4.1, equations 2.1 to 2.3).
//!
//! Below the low mark slabs are dropped as wholes; between the marks slabs are copied that have
//! much that is dead. A writer that finds no free block waits for an erase, so the low mark is as
//! many blocks as are written while one is made free. The high mark is a constant over it.

use crate::options::OverProvisioning;
use std::sync::{Mutex, MutexGuard};

/// Share of the blocks between the low mark and the high one.
const BETWEEN: f64 = 0.15;
/// The high mark of the static policy.
const STATIC: f64 = 0.25;
/// The low mark that the heuristic begins with, and how much it goes down each time.
const HEURISTIC: f64 = 0.05;
const HEURISTIC_STEP: f64 = 0.01;
/// The low mark at most.
const LOW_MAX: f64 = 0.25;
/// Weight of a new measurement in an average.
const NEW: f64 = 0.1;

/// Free blocks at which the collector changes what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) low: u32,
    pub(crate) high: u32,
}

pub(crate) struct Provision {
    kind: OverProvisioning,
    slabs: f64,
    state: Mutex<Measured>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The low mark of the heuristic.
    low: f64,
    /// Free blocks went below it, and did not come back yet.
    is_below: bool,
    last_drain_ns: Option<u64>,
    /// Nanoseconds between slabs that are written, and that a block takes to be made free; 0 as
    /// long as nobody knows.
    drain_ns: f64,
    reclaim_ns: f64,
}

fn average(old: f64, new: f64) -> f64 {
    if old == 0.0 { new } else { old + NEW * (new - old) }
}

impl Provision {
    pub(crate) fn new(option: u64, slabs: u32) -> Self {
        let slabs = f64::from(slabs);
        let measured = Measured {
            low: HEURISTIC * slabs,
            is_below: false,
            last_drain_ns: None,
            drain_ns: 0.0,
            reclaim_ns: 0.0,
        };
        Provision { kind: OverProvisioning::new(option), slabs, state: Mutex::new(measured) }
    }

    fn state(&self) -> MutexGuard<'_, Measured> {
        self.state.lock().expect("no panic while locked")
    }

    /// A slab was written now.
    pub(crate) fn note_drain(&self, now_ns: u64) {
        let mut state = self.state();
        if let Some(last) = state.last_drain_ns {
            state.drain_ns = average(state.drain_ns, now_ns.saturating_sub(last).max(1) as f64);
        }
        state.last_drain_ns = Some(now_ns);
    }

    /// It took so long to drop a slab and erase its block.
    pub(crate) fn note_reclaim(&self, ns: u64) {
        let mut state = self.state();
        state.reclaim_ns = average(state.reclaim_ns, ns.max(1) as f64);
    }

    /// The marks as of now, of `usable` blocks of which `free` are free.
    pub(crate) fn marks(&self, free: u32, usable: u32) -> Marks {
        let mut state = self.state();
        let between = BETWEEN * self.slabs;
        let low = match self.kind {
            OverProvisioning::Static => STATIC * self.slabs - between,
            OverProvisioning::Heuristic => {
                let is_below = f64::from(free) < state.low;
                if is_below && !state.is_below {
                    state.low = (2.0 * state.low).min(LOW_MAX * self.slabs);
                } else if f64::from(free) >= state.low + between {
                    state.low = (state.low - HEURISTIC_STEP * self.slabs).max(1.0);
                }
                state.is_below = is_below;
                state.low
            }
            OverProvisioning::Queueing => queue(state.drain_ns, state.reclaim_ns),
        };
        let low = low.clamp(1.0, (LOW_MAX * self.slabs).max(1.0));
        let most = (usable / 2).max(1);
        let marks = Marks { low: low.round() as u32, high: (low + between).round() as u32 };
        Marks { low: marks.low.min(most), high: marks.high.max(marks.low + 1).min(most + 1) }
    }

    /// Slabs written a second and slabs that could be made free a second, as measured; 0 if
    /// unknown.
    pub(crate) fn rates(&self) -> (f64, f64) {
        let state = self.state();
        let rate = |ns: f64| if ns > 0.0 { 1e9 / ns } else { 0.0 };
        (rate(state.drain_ns), rate(state.reclaim_ns))
    }
}

/// Slabs that wait on average if one comes every `arrival_ns` and takes `service_ns`:
/// λ / (μ − λ) (equation 2.1).
fn queue(arrival_ns: f64, service_ns: f64) -> f64 {
    if arrival_ns == 0.0 || service_ns == 0.0 {
        return 1.0;
    }
    if service_ns >= arrival_ns { f64::INFINITY } else { service_ns / (arrival_ns - service_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_the_papers() {
        // λ = 10 a second, μ = 1 / 0.05 s: 10 / (20 - 10).
        assert!((queue(0.1e9, 0.05e9) - 1.0).abs() < 1e-9);
        assert!((queue(0.1e9, 0.09e9) - 9.0).abs() < 1e-9);
        assert_eq!(queue(1.0, 2.0), f64::INFINITY);
    }

    #[test]
    fn each_policy_moves_its_marks_as_it_says() {
        let still = Provision::new(0, 1000);
        assert_eq!(still.marks(500, 1000), Marks { low: 100, high: 250 });
        let heuristic = Provision::new(1, 1000);
        assert_eq!(heuristic.marks(100, 1000).low, 50);
        assert_eq!(heuristic.marks(40, 1000).low, 100);
        // Still below: it doubles once for each time that blocks run out.
        assert_eq!(heuristic.marks(40, 1000).low, 100);
        assert_eq!(heuristic.marks(150, 1000).low, 100);
        assert_eq!(heuristic.marks(99, 1000).low, 200);
        assert_eq!(heuristic.marks(400, 1000).low, 190);
        let queueing = Provision::new(2, 1000);
        assert_eq!(queueing.marks(0, 1000), Marks { low: 1, high: 151 });
        queueing.note_drain(0);
        queueing.note_drain(100);
        queueing.note_reclaim(90);
        assert_eq!(queueing.marks(0, 1000).low, 9);
        queueing.note_reclaim(1_000_000);
        assert_eq!(queueing.marks(0, 1000).low, 250);
    }

    #[test]
    fn marks_leave_room_in_a_small_cache() {
        for option in 0..3 {
            for slabs in [1, 2, 3, 8] {
                let marks = Provision::new(option, slabs).marks(0, slabs);
                assert!(marks.low >= 1 && marks.high > marks.low, "{slabs}: {marks:?}");
                assert!(marks.high <= slabs / 2 + 2, "{slabs}: {marks:?}");
            }
        }
    }
}
