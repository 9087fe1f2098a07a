//! The files of a run: `results.json`, `results.csv`, `environment.json`, `details.json`, and the
//! page `report.html`. Each is written whole or not at all, so that an interrupted run leaves what
//! it measured.

use crate::report;
use crate::results::{Results, Row};
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use std::path::Path;

const COLUMNS: &str = "suite,workload,store,threads,metric,unit,median,low,high,runs\n";

/// Writes all files of `results` into `directory`.
pub fn write(directory: &Path, results: &Results) -> Result<()> {
    replace(&directory.join("results.json"), &json(&results.rows)?)?;
    replace(&directory.join("results.csv"), &csv(&results.rows))?;
    replace(&directory.join("environment.json"), &json(&results.environment)?)?;
    replace(&directory.join("details.json"), &json(results)?)?;
    replace(&directory.join("report.html"), &report::page(results)?)
}

/// Reads the results that a run wrote into `directory`.
pub fn read(directory: &Path) -> Result<Results> {
    let path = directory.join("details.json");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Error::io(format!("reading {}", path.display()), e))?;
    serde_json::from_str(&text).map_err(|e| {
        let message = format!("{} holds no results of a comparison: {e}", path.display());
        Error::new(ErrorKind::Config, message)
    })
}

fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::new(ErrorKind::Unsupported, format!("results as JSON: {e}")))?;
    Ok(text + "\n")
}

fn csv(rows: &[Row]) -> String {
    let line = |row: &Row| {
        format!(
            "{},{},{},{},{},{},{},{},{},{}\n",
            quoted(&row.suite),
            quoted(&row.workload),
            quoted(&row.store),
            row.threads,
            quoted(&row.metric),
            quoted(&row.unit),
            row.median,
            row.low,
            row.high,
            row.runs
        )
    };
    COLUMNS.to_string() + &rows.iter().map(line).collect::<String>()
}

/// A field of CSV; in quotes where it must be.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_string(),
    }
}

/// Puts a file in the place of another in one step.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("part");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|e| Error::io(format!("writing {}", path.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let row = Row {
            suite: "flash".into(),
            workload: "read, cold".into(),
            store: "limit:reads".into(),
            threads: 2,
            metric: "throughput_ops".into(),
            unit: "ops/s".into(),
            median: 1.5,
            low: 1.0,
            high: 2.0,
            runs: 3,
        };
        let results = Results { rows: vec![row], ..Results::default() };
        write(directory.path(), &results).unwrap();
        assert_eq!(read(directory.path()).unwrap(), results);
        let csv = std::fs::read_to_string(directory.path().join("results.csv")).unwrap();
        let last = "flash,\"read, cold\",limit:reads,2,throughput_ops,ops/s,1.5,1,2,3\n";
        assert_eq!(csv, COLUMNS.to_string() + last);
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 5);
    }
}
