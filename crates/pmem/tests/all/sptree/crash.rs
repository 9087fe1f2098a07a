//! Power cuts, full regions and damage.

use super::harness::{Tree, TreeHarness, seed};
use silica_base::{Clock, ErrorKind, Prng, test_size};
use silica_device::region::{Region, RegionClass};
use silica_device::sim::{SimRegion, SimRegions};
use silica_engine::{
    Admin, Atomic, Budget, Durability, Engine, EngineExt, EntryRef, MetricsMap, Update, WriteBatch,
};
use silica_testkit::{self as testkit, DeviceHarness, Harness};
use std::collections::BTreeMap;

const NOW: Durability = Durability::Buffered;

fn tree() -> TreeHarness {
    TreeHarness::new(4 << 20)
}

/// So many keys that leaves split and merge all the time.
fn busy() -> TreeHarness {
    TreeHarness::new(8 << 20).with(|w| (w.crash_keys, w.key_bytes_max) = (500, 12))
}

#[test]
fn power_cuts_at_random_points() {
    let cuts = test_size(60, 200, 100_000);
    testkit::crash_random(&mut tree(), seed(1), cuts);
    let report = testkit::crash_random(&mut busy(), seed(2), cuts);
    assert!(report.cuts_in_recovery > 0, "{report:?}");
}

#[test]
fn power_cuts_at_every_operation() {
    testkit::crash_every_op(&mut tree(), seed(1), test_size(6, 10, 400) as usize, 3, 11);
}

/// Buffered writes, too, are durable when they return: they survive in whatever order.
#[test]
fn what_was_acknowledged_is_there_and_what_was_not_is_whole() {
    let mut prng = Prng::new(seed(3));
    let mut harness = TreeHarness::new(4 << 20);
    harness.wipe();
    let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for round in 0..test_size(20, 60, 10_000) {
        let tree = harness.open().expect("it opens");
        for (n, value) in &model {
            let read = tree.get(&n.to_be_bytes()).expect("a get");
            assert_eq!(read.as_ref(), Some(value), "round {round}, key {n}");
        }
        assert_eq!(tree.count(true).unwrap().estimate, model.len() as u64, "round {round}");
        harness.cut_at_op(harness.op_count() + prng.below(3_000));
        loop {
            let n = prng.below(400);
            let value = vec![round as u8; if prng.one_in(2) { 8 } else { 30 }];
            let is_put = !prng.one_in(3);
            let done = match is_put {
                true => tree.put(&n.to_be_bytes(), &value, NOW),
                false => tree.delete(&n.to_be_bytes(), NOW),
            };
            if done.is_err() {
                drop(tree);
                harness.power_cut(round);
                // What was under way is there as a whole or not at all.
                let tree = harness.open().expect("it opens");
                match tree.get(&n.to_be_bytes()).expect("a get") {
                    read if read.as_ref() == model.get(&n) => {}
                    Some(read) if is_put && read == value => drop(model.insert(n, value)),
                    None if !is_put => drop(model.remove(&n)),
                    read => panic!("round {round}: key {n} is {read:?}"),
                }
                break;
            }
            match is_put {
                true => drop(model.insert(n, value)),
                false => drop(model.remove(&n)),
            }
        }
    }
}

pub(super) fn metric(tree: &Tree, name: &str) -> f64 {
    let mut map = MetricsMap::default();
    tree.metrics(&mut map);
    map.get(name)
}

pub(super) fn put(tree: &Tree, n: u64, value: &[u8]) {
    tree.put(&n.to_be_bytes(), value, NOW).expect("a put");
}

fn with(harness: &TreeHarness, place: crate::support::Fixed) -> TreeHarness {
    let options = harness.options.clone();
    TreeHarness { place, options, ..TreeHarness::new(harness.bytes) }
}

/// Cuts the power at every operation of one change, in several ways each, and opens what is left.
pub(super) fn cut_everywhere(
    harness: &TreeHarness,
    change: impl Fn(&Tree),
    check: impl Fn(&Tree, bool, &str),
) -> u64 {
    let mut images = 0;
    let before = harness.place.region();
    let ops = {
        let place = harness.place.with(before.fork(0));
        let harness = with(harness, place);
        let tree = harness.open_tree().expect("it opens");
        while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
        let start = harness.place.region().op_count();
        change(&tree);
        check(&tree, true, "without a cut");
        harness.place.region().op_count() - start
    };
    let ways = test_size(1, 2, 100);
    let stride = (ops / test_size(30, 100, 100_000)).max(1) as usize;
    for op in (0..=ops).step_by(stride) {
        for way in 0..ways {
            let place = harness.place.with(before.fork(op * ways + way));
            let mut harness = with(harness, place);
            let tree = harness.open_tree().expect("it opens");
            while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
            let region = harness.place.region();
            region.cut_at_op(region.op_count() + op);
            change(&tree);
            drop(tree);
            harness.power_cut(way);
            let how = format!("cut at {op} of {ops}, way {way}");
            let tree = harness.open_tree().unwrap_or_else(|e| panic!("{how}: {e}"));
            tree.verify().unwrap_or_else(|e| panic!("{how}: {e}"));
            check(&tree, false, &how);
            while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
            tree.put(b"after", b"it", NOW).expect("a put afterwards");
            tree.verify().unwrap_or_else(|e| panic!("{how}, later: {e}"));
            images += 1;
        }
    }
    images
}

fn filled(keys: impl Iterator<Item = u64>) -> TreeHarness {
    let mut harness = TreeHarness::new(2 << 20);
    let tree = harness.open().expect("it opens");
    keys.for_each(|n| put(&tree, n, &n.to_le_bytes()));
    tree.close(&mut |_, _| ()).expect("closed");
    drop(tree);
    harness
}

pub(super) fn has_all(tree: &Tree, keys: impl Iterator<Item = u64>, how: &str) {
    for n in keys {
        let value = tree.get(&n.to_be_bytes()).expect("a get");
        assert_eq!(value.as_deref(), Some(&n.to_le_bytes()[..]), "key {n}: {how}");
    }
}

#[test]
fn a_split_is_whole_or_not_there_wherever_the_power_fails() {
    let harness = filled((0..63).map(|n| 2 * n));
    let images = cut_everywhere(
        &harness,
        |tree| drop(tree.put(&31_u64.to_be_bytes(), &31_u64.to_le_bytes(), NOW)),
        |tree, is_done, how| {
            has_all(tree, (0..63).map(|n| 2 * n), how);
            let new = tree.get(&31_u64.to_be_bytes()).expect("a get");
            assert!(new.is_none_or(|value| value == 31_u64.to_le_bytes()), "{how}");
            assert!(!is_done || metric(tree, "leaf_splits") == 1.0, "the put splits a leaf");
        },
    );
    assert!(images > 20, "{images}");
}

#[test]
fn a_merge_loses_nothing_wherever_the_power_fails() {
    let harness = filled((0..63).chain([1000, 1001, 1002]));
    let last = (16..63).map(u64::to_be_bytes).collect::<Vec<_>>();
    {
        let tree = harness.open_tree().expect("it opens");
        last[1..].iter().for_each(|key| tree.delete(key, NOW).expect("a delete"));
        assert_eq!(metric(&tree, "leaves"), 2.0);
    }
    cut_everywhere(
        &harness,
        |tree| drop(tree.delete(&last[0], NOW)),
        |tree, is_done, how| {
            has_all(tree, (0..16).chain([1000, 1001, 1002]), how);
            assert!(!is_done || metric(tree, "leaf_merges") == 1.0, "the delete merges leaves");
        },
    );
}

#[test]
fn a_batch_over_several_leaves_is_whole_or_not_there() {
    let harness = filled((0..200).map(|n| 10 * n));
    cut_everywhere(
        &harness,
        |tree| {
            let keys: Vec<[u8; 8]> = (0..80_u64).map(|n| (n * 25 + 1).to_be_bytes()).collect();
            let mut batch = WriteBatch::new();
            for key in &keys {
                batch.put(key, b"a value that lies beside the leaf");
            }
            let gone = 0_u64.to_be_bytes();
            batch.delete(&gone);
            let _ = tree.write(&batch, NOW);
        },
        |tree, is_done, how| {
            has_all(tree, (1..200).map(|n| 10 * n), how);
            let new = (0..80_u64)
                .filter(|n| tree.get(&(n * 25 + 1).to_be_bytes()).expect("a get").is_some());
            let (new, old) = (new.count(), tree.get(&0_u64.to_be_bytes()).expect("a get"));
            assert!(
                (new, old.is_some()) == (80, false) || (new, old.is_some()) == (0, true),
                "{how}"
            );
            assert!(!is_done || new == 80);
        },
    );
}

#[test]
fn a_clear_is_whole_or_not_there() {
    let harness = filled(0..150);
    cut_everywhere(
        &harness,
        |tree| {
            let _ = tree.clear();
        },
        |tree, is_done, how| {
            let there = (0..150_u64).filter(|n| tree.get(&n.to_be_bytes()).unwrap().is_some());
            let there = there.count();
            assert!(there == 150 || there == 0, "{there} {how}");
            assert!(!is_done || there == 0);
        },
    );
}

#[test]
fn a_full_region_loses_nothing_and_deletes_make_room() {
    let mut harness = TreeHarness::new(1 << 20).set("memory_bytes", 1 << 20);
    let tree = harness.open().expect("it opens");
    let value = |n: u64| vec![n as u8; 300];
    let (mut count, error) = (0, loop_until_full(&tree, value));
    let (written, error) = (error.0, error.1);
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("raise memory_bytes"), "{error}");
    // A batch that does not fit changes nothing.
    let mut batch = WriteBatch::new();
    let (large, first) = (vec![1; 100_000], 0_u64.to_be_bytes());
    batch.put(&first, b"changed").put(b"more", &large);
    assert_eq!(tree.write(&batch, NOW).unwrap_err().kind(), ErrorKind::Full);
    tree.verify().expect("verified");
    drop(tree);
    let tree = harness.open().expect("a full store opens");
    for n in 0..written {
        assert_eq!(tree.get(&n.to_be_bytes()).unwrap(), Some(value(n)), "key {n}");
        count += 1;
    }
    assert_eq!(tree.count(true).unwrap().estimate, count);
    while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
    (0..written / 2).for_each(|n| tree.delete(&n.to_be_bytes(), NOW).expect("a delete"));
    (0..written / 4).for_each(|n| put(&tree, n, &value(n)));
    tree.verify().expect("verified");
}

#[test]
fn a_full_region_takes_deletes_of_many_keys_at_a_time() {
    let mut harness = TreeHarness::new(16 << 20).set("memory_bytes", 16 << 20);
    let tree = harness.open().expect("it opens");
    let key = |n: u64| format!("k{n}").into_bytes();
    let count = (0_u64..).take_while(|n| tree.put(&key(*n), &[7; 100], NOW).is_ok()).count();
    let keys: Vec<Vec<u8>> = (0..count as u64).map(key).collect();
    let mut keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    while !keys.is_empty() {
        let done = tree.update_many(&keys, NOW, &mut |_, _| Update::Delete).expect("deletes");
        keys.drain(..done);
    }
    assert_eq!(tree.count(true).unwrap().estimate, 0);
    tree.verify().expect("verified");
}

fn loop_until_full(tree: &Tree, value: impl Fn(u64) -> Vec<u8>) -> (u64, silica_base::Error) {
    for n in 0_u64.. {
        if let Err(error) = tree.put(&n.to_be_bytes(), &value(n), NOW) {
            return (n, error);
        }
    }
    unreachable!("a region is full at last")
}

/// Keys and values.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A settled store with entries of all kinds.
fn settled() -> (TreeHarness, Entries) {
    let mut harness = TreeHarness::new(512 << 10);
    let tree = harness.open().expect("it opens");
    let mut entries = Vec::new();
    for n in 0..150_u64 {
        let key = match n % 3 {
            0 => n.to_be_bytes().to_vec(),
            1 => format!("k{n}").into_bytes(),
            _ => format!("a longer key with number {n:05}").into_bytes(),
        };
        let value = match n % 4 {
            0 => n.to_le_bytes().to_vec(),
            1 => Vec::new(),
            _ => vec![n as u8; 20 + n as usize],
        };
        let expires_unix_ms = if n % 7 == 0 { harness.clock.unix_ms() + 1_000_000 } else { 0 };
        let entry = EntryRef { value: &value, expires_unix_ms, user_bits: n as u32 % 2 };
        tree.write(WriteBatch::new().put_entry(&key, entry), NOW).expect("a put");
        entries.push((key, value));
    }
    tree.verify().expect("verified");
    tree.close(&mut |_, _| ()).expect("closed");
    assert_eq!(tree.put(b"k", b"v", NOW).unwrap_err().kind(), ErrorKind::Closed);
    (harness, entries)
}

#[test]
fn every_flipped_byte_of_a_settled_region_is_found_or_harmless() {
    let (harness, entries) = settled();
    let before = harness.place.region();
    let mut image = vec![0; before.len() as usize];
    before.read(0, &mut image);
    let mut prng = Prng::new(seed(1));
    let (mut found, mut harmless) = (0, 0);
    let stride = test_size(97, 7, 1);
    let mut at = prng.below(stride);
    while at < before.len() {
        let mask = 1 << prng.below(8);
        let region = before.fork(at);
        region.poke(at, &[image[at as usize] ^ mask]);
        let harness =
            TreeHarness { place: harness.place.with(region), ..TreeHarness::new(1 << 20) };
        let is_found = judge(&harness, &entries, at);
        found += u64::from(is_found);
        harmless += u64::from(!is_found);
        // Bytes amid zeroes are flipped more rarely.
        let around = &image[at as usize..(at as usize + 64).min(image.len())];
        at += if around.iter().all(|byte| *byte == 0) { 16 * stride } else { stride };
    }
    assert!(found > 50 && harmless > 0, "{found} found, {harmless} harmless");
}

/// True if damage was found; panics if it was believed.
fn judge(harness: &TreeHarness, entries: &[(Vec<u8>, Vec<u8>)], at: u64) -> bool {
    let Ok(tree) = harness.open_tree() else { return true };
    let mut is_found = false;
    for (key, value) in entries {
        match tree.get(key) {
            Ok(read) => {
                assert_eq!(read.as_ref(), Some(value), "byte {at} was believed, key {key:?}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                is_found = true;
            }
        }
    }
    let is_sound = tree.verify().is_ok();
    assert!(!(is_found && is_sound), "verification misses byte {at}, which a get finds");
    is_found || !is_sound
}

#[test]
fn what_is_no_tree_of_this_release_is_refused_in_words() {
    let (harness, _) = settled();
    let before = harness.place.region();
    let refused = |change: &dyn Fn(&SimRegion), says: &str| {
        let region = before.fork(1);
        change(&region);
        let harness =
            TreeHarness { place: harness.place.with(region), ..TreeHarness::new(1 << 20) };
        let error = harness.open_tree().err().expect("it is refused");
        assert!(error.to_string().contains(says), "{error}");
    };
    let root = silica_pmem::space::ROOT;
    refused(&|region| region.poke(root + 4, &[9]), "use the newer release");
    refused(&|region| region.poke(root + 9, &[9]), "does not match its checksum");
    refused(&|region| region.poke(4, &[9]), "use the newer release");
    refused(&|region| region.poke(0, b"what"), "does not begin as a region");
    let short = SimRegion::new(1, before.len() / 2, RegionClass::Lines);
    let mut image = vec![0; short.len() as usize];
    before.read(0, &mut image);
    short.poke(0, &image);
    let harness = TreeHarness { place: harness.place.with(short), ..TreeHarness::new(1 << 20) };
    let error = harness.open_tree().err().expect("a region that was cut is refused");
    assert!(error.to_string().contains("it was cut"), "{error}");
}

#[test]
fn a_region_that_does_not_survive_a_power_cut_refuses_synced_writes() {
    let mut harness = TreeHarness::new(1 << 20);
    harness.place.class = RegionClass::Process;
    let tree = harness.open().expect("it opens");
    let error = tree.put(b"k", b"v", Durability::Synced).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("write buffered"), "{error}");
    assert_eq!(tree.sync().unwrap_err().kind(), ErrorKind::Unsupported);
    tree.put(b"k", b"v", NOW).expect("a buffered put");
    assert!(!tree.descriptor().capabilities.synced);
    drop(tree);
    let tree = harness.open().expect("it opens again");
    assert_eq!(tree.get(b"k").unwrap().as_deref(), Some(&b"v"[..]), "the process has died");
}

#[test]
fn after_a_failed_fence_nothing_is_written_and_the_next_opening_is_sound() {
    for nth in 1..12 {
        let harness = filled((0..63).map(|n| 2 * n));
        let tree = harness.open_tree().expect("it opens");
        while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
        harness.place.region().fail_fence(nth);
        let failed = (0..8_u64)
            .any(|n| tree.put(&(2 * n + 1).to_be_bytes(), b"a value of more bytes", NOW).is_err());
        assert!(failed, "fence {nth} fails");
        let error = tree.put(b"k", b"v", NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        has_all(&tree, (0..63).map(|n| 2 * n), "after a failed fence");
        drop(tree);
        let tree = harness.open_tree().expect("it opens again");
        has_all(&tree, (0..63).map(|n| 2 * n), "after an opening");
        tree.verify().expect("verified");
    }
}

#[test]
fn what_nothing_reaches_after_a_crash_is_free_again() {
    let mut harness = TreeHarness::new(2 << 20);
    let tree = harness.open().expect("it opens");
    (0..300).for_each(|n| put(&tree, n, &[7; 400]));
    let live = metric(&tree, "region_live_bytes");
    (0..300).for_each(|n| put(&tree, n, &[8; 400]));
    drop(tree);
    harness.power_cut(3);
    let tree = harness.open().expect("it opens");
    assert!(metric(&tree, "leaves_unchecked") > 0.0);
    while tree.maintain(Budget::of(2000)).expect("maintained").more {}
    assert_eq!(metric(&tree, "leaves_unchecked"), 0.0);
    assert_eq!(metric(&tree, "region_live_bytes"), live, "no more and no less than before");
    tree.verify().expect("verified");
}

/// The region becomes shorter while it is served: background work gives back what deletes left.
#[test]
fn a_region_shrinks_while_it_is_served() {
    let place = SimRegions::new(1, RegionClass::Lines);
    let harness = TreeHarness::new(1).set("memory_bytes", 64 << 20);
    let tree = harness.open_in(&place).expect("it opens");
    let value = vec![7; 200];
    (0..20_000).for_each(|n| put(&tree, n, &value));
    let full = metric(&tree, "region_bytes");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..20_u64).cycle().take(20_000) {
                let read = tree.get(&n.to_be_bytes()).expect("a get");
                assert_eq!(read.as_deref(), Some(&value[..]), "key {n}");
            }
        });
        for n in 20..20_000_u64 {
            tree.delete(&n.to_be_bytes(), NOW).expect("a delete");
        }
        while tree.maintain(Budget { is_idle: true, ..Budget::of(1 << 20) }).expect("it").more {}
    });
    let left = metric(&tree, "region_bytes");
    assert!(left < full / 2.0, "{left} of {full} bytes are left");
    (0..20_000).for_each(|n| put(&tree, n, &value));
    tree.verify().expect("verified");
}
