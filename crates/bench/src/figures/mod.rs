//! Rows of figures of papers, and the figures of the SILT paper from runs on this machine.

mod silt;
mod silt_rates;

pub use silt::draw;
pub use silt_rates::{index_by_keys, index_under_skew, sustained_rate, table_7};

use serde::Serialize;

/// What was found of one scheme, beside what the paper has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// As the paper numbers it: `table-2.1`, `figure-2.11`.
    pub figure: &'static str,
    /// The scheme: the paper's name, or a store's.
    pub scheme: String,
    /// What is counted, with its unit.
    pub metric: String,
    /// What was found.
    pub value: f64,
    /// What the paper has, if it names a number.
    pub paper: Option<f64>,
}

impl Row {
    /// A row; `paper` is a number, or `None` if the paper names none.
    pub fn new(
        figure: &'static str,
        scheme: impl Into<String>,
        metric: impl Into<String>,
        value: f64,
        paper: impl Into<Option<f64>>,
    ) -> Row {
        let (scheme, metric, paper) = (scheme.into(), metric.into(), paper.into());
        Row { figure, scheme, metric, value, paper }
    }
}
