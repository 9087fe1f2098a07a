//! Figures and tables of papers, drawn from simulators.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod didacache;
pub mod graph;
pub mod lfs;
pub mod pmem;

/// What was found of one scheme, beside what the paper has.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// As the paper numbers it: `table-2.1`, `figure-2.11`.
    pub figure: &'static str,
    /// The scheme, by the paper's name.
    pub scheme: String,
    /// What is counted, with its unit.
    pub metric: String,
    /// What the simulator found.
    pub value: f64,
    /// What the paper has, if it names a number.
    pub paper: Option<f64>,
}
