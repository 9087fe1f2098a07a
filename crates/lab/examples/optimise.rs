//! How long the search for level sizes takes, and what it finds.
//!
//!     cargo run --release -p silica-tune --example optimise -- KEYS SKEW LOG LEVELS

use silica_lab::model::{Popularity, Primitives};
use silica_lab::optimise::level_sizes;
use std::time::Instant;

fn main() -> silica_base::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: f64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (keys, skew) = (number(1, 1e8), number(2, 0.0));
    let begin = Instant::now();
    let keys = Primitives::new(Popularity::zipf(keys as u64, skew)?);
    let best = level_sizes(number(3, 4194.304), 4.0, number(4, 5.0) as usize, &keys)?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    println!("sizes {:.0?}", best.model.levels);
    for (stage, amount) in best.cost.terms() {
        println!("{:<12}{amount:>9.3}", stage.to_string());
    }
    println!("{:<12}{:>9.3}", "total", best.cost.total());
    println!("{took:.2} ms, {} evaluations", best.evaluations);
    Ok(())
}
