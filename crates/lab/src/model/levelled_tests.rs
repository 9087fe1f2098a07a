use super::*;
use crate::model::{Popularity, Samt};
use silica::engine::part;
use silica_base::Prng;
use std::collections::HashSet;

fn uniform(keys: u64) -> Primitives {
    Primitives::new(Popularity::uniform(keys).unwrap())
}

const ROCKS: RocksLevelled = RocksLevelled {
    log: 4096.0,
    level0_tables: 4.0,
    base: 16384.0,
    multiplier: 10.0,
    dynamic: true,
    pick: Pick::RoundRobin,
};

#[test]
fn dynamic_levels_end_with_every_key_and_begin_below_the_base() {
    let levels = ROCKS.levels(1e7);
    assert_eq!(levels, [10_000.0, 100_000.0, 1e6, 1e7]);
    let fixed = RocksLevelled { dynamic: false, ..ROCKS }.levels(1e7);
    assert_eq!(fixed, [16384.0, 163_840.0, 1_638_400.0, 1e7]);
    assert!(RocksLevelled { multiplier: 1.0, ..ROCKS }.checked().is_err());
}

/// Section 4.7 measures up to 32.2 % less for LevelDB's choice of tables.
#[test]
fn the_largest_table_first_costs_more() {
    let keys = uniform(10_000_000);
    let largest = RocksLevelled { pick: Pick::Largest, ..ROCKS };
    let saved =
        1.0 - ROCKS.write_amplification(&keys).total() / largest.write_amplification(&keys).total();
    assert!((0.2..0.4).contains(&saved), "{saved}");
}

/// Tiering with a last level of one run is what SAMT's model writes down.
#[test]
fn as_many_runs_as_growth_are_samt() {
    for skew in [0.0, 0.99] {
        let keys = Primitives::new(Popularity::zipf(1_000_000, skew).unwrap());
        let lazy = LazyLevelled { log: 1000.0, growth: 6, runs: 6, levels: 4 };
        let samt = Samt { log: 1000.0, growth: 6, levels: 4 };
        let (lazy, samt) = (lazy.write_amplification(&keys), samt.write_amplification(&keys));
        assert!((lazy.total() / samt.total() - 1.0).abs() < 1e-12);
    }
}

/// The store of docs/benchmarks/wip.md, "Space against writes".
const MEMORY: f64 = 33_554_432.0;
const ENTRY: f64 = 116.0;

/// Runs as sets of keys, by the rules that `LazyLevelled` states.
fn simulated(model: &LazyLevelled, keys: u64, arrivals: u32) -> (f64, f64) {
    let mut random = Prng::new(11);
    let mut levels: Vec<Vec<HashSet<u64>>> = vec![Vec::new(); model.levels as usize - 1];
    let mut arrived = vec![0_u32; levels.len()];
    let (mut written, mut runs) = (0.0, 0.0);
    let each = model.growth / model.runs;
    for _ in 0..arrivals {
        let mut moving: HashSet<u64> = (0..model.log as u32).map(|_| random.below(keys)).collect();
        for level in 0..=levels.len() {
            if level == levels.len() {
                written += keys as f64;
                break;
            }
            if arrived[level].is_multiple_of(each) {
                levels[level].push(HashSet::new());
            }
            arrived[level] += 1;
            let active = levels[level].last_mut().unwrap();
            active.extend(moving);
            written += active.len() as f64;
            if arrived[level] < model.growth {
                break;
            }
            arrived[level] = 0;
            moving = levels[level].drain(..).flatten().collect();
        }
        runs += 1.0 + levels.iter().map(Vec::len).sum::<usize>() as f64;
    }
    let requests = model.log * f64::from(arrivals);
    (1.0 + written / requests, runs / f64::from(arrivals))
}

#[test]
fn lazy_levelling_costs_what_sets_of_keys_cost() {
    for runs in [1, 2, 6] {
        let model = LazyLevelled { log: 50.0, growth: 6, runs, levels: 3 }.checked().unwrap();
        let ours = model.write_amplification(&uniform(4000)).total();
        let (judge, runs_judge) = simulated(&model, 4000, 36 * 50);
        assert!((ours / judge - 1.0).abs() < 0.02, "{runs}: {ours} {judge}");
        let runs_ours = model.runs_read();
        assert!((runs_ours / runs_judge - 1.0).abs() < 0.02, "{runs}: {runs_ours} {runs_judge}");
    }
}

#[test]
fn wip_stays_below_its_bound_and_near_what_was_measured() {
    assert!((wip_bound(3, 8) - 5.14).abs() < 0.01);
    let ours = WipDb {
        memtable: part::MEMTABLES.share() * MEMORY / ENTRY,
        log_window: part::ORDERED_LOG.share() * MEMORY / (ENTRY + 28.0),
        runs_max: 20,
        // One of more than half of the memory was split.
        buckets: 8.0,
        space: f64::INFINITY,
        log: 1.24,
        table: 1.05,
    };
    let bare = WipDb { memtable: 1e4, log: 1.0, table: 1.0, ..ours };
    for keys in [1e3, 1e6, 1e9, 1e12] {
        assert!(bare.fill(keys).total() <= wip_bound(3, 8), "{keys}");
    }
    assert_eq!(bare.fill(1e12).total(), 4.0);
    // Space on average, and what was written with the log.
    let keys = uniform(500_000);
    for (space, measured) in
        [(1.15, 5.94), (1.19, 4.84), (1.25, 4.53), (1.31, 4.19), (1.55, 3.24), (1.80, 2.96)]
    {
        let model = WipDb { space, ..ours }.checked().unwrap();
        let ours = model.overwrite(&keys).total();
        println!("{space}: {ours} {measured}");
        // Of rewriting alone the model has up to 15 % too little (docs/models.md).
        assert!((ours / measured - 1.0).abs() < 0.09, "{space}: {ours} {measured}");
    }
    assert!(WipDb { space: 1.0, ..bare }.checked().is_err());
}

#[test]
fn buckets_are_rewritten_after_whole_flushes() {
    // A seventh of what a bucket has is flushed at once; two thirds of a flush may be dead on
    // average. If each bucket is rewritten after every second flush it has one or two of them, half
    // a flush and a part of a round on average; after each it had no more than one.
    let keys = 100_000.0;
    let (buckets, space, runs_max) = (8.0, 1.116, 20);
    let (memtable, log_window, log, table) = (0.1 * keys, 1e9, 1.0, 1.0);
    let model = WipDb { memtable, log_window, runs_max, buckets, space, log, table };
    let cost = model.checked().unwrap().overwrite(&uniform(100_000));
    let [_, (_, flushed), (_, rewritten)] = cost.terms() else { panic!("{cost:?}") };
    // Puts between two flushes of a bucket, as shares of all keys.
    let interval = 0.19;
    assert!((flushed - (1.0 - f64::exp(-interval)) / interval).abs() < 1e-3, "{flushed}");
    let flushes = 1.0 / (interval * rewritten);
    assert!((flushes - 2.0).abs() < 0.05, "rewritten after {flushes} flushes");
    // Where nothing may be dead, a bucket is rewritten after each, and no other.
    let model = WipDb { space: 1.0 + 1e-14, ..model };
    let rewritten = model.checked().unwrap().overwrite(&uniform(100_000)).terms()[2].1;
    assert!((interval * rewritten - 1.0).abs() < 0.02, "{rewritten}");
}
