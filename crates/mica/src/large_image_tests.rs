//! Large values in images, and in the databases of a cache.

use crate::MicaDatabases;
use crate::item::Form;
use crate::large::List;
use crate::large_tests::{check, chunks, contents, entries, maintain, metric, sizes, value};
use crate::mica::Mica;
use crate::options::OPTIONS;
use silica_base::{Clock, ErrorKind, HashSeed, ManualClock, Prng, Result, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Durability, Engine, EngineExt, EntryRef, Environment, OptionValues, WriteBatch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: Durability = Durability::Buffered;
const MIB: u64 = 1 << 20;
const MINUTE_MS: u64 = 60_000;

struct World {
    device: SimDevice,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        World { device: SimDevice::new(1, SimOptions::default()), clock: Arc::default() }
    }

    fn options(memory_bytes: u64, partitions: u64, eviction: &str) -> OptionValues {
        let mut options = OptionValues::parse(OPTIONS, [("eviction", eviction)]).expect("valid");
        options.set("memory_bytes", memory_bytes).set("partitions", partitions);
        options.set("warm_restart", 1);
        options
    }

    fn environment(&self) -> Environment {
        Environment { clock: self.clock.clone(), seed: HashSeed([3; 16]) }
    }

    fn open(&mut self, memory_bytes: u64, partitions: u64, eviction: &str) -> Result<Mica> {
        self.device = self.device.reopen();
        let options = Self::options(memory_bytes, partitions, eviction);
        Mica::open_on(self.device.clone(), &options, &self.environment())
    }

    fn databases(&mut self, memory_bytes: u64, eviction: &str) -> MicaDatabases {
        self.device = self.device.reopen();
        let options = Self::options(memory_bytes, 4, eviction);
        MicaDatabases::open_on(self.device.clone(), &options, &self.environment())
            .expect("it opens")
    }
}

fn close(engine: &dyn Engine) {
    engine.as_admin().expect("it closes").close(&mut |_, _| {}).expect("an image");
}

/// Puts values of many sizes, every third of which expires in a minute.
fn write_some(mica: &Mica, prng: &mut Prng, now_ms: u64) {
    let sizes = sizes(mica);
    for _ in 0..40 {
        let n = prng.below(12);
        let size = sizes[prng.below(sizes.len() as u64) as usize];
        let expires_unix_ms = if n.is_multiple_of(3) { now_ms + MINUTE_MS } else { 0 };
        let made = value(prng.next_u64(), size);
        let entry = EntryRef { value: &made, expires_unix_ms, user_bits: n as u32 };
        let done = mica.write(WriteBatch::new().put_entry(&n.to_le_bytes(), entry), NOW);
        if let Err(error) = done {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        }
    }
}

/// Checks that nothing of a large value is left but what belongs to one that is there.
fn check_all(mica: &Mica) -> BTreeMap<Vec<u8>, Vec<u8>> {
    maintain(mica);
    mica.verify().expect("every invariant");
    let found = contents(mica);
    // An image of another layout may bring lists of values that would be whole here.
    let mut of_values = 0;
    for partition in mica.partitions.iter() {
        let count = &mut |_: &[u8], form, entry: EntryRef<'_>| {
            let list = List::decode(entry.value).filter(|_| form == Form::List);
            of_values += list.map_or(0, |list| list.chunks() as u64);
        };
        partition.visit(count).expect("a sound partition");
    }
    assert_eq!((entries(mica), chunks(mica)), (found.len() as u64, of_values));
    found
}

#[test]
fn images_keep_large_values_whole() {
    for (n, eviction) in ["fifo", "lru", "s3-fifo", "none"].into_iter().enumerate() {
        let (mut world, mut prng) = (World::new(), Prng::new(n as u64));
        for round in 0..test_size(4, 30, 500) {
            // The layout stays from one to the next, or not.
            let memory = [4, 4, 8, 2][(round % 4) as usize] * MIB;
            let partitions = [4, 4, 8, 1][(round % 4) as usize];
            let before = match world.open(memory, partitions, eviction) {
                Ok(mica) => {
                    check_all(&mica);
                    write_some(&mica, &mut prng, world.clock.unix_ms());
                    let before = check_all(&mica);
                    assert!(before.values().any(|value| value.len() > mica.whole_bytes_max));
                    close(&mica);
                    before
                }
                Err(error) => {
                    assert!(eviction == "none" && error.kind() == ErrorKind::Full, "{error}");
                    continue;
                }
            };
            // What expires meanwhile takes its chunks along.
            world.clock.advance_ns(if round % 2 == 0 { 0 } else { MINUTE_MS * 1_000_000 });
            let is_over = |key: &[u8]| round % 2 == 1 && key[0].is_multiple_of(3);
            for (memory, partitions) in [(memory, partitions), (16 * MIB, 2), (memory, partitions)]
            {
                let mica = world.open(memory, partitions, eviction).expect("it opens");
                let after = check_all(&mica);
                for (key, value) in &after {
                    assert!(!is_over(key) && before.get(key) == Some(value), "{key:?}");
                }
                let all = before.keys().filter(|key| !is_over(key)).count();
                assert!(after.len() == all || eviction != "none", "{} of {all}", after.len());
                close(&mica);
            }
        }
    }
}

#[test]
fn numbers_of_large_values_go_on_after_an_image() {
    let mut world = World::new();
    let mica = world.open(4 * MIB, 4, "none").expect("it opens");
    let large = mica.whole_bytes_max + 1;
    mica.put(b"a", &value(1, large), NOW).expect("it fits");
    close(&mica);
    let mica = world.open(4 * MIB, 4, "none").expect("it opens");
    // With the number of the first, its chunks would be taken for those of this one.
    mica.put(b"a", &value(2, large), NOW).expect("it fits");
    assert_eq!(check(&mica.get(b"a").expect("a get").expect("it is there")), 2);
    mica.put(b"b", &value(3, large), NOW).expect("it fits");
    assert_eq!(check_all(&mica).len(), 2);
}

#[test]
fn a_store_that_is_too_small_leaves_the_image() {
    let mut world = World::new();
    let mica = world.open(4 * MIB, 4, "none").expect("it opens");
    mica.put(b"a", &value(1, 1_900_000), NOW).expect("it fits");
    close(&mica);
    let error = world.open(2 * MIB, 4, "none").err().expect("too small");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let mica = world.open(8 * MIB, 4, "none").expect("it opens");
    assert_eq!(check(&mica.get(b"a").expect("a get").expect("it is there")), 1);
    check_all(&mica);
}

#[test]
fn databases_are_cleared_and_swapped_with_large_values() {
    for eviction in ["fifo", "s3-fifo", "none"] {
        let mut world = World::new();
        let all = world.databases(16 * MIB, eviction);
        let one = |all: &MicaDatabases, n| all.database(n, Arc::new(())).expect("it is there");
        let large = 600_000;
        for (n, stamp) in [(0, 1), (3, 2), (5, 3)] {
            for key in [b"a", b"\xff"] {
                one(&all, n).put(key, &value(stamp, large), NOW).expect("it fits");
            }
        }
        let whole = all.whole();
        let live = |bytes: f64| (bytes / large as f64).round();
        let live_bytes = || {
            let mut metrics = silica_engine::MetricsMap::default();
            whole.metrics(&mut metrics);
            metrics.get("live_bytes")
        };
        assert_eq!(live(live_bytes()), 6.0, "{eviction}");
        all.swap(3, 5).expect("swapped");
        // One that is cleared takes nothing of the others along.
        one(&all, 3).as_admin().expect("it clears").clear().expect("cleared");
        while whole.maintain(silica_engine::Budget::of(MIB)).expect("maintained").more {}
        assert_eq!(live(live_bytes()), 4.0, "{eviction}: the chunks went, too");
        let holds = |all: &MicaDatabases, n, stamp: Option<u64>| {
            for key in [b"a", b"\xff"] {
                let found = one(all, n).get(key).expect("a get");
                assert_eq!(found.map(|found| check(&found)), stamp, "{eviction} {n}");
            }
        };
        [(0, Some(1)), (3, None), (5, Some(2))].into_iter().for_each(|(n, s)| holds(&all, n, s));
        close(&*one(&all, 0));
        // As it was, and in another layout.
        for memory in [16 * MIB, 32 * MIB] {
            let all = world.databases(memory, eviction);
            [(0, Some(1)), (3, None), (5, Some(2))]
                .into_iter()
                .for_each(|(n, s)| holds(&all, n, s));
            one(&all, 0).verify().expect("every invariant");
            close(&*one(&all, 0));
        }
        let all = world.databases(16 * MIB, eviction);
        one(&all, 0).as_admin().expect("it clears").clear().expect("cleared");
        [(0, None), (5, Some(2))].into_iter().for_each(|(n, s)| holds(&all, n, s));
    }
}

#[test]
fn an_image_of_one_database_brings_its_large_values_into_several() {
    let mut world = World::new();
    let mica = world.open(16 * MIB, 4, "s3-fifo").expect("it opens");
    for key in [&b"a"[..], b"\xff", b"\xff\xff\x01"] {
        mica.put(key, &value(7, 900_000), NOW).expect("it fits");
    }
    assert!(metric(&mica, "live_bytes") > 2_700_000.0);
    close(&mica);
    let all = world.databases(16 * MIB, "s3-fifo");
    let first = all.database(0, Arc::new(())).expect("it is there");
    for key in [&b"a"[..], b"\xff", b"\xff\xff\x01"] {
        let found = first.get(key).expect("a get").expect("it is there");
        assert_eq!(check(&found), 7);
    }
    first.verify().expect("every invariant");
}
