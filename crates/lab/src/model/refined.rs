//! What algorithm 3 leaves out of LevelDB: tables of a size, and levels that fill in bursts.

use super::followed::follow;
use super::{LevelDb, Primitives, Stage, WriteAmplification, positive};
use silica_base::Result;

/// The refined model of LevelDB, for tables of a size (beside algorithm 3, which has none).
///
/// - Level 0 comes down in one burst, so just before one a key of a level was last compacted a
///   whole number of bursts ago. A level smaller than level 0 is emptied in each.
/// - A level is compacted until it is under its limit: on average half a table under.
/// - The table in which the last compaction ended was written anew since, begins before that end,
///   and so is passed over until the next round. Where a burst moves few tables, much is.
/// - Tables that lie only partly over a compacted one are written too: one for each, as long as
///   tables are there, and none where the next level was emptied since.
#[derive(Clone, Debug, PartialEq)]
pub struct RefinedLevelDb {
    /// The parameters of algorithm 3.
    pub design: LevelDb,
    /// Entries of a table at most.
    pub table: f64,
}

/// Tables of the level after the next that a table overlaps at most, and half of the one in which
/// it begins.
const GRANDPARENTS: f64 = 10.5;
/// Rounds of a level within one of the next that are looked at one by one.
const VISITS: f64 = 24.0;
/// A store of fewer tables is followed table by table, where fewer bursts pass in a round: of more
/// a mean is a mean, and to follow them takes long.
const FEW_TABLES: f64 = 1000.0;
const FEW_BURSTS: f64 = 2000.0;
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

    /// Write amplification of puts to a store that has every key, followed table by table where
    /// there are few of them: what is left in a level of two or three tables is no mean over many.
    /// Takes some milliseconds, and jumps where a table more or less is moved; of larger stores it
    /// is [`write_amplification`](Self::write_amplification).
    pub fn followed(&self, keys: &Primitives) -> WriteAmplification {
        let LevelDb { log, level0_tables, ref levels } = self.design;
        let burst = log * level0_tables;
        let slowest = levels.len().checked_sub(2).map_or(0.0, |at| keys.d_interval(levels[at]));
        let bursts = 1.0 + slowest / burst;
        if keys.keys() / self.table < FEW_TABLES && bursts < FEW_BURSTS {
            return follow(self, keys, bursts);
        }
        self.write_amplification(keys)
    }

    /// Write amplification of puts to a store that has every key, by means over many tables: smooth
    /// in the sizes, so that it can be minimised, and quick.
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
            let (written, overlaps) = match cycles.get(at + 1) {
                Some(&next) => {
                    // What was above a place when it was emptied comes with the next round, so for
                    // the next level these rounds are what bursts are for the first.
                    let rounds = Bursts { keys, requests: cycle.requests };
                    let met = |age| rounds.content(next, age + cycle.requests);
                    let written = taken * cycle.ages(met);
                    let behind = levels.get(at + 2).filter(|_| at + 3 < levels.len());
                    let behind = behind.map_or(keys.keys(), |size| self.settled(*size));
                    (written, bursts.overlapped(cycle, next, behind))
                }
                None => (taken * keys.keys(), 1.0),
            };
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

    /// Tables of the next level that are written for one of this one without being under it, where
    /// `behind` entries are in the level after.
    ///
    /// A table's ends lie anywhere in what they meet, so half a table is outside at each. Of the
    /// rounds of this level that pass in one of the next the first meets nothing; what a later
    /// one meets was cut by the one before, while it was thinner.
    fn overlapped(&self, cycle: Cycle, next: Cycle, behind: f64) -> f64 {
        let rounds = (next.requests / cycle.requests).max(1.0);
        // Of very many some are looked at.
        let points = (rounds - 1.0).min(VISITS).ceil();
        let length = |point: u32| {
            let visit = 1.0 + (rounds - 2.0).max(0.0) * (f64::from(point) + 0.5) / points;
            let there = self.keys.unique(visit * cycle.requests);
            (GRANDPARENTS * there / behind).min(1.0)
        };
        let sum: f64 = (0..points as u32).map(length).sum();
        if points < 1.0 { 0.0 } else { sum / points * (1.0 - 1.0 / rounds) }
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
