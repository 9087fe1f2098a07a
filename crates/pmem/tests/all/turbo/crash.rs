//! Power cuts, failing fences, little room and damage, in simulated regions.

use super::sim::{NAME, SimHarness};
use super::support::seed;
use silica_base::test_size;
use silica_device::region::Region;
use silica_device::sim::SimRegions;
use silica_engine::{Durability, Engine, EngineExt, WriteBatch};
use silica_testkit::{self as testkit, ExpiredSpace, Harness};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[test]
fn power_cuts_at_random() {
    let cuts = test_size(300, 3000, 100_000);
    let report = testkit::crash_random(&mut SimHarness::new(), seed(1), cuts);
    assert!(report.cuts_in_recovery > 10, "{report:?}");
    testkit::crash_random(&mut SimHarness::new().inline().set("shards", 1), seed(2), cuts);
}

#[test]
fn power_cuts_at_every_operation() {
    let (steps, stride) = (test_size(40, 100, 400), test_size(3, 1, 1));
    let mut harness = SimHarness::new().with(|w| w.crash_keys = 40);
    testkit::crash_every_op(&mut harness, seed(1), steps as usize, stride, 5 * stride);
}

#[test]
fn fences_that_fail() {
    let mut harness = SimHarness::new().with(|w| w.crash_keys = 40);
    let report = testkit::faults(&mut harness, seed(1), test_size(20, 60, 300) as usize);
    assert!(report.poisoned > 20, "{report:?}");
}

#[test]
fn damaged_regions() {
    let mut harness = SimHarness::new().with(|w| w.crash_keys = 60);
    let stride = test_size(301, 31, 1) as usize;
    let report = testkit::corruption(&mut harness, seed(1), 200, stride);
    let found = report.found_by_open + report.found_by_get + report.found_by_scan;
    let images = report.images;
    assert!(images > 100 && found > images / 2 && report.harmless > images / 8, "{report:?}");
}

#[test]
fn little_room() {
    let mut harness = SimHarness::new();
    let report = testkit::full_disk(&mut harness, seed(1), 1 << 20);
    println!("{report:?}");
    assert!(report.opens_when_full && report.deletes_make_room, "{report:?}");
    assert_eq!(report.deletes_refused, 0, "{report:?}");
}

#[test]
fn space_of_what_expires() {
    let mut harness = SimHarness::new();
    let clock = harness.clock.clone();
    let sizes = ExpiredSpace {
        keys: 2000,
        value_bytes: 100,
        percent: 200,
        busy_percent: 300,
        slack_bytes: 768 << 10,
        empty_bytes: 512 << 10,
    };
    testkit::expired_space(&mut harness, &clock, sizes);
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the store has, and what it will have if the write under way happens.
#[derive(Default)]
struct Expected {
    before: Model,
    after: Model,
    images: u64,
}

fn contents(engine: &impl Engine) -> Model {
    let (mut found, mut cursor) = (Model::new(), Some(0));
    while let Some(at) = cursor {
        let mut visit = |key: &[u8], entry: silica_engine::EntryRef<'_>| {
            found.insert(key.to_vec(), entry.value.to_vec());
        };
        cursor = engine.as_scan().expect("a scan").scan(at, 64, &mut visit).expect("scanned");
    }
    found
}

/// At every fence of puts, updates, deletes, batches, growth and clearing, everything that a power
/// cut may leave is opened: it has all of the write under way or nothing of it.
#[test]
fn every_image_of_a_crash_has_a_write_or_not() {
    let mut harness = SimHarness::new().set("shards", 2);
    let engine = harness.open().expect("it opens");
    let expected = Arc::new(Mutex::new(Expected::default()));
    let limit = test_size(12, 100, 1000) as usize;
    watch(&harness, expected.clone(), limit);
    let mut prng = silica_base::Prng::new(seed(1));
    for round in 0..test_size(150, 400, 8000) {
        let mut after = expected.lock().expect("locked").before.clone();
        let mut ops: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for _ in 0..[1, 1, 1, 4, 9][prng.below(5) as usize] {
            let mut key = prng.below(60).to_le_bytes().to_vec();
            key.truncate(if key[0].is_multiple_of(3) { 5 } else { 8 });
            let len = if prng.one_in(3) { 30 } else { 8 };
            let value = (!prng.one_in(4)).then(|| vec![round as u8; len]);
            ops.push((key, value));
        }
        let mut batch = WriteBatch::new();
        for (key, value) in &ops {
            match value {
                Some(value) => {
                    after.insert(key.clone(), value.clone());
                    batch.put(key, value)
                }
                None => {
                    after.remove(key);
                    batch.delete(key)
                }
            };
        }
        let clears = round % 50 == 49;
        if clears {
            after.clear();
        }
        expected.lock().expect("locked").after = after.clone();
        match clears {
            true => engine.as_admin().expect("an admin view").clear().expect("cleared"),
            false => engine.write(&batch, Durability::Synced).expect("written"),
        }
        expected.lock().expect("locked").before = after.clone();
        assert_eq!(contents(&engine), after, "round {round}");
        if round % 16 == 0 {
            engine.maintain(silica_engine::Budget::of(1 << 20)).expect("maintained");
        }
    }
    let images = expected.lock().expect("locked").images;
    println!("{images} images");
    let least = test_size(4000, 100_000, 5_000_000);
    assert!(images >= least, "{images} images of {least}");
}

/// Opens images of the harness's region at each fence.
fn watch(harness: &SimHarness, expected: Arc<Mutex<Expected>>, limit: usize) {
    let copy = SimHarness::new().set("shards", 2);
    let mut number = 0;
    harness.region().on_fence(move |region| {
        number += 1;
        let mut expected = expected.lock().expect("locked");
        for image in region.crash_images(limit, number) {
            expected.images += 1;
            let place = SimRegions::holding(NAME, image.region(), true);
            let opened = copy.open_in(&place);
            let engine = opened.unwrap_or_else(|e| panic!("fence {number}, {image}: {e}"));
            let found = contents(&engine);
            let is_right = found == expected.before || found == expected.after;
            assert!(is_right, "fence {number}, {image}: {found:?}");
            engine.verify().unwrap_or_else(|e| panic!("fence {number}, {image}: {e}"));
        }
    });
}

/// What was flushed needlessly, and what was not flushed: both cost, one of them data.
#[test]
fn flushes_are_neither_missing_nor_needless() {
    let mut harness = SimHarness::new();
    let engine = harness.open().expect("it opens");
    for n in 0..2000_u64 {
        let key = n.to_le_bytes();
        engine.put(&key, &key[..(n % 9) as usize], Durability::Synced).expect("put");
    }
    let unfenced = harness.region().unfenced_lines();
    assert!(unfenced.is_empty(), "{} lines", unfenced.len());
    let before = harness.region().counts();
    for n in 0..2000_u64 {
        engine.put(&n.to_le_bytes(), &1_u64.to_le_bytes(), Durability::Synced).expect("put");
    }
    let counts = harness.region().counts();
    let needless = counts.flushes_needless - before.flushes_needless;
    assert!(needless < 100, "{needless} needless flushes");
    let fences = counts.fences - before.fences;
    assert!((4000..4400).contains(&fences), "{fences} fences of 2000 updates");
    assert!(harness.region().len() < 1 << 20);
}
