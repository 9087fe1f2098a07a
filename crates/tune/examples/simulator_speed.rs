//! Requests a second of each simulator, 10 million keys unless told otherwise.
//!
//!     cargo run --release -p silica-tune --example simulator_speed -- KEYS

use silica_base::Result;
use silica_tune::model::{Cola, LevelDb, Samt, Silt};
use silica_tune::simulate::{
    ColaSimulator, LevelDbSimulator, Requests, SamtSimulator, SiltSimulator, Simulator, run,
};
use std::time::Instant;

/// Entries of 1000 bytes in 1 MiB.
const MIB: f64 = 1048.576;

fn main() -> Result<()> {
    let keys = std::env::args().nth(1).map_or(1e7, |text| text.parse().expect("a number of keys"));
    let inner =
        (1..).map(|level| (10f64.powi(level) * MIB).round()).take_while(|size| *size < keys);
    let levels = inner.chain([keys]).collect();
    let leveldb = LevelDb { log: 4194.0, level0_tables: 4.0, levels };
    let (growth, levels) = (4, ((keys / 4194.0).log(4.0).ceil() as u32).max(1));
    let table = (keys / 200.0).clamp(8.0, 131_072.0).round();
    for skew in [0.0, 0.99] {
        let simulators: [(&str, Box<dyn Simulator>); 4] = [
            ("LevelDB", Box::new(LevelDbSimulator::new(&leveldb)?)),
            ("COLA", Box::new(ColaSimulator::new(Cola { log: 4194.0, growth, levels })?)),
            ("SAMT", Box::new(SamtSimulator::new(Samt { log: 4194.0, growth, levels })?)),
            ("SILT", {
                let silt = Silt { table, occupancy: 0.93, hash_stores: 31.0 };
                Box::new(SiltSimulator::new(silt, keys as u32)?)
            }),
        ];
        for (name, mut simulator) in simulators {
            let mut requests = Requests::zipf(keys as u64, skew, 1)?;
            let begun = Instant::now();
            let cost = run(&mut *simulator, &mut requests, 3 * keys as u64, &mut |_, _| ())?;
            let rate = 4.0 * keys / begun.elapsed().as_secs_f64() / 1e6;
            println!("{name:<8} skew {skew:<4} {:>7.3} {rate:>6.1} M requests/s", cost.total());
        }
    }
    Ok(())
}
