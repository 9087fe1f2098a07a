//! What only the simulated flash does: faults, limits, and time.

use super::*;
use silica_base::AlignedBuf;
use silica_device::blocks::{BlockState, FlashQueue, Operation, Request};
use silica_device::sim::{FlashFaultKind, FlashRates, FlashTiming};
use std::collections::BTreeSet;

fn flash(seed: u64) -> SimFlash {
    SimFlash::new(seed, SimFlashOptions::small())
}

#[test]
fn ordered_faults_strike_at_their_call() {
    let flash = flash(1);
    let block = address(0, 0, 0);
    flash.fail_at(FlashFaultKind::ProgramFailed, 3);
    let error = append(&flash, block, &[1, 2, 3, 4]).unwrap_err();
    assert_eq!(error.fault(), FlashFault::ProgramFailed);
    assert!(error.to_string().contains("page 2"), "{error}");
    let status = flash.block(block).unwrap();
    assert_eq!((status.state, status.written), (BlockState::Bad, 2));
    assert!(is_page(&flash, block.page(1), 2).unwrap());

    let block = address(0, 0, 1);
    append(&flash, block, &[5]).unwrap();
    flash.fail_at(FlashFaultKind::Io, 1);
    assert_eq!(fault(append(&flash, block, &[6])), FlashFault::Io);
    append(&flash, block, &[6]).unwrap();
    flash.fail_at(FlashFaultKind::Uncorrectable, 2);
    assert!(is_page(&flash, block.page(0), 5).unwrap());
    for _ in 0..2 {
        assert_eq!(fault(is_page(&flash, block.page(1), 6)), FlashFault::Uncorrectable);
    }
    flash.spoil(block.page(0));
    assert_eq!(fault(is_page(&flash, block.page(0), 5)), FlashFault::Uncorrectable);
    flash.fail_at(FlashFaultKind::EraseFailed, 1);
    assert_eq!(fault(flash.reset(block)), FlashFault::EraseFailed);
    assert_eq!(flash.block(block).unwrap().state, BlockState::Bad);
    assert_eq!(flash.counters().total().failures, 5);
}

#[test]
fn a_failed_sync_is_final() {
    let flash = SimFlash::new(1, SimFlashOptions::zones(small()));
    append(&flash, address(0, 0, 0), &[1]).unwrap();
    flash.fail_at(FlashFaultKind::FailedSync, 1);
    assert_eq!(fault(flash.sync()), FlashFault::Io);
    assert_eq!(fault(flash.sync()), FlashFault::Poisoned);
    assert_eq!(fault(append(&flash, address(0, 0, 0), &[2])), FlashFault::Poisoned);
    assert_eq!(fault(flash.reset(address(0, 0, 0))), FlashFault::Poisoned);
    assert!(is_page(&flash, address(0, 0, 0).page(0), 1).unwrap());
    let again = flash.reopen();
    again.sync().unwrap();
    assert!(is_page(&again, address(0, 0, 0).page(0), 1).unwrap());
    assert_eq!(fault(flash.sync()), FlashFault::PowerLost, "an old handle is closed");
}

#[test]
fn rates_make_blocks_bad() {
    let rates =
        FlashRates { factory_bad: 5, program_failed: 20, erase_failed: 20, uncorrectable: 50 };
    let mut kinds = BTreeSet::new();
    let mut factory_bad = 0;
    for seed in 0..20 {
        let flash = SimFlash::new(seed, SimFlashOptions { rates, ..SimFlashOptions::small() });
        let is_bad = |block| flash.block(block).unwrap().state == BlockState::Bad;
        factory_bad += small().all_blocks().filter(|block| is_bad(*block)).count();
        for block in small().all_blocks() {
            let mut note = |e: FlashFault| kinds.insert(format!("{e:?}"));
            let _ = append(&flash, block, &[1; 8]).map_err(|e| note(e.fault()));
            for page in 0..flash.block(block).unwrap().written {
                let _ = is_page(&flash, block.page(page), 1).map_err(|e| note(e.fault()));
            }
            let _ = flash.reset(block).map_err(|e| note(e.fault()));
        }
    }
    let all = ["BadBlock", "EraseFailed", "ProgramFailed", "Uncorrectable"].map(String::from);
    assert_eq!(kinds, BTreeSet::from(all));
    assert!((40..160).contains(&factory_bad), "96 are expected, {factory_bad} were bad");
}

#[test]
fn drives_with_zones_have_limits() {
    let zones = SimFlashOptions::zones(small());
    let options = SimFlashOptions { open_blocks_max: Some(2), capacity_pages: Some(6), ..zones };
    let flash = SimFlash::new(1, options);
    append(&flash, address(0, 0, 0), &[1]).unwrap();
    append(&flash, address(0, 0, 1), &[2]).unwrap();
    assert_eq!(fault(append(&flash, address(0, 0, 2), &[3])), FlashFault::TooManyOpen);
    append(&flash, address(0, 0, 1), &[2]).unwrap();
    flash.finish(address(0, 0, 1)).unwrap();
    append(&flash, address(0, 0, 2), &[3; 6]).unwrap();
    let status = flash.block(address(0, 0, 2)).unwrap();
    assert_eq!((status.state, status.written, status.capacity), (BlockState::Full, 6, 6));
    append(&flash, address(0, 0, 3), &[4]).unwrap();
    assert_eq!(fault(append(&flash, address(0, 0, 0), &[1; 6])), FlashFault::OutOfRange);
}

#[test]
fn luns_work_side_by_side_in_virtual_time() {
    let timing = FlashTiming {
        read_ns: 50_000,
        program_ns: 700_000,
        erase_ns: 7_000_000,
        transfer_ns: 10_000,
    };
    let options = SimFlashOptions { timing, ..SimFlashOptions::small() };
    let time = |blocks: &[BlockAddress]| {
        let flash = SimFlash::new(1, options);
        let mut queue = flash.queue(8);
        for block in blocks {
            let request = Request::Append { block: *block, expected: None, stream: 0 };
            let pages = AlignedBuf::zeroed(PAGE);
            queue.push(Operation { of: (), request, pages, spare: Vec::new() });
        }
        while let Some((_, result)) = queue.pop() {
            result.unwrap();
        }
        drop(queue);
        (flash.now_ns(), flash.counters().total().busy_ns)
    };
    let one = time(&[address(0, 0, 0)]);
    assert_eq!(one, (710_000, 710_000));
    // Two channels: side by side. Two LUNs of a channel: one waits for the bus.
    assert_eq!(time(&[address(0, 0, 0), address(1, 0, 0)]).0, 710_000);
    assert_eq!(time(&[address(0, 0, 0), address(0, 1, 0)]).0, 720_000);
    // One LUN: one after the other.
    assert_eq!(time(&[address(0, 0, 0), address(0, 0, 1)]), (1_420_000, 1_420_000));

    let flash = SimFlash::new(1, options);
    append(&flash, address(0, 0, 0), &[1]).unwrap();
    assert!(is_page(&flash, address(0, 0, 0).page(0), 1).unwrap());
    assert_eq!(flash.now_ns(), 710_000 + 60_000);
    flash.reset(address(1, 1, 0)).unwrap();
    assert_eq!(flash.now_ns(), 7_770_000);
    flash.advance_ns(5);
    assert_eq!(flash.now_ns(), 7_770_005);
    let busy = flash.counters().channel(1).busy_ns;
    assert_eq!(busy, 7_000_000);
}

#[test]
fn a_cut_reset_leaves_one_of_three_states() {
    let mut states = BTreeSet::new();
    for seed in 0..60 {
        let flash = flash(seed);
        let block = address(0, 0, 0);
        append(&flash, block, &[1, 2]).unwrap();
        flash.cut_at_op(flash.op_count() + 1);
        assert_eq!(fault(flash.reset(block)), FlashFault::PowerLost);
        assert!(flash.is_cut());
        let flash = flash.reopen();
        let status = flash.block(block).unwrap();
        states.insert(format!("{:?} {} {}", status.state, status.written, status.erases));
        if status.state == BlockState::Undefined {
            assert_eq!(fault(is_page(&flash, block.page(0), 1)), FlashFault::NeedsReset);
            assert_eq!(fault(append(&flash, block, &[3])), FlashFault::NeedsReset);
            assert_eq!(fault(flash.finish(block)), FlashFault::NeedsReset);
            flash.reset(block).unwrap();
            append(&flash, block, &[3]).unwrap();
        }
    }
    let all = ["Free 0 1", "Open 2 0", "Undefined 0 0"].map(String::from);
    assert_eq!(states, BTreeSet::from(all));
}

#[test]
fn a_cut_append_leaves_its_pages_torn_or_not_at_all() {
    let mut states = BTreeSet::new();
    for seed in 0..200 {
        let flash = flash(seed);
        let block = address(0, 0, 0);
        append(&flash, block, &[1]).unwrap();
        flash.cut_at_op(flash.op_count() + 2);
        assert_eq!(fault(append(&flash, block, &[2, 3, 4])), FlashFault::PowerLost);
        let flash = flash.reopen();
        assert!(is_page(&flash, block.page(0), 1).unwrap());
        let written = flash.block(block).unwrap().written;
        let readable: Vec<_> = (1..written)
            .map(|page| is_page(&flash, block.page(page), u64::from(page) + 1))
            .collect();
        states.insert(readable.iter().map(|page| page.is_ok()).collect::<Vec<_>>());
        assert!(readable.iter().flatten().all(|is_right| *is_right));
        // The block takes pages behind a torn one.
        append(&flash, block, &[9]).unwrap();
        assert!(is_page(&flash, block.page(written), 9).unwrap());
    }
    let all = [vec![], vec![false], vec![true], vec![true, false], vec![true, true]];
    assert_eq!(states, BTreeSet::from(all));
}
