//! The numbers that chapter 4 of Lim's dissertation prints, and how near the models come.

use silica_tune::model::{LevelDb, Popularity, Primitives, Silt};

const MIB: f64 = 1048.576;

fn primitives(keys: u64, skew: f64) -> Primitives {
    Primitives::new(Popularity::zipf(keys, skew).unwrap())
}

/// LevelDB as it comes, with entries of 1 kB and 100 million keys.
fn leveldb() -> LevelDb {
    let sizes = (1..5).map(|level| 10f64.powi(level) * MIB).chain([1e8]);
    LevelDb { log: 4.0 * MIB, level0_tables: 4.0, levels: sizes.collect() }.checked(1e8).unwrap()
}

#[test]
fn table_4_1_without_optimisation() {
    let cost = leveldb().write_amplification(&primitives(100_000_000, 0.0));
    let paper = [1.00, 1.00, 1.62, 4.77, 6.22, 6.32, 4.89];
    assert_eq!(cost.terms().len(), paper.len());
    for ((stage, ours), theirs) in cost.terms().iter().zip(paper) {
        assert!((ours - theirs).abs() < 0.01, "{stage}: {ours} is not {theirs}");
    }
    assert!((cost.total() - 25.82).abs() < 0.03, "{}", cost.total());
}

/// One of four instances, which share 100 million keys.
const INSTANCE: u64 = 25_000_000;

#[test]
fn section_4_5_silt() {
    let silt = |hash_stores| Silt { table: f64::from(1 << 17), occupancy: 0.93, hash_stores };
    let cost = |skew, hash_stores| {
        silt(hash_stores).write_amplification(&primitives(INSTANCE, skew)).total()
    };
    assert!((cost(0.0, 62.0) - 5.4).abs() < 0.05, "{}", cost(0.0, 62.0));
    assert!((cost(0.99, 62.0) - 3.0).abs() < 0.06, "{}", cost(0.99, 62.0));
    // The text says that 25 hash stores keep "the same level"; it gives one digit.
    assert!((cost(0.99, 25.0) - 5.4).abs() < 0.1, "{}", cost(0.99, 25.0));
}
