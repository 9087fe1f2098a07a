//! Samples as a table and as a drawing.

use super::Sample;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 90.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 50.0;

/// One line for each sample.
pub fn table(samples: &[Sample]) -> String {
    let mut out = "second,rss_bytes,descriptors,requests,p50_us,p99_us\n".to_string();
    for s in samples {
        let fields = [s.second, s.rss_bytes, s.descriptors, s.requests, s.p50_us, s.p99_us];
        out.push_str(&fields.map(|field| field.to_string()).join(","));
        out.push('\n');
    }
    out
}

/// A line of a panel.
struct Line {
    name: &'static str,
    colour: &'static str,
    value: fn(&Sample) -> f64,
}

/// Three panels over the same time: memory, descriptors, latency.
pub fn drawing(title: &str, samples: &[Sample], memory_bytes: u64) -> String {
    let height = 60.0 + 3.0 * (PANEL + GAP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">{title}</text>\n"
    );
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let line = |name, colour, value| Line { name, colour, value };
    let panels: [(&str, Option<f64>, Vec<Line>); 3] = [
        (
            "resident memory, MiB (dashed: the number that was set)",
            Some(mib(memory_bytes)),
            vec![line("", "#1f77b4", |s| s.rss_bytes as f64 / f64::from(1 << 20))],
        ),
        (
            "open descriptors of the server",
            None,
            vec![line("", "#2ca02c", |s| s.descriptors as f64)],
        ),
        (
            "latency of single requests, ms",
            None,
            vec![
                line("p99", "#d62728", |s| s.p99_us as f64 / 1000.0),
                line("p50", "#1f77b4", |s| s.p50_us as f64 / 1000.0),
            ],
        ),
    ];
    for (number, (name, limit, lines)) in panels.iter().enumerate() {
        let top = 60.0 + number as f64 * (PANEL + GAP);
        panel(&mut out, top, name, *limit, lines, samples);
    }
    out.push_str("</svg>\n");
    out
}

fn panel(
    out: &mut String,
    top: f64,
    name: &str,
    limit: Option<f64>,
    lines: &[Line],
    samples: &[Sample],
) {
    let values = lines.iter().flat_map(|line| samples.iter().map(line.value));
    let most = values.chain(limit).fold(0.0, f64::max).max(0.001) * 1.1;
    let seconds = samples.last().map_or(1, |s| s.second).max(1) as f64;
    let right = WIDTH - 30.0;
    let x = |second: u64| LEFT + (right - LEFT) * second as f64 / seconds;
    let y = |value: f64| top + PANEL * (1.0 - value / most);
    let mut put = |text: String| writeln!(out, "{text}").expect("a string takes every write");
    put(format!("<text x=\"{LEFT}\" y=\"{}\">{name}</text>", top - 8.0));
    for part in 0..=4 {
        let value = most / 1.1 * f64::from(part) / 4.0;
        let at = y(value);
        put(format!(
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{value:.*}</text>",
            LEFT - 8.0,
            at + 4.0,
            if most < 20.0 { 2 } else { 0 },
        ));
    }
    if let Some(limit) = limit {
        let at = y(limit);
        put(format!(
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#333\" stroke-dasharray=\"6\"/>"
        ));
    }
    for (number, line) in lines.iter().enumerate() {
        let points: Vec<String> = samples
            .iter()
            .map(|s| format!("{:.1},{:.1}", x(s.second), y((line.value)(s))))
            .collect();
        put(format!(
            "<polyline fill=\"none\" stroke=\"{}\" points=\"{}\"/><text x=\"{}\" y=\"{}\" \
             fill=\"{}\">{}</text>",
            line.colour,
            points.join(" "),
            right - 80.0 + 40.0 * number as f64,
            top - 8.0,
            line.colour,
            line.name,
        ));
    }
    put(format!(
        "<text x=\"{LEFT}\" y=\"{0:.1}\">0 s</text><text x=\"{right}\" y=\"{0:.1}\" \
         text-anchor=\"end\">{seconds:.0} s</text>",
        top + PANEL + 16.0
    ));
}
