//! The level sizes of LevelDB that write least.

use silica_base::{Error, ErrorKind, Result};

use super::{Minimum, minimise};
use crate::model::{LevelDb, Primitives, RefinedLevelDb, WriteAmplification};

/// Level sizes, and what they cost.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelSizes {
    /// The parameters with the sizes that were found.
    pub model: LevelDb,
    /// What the model says of them.
    pub cost: WriteAmplification,
    /// How often the model was evaluated.
    pub evaluations: u32,
}

/// The most levels that sizes are searched for.
const LEVELS_MAX: usize = 32;
/// A level that is not the last has at most this part of all keys. A level of nearly all keys is
/// hardly ever compacted, and would be a second last level: the model, which does not ask for
/// space, must not be led there.
const PART_MAX: f64 = 0.5;

/// The sizes of `count` levels, the last of which has every key, that make the model's write
/// amplification least (Lim's dissertation, section 4.6.2). The search is done over the sizes and
/// over the requests that would fill them, and the better result is taken.
///
/// # Errors
/// [`ErrorKind::Config`] for a log or a number of tables that is not over zero, for no level or
/// more than 32, and for fewer keys than levels.
pub fn level_sizes(
    log: f64,
    level0_tables: f64,
    count: usize,
    keys: &Primitives,
) -> Result<LevelSizes> {
    let begin = begin(log, level0_tables, count, keys)?;
    let cost = |model: &LevelDb| model.write_amplification(keys);
    search(log, level0_tables, &begin, keys, &cost)
}

/// The best sizes of levels by the refined model, for tables of `table` entries. The search begins
/// twice: where [`level_sizes`] does, and at what that finds. An evaluation takes milliseconds, so
/// this takes up to some seconds.
///
/// # Errors
/// As [`level_sizes`], and for a table that is not over zero.
pub fn level_sizes_refined(
    log: f64,
    level0_tables: f64,
    table: f64,
    count: usize,
    keys: &Primitives,
) -> Result<LevelSizes> {
    let begin = begin(log, level0_tables, count, keys)?;
    let design = LevelDb { log, level0_tables, levels: vec![keys.keys()] };
    let refined = |design: &LevelDb| RefinedLevelDb { design: design.clone(), table };
    refined(&design).checked(keys.keys())?;
    let cost = |model: &LevelDb| refined(model).write_amplification(keys);
    let printed = level_sizes(log, level0_tables, count, keys)?;
    let near = search(log, level0_tables, &printed.model.levels[..count - 1], keys, &cost)?;
    let far = search(log, level0_tables, &begin, keys, &cost)?;
    let evaluations = near.evaluations + far.evaluations;
    let best = if far.cost.total() < near.cost.total() { far } else { near };
    Ok(LevelSizes { evaluations, ..best })
}

/// Geometric sizes of all levels but the last, from what comes out of level 0.
fn begin(log: f64, level0_tables: f64, count: usize, keys: &Primitives) -> Result<Vec<f64>> {
    let all = keys.keys();
    let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
    if !(1..=LEVELS_MAX).contains(&count) {
        return refuse(format!("there are 1 to {LEVELS_MAX} levels, not {count}"));
    }
    if all < (2 * count) as f64 {
        return refuse(format!("{all} keys do not fill {count} levels: ask for fewer levels"));
    }
    LevelDb { log, level0_tables, levels: vec![all] }.checked(all)?;
    let high = PART_MAX * all;
    let first = keys.unique(log * level0_tables).clamp(1.0, high);
    let ratio = (all / first).powf(1.0 / count as f64);
    Ok((1..count).map(|l| (first * ratio.powi(l as i32)).clamp(1.0, high)).collect())
}

/// Searches from `begin` on over the sizes and over the requests that would fill them.
fn search(
    log: f64,
    level0_tables: f64,
    begin: &[f64],
    keys: &Primitives,
    cost: &dyn Fn(&LevelDb) -> WriteAmplification,
) -> Result<LevelSizes> {
    let high = PART_MAX * keys.keys();
    let model = |inner: &[f64]| LevelDb {
        log,
        level0_tables,
        levels: inner.iter().copied().chain([keys.keys()]).collect(),
    };
    let total = |inner: &[f64]| cost(&model(inner)).total();
    let logs = |sizes: &[f64]| sizes.iter().map(|size| size.ln()).collect::<Vec<f64>>();
    let sizes = |x: &[f64]| x.iter().map(|x| x.exp()).collect::<Vec<f64>>();
    let bounds = vec![(0.0, high.ln()); begin.len()];
    let primal = minimise(&mut |x| total(&sizes(x)), &logs(begin), &bounds)?;

    let filled = |x: &[f64]| x.iter().map(|x| keys.unique(x.exp())).collect::<Vec<f64>>();
    let requests = |size: f64| keys.unique_inverse(size).ln();
    let bounds = vec![(requests(1.0), requests(high)); begin.len()];
    let begin: Vec<f64> = begin.iter().copied().map(requests).collect();
    let dual = minimise(&mut |x| total(&filled(x)), &begin, &bounds)?;

    let evaluations = primal.evaluations + dual.evaluations;
    let levels = |best: Minimum<f64>, sizes: &dyn Fn(&[f64]) -> Vec<f64>| model(&sizes(&best.at));
    let model = match dual.value < primal.value {
        true => levels(dual, &filled),
        false => levels(primal, &sizes),
    };
    Ok(LevelSizes { cost: cost(&model), model, evaluations })
}
