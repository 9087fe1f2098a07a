//! What a paper's command writes: rows as JSON and as text, and a chart for each drawing.

use serde_json::{Value, json};
use silica::{Error, Result};
use silica_bench::charts::{self, Axes, Panel, Series};
use silica_bench_compare::{date, describe};
use silica_console::Output;
use silica_lab::figures::Row;
use std::path::{Path, PathBuf};

/// A chart: the rows of a figure with this part in their metric, a line for each scheme. A row is
/// drawn at the first number of its metric; rows without numbers are bars.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawing {
    /// Name of the file, without its end.
    pub(super) file: &'static str,
    pub(super) figure: &'static str,
    /// Part of the metric that a row must have to be drawn; empty for all.
    pub(super) metric: &'static str,
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// The horizontal axis has powers of ten.
    pub(super) x_powers: bool,
}

/// A drawing of all rows of `figure`, in a file of that name.
pub(super) const fn drawing(
    figure: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
) -> Drawing {
    Drawing { file: figure, figure, metric: "", title, x, y, x_powers: false }
}

/// Rows, drawings and remarks of a paper.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub(super) rows: Vec<Row>,
    pub(super) drawings: Vec<Drawing>,
    /// Charts that were drawn already.
    pub(super) files: Vec<PathBuf>,
    /// What was left out, and why.
    pub(super) remarks: Vec<String>,
}

impl Sheet {
    pub(super) fn add(
        &mut self,
        figure: &'static str,
        scheme: impl Into<String>,
        metric: impl Into<String>,
        value: f64,
        paper: impl Into<Option<f64>>,
    ) {
        self.rows.push(Row::new(figure, scheme, metric, value, paper));
    }

    pub(super) fn remark(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    /// Writes `results.json`, `results.md` and the charts into `out`, and shows the rows.
    pub(super) fn write(mut self, out: &Path, scale: f64, output: &mut Output) -> Result<()> {
        std::fs::create_dir_all(out).map_err(|e| Error::io("creating the output directory", e))?;
        for row in &self.rows {
            output.line(line(row))?;
        }
        for remark in &self.remarks {
            output.line(format!("left out: {remark}"))?;
        }
        let values: Vec<Value> = self.rows.iter().map(value).collect();
        let results = write_results(out, scale, &self.remarks, &values)?;
        let table = out.join("results.md");
        std::fs::write(&table, self.page()).map_err(|e| Error::io("writing results.md", e))?;
        for drawing in &self.drawings {
            self.files.extend(draw(&self.rows, drawing, out)?);
        }
        self.files.extend([results, table]);
        let names = self.files.iter().map(|file| Value::from(file.display().to_string()));
        let object = output.object();
        object.insert("files".into(), names.collect());
        object.insert("rows".into(), values.into());
        object.insert("remarks".into(), self.remarks.into());
        Ok(())
    }
}

/// Writes what was found, with the machine and the date, as `results.json`; its path.
///
/// # Errors
/// Those of writing a file.
pub(super) fn write_results(
    out: &Path,
    scale: f64,
    remarks: &[String],
    rows: &[Value],
) -> Result<PathBuf> {
    let object = json!({
        "scale": scale,
        "machine": describe(out),
        "date": date(),
        "remarks": remarks,
        "rows": rows,
    });
    let pretty = serde_json::to_string_pretty(&object).expect("rows are plain");
    let results = out.join("results.json");
    std::fs::write(&results, pretty + "\n").map_err(|e| Error::io("writing results.json", e))?;
    Ok(results)
}

impl Sheet {
    /// The rows as a table of a page, one for each figure, scheme and metric.
    fn page(&self) -> String {
        let mut page = "| figure | scheme | | here | paper |\n|---|---|---|---|---|\n".to_string();
        for Row { figure, scheme, metric, value, paper } in &self.rows {
            let paper = paper.map_or(String::new(), shown);
            page += &format!("| {figure} | {scheme} | {metric} | {} | {paper} |\n", shown(*value));
        }
        page
    }
}

/// A number with the digits that mean something.
fn shown(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        1000.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

fn line(row: &Row) -> String {
    let paper = row.paper.map_or(String::new(), |paper| format!("(paper: {paper})"));
    let Row { figure, scheme, metric, value, .. } = row;
    let text = format!("{figure:14} {scheme:26} {metric:52} {value:14.3} {paper}");
    text.trim_end().to_string()
}

fn value(row: &Row) -> Value {
    serde_json::to_value(row).expect("rows are plain")
}

/// The file of a drawing; none if no row belongs to it.
fn draw(rows: &[Row], drawing: &Drawing, out: &Path) -> Result<Option<PathBuf>> {
    let of_figure = || {
        let is_of =
            |row: &&Row| row.figure == drawing.figure && row.metric.contains(drawing.metric);
        rows.iter().filter(is_of)
    };
    let mut schemes: Vec<&str> = Vec::new();
    for row in of_figure() {
        if !schemes.contains(&&*row.scheme) {
            schemes.push(&row.scheme);
        }
    }
    let mut axes = Axes { x_powers: drawing.x_powers, ..Axes::default() };
    let mut series = Vec::new();
    for scheme in schemes {
        let of_scheme = of_figure().filter(|row| row.scheme == scheme);
        let place = |row: &Row| {
            let x = number(&row.metric)?;
            Some((if drawing.x_powers { x.max(1.0).log10() } else { x }, row.value))
        };
        let points: Vec<(f64, f64)> = of_scheme.filter_map(place).collect();
        if !points.is_empty() {
            series.push(Series::new(scheme, points));
        }
    }
    let file = out.join(format!("{}.svg", drawing.file));
    if series.is_empty() {
        let bars = bars(of_figure());
        if bars.is_empty() {
            return Ok(None);
        }
        charts::draw(&[Panel::bars(drawing.title, drawing.y, bars)], &file)?;
        return Ok(Some(file));
    }
    if drawing.x_powers {
        let least = series.iter().flat_map(Series::points).map(|point| point.0);
        axes.x_min = least.fold(f64::INFINITY, f64::min);
    }
    let panel = Panel::lines(drawing.title, drawing.x, drawing.y, series).with_axes(axes);
    charts::draw(&[panel], &file)?;
    Ok(Some(file))
}

/// A bar for each row, with its scheme's name.
fn bars<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<(String, f64)> {
    rows.map(|row| (row.scheme.clone(), row.value)).collect()
}

/// The first number of a metric's name: what a row of a figure is at.
fn number(metric: &str) -> Option<f64> {
    metric.split([' ', ':']).find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_at_the_first_number_of_its_metric() {
        assert_eq!(number("16 keys: bytes"), Some(16.0));
        assert_eq!(number("operations/s at 64 B"), Some(64.0));
        assert_eq!(number("inserts/s"), None);
    }

    #[test]
    fn a_drawing_has_a_line_for_each_scheme_and_none_of_other_figures() {
        let out = std::env::temp_dir().join(format!("silica-sheet-{}", std::process::id()));
        let mut sheet = Sheet::default();
        for (n, value) in [(10, 1.0), (100, 2.0), (1000, 3.0)] {
            sheet.add("figure-1", "wip", format!("{n} keys: rate"), value, None);
            sheet.add("figure-1", "silt", format!("{n} keys: rate"), 2.0 * value, None);
            sheet.add("figure-1", "silt", format!("{n} keys: time"), value, None);
        }
        let drawing =
            Drawing { metric: "rate", x_powers: true, ..drawing("figure-1", "A title", "x", "y") };
        let file = draw(&sheet.rows, &drawing, &out).unwrap().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let other = Drawing { figure: "figure-2", ..drawing };
        assert_eq!(draw(&sheet.rows, &other, &out).unwrap(), None);
        sheet.add("figure-3", "ours", "% more", 1.0, None);
        sheet.add("figure-3", "theirs", "% more", 2.0, None);
        let bars = Drawing { figure: "figure-3", metric: "more", ..drawing };
        let file = draw(&sheet.rows, &bars, &out).unwrap().unwrap();
        let bars = std::fs::read_to_string(&file).unwrap();
        let _ = std::fs::remove_dir_all(&out);
        assert!(bars.contains("ours") && bars.contains("theirs"), "{bars}");
        assert_eq!(text.matches("stroke-width=\"2\"").count(), 2, "{text}");
    }
}
