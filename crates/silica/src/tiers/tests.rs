//! Two tiers behave as one cache.

use super::{Admission, Tiers};
use silica_base::{Clock, HashSeed, ManualClock, Prng, test_size};
use silica_device::blocks::Geometry;
use silica_device::sim::{SimDevice, SimFlash, SimFlashOptions, SimOptions};
use silica_dida::{Dida, RawFlash, Startup};
use silica_engine::testkit::{self, Harness, Workload};
use silica_engine::{
    Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, Result, Update,
    WriteBatch,
};
use silica_mica::Mica;
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
    let equal = |w: &mut Workload| w.value_bytes_max = 1;
    // Nothing may be lost here.
    testkit::concurrent_readers(&mut large().with(equal), 1, 2, test_size(2_000, 20_000, 500_000));
}

/// The suite allows no key to be visited twice; of two tiers that is so within one call only.
#[test]
fn an_iteration_visits_every_key() {
    let cache = large().open().expect("it opens");
    for n in 0..600_u32 {
        cache.put(&n.to_le_bytes(), b"value", NOW).expect("a put");
    }
    let scan = cache.as_scan().expect("it has");
    for limit in [1, 7, usize::MAX] {
        let (mut visits, mut cursor) = ([0; 600], Some(0));
        while let Some(at) = cursor {
            let seen = &mut |key: &[u8], _: silica_engine::EntryRef<'_>| {
                visits[u32::from_le_bytes(key.try_into().expect("four bytes")) as usize] += 1;
            };
            cursor = scan.scan(at, limit, seen).expect("a scan");
        }
        let most = if limit == usize::MAX { 1 } else { 2 };
        assert!(visits.iter().all(|count| (1..=most).contains(count)), "{limit}: {visits:?}");
    }
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
