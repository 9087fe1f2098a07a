use super::*;
use crate::model::Deletes;
use silica_base::Prng;

const KEYS: usize = 500;
const ROUNDS: u32 = 400;

/// A rank by Zipf's law.
fn rank(sums: &[f64], random: &mut Prng) -> usize {
    let at = random.unit() * sums[KEYS - 1];
    sums.partition_point(|sum| *sum <= at).min(KEYS - 1)
}

fn sums(skew: f64) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::new();
    for i in 1..=KEYS {
        sums.push(sums.last().copied().unwrap_or(0.0) + (i as f64).powf(-skew));
    }
    sums
}

#[track_caller]
fn near(ours: f64, judge: f64, tolerance: f64) {
    assert!((ours / judge - 1.0).abs() < tolerance, "{ours} is not {judge}");
}

#[test]
fn tables_that_begin_at_any_time_of_an_epoch_are_as_large() {
    for epoch in [40_u32, 300] {
        let writes =
            Writes::zipf(KEYS as u64, 0.99, &Items::alike(), Some(f64::from(epoch))).unwrap();
        let (sums, mut random) = (sums(0.99), Prng::new(8));
        for requests in [1, 30, 299, 900] {
            let mut distinct = 0;
            for _ in 0..4 * ROUNDS {
                let begun = random.below(u64::from(epoch)) as u32;
                let mut seen = vec![false; KEYS];
                let mut dealt: Vec<usize> = (0..KEYS).collect();
                for request in begun..begun + requests {
                    if request % epoch == 0 || request == begun {
                        (1..KEYS).for_each(|i| dealt.swap(i, random.below(i as u64 + 1) as usize));
                    }
                    seen[dealt[rank(&sums, &mut random)]] = true;
                }
                distinct += seen.iter().filter(|seen| **seen).count();
            }
            let judge = distinct as f64 / f64::from(4 * ROUNDS);
            near(writes.unique(f64::from(requests)), judge, 0.01);
        }
    }
}

#[test]
fn tables_of_items_and_tombstones_are_as_large() {
    let deletes = Deletes::new(0.3, 0.25).unwrap();
    let items = Items::alike().with_deletes(deletes).with_bytes(100.0, 3000.0).unwrap();
    let writes = Writes::zipf(KEYS as u64, 0.8, &items, None).unwrap();
    let power = 30f64.ln() / (KEYS as f64).ln();
    let bytes: Vec<f64> = (1..=KEYS).map(|rank| 100.0 * (rank as f64).powf(power)).collect();
    let mean = bytes.iter().sum::<f64>() / KEYS as f64;
    near(bytes[KEYS - 1], 3000.0, 1e-9);
    let (sums, mut random) = (sums(0.8), Prng::new(2));
    for requests in [20, 400, 3000] {
        let (mut table, mut written, mut live) = (0.0, 0.0, 0.0);
        for _ in 0..ROUNDS {
            let mut newest = vec![0.0; KEYS];
            for _ in 0..requests {
                let at = rank(&sums, &mut random);
                let is_delete = random.unit() < 0.3;
                newest[at] = if is_delete { 0.25 } else { bytes[at] / mean };
                written += newest[at] / f64::from(requests * ROUNDS);
            }
            table += newest.iter().sum::<f64>() / f64::from(ROUNDS);
            live += 0.7 * bytes.iter().sum::<f64>() / mean / f64::from(ROUNDS);
        }
        near(writes.unique(f64::from(requests)), table, 0.01);
        near(writes.put(), written, 0.02);
        near(writes.live(), live, 1e-9);
    }
}

#[test]
fn inverses_give_back_what_went_in() {
    let deletes = Items::alike().with_deletes(Deletes::new(0.4, 0.5).unwrap());
    let sized = deletes.with_bytes(1.0, 20.0).unwrap();
    let all = [
        Writes::zipf(10_000, 0.99, &deletes, None).unwrap(),
        Writes::zipf(10_000, 0.99, &sized, None).unwrap(),
        Writes::zipf(10_000, 0.99, &deletes, Some(777.0)).unwrap(),
        Writes::latest(Latest::new(10_000, 0.99, 0.1).unwrap()),
    ];
    for writes in &all {
        for size in [1.0, 50.0, 900.0, 4000.0] {
            near(writes.unique(writes.unique_inverse(size)), size, 1e-5);
            // Lemma 4.5 as a sum over many distances.
            let interval = writes.d_interval(size);
            let parts = 100_000;
            let at =
                |part: u32| writes.unique(interval * (f64::from(part) + 0.5) / f64::from(parts));
            near((0..parts).map(at).sum::<f64>() / f64::from(parts), size, 1e-3);
        }
    }
}

#[test]
fn plain_writes_are_the_primitives() {
    let plain = Writes::zipf(10_000, 0.9, &Items::alike(), None).unwrap();
    let keys = Primitives::new(Popularity::zipf(10_000, 0.9).unwrap());
    for size in [1.0, 50.0, 9000.0] {
        assert_eq!(plain.unique(size), keys.unique(size));
        assert_eq!(plain.d_interval(size), keys.d_interval(size));
    }
    assert_eq!((plain.put(), plain.live()), (1.0, 10_000.0));
    // Ranks that are dealt anew all the time are no ranks at all; requests that lie in two epochs
    // in part are a little more than one.
    let drifting = Writes::zipf(10_000, 0.9, &Items::alike(), Some(1.0)).unwrap();
    let uniform = Primitives::new(Popularity::uniform(10_000).unwrap());
    for requests in [1.0, 100.0, 30_000.0] {
        near(drifting.unique(requests), uniform.unique(requests), 2e-3);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let sized = Items::alike().with_bytes(1.0, 2.0).unwrap();
    let error = Writes::zipf(10, 0.5, &sized, Some(5.0)).unwrap_err().to_string();
    assert!(error.contains("leave out the drift"), "{error}");
    for epoch in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Writes::zipf(10, 0.5, &Items::alike(), Some(epoch)).is_err(), "{epoch}");
    }
    for (hot, cold) in [(0.0, 1.0), (1.0, f64::NAN), (-1.0, 1.0), (1.0, 1e17)] {
        assert!(Items::alike().with_bytes(hot, cold).is_err(), "{hot} {cold}");
    }
    // All is deleted, and tombstones take no space; where they do, all stages but the last do.
    let gone = |size: f64| Items::alike().with_deletes(Deletes::new(1.0, size).unwrap());
    let error = Writes::zipf(1, 0.5, &gone(0.0), None).unwrap_err().to_string();
    assert!(error.contains("give tombstones"), "{error}");
    let writes = Writes::zipf(1, 0.5, &gone(0.5), None).unwrap();
    assert_eq!((writes.live(), writes.put()), (0.0, 0.5));
}
