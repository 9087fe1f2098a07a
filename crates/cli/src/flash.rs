//! `silica flash`: flash in files, on block devices and on drives with zones, and what it went
//! through.

use crate::args::{FlashCommand, FlashShape};
use crate::door;
use serde_json::json;
use silica::device::blocks::{
    AnyFlash, BlockState, FlashDevice, FlashImageOptions, Geometry, KernelZones, ZonesSummary,
};
use silica::device::sim::FlashProfile;
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, Output};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The flash in the directory of a cache.
const IN_DIRECTORY: &str = "flash";
/// Shades of a block by its erases, from none to most; a bad block has its own.
const SHADES: &[u8] = b".:-=+*%#@";
const BAD: char = 'x';
/// Blocks of a line of the map.
const COLUMNS: usize = 64;
/// Unreadable pages that are listed one by one.
const LISTED_MAX: usize = 20;

/// Runs a command on an image.
///
/// # Errors
/// Those of the image, and of the laboratory for what that does.
pub(crate) fn run(
    global: &Global,
    command: &FlashCommand,
    words: &[OsString],
    output: &mut Output,
) -> Result<()> {
    match command {
        FlashCommand::Lab(_) => door::enter(global, words),
        FlashCommand::Create { path, shape, endurance, overwrite } => {
            create(path, shape, *endurance, *overwrite, output)
        }
        FlashCommand::Info { path } => {
            let flash = open(path)?;
            info(&flash, output)?;
            flash.zones().map_or(Ok(()), |zones| show_zones(&zones, output))
        }
        FlashCommand::Wear { path, svg } => wear(&open(path)?, svg.as_deref(), output),
        FlashCommand::Check { path } => check(&open(path)?, output),
    }
}

fn create(
    path: &Path,
    shape: &FlashShape,
    endurance: Option<u32>,
    overwrites: bool,
    output: &mut Output,
) -> Result<()> {
    let (geometry, usual) = match (&shape.profile, shape.geometry) {
        (Some(name), _) => {
            let profile = FlashProfile::find(name)?;
            (Some(profile.geometry), profile.endurance)
        }
        (None, geometry) => (geometry, None),
    };
    if geometry.is_none() && !KernelZones::is_at(path) {
        let message = "give --profile or --geometry; only drives with zones have one of their own";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(|e| Error::io("taking a random number", e.into()))?;
    let options = FlashImageOptions { id: u64::from_le_bytes(id), endurance: endurance.or(usual) };
    let flash = AnyFlash::create(path, geometry, options, overwrites)?;
    let words = format!("created flash of {} in {}", describe(flash.geometry()), path.display());
    output.line(words)?;
    output.object().insert("geometry".into(), geometry_json(flash.geometry()));
    Ok(())
}

/// What the zones of a drive are used for, and its limits.
fn show_zones(zones: &ZonesSummary, output: &mut Output) -> Result<()> {
    let ZonesSummary { limits, blocks, conventional, unused, .. } = *zones;
    let limit = |max: u32| if max == 0 { "any number".to_string() } else { max.to_string() };
    let others = format!("2 for the ledger, {conventional} conventional, {unused} unused");
    output.line(format!("zones\t{}: {blocks} blocks, {others}", limits.zones))?;
    let (open, active) = (limit(limits.open_max), limit(limits.active_max));
    output.line(format!("open zones at most\t{open}; active ones {active}"))?;
    let value = json!({
        "zones": limits.zones,
        "zone_bytes": limits.zone_bytes,
        "blocks": blocks,
        "conventional": conventional,
        "unused": unused,
        "open_max": limits.open_max,
        "active_max": limits.active_max,
    });
    output.object().insert("zones".into(), value);
    Ok(())
}

/// Opens an image or a drive, or the one in the directory of a cache.
fn open(path: &Path) -> Result<AnyFlash> {
    let within = path.join(IN_DIRECTORY);
    let path: PathBuf = if path.is_dir() { within } else { path.to_path_buf() };
    AnyFlash::open(&path)
}

fn describe(geometry: &Geometry) -> String {
    format!(
        "{} MiB: {} channels, {} LUNs each, {} blocks each, {} pages each of {} bytes",
        geometry.capacity_bytes() >> 20,
        geometry.channels,
        geometry.luns,
        geometry.blocks,
        geometry.pages,
        geometry.page_bytes
    )
}

fn geometry_json(geometry: &Geometry) -> serde_json::Value {
    json!({
        "channels": geometry.channels,
        "luns": geometry.luns,
        "blocks": geometry.blocks,
        "pages": geometry.pages,
        "page_bytes": geometry.page_bytes,
        "spare_bytes": geometry.spare_bytes,
        "bytes": geometry.capacity_bytes(),
    })
}

/// A block as the map has it.
struct Block {
    state: BlockState,
    written: u32,
    erases: u64,
}

fn blocks(image: &impl FlashDevice) -> Result<Vec<Block>> {
    let all = image.geometry().all_blocks();
    let status = all.map(|block| {
        let status = image.block(block)?;
        Ok(Block { state: status.state, written: status.written, erases: status.erases })
    });
    status.collect()
}

/// Least, mean and most erases.
fn erases_of(blocks: &[Block]) -> (u64, f64, u64) {
    let erases = || blocks.iter().map(|block| block.erases);
    let sum: u64 = erases().sum();
    let mean = sum as f64 / blocks.len().max(1) as f64;
    (erases().min().unwrap_or(0), mean, erases().max().unwrap_or(0))
}

fn info(image: &impl FlashDevice, output: &mut Output) -> Result<()> {
    let blocks = blocks(image)?;
    let (least, mean, most) = erases_of(&blocks);
    let of = |state| blocks.iter().filter(|block| block.state == state).count();
    let states = [
        ("free", BlockState::Free),
        ("open", BlockState::Open),
        ("full", BlockState::Full),
        ("undefined", BlockState::Undefined),
        ("bad", BlockState::Bad),
    ];
    output.line(format!("flash of {}", describe(image.geometry())))?;
    for (name, state) in states {
        output.line(format!("{name} blocks\t{}", of(state)))?;
        output.object().insert(format!("{name}_blocks"), of(state).into());
    }
    let pages: u64 = blocks.iter().map(|block| u64::from(block.written)).sum();
    output.line(format!("written pages\t{pages}"))?;
    output.line(format!("erases of a block\t{least} to {most}, {mean:.2} on average"))?;
    let endurance = image.abilities().endurance;
    if let Some(endurance) = endurance {
        output.line(format!("endurance\t{endurance} erases of each block"))?;
    }
    let geometry = geometry_json(image.geometry());
    let object = output.object();
    object.insert("geometry".into(), geometry);
    object.insert("written_pages".into(), pages.into());
    object.insert("erases".into(), json!({ "least": least, "mean": mean, "most": most }));
    object.insert("endurance".into(), endurance.into());
    Ok(())
}

/// The map of erases, a line or more for each LUN.
fn wear(image: &impl FlashDevice, svg: Option<&Path>, output: &mut Output) -> Result<()> {
    let blocks = blocks(image)?;
    let (least, mean, most) = erases_of(&blocks);
    let of_lun = image.geometry().blocks as usize;
    for (number, lun) in blocks.chunks(of_lun).enumerate() {
        let luns = image.geometry().luns as usize;
        for (line, part) in lun.chunks(COLUMNS).enumerate() {
            let map: String = part.iter().map(|block| shade(block, most)).collect();
            let name = match line {
                0 => format!("channel {} LUN {}", number / luns, number % luns),
                _ => String::new(),
            };
            output.line(format!("{name:<20}{map}"))?;
        }
    }
    let scale = String::from_utf8_lossy(SHADES);
    output.line(format!(
        "erases of a block: {least} to {most}, {mean:.2} on average; {scale} from 0 to {most}, \
         {BAD} bad"
    ))?;
    if let Some(path) = svg {
        std::fs::write(path, draw(image.geometry(), &blocks, most))
            .map_err(|e| Error::io(format!("writing {}", path.display()), e))?;
        output.line(format!("drawn in {}", path.display()))?;
    }
    let erases: Vec<u64> = blocks.iter().map(|block| block.erases).collect();
    let object = output.object();
    object.insert("erases".into(), json!({ "least": least, "mean": mean, "most": most }));
    object.insert("blocks".into(), erases.into());
    Ok(())
}

fn shade(block: &Block, most: u64) -> char {
    if block.state == BlockState::Bad {
        return BAD;
    }
    let last = SHADES.len() as u64 - 1;
    // Any erase at all is told from none.
    let step = (block.erases * last).div_ceil(most.max(1)).min(last);
    char::from(SHADES[step as usize])
}

/// The map of erases as a picture: a square for each block, a row or more for each LUN.
fn draw(geometry: &Geometry, blocks: &[Block], most: u64) -> String {
    const SIDE: usize = 10;
    const LEFT: usize = 120;
    let of_lun = geometry.blocks as usize;
    let rows_of_lun = of_lun.div_ceil(COLUMNS);
    let luns = geometry.lun_count() as usize;
    let (width, height) = (LEFT + COLUMNS.min(of_lun) * SIDE + 10, luns * (rows_of_lun * SIDE + 4));
    let height = height + 40;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' \
         font-family='sans-serif' font-size='9'><rect width='100%' height='100%' fill='white'/>"
    );
    for (lun, part) in blocks.chunks(of_lun).enumerate() {
        let top = 10 + lun * (rows_of_lun * SIDE + 4);
        let (channel, own) = (lun / geometry.luns as usize, lun % geometry.luns as usize);
        let _ =
            write!(svg, "<text x='8' y='{}'>channel {channel}, LUN {own}</text>", top + SIDE - 2);
        for (at, block) in part.iter().enumerate() {
            let (x, y) = (LEFT + at % COLUMNS * SIDE, top + at / COLUMNS * SIDE);
            let fill = match block.state {
                BlockState::Bad => "#c00000".to_string(),
                _ => {
                    let share = block.erases as f64 / most.max(1) as f64;
                    let light = (240.0 - 200.0 * share) as u8;
                    format!("rgb({light},{light},{})", 255 - (255 - light) / 2)
                }
            };
            let side = SIDE - 1;
            let _ =
                write!(svg, "<rect x='{x}' y='{y}' width='{side}' height='{side}' fill='{fill}'>");
            let _ = write!(svg, "<title>block {at}: {} erases</title></rect>", block.erases);
        }
    }
    let _ = write!(
        svg,
        "<text x='{LEFT}' y='{}'>erases of each block: light 0, dark {most}; red: bad</text></svg>",
        height - 12
    );
    svg
}

/// Reads every page that was written.
fn check(image: &impl FlashDevice, output: &mut Output) -> Result<()> {
    let geometry = *image.geometry();
    let mut page = vec![0; geometry.page_bytes as usize];
    let mut block_pages = vec![0; geometry.block_bytes() as usize];
    let (mut pages, mut damaged, mut undefined) = (0_u64, Vec::new(), 0);
    for (address, block) in geometry.all_blocks().zip(blocks(image)?) {
        undefined += u64::from(block.state == BlockState::Undefined);
        let whole = &mut block_pages[..block.written as usize * page.len()];
        pages += u64::from(block.written);
        // The whole block at once; page by page only if something is wrong with it.
        if whole.is_empty() || image.read(address.page(0), whole, &mut []).is_ok() {
            continue;
        }
        for number in 0..block.written {
            if let Err(error) = image.read(address.page(number), &mut page, &mut []) {
                damaged.push(error.to_string());
            }
        }
    }
    for error in damaged.iter().take(LISTED_MAX) {
        output.line(error)?;
    }
    if damaged.len() > LISTED_MAX {
        output.line(format!("and {} more", damaged.len() - LISTED_MAX))?;
    }
    let is_whole = damaged.is_empty();
    let words =
        if is_whole { "all can be read".into() } else { format!("{} cannot", damaged.len()) };
    output.line(format!("{pages} pages: {words}; {undefined} blocks were left by a cut erase"))?;
    let object = output.object();
    object.insert("ok".into(), is_whole.into());
    object.insert("pages".into(), pages.into());
    object.insert("damaged".into(), damaged.into());
    object.insert("undefined_blocks".into(), undefined.into());
    if !is_whole {
        output.set_exit_code(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_tell_none_from_few_and_most_from_all() {
        let block = |erases, state| Block { state, written: 0, erases };
        let of = |erases| shade(&block(erases, BlockState::Free), 900);
        assert_eq!([of(0), of(1), of(450), of(900)], ['.', ':', '+', '@']);
        assert_eq!(shade(&block(5, BlockState::Bad), 900), BAD);
        assert_eq!(shade(&block(0, BlockState::Free), 0), '.');
    }

    #[test]
    fn the_picture_has_every_block() {
        let geometry = Geometry {
            channels: 2,
            luns: 1,
            blocks: 70,
            pages: 4,
            page_bytes: 512,
            spare_bytes: 0,
        };
        let blocks: Vec<Block> =
            (0..140).map(|erases| Block { state: BlockState::Free, written: 0, erases }).collect();
        let svg = draw(&geometry, &blocks, 139);
        assert_eq!(svg.matches("<title>").count(), 140);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
    }
}
