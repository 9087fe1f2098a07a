//! What a power cut decides by itself: a line, or a page.

use super::lines::Line;
use super::pages::{Page, SECTOR_WORDS, mixed_sectors};
use silica_base::Prng;

/// A line or a page that a power cut may not leave as it is.
pub(super) enum Unit {
    Line(Line),
    Page {
        page: Page,
        now: Vec<u64>,
    },
    /// A page that was released: its old bytes, or zeroes.
    Hole {
        first: usize,
        old: Vec<u64>,
        now: Vec<u64>,
    },
}

/// What is left of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// As the medium had it.
    Old,
    /// As it is.
    New,
    /// Only so many of its stores, or of its sectors, are new.
    Begun(usize),
    /// Each part by itself, by this seed.
    Mixed(u64),
}

impl Unit {
    /// First word.
    pub(super) fn first(&self) -> usize {
        match self {
            Unit::Line(line) => line.words().start,
            Unit::Page { page, .. } => page.number * super::pages::PAGE_WORDS,
            Unit::Hole { first, .. } => *first,
        }
    }

    /// Stores or sectors that may be new one by one.
    pub(super) fn parts(&self) -> usize {
        match self {
            Unit::Line(line) => line.stores.len(),
            Unit::Page { now, .. } => now.len().div_ceil(SECTOR_WORDS),
            Unit::Hole { .. } => 1,
        }
    }

    /// The unit's words after this outcome.
    pub(super) fn words(&self, outcome: Outcome) -> Vec<u64> {
        match (self, outcome) {
            (Unit::Line(line), Outcome::Old) => line.durable.to_vec(),
            (Unit::Line(line), Outcome::New) => line.after(line.stores.len()).to_vec(),
            (Unit::Line(line), Outcome::Begun(stores)) => line.after(stores).to_vec(),
            (Unit::Line(line), Outcome::Mixed(seed)) => line.mixed(&mut Prng::new(seed)).to_vec(),
            (Unit::Page { page, .. }, Outcome::Old) => page.durable.clone(),
            (Unit::Page { page, now }, Outcome::Begun(sectors)) => {
                let at = (sectors * SECTOR_WORDS).min(now.len());
                [&now[..at], &page.durable[at..]].concat()
            }
            (Unit::Page { page, now }, Outcome::Mixed(seed)) => {
                mixed_sectors(&page.durable, now, &mut Prng::new(seed))
            }
            (Unit::Page { now, .. } | Unit::Hole { now, .. }, Outcome::New) => now.clone(),
            (Unit::Hole { old, .. }, _) => old.clone(),
        }
    }
}
