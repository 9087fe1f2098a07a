//! Ranges that are mapped page by page.

use super::core::{Core, Frontier, NewPage};
use super::page::Kind;
use super::{Collection, NONE};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::FlashDevice;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks beyond those of the data at least: one that is written, one for copies, one that is free
/// for the next of these, one with dead pages, and one that a restart left half full.
const SPARE_MIN: u32 = 5;

/// A block of a range.
struct Block {
    /// By page the logical page that lies there, counted from the range's first.
    pages: Vec<u32>,
    live: u32,
    /// Sequence when it was opened.
    first: u64,
    /// Sequence when it was read or written last.
    used: AtomicU64,
    is_closed: bool,
    /// A live page cannot be read, so the block is not collected.
    is_pinned: bool,
}

/// A page-mapped range.
pub(super) struct ByPage {
    begin: u64,
    /// Where each logical page lies.
    pub(super) map: Vec<u32>,
    blocks: BTreeMap<u32, Block>,
    /// What users write goes here.
    user: Option<Frontier>,
    /// What is collected goes here.
    copies: Option<Frontier>,
    /// Blocks that the range may hold.
    quota: u32,
    collection: Collection,
}

impl ByPage {
    pub(super) fn new(
        begin: u64,
        end: u64,
        block_pages: u32,
        collection: Collection,
        percent: u32,
    ) -> Self {
        ByPage {
            begin,
            map: vec![NONE; (end - begin) as usize],
            blocks: BTreeMap::new(),
            user: None,
            copies: None,
            quota: Self::quota(end - begin, block_pages, percent),
            collection,
        }
    }

    /// Blocks that a range of `pages` logical pages holds at most.
    pub(super) fn quota(pages: u64, block_pages: u32, percent: u32) -> u32 {
        let data = pages.div_ceil(u64::from(block_pages));
        let spare = (data * u64::from(percent)).div_ceil(100).max(u64::from(SPARE_MIN));
        u32::try_from(data + spare).unwrap_or(u32::MAX)
    }

    /// Where a logical page lies: block and page. Notes that it is read.
    pub(super) fn locate<D>(&self, core: &Core<D>, page: u64) -> Option<(u32, u32)> {
        let place = self.map[page as usize];
        if place == NONE {
            return None;
        }
        let (number, at) = (place / core.block_pages, place % core.block_pages);
        if self.collection == Collection::LeastRecentlyUsed
            && let Some(block) = self.blocks.get(&number)
        {
            block.used.store(core.sequence, Ordering::Relaxed);
        }
        Some((number, at))
    }

    /// Writes pages from `first` on.
    pub(super) fn write<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        first: u64,
        data: &[u8],
    ) -> Result<()> {
        let mut pages: Vec<NewPage<'_>> = data
            .chunks_exact(core.data_bytes)
            .zip(self.begin + first..)
            .map(|(data, logical)| NewPage { kind: Kind::Data, part: 0, logical, data })
            .collect();
        let mut done = 0;
        while !pages.is_empty() {
            let mut frontier = match self.user {
                Some(frontier) => frontier,
                None => {
                    self.make_room(core)?;
                    self.open_block(core)?
                }
            };
            let room = (core.block_pages - frontier.next) as usize;
            let count = pages.len().min(room);
            let begin = frontier.next;
            let appended = core.append(&mut frontier, &pages[..count])?;
            for at in 0..appended.written {
                let place = frontier.number * core.block_pages + begin + at;
                self.place(core, (first + done) as u32, place);
                done += 1;
            }
            core.statistics.pages_written += u64::from(appended.written);
            pages.drain(..appended.written as usize);
            self.user = self.advanced(core, frontier, appended.refused.is_none())?;
            appended.fatal()?;
        }
        Ok(())
    }

    /// The frontier if it takes more pages; closes its block otherwise.
    fn advanced<D: FlashDevice>(
        &mut self,
        core: &Core<D>,
        frontier: Frontier,
        is_good: bool,
    ) -> Result<Option<Frontier>> {
        if is_good && frontier.next < core.block_pages {
            return Ok(Some(frontier));
        }
        self.blocks.get_mut(&frontier.number).expect("its block is there").is_closed = true;
        core.finish(frontier.number)?;
        Ok(None)
    }

    fn open_block<D: FlashDevice>(&mut self, core: &mut Core<D>) -> Result<Frontier> {
        let frontier = core.allocate()?;
        self.enter(core, frontier.number, core.sequence, false);
        Ok(frontier)
    }

    /// Enters a block without live pages.
    fn enter<D>(&mut self, core: &Core<D>, number: u32, first: u64, is_closed: bool) {
        let block = Block {
            pages: vec![NONE; core.block_pages as usize],
            live: 0,
            first,
            used: AtomicU64::new(first),
            is_closed,
            is_pinned: false,
        };
        self.blocks.insert(number, block);
    }

    /// The newest version of a logical page lies at `place`.
    fn place<D>(&mut self, core: &Core<D>, page: u32, place: u32) {
        self.unmap(core, page);
        self.map[page as usize] = place;
        let block = self.blocks.get_mut(&(place / core.block_pages)).expect("its block is there");
        block.pages[(place % core.block_pages) as usize] = page;
        block.live += 1;
        block.used.store(core.sequence, Ordering::Relaxed);
    }

    fn unmap<D>(&mut self, core: &Core<D>, page: u32) {
        let old = std::mem::replace(&mut self.map[page as usize], NONE);
        if old == NONE {
            return;
        }
        if let Some(block) = self.blocks.get_mut(&(old / core.block_pages)) {
            block.pages[(old % core.block_pages) as usize] = NONE;
            block.live -= 1;
        }
    }

    pub(super) fn trim<D>(&mut self, core: &Core<D>, first: u64, count: u64) {
        (first..first + count).for_each(|page| self.unmap(core, page as u32));
    }

    /// Collects until a block may be opened.
    fn make_room<D: FlashDevice>(&mut self, core: &mut Core<D>) -> Result<()> {
        self.release_dead(core)?;
        // First in, first out may turn over every block before it meets a dead page.
        let mut patience = 2 * self.blocks.len();
        while self.blocks.len() as u32 + 1 >= self.quota {
            let collection = if patience > 0 { self.collection } else { Collection::Greedy };
            patience = patience.saturating_sub(1);
            let Some(victim) = self.victim(core, collection) else {
                let message = format!(
                    "no block of the range from logical page {} can be collected: live pages \
                     cannot be read, or blocks turned bad; trim or rewrite pages",
                    self.begin
                );
                return Err(Error::new(ErrorKind::Full, message));
            };
            self.collect(core, victim)?;
        }
        Ok(())
    }

    fn release_dead<D: FlashDevice>(&mut self, core: &mut Core<D>) -> Result<()> {
        let dead: Vec<u32> = self
            .blocks
            .iter()
            .filter(|(_, block)| block.is_closed && block.live == 0)
            .map(|(number, _)| *number)
            .collect();
        for number in dead {
            core.release(number)?;
            self.blocks.remove(&number);
        }
        Ok(())
    }

    /// The block that the policy collects next.
    fn victim<D>(&self, core: &Core<D>, collection: Collection) -> Option<u32> {
        let may_be = |block: &&Block| block.is_closed && !block.is_pinned;
        let closed = self.blocks.iter().filter(|(_, block)| may_be(block));
        let key = |block: &Block| match collection {
            Collection::Greedy => (u64::from(block.live), block.first),
            Collection::Fifo => (block.first, 0),
            Collection::LeastRecentlyUsed => (block.used.load(Ordering::Relaxed), block.first),
        };
        let (number, block) = closed.min_by_key(|(_, block)| key(block))?;
        // With greedy a full block says that there is nothing to be won.
        let is_useless = collection == Collection::Greedy && block.live == core.block_pages;
        (!is_useless).then_some(*number)
    }

    /// Copies what is live of a block, and gives it back. A page that cannot be read pins it.
    pub(super) fn collect<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        victim: u32,
    ) -> Result<()> {
        let mut data = vec![0; core.data_bytes];
        let pages = self.blocks[&victim].pages.clone();
        for (at, page) in (0..).zip(pages).filter(|(_, page)| *page != NONE) {
            let logical = self.begin + u64::from(page);
            match core.read_data(victim, at, logical, &mut data) {
                Ok(()) => self.copy(core, page, &data)?,
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    self.blocks.get_mut(&victim).expect("the victim is there").is_pinned = true;
                }
                Err(error) => return Err(error),
            }
        }
        core.statistics.collections += 1;
        if self.blocks[&victim].live == 0 {
            core.release(victim)?;
            self.blocks.remove(&victim);
        }
        Ok(())
    }

    fn copy<D: FlashDevice>(&mut self, core: &mut Core<D>, page: u32, data: &[u8]) -> Result<()> {
        let logical = self.begin + u64::from(page);
        loop {
            let mut frontier = match self.copies {
                Some(frontier) => frontier,
                None => self.open_block(core)?,
            };
            let place = frontier.number * core.block_pages + frontier.next;
            let new = NewPage { kind: Kind::Data, part: 0, logical, data };
            let appended = core.append(&mut frontier, &[new])?;
            if appended.written == 1 {
                self.place(core, page, place);
                core.statistics.pages_copied += 1;
            }
            self.copies = self.advanced(core, frontier, appended.refused.is_none())?;
            if appended.written == 1 {
                return Ok(());
            }
            appended.fatal()?;
        }
    }

    /// Moves the contents of a block to one of their own; false if the range does not have it, or
    /// cannot read it.
    pub(super) fn move_away<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        number: u32,
    ) -> Result<bool> {
        if self.blocks.get(&number).is_none_or(|block| block.is_pinned) {
            return Ok(false);
        }
        for frontier in [&mut self.user, &mut self.copies] {
            frontier.take_if(|frontier| frontier.number == number);
        }
        self.blocks.get_mut(&number).expect("it is there").is_closed = true;
        core.finish(number)?;
        let copies = self.copies.take();
        let result = self.collect(core, number);
        // One frontier for copies is enough; what moved stays by itself.
        let more = std::mem::replace(&mut self.copies, copies);
        match (more, copies) {
            (Some(more), Some(_)) => {
                self.blocks.get_mut(&more.number).expect("its block is there").is_closed = true;
                core.finish(more.number)?;
            }
            (Some(_), None) => self.copies = more,
            (None, _) => {}
        }
        result.map(|()| true)
    }

    /// Enters the blocks of a mapping that was read. Returns them.
    pub(super) fn adopt<D>(&mut self, core: &Core<D>) -> Vec<u32> {
        for page in 0..self.map.len() {
            let place = self.map[page];
            if place == NONE {
                continue;
            }
            let number = place / core.block_pages;
            if !self.blocks.contains_key(&number) {
                self.enter(core, number, 0, true);
            }
            let block = self.blocks.get_mut(&number).expect("it was entered");
            block.pages[(place % core.block_pages) as usize] = page as u32;
            block.live += 1;
        }
        self.blocks.keys().copied().collect()
    }

    /// Says when a block that was adopted was opened.
    pub(super) fn set_first(&mut self, number: u32, first: u64) {
        if let Some(block) = self.blocks.get_mut(&number) {
            block.first = first;
            *block.used.get_mut() = first;
        }
    }
}
