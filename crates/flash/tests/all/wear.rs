//! LUNs trade places, and applications grow and shrink, with their addresses.

use super::*;
use silica_base::{AlignedBuf, ErrorKind, test_size};
use silica_device::blocks::{BlockState, FlashQueue, Operation, Request};
use silica_device::sim::FlashFaultKind;
use silica_flash::{Application, WearLevelling};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Resets the first LUN of an application so that it has `mean` more erases in the mean of all
/// blocks that it may have.
fn heat(application: &Application<SimFlash>, mean: u64) {
    // LUN 0 of the device has three blocks for applications and two spare ones.
    for _ in 0..mean * 5 {
        application.reset(BlockAddress::default()).unwrap();
    }
}

fn moved(result: WearLevelling) -> Vec<(u32, u32)> {
    match result {
        WearLevelling::Moved { moves } => moves,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hot_lun_goes_to_a_cold_free_one() {
    let monitor = formatted(1);
    let application = monitor.create("a", space(2, 0)).unwrap();
    let [first, second, third] = [0, 1, 2].map(|n| application.blocks().nth(n).unwrap());
    heat(&application, 4);
    for id in 1..4 {
        append(&application, first, id).unwrap();
    }
    append(&application, second, 7).unwrap();
    application.finish(second).unwrap();
    let flash = monitor.device().clone();
    append(&application, third, 8).unwrap();
    flash.fail_at(FlashFaultKind::ProgramFailed, 1);
    assert_eq!(fault(append(&application, third, 9)), FlashFault::ProgramFailed);
    assert_eq!(monitor.level_wear(5).unwrap(), WearLevelling::Even { spread: 4 });
    assert_eq!(moved(monitor.level_wear(4).unwrap()), [(0, 1)]);
    // All is where it was, as far as the application can see.
    let check = |application: &Application<SimFlash>| {
        for page in 0..3 {
            assert!(is_page(application, first, page, u64::from(page) + 1).unwrap());
        }
        assert!(is_page(application, second, 0, 7).unwrap());
        assert!(is_page(application, third, 0, 8).unwrap());
        let status = [first, second, third].map(|block| application.block(block).unwrap());
        assert_eq!(status.map(|s| s.written), [3, 1, 1]);
        let full = BlockState::Full;
        assert_eq!(status.map(|s| s.state), [BlockState::Open, full, full]);
    };
    check(&application);
    assert_eq!(monitor.free_lun_count(), 4);
    assert_eq!(monitor.level_wear(1).unwrap(), WearLevelling::Even { spread: 0 });
    drop(application);
    let monitor = Monitor::open(flash.reopen()).unwrap();
    let application = monitor.application("a").unwrap();
    check(&application);
    append(&application, first, 4).unwrap();
    application.reset(third).unwrap();
}

#[test]
fn a_hot_lun_trades_places_with_a_cold_one_in_use() {
    let monitor = formatted(2);
    let hot = monitor.create("hot", space(1, 0)).unwrap();
    let cold = monitor.create("cold", space(4, 0)).unwrap();
    heat(&hot, 3);
    append(&hot, BlockAddress::default(), 1).unwrap();
    for (id, block) in (100..).zip(cold.blocks()) {
        append(&cold, block, id).unwrap();
    }
    let check = || {
        assert!(is_page(&hot, BlockAddress::default(), 0, 1).unwrap());
        for (id, block) in (100..).zip(cold.blocks()) {
            assert!(is_page(&cold, block, 0, id).unwrap(), "{block}");
        }
    };
    // The free LUN has the same erases as the cold ones, and a lower number counts as colder.
    let free: Vec<u32> = moved(monitor.level_wear(3).unwrap()).iter().map(|m| m.1).collect();
    assert_eq!(free.len(), 2);
    check();
    drop(monitor.create("last", space(1, 0)).unwrap());
    heat(&hot, 9);
    append(&hot, BlockAddress::default(), 1).unwrap();
    assert_eq!(monitor.level_wear(3).unwrap(), WearLevelling::NoFreeLun);
    check();
}

#[test]
fn luns_in_use_and_damaged_ones_stay() {
    let monitor = formatted(3);
    let application = monitor.create("a", space(1, 0)).unwrap();
    let block = BlockAddress::default();
    heat(&application, 2);
    append(&application, block, 1).unwrap();
    let held = WearLevelling::Held { lun: 0, moves: Vec::new() };
    let mut queue = application.queue(4);
    let request = Request::Read { first: block.page(0) };
    let pages = AlignedBuf::zeroed(PAGE);
    queue.push(Operation { of: (), request, pages, spare: Vec::new() });
    assert_eq!(monitor.level_wear(1).unwrap(), held);
    // A queue that holds a LUN can take more operations on it.
    let pages = AlignedBuf::zeroed(PAGE);
    queue.push(Operation { of: (), request, pages, spare: Vec::new() });
    while let Some((_, result)) = queue.pop() {
        result.unwrap();
    }
    drop(queue);
    // A page that cannot be read cannot be copied; it must not become one that can be.
    append(&application, block, 2).unwrap();
    monitor.device().spoil(block.page(0));
    assert_eq!(monitor.level_wear(1).unwrap(), held);
    assert_eq!(fault(is_page(&application, block, 0, 1)), FlashFault::Uncorrectable);
    assert!(is_page(&application, block, 1, 2).unwrap());
    application.reset(block).unwrap();
    // A program that fails on the way leaves the LUN where it was.
    append(&application, block, 3).unwrap();
    monitor.device().fail_at(FlashFaultKind::ProgramFailed, 1);
    assert_eq!(monitor.level_wear(1).unwrap(), held);
    assert!(is_page(&application, block, 0, 3).unwrap());
    assert!(matches!(monitor.level_wear(1).unwrap(), WearLevelling::Moved { .. }));
    assert!(is_page(&application, block, 0, 3).unwrap());
}

#[test]
fn applications_work_while_their_luns_move() {
    let monitor = formatted(4);
    let application = monitor.create("a", space(3, 0)).unwrap();
    let (done, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    let rounds = test_size(200, 1_000, 50_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if let WearLevelling::Moved { moves: more } = monitor.level_wear(1).unwrap() {
                    moves.fetch_add(more.len() as u64, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        });
        let mut round = 0;
        // However slow the other thread is, some moves are met.
        while round < rounds || moves.load(Ordering::Relaxed) < 3 {
            round += 1;
            for (number, block) in (0..).zip(application.blocks()) {
                // The first block is written over most.
                if number > 0 && !round.is_multiple_of(8) {
                    continue;
                }
                application.reset(block).unwrap();
                for page in 0..4 {
                    let id = 100 * round + 10 * number + page;
                    assert_eq!(u64::from(append(&application, block, id).unwrap()), page);
                    assert!(is_page(&application, block, page as u32, id).unwrap());
                }
            }
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn every_cut_of_a_move_leaves_all_pages() {
    for seed in 0..test_size(20, 60, 2_000) {
        for cut in 1.. {
            let options = match seed % 2 {
                0 => SimFlashOptions::flash(GEOMETRY),
                // More blocks are open than drives allow.
                _ => SimFlashOptions { open_blocks_max: None, ..SimFlashOptions::zones(GEOMETRY) },
            };
            let flash = SimFlash::new(100 * seed + cut, options);
            let monitor = Monitor::format(flash.clone(), OPTIONS).unwrap();
            let hot = monitor.create("hot", space(1, 0)).unwrap();
            let cold = monitor.create("cold", space(4, 0)).unwrap();
            heat(&hot, 2);
            for (id, block) in (100..).zip(cold.blocks()) {
                append(&cold, block, id).unwrap();
            }
            append(&hot, BlockAddress::default(), 1).unwrap();
            hot.sync().unwrap();
            flash.cut_at_op(flash.op_count() + cut);
            let result = monitor.level_wear(2);
            if let Ok(result) = result {
                assert_eq!(moved(result).len(), 2);
                assert!(cut > 10, "a move has more than {cut} operations");
                break;
            }
            drop((hot, cold, monitor));
            let monitor = Monitor::open(flash.reopen()).unwrap();
            let hot = monitor.application("hot").unwrap();
            let cold = monitor.application("cold").unwrap();
            assert!(is_page(&hot, BlockAddress::default(), 0, 1).unwrap());
            for (id, block) in (100..).zip(cold.blocks()) {
                assert!(is_page(&cold, block, 0, id).unwrap(), "seed {seed}, cut {cut}: {block}");
            }
        }
    }
}

#[test]
fn applications_grow_and_shrink_and_keep_their_addresses() {
    let monitor = formatted(5);
    let application = monitor.create("a", space(2, 0)).unwrap();
    let kept: Vec<_> = application.blocks().collect();
    for (id, block) in (10..).zip(&kept) {
        append(&application, *block, id).unwrap();
    }
    let open = monitor.grow("a", space(1, 0)).unwrap_err();
    assert_eq!(open.kind(), ErrorKind::Locked);
    assert_eq!(monitor.shrink("a", space(1, 0)).unwrap_err().kind(), ErrorKind::Locked);
    drop(application);
    assert_eq!(monitor.grow("a", space(4, 1)).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(monitor.grow("b", space(1, 0)).unwrap_err().kind(), ErrorKind::NotFound);
    monitor.grow("a", space(2, 1)).unwrap();
    let application = monitor.application("a").unwrap();
    assert_eq!((application.blocks().count(), application.over_provisioned_luns()), (15, 1));
    assert_eq!([0, 1, 2].map(|channel| application.lun_count(channel)), [2, 2, 1]);
    let check = |application: &Application<SimFlash>| {
        for (id, block) in (10..).zip(&kept) {
            assert!(is_page(application, *block, 0, id).unwrap());
        }
    };
    check(&application);
    // The last LUN of channel 1 goes first, then that of channel 0.
    let leaving = BlockAddress { channel: 0, lun: 1, block: 2 };
    append(&application, leaving, 99).unwrap();
    drop(application);
    let refused = monitor.shrink("a", space(2, 0)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().starts_with(&leaving.to_string()), "{refused}");
    monitor.shrink("a", space(0, 1)).unwrap();
    let application = monitor.application("a").unwrap();
    assert_eq!([0, 1, 2].map(|channel| application.lun_count(channel)), [2, 1, 1]);
    application.reset(leaving).unwrap();
    drop(application);
    assert_eq!(monitor.shrink("a", space(4, 0)).unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(monitor.shrink("a", space(0, 1)).unwrap_err().kind(), ErrorKind::Config);
    monitor.shrink("a", space(2, 0)).unwrap();
    assert_eq!(monitor.free_lun_count(), 4);
    let monitor = Monitor::open(monitor.device().reopen()).unwrap();
    let application = monitor.application("a").unwrap();
    check(&application);
    assert_eq!(application.blocks().collect::<Vec<_>>(), kept);
}
