//! Tests that need no process of their own: one binary, and a module for each.

mod bad_blocks;
mod crash;
mod functions;
mod kv;
mod monitor;
mod policy;
mod wear;

use silica_device::blocks::{Append, BlockAddress, FlashDevice, FlashFault, FlashResult, Geometry};
use silica_device::sim::{SimFlash, SimFlashOptions};
use silica_flash::{Monitor, MonitorOptions, Space};

const PAGE: usize = 512;
const GEOMETRY: Geometry =
    Geometry { channels: 3, luns: 2, blocks: 8, pages: 4, page_bytes: 512, spare_bytes: 0 };
/// Two spare blocks and three of the table leave three of a LUN's eight.
const OPTIONS: MonitorOptions = MonitorOptions { id: 99, spare_blocks: 2 };

fn space(luns: u32, over_provisioned_luns: u32) -> Space {
    Space { luns, over_provisioned_luns }
}

fn flash(seed: u64) -> SimFlash {
    SimFlash::new(seed, SimFlashOptions::flash(GEOMETRY))
}

fn formatted(seed: u64) -> Monitor<SimFlash> {
    Monitor::format(flash(seed), OPTIONS).unwrap()
}

fn page_of(id: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    silica_base::Prng::new(id).fill(&mut bytes);
    bytes
}

fn append(flash: &impl FlashDevice, block: BlockAddress, id: u64) -> FlashResult<u32> {
    let pages = page_of(id);
    flash.append(&Append { block, expected: None, stream: 0, pages: &pages, spare: &[] })
}

/// Reads a page; true if it is the page `id`.
fn is_page(flash: &impl FlashDevice, block: BlockAddress, page: u32, id: u64) -> FlashResult<bool> {
    let mut bytes = [0; PAGE];
    flash.read(block.page(page), &mut bytes, &mut [])?;
    Ok(bytes[..] == page_of(id))
}

fn fault<T>(result: FlashResult<T>) -> FlashFault {
    result.map(|_| ()).unwrap_err().fault()
}
