//! Images that are damaged, foreign or in use.

use super::*;
use silica_base::{Error, ErrorKind, Prng, mutated, test_size};
use silica_device::blocks::BlockState;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const TINY: Geometry =
    Geometry { channels: 1, luns: 1, blocks: 4, pages: 4, page_bytes: 512, spare_bytes: 16 };
const OPTIONS: FlashImageOptions = FlashImageOptions { id: 1, endurance: None };

fn refused(path: &Path, expected: Option<&Geometry>) -> Error {
    FlashImage::open(path, expected).map(|_| ()).expect_err("the image is refused")
}

/// An image with a full block, an open one, one that was reset and is empty, and a bad one.
fn image(path: &Path) {
    let flash = FlashImage::create(path, TINY, OPTIONS).unwrap();
    append(&flash, address(0, 0, 0), &[10, 11, 12, 13]).unwrap();
    append(&flash, address(0, 0, 1), &[14, 15]).unwrap();
    append(&flash, address(0, 0, 2), &[90, 91, 92, 93]).unwrap();
    flash.reset(address(0, 0, 2)).unwrap();
    append(&flash, address(0, 0, 3), &[16]).unwrap();
    flash.retire(address(0, 0, 3)).unwrap();
    flash.sync().unwrap();
}

/// Every page that can be read is the one that was written there.
fn nothing_is_wrong(flash: &FlashImage, damage: &str) {
    for (block, ids) in [(0, &[10, 11, 12, 13][..]), (1, &[14, 15]), (2, &[]), (3, &[16])] {
        for page in 0..4 {
            let at = address(0, 0, block).page(page);
            match (is_page(flash, at, ids.get(page as usize).copied().unwrap_or(0)), ids) {
                (Ok(is_right), _) => assert!(is_right, "{damage}: {at}"),
                (Err(e), _) => assert!(
                    matches!(
                        e.fault(),
                        FlashFault::Unwritten | FlashFault::Uncorrectable | FlashFault::NeedsReset
                    ),
                    "{damage}: {e}"
                ),
            }
        }
    }
}

/// The distance of `count` places in `len` bytes, or of all of them.
fn step(len: usize, count: u64) -> usize {
    len.div_ceil(usize::try_from(count).unwrap_or(usize::MAX).max(1))
}

/// The image of format version 1 is `image` as the first release wrote it. It is never written
/// again: a version that cannot read it has no place here.
#[test]
fn the_golden_of_version_1_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    fs::write(&path, include_bytes!("../../golden/flash-image-1")).unwrap();
    let flash = FlashImage::open(&path, Some(&TINY)).unwrap();
    nothing_is_wrong(&flash, "none");
    let status = |block| {
        let status = flash.block(address(0, 0, block)).unwrap();
        (status.state, status.written, status.erases)
    };
    assert_eq!(status(0), (BlockState::Full, 4, 0));
    assert_eq!(status(1), (BlockState::Open, 2, 0));
    assert_eq!(status(2), (BlockState::Free, 0, 1));
    assert_eq!(status(3), (BlockState::Bad, 1, 0));
    assert!(is_page(&flash, address(0, 0, 1).page(1), 15).unwrap());
    drop(flash);
    // What is written today is the same bytes.
    let today = dir.path().join("today");
    image(&today);
    assert_eq!(fs::read(&today).unwrap(), include_bytes!("../../golden/flash-image-1"));
}

#[test]
fn every_flipped_byte_is_found_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    image(&path);
    let bytes = fs::read(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let step = step(bytes.len(), test_size(14_000, 23_000, u64::MAX));
    let mut lost = 0;
    for at in (0..bytes.len()).step_by(step) {
        let flip = 1 << (at % 8);
        file.write_all_at(&[bytes[at] ^ flip], at as u64).unwrap();
        match FlashImage::open(&path, None) {
            Ok(flash) => {
                assert!(at >= 4096, "byte {at} of the header is not checked");
                nothing_is_wrong(&flash, &format!("byte {at}"));
                // Damage costs a page at most, or the block that is to be reset again.
                let readable = |page: u32| is_page(&flash, address(0, 0, 0).page(page), 0).is_ok();
                lost += (0..4).filter(|page| !readable(*page)).count();
                assert!((0..4).filter(|page| !readable(*page)).count() <= 1, "byte {at}");
            }
            Err(e) => assert!(at < 4096, "byte {at}: {e}"),
        }
        file.write_all_at(&bytes[at..at + 1], at as u64).unwrap();
    }
    assert!(lost >= 2048 / step, "damaged pages are found: {lost}");
}

#[test]
fn images_cut_at_any_length_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    image(&path);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let whole = file.metadata().unwrap().len();
    file.set_len(whole + 1).unwrap();
    assert!(refused(&path, None).to_string().contains("extended"));
    for len in (0..whole).rev().step_by(step(whole as usize, test_size(700, 5_000, u64::MAX))) {
        file.set_len(len).unwrap();
        let error = refused(&path, None);
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("cut"), "{error}");
    }
}

#[test]
fn damage_of_any_kind_is_no_panic_and_no_wrong_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    image(&path);
    let whole = fs::read(&path).unwrap();
    let mut prng = Prng::new(4);
    let mut opened = 0;
    for round in 0..test_size(300, 1_000, 100_000) {
        let mut bytes = mutated(&mut prng, std::slice::from_ref(&whole));
        bytes.resize(whole.len(), 0);
        fs::write(&path, &bytes).unwrap();
        if let Ok(flash) = FlashImage::open(&path, None) {
            opened += 1;
            nothing_is_wrong(&flash, &format!("round {round}"));
            // Whatever was found can be used again after a reset.
            for block in TINY.all_blocks() {
                if let Err(e) = flash.reset(block) {
                    assert_eq!(e.fault(), FlashFault::BadBlock);
                    continue;
                }
                append(&flash, block, &[7]).unwrap();
                assert!(is_page(&flash, block.page(0), 7).unwrap());
            }
        }
    }
    assert!(opened > 100, "{opened} were opened");
}

#[test]
fn what_is_refused_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    assert_eq!(refused(&path, None).kind(), ErrorKind::NotFound);
    image(&path);
    let other = Geometry { channels: 2, ..TINY };
    let error = refused(&path, Some(&other));
    let said = "has the geometry 1x1x4x4x512+16 and not 2x1x4x4x512+16";
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains(said), "{error}");
    assert!(FlashImage::create(&path, TINY, OPTIONS).is_err(), "it exists");
    assert!(FlashImage::create(&path, Geometry { pages: 0, ..TINY }, OPTIONS).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left of an attempt");

    let open = FlashImage::open(&path, Some(&TINY)).unwrap();
    let error = refused(&path, None);
    assert!(error.kind() == ErrorKind::Locked && error.to_string().contains("stop"), "{error}");
    drop(open);

    let whole = fs::read(&path).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        fs::write(&path, bytes).unwrap();
        refused(&path, None)
    };
    let newer = with(4, 2);
    assert!(newer.kind() == ErrorKind::Unsupported && newer.to_string().contains("version 2"));
    let foreign = with(0, b'X');
    assert!(foreign.kind() == ErrorKind::Config, "{foreign}");
    assert!(foreign.to_string().contains("is no flash image"), "{foreign}");
}

/// Lets files of this process be `bytes` long at most.
fn limit_files(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

#[test]
fn what_the_system_refuses_can_be_tried_again() {
    silica_base::in_own_process(
        "blocks::hostile::what_the_system_refuses_can_be_tried_again",
        || {
            // SAFETY: ignoring a signal installs no handler, so nothing runs at a bad moment.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("flash");
            let flash = FlashImage::create(&path, TINY, OPTIONS).unwrap();
            let (low, high) = (address(0, 0, 0), address(0, 0, 3));
            append(&flash, high, &[1]).unwrap();
            // The last block lies behind the limit.
            limit_files(Some(40_000));
            append(&flash, low, &[2]).unwrap();
            let before = flash.block(high).unwrap();
            assert_eq!(fault(append(&flash, high, &[3])), FlashFault::NoSpace);
            assert_eq!(fault(flash.finish(high)), FlashFault::NoSpace);
            assert_eq!(flash.block(high).unwrap(), before);
            assert!(is_page(&flash, high.page(0), 1).unwrap());
            // A reset that may have been written in part has to be done again.
            assert_eq!(fault(flash.reset(high)), FlashFault::NoSpace);
            assert_eq!(fault(append(&flash, high, &[3])), FlashFault::NeedsReset);
            limit_files(None);
            assert_eq!(fault(is_page(&flash, high.page(0), 1)), FlashFault::NeedsReset);
            flash.reset(high).unwrap();
            append(&flash, high, &[4]).unwrap();
            flash.sync().unwrap();
            drop(flash);
            let flash = FlashImage::open(&path, None).unwrap();
            assert!(is_page(&flash, high.page(0), 4).unwrap());
            assert!(is_page(&flash, low.page(0), 2).unwrap());
        },
    );
}

#[test]
fn a_page_from_another_block_or_time_does_not_pass() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    image(&path);
    let bytes = fs::read(&path).unwrap();
    let stride = (bytes.len() - 4096) / 4;
    let block = |n: usize| 4096 + n * stride..4096 + (n + 1) * stride;
    // Block 0 as a whole, in the place of block 1.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&bytes[block(0)], block(1).start as u64).unwrap();
    let flash = FlashImage::open(&path, None).unwrap();
    for page in 0..4 {
        assert!(is_page(&flash, address(0, 0, 1).page(page), 0).is_err());
    }
    drop(flash);
    // The records of block 2 from before its reset, twice: the reset is not forgotten if pages
    // were written since.
    file.write_all_at(&bytes, 0).unwrap();
    let flash = FlashImage::open(&path, None).unwrap();
    append(&flash, address(0, 0, 2), &[7]).unwrap();
    drop(flash);
    file.write_all_at(&[0; 4096], block(2).start as u64).unwrap();
    let flash = FlashImage::open(&path, None).unwrap();
    let read = is_page(&flash, address(0, 0, 2).page(0), 7);
    assert_eq!(fault(read), FlashFault::NeedsReset);
    flash.reset(address(0, 0, 2)).unwrap();
    assert_eq!(flash.block(address(0, 0, 2)).unwrap().erases, 2);
}
