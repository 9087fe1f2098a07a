//! `silica bench figures models`: chapter 4 of Lim's dissertation. Analysis and simulation keep the
//! proportions of the paper's store: a share of its keys has the same share of its log, tables and
//! levels.

use super::job::Job;
use super::models_levels;
use super::sheet::{Drawing, Sheet, drawing};
use silica::Result;
use silica_console::Output;
use silica_lab::model::{LevelDb, Popularity, Primitives, WriteAmplification};
use silica_lab::optimise::level_sizes;
use silica_lab::simulate::{LevelDbSimulator, Requests, run_settled};

/// Unique keys of Table 4.1.
const KEYS: f64 = 100e6;
const KEYS_MIN: u64 = 20_000;
/// Items of 1 kB in a MiB, and in a table of 2 MiB.
const MIB: f64 = 1048.576;
const TABLE: f64 = 2.0 * MIB;
const LEVEL0_TABLES: f64 = 4.0;
/// Shares of the keys in Figure 4.12.
const PARTS: [u64; 3] = [16, 4, 1];
const SKEWS: [(&str, f64); 2] = [("uniform", 0.0), ("zipf 0.99", 0.99)];

const WA: &str = "write amplification";
const DRAWINGS: [Drawing; 5] = [
    Drawing {
        file: "figure-4.12-uniform",
        metric: "uniform",
        x_powers: true,
        ..drawing("figure-4.12", "LevelDB's level sizes, uniform keys", "keys", WA)
    },
    Drawing {
        file: "figure-4.12-zipf",
        metric: "zipf",
        x_powers: true,
        ..drawing("figure-4.12", "LevelDB's level sizes, zipf 0.99", "keys", WA)
    },
    Drawing {
        file: "figure-4.3",
        metric: "overwrites/s",
        ..drawing("figure-4.3", "LevelDB: inserts by data volume", "MB of data", "puts a second")
    },
    Drawing {
        file: "figure-4.3-writes",
        metric: "bytes written",
        ..drawing("figure-4.3", "LevelDB: writes by data volume", "MB of data", WA)
    },
    Drawing {
        metric: "bytes written",
        ..drawing("figure-4.17", "Which table is compacted next", "zipf's exponent", WA)
    },
];

/// Everything that is drawn of the chapter.
pub(super) fn sheet(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    let keys = job.keys(KEYS, KEYS_MIN);
    let mut progress = crate::verbs::simulate::progress(output);
    table_4_1(keys, job.seed(), &mut sheet, &mut progress)?;
    figure_4_12(keys, job.seed(), &mut sheet, &mut progress)?;
    models_levels::add(job, &mut sheet)?;
    Ok(sheet)
}

type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// LevelDB with `keys` keys, at `share` of the paper's sizes.
fn leveldb(keys: u64, share: f64) -> LevelDb {
    let tenfold = std::iter::successors(Some(10.0 * MIB * share), |size| Some(10.0 * size));
    let inner = tenfold.take_while(|size| *size < keys as f64);
    let levels = inner.chain([keys as f64]).collect();
    LevelDb { log: 4.0 * MIB * share, level0_tables: LEVEL0_TABLES, levels }
}

/// What a model predicts and what its simulator counts, after all keys were overwritten once.
fn judged(
    model: &LevelDb,
    share: f64,
    primitives: &Primitives,
    (skew, seed): (f64, u64),
    progress: &mut Progress<'_>,
) -> Result<[WriteAmplification; 2]> {
    let analysis = model.clone().checked(primitives.keys())?.write_amplification(primitives);
    let table = (TABLE * share).max(1.0);
    let mut simulator = LevelDbSimulator::new(model)?.with_tables_of(table)?;
    let keys = primitives.keys() as u64;
    let mut requests = Requests::zipf(keys, skew, seed)?;
    let counted = run_settled(&mut simulator, &mut requests, keys, 2 * keys, progress)?;
    Ok([analysis, counted])
}

fn optimised(model: &LevelDb, primitives: &Primitives) -> Result<LevelDb> {
    Ok(level_sizes(model.log, model.level0_tables, model.levels.len(), primitives)?.model)
}

/// Where the bytes go, as the paper names it, with its analysis and simulation without and with
/// optimised level sizes.
const SOURCES: [(&str, [f64; 4]); 8] = [
    ("mem to log", [1.0, 1.0, 1.0, 1.0]),
    ("mem to level 0", [1.0, 1.0, 1.0, 1.0]),
    ("level 0 to 1", [1.62, 1.60, 3.85, 3.75]),
    ("level 1 to 2", [4.77, 4.38, 4.85, 4.49]),
    ("level 2 to 3", [6.22, 6.04, 4.82, 4.66]),
    ("level 3 to 4", [6.32, 6.09, 4.65, 4.55]),
    ("level 4 to 5", [4.89, 5.20, 3.50, 3.81]),
    ("total", [25.82, 25.31, 23.67, 23.26]),
];
const COLUMNS: [&str; 4] =
    ["analysis", "simulation", "analysis, optimised", "simulation, optimised"];

/// The breakdown of what LevelDB writes, uniform keys.
fn table_4_1(keys: u64, seed: u64, sheet: &mut Sheet, progress: &mut Progress<'_>) -> Result<()> {
    let share = keys as f64 / KEYS;
    let primitives = Primitives::new(Popularity::zipf(keys, 0.0)?);
    let plain = leveldb(keys, share);
    let [analysis, simulated] = judged(&plain, share, &primitives, (0.0, seed), progress)?;
    let best = optimised(&plain, &primitives)?;
    let [better, simulated_better] = judged(&best, share, &primitives, (0.0, seed), progress)?;
    let costs = [analysis, simulated, better, simulated_better];
    for (column, (scheme, cost)) in COLUMNS.iter().zip(&costs).enumerate() {
        let mut values: Vec<f64> = cost.terms().iter().map(|(_, bytes)| *bytes).collect();
        values.push(cost.total());
        for ((source, papers), value) in SOURCES.iter().zip(values) {
            sheet.add("table-4.1", *scheme, *source, value, papers[column]);
        }
    }
    Ok(())
}

/// Write amplification by number of keys, with tenfold and with optimised level sizes.
fn figure_4_12(keys: u64, seed: u64, sheet: &mut Sheet, progress: &mut Progress<'_>) -> Result<()> {
    let share = keys as f64 / KEYS;
    for (name, skew) in SKEWS {
        for part in PARTS {
            let keys = keys / part;
            let primitives = Primitives::new(Popularity::zipf(keys, skew)?);
            let plain = leveldb(keys, share);
            let best = optimised(&plain, &primitives)?;
            for (model, end) in [(&plain, ""), (&best, "-opt")] {
                let costs = judged(model, share, &primitives, (skew, seed), progress)?;
                for (kind, cost) in ["ana", "sim"].iter().zip(costs) {
                    let scheme = format!("LevelDB-{kind}{end}");
                    let metric = format!("{keys} keys, {name}: {WA}");
                    sheet.add("figure-4.12", scheme, metric, cost.total(), None);
                }
            }
        }
    }
    Ok(())
}
