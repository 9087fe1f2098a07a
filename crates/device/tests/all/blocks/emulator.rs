//! What makes the twin an emulator of drives: profiles, clocks, read disturb, sparse contents.

use super::*;
use silica_base::{AlignedBuf, Clock, ManualClock};
use silica_device::blocks::{FlashQueue, Operation, Request};
use silica_device::sim::{FlashProfile, FlashTiming, PAPER, PROFILES, ReadDisturb};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn the_papers_drive_has_the_papers_numbers() {
    let geometry = PAPER.geometry;
    assert_eq!((geometry.channels, geometry.lun_count()), (12, 192));
    assert_eq!(geometry.block_bytes(), 8 << 20);
    // 24 chips of 66 GB each.
    let away = geometry.capacity_bytes() as f64 / (24.0 * 66e9) - 1.0;
    assert!(away.abs() < 0.005, "{away}");
    let flash = SimFlash::new(1, PAPER.with_blocks(1).unwrap().options());
    let block = address(3, 5, 0);
    let page = vec![0; 16 << 10];
    for _ in 0..512 {
        let append = Append { block, expected: None, stream: 0, pages: &page, spare: &[] };
        flash.append(&append).unwrap();
    }
    let written_ns = flash.now_ns();
    assert!((written_ns as f64 / 0.356e9 - 1.0).abs() < 0.001, "{written_ns}");
    flash.reset(block).unwrap();
    assert_eq!(flash.now_ns() - written_ns, 7_000_000);
}

#[test]
fn profiles_are_devices_and_are_found_by_name() {
    for profile in PROFILES {
        assert_eq!(FlashProfile::find(profile.name).unwrap(), profile);
        profile.geometry.check().unwrap();
        assert!(!profile.source.is_empty());
        let FlashTiming { read_ns, program_ns, erase_ns, .. } = profile.timing;
        assert!(read_ns < program_ns && program_ns < erase_ns, "{}", profile.name);
    }
    let error = FlashProfile::find("slc").unwrap_err().to_string();
    assert!(error.contains("paper, small, tlc, qlc"), "{error}");
}

#[test]
fn smaller_blocks_take_as_long_as_whole_ones() {
    let small = PAPER.with_pages(32).unwrap();
    assert_eq!(small.geometry.block_count(), PAPER.geometry.block_count());
    let block_ns = |profile: FlashProfile| {
        let FlashTiming { read_ns, program_ns, transfer_ns, .. } = profile.timing;
        let pages = u64::from(profile.geometry.pages);
        (pages * (program_ns + transfer_ns), pages * (read_ns + transfer_ns))
    };
    assert_eq!(block_ns(small), block_ns(PAPER));
    assert_eq!(small.timing.erase_ns, PAPER.timing.erase_ns);
    assert!(PAPER.with_pages(0).unwrap_err().to_string().contains("no pages"));
    assert!(PAPER.with_blocks(0).is_err());
}

#[test]
fn blocks_that_are_read_too_often_lose_pages_until_they_are_erased() {
    let read_disturb = ReadDisturb { reads_max: 100, one_in: 10 };
    let flash = SimFlash::new(4, SimFlashOptions { read_disturb, ..SimFlashOptions::small() });
    let block = address(1, 0, 2);
    append(&flash, block, &[1, 2, 3, 4]).unwrap();
    for i in 0..100 {
        assert!(is_page(&flash, block.page(i % 4), u64::from(i % 4) + 1).unwrap());
    }
    assert_eq!(flash.reads_since_erase(block).unwrap(), 100);
    let mut lost = 0;
    for i in 0..400 {
        let read = is_page(&flash, block.page(i % 4), u64::from(i % 4) + 1);
        lost += u32::from(read.is_err());
        assert!(read.is_err() || read.unwrap());
    }
    assert!(lost > 100, "{lost} of 400 reads failed");
    // Another block was not read at all, and an erase heals this one.
    append(&flash, address(1, 0, 3), &[7]).unwrap();
    assert!(is_page(&flash, address(1, 0, 3).page(0), 7).unwrap());
    flash.reset(block).unwrap();
    assert_eq!(flash.reads_since_erase(block).unwrap(), 0);
    append(&flash, block, &[5]).unwrap();
    assert!(is_page(&flash, block.page(0), 5).unwrap());
}

#[test]
fn zeroes_take_no_memory_and_come_back() {
    let options = SimFlashOptions { is_sparse: true, ..SimFlashOptions::small() };
    let flash = SimFlash::new(4, options);
    let whole = SimFlash::new(4, SimFlashOptions::small());
    let mut page = vec![0; PAGE];
    page[..40].fill(9);
    for block in small().all_blocks() {
        let pages = [&page[..], &[0; PAGE], &[0; PAGE]].concat();
        for flash in [&flash, &whole] {
            let append = Append { block, expected: None, stream: 0, pages: &pages, spare: &[] };
            flash.append(&append).unwrap();
        }
    }
    // A granule of 64 bytes and its place for each block, instead of three pages.
    assert_eq!(flash.contents_bytes(), 24 * (64 + 8));
    assert_eq!(whole.contents_bytes(), 24 * 3 * PAGE as u64);
    let mut back = vec![1; 3 * PAGE];
    let mut spare = vec![1; 3 * SPARE];
    flash.read(address(1, 1, 5).page(0), &mut back, &mut spare).unwrap();
    assert_eq!(back, [&page[..], &[0; 2 * PAGE]].concat());
    assert!(spare.iter().all(|byte| *byte == 0));
    let pages_of = |id| append(&flash, address(0, 0, 0), &[id]).unwrap();
    let at = pages_of(77);
    assert!(is_page(&flash, address(0, 0, 0).page(at), 77).unwrap());
}

/// A clock that is moved by another thread: calls return no sooner than it says.
#[test]
fn calls_return_when_their_time_has_passed_on_the_clock() {
    let timing = FlashTiming {
        read_ns: 50_000,
        program_ns: 700_000,
        erase_ns: 7_000_000,
        transfer_ns: 10_000,
    };
    let flash = SimFlash::new(1, SimFlashOptions { timing, ..SimFlashOptions::small() });
    flash.advance_ns(123);
    let clock = Arc::new(ManualClock::default());
    clock.advance_ns(55_555);
    flash.pace_by(clock.clone());
    assert_eq!(flash.now_ns(), 123);
    clock.advance_ns(1000);
    assert_eq!(flash.now_ns(), 1123);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = Done(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                clock.advance_ns(1000);
                std::thread::yield_now();
            }
        });
        let before = clock.monotonic_ns();
        append(&flash, address(0, 0, 0), &[1]).unwrap();
        let appended = clock.monotonic_ns();
        assert!(appended - before >= 710_000, "{}", appended - before);
        assert!(is_page(&flash, address(0, 0, 0).page(0), 1).unwrap());
        assert!(clock.monotonic_ns() - appended >= 60_000);
        // Two LUNs side by side: what ends first is popped first, and not before its end.
        let mut queue = flash.queue(4);
        let before = clock.monotonic_ns();
        for (block, request) in [
            (address(0, 1, 0), None),
            (address(1, 1, 0), Some(Request::Reset { block: address(1, 1, 0) })),
        ] {
            let append = Request::Append { block, expected: None, stream: 0 };
            let (request, len) = request.map_or((append, PAGE), |request| (request, 0));
            let pages = AlignedBuf::zeroed(len);
            queue.push(Operation { of: block, request, pages, spare: Vec::new() });
        }
        let (first, result) = queue.pop().unwrap();
        assert_eq!((first.of, result.unwrap()), (address(0, 1, 0), 0));
        assert!((710_000..7_000_000).contains(&(clock.monotonic_ns() - before)));
        queue.pop().unwrap().1.unwrap();
        assert!(clock.monotonic_ns() - before >= 7_000_000);
        drop(queue);
        drop(done);
    });
}

/// Stops the thread that moves the clock, also if a check fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
