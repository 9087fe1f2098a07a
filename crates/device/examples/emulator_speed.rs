//! How many page operations a second one core emulates, with virtual time and sparse contents.
//!
//! `cargo run --release -p silica-device --example emulator_speed`
//!
//! Pages are of 16 KiB, as in the papers' drive, with items of 40 bytes each 512 and zeroes behind
//! them, or all zero. A program looks at all bytes of its page once, to find the zeroes; a read
//! writes them all. So the limit is how fast a core moves 16 KiB through its caches (at 20 GB/s,
//! 0.8 us), and for pages with items one allocation; the lock, the clock and the counters are about
//! 0.1 us.

use silica_base::AlignedBuf;
use silica_device::blocks::{Append, FlashDevice, FlashQueue, Operation, Request};
use silica_device::sim::{PAPER, SimFlash, SimFlashOptions};
use std::time::Instant;

fn main() {
    let profile = PAPER.with_blocks(8).expect("a LUN can have 8 blocks");
    println!("{}: {}", profile.name, profile.geometry);
    for (name, every) in [("zeroes", usize::MAX), ("items of 40 in 512 bytes", 512)] {
        let mut page = AlignedBuf::zeroed(profile.geometry.page_bytes as usize);
        if every < page.len() {
            page.chunks_mut(every).for_each(|chunk| chunk[..40].fill(7));
        }
        measure(name, SimFlashOptions { is_sparse: true, ..profile.options() }, &page);
    }
}

fn measure(name: &str, options: SimFlashOptions, page: &[u8]) {
    let flash = SimFlash::new(1, options);
    let geometry = options.geometry;
    let mut rates = Vec::new();
    let mut timed = |what: &str, operations: u64, work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        let rate = operations as f64 / start.elapsed().as_secs_f64() / 1e6;
        rates.push(format!("{what} {rate:.2}"));
    };
    let pages = u64::from(geometry.block_count()) * u64::from(geometry.pages);
    timed("programs", pages, &mut || {
        for block in geometry.all_blocks() {
            for at in 0..geometry.pages {
                let append =
                    Append { block, expected: Some(at), stream: 0, pages: page, spare: &[] };
                flash.append(&append).expect("the block takes it");
            }
        }
    });
    let mut back = vec![0; page.len()];
    timed("reads", pages, &mut || {
        for block in geometry.all_blocks() {
            for at in 0..geometry.pages {
                flash.read(block.page(at), &mut back, &mut []).expect("it is there");
            }
        }
    });
    assert_eq!(back, page);
    timed("queued reads", pages, &mut || queued(&flash, pages));
    let memory = flash.contents_bytes();
    timed("erases", u64::from(geometry.block_count()), &mut || {
        for block in geometry.all_blocks() {
            flash.reset(block).expect("it is erased");
        }
    });
    println!("{name}: million a second: {}", rates.join(", "));
    println!(
        "  contents {} MiB for {} GiB of pages, virtual time {:.1} s",
        memory >> 20,
        geometry.capacity_bytes() >> 30,
        flash.now_ns() as f64 / 1e9
    );
}

/// Reads with 32 under way, one from each LUN in turn.
fn queued(flash: &SimFlash, count: u64) {
    let geometry = *flash.geometry();
    let mut queue = flash.queue(32);
    let mut spare_buffers = Vec::new();
    for i in 0..count {
        let lun = (i % u64::from(geometry.lun_count())) as u32;
        let at = (i / u64::from(geometry.lun_count())) as u32;
        let block = geometry.block_at(lun * geometry.blocks + at / geometry.pages);
        if queue.is_full() {
            let (done, result) = queue.pop().expect("some are under way");
            result.expect("it is there");
            spare_buffers.push(done.pages);
        }
        let pages =
            spare_buffers.pop().unwrap_or_else(|| AlignedBuf::zeroed(geometry.page_bytes as usize));
        let request = Request::Read { first: block.page(at % geometry.pages) };
        queue.push(Operation { of: (), request, pages, spare: Vec::new() });
    }
    while let Some((_, result)) = queue.pop() {
        result.expect("it is there");
    }
}
