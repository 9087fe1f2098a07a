//! Batches that delete ranges, cut at every operation of the device: each batch is there whole, or
//! not at all.

use super::harness::DeviceHarness;
use silica_base::Prng;
use silica_engine::{Budget, Durability, Engine, KeyRange, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

enum Change {
    Put(Vec<u8>, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

fn key(prng: &mut Prng) -> Vec<u8> {
    format!("key {:03}", prng.below(200)).into_bytes()
}

/// Batches, and what a store has after each of them.
fn script(seed: u64, batches: u64) -> Vec<(Vec<Change>, Map)> {
    let (mut prng, mut map, mut script) = (Prng::new(seed), Map::new(), Vec::new());
    for number in 0..batches {
        let mut batch = Vec::new();
        for n in 0..1 + prng.below(12) {
            let change = if prng.one_in(5) {
                let lower = key(&mut prng);
                let upper = [&lower[..], b"~"].concat().max(key(&mut prng));
                Change::DeleteRange(lower, upper)
            } else {
                Change::Put(key(&mut prng), format!("{number}.{n} {:60}", "").into_bytes())
            };
            match &change {
                Change::Put(key, value) => drop(map.insert(key.clone(), value.clone())),
                Change::DeleteRange(lower, upper) => {
                    map.retain(|key, _| key < lower || key >= upper);
                }
            }
            batch.push(change);
        }
        script.push((batch, map.clone()));
    }
    script
}

/// Writes the batches of a script, synced, until one fails; how many did not.
fn play(engine: &impl Engine, script: &[(Vec<Change>, Map)]) -> usize {
    for (done, (changes, _)) in script.iter().enumerate() {
        let mut batch = WriteBatch::new();
        for change in changes {
            match change {
                Change::Put(key, value) => batch.put(key, value),
                Change::DeleteRange(lower, upper) => batch.delete_range(lower, Some(upper)),
            };
        }
        let maintained = engine.maintain(Budget::of(8 << 10));
        if maintained.is_err() || engine.write(&batch, Durability::Synced).is_err() {
            return done;
        }
    }
    script.len()
}

fn contents<E: Engine + 'static>(engine: &Arc<E>) -> Map {
    let ordered = Arc::clone(engine).as_ordered().expect("the engine keeps an order");
    let snapshot = ordered.snapshot().expect("a snapshot");
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    let (mut map, mut is_there) = (Map::new(), iter.seek_to_first().expect("a seek"));
    while is_there {
        map.insert(iter.key().to_vec(), iter.entry().value.to_vec());
        is_there = iter.next().expect("a step");
    }
    map
}

/// Writes `batches` batches and cuts the power at each `stride`th operation of the device; how
/// many cuts there were.
///
/// # Panics
///
/// If a store is in a state after a cut that no number of whole batches leaves, or has lost one
/// that was acknowledged.
pub fn crash_ranges<H: DeviceHarness>(
    harness: &mut H,
    seed: u64,
    batches: u64,
    stride: usize,
) -> u64
where
    H::Engine: 'static,
{
    let script = script(seed, batches);
    let empty = Map::new();
    let after = |count: usize| if count == 0 { &empty } else { &script[count - 1].1 };
    harness.wipe();
    let engine = Arc::new(harness.open().expect("an empty store opens"));
    let begin = harness.op_count();
    assert_eq!(play(&*engine, &script), script.len(), "batches that were written without a cut");
    assert_eq!(&contents(&engine), after(script.len()), "entries without a cut");
    let operations = harness.op_count() - begin;
    let mut cuts = 0;
    for at in (0..operations).step_by(stride) {
        harness.wipe();
        let engine = harness.open().expect("an empty store opens");
        harness.cut_at_op(harness.op_count() + at);
        let done = play(&engine, &script);
        cuts += u64::from(harness.power_is_off());
        // What its end does is done without power.
        drop(engine);
        harness.power_cut(seed + at);
        let engine = Arc::new(harness.open().expect("a store opens after a cut"));
        let found = contents(&engine);
        let is_whole = &found == after(done) || done < script.len() && &found == after(done + 1);
        assert!(is_whole, "crash_ranges(harness, {seed}, {batches}): cut at {at}, {done} batches");
        engine.verify().expect("a sound store");
    }
    cuts
}
