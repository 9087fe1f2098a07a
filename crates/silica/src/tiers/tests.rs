//! Two tiers behave as one cache.

use super::databases::Kept;
use super::{Admission, FlashCacheOptions, FlashDatabases, Tiers};
use crate::OpenOptions;
use silica_base::{Clock, HashSeed, ManualClock, Prng, test_size};
use silica_device::blocks::Geometry;
use silica_device::sim::{SimDevice, SimFlash, SimFlashOptions, SimOptions};
use silica_dida::{Dida, RawFlash, Startup};
use silica_engine::{
    Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, Result, Update,
    WriteBatch,
};
use silica_mica::Mica;
use silica_testkit::{self as testkit, Harness, Workload};
use std::collections::BTreeMap;
use std::sync::Arc;

type Cache = Tiers<Mica, Dida<RawFlash<SimFlash>, SimDevice>>;
const NOW: Durability = Durability::Buffered;

struct TiersHarness {
    flash_blocks: u32,
    front_bytes: u64,
    back_bytes: u64,
    drive_writes: Option<f64>,
    flash: SimFlash,
    files: SimDevice,
    clock: Arc<ManualClock>,
    workload: Workload,
}

impl TiersHarness {
    fn new(flash_blocks: u32, front_bytes: u64, back_bytes: u64) -> Self {
        TiersHarness {
            flash_blocks,
            front_bytes,
            back_bytes,
            drive_writes: None,
            flash: flash_of(flash_blocks),
            files: SimDevice::new(1, SimOptions::default()),
            clock: Arc::default(),
            workload: Workload::default(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }
}

fn flash_of(blocks: u32) -> SimFlash {
    let geometry =
        Geometry { channels: 2, luns: 2, blocks, pages: 16, page_bytes: 512, spare_bytes: 0 };
    SimFlash::new(1, SimFlashOptions::flash(geometry))
}

impl Harness for TiersHarness {
    type Engine = Cache;

    fn open(&mut self) -> Result<Cache> {
        self.flash = self.flash.reopen();
        self.files = self.files.reopen();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let seed = HashSeed([7; 16]);
        let environment = Environment { clock: Arc::clone(&clock), seed };
        let mut back = OptionValues::default();
        back.set("memory_bytes", self.back_bytes).set("memory_slabs", 6);
        let (raw, files) = (RawFlash::new(self.flash.clone())?, self.files.clone());
        let back = Dida::open(raw, files, &back, &environment, Startup { boot: 1 })?;
        let mut front = OptionValues::default();
        front.set("memory_bytes", self.front_bytes).set("partitions", 1);
        let front = Mica::open(&front, &environment)?;
        let back = Arc::new(back);
        let counted = Arc::clone(&back);
        let written = Box::new(move || counted.flash_bytes_written());
        let bytes = u64::from(self.flash_blocks) * 4 * 8192;
        let admission = Admission::new(clock, written, bytes, 3000, self.drive_writes);
        Ok(Tiers::new(Arc::new(front), back, admission, seed))
    }

    fn wipe(&mut self) {
        self.flash = flash_of(self.flash_blocks);
        self.files = SimDevice::new(1, SimOptions::default());
    }

    fn workload(&self) -> Workload {
        self.workload
    }
}

fn large() -> TiersHarness {
    TiersHarness::new(400, 2 << 20, 2 << 20)
}

/// Both tiers drop entries all the time.
fn tiny() -> TiersHarness {
    TiersHarness::new(4, 64 << 10, 160 << 10).with(few_keys)
}

fn few_keys(workload: &mut Workload) {
    workload.keys = 600;
    workload.value_bytes_max = 300;
}

fn metric(cache: &dyn Engine, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    cache.metrics(&mut metrics);
    metrics.get(name)
}

#[test]
fn two_tiers_pass_the_suite_of_engines() {
    testkit::basics(&mut large());
    testkit::differential(&mut large(), 1, test_size(3_000, 20_000, 50_000));
    // The suite looks for what is forgotten when that is counted, so one tier drops at a time: of
    // two, the one behind counts what the one in front forgets later.
    let operations = test_size(3_000, 50_000, 1_000_000);
    testkit::differential(
        &mut TiersHarness::new(4, 4 << 20, 160 << 10).with(few_keys),
        2,
        operations,
    );
    testkit::differential(
        &mut TiersHarness::new(400, 64 << 10, 1 << 20).with(few_keys),
        3,
        operations,
    );
    let mut harness = large();
    let clock = Arc::clone(&harness.clock);
    testkit::expiry(&mut harness, &clock);
}

#[test]
fn two_tiers_are_linearizable() {
    testkit::linearizable(&mut large(), 1, test_size(200, 5_000, 50_000));
    testkit::linearizable(&mut tiny(), 2, test_size(200, 5_000, 50_000));
    testkit::concurrent_updates(&mut large(), 1, 3, test_size(500, 5_000, 50_000));
    testkit::published_batches(&mut large(), 1, 2, test_size(50, 100, 5_000));
    let equal = |w: &mut Workload| w.value_bytes_max = 1;
    // Nothing may be lost here.
    testkit::concurrent_readers(&mut large().with(equal), 1, 2, test_size(2_000, 20_000, 500_000));
}

/// How often an iteration in calls of `limit` visits each of the keys 0, 1, …; `between` comes
/// between the calls.
fn visits(cache: &Cache, keys: usize, limit: usize, between: &mut dyn FnMut()) -> Vec<u32> {
    let scan = cache.as_scan().expect("it has");
    let (mut visits, mut cursor) = (vec![0; keys], Some(0));
    while let Some(at) = cursor {
        let seen = &mut |key: &[u8], _: silica_engine::EntryRef<'_>| {
            visits[u32::from_le_bytes(key.try_into().expect("four bytes")) as usize] += 1;
        };
        cursor = scan.scan(at, limit, seen).expect("a scan");
        between();
    }
    visits
}

#[test]
fn an_iteration_visits_every_key_once() {
    let mut harness = large();
    testkit::iteration(&mut harness, 1, 300);
    harness.wipe();
    let cache = harness.open().expect("it opens");
    for n in 0..600_u32 {
        cache.put(&n.to_le_bytes(), b"value", NOW).expect("a put");
    }
    for limit in [1, 7, usize::MAX] {
        let visits = visits(&cache, 600, limit, &mut || {});
        assert!(visits.iter().all(|count| *count == 1), "{limit}: {visits:?}");
    }
    let scan = cache.as_scan().expect("it has");
    for n in 0..600_u32 {
        let mut is_seen = false;
        let seen = &mut |key: &[u8], _: silica_engine::EntryRef<'_>| {
            is_seen |= key == n.to_le_bytes();
        };
        scan.scan(scan.cursor_of(&n.to_le_bytes()), usize::MAX, seen).expect("a scan");
        assert!(is_seen, "{n}");
    }
    let count = cache.as_admin().expect("it has").count(true).expect("counted");
    assert_eq!(count.estimate, 600);
}

/// What was not admitted to flash is in memory only: it counts, too.
#[test]
fn entries_in_memory_only_are_estimated() {
    let mut harness = TiersHarness::new(400, 400 << 10, 2 << 20);
    harness.drive_writes = Some(10.0);
    let cache = harness.open().expect("it opens");
    for n in 0..4000_u32 {
        harness.clock.advance_ns(20_000);
        cache.put(&n.to_le_bytes(), &[n as u8; 200], NOW).expect("a put");
    }
    let admin = cache.as_admin().expect("it has");
    let (exact, told) = (admin.count(true).expect("counted"), admin.estimate().expect("counted"));
    let (front, back) = cache.admins();
    let each = [front, back].map(|tier| tier.estimate().expect("counted").estimate);
    assert!(each.iter().all(|entries| entries * 10 < exact.estimate * 9), "{each:?} {exact:?}");
    assert!(told.estimate.abs_diff(exact.estimate) * 20 < exact.estimate, "{told:?} {exact:?}");
    assert!(told.low <= exact.estimate && exact.estimate <= told.high, "{told:?} {exact:?}");
}

/// Entries come to flash, and leave it for memory only, while an iteration goes on: each is met,
/// and at most twice.
#[test]
fn an_iteration_amid_writes_visits_every_key() {
    let mut harness = large();
    // So little that most stay in memory.
    harness.drive_writes = Some(2_000.0);
    let cache = harness.open().expect("it opens");
    let mut prng = Prng::new(1);
    let mut put = |n: u32| {
        let value = vec![n as u8; 200];
        harness.clock.advance_ns(20_000);
        cache.put(&n.to_le_bytes(), &value, NOW).expect("a put");
    };
    (0..600).for_each(&mut put);
    for limit in [1, 5, 20] {
        let some = |prng: &mut Prng| prng.below(600) as u32;
        let visits = visits(&cache, 600, limit, &mut || {
            put(some(&mut prng));
            cache.get(&some(&mut prng).to_le_bytes()).expect("a get");
        });
        assert!(visits.iter().all(|count| (1..=2).contains(count)), "{limit}: {visits:?}");
    }
    assert!(metric(&cache, "admitted_bytes") > 0.0 && metric(&cache, "refused_bytes") > 0.0);
}

/// Databases over a cache in memory that nothing outlives: what is theirs, and what a file keeps.
struct Numbers {
    tiers: TiersHarness,
    directory: tempfile::TempDir,
    all: Option<FlashDatabases>,
}

impl Numbers {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Kept::create(directory.path()).expect("a file");
        Numbers { tiers: large(), directory, all: None }
    }

    fn open(&mut self) -> &FlashDatabases {
        self.all = None;
        let engine = Arc::new(self.tiers.open().expect("it opens"));
        let clock = Arc::clone(&self.tiers.clock) as Arc<dyn Clock>;
        let kept = Kept::read(self.directory.path()).expect("it is whole");
        self.all.insert(FlashDatabases::new(engine, clock, self.directory.path(), kept))
    }
}

/// A key of few, of which many look like what the cache puts before keys.
fn hostile_key(prng: &mut Prng) -> Vec<u8> {
    let mut key = match prng.below(4) {
        0 => vec![0xFF],
        1 => vec![0xFF, prng.below(3) as u8, prng.below(2) as u8, 0, 0, 0],
        _ => Vec::new(),
    };
    key.extend_from_slice(format!("{}", prng.below(20)).as_bytes());
    key
}

/// Puts, deletes, updates, clears, swaps and restarts at random, against a model of databases.
#[test]
fn numbered_databases_behave_as_maps() {
    let mut numbers = Numbers::new();
    let mut all = numbers.open().clone();
    let mut prng = Prng::new(7);
    let mut model = vec![BTreeMap::<Vec<u8>, Vec<u8>>::new(); 16];
    for step in 0..test_size(3_000, 20_000, 200_000) {
        let (number, key) = ([0, 1, 2, 15][prng.below(4) as usize], hostile_key(&mut prng));
        let database = all.database(number).expect("it is there");
        match prng.below(40) {
            0 => {
                database.as_admin().expect("it has").clear().expect("cleared");
                model[number].clear();
            }
            1 => {
                let other = [0, 1, 2, 15][prng.below(4) as usize];
                all.swap(number, other).expect("swapped");
                model.swap(number, other);
            }
            2 if step % 7 == 0 => {
                drop((database, all));
                all = numbers.open().clone();
            }
            2..5 => {
                let append = |found: Option<silica_engine::EntryRef<'_>>| {
                    let old = found.map_or(Vec::new(), |entry| entry.value.to_vec());
                    Update::put([&old[..old.len().min(8)], b"+"].concat())
                };
                let atomic = database.as_atomic().expect("it has");
                atomic.update(&key, NOW, &mut { append }).expect("an update");
                let value = model[number].entry(key).or_default();
                value.truncate(8);
                value.push(b'+');
            }
            5..10 => {
                database.delete(&key, NOW).expect("a delete");
                model[number].remove(&key);
            }
            10..30 => {
                let value = step.to_string().into_bytes();
                database.put(&key, &value, NOW).expect("a put");
                model[number].insert(key, value);
            }
            _ => assert_eq!(
                database.get(&key).expect("a get").as_ref(),
                model[number].get(&key),
                "step {step}, database {number}, key '{}'",
                key.escape_ascii()
            ),
        }
        if step % 500 == 0 {
            check_databases(&all, &model);
        }
    }
    check_databases(&all, &model);
}

fn check_databases(all: &FlashDatabases, model: &[BTreeMap<Vec<u8>, Vec<u8>>]) {
    for (number, model) in model.iter().enumerate() {
        let database = all.database(number).expect("it is there");
        let mut found = BTreeMap::new();
        let (scan, mut cursor) = (database.as_scan().expect("it has"), Some(0));
        while let Some(at) = cursor {
            cursor = scan
                .scan(at, 10, &mut |key, entry| {
                    found.insert(key.to_vec(), entry.value.to_vec());
                })
                .expect("a scan");
        }
        assert_eq!(&found, model, "database {number}");
        let admin = database.as_admin().expect("it has");
        assert_eq!(admin.count(true).expect("counted").estimate, model.len() as u64);
        let estimate = admin.count(false).expect("counted");
        assert!(estimate.low <= model.len() as u64 && estimate.high >= model.len() as u64);
        assert!(model.is_empty() || all.was_written(number));
    }
}

/// Each database is told about as many entries as it has, by a sample.
#[test]
fn entries_of_numbered_databases_are_estimated() {
    let mut numbers = Numbers::new();
    let all = numbers.open();
    for (number, entries) in [(0, 3000_u32), (1, 1000), (2, 500)] {
        let database = all.database(number).expect("it is there");
        for n in 0..entries {
            database.put(&n.to_le_bytes(), b"value", NOW).expect("a put");
        }
    }
    let estimate = |number: usize| {
        let database = all.database(number).expect("it is there");
        database.as_admin().expect("it has").estimate().expect("counted").estimate
    };
    let near = |number, entries: u64| {
        let told = estimate(number);
        assert!(told.abs_diff(entries) < 450, "database {number}: {told} of {entries}");
    };
    near(0, 3000);
    near(1, 1000);
    near(2, 500);
    assert_eq!(estimate(3), 0);
    all.database(1).expect("it is there").as_admin().expect("it has").clear().expect("cleared");
    assert_eq!(estimate(1), 0);
    near(0, 3000);
}

/// A file that is damaged says nothing of whose the entries are: the cache starts empty. Without
/// one it is a cache of release 0.2, with one database.
#[test]
fn a_cache_whose_databases_are_not_known_is_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || {
        let flash = FlashCacheOptions { flash_bytes: Some(64 << 20), ..Default::default() };
        OpenOptions::new().memory_bytes(48 << 20).open_flash_databases(directory.path(), &flash)
    };
    let all = open().expect("it opens");
    all.database(1).expect("it is there").put(b"key", b"value", NOW).expect("a put");
    drop(all);
    let all = open().expect("it opens");
    let found = all.database(1).expect("it is there").get(b"key").expect("a get");
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    drop(all);
    let file = directory.path().join(super::databases::FILE);
    let mut bytes = std::fs::read(&file).expect("it is there");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, &bytes).expect("written");
    let all = open().expect("it opens");
    assert_eq!(all.count(), 16);
    assert_eq!(all.database(1).expect("it is there").get(b"key").expect("a get"), None);
    all.database(0).expect("it is there").put(b"key", b"value", NOW).expect("a put");
    drop(all);
    std::fs::remove_file(&file).expect("removed");
    let all = open().expect("it opens");
    assert_eq!(all.count(), 1);
    assert!(all.database(1).map(drop).unwrap_err().to_string().contains("new directory"));
    let found = all.database(0).expect("it is there").get(b"key").expect("a get");
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
}

#[test]
fn what_is_not_admitted_hides_what_is_on_flash() {
    let mut harness = tiny();
    // So little that after the first burst nearly nothing is admitted.
    harness.drive_writes = Some(100.0);
    let cache = harness.open().expect("it opens");
    let mut prng = Prng::new(1);
    let mut last = vec![0_u32; 400];
    for n in 1..20_000_u32 {
        let key = prng.below(400) as usize;
        let name = format!("key {key}");
        if prng.below(3) > 0 {
            last[key] = n;
            let value = format!("{n:0150}");
            cache.put(name.as_bytes(), value.as_bytes(), NOW).expect("a put");
        }
        if let Some(found) = cache.get(name.as_bytes()).expect("a get") {
            let found: u32 = String::from_utf8(found).unwrap().parse().unwrap();
            assert_eq!(found, last[key], "{name}");
        }
        if n % 100 == 0 {
            harness.clock.advance_ns(100_000_000);
        }
    }
    assert!(metric(&cache, "admitted_bytes") > 10_000.0);
    assert!(metric(&cache, "refused_bytes") > 100_000.0);
    assert!(metric(&cache, "memory_hits") > 0.0);
}

#[test]
fn flash_answers_what_memory_has_dropped() {
    let mut harness = TiersHarness::new(100, 64 << 10, 512 << 10);
    let cache = harness.open().expect("it opens");
    for n in 0..2000_u32 {
        cache.put(&n.to_le_bytes(), &[n as u8; 200], NOW).expect("a put");
    }
    for n in 0..2000_u32 {
        assert_eq!(cache.get(&n.to_le_bytes()).expect("a get"), Some(vec![n as u8; 200]));
    }
    assert!(metric(&cache, "flash_hits") > 1000.0);
    let before = metric(&cache, "memory_hits");
    for _ in 0..10 {
        cache.get(&7_u32.to_le_bytes()).expect("a get");
    }
    assert!(metric(&cache, "memory_hits") >= before + 9.0);
    // A burst of an update, and of a delete, is seen by both tiers.
    let atomic = cache.as_atomic().expect("it has");
    let double = |found: Option<silica_engine::EntryRef<'_>>| {
        Update::put(found.map_or(Vec::new(), |entry| entry.value.repeat(2)))
    };
    atomic.update(&9_u32.to_le_bytes(), NOW, &mut { double }).expect("an update");
    assert_eq!(cache.get(&9_u32.to_le_bytes()).expect("a get"), Some(vec![9; 400]));
    cache.write(WriteBatch::new().delete(&9_u32.to_le_bytes()), NOW).expect("a delete");
    assert_eq!(cache.get(&9_u32.to_le_bytes()).expect("a get"), None);
}
