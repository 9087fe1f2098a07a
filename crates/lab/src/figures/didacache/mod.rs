//! Tables and figures of Shen's chapters on DIDACache and Prism-SSD as a cache (2.5, 2.6 and
//! 3.7.1), from simulators without contents: DIDACache in its own channels, Fatcache on a
//! conventional drive, one workload. docs/benchmarks/didacache.md says what is fitted and what is
//! found.

mod collection;
mod hits;
mod setup;
mod speed;
mod wear;

pub use collection::table_2_1;
pub use hits::figure_2_11;
pub use setup::{Setup, Workload};
pub use wear::table_2_2;

use super::Row;
use silica_base::Result;

/// Everything, at a share `scale` of the papers' sizes. `progress` is told how many of how many
/// parts are done.
///
/// # Errors
/// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a scale over 1, or so small that
/// nothing is left.
pub fn rows(scale: f64, seed: u64, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Row>> {
    let setup = Setup::new(scale, seed)?;
    all(
        &setup,
        &[
            collection::table_2_1,
            collection::table_3_1,
            wear::table_2_2,
            hits::table_2_3,
            speed::table_2_5,
            hits::figure_2_11,
            speed::figure_2_12,
        ],
        progress,
    )
}

/// What the chapter on Prism-SSD has of the cache: table 3.1 and figure 3.4, which is 2.11 with the
/// cache at the levels of Prism.
///
/// # Errors
/// As [`rows`].
pub fn prism_rows(scale: f64, seed: u64, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Row>> {
    all(&Setup::new(scale, seed)?, &[collection::table_3_1, hits::figure_2_11], progress)
}

type Part = fn(&Setup) -> Result<Vec<Row>>;

fn all(setup: &Setup, parts: &[Part], progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (done, part) in parts.iter().enumerate() {
        rows.extend(part(setup)?);
        progress(done as u64 + 1, parts.len() as u64);
    }
    Ok(rows)
}

/// A row of a scheme that the paper may have a number for.
fn row(
    figure: &'static str,
    scheme: &str,
    metric: &str,
    value: f64,
    paper: impl Into<Option<f64>>,
) -> Row {
    let paper = paper.into();
    Row { figure, scheme: scheme.into(), metric: metric.into(), value, paper }
}
