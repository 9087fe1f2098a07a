//! What the policies of the policy level cost: pages programmed for each page that is written, at
//! uniform and at skewed random writes, on simulated flash.
//!
//! `cargo run --release -p silica-flash --example policy`

use silica_base::{Prng, Result, Zipf};
use silica_device::blocks::Geometry;
use silica_device::sim::{SimFlash, SimFlashOptions};
use silica_flash::functions::{FunctionOptions, Functions, Mapping};
use silica_flash::policy::{Collection, Policy, PolicyOptions, RangeOptions};

const BLOCKS: u64 = 128;
const BLOCK_PAGES: u64 = 64;
const PAGES: u64 = BLOCKS * BLOCK_PAGES;

fn main() -> Result<()> {
    println!("pages programmed for each page written, mapping and checkpoints included");
    println!("mapping  collection  spare %  uniform  zipf 0.99  in order");
    let policies = [Collection::Greedy, Collection::Fifo, Collection::LeastRecentlyUsed];
    for percent in [10, 25] {
        for collection in policies {
            row(Mapping::Page, collection, percent)?;
        }
    }
    row(Mapping::Block, Collection::Greedy, 25)
}

fn row(mapping: Mapping, collection: Collection, percent: u32) -> Result<()> {
    let zipf = Zipf::new(PAGES, 0.99);
    let uniform = |prng: &mut Prng, _| prng.below(PAGES);
    // The hottest pages are not neighbours.
    let skewed = |prng: &mut Prng, _| zipf.rank(prng) * 4_099 % PAGES;
    let in_order = |_: &mut Prng, nth: u64| nth % PAGES;
    let random = |of: &dyn Fn(&mut Prng, u64) -> u64| match mapping {
        Mapping::Page => measure(mapping, collection, percent, of).map(|wa| format!("{wa:.2}")),
        // Each page costs a block.
        Mapping::Block => Ok("-".to_string()),
    };
    println!(
        "{:7}  {:10}  {percent:7}  {:>7}  {:>9}  {:8.2}",
        format!("{mapping:?}"),
        match collection {
            Collection::Greedy => "greedy",
            Collection::Fifo => "FIFO",
            Collection::LeastRecentlyUsed => "LRU",
        },
        random(&uniform)?,
        random(&skewed)?,
        measure(mapping, collection, percent, &in_order)?,
    );
    Ok(())
}

/// Fills a logical device, writes four times as much, and measures at the next four.
fn measure(
    mapping: Mapping,
    collection: Collection,
    over_provisioning: u32,
    next: &dyn Fn(&mut Prng, u64) -> u64,
) -> Result<f64> {
    let geometry = Geometry {
        channels: 4,
        luns: 1,
        blocks: 48,
        pages: BLOCK_PAGES as u32,
        page_bytes: 512,
        spare_bytes: 64,
    };
    let flash = SimFlash::new(1, SimFlashOptions::flash(geometry));
    let functions = Functions::open(flash, FunctionOptions::default())?;
    let range = RangeOptions { begin: 0, end: PAGES, mapping, collection, over_provisioning };
    let options = PolicyOptions { device: 1, ranges: vec![range] };
    let mut disk = Policy::format(functions, options)?;
    let mut prng = Prng::new(1);
    let page = vec![1; disk.page_bytes()];
    for number in 0..PAGES {
        disk.write(number, &page)?;
    }
    let mut write = |disk: &mut Policy<SimFlash>| -> Result<()> {
        for nth in 0..4 * PAGES {
            disk.write(next(&mut prng, nth), &page)?;
        }
        Ok(())
    };
    write(&mut disk)?;
    let before = disk.statistics();
    write(&mut disk)?;
    let after = disk.statistics();
    let programmed = |s: &silica_flash::policy::PolicyStatistics| {
        s.pages_written + s.pages_copied + s.pages_of_holes + s.pages_of_mapping
    };
    let written = after.pages_written - before.pages_written;
    Ok((programmed(&after) - programmed(&before)) as f64 / written as f64)
}
