//! Groups of bars.

use plotters::prelude::*;

const COLOURS: [RGBColor; 5] = [
    RGBColor(148, 103, 189),
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(214, 39, 40),
];

/// Draws a bar for every name in every group, in millions a second.
pub(crate) fn draw<const N: usize>(
    file: &str,
    groups: &[(String, [(&'static str, f64); N])],
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(file, (900, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let highest = groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.1).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption("Requests of two cores, 8 + 8 bytes", ("sans-serif", 24))
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
