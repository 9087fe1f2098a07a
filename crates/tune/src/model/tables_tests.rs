use super::*;
use crate::model::{LevelDb, Popularity, RefinedLevelDb};
use silica_base::Prng;
use std::collections::BTreeMap;

fn zipf(keys: u64, skew: f64) -> Primitives {
    Primitives::new(Popularity::zipf(keys, skew).unwrap())
}

const ROCKS: LevelledTables = LevelledTables {
    rules: Rules::RocksDb,
    log: 500.0,
    level0_tables: 4,
    table: 600.0,
    base: 2400.0,
    multiplier: 10.0,
    dead_version: 0.0,
};
const LEVELDB: LevelledTables =
    LevelledTables { rules: Rules::LevelDb, dead_version: 0.8, ..ROCKS };

#[test]
fn levels_are_the_base_at_least() {
    let sizes = |last: f64| [0.0, 0.0, 0.0, 0.0, 0.0, last];
    let shape = Shape::of(&ROCKS, &sizes(50_000.0));
    assert_eq!(shape.first, 4);
    assert_eq!(shape.limits[4..], [2400.0, 5000.0]);
    // A store that is smaller than the base has one level, unless there was another before.
    assert_eq!(Shape::of(&ROCKS, &sizes(2000.0)).first, 6);
    assert_eq!(Shape::of(&ROCKS, &[0.0, 0.0, 0.0, 0.0, 7.0, 2000.0]).first, 5);
    assert_eq!(Shape::of(&ROCKS, &[0.0; LEVELS]).first, 6);
    let shape = Shape::of(&LEVELDB, &sizes(50_000.0));
    assert_eq!((shape.first, &shape.limits[1..4]), (1, &[2400.0, 24_000.0, 240_000.0][..]));
    assert!(LevelledTables { multiplier: 1.0, ..ROCKS }.checked().is_err());
    assert!(LevelledTables { level0_tables: 0, ..ROCKS }.checked().is_err());
    assert!(LevelledTables { dead_version: 1.1, ..ROCKS }.checked().is_err());
}

/// Levels are in order, sums are right, and every key is somewhere: all puts of the fill are.
#[test]
fn a_level_is_in_order_and_no_put_of_the_fill_is_lost() {
    for design in [ROCKS, LEVELDB] {
        let keys = zipf(30_000, 0.99);
        let mut store = Store::filled(&design, &keys);
        for flush in 0..600 {
            let mut share = store.young_puts.share;
            assert!(store.young < 4 && store.fullest().is_none(), "{flush}");
            for tables in &store.levels {
                let pieces: Vec<&Piece> = tables.iter().flat_map(|table| &table.pieces).collect();
                assert!(pieces.windows(2).all(|pair| pair[0].to <= pair[1].from), "{flush}");
                let sum: f64 = pieces.iter().map(|piece| piece.entries).sum();
                assert!((sum - entries_of(tables)).abs() < 1e-6 * (1.0 + sum));
                let shares = pieces.iter().map(|piece| (piece.to - piece.from) * piece.puts.share);
                share += shares.sum::<f64>();
            }
            assert!((share - 1.0).abs() < 1e-6, "{flush} {share}");
            store.flush(Puts { share: 0.0, requests: design.log });
        }
    }
}

/// A judge with keys: level 0 into one level that is merged whole.
#[test]
fn one_level_costs_what_sets_of_keys_cost() {
    // The first level is smaller than a burst, so each burst takes it and the last one in turn.
    for skew in [0.0, 0.99] {
        let design = LevelledTables { base: 1e6, ..ROCKS };
        let keys = zipf(20_000, skew);
        let ours = design.write_amplification(&keys);
        let popularity: Vec<f64> = (1..=20_000).map(|i| f64::from(i).powf(-skew)).collect();
        let mut sums: Vec<f64> = Vec::new();
        for share in popularity {
            sums.push(sums.last().copied().unwrap_or(0.0) + share);
        }
        let mut random = Prng::new(5);
        let (mut flushed, mut compacted) = (0.0, 0.0);
        for flush in 1..=400 {
            let mut table = BTreeMap::new();
            for _ in 0..500 {
                let at = random.unit() * sums[sums.len() - 1];
                table.insert(sums.partition_point(|sum| *sum <= at), ());
            }
            flushed += table.len() as f64;
            compacted += if flush % 4 == 0 { 20_000.0 } else { 0.0 };
        }
        let judge = 1.0 + (flushed + compacted) / (400.0 * 500.0);
        assert!((ours.total() / judge - 1.0).abs() < 0.01, "{skew}: {} {judge}", ours.total());
    }
}

/// Where levels are many tables and many bursts, it comes to what the closed formulas say.
#[test]
fn large_levels_cost_about_what_the_refined_model_says() {
    for skew in [0.0, 0.99] {
        let keys = zipf(300_000, skew);
        let design = LevelledTables { table: 500.0, base: 6000.0, ..LEVELDB };
        let ours = design.write_amplification(&keys).total();
        let levels = vec![6000.0, 60_000.0, 300_000.0];
        let refined = LevelDb { log: 500.0, level0_tables: 4.0, levels };
        let refined = RefinedLevelDb { design: refined, table: 500.0 };
        let theirs = refined.write_amplification(&keys).total();
        println!("{skew}: {ours} {theirs}");
        assert!((ours / theirs - 1.0).abs() < 0.15, "{skew}: {ours} {theirs}");
    }
}
