//! What each simulator counts for one seed. The figures are those of the simulators as they were
//! when their results were compared with models and other simulators; a change of one is a change
//! of a design, or a fault.

use silica_lab::model::{
    Cola, DidaCache, LazyLevelled, LevelDb, LevelledTables, Rules, Samt, Silt, Universal, WipDb,
};
use silica_lab::simulate::{
    ColaSimulator, DidaSimulator, LazySimulator, LevelDbSimulator, Pick, Requests,
    RocksDbSimulator, SamtSimulator, SiltSimulator, Simulator, UniversalSimulator, WipDbSimulator,
};

const KEYS: u32 = 20_000;
const LOG: f64 = 100.0;

/// Entries that each stage has written once every key was put, and three times as many random ones.
fn written(mut simulator: impl Simulator, skew: f64) -> Vec<u64> {
    let mut requests = Requests::zipf(u64::from(KEYS), skew, 1).unwrap();
    let once: Vec<u32> = (0..KEYS).map(|i| requests.once(i)).collect();
    simulator.put(&once);
    // In calls of another size than that of a memtable.
    for _ in 0..3 * KEYS / 1000 {
        let keys: Vec<u32> = (0..1000).map(|_| requests.draw()).collect();
        simulator.put(&keys);
    }
    simulator.written().into_iter().map(|(_, entries)| entries).collect()
}

fn leveldb(pick: Pick) -> LevelDbSimulator {
    let levels = vec![400.0, 3000.0, f64::from(KEYS)];
    let model = LevelDb { log: LOG, level0_tables: 4.0, levels };
    LevelDbSimulator::new(&model).unwrap().with_tables_of(50.0).unwrap().with_pick(pick)
}

fn rocksdb() -> RocksDbSimulator {
    let (rules, level0_tables, multiplier) = (Rules::RocksDb, 4, 8.0);
    let (table, base, dead_version) = (100.0, 400.0, 0.0);
    let model =
        LevelledTables { rules, log: LOG, level0_tables, table, base, multiplier, dead_version };
    RocksDbSimulator::new(model).unwrap()
}

fn wipdb() -> WipDbSimulator {
    let (memtable, log_window, runs_max, buckets) = (1000.0, 5000.0, 8, 10.0);
    let model = WipDb { memtable, log_window, runs_max, buckets, space: 1.4, log: 1.0, table: 1.0 };
    WipDbSimulator::new(model, KEYS, 10).unwrap()
}

fn dida(pace: f64) -> DidaSimulator {
    let flash = 1.3 * f64::from(KEYS);
    DidaSimulator::new(DidaCache { flash, slab: 100.0, low: 0.02, high: 0.1, pace }, KEYS).unwrap()
}

fn all(skew: f64) -> Vec<(&'static str, Vec<u64>)> {
    let (growth, levels) = (6, 4);
    let lazy = LazyLevelled { log: LOG, growth, runs: 2, levels };
    let universal = Universal { log: LOG, runs: 6, size_ratio: 1.0, space_percent: 100.0 };
    let silt = Silt { table: 500.0, occupancy: 0.93, hash_stores: 10.0 };
    vec![
        ("LevelDB", written(leveldb(Pick::RoundRobin), skew)),
        ("LevelDB, largest", written(leveldb(Pick::Largest), skew)),
        ("RocksDB", written(rocksdb(), skew)),
        ("universal", written(UniversalSimulator::new(universal).unwrap(), skew)),
        ("lazy", written(LazySimulator::new(lazy).unwrap(), skew)),
        ("COLA", written(ColaSimulator::new(Cola { log: LOG, growth, levels }).unwrap(), skew)),
        ("SAMT", written(SamtSimulator::new(Samt { log: LOG, growth, levels }).unwrap(), skew)),
        ("SILT", written(SiltSimulator::new(silt, KEYS).unwrap(), skew)),
        ("WipDB", written(wipdb(), skew)),
        ("DIDACache", written(dida(f64::INFINITY), skew)),
        ("DIDACache, slow", written(dida(0.5), skew)),
    ]
}

/// By simulator: uniform, and with a skew of 0.99.
const COUNTS: [(&str, &[u64], &[u64]); 11] = [
    ("LevelDB", &[79820, 152201, 318444, 267180], &[66717, 125149, 225279, 128517]),
    ("LevelDB, largest", &[79820, 147973, 431358, 367429], &[66717, 122423, 316254, 180176]),
    ("RocksDB", &[79820, 140580, 224602, 277102], &[66717, 113905, 150643, 155318]),
    ("universal", &[79820, 389049], &[66717, 284360]),
    ("lazy", &[159165, 154909, 134204, 60000], &[124976, 104185, 83099, 60000]),
    ("COLA", &[198433, 190859, 161636, 60000], &[149962, 125121, 101152, 60000]),
    ("SAMT", &[79820, 78897, 74200, 60000], &[66717, 56743, 46152, 60000]),
    ("SILT", &[85000, 306500], &[59000, 186500]),
    ("WipDB", &[76290, 98014], &[45269, 45911]),
    ("DIDACache", &[140175], &[204999]),
    ("DIDACache, slow", &[28250], &[28239]),
];

#[test]
fn a_seed_has_the_counts_that_it_had() {
    let (uniform, skewed) = (all(0.0), all(0.99));
    for (at, (name, in_uniform, in_skewed)) in COUNTS.iter().enumerate() {
        assert_eq!((uniform[at].0, &uniform[at].1[..]), (*name, *in_uniform));
        assert_eq!((skewed[at].0, &skewed[at].1[..]), (*name, *in_skewed), "with skew");
    }
    assert_eq!(uniform.len(), COUNTS.len());
}
