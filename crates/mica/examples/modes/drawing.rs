//! Groups of bars, and lines by the number of workers.

use plotters::prelude::*;

const COLOURS: [RGBColor; 5] = [
    RGBColor(148, 103, 189),
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(214, 39, 40),
];

const IDEAL: RGBColor = RGBColor(190, 190, 190);
/// Width and height of one group's drawing of lines.
const PANEL: (u32, u32) = (560, 400);

/// A rate of each mode.
type Group<const N: usize> = (String, [(&'static str, f64); N]);
/// A name, its points and its colour.
type Line = (&'static str, Vec<(f64, f64)>, RGBColor);
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws a bar for every name in every group, in millions a second.
pub(crate) fn bars<const N: usize>(file: &str, workers: usize, groups: &[Group<N>]) -> Drawn {
    let root = SVGBackend::new(file, (900, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let highest = groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.1).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("Requests of {workers} cores, 8 + 8 bytes"), ("sans-serif", 24))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..highest / 1e6 * 1.5)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_desc("M/s")
        .label_style(("sans-serif", 17))
        .draw()?;
    for (number, (name, _)) in groups.iter().enumerate() {
        let (x, _) = chart.backend_coord(&(number as f64 + 0.1, 0.0));
        root.draw(&Text::new(name.clone(), (x, 416), ("sans-serif", 17)))?;
    }
    let width = 0.9 / N as f64;
    for bar in 0..N {
        let colour = COLOURS[bar % COLOURS.len()];
        let bars = groups.iter().enumerate().map(|(group, (_, bars))| {
            let left = group as f64 + 0.05 + bar as f64 * width;
            Rectangle::new([(left, 0.0), (left + 0.9 * width, bars[bar].1 / 1e6)], colour.filled())
        });
        let drawn = chart.draw_series(bars)?;
        drawn
            .label(groups[0].1[bar].0)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .label_font(("sans-serif", 17))
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Draws a panel for every group: a line of each mode by the number of workers, and what the first
/// mode would do if workers cost each other nothing.
pub(crate) fn lines<const N: usize>(file: &str, all: &[(usize, Vec<Group<N>>)]) -> Drawn {
    let groups = all.first().map_or(0, |(_, groups)| groups.len());
    let rows = groups.div_ceil(2);
    let root = SVGBackend::new(file, (2 * PANEL.0, rows as u32 * PANEL.1)).into_drawing_area();
    root.fill(&WHITE)?;
    let most = all.iter().map(|(workers, _)| *workers).max().unwrap_or(1) as f64;
    for (group, area) in root.split_evenly((rows, 2)).iter().enumerate().take(groups) {
        let points = |mode: usize| {
            all.iter()
                .map(move |(workers, groups)| (*workers as f64, groups[group].1[mode].1 / 1e6))
        };
        let highest = (0..N).flat_map(points).map(|point| point.1).fold(0.0, f64::max) * 1.5;
        let mut chart = ChartBuilder::on(area)
            .caption(&all[0].1[group].0, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..most, 0.0..highest)?;
        chart.configure_mesh().x_desc("cores").y_desc("M/s").max_light_lines(1).draw()?;
        let modes =
            (0..N).map(|mode| (all[0].1[group].1[mode].0, points(mode).collect::<Vec<_>>()));
        let mut drawn: Vec<Line> =
            modes.zip(COLOURS).map(|((name, points), colour)| (name, points, colour)).collect();
        let (workers, rate) = drawn[0].1[0];
        let end = most.min(highest / (rate / workers));
        drawn.push(("ideal of the first", vec![(0.0, 0.0), (end, end * rate / workers)], IDEAL));
        for (name, points, colour) in drawn {
            let legend =
                move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled());
            chart.draw_series(LineSeries::new(points, &colour))?.label(name).legend(legend);
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    root.present()?;
    Ok(())
}
