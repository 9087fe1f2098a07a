//! Figures of Zhao's chapters on TurboHash and SPTree (3 and 4): from our engines on simulated
//! persistent memory, which counts the 256-byte lines that its medium reads and writes, behind a
//! processor's cache and the medium's own buffer of 16 KiB. Times are not simulated:
//! docs/benchmarks/turbo.md and docs/benchmarks/sptree.md have those of this machine.

mod bench;
mod mixes;
mod probing;
mod tree;
mod turbo;
mod waits;

use super::Row;
use silica_base::Result;

/// Sizes of the runs.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Keys of a table; the paper has 120 million.
    pub keys: u64,
    /// Growths of the table of figure 3.1.
    pub growths: usize,
    /// For keys and values.
    pub seed: u64,
}

impl Setup {
    /// A share `scale` of a million keys, with at least a few thousand.
    pub fn new(scale: f64, seed: u64) -> Setup {
        let keys = ((1e6 * scale.clamp(0.0, 120.0)) as u64).max(4000);
        Setup { keys, growths: if scale < 0.02 { 2 } else { 6 }, seed }
    }
}

/// Whose figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Chapter 3.
    TurboHash,
    /// Chapter 4.
    SpTree,
    /// Both chapters.
    Both,
}

type Part = fn(&Setup) -> Result<Vec<Row>>;

const TURBOHASH: [Part; 8] = [
    |setup| Ok(probing::rows(setup.growths, setup.seed)),
    turbo::figure_3_4,
    waits::figure_3_5,
    mixes::figure_3_7,
    turbo::figure_3_8,
    turbo::figure_3_9,
    waits::figure_3_10,
    waits::figure_3_11,
];
const SPTREE: [Part; 4] = [tree::case_study, tree::figure_4_6, waits::figure_4_7, tree::figure_4_8];

/// All figures of a paper. `progress` is told how many of how many parts are done.
///
/// # Errors
/// None of a simulated medium but those of our own faults.
pub fn rows(of: Of, scale: f64, seed: u64, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Row>> {
    let setup = Setup::new(scale, seed);
    let parts = match of {
        Of::TurboHash => TURBOHASH.to_vec(),
        Of::SpTree => SPTREE.to_vec(),
        Of::Both => [&TURBOHASH[..], &SPTREE].concat(),
    };
    let mut rows = Vec::new();
    for (done, part) in parts.iter().enumerate() {
        rows.extend(part(&setup)?);
        progress(done as u64 + 1, parts.len() as u64);
    }
    Ok(rows)
}

/// A row of a scheme that the paper may have a number for.
fn row(
    figure: &'static str,
    scheme: &str,
    metric: impl Into<String>,
    value: f64,
    paper: impl Into<Option<f64>>,
) -> Row {
    Row { figure, scheme: scheme.into(), metric: metric.into(), value, paper: paper.into() }
}
