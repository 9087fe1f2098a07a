//! Charts of the page, in the style of all our charts: white ground, no shadows, few lines.

use plotters::coord::Shift;
use plotters::prelude::*;
use silica_bench::charts::darker;
use silica_bench::palette::{axis_end, of_series, spread};

const WIDTH: u32 = 960;
const LINES_HEIGHT: u32 = 400;
/// Pixels for the names right of the lines.
const LABELS_WIDTH: u32 = 190;
const LABEL_STEP: i32 = 16;
const BAR_HEIGHT: u32 = 26;
/// Pixels for the names left of the bars, and for title and axis.
const NAMES_WIDTH: u32 = 330;
const AROUND_BARS: u32 = 96;

/// What a model says, beside what was measured.
const PREDICTED: RGBColor = RGBColor(160, 160, 160);
const MEASURED: RGBColor = RGBColor(0, 114, 178);

/// What a bar stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Store,
    /// What the machine allows.
    Limit,
    Measured,
    Predicted,
}

/// One bar with its spread.
pub(super) struct Bar {
    pub(super) name: String,
    /// The store's place among all, which gives its colour.
    pub(super) place: usize,
    pub(super) kind: Kind,
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// One store's line.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) place: usize,
    pub(super) ours: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// The lines of one chart.
pub(super) struct Lines {
    pub(super) title: String,
    /// What the vertical axis counts, with its unit.
    pub(super) unit: &'static str,
    pub(super) lines: Vec<Line>,
}

type DrawError = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<String, DrawError>;

/// The colour of a store, the same in all charts; `place` is its place among all of a run.
fn colour(store: &str, place: usize) -> RGBColor {
    of_series(store, place)
}

/// What a bar is filled with.
fn filling(bar: &Bar) -> RGBColor {
    match bar.kind {
        Kind::Store => colour(&bar.name, bar.place),
        Kind::Limit => colour("limit", 0),
        Kind::Measured => MEASURED,
        Kind::Predicted => PREDICTED,
    }
}

/// Draws on a white ground of `height`; the SVG.
fn drawn(
    height: u32,
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), DrawError>,
) -> Drawn {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    draw(&root)?;
    root.present()?;
    drop(root);
    Ok(svg)
}

/// Bars from left to right, one below the other, each with its figure.
pub(super) fn bars(title: &str, unit: &str, bars: &[Bar]) -> Drawn {
    let count = bars.len();
    let height = AROUND_BARS + BAR_HEIGHT * count as u32;
    drawn(height, |root| {
        let most = bars.iter().map(|bar| bar.high.max(bar.median)).fold(0.0, f64::max);
        // Room for the figures behind the longest bar.
        let end = if most > 0.0 { most * 1.15 } else { 1.0 };
        let mut chart = ChartBuilder::on(root)
            .caption(title, ("sans-serif", 20))
            .margin(8)
            .x_label_area_size(48)
            .y_label_area_size(NAMES_WIDTH)
            .build_cartesian_2d(0.0..end, 0.0..count as f64)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().y_labels(0).light_line_style(WHITE.mix(0.0)).x_desc(unit);
        mesh.label_style(("sans-serif", 14)).x_label_formatter(&|x| short(*x));
        mesh.draw()?;
        for (row, bar) in bars.iter().enumerate() {
            let y = (count - row) as f64 - 0.5;
            let style = filling(bar).filled();
            let body = Rectangle::new([(0.0, y - 0.36), (bar.median, y + 0.36)], style);
            let spread = PathElement::new(vec![(bar.low, y), (bar.high, y)], BLACK.stroke_width(2));
            chart.draw_series([body])?;
            chart.draw_series([spread])?;
            let (x, middle) = chart.backend_coord(&(bar.high.max(bar.median), y));
            root.draw(&Text::new(short(bar.median), (x + 6, middle - 7), ("sans-serif", 14)))?;
            let (left, _) = chart.backend_coord(&(0.0, y));
            let right = plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Right,
                plotters::style::text_anchor::VPos::Center,
            );
            let style = ("sans-serif", 14).into_text_style(root).pos(right);
            root.draw(&Text::new(bar.name.clone(), (left - 6, middle), style))?;
        }
        Ok(())
    })
}

/// The distance of the slowest call, behind the last quantile.
const SLOWEST: f64 = 5.0;

/// Latencies over quantiles: the distance from certainty and the time are both logarithmic, so
/// that the slow few are seen.
pub(super) fn latencies(lines: &Lines) -> Drawn {
    let nines = |q: f64| if q < 1.0 { -(1.0 - q).log10() } else { SLOWEST };
    let points = || lines.lines.iter().flat_map(|line| &line.points);
    let last = points().map(|p| nines(p.0)).fold(1.0, f64::max);
    let least = points().map(|p| p.1).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
    let most = points().map(|p| p.1).fold(0.0, f64::max).max(0.01);
    let from = if least.is_finite() { least * 0.8 } else { 0.001 };
    drawn(LINES_HEIGHT, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(&lines.title, ("sans-serif", 20))
            .margin(8)
            .margin_right(LABELS_WIDTH)
            .x_label_area_size(48)
            .y_label_area_size(86)
            .build_cartesian_2d(0.0..last, (from..(most * 1.3).max(from * 2.0)).log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE.mix(0.0)).label_style(("sans-serif", 14));
        mesh.x_desc("quantile").y_desc(lines.unit);
        mesh.x_labels(6).x_label_formatter(&|x| quantile(*x)).y_label_formatter(&|y| short(*y));
        mesh.draw()?;
        let mut ends = Vec::new();
        for line in &lines.lines {
            let positive = line.points.iter().filter(|p| p.1 > 0.0);
            let points: Vec<_> = positive.map(|(q, us)| (nines(*q), *us)).collect();
            ends.push(points.last().map_or(0, |last| chart.backend_coord(last).1));
            draw_line(&mut chart, line, points)?;
        }
        names(root, lines, &ends)
    })
}

/// Something over the seconds of a run.
pub(super) fn over_time(lines: &Lines) -> Drawn {
    let points = || lines.lines.iter().flat_map(|line| &line.points);
    let last = points().map(|p| p.0).fold(0.001, f64::max);
    let most = points().map(|p| p.1).fold(0.001, f64::max);
    drawn(LINES_HEIGHT, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(&lines.title, ("sans-serif", 20))
            .margin(8)
            .margin_right(LABELS_WIDTH)
            .x_label_area_size(48)
            .y_label_area_size(86)
            .build_cartesian_2d(0.0..last, 0.0..axis_end(most, lines.unit))?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE.mix(0.0))
            .label_style(("sans-serif", 14))
            .x_desc("seconds")
            .y_desc(lines.unit);
        mesh.y_label_formatter(&|y| short(*y)).draw()?;
        let mut ends = Vec::new();
        for line in &lines.lines {
            ends.push(line.points.last().map_or(0, |last| chart.backend_coord(last).1));
            draw_line(&mut chart, line, line.points.clone())?;
        }
        names(root, lines, &ends)
    })
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Draws a line; ours is thicker.
fn draw_line<X, Y>(
    chart: &mut Chart<'_, '_, X, Y>,
    line: &Line,
    points: Vec<(f64, f64)>,
) -> Result<(), DrawError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let width = if line.ours { 3 } else { 1 };
    let style = colour(&line.name, line.place).stroke_width(width);
    chart.draw_series(LineSeries::new(points, style))?;
    Ok(())
}

/// Writes each line's name where it ends, in its colour; names move apart where lines end close
/// together.
fn names(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    lines: &Lines,
    ends: &[i32],
) -> Result<(), DrawError> {
    let left = (WIDTH - LABELS_WIDTH + 6) as i32;
    // Below the title, above the numbers of the axis.
    let (top, bottom) = (40, LINES_HEIGHT as i32 - 56);
    for (line, y) in lines.lines.iter().zip(spread(ends, LABEL_STEP, top, bottom)) {
        let colour = darker(colour(&line.name, line.place));
        let font = ("sans-serif", 13).into_font().color(&colour);
        root.draw(&Text::new(line.name.clone(), (left, y - 7), font))?;
    }
    Ok(())
}

/// The name of a quantile by its distance from certainty: 2 is `99 %`.
fn quantile(nines: f64) -> String {
    if nines >= SLOWEST {
        return "slowest".to_string();
    }
    let percent = 100.0 * (1.0 - 10f64.powf(-nines));
    let digits = (nines - 2.0).ceil().max(0.0) as usize;
    format!("{percent:.digits$} %")
}

/// A number of few characters.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.1} G", value / 1e9),
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.0} k", value / 1e3),
        v if v >= 1e3 => format!("{:.1} k", value / 1e3),
        v if v >= 10.0 || v == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
