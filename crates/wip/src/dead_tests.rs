//! The space option, by the sizes of files and a model's live bytes: never by what the store says
//! of itself.

use crate::Wip;
use crate::run::{Part, Run};
use crate::run_cursor::RunCursor;
use silica_base::{Clock, HashSeed, ManualClock, Prng, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryRef, Environment, KeyRange, OptionValues, Ordered,
    WriteBatch,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const VALUE_BYTES: usize = 108;
const ENTRY_BYTES: u64 = 8 + VALUE_BYTES as u64;
/// What the space option allows, and what a table has besides its entries: trailers, restarts,
/// index, filter and footer, and what few dead bytes are allowed in any case.
const SPACE_MAX: f64 = 1.4;
const SLACK_BYTES: u64 = 384 << 10;

/// A store, and when each key expires that it has.
struct Tested {
    device: SimDevice,
    clock: Arc<ManualClock>,
    options: OptionValues,
    wip: Arc<Wip<SimDevice>>,
    model: BTreeMap<u64, u64>,
    writes: u64,
}

impl Tested {
    fn new(more: &[(&str, u64)]) -> Self {
        let mut options = OptionValues::default();
        let limits = [("memory_bytes", 4 << 20), ("bucket_bytes_max", 2 << 20)];
        for (name, value) in limits.iter().chain(more) {
            options.set(name, *value);
        }
        let (device, clock) = (SimDevice::new(1, SimOptions::default()), Arc::default());
        let wip = open(&device, &clock, &options);
        Tested { device, clock, options, wip, model: BTreeMap::new(), writes: 0 }
    }

    fn reopen(&mut self) {
        let Tested { device, clock, options, .. } = self;
        // The old one is closed first.
        self.wip = open(&SimDevice::new(2, SimOptions::default()), clock, options);
        self.wip = open(device, clock, options);
    }

    /// Puts a key, which expires `life_ms` later if that is not 0.
    fn put(&mut self, key: u64, life_ms: u64) {
        let expires_unix_ms = if life_ms == 0 { 0 } else { self.clock.unix_ms() + life_ms };
        let value = [self.writes as u8; VALUE_BYTES];
        let entry = EntryRef { value: &value, expires_unix_ms, user_bits: 0 };
        let bytes = key.to_be_bytes();
        let mut batch = WriteBatch::new();
        batch.put_entry(&bytes, entry);
        self.wip.write(&batch, Durability::Buffered).expect("a put");
        self.model.insert(key, expires_unix_ms);
        self.wrote();
    }

    fn delete(&mut self, key: u64) {
        self.wip.delete(&key.to_be_bytes(), Durability::Buffered).expect("a delete");
        self.model.remove(&key);
        self.wrote();
    }

    /// Background work goes on beside writes.
    fn wrote(&mut self) {
        self.writes += 1;
        if self.writes.is_multiple_of(64) {
            self.wip.maintain(Budget::amid_work(256 << 10)).expect("maintenance");
        }
    }

    fn settle(&self) {
        while self.wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
    }

    fn live_bytes(&self) -> u64 {
        let now = self.clock.unix_ms();
        let live = self.model.values().filter(|expires| **expires == 0 || **expires > now);
        live.count() as u64 * ENTRY_BYTES
    }

    fn table_bytes(&self) -> u64 {
        let names = self.device.list().expect("names");
        let tables = names.iter().filter(|name| name.starts_with("TABLE"));
        let len = |name: &String| self.device.open(name, Mode::Direct).expect("it opens").len();
        tables.map(|name| len(name).expect("a length")).sum()
    }

    /// Tables take what the option allows of what lives, once all is in tables.
    fn check(&self, when: &str) {
        self.settle();
        for bucket in self.wip.buckets().iter() {
            self.wip.flush(bucket).expect("a flush");
        }
        self.settle();
        let (tables, live) = (self.table_bytes(), self.live_bytes());
        let allowed = (live as f64 * SPACE_MAX) as u64 + SLACK_BYTES;
        println!("{when}: {tables} bytes of tables, {live} live, {allowed} allowed");
        assert!(tables <= allowed, "{when}: {tables} bytes of tables, {live} live");
    }
}

fn open(
    device: &SimDevice,
    clock: &Arc<ManualClock>,
    options: &OptionValues,
) -> Arc<Wip<SimDevice>> {
    let environment = Environment { clock: clock.clone(), seed: HashSeed([1; 16]) };
    Arc::new(Wip::open(device.clone(), options, &environment).expect("it opens"))
}

/// Keys in no order.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn filled(keys: u64) -> Tested {
    let mut tested = Tested::new(&[]);
    (0..keys).for_each(|n| tested.put(spread(n), 0));
    tested.settle();
    assert!(tested.wip.buckets().len() >= 8, "{} buckets", tested.wip.buckets().len());
    tested
}

/// True for the keys of one of eight children.
fn is_apart(key: &u64) -> bool {
    key >> 61 == 3
}

#[test]
fn what_a_child_holds_of_shared_tables_is_dead_when_the_others_were_overwritten() {
    let mut tested = filled(test_size(30_000, 60_000, 480_000));
    let keys: Vec<u64> = tested.model.keys().copied().filter(|key| !is_apart(key)).collect();
    let mut prng = Prng::new(2);
    for round in 0..4 {
        for _ in 0..keys.len() {
            tested.put(keys[prng.below(keys.len() as u64) as usize], 0);
        }
        tested.check(&format!("after {round} rounds"));
    }
    tested.wip.verify().expect("every invariant");
}

#[test]
fn what_a_child_holds_of_shared_tables_is_dead_when_the_others_were_deleted() {
    let mut tested = filled(test_size(30_000, 60_000, 480_000));
    let keys: Vec<u64> = tested.model.keys().copied().filter(|key| !is_apart(key)).collect();
    keys.iter().for_each(|key| tested.delete(*key));
    tested.check("after deletes");
}

/// Parts of tables that buckets have and in whose ranges there is no entry.
fn empty_parts(tested: &Tested) -> usize {
    let buckets = tested.wip.buckets();
    let versions = || buckets.iter().map(|bucket| bucket.read().version.clone());
    let is_empty = |part: &Part<SimDevice>| {
        let run = Run::from_iter([part.clone()]);
        !RunCursor::new(run, 0).seek_to_first().expect("a read")
    };
    versions()
        .flat_map(|version| version.runs.clone())
        .fold(0, |sum, run| sum + run.iter().filter(|part| is_empty(part)).count())
}

#[test]
fn children_have_no_part_of_a_table_without_an_entry_of_theirs() {
    // The bucket that is split has tables of all parts of its range, and a memtable of the last.
    let small = [("bucket_bytes_max", 256 << 10), ("memtable_bytes_max", 64 << 10)];
    for in_order in [true, false] {
        let mut tested = Tested::new(&small);
        for n in 0..test_size(20_000, 40_000, 400_000) {
            tested.put(if in_order { n } else { spread(n) }, 0);
            if n.is_multiple_of(256) {
                assert_eq!(empty_parts(&tested), 0, "after {n} puts, in order: {in_order}");
            }
        }
        let buckets = tested.wip.buckets();
        assert!(buckets.len() >= 8, "{} buckets", buckets.len());
        // Keys in their order: a table belongs to one bucket, or to two at a border.
        let shares: usize = buckets.iter().map(|bucket| bucket.read().version.tables().len()).sum();
        let names = tested.device.list().expect("names");
        let tables = names.iter().filter(|name| name.starts_with("TABLE")).count();
        println!("{tables} tables, {shares} shares in them, {} buckets", buckets.len());
        assert!(
            !in_order || shares <= tables + buckets.len(),
            "{shares} shares in {tables} tables"
        );
        tested.wip.verify().expect("every invariant");
    }
}

#[test]
fn entries_that_only_expire_give_their_space_back() {
    let mut tested = Tested::new(&[]);
    let each = test_size(8_000, 20_000, 200_000);
    for generation in 0..16 {
        (0..each).for_each(|n| tested.put(spread(generation * each + n), 3_000));
        tested.clock.advance_ns(1_000_000_000);
        tested.check(&format!("generation {generation}"));
    }
    tested.reopen();
    tested.check("opened again");
    tested.clock.advance_ns(4_000_000_000);
    tested.check("all expired");
    assert_eq!(crate::count::count_exactly(&tested.wip).expect("a count"), 0);
    tested.reopen();
    tested.check("opened again when all had expired");
}

#[test]
fn values_apart_that_only_expire_give_their_space_back() {
    let more = [
        ("inline_value_bytes_max", 64),
        ("value_log_segment_bytes", 256 << 10),
        ("bucket_bytes_max", 64 << 20),
    ];
    let mut tested = Tested::new(&more);
    let each = test_size(4_000, 10_000, 100_000);
    let value_log = |tested: &Tested| {
        let names = tested.device.list().expect("names");
        let len = |name: &String| tested.device.open(name, Mode::Direct).expect("it opens").len();
        let segments = names.iter().filter(|name| name.starts_with("VALUE-"));
        segments.map(|name| len(name).expect("a length")).sum::<u64>()
    };
    let mut most = 0;
    for generation in 0..12 {
        (0..each).for_each(|n| tested.put(spread(generation * each + n), 3_000));
        tested.clock.advance_ns(1_000_000_000);
        tested.settle();
        most = most.max(value_log(&tested));
    }
    let live = 3 * each * ENTRY_BYTES;
    println!("at most {most} bytes of the value log, {live} live");
    assert!(most > 0 && most < 2 * live + (1 << 20), "{most} bytes of the value log, {live} live");
}

#[test]
fn space_keeps_to_its_option_while_writes_change_their_kind() {
    let mut tested = filled(test_size(24_000, 60_000, 480_000));
    let mut prng = Prng::new(5);
    let keys: Vec<u64> = tested.model.keys().copied().collect();
    for phase in 0..test_size(10, 20, 60) {
        // A place of the key space, and how much of it writes go to.
        let width = (keys.len() as u64 >> prng.below(5)).max(1);
        let start = prng.below(keys.len() as u64);
        let at = |prng: &mut Prng| (start + prng.below(width)) as usize % keys.len();
        let kind = prng.below(4);
        for _ in 0..keys.len() / 2 {
            let key = keys[at(&mut prng)];
            match kind {
                0 => tested.put(key, 0),
                1 => tested.delete(key),
                2 => tested.put(key, 1 + prng.below(2_000)),
                _ if prng.one_in(2) => tested.put(key, 0),
                _ => tested.delete(key),
            }
        }
        tested.clock.advance_ns(prng.below(1_500) * 1_000_000);
        tested.check(&format!("phase {phase}: kind {kind}, {width} keys"));
    }
    tested.wip.verify().expect("every invariant");
}

/// One bucket, which is not rewritten for space.
const ALL_MAY_BE_DEAD: [(&str, u64); 2] =
    [("bucket_bytes_max", 64 << 20), ("space_amplification_percent_max", 10_000)];

/// How many entries that are gone a search of the first entry goes through.
fn steps(tested: &Tested) -> u64 {
    let buckets = tested.wip.buckets();
    let sum = || -> u64 {
        let of = |bucket: &Arc<crate::bucket::Bucket<SimDevice>>| {
            bucket.skipped.load(Ordering::Relaxed) + bucket.skipped_young.load(Ordering::Relaxed)
        };
        buckets.iter().map(of).sum()
    };
    let before = sum();
    let snapshot = Arc::clone(&tested.wip).snapshot().expect("a snapshot");
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    assert!(iter.seek_to_first().expect("a seek"));
    sum() - before
}

#[test]
fn searches_of_what_is_gone_soon_have_it_dropped() {
    for expires in [false, true] {
        let mut tested = Tested::new(&ALL_MAY_BE_DEAD);
        let keys = test_size(30_000, 60_000, 300_000);
        for n in 0..keys {
            tested.put(n, if expires && n < keys - 100 { 1_000 } else { 0 });
        }
        tested.settle();
        tested.clock.advance_ns(2_000_000_000);
        if !expires {
            (0..keys - 100).for_each(|n| tested.delete(n));
        }
        let first = steps(&tested);
        let mut searches = 0;
        while steps(&tested) > 1_000 {
            tested.settle();
            searches += 1;
            assert!(searches < 30, "{first} entries, and they stay");
        }
        println!("{first} entries were gone after {searches} searches");
        assert_eq!(crate::count::count_exactly(&tested.wip).expect("a count"), 100);
        tested.wip.verify().expect("every invariant");
    }
}

#[test]
fn a_queue_that_is_popped_from_the_front_stays_fast() {
    let mut tested = Tested::new(&ALL_MAY_BE_DEAD);
    let keys = test_size(30_000, 60_000, 300_000);
    (0..keys).for_each(|n| tested.put(n, 0));
    tested.settle();
    let mut gone = 0;
    for n in 0..keys / 2 {
        if n % 16 == 0 {
            gone += steps(&tested);
        }
        tested.delete(n);
    }
    let each = gone / (keys / 2 / 16);
    println!("{each} entries that are gone in each search");
    assert!(each < keys / 16, "{each} entries that are gone in each search");
}

#[test]
fn what_a_snapshot_sees_is_not_merged_in_vain() {
    let mut tested = Tested::new(&ALL_MAY_BE_DEAD);
    (0..20_000).for_each(|n| tested.put(n, 0));
    let snapshot = Arc::clone(&tested.wip).snapshot().expect("a snapshot");
    (0..19_900).for_each(|n| tested.delete(n));
    tested.settle();
    let compactions = || tested.wip.metrics.compactions.load(Ordering::Relaxed);
    let before = compactions();
    for _ in 0..20 {
        let steps = steps(&tested);
        assert_eq!(steps, 0, "what is gone and seen by a snapshot counts for nothing");
        tested.settle();
    }
    assert_eq!(compactions(), before);
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    assert!(iter.seek_to_first().expect("a seek"));
    assert_eq!(iter.key(), 0u64.to_be_bytes());
}
