//! Searches, and the level sizes that section 4.6 of Lim's dissertation prints the cost of.

use silica_base::Prng;
use silica_lab::model::{LevelDb, Popularity, Primitives, RefinedLevelDb};
use silica_lab::optimise::{level_sizes, level_sizes_refined, minimise, minimise_whole};

const MIB: f64 = 1048.576;

fn primitives(keys: u64, skew: f64) -> Primitives {
    Primitives::new(Popularity::zipf(keys, skew).unwrap())
}

#[test]
fn table_4_1_with_optimisation() {
    let best = level_sizes(4.0 * MIB, 4.0, 5, &primitives(100_000_000, 0.0)).unwrap();
    let paper = [1.00, 1.00, 3.85, 4.85, 4.82, 4.65, 3.50];
    assert_eq!(best.cost.terms().len(), paper.len());
    for ((stage, ours), theirs) in best.cost.terms().iter().zip(paper) {
        assert!((ours - theirs).abs() < 0.03, "{stage}: {ours} is not {theirs}");
    }
    assert!((best.cost.total() - 23.67).abs() < 0.03, "{}", best.cost.total());
}

#[test]
fn no_random_sizes_are_better() {
    for (keys, skew, log, count) in [
        (100_000_000, 0.0, 4194.0, 5),
        (10_000_000, 0.99, 4194.0, 4),
        (1_000_000, 0.6, 20_000.0, 3),
    ] {
        let keys = primitives(keys, skew);
        let best = level_sizes(log, 4.0, count, &keys).unwrap();
        let mut prng = Prng::new(7);
        let high = (keys.keys() / 2.0).ln();
        for i in 0..20_000 {
            // Half of them anywhere, half of them near.
            let size = |found: f64, prng: &mut Prng| match i % 2 {
                0 => (prng.unit() * high).exp(),
                _ => (found * (prng.unit() - 0.5).exp()).min(keys.keys() / 2.0),
            };
            let last = count - 1;
            let mut levels: Vec<f64> =
                best.model.levels[..last].iter().map(|&found| size(found, &mut prng)).collect();
            levels.push(keys.keys());
            let other = LevelDb { levels, ..best.model.clone() };
            let total = other.write_amplification(&keys).total();
            assert!(total >= best.cost.total() - 1e-6, "{other:?}: {total} < {best:?}");
        }
    }
}

/// The refined model has kinks, where a burst more or less fits into a round.
#[test]
fn no_random_sizes_are_better_by_the_refined_model() {
    for (skew, log, count) in [(0.0, 4194.0, 3), (0.99, 419.0, 3), (1.2, 20_000.0, 2)] {
        let keys = primitives(1_000_000, skew);
        let refined = |levels: Vec<f64>| {
            let design = LevelDb { log, level0_tables: 4.0, levels };
            let refined = RefinedLevelDb { design, table: log / 2.0 }.checked(keys.keys());
            refined.map(|model| model.write_amplification(&keys).total())
        };
        let best = level_sizes_refined(log, 4.0, log / 2.0, count, &keys).unwrap();
        let least = best.cost.total();
        assert_eq!(refined(best.model.levels.clone()).unwrap(), least);
        let printed = level_sizes(log, 4.0, count, &keys).unwrap().model.levels;
        assert!(least <= refined(printed).unwrap());
        let mut prng = Prng::new(7);
        let high = (keys.keys() / 2.0).ln();
        for i in 0..200 {
            // Half of them anywhere, half of them near.
            let size = |found: f64, prng: &mut Prng| match i % 2 {
                0 => (prng.unit() * high).exp(),
                _ => (found * (prng.unit() - 0.5).exp()).min(keys.keys() / 2.0),
            };
            let inner = &best.model.levels[..count - 1];
            let mut levels: Vec<f64> = inner.iter().map(|&found| size(found, &mut prng)).collect();
            levels.sort_unstable_by(f64::total_cmp);
            levels.push(keys.keys());
            let total = refined(levels.clone()).unwrap();
            assert!(total >= 0.995 * least, "{levels:?}: {total} < {best:?}");
        }
    }
    assert!(level_sizes_refined(10.0, 4.0, 0.0, 2, &primitives(1000, 0.0)).is_err());
}

#[test]
fn one_level_has_nothing_to_choose() {
    let best = level_sizes(100.0, 4.0, 1, &primitives(1000, 0.5)).unwrap();
    assert_eq!(best.model.levels, [1000.0]);
}

#[test]
fn level_sizes_of_bad_input_are_refused() {
    let keys = primitives(1000, 0.0);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(level_sizes(bad, 4.0, 3, &keys).is_err(), "{bad}");
        assert!(level_sizes(10.0, bad, 3, &keys).is_err(), "{bad}");
    }
    for count in [0, 33, usize::MAX] {
        assert!(level_sizes(10.0, 4.0, count, &keys).is_err(), "{count}");
    }
    assert!(level_sizes(10.0, 4.0, 2, &primitives(1, 0.0)).is_err());
    // A log larger than all keys is odd but possible.
    assert!(level_sizes(1e9, 4.0, 3, &keys).unwrap().cost.total().is_finite());
}

#[test]
fn a_bent_valley_is_followed_to_its_end() {
    let mut valley = |x: &[f64]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
    let free = minimise(&mut valley, &[-1.2, 1.0], &[(-5.0, 5.0); 2]).unwrap();
    assert!(free.value < 1e-6, "{free:?}");
    // With x <= 0.5 the lowest is at its bound: (0.5, 0.25).
    let bound = minimise(&mut valley, &[-1.2, 1.0], &[(-5.0, 0.5), (-5.0, 5.0)]).unwrap();
    assert!((bound.at[0] - 0.5).abs() < 1e-3 && (bound.value - 0.25).abs() < 1e-3, "{bound:?}");
}

#[test]
fn searches_end_on_any_goal() {
    for goal in [f64::NAN, f64::INFINITY, 0.0] {
        let found = minimise(&mut |_| goal, &[0.0; 3], &[(-1.0, 1.0); 3]).unwrap();
        assert!(found.evaluations < 100, "{found:?}");
        let found = minimise_whole(&mut |_| goal, &[5, 5], &[(0, 9); 2]).unwrap();
        assert!(found.evaluations < 100, "{found:?}");
    }
    assert!(minimise(&mut |_| 0.0, &[0.0], &[(1.0, 0.0)]).is_err());
    assert!(minimise(&mut |_| 0.0, &[0.0], &[]).is_err());
    assert!(minimise_whole(&mut |_| 0.0, &[0], &[(1, 0)]).is_err());
}

#[test]
fn whole_parameters_are_those_of_trying_all() {
    let mut prng = Prng::new(3);
    for _ in 0..50 {
        let (a, b) = (prng.below(100) as f64, prng.below(100) as f64);
        let mut goal = |x: &[u64]| (x[0] as f64 - a).abs() + 0.1 * (x[1] as f64 - b).powi(2);
        let found = minimise_whole(&mut goal, &[50, 50], &[(3, 90), (0, 99)]).unwrap();
        assert_eq!(found.at, [(a as u64).clamp(3, 90), b as u64]);
    }
    let wide = minimise_whole(&mut |x| -(x[0] as f64), &[0], &[(0, u64::MAX)]).unwrap();
    assert!(wide.at[0] > u64::MAX - 4096);
}
