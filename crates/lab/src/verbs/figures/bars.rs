//! Charts of bars, for figures whose schemes are measured at one size.

use silica::Result;
use silica_bench::charts::{self, Panel};
use silica_lab::figures::Row;
use std::path::{Path, PathBuf};

/// A chart of a figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bars {
    /// Name of figure and file, without its end.
    pub(super) figure: &'static str,
    pub(super) panels: &'static [Bar],
}

/// A panel: a bar for each scheme and metric.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bar {
    pub(super) title: &'static str,
    pub(super) y: &'static str,
    /// What the metrics begin with, and how they go on.
    pub(super) metrics: (&'static str, &'static [&'static str]),
}

/// Draws a figure's panels, those that no row belongs to left out; the file, if there is one.
pub(super) fn draw(rows: &[Row], bars: &Bars, out: &Path) -> Result<Option<PathBuf>> {
    let panels: Vec<Panel> = bars.panels.iter().filter_map(|bar| panel(rows, bars, bar)).collect();
    if panels.is_empty() {
        return Ok(None);
    }
    let file = out.join(format!("{}.svg", bars.figure));
    charts::draw(&panels, &file)?;
    Ok(Some(file))
}

fn panel(rows: &[Row], bars: &Bars, bar: &Bar) -> Option<Panel> {
    let (begin, ends) = bar.metrics;
    let mut named = Vec::new();
    for end in ends {
        let metric = format!("{begin}{end}");
        let is_of = |row: &&Row| row.figure == bars.figure && row.metric == metric;
        named.extend(rows.iter().filter(is_of).map(|row| (name(row, end, ends.len()), row.value)));
    }
    (!named.is_empty()).then(|| Panel::bars(bar.title, bar.y, named))
}

/// A bar's name, of which what is behind the colon stands below the rest.
fn name(row: &Row, end: &str, metrics: usize) -> String {
    match metrics {
        1 => row.scheme.replacen(' ', ": ", 1),
        _ => format!("{}: {end}", row.scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_has_a_bar_for_each_scheme_and_metric_that_was_measured() {
        const BARS: Bars = Bars {
            figure: "figure-1",
            panels: &[
                Bar { title: "Written", y: "bytes", metrics: ("written by ", &["put", "update"]) },
                Bar { title: "Read", y: "bytes", metrics: ("read by ", &["get"]) },
                Bar { title: "Nothing", y: "bytes", metrics: ("lost by ", &["get"]) },
            ],
        };
        let row = |scheme: &str, metric: &str| Row::new("figure-1", scheme, metric, 3.0, None);
        let rows = [
            row("tree", "written by put"),
            row("tree", "written by update"),
            row("tree without", "written by put"),
            row("tree without filters", "read by get"),
            Row::new("figure-2", "tree", "read by get", 1.0, None),
        ];
        let out = std::env::temp_dir().join(format!("silica-bars-{}", std::process::id()));
        let file = draw(&rows, &BARS, &out).unwrap().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let none = draw(&rows, &Bars { figure: "figure-3", ..BARS }, &out).unwrap();
        let _ = std::fs::remove_dir_all(&out);
        assert_eq!(none, None);
        assert!(text.contains("without filters") && !text.contains("Nothing"), "{text}");
        // The white ground is a rectangle, too.
        assert_eq!(text.matches("<rect").count(), 1 + 4, "{text}");
    }
}
