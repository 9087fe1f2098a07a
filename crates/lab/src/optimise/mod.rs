//! Searches for the parameters of the lowest cost. All are deterministic and bounded.
//!
//! A goal is any function of the parameters, so costs are weighted there. [`minimise`] searches
//! real numbers, best as logarithms of sizes; [`minimise_whole`] searches whole ones.
//! [`level_sizes`] finds the level sizes of LevelDB (Lim's dissertation, section 4.6), and
//! [`level_sizes_refined`] those of its refined model.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod levels;
mod search;
mod whole;

pub use levels::{LevelSizes, level_sizes, level_sizes_refined};
pub use search::minimise;
pub use whole::minimise_whole;

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum<T> {
    /// The parameters.
    pub at: Vec<T>,
    /// The goal there.
    pub value: f64,
    /// How often the goal was evaluated.
    pub evaluations: u32,
}

/// Not a number is no minimum.
fn ordered(value: f64) -> f64 {
    if value.is_nan() { f64::INFINITY } else { value }
}
