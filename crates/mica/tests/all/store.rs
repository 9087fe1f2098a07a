//! Store mode: nothing goes by itself, what does not fit changes nothing, and room comes back.

use crate::support;
use crate::support::{MIB, MicaHarness, NOW, advance_ms, maintain, metric, put_until, seed};
use silica_base::{Error, ErrorKind, HashSeed, ManualClock, Prng, Result, test_size};
use silica_engine::{
    Admin, Atomic, Engine, EngineExt, EntryRef, Environment, GetSink, Layer, OptionValues, Scan,
    Sharded, Update, WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use silica_testkit::{self as testkit, Harness};
use std::collections::BTreeMap;
use std::sync::Arc;

fn options(memory_bytes: u64, partitions: u64, entry_bytes_mean: u64) -> OptionValues {
    let mut options = support::options(memory_bytes, partitions, "none");
    options.set("entry_bytes_mean", entry_bytes_mean);
    options
}

fn open(memory_bytes: u64, partitions: u64, entry_bytes_mean: u64) -> (Mica, Arc<ManualClock>) {
    support::open(&options(memory_bytes, partitions, entry_bytes_mean))
}

fn large(partitions: u64) -> MicaHarness {
    MicaHarness::new(64 * MIB, partitions, "none")
}

/// Little memory, chains of many buckets, and yet room for everything.
fn tiny(partitions: u64) -> MicaHarness {
    let mut harness = MicaHarness::new(512 << 10, partitions, "none");
    harness.options.set("entry_bytes_mean", 700);
    harness.with(|w| (w.keys, w.value_bytes_max) = (600, 300))
}

#[test]
fn conformance() {
    let (mica, _) = open(MIB, 1, 64);
    assert!(!mica.descriptor().capabilities.may_evict);
    testkit::basics(&mut large(4));
    let operations = test_size(10_000, 100_000, 1_000_000);
    testkit::differential(&mut large(4), seed(1), operations);
    testkit::differential(&mut tiny(1), seed(2), operations);
    testkit::differential(&mut tiny(4), seed(3), operations);
    testkit::iteration(&mut tiny(2), seed(1), 500);
    testkit::concurrent_readers(&mut tiny(1), seed(1), 2, operations as u64 / 4);
    let increments = test_size(1_000, 20_000, 1_000_000);
    testkit::concurrent_updates(&mut tiny(1), seed(1), 3, increments);
    testkit::published_batches(&mut large(2), seed(1), 2, test_size(200, 1_000, 100_000));
    // Each history has keys of its own.
    let histories = test_size(300, 10_000, 100_000);
    testkit::linearizable(&mut large(2), seed(1), histories);
}

#[test]
fn expiry() {
    let clock = Arc::new(ManualClock::default());
    testkit::expiry(&mut Kept::new(&clock), &clock);
    testkit::moments(&mut Kept::new(&clock), &clock);
}

/// Shows the same store whenever it is opened: the suite's test closes it in its middle.
struct Kept(Arc<Mica>);

impl Kept {
    fn new(clock: &Arc<ManualClock>) -> Self {
        let mut harness = tiny(2);
        harness.clock = clock.clone();
        Kept(Arc::new(harness.open().expect("a store")))
    }
}

impl Harness for Kept {
    type Engine = Opened;

    fn open(&mut self) -> Result<Opened> {
        Ok(Opened(Arc::clone(&self.0)))
    }

    fn wipe(&mut self) {}
}

struct Opened(Arc<Mica>);

impl Layer for Opened {
    type Inner = Mica;

    fn inner(&self) -> &Arc<Mica> {
        &self.0
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A batch as keys and values; `None` deletes.
type Batch = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn write(mica: &Mica, batch: &Batch) -> Result<()> {
    let mut ops = WriteBatch::new();
    for (key, value) in batch {
        match value {
            Some(value) => ops.put(key, value),
            None => ops.delete(key),
        };
    }
    mica.write(&ops, NOW)
}

/// Writes a batch through the atomic view: `update_all`, or `update_many` of the first one.
fn update(mica: &Mica, batch: &Batch) -> Result<()> {
    let update = |value: &Option<Vec<u8>>| value.clone().map_or(Update::Delete, Update::put);
    let keys: Vec<&[u8]> = batch.iter().map(|(key, _)| &key[..]).collect();
    mica.update_all(&keys, NOW, &mut |_| batch.iter().map(|(_, v)| update(v)).collect())
}

fn apply(model: &mut Model, batch: &Batch) {
    for (key, value) in batch {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

fn scanned(mica: &Mica) -> Model {
    let mut found = Model::new();
    let mut visit = |key: &[u8], entry: EntryRef<'_>| {
        assert!(found.insert(key.to_vec(), entry.value.to_vec()).is_none(), "twice");
    };
    assert_eq!(mica.scan(0, usize::MAX, &mut visit).expect("a scan"), None);
    found
}

fn check_same(mica: &Mica, model: &Model) {
    mica.verify().expect("every invariant");
    assert!(scanned(mica) == *model, "other entries than in the model");
}

/// So little memory that most puts of some phases are refused: against a map, with every refusal
/// checked to have changed nothing.
#[test]
fn a_full_store_refuses_whole_batches_and_loses_nothing() {
    let operations = test_size(20_000, 100_000, 30_000_000);
    // Space runs out first, or the index.
    for (number, (partitions, mean)) in (1..).zip([(1, 64), (2, 64), (1, 3000)]) {
        let (mica, _) = open(partitions * (64 << 10), partitions, mean);
        let (mut model, mut prng) = (Model::new(), Prng::new(seed(number)));
        let (mut refused, mut done) = ([0, 0], 0);
        for round in 0..operations {
            let is_growing = round / 500 % 3 != 0;
            let mut batch = Batch::new();
            let most = if prng.one_in(4) { 12 } else { 1 };
            for _ in 0..1 + prng.below(most) {
                let mut key = prng.below(4000).to_le_bytes().to_vec();
                key.truncate(2 + prng.below(2) as usize);
                let bytes = if prng.one_in(50) { 4000 } else { [20, 300][round as usize % 2] };
                let put = prng.one_in(if is_growing { 1 } else { 4 }) && !prng.one_in(9);
                batch.push((key, put.then(|| vec![round as u8; prng.below(bytes) as usize])));
            }
            let result = if prng.one_in(5) { update(&mica, &batch) } else { write(&mica, &batch) };
            match result {
                Ok(()) => {
                    done += 1;
                    apply(&mut model, &batch);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                    refused[usize::from(error.to_string().contains("index"))] += 1;
                    let is_new = !model.contains_key(&batch[0].0);
                    let needed = batch[0].1.as_ref().map_or(0, |v| 16 + v.len().div_ceil(8) * 8);
                    let largest = metric(&mica, "largest_free_bytes") as usize;
                    let is_by_space = batch.len() == 1 && partitions == 1 && is_new;
                    if is_by_space && !error.to_string().contains("index") {
                        assert!(largest < needed.max(24), "{needed} fit in {largest}");
                    }
                }
            }
            for (key, _) in &batch {
                assert_eq!(mica.get(key).expect("a get").as_ref(), model.get(key));
            }
            if round % 512 == 0 {
                check_same(&mica, &model);
            }
            if prng.one_in(10_000) {
                mica.clear().expect("cleared");
                model.clear();
            }
        }
        check_same(&mica, &model);
        let enough = operations / 100;
        assert!(done > 10 * enough && refused[usize::from(mean > 1000)] > enough, "{refused:?}");
        for key in model.keys() {
            mica.delete(key, NOW).expect("a delete");
        }
        check_same(&mica, &Model::new());
        assert_eq!([metric(&mica, "live_bytes"), metric(&mica, "fragmentation")], [0.0, 0.0]);
    }
}

/// Puts of `value` under new keys until the store is full.
fn fill(mica: &Mica, first: u32, value: &[u8]) -> (u32, Error) {
    let mut refused = (first..).map(|n| (n, mica.put(&n.to_le_bytes(), value, NOW)));
    let (n, result) = refused.find(|(_, result)| result.is_err()).expect("it is full one day");
    (n, result.expect_err("refused"))
}

#[test]
fn room_comes_back_for_other_sizes() {
    let (mica, _) = open(MIB, 1, 64);
    for (round, bytes) in [100, 7, 40_000, 500, 1].into_iter().enumerate() {
        let (end, error) = fill(&mica, 0, &vec![round as u8; bytes]);
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(error.to_string().contains("memory_bytes"), "{error}");
        mica.verify().expect("every invariant");
        assert_eq!(metric(&mica, "entries_estimate"), f64::from(end));
        let used = metric(&mica, "live_bytes") + metric(&mica, "free_bytes");
        assert_eq!(used, metric(&mica, "log_bytes"));
        // Every other one first, so that all room is in small pieces.
        let odd = (0..end).filter(|n| n % 2 == 1);
        for n in odd.chain((0..end).filter(|n| n % 2 == 0)) {
            assert_eq!(mica.get(&n.to_le_bytes()).expect("a get"), Some(vec![round as u8; bytes]));
            mica.delete(&n.to_le_bytes(), NOW).expect("a delete");
        }
        assert_eq!(metric(&mica, "free_bytes"), metric(&mica, "log_bytes"));
    }
}

#[test]
fn an_overwrite_that_does_not_fit_leaves_the_old_value() {
    let (mica, _) = open(MIB, 1, 1000);
    let (end, _) = fill(&mica, 0, &[1; 1000]);
    fill(&mica, end, b"");
    let key = |n: u32| n.to_le_bytes();
    for result in [
        mica.put(&key(7), &[2; 1009], NOW),
        mica.update(&key(7), NOW, &mut |_| Update::put(vec![2; 5000])),
        mica.write(WriteBatch::new().delete(&key(1)).put(&key(7), &[2; 3000]), NOW),
        mica.write(WriteBatch::new().put(&key(7), &[2; 10]).put(&key(8), &[2; 2500]), NOW),
    ] {
        assert_eq!(result.expect_err("refused").kind(), ErrorKind::Full);
        for n in [1, 7, 8] {
            assert_eq!(mica.get(&key(n)).expect("a get"), Some(vec![1; 1000]));
        }
    }
    // In place, shorter, or in the room that the same batch gives back.
    mica.put(&key(7), &[3; 1000], NOW).expect("it fits where it was");
    mica.put(&key(7), &[4; 10], NOW).expect("it is shorter");
    mica.put(&key(7), &[5; 900], NOW).expect("what it gave back is there");
    let mut batch = WriteBatch::new();
    mica.write(batch.delete(&key(8)).put(b"new", &[6; 999]), NOW).expect("in its place");
    assert_eq!(mica.get(b"new").expect("a get"), Some(vec![6; 999]));
    // A burst of updates does those that fit.
    let (many, all) = ([&b"new"[..], b"a", b"b"], [20, 30, 60_000]);
    let mut decide = |at: usize, _: Option<EntryRef<'_>>| Update::put(vec![7; all[at]]);
    assert_eq!(mica.update_many(&many, NOW, &mut decide).expect("the first ones"), 2);
    let mut decide = |_: usize, _: Option<EntryRef<'_>>| Update::put(vec![7; 60_000]);
    let error = mica.update_many(&many, NOW, &mut decide).expect_err("none");
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!(mica.get(b"new").expect("a get"), Some(vec![7; 20]));
    mica.verify().expect("every invariant");
}

#[test]
fn a_batch_over_several_partitions_is_refused_whole() {
    let (mica, _) = open(MIB, 4, 64);
    let (end, _) = fill(&mica, 0, &[1; 300]);
    let before = scanned(&mica);
    // Some partitions have room for the first of these, and one has not for its own, the last.
    let full = mica.shard_of(&end.to_le_bytes());
    let mut keys: Vec<[u8; 4]> = (end..end + 200).map(u32::to_le_bytes).collect();
    keys.sort_by_key(|key| mica.shard_of(key) == full);
    let mut batch = WriteBatch::new();
    keys.iter().for_each(|key| {
        batch.put(key, &[2; 300]);
    });
    (0..10_u32).for_each(|n| {
        batch.delete(keys[n as usize].as_slice());
    });
    assert_eq!(mica.write(&batch, NOW).expect_err("refused").kind(), ErrorKind::Full);
    check_same(&mica, &before);
    let taken: f64 = metric(&mica, "puts");
    assert_eq!(taken, f64::from(end), "what was taken back is not counted");
    let mut shard = mica.take(full).expect("nobody's");
    let mut batch = WriteBatch::new();
    let mine: Vec<_> = keys.iter().filter(|k| mica.shard_of(&k[..]) == shard.number()).collect();
    mine.iter().for_each(|key| {
        batch.put(&key[..], &[3; 3000]);
    });
    assert_eq!(shard.write(&batch, NOW).expect_err("refused").kind(), ErrorKind::Full);
    drop(shard);
    check_same(&mica, &before);
}

#[test]
fn what_has_expired_gives_back_its_room() {
    let (mica, clock) = open(MIB, 2, 64);
    let entries = 2000;
    let live = || metric(&mica, "entries_estimate");
    (0..entries).for_each(|n| put_until(&mica, n, u64::from(n % 2) * 500).expect("room"));
    assert_eq!((maintain(&mica), live()), (0, f64::from(entries)), "nothing is due");
    advance_ms(&clock, 600);
    // On access, with the rest of its chain.
    assert_eq!(mica.get(&1_u32.to_le_bytes()).expect("a get"), None);
    let expired = metric(&mica, "expirations");
    assert!((1.0..50.0).contains(&expired), "{expired}");
    assert_eq!(live(), f64::from(entries) - expired);
    // A bit at a time.
    assert!(maintain(&mica) > 10);
    assert_eq!(live(), f64::from(entries / 2));
    assert_eq!(maintain(&mica), 0, "nothing is left to do");
    mica.verify().expect("every invariant");
    // By writers in passing.
    (0..entries).for_each(|n| put_until(&mica, n, 1000).expect("room"));
    advance_ms(&clock, 2000);
    (0..2000).for_each(|n| put_until(&mica, n % 8, 0).expect("room"));
    assert_eq!(live(), 8.0);
    // And where they are in the way.
    let full = (1..).find(|n| put_until(&mica, *n, 4000).is_err()).expect("full one day");
    advance_ms(&clock, 4000);
    put_until(&mica, full, 0).expect("the expired ones have made room");
    mica.verify().expect("every invariant");
}

#[derive(Default)]
struct Whole(u64);

impl GetSink for Whole {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let value = entry.value;
        assert_eq!(value[..8], (index as u64).to_le_bytes(), "of another key");
        assert!(value.chunks(16).all(|piece| piece == &value[..16]), "torn");
        self.0 += 1;
    }
}

/// Entries of all sizes come and go in little memory while others read: whatever is read was
/// written for its key, in one piece.
#[test]
fn readers_see_whole_entries_where_blocks_are_used_again() {
    let (mica, _) = open(64 << 10, 1, 500);
    let rounds = test_size(60_000, 500_000, 20_000_000);
    let keys: Vec<[u8; 8]> = (0..300_u64).map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (mica, keys) = (&mica, &keys);
            scope.spawn(move || {
                let mut prng = Prng::new(thread);
                let mut refused = 0;
                for round in 0..rounds as u64 {
                    let key = keys[prng.below(keys.len() as u64) as usize];
                    let stamp = round << 8 | thread;
                    let value = [key, &stamp.to_le_bytes()].concat();
                    let value = value.repeat(1 + prng.below(40) as usize);
                    let result = mica.put(key, &value, NOW);
                    refused += u64::from(result.is_err());
                    if result.is_err() || prng.one_in(3) {
                        mica.delete(keys[prng.below(keys.len() as u64) as usize], NOW).expect("it");
                    }
                }
                assert!(refused > rounds as u64 / 1000, "it is never full");
            });
            scope.spawn(move || {
                let mut whole = Whole::default();
                for _ in 0..rounds / 64 {
                    mica.get_many(keys, &mut whole).expect("gets");
                }
                assert!(whole.0 > 0);
                scanned(mica);
            });
        }
    });
    mica.verify().expect("every invariant");
}

/// Puts entries until one is refused; how many fit.
fn fill_with(mica: &Mica, value_bytes: usize) -> u64 {
    let value = vec![7; value_bytes];
    let put = |n: u64| mica.put(&n.to_le_bytes(), &value, NOW);
    (0..).find(|n| put(*n).is_err()).expect("full one day")
}

#[test]
fn the_index_takes_what_the_entries_need() {
    let memory = 12 * MIB;
    let open = || {
        let mut options = OptionValues::parse(OPTIONS, [("eviction", "none")]).expect("valid");
        options.set("memory_bytes", memory);
        Mica::open(&options, &Environment::new(HashSeed([7; 16]))).expect("a store")
    };
    let empty = open();
    let (tiny, large) = (fill_with(&empty, 8), fill_with(&open(), 1000));
    let each = memory as f64 / tiny as f64;
    assert!(each <= 36.0, "{each} bytes for each entry of 8 + 8");
    let used = 1008.0 * large as f64 / memory as f64;
    assert!(used > 0.86, "entries of 8 + 1000 bytes are {used} of all memory");
    empty.verify().expect("every invariant");
    // Spare buckets are entries' room again once there are none.
    for _ in 0..2 {
        (0..tiny).for_each(|n| empty.delete(&n.to_le_bytes(), NOW).expect("a delete"));
        empty.verify().expect("every invariant");
        assert_eq!(fill_with(&empty, 1000), large);
        (0..large).for_each(|n| empty.delete(&n.to_le_bytes(), NOW).expect("a delete"));
        assert_eq!(fill_with(&empty, 8), tiny);
    }
    let parts = ["index_bytes", "log_bytes", "management_bytes"].map(|name| metric(&empty, name));
    let sum: f64 = parts.iter().sum();
    assert!(sum <= memory as f64 && sum > (memory - MIB) as f64, "{parts:?}");
    // What does not fit leaves no trace, whatever became of the index meanwhile.
    let (before, count) = (metric(&empty, "live_bytes"), empty.count(true).expect("a count"));
    let keys: Vec<[u8; 9]> = (0..3000_u64)
        .map(|n| [&n.to_le_bytes()[..], b"x"].concat().try_into().expect("nine"))
        .collect();
    let mut batch = WriteBatch::new();
    keys.iter().for_each(|key| {
        batch.put(key, b"value");
    });
    assert_eq!(empty.write(&batch, NOW).expect_err("full").kind(), ErrorKind::Full);
    assert_eq!(
        (metric(&empty, "live_bytes"), empty.count(true).expect("a count")),
        (before, count)
    );
    empty.verify().expect("every invariant");
}
