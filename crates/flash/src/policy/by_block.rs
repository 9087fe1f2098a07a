//! Ranges that are mapped block by block: page *p* of a logical block lies in page *p* of a block.

use super::Collection;
use super::core::{Appended, Core, Frontier, NewPage};
use super::page::Kind;
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::FlashDevice;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks beyond those of the data at least: two logical blocks can be rewritten at a time, and a
/// third block takes copies.
const SPARE_MIN: u32 = 3;

/// A block that has the first pages of a logical block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) number: u32,
    /// Pages that it has.
    pub(super) pages: u32,
    /// It takes no more.
    pub(super) is_closed: bool,
}

/// A logical block.
pub(super) struct LogicalBlock {
    /// The newest first. A page lies in the first piece that has so many.
    pub(super) pieces: Vec<Piece>,
    /// By page whether it has contents.
    pub(super) live: Vec<bool>,
    /// Sequence when the newest piece was begun.
    began: u64,
    /// Sequence when it was read or written last.
    used: AtomicU64,
}

/// A block-mapped range.
pub(super) struct ByBlock {
    begin: u64,
    pub(super) blocks: Vec<LogicalBlock>,
    /// Blocks that the range holds.
    held: u32,
    /// Blocks that it may hold.
    quota: u32,
    /// Blocks that it may have open at the same time.
    pub(super) open_max: u32,
    collection: Collection,
}

impl ByBlock {
    pub(super) fn new(
        begin: u64,
        end: u64,
        block_pages: u32,
        collection: Collection,
        percent: u32,
    ) -> Self {
        let empty = || LogicalBlock {
            pieces: Vec::new(),
            live: vec![false; block_pages as usize],
            began: 0,
            used: AtomicU64::new(0),
        };
        let count = (end - begin).div_ceil(u64::from(block_pages));
        ByBlock {
            begin,
            blocks: (0..count).map(|_| empty()).collect(),
            held: 0,
            quota: Self::quota(end - begin, block_pages, percent),
            open_max: u32::MAX,
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
        let (number, at) = split(core, page);
        let block = &self.blocks[number];
        block.used.store(core.sequence, Ordering::Relaxed);
        block.piece_of(at).map(|piece| (piece.number, at))
    }

    /// Writes pages from `first` on.
    pub(super) fn write<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        first: u64,
        data: &[u8],
    ) -> Result<()> {
        let mut data = data;
        let mut first = first;
        while !data.is_empty() {
            let (number, at) = split(core, first);
            let room = (core.block_pages - at) as usize * core.data_bytes;
            let (now, later) = data.split_at(room.min(data.len()));
            self.write_in(core, number, at, now)?;
            first += (now.len() / core.data_bytes) as u64;
            data = later;
        }
        Ok(())
    }

    /// Writes pages of one logical block.
    fn write_in<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        number: usize,
        at: u32,
        data: &[u8],
    ) -> Result<()> {
        let mut at = at;
        let mut data = data;
        while !data.is_empty() {
            self.prepare(core, number, at)?;
            let base = self.begin + number as u64 * u64::from(core.block_pages);
            let pages: Vec<NewPage<'_>> = data
                .chunks_exact(core.data_bytes)
                .zip(base + u64::from(at)..)
                .map(|(data, logical)| NewPage { kind: Kind::Data, part: 0, logical, data })
                .collect();
            let appended = self.append(core, number, &pages)?;
            let written = appended.written;
            self.blocks[number].live[at as usize..(at + written) as usize].fill(true);
            core.statistics.pages_written += u64::from(written);
            at += written;
            data = &data[written as usize * core.data_bytes..];
            self.release_covered(core, number)?;
            appended.fatal()?;
        }
        Ok(())
    }

    /// Makes the newest piece of a logical block one whose next page is `at`.
    fn prepare<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        number: usize,
        at: u32,
    ) -> Result<()> {
        loop {
            let block = &self.blocks[number];
            match block.pieces.first() {
                Some(newest) if !newest.is_closed && newest.pages <= at => {
                    if self.fill(core, number, at)? {
                        return Ok(());
                    }
                }
                // An older piece is merged before there is a third one.
                _ if block.pieces.len() > 1 => self.complete(core, number)?,
                _ => {
                    self.make_room(core, number)?;
                    self.begin_piece(core, number)?;
                }
            }
        }
    }

    fn begin_piece<D: FlashDevice>(&mut self, core: &mut Core<D>, number: usize) -> Result<()> {
        if let Some(older) = self.blocks[number].pieces.first_mut() {
            older.is_closed = true;
            core.finish(older.number)?;
        }
        self.close_some(core)?;
        let frontier = core.allocate()?;
        self.held += 1;
        let block = &mut self.blocks[number];
        block.pieces.insert(0, Piece { number: frontier.number, pages: 0, is_closed: false });
        block.began = core.sequence;
        Ok(())
    }

    /// Closes blocks that were not used for longest until one more may be open.
    fn close_some<D: FlashDevice>(&mut self, core: &Core<D>) -> Result<()> {
        loop {
            let is_open = |block: &&mut LogicalBlock| {
                block.pieces.first().is_some_and(|piece| !piece.is_closed)
            };
            let mut open: Vec<_> = self.blocks.iter_mut().filter(is_open).collect();
            if (open.len() as u32) < self.open_max {
                return Ok(());
            }
            silica_base::compact_sort_by_key(&mut open, |block| block.used.load(Ordering::Relaxed));
            let oldest = &mut open[0].pieces[0];
            oldest.is_closed = true;
            core.finish(oldest.number)?;
        }
    }

    /// Appends pages to the newest piece.
    fn append<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        number: usize,
        pages: &[NewPage<'_>],
    ) -> Result<Appended> {
        let block = &mut self.blocks[number];
        let newest = block.pieces.first_mut().expect("a piece was prepared");
        let mut frontier = Frontier { number: newest.number, next: newest.pages };
        let appended = core.append(&mut frontier, pages)?;
        newest.pages = frontier.next;
        newest.is_closed |= appended.refused.is_some() || frontier.next == core.block_pages;
        block.used.store(core.sequence, Ordering::Relaxed);
        core.close_if_full(&frontier)?;
        Ok(appended)
    }

    /// Copies what older pieces have into the newest one, up to page `end`; false if its block
    /// turned bad.
    fn fill<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        number: usize,
        end: u32,
    ) -> Result<bool> {
        let base = self.begin + number as u64 * u64::from(core.block_pages);
        let mut data = vec![0; core.data_bytes];
        loop {
            let block = &self.blocks[number];
            let at = block.pieces[0].pages;
            if at >= end {
                return Ok(true);
            }
            let logical = base + u64::from(at);
            let appended = match block.piece_of(at) {
                Some(piece) => {
                    core.read_data(piece.number, at, logical, &mut data)?;
                    core.statistics.pages_copied += 1;
                    let page = NewPage { kind: Kind::Data, part: 0, logical, data: &data };
                    self.append(core, number, &[page])?
                }
                None => {
                    core.statistics.pages_of_holes += 1;
                    let page = NewPage { kind: Kind::Hole, part: 0, logical, data: &[] };
                    self.append(core, number, &[page])?
                }
            };
            if appended.written == 0 {
                appended.fatal()?;
                return Ok(false);
            }
        }
    }

    /// Merges all pieces of a logical block into one.
    fn complete<D: FlashDevice>(&mut self, core: &mut Core<D>, number: usize) -> Result<()> {
        core.statistics.collections += 1;
        loop {
            self.release_covered(core, number)?;
            let pieces = &self.blocks[number].pieces;
            if pieces.len() < 2 {
                return Ok(());
            }
            let end = pieces.iter().map(|piece| piece.pages).max().unwrap_or(0);
            if pieces[0].is_closed {
                self.begin_piece(core, number)?;
            }
            self.fill(core, number, end)?;
        }
    }

    /// Gives back pieces of which newer ones have every page.
    fn release_covered<D: FlashDevice>(&mut self, core: &mut Core<D>, number: usize) -> Result<()> {
        let mut most = 0;
        let mut covered = Vec::new();
        for (at, piece) in self.blocks[number].pieces.iter().enumerate() {
            // An empty piece that is open is about to be written.
            let is_fresh = at == 0 && !piece.is_closed;
            if piece.pages <= most && !is_fresh {
                covered.push(piece.number);
            }
            most = most.max(piece.pages);
        }
        for piece in covered {
            core.release_soon(piece)?;
            self.held -= 1;
            self.blocks[number].pieces.retain(|other| other.number != piece);
        }
        Ok(())
    }

    /// Merges logical blocks until one more block may be held; leaves `except` alone.
    fn make_room<D: FlashDevice>(&mut self, core: &mut Core<D>, except: usize) -> Result<()> {
        while self.held + 1 >= self.quota {
            let Some(victim) = self.victim(except) else {
                let message = format!(
                    "all {} blocks of the range from logical page {} are in use; trim pages",
                    self.held, self.begin
                );
                return Err(Error::new(ErrorKind::Full, message));
            };
            self.complete(core, victim)?;
        }
        Ok(())
    }

    /// The logical block that the policy merges next.
    fn victim(&self, except: usize) -> Option<usize> {
        let has_two = |number: &usize| *number != except && self.blocks[*number].pieces.len() > 1;
        let key = |number: &usize| {
            let block = &self.blocks[*number];
            match self.collection {
                Collection::Greedy => {
                    let most = block.pieces.iter().map(|piece| piece.pages).max().unwrap_or(0);
                    u64::from(most - block.pieces[0].pages)
                }
                Collection::Fifo => block.began,
                Collection::LeastRecentlyUsed => block.used.load(Ordering::Relaxed),
            }
        };
        (0..self.blocks.len()).filter(has_two).min_by_key(key)
    }

    /// Forgets pages: the first of each extent and their number.
    pub(super) fn trim<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        extents: &[(u64, u64)],
    ) -> Result<()> {
        let mut touched = BTreeSet::new();
        for page in extents.iter().flat_map(|(first, count)| *first..*first + *count) {
            let (number, at) = split(core, page);
            self.blocks[number].live[at as usize] = false;
            touched.insert(number);
        }
        touched.retain(|number| !self.blocks[*number].live.contains(&true));
        let pieces = touched.iter().flat_map(|number| &self.blocks[*number].pieces);
        let dead: Vec<u32> = pieces.map(|piece| piece.number).collect();
        if !dead.is_empty() {
            core.release_all(&dead)?;
        }
        self.held -= dead.len() as u32;
        touched.iter().for_each(|number| self.blocks[*number].pieces.clear());
        Ok(())
    }

    /// Moves the contents of a block to another one; false if the range does not have it.
    pub(super) fn move_away<D: FlashDevice>(
        &mut self,
        core: &mut Core<D>,
        held: u32,
    ) -> Result<bool> {
        let has_it = |block: &LogicalBlock| block.pieces.iter().any(|piece| piece.number == held);
        let Some(number) = self.blocks.iter().position(has_it) else { return Ok(false) };
        self.complete(core, number)?;
        if self.blocks[number].pieces.iter().any(|piece| piece.number == held) {
            self.make_room(core, number)?;
            self.begin_piece(core, number)?;
            self.complete(core, number)?;
        }
        Ok(true)
    }

    /// A page that a replay finds.
    pub(super) fn replay<D>(
        &mut self,
        core: &Core<D>,
        page: u64,
        number: u32,
        at: u32,
        kind: Kind,
    ) {
        let (logical, expected) = split(core, page);
        if at != expected {
            return;
        }
        let block = &mut self.blocks[logical];
        if at == 0 {
            block.pieces.retain(|piece| piece.number != number);
            block.pieces.insert(0, Piece { number, pages: 0, is_closed: true });
        }
        let piece = block.pieces.iter_mut().find(|piece| piece.number == number);
        if let Some(piece) = piece.filter(|piece| piece.pages == at) {
            piece.pages += 1;
            block.live[at as usize] = kind == Kind::Data;
        }
    }

    /// A trim that a replay finds. Pieces stay until the end: which of them the trim gave back
    /// depends on older ones, which may be erased.
    pub(super) fn replay_trim<D>(&mut self, core: &Core<D>, first: u64, count: u64) {
        for page in first..first + count {
            let (number, at) = split(core, page);
            self.blocks[number].live[at as usize] = false;
        }
    }

    /// Drops pieces in a block that holds something else now.
    pub(super) fn forget_piece(&mut self, number: u32) {
        for block in &mut self.blocks {
            block.pieces.retain(|piece| piece.number != number);
        }
    }

    /// Drops covered pieces after a replay. `is_open(piece)` says whether a newest piece takes more
    /// pages. Returns the blocks of the others.
    pub(super) fn adopt(
        &mut self,
        mut is_open: impl FnMut(&Piece) -> Result<bool>,
    ) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for block in &mut self.blocks {
            if !block.live.contains(&true) {
                block.pieces.clear();
            }
            let mut most = 0;
            block.pieces.retain(|piece| {
                let is_covered = piece.pages <= most;
                most = most.max(piece.pages);
                !is_covered
            });
            if let Some(newest) = block.pieces.first_mut() {
                newest.is_closed = !is_open(newest)?;
            }
            all.extend(block.pieces.iter().map(|piece| piece.number));
        }
        self.held = all.len() as u32;
        Ok(all)
    }
}

impl LogicalBlock {
    /// The piece that has the contents of a page; `None` if it has none.
    fn piece_of(&self, at: u32) -> Option<Piece> {
        let is_live = self.live[at as usize];
        self.pieces.iter().copied().find(|piece| is_live && piece.pages > at)
    }
}

/// Logical block and page of it.
fn split<D>(core: &Core<D>, page: u64) -> (usize, u32) {
    let pages = u64::from(core.block_pages);
    ((page / pages) as usize, (page % pages) as u32)
}
