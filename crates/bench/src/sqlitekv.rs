//! The figures of the chapter on SQLiteKV (Shen, 4.10 to 4.12, 4.14, 4.16), from runs of a table
//! under SQL on this machine: our storage and SQLite's own, one after the other.

use crate::charts::{self, Panel, Series};
use crate::config::Config;
use crate::driver::Observer;
use crate::generator::{Shape, Sizes};
use crate::plan::Plan;
use crate::sql::SqlOptions;
use crate::store::{run, with_scratch};
use crate::workload::Workload;
use serde::Serialize;
use silica::Result;
use std::path::{Path, PathBuf};

/// Bytes of a row, as in the paper.
const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Of a key, among those.
const KEY_BYTES: usize = 16;
/// Of the coordination cache in the paper.
const RESULTS_BYTES: u64 = 1 << 20;

/// One figure: a workload at each size.
struct Figure {
    name: &'static str,
    title: &'static str,
    workload: &'static str,
    /// What the paper says, in words for people and scripts.
    paper: &'static str,
    /// With and without kept results, instead of both storages.
    is_of_results: bool,
}

const fn figure(
    name: &'static str,
    title: &'static str,
    workload: &'static str,
    paper: &'static str,
) -> Figure {
    Figure { name, title, workload, paper, is_of_results: false }
}

const FIGURES: [Figure; 13] = [
    figure("4.10a", "Random inserts", "sqlitekv-insert-random", "3.8 times SQLite at 64 B"),
    figure("4.10b", "Inserts in order", "sqlitekv-insert-sequential", "6.1 times SQLite at 64 B"),
    figure("4.11b-random", "Random queries", "sqlitekv-query-random", "up to 5.4 times, at 128 B"),
    figure(
        "4.11b-sequential",
        "Queries in order",
        "sqlitekv-query-sequential",
        "4.91 times at 64 B",
    ),
    figure("4.12", "Deletes", "sqlitekv-delete", "higher at all sizes"),
    figure("4.14-update-heavy", "Update-heavy", "sqlitekv-update-heavy", "3.9 times on average"),
    figure("4.14-read-most", "Read-most", "sqlitekv-read-most", "2 times on average"),
    figure("4.14-read-heavy", "Read-heavy", "sqlitekv-read-heavy", "2.4 times on average"),
    figure("4.14-read-latest", "Read-latest", "sqlitekv-read-latest", "1.9 times on average"),
    Figure {
        is_of_results: true,
        ..figure("4.16-update-heavy", "Update-heavy", "sqlitekv-update-heavy", "+12.7 %")
    },
    Figure {
        is_of_results: true,
        ..figure("4.16-read-most", "Read-most", "sqlitekv-read-most", "+28.9 %")
    },
    Figure {
        is_of_results: true,
        ..figure("4.16-read-heavy", "Read-heavy", "sqlitekv-read-heavy", "+14.7 %")
    },
    Figure {
        is_of_results: true,
        ..figure("4.16-read-latest", "Read-latest", "sqlitekv-read-latest", "+43 %")
    },
];

/// What was measured of one figure, or how two of its schemes compare.
#[derive(Debug, Clone, Serialize)]
pub struct FigureRow {
    /// As the paper numbers it, with the workload where several share a number.
    pub figure: &'static str,
    /// `silica`, `sqlite`, `silica without results`, or what of them is compared.
    pub scheme: &'static str,
    /// `operations/s at 64 B` and so on, or `ratio, geometric mean`.
    pub metric: String,
    /// The figure.
    pub value: f64,
    /// What the paper has, in words.
    pub paper: &'static str,
}

/// Rows of each scheme, and the other's name.
type Schemes = [(&'static str, SqlOptions); 2];

fn schemes(figure: &Figure, options: SqlOptions) -> Schemes {
    let ours = SqlOptions { storage: "silica", is_prepared: false, ..options };
    if figure.is_of_results {
        let with = SqlOptions { results_bytes: Some(RESULTS_BYTES), ..ours };
        let without = SqlOptions { results_bytes: Some(0), ..ours };
        return [("silica", with), ("silica without results", without)];
    }
    [("silica", ours), ("sqlite", SqlOptions { storage: "sqlite", ..ours })]
}

/// Measures all figures with the keys, operations, seed and memory of `config`, draws them into
/// `out`; the rows, and the files.
///
/// # Errors
/// Those of the databases, and of writing files.
pub fn draw(
    config: &Config,
    options: SqlOptions,
    out: &Path,
    observer: &mut Observer<'_>,
) -> Result<(Vec<FigureRow>, Vec<PathBuf>)> {
    let (mut rows, mut files) = (Vec::new(), Vec::new());
    for figure in &FIGURES {
        let schemes = schemes(figure, options);
        let mut lines = [Vec::new(), Vec::new()];
        for bytes in SIZES {
            for ((scheme, options), line) in schemes.iter().zip(&mut lines) {
                let rate = measure(config, figure, bytes, *options, observer)?;
                let metric = format!("operations/s at {bytes} B");
                rows.push(FigureRow {
                    figure: figure.name,
                    scheme,
                    metric,
                    value: rate,
                    paper: figure.paper,
                });
                line.push((bytes as f64, rate));
            }
        }
        let ratios = lines[0].iter().zip(&lines[1]).map(|(one, other)| (one.1 / other.1).ln());
        rows.push(FigureRow {
            figure: figure.name,
            scheme: if figure.is_of_results { "with by without" } else { "silica by sqlite" },
            metric: "ratio, geometric mean".to_string(),
            value: (ratios.sum::<f64>() / SIZES.len() as f64).exp(),
            paper: figure.paper,
        });
        let series = schemes.iter().zip(lines).map(|((name, _), line)| Series::new(name, line));
        let title = format!("{} (figure {})", figure.title, figure.name);
        let panel = Panel::lines(&title, "bytes of a row", "operations a second", series.collect());
        let file = out.join(format!("figure-{}.svg", figure.name));
        charts::draw(&[panel], &file)?;
        files.push(file);
    }
    Ok((rows, files))
}

fn measure(
    config: &Config,
    figure: &Figure,
    bytes: usize,
    options: SqlOptions,
    observer: &mut Observer<'_>,
) -> Result<f64> {
    let workload = *Workload::find(figure.workload)?;
    let named = Plan::new(figure.workload)?;
    let once = workload.is_fill() || workload.deletes > 0;
    let plan = Plan {
        workload: Workload { sizes: Sizes::Fixed, ..workload },
        shape: Shape { key_bytes: KEY_BYTES, value_bytes: bytes - KEY_BYTES },
        distribution: named.distribution,
        operations: if once { config.plan.keys } else { config.plan.operations },
        ..config.plan.clone()
    };
    let config = Config { plan, sql: Some(options), ..config.clone() };
    Ok(with_scratch(&config, |config| run(config, observer))?.throughput_ops)
}
