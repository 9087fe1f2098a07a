//! DIDACache: the simulator, and the model beside it.

use silica_lab::model::{DidaCache, Popularity};
use silica_lab::simulate::{Counted, DidaSimulator, Requests, run_counted};

const KEYS: u64 = 40_000;

fn simulated(design: DidaCache, skew: f64, seed: u64) -> Counted {
    let mut simulator = DidaSimulator::new(design, KEYS as u32).unwrap();
    let mut requests = Requests::zipf(KEYS, skew, seed).unwrap();
    run_counted(&mut simulator, &mut requests, 10 * KEYS, 10 * KEYS, &mut |_, _| ()).unwrap()
}

/// A cache whose filled slabs have a share `spare` more than all keys.
fn cache(spare: f64, slab: f64, pace: f64) -> DidaCache {
    let (low, high) = (0.02, if pace.is_finite() { 0.1 } else { 0.03 });
    let flash = (KEYS as f64 / (1.0 - spare) / (1.0 - high) / slab).round() * slab;
    DidaCache { flash, slab, low, high, pace }.checked().unwrap()
}

#[test]
fn cleaned_slabs_are_as_predicted() {
    // How near slabs of 64 and of 256 entries are: with much skew small ones are not all alike.
    for (skew, within) in
        [(0.0, [0.01, 0.01]), (0.6, [0.015, 0.01]), (0.99, [0.06, 0.015]), (1.2, [0.15, 0.045])]
    {
        let popularity = Popularity::zipf(KEYS, skew).unwrap();
        for spare in [0.1, 0.2, 0.4] {
            for (slab, within) in [64.0, 256.0].into_iter().zip(within) {
                let design = cache(spare, slab, f64::INFINITY);
                let found = simulated(design, skew, 1);
                let model = design.cost(&popularity).unwrap();
                let away = model.writes.total() / found.cost.total() - 1.0;
                let what = format!("{skew} {spare} {slab}: {model:?} is not {found:?}");
                assert!(away.abs() < within, "{what}");
                assert_eq!((model.hits, found.hits), (1.0, Some(1.0)), "{what}");
                assert_eq!(model.dropped, 0.0);
            }
        }
    }
}

/// Where the collector has a pace, it copies as much as it can, and the hits go down.
#[test]
fn dropped_slabs_are_as_predicted() {
    for skew in [0.0, 0.6, 0.99, 1.2] {
        let popularity = Popularity::zipf(KEYS, skew).unwrap();
        // Keys that fit, and twice as many as there is room for.
        for spare in [0.2, -1.0] {
            for pace in [0.0, 0.3, 1.0] {
                let design = cache(spare, 128.0, pace);
                let found = simulated(design, skew, 1);
                let model = design.cost(&popularity).unwrap();
                let what = format!("{skew} {spare} {pace}: {model:?} is not {found:?}");
                let away = model.writes.total() / found.cost.total() - 1.0;
                assert!(away.abs() < 0.01, "{what}");
                assert!((model.hits - found.hits.unwrap()).abs() < 0.015, "{what}");
                assert!(model.dropped > 0.0 || pace == 1.0, "{what}");
            }
        }
    }
}

/// A collector that is fast enough for fewer slabs than the high watermark drops nothing.
#[test]
fn a_pace_between_the_watermarks_drops_nothing() {
    let design = DidaCache { low: 0.02, high: 0.2, pace: 1.2, ..cache(0.3, 128.0, 1.0) };
    let found = simulated(design, 0.0, 1);
    let model = design.cost(&Popularity::uniform(KEYS).unwrap()).unwrap();
    assert_eq!((model.hits, found.hits), (1.0, Some(1.0)), "{model:?} {found:?}");
    assert!((model.writes.total() / found.cost.total() - 1.0).abs() < 0.01, "{model:?} {found:?}");
    // Without a pace it keeps more slabs free, which costs more.
    let more = DidaCache { pace: f64::INFINITY, ..design };
    let total = more.cost(&Popularity::uniform(KEYS).unwrap()).unwrap().writes.total();
    assert!(total > 1.05 * model.writes.total(), "{total} {model:?}");
}

#[test]
fn what_no_cache_is_has_an_error_that_helps() {
    let good = cache(0.2, 64.0, 1.0);
    let wrong = |design: DidaCache, word: &str| {
        let error = design.checked().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert!(DidaSimulator::new(design, 10).is_err());
    };
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        wrong(DidaCache { flash: value, ..good }, "flash");
        wrong(DidaCache { slab: value, ..good }, "slab");
        wrong(DidaCache { low: value, ..good }, "watermark");
    }
    wrong(DidaCache { high: 0.01, ..good }, "watermark");
    wrong(DidaCache { high: 0.9999, ..good }, "watermark");
    wrong(DidaCache { slab: good.flash / 3.0, ..good }, "4 slabs");
    wrong(DidaCache { pace: -0.1, ..good }, "pace");
    wrong(DidaCache { pace: f64::NAN, ..good }, "pace");
    let full = cache(-1.0, 64.0, f64::INFINITY);
    let error = full.cost(&Popularity::uniform(KEYS).unwrap()).unwrap_err().to_string();
    assert!(error.contains("--pace"), "{error}");
    assert!(DidaSimulator::new(full, KEYS as u32).is_err());
    assert!(DidaSimulator::new(good, 0).is_err());
    // Few keys, and more slots than a simulation has numbers for.
    let one = good.cost(&Popularity::uniform(1).unwrap()).unwrap();
    assert!(one.writes.total().is_finite() && one.hits > 0.99, "{one:?}");
    assert!(DidaSimulator::new(DidaCache { flash: 1e12, ..good }, 10).is_err());
}

#[test]
fn small_caches_keep_going() {
    for (slots, slabs, keys, pace) in [
        (1, 4, 1, 0.5),
        (1, 6, 3, f64::INFINITY),
        (3, 4, 40, 0.7),
        (65, 5, 90, 2.0),
        (64, 9, 5, 0.0),
    ] {
        let (slab, flash) = (f64::from(slots), f64::from(slots * slabs));
        let design = DidaCache { flash, slab, low: 0.2, high: 0.45, pace };
        let mut simulator = DidaSimulator::new(design.checked().unwrap(), keys).unwrap();
        let mut requests = Requests::zipf(u64::from(keys), 0.5, 1).unwrap();
        let found = run_counted(&mut simulator, &mut requests, 0, 20_000, &mut |_, _| ()).unwrap();
        assert!(found.cost.total() <= 1.0 + pace.min(slab) + 0.01, "{slots} {slabs}: {found:?}");
        assert!(found.hits.unwrap() > 0.0, "{slots} {slabs}: {found:?}");
    }
}
