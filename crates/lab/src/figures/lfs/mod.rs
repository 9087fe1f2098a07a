//! The paper's file system on flash and on a conventional drive (003…, 3.7.2): figure 3.9 and table
//! 3.2, on the emulator's clock. docs/benchmarks/lfs.md says what is fitted and what is left out.
//!
//! Both have the same flash: as many LUNs, blocks and pages, with the papers' times. *ULFS-Prism*
//! is our file system at the function level. *ULFS-SSD* is the same file system on a drive that
//! maps pages, strides them over its LUNs and collects greedily. Both collect greedily, as the
//! paper does.

mod load;
mod ssd;

use self::load::{Load, Personality};
use self::ssd::{SsdGround, SsdShape};
use super::Row;
use crate::simulate::{Collection as DriveCollection, DriveDesign};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::{FlashDevice, Geometry};
use silica_device::sim::{FlashProfile, SimFlash, SimFlashOptions};
use silica_lfs::{Collection, FlashGround, Ground, Lfs, LfsOptions, LfsStatistics, Time};

/// LUNs that work side by side, and pages of a block: a part of the paper's drive. Each has a bus
/// of its own, because the model of the conventional drive knows no shared one.
const CHANNELS: u32 = 16;
const LUNS: u32 = 1;
const PAGES: u32 = 64;
/// Blocks of each LUN at scale 1.
const BLOCKS: f64 = 1024.0;
const BLOCKS_MIN: u32 = 32;
const PAGE_BYTES: u32 = 16 << 10;
/// Share of the flash that the drive keeps for itself, in percent (003…, 2.5.3). At the function
/// level as many blocks are kept back for the collection.
const KEPT_BACK_PERCENT: u32 = 25;
/// Share of the file system that is full, and that the page cache holds.
const FILL: f64 = 0.75;
const CACHED: f64 = 0.25;
/// Pages written before counting begins, and while it lasts, in times of the flash.
const WARM_TIMES: f64 = 1.0;
const COUNTED_TIMES: f64 = 1.0;
/// Rounds at most: loads that write little end by these.
const ROUNDS_MAX: u64 = 400;

/// What was counted of one run.
#[derive(Debug, Clone, Copy)]
struct Counted {
    operations_per_second: f64,
    file_copies: u64,
    flash_copies: u64,
    erases: u64,
    /// Bytes that the load wrote, to compare runs that wrote different amounts.
    written: u64,
}

/// Counters of the device below.
#[derive(Debug, Clone, Copy)]
struct Below {
    now_ns: u64,
    copies: u64,
    erases: u64,
}

fn geometry(scale: f64) -> Geometry {
    Geometry {
        channels: CHANNELS,
        luns: LUNS,
        blocks: ((BLOCKS * scale) as u32).max(BLOCKS_MIN),
        pages: PAGES,
        page_bytes: PAGE_BYTES,
        spare_bytes: 0,
    }
}

fn create<G: Ground>(ground: G) -> Result<Lfs<G>> {
    let made = Lfs::create(ground, 1, (0, 0), Time::default());
    let mut lfs = made.map_err(|fault| Error::new(ErrorKind::Config, fault.to_string()))?;
    lfs.set_options(LfsOptions { collection: Collection::Greedy, ..LfsOptions::default() });
    Ok(lfs)
}

fn measure<G: Ground>(
    lfs: &Lfs<G>,
    personality: Personality,
    pages: u64,
    seed: u64,
    below: &dyn Fn() -> Below,
) -> Result<Counted> {
    let mut load = Load::new(lfs, personality, FILL, CACHED, seed)?;
    run(&mut load, lfs, (pages as f64 * WARM_TIMES) as u64)?;
    let (before, own, operations) = (below(), lfs.statistics(), load.operations);
    run(&mut load, lfs, (pages as f64 * COUNTED_TIMES) as u64)?;
    let (after, end) = (below(), lfs.statistics());
    let seconds = (after.now_ns - before.now_ns) as f64 / 1e9;
    let since = |of: fn(&LfsStatistics) -> u64| of(&end) - of(&own);
    Ok(Counted {
        operations_per_second: (load.operations - operations) as f64 / seconds,
        file_copies: since(|of| of.pages_copied),
        flash_copies: after.copies - before.copies,
        erases: after.erases - before.erases,
        written: since(|of| of.pages_written),
    })
}

/// Runs until so many pages were written. Loads that write little end by rounds.
fn run<G: Ground>(load: &mut Load<'_, G>, lfs: &Lfs<G>, pages: u64) -> Result<()> {
    let begin = lfs.statistics().pages_written;
    for round in 0.. {
        load.round()?;
        let written = lfs.statistics().pages_written - begin;
        let is_slow = round >= ROUNDS_MAX && written / (round + 1) < pages / ROUNDS_MAX / 4;
        if written >= pages || is_slow {
            break;
        }
    }
    Ok(())
}

fn on_flash(scale: f64, personality: Personality, seed: u64) -> Result<Counted> {
    let geometry = geometry(scale);
    let timing = FlashProfile::find("paper")?.timing;
    let options = SimFlashOptions { timing, is_sparse: true, ..SimFlashOptions::flash(geometry) };
    let flash = SimFlash::new(seed, options);
    let kept_back = geometry.block_count() * KEPT_BACK_PERCENT / 100;
    let lfs = create(FlashGround::open(flash.clone(), kept_back)?)?;
    let below =
        || Below { now_ns: flash.now_ns(), copies: 0, erases: flash.counters().total().erases };
    let pages = u64::from(geometry.block_count()) * u64::from(PAGES);
    measure(&lfs, personality, pages, seed, &below)
}

fn on_drive(scale: f64, personality: Personality, seed: u64, trims: bool) -> Result<Counted> {
    let geometry = geometry(scale);
    let timing = FlashProfile::find("paper")?.timing;
    let blocks = geometry.block_count();
    let segments = blocks - blocks * KEPT_BACK_PERCENT / 100;
    let design = DriveDesign {
        channels: geometry.lun_count(),
        blocks,
        pages: PAGES,
        logical: segments * PAGES,
        collection: DriveCollection::Greedy,
        buffer: 0,
        program_ns: timing.program_ns + timing.transfer_ns,
        erase_ns: timing.erase_ns,
    };
    let shape = SsdShape {
        page_bytes: PAGE_BYTES as usize,
        segment_pages: PAGES,
        segments,
        read_ns: timing.read_ns + timing.transfer_ns,
        trims,
    };
    let lfs = create(SsdGround::new(design, shape)?)?;
    let below = || {
        let counts = lfs.ground().counts();
        Below { now_ns: lfs.ground().now_ns(), copies: counts.copies, erases: counts.erases }
    };
    let pages = u64::from(blocks) * u64::from(PAGES);
    measure(&lfs, personality, pages, seed, &below)
}

/// Rows of figure 3.9 and table 3.2 at `scale` of our part of the paper's drive.
///
/// # Errors
/// `Full` if the load does not fit, which is a scale that is too small.
pub fn rows(scale: f64, seed: u64, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let row = |figure, scheme: &str, metric: String, value, paper| Row {
        figure,
        scheme: scheme.into(),
        metric,
        value,
        paper,
    };
    for (i, personality) in Personality::ALL.into_iter().enumerate() {
        let name = personality.name();
        let prism = on_flash(scale, personality, seed)?;
        progress(3 * i as u64 + 1, 9);
        let ssd = on_drive(scale, personality, seed, false)?;
        let trimmed = on_drive(scale, personality, seed, true)?;
        progress(3 * i as u64 + 3, 9);
        let gain =
            |of: &Counted| (prism.operations_per_second / of.operations_per_second - 1.0) * 100.0;
        let paper = (personality == Personality::Varmail).then_some(21.5);
        let metric = format!("{name}: % more operations a second than ULFS-SSD");
        rows.push(row("figure-3.9", "ULFS-Prism", metric, gain(&ssd), paper));
        let metric = format!("{name}: % more operations a second than ULFS-SSD with trim");
        rows.push(row("figure-3.9", "ULFS-Prism", metric, gain(&trimmed), None));
        let all = [("ULFS-Prism", &prism), ("ULFS-SSD", &ssd), ("ULFS-SSD with trim", &trimmed)];
        for (scheme, of) in all {
            let each = |count: u64| count as f64 / of.written.max(1) as f64;
            let metric = format!("{name}: operations a second");
            rows.push(row("figure-3.9", scheme, metric, of.operations_per_second, None));
            let metric = format!("{name}: file copies for each page written");
            rows.push(row("table-3.2", scheme, metric, each(of.file_copies), None));
            let metric = format!("{name}: flash copies for each page written");
            let none = (scheme == "ULFS-Prism").then_some(0.0);
            rows.push(row("table-3.2", scheme, metric, each(of.flash_copies), none));
            let metric = format!("{name}: erases for 1000 pages written");
            rows.push(row("table-3.2", scheme, metric, each(of.erases) * 1000.0, None));
        }
        let each = |of: &Counted| of.erases as f64 / of.written.max(1) as f64;
        let paper = (personality == Personality::Varmail).then_some(5280.0 / 6594.0);
        let metric = format!("{name}: erases, of those of ULFS-SSD");
        rows.push(row("table-3.2", "ULFS-Prism", metric, each(&prism) / each(&ssd), paper));
    }
    Ok(rows)
}
