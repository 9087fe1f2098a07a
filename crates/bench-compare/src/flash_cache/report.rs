//! What came of it: a table of each setting, and a file for programs.

use super::CacheFigure;
use crate::performed::Told;
use crate::results::{Machine, Remark};
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The row of a setting that is no cache.
const DEVICE: &str = "limit:device-reads";

/// One cache with one setting, measured once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheRow {
    /// Bytes of a value, of flash and of memory, for people.
    pub setting: String,
    /// Name of the cache.
    pub store: String,
    /// Everything that was measured.
    pub figures: Vec<CacheFigure>,
    /// Why it is not complete.
    pub why: Option<String>,
}

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct CacheReport {
    /// The machine.
    pub machine: Machine,
    /// When it began, in UTC.
    pub date: String,
    /// In the order of the run; a cache that is measured again has another row.
    pub rows: Vec<CacheRow>,
    /// Caches that are not installed.
    pub missing: Vec<Remark>,
    /// What was written.
    pub files: Vec<PathBuf>,
}

/// Columns of the table: a heading, a figure, and what one of its units is.
const COLUMNS: [(&str, &str, f64); 9] = [
    ("sets that are there, k/s", "sets_there", 1e3),
    ("share there", "there", 1.0),
    ("gets, k/s", "gets", 1e3),
    ("hits, k/s", "hits", 1e3),
    ("get p99, ms", "get_p99_us", 1e3),
    ("mixed that is there, k/s", "mixed_there", 1e3),
    ("mixed p99, ms", "mixed_p99_us", 1e3),
    ("written of a byte set", "written_of_byte_set", 1.0),
    ("resident, MiB", "resident_peak_bytes", 1048576.0),
];

impl CacheReport {
    pub(super) fn add(&mut self, setting: &str, store: &str, (figures, why): Told<CacheFigure>) {
        let (setting, store) = (setting.to_string(), store.to_string());
        self.rows.push(CacheRow { setting, store, figures, why });
    }

    /// Reads a second that the device allows.
    pub(super) fn reads_of_device(&mut self, setting: &str, rate: f64) {
        let figure = CacheFigure { metric: "gets".to_string(), value: rate };
        self.add(setting, DEVICE, (vec![figure], None));
    }

    /// Names in the order of their first row.
    fn names<'a>(&'a self, of: impl Fn(&'a CacheRow) -> &'a str) -> Vec<&'a str> {
        let mut names = Vec::new();
        for name in self.rows.iter().map(of) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The median of what rows of `store` measured.
    fn median(&self, setting: &str, store: &str, metric: &str) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| row.setting == setting && row.store == store);
        let figures = rows.flat_map(|row| row.figures.iter());
        let mut values: Vec<f64> =
            figures.filter(|figure| figure.metric == metric).map(|figure| figure.value).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len().checked_sub(1)? / 2;
        let other = values.len() / 2;
        Some(f64::midpoint(values[middle], values[other]))
    }

    /// For people: a table of each setting, a line of each cache.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for setting in self.names(|row| &row.setting) {
            let heads: Vec<&str> = COLUMNS.iter().map(|(head, ..)| *head).collect();
            let _ = writeln!(text, "\n| {setting} | {} |", heads.join(" | "));
            let _ = writeln!(text, "|---|{}", "---|".repeat(COLUMNS.len()));
            for store in self.names(|row| &row.store) {
                if self.rows.iter().all(|row| row.setting != setting || row.store != store) {
                    continue;
                }
                let free = self.median(setting, store, "limited") == Some(0.0);
                let _ = write!(text, "| {store}{} |", if free { " (no limit)" } else { "" });
                for (_, metric, unit) in COLUMNS {
                    let _ = match self.median(setting, store, metric) {
                        Some(value) => write!(text, " {} |", shown(value / unit)),
                        None => write!(text, " – |"),
                    };
                }
                text.push('\n');
            }
        }
        let missing = self.missing.iter().map(|r| format!("{} is left out: {}", r.store, r.text));
        let died = self.rows.iter().filter_map(|row| {
            Some(format!("{} with {}: {}", row.store, row.setting, row.why.as_ref()?))
        });
        for line in missing.chain(died) {
            let _ = writeln!(text, "\n{line}");
        }
        text
    }

    /// Writes `caches.json`.
    pub(super) fn write(&mut self, out: &Path) -> Result<()> {
        let file = out.join("caches.json");
        self.files.push(file.clone());
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, format!("writing {}: {e}", file.display())))?;
        std::fs::write(&file, text).map_err(|e| Error::io(format!("writing {}", file.display()), e))
    }
}

/// Three digits.
fn shown(value: f64) -> String {
    match value.abs() {
        0.0..0.9995 => format!("{value:.3}"),
        0.9995..9.995 => format!("{value:.2}"),
        9.995..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache, its figures, and why it is not complete.
    type Measured<'a> = (&'a str, &'a [(&'a str, f64)], Option<&'a str>);

    fn report(rows: &[Measured<'_>]) -> CacheReport {
        let mut report = CacheReport {
            machine: crate::machine::describe(Path::new(".")),
            date: String::new(),
            rows: Vec::new(),
            missing: Vec::new(),
            files: Vec::new(),
        };
        for (store, figures, why) in rows {
            let figure = |(metric, value): &(&str, f64)| CacheFigure {
                metric: metric.to_string(),
                value: *value,
            };
            let figures = figures.iter().map(figure).collect();
            report.add("small", store, (figures, why.map(str::to_string)));
        }
        report
    }

    #[test]
    fn a_cache_that_is_measured_twice_has_one_line() {
        let report = report(&[
            ("a", &[("hits", 1000.0), ("limited", 1.0)], None),
            ("b", &[("hits", 5000.0), ("limited", 0.0)], None),
            ("a", &[("hits", 3000.0), ("limited", 1.0)], None),
        ]);
        let text = report.text();
        assert!(text.contains("| a | – | – | – | 2.00 |"), "{text}");
        assert!(text.contains("| b (no limit) | – | – | – | 5.00 |"), "{text}");
        assert_eq!(text.matches("| a |").count(), 1);
    }

    #[test]
    fn a_cache_that_died_is_told_with_its_reason() {
        let text = report(&[("a", &[("sets_there", 1000.0)], Some("no room"))]).text();
        assert!(text.contains("a with small: no room") && text.contains("| a | 1.00 |"), "{text}");
    }
}
