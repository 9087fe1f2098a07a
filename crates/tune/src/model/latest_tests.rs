use super::*;
use crate::model::{Popularity, Primitives};
use silica_base::Prng;
use std::collections::{HashMap, VecDeque};

const KEYS: usize = 2000;

/// A store of keys in the order of their inserts, asked as YCSB does.
struct Store {
    sums: Vec<f64>,
    inserts: f64,
    newest: usize,
    random: Prng,
}

impl Store {
    fn new(skew: f64, inserts: f64) -> Self {
        let mut sums: Vec<f64> = Vec::new();
        for rank in 1..=KEYS {
            sums.push(sums.last().copied().unwrap_or(0.0) + (rank as f64).powf(-skew));
        }
        Store { sums, inserts, newest: KEYS, random: Prng::new(3) }
    }

    /// The key of a request, and whether it is new.
    fn next(&mut self) -> (usize, bool) {
        if self.random.unit() < self.inserts {
            self.newest += 1;
            return (self.newest, true);
        }
        let at = self.random.unit() * self.sums[KEYS - 1];
        let rank = self.sums.partition_point(|sum| *sum <= at).min(KEYS - 1);
        (self.newest - rank, false)
    }
}

const SETTINGS: [(f64, f64); 8] = [
    (0.99, 0.05),
    (0.99, 0.5),
    (0.99, 0.001),
    (0.5, 0.05),
    (0.0, 0.2),
    (1.5, 0.05),
    (1.5, 0.3),
    (1.2, 1.0),
];

#[test]
fn distinct_keys_are_those_of_a_store_that_grows() {
    let mut wrong = Vec::new();
    for (skew, inserts) in SETTINGS {
        let latest = Latest::new(KEYS as u64, skew, inserts).unwrap();
        let mut store = Store::new(skew, inserts);
        for (requests, rounds) in [
            (1, 3000),
            (3, 20_000),
            (10, 20_000),
            (30, 10_000),
            (100, 4000),
            (1000, 400),
            (6000, 60),
        ] {
            let mut sum = 0;
            for _ in 0..rounds {
                let mut seen: Vec<usize> = (0..requests).map(|_| store.next().0).collect();
                seen.sort_unstable();
                seen.dedup();
                sum += seen.len();
            }
            let judge = sum as f64 / f64::from(rounds);
            let model = latest.unique(f64::from(requests));
            let within = if requests < 100 { 0.02 } else { 0.01 };
            let what = format!("{skew} {inserts}, {requests} requests");
            if (model / judge - 1.0).abs() >= within {
                wrong.push(format!("{what}: {model} is not {judge}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn hits_are_those_of_a_least_recently_used_memory() {
    let mut wrong = Vec::new();
    for (skew, inserts) in SETTINGS.into_iter().filter(|(_, inserts)| *inserts < 1.0) {
        let latest = Latest::new(KEYS as u64, skew, inserts).unwrap();
        for entries in [10, 100, 700] {
            let mut store = Store::new(skew, inserts);
            // The time at which each key was asked for last, and these times in order.
            let mut last: HashMap<usize, usize> = HashMap::new();
            let mut times: VecDeque<(usize, usize)> = VecDeque::new();
            let (mut hits, mut asked) = (0, 0);
            for time in 0..400_000 {
                let (key, is_new) = store.next();
                if time >= 100_000 && !is_new {
                    asked += 1;
                    hits += usize::from(last.contains_key(&key));
                }
                last.insert(key, time);
                times.push_back((time, key));
                while last.len() > entries {
                    let (time, key) = times.pop_front().unwrap();
                    if last.get(&key) == Some(&time) {
                        last.remove(&key);
                    }
                }
            }
            let judge = f64::from(hits as u32) / f64::from(asked);
            // The requests in which there are so many distinct keys.
            let (mut low, mut high) = (0.0_f64, 40.0);
            for _ in 0..40 {
                let middle = low.midpoint(high);
                if latest.unique(middle.exp()) < entries as f64 {
                    low = middle
                } else {
                    high = middle
                }
            }
            let model = latest.hits(low.exp());
            let what = format!("{skew} {inserts}, {entries} entries");
            // So few entries stay for times that differ more.
            let within = if entries < 100 { 0.02 } else { 0.01 };
            if (model - judge).abs() >= within {
                wrong.push(format!("{what}: {model} is not {judge}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn few_inserts_leave_zipfs_law() {
    let latest = Latest::new(10_000, 0.99, 1e-9).unwrap();
    let zipf = Primitives::new(Popularity::zipf(10_000, 0.99).unwrap());
    for requests in [1.0, 50.0, 3000.0, 1e5] {
        let (ours, theirs) = (latest.unique(requests), zipf.unique(requests));
        assert!((ours / theirs - 1.0).abs() < 1e-3, "{requests}: {ours} is not {theirs}");
    }
}

#[test]
fn extremes_are_numbers() {
    for (keys, skew, inserts) in
        [(1, 0.0, 0.5), (1, 2.0, 1e-300), (2, 1.0, 1.0), (65, 1.0, 0.1), (1 << 50, 2.0, 0.3)]
    {
        let latest = Latest::new(keys, skew, inserts).unwrap();
        for requests in [-1.0, 0.0, 1e-9, 1.0, 1e6, 1e18] {
            let (unique, hits) = (latest.unique(requests), latest.hits(requests));
            assert!((0.0..=requests.max(0.0) * 1.05).contains(&unique), "{keys}: {unique}");
            assert!((0.0..=1.0).contains(&hits), "{keys}: {hits}");
        }
    }
    for (keys, skew, inserts) in [(0, 0.5, 0.1), (9, -0.1, 0.1), (9, f64::NAN, 0.1), (9, 2.1, 0.1)]
    {
        assert!(Latest::new(keys, skew, inserts).is_err(), "{keys} {skew}");
    }
    for inserts in [0.0, -0.1, 1.1, f64::NAN] {
        let error = Latest::new(9, 0.5, inserts).unwrap_err().to_string();
        assert!(error.contains("Zipf"), "{error}");
    }
}
