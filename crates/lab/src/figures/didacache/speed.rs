//! How long SETs take: Table 2.5 and Figure 2.12.

use super::setup::{BLOCK_NS, CHANNELS, ERASE_NS, PAGE_BYTES, Setup};
use super::{Row, row};
use crate::simulate::cache::{
    Cache, CacheRequests, CacheTimes, Dida, DidaFlash, DidaOptions, ITEM_OVERHEAD_BYTES, Packing,
    Reclaim, Reserve, Victims,
};
use crate::simulate::{Collection, Drive, DriveDesign};
use silica_base::Result;

/// Pages of a block in the papers' drive: Table 2.5 is not scaled down.
const PAGES: u32 = 512;

/// The longest SET.
pub(super) fn table_2_5(_: &Setup) -> Result<Vec<Row>> {
    const METRIC: &str = "worst SET, s";
    let ours = row("table-2.5", "DIDACache", METRIC, worst_of_dida()?, 0.363);
    let other = row("table-2.5", "Conventional", METRIC, worst_of_drive()?, 15.492);
    Ok(vec![ours, other])
}

/// DIDACache without room in memory, on one LUN whose blocks are all full: a SET waits for an erase
/// and for the write of a block.
fn worst_of_dida() -> Result<f64> {
    let block_bytes = u64::from(PAGES) * PAGE_BYTES;
    let flash = DidaFlash {
        channels: 1,
        luns: 1,
        blocks: 8,
        block_bytes,
        write_ns: BLOCK_NS,
        read_ns: 0,
        erase_ns: ERASE_NS,
    };
    let options = DidaOptions {
        reclaim: Reclaim::Locality,
        reserve: Reserve::Static(0.0),
        between: 0.0,
        packing: Packing::Packed,
        wear: None,
        buffer_slabs: 0,
        // Times of memory are left out, as in the table.
        times: CacheTimes { store_ns: 0, interval_ns: 0 },
    };
    let keys = 1 << 20;
    let mut cache = Dida::new(keys, flash, options)?;
    (0..keys).for_each(|key| cache.set(key, 256 + ITEM_OVERHEAD_BYTES));
    Ok(cache.set_latency().max() as f64 / 1e9)
}

/// A drive each of whose blocks has one invalid page, on which a slab is written.
fn worst_of_drive() -> Result<f64> {
    let (channels, pages) = (CHANNELS, PAGES);
    let share = pages.div_ceil(channels);
    let whole = pages * pages;
    let mut drive = Drive::new(DriveDesign {
        channels,
        blocks: (pages + 2) * channels,
        pages,
        logical: (whole + share) * channels,
        collection: Collection::Greedy,
        buffer: 0,
        program_ns: BLOCK_NS / u64::from(pages),
        erase_ns: ERASE_NS,
    })?;
    (0..whole * channels).for_each(|page| {
        drive.write(page, 0);
    });
    // The first page of each block becomes invalid, and one more block of each channel full.
    let first_of = |block: u32, channel: u32| block * pages * channels + channel;
    for channel in 0..channels {
        for block in 0..pages - share {
            drive.write(first_of(block, channel), 0);
        }
        for i in 0..share {
            drive.write((whole + i) * channels + channel, 0);
            drive.trim(first_of(pages - share + i, channel));
        }
    }
    let from_ns = drive.idle_from_ns();
    let slab = (0..pages).map(|i| first_of(pages - share + i / channels, i % channels));
    let end_ns = slab.map(|page| drive.write(page, from_ns)).max().unwrap_or(from_ns);
    Ok((end_ns - from_ns) as f64 / 1e9)
}

/// Bytes of objects in Figure 2.12, flash, preload and SETs after it.
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
const FLASH_BYTES: f64 = 30e9;
const PRELOAD_BYTES: f64 = 25e9;
const SET_BYTES: f64 = 10e9;

/// SETs a second of objects of one size, in virtual time: what the processor does is the same for
/// all, so they differ by what SETs wait for.
pub(super) fn figure_2_12(setup: &Setup) -> Result<Vec<Row>> {
    const FIGURE: &str = "figure-2.12";
    let mut rows = Vec::new();
    for size in SIZES {
        let item = size + ITEM_OVERHEAD_BYTES;
        // Half of the flash: the data fit beside the reserve.
        let keys = setup.count(0.5 * FLASH_BYTES / f64::from(item)) as u32;
        let both = Reclaim::Both { clean_ns: setup.collection.clean_ns };
        let queueing = Reserve::Queueing { evict_ns: super::setup::EVICT_NS };
        let ours = setup.dida(keys, FLASH_BYTES, both, queueing, None)?;
        let stock = |waits: bool| setup.fatcache(keys, FLASH_BYTES, Victims::Fifo, !waits);
        let caches: [(&str, Box<dyn Cache>, f64); 3] = [
            ("DIDACache", Box::new(ours), 2.48e5),
            ("Fatcache-Async", Box::new(stock(false)?), 2.48e5 / 1.355),
            ("Fatcache-Sync", Box::new(stock(true)?), 2.48e5 / 2.3),
        ];
        for (name, mut cache, paper) in caches {
            let rate = rate_of(setup, &mut *cache, keys, item);
            let metric = format!("SETs a second of {size} B, virtual time");
            rows.push(row(FIGURE, name, &metric, rate, (size == 64).then_some(paper)));
        }
    }
    Ok(rows)
}

fn rate_of(setup: &Setup, cache: &mut dyn Cache, keys: u32, item: u32) -> f64 {
    let mut requests = CacheRequests::new(u64::from(keys), f64::from(keys) / 4.0, 0.0, setup.seed)
        .expect("there are keys");
    for i in 0..setup.count(PRELOAD_BYTES / f64::from(item)) {
        cache.set((i % u64::from(keys)) as u32, item);
    }
    let (from_ns, count) = (cache.now_ns(), setup.count(SET_BYTES / f64::from(item)));
    for _ in 0..count {
        cache.set(requests.draw(), item);
    }
    let seconds = (cache.now_ns() - from_ns) as f64 / 1e9;
    // Requests are slowed as blocks have fewer pages.
    let slowed = setup.slowed(1_000_000) as f64 / 1e6;
    count as f64 / seconds * slowed
}
