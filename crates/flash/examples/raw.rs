//! What the raw level costs over the device itself: reads of pages of an image, in turns.
//!
//! `cargo run --release -p silica-flash --example raw -- DIR [PAGE-BYTES]`

use silica_base::Prng;
use silica_device::blocks::{
    Append, BlockAddress, FlashDevice, FlashImage, FlashImageOptions, Geometry,
};
use silica_flash::{Monitor, MonitorOptions, Space};
use std::time::Instant;

const READS: u32 = 20_000;
const ROUNDS: usize = 15;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: raw DIR [PAGE-BYTES]");
    let page_bytes = args.next().map_or(4096, |bytes| bytes.parse().expect("a number of bytes"));
    let path = std::path::Path::new(&dir).join("raw.flash");
    let geometry =
        Geometry { channels: 4, luns: 2, blocks: 16, pages: 64, page_bytes, spare_bytes: 0 };
    let options = FlashImageOptions { id: 1, endurance: None };
    let image = FlashImage::create(&path, geometry, options).expect("an image");
    let monitor = Monitor::format(image, MonitorOptions { id: 2, spare_blocks: 2 })
        .expect("a formatted image");
    let space = Space { luns: 8, over_provisioned_luns: 0 };
    let application = monitor.create("raw", space).expect("all LUNs");
    let pages = vec![7; geometry.block_bytes() as usize];
    let blocks: Vec<BlockAddress> = application.blocks().collect();
    for block in &blocks {
        let append =
            Append { block: *block, expected: Some(0), stream: 0, pages: &pages, spare: &[] };
        application.append(&append).expect("room for a block");
    }
    let (mut ratios, mut best) = (Vec::new(), (f64::MAX, f64::MAX));
    for round in 0..ROUNDS {
        // The application has all LUNs, so its addresses are those of the device.
        let direct = || read(monitor.device(), &blocks, round as u64);
        let through = || read(&application, &blocks, round as u64);
        let (direct, through) = match round % 2 {
            0 => (direct(), through()),
            _ => {
                let through = through();
                (direct(), through)
            }
        };
        ratios.push(through / direct);
        best = (best.0.min(direct), best.1.min(through));
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "reads of {page_bytes} bytes: device {:.0} ns, raw level {:.0} ns at best; median ratio \
         {:.3} of {ROUNDS} rounds, from {:.3} to {:.3}",
        best.0,
        best.1,
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1]
    );
    drop((application, monitor));
    std::fs::remove_file(&path).expect("the image goes");
}

/// Nanoseconds of a read.
fn read(flash: &impl FlashDevice, blocks: &[BlockAddress], seed: u64) -> f64 {
    let mut prng = Prng::new(seed);
    let geometry = *flash.geometry();
    let mut page = vec![0; geometry.page_bytes as usize];
    let start = Instant::now();
    for _ in 0..READS {
        let block = blocks[prng.below(blocks.len() as u64) as usize];
        let page_number = prng.below(u64::from(geometry.pages)) as u32;
        flash.read(block.page(page_number), &mut page, &mut []).expect("a page");
    }
    start.elapsed().as_nanos() as f64 / f64::from(READS)
}
