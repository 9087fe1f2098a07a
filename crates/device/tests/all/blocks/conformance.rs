//! What every device of blocks does.

use super::*;
use silica_base::{AlignedBuf, Prng};
use silica_device::blocks::{
    BlockState, FlashCounts, FlashQueue, OPERATIONS_MAX, Operation, Request,
};

macro_rules! suite {
    ($($test:ident),* $(,)?) => {
        mod image { $( #[test] fn $test() { super::$test::<super::ImageMedium>() } )* }
        mod drive { $( #[test] fn $test() { super::$test::<super::DriveMedium>() } )* }
        mod sim_flash { $( #[test] fn $test() { super::$test::<super::FlashMedium>() } )* }
        mod sim_zones { $( #[test] fn $test() { super::$test::<super::ZoneMedium>() } )* }
        mod nvme_zones {
            use super::{Nvme, ZonedMedium as Zoned};
            $( #[test] fn $test() { super::$test::<Zoned<Nvme>>() } )*
        }
        mod null_blk_zones {
            use super::{NullBlk, ZonedMedium as Zoned};
            $( #[test] fn $test() { super::$test::<Zoned<NullBlk>>() } )*
        }
        mod scsi_zones {
            use super::{ScsiDebug, ZonedMedium as Zoned};
            $( #[test] fn $test() { super::$test::<Zoned<ScsiDebug>>() } )*
        }
        mod lying_zones {
            use super::{Liar, ZonedMedium as Zoned};
            $( #[test] fn $test() { super::$test::<Zoned<Liar>>() } )*
        }
        mod kernel_zones { $(
            #[test]
            #[ignore = "needs a drive with zones: `cargo xtask zoned` has some"]
            fn $test() { super::$test::<super::KernelMedium>() }
        )* }
    };
}

suite!(
    pages_are_appended_in_order,
    calls_that_do_not_fit_change_nothing,
    blocks_are_finished_and_reset,
    bad_blocks_stay_bad_and_readable,
    blocks_wear_out,
    what_returned_survives_the_process,
    queues_keep_the_order_within_a_block,
    queues_of_all_sizes,
    reads_of_a_queue_come_before_the_reset_behind_them,
    counters_count_by_lun,
    threads_share_a_block,
);

fn state(flash: &impl FlashDevice, block: BlockAddress) -> (BlockState, u32, u64) {
    let status = flash.block(block).unwrap();
    assert_eq!(status.capacity, 8);
    (status.state, status.written, status.erases)
}

fn pages_are_appended_in_order<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    let block = address(1, 0, 3);
    assert_eq!(state(flash, block), (BlockState::Free, 0, 0));
    assert_eq!(append(flash, block, &[10]).unwrap(), 0);
    assert_eq!(append_at(flash, block, Some(1), &[11, 12, 13]).unwrap(), 1);
    assert_eq!(state(flash, block), (BlockState::Open, 4, 0));
    for (expected, next) in [(0, 4), (3, 4), (5, 4)] {
        let result = append_at(flash, block, Some(expected), &[9]);
        assert_eq!(fault(result), FlashFault::OutOfOrder { next });
    }
    for page in 0..4 {
        assert!(is_page(flash, block.page(page), 10 + u64::from(page)).unwrap());
    }
    // Several pages at once, without spare bytes.
    let mut three = vec![0; 3 * PAGE];
    flash.read(block.page(1), &mut three, &mut []).unwrap();
    assert_eq!(three, [page_of(11), page_of(12), page_of(13)].concat());
    assert_eq!(fault(is_page(flash, block.page(4), 0)), FlashFault::Unwritten);
    assert_eq!(fault(flash.read(block.page(2), &mut three, &mut [])), FlashFault::Unwritten);
    // Without spare bytes, zeroes are written.
    let (pages, spare) = (page_of(14), &[][..]);
    let bare = Append { block, expected: None, stream: 0, pages: &pages, spare };
    assert_eq!(flash.append(&bare).unwrap(), 4);
    let (mut page, mut spare) = ([1; PAGE], vec![1; spare_on(flash, 0).len()]);
    flash.read(block.page(4), &mut page, &mut spare).unwrap();
    assert_eq!(page[..], pages[..]);
    assert!(spare.iter().all(|byte| *byte == 0));
    assert_eq!(append(flash, block, &[15, 16, 17]).unwrap(), 5);
    assert_eq!(state(flash, block), (BlockState::Full, 8, 0));
    assert_eq!(fault(append(flash, block, &[18])), FlashFault::NotErased);
    assert_eq!(state(flash, address(1, 1, 3)), (BlockState::Free, 0, 0));
    assert!(is_page(flash, block.page(7), 17).unwrap());
}

fn calls_that_do_not_fit_change_nothing<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    let block = address(0, 0, 0);
    append(flash, block, &[1]).unwrap();
    for outside in [address(2, 0, 0), address(0, 2, 0), address(0, 0, 6)] {
        assert_eq!(fault(flash.block(outside)), FlashFault::OutOfRange);
        assert_eq!(fault(append(flash, outside, &[1])), FlashFault::OutOfRange);
        assert_eq!(fault(is_page(flash, outside.page(0), 1)), FlashFault::OutOfRange);
        assert_eq!(fault(flash.reset(outside)), FlashFault::OutOfRange);
        assert_eq!(fault(flash.finish(outside)), FlashFault::OutOfRange);
        assert_eq!(fault(flash.retire(outside)), FlashFault::OutOfRange);
    }
    assert_eq!(fault(is_page(flash, block.page(8), 1)), FlashFault::OutOfRange);
    assert_eq!(fault(is_page(flash, block.page(u32::MAX), 1)), FlashFault::OutOfRange);
    let page = page_of(2);
    for (pages, spare) in [(0, 0), (100, 0), (513, 0), (512, 15), (512, 32)] {
        let (pages, spare) = (&vec![0; pages][..], &vec![0; spare][..]);
        let misfit = Append { block, expected: None, stream: 0, pages, spare };
        assert_eq!(fault(flash.append(&misfit)), FlashFault::OutOfRange, "{} bytes", pages.len());
        let (mut pages, mut spare) = (pages.to_vec(), spare.to_vec());
        let read = flash.read(block.page(0), &mut pages, &mut spare);
        assert_eq!(fault(read), FlashFault::OutOfRange);
    }
    assert_eq!(fault(append(flash, block, &[2; 8])), FlashFault::OutOfRange, "seven are left");
    assert_eq!(fault(append(flash, block, &[2; 9])), FlashFault::OutOfRange);
    assert_eq!(state(flash, block), (BlockState::Open, 1, 0));
    let whole = Append { block, expected: Some(1), stream: 0, pages: &page, spare: &[] };
    assert_eq!(flash.append(&whole).unwrap(), 1);
}

fn blocks_are_finished_and_reset<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    let block = address(1, 1, 5);
    append(flash, block, &[1, 2]).unwrap();
    flash.finish(block).unwrap();
    flash.finish(block).unwrap();
    assert_eq!(state(flash, block), (BlockState::Full, 2, 0));
    assert_eq!(fault(append(flash, block, &[3])), FlashFault::NotErased);
    assert!(is_page(flash, block.page(1), 2).unwrap());
    assert_eq!(fault(is_page(flash, block.page(2), 2)), FlashFault::Unwritten);
    flash.reset(block).unwrap();
    assert_eq!(state(flash, block), (BlockState::Free, 0, 1));
    assert_eq!(fault(is_page(flash, block.page(0), 1)), FlashFault::Unwritten);
    append(flash, block, &[4]).unwrap();
    assert!(is_page(flash, block.page(0), 4).unwrap());
    assert_eq!(fault(is_page(flash, block.page(1), 2)), FlashFault::Unwritten);
    // An empty block is finished and reset like any other.
    let empty = address(0, 0, 5);
    flash.finish(empty).unwrap();
    assert_eq!(state(flash, empty), (BlockState::Full, 0, 0));
    flash.reset(empty).unwrap();
    flash.reset(empty).unwrap();
    assert_eq!(state(flash, empty), (BlockState::Free, 0, 2));
}

fn bad_blocks_stay_bad_and_readable<M: Medium>() {
    let medium = M::with_endurance(None);
    let block = address(0, 1, 2);
    append(medium.flash(), block, &[1, 2]).unwrap();
    medium.flash().retire(block).unwrap();
    medium.flash().retire(block).unwrap();
    let medium = medium.reopened();
    let flash = medium.flash();
    assert_eq!(state(flash, block), (BlockState::Bad, 2, 0));
    assert_eq!(fault(append(flash, block, &[3])), FlashFault::BadBlock);
    assert_eq!(fault(flash.reset(block)), FlashFault::BadBlock);
    assert_eq!(fault(flash.finish(block)), FlashFault::BadBlock);
    assert!(is_page(flash, block.page(1), 2).unwrap());
    assert_eq!(fault(is_page(flash, block.page(2), 2)), FlashFault::Unwritten);
}

fn blocks_wear_out<M: Medium>() {
    let medium = M::with_endurance(Some(3));
    let flash = medium.flash();
    assert_eq!(flash.abilities().endurance, Some(3));
    let block = address(0, 0, 1);
    (0..3).for_each(|_| flash.reset(block).unwrap());
    append(flash, block, &[1]).unwrap();
    assert_eq!(fault(flash.reset(block)), FlashFault::WornOut);
    let medium = medium.reopened();
    let flash = medium.flash();
    assert_eq!(state(flash, block), (BlockState::Bad, 1, 3));
    assert_eq!(fault(flash.reset(block)), FlashFault::BadBlock);
    assert!(is_page(flash, block.page(0), 1).unwrap());
    flash.reset(address(0, 0, 2)).unwrap();
}

fn what_returned_survives_the_process<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    let blocks = [address(0, 0, 0), address(0, 0, 1), address(1, 0, 0), address(1, 1, 5)];
    append(flash, blocks[0], &[1, 2, 3]).unwrap();
    append(flash, blocks[1], &[4; 8]).unwrap();
    flash.reset(blocks[1]).unwrap();
    append(flash, blocks[2], &[5]).unwrap();
    flash.finish(blocks[2]).unwrap();
    append(flash, blocks[3], &[6; 8]).unwrap();
    flash.sync().unwrap();
    append(flash, blocks[0], &[7]).unwrap();
    let before: Vec<_> = small().all_blocks().map(|b| flash.block(b).unwrap()).collect();
    let medium = medium.reopened();
    let flash = medium.flash();
    let after: Vec<_> = small().all_blocks().map(|b| flash.block(b).unwrap()).collect();
    assert_eq!(before, after);
    assert!(is_page(flash, blocks[0].page(3), 7).unwrap());
    assert!(is_page(flash, blocks[3].page(7), 6).unwrap());
    assert_eq!(append(flash, blocks[0], &[8]).unwrap(), 4);
    assert_eq!(append(flash, blocks[1], &[9]).unwrap(), 0);
    assert!(is_page(flash, blocks[1].page(0), 9).unwrap());
}

fn operation(flash: &impl FlashDevice, of: u64, request: Request) -> Operation<u64> {
    let (mut pages, mut spare) = (AlignedBuf::zeroed(0), Vec::new());
    match request {
        Request::Read { .. } => {
            pages.resize(PAGE);
            spare = vec![0; spare_on(flash, of).len()];
        }
        Request::Append { .. } => {
            pages.resize(PAGE);
            pages.copy_from_slice(&page_of(of));
            spare = spare_on(flash, of);
        }
        Request::Finish { .. } | Request::Reset { .. } => {}
    }
    Operation { of, request, pages, spare }
}

/// A reset, a full block of appends and a read of the last page for every block, as one queue.
fn queues_keep_the_order_within_a_block<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    for block in small().all_blocks() {
        append(flash, block, &[999]).unwrap();
    }
    let mut queue = flash.queue(500);
    let mut landed = std::collections::BTreeMap::new();
    let mut pushed = 0;
    for (number, block) in (0..).zip(small().all_blocks()) {
        let id = |page: u64| 100 * number + page;
        queue.push(operation(flash, id(50), Request::Reset { block }));
        for page in 0..8 {
            let request = Request::Append { block, expected: None, stream: 0 };
            queue.push(operation(flash, id(page), request));
        }
        queue.push(operation(flash, id(60), Request::Read { first: block.page(7) }));
        queue.push(operation(flash, id(61), Request::Read { first: block.page(0) }));
        pushed += 11;
    }
    assert_eq!(queue.len(), pushed);
    let mut read = Vec::new();
    while let Some((operation, result)) = queue.pop() {
        pushed -= 1;
        let page = result.unwrap_or_else(|e| panic!("{:?}: {e}", operation.request));
        match operation.request {
            Request::Append { block, .. } => {
                assert!(landed.insert(block.page(page), operation.of).is_none());
                if flash.abilities().orders_appends {
                    assert_eq!(u64::from(page), operation.of % 100);
                }
            }
            Request::Read { first } => read.push((first, operation)),
            _ => {}
        }
    }
    assert_eq!((pushed, landed.len()), (0, 24 * 8));
    for (first, operation) in read {
        assert_eq!(operation.pages[..], page_of(landed[&first])[..]);
        assert_eq!(operation.spare, spare_on(flash, landed[&first]));
    }
}

/// More reads without spare bytes than any way has room for, then a reset of all that they read,
/// and pages that are read again: a read finds what was there when it was pushed.
fn reads_of_a_queue_come_before_the_reset_behind_them<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    let numbered: Vec<_> = (0..).zip(small().all_blocks()).collect();
    for (number, block) in &numbered {
        append(flash, *block, &[*number; 8]).unwrap();
    }
    let mut queue = flash.queue(OPERATIONS_MAX);
    let read = |of: u64, first| Operation {
        spare: Vec::new(),
        ..operation(flash, of, Request::Read { first })
    };
    for (number, block) in &numbered {
        (0..8).for_each(|page| queue.push(read(*number, block.page(page))));
    }
    queue.push(read(0, numbered[0].1.page(8)));
    for (number, block) in &numbered {
        queue.push(operation(flash, *number, Request::Reset { block: *block }));
        let request = Request::Append { block: *block, expected: None, stream: 0 };
        queue.push(operation(flash, 100 + *number, request));
        queue.push(read(100 + *number, block.page(0)));
    }
    assert_eq!(queue.len(), numbered.len() * 11 + 1);
    let (mut found, mut faults) = (0, Vec::new());
    while let Some((operation, result)) = queue.pop() {
        match (operation.request, result) {
            (Request::Read { .. }, Ok(_)) => {
                assert_eq!(operation.pages[..], page_of(operation.of)[..]);
                found += 1;
            }
            (_, result) => faults.extend(result.err().map(|e| e.fault())),
        }
    }
    assert_eq!((found, faults), (numbered.len() * 9, vec![FlashFault::OutOfRange]));
    assert!(queue.is_empty() && queue.pop().is_none());
}

fn queues_of_all_sizes<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    let blocks: Vec<_> = small().all_blocks().take(4).collect();
    let mut prng = Prng::new(8);
    for depth in [1, 2, 7, OPERATIONS_MAX, usize::MAX] {
        blocks.iter().for_each(|block| flash.reset(*block).unwrap());
        let mut queue = flash.queue(depth);
        let mut appended = [0; 4];
        let (mut ended, mut failures) = (0, 0);
        let mut check = |(operation, result): (Operation<u64>, FlashResult<u32>)| {
            ended += 1;
            match operation.request {
                // Errors stay with the operations that they belong to.
                Request::Read { .. } => assert_eq!(fault(result), FlashFault::OutOfRange),
                _ => match result {
                    Ok(_) => appended[operation.of as usize] += 1,
                    Err(e) => {
                        assert_eq!(e.fault(), FlashFault::NotErased);
                        failures += 1;
                    }
                },
            }
        };
        for _ in 0..200 {
            if queue.is_full() {
                check(queue.pop().unwrap());
            }
            let of = prng.below(4);
            let block = blocks[of as usize];
            queue.push(match prng.one_in(3) {
                true => operation(flash, of, Request::Read { first: block.page(8) }),
                false => operation(flash, of, Request::Append { block, expected: None, stream: 0 }),
            });
        }
        while let Some(operation) = queue.pop() {
            check(operation);
        }
        assert_eq!((ended, appended), (200, [8; 4]), "depth {depth}");
        assert!(failures > 0 && queue.is_empty() && !queue.is_full());
        // Dropping a queue waits for what is under way.
        queue.push(operation(flash, 0, Request::Reset { block: blocks[0] }));
        drop(queue);
        assert_eq!(state(flash, blocks[0]).0, BlockState::Free);
    }
}

fn counters_count_by_lun<M: Medium>() {
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    append(flash, address(1, 0, 0), &[1, 2, 3]).unwrap();
    append(flash, address(1, 1, 0), &[4]).unwrap();
    assert!(is_page(flash, address(1, 0, 0).page(1), 2).unwrap());
    flash.reset(address(1, 1, 0)).unwrap();
    flash.sync().unwrap();
    let counts =
        |reads, programs, erases| FlashCounts { reads, programs, erases, failures: 0, busy_ns: 0 };
    let counters = flash.counters();
    assert_eq!(counters.lun(address(1, 0, 5)), counts(1, 3, 0));
    assert_eq!(counters.lun(address(1, 1, 5)), counts(0, 1, 1));
    assert_eq!(counters.channel(1), counts(1, 4, 1));
    assert_eq!(counters.channel(0), counts(0, 0, 0));
    assert_eq!((counters.total(), counters.syncs()), (counts(1, 4, 1), 1));
}

fn threads_share_a_block<M: Medium>()
where
    M::Flash: Sync,
{
    let medium = M::with_endurance(None);
    let flash = medium.flash();
    let block = address(0, 0, 0);
    for round in 0..20 {
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                scope.spawn(move || {
                    for i in 0..4 {
                        let id = 1000 * round + 10 * thread + i;
                        let at = append(flash, block, &[id]).unwrap();
                        assert!(is_page(flash, block.page(at), id).unwrap());
                    }
                });
            }
        });
        assert_eq!(state(flash, block), (BlockState::Full, 8, round));
        // A read that meets a reset gets the page or learns that it is gone.
        std::thread::scope(|scope| {
            scope.spawn(|| flash.reset(block).unwrap());
            scope.spawn(|| {
                let (mut page, mut spare) = ([0; PAGE], vec![0; spare_on(flash, 0).len()]);
                match flash.read(block.page(3), &mut page, &mut spare) {
                    Ok(()) => assert!((0..20).any(|i| page[..] == page_of(1000 * round + i))),
                    Err(e) => {
                        assert!(matches!(
                            e.fault(),
                            FlashFault::Unwritten | FlashFault::NeedsReset
                        ));
                    }
                }
            });
        });
    }
}
