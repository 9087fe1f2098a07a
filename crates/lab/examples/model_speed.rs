//! Time of one evaluation of LevelDB's model, 100 million keys.
//!
//! `cargo run --release -p silica-tune --example model_speed`

use silica_lab::model::{LevelDb, Popularity, Primitives};
use std::hint::black_box;
use std::time::Instant;

const MIB: f64 = 1048.576;
const EVALUATIONS: u32 = 20_000;

fn main() {
    for skew in [0.0, 0.99] {
        let begun = Instant::now();
        let keys = Primitives::new(Popularity::zipf(100_000_000, skew).expect("a popularity"));
        let mut model = LevelDb {
            log: 4.0 * MIB,
            level0_tables: 4.0,
            levels: (1..5).map(|l| 10_f64.powi(l) * MIB).chain([1e8]).collect(),
        };
        black_box(model.write_amplification(&keys).total());
        let first = begun.elapsed();
        let begun = Instant::now();
        let mut sum = 0.0;
        for i in 0..EVALUATIONS {
            // Sizes as an optimizer tries them: never the same twice.
            let factor = 0.5 + f64::from(i) / f64::from(EVALUATIONS);
            for (level, size) in (1..5).zip(&mut model.levels) {
                *size = 10_f64.powi(level) * MIB * factor;
            }
            sum += black_box(model.write_amplification(&keys)).total();
        }
        let each = begun.elapsed() / EVALUATIONS;
        println!(
            "skew {skew}: first {first:?}, each {each:?}, mean {}",
            sum / f64::from(EVALUATIONS)
        );
    }
}
