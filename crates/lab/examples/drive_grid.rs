//! The conventional drive beside its closed forms: uniform random writes over over-provisioning,
//! pages of a block and collections, then hot and cold ones.
//!
//!     cargo run --release -p silica-lab --example drive_grid -- LOGICAL_PAGES

use silica_base::{Prng, Result};
use silica_lab::model::{fifo_amplification, greedy_amplification, hot_cold_amplification};
use silica_lab::simulate::{Collection, Drive, DriveDesign};

fn main() -> Result<()> {
    let text = std::env::args().nth(1);
    let logical: u32 = text.map_or(1 << 18, |text| text.parse().expect("a number of pages"));
    println!("| collection | alpha | pages | hot | simulator | closed form | away |");
    println!("|---|---|---|---|---|---|---|");
    for collection in [Collection::Fifo, Collection::Greedy] {
        for pages in [16, 32, 64, 128, 256] {
            for alpha in [1.07, 1.1, 1.15, 1.2, 1.28, 1.35, 1.5, 1.75, 2.0] {
                let design = design(alpha, logical, pages, collection);
                let found = amplification(design, None)?;
                let alpha = alpha_of(&design);
                let form = match collection {
                    Collection::Fifo => fifo_amplification(alpha),
                    Collection::Greedy => greedy_amplification(alpha, pages),
                };
                show(&format!("{collection:?} | {alpha:.3} | {pages} | - "), found, form);
            }
        }
    }
    for (writes, data) in [(0.6, 0.4), (0.8, 0.2), (0.9, 0.1), (0.95, 0.05)] {
        for alpha in [1.1, 1.2, 1.35, 1.75] {
            let design = design(alpha, logical, 64, Collection::Fifo);
            let found = amplification(design, Some((writes, data)))?;
            let alpha = alpha_of(&design);
            let form = hot_cold_amplification(alpha, writes, data);
            show(&format!("Fifo | {alpha:.3} | 64 | {writes} to {data} "), found, form);
        }
    }
    Ok(())
}

fn show(what: &str, found: f64, form: f64) {
    println!("| {what}| {found:.3} | {form:.3} | {:+.2} % |", 100.0 * (found / form - 1.0));
}

fn design(alpha: f64, logical: u32, pages: u32, collection: Collection) -> DriveDesign {
    let blocks = (alpha * f64::from(logical) / f64::from(pages)).round() as u32 + 1;
    let (channels, buffer, program_ns, erase_ns) = (1, 0, 1, 1);
    DriveDesign { channels, blocks, pages, logical, collection, buffer, program_ns, erase_ns }
}

/// Physical pages by logical ones, without the block that stays free.
fn alpha_of(design: &DriveDesign) -> f64 {
    f64::from((design.blocks - 1) * design.pages) / f64::from(design.logical)
}

/// Programs for each page written after settling; a share of the writes may go to a share of the
/// pages.
fn amplification(design: DriveDesign, hot: Option<(f64, f64)>) -> Result<f64> {
    let mut drive = Drive::new(design)?;
    let mut prng = Prng::new(1);
    let all = u64::from(design.logical);
    let mut page = || {
        let Some((writes, data)) = hot else { return prng.below(all) as u32 };
        let hot = (data * all as f64) as u64;
        match prng.unit() < writes {
            true => prng.below(hot) as u32,
            false => (hot + prng.below(all - hot)) as u32,
        }
    };
    for page in 0..design.logical {
        drive.write(page, 0);
    }
    for _ in 0..8 * all {
        drive.write(page(), 0);
    }
    let before = drive.counts();
    for _ in 0..8 * all {
        drive.write(page(), 0);
    }
    let after = drive.counts();
    Ok((after.programs - before.programs) as f64 / (after.written - before.written) as f64)
}
