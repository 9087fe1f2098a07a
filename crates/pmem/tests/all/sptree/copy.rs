//! The region's copy of the top layer: openings begin with it, and a power cut never leaves one
//! that names a leaf which is none.

use super::crash::{cut_everywhere, has_all, metric, put};
use super::harness::{Tree, TreeHarness, seed};
use silica_base::{Prng, test_size};
use silica_device::region::Region;
use silica_engine::{
    Admin, Budget, Durability, Engine, EngineExt, IterateOptions, KeyRange, Ordered, Scan,
};
use silica_testkit::{DeviceHarness, Harness};
use std::sync::Arc;

const NOW: Durability = Durability::Buffered;
/// Keys of the stores here: some 190 leaves.
const KEYS: u64 = 6_000;

fn keys() -> impl Iterator<Item = u64> {
    (0..KEYS).map(|n| 3 * n)
}

/// A store that was closed, filled in random order, with options.
fn closed(options: &[(&str, u64)]) -> TreeHarness {
    let harness = TreeHarness::new(2 << 20).set("memory_bytes", 8 << 20);
    let mut harness = options.iter().fold(harness, |harness, (name, n)| harness.set(name, *n));
    let tree = harness.open().expect("it opens");
    let (mut prng, mut left) = (Prng::new(seed(1)), keys().collect::<Vec<_>>());
    while !left.is_empty() {
        let n = left.swap_remove(prng.below(left.len() as u64) as usize);
        put(&tree, n, &n.to_le_bytes());
    }
    tree.close(&mut |_, _| ()).expect("closed");
    harness
}

fn maintain(tree: &Tree) {
    while tree.maintain(Budget::of(64 << 10)).expect("maintained").more {}
}

fn scanned(tree: &Tree) -> Vec<u64> {
    let (mut found, mut cursor) = (Vec::new(), Some(0));
    while let Some(at) = cursor {
        let mut visit = |key: &[u8], _: silica_engine::EntryRef<'_>| {
            found.push(u64::from_be_bytes(key.try_into().expect("eight bytes")));
        };
        cursor = tree.scan(at, 100, &mut visit).expect("scanned");
    }
    found
}

#[test]
fn an_opening_serves_from_the_copy_and_the_rest_follows() {
    for options in [&[][..], &[("buffers", 100)]] {
        let harness = closed(options);
        let tree = harness.open_tree().expect("it opens");
        let folded = metric(&tree, "nodes_folded");
        assert!(folded > 6.0, "{folded} nodes are folded");
        assert_eq!(metric(&tree, "leaves"), folded, "no link was followed");
        assert_eq!(tree.count(false).expect("a count").estimate, KEYS, "the close has counted");
        assert!(tree.get(&4_u64.to_be_bytes()).expect("a get").is_none());
        assert!(metric(&tree, "nodes_folded") > 0.0, "a get unfolds what it comes to, no more");
        has_all(&tree, keys().step_by(701), "right after the opening");
        maintain(&tree);
        let leaves = metric(&tree, "leaves");
        assert_eq!(metric(&tree, "nodes_folded"), 0.0);
        assert!(leaves > 120.0, "{leaves} leaves");
        assert_eq!(metric(&tree, "leaves_unchecked"), 0.0);
        // One page at least: these leaves are few.
        assert_eq!(metric(&tree, "top_copy_bytes"), 4096.0);
        assert_eq!(scanned(&tree), keys().collect::<Vec<_>>());
        tree.verify().expect("verified");
    }
}

/// Every way to come to a leaf unfolds the nodes on it: here from the end to the beginning.
#[test]
fn ranges_go_backwards_through_folded_nodes() {
    let tree = Arc::new(closed(&[]).open_tree().expect("it opens"));
    let snapshot = Arc::clone(&tree).snapshot().expect("a snapshot");
    let options = IterateOptions::default();
    let mut iter = snapshot.iterate_with(&KeyRange::prefix(b""), options).expect("an iterator");
    let (mut found, mut is_there) = (Vec::new(), iter.seek_to_last().expect("a seek"));
    while is_there {
        found.push(u64::from_be_bytes(iter.key().try_into().expect("eight bytes")));
        is_there = iter.prev().expect("a step");
    }
    found.reverse();
    assert_eq!(found, keys().collect::<Vec<_>>());
}

#[test]
fn writes_batches_and_clears_meet_folded_nodes() {
    let harness = closed(&[]);
    let tree = harness.open_tree().expect("it opens");
    put(&tree, 1, &1_u64.to_le_bytes());
    tree.delete(&(3 * KEYS - 3).to_be_bytes(), NOW).expect("a delete");
    let spread: Vec<[u8; 8]> = (0..KEYS).step_by(500).map(|n| (3 * n + 1).to_be_bytes()).collect();
    let mut batch = silica_engine::WriteBatch::new();
    for key in &spread {
        batch.put(key, b"eightlet");
    }
    tree.write(&batch, NOW).expect("written");
    assert_eq!(scanned(&tree).len() as u64, KEYS + spread.len() as u64 - 1);
    assert_eq!(tree.count(true).expect("a count").estimate, KEYS + spread.len() as u64 - 1);
    drop(tree);
    let tree = harness.open_tree().expect("it opens");
    assert!(metric(&tree, "nodes_folded") > 0.0);
    tree.clear().expect("cleared");
    assert_eq!((scanned(&tree).len(), metric(&tree, "leaves")), (0, 1.0));
    maintain(&tree);
    assert_eq!(metric(&tree, "region_live_bytes"), 1280.0, "the copy and all leaves are free");
    put(&tree, 7, &7_u64.to_le_bytes());
    tree.verify().expect("verified");
}

/// What lies behind links that nobody has walked is in use, too.
#[test]
fn bytes_in_use_are_not_too_few_after_an_opening() {
    let harness = closed(&[]);
    let tree = harness.open_tree().expect("it opens");
    let early = metric(&tree, "live_bytes");
    assert!(metric(&tree, "nodes_folded") > 0.0, "no link was followed");
    maintain(&tree);
    let exact = metric(&tree, "live_bytes");
    assert!(early >= exact && early < 1.5 * exact, "{early} bytes before {exact}");
}

/// After a crash the number of entries is a guess until the leaves were seen.
#[test]
fn a_crash_leaves_the_copy_and_the_count_is_a_guess() {
    let mut harness = closed(&[]);
    {
        let tree = harness.open_tree().expect("it opens");
        put(&tree, 1, &1_u64.to_le_bytes());
    }
    harness.power_cut(1);
    let tree = harness.open_tree().expect("it opens");
    assert!(metric(&tree, "nodes_folded") > 6.0);
    let guess = tree.count(false).expect("a count");
    let real = KEYS + 1;
    assert!(guess.low <= real && real <= guess.high, "{guess:?}");
    assert!(real / 2 < guess.estimate && guess.estimate < real * 2, "{guess:?}");
    assert_eq!(tree.count(true).expect("a count").estimate, real);
    maintain(&tree);
    assert_eq!(tree.count(false).expect("a count").high, real);
    tree.verify().expect("verified");
}

/// Leaves that the copy names go away in every way there is, and the power fails everywhere.
#[test]
fn the_copy_names_no_leaf_that_is_gone_wherever_the_power_fails() {
    for (options, seed) in [(&[][..], 2), (&[("buffers", 100), ("merge", 1)], 3)] {
        let harness = closed(options);
        // Nearly all keys of a stretch of some 40 leaves go, so its leaves merge.
        let gone = |n: u64| (3_000..8_000).contains(&n) && !n.is_multiple_of(100);
        let deleted: Vec<u64> = keys().filter(|n| gone(*n)).collect();
        // Leaves are left with so few keys at first that they merge later.
        let (first, last): (Vec<u64>, Vec<u64>) = deleted.iter().partition(|n| *n / 3 % 10 > 3);
        {
            let tree = harness.open_tree().expect("it opens");
            first.iter().for_each(|n| tree.delete(&n.to_be_bytes(), NOW).expect("a delete"));
            maintain(&tree);
            tree.close(&mut |_, _| ()).expect("closed");
        }
        let images = cut_everywhere(
            &harness,
            |tree| {
                let mut prng = Prng::new(seed);
                for n in &last {
                    let _ = tree.delete(&n.to_be_bytes(), NOW);
                    let _ = tree.put(&(prng.below(KEYS) * 3 + 1).to_be_bytes(), b"more", NOW);
                }
                while tree.maintain(Budget::of(1 << 20)).is_ok_and(|done| done.more) {}
            },
            |tree, is_done, how| {
                has_all(tree, keys().filter(|n| !gone(*n)).step_by(7), how);
                let merged = metric(tree, "leaf_merges") + metric(tree, "buffer_merges");
                assert!(!is_done || merged > 1.0, "leaves merge");
            },
        );
        assert!(images >= 30, "{images} images");
    }
}

/// The pass that names leaves is cut short everywhere, from a region without a copy on.
#[test]
fn a_pass_may_be_cut_short_everywhere() {
    let mut harness = TreeHarness::new(2 << 20).set("memory_bytes", 8 << 20);
    let tree = harness.open().expect("it opens");
    keys().for_each(|n| put(&tree, n, &n.to_le_bytes()));
    drop(tree);
    let before = harness.place.region();
    let pass = |harness: &TreeHarness, cut: Option<u64>| {
        let tree = harness.open_tree().expect("it opens");
        let start = harness.place.region().op_count();
        cut.inspect(|op| harness.place.region().cut_at_op(start + op));
        while tree.maintain(Budget::of(1 << 20)).is_ok_and(|done| done.more) {}
        (harness.place.region().op_count() - start, metric(&tree, "top_copy_bytes"))
    };
    let with = |region| TreeHarness {
        place: harness.place.with(region),
        options: harness.options.clone(),
        ..TreeHarness::new(harness.bytes)
    };
    let (ops, bytes) = pass(&with(before.fork(0)), None);
    assert!(bytes > 0.0, "a pass makes a copy");
    let stride = (ops / test_size(60, 200, 10_000)).max(1);
    for op in (0..ops).step_by(stride as usize) {
        let mut harness = with(before.fork(op));
        pass(&harness, Some(op));
        harness.power_cut(op);
        let tree = harness.open_tree().unwrap_or_else(|e| panic!("cut at {op} of {ops}: {e}"));
        has_all(&tree, keys().step_by(101), "after a cut");
        tree.verify().unwrap_or_else(|e| panic!("cut at {op} of {ops}: {e}"));
        maintain(&tree);
        assert_eq!(tree.count(true).expect("a count").estimate, KEYS, "cut at {op}");
    }
}

/// A word of the copy that is damaged names nothing; a list of pieces that is damaged goes.
#[test]
fn a_damaged_copy_is_not_believed() {
    let harness = closed(&[]);
    let before = harness.place.region();
    let listed = silica_pmem::space::ROOT + 64 + 256 * 8;
    let piece = (before.load(listed) & 0xFFFF_FFFF_FFFF) * 4096;
    for at in [listed, piece, piece + 8, piece + 17, piece + 8 * 300] {
        let region = before.fork(1);
        let mut byte = [0];
        region.read(at, &mut byte);
        region.poke(at, &[byte[0] ^ 4]);
        let harness = TreeHarness {
            place: harness.place.with(region),
            options: harness.options.clone(),
            ..TreeHarness::new(harness.bytes)
        };
        let tree = harness.open_tree().expect("it opens");
        has_all(&tree, keys().step_by(53), "with a damaged copy");
        tree.verify().expect("verified");
        maintain(&tree);
        assert!(metric(&tree, "top_copy_bytes") > 0.0, "the copy is made anew");
    }
}

/// Threads meet folded nodes at the same time.
#[test]
fn threads_unfold_nodes_together() {
    for round in 0..test_size(4, 20, 1000) {
        let harness = closed(&[]);
        let tree = harness.open_tree().expect("it opens");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let tree = &tree;
                scope.spawn(move || {
                    let mut prng = Prng::new(round * 4 + thread);
                    for _ in 0..400 {
                        let n = prng.below(KEYS) * 3;
                        let read = tree.get(&n.to_be_bytes()).expect("a get");
                        assert_eq!(read.as_deref(), Some(&n.to_le_bytes()[..]), "key {n}");
                        if thread == 0 {
                            put(tree, n + 1 + prng.below(2), b"eightlet");
                        }
                        if thread == 1 {
                            tree.maintain(Budget::of(8 << 10)).expect("maintained");
                        }
                    }
                });
            }
        });
        tree.verify().expect("verified");
    }
}
