//! Rounds: in each round every store runs one short slice while all others stand still, so that
//! stores are compared within moments, whatever the machine does over minutes.

use crate::protocol::SliceReport;
use crate::stats::Turn;
use silica_base::Prng;

/// Who takes part in rounds.
pub(crate) trait Contestant {
    /// Goes on for about `seconds` and stands still again; the error ends its part.
    fn slice(&mut self, seconds: f64) -> Result<SliceReport, String>;
}

/// How long the rounds of a workload are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Windows {
    /// Rounds, unless all that there is to do is done before.
    pub(crate) rounds: usize,
    /// Time of a slice.
    pub(crate) slice_seconds: f64,
}

/// Rounds that every workload has, however little time there is.
pub(crate) const ROUNDS_MIN: usize = 8;
/// A shorter slice would mostly measure how a store starts again, a longer one lets the machine
/// change between the first store and the last.
const SLICE_SECONDS: (f64, f64) = (0.05, 0.15);
/// What slices are to take where there is time for more than the fewest rounds: of calls that only
/// read, and of others, which need longer ones to have their share of work in the background.
const SLICE_READS: f64 = 0.06;
const SLICE_WRITES: f64 = 0.1;
/// What there is to do at least, where all of it would be done in a few slices of that length.
const SLICE_SECONDS_LEAST: f64 = 0.005;
/// A workload whose slices take longer than they should ends after so much of its time.
const PATIENCE: f64 = 1.5;

impl Windows {
    /// Rounds that fill `seconds` of each store, which `writes` or only reads; 0 seconds mean until
    /// all is done.
    pub(crate) fn of(seconds: f64, writes: bool) -> Windows {
        if seconds <= 0.0 {
            return Windows { rounds: usize::MAX, slice_seconds: SLICE_SECONDS_LEAST };
        }
        let slice = if writes { SLICE_WRITES } else { SLICE_READS };
        let rounds = ((seconds / slice).round() as usize).clamp(ROUNDS_MIN, ROUNDS_MAX);
        let slice_seconds = (seconds / rounds as f64).clamp(SLICE_SECONDS.0, SLICE_SECONDS.1);
        Windows { rounds, slice_seconds }
    }

    /// Rounds that are known to come.
    pub(crate) fn steps(&self) -> usize {
        if self.rounds == usize::MAX { 0 } else { self.rounds }
    }

    /// Time of each store, if nothing takes longer.
    pub(crate) fn seconds(&self) -> f64 {
        self.rounds as f64 * self.slice_seconds
    }
}

/// More rounds make the interval of a median little narrower.
const ROUNDS_MAX: usize = 40;

/// One that takes part, and what it did so far.
pub(crate) struct Lane<C> {
    pub(crate) contestant: C,
    /// What it did in each round; `None` where it was through or failed before.
    pub(crate) turns: Vec<Option<Turn>>,
    /// Operations that are left, as far as there is an end.
    left: f64,
    slice_seconds: f64,
    /// It has no end of its own and goes on while others do.
    is_beside: bool,
    complete: bool,
    /// Why it takes part no more.
    pub(crate) failed: Option<String>,
}

impl<C: Contestant> Lane<C> {
    /// One with `operations` to do.
    pub(crate) fn new(contestant: C, operations: f64) -> Self {
        Lane {
            contestant,
            turns: Vec::new(),
            left: operations,
            slice_seconds: f64::INFINITY,
            is_beside: false,
            complete: false,
            failed: None,
        }
    }

    /// One that goes on while others do: a limit beside the stores.
    pub(crate) fn beside(contestant: C) -> Self {
        Lane { is_beside: true, ..Lane::new(contestant, f64::INFINITY) }
    }

    fn is_out(&self) -> bool {
        self.complete || self.failed.is_some()
    }

    /// Its slice of a round; `left` rounds come, this one included.
    fn turn(&mut self, windows: &Windows, left: usize) {
        let turn = match self.contestant.slice(windows.slice_seconds.min(self.slice_seconds)) {
            Ok(slice) => {
                self.complete = slice.complete;
                self.left -= slice.operations;
                let speed = slice.operations / slice.seconds;
                // What has an end is spread over all rounds, so that each round has its part.
                let each = self.left / speed / (left - 1).max(1) as f64;
                if each.is_finite() {
                    self.slice_seconds = each.max(SLICE_SECONDS_LEAST);
                }
                let turn = Turn { operations: slice.operations, seconds: slice.seconds };
                // The end of all that there was to do may be found without doing anything.
                (slice.seconds > 0.0 && (slice.operations > 0.0 || !slice.complete)).then_some(turn)
            }
            Err(why) => {
                self.failed = Some(why);
                None
            }
        };
        self.turns.push(turn);
    }
}

/// What the rounds need of the world around them.
pub(crate) struct World<'a> {
    /// Seconds since anything.
    pub(crate) clock: &'a dyn Fn() -> f64,
    /// True where the run was interrupted.
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
    /// Told after each round.
    pub(crate) told: &'a mut dyn FnMut(usize),
}

/// Goes round until all is done, the windows end, or the run was interrupted; the rounds that were
/// begun. Who comes first is drawn from `seed` anew in each round, so that nobody always has the
/// same neighbour.
pub(crate) fn go_round<C: Contestant>(
    lanes: &mut [Lane<C>],
    windows: &Windows,
    seed: u64,
    world: &mut World<'_>,
) -> usize {
    let began = (world.clock)();
    let time = windows.seconds() * lanes.len() as f64 * PATIENCE;
    let mut prng = Prng::new(seed);
    for round in 0..windows.rounds {
        let late = round >= ROUNDS_MIN && (world.clock)() - began > time;
        if late || lanes.iter().all(|lane| lane.is_out() || lane.is_beside) {
            return round;
        }
        for place in shuffled(lanes.len(), &mut prng) {
            if (world.is_stopped)() {
                return round + 1;
            }
            if !lanes[place].is_out() {
                lanes[place].turns.resize(round, None);
                lanes[place].turn(windows, windows.rounds - round);
            }
        }
        (world.told)(round);
    }
    windows.rounds
}

/// The numbers below `count` in an order of their own.
fn shuffled(count: usize, prng: &mut Prng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, prng.below(last as u64 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests;
