#[path = "../tests/all/small/mod.rs"]
pub(crate) mod small;

use crate::Wip;
use crate::compaction::Compaction;
use crate::flush::Flush;
use crate::job::Job;
use crate::run::Run;
use crate::run_cursor::RunCursor;
use crate::step::Step;
use silica_base::{HashSeed, ManualClock, Prng, test_size};
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::optimistic::Optimistic;
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryIter, EntryRef, Environment, ErrorKind, KeyRange,
    Ordered, WriteBatch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn open(device: &SimDevice) -> Wip<SimDevice> {
    open_with(device, &[("space_amplification_percent_max", 160)])
}

fn open_with(device: &SimDevice, options: &[(&'static str, u64)]) -> Wip<SimDevice> {
    let environment = Environment::new(HashSeed([1; 16]));
    Wip::open(device.clone(), &small::options(options), &environment).expect("it opens")
}

#[test]
fn buckets_split_and_everything_stays() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut wip = open(&device);
    let (mut model, mut prng) = (BTreeMap::new(), Prng::new(1));
    for n in 0..test_size(40_000, 200_000, 2_000_000) {
        let key = prng.below(1 << 40).to_be_bytes();
        let value = vec![n as u8; prng.below(60) as usize];
        wip.put(&key, &value, Durability::Buffered).expect("a put");
        model.insert(key, value);
        if prng.one_in(100) {
            while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
        }
        if prng.one_in(20_000) {
            // Neighbours may have become one since the last time.
            let buckets = wip.buckets().iter().count();
            drop(wip);
            wip = open(&device);
            assert_eq!(wip.buckets().iter().count(), buckets, "buckets after opening again");
        }
    }
    let buckets = wip.buckets().iter().count();
    let written = device.counters().snapshot().bytes_written;
    let user: usize = model.values().map(|value| 8 + value.len()).sum();
    println!("{buckets} buckets, written {:.2} times", written as f64 / user as f64);
    assert!(buckets > 16, "{buckets} buckets");
    wip.verify().expect("every invariant");
    for (key, value) in &model {
        assert_eq!(wip.get(key).expect("a get").as_ref(), Some(value), "{key:?}");
    }
    let tables = device.list().expect("names").iter().filter(|n| n.starts_with("TABLE")).count();
    let named = wip.named_tables().len();
    assert_eq!(tables, named, "files that no bucket needs are gone");
}

#[test]
fn a_run_of_several_parts_is_gone_through_in_both_directions() {
    let wip = open(&SimDevice::new(1, SimOptions::default()));
    let mut prng = Prng::new(3);
    let key = |prng: &mut Prng| prng.below(1000).to_string().into_bytes();
    for _ in 0..600 {
        wip.put(&key(&mut prng), b"value", Durability::Buffered).expect("a put");
    }
    let bucket = wip.buckets().of(b"").clone();
    wip.flush(&bucket).expect("a flush");
    let whole = bucket.read().version.runs[0][0].clone();
    let mut keys = Vec::new();
    let mut cursor = whole.table.table.cursor(4 << 10);
    let mut more = cursor.seek_to_first().expect("a read");
    while more {
        keys.push((cursor.version().key.to_vec(), cursor.version().sequence));
        more = cursor.advance().expect("a read");
    }
    assert!(keys.len() > 300, "{} keys", keys.len());
    for _ in 0..50 {
        // Parts of it, some of them empty, with and without keys between them.
        let mut cuts: Vec<_> = (0..2 * prng.below(5)).map(|_| key(&mut prng)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let run: Run<_> =
            cuts.chunks_exact(2).filter_map(|cut| whole.within(&cut[0], Some(&cut[1]))).collect();
        let model: Vec<_> =
            keys.iter().filter(|(key, _)| run.iter().any(|part| part.has(key))).collect();
        let mut cursor = RunCursor::new(run, 8 << 10);
        for _ in 0..50 {
            let sought = key(&mut prng);
            let mut at = model.partition_point(|(key, _)| *key < sought) as i64;
            let mut is_at_one = if prng.one_in(2) {
                cursor.seek(&sought, u64::MAX).expect("a read")
            } else {
                at -= 1;
                cursor.seek_before(&sought, u64::MAX).expect("a read")
            };
            while let Some(expected) = usize::try_from(at).ok().and_then(|at| model.get(at)) {
                assert!(is_at_one && cursor.is_at_one(), "{expected:?}");
                let found = cursor.version();
                assert_eq!((found.key, found.sequence), (&expected.0[..], expected.1));
                if prng.one_in(20) {
                    break;
                }
                if prng.one_in(2) {
                    at += 1;
                    is_at_one = cursor.advance().expect("a read");
                } else {
                    at -= 1;
                    is_at_one = cursor.retreat().expect("a read");
                }
            }
        }
        let at_first = cursor.seek_to_first().expect("a read");
        assert_eq!(at_first.then(|| cursor.version().key), model.first().map(|m| &m.0[..]));
        let at_last = cursor.seek_to_last().expect("a read");
        assert_eq!(at_last.then(|| cursor.version().key), model.last().map(|m| &m.0[..]));
    }
}

#[test]
fn who_has_an_old_list_learns_that_its_bucket_is_gone() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device);
    let old = wip.buckets();
    let mut prng = Prng::new(2);
    while wip.buckets().iter().count() == 1 {
        let key = prng.below(1 << 40).to_be_bytes();
        wip.put(&key, &[7; 40], Durability::Buffered).expect("a put");
        wip.maintain(Budget::of(1 << 20)).expect("maintenance");
    }
    assert!(old.of(b"").read().is_gone, "split");
    let old = wip.buckets();
    wip.as_admin().expect("it has one").clear().expect("it clears");
    assert!(old.iter().all(|bucket| bucket.read().is_gone), "cleared");
    assert_eq!(crate::count::count_entries(&wip, true).expect("a count").high, 0);
}

/// A store of several buckets with the numbers below 2000 in tables, but one, which is in a
/// memtable that they share.
fn split_in_parts(device: &SimDevice) -> Wip<SimDevice> {
    let wip = open(device);
    let put = |n: u32| wip.put(&n.to_be_bytes(), b"old", Durability::Buffered).expect("a put");
    (0..2000).for_each(put);
    let all = wip.buckets().of(b"").clone();
    while wip.flush(&all).expect("a flush") > 0 {}
    put(1999);
    crate::split::split(&wip, &all).expect("a split");
    assert!(wip.buckets().len() > 2, "there are several buckets");
    wip
}

fn join_first_two(wip: &Wip<SimDevice>) {
    let buckets = wip.buckets();
    crate::split::join(wip, buckets.at(0), buckets.at(1)).expect("a join");
}

#[test]
fn buckets_that_join_while_a_store_is_verified_are_whole() {
    let wip = split_in_parts(&SimDevice::new(1, SimOptions::default()));
    let mut tables = crate::verify::Tables::new();
    let mut step = |lower: &[u8]| crate::verify::verify_bucket(&wip, lower, &mut tables);
    let second = step(b"").expect("it is whole").expect("another follows");
    join_first_two(&wip);
    let third = step(&second).expect("it is whole").expect("another follows");
    assert_eq!(Some(&third[..]), wip.buckets().upper(0));
    while wip.buckets().len() > 1 {
        join_first_two(&wip);
    }
    assert_eq!(step(&third).expect("it is whole"), None);
}

#[test]
fn a_joined_bucket_takes_no_keys_of_others_from_a_memtable_that_they_share() {
    let wip = split_in_parts(&SimDevice::new(1, SimOptions::default()));
    join_first_two(&wip);
    let last = 1999u32.to_be_bytes();
    wip.put(&last, b"new", Durability::Buffered).expect("a put");
    let right = wip.buckets().of(&last).clone();
    while wip.flush(&right).expect("a flush") > 0 {}
    while wip.buckets().len() > 1 {
        join_first_two(&wip);
    }
    assert_eq!(wip.get(&last).expect("a get").as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_range_that_ended_in_one_bucket_stays_so_when_it_is_joined_with_another() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = split_in_parts(&device);
    let (first, last) = (0u32.to_be_bytes(), 1999u32.to_be_bytes());
    let put = |key: &[u8], value: &[u8]| wip.put(key, value, Durability::Buffered).expect("a put");
    put(&first, b"keeps the log");
    let range = KeyRange::from(1990u32.to_be_bytes());
    wip.delete_range(&range, Durability::Buffered).expect("a delete");
    put(&last, b"new");
    wip.compact_range(&range).expect("a compaction");
    while wip.buckets().len() > 1 {
        join_first_two(&wip);
    }
    wip.sync().expect("a sync");
    device.power_cut();
    drop(wip);
    let wip = open(&device.reopen());
    assert_eq!(wip.get(&last).expect("a get").as_deref(), Some(&b"new"[..]));
    assert_eq!(wip.get(&1998u32.to_be_bytes()).expect("a get"), None);
    assert_eq!(wip.get(&first).expect("a get").as_deref(), Some(&b"keeps the log"[..]));
}

/// An iterator over all that is there now.
fn iterate(wip: &Arc<Wip<SimDevice>>) -> Box<dyn EntryIter> {
    let snapshot = Arc::clone(wip).snapshot().expect("a snapshot");
    snapshot.iterate(&KeyRange::ALL).expect("an iterator")
}

/// The keys from here on.
fn keys(iter: &mut dyn EntryIter, mut is_there: bool) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    while is_there {
        keys.push(iter.key().to_vec());
        is_there = iter.next().expect("a step");
    }
    keys
}

#[test]
fn keys_of_any_bytes_and_lengths_are_in_order() {
    let wip = Arc::new(open(&SimDevice::new(1, SimOptions::default())));
    let mut all: Vec<Vec<u8>> = vec![Vec::new()];
    for byte in 0..=255u8 {
        all.extend([vec![byte], vec![byte, 0], vec![byte; 9]]);
    }
    for last in [0, 7, 255] {
        all.push([&vec![b'k'; crate::KEY_BYTES_MAX - 1][..], &[last]].concat());
    }
    for key in &all {
        wip.put(key, &key[..key.len().min(3)], Durability::Buffered).expect("a put");
    }
    all.sort();
    for is_compacted in [false, true] {
        if is_compacted {
            wip.compact_range(&KeyRange::ALL).expect("compaction");
        }
        let mut iter = iterate(&wip);
        let is_there = iter.seek_to_first().expect("a seek");
        assert!(keys(&mut *iter, is_there) == all, "compacted: {is_compacted}");
        for (place, key) in all.iter().enumerate() {
            assert!(iter.seek(key).expect("a seek") && iter.key() == key);
            assert_eq!(iter.prev().expect("a step"), place > 0);
            assert!(place == 0 || iter.key() == all[place - 1]);
            assert!(iter.seek_for_prev(key).expect("a seek") && iter.key() == key);
        }
    }
    let (lower, upper) = (all.last().expect("keys").clone(), Vec::new());
    wip.delete_range(&KeyRange::from(lower.clone()), Durability::Buffered).expect("a delete");
    assert!(wip.get(&lower).expect("a get").is_none());
    wip.delete_range(&KeyRange::new(lower, upper), Durability::Buffered).expect("nothing");
    assert_eq!(wip.range_size(&KeyRange::new(*b"q", *b"q")).entries, 0);
    assert!(wip.range_size(&KeyRange::ALL).entries >= all.len() as u64 - 1);
}

#[test]
fn an_iterator_stays_while_buckets_split_and_ranges_go() {
    let wip = Arc::new(open(&SimDevice::new(1, SimOptions::default())));
    let key = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes();
    let mut before: Vec<Vec<u8>> = (0..2000).map(|n| key(n).to_vec()).collect();
    for key in &before {
        wip.put(key, &[1; 40], Durability::Buffered).expect("a put");
    }
    before.sort();
    let mut iter = iterate(&wip);
    let mut is_there = iter.seek_to_first().expect("a seek");
    let buckets = wip.buckets().len();
    for (place, wanted) in before.iter().enumerate() {
        assert!(is_there && iter.key() == wanted && iter.entry().value == [1; 40], "at {place}");
        // Overwrites, new keys, deletes, and a range that goes right in front of the iterator.
        for n in 0..8 {
            let n = place as u64 * 8 + n;
            wip.put(&key(n), &[2; 40], Durability::Buffered).expect("a put");
        }
        if place % 200 == 100 {
            let range = KeyRange::new(before[place].clone(), before[place + 50].clone());
            wip.delete_range(&range, Durability::Buffered).expect("a delete");
            while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
        }
        is_there = iter.next().expect("a step");
    }
    assert!(!is_there && wip.buckets().len() > buckets + 3, "{} buckets", wip.buckets().len());
}

#[test]
fn what_expires_is_gone_at_that_moment() {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock: clock.clone(), seed: HashSeed([1; 16]) };
    let device = SimDevice::new(1, SimOptions::default());
    let wip = Arc::new(
        Wip::open(
            device,
            &small::options(&[("space_amplification_percent_max", 160)]),
            &environment,
        )
        .expect("it opens"),
    );
    let expires_unix_ms = silica_base::Clock::unix_ms(&*clock) + 10;
    let mut batch = WriteBatch::new();
    batch.put_entry(b"b", EntryRef { value: b"", expires_unix_ms, user_bits: 0 });
    batch.put(b"a", b"").put(b"c", b"");
    wip.write(&batch, Durability::Buffered).expect("a write");
    let mut iter = iterate(&wip);
    let found = |iter: &mut dyn EntryIter| {
        let is_there = iter.seek_to_first().expect("a seek");
        keys(iter, is_there).concat()
    };
    clock.advance_ns(9_999_999);
    assert_eq!(found(&mut *iter), b"abc");
    clock.advance_ns(1);
    assert_eq!(found(&mut *iter), b"abc", "it has the time of its moment");
    let mut iter = iterate(&wip);
    assert_eq!(found(&mut *iter), b"ac");
    assert!(iter.seek_for_prev(b"b").expect("a seek") && iter.key() == b"a");
}

#[test]
fn deleted_ranges_survive_power_cuts() {
    let mut device = SimDevice::new(1, SimOptions::default());
    let mut prng = Prng::new(3);
    let mut model: BTreeMap<Vec<u8>, ()> = BTreeMap::new();
    for round in 0..test_size(60, 500, 50_000) {
        let wip = Arc::new(open(&device));
        let mut iter = iterate(&wip);
        let is_there = iter.seek_to_first().expect("a seek");
        let found = keys(&mut *iter, is_there);
        assert!(found.iter().eq(model.keys()), "round {round}");
        drop(iter);
        for _ in 0..prng.below(300) {
            let key = prng.below(500).to_be_bytes().to_vec();
            if prng.one_in(20) {
                let upper = (prng.below(600)).to_be_bytes().to_vec();
                let range = KeyRange::new(key, upper);
                wip.delete_range(&range, Durability::Buffered).expect("a delete");
                model.retain(|key, ()| !range.contains(key));
            } else {
                wip.put(&key, &[7; 60], Durability::Buffered).expect("a put");
                model.insert(key, ());
            }
            if prng.one_in(50) {
                wip.maintain(Budget::of(20_000)).expect("maintenance");
            }
        }
        wip.sync().expect("a sync");
        wip.maintain(Budget::of(prng.below(100_000))).expect("maintenance");
        device.power_cut();
        drop(wip);
        device = device.reopen();
    }
}

#[test]
fn the_log_stays_as_long_as_a_deleted_range_needs_it() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device);
    let put = |n: u64| wip.put(&n.to_be_bytes(), &[7; 60], Durability::Buffered).expect("a put");
    let maintain = || while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {};
    for n in 0..5000 {
        put(n);
        if n % 100 == 0 {
            maintain();
        }
    }
    wip.compact_range(&KeyRange::ALL).expect("compaction");
    assert!(wip.buckets().len() > 1);
    let range = KeyRange::new(1u64.to_be_bytes(), 9u64.to_be_bytes());
    wip.delete_range(&range, Durability::Buffered).expect("a delete");
    // The log of that is let go while other buckets are written.
    for n in 0..20_000 {
        put(4000 + n % 1000);
        if n % 100 == 0 {
            maintain();
        }
    }
    drop(wip);
    let wip = open(&device);
    let there = |n: u64| wip.get(&n.to_be_bytes()).expect("a get").is_some();
    assert!(there(0) && (1..9).all(|n| !there(n)) && there(9) && there(4999));
}

fn maintain(wip: &Wip<SimDevice>) {
    while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
}

#[test]
fn what_a_range_deletes_of_whole_buckets_is_free_without_another_write() {
    let wip = open(&SimDevice::new(1, SimOptions::default()));
    for n in 0..5000u64 {
        wip.put(&n.to_be_bytes(), &[7; 60], Durability::Buffered).expect("a put");
        if n % 100 == 0 {
            maintain(&wip);
        }
    }
    wip.compact_range(&KeyRange::ALL).expect("compaction");
    assert!(wip.buckets().len() > 1);
    wip.delete_range(&KeyRange::ALL, Durability::Buffered).expect("a delete");
    maintain(&wip);
    assert_eq!(wip.range_size(&KeyRange::ALL).bytes, 0);
    wip.verify().expect("every invariant");
}

#[test]
fn deleted_ranges_of_a_bucket_stay_few() {
    let wip = Arc::new(open(&SimDevice::new(1, SimOptions::default())));
    let most = |wip: &Wip<SimDevice>| {
        let count = |stores: &crate::bucket::Stores<SimDevice>| {
            stores.deleted.len() + stores.version.deleted.len()
        };
        wip.buckets().iter().map(|bucket| count(&bucket.read())).max()
    };
    let key = |n: u64| n.to_be_bytes();
    let delete = |n: u64| {
        wip.put(&key(n), b"", Durability::Buffered).expect("a put");
        let range = KeyRange::new(key(n), key(n + 1));
        wip.delete_range(&range, Durability::Buffered).expect("a delete");
    };
    (0..500).for_each(delete);
    assert_eq!(most(&wip), Some(500), "nobody attends to the store");
    maintain(&wip);
    assert!(most(&wip) <= Some(64), "{:?}", most(&wip));
    // A snapshot needs all of them, and maintenance ends all the same.
    let mut iter = iterate(&wip);
    (500..700).for_each(delete);
    maintain(&wip);
    assert!(most(&wip) >= Some(200) && !iter.seek_to_first().expect("a seek"));
    drop(iter);
    maintain(&wip);
    assert!(most(&wip) <= Some(64), "{:?}", most(&wip));
}

#[test]
fn searches_of_iterators_count_as_reads_of_their_bucket() {
    let wip = Arc::new(open(&SimDevice::new(1, SimOptions::default())));
    wip.put(b"key", b"", Durability::Buffered).expect("a put");
    let mut iter = iterate(&wip);
    let reads = || wip.buckets().at(0).reads.load(std::sync::atomic::Ordering::Relaxed);
    for n in 0..200 {
        let is_there = if n % 2 == 0 { iter.seek(b"a") } else { iter.seek_for_prev(b"z") };
        assert!(is_there.expect("a seek"));
    }
    assert_eq!(reads(), 200 * crate::bucket::SEARCH_READS);
    drop(iter);
}

#[test]
fn searches_of_ranges_soon_have_runs_merged_and_as_many_gets_do_not() {
    let device = SimDevice::new(1, SimOptions::default());
    let options = [("runs_max", 20), ("bucket_bytes_max", 1 << 20)];
    let wip = Arc::new(open_with(&device, &options));
    let key = |n: u64| n.to_be_bytes();
    for round in 0..6 {
        for n in 0..30 {
            wip.put(&key(6 * n + round), &[7; 100], Durability::Buffered).expect("a put");
        }
        wip.flush(wip.buckets().at(0)).expect("a flush");
    }
    let runs = || wip.buckets().at(0).read().version.runs.len();
    for n in 0..50 {
        wip.get(&key(n)).expect("a get");
    }
    maintain(&wip);
    assert_eq!((wip.buckets().len(), runs()), (1, 6));
    for n in 0..50 {
        assert!(iterate(&wip).seek(&key(n)).expect("a seek"));
    }
    maintain(&wip);
    assert_eq!(runs(), 1);
}

#[test]
fn searches_that_read_nothing_have_runs_merged_as_well() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = Arc::new(open_with(&device, &LARGE));
    let key = |n: u64| n.to_be_bytes();
    for round in 0..2 {
        for n in 0..3000 {
            wip.put(&key(3 * n + round), &[7; 100], Durability::Buffered).expect("a put");
        }
        wip.flush(wip.buckets().at(0)).expect("a flush");
    }
    let search = |n: u64| assert!(iterate(&wip).seek(&key(n)).expect("a seek"));
    (0..8000).for_each(search);
    let bucket = wip.buckets().at(0).clone();
    bucket.reads.store(0, std::sync::atomic::Ordering::Relaxed);
    bucket.range_reads.store(0, std::sync::atomic::Ordering::Relaxed);
    let before = device.counters().snapshot().reads;
    (0..900).for_each(search);
    assert_eq!(device.counters().snapshot().reads, before, "all is in the cache");
    maintain(&wip);
    assert_eq!(bucket.read().version.runs.len(), 1);
}

#[test]
fn what_is_flushed_and_merged_is_in_the_cache_while_there_is_room() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = Arc::new(open_with(&device, &LARGE));
    let key = |n: u64| n.to_be_bytes();
    let reads = || device.counters().snapshot().reads;
    let all = || (0..3000).all(|n| wip.get(&key(n)).expect("a get").is_some());
    for _ in 0..2 {
        for n in 0..3000 {
            wip.put(&key(n), &[7; 100], Durability::Buffered).expect("a put");
        }
        wip.flush(wip.buckets().at(0)).expect("a flush");
        let before = reads();
        assert!(all());
        assert_eq!(reads(), before, "it was flushed");
    }
    let taken = wip.tables.cache.bytes();
    wip.compact_range(&KeyRange::ALL).expect("a compaction");
    let before = reads();
    assert!(all());
    assert_eq!(reads(), before, "it was merged");
    assert!(wip.tables.cache.bytes() < taken * 2 / 3, "blocks of tables that are gone are there");
}

#[test]
fn searches_of_a_store_that_was_opened_again_have_runs_merged_as_well() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open_with(&device, &LARGE);
    let key = |n: u64| n.to_be_bytes();
    for round in 0..2 {
        for n in 0..3000 {
            wip.put(&key(3 * n + round), &[7; 100], Durability::Buffered).expect("a put");
        }
        wip.flush(wip.buckets().at(0)).expect("a flush");
    }
    drop(wip);
    let wip = Arc::new(open_with(&device, &LARGE));
    // More is written than users put since then.
    wip.put(&key(0), b"", Durability::Buffered).expect("a put");
    wip.flush(wip.buckets().at(0)).expect("a flush");
    for n in 0..8000 {
        assert!(iterate(&wip).seek(&key(n)).expect("a seek"));
    }
    maintain(&wip);
    assert_eq!(wip.buckets().at(0).read().version.runs.len(), 1);
}

#[test]
fn a_search_of_many_runs_reads_them_together_and_each_once() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = Arc::new(open_with(&device, &[("runs_max", 20)]));
    let key = |n: u64| n.to_be_bytes();
    for round in 0..6 {
        for n in 0..30 {
            wip.put(&key(6 * n + round), &[7; 100], Durability::Buffered).expect("a put");
        }
        wip.flush(wip.buckets().at(0)).expect("a flush");
    }
    let reads = || device.counters().snapshot().reads;
    let version = wip.buckets().at(0).read().version.clone();
    let before = reads();
    let mut runs: Vec<_> = version.runs.iter().map(|run| RunCursor::new(run.clone(), 0)).collect();
    for run in &mut runs {
        assert!(run.begin_seek(&key(77)).is_some(), "it is to be read");
        assert!(run.begin_seek_before(&key(77)).is_some(), "it is to be read");
    }
    assert_eq!((runs.len(), reads()), (6, before));
    for is_forward in [true, false] {
        wip.tables.cache.set_bytes_max(0);
        let before = reads();
        let mut iter = iterate(&wip);
        let is_there = if is_forward { iter.seek(&key(77)) } else { iter.seek_for_prev(&key(77)) };
        assert!(is_there.expect("a seek") && iter.key() == key(77));
        assert_eq!(reads() - before, 6, "forwards: {is_forward}");
    }
}

/// Options with which a few thousand entries stay in one memtable.
const LARGE: [(&str, u64); 5] = [
    ("memory_bytes", 64 << 20),
    ("memtable_bytes_max", 8 << 20),
    ("log_bytes_max", 16 << 20),
    ("segment_bytes", 4 << 20),
    ("bucket_bytes_max", 8 << 20),
];

#[test]
fn searches_of_ranges_soon_have_a_memtable_flushed_and_as_many_gets_do_not() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = Arc::new(open_with(&device, &LARGE));
    let key = |n: u64| n.to_be_bytes();
    for n in 0..12_000 {
        wip.put(&key(n), &[7; 100], Durability::Buffered).expect("a put");
    }
    let runs = || wip.buckets().at(0).read().version.runs.len();
    for n in 0..400 {
        wip.get(&key(n)).expect("a get");
    }
    maintain(&wip);
    assert_eq!(runs(), 0);
    for n in 0..400 {
        assert!(iterate(&wip).seek(&key(n)).expect("a seek"));
    }
    maintain(&wip);
    assert_eq!((runs(), wip.buckets().at(0).read().active.len()), (1, 0));
}

#[test]
fn who_may_not_wait_leaves_a_job_where_it_would() {
    let (mut flushes_left, mut compactions_left) = (0, 0);
    for seed in 0..8 {
        let device = SimDevice::new(seed, SimOptions::default());
        let wip = Arc::new(open_with(&device, &LARGE));
        for round in 0..2 {
            for n in 0..12_000u64 {
                let key = (2 * n + round).to_be_bytes();
                wip.put(&key, &[7; 100], Durability::Buffered).expect("a put");
            }
            let frozen = wip.oldest_frozen(wip.buckets().at(0)).expect("it was written");
            let mut flush = Flush::new(&wip, vec![frozen]).expect("the log has its entries");
            // Some of its first buffers wait for those before.
            let step = flush.step(&wip.job_context(), u64::MAX, false).expect("a step");
            flushes_left += u32::from(matches!(step, Step::Waits(_)));
            drop(flush);
            wip.flush(wip.buckets().at(0)).expect("a flush");
        }
        let bucket = wip.buckets().at(0).clone();
        let mut compaction = Compaction::new(bucket, 2, 0);
        let step = compaction.step(&wip.job_context(), u64::MAX, false).expect("a step");
        compactions_left += u32::from(matches!(step, Step::Waits(_)));
        // It goes on from there.
        while !matches!(compaction.step(&wip.job_context(), u64::MAX, true), Ok(Step::Ready)) {}
        compaction.finish(&wip.job_context()).expect("a compaction");
        wip.verify().expect("every invariant");
        let count = wip.as_admin().expect("it has one").count(true).expect("a count");
        assert_eq!((count.low, count.high), (24_000, 24_000));
    }
    // Half of the transfers are not done before somebody waits.
    assert!(flushes_left > 0 && compactions_left > 0, "{flushes_left}, {compactions_left}");
}

#[test]
fn flushes_of_several_buckets_end_together_or_one_by_one() {
    let operations = |together: bool| {
        let device = SimDevice::new(1, SimOptions::default());
        let wip = open_with(&device, &[("first_buckets", 4)]);
        let key = |n: u64| (n << 54).to_be_bytes();
        for n in 0..1000 {
            wip.put(&key(n), &[n as u8; 20], Durability::Buffered).expect("a put");
        }
        let buckets = wip.buckets();
        let ready = |bucket: &Arc<_>| {
            let frozen = wip.oldest_frozen(bucket).expect("it was written");
            let mut flush = Flush::new(&wip, vec![frozen]).expect("the log has its entries");
            while !matches!(
                flush.step(&wip.job_context(), u64::MAX, true).expect("a step"),
                Step::Ready
            ) {}
            flush
        };
        let mut flushes: Vec<_> = buckets.iter().map(ready).collect();
        assert_eq!(flushes.len(), 4);
        let before = device.op_count();
        while !flushes.is_empty() {
            let count = if together { flushes.len() } else { 1 };
            Flush::finish(flushes.drain(..count).collect(), &wip.job_context()).expect("a flush");
        }
        let operations = device.op_count() - before;
        assert!(buckets.iter().all(|bucket| bucket.read().version.runs.len() == 1));
        assert_eq!(wip.metrics.unflushed_bytes(), 0);
        wip.verify().expect("every invariant");
        drop(wip);
        let wip = open(&device);
        for n in 0..1000 {
            assert_eq!(wip.get(&key(n)).expect("a get"), Some(vec![n as u8; 20]));
        }
        operations
    };
    let (together, apart) = (operations(true), operations(false));
    // Of the directory, and of the manifest, which is written before.
    assert!(together + 9 <= apart, "{together} operations of the device, {apart} one by one");
}

#[test]
fn a_range_stays_while_a_newer_run_has_what_it_hides() {
    let wip = open(&SimDevice::new(1, SimOptions::default()));
    let put = |key: &[u8]| wip.put(key, b"value", Durability::Buffered).expect("a put");
    let bucket = wip.buckets().of(b"").clone();
    put(b"oldest run");
    wip.flush(&bucket).expect("a flush");
    put(b"hidden");
    let range = KeyRange::prefix(b"hidden");
    wip.delete_range(&range, Durability::Buffered).expect("a delete");
    wip.flush(&bucket).expect("a flush");
    assert_eq!(bucket.read().version.runs.len(), 2);
    let of_oldest = || {
        let compaction = Compaction::new(Arc::clone(&bucket), 1, 0);
        Some(Job::Compaction(Box::new(compaction)))
    };
    wip.do_now(&of_oldest).expect("a compaction");
    assert_eq!(wip.get(b"hidden").expect("a get"), None);
    assert_eq!(bucket.read().version.deleted.len(), 1);
    wip.compact_range(&KeyRange::ALL).expect("a compaction");
    assert!(bucket.read().version.deleted.is_empty(), "nothing is left that it hides");
    assert_eq!(wip.get(b"hidden").expect("a get"), None);
}

#[test]
fn what_was_written_before_a_join_counts_as_written_after_it() {
    let wip = split_in_parts(&SimDevice::new(1, SimOptions::default()));
    let first = 0u32.to_be_bytes();
    while wip.flush(wip.buckets().at(0)).expect("a flush") > 0 {}
    let before = wip.seen(&first);
    wip.put(&first, b"written", Durability::Buffered).expect("a put");
    while wip.flush(wip.buckets().at(0)).expect("a flush") > 0 {}
    join_first_two(&wip);
    assert_ne!(wip.seen(&first), before);
}

#[test]
fn what_is_cleared_counts_as_written() {
    let wip = open(&SimDevice::new(1, SimOptions::default()));
    wip.put(b"key", b"value", Durability::Buffered).expect("a put");
    while wip.flush(wip.buckets().at(0)).expect("a flush") > 0 {}
    let before = wip.seen(b"key");
    wip.as_admin().expect("it has one").clear().expect("it clears");
    assert_ne!(wip.seen(b"key"), before);
}

#[test]
fn bounds_longer_than_any_key_are_refused() {
    let wip = open(&SimDevice::new(1, SimOptions::default()));
    let delete = |len: usize| {
        let range = KeyRange::new(b"", vec![b'k'; len]);
        wip.delete_range(&range, Durability::Buffered)
    };
    delete(crate::KEY_BYTES_MAX + 1).expect("right behind the longest key");
    let refused = delete(crate::KEY_BYTES_MAX + 2).expect_err("too long");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
}
