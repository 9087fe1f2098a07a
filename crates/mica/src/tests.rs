//! What the conformance suite cannot see from outside.

use crate::mica::Mica;
use crate::options::OPTIONS;
use silica_base::{HashSeed, ManualClock, Prng, test_size};
use silica_engine::{
    Admin, Atomic, Durability, Engine, EngineExt, EntryRef, Environment, ErrorKind, Expected,
    GetSink, MetricsMap, Op, OpKind, OptionValues, Update, WriteBatch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: Durability = Durability::Buffered;

fn open(pairs: &[(&str, &str)], offset_bits: u32) -> (Mica, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock: clock.clone(), seed: HashSeed([3; 16]) };
    let options = OptionValues::parse(OPTIONS, pairs.iter().copied()).expect("options");
    (Mica::open_with(&options, &environment, offset_bits, None).expect("a cache"), clock)
}

fn metrics(mica: &Mica) -> MetricsMap {
    let mut metrics = MetricsMap::default();
    mica.metrics(&mut metrics);
    metrics
}

/// Offsets that begin anew every few laps: a slot that was not cleaned in time would name the
/// bytes of another entry, or none.
#[test]
fn dangling_slots_are_gone_before_offsets_begin_anew() {
    for eviction in ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo"] {
        let memory = [("memory_bytes", "64KiB"), ("partitions", "1"), ("eviction", eviction)];
        let (mica, _) = open(&memory, if eviction == "s3-fifo" { 20 } else { 17 });
        let (mut model, mut prng) = (BTreeMap::new(), Prng::new(5));
        for round in 0..test_size(60_000, 600_000, 60_000_000) {
            let key = prng.below(3000).to_le_bytes();
            let value = vec![round as u8; prng.below(120) as usize];
            mica.put(&key, &value, NOW).expect("a put");
            model.insert(key, value);
            let key = prng.below(3000).to_le_bytes();
            if let Some(found) = mica.get(&key).expect("a get") {
                assert_eq!(Some(&found), model.get(&key), "an entry of old");
            }
            if round % 5000 == 0 {
                mica.verify().expect("every invariant");
            }
        }
        let metrics = metrics(&mica);
        let laps = metrics.get("log_bytes_written") / metrics.get("log_bytes");
        assert!(laps > 40.0, "{laps} laps, offsets begin anew every six or eight");
    }
}

/// The place of a key that is compared is taken over for its write, if both lend the same bytes;
/// else, and behind many keys that are only compared, it is found anew.
#[test]
fn what_is_compared_and_written_goes_to_its_own_place() {
    let (mica, clock) = open(&[("memory_bytes", "1MiB"), ("partitions", "4")], 48);
    let keys: Vec<Vec<u8>> = (0..40).map(|key| format!("key {key}").into_bytes()).collect();
    let value = |key: usize, round: usize| vec![key as u8; 3 + 40 * ((key + round) % 3)];
    let write = |round: usize, differs: Option<usize>, written: &[usize]| {
        let old: Vec<Vec<u8>> = (0..keys.len()).map(|key| value(key, round)).collect();
        let new: Vec<Vec<u8>> = written.iter().map(|key| value(*key, round + 1)).collect();
        let expected: Vec<Expected<'_>> = (0..keys.len())
            .map(|key| {
                let entry = (key % 9 != 8).then(|| EntryRef::new(&old[key]));
                let wrong = EntryRef { user_bits: 1, ..EntryRef::new(&old[key]) };
                let entry = if differs == Some(key) { Some(wrong) } else { entry };
                Expected { key: &keys[key], entry }
            })
            .collect();
        let copies: Vec<Vec<u8>> = written.iter().map(|key| keys[*key].clone()).collect();
        let ops: Vec<Op<'_>> = (0..written.len())
            .map(|at| Op {
                // Every fifth key is lent by other bytes.
                key: if at % 5 == 4 { &copies[at] } else { &keys[written[at]] },
                kind: OpKind::Put(EntryRef::new(&new[at])),
            })
            .collect();
        let held = mica.write_expecting(&expected, &ops, NOW).expect("a conditional write");
        for key in (0..keys.len()).filter(|key| key % 9 != 8) {
            let is_written = held && written.contains(&key);
            let there = mica.get(&keys[key]).expect("a get");
            assert_eq!(there, Some(value(key, round + usize::from(is_written))), "{key}");
            // Back to what the next round expects.
            mica.put(&keys[key], &value(key, 0), NOW).expect("a put");
        }
        held
    };
    for key in (0..keys.len()).filter(|key| key % 9 != 8) {
        mica.put(&keys[key], &value(key, 0), NOW).expect("a put");
    }
    let every = |step: usize| (0..keys.len()).step_by(step).filter(|key| key % 9 != 8);
    for step in 1..9 {
        let written: Vec<usize> = every(step).collect();
        assert!(write(0, None, &written), "every {step}th key");
        assert!(!write(0, Some(39), &written) && !write(0, Some(8), &written));
        assert!(write(0, None, &written.iter().rev().copied().collect::<Vec<_>>()), "backwards");
    }
    // What has expired is not there.
    let entry = EntryRef { expires_unix_ms: 10, ..EntryRef::new(b"v") };
    mica.write(WriteBatch::new().put_entry(b"k", entry), NOW).expect("a write");
    for (ns, is_there) in [(9_999_999, true), (1, false)] {
        clock.advance_ns(ns);
        let holds = |entry| mica.write_expecting(&[Expected { key: b"k", entry }], &[], NOW);
        assert_eq!(holds(Some(entry)).expect("a look"), is_there);
        assert_eq!(holds(None).expect("a look"), !is_there);
        assert!(!holds(Some(EntryRef::new(b"v"))).expect("a look"), "without its expiry");
    }
    mica.verify().expect("every invariant");
}

#[derive(Default)]
struct Meta(Option<(u64, u32)>);

impl GetSink for Meta {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 = Some((entry.expires_unix_ms, entry.user_bits));
    }
}

#[test]
fn expiry_is_exact_whatever_looks_at_it() {
    // A policy that reaches every entry some time, whatever is asked for.
    let (mica, clock) = open(&[("memory_bytes", "1MiB"), ("eviction", "second-chance")], 48);
    let entry = EntryRef { value: b"v", expires_unix_ms: 10, user_bits: 9 };
    mica.write(WriteBatch::new().put_entry(b"k", entry).put(b"l", b""), NOW).expect("a write");
    let seen = |mica: &Mica| {
        let (mut meta, mut current) = (Meta::default(), None);
        mica.get_many(&[b"k"], &mut meta).expect("a get");
        let mut decide = |entry: Option<EntryRef<'_>>| {
            current = entry.map(|entry| (entry.expires_unix_ms, entry.user_bits));
            Update::Keep
        };
        mica.update(b"k", NOW, &mut decide).expect("an update");
        assert_eq!(meta.0, current);
        (meta.0.is_some(), mica.count(true).expect("a count").estimate)
    };
    clock.advance_ns(9_999_999);
    assert_eq!(seen(&mica), (true, 2));
    clock.advance_ns(1);
    assert_eq!(seen(&mica), (false, 1), "gone at its millisecond");
    // In the same burst of updates, too.
    let mut found = Vec::new();
    let update = Update::Put { value: vec![1], expires_unix_ms: 10, user_bits: 0 };
    let mut decide = |_: usize, current: Option<EntryRef<'_>>| {
        found.push(current.is_some());
        update.clone()
    };
    mica.update_many(&[b"m", b"m"], NOW, &mut decide).expect("updates");
    assert_eq!(found, [false, false], "what has expired already is not there");
    for n in 0..60_000_u32 {
        mica.put(&n.to_le_bytes(), &[0; 20], NOW).expect("a put");
    }
    let metrics = metrics(&mica);
    assert_eq!(metrics.get("expirations"), 2.0);
    let evicted = metrics.get("evictions") + metrics.get("entries_estimate");
    assert_eq!(evicted, 60_001.0, "all others are there or counted");
}

/// What is used stays, as far as the policy says; what is not goes.
#[test]
fn policies_keep_what_is_used() {
    let kept = |eviction, by_reads| {
        let memory = [("memory_bytes", "256KiB"), ("partitions", "1"), ("eviction", eviction)];
        let (mica, _) = open(&memory, 48);
        mica.put(b"used", b"value", NOW).expect("a put");
        mica.put(b"unused", b"value", NOW).expect("a put");
        for n in 0..20_000_u32 {
            // As long as the index is made for: it evicts nothing.
            mica.put(&n.to_le_bytes(), &[0; 60], NOW).expect("a put");
            if n % 10 == 0 && by_reads {
                mica.get(b"used").expect("a get");
            } else if n % 10 == 0 {
                mica.put(b"used", b"VALUE", NOW).expect("a put");
            }
        }
        assert_eq!(mica.get(b"unused").expect("a get"), None, "{eviction}");
        mica.get(b"used").expect("a get").is_some()
    };
    for by_reads in [false, true] {
        assert!(kept("lru", by_reads) && kept("approximate-lru", by_reads));
        assert!(kept("second-chance", by_reads));
    }
    assert!(!kept("fifo", true), "reading does not help");
    let moved = |eviction| {
        let (mica, _) = open(&[("memory_bytes", "1MiB"), ("eviction", eviction)], 48);
        mica.put(b"used", b"value", NOW).expect("a put");
        (0..100).for_each(|_| assert!(mica.get(b"used").expect("a get").is_some()));
        metrics(&mica).get("entries_moved")
    };
    let all = ["fifo", "lru", "approximate-lru", "second-chance"].map(moved);
    assert_eq!(all, [0.0, 100.0, 0.0, 0.0], "young entries are not moved without need");
}

/// Reads of what fits move nothing, however old it is; once something has to give way they do.
#[test]
fn what_fits_is_not_moved() {
    let memory = [("memory_bytes", "256KiB"), ("partitions", "1"), ("entry_bytes_mean", "24")];
    let (mica, _) = open(&[&memory[..], &[("eviction", "approximate-lru")]].concat(), 48);
    // An entry takes 32 bytes of the log.
    let places = metrics(&mica).get("log_bytes") as u32 / 32;
    let put = |n: u32| mica.put(&n.to_le_bytes(), &[0; 16], NOW).expect("a put");
    let read_all = |to: u32| {
        let found = (0..to).filter(|n| mica.get(&n.to_le_bytes()).expect("a get").is_some());
        found.count() as u32
    };
    let moved = || metrics(&mica).get("entries_moved");
    let fits = places / 5 * 4;
    // The second time the log is cleared, and begins in its middle.
    for _ in 0..2 {
        (0..fits).chain(0..fits).for_each(put);
        assert_eq!((read_all(fits), read_all(fits), moved()), (fits, fits, 0.0), "all of it fits");
        mica.clear().expect("all removed");
    }
    assert_eq!(metrics(&mica).get("updates_in_place"), 2.0 * f64::from(fits));
    (0..places + 10).for_each(put);
    assert!(read_all(places) < places && moved() > f64::from(places / 4), "{} moved", moved());
}

/// What was deleted or written over gives way first, however old what is live is, and
/// though it lies together and nobody reads it.
#[test]
fn nothing_goes_while_most_of_the_memory_is_dead() {
    for eviction in ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo"] {
        for largest in [16, 200, 6000] {
            let memory = [("memory_bytes", "1MiB"), ("partitions", "1"), ("eviction", eviction)];
            let (mica, _) = open(&[&memory[..], &[("entry_bytes_mean", "90")]].concat(), 48);
            let log_bytes = metrics(&mica).get("log_bytes");
            let mut kept = 0_u64;
            mica.put(b"large", &[7; 100 << 10], NOW).expect("a put in chunks");
            while metrics(&mica).get("live_bytes") < log_bytes * 0.4 {
                mica.put(&kept.to_le_bytes(), &[1; 60], NOW).expect("a put");
                kept += 1;
            }
            let mut prng = Prng::new(largest);
            let mut churned = 0_u64;
            while metrics(&mica).get("log_bytes_written") < 12.0 * log_bytes {
                let key = |n: u64| format!("of a while {n}").into_bytes();
                let value = vec![2; prng.below(largest) as usize];
                // One of three is written over, and mostly does not fit where it was.
                mica.put(&key(churned - churned % 3 / 2), &value, NOW).expect("a put");
                if let Some(old) = churned.checked_sub(3) {
                    mica.delete(&key(old), NOW).expect("a delete");
                }
                churned += 1;
            }
            let held = (0..kept).filter(|key| has(&mica, *key)).count() as u64;
            let lost = metrics(&mica).get("evictions");
            assert_eq!((held, lost), (kept, 0.0), "{eviction}, values of {largest}");
            assert!(
                mica.get(b"large").expect("a get").is_some_and(|value| value == [7; 100 << 10])
            );
            mica.verify().expect("every invariant");
        }
    }
}

/// A cache by S3-FIFO that is full of keys from 0 on, none of them used, but one that is: `used`.
fn full_by_s3_fifo() -> (Mica, u64) {
    let memory = [("memory_bytes", "256KiB"), ("partitions", "1"), ("entry_bytes_mean", "16")];
    let (mica, _) = open(&[&memory[..], &[("eviction", "s3-fifo")]].concat(), 48);
    mica.put(b"used", b"value", NOW).expect("a put");
    let mut keys = 0;
    while metrics(&mica).get("evictions") == 0.0 {
        put(&mica, keys);
        keys += 1;
    }
    assert!(mica.get(b"used").expect("a get").is_some());
    (mica, keys)
}

fn put(mica: &Mica, key: u64) {
    mica.put(&key.to_le_bytes(), b"v", NOW).expect("a put");
}

fn has(mica: &Mica, key: u64) -> bool {
    mica.get(&key.to_le_bytes()).expect("a get").is_some()
}

#[test]
fn what_is_asked_for_once_pushes_out_little() {
    let (mica, keys) = full_by_s3_fifo();
    let held = |mica: &Mica| (0..keys).filter(|key| has(mica, *key)).count() as u64;
    (0..10 * keys).for_each(|n| put(&mica, 1 << 40 | n));
    let held = held(&mica);
    assert!(held > keys * 85 / 100 && held < keys * 92 / 100, "{held} of {keys} are still there");
    mica.verify().expect("every invariant");
}

#[test]
fn what_is_used_twice_or_put_again_stays() {
    let (mica, keys) = full_by_s3_fifo();
    // All of these are in the small log at once.
    let fresh = |n: u64| 1 << 40 | n;
    (0..4).for_each(|n| put(&mica, fresh(n)));
    assert!(has(&mica, fresh(1)), "used once");
    assert!(has(&mica, fresh(2)) && has(&mica, fresh(2)), "used twice");
    let flood = |from: u64, to: u64| (from..to).for_each(|n| put(&mica, 1 << 50 | n));
    let small = keys / 8;
    flood(0, small);
    put(&mica, fresh(3));
    flood(small, 20 * small);
    let there = [0, 1, 2, 3].map(|n| has(&mica, fresh(n)));
    assert_eq!(there, [false, false, true, true], "not used, once, twice, put again");
    mica.verify().expect("every invariant");
}

#[test]
fn the_main_log_gives_up_what_is_not_used_any_more() {
    let (mica, keys) = full_by_s3_fifo();
    // Twice as many as fit, each put again while it is remembered: they take the place of the old.
    for round in 0..40 {
        for n in 0..keys / 4 {
            put(&mica, (1 << 40) + round / 4 * keys + n);
        }
    }
    let held = (0..keys).filter(|key| has(&mica, *key)).count() as u64;
    assert!(held < keys / 10, "{held} of {keys} are still there");
    mica.verify().expect("every invariant");
}

#[test]
fn what_was_used_most_stays_where_everything_was_used() {
    let (mica, keys) = full_by_s3_fifo();
    // Uses of the youngest are not noted.
    let old = keys / 2;
    (0..old).for_each(|key| assert!(has(&mica, key)));
    let used_most = || (0..old).filter(|key| key % 3 == 0);
    (0..2).for_each(|_| used_most().for_each(|key| assert!(has(&mica, key))));
    // Put again while they are remembered, new ones go to the main log, half of it.
    for round in 0..8 {
        for n in 0..keys / 4 {
            put(&mica, (1 << 40) + round / 2 * keys + n);
        }
    }
    let gone = used_most().filter(|key| !has(&mica, *key)).count();
    let held = (0..old).filter(|key| has(&mica, *key)).count() as u64;
    assert_eq!(gone, 0, "of those used most; {held} of {old} are still there");
    assert!(held < old - old / 100, "{held} of {old} are still there");
    mica.verify().expect("every invariant");
}

/// An entry that is used is never missed, not even while it is on its way to the tail.
#[test]
fn what_gets_a_second_chance_is_always_there() {
    for eviction in ["second-chance", "s3-fifo"] {
        is_always_there(eviction);
    }
}

fn is_always_there(eviction: &str) {
    let memory = [("memory_bytes", "256KiB"), ("partitions", "1"), ("entry_bytes_mean", "12")];
    let (mica, _) = open(&[&memory[..], &[("eviction", eviction)]].concat(), 48);
    mica.put(b"used", b"value", NOW).expect("a put");
    let done = std::sync::atomic::AtomicBool::new(false);
    let is_there = || mica.get(b"used").expect("a get").is_some();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(is_there(), "missed by a reader");
            }
        });
        for n in 0..test_size(200_000, 2_000_000, 100_000_000) {
            // Keys come back once while they are remembered, so that entries enter the main log.
            let key = n - n / 4000 * 2000;
            mica.put(&key.to_le_bytes(), b"v", NOW).expect("a put");
            if n % 100 == 0 && !is_there() {
                break;
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(is_there());
    let metrics = metrics(&mica);
    assert!(metrics.get("entries_moved") >= 20.0, "{} moves", metrics.get("entries_moved"));
    mica.verify().expect("every invariant");
}

#[test]
fn memory_is_no_more_than_the_number_that_was_given() {
    for (memory, mean) in [("64KiB", "64"), ("3MiB", "16"), ("40MiB", "1000")] {
        let (mica, _) = open(&[("memory_bytes", memory), ("entry_bytes_mean", mean)], 48);
        let metrics = metrics(&mica);
        let partitions = size_of_val(&*mica.partitions) as f64;
        let sum = metrics.get("index_bytes") + metrics.get("log_bytes") + partitions;
        let budget = metrics.get("memory_budget_bytes");
        assert!(sum <= budget && sum > 0.8 * budget, "{sum} of {budget}");
    }
}

/// What a burst reports, in its order.
#[derive(Default)]
struct Reports(Vec<(usize, Vec<u8>)>);

impl GetSink for Reports {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0.push((index, entry.value.to_vec()));
    }
}

/// Keys that are there and that are not, of many lengths, some of them twice; small values and
/// large ones; chains of several buckets.
#[test]
fn bursts_of_any_length_report_each_key_in_its_turn() {
    for (eviction, partitions) in [("none", "1"), ("none", "4"), ("s3-fifo", "1"), ("lru", "4")] {
        let pairs = [("memory_bytes", "4MiB"), ("partitions", partitions), ("eviction", eviction)];
        let mean = ("entry_bytes_mean", if eviction == "none" { "1000" } else { "200" });
        let (mica, _) = open(&[&pairs[..], &[mean]].concat(), 48);
        let (mut model, mut prng) = (BTreeMap::new(), Prng::new(9));
        let key = |n: u64| n.to_string().repeat(n as usize % 20 + 1).into_bytes();
        let eight = |n: u64| n.to_le_bytes().to_vec();
        for n in 0..4000 {
            let len = if prng.one_in(9) { prng.below(900) } else { prng.below(10) };
            for key in [key(n), eight(n)] {
                let value = vec![prng.next_u64() as u8; len as usize];
                mica.put(&key, &value, NOW).expect("a put");
                model.insert(key, value);
            }
        }
        for len in (0..150).chain([1000]) {
            let mut draw = || {
                let n = prng.below(5000);
                if len % 3 > 0 || prng.one_in(2) { eight(n) } else { key(n) }
            };
            let keys: Vec<Vec<u8>> = (0..len).map(|_| draw()).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let there = keys.iter().map(|key| model.get(*key).cloned()).enumerate();
            let expected: Vec<_> = there.filter_map(|(at, value)| Some((at, value?))).collect();
            let mut reports = Reports::default();
            mica.get_many(&keys, &mut reports).expect("gets");
            assert_eq!(reports.0, expected, "{len} keys, {eviction}");
            if partitions == "1" {
                let mut shard = mica.as_sharded().and_then(|s| s.take(0).ok()).expect("a shard");
                let mut reports = Reports::default();
                shard.get_many(&keys, &mut reports).expect("gets");
                assert_eq!(reports.0, expected, "{len} keys of the owner, {eviction}");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let options = OptionValues::parse(OPTIONS, [("memory_bytes", "64KiB"), ("partitions", "64")]);
    let environment = Environment::new(HashSeed([0; 16]));
    let error = Mica::open(&options.expect("options"), &environment).err().expect("too little");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("fewer partitions"));
    let (mica, _) = open(&[("memory_bytes", "256MiB")], 48);
    mica.put(b"k", &vec![1; 1 << 20], NOW).expect("a value of 1 MiB");
    let max = mica.descriptor().limits.value_bytes_max;
    assert!(max > 64 << 20, "{max}");
    let error = mica.put(b"k", &vec![1; max + 1], NOW).expect_err("a larger one");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let text = error.to_string();
    assert!(text.contains(&max.to_string()) && text.contains("memory_bytes of more"), "{text}");
    assert_eq!(mica.get(b"k").expect("a get"), Some(vec![1; 1 << 20]));
}

/// Several writers and readers of few keys in few buckets of a log that wraps around: whatever is
/// read was written for its key, in one piece.
#[test]
fn threads_see_whole_entries() {
    let memory = [("memory_bytes", "64KiB"), ("partitions", "1"), ("entry_bytes_mean", "500")];
    let (mica, _) = open(&memory, 20);
    let rounds = test_size(150_000, 500_000, 20_000_000);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let mica = &mica;
            scope.spawn(move || {
                let mut prng = Prng::new(thread);
                for round in 0..rounds {
                    let key = prng.below(100).to_le_bytes();
                    // Long ones are often read while the log overwrites them.
                    let len = 16 * (1 + prng.below(if thread == 0 { 250 } else { 30 }) as usize);
                    if thread % 2 == 0 {
                        let stamp = round << 8 | thread;
                        let value = [key, stamp.to_le_bytes()].concat().repeat(len / 16);
                        mica.put(&key, &value, NOW).expect("a put");
                    } else if let Some(value) = mica.get(&key).expect("a get") {
                        assert_eq!(value[..8], key, "of another key");
                        assert!(value.chunks(16).all(|piece| piece == &value[..16]), "torn");
                    }
                }
            });
        }
    });
    mica.verify().expect("every invariant");
    assert!(metrics(&mica).get("evictions_from_log") > 100.0);
}

#[test]
fn clearing_is_immediate_and_keeps_nothing() {
    let (mica, _) = open(&[("memory_bytes", "1MiB"), ("partitions", "4")], 48);
    for round in 0..5 {
        for n in 0..10_000_u32 {
            mica.put(&n.to_le_bytes(), &[round; 9], NOW).expect("a put");
        }
        mica.clear().expect("clearing");
        assert_eq!(mica.count(true).expect("a count").high, 0);
        assert_eq!(mica.get(&9999_u32.to_le_bytes()).expect("a get"), None);
        mica.verify().expect("every invariant");
    }
}
