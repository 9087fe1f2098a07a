//! A full file system, collection, and devices that fail.

use crate::model::*;
use silica_base::{Prng, test_size};
use silica_device::blocks::FlashDevice;
use silica_device::sim::{FlashFaultKind, SimFlash, SimFlashOptions};
use silica_lfs::{Collection, Fault, FlashGround, Kind, Lfs, LfsOptions, ROOT};

#[test]
fn a_full_file_system_says_so_in_time_and_deletes_work() {
    for sync_every in [1, 7] {
        let flash = flash(1, 16);
        let lfs = create(&flash);
        let mut files = Vec::new();
        let full = loop {
            let name = format!("f{}", files.len());
            let made = lfs.make(ROOT, name.as_bytes(), &make(Kind::File), at(1));
            let written =
                made.and_then(|ino| lfs.write(ino, None, &[files.len() as u8; 3000], at(1)));
            files.push(name);
            match written {
                Ok(_) if files.len() % sync_every == 0 => lfs.sync().unwrap(),
                Ok(_) => {}
                Err(fault) => break fault,
            }
        };
        assert!(matches!(full, Fault::NoSpace), "{full}");
        assert_eq!(full.errno(), 28);
        lfs.sync().unwrap();
        let before = lfs.usage();
        assert!(before.free_pages < 4, "{before:?}");
        // Overwrites take no space, however many there are.
        let mut prng = Prng::new(1);
        for i in 0..500 {
            let name = format!("f{}", prng.below(files.len() as u64 - 1));
            let ino = lfs.lookup(ROOT, name.as_bytes()).unwrap();
            lfs.write(ino, Some(prng.below(1000)), &[9; 1500], at(2)).unwrap();
            if i % sync_every == 0 {
                lfs.sync().unwrap();
            }
        }
        for name in &files {
            match lfs.unlink(ROOT, name.as_bytes(), at(3)) {
                Ok(()) | Err(Fault::NotFound) => lfs.sync().unwrap(),
                Err(fault) => panic!("{name}: {fault}"),
            }
        }
        assert!(lfs.usage().free_pages >= before.pages, "{:?}", lfs.usage());
        assert!(lfs.check().unwrap().is_empty());
    }
}

#[test]
fn promised_room_is_there_when_all_else_is_full() {
    let lfs = create(&flash(1, 16));
    let promised = lfs.make(ROOT, b"promised", &make(Kind::File), at(1)).unwrap();
    let how = silica_lfs::Allocation::Promise { keeps_size: false };
    lfs.allocate(promised, 0, 20 << 10, how, at(1)).unwrap();
    let other = lfs.make(ROOT, b"other", &make(Kind::File), at(1)).unwrap();
    while lfs.write(other, None, &[1; 1024], at(1)).is_ok() {}
    assert!(matches!(lfs.allocate(other, 1 << 30, 1 << 20, how, at(1)), Err(Fault::NoSpace)));
    for page in 0..20 {
        lfs.write(promised, Some(page << 10), &[2; 1024], at(2)).unwrap();
        lfs.sync().unwrap();
    }
    assert!(matches!(lfs.write(promised, None, &[2; 1024], at(2)), Err(Fault::NoSpace)));
}

/// Overwrites a few hot files many times beside cold ones. Returns pages copied.
fn hot_and_cold(collection: Collection) -> u64 {
    let flash = flash(1, 40);
    drop(create(&flash));
    let options = LfsOptions { collection, ..LfsOptions::default() };
    let ground = FlashGround::open(flash.reopen(), KEPT_BACK).unwrap();
    let lfs = Lfs::open(ground, options).unwrap();
    let ino = lfs.make(ROOT, b"a", &make(Kind::File), at(1)).unwrap();
    let pages = lfs.usage().pages * 8 / 10;
    for page in 0..pages {
        lfs.write(ino, Some(page << 10), &[page as u8; 1024], at(1)).unwrap();
    }
    let mut prng = Prng::new(4);
    for _ in 0..pages * 10 {
        let page = match prng.below(10) {
            0 => prng.below(pages),
            _ => prng.below(pages / 10),
        };
        lfs.write(ino, Some(page << 10), &[page as u8; 1024], at(2)).unwrap();
    }
    let mut page = [0; 1024];
    for at in 0..pages {
        lfs.read(ino, at << 10, &mut page).unwrap();
        assert!(page.iter().all(|byte| *byte == at as u8), "page {at}");
    }
    assert!(lfs.check().unwrap().is_empty());
    lfs.statistics().pages_copied
}

#[test]
fn collection_copies_less_of_hot_and_cold_data_by_cost_and_benefit() {
    let (greedy, cost_benefit) =
        (hot_and_cold(Collection::Greedy), hot_and_cold(Collection::CostBenefit));
    assert!(greedy > 0 && cost_benefit > 0);
    assert!(cost_benefit < greedy * 11 / 10, "{cost_benefit} and {greedy}");
}

#[test]
fn programs_and_erases_that_fail_lose_nothing() {
    let mut failures = 0;
    for seed in 0..test_size(10, 30, 300) {
        let flash = SimFlash::new(seed, SimFlashOptions::flash(geometry(20)));
        let lfs = create(&flash);
        let (mut model, mut prng) = (Model::new(), Prng::new(seed));
        for step in 0..400 {
            if prng.one_in(60) {
                let kinds = [FlashFaultKind::ProgramFailed, FlashFaultKind::EraseFailed];
                flash.fail_at(kinds[prng.below(2) as usize], 1 + prng.below(5));
            }
            let call = draw(&mut prng, 9_000);
            let mut after = model.clone();
            if !after.call(&call) {
                continue;
            }
            match do_call(&lfs, &call, at(step)) {
                Ok(()) => model = after,
                Err(Fault::NoSpace) => {}
                Err(fault) => panic!("seed {seed}, step {step}, {call:?}: {fault}"),
            }
        }
        assert_eq!(picture(&lfs), model.picture(), "seed {seed}");
        lfs.sync().unwrap();
        let found = picture(&open(&flash.reopen()).unwrap());
        assert_eq!(found, model.picture(), "seed {seed}, opened again");
        failures += flash.counters().total().failures;
    }
    assert!(failures > 5, "{failures}");
}
