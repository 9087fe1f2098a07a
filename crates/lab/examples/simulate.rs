//! LevelDB's model beside its simulator, and how fast the simulator is.
//!
//!     cargo run --release -p silica-tune --example simulate -- KEYS SKEW [largest]

use silica_lab::model::{LevelDb, Popularity, Primitives};
use silica_lab::simulate::{LevelDbSimulator, Pick, Requests, run};
use std::time::Instant;

/// Entries of 1000 bytes in 1 MiB.
const MIB: f64 = 1048.576;

fn main() -> silica_base::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: f64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (keys, skew) = (number(1, 1e7), number(2, 0.0));
    let pick = if arguments.len() > 3 { Pick::Largest } else { Pick::RoundRobin };
    let inner =
        (1..).map(|level| (10f64.powi(level) * MIB).round()).take_while(|size| *size < keys);
    let levels = inner.chain([keys]).collect();
    let model = LevelDb { log: 4194.0, level0_tables: 4.0, levels }.checked(keys)?;
    let predicted = Primitives::new(Popularity::zipf(keys as u64, skew)?);
    let predicted = model.write_amplification(&predicted);
    let mut simulator = LevelDbSimulator::new(&model)?.with_pick(pick);
    let mut requests = Requests::zipf(keys as u64, skew, 1)?;
    let begin = Instant::now();
    let measured = run(&mut simulator, &mut requests, 3 * keys as u64, &mut |_, _| ())?;
    let rate = 4.0 * keys / begin.elapsed().as_secs_f64() / 1e6;
    for ((stage, ours), (_, theirs)) in measured.terms().iter().zip(predicted.terms()) {
        println!("{:<12}{ours:>9.3}{theirs:>9.3}", stage.to_string());
    }
    println!("{:<12}{:>9.3}{:>9.3}", "total", measured.total(), predicted.total());
    println!("{rate:.1} M requests/s");
    Ok(())
}
