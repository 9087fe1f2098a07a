//! `silica model plot`: the figures of the paper from our models, with simulated and measured
//! stores over them.

mod measured;
mod simulated;

use measured::Measured;
use serde_json::{Map, Value, json};
use silica::Result;
use silica_bench::charts::{Axes, Panel, Series, draw};
use silica_console::Output;
use silica_lab::model::{LevelDb, Popularity, Primitives, Silt, SiltDesign};
use silica_lab::optimise::level_sizes;
use simulated::{Dots, Pair, Simulated, laid_over, name_of, scaled};
use std::path::{Path, PathBuf};

/// Entries of 1 kB in a MiB, as the paper counts.
const MIB: f64 = 1048.576;
const SKEWS: [f64; 4] = [0.0, 0.6, 0.99, 1.2];
const KEYS: u64 = 100_000_000;
const KEYS_FEW: u64 = 10_000_000;
/// SILT takes more than this for each key.
const MEMORY_MIN: f64 = 0.4;

type Figure = (&'static str, fn(&mut Simulated<'_>) -> Result<Vec<Panel>>);

const FIGURES: [Figure; 8] = [
    ("unique", unique),
    ("density", density),
    ("writes-by-skew", by_skew),
    ("writes-by-keys", by_keys),
    ("writes-by-buffer", by_buffer),
    ("writes-by-levels", by_levels),
    ("level-sizes", level_sizes_by_skew),
    ("silt-memory", silt_memory),
];

/// Panels of what was measured for a figure.
fn measured_for(name: &str, measured: &mut Measured) -> Vec<Panel> {
    match name {
        "writes-by-skew" => measured.by_skew(),
        "writes-by-keys" => measured.by_keys(),
        "writes-by-buffer" => measured.by_buffer(),
        "writes-by-levels" => measured.by_levels(),
        "silt-memory" => measured.silt_memory(),
        _ => Vec::new(),
    }
}

/// Draws all figures into `directory`, with simulated stores of `simulate` keys, and with what
/// `silica bench models` wrote into `measured`.
pub(crate) fn run(
    directory: &Path,
    simulate: u64,
    measured: &[PathBuf],
    output: &mut Output,
) -> Result<()> {
    let mut measured = Measured::read(measured)?;
    let mut files = Vec::new();
    let (mut errors, mut errors_measured) = (Map::new(), Map::new());
    for (name, figure) in FIGURES {
        let file = directory.join(format!("{name}.svg"));
        let mut simulated = Simulated::new(simulate, output)?;
        let mut panels = figure(&mut simulated)?;
        panels.extend(measured_for(name, &mut measured));
        draw(&panels, &file)?;
        let mut line = format!("drew {}", file.display());
        line += &told(&simulated.errors(), "simulated", name, &mut errors);
        line += &told(&measured.errors(), "measured", name, &mut errors_measured);
        output.line(line)?;
        files.push(file.display().to_string());
    }
    let object = output.object();
    object.insert("files".into(), files.into());
    object.insert("errors".into(), errors.into());
    object.insert("errors_measured".into(), errors_measured.into());
    Ok(())
}

/// How far off the model is, for people, and into `errors` for programs.
fn told(off: &[f64], kind: &str, figure: &str, errors: &mut Map<String, Value>) -> String {
    if off.is_empty() {
        return String::new();
    }
    let low = off.iter().copied().fold(f64::INFINITY, f64::min);
    let high = off.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let of = json!({ "dots": off.len(), "lowest": low, "highest": high });
    errors.insert(figure.to_string(), of);
    let range = format!("{:+.1} to {:+.1} %", low * 100.0, high * 100.0);
    format!("; the model is {range} off {} {kind} dots", off.len())
}

fn primitives(keys: u64, skew: f64) -> Result<Primitives> {
    Ok(Primitives::new(Popularity::zipf(keys, skew)?))
}

/// `steps + 1` numbers from `low` to `high`.
fn even(low: f64, high: f64, steps: u32) -> impl Iterator<Item = f64> {
    (0..=steps).map(move |i| low + (high - low) * f64::from(i) / f64::from(steps))
}

/// LevelDB as it comes for `keys` keys: levels grow tenfold from 10 MiB on.
fn leveldb(keys: f64, log: f64) -> LevelDb {
    let mut levels = vec![10.0 * MIB];
    while levels[levels.len() - 1] * 10.0 < keys {
        levels.push(levels[levels.len() - 1] * 10.0);
    }
    if levels[0] >= keys {
        levels.clear();
    }
    levels.push(keys);
    LevelDb { log, level0_tables: 4.0, levels }
}

fn cost(model: LevelDb, keys: &Primitives) -> Result<f64> {
    Ok(model.checked(keys.keys())?.write_amplification(keys).total())
}

/// "1 M keys", "50 k keys".
fn so_many(keys: u64) -> String {
    match keys {
        1_000_000.. => format!("{} M keys", keys as f64 / 1e6),
        _ => format!("{} k keys", keys as f64 / 1e3),
    }
}

/// LevelDB of 10 M keys made small: of 100 M, tables would be left with a handful of entries, and
/// chance would decide what a compaction costs.
fn scaled_title(keys: u64) -> String {
    format!("The same of 10 M keys, all sizes scaled to {}", so_many(keys))
}

/// Figure 4.4.
fn unique(simulated: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let mut series = Vec::new();
    for skew in SKEWS {
        let keys = primitives(KEYS, skew)?;
        let points = even(0.0, 1e9, 200).map(|p| (p / 1e6, keys.unique(p) / 1e6));
        series.push(Series::new(&name_of(skew), points));
    }
    let title = "Distinct keys of requests (figure 4.4): 100 M keys";
    let panel = Panel::lines(title, "requests (millions)", "distinct keys (millions)", series);
    let mut panels = vec![panel.with_axes(Axes { y_max: Some(170.0), ..Axes::default() })];
    if let Some(count) = simulated.keys() {
        panels.push(unique_simulated(count, simulated)?);
    }
    Ok(panels)
}

fn unique_simulated(count: u64, simulated: &mut Simulated<'_>) -> Result<Panel> {
    let mut pairs = Vec::new();
    for skew in SKEWS {
        let keys = primitives(count, skew)?;
        let line = even(0.0, 10.0 * count as f64, 200).map(|p| (p / 1e3, keys.unique(p) / 1e3));
        let dots = simulated.distinct(&keys, skew, count / 2, 20)?;
        let dots = dots.iter().map(|(asked, found)| (asked / 1e3, found / 1e3)).collect();
        pairs.push((name_of(skew), line.collect(), dots));
    }
    let title = format!("The same of {}, drawn", so_many(count));
    let panel = laid_over(
        &title,
        "requests (thousands)",
        "distinct keys (thousands)",
        pairs,
        Dots::Simulated,
    );
    let y_max = Some(1.9 * count as f64 / 1e3);
    Ok(panel.with_axes(Axes { y_max, ..Axes::default() }))
}

/// Figure 4.7.
fn density(_: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let mut series = Vec::new();
    for skew in SKEWS {
        let keys = primitives(KEYS, skew)?;
        let interval = keys.d_interval(10.0 * 1048576.0);
        let points = even(0.0, keys.keys(), 200).map(|d| (d / 1e6, keys.density(interval, d)));
        series.push(Series::new(&name_of(skew), points));
    }
    let title = "Density of a level of 10 Mi of 100 M keys (figure 4.7)";
    let x = "distance from the last compacted key (millions)";
    Ok(vec![Panel::lines(title, x, "probability of an item", series)])
}

/// Figure 4.9.
fn by_skew(simulated: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let model = leveldb(KEYS as f64, 4.0 * MIB);
    let mut points = Vec::new();
    for skew in even(0.0, 1.2, 48) {
        points.push((skew, cost(model.clone(), &primitives(KEYS, skew)?)?));
    }
    let worst = model.worst_case().total();
    let series = vec![
        Series::new("without redundancy", [(0.0, worst), (1.2, worst)]),
        Series::new("model", points),
    ];
    let title = "LevelDB's writes by skew (figure 4.9): 100 M keys";
    let mut panels = vec![Panel::lines(title, "skew", "write amplification", series)];
    if let Some(count) = simulated.keys() {
        let scale = count as f64 / KEYS_FEW as f64;
        let model = scaled(&leveldb(KEYS_FEW as f64, 4.0 * MIB), scale);
        let (mut line, mut dots) = (Vec::new(), Vec::new());
        for (i, skew) in even(0.0, 1.2, 48).enumerate() {
            let keys = primitives(count, skew)?;
            line.push((skew, cost(model.clone(), &keys)?));
            if i % 8 == 0 {
                dots.push((skew, simulated.leveldb(&model, &keys, skew, scale)?));
            }
        }
        let title = scaled_title(count);
        let pairs = vec![("model".to_string(), line, dots)];
        panels.push(laid_over(&title, "skew", "write amplification", pairs, Dots::Simulated));
    }
    Ok(panels)
}

/// Figure 4.10.
fn by_keys(simulated: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let mut series = Vec::new();
    let counts = || even(6.0, 9.0, 30).map(|digits| 10_f64.powf(digits).round());
    for skew in [0.0, 0.99] {
        let mut points = Vec::new();
        for keys in counts() {
            let total = cost(leveldb(keys, 4.0 * MIB), &primitives(keys as u64, skew)?)?;
            points.push((keys.log10() - 6.0, total));
        }
        series.push(Series::new(&name_of(skew), points));
    }
    let mut dots = [Vec::new(), Vec::new()];
    // No size is scaled here: so many keys are few enough, up to three times the others' number.
    let few = simulated.keys().map_or(0.0, |keys| 3.2 * keys as f64);
    for keys in counts().step_by(5).filter(|keys| *keys <= few) {
        for (dots, skew) in dots.iter_mut().zip([0.0, 0.99]) {
            let (model, of) = (leveldb(keys, 4.0 * MIB), primitives(keys as u64, skew)?);
            dots.push((keys.log10() - 6.0, simulated.leveldb(&model, &of, skew, 1.0)?));
        }
    }
    let worst = |keys: f64| (keys.log10() - 6.0, leveldb(keys, 4.0 * MIB).worst_case().total());
    series.push(Series::new("without redundancy", counts().map(worst)));
    for (i, dots) in dots.into_iter().enumerate().filter(|(_, dots)| !dots.is_empty()) {
        let name = if i == 0 { "dots: simulated" } else { "" };
        series.push(Series::dots(name, dots).coloured_as(i));
    }
    let title = "LevelDB's writes by keys (figure 4.10)";
    let panel = Panel::lines(title, "keys (millions)", "write amplification", series);
    Ok(vec![panel.with_axes(Axes { x_powers: true, ..Axes::default() })])
}

/// Figures 4.11 and 4.16 without measurements.
fn by_buffer(simulated: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let mut series = Vec::new();
    for skew in [0.0, 0.99] {
        let keys = primitives(KEYS_FEW, skew)?;
        let mut points = Vec::new();
        for log in even(4.0 * MIB, 1e6, 200) {
            points.push((log / 1e3, cost(leveldb(keys.keys(), log), &keys)?));
        }
        series.push(Series::new(&name_of(skew), points));
        let mut points = Vec::new();
        for log in even((4.0 * MIB).ln(), 1e6_f64.ln(), 30).map(f64::exp) {
            let count = leveldb(keys.keys(), log).levels.len();
            points.push((log / 1e3, level_sizes(log, 4.0, count, &keys)?.cost.total()));
        }
        series.push(Series::new(&format!("{}, optimised sizes", name_of(skew)), points));
    }
    let title = "LevelDB's writes by write buffer (figures 4.11, 4.16): 10 M keys";
    let x = "write buffer (thousands of items)";
    let mut panels = vec![Panel::lines(title, x, "write amplification", series)];
    if let Some(count) = simulated.keys() {
        panels.push(by_buffer_simulated(count, simulated)?);
    }
    Ok(panels)
}

fn by_buffer_simulated(count: u64, simulated: &mut Simulated<'_>) -> Result<Panel> {
    let scale = count as f64 / KEYS_FEW as f64;
    let model = |log: f64| scaled(&leveldb(KEYS_FEW as f64, log), scale);
    let mut pairs: Vec<Pair> = Vec::new();
    for skew in [0.0, 0.99] {
        let keys = primitives(count, skew)?;
        let (mut line, mut dots) = (Vec::new(), Vec::new());
        for log in even(4.0 * MIB, 1e6, 200) {
            line.push((log * scale / 1e3, cost(model(log), &keys)?));
        }
        for log in even((4.0 * MIB).ln(), 1e6_f64.ln(), 4).map(f64::exp) {
            let found = simulated.leveldb(&model(log), &keys, skew, scale)?;
            dots.push((log * scale / 1e3, found));
        }
        pairs.push((name_of(skew), line, dots));
    }
    let title = scaled_title(count);
    Ok(laid_over(
        &title,
        "write buffer (thousands of items)",
        "write amplification",
        pairs,
        Dots::Simulated,
    ))
}

/// Figure 4.15 with one growth factor for all levels.
fn by_levels(simulated: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let title =
        "LevelDB's writes by levels, one growth factor or optimised (figure 4.15): 100 M keys";
    let mut panels = vec![by_levels_of(KEYS, KEYS, title, None)?];
    if let Some(count) = simulated.keys() {
        panels.push(by_levels_of(count, KEYS_FEW, &scaled_title(count), Some(simulated))?);
    }
    Ok(panels)
}

/// Sizes are those of `of` keys, scaled to `count`.
fn by_levels_of(
    count: u64,
    of: u64,
    title: &str,
    mut simulated: Option<&mut Simulated<'_>>,
) -> Result<Panel> {
    let scale = count as f64 / of as f64;
    let (log, first) = (4.0 * MIB * scale, 10.0 * MIB * scale);
    let mut pairs: Vec<Pair> = Vec::new();
    for skew in [0.0, 0.99] {
        let keys = primitives(count, skew)?;
        let even_levels = |count: u32| {
            let growth = (keys.keys() / first).powf(1.0 / f64::from(count - 1));
            let inner = (1..count).map(|l| first * growth.powi(l as i32 - 1));
            let levels = inner.chain([keys.keys()]).collect();
            LevelDb { log, level0_tables: 4.0, levels }
        };
        for suffix in ["", ", optimised sizes"] {
            let (mut line, mut dots) = (Vec::new(), Vec::new());
            for count in 3..=8_u32 {
                let model = match suffix {
                    "" => even_levels(count),
                    _ => level_sizes(log, 4.0, count as usize, &keys)?.model,
                };
                if let Some(simulated) = &mut simulated {
                    let found = simulated.leveldb(&model, &keys, skew, scale)?;
                    dots.push((f64::from(count), found));
                }
                line.push((f64::from(count), cost(model, &keys)?));
            }
            pairs.push((name_of(skew) + suffix, line, dots));
        }
    }
    let axes = Axes { x_min: 3.0, x_whole: true, ..Axes::default() };
    let (x, y) = ("levels", "write amplification");
    if simulated.is_some() {
        return Ok(laid_over(title, x, y, pairs, Dots::Simulated).with_axes(axes));
    }
    let lines = pairs.iter().map(|(name, line, _)| Series::new(name, line.iter().copied()));
    Ok(Panel::lines(title, x, y, lines.collect()).with_axes(axes))
}

/// Figure 4.14: the sizes that LevelDB has as it comes stand beside those that are optimised.
fn level_sizes_by_skew(_: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let original = leveldb(KEYS as f64, 4.0 * MIB).levels;
    let count = original.len();
    let mut points = vec![Vec::new(); count - 1];
    for skew in even(0.0, 1.2, 24) {
        let best = level_sizes(4.0 * MIB, 4.0, count, &primitives(KEYS, skew)?)?;
        for (points, size) in points.iter_mut().zip(&best.model.levels) {
            points.push((skew, (size / 1e3).log10()));
        }
    }
    let mut series = Vec::new();
    for (level, points) in (1..count).zip(points).rev() {
        series.push(Series::new(&format!("level {level}"), points));
    }
    for (i, size) in original[..count - 1].iter().rev().enumerate() {
        let dots = even(0.0, 1.2, 24).map(|skew| (skew, (size / 1e3).log10()));
        let name = if i == 0 { "dots: as LevelDB has them" } else { "" };
        series.push(Series::dots(name, dots).coloured_as(i));
    }
    let title = format!("Optimised level sizes by skew (figure 4.14): 100 M keys, {count} levels");
    let panel = Panel::lines(&title, "skew", "thousands of items", series);
    Ok(vec![panel.with_axes(Axes { y_powers: true, y_max: Some(7.0), ..Axes::default() })])
}

/// Figure 8 of SILT's paper, and writes under skew at the same memory.
fn silt_memory(simulated: &mut Simulated<'_>) -> Result<Vec<Panel>> {
    let instances = 4.0;
    let design = |merged: f64| SiltDesign { keys: 1e8, merged, tag_bits: 15.0, instances };
    let merged = || even(1e6, 25e6, 200);
    let point = |d: f64, y: f64| (design(d).memory_bytes_per_key(), y);
    let writes = merged().map(|d| point(d, design(d).write_amplification()));
    let skewed = primitives(KEYS / 4, 0.99)?;
    let table = f64::from(1 << 17);
    let skewed = merged().map(|d| {
        let hash_stores = d / (0.93 * table);
        let model = Silt { table, occupancy: 0.93, hash_stores };
        point(d, model.write_amplification(&skewed).total())
    });
    let reads = merged().map(|d| point(d, design(d).read_amplification()));
    let x = "bytes of memory for each key";
    let series = vec![
        Series::new("uniform (equation 4)", writes),
        Series::new("Zipf 0.99 (algorithm 5)", skewed),
    ];
    let title = "SILT's writes by memory (SILT, figure 8): 100 M keys, 4 instances";
    let written = Panel::lines(title, x, "write amplification", series);
    let series = vec![Series::new("reads (equation 6)", reads)];
    let read = Panel::lines("SILT's reads by memory", x, "read amplification", series);
    let axes = Axes { x_min: MEMORY_MIN, y_min: 1.0, y_max: Some(1.05), ..Axes::default() };
    let beside = Axes { x_min: MEMORY_MIN, ..Axes::default() };
    let mut panels = vec![written.with_axes(beside), read.with_axes(axes)];
    if let Some(count) = simulated.keys() {
        panels.insert(1, silt_simulated(count, simulated)?.with_axes(beside));
    }
    Ok(panels)
}

fn silt_simulated(count: u64, simulated: &mut Simulated<'_>) -> Result<Panel> {
    let full_table = f64::from(1 << 17);
    let table = (full_table * count as f64 / KEYS as f64).round();
    let model = |hash_stores: f64| Silt { table, occupancy: 0.93, hash_stores };
    let memory = |hash_stores: f64| {
        let merged = hash_stores * 0.93 * full_table;
        SiltDesign { keys: 1e8, merged, tag_bits: 15.0, instances: 4.0 }.memory_bytes_per_key()
    };
    let mut pairs: Vec<Pair> = Vec::new();
    for skew in [0.0, 0.99] {
        let keys = primitives(count / 4, skew)?;
        let line = even(8.0, 205.0, 200)
            .map(|stores| (memory(stores), model(stores).write_amplification(&keys).total()));
        let mut dots = Vec::new();
        for stores in [10.0, 20.0, 31.0, 62.0, 100.0, 160.0] {
            dots.push((memory(stores), simulated.silt(&model(stores), &keys, skew)?));
        }
        pairs.push((name_of(skew) + " (algorithm 5)", line.collect(), dots));
    }
    let title = format!("The same, tables scaled to {}", so_many(count));
    Ok(laid_over(
        &title,
        "bytes of memory for each key",
        "write amplification",
        pairs,
        Dots::Simulated,
    ))
}
