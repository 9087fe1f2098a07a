//! The conventional drive beside the closed forms of its collections.

use silica_base::Prng;
use silica_lab::model::{
    fifo_amplification, greedy_amplification, hot_cold_amplification, separated_amplification,
};
use silica_lab::simulate::{Collection, Drive, DriveCounts, DriveDesign};

const LOGICAL: u32 = 1 << 15;

/// A drive with `alpha` times as many pages as it shows. Of each channel's blocks one is free and
/// one is filled: on average a block and a half has no full say in what is collected.
fn design(alpha: f64, pages: u32, channels: u32, collection: Collection) -> DriveDesign {
    let each = (alpha * f64::from(LOGICAL / channels) / f64::from(pages)).round() as u32 + 1;
    let (program_ns, erase_ns) = (1, 1);
    let blocks = each * channels;
    DriveDesign {
        channels,
        blocks,
        pages,
        logical: LOGICAL,
        collection,
        buffer: 0,
        program_ns,
        erase_ns,
    }
}

/// Physical pages by logical ones, without the block of each channel that stays free.
fn alpha_of(design: &DriveDesign) -> f64 {
    f64::from((design.blocks - design.channels) * design.pages) / f64::from(design.logical)
}

fn put(drive: &mut Drive, page: u32) {
    drive.write(page, 0);
}

/// Programs for each page written, after settling.
fn amplification(design: DriveDesign, mut draw: impl FnMut(&mut Prng) -> u32) -> f64 {
    let mut drive = Drive::new(design).unwrap();
    let mut prng = Prng::new(7);
    (0..design.logical).for_each(|page| put(&mut drive, page));
    let rounds = 6 * design.logical;
    (0..rounds).for_each(|_| put(&mut drive, draw(&mut prng)));
    let before = drive.counts();
    (0..rounds).for_each(|_| put(&mut drive, draw(&mut prng)));
    let after = drive.counts();
    (after.programs - before.programs) as f64 / (after.written - before.written) as f64
}

#[test]
fn uniform_writes_cost_what_the_closed_forms_say() {
    for pages in [16, 32, 64] {
        for alpha in [1.1, 1.2, 1.35, 1.6, 2.0] {
            for (collection, channels) in [(Collection::Fifo, 1), (Collection::Greedy, 1)] {
                let design = design(alpha, pages, channels, collection);
                let found = amplification(design, |prng| prng.below(LOGICAL.into()) as u32);
                let alpha = alpha_of(&design);
                let form = match collection {
                    Collection::Fifo => fifo_amplification(alpha),
                    Collection::Greedy => greedy_amplification(alpha, pages),
                };
                let away = found / form - 1.0;
                assert!(away.abs() < 0.02, "{collection:?} {pages} {alpha}: {found} {form}");
            }
        }
    }
}

#[test]
fn channels_collect_for_themselves() {
    for collection in [Collection::Fifo, Collection::Greedy] {
        let one = design(1.35, 16, 1, collection);
        let four = design(1.35, 16, 4, collection);
        let [one, four] = [one, four]
            .map(|design| amplification(design, |prng| prng.below(LOGICAL.into()) as u32));
        assert!((one / four - 1.0).abs() < 0.02, "{collection:?}: {one} {four}");
    }
}

/// A share of the writes to a share of the pages.
fn hot(prng: &mut Prng, writes: f64, data: f64) -> u32 {
    let hot = (data * f64::from(LOGICAL)) as u64;
    match prng.unit() < writes {
        true => prng.below(hot) as u32,
        false => (hot + prng.below(u64::from(LOGICAL) - hot)) as u32,
    }
}

#[test]
fn hot_and_cold_writes_cost_what_the_closed_forms_say() {
    for (writes, data) in [(0.8, 0.2), (0.9, 0.1), (0.6, 0.4)] {
        for alpha in [1.1, 1.35, 2.0] {
            let design = design(alpha, 32, 1, Collection::Fifo);
            let found = amplification(design, |prng| hot(prng, writes, data));
            let form = hot_cold_amplification(alpha_of(&design), writes, data);
            assert!((found / form - 1.0).abs() < 0.05, "{writes} {data} {alpha}: {found} {form}");
        }
    }
}

/// Hot and cold pages in blocks of their own are two drives.
#[test]
fn pages_kept_apart_cost_what_the_closed_form_says() {
    let (writes, data, room, alpha) = (0.8, 0.25, 0.35, 1.4);
    let part = |share: f64, room: f64| {
        let logical = (share * f64::from(LOGICAL)) as u32;
        let blocks = (alpha * room * f64::from(LOGICAL) / 32.0).round() as u32 + 1;
        let design = DriveDesign { logical, blocks, ..design(alpha, 32, 1, Collection::Fifo) };
        amplification(design, |prng| prng.below(logical.into()) as u32)
    };
    let found = writes * part(data, room) + (1.0 - writes) * part(1.0 - data, 1.0 - room);
    let form = separated_amplification(alpha, writes, data, room);
    assert!((found / form - 1.0).abs() < 0.05, "{found} {form}");
}

#[test]
fn what_is_written_in_turn_is_never_copied() {
    let mut drive = Drive::new(design(1.2, 32, 4, Collection::Greedy)).unwrap();
    for _ in 0..5 {
        (0..LOGICAL).for_each(|page| put(&mut drive, page));
    }
    let counts = drive.counts();
    assert_eq!((counts.copies, counts.programs), (0, 5 * u64::from(LOGICAL)));
    assert!(counts.erases > 3 * u64::from(LOGICAL / 32));
}

#[test]
fn trimmed_pages_are_not_copied_and_buffered_ones_programmed_once() {
    let plain = design(1.2, 32, 2, Collection::Greedy);
    let mut drive = Drive::new(plain).unwrap();
    (0..LOGICAL).for_each(|page| put(&mut drive, page));
    (0..LOGICAL).filter(|page| page % 2 == 0).for_each(|page| drive.trim(page));
    let mut prng = Prng::new(1);
    for _ in 0..4 * LOGICAL {
        drive.write(2 * prng.below(100) as u32, 0);
    }
    // Half of the drive is unused: blocks are collected when few of their pages are valid.
    let trimmed = drive.counts();
    assert!(trimmed.copies < 2 * u64::from(LOGICAL), "{trimmed:?}");
    let mut buffered = Drive::new(DriveDesign { buffer: 100, ..plain }).unwrap();
    for _ in 0..1000 {
        (0..100).for_each(|page| assert_eq!(buffered.write(page, 5), 5));
    }
    buffered.trim(7);
    assert_eq!(buffered.counts().programs, 0);
    buffered.flush(5);
    let found = buffered.counts();
    assert_eq!(found, DriveCounts { written: 100_000, programs: 99, copies: 0, erases: 0 });
}

/// The worst case of Shen's equation 2.6: each block has one invalid page, and a slab of as many
/// pages as a block has is written. Each page costs a collection that gains one page.
#[test]
fn a_slab_on_a_full_drive_takes_the_papers_15_seconds() {
    let (channels, pages) = (12, 512);
    let (program_ns, erase_ns) = (695_312, 7_000_000);
    // 43 pages of the slab lie in each channel, or 42.
    let (whole, share) = (512 * pages, 43);
    let (blocks, logical) = (514 * channels, (whole + share) * channels);
    let collection = Collection::Greedy;
    let design = DriveDesign {
        channels,
        blocks,
        pages,
        logical,
        collection,
        buffer: 0,
        program_ns,
        erase_ns,
    };
    let mut drive = Drive::new(design).unwrap();
    (0..whole * channels).for_each(|page| put(&mut drive, page));
    // The first page of each block becomes invalid; a further block is filled meanwhile.
    let first_of = |block: u32, channel: u32| block * pages * channels + channel;
    for channel in 0..channels {
        (0..pages - share).for_each(|block| put(&mut drive, first_of(block, channel)));
        (0..share).for_each(|i| put(&mut drive, (whole + i) * channels + channel));
        (pages - share..pages).for_each(|block| drive.trim(first_of(block, channel)));
    }
    assert_eq!(drive.counts().copies, 0);
    let from = drive.idle_from_ns();
    let slab = (0..pages).map(|i| first_of(pages - share + i / channels, i % channels));
    let end = slab.map(|page| drive.write(page, from)).max().unwrap();
    let took = (end - from) as f64 / 1e9;
    assert_eq!(drive.counts().copies, u64::from(pages * (pages - 1)));
    assert!((took / 15.492 - 1.0).abs() < 0.01, "{took} s");
}

#[test]
fn what_no_drive_is_has_an_error_that_helps() {
    let good = design(1.2, 32, 4, Collection::Greedy);
    let wrong = |design: DriveDesign, word: &str| {
        let error = Drive::new(design).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    wrong(DriveDesign { channels: 0, ..good }, "1 channel");
    wrong(DriveDesign { blocks: good.blocks + 1, ..good }, "multiple");
    wrong(DriveDesign { logical: good.blocks * good.pages, ..good }, "over-provisioned");
    wrong(DriveDesign { pages: 1 << 30, ..good }, "2^32");
}
