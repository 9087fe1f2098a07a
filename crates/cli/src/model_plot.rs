//! `silica model plot`: the figures of the paper from our models.

use crate::output::Output;
use silica::Result;
use silica_bench::charts::{Axes, Panel, Series, draw};
use silica_tune::model::{LevelDb, Popularity, Primitives, Silt, SiltDesign};
use silica_tune::optimise::level_sizes;
use std::path::Path;

/// Entries of 1 kB in a MiB, as the paper counts.
const MIB: f64 = 1048.576;
const SKEWS: [f64; 4] = [0.0, 0.6, 0.99, 1.2];
const KEYS: u64 = 100_000_000;
const KEYS_FEW: u64 = 10_000_000;

type Figure = (&'static str, fn() -> Result<Vec<Panel>>);

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

/// Draws all figures into `directory`.
pub(crate) fn run(directory: &Path, output: &mut Output) -> Result<()> {
    let mut files = Vec::new();
    for (name, figure) in FIGURES {
        let file = directory.join(format!("{name}.svg"));
        draw(&figure()?, &file)?;
        output.line(format!("drew {}", file.display()))?;
        files.push(file.display().to_string());
    }
    output.object().insert("files".into(), files.into());
    Ok(())
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

fn name_of(skew: f64) -> String {
    if skew == 0.0 { "uniform".to_string() } else { format!("Zipf {skew}") }
}

/// Figure 4.4.
fn unique() -> Result<Vec<Panel>> {
    let mut series = Vec::new();
    for skew in SKEWS {
        let keys = primitives(KEYS, skew)?;
        let points = even(0.0, 1e9, 200).map(|p| (p / 1e6, keys.unique(p) / 1e6));
        series.push(Series::new(&name_of(skew), points));
    }
    let title = "Distinct keys of requests (figure 4.4): 100 M keys";
    let panel = Panel::lines(title, "requests (millions)", "distinct keys (millions)", series);
    Ok(vec![panel.with_axes(Axes { y_max: Some(150.0), ..Axes::default() })])
}

/// Figure 4.7.
fn density() -> Result<Vec<Panel>> {
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
fn by_skew() -> Result<Vec<Panel>> {
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
    Ok(vec![Panel::lines(title, "skew", "write amplification", series)])
}

/// Figure 4.10.
fn by_keys() -> Result<Vec<Panel>> {
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
    let worst = |keys: f64| (keys.log10() - 6.0, leveldb(keys, 4.0 * MIB).worst_case().total());
    series.push(Series::new("without redundancy", counts().map(worst)));
    let title = "LevelDB's writes by keys (figure 4.10)";
    let panel = Panel::lines(title, "keys (millions)", "write amplification", series);
    Ok(vec![panel.with_axes(Axes { x_powers: true, ..Axes::default() })])
}

/// Figures 4.11 and 4.16 without measurements.
fn by_buffer() -> Result<Vec<Panel>> {
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
    Ok(vec![Panel::lines(title, x, "write amplification", series)])
}

/// Figure 4.15 with one growth factor for all levels.
fn by_levels() -> Result<Vec<Panel>> {
    let mut series = Vec::new();
    for skew in [0.0, 0.99] {
        let keys = primitives(KEYS, skew)?;
        let mut points = Vec::new();
        for count in 3..=8_u32 {
            let growth = (keys.keys() / (10.0 * MIB)).powf(1.0 / f64::from(count - 1));
            let mut levels: Vec<f64> =
                (1..count).map(|l| 10.0 * MIB * growth.powi(l as i32 - 1)).collect();
            levels.push(keys.keys());
            let model = LevelDb { log: 4.0 * MIB, level0_tables: 4.0, levels };
            points.push((f64::from(count), cost(model, &keys)?));
        }
        series.push(Series::new(&name_of(skew), points));
        let mut points = Vec::new();
        for count in 3..=8_u32 {
            let best = level_sizes(4.0 * MIB, 4.0, count as usize, &keys)?;
            points.push((f64::from(count), best.cost.total()));
        }
        series.push(Series::new(&format!("{}, optimised sizes", name_of(skew)), points));
    }
    let title =
        "LevelDB's writes by levels, one growth factor or optimised (figure 4.15): 100 M keys";
    let panel = Panel::lines(title, "levels", "write amplification", series);
    Ok(vec![panel.with_axes(Axes { x_min: 3.0, ..Axes::default() })])
}

/// Figure 4.14.
fn level_sizes_by_skew() -> Result<Vec<Panel>> {
    const LEVELS: usize = 5;
    let mut points = vec![Vec::new(); LEVELS - 1];
    for skew in even(0.0, 1.2, 24) {
        let best = level_sizes(4.0 * MIB, 4.0, LEVELS, &primitives(KEYS, skew)?)?;
        for (points, size) in points.iter_mut().zip(&best.model.levels) {
            points.push((skew, (size / 1e3).log10()));
        }
    }
    let levels = (1..LEVELS).zip(points).rev();
    let series = levels.map(|(level, points)| Series::new(&format!("level {level}"), points));
    let title = "Optimised level sizes by skew (figure 4.14): 100 M keys, 5 levels";
    let panel = Panel::lines(title, "skew", "thousands of items", series.collect());
    Ok(vec![panel.with_axes(Axes { y_powers: true, y_max: Some(7.0), ..Axes::default() })])
}

/// Figure 8 of SILT's paper, and writes under skew at the same memory.
fn silt_memory() -> Result<Vec<Panel>> {
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
    let axes = Axes { y_min: 1.0, y_max: Some(1.05), ..Axes::default() };
    Ok(vec![written, read.with_axes(axes)])
}
