//! What the function level costs over the raw level: page reads, and blocks that are written page
//! by page and given back, on an image, in turns.
//!
//! `cargo run --release -p silica-flash --example functions -- DIR [PAGE-BYTES [LEVEL]]`
//!
//! With LEVEL (`raw` or `function`) it runs one level only, so that a tool can count instructions:
//! `valgrind --tool=callgrind` for one, which no other load on the machine disturbs.

use silica_base::Prng;
use silica_device::blocks::{
    Append, BlockAddress, FlashDevice, FlashImage, FlashImageOptions, Geometry,
};
use silica_flash::functions::{FunctionOptions, Functions, Mapping};
use silica_flash::{Application, Monitor, MonitorOptions, Space};
use std::time::Instant;

const READS: u32 = 20_000;
const BLOCKS: u32 = 24;
const ROUNDS: usize = 15;

type Image = Application<FlashImage>;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: functions DIR [PAGE-BYTES]");
    let page_bytes = args.next().map_or(4096, |bytes| bytes.parse().expect("a number of bytes"));
    let path = std::path::Path::new(&dir).join("functions.flash");
    let geometry =
        Geometry { channels: 4, luns: 2, blocks: 32, pages: 64, page_bytes, spare_bytes: 0 };
    let options = FlashImageOptions { id: 1, endurance: None };
    let image = FlashImage::create(&path, geometry, options).expect("an image");
    let monitor = Monitor::format(image, MonitorOptions { id: 2, spare_blocks: 2 })
        .expect("a formatted image");
    let space = Space { luns: 8, over_provisioned_luns: 0 };
    let application = monitor.create("functions", space).expect("all LUNs");
    let functions = Functions::open(application, FunctionOptions::default()).expect("a level");
    let held: Vec<BlockAddress> = (0..64).map(|nth| filled(&functions, nth)).collect();
    compare("read", page_bytes, |is_raw, round| match is_raw {
        true => read(round, &held, |block, page, out| {
            functions.device().read(block.page(page), out, &mut []).expect("a page");
        }),
        false => read(round, &held, |block, page, out| {
            functions.read(block.page(page), out, &mut []).expect("a page");
        }),
    });
    // The raw level writes the same blocks in the same order: of all that are free, channels in
    // turn. Otherwise one of them would find its blocks in the processor's caches.
    let mut free: Vec<BlockAddress> =
        functions.device().blocks().filter(|block| !held.contains(block)).collect();
    free.sort_by_key(|block| (block.block, block.lun, block.channel));
    let mut free = free.into_iter().cycle();
    compare("write", page_bytes, |is_raw, _| match is_raw {
        true => write_raw(functions.device(), &mut free),
        false => write_by_functions(&functions),
    });
    drop((functions, monitor));
    std::fs::remove_file(&path).expect("the image goes");
}

/// Runs `work(is_raw, round)`, which returns the nanoseconds of a page, for both levels in turns.
fn compare(what: &str, page_bytes: u32, mut work: impl FnMut(bool, u64) -> f64) {
    let (mut ratios, mut best) = (Vec::new(), (f64::MAX, f64::MAX));
    if let Some(level) = std::env::args().nth(3) {
        println!("{what}: {:.0} ns", (0..3).map(|round| work(level == "raw", round)).sum::<f64>());
        return;
    }
    for round in 0..ROUNDS {
        let first = work(round % 2 == 0, round as u64);
        let second = work(round % 2 != 0, round as u64);
        let (raw, functions) = if round % 2 == 0 { (first, second) } else { (second, first) };
        ratios.push(functions / raw);
        best = (best.0.min(raw), best.1.min(functions));
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "{what} of {page_bytes} bytes: raw level {:.0} ns, function level {:.0} ns at best (ratio \
         {:.3}); median ratio {:.3} of {ROUNDS} rounds, from {:.3} to {:.3}",
        best.0,
        best.1,
        best.1 / best.0,
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1]
    );
}

/// A block that is held and full.
fn filled(functions: &Functions<Image>, nth: u32) -> BlockAddress {
    let channel = (nth % functions.geometry().channels) as u16;
    let block = functions.allocate(channel, Mapping::Block).expect("a block").block;
    let pages = vec![7; functions.geometry().block_bytes() as usize];
    let append = Append { block, expected: Some(0), stream: 0, pages: &pages, spare: &[] };
    functions.write(&append).expect("room for a block");
    block
}

fn read(
    seed: u64,
    blocks: &[BlockAddress],
    mut one: impl FnMut(BlockAddress, u32, &mut [u8]),
) -> f64 {
    let mut prng = Prng::new(seed);
    let mut page = vec![0; 1 << 20];
    let start = Instant::now();
    for _ in 0..READS {
        let block = blocks[prng.below(blocks.len() as u64) as usize];
        one(block, prng.below(64) as u32, &mut page[..page_bytes()]);
    }
    start.elapsed().as_nanos() as f64 / f64::from(READS)
}

fn page_bytes() -> usize {
    std::env::args().nth(2).map_or(4096, |bytes| bytes.parse().expect("a number of bytes"))
}

/// Writes blocks that are free, page by page, and resets them.
fn write_raw(device: &Image, free: &mut impl Iterator<Item = BlockAddress>) -> f64 {
    let page = vec![9; page_bytes()];
    let start = Instant::now();
    for _ in 0..BLOCKS {
        let block = free.next().expect("a free block");
        for number in 0..device.geometry().pages {
            let append =
                Append { block, expected: Some(number), stream: 0, pages: &page, spare: &[] };
            device.append(&append).expect("room for a page");
        }
        device.reset(block).expect("an erase");
    }
    start.elapsed().as_nanos() as f64 / f64::from(BLOCKS * device.geometry().pages)
}

/// Writes blocks that the level hands out, page by page, and lets it erase them.
fn write_by_functions(functions: &Functions<Image>) -> f64 {
    let page = vec![9; page_bytes()];
    let start = Instant::now();
    for _ in 0..BLOCKS {
        let channel = functions.idlest_channel().expect("a free block");
        let block = functions.allocate(channel, Mapping::Page).expect("a free block").block;
        for number in 0..functions.geometry().pages {
            let append =
                Append { block, expected: Some(number), stream: 0, pages: &page, spare: &[] };
            functions.write(&append).expect("room for a page");
        }
        functions.trim(block).expect("it is held");
        functions.erase_pending(1).expect("an erase");
    }
    start.elapsed().as_nanos() as f64 / f64::from(BLOCKS * functions.geometry().pages)
}
