//! Applications come, go, and do not see each other.

use super::*;
use silica_base::{AlignedBuf, ErrorKind};
use silica_device::blocks::{
    BlockState, FlashImage, FlashImageOptions, FlashQueue, Operation, Request,
};
use silica_flash::{Application, ApplicationReport};
use std::collections::BTreeSet;

#[test]
fn luns_are_dealt_over_the_channels() {
    let monitor = formatted(1);
    assert_eq!(monitor.free_lun_count(), 6);
    let cache = monitor.create("cache", space(3, 1)).unwrap();
    let geometry = Geometry { channels: 3, luns: 2, blocks: 3, ..GEOMETRY };
    assert_eq!(*cache.geometry(), geometry);
    assert_eq!([0, 1, 2, 3].map(|channel| cache.lun_count(channel)), [2, 1, 1, 0]);
    assert_eq!((cache.name(), cache.over_provisioned_luns()), ("cache", 1));
    assert_eq!(cache.blocks().count(), 12);
    assert_eq!(cache.capacity_bytes(), 12 * 4 * 512);
    let log = monitor.create("log", space(1, 0)).unwrap();
    assert_eq!((log.geometry().channels, log.geometry().luns), (1, 1));
    assert_eq!(monitor.free_lun_count(), 1);
    let report = |name: &str, luns, over_provisioned_luns| ApplicationReport {
        name: name.to_string(),
        luns,
        over_provisioned_luns,
        replaced_blocks: 0,
        erases: 0,
    };
    assert_eq!(monitor.report().unwrap(), [report("cache", 4, 1), report("log", 1, 0)]);
}

/// Fills all blocks of an application; ids from `first` on.
fn fill(application: &Application<SimFlash>, first: u64) {
    for (id, block) in (first..).step_by(10).zip(application.blocks()) {
        for page in 0..4 {
            assert_eq!(append(application, block, id + u64::from(page)).unwrap(), page);
        }
    }
}

fn is_filled(application: &Application<SimFlash>, first: u64) -> bool {
    (first..).step_by(10).zip(application.blocks()).all(|(id, block)| {
        (0..4).all(|page| is_page(application, block, page, id + u64::from(page)).unwrap())
    })
}

#[test]
fn applications_reach_their_own_blocks_only() {
    let monitor = formatted(2);
    let a = monitor.create("a", space(3, 0)).unwrap();
    let b = monitor.create("b", space(2, 1)).unwrap();
    fill(&a, 1000);
    fill(&b, 5000);
    assert!(is_filled(&a, 1000) && is_filled(&b, 5000));
    // Erasing all of one leaves the other.
    a.blocks().for_each(|block| a.reset(block).unwrap());
    assert!(is_filled(&b, 5000));
    assert!(a.blocks().all(|block| a.block(block).unwrap().written == 0));
    // Addresses that exist on the device, and not here.
    for (channel, lun, block) in [(0, 1, 0), (0, 0, 3), (3, 0, 0), (9, 9, 9)] {
        let block = BlockAddress { channel, lun, block };
        assert_eq!(fault(a.block(block)), FlashFault::OutOfRange);
        assert_eq!(fault(append(&a, block, 1)), FlashFault::OutOfRange);
        assert_eq!(fault(is_page(&a, block, 0, 1)), FlashFault::OutOfRange);
        assert_eq!(fault(a.reset(block)), FlashFault::OutOfRange);
        assert_eq!(fault(a.finish(block)), FlashFault::OutOfRange);
        assert_eq!(fault(a.retire(block)), FlashFault::OutOfRange);
    }
    // Errors have the application's addresses: its last block is not the device's last.
    let block = b.blocks().last().unwrap();
    let error = append(&b, block, 1).unwrap_err();
    assert!(error.to_string().starts_with(&block.to_string()), "{error}");
    // Counters are each one's own.
    assert_eq!((a.counters().total().programs, a.counters().total().erases), (36, 9));
    assert_eq!((b.counters().total().programs, b.counters().total().erases), (36, 0));
}

#[test]
fn applications_are_there_again_and_their_blocks_are_erased_when_they_end() {
    let monitor = formatted(3);
    let a = monitor.create("a", space(4, 0)).unwrap();
    let b = monitor.create("b", space(2, 0)).unwrap();
    fill(&a, 1000);
    fill(&b, 5000);
    let locked = monitor.application("a").map(|_| ()).unwrap_err();
    assert_eq!(locked.kind(), ErrorKind::Locked, "{locked}");
    assert_eq!(monitor.remove("a").unwrap_err().kind(), ErrorKind::Locked);
    drop((a, b));
    let flash = monitor.device().reopen();
    drop(monitor);
    let monitor = Monitor::open(flash).unwrap();
    let b = monitor.application("b").unwrap();
    assert!(is_filled(&b, 5000) && is_filled(&monitor.application("a").unwrap(), 1000));
    monitor.remove("a").unwrap();
    assert_eq!(monitor.free_lun_count(), 4);
    assert_eq!(monitor.application("a").map(|_| ()).unwrap_err().kind(), ErrorKind::NotFound);
    let c = monitor.create("c", space(4, 0)).unwrap();
    for block in c.blocks() {
        let status = c.block(block).unwrap();
        assert_eq!((status.state, status.written, status.erases), (BlockState::Free, 0, 1));
    }
    fill(&c, 9000);
    assert!(is_filled(&b, 5000));
    assert_eq!(monitor.report().unwrap()[1].erases, 12);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let flash = flash(4);
    let unformatted = Monitor::open(flash.clone()).map(|_| ()).unwrap_err();
    assert_eq!(unformatted.kind(), ErrorKind::NotFound, "{unformatted}");
    let all = MonitorOptions { spare_blocks: 5, ..OPTIONS };
    let error = Monitor::format(flash.clone(), all).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("leave none of the 8 blocks"), "{error}");
    let monitor = Monitor::format(flash.clone(), OPTIONS).unwrap();
    let twice = Monitor::format(flash, OPTIONS).map(|_| ()).unwrap_err();
    assert!(twice.to_string().contains("open it"), "{twice}");
    let refused =
        |name: &str, space| monitor.create(name, space).map(|_| ()).expect_err("it is refused");
    assert_eq!(refused("", space(1, 0)).kind(), ErrorKind::Config);
    assert_eq!(refused(&"n".repeat(256), space(1, 0)).kind(), ErrorKind::Config);
    assert_eq!(refused("a", space(0, 1)).kind(), ErrorKind::Config);
    assert_eq!(refused("a", space(u32::MAX, 1)).kind(), ErrorKind::Config);
    let full = refused("a", space(4, 3));
    assert_eq!(full.kind(), ErrorKind::Full);
    assert!(full.to_string().contains("asks for 7 LUNs, and 6 are free"), "{full}");
    let a = monitor.create(&"n".repeat(255), space(1, 0)).unwrap();
    assert_eq!(refused(a.name(), space(1, 0)).kind(), ErrorKind::Config);
    assert_eq!(monitor.remove("nobody").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn bursts_go_to_all_luns() {
    let monitor = formatted(5);
    let application = monitor.create("a", space(6, 0)).unwrap();
    let blocks: Vec<_> = application.blocks().collect();
    let mut queue = application.queue(64);
    let mut left = BTreeSet::new();
    let mut id = 0;
    let missing = BlockAddress { channel: 7, lun: 0, block: 0 };
    for block in blocks.iter().chain([&missing]) {
        for request in [
            Request::Append { block: *block, expected: Some(0), stream: 0 },
            Request::Read { first: block.page(0) },
            Request::Reset { block: *block },
        ] {
            let pages = match request {
                Request::Reset { .. } => AlignedBuf::zeroed(0),
                _ => AlignedBuf::zeroed(PAGE),
            };
            let mut operation = Operation { of: id, request, pages, spare: Vec::new() };
            if let Request::Append { .. } = request {
                operation.pages.copy_from_slice(&page_of(id / 3));
            }
            left.insert(id);
            queue.push(operation);
            id += 1;
        }
    }
    assert_eq!(queue.len(), 57);
    while let Some((operation, result)) = queue.pop() {
        assert!(left.remove(&operation.of));
        if operation.request.block() == missing {
            assert_eq!(fault(result), FlashFault::OutOfRange);
            continue;
        }
        result.unwrap();
        if let Request::Read { .. } = operation.request {
            assert_eq!(operation.pages[..], page_of(operation.of / 3)[..]);
        }
    }
    assert!(left.is_empty() && queue.is_empty());
    let total = application.counters().total();
    assert_eq!((total.reads, total.programs, total.erases), (18, 18, 18));
}

#[test]
fn a_monitor_works_on_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let options = FlashImageOptions { id: 1, endurance: None };
    let image = FlashImage::create(&path, GEOMETRY, options).unwrap();
    let monitor = Monitor::format(image, OPTIONS).unwrap();
    let application = monitor.create("a", space(2, 1)).unwrap();
    let block = application.blocks().last().unwrap();
    append(&application, block, 7).unwrap();
    drop((application, monitor));
    let monitor = Monitor::open(FlashImage::open(&path, Some(&GEOMETRY)).unwrap()).unwrap();
    let application = monitor.application("a").unwrap();
    assert!(is_page(&application, block, 0, 7).unwrap());
}
