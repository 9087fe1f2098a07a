//! The policy level against a model: through collections, reopenings, power cuts and bad blocks.

use super::*;
use silica_base::{ErrorKind, Prng, Result, test_size};
use silica_device::sim::{FlashFaultKind, FlashRates, FlashTiming};
use silica_flash::functions::{FunctionOptions, Functions, Mapping};
use silica_flash::policy::{Collection, Policy, PolicyOptions, RangeOptions};

const POLICIES: [Collection; 3] =
    [Collection::Greedy, Collection::Fifo, Collection::LeastRecentlyUsed];
const DEVICE: u64 = 77;

fn range(begin: u64, end: u64, mapping: Mapping, collection: Collection) -> RangeOptions {
    RangeOptions { begin, end, mapping, collection, over_provisioning: 0 }
}

/// A device with or without spare bytes, and three ranges of it: 2 x 12 blocks of 4 pages.
fn options_of(seed: u64) -> (SimFlashOptions, PolicyOptions) {
    let spare_bytes = if seed.is_multiple_of(2) { 0 } else { 48 };
    let geometry =
        Geometry { channels: 2, luns: 1, blocks: 15, pages: 4, page_bytes: 512, spare_bytes };
    let flash = match seed % 3 {
        0 => SimFlashOptions::flash(geometry),
        _ => SimFlashOptions { open_blocks_max: Some(8), ..SimFlashOptions::zones(geometry) },
    };
    let policy = |nth: u64| POLICIES[((seed / 6 + nth) % 3) as usize];
    let ranges = vec![
        range(0, 14, Mapping::Page, policy(0)),
        range(14, 26, Mapping::Block, policy(1)),
        range(26, 36, Mapping::Page, policy(2)),
    ];
    (flash, PolicyOptions { device: DEVICE, ranges })
}

const PAGES: u64 = 36;

fn functions(flash: &SimFlash) -> Functions<SimFlash> {
    Functions::open(flash.clone(), FunctionOptions::default()).unwrap()
}

fn format(flash: &SimFlash, options: &PolicyOptions) -> Result<Policy<SimFlash>> {
    let functions = Functions::open(flash.clone(), FunctionOptions::default())?;
    Policy::format(functions, options.clone())
}

fn open(flash: &SimFlash) -> Result<Policy<SimFlash>> {
    let functions = Functions::open(flash.clone(), FunctionOptions::default())?;
    Policy::open(functions, DEVICE)
}

/// Contents of a page that say what they are; 0 for a page that has none.
fn contents(id: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    if id > 0 {
        Prng::new(id).fill(&mut out);
    }
    out
}

/// By page its versions: as last flushed, and each one since. 0 is an empty page.
struct Model(Vec<Vec<u64>>);

impl Model {
    fn new(pages: u64) -> Self {
        Model((0..pages).map(|_| vec![0]).collect())
    }

    fn flushed(&mut self) {
        self.0.iter_mut().for_each(|versions| drop(versions.drain(..versions.len() - 1)));
    }

    fn now(&self, page: u64) -> u64 {
        *self.0[page as usize].last().unwrap()
    }

    /// Compares a device that was opened; what it has counts from here on.
    fn check(&mut self, disk: &Policy<impl FlashDevice>, what: &str) -> Result<()> {
        let mut page = vec![0; disk.page_bytes()];
        for (number, versions) in (0..).zip(&mut self.0) {
            disk.read(number, &mut page)?;
            let is = |id: &u64| page == contents(*id, page.len());
            let at = versions.iter().rposition(is);
            let at = at.unwrap_or_else(|| panic!("{what}: page {number} is none of {versions:?}"));
            *versions = vec![versions[at]];
        }
        Ok(())
    }
}

fn step(disk: &mut Policy<impl FlashDevice>, prng: &mut Prng, model: &mut Model) -> Result<()> {
    let page_bytes = disk.page_bytes();
    let pages = disk.pages();
    let first = prng.below(pages);
    let count = (1 + prng.below(6)).min(pages - first);
    match prng.below(20) {
        0..9 => {
            let ids: Vec<u64> = (0..count).map(|_| prng.next_u64() | 1).collect();
            let data: Vec<u8> = ids.iter().flat_map(|id| contents(*id, page_bytes)).collect();
            let result = disk.write(first, &data);
            for (page, id) in (first..).zip(ids) {
                let before = model.now(page);
                model.0[page as usize].push(id);
                if result.is_err() {
                    // It may be written or not.
                    model.0[page as usize].push(before);
                }
            }
            result?;
        }
        9..12 => {
            let other = (prng.below(pages), 1);
            let result = disk.trim_all(&[(first, count), other]);
            for page in (first..first + count).chain([other.0]) {
                model.0[page as usize].push(0);
            }
            result?;
        }
        12..15 => {
            disk.flush()?;
            model.flushed();
        }
        15 if prng.one_in(4) => disk.checkpoint()?,
        15 => drop(disk.level_wear(1)?),
        16 => drop(disk.functions().erase_pending(2)?),
        _ => {
            let mut out = vec![0; count as usize * page_bytes];
            disk.read(first, &mut out)?;
            for (page, out) in (first..).zip(out.chunks(page_bytes)) {
                assert_eq!(out, contents(model.now(page), page_bytes), "page {page}");
            }
        }
    }
    Ok(())
}

#[test]
fn ranges_behave_like_pages_and_survive_restarts() {
    for seed in 0..test_size(60, 600, 10_000) {
        let (flash, options) = options_of(seed);
        let flash = SimFlash::new(seed, flash);
        let mut disk = format(&flash, &options).unwrap();
        assert_eq!(disk.page_bytes(), if seed % 2 == 0 { 472 } else { 512 });
        let (mut prng, mut model) = (Prng::new(seed), Model::new(PAGES));
        for round in 0..4 {
            for _ in 0..150 {
                step(&mut disk, &mut prng, &mut model).unwrap();
            }
            let statistics = disk.statistics();
            assert!(statistics.pages_copied > 0 && statistics.collections > 0, "{statistics:?}");
            disk.flush().unwrap();
            model.flushed();
            disk = open(&flash.reopen()).unwrap();
            assert_eq!(disk.ranges(), options.ranges);
            model.check(&disk, &format!("seed {seed}, round {round}")).unwrap();
        }
    }
}

/// Opens after a cut; formats anew if the cut came before the first checkpoint.
fn open_or_format(
    flash: &SimFlash,
    options: &PolicyOptions,
    is_formatted: bool,
) -> Result<Policy<SimFlash>> {
    match open(flash) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            assert!(!is_formatted, "{error}");
            let functions = Functions::open(flash.clone(), FunctionOptions::default())?;
            functions.release_found()?;
            Policy::format(functions, options.clone())
        }
        result => result,
    }
}

#[test]
fn random_cuts_leave_what_was_flushed() {
    for seed in 0..test_size(150, 1_500, 30_000) {
        let (flash_options, options) = options_of(seed);
        let mut flash = SimFlash::new(seed, flash_options);
        let (mut prng, mut model) = (Prng::new(seed), Model::new(PAGES));
        let mut is_formatted = false;
        for round in 0..6 {
            let what = format!("seed {seed}, round {round}");
            flash.cut_at_op(flash.op_count() + 1 + prng.below(150));
            let mut run = || -> Result<()> {
                let mut disk = open_or_format(&flash, &options, is_formatted)?;
                is_formatted = true;
                model.check(&disk, &what)?;
                loop {
                    step(&mut disk, &mut prng, &mut model)?;
                }
            };
            let error = run().unwrap_err();
            assert!(flash.is_cut(), "{what}: {error}");
            flash = flash.reopen();
        }
        flash.cut_at_op(u64::MAX);
        let disk = open_or_format(&flash, &options, is_formatted).unwrap();
        model.check(&disk, &format!("seed {seed}")).unwrap();
    }
}

/// One script, the same for every cut.
fn script(flash: &SimFlash, options: &PolicyOptions, model: &mut Model) -> Result<()> {
    let mut disk = format(flash, options)?;
    let mut prng = Prng::new(4);
    for _ in 0..110 {
        step(&mut disk, &mut prng, model)?;
    }
    Ok(())
}

#[test]
fn a_cut_at_every_operation_leaves_what_was_flushed() {
    for seed in 0..test_size(6, 12, 60) {
        let (flash_options, options) = options_of(seed);
        for cut in 1.. {
            let flash = SimFlash::new(1_000 * seed + cut, flash_options);
            flash.cut_at_op(cut);
            let mut model = Model::new(PAGES);
            let done = script(&flash, &options, &mut model);
            if !flash.is_cut() {
                done.unwrap();
                assert!(cut > 200, "the script has more than {cut} operations");
                break;
            }
            let what = format!("seed {seed}, cut {cut}");
            // A cut while it opens, and then a whole opening.
            let mut flash = flash.reopen();
            flash.cut_at_op(flash.op_count() + 1 + cut % 7);
            let opened = open_or_format(&flash, &options, false);
            assert!(opened.is_ok() || flash.is_cut(), "{what}: {:?}", opened.err());
            drop(opened);
            flash.power_cut();
            flash = flash.reopen();
            flash.cut_at_op(u64::MAX);
            let mut disk = open_or_format(&flash, &options, false).unwrap();
            model.check(&disk, &what).unwrap();
            // It goes on.
            for page in 0..PAGES {
                disk.write(page, &contents(page + 1, disk.page_bytes())).unwrap();
                model.0[page as usize].push(page + 1);
            }
            disk.flush().unwrap();
            model.flushed();
            model.check(&open(&flash.reopen()).unwrap(), &what).unwrap();
        }
    }
}

#[test]
fn blocks_that_turn_bad_take_no_page_with_them() {
    let (mut bad, mut full) = (0, 0);
    for seed in 0..test_size(90, 900, 20_000) {
        let (flash_options, options) = options_of(seed);
        let rates = FlashRates { program_failed: 400, erase_failed: 80, ..FlashRates::default() };
        let flash = SimFlash::new(seed, SimFlashOptions { rates, ..flash_options });
        let Ok(mut disk) = format(&flash, &options) else { continue };
        let (mut prng, mut model) = (Prng::new(seed), Model::new(PAGES));
        for _ in 0..300 {
            if let Err(error) = step(&mut disk, &mut prng, &mut model) {
                assert_eq!(error.kind(), ErrorKind::Full, "seed {seed}: {error}");
                full += 1;
                break;
            }
        }
        bad += flash.counters().total().failures;
        model.check(&disk, &format!("seed {seed}")).unwrap();
        if disk.flush().is_ok() {
            let disk = open(&flash.reopen()).unwrap();
            model.check(&disk, &format!("seed {seed}, opened")).unwrap();
        }
    }
    assert!(bad > 100 && full > 0, "{bad} failures, {full} full");
}

#[test]
fn when_every_erase_fails_it_says_that_it_is_full() {
    let (flash, options) = options_of(0);
    let rates = FlashRates { erase_failed: 1, ..FlashRates::default() };
    let flash = SimFlash::new(1, SimFlashOptions { rates, ..flash });
    let mut disk = format(&flash, &options).unwrap();
    let (mut prng, mut model) = (Prng::new(1), Model::new(PAGES));
    let full = loop {
        if let Err(error) = step(&mut disk, &mut prng, &mut model) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::Full);
    assert!(full.to_string().contains("no spare block left"), "{full}");
    model.check(&disk, "all erases fail").unwrap();
}

#[test]
fn a_page_that_cannot_be_read_is_told_of_and_kept_from_collection() {
    let (flash, options) = options_of(0);
    let flash = SimFlash::new(1, flash);
    let mut disk = format(&flash, &options).unwrap();
    disk.write(0, &contents(5, 472 * 4)).unwrap();
    flash.fail_at(FlashFaultKind::Uncorrectable, 2);
    let mut page = vec![0; 472];
    disk.read(0, &mut page).unwrap();
    let error = disk.read(1, &mut page).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("write it again"), "{error}");
    // Others can be written as long as they like.
    for round in 0..200 {
        for number in [0, 2, 3, 4, 5, 6, 7] {
            disk.write(number, &contents(round, 472)).unwrap();
        }
    }
    assert!(disk.read(1, &mut page).is_err());
    disk.write(1, &contents(9, 472)).unwrap();
    disk.read(1, &mut page).unwrap();
    assert_eq!(page, contents(9, 472));
}

#[test]
fn impossible_devices_are_refused_in_words() {
    let (flash_options, options) = options_of(0);
    let flash = SimFlash::new(1, flash_options);
    let refused = |ranges: Vec<RangeOptions>| {
        let options = PolicyOptions { ranges, ..options.clone() };
        let error = format(&flash, &options).err().unwrap();
        (error.kind(), error.to_string())
    };
    let greedy = Collection::Greedy;
    let gap = refused(vec![range(1, 5, Mapping::Page, greedy)]);
    assert!(gap.0 == ErrorKind::Config && gap.1.contains("begin at page 0"), "{gap:?}");
    let large = refused(vec![range(0, 100, Mapping::Page, greedy)]);
    assert!(large.0 == ErrorKind::Full && large.1.contains("need 35 blocks, and 30"), "{large:?}");
    assert_eq!(refused(Vec::new()).0, ErrorKind::Full);
    let few = SimFlash::new(1, SimFlashOptions { open_blocks_max: Some(6), ..flash_options });
    let many = format(&few, &options).err().unwrap();
    assert!(many.to_string().contains("6 open blocks"), "{many}");
    assert!(many.to_string().contains("need 7"), "{many}");
    let mut disk = format(&flash, &options).unwrap();
    assert_eq!(disk.write(35, &[0; 2 * 472]).unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(disk.write(0, &[0; 100]).unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(disk.trim(u64::MAX, 2).unwrap_err().kind(), ErrorKind::Config);
    let occupied = format(&flash.reopen(), &options).err().unwrap();
    assert!(occupied.to_string().contains("release_found"), "{occupied}");
    let functions = functions(&flash.reopen());
    let other = Policy::open(functions, DEVICE + 1).err().unwrap();
    assert_eq!(other.kind(), ErrorKind::Config);
    let (flash, _) = options_of(0);
    let empty = SimFlash::new(1, flash);
    assert_eq!(open(&empty).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn a_block_mapped_range_copies_nothing_if_blocks_are_written_in_order() {
    let geometry =
        Geometry { channels: 2, luns: 2, blocks: 16, pages: 16, page_bytes: 512, spare_bytes: 48 };
    let flash = SimFlash::new(1, SimFlashOptions::flash(geometry));
    let ranges = vec![range(0, 40 * 16, Mapping::Block, Collection::Greedy)];
    let mut disk = format(&flash, &PolicyOptions { device: DEVICE, ranges }).unwrap();
    let mut prng = Prng::new(1);
    for round in 0..400 {
        let block = prng.below(40) * 16;
        for part in 0..4 {
            disk.write(block + part * 4, &contents(round + 1, 4 * 512)).unwrap();
        }
    }
    let statistics = disk.statistics();
    assert_eq!((statistics.pages_copied, statistics.pages_of_holes), (0, 0), "{statistics:?}");
    assert!(statistics.write_amplification() < 1.05, "{statistics:?}");
    // A page in the middle costs the block.
    disk.write(5, &contents(7, 512)).unwrap();
    disk.write(3, &contents(8, 512)).unwrap();
    assert!(disk.statistics().pages_copied >= 5);
}

/// A block-mapped range of 40 blocks of 16 pages.
fn by_block(timing: FlashTiming) -> (SimFlash, Policy<SimFlash>) {
    let geometry =
        Geometry { channels: 2, luns: 2, blocks: 16, pages: 16, page_bytes: 512, spare_bytes: 48 };
    let flash = SimFlash::new(1, SimFlashOptions { timing, ..SimFlashOptions::flash(geometry) });
    let ranges = vec![range(0, 40 * 16, Mapping::Block, Collection::Greedy)];
    let disk = format(&flash, &PolicyOptions { device: DEVICE, ranges }).unwrap();
    (flash, disk)
}

#[test]
fn extents_that_are_given_up_together_take_one_page_of_trims() {
    let (_, mut disk) = by_block(FlashTiming::default());
    for block in 0..20 {
        disk.write(block * 16, &contents(block + 1, 16 * 512)).unwrap();
    }
    let before = (disk.statistics().pages_of_mapping, disk.functions().statistics().trimmed);
    let extents: Vec<_> = (0..10).map(|block| (block * 32, 16)).collect();
    disk.trim_all(&extents).unwrap();
    assert_eq!(disk.statistics().pages_of_mapping, before.0 + 1);
    assert_eq!(disk.functions().statistics().trimmed, before.1 + 10);
    let mut out = vec![0; 16 * 512];
    for block in 0..20_u64 {
        disk.read(block * 16, &mut out).unwrap();
        let expected =
            if block % 2 == 0 { vec![0; 16 * 512] } else { contents(block + 1, 16 * 512) };
        assert!(out == expected, "block {block}");
    }
}

#[test]
fn blocks_that_are_written_over_share_their_syncs() {
    let (flash, mut disk) = by_block(FlashTiming::default());
    let whole = |id| contents(id, 16 * 512);
    (0..24).for_each(|block| disk.write(block * 16, &whole(block + 1)).unwrap());
    disk.checkpoint().unwrap();
    let calls = flash.op_count();
    (0..24).for_each(|block| disk.write(block * 16, &whole(block + 101)).unwrap());
    // Each block has 16 pages and an erase; eight of them share a sync.
    let own = 24 * 16;
    let more = flash.op_count() - calls - own;
    assert!(disk.functions().statistics().trimmed >= 16);
    assert!(more <= 24 + 24 / 8 + 2, "{more} calls beside the pages");
    disk.flush().unwrap();
    assert!(disk.functions().statistics().trimmed >= 24);
}

#[test]
fn a_read_that_spans_two_blocks_takes_as_long_as_one_of_half_its_length() {
    let timing = FlashTiming { read_ns: 50_000, transfer_ns: 1_000, ..FlashTiming::default() };
    let (flash, mut disk) = by_block(timing);
    (0..4).for_each(|block| disk.write(block * 16, &contents(block + 1, 16 * 512)).unwrap());
    let took = |first: u64| {
        let begin = flash.now_ns();
        let mut out = vec![0; 16 * 512];
        disk.read(first, &mut out).unwrap();
        flash.now_ns() - begin
    };
    let (aligned, spanning) = (took(0), took(8));
    assert!(spanning < aligned * 6 / 10, "{spanning} of {aligned} ns");
    let begin = flash.now_ns();
    let (mut a, mut b) = (vec![0; 8 * 512], vec![0; 8 * 512]);
    disk.read_all(vec![(0, &mut a[..]), (24, &mut b[..])]).unwrap();
    assert!(flash.now_ns() - begin < aligned * 6 / 10);
    assert!(a == contents(1, 16 * 512)[..8 * 512] && b == contents(2, 16 * 512)[8 * 512..]);
    let refused = disk.read_all(vec![(0, &mut a[..]), (40 * 16 - 1, &mut b[..])]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Config);
}

/// Pages programmed for each page written, uniformly at random, in the steady state. `space` is the
/// part of all blocks that has data.
fn amplification(collection: Collection, percent: u32) -> (f64, f64) {
    let geometry =
        Geometry { channels: 1, luns: 1, blocks: 220, pages: 32, page_bytes: 512, spare_bytes: 48 };
    let flash = SimFlash::new(1, SimFlashOptions::flash(geometry));
    let pages = 128 * 32;
    let options =
        RangeOptions { over_provisioning: percent, ..range(0, pages, Mapping::Page, collection) };
    let mut disk =
        format(&flash, &PolicyOptions { device: DEVICE, ranges: vec![options] }).unwrap();
    let mut prng = Prng::new(3);
    let page = contents(1, 512);
    (0..pages).for_each(|number| disk.write(number, &page).unwrap());
    (0..4 * pages).for_each(|_| disk.write(prng.below(pages), &page).unwrap());
    let before = disk.statistics();
    (0..4 * pages).for_each(|_| disk.write(prng.below(pages), &page).unwrap());
    let after = disk.statistics();
    let copied = after.pages_copied - before.pages_copied;
    // A block is free for the next frontier, and half of two are not written yet.
    let blocks = 128.0 + f64::from(128 * percent).div_euclid(100.0) - 2.0;
    (1.0 + copied as f64 / (4 * pages) as f64, 128.0 / blocks)
}

#[test]
fn write_amplification_is_that_of_the_closed_form() {
    for percent in [15, 30, 60] {
        // First in, first out at uniform random writes: of a block that is collected the part u is
        // live, where u = exp(-(1 - u) / space), and each page written costs 1 / (1 - u).
        let (fifo, space) = amplification(Collection::Fifo, percent);
        let mut live: f64 = 0.5;
        (0..1_000).for_each(|_| live = (-(1.0 - live) / space).exp());
        let expected = 1.0 / (1.0 - live);
        assert!((fifo / expected - 1.0).abs() < 0.12, "{percent} %: {fifo}, expected {expected}");
        // Greedy is better, and not by more than it can be: about (1 + s) / 2s for small s.
        let (greedy, space) = amplification(Collection::Greedy, percent);
        let spare = 1.0 / space - 1.0;
        let bound = (1.0 + spare) / (2.0 * spare);
        assert!(greedy < fifo * 1.01, "{percent} %: greedy {greedy}, fifo {fifo}");
        assert!((greedy / bound - 1.0).abs() < 0.3, "{percent} %: {greedy}, about {bound}");
        let (used, _) = amplification(Collection::LeastRecentlyUsed, percent);
        assert!(used < fifo * 1.4, "{percent} %: {used}, fifo {fifo}");
    }
}

#[test]
fn opening_reads_one_page_of_each_block_behind_a_checkpoint() {
    let geometry =
        Geometry { channels: 2, luns: 2, blocks: 24, pages: 64, page_bytes: 512, spare_bytes: 48 };
    let flash = SimFlash::new(1, SimFlashOptions::flash(geometry));
    let ranges = vec![range(0, 64 * 64, Mapping::Page, Collection::Greedy)];
    let mut disk = format(&flash, &PolicyOptions { device: DEVICE, ranges }).unwrap();
    let page = contents(1, 512);
    (0..64 * 64).for_each(|number| disk.write(number, &page).unwrap());
    disk.checkpoint().unwrap();
    let flash = flash.reopen();
    drop(open(&flash).unwrap());
    let reads = flash.counters().total().reads;
    assert!(reads < 96 + 3 * 64, "{reads} pages read");
}

#[test]
fn data_that_nobody_rewrites_leaves_cold_blocks() {
    let (flash, options) = options_of(3);
    let spread = |levels: bool| {
        let flash = SimFlash::new(1, flash);
        let mut disk = format(&flash, &options).unwrap();
        let bytes = disk.page_bytes();
        (0..PAGES).for_each(|page| disk.write(page, &contents(page, bytes)).unwrap());
        for round in 0..3_000 {
            disk.write(round % 4, &contents(round, bytes)).unwrap();
            if levels && round % 10 == 0 {
                disk.level_wear(8).unwrap();
            }
        }
        (8..PAGES).for_each(|page| {
            let mut out = vec![0; bytes];
            disk.read(page, &mut out).unwrap();
            assert_eq!(out, contents(page, bytes));
        });
        disk.functions().wear().unwrap().unwrap().spread
    };
    let (without, with) = (spread(false), spread(true));
    assert!(with * 2 < without, "spread {without} without levelling, {with} with it");
}

#[test]
fn pages_of_several_blocks_are_read_side_by_side() {
    let geometry =
        Geometry { channels: 4, luns: 2, blocks: 12, pages: 8, page_bytes: 512, spare_bytes: 48 };
    let timing = FlashTiming { read_ns: 50_000, transfer_ns: 1_000, ..FlashTiming::default() };
    let options = SimFlashOptions { timing, ..SimFlashOptions::flash(geometry) };
    let flash = SimFlash::new(1, options);
    let ranges = vec![range(0, 64, Mapping::Page, Collection::Greedy)];
    let mut disk = format(&flash, &PolicyOptions { device: DEVICE, ranges }).unwrap();
    let data: Vec<u8> = (1..65).flat_map(|id| contents(id, 512)).collect();
    disk.write(0, &data).unwrap();
    let mut out = vec![0; data.len()];
    let begin = flash.now_ns();
    disk.read(0, &mut out).unwrap();
    let elapsed = flash.now_ns() - begin;
    assert!(out == data);
    // Eight LUNs: one after the other would take 64 times as long as a page.
    assert!(elapsed < 64 * 51_000 / 4, "{elapsed} ns");
    // A page that cannot be read is told of, whichever it is.
    for nth in [1, 17, 64] {
        flash.fail_at(FlashFaultKind::Uncorrectable, nth);
        let error = disk.read(0, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        disk.write(0, &data).unwrap();
    }
}

#[test]
fn a_logical_device_lies_on_an_application_of_the_monitor() {
    let mut checked = 0;
    for seed in 0..test_size(20, 200, 2_000) {
        let geometry = Geometry {
            channels: 3,
            luns: 2,
            blocks: 13,
            pages: 4,
            page_bytes: 512,
            spare_bytes: 0,
        };
        let rates = FlashRates { program_failed: 500, erase_failed: 200, ..FlashRates::default() };
        let options = SimFlashOptions { rates, ..SimFlashOptions::flash(geometry) };
        let mut flash = SimFlash::new(seed, options);
        let Ok(monitor) = Monitor::format(flash.clone(), OPTIONS) else { continue };
        let Ok(application) = monitor.create("disk", space(4, 0)) else { continue };
        let functions = Functions::open(application, FunctionOptions::default()).unwrap();
        let (_, options) = options_of(seed);
        let mut disk = Policy::format(functions, options).unwrap();
        let (mut prng, mut model) = (Prng::new(seed), Model::new(PAGES));
        for round in 0..3 {
            flash.cut_at_op(flash.op_count() + 200 + prng.below(300));
            while step(&mut disk, &mut prng, &mut model).is_ok() {}
            if !flash.is_cut() {
                break; // Too few spare blocks are left.
            }
            drop(disk);
            flash = flash.reopen();
            let monitor = Monitor::open(flash.clone()).unwrap();
            let application = monitor.application("disk").unwrap();
            let functions = Functions::open(application, FunctionOptions::default()).unwrap();
            disk = Policy::open(functions, DEVICE).unwrap();
            model.check(&disk, &format!("seed {seed}, round {round}")).unwrap();
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} restarts");
}
