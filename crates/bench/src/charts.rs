//! The one chart style, and the charts that any run gives.

use crate::palette::{axis_end, of_series, spread};
use crate::report::{Report, Sample};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use silica::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

const PANEL_SIZE: (u32, u32) = (900, 420);
/// Pixels between the names of lines, of a letter of them, and of the widest column for them.
const LABEL_STEP: i32 = 18;
const LABEL_LETTER: u32 = 8;
const LABELS_WIDTH_MAX: u32 = 300;
const REFERENCE: RGBColor = RGBColor(190, 190, 190);
/// Pixels from the middle of a dot to its edge.
const DOT: i32 = 5;

/// A named line, or named dots.
#[derive(Debug)]
pub struct Series {
    /// One that is empty has no label.
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Dots instead of a line through them.
    pub(crate) dots: bool,
    /// The series, by number, whose colour this one shares.
    pub(crate) like: Option<usize>,
    /// Grey and thin: what the others are measured by.
    pub(crate) is_reference: bool,
}

impl Series {
    /// A line through these points.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().collect();
        Series { name: name.to_string(), points, dots: false, like: None, is_reference: false }
    }

    /// A grey line through these points: what the others are measured by.
    pub fn reference(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Series { is_reference: true, ..Series::new(name, points) }
    }

    /// Dots at these points.
    pub fn dots(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Series { dots: true, ..Series::new(name, points) }
    }

    /// Its points.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// In the colour of the `series`th series of the panel, counted from 0, which it belongs to.
    pub fn coloured_as(mut self, series: usize) -> Self {
        self.like = Some(series);
        self
    }
}

/// One chart: axes and lines.
#[derive(Debug)]
pub struct Panel {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// Bars instead of lines; each series is one bar after the other.
    pub(crate) bars: bool,
    pub(crate) series: Vec<Series>,
    pub(crate) axes: Axes,
}

/// How a panel's axes go, where that does not follow from its points.
#[derive(Clone, Copy, Debug, Default)]
pub struct Axes {
    /// Where the horizontal axis begins.
    pub x_min: f64,
    /// Where the vertical axis begins.
    pub y_min: f64,
    /// Where the vertical axis ends.
    pub y_max: Option<f64>,
    /// Horizontal values are powers of ten: 2 is shown as 100.
    pub x_powers: bool,
    /// Vertical values are powers of ten.
    pub y_powers: bool,
    /// Horizontal values are counts: nothing between two whole numbers has a name.
    pub x_whole: bool,
}

impl Panel {
    /// A chart of lines.
    pub fn lines(title: &str, x: &'static str, y: &'static str, series: Vec<Series>) -> Self {
        Panel { title: title.to_string(), x, y, bars: false, series, axes: Axes::default() }
    }

    /// A chart of bars by their names, of which what is behind a colon stands below the rest.
    pub fn bars(title: &str, y: &'static str, bars: Vec<(String, f64)>) -> Self {
        let series = bars.into_iter().enumerate();
        let bar = |(at, (name, value)): (usize, (String, f64))| {
            Series::new(&name, [(at as f64 + 0.5, value)])
        };
        Panel { bars: true, ..Panel::lines(title, "", y, series.map(bar).collect()) }
    }

    /// With axes that do not follow from the points.
    pub fn with_axes(mut self, axes: Axes) -> Self {
        self.axes = axes;
        self
    }

    fn ranges(&self) -> (f64, f64) {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let x = points().map(|p| p.0).fold(0.0, f64::max);
        let y = points().map(|p| p.1).fold(0.0, f64::max);
        let beside = if self.bars { 0.5 } else { 0.0 };
        let y_max = self.axes.y_max.unwrap_or_else(|| axis_end(y, self.y));
        (if x > 0.0 { x + beside } else { 1.0 }, y_max)
    }

    /// The colour of the `index`th series.
    fn colour(&self, index: usize) -> RGBColor {
        let series = &self.series[index];
        let like = series.like.unwrap_or(index);
        match series.is_reference {
            true => REFERENCE,
            false => of_series(&self.series[like].name, like),
        }
    }

    /// Pixels right of the chart, for the names of its lines.
    fn labels_width(&self) -> u32 {
        // The last number below the axis is as wide to the right of its end.
        const LEAST: u32 = 36;
        let names = self.series.iter().filter(|_| !self.bars);
        let letters = names.map(|series| series.name.chars().count()).max().unwrap_or(0) as u32;
        (LABEL_LETTER * letters + 20).clamp(LEAST, LABELS_WIDTH_MAX)
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> std::result::Result<(), DrawError> {
        let (x_max, y_max) = self.ranges();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 24))
            .margin(12)
            .margin_right(self.labels_width())
            .x_label_area_size(52)
            .y_label_area_size(96)
            .build_cartesian_2d(self.axes.x_min..x_max, self.axes.y_min..y_max)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x).y_desc(self.y).light_line_style(WHITE.mix(0.0)).max_light_lines(1);
        mesh.label_style(("sans-serif", 16)).axis_desc_style(("sans-serif", 17));
        mesh.bold_line_style(BLACK.mix(0.1)).y_labels(8);
        let label = |value: f64, is_power: bool| match is_power {
            // Between whole powers there is no round number.
            true if value.fract().abs() > 1e-6 => String::new(),
            true => number(10_f64.powf(value)),
            false => number(value),
        };
        let label_x = |value: f64| match self.axes.x_whole && value.fract().abs() > 1e-6 {
            true => String::new(),
            false => label(value, self.axes.x_powers),
        };
        let labels = (|x: &f64| label_x(*x), |y: &f64| label(*y, self.axes.y_powers));
        mesh.x_label_formatter(&labels.0).y_label_formatter(&labels.1);
        if self.bars {
            mesh.disable_x_mesh().x_labels(0).x_desc("");
        }
        mesh.draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let (colour, points) = (self.colour(index), &series.points);
            if self.bars {
                let bar = |(x, y): &(f64, f64)| {
                    Rectangle::new([(x - 0.35, 0.0), (x + 0.35, *y)], colour.filled())
                };
                chart.draw_series(points.iter().map(bar))?;
            } else if series.dots {
                let dots = points.iter().map(|at| Circle::new(*at, DOT, colour.filled()));
                chart.draw_series(dots)?;
            } else {
                let style = colour.stroke_width(if series.is_reference { 1 } else { 2 });
                chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            }
        }
        let at = |point: (f64, f64)| chart.backend_coord(&point);
        let (right, bottom) = at((x_max, self.axes.y_min));
        match self.bars {
            true => self.name_bars(area, |x| at((x, 0.0)).0, bottom),
            false => self.name_lines(area, at, (right, bottom)),
        }
    }

    /// Writes each line's name where the line ends, in its colour. Names of lines that end close
    /// together move apart.
    fn name_lines(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        at: impl Fn((f64, f64)) -> (i32, i32),
        (right, bottom): (i32, i32),
    ) -> std::result::Result<(), DrawError> {
        let top = at((0.0, self.ranges().1)).1;
        let base = area.get_base_pixel();
        let named = self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
        let last = |series: &Series| series.points.last().copied();
        let ends: Vec<(usize, i32)> = named
            .filter_map(|(index, series)| Some((index, at(last(series)?).1.clamp(top, bottom))))
            .collect();
        let wanted: Vec<i32> = ends.iter().map(|(_, y)| *y).collect();
        for ((index, _), y) in ends.iter().zip(spread(&wanted, LABEL_STEP, top, bottom)) {
            let font = ("sans-serif", 15).into_font().color(&darker(self.colour(*index)));
            let place = (right + 8 - base.0, y - 8 - base.1);
            area.draw(&Text::new(self.series[*index].name.clone(), place, font))?;
        }
        Ok(())
    }

    /// Writes each bar's name below it, in two lines if it has a colon.
    fn name_bars(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        at: impl Fn(f64) -> i32,
        bottom: i32,
    ) -> std::result::Result<(), DrawError> {
        let base = area.get_base_pixel();
        let middle = Pos::new(HPos::Center, VPos::Top);
        for series in &self.series {
            let Some((x, _)) = series.points.first() else { continue };
            let lines = series.name.splitn(2, ": ").enumerate();
            for (line, text) in lines {
                let style = ("sans-serif", 15).into_text_style(area).pos(middle);
                let place = (at(*x) - base.0, bottom + 6 + 18 * line as i32 - base.1);
                area.draw(&Text::new(text.to_string(), place, style))?;
            }
        }
        Ok(())
    }
}

/// A colour as text, which needs more contrast than a line.
pub fn darker(colour: RGBColor) -> RGBColor {
    let part = |part: u8| (f64::from(part) * 0.75) as u8;
    RGBColor(part(colour.0), part(colour.1), part(colour.2))
}

/// A tick's number, without digits that say nothing.
fn number(value: f64) -> String {
    let text = match value {
        // With commas between the thousands.
        10_000.0.. => {
            let digits = format!("{value:.0}").into_bytes();
            let parts = digits.rchunks(3).rev().map(String::from_utf8_lossy);
            return parts.collect::<Vec<_>>().join(",");
        }
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.2}"),
        // Ticks from 1 to 1.05 are 0.005 apart.
        _ => format!("{value:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// Draws `panels` one below the other into an SVG file.
pub fn draw(panels: &[Panel], file: &Path) -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Io, format!("drawing {}: {e}", file.display()))
    };
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).map_err(|e| failed(&e))?;
    }
    let size = (PANEL_SIZE.0, PANEL_SIZE.1 * panels.len() as u32);
    let root = SVGBackend::new(file, size).into_drawing_area();
    root.fill(&WHITE).map_err(|e| failed(&e))?;
    for (panel, area) in panels.iter().zip(root.split_evenly((panels.len(), 1))) {
        panel.draw(&area).map_err(|e| failed(&e))?;
    }
    root.present().map_err(|e| failed(&e))
}

/// Rates of a counter between samples, smoothed over `window` of them.
pub(crate) fn rates(
    samples: &[Sample],
    window: usize,
    counter: impl Fn(&Sample) -> f64,
) -> Vec<(f64, f64)> {
    let pair = |w: &[Sample]| {
        let (first, last) = (&w[0], &w[w.len() - 1]);
        let seconds = last.seconds - first.seconds;
        (seconds > 0.0).then(|| (last.seconds, (counter(last) - counter(first)) / seconds))
    };
    samples.windows(window.max(2)).filter_map(pair).collect()
}

/// Two charts of a run: operations per second with the background work below, and memory of the
/// indexes by store.
pub fn of_run(report: &Report, directory: &Path) -> Result<Vec<PathBuf>> {
    let samples = &report.samples;
    let operations = directory.join(format!("{}-throughput.svg", report.workload));
    let memory = directory.join(format!("{}-index-memory.svg", report.workload));
    draw(&throughput_panels(samples), &operations)?;
    draw(&[memory_panel("Memory of the indexes", samples)], &memory)?;
    Ok(vec![operations, memory])
}

pub(crate) fn throughput_panels(samples: &[Sample]) -> Vec<Panel> {
    let window = (samples.len() / 100).max(4);
    let gets = vec![Series::new("gets", rates(samples, window, |s| s.gets))];
    let puts = vec![Series::new("puts", rates(samples, window, |s| s.puts))];
    let first = |counter: fn(&Sample) -> f64| samples.first().map_or(0.0, counter);
    let count = |name: &str, counter: fn(&Sample) -> f64| {
        let since = first(counter);
        Series::new(name, samples.iter().map(|s| (s.seconds, counter(s) - since)))
    };
    let work = vec![count("conversions", |s| s.conversions), count("merges", |s| s.merges)];
    vec![
        Panel::lines("Gets while stores convert and merge", "seconds", "gets per second", gets),
        Panel::lines("Puts", "seconds", "puts per second", puts),
        Panel::lines("Background work so far", "seconds", "count", work),
    ]
}

pub(crate) fn memory_panel(title: &str, samples: &[Sample]) -> Panel {
    const MIB: f64 = 1048576.0;
    let line = |name: &str, bytes: fn(&Sample) -> f64| {
        Series::new(name, samples.iter().map(|s| (s.seconds, bytes(s) / MIB)))
    };
    let series = vec![
        line("all", |s| s.index_bytes),
        line("log stores", |s| s.log_store_index_bytes),
        line("hash stores", |s| s.hash_store_filter_bytes),
        line("sorted stores", |s| s.sorted_store_index_bytes),
    ];
    Panel::lines(title, "seconds", "MiB", series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let sample = |seconds, gets| {
            let mut sample = Sample::new(seconds, &silica::MetricsMap::default());
            sample.gets = gets;
            sample
        };
        let samples = [sample(0.0, 0.0), sample(1.0, 10.0), sample(2.0, 40.0)];
        assert_eq!(rates(&samples, 2, |s| s.gets), [(1.0, 10.0), (2.0, 30.0)]);
        assert_eq!(rates(&samples, 3, |s| s.gets), [(2.0, 20.0)]);
        assert!(rates(&samples[..1], 2, |s| s.gets).is_empty());
    }

    #[test]
    fn a_chart_is_an_svg_file_with_its_words() {
        let name = format!("silica-chart-{}.svg", std::process::id());
        let file = std::env::temp_dir().join(name);
        let series = vec![Series::new("ramp", [(0.0, 0.0), (5.0, 2.0)])];
        let dots = vec![Series::dots("dots", [(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)])];
        let panels = [("A title", series), ("Another", dots)]
            .map(|(title, series)| Panel::lines(title, "seconds", "things", series));
        draw(&panels, &file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let _ = std::fs::remove_file(&file);
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for word in ["A title", "seconds", "things", "ramp"] {
            assert!(text.contains(word), "{word}");
        }
        assert_eq!(text.matches("<circle").count(), 3, "each dot is drawn");
    }

    #[test]
    fn stores_keep_their_colours_and_lines_their_names_beside_them() {
        let file = std::env::temp_dir().join(format!("silica-names-{}.svg", std::process::id()));
        let ramp = |name: &str, to| Series::new(name, [(0.0, 0.0), (5.0, to)]);
        let series = vec![ramp("silica:silt", 97.0), ramp("silica:wip", 96.0)];
        draw(&[Panel::lines("A title", "seconds", "percent", series)], &file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let _ = std::fs::remove_file(&file);
        for colour in ["#E69F00", "#0072B2"] {
            assert!(text.contains(&format!("stroke=\"{colour}\"")), "{colour}: {text}");
        }
        assert!(text.lines().any(|line| line.trim() == "100"), "the share ends at its whole");
        for more in ["110", "120", "140"] {
            assert!(text.lines().all(|line| line.trim() != more), "{more} percent: {text}");
        }
        // The names are right of the chart, and apart.
        let lines: Vec<&str> = text.lines().collect();
        let place = |name: &str, part: &str| -> i32 {
            let at = lines.iter().position(|line| line.trim() == name).expect(name);
            let value = lines[at - 1].split(&format!(" {part}=\"")).nth(1).expect(part);
            value.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        assert!(place("silica:wip", "x") > 700);
        assert!((place("silica:wip", "y") - place("silica:silt", "y")).abs() >= LABEL_STEP);
    }

    #[test]
    fn no_tick_of_a_short_axis_is_shown_twice() {
        let ticks: Vec<String> = (0..=10).map(|i| number(1.0 + 0.005 * f64::from(i))).collect();
        let distinct: std::collections::BTreeSet<&String> = ticks.iter().collect();
        assert_eq!(distinct.len(), ticks.len(), "{ticks:?}");
        assert_eq!(
            [0.0, 0.5, 20.0, 12.25, 1000.0, 800_000.0].map(number),
            ["0", "0.5", "20", "12.25", "1000", "800,000"]
        );
    }

    #[test]
    fn counts_have_no_name_between_whole_numbers() {
        let name = format!("silica-chart-whole-{}.svg", std::process::id());
        let file = std::env::temp_dir().join(name);
        let series = vec![Series::new("ramp", [(3.0, 1.0), (8.0, 20.0)])];
        let axes = Axes { x_min: 3.0, x_whole: true, ..Axes::default() };
        draw(&[Panel::lines("A title", "x", "y", series).with_axes(axes)], &file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let _ = std::fs::remove_file(&file);
        let has = |number: &str| text.lines().any(|line| line.trim() == number);
        assert!(has("3") && has("8") && !has("3.5") && !has("4.5"), "{text}");
    }

    #[test]
    fn dots_share_the_colour_of_their_line() {
        let name = format!("silica-chart-colours-{}.svg", std::process::id());
        let file = std::env::temp_dir().join(name);
        let series = vec![
            Series::new("model", [(0.0, 1.0), (3.0, 2.0)]),
            Series::new("other", [(0.0, 2.0), (3.0, 1.0)]),
            Series::dots("simulated", [(1.0, 1.3)]).coloured_as(0),
        ];
        draw(&[Panel::lines("A title", "x", "y", series)], &file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let _ = std::fs::remove_file(&file);
        let dots: Vec<&str> = text.lines().filter(|line| line.contains("<circle")).collect();
        assert_eq!(dots.len(), 1, "{text}");
        assert!(dots[0].contains("#0072B2"), "{dots:?}");
    }

    #[test]
    fn axes_of_powers_have_their_numbers() {
        let name = format!("silica-chart-powers-{}.svg", std::process::id());
        let file = std::env::temp_dir().join(name);
        let series = vec![Series::new("ramp", [(0.0, 1.0), (3.0, 2.0)])];
        let axes = Axes { x_powers: true, y_max: Some(7.0), ..Axes::default() };
        draw(&[Panel::lines("A title", "x", "y", series).with_axes(axes)], &file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let _ = std::fs::remove_file(&file);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for number in ["1", "10", "100", "1000", "7"] {
            assert!(lines.contains(&number), "{number}: {text}");
        }
    }
}
