//! Every outcome of a crash at every fence: it has all of the write under way or nothing of it.

use super::harness::{Tree, TreeHarness, seed};
use silica_base::{Prng, test_size};
use silica_device::region::Region;
use silica_device::sim::{SimRegion, SimRegions};
use silica_engine::{Admin, Budget, Durability, Engine, EntryRef, Scan, WriteBatch};
use silica_testkit::Harness;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const NOW: Durability = Durability::Buffered;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the store has, and what it will have if the write under way happens.
#[derive(Default)]
struct Expected {
    before: Model,
    after: Model,
    images: u64,
}

fn contents(tree: &Tree, how: &str) -> Model {
    let (mut found, mut cursor) = (Model::new(), Some(0));
    while let Some(at) = cursor {
        let mut visit = |key: &[u8], entry: EntryRef<'_>| {
            found.insert(key.to_vec(), entry.value.to_vec());
        };
        cursor = tree.scan(at, 64, &mut visit).unwrap_or_else(|e| panic!("{how}: {e}"));
    }
    found
}

fn harness(options: &[(&str, u64)]) -> TreeHarness {
    let harness = TreeHarness::new(320 << 10).set("memory_bytes", 4 << 20);
    options.iter().fold(harness, |harness, (name, value)| harness.set(name, *value))
}

/// Opens images of the harness's region at each fence.
fn watch(
    tree: &TreeHarness,
    options: &[(&str, u64)],
    expected: Arc<Mutex<Expected>>,
    limit: usize,
) {
    let (copy, options) = (harness(options), format!("{options:?}"));
    let mut number = 0;
    tree.place.region().on_fence(move |region| {
        number += 1;
        let mut expected = expected.lock().expect("locked");
        for image in region.crash_images(limit, number) {
            expected.images += 1;
            let place = SimRegions::holding("sptree", image.region(), true);
            let opened = copy.open_in(&place);
            let tree = opened.unwrap_or_else(|e| panic!("fence {number}, {image}: {e}"));
            let how = format!("{options}, fence {number}, {image}");
            let found = contents(&tree, &how);
            let is_right = found == expected.before || found == expected.after;
            assert!(is_right, "fence {number}, {image}: {found:?}");
            tree.verify().unwrap_or_else(|e| panic!("fence {number}, {image}: {e}"));
            let counted = tree.count(true).expect("a count").estimate;
            assert_eq!(counted, found.len() as u64, "fence {number}, {image}");
        }
    });
}

/// Puts, updates, deletes, batches and clearing of few keys that lie beside each other, so that
/// leaves split and merge.
fn run(options: &[(&str, u64)], rounds: u64, limit: usize, seed: u64) -> u64 {
    let mut harness = harness(options);
    let tree = harness.open().expect("it opens");
    let expected = Arc::new(Mutex::new(Expected::default()));
    watch(&harness, options, expected.clone(), limit);
    let mut prng = Prng::new(seed);
    for round in 0..rounds {
        let mut after = expected.lock().expect("locked").before.clone();
        // The store fills for a while and then empties.
        let deletes = if round / 100 % 2 == 0 { 10 } else { 2 };
        let mut ops: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for _ in 0..[1, 1, 1, 1, 1, 4, 9][prng.below(7) as usize] {
            let mut key = prng.below(120).to_be_bytes().to_vec();
            if key[7].is_multiple_of(5) {
                key.extend_from_slice(b" and more");
            }
            let len = if prng.one_in(4) { 30 } else { 8 };
            ops.push((key, (!prng.one_in(deletes)).then(|| vec![round as u8; len])));
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
        let clears = round % 250 == 249;
        if clears {
            after.clear();
        }
        expected.lock().expect("locked").after = after.clone();
        match clears {
            true => tree.clear().expect("cleared"),
            false => tree.write(&batch, NOW).expect("written"),
        }
        expected.lock().expect("locked").before = after.clone();
        if round % 16 == 0 {
            assert!(contents(&tree, "now") == after, "round {round}");
            tree.maintain(Budget::of(1 << 20)).expect("maintained");
        }
    }
    expected.lock().expect("locked").images
}

#[test]
fn every_image_of_a_crash_has_a_write_or_not() {
    let (rounds, limit) = (test_size(150, 450, 10_000), test_size(12, 24, 1000) as usize);
    let schemes: [&[(&str, u64)]; 3] =
        [&[], &[("buffers", 100)], &[("buffers", 100), ("merge", 1)]];
    let mut images = 0;
    for (number, options) in schemes.into_iter().enumerate() {
        images += run(options, rounds, limit, seed(number as u64 + 1));
    }
    println!("{images} images");
    let least = test_size(5_000, 40_000, 5_000_000);
    assert!(images >= least, "{images} images of {least}");
}

/// A region whose opening fails after it was found sound stays settled: damage is told from what a
/// power cut leaves by the next opening, too.
#[test]
fn a_refused_opening_leaves_a_settled_region_settled() {
    let mut harness = harness(&[("buffers", 100)]);
    let tree = harness.open().expect("it opens");
    (0..100_u64).for_each(|n| super::crash::put(&tree, n, &n.to_le_bytes()));
    tree.close(&mut |_, _| ()).expect("closed");
    let before: SimRegion = harness.place.region();
    let mut image = vec![0; before.len() as usize];
    before.read(0, &mut image);
    let root = silica_pmem::space::ROOT as usize;
    for damaged in [root + 9, root + 33, root + 65] {
        let region = before.fork(1);
        region.poke(damaged as u64, &[image[damaged] ^ 1]);
        let harness = TreeHarness { place: harness.place.with(region), ..TreeHarness::new(1) };
        harness.open_tree().err().expect("it is refused");
        assert_eq!(harness.place.region().load(64) & 0xFF, 1, "byte {damaged}: it is in use");
    }
}
