//! The papers' drive and caches at a share of their size.

use silica_base::{Error, ErrorKind, Result};

use crate::simulate::cache::{
    Cache, CacheCounts, CacheRequests, CacheTimes, Dida, DidaFlash, DidaOptions, Fatcache,
    FatcacheDesign, Mapping, Packing, Reclaim, Reserve, Victims, WearLevelling,
};
use crate::simulate::{Collection, DriveDesign};

/// Pages of a block of the papers' drive, and bytes of a page.
const PAGES: f64 = 512.0;
pub(super) const PAGE_BYTES: u64 = 16 << 10;
/// Pages of a block at least; a smaller scale has fewer blocks.
const PAGES_MIN: u32 = 32;
/// Channels of the papers' drive, and LUNs of each (section 2.4.3).
pub(super) const CHANNELS: u32 = 12;
const LUNS: u32 = 16;
/// Time to program a block, to erase one (section 2.6), and to read a page (profile `paper` of the
/// emulator), in nanoseconds.
pub(super) const BLOCK_NS: u64 = 356_000_000;
pub(super) const ERASE_NS: u64 = 7_000_000;
const READ_NS: u64 = 145_312;
/// Slabs in memory: 128 MB (section 2.5.1).
const BUFFER_SLABS: usize = 16;
/// A SET without waiting: 2.48 x 10^5 of them a second (section 2.5.4, objects of 64 bytes).
const STORE_NS: u64 = 4032;
/// Share of the flash that Fatcache's drive keeps to itself, and that DIDACache with one kind of
/// eviction keeps free (section 2.5.3).
pub(super) const RESERVE: f64 = 0.25;
/// Share of the slabs between the watermarks (section 2.4.1).
pub(super) const BETWEEN: f64 = 0.15;
/// Time to reclaim a slab by dropping it: the erase, and a millisecond around it, in nanoseconds.
pub(super) const EVICT_NS: u64 = ERASE_NS + 1_000_000;

/// Time that the collector takes for a slab, fitted to DIDACache's 2.05 GB of copies in Table 2.1.
/// SETs without gaps fill a slab in 92 ms.
const CLEAN_NS: u64 = 100_000_000;

/// A workload at full scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Bytes of all keys' items.
    pub data_bytes: f64,
    /// Standard deviation of the normal distribution over ranks, in keys.
    pub width: f64,
    /// Keys that its mean moves by with each request.
    pub drift: f64,
    /// Time that DIDACache's collector takes for a slab whose items are copied, in nanoseconds.
    pub clean_ns: u64,
}

impl Workload {
    /// Of Table 2.1: fitted to DIDACache-Space's 7.48 GB of copies, Fatcache-FIFO's 15.35 GB and,
    /// for the collector's time, DIDACache's 2.05 GB.
    pub const COLLECTION: Workload =
        Workload { data_bytes: 12.7e9, width: 1e6, drift: 0.325, clean_ns: CLEAN_NS };
    /// Of Table 2.2: the mean stands still. Width and data set are fitted to the run without
    /// levelling: 15.57 GB copied, 0 to 17 erases of a block.
    pub const WEAR: Workload =
        Workload { data_bytes: 8e9, width: 0.85e6, drift: 0.0, clean_ns: CLEAN_NS };
    /// Of Figure 2.11: fitted to Fatcache's hit ratio at 12 % of the data.
    pub const HITS: Workload =
        Workload { data_bytes: 250e9, width: 14.8e6, drift: 0.02, clean_ns: CLEAN_NS };
}

/// Bytes of an item on average, over the distribution that is cut at 4 KiB.
pub(super) const ITEM_BYTES_MEAN: f64 = 367.0;

/// How far everything is scaled down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Share of the papers' bytes.
    pub scale: f64,
    /// Pages of a block.
    pub pages: u32,
    /// Share of the papers' blocks.
    pub share: f64,
    /// Seed of all that is drawn.
    pub seed: u64,
    /// How the cache on the flash packs items; Fatcache does the same.
    pub packing: Packing,
    /// What is put in the tables of copies and erases.
    pub collection: Workload,
    /// What is put in the table of wear.
    pub wear: Workload,
    /// What is asked for in the figures of hits.
    pub hits: Workload,
}

impl Setup {
    /// Sizes of a share `scale` of the papers' bytes: fewer pages a block, down to 32, then fewer
    /// blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a scale over 1 or under 1/2000.
    pub fn new(scale: f64, seed: u64) -> Result<Self> {
        if !(0.0005..=1.0).contains(&scale) {
            let text = format!("a scale is from 0.0005 to 1, not {scale}");
            return Err(Error::new(ErrorKind::Config, text));
        }
        let pages = ((PAGES * scale).round() as u32).max(PAGES_MIN);
        let share = scale * PAGES / f64::from(pages);
        let packing = Packing::Packed;
        let (collection, wear, hits) = (Workload::COLLECTION, Workload::WEAR, Workload::HITS);
        Ok(Setup { scale, pages, share, seed, packing, collection, wear, hits })
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE_BYTES
    }

    /// Blocks of flash that has so many bytes at full scale: a multiple of the channels.
    pub(super) fn blocks(&self, bytes: f64) -> u32 {
        let blocks = bytes / PAGES / PAGE_BYTES as f64 * self.share;
        ((blocks / f64::from(CHANNELS)).round() as u32).max(6) * CHANNELS
    }

    /// A count at full scale, scaled down.
    pub(super) fn count(&self, count: f64) -> u64 {
        (count * self.scale).round() as u64
    }

    /// Gigabytes at full scale of bytes that were counted.
    pub(super) fn gigabytes(&self, bytes: u64) -> f64 {
        bytes as f64 / self.scale / 1e9
    }

    /// Blocks at full scale of blocks that were counted.
    pub(super) fn full_blocks(&self, blocks: u64) -> f64 {
        blocks as f64 / self.share
    }

    pub(super) fn keys(&self, workload: &Workload) -> u64 {
        self.count(workload.data_bytes / ITEM_BYTES_MEAN)
    }

    pub(super) fn requests(&self, workload: &Workload) -> Result<CacheRequests> {
        let width = workload.width * self.scale;
        CacheRequests::new(self.keys(workload), width, workload.drift, self.seed)
    }

    /// Times of the host. Blocks of fewer pages take as long, so requests for their share of the
    /// bytes are as far apart as they are few.
    pub(super) fn times(&self) -> CacheTimes {
        let store_ns = self.slowed(STORE_NS);
        CacheTimes { store_ns, interval_ns: store_ns }
    }

    /// A time for each request, as long as a block of fewer pages makes it.
    pub(super) fn slowed(&self, ns: u64) -> u64 {
        (ns as f64 * PAGES / f64::from(self.pages)) as u64
    }

    fn read_ns(&self) -> u64 {
        self.slowed(READ_NS)
    }

    /// DIDACache on flash of so many bytes at full scale.
    pub(super) fn dida(
        &self,
        keys: u32,
        bytes: f64,
        reclaim: Reclaim,
        reserve: Reserve,
        wear: Option<WearLevelling>,
    ) -> Result<Dida> {
        let flash = DidaFlash {
            channels: CHANNELS,
            luns: LUNS,
            blocks: self.blocks(bytes),
            block_bytes: self.block_bytes(),
            write_ns: BLOCK_NS,
            read_ns: self.read_ns(),
            erase_ns: ERASE_NS,
        };
        // One kind of eviction has one watermark, and so has a drive's static reserve.
        let has_two =
            matches!(reclaim, Reclaim::Both { .. }) && !matches!(reserve, Reserve::Static(_));
        let between = if has_two { BETWEEN } else { 0.0 };
        let options = DidaOptions {
            reclaim,
            reserve,
            between,
            packing: self.packing,
            wear,
            buffer_slabs: BUFFER_SLABS,
            times: self.times(),
        };
        Dida::new(keys, flash, options)
    }

    /// A conventional drive of so many bytes at full scale, a quarter of which it keeps.
    pub(super) fn drive(&self, bytes: f64) -> DriveDesign {
        let blocks = self.blocks(bytes);
        DriveDesign {
            channels: CHANNELS,
            blocks,
            pages: self.pages,
            logical: (f64::from(blocks) * (1.0 - RESERVE)) as u32 * self.pages,
            collection: Collection::Greedy,
            buffer: 0,
            program_ns: BLOCK_NS / u64::from(self.pages),
            erase_ns: ERASE_NS,
        }
    }

    /// Fatcache on flash of so many bytes at full scale, asynchronous or not.
    pub(super) fn fatcache(
        &self,
        keys: u32,
        bytes: f64,
        victims: Victims,
        is_asynchronous: bool,
    ) -> Result<Fatcache> {
        let drive = self.drive(bytes);
        let buffer_slabs = if is_asynchronous { BUFFER_SLABS } else { 0 };
        let mapping = Mapping::Pages(drive);
        let design = self.fatcache_design(drive.logical / self.pages, victims, mapping);
        Fatcache::new(keys, FatcacheDesign { buffer_slabs, ..design })
    }

    /// Fatcache with so many slabs over a mapping.
    pub(super) fn fatcache_design(
        &self,
        slabs: u32,
        victims: Victims,
        mapping: Mapping,
    ) -> FatcacheDesign {
        FatcacheDesign {
            slabs,
            slab_bytes: self.block_bytes(),
            pages: self.pages,
            victims,
            packing: self.packing,
            mapping,
            buffer_slabs: BUFFER_SLABS,
            read_ns: self.read_ns(),
            times: self.times(),
        }
    }
}

/// Puts all keys in turn, again and again, until so many bytes at full scale were put.
pub(super) fn preload(setup: &Setup, cache: &mut dyn Cache, keys: u32, bytes: f64) {
    let (mut put, mut key) = (0, 0);
    while (put as f64) < bytes * setup.scale {
        let item = CacheRequests::item_bytes(key);
        put += u64::from(item);
        cache.set(key, item);
        key = (key + 1) % keys;
    }
}

/// Puts so many keys at full scale; what that cost.
pub(super) fn put_counted(
    setup: &Setup,
    cache: &mut dyn Cache,
    requests: &mut CacheRequests,
    count: f64,
) -> CacheCounts {
    let before = cache.counts();
    for _ in 0..setup.count(count) {
        let key = requests.draw();
        cache.set(key, CacheRequests::item_bytes(key));
    }
    cache.counts().since(&before)
}
