//! What is put aside reads as if it were written, and is there as a whole or not at all.

use crate::Wip;
use silica_base::{HashSeed, Prng, test_size};
use silica_device::Device;
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_engine::{
    Durability, Engine, EngineExt, EntryIter, EntryRef, Environment, KeyRange, OptionValues,
    Ordered, Result, Snapshot, SnapshotExt, Staging,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(device: &SimDevice) -> Result<Arc<Wip<SimDevice>>> {
    let mut options = OptionValues::default();
    let limits = [
        ("memory_bytes", 512 << 10),
        ("segment_bytes", 64 << 10),
        ("inline_value_bytes_max", 200),
        ("value_log_segment_bytes", 16 << 10),
        ("first_buckets", 2),
    ];
    for (name, value) in limits {
        options.set(name, value);
    }
    let wip = Wip::open(device.clone(), &options, &Environment::new(HashSeed([1; 16])))?;
    Ok(Arc::new(wip))
}

fn walk(snapshot: Arc<dyn Snapshot>, range: &KeyRange, is_up: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = snapshot.iterate(range).expect("an iterator");
    let to = if is_up { iter.seek_to_first() } else { iter.seek_to_last() };
    let (mut found, mut is_there) = (Vec::new(), to.expect("a seek"));
    while is_there {
        found.push((iter.key().to_vec(), iter.entry().value.to_vec()));
        is_there = if is_up { iter.next() } else { iter.prev() }.expect("a step");
    }
    found
}

fn contents(wip: &Arc<Wip<SimDevice>>) -> Contents {
    let snapshot = Arc::clone(wip).snapshot().expect("a snapshot");
    walk(snapshot, &KeyRange::ALL, true).into_iter().collect()
}

/// Writes what a transaction holds of `writes`, sorted, as one layer.
fn put(staging: &mut dyn Staging, writes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<()> {
    staging.put(
        100,
        &mut writes.iter().map(|(key, value)| (&key[..], value.as_deref().map(EntryRef::new))),
    )
}

fn key(prng: &mut Prng) -> Vec<u8> {
    vec![prng.below(4) as u8, prng.below(30) as u8]
}

fn value(prng: &mut Prng) -> Vec<u8> {
    let len = if prng.one_in(10) { 300 + prng.below(300) } else { prng.below(60) };
    let mut bytes = vec![0; len as usize];
    prng.fill(&mut bytes);
    bytes
}

fn fill(wip: &Arc<Wip<SimDevice>>, prng: &mut Prng) {
    for n in 0..60 {
        let (key, value) = (key(prng), value(prng));
        wip.put(&key, &value, Durability::Buffered).expect("a put");
        if n == 30 {
            wip.flush(&wip.buckets().of(&key).clone()).expect("a flush");
        }
    }
    wip.sync().expect("a sync");
}

/// One layer, and what is seen then.
fn step(staging: &mut dyn Staging, prng: &mut Prng, model: &mut Contents) -> Result<()> {
    if prng.one_in(6) {
        let (one, other) = (key(prng), key(prng));
        let (lower, upper) = (one.clone().min(other.clone()), one.max(other));
        let upper = if prng.one_in(8) { None } else { Some(&upper[..]) };
        staging.delete_range(&lower, upper);
        model.retain(|key, _| **key < *lower || upper.is_some_and(|upper| **key >= *upper));
        return Ok(());
    }
    let mut writes = BTreeMap::new();
    // Some layers are all behind those before.
    let from = if prng.one_in(3) { prng.below(200) as u8 } else { 0 };
    for _ in 0..1 + prng.below(12) {
        let mut key = key(prng);
        key[0] = key[0].max(from);
        let write = (!prng.one_in(4)).then(|| value(prng));
        writes.insert(key, write);
    }
    put(staging, &writes)?;
    for (key, write) in writes {
        match write {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
    Ok(())
}

/// Reads a view in all ways, and compares it with what is to be seen.
fn check(view: &Arc<dyn Snapshot>, model: &Contents, prng: &mut Prng) {
    for _ in 0..6 {
        let key = key(prng);
        let found = view.get_with(&key, |entry| entry.map(|entry| entry.value.to_vec()));
        assert_eq!(found.expect("a get"), model.get(&key).cloned(), "{key:?}");
    }
    let range = match prng.below(3) {
        0 => KeyRange::ALL,
        _ => {
            let (one, other) = (key(prng), key(prng));
            KeyRange::new(one.clone().min(other.clone()), one.max(other))
        }
    };
    let mut all: Vec<_> = model.iter().filter(|(key, _)| range.contains(key)).collect();
    let pairs = |all: &[(&Vec<u8>, &Vec<u8>)]| -> Vec<(Vec<u8>, Vec<u8>)> {
        all.iter().map(|(key, value)| ((*key).clone(), (*value).clone())).collect()
    };
    assert_eq!(walk(Arc::clone(view), &range, true), pairs(&all));
    let mut iter = Arc::clone(view).iterate(&range).expect("an iterator");
    aim(&mut *iter, &all, prng);
    all.reverse();
    assert_eq!(walk(Arc::clone(view), &range, false), pairs(&all));
}

/// Seeks and steps to and fro.
fn aim(iter: &mut dyn EntryIter, all: &[(&Vec<u8>, &Vec<u8>)], prng: &mut Prng) {
    for _ in 0..6 {
        let target = key(prng);
        let mut at = if prng.one_in(2) {
            let at = all.iter().position(|(key, _)| **key >= target);
            assert_eq!(iter.seek(&target).expect("a seek"), at.is_some(), "{target:?}");
            at
        } else {
            let at = all.iter().rposition(|(key, _)| **key <= target);
            assert_eq!(iter.seek_for_prev(&target).expect("a seek"), at.is_some(), "{target:?}");
            at
        };
        for _ in 0..prng.below(6) {
            let Some(here) = at else { break };
            assert_eq!((iter.key(), iter.entry().value), (&all[here].0[..], &all[here].1[..]));
            let is_up = prng.one_in(2);
            at = if is_up {
                Some(here + 1).filter(|at| *at < all.len())
            } else {
                here.checked_sub(1)
            };
            let is_there = if is_up { iter.next() } else { iter.prev() }.expect("a step");
            assert_eq!(is_there, at.is_some());
        }
    }
}

fn files(device: &SimDevice) -> usize {
    device.list().expect("names").len()
}

#[test]
fn what_is_put_aside_is_seen_taken_back_and_committed() {
    for seed in 0..test_size(12, 60, 3_000) {
        let mut prng = Prng::new(seed);
        let device = SimDevice::new(seed, SimOptions::default());
        let wip = open(&device).expect("it opens");
        fill(&wip, &mut prng);
        let mut before = contents(&wip);
        for round in 0..3 {
            let below = Arc::clone(&wip).snapshot().expect("a snapshot");
            let mut staging = Arc::clone(&wip).staging().expect("it has layers");
            let mut model = before.clone();
            let mut marks: Vec<(usize, Contents)> = Vec::new();
            for _ in 0..prng.below(40) {
                match prng.below(12) {
                    0 => {
                        staging.protect(staging.layers());
                        marks.push((staging.layers(), model.clone()));
                    }
                    1 if !marks.is_empty() => {
                        marks.truncate(1 + prng.below(marks.len() as u64) as usize);
                        let (layers, then) = marks.last().expect("one is left").clone();
                        staging.protect(layers);
                        staging.roll_back_to(layers);
                        model = then;
                    }
                    2 => {
                        marks.pop();
                        staging.protect(marks.last().map_or(0, |(layers, _)| *layers));
                    }
                    _ => step(&mut *staging, &mut prng, &mut model).expect("a layer"),
                }
                check(&staging.over(Arc::clone(&below)), &model, &mut prng);
            }
            if round == 1 {
                // Others see nothing of it, and it is gone.
                drop(staging);
                assert_eq!(contents(&wip), before, "seed {seed}");
                continue;
            }
            let held = staging.over(Arc::clone(&below));
            staging.commit().expect("a commit");
            assert_eq!(contents(&wip), model, "seed {seed}");
            check(&held, &model, &mut prng);
            check(&below, &before, &mut prng);
            before = model;
        }
        Ordered::compact_range(&*wip, &KeyRange::ALL).expect("a compaction");
        assert_eq!(contents(&wip), before, "seed {seed}");
        wip.verify().expect("all of it checks");
        drop(wip);
        let wip = open(&device.reopen()).expect("it opens again");
        assert_eq!(contents(&wip), before, "seed {seed}");
    }
}

#[test]
fn what_is_dropped_leaves_no_file() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device).expect("it opens");
    let mut prng = Prng::new(1);
    fill(&wip, &mut prng);
    let before = files(&device);
    let mut staging = Arc::clone(&wip).staging().expect("it has layers");
    // Small values: a segment of the value log stays until it is reclaimed.
    for n in 0..40u8 {
        let writes = (0..20u8).map(|m| (vec![n % 3, m], Some(vec![n; 40]))).collect();
        put(&mut *staging, &writes).expect("a layer");
    }
    assert!(files(&device) > before);
    assert!(staging.layers() < 20, "{} layers", staging.layers());
    drop(staging);
    assert_eq!(files(&device), before);
}

#[test]
fn layers_in_order_are_one_run_and_written_once() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device).expect("it opens");
    let mut staging = Arc::clone(&wip).staging().expect("it has layers");
    for n in 0..50u8 {
        let writes = (0..20u8).map(|m| (vec![n, m], Some(vec![m; 40]))).collect();
        put(&mut *staging, &writes).expect("a layer");
    }
    assert_eq!(staging.layers(), 1);
    staging.commit().expect("a commit");
    assert_eq!(contents(&wip).len(), 1000);
}

/// A few transactions that put aside; the states between them.
fn script(wip: &Arc<Wip<SimDevice>>, seed: u64, states: &mut Vec<Contents>) -> Result<()> {
    let mut prng = Prng::new(seed);
    for _ in 0..2 {
        let mut model = states.last().expect("the first state").clone();
        let mut staging = Arc::clone(wip).staging().expect("it has layers");
        for _ in 0..12 {
            step(&mut *staging, &mut prng, &mut model)?;
        }
        // It may be there though the call fails.
        states.push(model);
        staging.commit()?;
    }
    Ok(())
}

#[test]
fn a_power_cut_at_every_operation_leaves_all_of_a_commit_or_nothing() {
    let mut ends = [0; 3];
    for seed in 0..test_size(1, 3, 100) {
        for at in 1.. {
            let device = SimDevice::new(seed * 1000 + at, SimOptions::default());
            let wip = open(&device).expect("it opens");
            fill(&wip, &mut Prng::new(seed));
            let mut states = vec![contents(&wip)];
            device.cut_at_op(device.op_count() + at);
            let done = script(&wip, seed, &mut states);
            let was_cut = device.is_cut();
            drop(wip);
            device.power_cut();
            let wip = open(&device.reopen()).expect("it always opens");
            let found = contents(&wip);
            let state = states.iter().position(|state| *state == found);
            let state = state.unwrap_or_else(|| panic!("seed {seed}, cut {at}: a part of it"));
            // What is acknowledged is durable.
            let acknowledged = states.len() - 1 - usize::from(done.is_err() && states.len() > 1);
            assert!(state >= acknowledged, "seed {seed}, cut {at}: it was lost");
            ends[state] += 1;
            wip.verify().expect("all of it checks");
            if !was_cut {
                break;
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
}

#[test]
fn after_a_fault_all_of_a_commit_is_there_or_nothing() {
    for kind in [FaultKind::Eio, FaultKind::FailedSync] {
        let mut failed = 0;
        for at in 1.. {
            let device = SimDevice::new(at, SimOptions::default());
            let wip = open(&device).expect("it opens");
            fill(&wip, &mut Prng::new(3));
            let mut states = vec![contents(&wip)];
            device.fail_at(kind, at);
            let done = script(&wip, 3, &mut states);
            device.clear_faults();
            failed += u32::from(done.is_err());
            drop(wip);
            let wip = open(&device.reopen()).expect("it opens again");
            let found = contents(&wip);
            assert!(states.contains(&found), "{kind:?} {at}: a part of it");
            wip.verify().expect("all of it checks");
            if done.is_ok() {
                assert_eq!(Some(&found), states.last());
                break;
            }
        }
        assert!(failed > 3, "{failed} failed");
    }
}
