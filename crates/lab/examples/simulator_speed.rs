//! Requests a second of each simulator, 10 million keys unless told otherwise.
//!
//!     cargo run --release -p silica-tune --example simulator_speed -- KEYS

use silica_base::Result;
use silica_lab::model::{
    Cola, DidaCache, LazyLevelled, LevelDb, LevelledTables, Rules, Samt, Silt, Universal, WipDb,
};
use silica_lab::simulate::{
    ColaSimulator, DidaSimulator, LazySimulator, LevelDbSimulator, Requests, RocksDbSimulator,
    SamtSimulator, SiltSimulator, Simulator, UniversalSimulator, WipDbSimulator, run,
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
    let log = 4194.0;
    let rocksdb = LevelledTables {
        rules: Rules::RocksDb,
        log,
        level0_tables: 4,
        table: 2097.0,
        base: 4.0 * log,
        multiplier: 10.0,
        dead_version: 0.0,
    };
    let universal = Universal { log, runs: 8, size_ratio: 1.0, space_percent: 100.0 };
    let lazy = LazyLevelled { log, growth, runs: 2, levels };
    let (memtable, log_window) = (keys / 20.0, 1e9);
    let (runs_max, buckets) = (20, 100.0);
    let wipdb = WipDb { memtable, log_window, runs_max, buckets, space: 1.3, log: 1.0, table: 1.0 };
    let silt = Silt { table, occupancy: 0.93, hash_stores: 31.0 };
    let flash = 1.4 * keys;
    let slab = (keys / 1000.0).clamp(1.0, 32_768.0).round();
    let dida = DidaCache { flash, slab, low: 0.02, high: 0.1, pace: f64::INFINITY };
    for skew in [0.0, 0.99] {
        let simulators: [(&str, Box<dyn Simulator>); 9] = [
            ("LevelDB", Box::new(LevelDbSimulator::new(&leveldb)?)),
            ("RocksDB", Box::new(RocksDbSimulator::new(rocksdb)?)),
            ("universal", Box::new(UniversalSimulator::new(universal)?)),
            ("lazy", Box::new(LazySimulator::new(lazy)?)),
            ("COLA", Box::new(ColaSimulator::new(Cola { log, growth, levels })?)),
            ("SAMT", Box::new(SamtSimulator::new(Samt { log, growth, levels })?)),
            ("SILT", Box::new(SiltSimulator::new(silt, keys as u32)?)),
            ("WipDB", Box::new(WipDbSimulator::new(wipdb, keys as u32, 64)?)),
            ("DIDACache", Box::new(DidaSimulator::new(dida, keys as u32)?)),
        ];
        for (name, mut simulator) in simulators {
            let mut requests = Requests::zipf(keys as u64, skew, 1)?;
            let begun = Instant::now();
            let cost = run(&mut *simulator, &mut requests, 3 * keys as u64, &mut |_, _| ())?;
            let rate = 4.0 * keys / begun.elapsed().as_secs_f64() / 1e6;
            println!("{name:<9} skew {skew:<4} {:>7.3} {rate:>6.1} M requests/s", cost.total());
        }
    }
    Ok(())
}
