//! Settings of LevelDB drawn at random, simulated, and what the models say of them.

use silica_base::{Prng, Result};
use silica_lab::model::{
    LevelDb, Popularity, Primitives, RefinedLevelDb, Stage, WriteAmplification,
};
use silica_lab::simulate::{LevelDbSimulator, Requests, run_settled};

/// A store and its keys.
pub(crate) struct Setting {
    pub(crate) keys: u64,
    pub(crate) skew: f64,
    pub(crate) model: RefinedLevelDb,
    /// Requests between compactions of a key of the level before the last.
    interval: f64,
}

/// Write amplifications of a setting.
pub(crate) struct Row {
    pub(crate) setting: Setting,
    pub(crate) simulated: WriteAmplification,
    pub(crate) printed: WriteAmplification,
    pub(crate) refined: WriteAmplification,
    /// The refined model, table by table where they are few.
    pub(crate) followed: WriteAmplification,
}

/// How settings are simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Seed of the requests.
    pub(crate) seed: u64,
    /// Rounds of the slowest level that pass before anything is counted, and that are counted.
    pub(crate) settling: f64,
    pub(crate) rounds: f64,
}

/// What is simulated where nothing else is asked for.
pub(crate) const USUAL: Course = Course { seed: 1, settling: 1.5, rounds: 2.0 };
/// A setting that is slower to settle is drawn again.
const INTERVAL_MAX: f64 = 1e7;
/// A first level smaller than this is drawn again.
const LEVEL_MIN: f64 = 30.0;

/// Draws a setting: 10^5 keys to ten times as many, skew 0 (one in four) to 1.3, 2 to 5 levels each
/// 4 to 12 times the one before, a write buffer of 1/30 to 1/3000 of the keys; tables are half a
/// write buffer, as they are in LevelDB.
pub(crate) fn draw(prng: &mut Prng) -> Result<Setting> {
    loop {
        let keys = 10f64.powf(5.0 + prng.unit()).round();
        let skew = if prng.one_in(4) { 0.0 } else { 1.3 * prng.unit() };
        let count = 2 + prng.below(4) as i32;
        let ratio = 4.0 + 8.0 * prng.unit();
        let levels: Vec<f64> =
            (1..=count).map(|level| (keys / ratio.powi(count - level)).round()).collect();
        let log = (keys / 10f64.powf(1.5 + 2.0 * prng.unit())).round();
        if levels[0] < LEVEL_MIN {
            continue;
        }
        let primitives = Primitives::new(Popularity::zipf(keys as u64, skew)?);
        let interval = 4.0 * log + primitives.d_interval(levels[levels.len() - 2]);
        if interval > INTERVAL_MAX {
            continue;
        }
        let design = LevelDb { log, level0_tables: 4.0, levels };
        let model = RefinedLevelDb { design, table: (0.5 * log).round() }.checked(keys)?;
        return Ok(Setting { keys: keys as u64, skew, model, interval });
    }
}

impl Setting {
    /// Whether the first level takes a write buffer at least.
    pub(crate) fn is_usual(&self) -> bool {
        self.model.design.levels[0] >= self.model.design.log
    }
}

/// Simulates a setting: some rounds to settle, then those that are counted, or three puts a key.
pub(crate) fn judge(setting: Setting, course: Course) -> Result<Row> {
    let design = &setting.model.design;
    let mut simulator = LevelDbSimulator::new(design)?.with_tables_of(setting.model.table)?;
    let mut requests = Requests::zipf(setting.keys, setting.skew, course.seed)?;
    let settling = (course.settling * setting.interval) as u64;
    let counted = (course.rounds * setting.interval).max(3.0 * setting.keys as f64) as u64;
    let simulated = run_settled(&mut simulator, &mut requests, settling, counted, &mut |_, _| ())?;
    let primitives = Primitives::new(Popularity::zipf(setting.keys, setting.skew)?);
    let printed = design.write_amplification(&primitives);
    let refined = setting.model.write_amplification(&primitives);
    let followed = setting.model.followed(&primitives);
    Ok(Row { setting, simulated, printed, refined, followed })
}

impl Row {
    /// Levels, with what each writes: simulated, printed, refined, followed.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (Stage, [f64; 4])> + '_ {
        let of = |cost: &WriteAmplification, stage| {
            let found = cost.terms().iter().find(|(other, _)| *other == stage);
            found.map_or(0.0, |(_, amount)| *amount)
        };
        let each = [&self.simulated, &self.printed, &self.refined, &self.followed];
        self.refined.terms().iter().map(move |&(at, _)| (at, each.map(|cost| of(cost, at))))
    }
}
