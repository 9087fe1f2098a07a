//! Warm restart: a clean stop leaves an image, the next start takes it once, and what is damaged or
//! old is never believed.

use crate::support::{NOW, advance_ms, maintain, metric};
use silica_base::{ErrorKind, HashSeed, ManualClock, Prng, Result, mutated, test_size};
use silica_device::Device;
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_engine::{
    Admin, Engine, EngineExt, EntryRef, Environment, GetSink, OptionValues, Scan, Sharded,
    WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use std::collections::BTreeMap;
use std::sync::Arc;

const IMAGE: &str = "image";
const MINUTE_NS: u64 = 60_000_000_000;

/// Key to value, expiry and user bits.
type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64, u32)>;

#[derive(Clone)]
struct World {
    device: SimDevice,
    clock: Arc<ManualClock>,
    options: OptionValues,
    seed: u8,
}

impl World {
    fn new(eviction: &str, memory: &str, partitions: &str) -> Self {
        let pairs = [
            ("eviction", eviction),
            ("memory_bytes", memory),
            ("partitions", partitions),
            ("warm_restart", "on"),
        ];
        World {
            device: SimDevice::new(1, SimOptions::default()),
            clock: Arc::default(),
            options: OptionValues::parse(OPTIONS, pairs).expect("valid"),
            seed: 1,
        }
    }

    fn set(&self, name: &'static str, value: u64) -> Self {
        let mut world = self.clone();
        world.options.set(name, value);
        world
    }

    fn open(&mut self) -> Result<Mica> {
        self.device = self.device.reopen();
        let environment =
            Environment { clock: self.clock.clone(), seed: HashSeed([self.seed; 16]) };
        Mica::open_on(self.device.clone(), &self.options, &environment)
    }

    fn has_image(&self) -> bool {
        self.device.list().expect("a list").iter().any(|name| name == IMAGE)
    }
}

fn contents(mica: &Mica) -> Contents {
    let mut found = Contents::new();
    let visit = &mut |key: &[u8], entry: EntryRef<'_>| {
        let meta = (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
        found.insert(key.to_vec(), meta);
    };
    assert_eq!(mica.scan(0, usize::MAX, visit).expect("a scan"), None);
    found
}

/// What is there, found by its keys, too, which may move something.
fn check(mica: &Mica) -> Contents {
    struct One<'e>(&'e (Vec<u8>, u64, u32), u32);
    impl GetSink for One<'_> {
        fn found(&mut self, _: usize, entry: EntryRef<'_>) {
            let found = (entry.value, entry.expires_unix_ms, entry.user_bits);
            assert_eq!(found, (&self.0.0[..], self.0.1, self.0.2));
            self.1 += 1;
        }
    }
    mica.verify().expect("every invariant");
    for (key, entry) in &contents(mica) {
        let mut sink = One(entry, 0);
        mica.get_many(&[key], &mut sink).expect("a get");
        assert!(sink.1 == 1 || mica.descriptor().capabilities.may_evict, "{key:?}");
    }
    mica.verify().expect("every invariant");
    contents(mica)
}

fn close(mica: &Mica) -> Result<()> {
    let (mut last, mut whole) = (0, 0);
    mica.close(&mut |done, all| {
        assert!(done > last && done <= all);
        (last, whole) = (done, all);
    })?;
    assert_eq!(last, whole, "progress reaches its end");
    Ok(())
}

/// Random writes of all kinds.
fn write_some(mica: &Mica, prng: &mut Prng, count: usize, now_ms: u64) {
    for _ in 0..count {
        let key = prng.below(800).to_le_bytes();
        if prng.one_in(5) {
            mica.delete(&key, NOW).expect("a delete");
            continue;
        }
        let expires_unix_ms = if prng.one_in(3) { now_ms + 1 + prng.below(120_000) } else { 0 };
        let user_bits = if prng.one_in(3) { prng.next_u64() as u32 } else { 0 };
        let value = vec![prng.next_u64() as u8; prng.below(100) as usize];
        let mut batch = WriteBatch::new();
        batch.put_entry(&key, EntryRef { value: &value, expires_unix_ms, user_bits });
        mica.write(&batch, NOW).expect("a put");
    }
}

fn worlds() -> Vec<World> {
    let kinds = ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo", "none"];
    // Small caches evict, the stores have room for all keys.
    kinds
        .map(|eviction| {
            let memory = if eviction == "none" { "400KiB" } else { "128KiB" };
            World::new(eviction, memory, "2")
        })
        .into()
}

#[test]
fn a_clean_stop_keeps_everything_and_time_goes_on() {
    for mut world in worlds() {
        let mut prng = Prng::new(3);
        for cycle in 0..test_size(6, 60, 1000) {
            let mica = world.open().expect("it opens");
            if cycle > 0 {
                assert!(!contents(&mica).is_empty(), "the next one finds something");
            }
            write_some(&mica, &mut prng, 3000, world.clock_ms());
            let before = check(&mica);
            close(&mica).expect("an image");
            drop(mica);
            assert!(world.has_image());
            // What expires during the stop is gone after it, and nothing else.
            world.clock.advance_ns(MINUTE_NS);
            // The seed that an image was made with goes on.
            world.seed += 1;
            let now_ms = world.clock_ms();
            let left = |entry: &(Vec<u8>, u64, u32)| entry.1 == 0 || entry.1 > now_ms;
            let expected: Contents = before
                .iter()
                .filter(|(_, entry)| left(entry))
                .map(|(k, e)| (k.clone(), e.clone()))
                .collect();
            assert!(expected.len() < before.len(), "some have expired");
            let mica = world.open().expect("it opens");
            assert!(!world.has_image(), "an image is taken once");
            assert_eq!(check(&mica), expected, "cycle {cycle}");
            // What has expired gives its room back, by the pass that went on or the next.
            maintain(&mica);
            advance_ms(&world.clock, 1000);
            maintain(&mica);
            let left = contents(&mica).len() as f64;
            assert_eq!(metric(&mica, "entries_estimate"), left, "cycle {cycle}");
            close(&mica).expect("an image");
        }
    }
}

impl World {
    fn clock_ms(&self) -> u64 {
        use silica_base::Clock;
        self.clock.unix_ms()
    }
}

#[test]
fn a_closed_engine_refuses_writes_and_reads_on() {
    let mut world = World::new("none", "400KiB", "2");
    let mica = world.open().expect("it opens");
    mica.put(b"key", b"value", NOW).expect("a put");
    let shard = mica.take(1).expect("a shard");
    let refused = close(&mica).expect_err("a shard may write");
    assert_eq!(refused.kind(), ErrorKind::Locked);
    drop(shard);
    close(&mica).expect("an image");
    for refused in [
        mica.put(b"key", b"other", NOW),
        mica.delete(b"key", NOW),
        mica.clear(),
        mica.take(0).map(|_| ()),
        close(&mica),
    ] {
        assert_eq!(refused.expect_err("it is closed").kind(), ErrorKind::Closed);
    }
    assert_eq!(mica.get(b"key").expect("a get"), Some(b"value".to_vec()));
    assert_eq!(
        world.open().expect("it opens").get(b"key").expect("a get"),
        Some(b"value".to_vec())
    );
}

#[test]
fn a_process_that_dies_leaves_nothing_old() {
    let mut world = World::new("second-chance", "400KiB", "2");
    let mica = world.open().expect("it opens");
    mica.put(b"key", b"1", NOW).expect("a put");
    close(&mica).expect("an image");
    assert_eq!(world.open().expect("it opens").get(b"key").expect("a get"), Some(b"1".to_vec()));
    // That one was not closed.
    assert!(contents(&world.open().expect("it opens")).is_empty());
    // An opening that does not want an image makes it old.
    let mica = world.open().expect("it opens");
    mica.put(b"key", b"1", NOW).expect("a put");
    close(&mica).expect("an image");
    let mut cold = world.set("warm_restart", 0);
    let mica = cold.open().expect("it opens");
    assert!(contents(&mica).is_empty() && !cold.has_image());
    close(&mica).expect("nothing to do");
    mica.put(b"key", b"2", NOW).expect("it leaves nothing, so it was not closed");
    assert!(!cold.has_image());
}

/// Two lives, the second of which changes everything, with the power cut at each operation.
#[test]
fn power_cuts_never_bring_back_what_was_overwritten() {
    let (mut cuts, mut seen) = (0, [0; 3]);
    for at in 1.. {
        for seed in 0..test_size(4, 40, 400) {
            let mut world = World::new("fifo", "64KiB", "1");
            world.device =
                SimDevice::new(seed, SimOptions { garble: true, ..SimOptions::default() });
            let started = world.device.op_count();
            world.device.cut_at_op(started + at);
            // Which values may be there after it; none is always possible.
            let mut allowed = vec![];
            let mut live = |value: &[u8], allowed: &mut Vec<Vec<u8>>| -> Result<()> {
                let mica = world.open()?;
                mica.put(b"key", value, NOW)?;
                *allowed = vec![value.to_vec()];
                close(&mica)
            };
            let lived = live(b"1", &mut allowed).and_then(|()| live(b"2", &mut allowed));
            if !world.device.is_cut() {
                lived.expect("no cut, no error");
                assert_eq!(allowed, [b"2"]);
                assert!(cuts > 10 && seen.iter().all(|n| *n > 0), "{cuts} cuts, seen {seen:?}");
                return;
            }
            cuts += 1;
            let mica = world.open().expect("it always opens");
            mica.verify().expect("every invariant");
            let found = mica.get(b"key").expect("a get");
            let is_known = found.as_ref().is_none_or(|value| allowed.contains(value));
            assert!(is_known, "cut {at}: {found:?} of old");
            seen[found.map_or(0, |value| usize::from(value[0] - b'0'))] += 1;
        }
    }
}

/// An image of some hundred entries, and what was in it.
fn image(world: &mut World) -> (Vec<u8>, Contents) {
    let mica = world.open().expect("it opens");
    write_some(&mica, &mut Prng::new(8), 2000, world.clock_ms());
    let before = check(&mica);
    close(&mica).expect("an image");
    (world.device.peek(IMAGE).expect("it is there"), before)
}

/// Opens with these bytes as the image: it is as it was, or empty.
fn open_with(world: &World, bytes: &[u8], before: &Contents) -> bool {
    use silica_device::{DeviceFile, Mode};
    let mut world = world.clone();
    world.device = SimDevice::new(1, SimOptions::default());
    let file = world.device.create(IMAGE, Mode::Buffered).expect("a file");
    file.write_at(0, bytes).expect("written");
    let mica = world.open().expect("it always opens");
    assert!(!world.has_image(), "what is refused does not come again");
    let after = check(&mica);
    assert!(after.is_empty() || after == *before, "nothing in between");
    write_some(&mica, &mut Prng::new(9), 50, 0);
    mica.verify().expect("it goes on");
    after.is_empty()
}

#[test]
fn damaged_images_are_refused_or_harmless() {
    for (mut world, is_same) in
        worlds().into_iter().flat_map(|world| [(world.clone(), true), (world, false)])
    {
        let (bytes, before) = image(&mut world);
        let other = World { options: world.options.clone(), ..world.clone() };
        let world = if is_same { world } else { other.set("memory_bytes", 900 << 10) };
        assert!(!open_with(&world, &bytes, &before), "as it was written");
        let mut prng = Prng::new(1);
        let mut refused = 0;
        let tries = test_size(200, 500, 100_000) as usize;
        for n in 0..tries {
            let mut bytes = bytes.clone();
            // Every byte of the header's fields, then anywhere.
            let at = if n < 80 { n } else { prng.below(bytes.len() as u64) as usize };
            bytes[at] ^= 1 << prng.below(8);
            refused += usize::from(open_with(&world, &bytes, &before));
        }
        assert!(refused > tries / 2, "{refused} of {tries}; what fills chunks up does not matter");
        for _ in 0..tries / 4 {
            let len = prng.below(bytes.len() as u64) as usize;
            let is_empty = open_with(&world, &bytes[..len], &before);
            // The last chunk has little in it.
            assert!(is_empty || len + 4096 > bytes.len() + 32, "{len} of {} bytes", bytes.len());
            open_with(&world, &mutated(&mut prng, std::slice::from_ref(&bytes)), &before);
        }
        for (a, b) in [(0, 1), (1, 2), (2, 5)] {
            let mut bytes = bytes.clone();
            (0..4096).for_each(|i| bytes.swap(4096 * a + i, 4096 * b + i));
            assert!(open_with(&world, &bytes, &before), "chunks {a} and {b} in each other's place");
        }
    }
}

#[test]
fn other_memory_takes_the_entries_that_fit() {
    let mut world = World::new("fifo", "256KiB", "2");
    let mica = world.open().expect("it opens");
    let put = |mica: &Mica, n: u64| mica.put(&n.to_le_bytes(), &[7; 100], NOW).expect("a put");
    (0..4000).for_each(|n| put(&mica, n));
    let before = check(&mica);
    close(&mica).expect("an image");
    for (memory, partitions, eviction) in
        [(1 << 20, 2, 0), (1 << 20, 4, 0), (1 << 20, 1, 4), (1 << 20, 4, 3), (128 << 10, 2, 0)]
    {
        let mut other = world.set("memory_bytes", memory).set("partitions", partitions);
        other.options.set("eviction", eviction);
        other.device = world.device.fork(1);
        let mica = other.open().expect("it opens");
        let after = check(&mica);
        assert!(after.iter().all(|(key, entry)| before.get(key) == Some(entry)));
        if memory > 256 << 10 {
            assert_eq!(after.len(), before.len());
        } else {
            assert!(after.len() > before.len() / 3 && after.len() < before.len());
            let newest = |all: &Contents| all.keys().map(|key| number(key)).max();
            assert_eq!(newest(&after), newest(&before));
            let oldest = after.keys().map(|key| number(key)).min().expect("some");
            assert!(
                oldest > before.keys().map(|key| number(key)).min().expect("some"),
                "the newest stay"
            );
        }
        put(&mica, 5000);
        mica.verify().expect("it goes on");
    }
}

fn number(key: &[u8]) -> u64 {
    u64::from_le_bytes(key.try_into().expect("eight bytes"))
}

#[test]
fn a_store_is_not_opened_without_a_part_of_its_image() {
    let mut world = World::new("none", "1MiB", "2");
    let mica = world.open().expect("it opens");
    (0..4000_u64).for_each(|n| mica.put(&n.to_le_bytes(), &[7; 100], NOW).expect("a put"));
    let before = check(&mica);
    close(&mica).expect("an image");
    let mut small = world.set("memory_bytes", 128 << 10);
    let error = small.open().err().expect("too little memory");
    assert_eq!(error.kind(), ErrorKind::Full);
    for fix in ["memory_bytes", "which stays: start with more memory, or remove the file 'image'"] {
        assert!(error.to_string().contains(fix), "{error}");
    }
    world.device = small.device;
    assert_eq!(check(&world.open().expect("with enough again")), before);
}

#[test]
fn the_world_says_no() {
    // While it is left: writes go on where the image surely has no name, and none is believed.
    for kind in [FaultKind::Eio, FaultKind::Enospc, FaultKind::ShortWrite, FaultKind::FailedSync] {
        for nth in 1.. {
            let mut world = World::new("fifo", "64KiB", "1");
            let mica = world.open().expect("it opens");
            mica.put(b"key", b"1", NOW).expect("a put");
            world.device.fail_at(kind, nth);
            let closed = close(&mica);
            let has_struck = !world.device.faults_pending();
            world.device.clear_faults();
            if closed.is_err() {
                assert!(has_struck);
                let goes_on = mica.put(b"key", b"2", NOW);
                drop(mica);
                if kind == FaultKind::FailedSync {
                    // A directory whose sync has failed is good again after that.
                    world.device.power_cut();
                }
                let after = world.open().expect("it opens").get(b"key").expect("a get");
                assert!(after.is_none() || goes_on.is_err(), "an image of old: {kind:?} {nth}");
            }
            if !has_struck {
                assert!(closed.is_ok() && nth > 1, "{kind:?}");
                break;
            }
        }
    }
    // While it is taken: an image that cannot be taken away is not used; one that cannot be read
    // leaves the cache empty.
    for kind in [FaultKind::Eio, FaultKind::FailedSync, FaultKind::ReadEio] {
        let mut world = World::new("fifo", "64KiB", "1");
        let mica = world.open().expect("it opens");
        mica.put(b"key", b"1", NOW).expect("a put");
        close(&mica).expect("an image");
        world.device.fail_at(kind, 1);
        match world.open() {
            Ok(mica) => {
                assert!(kind == FaultKind::ReadEio && contents(&mica).is_empty());
                assert!(!world.has_image());
            }
            Err(error) => assert!(kind != FaultKind::ReadEio, "{error}"),
        }
    }
}
