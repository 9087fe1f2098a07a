//! COLA and SAMT: levels of tables that are merged by their count.

use silica_base::{Error, ErrorKind, Result};

use super::{Primitives, Stage, WriteAmplification, positive};

/// COLA: one table a level, into which `growth - 1` tables of the level below are merged before it
/// moves on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cola {
    /// Entries in a log.
    pub log: f64,
    /// Growth factor.
    pub growth: u32,
    /// Levels, the last of which has every key.
    pub levels: u32,
}

/// SAMT: up to `growth` tables a level, merged into one of the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Samt {
    /// Entries in a log.
    pub log: f64,
    /// Growth factor.
    pub growth: u32,
    /// Levels, the last of which has every key.
    pub levels: u32,
}

/// More levels than any growth factor over 1 needs.
const LEVELS_MAX: u32 = 64;

/// A model takes time in proportion to it.
const GROWTH_MAX: u32 = 10_000;

pub(super) fn check(log: f64, growth: u32, levels: u32) -> Result<()> {
    positive("the log's size", log)?;
    let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
    if !(2..=GROWTH_MAX).contains(&growth) {
        return refuse(format!("a growth factor is from 2 to {GROWTH_MAX}, not {growth}"));
    }
    if !(1..=LEVELS_MAX).contains(&levels) {
        return refuse(format!("there are 1 to {LEVELS_MAX} levels, not {levels}"));
    }
    Ok(())
}

impl Cola {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for an empty log, a growth under 2, or no level.
    pub fn checked(self) -> Result<Self> {
        check(self.log, self.growth, self.levels).map(|()| self)
    }

    /// Algorithm 4, first function.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        let mut cost = WriteAmplification::logged();
        let growth = f64::from(self.growth);
        let mut interval = self.log;
        for level in 1..self.levels {
            let below = keys.unique(interval);
            let there = |merges: u32| keys.unique(interval * f64::from(merges));
            let write: f64 = (0..self.growth - 1).map(|j| keys.merge(below, there(j))).sum();
            cost.add(Stage::Level(level), write / (interval * growth));
            interval *= growth;
        }
        cost.add(Stage::Level(self.levels), keys.keys() / interval);
        cost
    }
}

impl Samt {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for an empty log, a growth under 2, or no level.
    pub fn checked(self) -> Result<Self> {
        check(self.log, self.growth, self.levels).map(|()| self)
    }

    /// Algorithm 4, second function.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        let mut cost = WriteAmplification::logged();
        let mut interval = self.log;
        for level in 1..self.levels {
            cost.add(Stage::Level(level), keys.unique(interval) / interval);
            interval *= f64::from(self.growth);
        }
        cost.add(Stage::Level(self.levels), keys.keys() / interval);
        cost
    }
}
