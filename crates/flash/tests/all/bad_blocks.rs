//! Blocks that are bad or turn bad, under an application and under the table.

use super::*;
use silica_device::blocks::BlockState;
use silica_device::sim::{FlashFaultKind, FlashRates};

#[test]
fn a_spare_block_stands_in_for_one_that_failed() {
    let monitor = formatted(1);
    let application = monitor.create("a", space(1, 0)).unwrap();
    let flash = monitor.device().clone();
    let block = application.blocks().nth(1).unwrap();
    append(&application, block, 1).unwrap();
    flash.fail_at(FlashFaultKind::ProgramFailed, 1);
    assert_eq!(fault(append(&application, block, 2)), FlashFault::ProgramFailed);
    // It can be read, so that its pages can be copied away.
    assert_eq!(application.block(block).unwrap().state, BlockState::Bad);
    assert!(is_page(&application, block, 0, 1).unwrap());
    application.reset(block).unwrap();
    assert_eq!(application.block(block).unwrap().state, BlockState::Free);
    append(&application, block, 3).unwrap();
    assert_eq!(monitor.report().unwrap()[0].replaced_blocks, 1);
    // An erase that fails is answered by a spare block at once.
    flash.fail_at(FlashFaultKind::EraseFailed, 1);
    let other = application.blocks().next().unwrap();
    append(&application, other, 4).unwrap();
    application.reset(other).unwrap();
    append(&application, other, 5).unwrap();
    // And all of that is remembered.
    drop(application);
    let monitor = Monitor::open(monitor.device().reopen()).unwrap();
    assert_eq!(monitor.report().unwrap()[0].replaced_blocks, 2);
    let application = monitor.application("a").unwrap();
    assert!(is_page(&application, block, 0, 3).unwrap());
    assert!(is_page(&application, other, 0, 5).unwrap());
    // LUN 0 of channel 0 has the table, so two spare blocks were all.
    let flash = monitor.device().clone();
    flash.fail_at(FlashFaultKind::EraseFailed, 1);
    assert_eq!(fault(application.reset(other)), FlashFault::EraseFailed);
    assert_eq!(fault(append(&application, other, 6)), FlashFault::BadBlock);
    assert_eq!(fault(application.reset(other)), FlashFault::BadBlock);
    assert!(is_page(&application, block, 0, 3).unwrap());
}

#[test]
fn blocks_that_are_bad_from_the_start_are_hidden() {
    let rates = FlashRates { factory_bad: 6, ..FlashRates::default() };
    let (mut replaced, mut full) = (0, 0);
    for seed in 0..60 {
        let options = SimFlashOptions { rates, ..SimFlashOptions::flash(GEOMETRY) };
        let Ok(monitor) = Monitor::format(SimFlash::new(seed, options), OPTIONS) else {
            // All blocks of both table areas.
            full += 1;
            continue;
        };
        // A LUN with too few good blocks is never given away.
        while let Ok(application) =
            monitor.create(&format!("{}", monitor.free_lun_count()), space(1, 0))
        {
            for block in application.blocks() {
                append(&application, block, 1).unwrap();
            }
        }
        replaced += monitor.report().unwrap().iter().map(|r| r.replaced_blocks).sum::<u32>();
        full += monitor.free_lun_count();
    }
    assert!(replaced > 50 && full > 0, "{replaced} replaced, {full} LUNs not given");
}

#[test]
fn blocks_wear_out_and_the_lun_shrinks_in_the_end() {
    let options = SimFlashOptions { endurance: Some(10), ..SimFlashOptions::flash(GEOMETRY) };
    let monitor = Monitor::format(SimFlash::new(1, options), OPTIONS).unwrap();
    let application = monitor.create("a", space(1, 0)).unwrap();
    let block = application.blocks().next().unwrap();
    let mut resets = 0;
    let worn = loop {
        match application.reset(block) {
            Ok(()) => resets += 1,
            Err(error) => break error.fault(),
        }
    };
    // The block and two spare ones. A spare that was never written needs no erase to stand in.
    assert_eq!((worn, resets), (FlashFault::WornOut, 10 + 2 * 11));
    let other = application.blocks().nth(1).unwrap();
    application.reset(other).unwrap();
    append(&application, other, 1).unwrap();
}

#[test]
fn the_table_moves_from_bad_blocks_and_survives_in_one_area() {
    let monitor = formatted(2);
    let flash = monitor.device().clone();
    // Each record is a page for each area. Blocks have four pages: five pages that fail one
    // after the other make several blocks of both areas bad.
    for (nth, name) in (1..).zip(["a", "b", "c"]) {
        flash.fail_at(FlashFaultKind::ProgramFailed, 1 + nth % 2);
        drop(monitor.create(name, space(1, 0)).unwrap());
    }
    drop(monitor);
    let monitor = Monitor::open(flash.reopen()).unwrap();
    assert_eq!(monitor.report().unwrap().len(), 3);
    let flash = monitor.device().clone();
    drop(monitor);
    // All of one area, at rest.
    for (channel, other) in [(0, 1), (1, 0)] {
        let damaged = flash.fork(7);
        let spoil = |channel| {
            for block in 5..8 {
                for page in 0..4 {
                    damaged.spoil(BlockAddress { channel, lun: 0, block }.page(page));
                }
            }
        };
        spoil(channel);
        let monitor = Monitor::open(damaged.reopen()).unwrap();
        assert_eq!(monitor.report().unwrap().len(), 3, "channel {channel}");
        drop(monitor);
        // That opening has written the table to the damaged area again.
        spoil(other);
        let monitor = Monitor::open(damaged.reopen()).unwrap();
        assert_eq!(monitor.report().unwrap().len(), 3, "channel {channel}");
    }
}
