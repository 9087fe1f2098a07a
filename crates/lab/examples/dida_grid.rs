//! DIDACache's model beside its simulator, over spare room, skew and the size of slabs.
//!
//!     cargo run --release -p silica-tune --example dida_grid -- KEYS

use silica_base::Result;
use silica_lab::model::{DidaCache, Popularity};
use silica_lab::simulate::{DidaSimulator, Requests, run_counted};

fn main() -> Result<()> {
    let keys: f64 =
        std::env::args().nth(1).map_or(1e5, |text| text.parse().expect("a number of keys"));
    println!("| skew | spare | slab | pace | model | simulator | error | hits | found |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for skew in [0.0, 0.8, 0.99, 1.2] {
        let popularity = Popularity::zipf(keys as u64, skew)?;
        for slab in [64.0, 256.0, 1024.0] {
            for (spare, pace) in [
                (0.1, f64::INFINITY),
                (0.2, f64::INFINITY),
                (0.4, f64::INFINITY),
                (0.2, 0.5),
                (-1.0, 0.0),
                (-1.0, 1.0),
            ] {
                let (low, high) = (0.02, if f64::is_finite(pace) { 0.1 } else { 0.03 });
                let flash = (keys / (1.0 - spare) / (1.0 - high) / slab).round() * slab;
                let design = DidaCache { flash, slab, low, high, pace }.checked()?;
                let model = design.cost(&popularity)?;
                let mut simulator = DidaSimulator::new(design, keys as u32)?;
                let mut requests = Requests::zipf(keys as u64, skew, 1)?;
                let count = (10.0 * keys) as u64;
                let found =
                    run_counted(&mut simulator, &mut requests, count, count, &mut |_, _| ())?;
                let (ours, theirs) = (model.writes.total(), found.cost.total());
                let hits = found.hits.unwrap_or(1.0);
                println!(
                    "| {skew} | {spare} | {slab} | {pace} | {ours:.3} | {theirs:.3} | {:+.1} % \
                     | {:.3} | {hits:.3} |",
                    100.0 * (ours / theirs - 1.0),
                    model.hits,
                );
            }
        }
    }
    Ok(())
}
