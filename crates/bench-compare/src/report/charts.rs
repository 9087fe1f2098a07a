//! Charts of the page, in the style of all our charts: white ground, no shadows, few lines.

use plotters::coord::Shift;
use plotters::prelude::*;

const WIDTH: u32 = 960;
const LINES_HEIGHT: u32 = 400;
/// Pixels for the names right of the lines.
const LEGEND_WIDTH: u32 = 170;
const LEGEND_STEP: i32 = 18;
const BAR_HEIGHT: u32 = 26;
/// Pixels for the names left of the bars, and for title and axis.
const NAMES_WIDTH: u32 = 330;
const AROUND_BARS: u32 = 80;

const OURS: RGBColor = RGBColor(31, 119, 180);
const LIMIT: RGBColor = RGBColor(160, 160, 160);
const COLOURS: [RGBColor; 10] = [
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 50),
    RGBColor(23, 160, 180),
    RGBColor(90, 90, 90),
    RGBColor(200, 170, 60),
];

/// One bar with its spread.
pub(super) struct Bar {
    pub(super) name: String,
    /// The store's place among all, which gives its colour.
    pub(super) place: usize,
    pub(super) ours: bool,
    pub(super) limit: bool,
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
    pub(super) lines: Vec<Line>,
}

type DrawError = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<String, DrawError>;

fn colour(place: usize, ours: bool, limit: bool) -> RGBColor {
    match (ours, limit) {
        (true, _) => OURS,
        (_, true) => LIMIT,
        _ => COLOURS[place % COLOURS.len()],
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
pub(super) fn bars(title: &str, bars: &[Bar]) -> Drawn {
    let count = bars.len();
    let height = AROUND_BARS + BAR_HEIGHT * count as u32;
    drawn(height, |root| {
        let most = bars.iter().map(|bar| bar.high.max(bar.median)).fold(0.0, f64::max);
        // Room for the figures behind the longest bar.
        let end = if most > 0.0 { most * 1.15 } else { 1.0 };
        let mut chart = ChartBuilder::on(root)
            .caption(title, ("sans-serif", 20))
            .margin(8)
            .x_label_area_size(32)
            .y_label_area_size(NAMES_WIDTH)
            .build_cartesian_2d(0.0..end, 0.0..count as f64)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().y_labels(0).light_line_style(WHITE.mix(0.0));
        mesh.label_style(("sans-serif", 14)).x_label_formatter(&|x| short(*x));
        mesh.draw()?;
        for (row, bar) in bars.iter().enumerate() {
            let y = (count - row) as f64 - 0.5;
            let style = colour(bar.place, bar.ours, bar.limit).filled();
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
            .caption(format!("{}, microseconds", lines.title), ("sans-serif", 20))
            .margin(8)
            .margin_right(LEGEND_WIDTH)
            .x_label_area_size(32)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..last, (from..(most * 1.3).max(from * 2.0)).log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE.mix(0.0)).label_style(("sans-serif", 14));
        mesh.x_labels(6).x_label_formatter(&|x| quantile(*x)).y_label_formatter(&|y| short(*y));
        mesh.draw()?;
        for line in &lines.lines {
            let positive = line.points.iter().filter(|p| p.1 > 0.0);
            let points: Vec<_> = positive.map(|(q, us)| (nines(*q), *us)).collect();
            draw_line(&mut chart, line, points)?;
        }
        legend(root, lines)
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
            .margin_right(LEGEND_WIDTH)
            .x_label_area_size(32)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..last, 0.0..most * 1.3)?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE.mix(0.0)).label_style(("sans-serif", 14)).x_desc("seconds");
        mesh.y_label_formatter(&|y| short(*y)).draw()?;
        for line in &lines.lines {
            draw_line(&mut chart, line, line.points.clone())?;
        }
        legend(root, lines)
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
    let style = colour(line.place, line.ours, false).stroke_width(width);
    chart.draw_series(LineSeries::new(points, style))?;
    Ok(())
}

/// The names of all lines right of them, ours first, then from the highest end to the lowest, as
/// they are seen.
fn legend(root: &DrawingArea<SVGBackend<'_>, Shift>, lines: &Lines) -> Result<(), DrawError> {
    let end = |line: &Line| line.points.last().map_or(0.0, |point| point.1);
    let mut order: Vec<&Line> = lines.lines.iter().collect();
    order.sort_by(|a, b| b.ours.cmp(&a.ours).then(end(b).total_cmp(&end(a))));
    let left = (WIDTH - LEGEND_WIDTH + 14) as i32;
    for (row, line) in order.into_iter().enumerate() {
        let y = 46 + row as i32 * LEGEND_STEP;
        let style = colour(line.place, line.ours, false).filled();
        root.draw(&Rectangle::new([(left, y), (left + 14, y + 8)], style))?;
        root.draw(&Text::new(line.name.clone(), (left + 20, y - 3), ("sans-serif", 13)))?;
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
