//! What came of it: a table, a file for programs, a chart of each class of stores.

use super::series::{Figure, Series};
use crate::peer::Class;
use crate::performed::Told;
use crate::results::{Machine, Remark};
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use silica_bench::charts::{Axes, Panel, Series as Points, draw};
use silica_bench::palette::axis_end;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One workload of one store with one number of threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingRow {
    /// embedded, memory or server.
    pub class: &'static str,
    /// Name of the workload.
    pub workload: String,
    /// Name of the peer.
    pub store: String,
    /// Threads that issue operations, or threads of the server.
    pub threads: usize,
    /// Operations a second, where it was measured.
    pub rate: Option<f64>,
    /// How many times the rate of the fewest threads.
    pub times: Option<f64>,
    /// Why it was not measured.
    pub why: Option<String>,
}

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct ScalingReport {
    /// The machine.
    pub machine: Machine,
    /// When it began, in UTC.
    pub date: String,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Keys in each store.
    pub keys: u64,
    /// Memory of each store on a device.
    pub memory_bytes: u64,
    /// Threads that load a server.
    pub clients: usize,
    /// In the order of the run.
    pub rows: Vec<ScalingRow>,
    /// Stores that are not installed.
    pub missing: Vec<Remark>,
    /// What was written.
    pub files: Vec<PathBuf>,
}

fn name(class: Class) -> &'static str {
    match class {
        Class::Embedded => "embedded",
        Class::Sql => "sql",
        Class::Memory => "memory",
        Class::Server => "server",
    }
}

impl ScalingReport {
    /// Adds what was told of a series.
    pub(super) fn add(&mut self, class: Class, series: &Series, (figures, died): Told<Figure>) {
        for workload in &series.workloads {
            let figure = figures.iter().find(|figure| figure.workload == *workload);
            let (rate, why) = match figure.map(|figure| figure.rate.clone()) {
                Some(Ok(rate)) => (Some(rate), None),
                Some(Err(why)) => (None, Some(why)),
                None => (None, Some(died.clone().unwrap_or("it told nothing".to_string()))),
            };
            let first = self.rate(workload, &series.store, self.threads[0]).or(rate);
            let first = first.filter(|first| *first > 0.0);
            let times = rate.zip(first).map(|(rate, first)| rate / first);
            self.rows.push(ScalingRow {
                class: name(class),
                workload: workload.clone(),
                store: series.store.clone(),
                threads: series.threads,
                rate,
                times,
                why,
            });
        }
    }

    fn row(&self, workload: &str, store: &str, threads: usize) -> Option<&ScalingRow> {
        let is_it = |row: &&ScalingRow| {
            (&*row.workload, &*row.store, row.threads) == (workload, store, threads)
        };
        self.rows.iter().find(is_it)
    }

    fn rate(&self, workload: &str, store: &str, threads: usize) -> Option<f64> {
        self.row(workload, store, threads)?.rate
    }

    /// Names in the order of their first row, of the rows that `part` gives one of.
    fn names<'a>(&'a self, part: impl Fn(&'a ScalingRow) -> Option<&'a str>) -> Vec<&'a str> {
        let mut names = Vec::new();
        for name in self.rows.iter().filter_map(part) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn classes(&self) -> Vec<&str> {
        self.names(|row| Some(row.class))
    }

    fn workloads(&self, class: &str) -> Vec<&str> {
        self.names(|row| (row.class == class).then_some(&row.workload))
    }

    fn stores(&self, class: &str) -> Vec<&str> {
        self.names(|row| (row.class == class).then_some(&row.store))
    }

    /// For people: a table of each class, a line of each workload and store.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let thousands = |rate: f64| match rate >= 1e6 {
            true => format!("{:.2} M", rate / 1e6),
            false => format!("{:.1} k", rate / 1e3),
        };
        for class in self.classes() {
            let _ = write!(text, "\n| {class}, operations a second | store |");
            self.threads.iter().for_each(|threads| {
                let _ = write!(text, " {threads} |");
            });
            let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(self.threads.len()));
            for workload in self.workloads(class) {
                for store in self.stores(class) {
                    let _ = write!(text, "| {workload} | {store} |");
                    for threads in &self.threads {
                        let row = self.row(workload, store, *threads);
                        let cell = match row.and_then(|row| row.rate.zip(row.times)) {
                            Some((rate, times)) => format!("{} ({times:.2}×)", thousands(rate)),
                            None => "–".to_string(),
                        };
                        let _ = write!(text, " {cell} |");
                    }
                    text.push('\n');
                }
            }
        }
        let mut reasons = Vec::new();
        for row in &self.rows {
            if let Some(why) = &row.why {
                let reason = format!("{} of {}: {why}", row.workload, row.store);
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
        let missing = self.missing.iter().map(|r| format!("{} is left out: {}", r.store, r.text));
        for line in missing.chain(reasons) {
            let _ = writeln!(text, "\n{line}");
        }
        text
    }

    /// Writes `scaling.json` and a chart of each class.
    pub(super) fn write(&mut self, out: &Path) -> Result<()> {
        for class in self.classes().into_iter().map(str::to_string).collect::<Vec<_>>() {
            let file = out.join(format!("scaling-{class}.svg"));
            let panels: Vec<Panel> =
                self.workloads(&class).iter().map(|name| self.panel(&class, name)).collect();
            draw(&panels, &file)?;
            self.files.push(file);
        }
        let file = out.join("scaling.json");
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, format!("writing {}: {e}", file.display())))?;
        std::fs::write(&file, text)
            .map_err(|e| Error::io(format!("writing {}", file.display()), e))?;
        self.files.push(file);
        Ok(())
    }

    /// A line of each store, and beside them what the first would do if threads cost nothing.
    fn panel(&self, class: &str, workload: &str) -> Panel {
        const M: f64 = 1e6;
        let points = |store: &str| -> Vec<(f64, f64)> {
            let point = |threads: &usize| {
                Some((*threads as f64, self.rate(workload, store, *threads)? / M))
            };
            self.threads.iter().filter_map(point).collect()
        };
        let lines: Vec<(&str, Vec<(f64, f64)>)> = self
            .stores(class)
            .into_iter()
            .map(|store| (store, points(store)))
            .filter(|(_, points)| !points.is_empty())
            .collect();
        let all = || lines.iter().flat_map(|(_, points)| points);
        let most = all().map(|point| point.0).fold(1.0, f64::max);
        let highest = all().map(|point| point.1).fold(0.0, f64::max);
        let y_max = axis_end(highest, "");
        let mut series: Vec<Points> =
            lines.iter().map(|(store, points)| Points::new(store, points.clone())).collect();
        if let Some((store, (threads, rate))) =
            lines.first().and_then(|(store, points)| Some((store, *points.first()?)))
        {
            // The ideal ends where it leaves the chart.
            let end = most.min(y_max / (rate / threads));
            let name = format!("ideal of {store}");
            series.push(Points::reference(&name, [(0.0, 0.0), (end, end * rate / threads)]));
        }
        let axes = Axes { x_whole: true, y_max: Some(y_max), ..Axes::default() };
        let title = format!("{workload}, {class}");
        Panel::lines(&title, "threads", "M operations a second", series).with_axes(axes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> ScalingReport {
        let mut report = ScalingReport {
            machine: crate::machine::describe(Path::new(".")),
            date: String::new(),
            threads: vec![1, 4],
            keys: 10,
            memory_bytes: 1,
            clients: 1,
            rows: Vec::new(),
            missing: Vec::new(),
            files: Vec::new(),
        };
        for (store, threads, rate) in [
            ("silica:wip", 1, Some(2e6)),
            ("lmdb", 1, Some(5e3)),
            ("silica:wip", 4, Some(5e6)),
            ("lmdb", 4, None),
        ] {
            let series = Series {
                store: store.to_string(),
                threads,
                clients: 1,
                keys: 10,
                seconds: 1.0,
                memory_bytes: 1,
                set: Vec::new(),
                directory: PathBuf::new(),
                workloads: vec!["put".to_string()],
            };
            let figures = rate.map(|rate| Figure { workload: "put".to_string(), rate: Ok(rate) });
            let died = rate.is_none().then(|| "no room".to_string());
            report.add(Class::Embedded, &series, (figures.into_iter().collect(), died));
        }
        report
    }

    #[test]
    fn a_table_has_rates_and_how_they_grow() {
        let text = report().text();
        assert!(text.contains("| put | silica:wip | 2.00 M (1.00×) | 5.00 M (2.50×) |"), "{text}");
        assert!(text.contains("| put | lmdb | 5.0 k (1.00×) | – |"), "{text}");
        assert!(text.contains("put of lmdb: no room"), "{text}");
    }

    #[test]
    fn a_chart_has_the_ideal_beside_the_lines() {
        let directory = tempfile::tempdir().unwrap();
        let mut report = report();
        report.write(directory.path()).unwrap();
        let svg = std::fs::read_to_string(directory.path().join("scaling-embedded.svg")).unwrap();
        for word in ["silica:wip", "lmdb", "ideal of silica:wip", "put, embedded"] {
            assert!(svg.contains(word), "{word}");
        }
        let json = std::fs::read_to_string(directory.path().join("scaling.json")).unwrap();
        assert!(json.contains("\"times\": 2.5"), "{json}");
    }
}
