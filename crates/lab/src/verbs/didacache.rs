//! `silica bench figures didacache`: tables and figures of DIDACache from simulators.

use super::simulate::progress;
use serde_json::{Value, json};
use silica::{Error, Result};
use silica_bench::charts::{self, Panel, Series};
use silica_console::Output;
use silica_lab::figures::{Row, didacache};
use std::path::{Path, PathBuf};

/// Simulates everything, writes `results.json` and the figures into `out`.
pub(super) fn run(out: &Path, scale: f64, seed: u64, output: &mut Output) -> Result<()> {
    let rows = didacache::rows(scale, seed, &mut progress(output))?;
    write(&rows, &FIGURES, scale, out, output)
}

/// Shows what the paper has numbers for, and writes `results.json` and the figures into `out`.
pub(super) fn write(
    rows: &[Row],
    figures: &[Figure],
    scale: f64,
    out: &Path,
    output: &mut Output,
) -> Result<()> {
    std::fs::create_dir_all(out).map_err(|e| Error::io("creating the output directory", e))?;
    for row in rows.iter().filter(|row| row.paper.is_some()) {
        let paper = row.paper.unwrap_or_default();
        output.line(format!(
            "{:12} {:24} {:48} {:12.3} (paper: {paper:.3})",
            row.figure, row.scheme, row.metric, row.value
        ))?;
    }
    let values: Vec<Value> = rows.iter().map(value).collect();
    let results = out.join("results.json");
    let text = serde_json::to_string_pretty(&json!({ "scale": scale, "rows": values }))
        .expect("rows are plain");
    std::fs::write(&results, text + "\n").map_err(|e| Error::io("writing results.json", e))?;
    let mut files = draw(rows, figures, out)?;
    files.push(results);
    let names: Vec<Value> = files.iter().map(|file| file.display().to_string().into()).collect();
    output.object().insert("rows".into(), values.into());
    output.object().insert("files".into(), names.into());
    Ok(())
}

fn value(row: &Row) -> Value {
    json!({
        "figure": row.figure,
        "scheme": row.scheme,
        "metric": row.metric,
        "value": row.value,
        "paper": row.paper,
    })
}

/// A figure: its number, its title, its axes.
pub(super) type Figure = (&'static str, &'static str, &'static str, &'static str);

const FIGURES: [Figure; 2] = [
    ("figure-2.11", "Hit ratio by cache size (figures 2.11, 3.4)", "% of the data", "hit ratio"),
    ("figure-2.12", "SETs by size (figure 2.12), virtual time", "bytes", "SETs a second"),
];

fn draw(rows: &[Row], figures: &[Figure], out: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, title, x, y) in figures {
        let of_figure = || rows.iter().filter(|row| row.figure == *name);
        let mut schemes: Vec<&str> = of_figure().map(|row| &*row.scheme).collect();
        schemes.sort_unstable();
        schemes.dedup();
        let series = schemes.into_iter().map(|scheme| {
            let points = of_figure().filter(|row| row.scheme == scheme);
            Series::new(scheme, points.filter_map(|row| Some((number(&row.metric)?, row.value))))
        });
        let panel = Panel::lines(title, x, y, series.collect());
        let file = out.join(format!("{name}.svg"));
        charts::draw(&[panel], &file)?;
        files.push(file);
    }
    Ok(files)
}

/// The first number of a metric's name: what a row of a figure is at.
fn number(metric: &str) -> Option<f64> {
    metric.split(' ').find_map(|word| word.parse().ok())
}
