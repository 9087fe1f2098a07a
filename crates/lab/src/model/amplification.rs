//! What a put costs, stage by stage.

use std::fmt;

/// Where an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The write-ahead log (or a log store or a slab, which is its own).
    Log,
    /// A level, by its number; level 0 has what memtables were written to.
    Level(u32),
    /// SILT's hash stores.
    HashStores,
    /// SILT's sorted store.
    SortedStore,
    /// Entries of slabs that garbage collection puts again.
    Copies,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Log => f.write_str("log"),
            Stage::Level(level) => write!(f, "level {level}"),
            Stage::HashStores => f.write_str("hash stores"),
            Stage::SortedStore => f.write_str("sorted store"),
            Stage::Copies => f.write_str("copies"),
        }
    }
}

/// Stages of a usual design, which are made room for at once.
const USUAL: usize = 8;

/// Entries written for each entry put, by where they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteAmplification {
    terms: Vec<(Stage, f64)>,
}

impl WriteAmplification {
    /// Starts with the log, which has every entry once.
    pub(crate) fn logged() -> Self {
        Self::scaled(1.0)
    }

    /// Starts with a log that has `amount` for each entry.
    pub(super) fn scaled(amount: f64) -> Self {
        let mut terms = Vec::with_capacity(USUAL);
        terms.push((Stage::Log, amount));
        WriteAmplification { terms }
    }

    pub(crate) fn add(&mut self, stage: Stage, amount: f64) {
        self.terms.push((stage, amount));
    }

    /// The stages in the order in which an entry passes them.
    pub fn terms(&self) -> &[(Stage, f64)] {
        &self.terms
    }

    /// The sum of all terms.
    pub fn total(&self) -> f64 {
        self.terms.iter().map(|(_, amount)| amount).sum()
    }
}
