//! The simulators, and the models beside them.

use silica_lab::model::{
    Cola, LazyLevelled, LevelDb, LevelledTables, Popularity, Primitives, Rules, Samt, Silt,
    Universal, WipDb, WriteAmplification,
};
use silica_lab::simulate::{
    ColaSimulator, LazySimulator, LevelDbSimulator, Pick, Requests, RocksDbSimulator,
    SamtSimulator, SiltSimulator, Simulator, UniversalSimulator, WipDbSimulator, run, run_settled,
};

fn primitives(keys: u64, skew: f64) -> Primitives {
    Primitives::new(Popularity::zipf(keys, skew).unwrap())
}

fn measured(simulator: &mut dyn Simulator, skew: f64, keys: u64, count: u64) -> WriteAmplification {
    let mut requests = Requests::zipf(keys, skew, 1).unwrap();
    run(simulator, &mut requests, count, &mut |_, _| ()).unwrap()
}

/// Total and terms are as near as `tolerance`, relative to the total.
fn near(name: &str, model: &WriteAmplification, measured: &WriteAmplification, tolerance: f64) {
    assert_eq!(model.terms().len(), measured.terms().len());
    for ((stage, model), (of, found)) in model.terms().iter().zip(measured.terms()) {
        assert_eq!(stage, of);
        let away = (model - found).abs() / measured.total();
        assert!(away < tolerance, "{name}, {stage}: {model} is not {found}");
    }
    let (model, found) = (model.total(), measured.total());
    assert!((model / found - 1.0).abs() < tolerance, "{name}: {model} is not {found}");
}

/// LevelDB with 100 million entries of 1 kB, all sizes a hundredth.
fn leveldb() -> LevelDb {
    let levels = vec![105.0, 1049.0, 10_486.0, 104_858.0, 1e6];
    LevelDb { log: 42.0, level0_tables: 4.0, levels }.checked(1e6).unwrap()
}

fn leveldb_simulator(pick: Pick) -> LevelDbSimulator {
    let simulator = LevelDbSimulator::new(&leveldb()).unwrap();
    simulator.with_tables_of(21.0).unwrap().with_pick(pick)
}

#[test]
fn table_4_1_of_the_simulation() {
    let found = measured(&mut leveldb_simulator(Pick::RoundRobin), 0.0, 1_000_000, 1_000_000);
    // Log, level 0, then from each level to the next.
    let paper = [1.00, 1.00, 1.60, 4.38, 6.04, 6.09, 5.20];
    assert_eq!(found.terms().len(), paper.len());
    for ((stage, ours), theirs) in found.terms().iter().zip(paper) {
        assert!((ours / theirs - 1.0).abs() < 0.05, "{stage}: {ours} is not {theirs}");
    }
    // Tables of 21 entries differ more by chance than those of 2097: cheaper compactions.
    assert!((found.total() / 25.31 - 1.0).abs() < 0.04, "{}", found.total());
}

/// With full tables, unlike the hundredth above. With skew and so few keys the model, which is the
/// paper's, is further off: its last level is too cheap.
#[test]
fn leveldb_is_as_predicted() {
    const KEYS: u64 = 1_000_000;
    for (skew, tolerance) in [(0.0, 0.04), (0.99, 0.05)] {
        let levels = vec![10_486.0, 104_858.0, KEYS as f64];
        let model = LevelDb { log: 4194.0, level0_tables: 4.0, levels };
        let mut simulator = LevelDbSimulator::new(&model).unwrap();
        let found = measured(&mut simulator, skew, KEYS, 3 * KEYS);
        let predicted = model.write_amplification(&primitives(KEYS, skew)).total();
        let away = (predicted / found.total() - 1.0).abs();
        assert!(away < tolerance, "{skew}: {predicted}, {found:?}");
    }
}

#[test]
fn the_largest_table_is_the_wrong_one() {
    let total = |pick| {
        let levels = vec![1049.0, 10_486.0, 1e5];
        let model = LevelDb { log: 420.0, level0_tables: 4.0, levels };
        let simulator = LevelDbSimulator::new(&model).unwrap().with_tables_of(42.0).unwrap();
        measured(&mut simulator.with_pick(pick), 0.0, 100_000, 300_000).total()
    };
    let (rounds, largest) = (total(Pick::RoundRobin), total(Pick::Largest));
    assert!(largest > 1.1 * rounds, "{largest} {rounds}");
}

#[test]
fn cola_and_samt_are_as_predicted() {
    const KEYS: u64 = 100_000;
    for skew in [0.0, 0.99] {
        for (growth, levels) in [(2, 6), (3, 4), (4, 1), (4, 4)] {
            let log = 500.0;
            // Whole cycles of all levels, so that no merge is counted in part.
            let cycle = 500 * u64::from(growth).pow(levels);
            let count = cycle * (400_000 / cycle).max(1);
            let keys = primitives(KEYS, skew);
            let cola = Cola { log, growth, levels };
            let found = measured(&mut ColaSimulator::new(cola).unwrap(), skew, KEYS, count);
            near("COLA", &cola.write_amplification(&keys), &found, 0.02);
            let samt = Samt { log, growth, levels };
            let found = measured(&mut SamtSimulator::new(samt).unwrap(), skew, KEYS, count);
            near("SAMT", &samt.write_amplification(&keys), &found, 0.02);
        }
    }
}

#[test]
fn silt_is_as_predicted() {
    const KEYS: u64 = 200_000;
    for skew in [0.0, 0.99] {
        for hash_stores in [4.0, 31.0] {
            let silt = Silt { table: 1000.0, occupancy: 0.93, hash_stores };
            let mut simulator = SiltSimulator::new(silt, KEYS as u32).unwrap();
            let found = measured(&mut simulator, skew, KEYS, 2_000_000);
            let model = silt.write_amplification(&primitives(KEYS, skew));
            near("SILT", &model, &found, 0.02);
        }
    }
}

/// After three puts a key that are not counted.
fn settled(simulator: &mut dyn Simulator, skew: f64, keys: u64, count: u64) -> WriteAmplification {
    let mut requests = Requests::zipf(keys, skew, 1).unwrap();
    run_settled(simulator, &mut requests, 3 * keys, count, &mut |_, _| ()).unwrap()
}

#[test]
fn universal_compaction_is_as_predicted() {
    const KEYS: u64 = 100_000;
    // With skew flushes differ in size, by 2 to 4 %, so where sizes are compared chance decides
    // what the model settles by expected sizes.
    for (skew, log, runs, size_ratio, space_percent) in [
        (0.0, 1000.0, 4, 1.0, 200.0),
        (0.0, 1000.0, 8, 1.0, 50.0),
        (0.0, 300.0, 4, 20.0, 100.0),
        (0.0, 5000.0, 2, 10.0, 25.0),
        (0.99, 1000.0, 4, 10.0, 200.0),
        (0.99, 1000.0, 8, 10.0, 50.0),
        (0.99, 300.0, 5, 20.0, 100.0),
    ] {
        let model = Universal { log, runs, size_ratio, space_percent };
        let mut simulator = UniversalSimulator::new(model).unwrap();
        let found = settled(&mut simulator, skew, KEYS, 20 * KEYS);
        let predicted = model.cost(&primitives(KEYS, skew)).writes;
        near("universal", &predicted, &found, if skew > 0.0 { 0.06 } else { 0.02 });
    }
}

#[test]
fn lazy_levelling_is_as_predicted() {
    const KEYS: u64 = 100_000;
    for skew in [0.0, 0.99] {
        for (growth, runs, levels) in [(4, 1, 3), (4, 4, 3), (5, 3, 3), (3, 2, 4), (4, 2, 1)] {
            let model = LazyLevelled { log: 500.0, growth, runs, levels };
            // Whole cycles of all levels, so that no merge is counted in part.
            let cycle = 500 * u64::from(growth).pow(levels);
            let count = cycle * (400_000 / cycle).max(1);
            let found = measured(&mut LazySimulator::new(model).unwrap(), skew, KEYS, count);
            near("lazy", &model.write_amplification(&primitives(KEYS, skew)), &found, 0.02);
        }
    }
}

#[test]
fn rocksdb_is_as_predicted() {
    const KEYS: u64 = 300_000;
    for skew in [0.0, 0.99] {
        for (log, table, base) in [(1000.0, 500.0, 4000.0), (3000.0, 3000.0, 12_000.0)] {
            let (rules, level0_tables, multiplier) = (Rules::RocksDb, 4, 10.0);
            let model = LevelledTables {
                rules,
                log,
                level0_tables,
                table,
                base,
                multiplier,
                dead_version: 0.0,
            };
            let found = settled(&mut RocksDbSimulator::new(model).unwrap(), skew, KEYS, 4 * KEYS);
            let predicted = model.write_amplification(&primitives(KEYS, skew));
            near("RocksDB", &predicted, &found, 0.03);
        }
    }
}

#[test]
fn wipdb_is_as_predicted() {
    const KEYS: u64 = 200_000;
    // None of these has a level full just when its bucket is due: there chance decides which.
    for skew in [0.0, 0.99] {
        for (memtable, log_window, space) in [
            (10_000.0, 1e9, 1.2),
            (10_000.0, 1e9, 1.5),
            (2000.0, 1e9, 1.2),
            (10_000.0, 5000.0, 1.35),
            // Buckets are rewritten after one or two flushes, or the log's tail is.
            (20_000.0, 1e9, 1.08),
            (20_000.0, 1e9, 1.116),
            (20_000.0, 37_500.0, 1.116),
            (20_000.0, 37_500.0, 1.406),
            // Levels are full before a bucket is rewritten for space.
            (2000.0, 1e9, 2.5),
        ] {
            let (runs_max, log, table) = (32, 1.0, 1.0);
            for few in [2, 4, 8, 25, 100] {
                let buckets = f64::from(few);
                let model = WipDb { memtable, log_window, runs_max, buckets, space, log, table };
                let mut simulator = WipDbSimulator::new(model, KEYS as u32, few).unwrap();
                let found = settled(&mut simulator, skew, KEYS, 10 * KEYS);
                let predicted = model.overwrite(&primitives(KEYS, skew));
                near("WipDB", &predicted, &found, 0.03);
                let [(_, ours), (_, theirs)] = [&predicted, &found].map(|cost| cost.terms()[1]);
                assert!((ours / theirs - 1.0).abs() < 0.01, "flushes: {ours} is not {theirs}");
            }
        }
    }
}

#[test]
fn wipdb_flushes_the_logs_tail_and_merges_full_levels() {
    let (memtable, space, log, table) = (1e6, f64::INFINITY, 1.0, 1.0);
    let (log_window, buckets) = (1000.0, 10.0);
    let model = WipDb { memtable, log_window, runs_max: 4, buckets, space, log, table };
    let mut simulator = WipDbSimulator::new(model, 20_000, 10).unwrap();
    let found = settled(&mut simulator, 0.0, 20_000, 1_000_000);
    let [_, (_, flushed), (_, merged)] = found.terms() else { panic!("{found:?}") };
    // A put a hundred a bucket, of 2000 keys each: nearly all are distinct, and all are flushed.
    assert!((0.97..1.0).contains(flushed), "{flushed}");
    // Level 0 to 1 and 1 to 2 once each. At level 2 four runs, of which three have a cycle's keys,
    // 16 flushes of 100, become one again: once in 3 cycles every key is written.
    let unique = |flushes: f64| 2000.0 * (1.0 - (-flushes * 100.0 / 2000.0).exp());
    let expected = unique(4.0) / 400.0 + unique(16.0) / 1600.0 + 2000.0 / 4800.0;
    assert!((merged / expected - 1.0).abs() < 0.03, "{merged} is not {expected}");
    near("WipDB", &model.overwrite(&primitives(20_000, 0.0)), &found, 0.02);
}

#[test]
fn a_seed_repeats_a_run() {
    let total = |seed| {
        let model = LevelDb { log: 10.0, level0_tables: 2.0, levels: vec![100.0, 5000.0] };
        let mut simulator = LevelDbSimulator::new(&model).unwrap();
        let mut requests = Requests::zipf(5000, 0.8, seed).unwrap();
        run(&mut simulator, &mut requests, 20_000, &mut |_, _| ()).unwrap().total()
    };
    assert_eq!(total(1), total(1));
    assert_ne!(total(1), total(2));
}

#[test]
fn sizes_of_levels_can_change() {
    let model = |first: f64| LevelDb { log: 10.0, level0_tables: 2.0, levels: vec![first, 5000.0] };
    let written = |begun: f64, then: Option<f64>| {
        let mut simulator = LevelDbSimulator::new(&model(begun)).unwrap();
        then.iter().for_each(|first| simulator.set_levels(&model(*first).levels).unwrap());
        measured(&mut simulator, 0.5, 5000, 20_000)
    };
    assert_eq!(written(1000.0, Some(100.0)), written(100.0, None));
    assert_ne!(written(1000.0, None), written(100.0, None));
    let mut simulator = LevelDbSimulator::new(&model(100.0)).unwrap();
    assert!(simulator.set_levels(&[100.0]).is_err());
    assert!(simulator.set_levels(&[0.0, 5000.0]).is_err());
}

#[test]
fn bad_input_is_refused() {
    let model = |log: f64, levels: &[f64]| {
        LevelDbSimulator::new(&LevelDb { log, level0_tables: 4.0, levels: levels.to_vec() })
    };
    for log in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert!(model(log, &[10.0]).is_err(), "{log}");
        assert!(model(1.0, &[log]).is_err(), "{log}");
        assert!(model(1.0, &[10.0]).unwrap().with_tables_of(log).is_err(), "{log}");
    }
    assert!(model(1.0, &[]).is_err());
    assert!(Requests::zipf(0, 0.0, 1).is_err());
    assert!(Requests::zipf(1 << 40, 0.0, 1).is_err());
    for skew in [-0.1, 2.1, f64::NAN] {
        assert!(Requests::zipf(10, skew, 1).is_err(), "{skew}");
    }
    let mut requests = Requests::zipf(10, 0.0, 1).unwrap();
    assert!(run(&mut model(1.0, &[10.0]).unwrap(), &mut requests, 0, &mut |_, _| ()).is_err());
    let silt = Silt { table: 10.0, occupancy: 0.5, hash_stores: 1.5 };
    assert!(SiltSimulator::new(silt, 100).is_err());
    assert!(ColaSimulator::new(Cola { log: 1.0, growth: 1, levels: 2 }).is_err());
}

#[test]
fn one_key_and_logs_larger_than_all_keys_end() {
    let model = LevelDb { log: 1.0, level0_tables: 1.0, levels: vec![1.0, 1.0, 1.0] };
    let found = measured(&mut LevelDbSimulator::new(&model).unwrap(), 1.5, 1, 100);
    assert!(found.total().is_finite());
    let model = LevelDb { log: 1000.0, level0_tables: 4.0, levels: vec![1.0, 10.0] };
    let found = measured(&mut LevelDbSimulator::new(&model).unwrap(), 0.0, 10, 100_000);
    assert!(found.total() < 1.1, "{found:?}");
}

#[path = "../../examples/model_grid/grid.rs"]
mod grid;

/// Six settings of the grid (example `model_grid`), those of the most keys left out.
#[test]
fn leveldb_is_as_predicted_anywhere() {
    let mut prng = silica_base::Prng::new(2);
    let mut judged = 0;
    let mut smaller = 0;
    while judged < 6 {
        let setting = grid::draw(&mut prng).unwrap();
        if setting.keys > 250_000 {
            continue;
        }
        let usual = setting.is_usual();
        let row = grid::judge(setting, grid::USUAL).unwrap();
        let part =
            |model: &silica_lab::model::WriteAmplification| model.total() / row.simulated.total();
        let (printed, refined) = (part(&row.printed), part(&row.refined));
        let followed = part(&row.followed);
        let terms: f64 = row.terms().map(|(_, [simulated, ..])| simulated).sum();
        assert!((terms - row.simulated.total()).abs() < 1e-9, "{terms}");
        let what = format!("{:?} of {} keys", row.setting.model, row.setting.keys);
        assert!((refined - 1.0).abs() < 0.05, "{what}: {refined}");
        assert!((followed - 1.0).abs() < 0.04, "{what}: {followed}");
        assert!(!usual || (printed - 1.0).abs() < 0.06, "{what}: {printed}");
        judged += 1;
        smaller += u32::from(!usual);
    }
    assert!(smaller > 0, "no setting has a first level smaller than the write buffer");
}
