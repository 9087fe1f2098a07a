use super::*;
use silica_base::{ErrorKind, Prng};

fn hash(key: u64) -> u64 {
    Prng::new(key).next_u64()
}

/// Draws ranks from 0 on with probability in proportion to `(rank + 1)^-skew`.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: u64, skew: f64) -> Self {
        let mut sum = 0.0;
        Zipf(
            (1..=keys)
                .map(|rank| {
                    sum += (rank as f64).powf(-skew);
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, prng: &mut Prng) -> u64 {
        let at = prng.next_u64() as f64 / 2f64.powi(64) * self.0[self.0.len() - 1];
        self.0.partition_point(|sum| *sum <= at) as u64
    }
}

fn requests(sketch: &mut Sketch, keys: u64, skew: f64, count: u64, touch: Touch) {
    let (zipf, mut prng) = (Zipf::new(keys, skew), Prng::new(keys ^ count));
    for _ in 0..count {
        sketch.sample.request(hash(zipf.draw(&mut prng)), touch);
    }
    sketch.call(&Call { get_hits: count, ..Call::default() }, 1);
}

fn skew_of(sketch: &Sketch, keys: u64) -> f64 {
    match sketch.workload(keys).unwrap().access {
        Access::Zipf { skew } => skew,
        other => panic!("{other}"),
    }
}

#[test]
fn skews_are_found() {
    for (keys, count) in [(100_000, 400_000), (1_000_000, 2_000_000), (5_000, 100_000)] {
        for skew in [0.0, 0.5, 0.7, 0.9, 0.99, 1.1, 1.2] {
            let mut sketch = Sketch::new(keys);
            requests(&mut sketch, keys, skew, count, Touch::Read);
            let found = skew_of(&sketch, keys);
            let bound = if skew == 0.0 { 0.12 } else { 0.05 };
            assert!((found - skew).abs() < bound, "{keys} keys: {found}, not {skew}");
        }
    }
}

/// A sketch of a store that so many keys were put into, each once.
fn loaded(keys: u64) -> Sketch {
    let mut sketch = Sketch::new(0);
    for key in 0..keys {
        sketch.sample.request(hash(key), Touch::Write);
    }
    sketch.call(&Call { puts: keys, ..Call::default() }, 1);
    sketch
}

#[test]
fn a_load_before_does_not_hide_the_skew() {
    let keys = 200_000;
    for skew in [0.5, 0.99] {
        let mut sketch = loaded(keys);
        requests(&mut sketch, keys, skew, 600_000, Touch::Read);
        let found = skew_of(&sketch, keys);
        assert!((found - skew).abs() < 0.05, "{found}, not {skew}");
        let mix = sketch.workload(keys).unwrap().mix;
        assert!((mix.inserts - 0.25).abs() < 1e-9 && mix.overwrites == 0.0, "{mix:?}");
    }
}

#[test]
fn what_is_no_zipf_is_given_as_groups() {
    let (keys, mut prng, mut sketch) = (50_000, Prng::new(7), Sketch::new(50_000));
    for _ in 0..1_000_000 {
        let hot = prng.below(10) < 9;
        let key = if hot { prng.below(keys / 20) } else { prng.below(keys) };
        sketch.sample.request(hash(key), Touch::Read);
    }
    sketch.call(&Call { get_hits: 1, ..Call::default() }, 1_000_000);
    let workload = sketch.workload(keys).unwrap();
    let Access::Groups(groups) = &workload.access else { panic!("{}", workload.access) };
    // A twentieth of the keys is asked for far more often, nine times in ten.
    let hot: f64 = groups.iter().filter(|g| g.1 / g.0 > 2.0 / keys as f64).map(|g| g.1).sum();
    assert!((0.85..=0.95).contains(&hot), "{groups:?}");
    assert!((workload.popularity().unwrap().keys() / keys as f64 - 1.0).abs() < 1e-6);
}

#[test]
fn the_working_set_is_that_of_a_cache() {
    let (keys, count) = (100_000, 1_000_000);
    let mut sketch = Sketch::new(keys);
    requests(&mut sketch, keys, 0.9, count, Touch::Read);
    let curve = sketch.workload(keys).unwrap().working_set;
    // A cache of its own, with the same requests.
    for entries in [1_000usize, 10_000, 50_000] {
        let (zipf, mut prng) = (Zipf::new(keys, 0.9), Prng::new(keys ^ count));
        let mut last = std::collections::BTreeMap::new();
        let mut order = std::collections::BTreeMap::new();
        let mut misses = 0;
        for now in 0..count {
            let key = zipf.draw(&mut prng);
            match last.insert(key, now) {
                Some(before) if order.remove(&before).is_some() => {}
                _ => misses += 1,
            }
            order.insert(now, key);
            if order.len() > entries {
                order.pop_first();
            }
        }
        let (found, is) = (curve.miss_ratio(entries as f64).unwrap(), misses as f64 / count as f64);
        assert!((found - is).abs() < 0.03, "{entries}: {found}, not {is}");
    }
}

#[test]
fn mixes_and_sizes_come_out_as_they_went_in() {
    let mut sketch = Sketch::new(1000);
    sketch.call(&Call { get_hits: 8, get_misses: 2, ..Call::default() }, 100);
    sketch.call(&Call { puts: 3, deletes: 1, synced: true, ..Call::default() }, 100);
    sketch.call(&Call { modifies: 4, ..Call::default() }, 100);
    sketch.call(&Call { scans: 2, ..Call::default() }, 100);
    sketch.key_bytes.add(20, 100);
    sketch.put_bytes.add(500, 100);
    sketch.scan_entries.add(30, 200);
    let workload = sketch.workload(1100).unwrap();
    let expected = Mix {
        get_hits: 0.4,
        get_misses: 0.1,
        inserts: 0.1,
        overwrites: 0.05,
        deletes: 0.05,
        scans: 0.1,
        modifies: 0.2,
    };
    assert_eq!(workload.mix, expected);
    assert_eq!((workload.synced, workload.burst), (0.5, 10.0));
    assert_eq!(workload.key_bytes, Sizes::constant(20.0));
    assert_eq!(workload.value_bytes, Sizes::constant(500.0));
    assert_eq!(workload.scan_entries, Sizes::constant(30.0));
    assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
}

#[test]
fn a_workload_that_changed_is_seen_however_long_there_was_another() {
    let mut sketch = Sketch::new(0);
    let mut keys = 0;
    // Puts, of which each second one makes a key.
    for _ in 0..100_000 {
        sketch.call(&Call { puts: 4, ..Call::default() }, 256);
        sketch.put_bytes.add(100, 4 * 256);
        keys += 512;
        if sketch.is_old() {
            sketch.halve(keys);
        }
    }
    let mix = sketch.workload(keys).unwrap().mix;
    assert!((mix.inserts - 0.5).abs() < 0.001 && (mix.overwrites - 0.5).abs() < 0.001, "{mix:?}");
    let mut shares = Vec::new();
    for call in 1..=5 * OPERATIONS_KEPT / 2 / 1024 {
        sketch.call(&Call { get_hits: 4, ..Call::default() }, 256);
        sketch.found_bytes.add(100, 4 * 256);
        if sketch.is_old() {
            sketch.halve(keys);
        }
        if call * 1024 % OPERATIONS_KEPT == 0 || call * 1024 == 5 * OPERATIONS_KEPT / 2 {
            shares.push(sketch.workload(keys).unwrap().mix.get_hits);
        }
    }
    // After 16.8, 33.6 and 41.9 million of them.
    assert!(shares[0] > 0.5 && shares[2] > 0.9, "{shares:?}");
    let mix = sketch.workload(keys).unwrap().mix;
    assert!((mix.inserts - mix.overwrites).abs() < 0.001, "{mix:?}");
}

#[test]
fn a_store_that_shrinks_keeps_its_balance_when_it_is_halved() {
    for (before, now, after) in
        [(100, 300, 200), (300, 100, 200), (7, 7, 7), (0, u64::MAX, 1 << 63)]
    {
        let mut sketch = Sketch::new(before);
        sketch.halve(now);
        assert_eq!(sketch.keys_before, after, "{before} keys, then {now}");
    }
}

#[test]
fn a_load_before_does_not_hide_the_skew_when_it_is_long_ago() {
    let keys = 200_000;
    for skew in [0.5, 0.99] {
        let mut sketch = loaded(keys);
        sketch.halve(keys);
        requests(&mut sketch, keys, skew, 600_000, Touch::Read);
        let found = skew_of(&sketch, keys);
        assert!((found - skew).abs() < 0.05, "{found}, not {skew}");
        for round in 0..8 {
            // Other numbers are drawn where the count is another one.
            requests(&mut sketch, keys, skew, 1_000_000 + round, Touch::Read);
            sketch.halve(keys);
        }
        let found = skew_of(&sketch, keys);
        assert!((found - skew).abs() < 0.05, "{found}, not {skew}, after halving");
        assert!(sketch.sample.miss_ratios().len() > 2);
    }
}

#[test]
fn nothing_seen_is_told() {
    assert_eq!(Sketch::new(5).workload(5).unwrap_err().kind(), ErrorKind::Config);
    let mut sketch = Sketch::new(0);
    sketch.call(&Call { get_misses: 1, ..Call::default() }, u64::MAX);
    sketch.call(&Call { get_misses: 7, ..Call::default() }, u64::MAX);
    sketch.workload(0).unwrap();
}

#[test]
fn a_sketch_survives_as_bytes() {
    let mut sketch = Sketch::new(17);
    requests(&mut sketch, 50_000, 0.8, 300_000, Touch::Read);
    requests(&mut sketch, 60_000, 0.8, 10_000, Touch::Write);
    sketch.put_bytes.add(77, 3);
    let bytes = sketch.encode();
    assert!(bytes.len() < 160 << 10, "{} bytes", bytes.len());
    let mut again = Sketch::decode(&bytes).unwrap();
    assert_eq!(again.encode(), bytes);
    assert_eq!(again.workload(50_000).unwrap(), sketch.workload(50_000).unwrap());
    // Both go on alike.
    requests(&mut again, 50_000, 0.8, 200_000, Touch::Read);
    requests(&mut sketch, 50_000, 0.8, 200_000, Touch::Read);
    assert_eq!(again.encode(), sketch.encode());
}

#[test]
fn damaged_bytes_are_refused_or_harmless() {
    let mut sketch = Sketch::new(17);
    requests(&mut sketch, 500, 0.8, 3_000, Touch::Read);
    let bytes = sketch.encode();
    for end in 0..bytes.len() {
        assert!(Sketch::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    assert!(Sketch::decode(&[&bytes[..], &[0]].concat()).is_err());
    let mut prng = Prng::new(5);
    for _ in 0..20_000 {
        let mut other = bytes.clone();
        let at = prng.below(other.len() as u64) as usize;
        other[at] = prng.next_u64() as u8;
        if let Ok(sketch) = Sketch::decode(&other) {
            // A wrong number is a wrong number, but never a panic.
            sketch.encode();
        }
    }
}
