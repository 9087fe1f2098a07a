//! Damaged files and flash: what is damaged is lost, and nothing else is wrong.

use crate::recovery::Model;
use crate::support::{DidaHarness, geometry, seed};
use silica_base::{Prng, test_size};
use silica_device::Device;
use silica_device::blocks::FlashDevice;
use silica_engine::Engine;

const KEYS: u32 = 150;

fn filled(seed: u64, is_closed: bool) -> (DidaHarness, Model) {
    let mut harness = DidaHarness::new(geometry(8)).set("memory_bytes", 160 << 10);
    let mut prng = Prng::new(seed);
    let mut model = Model::default();
    let cache = harness.open_cache().expect("it opens");
    for _ in 0..1500 {
        assert!(model.step(&cache, &mut prng, KEYS));
    }
    if is_closed {
        cache.as_admin().expect("it has").close(&mut |_, _| ()).expect("it closes");
    }
    drop(cache);
    harness.die();
    (harness, model)
}

#[test]
fn flipped_bits_of_files_bring_nothing_back() {
    let mut prng = Prng::new(seed(1));
    for round in 0..test_size(60, 1000, 20_000) {
        let (mut harness, model) = filled(round % 5, round % 3 == 0);
        let names = harness.files.list().expect("names");
        let name = &names[prng.below(names.len() as u64) as usize];
        let bytes = harness.files.peek(name).expect("it is there");
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let at = prng.below(used.max(1) as u64);
        let flipped = bytes[at as usize] ^ (1 << prng.below(8));
        harness.files.poke(name, at, &[flipped]);
        harness.die();
        let cache = harness.open_cache().unwrap_or_else(|e| panic!("{name}, byte {at}: {e}"));
        model.check_all(&cache, KEYS);
        cache.verify().unwrap_or_else(|e| panic!("{name}, byte {at}: {e}"));
    }
}

#[test]
fn a_missing_file_brings_nothing_back() {
    for round in 0..4 {
        let (harness, _) = filled(round, round % 2 == 0);
        for name in harness.files.list().expect("names") {
            let (mut harness, model) = filled(round, round % 2 == 0);
            harness.files.remove(&name).expect("removed");
            harness.die();
            let cache = harness.open_cache().unwrap_or_else(|e| panic!("{name}: {e}"));
            model.check_all(&cache, KEYS);
            cache.verify().unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

#[test]
fn unreadable_pages_cost_what_lies_in_them() {
    let mut prng = Prng::new(seed(2));
    for round in 0..test_size(20, 300, 5_000) {
        let (mut harness, model) = filled(round % 5, round % 2 == 0);
        let geometry = *harness.flash.geometry();
        for _ in 0..3 {
            let block = geometry.block_at(prng.below(u64::from(geometry.block_count())) as u32);
            harness.flash.spoil(block.page(prng.below(u64::from(geometry.pages)) as u32));
        }
        harness.die();
        let cache = harness.open_cache().expect("it opens");
        model.check_all(&cache, KEYS);
        cache.verify().expect("it is sound");
        // Damage while it is open.
        for _ in 0..3 {
            let block = geometry.block_at(prng.below(u64::from(geometry.block_count())) as u32);
            harness.flash.spoil(block.page(prng.below(u64::from(geometry.pages)) as u32));
        }
        let mut model = model;
        for _ in 0..500 {
            assert!(model.step(&cache, &mut prng, KEYS));
        }
        model.check_all(&cache, KEYS);
        cache.verify().expect("it is sound");
    }
}

#[test]
fn flash_of_another_shape_is_refused_in_words() {
    let (mut harness, _) = filled(1, true);
    let mut geometry = geometry(8);
    geometry.pages = 32;
    let flash = silica_device::sim::SimFlashOptions::flash(geometry);
    harness.flash = silica_device::sim::SimFlash::new(1, flash);
    let said = harness.open_cache().map(drop).expect_err("another shape").to_string();
    assert!(said.contains("blocks of 8192 bytes"), "{said}");
}
