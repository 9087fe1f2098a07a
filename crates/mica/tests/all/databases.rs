//! Several databases in one cache or store: each is an engine of its own, and all share the memory.

use crate::support::{MIB, NOW, maintain, metric, options};
use silica_base::{ErrorKind, HashSeed, ManualClock, Prng, Result, test_size};
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Engine, EngineExt, Environment, OptionValues};
use silica_mica::{DATABASES_MAX, Mica, MicaDatabases};
use silica_testkit::{self as testkit, Harness, Workload};
use std::collections::BTreeMap;
use std::sync::Arc;

fn environment() -> Environment {
    Environment { clock: Arc::new(ManualClock::default()), seed: HashSeed([7; 16]) }
}

fn databases(memory_bytes: u64, eviction: &str) -> MicaDatabases {
    MicaDatabases::open(&options(memory_bytes, 4, eviction), &environment()).expect("it opens")
}

fn one(all: &MicaDatabases, number: usize) -> Arc<dyn Engine> {
    all.database(number, Arc::new(())).expect("it is there")
}

/// An engine behind an `Arc`, which the suite takes as one.
struct Shared(Arc<dyn Engine>);

impl silica_engine::Layer for Shared {
    type Inner = dyn Engine;

    fn inner(&self) -> &Arc<dyn Engine> {
        &self.0
    }
}

/// A database beside others that have the same keys.
struct Beside(usize, OptionValues, Vec<usize>);

impl Harness for Beside {
    type Engine = Shared;

    fn open(&mut self) -> Result<Shared> {
        let all = MicaDatabases::open(&self.1, &environment())?;
        for other in self.2.iter().copied().filter(|other| *other != self.0) {
            for n in 0..100_u32 {
                one(&all, other).put(&n.to_be_bytes(), b"another's", NOW)?;
            }
        }
        Ok(Shared(one(&all, self.0)))
    }

    fn wipe(&mut self) {}

    fn workload(&self) -> Workload {
        Workload::default()
    }
}

#[test]
fn each_is_an_engine() {
    for eviction in ["s3-fifo", "none"] {
        for number in [0, 3] {
            let beside = || Beside(number, options(64 * MIB, 4, eviction), vec![0, 1, 15]);
            testkit::differential(&mut beside(), 5, test_size(10_000, 50_000, 500_000));
            testkit::iteration(&mut beside(), 6, 300);
        }
        // The metrics of the first are those of all.
        testkit::basics(&mut Beside(0, options(64 * MIB, 4, eviction), Vec::new()));
    }
}

/// What the databases hold, by number.
type Model = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// A key of few, of which many look like what the cache puts before keys.
fn key(prng: &mut Prng) -> Vec<u8> {
    let mut key = match prng.below(4) {
        0 => vec![0xFF],
        1 => vec![0xFF, prng.below(3) as u8, prng.below(2) as u8, 0, 0, 0],
        _ => Vec::new(),
    };
    key.extend_from_slice(&(prng.below(40) as u16).to_be_bytes()[1..]);
    key
}

fn contents(engine: &dyn Engine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut next = Some(0);
    let scan = engine.as_scan().expect("it scans");
    while let Some(cursor) = next {
        let visit = &mut |key: &[u8], entry: silica_engine::EntryRef<'_>| {
            assert!(found.insert(key.to_vec(), entry.value.to_vec()).is_none(), "{key:?} twice");
        };
        next = scan.scan(cursor, 7, visit).expect("scanned");
    }
    found
}

fn check(all: &MicaDatabases, model: &Model) {
    for (number, want) in model.iter().enumerate() {
        let engine = one(all, number);
        assert_eq!(contents(&*engine), *want, "database {number}");
        let admin = engine.as_admin().expect("it counts");
        for count in [admin.count(false).unwrap(), admin.count(true).unwrap()] {
            assert_eq!(count.high, want.len() as u64, "database {number}");
        }
        for (key, value) in want {
            assert_eq!(engine.get(key).unwrap().as_ref(), Some(value));
        }
    }
    one(all, 0).verify().expect("all is well");
}

/// One random step on the databases and their model.
fn step(all: &MicaDatabases, model: &mut Model, prng: &mut Prng) {
    let number = prng.below(DATABASES_MAX as u64) as usize % 5 * 3;
    let engine = one(all, number);
    let key = key(prng);
    match prng.below(100) {
        0 => {
            engine.as_admin().expect("it clears").clear().expect("cleared");
            model[number].clear();
        }
        1 => {
            let other = prng.below(DATABASES_MAX as u64) as usize;
            all.swap(number, other).expect("swapped");
            model.swap(number, other);
        }
        2 => {
            maintain(&*all.whole());
        }
        3..30 => {
            engine.delete(&key, NOW).expect("deleted");
            model[number].remove(&key);
        }
        _ => {
            let value = vec![prng.next_u64() as u8; prng.below(40) as usize];
            engine.put(&key, &value, NOW).expect("put");
            model[number].insert(key, value);
        }
    }
}

#[test]
fn what_one_does_no_other_sees() {
    for (seed, eviction) in [(1, "s3-fifo"), (2, "lru"), (3, "none")] {
        let (all, mut prng) = (databases(16 * MIB, eviction), Prng::new(seed));
        let mut model: Model = vec![BTreeMap::new(); DATABASES_MAX];
        for round in 0..test_size(3_000, 20_000, 2_000_000) {
            step(&all, &mut model, &mut prng);
            if round % 250 == 0 {
                check(&all, &model);
            }
        }
        check(&all, &model);
    }
}

#[test]
fn the_memory_belongs_to_nobody() {
    // S3-FIFO would leave a tenth of it to what nobody reads.
    let all = databases(4 * MIB, "fifo");
    let (first, second) = (one(&all, 0), one(&all, 1));
    let fill = |engine: &dyn Engine| {
        for n in 0..100_000_u32 {
            engine.put(&n.to_be_bytes(), &[1; 50], NOW).expect("put");
        }
        metric(engine, "entries_estimate")
    };
    let most = fill(&*first);
    assert!(most > 25_000.0, "{most} of 50 bytes in 4 MiB");
    let later = fill(&*second);
    assert!(later > most / 2.0, "{later} entries of the second, {most} of the first alone");
    assert!(metric(&*first, "entries_estimate") < most / 2.0, "they gave way");
    first.verify().expect("all is well");
    first.put(b"one", b"1", NOW).expect("put");
    // Cleared at once, and evicted or swept before anything else is missed.
    second.as_admin().expect("it clears").clear().expect("cleared");
    assert_eq!(metric(&*second, "entries_estimate"), 0.0);
    assert!(metric(&*all.whole(), "entries_estimate") > most / 2.0, "nobody went over it");
    maintain(&*all.whole());
    let left = metric(&*first, "entries_estimate");
    assert_eq!(metric(&*all.whole(), "entries_estimate"), left, "they are swept");
    assert_eq!(metric(&*first, "expirations"), 0.0);
    first.verify().expect("all is well");
}

#[test]
fn a_batch_that_does_not_fit_leaves_the_counts() {
    let all = databases(MIB, "none");
    let (first, second) = (one(&all, 0), one(&all, 1));
    second.put(b"a", b"1", NOW).expect("it fits");
    let value = vec![1; 20_000];
    let mut batch = silica_engine::WriteBatch::new();
    let keys: Vec<[u8; 1]> = (0..200).map(|n| [n]).collect();
    for key in &keys {
        batch.put(key, &value);
    }
    let error = second.write(&batch, NOW).expect_err("4 MB into 1 MiB");
    assert_eq!(error.kind(), ErrorKind::Full);
    for engine in [&first, &second] {
        engine.verify().expect("all is well");
    }
    assert_eq!(metric(&*second, "entries_estimate"), 1.0);
}

fn reopened(
    device: &mut SimDevice,
    memory_bytes: u64,
) -> std::result::Result<MicaDatabases, silica_base::Error> {
    *device = device.reopen();
    let mut options = options(memory_bytes, 4, "s3-fifo");
    options.set("warm_restart", 1);
    MicaDatabases::open_on(device.clone(), &options, &environment())
}

#[test]
fn an_image_keeps_which_is_which() {
    let mut device = SimDevice::new(1, SimOptions::default());
    let mut prng = Prng::new(4);
    let mut model: Model = vec![BTreeMap::new(); DATABASES_MAX];
    for round in 0..6 {
        // The layout of the memory stays, and changes.
        let memory = [8, 8, 16, 16, 8, 8][round] * MIB;
        let all = reopened(&mut device, memory).expect("it opens");
        check(&all, &model);
        (0..2000).for_each(|_| step(&all, &mut model, &mut prng));
        for engine in (0..DATABASES_MAX).map(|n| one(&all, n)) {
            engine.as_admin().expect("it closes").close(&mut |_, _| {}).expect("an image");
        }
    }
}

#[test]
fn an_image_of_one_database_becomes_the_first_of_several_and_not_the_reverse() {
    let mut device = SimDevice::new(1, SimOptions::default());
    let mut warm = options(8 * MIB, 4, "s3-fifo");
    warm.set("warm_restart", 1);
    let plain = Mica::open_on(device.clone(), &warm, &environment()).expect("it opens");
    let keys: [&[u8]; 4] = [b"a", b"\xff", b"\xff\x01\0\0\0\0x", b""];
    for key in keys {
        plain.put(key, b"v", NOW).expect("put");
    }
    plain.as_admin().expect("it closes").close(&mut |_, _| {}).expect("an image");
    drop(plain);
    let all = reopened(&mut device, 8 * MIB).expect("it opens");
    let want = keys.iter().map(|key| (key.to_vec(), b"v".to_vec())).collect();
    let mut model: Model = vec![BTreeMap::new(); DATABASES_MAX];
    model[0] = want;
    check(&all, &model);
    one(&all, 0).as_admin().expect("it closes").close(&mut |_, _| {}).expect("an image");
    drop(all);
    device = device.reopen();
    let refused = Mica::open_on(device.clone(), &warm, &environment()).map(drop);
    let refused = refused.expect_err("it is of several");
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    assert!(device.list().expect("a list").iter().any(|name| name == "image"), "it stays");
    check(&reopened(&mut device, 8 * MIB).expect("it opens"), &model);
}

#[test]
fn partitions_are_owned_by_one_database_at_a_time() {
    let all = databases(4 * MIB, "s3-fifo");
    let (first, second) = (one(&all, 0), one(&all, 1));
    let sharded = |engine: &Arc<dyn Engine>| engine.as_sharded().expect("partitions").shards();
    assert_eq!((sharded(&first), sharded(&second)), (4, 4));
    for (engine, key) in [(&first, &b"\xffa"[..]), (&second, b"a"), (&first, b"a")] {
        let views = engine.as_sharded().expect("partitions");
        let mut shard = views.take(views.shard_of(key)).expect("nobody has it");
        let batch = &mut silica_engine::WriteBatch::new();
        shard.write(batch.put(key, b"v"), NOW).expect("written");
        shard
            .update_many(&[key], NOW, &mut |_, current| {
                assert_eq!(current.expect("it is there").value, b"v");
                silica_engine::Update::put(b"w".to_vec())
            })
            .expect("updated");
        let other = second.as_sharded().expect("partitions").take(shard.number());
        assert_eq!(other.map(drop).expect_err("it is owned").kind(), ErrorKind::Locked);
        drop(shard);
        assert_eq!(engine.get(key).unwrap().unwrap(), b"w");
    }
    first.verify().expect("all is well");
}
