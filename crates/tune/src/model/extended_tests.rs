use super::*;
use silica_base::Prng;

const KEYS: usize = 500;
const ROUNDS: u32 = 400;

fn primitives(skew: f64) -> Primitives {
    Primitives::new(Popularity::zipf(KEYS as u64, skew).unwrap())
}

/// Ranks, drawn by their popularity.
struct Ranks {
    sums: Vec<f64>,
    random: Prng,
}

impl Ranks {
    fn new(skew: f64) -> Self {
        let mut sums: Vec<f64> = Vec::new();
        for i in 1..=KEYS {
            sums.push(sums.last().copied().unwrap_or(0.0) + (i as f64).powf(-skew));
        }
        Ranks { sums, random: Prng::new(5) }
    }

    fn next(&mut self) -> usize {
        let at = self.random.unit() * self.sums[KEYS - 1];
        self.sums.partition_point(|sum| *sum <= at).min(KEYS - 1)
    }

    fn shuffled(&mut self) -> Vec<usize> {
        let mut keys: Vec<usize> = (0..KEYS).collect();
        for i in (1..KEYS).rev() {
            keys.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        keys
    }
}

#[track_caller]
fn near(ours: f64, judge: f64, tolerance: f64) {
    assert!((ours / judge - 1.0).abs() < tolerance, "{ours} is not {judge}");
}

#[test]
fn drifting_keys_are_those_of_ranks_dealt_anew() {
    let (skew, epoch) = (0.99, 150);
    let keys = primitives(skew);
    let drifting = Drifting::new(&keys, f64::from(epoch)).unwrap();
    let mut ranks = Ranks::new(skew);
    for (begun, requests) in [(0, 100), (0, 150), (0, 700), (100, 700), (149, 20)] {
        let mut sum = 0;
        for _ in 0..ROUNDS {
            let mut seen = vec![false; KEYS];
            let mut dealt = ranks.shuffled();
            for request in begun..begun + requests {
                if request % epoch == 0 {
                    dealt = ranks.shuffled();
                }
                seen[dealt[ranks.next()]] = true;
            }
            sum += seen.iter().filter(|&&seen| seen).count();
        }
        let judge = sum as f64 / f64::from(ROUNDS);
        near(drifting.unique_from(f64::from(begun), f64::from(requests)), judge, 0.01);
    }
    for unique in [1.0, 90.0, 300.0, 499.0] {
        near(drifting.unique(drifting.unique_inverse(unique)), unique, 1e-9);
    }
    // Ranks that never change are the plain primitives.
    let still = Drifting::new(&keys, 1e12).unwrap();
    near(still.unique(700.0), keys.unique(700.0), 1e-12);
    near(still.merge(100.0, 100.0), 200.0 - 100.0 * 100.0 / 500.0, 1e-12);
    assert!(Drifting::new(&keys, 0.0).is_err());
}

#[test]
fn tombstones_are_the_keys_deleted_last() {
    let keys = primitives(0.8);
    let deletes = Deletes::new(0.3, 0.1).unwrap();
    let mut ranks = Ranks::new(0.8);
    for requests in [50, 400, 3000] {
        let (mut tombstones, mut size) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            let mut last = vec![None; KEYS];
            for _ in 0..requests {
                let key = ranks.next();
                last[key] = Some(ranks.random.unit() < 0.3);
            }
            let dead = last.iter().filter(|deleted| **deleted == Some(true)).count() as f64;
            let live = last.iter().filter(|deleted| **deleted == Some(false)).count() as f64;
            tombstones += dead / f64::from(ROUNDS);
            size += (live + 0.1 * dead) / f64::from(ROUNDS);
        }
        near(deletes.tombstones(&keys, f64::from(requests)), tombstones, 0.02);
        near(deletes.size(&keys, f64::from(requests)), size, 0.01);
    }
    near(deletes.live(&keys), 350.0, 1e-12);
    assert!(Deletes::new(f64::NAN, 0.0).is_err() && Deletes::new(0.5, 2.0).is_err());
}

#[test]
fn bytes_are_those_of_each_key() {
    let popularity = Popularity::zipf(KEYS as u64, 0.99).unwrap();
    // Popular items are small.
    let bytes = |p: f64| 10.0 + 1.0 / p.sqrt();
    let items = ItemBytes::new(&popularity, bytes).unwrap();
    let mut ranks = Ranks::new(0.99);
    let total = ranks.sums[KEYS - 1];
    let of = |rank: usize| bytes(((rank + 1) as f64).powf(-0.99) / total);
    for requests in [30, 500, 5000] {
        let (mut table, mut put) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            let mut seen = vec![false; KEYS];
            for _ in 0..requests {
                let rank = ranks.next();
                seen[rank] = true;
                put += of(rank) / f64::from(ROUNDS * requests);
            }
            let all = (0..KEYS).filter(|rank| seen[*rank]).map(of);
            table += all.sum::<f64>() / f64::from(ROUNDS);
        }
        near(items.unique(f64::from(requests)), table, 0.01);
        near(items.put(), put, 0.02);
    }
    near(items.unique(items.unique_inverse(5000.0)), 5000.0, 1e-9);
    near(items.merge(items.unique(70.0), items.unique(80.0)), items.unique(150.0), 1e-9);
    assert_eq!(items.unique_inverse(items.all()), f64::INFINITY);
    // Sizes that do not depend on the key are a factor.
    let alike = ItemBytes::new(&popularity, |_| 7.0).unwrap();
    let keys = primitives(0.99);
    near(alike.unique(200.0), 7.0 * keys.unique(200.0), 1e-9);
    assert!(ItemBytes::new(&popularity, |_| f64::NAN).is_err());
}
