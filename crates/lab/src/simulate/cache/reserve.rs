//! How much flash a cache keeps free.

/// How the low watermark is set. The high one is a constant share above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reserve {
    /// A share of the slabs, as a conventional drive has it.
    Static(f64),
    /// Begins with a share, is doubled if free slabs fall below it, and becomes one slab smaller
    /// whenever free slabs reach the high watermark (the feedback-based model).
    Heuristic(f64),
    /// What an M/M/1 queue says slabs wait for on average, from the rate at which slabs are filled
    /// and the time of a reclaim of `evict_ns` (equations 2.1 to 2.3).
    Queueing {
        /// Time to reclaim a slab by dropping it: the erase, and what is around it, in nanoseconds.
        evict_ns: u64,
    },
}

/// A reserve is at most this share of the slabs: caches are to cache.
const SHARE_MAX: f64 = 0.5;
/// The heuristic never reserves more than conventional drives do.
const HEURISTIC_SHARE_MAX: f64 = 0.25;
/// Weight of the newest interval between two slabs in their mean.
const NEWEST: f64 = 1.0 / 16.0;

/// The watermarks of a cache at one moment.
#[derive(Clone, Debug)]
pub(super) struct Watermarks {
    reserve: Reserve,
    slabs: f64,
    /// Share between the two.
    between: f64,
    low: f64,
    was_low: bool,
    filled_ns: u64,
    /// Mean time between two slabs, in nanoseconds.
    interval_ns: Option<f64>,
}

impl Watermarks {
    pub(super) fn new(reserve: Reserve, slabs: u32, between: f64) -> Self {
        let slabs = f64::from(slabs);
        let low = match reserve {
            Reserve::Static(share) | Reserve::Heuristic(share) => share * slabs,
            Reserve::Queueing { .. } => 1.0,
        };
        let (was_low, filled_ns, interval_ns) = (false, 0, None);
        Watermarks { reserve, slabs, between, low, was_low, filled_ns, interval_ns }
    }

    /// Fewer free slabs than this are a starving cache's; at least 1.
    pub(super) fn low(&self) -> usize {
        self.low.round().max(1.0) as usize
    }

    pub(super) fn high(&self) -> usize {
        ((self.low + self.between * self.slabs).round() as usize).max(self.low())
    }

    /// A slab was filled at `now_ns`, and so many are free.
    pub(super) fn filled(&mut self, now_ns: u64, free: usize) {
        let took_ns = now_ns.saturating_sub(self.filled_ns) as f64;
        self.filled_ns = now_ns;
        let mean_ns = self.interval_ns.map_or(took_ns, |mean| mean + NEWEST * (took_ns - mean));
        self.interval_ns = Some(mean_ns);
        let most = SHARE_MAX * self.slabs;
        match self.reserve {
            Reserve::Static(_) => {}
            Reserve::Heuristic(_) => {
                let is_low = free < self.low();
                if is_low && !self.was_low {
                    self.low = (2.0 * self.low).min(HEURISTIC_SHARE_MAX * self.slabs);
                } else if free >= self.high() {
                    self.low = (self.low - 1.0).max(1.0);
                }
                self.was_low = is_low;
            }
            Reserve::Queueing { evict_ns } => {
                // Slabs filled in the time of a reclaim: arrival rate by service rate.
                let load = evict_ns as f64 / mean_ns.max(1.0);
                let waiting = if load < 1.0 { load / (1.0 - load) } else { most };
                self.low = waiting.clamp(1.0, most);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_reserves_what_the_equation_says() {
        let mut marks = Watermarks::new(Reserve::Queueing { evict_ns: 8_000_000 }, 1000, 0.15);
        // A slab in 10 ms: rate 100, service rate 125, so 100 / 25 slabs.
        (1..500).for_each(|i| marks.filled(i * 10_000_000, 100));
        assert_eq!((marks.low(), marks.high()), (4, 154));
        // A slab a second: none waits, and one is kept.
        (1..500).for_each(|i| marks.filled(5_000_000_000 + i * 1_000_000_000, 100));
        assert_eq!((marks.low(), marks.high()), (1, 151));
        // Faster than reclaims: as much as there may be.
        (1..500).for_each(|i| marks.filled(505_000_000_000 + i * 1_000_000, 100));
        assert_eq!(marks.low(), 500);
    }

    #[test]
    fn the_heuristic_doubles_under_pressure_and_falls_without() {
        let mut marks = Watermarks::new(Reserve::Heuristic(0.05), 1000, 0.15);
        assert_eq!((marks.low(), marks.high()), (50, 200));
        marks.filled(1, 49);
        assert_eq!(marks.low(), 100);
        marks.filled(2, 80);
        assert_eq!(marks.low(), 100, "a pressure that lasts is one");
        marks.filled(3, 120);
        marks.filled(4, 99);
        assert_eq!(marks.low(), 200);
        (5..15).for_each(|i| marks.filled(i, 400));
        assert_eq!(marks.low(), 190);
        let mut fixed = Watermarks::new(Reserve::Static(0.25), 1000, 0.0);
        fixed.filled(1, 0);
        assert_eq!((fixed.low(), fixed.high()), (250, 250));
    }
}
