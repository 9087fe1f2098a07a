//! The numbers that chapter 4 of Lim's dissertation prints, and how near the models come.

use silica_lab::model::{LevelDb, Popularity, Primitives, Silt, SiltDesign, life_seconds};

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

/// Section 4.5: with 25 hash stores instead of 62, SILT under skew takes 0.56 bytes for each key.
#[test]
fn section_4_5_memory() {
    let memory = |hash_stores: f64| {
        let merged = hash_stores * 0.93 * f64::from(1 << 17);
        let silt = SiltDesign { keys: 1e8, merged, tag_bits: 15.0, instances: 4.0 };
        silt.memory_bytes_per_key()
    };
    assert!((memory(25.0) - 0.56).abs() < 0.01, "{}", memory(25.0));
    // "26 %" is of rounded figures; equation 7 gives 24.7 %.
    let saved = 1.0 - memory(25.0) / memory(62.0);
    assert!((saved - 0.26).abs() < 0.02, "{saved}");
}

/// Section 5 of SILT's paper, the example.
#[test]
fn silt_section_5_example() {
    let silt = SiltDesign { keys: 1e8, merged: 7.5e6, tag_bits: 15.0, instances: 4.0 };
    let near = |what: &str, ours: f64, paper: f64, digit: f64| {
        assert!((ours - paper).abs() <= 0.5 * digit, "{what}: {ours} is not {paper}");
    };
    near("WA, equation 4", silt.write_amplification(), 5.4, 0.1);
    near("H, equation 5", silt.hash_stores(), 31.0, 1.0);
    near("RA, equation 6", silt.read_amplification(), 1.008, 0.001);
    near("MO, equation 7", silt.memory_bytes_per_key(), 0.73, 0.01);
    let flash = 256.0 * f64::from(1 << 30);
    let put = 5000.0 * 1024.0;
    let years = life_seconds(flash, 10_000.0, put, silt.write_amplification()) / 31_557_600.0;
    near("years, equation 8", years, 3.0, 1.0);
}

/// The figures in the text of sections 4.2.4 and 4.3.3.
#[test]
fn figures_in_the_text() {
    let near = |ours: f64, paper: f64| {
        assert!((ours / paper - 1.0).abs() < 0.005, "{ours} is not {paper}");
    };
    near(primitives(100_000_000, 0.99).merge(1e7, 9e7), 9.03e7);
    let uniform = primitives(100_000_000, 0.0);
    near(uniform.d_interval(10.0 * 1048576.0), 2.26e7);
    near(uniform.unique_inverse(10.0 * 1048576.0), 1.11e7);
}

/// Figures 4.9 and 4.10: the analysis without redundancy is 1.8 to 3.6 times too high.
#[test]
fn section_4_3_5_worst_case() {
    let model = leveldb();
    let worst = model.worst_case().total();
    let ratio = |skew| worst / model.write_amplification(&primitives(100_000_000, skew)).total();
    assert!((1.7..2.0).contains(&ratio(0.0)), "{}", ratio(0.0));
    assert!((3.3..3.9).contains(&ratio(0.99)), "{}", ratio(0.99));
}
