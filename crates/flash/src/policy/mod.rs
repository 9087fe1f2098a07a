//! The policy level: a logical block device whose owner chooses, for each range of it, how it is
//! mapped, what is collected first and how much is over-provisioned (003…, 3.4.4).
//!
//! Erases, allocation and bad blocks are the function level's below; mapping, collection and
//! recovery are this level's (docs/formats/flash-policy.md).
//!
//! ```
//! use silica_device::sim::{SimFlash, SimFlashOptions};
//! use silica_flash::functions::{FunctionOptions, Functions, Mapping};
//! use silica_flash::policy::{Collection, Policy, PolicyOptions, RangeOptions};
//!
//! let range = RangeOptions {
//!     begin: 0,
//!     end: 64,
//!     mapping: Mapping::Page,
//!     collection: Collection::Greedy,
//!     over_provisioning: 10,
//! };
//! let flash = SimFlash::new(1, SimFlashOptions::small());
//! let functions = Functions::open(flash.clone(), FunctionOptions::default())?;
//! let options = PolicyOptions { device: 7, ranges: vec![range] };
//! let mut disk = Policy::format(functions, options)?;
//! let page = vec![5; disk.page_bytes()];
//! disk.write(3, &page)?;
//! disk.flush()?; // survives a power cut
//!
//! let functions = Functions::open(flash.reopen(), FunctionOptions::default())?;
//! let mut disk = Policy::open(functions, 7)?;
//! let mut back = vec![0; disk.page_bytes()];
//! disk.read(3, &mut back)?;
//! assert_eq!(back, page);
//! disk.trim(3, 1)?;
//! disk.read(3, &mut back)?;
//! assert!(back.iter().all(|byte| *byte == 0));
//! # Ok::<(), silica_base::Error>(())
//! ```
//!
//! Invariants:
//! 1. Sequences rise with every page, so of two versions of a logical page the one with the higher
//!    sequence is newer. A copy is a version.
//! 2. A block goes back to the function level only after a sync that follows what made its pages
//!    dead, trims included.
//! 3. A checkpoint has everything up to its last sequence, and is synced before older meta blocks
//!    go back.
//! 4. A logical page reads as written last, or, if that was not flushed before a power cut, as it
//!    was at one moment since the last flush; trimmed pages read as zeroes.
//! 5. A range holds no more blocks than its quota when it opens one for what users write, so a
//!    collection finds a block for its copies. Only blocks that turn bad may break this.

mod by_block;
mod by_page;
mod checkpoint;
mod core;
mod open;
mod page;

use self::by_block::ByBlock;
use self::by_page::ByPage;
use self::core::{Core, Place};
use crate::functions::{Functions, Mapping};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::FlashDevice;
use std::collections::BTreeSet;

/// The place of a page that has none.
const NONE: u32 = u32::MAX;
/// Checkpoints are due after so many times their own pages: they are 3 % of what is written.
const CHECKPOINT_TIMES: u64 = 32;

/// What is collected first. Of block-mapped ranges that is a logical block that lies in two blocks,
/// which are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    /// The block that costs the fewest copies.
    Greedy = 0,
    /// The block that was begun first.
    Fifo = 1,
    /// The block that was neither read nor written for longest.
    LeastRecentlyUsed = 2,
}

/// A range of logical pages and its policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeOptions {
    /// The first logical page; where the range before ends, or 0.
    pub begin: u64,
    /// The page behind the last one.
    pub end: u64,
    /// Page mapping takes pages in any order, for 8 bytes of memory each. Block mapping takes 1,
    /// copies nothing if logical blocks are written from their beginning to their end, and a
    /// whole block for a page that is written out of order.
    pub mapping: Mapping,
    /// What is collected first.
    pub collection: Collection,
    /// Blocks beyond those of the data, in percent of these. There are five at least, or three if
    /// the range is block-mapped.
    pub over_provisioning: u32,
}

/// How a logical device is formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOptions {
    /// A number that no other logical device has, from the caller's source of random numbers.
    pub device: u64,
    /// Ranges that follow each other from page 0 on.
    pub ranges: Vec<RangeOptions>,
}

/// What a logical device did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PolicyStatistics {
    /// Pages that users wrote.
    pub pages_written: u64,
    /// Pages that collections and merges copied.
    pub pages_copied: u64,
    /// Empty pages that keep their place in block-mapped ranges.
    pub pages_of_holes: u64,
    /// Pages of checkpoints and trims.
    pub pages_of_mapping: u64,
    /// Blocks collected, and logical blocks merged.
    pub collections: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
}

impl PolicyStatistics {
    /// Pages programmed for each page that users wrote; 0 if they wrote none.
    pub fn write_amplification(&self) -> f64 {
        if self.pages_written == 0 {
            return 0.0;
        }
        let more = self.pages_copied + self.pages_of_holes + self.pages_of_mapping;
        (self.pages_written + more) as f64 / self.pages_written as f64
    }
}

enum Map {
    ByPage(ByPage),
    ByBlock(ByBlock),
}

/// A range.
struct Part {
    options: RangeOptions,
    map: Map,
}

impl Part {
    fn new(options: RangeOptions, block_pages: u32) -> Self {
        let RangeOptions { begin, end, mapping, collection, over_provisioning } = options;
        let map = match mapping {
            Mapping::Page => {
                Map::ByPage(ByPage::new(begin, end, block_pages, collection, over_provisioning))
            }
            Mapping::Block => {
                Map::ByBlock(ByBlock::new(begin, end, block_pages, collection, over_provisioning))
            }
        };
        Part { options, map }
    }

    fn has(&self, page: u64) -> bool {
        (self.options.begin..self.options.end).contains(&page)
    }

    /// Blocks that the range holds at most, and bytes of its mapping in a checkpoint.
    fn needs(options: &RangeOptions, block_pages: u32) -> (u32, u64) {
        let pages = options.end - options.begin;
        match options.mapping {
            Mapping::Page => {
                (ByPage::quota(pages, block_pages, options.over_provisioning), pages * 4)
            }
            Mapping::Block => {
                let blocks = pages.div_ceil(u64::from(block_pages));
                let quota = ByBlock::quota(pages, block_pages, options.over_provisioning);
                (quota, blocks * (28 + u64::from(block_pages).div_ceil(64) * 8))
            }
        }
    }

    /// A block holds something else than a checkpoint says.
    fn forget(&mut self, number: u32) {
        if let Map::ByBlock(map) = &mut self.map {
            map.forget_piece(number);
        }
    }

    /// Blocks other than these have no pages.
    fn forget_all_but(&mut self, there: &BTreeSet<u32>) {
        if let Map::ByBlock(map) = &mut self.map {
            for block in &mut map.blocks {
                block.pieces.retain(|piece| there.contains(&piece.number));
            }
        }
    }
}

/// A logical block device; see [the module](self).
pub struct Policy<D> {
    core: Core<D>,
    parts: Vec<Part>,
}

impl<D: FlashDevice> Policy<D> {
    /// Makes a new logical device of blocks that nothing lies in.
    ///
    /// # Errors
    /// `Config` if the function level found blocks with pages, or if the ranges do not follow each
    /// other; `Full` if the ranges need more blocks than there are, with both numbers;
    /// `Unsupported` for devices with 2³² pages or more; what the device said.
    pub fn format(functions: Functions<D>, options: PolicyOptions) -> Result<Self> {
        let found = functions.found().len();
        if found > 0 {
            let message = format!(
                "{found} blocks have pages; open what wrote them, or release them before a \
                 logical device is formatted (Functions::release_found)"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let core = Core::new(functions, options.device)?;
        check(&core, &options.ranges)?;
        let mut parts: Vec<Part> =
            options.ranges.iter().map(|range| Part::new(*range, core.block_pages)).collect();
        limit_open(&core, &mut parts)?;
        let mut policy = Policy { core, parts };
        policy.checkpoint()?;
        Ok(policy)
    }

    /// Bytes of a logical page: the device's page, less 40 if the device has fewer than 40 spare
    /// bytes beside each page.
    pub fn page_bytes(&self) -> usize {
        self.core.data_bytes
    }

    /// Logical pages.
    pub fn pages(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.options.end)
    }

    /// Pages of a logical block: in block-mapped ranges it pays to write so many from a multiple of
    /// them, counted from the range's begin.
    pub fn block_pages(&self) -> u32 {
        self.core.block_pages
    }

    /// The ranges.
    pub fn ranges(&self) -> Vec<RangeOptions> {
        self.parts.iter().map(|part| part.options).collect()
    }

    /// The level below: for erases in the background and loads. Whoever trims blocks of the logical
    /// device there breaks it.
    pub fn functions(&self) -> &Functions<D> {
        &self.core.functions
    }

    /// Reads whole pages from `first` on: with one call to the device if they lie behind each other
    /// in a block and the device has spare bytes for their headers, side by side otherwise. Pages
    /// that were never written or are trimmed are zeroes.
    ///
    /// # Errors
    /// `Config` for pages outside of the device or a buffer that is no multiple of a page;
    /// `Corruption` if a page cannot be read; what the device said.
    pub fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        self.read_all(vec![(first, out)])
    }

    /// Reads whole pages from several pages on, side by side where they lie in several blocks.
    ///
    /// # Errors
    /// As [`Policy::read`].
    pub fn read_all(&self, reads: Vec<(u64, &mut [u8])>) -> Result<()> {
        let mut places = Vec::new();
        for (first, out) in reads {
            self.check(first, out.len())?;
            self.split_into_runs(first, out, &mut places);
        }
        self.core.read_places(places)
    }

    /// Adds where pages lie, a place for as many as one call to the device reads. Pages without a
    /// place are zeroes.
    fn split_into_runs<'b>(&self, first: u64, out: &'b mut [u8], places: &mut Vec<Place<'b>>) {
        let (mut page, mut rest) = (first, out);
        while !rest.is_empty() {
            let place = self.locate(page);
            let mut count = 1;
            if let Some((number, at)) = place.filter(|_| self.core.has_spare) {
                let left = (rest.len() / self.core.data_bytes) as u64;
                let mut others = (page + 1..page + left).zip(at + 1..);
                let is_next = |(page, at): &(u64, u32)| self.locate(*page) == Some((number, *at));
                count += others.by_ref().take_while(is_next).count();
            }
            let (now, later) = rest.split_at_mut(count * self.core.data_bytes);
            match place {
                Some((number, at)) => places.push(Place { number, at, logical: page, out: now }),
                None => now.fill(0),
            }
            (page, rest) = (page + count as u64, later);
        }
    }

    fn locate(&self, page: u64) -> Option<(u32, u32)> {
        let part = self.parts.iter().find(|part| part.has(page)).expect("a checked page");
        let page = page - part.options.begin;
        match &part.map {
            Map::ByPage(map) => map.locate(&self.core, page),
            Map::ByBlock(map) => map.locate(&self.core, page),
        }
    }

    /// Writes whole pages from `first` on. Each of them is written or not after a power cut; they
    /// are not one unit.
    ///
    /// # Errors
    /// `Config` as [`Policy::read`]; `Full` if blocks turned bad and no spare one is left; what
    /// the device said. Pages before the one that failed may be written.
    pub fn write(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.check(first, data.len())?;
        let (mut first, mut data) = (first, data);
        while !data.is_empty() {
            let part = self.parts.iter_mut().find(|part| part.has(first)).expect("a checked page");
            let room = (part.options.end - first) as usize * self.core.data_bytes;
            let (now, later) = data.split_at(room.min(data.len()));
            let page = first - part.options.begin;
            match &mut part.map {
                Map::ByPage(map) => map.write(&mut self.core, page, now)?,
                Map::ByBlock(map) => map.write(&mut self.core, page, now)?,
            }
            first += (now.len() / self.core.data_bytes) as u64;
            data = later;
        }
        self.checkpoint_if_due()
    }

    /// Gives the contents of pages up: they read as zeroes, and cost no copies. Lasts when flushed.
    ///
    /// # Errors
    /// `Config` for pages outside of the device; of block-mapped ranges what the device said.
    pub fn trim(&mut self, first: u64, count: u64) -> Result<()> {
        self.trim_all(&[(first, count)])
    }

    /// Gives the contents of several extents up: the first page of each, and how many. What they
    /// hold of block-mapped ranges goes back with one page of trims and one sync.
    ///
    /// # Errors
    /// As [`Policy::trim`].
    pub fn trim_all(&mut self, extents: &[(u64, u64)]) -> Result<()> {
        for (first, count) in extents {
            let count = usize::try_from(*count).ok();
            let bytes = count.and_then(|count| count.checked_mul(self.core.data_bytes));
            self.check(*first, bytes.unwrap_or(usize::MAX))?;
        }
        let mut of_parts = vec![Vec::new(); self.parts.len()];
        for &(mut first, mut count) in extents {
            while count > 0 {
                let part = self.parts.iter().position(|part| part.has(first));
                let part = part.expect("a checked page");
                let options = self.parts[part].options;
                let now = count.min(options.end - first);
                self.core.note_trim(first, now);
                of_parts[part].push((first - options.begin, now));
                (first, count) = (first + now, count - now);
            }
        }
        for (part, extents) in self.parts.iter_mut().zip(of_parts) {
            match &mut part.map {
                Map::ByPage(map) => {
                    extents.iter().for_each(|(page, now)| map.trim(&self.core, *page, *now));
                }
                Map::ByBlock(map) => map.trim(&mut self.core, &extents)?,
            }
        }
        Ok(())
    }

    /// Makes all writes and trims that returned survive a power cut.
    ///
    /// # Errors
    /// `Full` if there is no block for a page of trims; what the device said. A sync that failed is
    /// final.
    pub fn flush(&mut self) -> Result<()> {
        self.core.settle()?;
        self.checkpoint_if_due()
    }

    /// Writes the mapping, so that opening has nothing else to read than a page of each block. It
    /// is written by itself as more pages follow; call this before a planned end.
    ///
    /// # Errors
    /// As [`Policy::flush`].
    pub fn checkpoint(&mut self) -> Result<()> {
        checkpoint::write(&mut self.core, &self.parts)
    }

    fn checkpoint_if_due(&mut self) -> Result<()> {
        let block_pages = self.core.block_pages;
        let needs = |part: &Part| Part::needs(&part.options, block_pages).1;
        let bytes: u64 = self.parts.iter().map(needs).sum();
        let pages = bytes.div_ceil(self.core.data_bytes as u64).max(u64::from(block_pages) / 4);
        if self.core.since_checkpoint < pages.max(1) * CHECKPOINT_TIMES {
            return Ok(());
        }
        match self.checkpoint() {
            // It can wait: opening takes longer meanwhile.
            Err(error) if error.kind() == ErrorKind::Full => Ok(()),
            result => result,
        }
    }

    /// Moves the contents of the coldest block to the free one with the most erases, if the erases
    /// of held blocks are `threshold` or more apart: data that nobody rewrites leaves blocks that
    /// were seldom erased. True if a block was moved. A round copies a block or two, and erases
    /// what waits to be erased first.
    ///
    /// # Errors
    /// As [`Policy::write`].
    pub fn level_wear(&mut self, threshold: u64) -> Result<bool> {
        let wear = self.core.functions.wear()?.filter(|wear| wear.spread >= threshold.max(1));
        let Some(wear) = wear else { return Ok(false) };
        let coldest = self.core.functions.geometry().index_of(wear.coldest);
        self.core.settle()?;
        self.core.functions.erase_pending(u32::MAX)?;
        self.core.takes_worn = true;
        let moved = self.move_away(coldest);
        self.core.takes_worn = false;
        moved
    }

    fn move_away(&mut self, block: u32) -> Result<bool> {
        if self.core.meta.contains(&block) {
            return self.checkpoint().map(|()| true);
        }
        for part in &mut self.parts {
            let is_moved = match &mut part.map {
                Map::ByPage(map) => map.move_away(&mut self.core, block)?,
                Map::ByBlock(map) => map.move_away(&mut self.core, block)?,
            };
            if is_moved {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the logical device did.
    pub fn statistics(&self) -> PolicyStatistics {
        self.core.statistics
    }

    fn check(&self, first: u64, bytes: usize) -> Result<()> {
        let pages = (bytes / self.core.data_bytes) as u64;
        let fits = bytes.is_multiple_of(self.core.data_bytes)
            && first.checked_add(pages).is_some_and(|end| end <= self.pages());
        if fits {
            return Ok(());
        }
        let message = format!(
            "{bytes} bytes from logical page {first} on are not whole pages of {} bytes among {}",
            self.core.data_bytes,
            self.pages()
        );
        Err(Error::new(ErrorKind::Config, message))
    }
}

/// Shares the blocks that may be open among the ranges.
fn limit_open<D: FlashDevice>(core: &Core<D>, parts: &mut [Part]) -> Result<()> {
    let Some(max) = core.functions.device().abilities().open_blocks_max else { return Ok(()) };
    let by_block = parts.iter().filter(|part| part.options.mapping == Mapping::Block).count();
    let by_page = parts.len() - by_block;
    // Two for each page-mapped range, one for trims and checkpoints, one for wear levelling.
    let fixed = 2 * by_page as u32 + 2;
    let each = max.saturating_sub(fixed).checked_div(by_block as u32);
    if max < fixed || each == Some(0) {
        let message = format!(
            "the drive takes {max} open blocks, and the ranges of the logical device need {}; use \
             fewer ranges",
            fixed + by_block as u32
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    for part in parts {
        if let Map::ByBlock(map) = &mut part.map {
            map.open_max = each.unwrap_or(1);
        }
    }
    Ok(())
}

/// Refuses ranges that do not join or do not fit.
fn check<D: FlashDevice>(core: &Core<D>, ranges: &[RangeOptions]) -> Result<()> {
    let mut end = 0;
    let (mut blocks, mut bytes) = (0u64, 8u64);
    for range in ranges {
        if range.begin != end || range.end <= range.begin {
            let message = format!(
                "the range {}..{} of a logical device is empty or does not begin at page {end}",
                range.begin, range.end
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        end = range.end;
        if end >= u64::from(NONE) {
            let message = "a logical device has fewer than 2^32 pages; use a shorter range";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let (quota, map_bytes) = Part::needs(range, core.block_pages);
        blocks += u64::from(quota);
        bytes += map_bytes + 28;
    }
    let per_block = core.data_bytes as u64 * u64::from(core.block_pages);
    // Two checkpoints, trims before and behind them, and a block that turned bad.
    blocks += 2 * bytes.div_ceil(per_block) + 3;
    let usable = core.functions.statistics().usable;
    if ranges.is_empty() || blocks > u64::from(usable) {
        let message = format!(
            "the ranges of the logical device need {blocks} blocks, and {usable} are usable; make \
             ranges or over-provisioning smaller (there must be one range)"
        );
        return Err(Error::new(ErrorKind::Full, message));
    }
    Ok(())
}
