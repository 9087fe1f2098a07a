//! The drive in a file: pages past the page cache, tables that are torn, files that are not whole.

use super::{fault, page_of, small};
use silica_base::{AlignedBuf, ErrorKind, Prng};
use silica_device::blocks::{
    Append, BlockState, FlashDevice, FlashDrive, FlashFault, FlashImage, FlashImageOptions,
    FlashQueue, Geometry, OPERATIONS_MAX, Operation, Request,
};
use std::os::unix::fs::FileExt;

const OPTIONS: FlashImageOptions = FlashImageOptions { id: 9, endurance: None };

fn large_pages() -> Geometry {
    Geometry { page_bytes: 4096, spare_bytes: 0, ..small() }
}

#[test]
fn pages_go_past_the_page_cache_whatever_their_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let geometry = large_pages();
    let drive = FlashDrive::create(&path, geometry, OPTIONS).unwrap();
    let mut prng = Prng::new(3);
    let mut bytes = vec![0; 3 * 4096 + 1];
    prng.fill(&mut bytes);
    let block = geometry.block_at(5);
    for pages in [&bytes[..4096], &bytes[1..2 * 4096 + 1]] {
        drive.append(&Append { block, expected: None, stream: 0, pages, spare: &[] }).unwrap();
    }
    drop(drive);
    let drive = FlashDrive::open(&path).unwrap();
    let mut aligned = AlignedBuf::zeroed(4096);
    drive.read(block.page(0), &mut aligned, &mut []).unwrap();
    assert_eq!(aligned[..], bytes[..4096]);
    let mut other = vec![0; 2 * 4096 + 1];
    drive.read(block.page(1), &mut other[1..], &mut []).unwrap();
    assert_eq!(other[1..], bytes[1..2 * 4096 + 1]);
    assert_eq!(fault(drive.read(block.page(3), &mut aligned, &mut [])), FlashFault::Unwritten);
    assert!(!drive.abilities().checks_pages);
}

/// Where the file system has direct I/O and the kernel io_uring, these reads go through it: more of
/// them than a ring has room for, one whose page was not written, a reset behind them of all that
/// they read, and pages that are read again.
#[test]
fn reads_of_a_queue_find_what_was_there_when_they_were_pushed() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = large_pages();
    let drive = FlashDrive::create(&dir.path().join("flash"), geometry, OPTIONS).unwrap();
    let page = |id: u8| vec![id; 4096];
    let blocks: Vec<_> =
        (0..).zip((0..geometry.block_count()).map(|n| geometry.block_at(n))).collect();
    let append = |block, id: u8| {
        let pages = &page(id);
        drive.append(&Append { block, expected: None, stream: 0, pages, spare: &[] }).unwrap();
    };
    for (id, block) in &blocks {
        (0..8).for_each(|_| append(*block, *id));
    }
    let operation = |of: u8, request, bytes| {
        let mut pages = AlignedBuf::zeroed(bytes);
        pages.fill(of);
        Operation { of, request, pages, spare: Vec::new() }
    };
    for rounds in 0..3 {
        let mut queue = drive.queue(OPERATIONS_MAX);
        for (id, block) in &blocks {
            for page in (0..8).filter(|_| rounds == 0) {
                queue.push(operation(*id, Request::Read { first: block.page(page) }, 4096));
            }
        }
        queue.push(operation(0, Request::Read { first: blocks[0].1.page(7) }, 8192));
        for (id, block) in &blocks {
            let of = 100 + *id + rounds;
            queue.push(operation(of, Request::Reset { block: *block }, 0));
            let request = Request::Append { block: *block, expected: None, stream: 0 };
            queue.push(operation(of, request, 4096));
            queue.push(operation(of, Request::Read { first: block.page(0) }, 4096));
        }
        let (mut found, mut faults) = (0, Vec::new());
        while let Some((operation, result)) = queue.pop() {
            match (operation.request, result) {
                (Request::Read { .. }, Ok(_)) => {
                    assert_eq!(operation.pages[..], page(operation.of)[..]);
                    found += 1;
                }
                (_, result) => faults.extend(result.err().map(|e| e.fault())),
            }
        }
        let reads = if rounds == 0 { 9 } else { 1 };
        assert_eq!((found, faults), (blocks.len() * reads, vec![FlashFault::OutOfRange]));
    }
    // A queue that is dropped has waited for its reads.
    let mut queue = drive.queue(64);
    for (id, block) in &blocks {
        queue.push(operation(*id, Request::Read { first: block.page(0) }, 4096));
    }
    drop(queue);
    assert!(drive.counters().total().reads > 0);
}

#[test]
fn a_torn_record_leaves_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let drive = FlashDrive::create(&path, small(), OPTIONS).unwrap();
    let block = small().block_at(0);
    for id in 0..3 {
        let pages = &page_of(id);
        drive.append(&Append { block, expected: None, stream: 0, pages, spare: &[] }).unwrap();
    }
    drop(drive);
    // Records 1 to 3 took turns; the last one is in the second table.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_at(&[0x55; 32], 8192).unwrap();
    let drive = FlashDrive::open(&path).unwrap();
    assert_eq!(drive.block(block).unwrap().written, 2);
    drop(drive);
    file.write_at(&[0x55; 32], 4096).unwrap();
    let drive = FlashDrive::open(&path).unwrap();
    assert_eq!(drive.block(block).unwrap().state, BlockState::Undefined);
    drive.reset(block).unwrap();
    assert_eq!(drive.block(block).unwrap().state, BlockState::Free);
}

#[test]
fn what_is_no_drive_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let drive = FlashDrive::create(&path, small(), OPTIONS).unwrap();
    let said = |result: silica_base::Result<FlashDrive>| {
        let error = result.map(drop).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, _) = said(FlashDrive::open(&path));
    assert_eq!(kind, ErrorKind::Locked);
    let (kind, text) = said(FlashDrive::create(&path, small(), OPTIONS));
    assert_eq!(kind, ErrorKind::Config);
    assert!(text.contains("is there already"), "{text}");
    drop(drive);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let whole = file.metadata().unwrap().len();
    file.set_len(whole - 1).unwrap();
    assert!(said(FlashDrive::open(&path)).1.contains("cut"));
    file.set_len(1000).unwrap();
    assert_eq!(said(FlashDrive::open(&path)).0, ErrorKind::Corruption);
    let image = dir.path().join("image");
    drop(FlashImage::create(&image, small(), OPTIONS).unwrap());
    assert!(said(FlashDrive::open(&image)).1.contains("no flash drive"));
    let missing = dir.path().join("missing");
    assert_eq!(said(FlashDrive::open(&missing)).0, ErrorKind::NotFound);
}

/// A file as a block device, for as long as this lives.
struct Loop(std::path::PathBuf);

impl Loop {
    /// `None`, and why, if this user may not make one.
    fn new(file: &std::path::Path) -> Option<Self> {
        let mut command = std::process::Command::new("losetup");
        let made = command.args(["--find", "--show"]).arg(file).output();
        let made = made.ok().filter(|made| made.status.success());
        if made.is_none() {
            eprintln!("skipped: losetup makes no loop device here; it needs root");
        }
        made.map(|made| Loop(String::from_utf8_lossy(&made.stdout).trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A block device is one opening's alone, is refused if it is something else or too small, and is
/// told what was erased: the file below it gives its space back.
#[test]
fn a_block_device_is_flash_that_discards() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk");
    std::fs::File::create(&file).unwrap().set_len(24 << 20).unwrap();
    let Some(device) = Loop::new(&file) else { return };
    let geometry = Geometry { blocks: 4, pages: 256, page_bytes: 4096, spare_bytes: 0, ..small() };
    let is_foreign = FlashDrive::open(&device.0).map(drop).unwrap_err();
    assert_eq!(is_foreign.kind(), ErrorKind::Config, "{is_foreign}");
    let large = Geometry { blocks: 4000, ..geometry };
    let is_small = FlashDrive::create(&device.0, large, OPTIONS).map(drop).unwrap_err();
    assert!(is_small.to_string().contains("it was cut"), "{is_small}");

    let drive = FlashDrive::create(&device.0, geometry, OPTIONS).unwrap();
    for second in [FlashDrive::open(&device.0), FlashDrive::create(&device.0, geometry, OPTIONS)] {
        assert_eq!(second.map(drop).unwrap_err().kind(), ErrorKind::Locked);
    }
    let pages = vec![7; 256 * 4096];
    let blocks: Vec<_> = (0..geometry.block_count()).map(|n| geometry.block_at(n)).collect();
    let append = |drive: &FlashDrive, block| {
        let append = Append { block, expected: None, stream: 0, pages: &pages, spare: &[] };
        drive.append(&append).unwrap();
    };
    blocks.iter().for_each(|block| append(&drive, *block));
    drive.sync().unwrap();
    let used = || std::fs::metadata(&file).unwrap().blocks() * 512;
    let full = used();
    assert!(full >= geometry.capacity_bytes(), "{full}");
    blocks[1..].iter().for_each(|block| drive.reset(*block).unwrap());
    drive.sync().unwrap();
    let left = used();
    if left == full {
        eprintln!("skipped: the file system below the loop device has no holes");
    } else {
        assert!(left < 2 * geometry.block_bytes() + (2 << 20), "{left} of {full}");
    }
    append(&drive, blocks[1]);
    drop(drive);
    let drive = FlashDrive::open(&device.0).unwrap();
    let mut found = vec![0; 256 * 4096];
    for block in &blocks[..2] {
        drive.read(block.page(0), &mut found, &mut []).unwrap();
        assert!(found == pages, "what is beside erased blocks stays");
    }
    assert_eq!(drive.block(blocks[2]).unwrap().state, BlockState::Free);
    drop((drive, device));

    // The device is smaller than the drive that it has.
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(2 << 20).unwrap();
    let Some(device) = Loop::new(&file) else { return };
    let is_cut = FlashDrive::open(&device.0).map(drop).unwrap_err();
    assert!(is_cut.to_string().contains("it was cut"), "{is_cut}");
}
