//! The paper's file system on flash and on a conventional drive (003…, 3.7.2): figure 3.9 and table
//! 3.2, on the emulator's clock. docs/benchmarks/lfs.md says what is fitted and what is left out.
//!
//! Both have the same flash: as many LUNs, blocks and pages, with the papers' times. *ULFS-Prism*
//! is our file system at the function level. *ULFS-SSD* is the same file system on a drive that
//! maps pages, strides them over its LUNs and collects greedily. Both collect greedily, as the
//! paper does. *MIT-XMP* is a file system that writes in place, which the caller has on a drive of
//! the same design.

mod files;
mod load;
mod ssd;

use self::files::Ours;
pub use self::files::{Files, ROOT, Usage, Work};
use self::load::{Load, Personality};
use self::ssd::SsdGround;
pub use self::ssd::SsdShape;
use super::Row;
use crate::simulate::{Collection as DriveCollection, DriveDesign};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::{FlashDevice, Geometry};
use silica_device::sim::{FlashProfile, SimFlash, SimFlashOptions};
use silica_lfs::{Collection, FlashGround, Ground, Lfs, LfsOptions, Time};

/// LUNs that work side by side, and pages of a block: a part of the paper's drive. Each has a bus
/// of its own, because the model of the conventional drive knows no shared one.
const CHANNELS: u32 = 16;
const LUNS: u32 = 1;
const PAGES: u32 = 64;
/// Blocks of each LUN at scale 1.
const BLOCKS: f64 = 1024.0;
const BLOCKS_MIN: u32 = 32;
/// Blocks of a LUN at least, below a file system that writes in place: ext4 has room for files.
const IN_PLACE_BLOCKS_MIN: u32 = 8;
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
/// Pages that the drive keeps before it programs them, below a file system that writes in place: it
/// writes parts of a page one after the other, and drives put these together.
const IN_PLACE_BUFFER: u32 = 64;
/// Share of the drive's blocks that it has below a file system that writes in place, unless all is
/// at full scale: its load runs in the time of the kernel, which syncs thousands of times.
const IN_PLACE_SHARE: f64 = 0.125;
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

/// Makes a file system that writes in place on a drive of this design, or says in words why there
/// is none.
pub type MakeInPlace<'m> = dyn FnMut(DriveDesign, SsdShape) -> Result<Option<Box<dyn Files>>> + 'm;

fn geometry(scale: f64, blocks_min: u32) -> Geometry {
    Geometry {
        channels: CHANNELS,
        luns: LUNS,
        blocks: ((BLOCKS * scale) as u32).max(blocks_min),
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

fn measure(
    files: Box<dyn Files + '_>,
    personality: Personality,
    pages: u64,
    seed: u64,
) -> Result<Counted> {
    let mut load = Load::new(files, personality, FILL, CACHED, seed)?;
    run(&mut load, (pages as f64 * WARM_TIMES) as u64)?;
    let (before, operations) = (load.on.work(), load.operations);
    run(&mut load, (pages as f64 * COUNTED_TIMES) as u64)?;
    let after = load.on.work();
    let seconds = (after.now_ns - before.now_ns) as f64 / 1e9;
    Ok(Counted {
        operations_per_second: (load.operations - operations) as f64 / seconds,
        file_copies: after.file_copies - before.file_copies,
        flash_copies: after.flash_copies - before.flash_copies,
        erases: after.erases - before.erases,
        written: after.written - before.written,
    })
}

/// Runs until so many pages were written. Loads that write little end by rounds.
fn run(load: &mut Load<'_>, pages: u64) -> Result<()> {
    let begin = load.on.work().written;
    for round in 0.. {
        load.round()?;
        let written = load.on.work().written - begin;
        let is_slow = round >= ROUNDS_MAX && written / (round + 1) < pages / ROUNDS_MAX / 4;
        if written >= pages || is_slow {
            break;
        }
    }
    Ok(())
}

fn on_flash(scale: f64, personality: Personality, seed: u64) -> Result<Counted> {
    let geometry = geometry(scale, BLOCKS_MIN);
    let timing = FlashProfile::find("paper")?.timing;
    let options = SimFlashOptions { timing, is_sparse: true, ..SimFlashOptions::flash(geometry) };
    let flash = SimFlash::new(seed, options);
    let kept_back = geometry.block_count() * KEPT_BACK_PERCENT / 100;
    let lfs = create(FlashGround::open(flash.clone(), kept_back)?)?;
    let below = || Work {
        now_ns: flash.now_ns(),
        erases: flash.counters().total().erases,
        ..Work::default()
    };
    let pages = u64::from(geometry.block_count()) * u64::from(PAGES);
    measure(Box::new(Ours { lfs: &lfs, below: &below }), personality, pages, seed)
}

/// A conventional drive on the same flash. `buffer` is the number of pages that it keeps before it
/// programs them.
fn drive(geometry: Geometry, trims: bool, buffer: u32) -> Result<(DriveDesign, SsdShape)> {
    let timing = FlashProfile::find("paper")?.timing;
    let blocks = geometry.block_count();
    let segments = blocks - blocks * KEPT_BACK_PERCENT / 100;
    let design = DriveDesign {
        channels: geometry.lun_count(),
        blocks,
        pages: PAGES,
        logical: segments * PAGES,
        collection: DriveCollection::Greedy,
        buffer,
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
    Ok((design, shape))
}

fn on_drive(scale: f64, personality: Personality, seed: u64, trims: bool) -> Result<Counted> {
    let (design, shape) = drive(geometry(scale, BLOCKS_MIN), trims, 0)?;
    let lfs = create(SsdGround::new(design, shape)?)?;
    let below = || {
        let counts = lfs.ground().counts();
        Work {
            now_ns: lfs.ground().now_ns(),
            flash_copies: counts.copies,
            erases: counts.erases,
            ..Work::default()
        }
    };
    let pages = u64::from(design.blocks) * u64::from(PAGES);
    measure(Box::new(Ours { lfs: &lfs, below: &below }), personality, pages, seed)
}

/// The file system that writes in place; `None` if there is none.
fn in_place(
    scale: f64,
    personality: Personality,
    seed: u64,
    make: &mut MakeInPlace<'_>,
) -> Result<Option<Counted>> {
    let scale = if scale < 1.0 { scale * IN_PLACE_SHARE } else { scale };
    let geometry = geometry(scale, IN_PLACE_BLOCKS_MIN);
    let (design, shape) = drive(geometry, false, IN_PLACE_BUFFER)?;
    let Some(files) = make(design, shape)? else { return Ok(None) };
    let pages = u64::from(design.blocks) * u64::from(PAGES);
    measure(files, personality, pages, seed).map(Some)
}

/// Rows of figure 3.9 and table 3.2 at `scale` of our part of the paper's drive. `make` gives the
/// file system that writes in place; its rows are left out if there is none.
///
/// # Errors
/// `Full` if the load does not fit, which is a scale that is too small.
pub fn rows(
    scale: f64,
    seed: u64,
    make: &mut MakeInPlace<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (i, personality) in Personality::ALL.into_iter().enumerate() {
        let prism = on_flash(scale, personality, seed)?;
        progress(4 * i as u64 + 1, 12);
        let ssd = on_drive(scale, personality, seed, false)?;
        let trimmed = on_drive(scale, personality, seed, true)?;
        progress(4 * i as u64 + 3, 12);
        let in_place = in_place(scale, personality, seed, make)?;
        progress(4 * i as u64 + 4, 12);
        rows.extend(gains(personality, &prism, &ssd, &trimmed));
        rows.extend(counts(personality, "ULFS-Prism", &prism));
        rows.extend(counts(personality, "ULFS-SSD", &ssd));
        rows.extend(counts(personality, "ULFS-SSD with trim", &trimmed));
        if let Some(of) = &in_place {
            rows.extend(counts(personality, "MIT-XMP", of));
        }
        rows.extend(erases(personality, &prism, &ssd, in_place.as_ref()));
    }
    Ok(rows)
}

fn row(figure: &'static str, scheme: &str, metric: String, value: f64) -> Row {
    Row { figure, scheme: scheme.into(), metric, value, paper: None }
}

fn gains(of: Personality, prism: &Counted, ssd: &Counted, trimmed: &Counted) -> [Row; 2] {
    let name = of.name();
    let gain =
        |of: &Counted| (prism.operations_per_second / of.operations_per_second - 1.0) * 100.0;
    let metric = format!("{name}: % more operations a second than ULFS-SSD");
    let paper = (of == Personality::Varmail).then_some(21.5);
    let first = Row { paper, ..row("figure-3.9", "ULFS-Prism", metric, gain(ssd)) };
    let metric = format!("{name}: % more operations a second than ULFS-SSD with trim");
    [first, row("figure-3.9", "ULFS-Prism", metric, gain(trimmed))]
}

fn counts(personality: Personality, scheme: &str, of: &Counted) -> [Row; 4] {
    let name = personality.name();
    let each = |count: u64| count as f64 / of.written.max(1) as f64;
    let copies = format!("{name}: flash copies for each page written");
    let paper = (scheme == "ULFS-Prism").then_some(0.0);
    [
        row("figure-3.9", scheme, format!("{name}: operations a second"), of.operations_per_second),
        row(
            "table-3.2",
            scheme,
            format!("{name}: file copies for each page written"),
            each(of.file_copies),
        ),
        Row { paper, ..row("table-3.2", scheme, copies, each(of.flash_copies)) },
        row(
            "table-3.2",
            scheme,
            format!("{name}: erases for 1000 pages written"),
            each(of.erases) * 1000.0,
        ),
    ]
}

/// Erases beside those of the same file system on a conventional drive.
fn erases(
    personality: Personality,
    prism: &Counted,
    ssd: &Counted,
    in_place: Option<&Counted>,
) -> Vec<Row> {
    let each = |of: &Counted| of.erases as f64 / of.written.max(1) as f64;
    let paper = |erases: f64| (personality == Personality::Varmail).then_some(erases / 6594.0);
    let ratio = |scheme, of: &Counted, paper| {
        let metric = format!("{}: erases, of those of ULFS-SSD", personality.name());
        Row { paper, ..row("table-3.2", scheme, metric, each(of) / each(ssd)) }
    };
    let mut rows = vec![ratio("ULFS-Prism", prism, paper(5280.0))];
    rows.extend(in_place.map(|of| ratio("MIT-XMP", of, paper(5429.0))));
    rows
}
