//! Write buffers: the conformance suite with them, power cuts, and what they are worth.

use super::crash::{cut_everywhere, has_all, metric, put};
use super::harness::{TreeHarness, seed};
use silica_base::{Clock, ErrorKind, Prng, test_size};
use silica_device::region::Region;
use silica_engine::{Admin, Budget, Durability, Engine, EngineExt, EntryRef, WriteBatch};
use silica_testkit::{self as testkit, DeviceHarness, Harness};
use std::collections::BTreeMap;

const NOW: Durability = Durability::Buffered;

/// All leaves have buffers.
fn tree() -> TreeHarness {
    TreeHarness::new(16 << 20).set("buffers", 100)
}

/// Few leaves have buffers, so that they are taken from one leaf and given to another.
fn few() -> TreeHarness {
    TreeHarness::new(16 << 20).set("buffers", 10).set("merge", 1)
}

fn small_values(harness: TreeHarness) -> TreeHarness {
    harness.with(|w| (w.key_bytes_max, w.value_bytes_max) = (8, 6))
}

#[test]
fn basics() {
    testkit::basics(&mut tree());
    testkit::basics(&mut few());
}

#[test]
fn differential() {
    let operations = test_size(2_000, 8_000, 300_000);
    testkit::differential(&mut tree(), seed(1), operations);
    testkit::differential(&mut small_values(tree()), seed(2), operations);
    testkit::differential(&mut small_values(few()), seed(3), operations);
    testkit::differential(&mut tree().set("filters", 0), seed(4), operations);
}

#[test]
fn ordered() {
    let operations = test_size(2_000, 8_000, 300_000);
    testkit::ordered(&mut tree(), seed(1), operations);
    testkit::ordered(&mut few().set("sequences", 0), seed(2), operations);
}

#[test]
fn iteration() {
    testkit::iteration(&mut tree(), seed(1), 1000);
}

#[test]
fn reopen() {
    testkit::reopen(&mut tree(), seed(1), test_size(4, 20, 200));
}

#[test]
fn transactions() {
    testkit::transactions(&mut tree(), seed(1), 3, test_size(50, 500, 10_000));
    testkit::live_transactions(&mut few(), seed(2), test_size(500, 4_000, 100_000));
    testkit::bookings(&mut tree(), seed(3), 2, test_size(50, 500, 5_000));
}

#[test]
fn concurrent() {
    testkit::concurrent_readers(&mut tree(), seed(1), 2, test_size(1_000, 10_000, 500_000));
    let readers = test_size(1_000, 10_000, 500_000);
    testkit::concurrent_readers(&mut small_values(few()), seed(2), 2, readers);
    testkit::concurrent_updates(&mut tree(), seed(3), 3, test_size(1_000, 4_000, 100_000));
    testkit::linearizable(&mut tree(), seed(4), test_size(200, 1_000, 50_000));
}

#[test]
fn expiry_and_moments() {
    let mut harness = tree();
    let clock = harness.clock.clone();
    testkit::expiry(&mut harness, &clock);
    testkit::moments(&mut harness, &clock);
}

#[test]
fn power_cuts_at_random_points() {
    let cuts = test_size(60, 200, 100_000);
    let small = || TreeHarness::new(4 << 20).set("buffers", 100);
    testkit::crash_random(&mut small(), seed(1), cuts);
    let busy = small().with(|w| (w.crash_keys, w.key_bytes_max) = (500, 12));
    let report = testkit::crash_random(&mut busy.set("merge", 1), seed(2), cuts);
    assert!(report.cuts_in_recovery > 0, "{report:?}");
}

#[test]
fn power_cuts_at_every_operation() {
    let mut harness = TreeHarness::new(4 << 20).set("buffers", 100);
    testkit::crash_every_op(&mut harness, seed(1), test_size(6, 10, 400) as usize, 3, 11);
}

fn numbers(count: u64) -> impl Iterator<Item = u64> {
    // Odd factors make each number once, in no order.
    (0..count).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Media bytes written for each insert, and memory beside the region as a share of the leaves.
fn cost(options: &[(&str, u64)], count: u64) -> (f64, f64) {
    let mut harness =
        TreeHarness::new((count * 64).next_multiple_of(1 << 20)).set("memory_bytes", 1 << 30);
    for (name, value) in options {
        harness = harness.set(name, *value);
    }
    harness.wipe();
    let tree = harness.open().expect("it opens");
    harness.place.region().count_media(64 << 10);
    numbers(count).for_each(|n| put(&tree, n, &n.to_le_bytes()));
    let written = harness.place.region().counts().bytes_written() as f64 / count as f64;
    let leaf_bytes = metric(&tree, "leaves") * 1280.0;
    tree.verify().expect("verified");
    (written, metric(&tree, "index_bytes") / leaf_bytes)
}

#[test]
fn buffers_divide_what_is_written_and_cost_a_third_of_the_leaves() {
    let count = test_size(30_000, 100_000, 1_000_000);
    let (plain, small) = cost(&[], count);
    let (buffered, large) = cost(&[("buffers", 100)], count);
    let (rewritten, _) = cost(&[("buffers", 100), ("merge", 1)], count);
    println!("{plain:.0} {buffered:.0} {rewritten:.0} bytes, {small:.3} {large:.3} of the leaves");
    assert!(plain / buffered >= 3.0, "{plain:.0} bytes an insert, {buffered:.0} with buffers");
    assert!(plain / rewritten >= 2.5, "{plain:.0} bytes an insert, {rewritten:.0} rewritten");
    assert!(small <= 0.12 && large <= 0.33, "{small:.3} and {large:.3} of the leaves");
}

fn filled(options: &[(&str, u64)], keys: impl Iterator<Item = u64>) -> TreeHarness {
    let mut harness = TreeHarness::new(2 << 20);
    for (name, value) in options {
        harness = harness.set(name, *value);
    }
    let tree = harness.open().expect("it opens");
    keys.for_each(|n| put(&tree, n, &n.to_le_bytes()));
    drop(tree);
    harness
}

#[test]
fn a_buffer_that_goes_to_its_leaf_is_whole_in_one_of_them() {
    for merge in [0, 1] {
        // Fifteen entries are in the buffer, one key of the leaf is deleted there: the next fills
        // it, and the one after that finds it full. The leaf splits with the last ones.
        for first in [0, 30] {
            let options = [("buffers", 100), ("merge", merge)];
            let harness = filled(&options, (0..16 + first).map(|n| 2 * n));
            {
                let tree = harness.open_tree().expect("it opens");
                tree.delete(&4_u64.to_be_bytes(), NOW).expect("a delete");
                assert_eq!(metric(&tree, "write_buffers"), 1.0);
            }
            cut_everywhere(
                &harness,
                |tree| {
                    for n in [101_u64, 103, 105, 107] {
                        let value = vec![7; if n == 103 { 40 } else { 8 }];
                        if tree.put(&n.to_be_bytes(), &value, NOW).is_err() {
                            return;
                        }
                    }
                },
                |tree, is_done, how| {
                    has_all(tree, (0..16 + first).map(|n| 2 * n).filter(|n| *n != 4), how);
                    assert_eq!(tree.get(&4_u64.to_be_bytes()).expect("a get"), None, "{how}");
                    let new = [101_u64, 103, 105, 107]
                        .map(|n| tree.get(&n.to_be_bytes()).expect("a get").is_some());
                    assert!(new.is_sorted_by(|one, next| one >= next), "{new:?} {how}");
                    assert!(!is_done || new == [true; 4]);
                },
            );
        }
    }
}

#[test]
fn the_log_is_bounded_and_what_it_has_survives_the_process() {
    let mut harness = TreeHarness::new(8 << 20).set("memory_bytes", 16 << 20).set("buffers", 100);
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    let mut prng = Prng::new(seed(1));
    for round in 0..4 {
        let tree = harness.open().expect("it opens");
        for step in 0..test_size(15_000, 30_000, 300_000) {
            // Half of the writes are of few leaves, so that many records do not count any more.
            let n = if prng.one_in(2) { prng.below(200) } else { prng.below(20_000) };
            put(&tree, n, &u64::to_le_bytes(step << 8 | round));
            model.insert(n, step << 8 | round);
        }
        let (log, region) = (metric(&tree, "log_bytes"), f64::from(14 << 20));
        assert!(log > 0.0 && log <= region / 16.0, "{log} bytes of log");
        assert!(metric(&tree, "buffer_merges") > 100.0);
        tree.verify().expect("verified");
        drop(tree);
        if round % 2 == 1 {
            harness.power_cut(round);
        }
        let tree = harness.open().expect("it opens");
        assert_eq!(tree.count(true).unwrap().estimate, model.len() as u64);
        for (n, value) in &model {
            let read = tree.get(&n.to_be_bytes()).expect("a get");
            assert_eq!(read.as_deref(), Some(&value.to_le_bytes()[..]), "key {n}, round {round}");
        }
    }
    assert!(model.len() > 1000);
}

#[test]
fn buffers_of_a_store_that_has_none_any_more_go_to_their_leaves() {
    let mut harness = filled(&[("buffers", 100)], 0..500);
    let tree = harness.open().expect("it opens");
    tree.delete(&7_u64.to_be_bytes(), NOW).expect("a delete");
    assert!(metric(&tree, "write_buffers") > 0.0);
    drop(tree);
    let mut harness = harness.set("buffers", 0);
    let tree = harness.open().expect("it opens without buffers");
    has_all(&tree, (0..500).filter(|n| *n != 7), "buffers are read");
    put(&tree, 7, &7_u64.to_le_bytes());
    for _ in 0..100 {
        while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
    }
    assert_eq!(metric(&tree, "write_buffers"), 0.0);
    has_all(&tree, 0..500, "they are in the leaves");
    tree.verify().expect("verified");
    tree.close(&mut |_, _| ()).expect("closed");
    let tree = harness.open().expect("it opens");
    has_all(&tree, 0..500, "after an opening");
}

#[test]
fn leaves_with_many_writes_keep_their_buffers() {
    let mut harness = TreeHarness::new(16 << 20).set("memory_bytes", 64 << 20).set("buffers", 10);
    let tree = harness.open().expect("it opens");
    let keys = 20_000;
    numbers(keys).for_each(|n| put(&tree, n, &n.to_le_bytes()));
    let mut sorted: Vec<u64> = numbers(keys).collect();
    sorted.sort_unstable();
    let merges_before = metric(&tree, "buffer_merges");
    let records_before = metric(&tree, "log_records");
    let mut prng = Prng::new(seed(1));
    let writes = 40_000;
    for _ in 0..writes {
        // Nine of ten writes are of a twentieth of the keys, which lie together.
        let hot = !prng.one_in(10);
        let n = sorted[prng.below(if hot { keys / 20 } else { keys }) as usize];
        put(&tree, n, &n.to_be_bytes());
    }
    let buffered = metric(&tree, "log_records") - records_before;
    let merges = metric(&tree, "buffer_merges") - merges_before;
    let (leaves, buffers) = (metric(&tree, "leaves"), metric(&tree, "write_buffers"));
    assert!(buffers <= leaves / 9.0, "{buffers} buffers of {leaves} leaves");
    assert!(buffered > f64::from(writes) * 0.8, "{buffered} of {writes} writes were buffered");
    assert!(buffered / merges > 8.0, "{merges} merges of {buffered} buffered writes");
}

#[test]
fn updates_through_buffers_leave_leaves_as_full_as_they_were() {
    let mut harness = TreeHarness::new(4 << 20).set("memory_bytes", 64 << 20).set("buffers", 100);
    let tree = harness.open().expect("it opens");
    // Keys in their order fill leaves.
    (0..5000).for_each(|n| put(&tree, n, &n.to_le_bytes()));
    let leaves = metric(&tree, "leaves");
    for n in numbers(20_000).map(|n| n % 5000) {
        put(&tree, n, &n.to_le_bytes());
    }
    has_all(&tree, 0..5000, "after updates");
    let after = metric(&tree, "leaves");
    assert!(after <= leaves * 1.05, "{leaves} leaves became {after}");
    tree.verify().expect("verified");
}

#[test]
fn a_damaged_record_is_found_unless_it_is_the_last_of_its_leaf() {
    let harness = filled(&[("buffers", 100)], 0..5);
    let region = harness.place.region();
    let mut bytes = vec![0; region.len() as usize];
    region.read(0, &mut bytes);
    // Records are where values of the five puts lie 32 bytes apart.
    let is_record = |at: &usize| {
        (0..5).all(|n| bytes[at + 32 * n..at + 32 * n + 8] == (n as u64).to_le_bytes())
    };
    let first = (0..bytes.len() - 200).step_by(8).find(is_record).expect("the log has records");
    for n in 0..5 {
        let image = region.fork(n);
        image.poke(first as u64 + 32 * n, &[99]);
        let harness = TreeHarness { place: harness.place.with(image), ..TreeHarness::new(1 << 20) };
        match harness.open_tree() {
            Err(error) => {
                assert!(n < 4 && error.kind() == ErrorKind::Corruption, "{error}");
                assert!(error.to_string().contains("restore a backup"), "{error}");
            }
            Ok(tree) => {
                assert_eq!(n, 4, "a damaged record is missed");
                has_all(&tree, 0..4, "a record that may never have been acknowledged is dropped");
            }
        }
    }
}

#[test]
fn a_full_region_keeps_what_is_buffered() {
    let mut harness = TreeHarness::new(1 << 20).set("memory_bytes", 1 << 20).set("buffers", 100);
    let tree = harness.open().expect("it opens");
    let value = |n: u64| vec![n as u8; if n.is_multiple_of(2) { 8 } else { 100 }];
    let written = (0_u64..)
        .find(|n| {
            let done = tree.put(&(n * 7919 % 100_003).to_be_bytes(), &value(*n), NOW);
            done.is_err_and(|error| error.kind() == ErrorKind::Full)
        })
        .expect("a region is full at last");
    tree.verify().expect("verified");
    let check = |tree: &super::harness::Tree| {
        for n in 0..written {
            let read = tree.get(&(n * 7919 % 100_003).to_be_bytes()).unwrap();
            assert_eq!(read, Some(value(n)), "key {n} of {written}");
        }
    };
    check(&tree);
    drop(tree);
    harness.power_cut(1);
    let tree = harness.open().expect("a full store opens");
    check(&tree);
    while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
    for n in 0..written / 2 {
        tree.delete(&(n * 7919 % 100_003).to_be_bytes(), NOW).expect("a delete");
    }
    (0..written / 8).for_each(|n| put(&tree, n * 7919 % 100_003, &value(n)));
    tree.verify().expect("verified");
}

#[test]
fn after_a_failed_fence_what_is_buffered_is_sound() {
    for nth in 1..12 {
        let harness = filled(&[("buffers", 100)], (0..40).map(|n| 2 * n));
        let tree = harness.open_tree().expect("it opens");
        while tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
        harness.place.region().fail_fence(nth);
        let failed = (0..40_u64).any(|n| tree.put(&(2 * n + 1).to_be_bytes(), b"v", NOW).is_err());
        assert!(failed, "fence {nth} fails");
        assert_eq!(tree.put(b"k", b"v", NOW).unwrap_err().kind(), ErrorKind::Poisoned);
        has_all(&tree, (0..40).map(|n| 2 * n), "after a failed fence");
        drop(tree);
        let tree = harness.open_tree().expect("it opens again");
        has_all(&tree, (0..40).map(|n| 2 * n), "after an opening");
        tree.verify().expect("verified");
    }
}

#[test]
fn entries_of_all_forms_go_through_buffers() {
    let mut harness = TreeHarness::new(4 << 20).set("buffers", 100);
    let far = harness.clock.unix_ms() + 1_000_000;
    let key = |n: u64| match n % 2 {
        0 => n.to_be_bytes().to_vec(),
        _ => format!("a longer key with number {n:05}").into_bytes(),
    };
    let tree = harness.open().expect("it opens");
    for n in 0..200_u64 {
        let value = vec![n as u8; (n % 5 * 20) as usize];
        let expires_unix_ms = if n % 3 == 0 { far } else { 0 };
        let entry = EntryRef { value: &value, expires_unix_ms, user_bits: n as u32 % 4 };
        tree.write(WriteBatch::new().put_entry(&key(n), entry), NOW).expect("a put");
        if n % 4 == 0 {
            tree.delete(&key(n), NOW).expect("a delete");
        }
    }
    let live = metric(&tree, "region_live_bytes");
    drop(tree);
    harness.power_cut(5);
    let tree = harness.open().expect("it opens");
    for n in 0..200_u64 {
        let read = tree.get(&key(n)).expect("a get");
        let value = vec![n as u8; (n % 5 * 20) as usize];
        assert_eq!(read, (n % 4 != 0).then_some(value), "key {n}");
    }
    while tree.maintain(Budget::of(2000)).expect("maintained").more {}
    assert_eq!(metric(&tree, "region_live_bytes"), live, "no more and no less than before");
    tree.verify().expect("verified");
}

/// A close leaves no record that a later mark could meet: segments have another lap than theirs.
#[test]
fn a_close_ends_all_records_of_the_log() {
    let mut harness = tree();
    let tree = harness.open().expect("it opens");
    (0..500).for_each(|n| put(&tree, n, &n.to_le_bytes()));
    let region = harness.place.region();
    let listed = silica_pmem::space::ROOT + 64;
    let segment = (region.load(listed) & ((1 << 36) - 1)) * 4096;
    let lap = |region: &silica_device::sim::SimRegion| region.load(segment) & ((1 << 48) - 1);
    let before = lap(&region);
    assert!(before > 0, "a segment is in use");
    tree.close(&mut |_, _| ()).expect("closed");
    assert!(lap(&region) > before, "its records are none any more");
    drop(tree);
    let tree = harness.open().expect("it opens");
    has_all(&tree, 0..500, "after a close");
}
