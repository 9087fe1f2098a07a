//! What algorithm 3 leaves out of LevelDB: tables of a size, and levels that fill in bursts.

use super::leveldb::positive;
use super::{LevelDb, Primitives, Stage, WriteAmplification};
use silica_base::Result;

/// The refined model of LevelDB, for tables of a size (beside algorithm 3, which has none).
///
/// - Level 0 comes down in one burst, so just before one a key of a level was last compacted a
///   whole number of bursts ago. A level smaller than level 0 is emptied in each.
/// - A level is compacted until it is under its limit: on average half a table under.
/// - The table in which the last compaction ended was written anew since, begins before that end,
///   and so is passed over until the next round. Where a burst moves few tables, much is.
/// - Tables that lie only partly over a compacted one are written too; but where the next level is
///   nearly empty there are none.
#[derive(Clone, Debug, PartialEq)]
pub struct RefinedLevelDb {
    /// The parameters of algorithm 3.
    pub design: LevelDb,
    /// Entries of a table at most.
    pub table: f64,
}

/// Entries written for false overlaps, for each entry moved, where there are many to overlap: about
/// a table for each table, of the last level's, which are nearly full. Tables of other levels are
/// shorter, as they must not overlap more than ten of the next level. These two and `FEW` are what
/// the simulator counts (docs/models.md).
const OVERLAPS_LAST: f64 = 1.0;
const OVERLAPS: f64 = 0.66;
/// How soon that many are reached, by entries met for each entry moved.
const FEW: f64 = 1.6;
/// The part of a table that is passed over.
const PASSED: f64 = 0.5;
/// Rounds in which a key was passed over before, that are counted one by one.
const ROUNDS: i32 = 4;
/// Bursts in a cycle up to which they are summed one by one.
const BURSTS: f64 = 12.0;
/// Rounds for the part that is passed over, and halvings for a cycle's length.
const REPEATS: u32 = 4;
const HALVINGS: u32 = 48;

/// How a level is compacted.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    /// Requests of a round through all keys.
    requests: f64,
    /// Share of the keys that a round passes over.
    passed: f64,
}

/// A popularity, and the requests of a burst.
struct Bursts<'k> {
    keys: &'k Primitives,
    requests: f64,
}

impl RefinedLevelDb {
    /// Checked parameters for stores of `keys` keys.
    ///
    /// # Errors
    /// What [`LevelDb::checked`] refuses, and a table that is not over zero.
    pub fn checked(self, keys: f64) -> Result<Self> {
        positive("a table's size", self.table)?;
        Ok(RefinedLevelDb { design: self.design.checked(keys)?, table: self.table })
    }

    /// Entries that a level has between bursts.
    fn settled(&self, size: f64) -> f64 {
        if size >= self.table { size - 0.5 * self.table } else { 0.5 * size * size / self.table }
    }

    /// Write amplification of puts to a store that has every key.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        let LevelDb { log, level0_tables, ref levels } = self.design;
        let bursts = Bursts { keys, requests: log * level0_tables };
        let mut cost = WriteAmplification::logged();
        cost.add(Stage::Level(0), keys.unique(log) / log);
        let cycles = self.cycles(&bursts);
        let first = match cycles.first() {
            Some(&cycle) => bursts.content(cycle, bursts.requests),
            None => keys.keys(),
        };
        cost.add(Stage::Level(1), first / bursts.requests);
        for (at, &cycle) in cycles.iter().enumerate() {
            let moved = bursts.moved(cycle);
            let taken = 1.0 - cycle.passed;
            let (met, written, overlaps) = match cycles.get(at + 1) {
                Some(&next) => {
                    let written =
                        taken * cycle.ages(|age| bursts.content(next, age + cycle.requests));
                    (self.settled(levels[at + 1]), written, OVERLAPS)
                }
                None => (keys.keys(), taken * keys.keys(), OVERLAPS_LAST),
            };
            let overlaps = overlaps * -(-FEW * met / moved).exp_m1();
            let amount = (written + overlaps * moved) / cycle.requests;
            let stage = Stage::Level(at as u32 + 2);
            cost.add(stage, if amount.is_finite() { amount } else { 0.0 });
        }
        cost
    }

    /// Of levels 1, 2, … but the last.
    fn cycles(&self, bursts: &Bursts<'_>) -> Vec<Cycle> {
        // How often the place at which a level's compaction ended is written anew in a burst.
        let mut rewritten = 1.0;
        let mut cycles = Vec::new();
        for &size in &self.design.levels[..self.design.levels.len() - 1] {
            let settled = self.settled(size);
            let mut cycle = Cycle { requests: bursts.requests, passed: 0.0 };
            for _ in 0..REPEATS {
                cycle.requests = bursts.cycle(settled, cycle.passed);
                let part = bursts.requests / cycle.requests;
                let tables = bursts.moved(cycle) * part / self.table;
                let passed = PASSED * rewritten * (1.0 - part);
                cycle.passed = (passed / (passed + tables)).clamp(0.0, 0.6);
            }
            rewritten = bursts.requests / cycle.requests;
            cycles.push(cycle);
        }
        cycles
    }
}

impl Cycle {
    /// Mean of `f` over the keys' ages beyond the last round: whole rounds in which they were
    /// passed over.
    fn ages(self, f: impl Fn(f64) -> f64) -> f64 {
        let (mut sum, mut share) = (0.0, 1.0);
        for rounds in 0..=ROUNDS {
            let here = if rounds == ROUNDS { share } else { share * (1.0 - self.passed) };
            if here > 1e-9 {
                sum += here * f(f64::from(rounds) * self.requests);
            }
            share *= self.passed;
        }
        sum
    }
}

impl Bursts<'_> {
    /// Requests whose keys a round through a level moves on, as distinct keys.
    fn moved(&self, cycle: Cycle) -> f64 {
        let unique = |age| self.keys.unique(age + cycle.requests);
        (1.0 - cycle.passed) * cycle.ages(unique)
    }

    /// Entries of a level just before a burst, if each had `more` requests more.
    fn content(&self, cycle: Cycle, more: f64) -> f64 {
        cycle.ages(|age| self.level(cycle.requests, age + more))
    }

    /// Mean over a round's bursts of the distinct keys of the requests since, and `more`.
    fn level(&self, round: f64, more: f64) -> f64 {
        let unique = |requests| self.keys.unique(requests);
        let bursts = round / self.requests;
        if bursts < BURSTS {
            let whole = bursts.floor();
            let sum: f64 =
                (0..whole as u32).map(|n| unique(f64::from(n) * self.requests + more)).sum();
            return (sum + (bursts - whole) * unique(whole * self.requests + more)) / bursts;
        }
        // The sum as an integral, less half of the last burst's growth.
        let sum = |requests: f64| self.keys.filled(requests) * requests;
        let mean = if more > 0.0 {
            (sum(round + more) - sum(more)) / round
        } else {
            self.keys.filled(round)
        };
        mean - 0.5 * (unique(round + more) - unique(more)) / bursts
    }

    /// Requests of a round of a level that has `size` entries before a burst.
    fn cycle(&self, size: f64, passed: f64) -> f64 {
        let most = self.keys.unique_inverse(0.999_999 * self.keys.keys()).max(2.0 * self.requests);
        let (mut low, mut high) = (self.requests.ln(), (most * 1e6).ln());
        for _ in 0..HALVINGS {
            let middle = low.midpoint(high);
            let cycle = Cycle { requests: middle.exp(), passed };
            if self.content(cycle, 0.0) < size { low = middle } else { high = middle }
        }
        low.midpoint(high).exp()
    }
}
