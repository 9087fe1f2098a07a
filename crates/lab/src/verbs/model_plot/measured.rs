//! Measured stores, laid over the models' lines: rows of `silica bench models`.

use super::simulated::{Dots, Pair, laid_over, name_of};
use serde_json::Value;
use silica::{Error, ErrorKind, Result};
use silica_bench::charts::{Axes, Panel};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What `silica bench models` measured, and how far off the models are.
pub(super) struct Measured {
    rows: Vec<Row>,
    /// Errors of the models of the rows drawn since [`Self::errors`] was asked.
    errors: Vec<f64>,
}

/// A row; what it lacks is left out of the figures that have it on an axis.
#[derive(Clone)]
struct Row {
    engine: String,
    parameter: String,
    keys: f64,
    skew: f64,
    buffer_bytes: Option<f64>,
    levels: Option<f64>,
    are_levels_optimised: bool,
    index_bytes: f64,
    predicted: f64,
    printed: Option<f64>,
    measured: f64,
}

impl Row {
    fn of(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_f64();
        Some(Row {
            engine: value["engine"].as_str()?.to_string(),
            parameter: value["parameter"].as_str()?.to_string(),
            keys: number("keys").filter(|keys| *keys >= 1.0)?,
            skew: number("skew")?,
            buffer_bytes: number("write_buffer_bytes"),
            levels: number("levels"),
            are_levels_optimised: value["levels_optimised"].as_bool().unwrap_or(false),
            index_bytes: number("index_bytes_per_key").unwrap_or(0.0),
            predicted: number("predicted")?,
            printed: number("predicted_as_printed"),
            measured: number("measured").filter(|measured| *measured > 0.0)?,
        })
    }

    fn is_of(&self, engine: &str) -> bool {
        // Other level sizes have a figure of their own.
        self.engine == engine && self.levels.is_none()
    }
}

impl Measured {
    /// Reads what `--out` or `--json` of `silica bench models` wrote into each file.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a file that is none, or has rows that lack what is drawn.
    pub(super) fn read(files: &[PathBuf]) -> Result<Self> {
        let rows: Result<Vec<Vec<Row>>> = files.iter().map(|file| rows_of(file)).collect();
        Ok(Measured { rows: rows?.concat(), errors: Vec::new() })
    }

    /// The errors of the models since the last call, each as a part of what was measured.
    pub(super) fn errors(&mut self) -> Vec<f64> {
        std::mem::take(&mut self.errors)
    }

    /// One panel over figure 4.9 for LevelDB, and one for the other stores.
    pub(super) fn by_skew(&mut self) -> Vec<Panel> {
        let of = |row: &Row| row.skew;
        let rest = |row: &Row| format!("{} {}", row.keys, row.parameter);
        let is_leveldb = |row: &Row| row.is_of("leveldb");
        let leveldb = self.pairs(is_leveldb, of, |_| "LevelDB".to_string(), rest);
        let other = |row: &Row| row.levels.is_none() && row.engine != "leveldb";
        let others = self.pairs(other, of, |row| row.engine.clone(), rest);
        let x = "skew";
        [panel("Measured: LevelDB's writes by skew", x, leveldb, Axes::default())]
            .into_iter()
            .chain([panel("Measured: other stores' writes by skew", x, others, Axes::default())])
            .flatten()
            .collect()
    }

    /// Over figure 4.10.
    pub(super) fn by_keys(&mut self) -> Vec<Panel> {
        let pairs = self.pairs(
            |row| row.is_of("leveldb"),
            |row| (row.keys / 1e3).log10(),
            |row| name_of(row.skew),
            |row| row.parameter.clone(),
        );
        let axes = Axes { x_min: 1.0, x_powers: true, ..Axes::default() };
        panel("Measured: LevelDB's writes by keys", "keys (thousands)", pairs, axes)
            .into_iter()
            .collect()
    }

    /// Over figure 4.11.
    pub(super) fn by_buffer(&mut self) -> Vec<Panel> {
        let pairs = self.pairs(
            |row| row.is_of("leveldb") && row.buffer_bytes.is_some(),
            |row| row.buffer_bytes.unwrap_or(0.0) / 1024.0,
            |row| name_of(row.skew),
            |row| row.keys.to_string(),
        );
        let title = "Measured: LevelDB's writes by write buffer";
        panel(title, "write buffer (KiB)", pairs, Axes::default()).into_iter().collect()
    }

    /// Over figure 4.15, a panel for each popularity.
    pub(super) fn by_levels(&mut self) -> Vec<Panel> {
        let mut skews: Vec<f64> = self.rows.iter().map(|row| row.skew).collect();
        skews.sort_by(f64::total_cmp);
        skews.dedup();
        let axes = Axes { x_min: 1.0, x_whole: true, ..Axes::default() };
        let of = |skew: f64| {
            let pairs = self.pairs(
                |row| row.engine == "rocksdb" && row.levels.is_some() && row.skew == skew,
                |row| row.levels.unwrap_or(0.0),
                |row| match row.are_levels_optimised {
                    true => "optimised sizes".to_string(),
                    false => "one growth factor".to_string(),
                },
                |row| row.keys.to_string(),
            );
            let title = format!("Measured: RocksDB's writes by levels, {}", name_of(skew));
            panel(&title, "levels", pairs, axes)
        };
        skews.into_iter().filter_map(of).collect()
    }

    /// Over figure 8 of SILT's paper.
    pub(super) fn silt_memory(&mut self) -> Vec<Panel> {
        let pairs = self.pairs(
            |row| row.engine == "silt" && row.index_bytes > 0.0,
            |row| row.index_bytes,
            |row| name_of(row.skew),
            |row| row.keys.to_string(),
        );
        let x = "bytes of memory for each key, as measured";
        let title = "Measured: our SILT's writes by memory";
        let places = pairs.iter().flat_map(|(_, line, _)| line.iter().map(|(x, _)| *x));
        let axes = Axes { x_min: 0.9 * places.fold(f64::MAX, f64::min), ..Axes::default() };
        panel(title, x, pairs, axes).into_iter().collect()
    }

    /// For each name a line of what is predicted with dots of what was measured, and a line of what
    /// the paper's algorithm says where that is another one. Of rows that differ in the rest, those
    /// are taken that have the most places.
    fn pairs(
        &mut self,
        is_of: impl Fn(&Row) -> bool,
        place: impl Fn(&Row) -> f64,
        name: impl Fn(&Row) -> String,
        rest: impl Fn(&Row) -> String,
    ) -> Vec<Pair> {
        let mut groups: BTreeMap<String, BTreeMap<String, Vec<Row>>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| is_of(row)) {
            let of = groups.entry(name(row)).or_default().entry(rest(row)).or_default();
            if of.iter().all(|other| place(other) != place(row)) {
                of.push(row.clone());
            }
        }
        let mut pairs = Vec::new();
        for (name, by_rest) in groups {
            let most = by_rest.into_values().max_by_key(Vec::len).unwrap_or_default();
            if most.len() < 2 {
                continue;
            }
            let mut rows = most;
            rows.sort_by(|a, b| place(a).total_cmp(&place(b)));
            let line = |y: &dyn Fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
                rows.iter().filter_map(|row| Some((place(row), y(row)?))).collect()
            };
            let (predicted, dots) = (line(&|r| Some(r.predicted)), line(&|r| Some(r.measured)));
            let printed = line(&|row| row.printed);
            self.errors.extend(rows.iter().map(|row| row.predicted / row.measured - 1.0));
            pairs.push((name.clone(), predicted, dots));
            if !printed.is_empty() {
                pairs.push((format!("{name}, algorithm 3"), printed, Vec::new()));
            }
        }
        pairs
    }
}

fn rows_of(file: &Path) -> Result<Vec<Row>> {
    let name = file.display();
    let text =
        std::fs::read_to_string(file).map_err(|e| Error::io(format!("reading {name}"), e))?;
    let wrong = |what: &str| {
        let text = format!("--measured {name}: {what}; give models.json of silica bench models");
        Error::new(ErrorKind::Config, text)
    };
    let value: Value = serde_json::from_str(&text).map_err(|_| wrong("it is no JSON"))?;
    let rows = value["rows"].as_array().ok_or_else(|| wrong("it has no rows"))?;
    let rows: Option<Vec<Row>> = rows.iter().map(Row::of).collect();
    rows.ok_or_else(|| wrong("a row lacks a figure"))
}

fn panel(title: &str, x: &'static str, pairs: Vec<Pair>, axes: Axes) -> Option<Panel> {
    let y = "bytes written for each byte put";
    let lines = pairs.iter().flat_map(|(_, line, dots)| line.iter().chain(dots));
    let highest = lines.map(|(_, y)| *y).fold(0.0, f64::max);
    // More names take more room above the lines.
    let y_max = (pairs.len() > 3).then_some(2.0 * highest);
    let axes = Axes { y_max, ..axes };
    (!pairs.is_empty()).then(|| laid_over(title, x, y, pairs, Dots::Measured).with_axes(axes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(engine: &str, keys: u64, skew: f64, buffer: u64, measured: f64) -> Value {
        json!({
            "engine": engine, "keys": keys, "skew": skew, "parameter": format!("memory {buffer}"),
            "write_buffer_bytes": buffer, "levels": null, "index_bytes_per_key": 0.0,
            "predicted": 6.0, "predicted_as_printed": 7.0, "measured": measured,
        })
    }

    #[test]
    fn rows_are_where_only_the_axis_differs() {
        let rows = [
            row("leveldb", 1000, 0.0, 1, 5.0),
            row("leveldb", 1000, 0.9, 1, 5.0),
            row("leveldb", 1000, 1.1, 1, 5.0),
            // The first place again, another buffer, and another number of keys.
            row("leveldb", 1000, 0.0, 1, 9.0),
            row("leveldb", 1000, 0.0, 2, 12.0),
            row("leveldb", 4000, 0.0, 1, 3.0),
            row("leveldb", 16_000, 0.0, 3, 3.0),
            row("wip", 1000, 0.0, 1, 4.0),
        ];
        let rows = rows.iter().map(|row| Row::of(row).unwrap()).collect();
        let mut measured = Measured { rows, errors: Vec::new() };
        // WipDB has one place, so it has no line.
        assert_eq!(measured.by_skew().len(), 1);
        let errors = measured.errors();
        assert_eq!(errors.len(), 3);
        assert!(errors.iter().all(|error| (error - 0.2).abs() < 1e-9), "{errors:?}");
        assert_eq!(measured.by_keys().len(), 1);
        assert_eq!(measured.errors(), [6.0 / 5.0 - 1.0, 6.0 / 3.0 - 1.0]);
        assert_eq!(measured.by_buffer().len(), 1);
        assert_eq!(measured.errors(), [6.0 / 5.0 - 1.0, 6.0 / 12.0 - 1.0]);
        assert!(measured.by_levels().is_empty() && measured.silt_memory().is_empty());
    }
}
