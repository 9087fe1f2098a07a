//! What comes back: values may vanish, but none is wrong, another key's, or back after a delete or
//! an overwrite that was acknowledged.

use crate::support::{DidaHarness, NOW, delete, geometry, get, maintain, metric, put, seed};
use silica_base::{Prng, test_size};
use silica_device::blocks::FlashDevice;
use silica_device::sim::{FaultKind, FlashFaultKind};
use silica_engine::{Budget, Engine, EntryRef, WriteBatch};
use std::collections::BTreeMap;

/// What a key may have.
#[derive(Debug, Clone, Default)]
struct Allowed {
    /// Versions that a get may return; 0 stands for nothing, which is always allowed.
    versions: Vec<u64>,
}

/// What all keys may have.
#[derive(Default)]
pub(crate) struct Model {
    keys: BTreeMap<u32, Allowed>,
    version: u64,
}

/// The bytes of a version of a key: they name both, and have a length of their own.
fn value_of(key: u32, version: u64) -> Vec<u8> {
    let mut value = format!("{key}:{version}:").into_bytes();
    value.resize(value.len() + (version * 37 % 200) as usize, b'x');
    value
}

pub(crate) fn name_of(key: u32) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

impl Model {
    /// Does a random step; false if the cache fails, as after a power cut.
    pub(crate) fn step(&mut self, cache: &dyn Engine, prng: &mut Prng, keys: u32) -> bool {
        let key = prng.below(u64::from(keys)) as u32;
        let result = match prng.below(100) {
            0..5 => self.batch(cache, prng, keys),
            5..60 => {
                self.version += 1;
                let (name, version) = (name_of(key), self.version);
                let value = value_of(key, version);
                let entry = EntryRef { value: &value, expires_unix_ms: 0, user_bits: 7 };
                // Until it is acknowledged both may be there.
                self.keys.entry(key).or_default().versions.push(version);
                let result = cache.write(WriteBatch::new().put_entry(&name, entry), NOW);
                if result.is_ok() {
                    self.keys.entry(key).or_default().versions = vec![version];
                }
                result
            }
            60..75 => {
                let result = cache.write(WriteBatch::new().delete(&name_of(key)), NOW);
                if result.is_ok() {
                    self.keys.entry(key).or_default().versions.clear();
                }
                result
            }
            75..90 => {
                self.check(cache, key);
                Ok(())
            }
            90..98 => cache.maintain(Budget::of(8 << 10)).map(drop),
            98 => cache.maintain(Budget::of(1 << 20)).map(drop),
            _ if prng.below(20) == 0 => {
                let result = cache.as_admin().expect("it has").clear();
                if result.is_ok() {
                    self.keys.clear();
                }
                result
            }
            _ => Ok(()),
        };
        result.is_ok()
    }

    /// Puts several keys at once.
    fn batch(&mut self, cache: &dyn Engine, prng: &mut Prng, keys: u32) -> silica_base::Result<()> {
        let mut puts: BTreeMap<u32, (Vec<u8>, Vec<u8>, u64)> = BTreeMap::new();
        for _ in 0..prng.below(12) + 2 {
            let key = prng.below(u64::from(keys)) as u32;
            self.version += 1;
            puts.insert(key, (name_of(key), value_of(key, self.version), self.version));
        }
        let mut batch = WriteBatch::new();
        for (key, (name, value, version)) in &puts {
            batch.put(name, value);
            self.keys.entry(*key).or_default().versions.push(*version);
        }
        let result = cache.write(&batch, NOW);
        if result.is_ok() {
            for (key, (_, _, version)) in &puts {
                self.keys.entry(*key).or_default().versions = vec![*version];
            }
        }
        result
    }

    /// Looks at a key; true if it has a value.
    pub(crate) fn check(&self, cache: &dyn Engine, key: u32) -> bool {
        use silica_engine::EngineExt;
        let Ok(found) = cache.get(&name_of(key)) else { return false };
        let versions = self.keys.get(&key).map_or(&[][..], |allowed| &allowed.versions);
        if let Some(value) = &found {
            let is_allowed = versions.iter().any(|version| value_of(key, *version) == *value);
            let text = String::from_utf8_lossy(value);
            assert!(is_allowed, "key {key} has {text:.40}, allowed are {versions:?}");
        }
        found.is_some()
    }

    /// Looks at all keys; how many have values, and how many could.
    pub(crate) fn check_all(&self, cache: &dyn Engine, keys: u32) -> (usize, usize) {
        let found = (0..keys).filter(|key| self.check(cache, *key)).count();
        let could = self.keys.values().filter(|allowed| !allowed.versions.is_empty()).count();
        (found, could)
    }
}

const KEYS: u32 = 150;

fn tiny() -> DidaHarness {
    DidaHarness::new(geometry(6)).set("memory_bytes", 160 << 10)
}

#[test]
fn all_comes_back_if_only_the_process_dies() {
    let mut harness = DidaHarness::new(geometry(200)).set("memory_bytes", 512 << 10);
    let mut prng = Prng::new(seed(1));
    let mut model = Model::default();
    for round in 0..test_size(10, 40, 1000) {
        let cache = harness.open_cache().expect("it opens");
        let (found, could) = model.check_all(&cache, KEYS);
        assert_eq!(found, could, "round {round}");
        cache.verify().expect("it is sound");
        for _ in 0..400 {
            assert!(model.step(&cache, &mut prng, KEYS));
        }
        assert_eq!(metric(&cache, "evictions"), 0.0);
        harness.die();
    }
}

#[test]
fn nothing_wrong_comes_back_if_slabs_were_dropped_meanwhile() {
    // Few slots, so that checkpoints fit onto the flash.
    let mut harness = DidaHarness::new(geometry(4)).set("memory_bytes", 68 << 10);
    let mut prng = Prng::new(seed(2));
    let mut model = Model::default();
    let (mut found_all, mut dropped, mut checkpoints) = (0, 0.0, 0.0);
    for _ in 0..test_size(30, 200, 5000) {
        let cache = harness.open_cache().expect("it opens");
        found_all += model.check_all(&cache, KEYS * 4).0;
        cache.verify().expect("it is sound");
        for _ in 0..prng.below(1500) {
            assert!(model.step(&cache, &mut prng, KEYS * 4));
        }
        if prng.below(4) == 0 {
            cache.as_admin().expect("it has").close(&mut |_, _| ()).expect("it closes");
        }
        dropped += metric(&cache, "slabs_dropped");
        checkpoints += metric(&cache, "checkpoints");
        harness.die();
    }
    assert!(
        found_all > 500 && dropped > 10.0 && checkpoints > 2.0,
        "{found_all} {dropped} {checkpoints}"
    );
}

/// A power failure at every operation on flash and on files of a script, and at every operation of
/// the recovery after it.
fn cut_everywhere(after_power_loss: u64, memory_bytes: u64) {
    let make = || {
        let harness = tiny().set("memory_bytes", memory_bytes);
        harness.set("after_power_loss", after_power_loss)
    };
    let checkpoints = std::cell::Cell::new(0.0_f64);
    let script = |harness: &DidaHarness, seed: u64| {
        let mut prng = Prng::new(seed);
        let mut model = Model::default();
        if let Ok(cache) = harness.open_cache() {
            for _ in 0..1500 {
                if !model.step(&cache, &mut prng, KEYS) {
                    break;
                }
            }
            checkpoints.set(checkpoints.get().max(metric(&cache, "checkpoints")));
        }
        model
    };
    let seed = seed(3);
    let whole = make();
    script(&whole, seed);
    assert!(checkpoints.get() > 0.0, "the script makes checkpoints, and begins new journals");
    let (flash_ops, file_ops) = (whole.flash.op_count(), whole.files.op_count());
    let step = test_size(29, 3, 1);
    let mut survivors = 0;
    let cuts = (0..flash_ops).step_by(step as usize).map(|op| (true, op));
    let cuts = cuts.chain((0..file_ops).step_by(step as usize).map(|op| (false, op)));
    for (of_flash, op) in cuts {
        let mut harness = make();
        match of_flash {
            true => harness.flash.cut_at_op(op),
            false => harness.files.cut_at_op(op),
        }
        let model = script(&harness, seed);
        harness.lose_power();
        // The recovery is cut as well, once, at an operation of its own.
        harness.flash.cut_at_op(harness.flash.op_count() + op % 3 + 1);
        harness.files.cut_at_op(harness.files.op_count() + op % 5 + 1);
        if let Ok(cache) = harness.open_cache() {
            model.check_all(&cache, KEYS);
        }
        harness.flash.cut_at_op(u64::MAX);
        harness.files.cut_at_op(u64::MAX);
        harness.lose_power();
        let cache = harness.open_cache().unwrap_or_else(|e| panic!("cut at {op}: {e}"));
        let (found, _) = model.check_all(&cache, KEYS);
        assert!(after_power_loss == 1 || found == 0, "{found} came back");
        survivors += found;
        cache.verify().unwrap_or_else(|e| panic!("cut at {op}: {e}"));
        put(&cache, b"after", b"all");
        assert_eq!(get(&cache, b"after").as_deref(), Some(&b"all"[..]));
    }
    assert!(after_power_loss == 0 || survivors > 0);
}

#[test]
fn a_power_cut_at_every_operation_leaves_nothing_by_default() {
    cut_everywhere(0, 160 << 10);
}

#[test]
fn a_power_cut_at_every_operation_brings_nothing_back_that_was_deleted() {
    cut_everywhere(1, 160 << 10);
    cut_everywhere(1, 68 << 10);
}

#[test]
fn a_process_that_dies_in_the_middle_of_a_call_loses_that_call_only() {
    let mut found_all = 0;
    for (round, kind) in [FaultKind::Eio, FaultKind::Enospc, FaultKind::FailedSync]
        .into_iter()
        .cycle()
        .enumerate()
        .take(test_size(90, 600, 20_000) as usize)
    {
        let mut harness = tiny().set("memory_bytes", 72 << 10);
        let mut prng = Prng::new(seed(6) + round as u64 % 7);
        let mut model = Model::default();
        harness.files.fail_at(kind, 5 + round as u64 * 11);
        if round % 2 == 0 {
            harness.flash.fail_at(FlashFaultKind::Io, 1 + round as u64 * 3);
        }
        if let Ok(cache) = harness.open_cache() {
            for _ in 0..1500 {
                if !model.step(&cache, &mut prng, KEYS) {
                    break;
                }
            }
        }
        harness.files.clear_faults();
        harness.die();
        let cache = harness.open_cache().expect("it opens");
        found_all += model.check_all(&cache, KEYS).0;
        cache.verify().expect("it is sound");
    }
    assert!(found_all > 500, "{found_all}");
}

/// Files and flash that refuse now and then, while the cache goes on.
#[test]
fn calls_that_fail_bring_nothing_back() {
    let (mut found_all, mut failed) = (0, 0);
    for round in 0..test_size(40, 400, 10_000) {
        let mut harness = DidaHarness::new(geometry(4)).set("memory_bytes", 68 << 10);
        harness.options.set("collection", round % 3);
        let mut prng = Prng::new(seed(7) + round);
        let mut model = Model::default();
        for _ in 0..3 {
            for _ in 0..6 {
                harness.flash.fail_at(FlashFaultKind::Io, 1 + prng.below(900));
                harness.files.fail_at(FaultKind::Eio, 1 + prng.below(3000));
            }
            if let Ok(cache) = harness.open_cache() {
                for _ in 0..1500 {
                    failed += u32::from(!model.step(&cache, &mut prng, KEYS * 3));
                }
            }
            harness.files.clear_faults();
            harness.flash.clear_faults();
            harness.die();
            let cache = harness.open_cache().expect("it opens");
            found_all += model.check_all(&cache, KEYS * 3).0;
            cache.verify().expect("it is sound");
        }
    }
    assert!(found_all > 500 && failed > 100, "{found_all} {failed}");
}

#[test]
fn a_clean_stop_outlives_the_machine() {
    let mut harness = DidaHarness::new(geometry(40)).set("memory_bytes", 512 << 10);
    let mut prng = Prng::new(seed(4));
    let mut model = Model::default();
    let cache = harness.open_cache().expect("it opens");
    for _ in 0..2000 {
        assert!(model.step(&cache, &mut prng, KEYS));
    }
    let admin = cache.as_admin().expect("it has");
    assert!(admin.save(&mut |_, _| ()).expect("it saves"));
    put(&cache, b"after the save", b"it goes on");
    admin.close(&mut |_, _| ()).expect("it closes");
    let refused = cache.write(WriteBatch::new().put(b"a", b"b"), NOW).expect_err("it is closed");
    assert!(refused.to_string().contains("closed"), "{refused}");
    harness.lose_power();
    let cache = harness.open_cache().expect("it opens");
    let (found, could) = model.check_all(&cache, KEYS);
    assert!(found == could && found > 50, "{found} of {could}");
    assert_eq!(get(&cache, b"after the save").as_deref(), Some(&b"it goes on"[..]));
}

#[test]
fn another_memory_number_keeps_what_is_there() {
    let mut harness = DidaHarness::new(geometry(60)).set("memory_bytes", 512 << 10);
    let mut prng = Prng::new(seed(5));
    let mut model = Model::default();
    for memory in [512, 300, 700, 256] {
        harness.options.set("memory_bytes", memory << 10);
        let cache = harness.open_cache().expect("it opens");
        let (found, could) = model.check_all(&cache, KEYS);
        assert_eq!(found, could);
        cache.verify().expect("it is sound");
        for _ in 0..1000 {
            assert!(model.step(&cache, &mut prng, KEYS));
        }
        cache.as_admin().expect("it has").close(&mut |_, _| ()).expect("it closes");
        harness.die();
    }
}

#[test]
fn blocks_that_fail_cost_themselves_only() {
    let mut harness = DidaHarness::new(geometry(60)).set("memory_bytes", 512 << 10);
    let cache = harness.open_cache().expect("it opens");
    for nth in 1..20 {
        harness.flash.fail_at(FlashFaultKind::ProgramFailed, nth * 13);
    }
    for n in 0..2000_u32 {
        put(&cache, &name_of(n), &value_of(n, 1));
    }
    maintain(&cache);
    assert!(metric(&cache, "blocks_failed") > 10.0);
    let usable = metric(&cache, "flash_usable_blocks");
    assert!(usable < 240.0, "{usable}");
    for n in 0..2000_u32 {
        assert_eq!(get(&cache, &name_of(n)), Some(value_of(n, 1)), "{n}");
    }
    harness.die();
    let cache = harness.open_cache().expect("it opens");
    assert!((0..2000_u32).all(|n| get(&cache, &name_of(n)) == Some(value_of(n, 1))));
}

#[test]
fn a_cache_without_any_block_left_goes_on_in_memory() {
    let mut options = DidaHarness::new(geometry(3)).flash_options;
    options.endurance = Some(2);
    let mut harness = DidaHarness::new(geometry(3)).set("memory_bytes", 160 << 10);
    harness.flash_options = options;
    use silica_testkit::Harness;
    harness.wipe();
    let cache = harness.open_cache().expect("it opens");
    for n in 0..40_000_u32 {
        put(&cache, &name_of(n), &value_of(n, 1));
        delete(&cache, &name_of(n / 2));
        if n % 100 == 0 {
            maintain(&cache);
        }
    }
    // The last checkpoint has two blocks, as long as no other one can be made.
    let left = metric(&cache, "flash_usable_blocks") - 2.0 * metric(&cache, "checkpoints").min(1.0);
    assert_eq!(left, 0.0);
    assert!(harness.flash.counters().total().erases > 0);
    let found = (0..40_000_u32).filter(|n| match get(&cache, &name_of(*n)) {
        Some(value) => {
            assert_eq!(value, value_of(*n, 1));
            true
        }
        None => false,
    });
    assert!(found.count() > 0);
    cache.verify().expect("it is sound");
}
