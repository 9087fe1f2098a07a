//! Simulated stores, laid over the models' lines.
//!
//! The paper's 10^8 keys take a simulator hours. Sizes are scaled by one factor instead, and the
//! model is asked with the scaled sizes too: under skew fewer keys are another popularity, so dots
//! of a small store do not belong on the line of a large one.

use crate::verbs::simulate::progress;
use silica::{Error, ErrorKind, Result};
use silica_bench::charts::{Panel, Series};
use silica_console::Output;
use silica_lab::model::{LevelDb, Primitives, Silt};
use silica_lab::simulate::{LevelDbSimulator, Requests, SiltSimulator, run_settled};

/// Entries of a table of LevelDB: 2 MiB of 1 kB each.
const TABLE: f64 = 2097.152;
/// Fewer keys would leave no whole entry of a scaled log.
const KEYS_MIN: u64 = 50_000;
/// What the simulators number their keys with.
const KEYS_MAX: u64 = 1 << 30;
const SEED: u64 = 1;
/// Puts for each key of SILT that are counted: a merge may take more than one, and chance decides
/// whether one more is counted.
const SILT_ROUNDS: u64 = 40;

/// A line's name, the line, and the dots that go with it.
pub(super) type Pair = (String, Vec<(f64, f64)>, Vec<(f64, f64)>);

/// Simulations for the figures.
pub(super) struct Simulated<'o> {
    keys: u64,
    output: &'o Output,
    /// Errors of the models against the dots drawn since [`Self::errors`] was asked.
    errors: Vec<f64>,
}

impl<'o> Simulated<'o> {
    /// Stores of `keys` keys; none are simulated for 0.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for numbers that no simulator can do.
    pub(super) fn new(keys: u64, output: &'o Output) -> Result<Self> {
        if keys != 0 && !(KEYS_MIN..=KEYS_MAX).contains(&keys) {
            let text = format!(
                "--simulate {keys}: give {KEYS_MIN} to {KEYS_MAX} keys, or 0 to simulate nothing"
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(Simulated { keys, output, errors: Vec::new() })
    }

    /// Keys of a simulated store, where there is one.
    pub(super) fn keys(&self) -> Option<u64> {
        (self.keys > 0).then_some(self.keys)
    }

    /// The errors of the models since the last call, each as a part of the simulated figure.
    pub(super) fn errors(&mut self) -> Vec<f64> {
        std::mem::take(&mut self.errors)
    }

    /// Entries written for each put of LevelDB: all keys once, as many random puts to settle, and
    /// two for each key that are counted. `scale` is that of the tables.
    pub(super) fn leveldb(
        &mut self,
        model: &LevelDb,
        keys: &Primitives,
        skew: f64,
        scale: f64,
    ) -> Result<f64> {
        let mut store = LevelDbSimulator::new(model)?.with_tables_of((TABLE * scale).max(1.0))?;
        let count = keys.keys() as u64;
        let mut requests = Requests::zipf(count, skew, SEED)?;
        let mut show = progress(self.output);
        let cost = run_settled(&mut store, &mut requests, count, 2 * count, &mut show)?.total();
        let predicted = model.clone().checked(keys.keys())?.write_amplification(keys).total();
        self.errors.push(predicted / cost - 1.0);
        Ok(cost)
    }

    /// Entries written for each put of SILT.
    pub(super) fn silt(&mut self, model: &Silt, keys: &Primitives, skew: f64) -> Result<f64> {
        let count = keys.keys() as u64;
        let mut store = SiltSimulator::new(*model, count as u32)?;
        let mut requests = Requests::zipf(count, skew, SEED)?;
        let mut show = progress(self.output);
        let puts = SILT_ROUNDS * count;
        let cost = run_settled(&mut store, &mut requests, 2 * count, puts, &mut show)?.total();
        self.errors.push(model.write_amplification(keys).total() / cost - 1.0);
        Ok(cost)
    }

    /// Distinct keys after each of `points` equal steps of requests, `step` requests each.
    pub(super) fn distinct(
        &mut self,
        keys: &Primitives,
        skew: f64,
        step: u64,
        points: u64,
    ) -> Result<Vec<(f64, f64)>> {
        let mut requests = Requests::zipf(keys.keys() as u64, skew, SEED)?;
        let mut seen = vec![false; requests.keys() as usize];
        let mut show = progress(self.output);
        let (mut found, mut drawn) = (0_u64, Vec::new());
        for point in 1..=points {
            for _ in 0..step {
                let seen = &mut seen[requests.draw() as usize];
                found += u64::from(!*seen);
                *seen = true;
            }
            let asked = (point * step) as f64;
            self.errors.push(keys.unique(asked) / found as f64 - 1.0);
            drawn.push((asked, found as f64));
            show(point, points);
        }
        Ok(drawn)
    }
}

/// All sizes of a store times `scale`.
pub(super) fn scaled(model: &LevelDb, scale: f64) -> LevelDb {
    let levels = model.levels.iter().map(|size| size * scale).collect();
    LevelDb { log: model.log * scale, level0_tables: model.level0_tables, levels }
}

/// Where dots come from.
#[derive(Clone, Copy)]
pub(super) enum Dots {
    Simulated,
    Measured,
}

/// A panel of lines, and for each line the dots that go with it.
pub(super) fn laid_over(
    title: &str,
    x: &'static str,
    y: &'static str,
    pairs: Vec<Pair>,
    dots: Dots,
) -> Panel {
    let mut lines = Vec::new();
    let mut all = Vec::new();
    let named = match dots {
        Dots::Simulated => "dots: simulated",
        Dots::Measured => "dots: measured",
    };
    for (i, (name, line, dots)) in pairs.into_iter().enumerate() {
        lines.push(Series::new(&name, line));
        if dots.is_empty() {
            continue;
        }
        // One name for the dots of all lines; colours tell them apart.
        let name = if all.is_empty() { named } else { "" };
        all.push(Series::dots(name, dots).coloured_as(i));
    }
    lines.extend(all);
    Panel::lines(title, x, y, lines)
}

/// "uniform", "Zipf 0.99".
pub(super) fn name_of(skew: f64) -> String {
    if skew == 0.0 { "uniform".to_string() } else { format!("Zipf {skew}") }
}
