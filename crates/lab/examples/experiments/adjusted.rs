//! Level sizes that are adjusted while the store runs: the popularity changes, a sketch estimates
//! it, and the optimizer is asked again.

use silica_base::{Prng, Result};
use silica_lab::model::{Popularity, Primitives};
use silica_lab::optimise::level_sizes;
use silica_lab::simulate::{LevelDbSimulator, Requests, Simulator};
use silica_tune::sketch::{Call, Sketch, Touch};

/// Skews that follow each other, each for so many puts a key.
const SKEWS: [f64; 4] = [0.0, 1.2, 0.0, 1.2];
const PUTS: u64 = 6;
/// Puts of a step for each key: after each, sizes may be adjusted.
const STEP: f64 = 0.5;
/// New sizes are taken where the model says that they save so much.
const WORTH: f64 = 0.01;

/// Where the sizes come from.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// LevelDB's own.
    AsTheyCome,
    /// The best for the first popularity, for ever.
    OfTheFirst,
    /// The best for what a sketch has seen in the step before.
    Sketched,
    /// The best for what comes, from its first put on, which nobody knows.
    Known,
}

/// Prints what each way writes for a put, popularity by popularity.
pub(crate) fn print(keys: f64) -> Result<()> {
    for factor in [1.0, 50.0] {
        println!("adjusted sizes, a buffer {factor} times as large: {SKEWS:?}, all; changes");
        for sizes in [Sizes::AsTheyCome, Sizes::OfTheFirst, Sizes::Sketched, Sizes::Known] {
            let (costs, changes) = course(keys, factor, sizes)?;
            let all = costs.iter().sum::<f64>() / costs.len() as f64;
            let costs: Vec<String> = costs.iter().map(|cost| format!("{cost:>6.2}")).collect();
            println!("    {:<11} {} {all:>6.2}  {changes}", format!("{sizes:?}"), costs.join(" "));
        }
    }
    Ok(())
}

/// Entries written for a put with each skew, the log's with them, and how often sizes were changed.
fn course(keys: f64, factor: f64, sizes: Sizes) -> Result<(Vec<f64>, u32)> {
    let (mut model, table) = super::leveldb(keys, factor)?;
    let primitives = |skew| Popularity::zipf(keys as u64, skew).map(Primitives::new);
    let best = |model: &silica_lab::model::LevelDb, primitives: &Primitives| {
        level_sizes(model.log, model.level0_tables, model.levels.len(), primitives)
    };
    if !matches!(sizes, Sizes::AsTheyCome) {
        model = best(&model, &primitives(SKEWS[0])?)?.model;
    }
    let mut simulator = LevelDbSimulator::new(&model)?.with_tables_of(table)?;
    let requests = Requests::zipf(keys as u64, SKEWS[0], 1)?;
    let mut batch: Vec<u32> = (0..keys as u32).map(|i| requests.once(i)).collect();
    simulator.put(&batch);
    let (mut costs, mut changes) = (Vec::new(), 0);
    let step = ((STEP * keys) as u64).max(1);
    for skew in SKEWS {
        let mut requests = Requests::zipf(keys as u64, skew, 1)?;
        if matches!(sizes, Sizes::Known) {
            model = best(&model, &primitives(skew)?)?.model;
            simulator.set_levels(&model.levels)?;
            changes += 1;
        }
        let before = total(&simulator);
        let mut puts = 0;
        while puts < PUTS * keys as u64 {
            batch.clear();
            batch.extend((0..step).map(|_| requests.draw()));
            simulator.put(&batch);
            puts += step;
            if matches!(sizes, Sizes::Sketched) {
                let seen = sketched(&batch, keys as u64)?;
                let found = best(&model, &seen)?;
                let now = model.write_amplification(&seen).total();
                if found.cost.total() < (1.0 - WORTH) * now {
                    model = found.model;
                    simulator.set_levels(&model.levels)?;
                    changes += 1;
                }
            }
        }
        costs.push(1.0 + (total(&simulator) - before) as f64 / puts as f64);
    }
    Ok((costs, changes))
}

/// The popularity that a sketch estimates from these puts.
fn sketched(puts: &[u32], keys: u64) -> Result<Primitives> {
    let mut sketch = Sketch::new(keys);
    for &key in puts {
        sketch.sample.request(Prng::new(u64::from(key)).next_u64(), Touch::Write);
    }
    sketch.call(&Call { puts: puts.len() as u64, ..Call::default() }, 1);
    sketch.workload(keys)?.popularity().map(Primitives::new)
}

fn total(simulator: &LevelDbSimulator) -> u64 {
    simulator.written().iter().map(|(_, entries)| entries).sum()
}
