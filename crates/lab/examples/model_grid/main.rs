//! LevelDB's models against its simulator, over settings drawn at random: a table, worst and median
//! errors, and a picture.
//!
//!     cargo run --release -p silica-tune --example model_grid -- COUNT SEED FILE.svg \
//!         [seed=N] [settling=N] [rounds=N] [terms=N]
//!
//! `SEED` draws the settings, `seed` the requests (1). The simulator settles for `settling` rounds
//! of the slowest level (1.5) and is measured over `rounds` (2). `terms` prints each level of so
//! many settings that the refined model is worst at, and of as many that the printed one is.

mod grid;

use grid::{Course, Row};
use silica_base::{Prng, Result};
use silica_lab::model::WriteAmplification;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Arguments by their names; those without are in their order.
struct Args {
    plain: Vec<String>,
    course: Course,
    terms: usize,
}

impl Args {
    fn read() -> Self {
        let mut args = Args { plain: Vec::new(), course: grid::USUAL, terms: 0 };
        for text in std::env::args().skip(1) {
            let Some((name, value)) = text.split_once('=') else {
                args.plain.push(text);
                continue;
            };
            let number: f64 = value.parse().expect("NAME=NUMBER");
            match name {
                "seed" => args.course.seed = number as u64,
                "settling" => args.course.settling = number,
                "rounds" => args.course.rounds = number,
                "terms" => args.terms = number as usize,
                _ => panic!("no argument '{name}'"),
            }
        }
        args
    }

    fn number(&self, at: usize, default: u64) -> u64 {
        self.plain.get(at).map_or(default, |text| text.parse().expect("a whole number"))
    }
}

fn main() -> Result<()> {
    let args = Args::read();
    let mut prng = Prng::new(args.number(1, 2));
    let mut rows = Vec::new();
    println!(
        "keys    skew  buffer  levels                                simulated  printed  refined \
         followed"
    );
    for _ in 0..args.number(0, 100) {
        let row = grid::judge(grid::draw(&mut prng)?, args.course)?;
        println!("{}", line(&row));
        rows.push(row);
    }
    summary(&rows);
    for (name, of) in MODELS {
        terms(name, of, &mut rows, args.terms);
    }
    println!("one evaluation of the refined model: {:?} on average", time(&rows, false));
    println!("the same, followed: {:?}", time(&rows, true));
    if let Some(file) = args.plain.get(2) {
        std::fs::write(file, picture(&rows)).expect("the picture can be written");
    }
    Ok(())
}

/// A setting, what was simulated, and errors of all models.
fn line(row: &Row) -> String {
    let design = &row.setting.model.design;
    let inner = &design.levels[..design.levels.len() - 1];
    let levels: Vec<String> = inner.iter().map(|size| format!("{size}")).collect();
    format!(
        "{:<7} {:<5.2} {:<7} {:<38} {:>8.3} {:>+7.2}% {:>+7.2}% {:>+7.2}%",
        row.setting.keys,
        row.setting.skew,
        design.log,
        levels.join(" "),
        row.simulated.total(),
        100.0 * error(&row.printed, row),
        100.0 * error(&row.refined, row),
        100.0 * error(&row.followed, row)
    )
}

/// Worst and median errors.
fn summary(rows: &[Row]) {
    for (name, usual) in [("at least the write buffer", true), ("smaller", false)] {
        let some: Vec<&Row> = rows.iter().filter(|row| row.setting.is_usual() == usual).collect();
        println!("first level {name}: {} settings", some.len());
        for (model, of) in MODELS {
            let errors = some.iter().map(|row| error(of(row), row).abs());
            let mut errors: Vec<f64> = errors.collect();
            errors.sort_unstable_by(f64::total_cmp);
            let (Some(worst), middle) = (errors.last(), errors.get(errors.len() / 2)) else {
                continue;
            };
            let median = middle.unwrap_or(worst);
            println!("    {model}: worst {:.2} %, median {:.2} %", 100.0 * worst, 100.0 * median);
        }
    }
}

/// Of the `count` settings at which a model is worst each level: simulated, by all models, and how
/// much of the total each is off there.
fn terms(name: &str, of: fn(&Row) -> &WriteAmplification, rows: &mut [Row], count: usize) {
    rows.sort_by(|a, b| error(of(b), b).abs().total_cmp(&error(of(a), a).abs()));
    for row in rows.iter().take(count) {
        println!("{name}: {}", line(row));
        for (stage, [simulated, printed, refined, followed]) in row.terms() {
            let part = |model: f64| 100.0 * (model - simulated) / row.simulated.total();
            println!(
                "    {:<8} {simulated:>8.3} {printed:>8.3} {:>+6.2}% {refined:>8.3} {:>+6.2}% \
                 {followed:>8.3} {:>+6.2}%",
                stage.to_string(),
                part(printed),
                part(refined),
                part(followed)
            );
        }
    }
}

/// A model's name, and its figure.
type Model = (&'static str, fn(&Row) -> &WriteAmplification);

const MODELS: [Model; 3] = [
    ("printed (algorithm 3)", |row| &row.printed),
    ("refined", |row| &row.refined),
    ("refined, followed", |row| &row.followed),
];

fn error(model: &WriteAmplification, row: &Row) -> f64 {
    model.total() / row.simulated.total() - 1.0
}

/// Time of an evaluation, primitives made.
fn time(rows: &[Row], followed: bool) -> Duration {
    use silica_lab::model::{Popularity, Primitives};
    let mut sum = Duration::ZERO;
    for row in rows {
        let popularity = Popularity::zipf(row.setting.keys, row.setting.skew);
        let keys = Primitives::new(popularity.expect("it was simulated"));
        let model = &row.setting.model;
        let evaluate =
            || if followed { model.followed(&keys) } else { model.write_amplification(&keys) };
        evaluate();
        let begun = Instant::now();
        std::hint::black_box(evaluate());
        sum += begun.elapsed();
    }
    sum / rows.len().max(1) as u32
}

/// Of a panel: its side, and the margin on the left and below.
const SIDE: f64 = 400.0;
const MARGIN: f64 = 60.0;

/// Errors over what was simulated: a panel for each model, and colours for the two regions.
fn picture(rows: &[Row]) -> String {
    let (width, height) = (3.0 * (SIDE + MARGIN) + 20.0, SIDE + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let highest = rows.iter().map(|row| row.simulated.total()).fold(2.0, f64::max) * 1.1;
    let most = rows.iter().map(|row| error(&row.printed, row).abs()).fold(0.05, f64::max) * 1.1;
    for (at, (name, of)) in (0..).zip(MODELS) {
        let left = MARGIN + f64::from(at) * (SIDE + MARGIN);
        let x = |writes: f64| left + SIDE * writes.ln() / highest.ln();
        let y = |error: f64| MARGIN + SIDE * 0.5 * (1.0 - error / most);
        frame(&mut svg, name, left, &x, &y, highest, most);
        for row in rows {
            let colour = if row.setting.is_usual() { "#1f77b4" } else { "#d62728" };
            let (x, y) = (x(row.simulated.total()), y(error(of(row), row)));
            let dot = format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"");
            writeln!(svg, "{dot} fill-opacity=\"0.7\"/>").expect("a string");
        }
    }
    let legend = SIDE + MARGIN + 56.0;
    for (x, colour, text) in [
        (MARGIN, "#1f77b4", "first level at least the write buffer"),
        (MARGIN + 300.0, "#d62728", "first level smaller than the write buffer"),
    ] {
        let y = legend - 4.0;
        writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{legend}\">{text}</text>",
            x + 9.0
        )
        .expect("a string");
    }
    svg + "</svg>\n"
}

/// Axes, their numbers and a panel's title.
fn frame(
    svg: &mut String,
    name: &str,
    left: f64,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
    highest: f64,
    most: f64,
) {
    let mut line = |text: String| writeln!(svg, "{text}").expect("a string");
    line(format!(
        "<rect x=\"{left}\" y=\"{MARGIN}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" \
         stroke=\"#444\"/><text x=\"{left}\" y=\"20\" font-size=\"15\">LevelDB, {name}</text>\
         <text x=\"{left}\" y=\"40\">error of the model against the simulator</text>"
    ));
    for percent in (-20..=20).step_by(4).chain([-5, 5]).map(f64::from) {
        if percent.abs() > 100.0 * most {
            continue;
        }
        let at = y(percent / 100.0);
        let colour = match percent.abs() {
            0.0 => "#444",
            4.0 => "#2ca02c",
            5.0 => "#ff7f0e",
            _ => "#ddd",
        };
        let right = left + SIDE;
        line(format!(
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{colour}\"/>"
        ));
        if percent.abs() == 5.0 {
            // Its number would lie on that of 4.
            continue;
        }
        line(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{} %</text>",
            left - 5.0,
            at + 4.0,
            if percent == 0.0 { "0".into() } else { format!("{percent:+}") }
        ));
    }
    for writes in [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
        if writes < highest {
            let (at, below) = (x(writes), MARGIN + SIDE + 16.0);
            line(format!(
                "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{writes}</text>"
            ));
        }
    }
    let (middle, below) = (left + 0.5 * SIDE, MARGIN + SIDE + 16.0);
    line(format!(
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">write amplification of the \
         simulator</text>",
        below + 20.0
    ));
}
