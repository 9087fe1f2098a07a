//! What the simulator says of questions of Lim's dissertation (sections 4.6 and 4.7): what
//! optimised level sizes save, also where they follow a popularity that changes, and which table of
//! a level is best compacted next.
//!
//!     cargo run --release -p silica-tune --example experiments -- KEYS

mod adjusted;

use silica_base::Result;
use silica_lab::model::{LevelDb, Popularity, Primitives};
use silica_lab::optimise::level_sizes;
use silica_lab::simulate::{LevelDbSimulator, Pick, Requests, run_settled};

/// Entries of 1000 bytes in 1 MiB.
const MIB: f64 = 1048.576;
/// Sizes of LevelDB are for so many keys; with other numbers all are in proportion.
const KEYS: f64 = 1e7;

/// LevelDB as it comes (a log of 4 MiB, levels from 10 MiB on), in proportion to the keys; the log
/// `factor` times as large.
pub(crate) fn leveldb(keys: f64, factor: f64) -> Result<(LevelDb, f64)> {
    let unit = keys / KEYS * MIB;
    let inner =
        (1..).map(|level| (10f64.powi(level) * unit).round()).take_while(|size| *size < keys);
    let levels: Vec<f64> = inner.chain([keys]).collect();
    let log = (4.0 * unit * factor).round().max(1.0);
    let table = (2.0 * unit).round().max(1.0);
    Ok((LevelDb { log, level0_tables: 4.0, levels }.checked(keys)?, table))
}

/// Write amplification on the simulator.
fn simulated(model: &LevelDb, table: f64, skew: f64, pick: Pick) -> Result<f64> {
    let keys = model.levels[model.levels.len() - 1] as u64;
    let simulator = LevelDbSimulator::new(model)?.with_tables_of(table)?;
    let mut simulator = simulator.with_pick(pick);
    let mut requests = Requests::zipf(keys, skew, 1)?;
    let found = run_settled(&mut simulator, &mut requests, 2 * keys, 3 * keys, &mut |_, _| ())?;
    Ok(found.total())
}

fn percent(of: f64, to: f64) -> f64 {
    100.0 * (to / of - 1.0)
}

fn main() -> Result<()> {
    let keys = std::env::args().nth(1).map_or(1e6, |text| text.parse().expect("a number of keys"));
    println!("buffer, skew, writes as it comes, optimised; saved: simulator, model; sizes");
    for (factor, skew) in
        [(1.0, 0.0), (1.0, 0.6), (1.0, 0.99), (1.0, 1.2), (10.0, 0.0), (50.0, 0.0), (50.0, 0.99)]
    {
        let (model, table) = leveldb(keys, factor)?;
        let primitives = Primitives::new(Popularity::zipf(keys as u64, skew)?);
        let best = level_sizes(model.log, 4.0, model.levels.len(), &primitives)?;
        let before = simulated(&model, table, skew, Pick::RoundRobin)?;
        let after = simulated(&best.model, table, skew, Pick::RoundRobin)?;
        let predicted = percent(model.write_amplification(&primitives).total(), best.cost.total());
        let sizes: Vec<String> =
            best.model.levels.iter().map(|size| format!("{size:.0}")).collect();
        println!(
            "{:>7} {skew:<4} {before:>7.2} {after:>7.2} {:>+6.1} % {predicted:>+6.1} %  {}",
            model.log,
            percent(before, after),
            sizes.join(" ")
        );
    }
    adjusted::print(keys)?;
    println!("next table: skew, writes with the largest, round and round, saved");
    for skew in [0.0, 0.6, 0.99, 1.2] {
        let (model, table) = leveldb(keys, 1.0)?;
        let largest = simulated(&model, table, skew, Pick::Largest)?;
        let rounds = simulated(&model, table, skew, Pick::RoundRobin)?;
        println!("{skew:<4} {largest:>7.2} {rounds:>7.2} {:>+6.1} %", percent(largest, rounds));
    }
    Ok(())
}
