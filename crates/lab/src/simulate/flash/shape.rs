//! A drive at a share of its size.

use silica::device::blocks::Geometry;
use silica::device::sim::FlashTiming;
use silica_base::Result;

use super::super::config;

/// Blocks that are simulated at most: a search for the best of them is done for each slab.
const BLOCKS_MAX: u64 = 2048;
/// Blocks of a channel at least: fewer leave nothing to choose from.
const BLOCKS_OF_CHANNEL_MIN: u64 = 8;
/// Pages of a block at least.
const PAGES_MIN: u64 = 8;
/// Items of the largest size that a block has room for at least.
const ITEMS_MIN: u64 = 4;

/// A drive as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashDrive {
    /// How it is divided.
    pub geometry: Geometry,
    /// How long it takes.
    pub timing: FlashTiming,
    /// Bytes of it that the cache has; `None` for all.
    pub bytes: Option<u64>,
}

/// The part of a drive that is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashShape {
    /// Channels of the drive.
    pub channels: u32,
    /// LUNs of each.
    pub luns: u32,
    /// Simulated blocks, a multiple of the channels.
    pub blocks: u32,
    /// Pages of a simulated block.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Share of the bytes of the drive that is simulated.
    pub scale: f64,
    /// Bytes of a block of the drive for each byte of a simulated one. Both take the same time to
    /// be written, so requests are as many times further apart.
    pub slower: f64,
    /// Time to program a block, to read a page of it and to erase it, in nanoseconds.
    pub write_ns: u64,
    /// Time to read a page and transfer it, in nanoseconds.
    pub read_ns: u64,
    /// Time to erase a block, in nanoseconds.
    pub erase_ns: u64,
    /// Time in which a channel programs a page if all its LUNs work, in nanoseconds.
    pub program_ns: u64,
}

impl FlashDrive {
    /// Bytes that the cache has.
    pub fn bytes(&self) -> u64 {
        let all = self.geometry.capacity_bytes();
        self.bytes.map_or(all, |bytes| bytes.min(all))
    }

    /// About a share `scale` of the drive, in blocks with room for items of `item_bytes`: fewer
    /// blocks than there are if these are very many, and smaller ones.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a share outside 0 to 1, more flash
    /// than the drive has, too few blocks for its channels, and items too large for its blocks.
    pub fn shape(&self, scale: f64, item_bytes: u64) -> Result<FlashShape> {
        let Geometry { channels, luns, pages, page_bytes, .. } = self.geometry;
        self.geometry.check()?;
        if !(scale > 0.0 && scale <= 1.0) {
            return Err(config(format!("a scale is over 0 and at most 1, not {scale}")));
        }
        let all = self.geometry.capacity_bytes();
        if let Some(bytes) = self.bytes.filter(|bytes| *bytes > all) {
            return Err(config(format!(
                "the drive has {all} bytes, not {bytes}: give --flash-size less, or a larger \
                 --geometry"
            )));
        }
        let block_bytes = self.geometry.block_bytes();
        if item_bytes * ITEMS_MIN > block_bytes {
            return Err(config(format!(
                "items of {item_bytes} bytes do not fit blocks of {block_bytes}: a block has room \
                 for {ITEMS_MIN} at least"
            )));
        }
        let (channels, page_bytes) = (u64::from(channels), u64::from(page_bytes));
        let there = self.bytes() / block_bytes / channels * channels;
        if there < channels * BLOCKS_OF_CHANNEL_MIN {
            let least = channels * BLOCKS_OF_CHANNEL_MIN * block_bytes;
            return Err(config(format!(
                "a cache on {channels} channels has at least {BLOCKS_OF_CHANNEL_MIN} blocks on \
                 each: give --flash-size {}MiB or more, or a --geometry with smaller blocks",
                least.div_ceil(1 << 20)
            )));
        }
        let target = scale * self.bytes() as f64;
        let most = (BLOCKS_MAX / channels).max(BLOCKS_OF_CHANNEL_MIN) * channels;
        let blocks = there.min(most);
        let pages_min = PAGES_MIN.max((ITEMS_MIN * item_bytes).div_ceil(page_bytes));
        let wanted = (target / blocks as f64 / page_bytes as f64).round() as u64;
        let simulated = wanted.max(pages_min).min(u64::from(pages));
        let bytes = (simulated * page_bytes) as f64;
        let by_channel = (target / bytes / channels as f64).round() as u64;
        let blocks = (by_channel.max(BLOCKS_OF_CHANNEL_MIN) * channels).min(blocks);
        let slower = f64::from(pages) / simulated as f64;
        let page_ns = self.timing.read_ns + self.timing.transfer_ns;
        let program_ns = self.timing.program_ns + self.timing.transfer_ns;
        let of_channel = (program_ns / u64::from(luns)).max(self.timing.transfer_ns);
        Ok(FlashShape {
            channels: channels as u32,
            luns,
            blocks: blocks as u32,
            pages: simulated as u32,
            page_bytes: page_bytes as u32,
            scale: blocks as f64 * bytes / self.bytes() as f64,
            slower,
            write_ns: program_ns * u64::from(pages),
            read_ns: (page_ns as f64 * slower) as u64,
            erase_ns: self.timing.erase_ns,
            program_ns: (of_channel as f64 * slower) as u64,
        })
    }
}

impl FlashShape {
    /// Bytes of a simulated block.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page_bytes)
    }

    /// Bytes of all simulated blocks.
    pub fn bytes(&self) -> u64 {
        u64::from(self.blocks) * self.block_bytes()
    }
}
