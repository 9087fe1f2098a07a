//! What all ranges share: pages with headers, sequences, trims that are not written yet, and the
//! meta blocks.

use super::PolicyStatistics;
use super::page::{HEADER_BYTES, Header, Kind};
use crate::functions::{Functions, Mapping};
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use silica_device::blocks::{
    Append, BlockAddress, BlockState, FlashDevice, FlashError, FlashFault, FlashQueue, FlashResult,
    Operation, Request,
};

/// Bytes of an entry of a page of trims.
const TRIM_BYTES: usize = 24;
/// Dead blocks that wait for a sync that they can share: one sync for each took most of the time of
/// writing a range over.
const DEAD_MAX: usize = 8;
/// Reads under way together at most: a few for each LUN of a large drive.
const READS_AT_ONCE: usize = 64;

/// A block that is being written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frontier {
    pub(super) number: u32,
    /// Page that is written next.
    pub(super) next: u32,
}

/// Logical pages that are to be read, which lie behind each other in a block.
pub(super) struct Place<'a> {
    pub(super) number: u32,
    pub(super) at: u32,
    pub(super) logical: u64,
    pub(super) out: &'a mut [u8],
}

/// A page to be written.
pub(super) struct NewPage<'a> {
    pub(super) kind: Kind,
    pub(super) part: u32,
    pub(super) logical: u64,
    /// Empty for holes.
    pub(super) data: &'a [u8],
}

/// What became of an append.
pub(super) struct Appended {
    /// Pages that are there.
    pub(super) written: u32,
    /// Why the others are not; the block takes no more.
    pub(super) refused: Option<FlashError>,
}

impl Appended {
    /// The error, unless it is the block's and another block will do.
    pub(super) fn fatal(self) -> Result<()> {
        match self.refused {
            Some(error) if !is_bad(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// True if the block, and not the device, took no page.
fn is_bad(error: &FlashError) -> bool {
    matches!(error.fault(), FlashFault::ProgramFailed | FlashFault::BadBlock)
}

/// A trim, which counts at its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trim {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) sequence: u64,
}

/// See [the module](self).
pub(super) struct Core<D> {
    pub(super) functions: Functions<D>,
    pub(super) device: u64,
    /// The next sequence.
    pub(super) sequence: u64,
    /// Pages that every block takes.
    pub(super) block_pages: u32,
    /// Bytes of data of a page.
    pub(super) data_bytes: usize,
    pub(super) has_spare: bool,
    /// Trims since the last page of trims.
    pub(super) trims: Vec<Trim>,
    /// Blocks of trims and checkpoints, the oldest first.
    pub(super) meta: Vec<u32>,
    meta_frontier: Option<Frontier>,
    /// Blocks whose pages newer ones have made dead. They go back after the next sync.
    dead: Vec<u32>,
    pub(super) statistics: PolicyStatistics,
    /// Pages written since the last checkpoint.
    pub(super) since_checkpoint: u64,
    /// Blocks with many erases are taken first: their contents will rest.
    pub(super) takes_worn: bool,
}

impl<D: FlashDevice> Core<D> {
    pub(super) fn new(functions: Functions<D>, device: u64) -> Result<Self> {
        let geometry = *functions.geometry();
        let has_spare = geometry.spare_bytes as usize >= HEADER_BYTES;
        let page_bytes = geometry.page_bytes as usize;
        let capacity = |block| functions.block(block).map(|status| status.capacity);
        let capacities = geometry.all_blocks().filter_map(|block| capacity(block).ok());
        let block_pages = capacities.min().unwrap_or(geometry.pages);
        if u64::from(geometry.block_count()) * u64::from(block_pages) >= u64::from(u32::MAX) {
            let message = format!(
                "the policy level numbers pages with 32 bits, and {geometry} has more; share the \
                 device among applications"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Core {
            functions,
            device,
            sequence: 1,
            block_pages,
            data_bytes: if has_spare { page_bytes } else { page_bytes - HEADER_BYTES },
            has_spare,
            trims: Vec::new(),
            meta: Vec::new(),
            meta_frontier: None,
            dead: Vec::new(),
            statistics: PolicyStatistics::default(),
            since_checkpoint: 0,
            takes_worn: false,
        })
    }

    pub(super) fn address(&self, number: u32) -> BlockAddress {
        self.functions.geometry().block_at(number)
    }

    /// A block to write to.
    pub(super) fn allocate(&mut self) -> Result<Frontier> {
        match self.take_block() {
            Err(error) if error.kind() == ErrorKind::Full && !self.dead.is_empty() => {
                self.give_back_dead()?;
                self.take_block()
            }
            result => result,
        }
    }

    fn take_block(&mut self) -> Result<Frontier> {
        if self.takes_worn
            && let Some(given) = self.functions.allocate_worn(Mapping::Page)
        {
            let number = self.functions.geometry().index_of(given.block);
            return Ok(Frontier { number, next: 0 });
        }
        let channel = self.functions.idlest_channel().unwrap_or(0);
        let given = self.functions.allocate_reserved(channel, Mapping::Page);
        let given = given.map_err(|error| match error.kind() {
            ErrorKind::Full => {
                let statistics = self.functions.statistics();
                error.within(format!(
                    "the policy level has no spare block left ({} blocks, {} lost since it was \
                     opened); trim pages, or copy them to another device",
                    statistics.usable, statistics.lost
                ))
            }
            _ => error,
        })?;
        Ok(Frontier { number: self.functions.geometry().index_of(given.block), next: 0 })
    }

    /// Appends pages, as many as there are; they fit. Advances the frontier.
    ///
    /// # Errors
    /// `Closed` if the power is off; other errors are part of the result.
    pub(super) fn append(
        &mut self,
        frontier: &mut Frontier,
        pages: &[NewPage<'_>],
    ) -> Result<Appended> {
        let geometry = *self.functions.geometry();
        let (page_bytes, spare_bytes) =
            (geometry.page_bytes as usize, geometry.spare_bytes as usize);
        let mut bytes = AlignedBuf::zeroed(pages.len() * page_bytes);
        let mut spare = vec![0; if self.has_spare { pages.len() * spare_bytes } else { 0 }];
        let first_sequence = self.sequence;
        for (at, page) in pages.iter().enumerate() {
            let header = Header {
                kind: page.kind,
                part: page.part,
                logical: page.logical,
                sequence: first_sequence + at as u64,
                device: self.device,
            };
            let whole = &mut bytes[at * page_bytes..][..page_bytes];
            if self.has_spare {
                whole[..page.data.len()].copy_from_slice(page.data);
                header.put(whole, &mut spare[at * spare_bytes..][..spare_bytes]);
            } else {
                let (head, data) = whole.split_at_mut(HEADER_BYTES);
                data[..page.data.len()].copy_from_slice(page.data);
                header.put(data, head);
            }
        }
        let block = self.address(frontier.number);
        let expected = Some(frontier.next);
        let append = Append { block, expected, stream: 0, pages: &bytes, spare: &spare };
        let appended = match self.functions.write(&append) {
            Ok(_) => Appended { written: pages.len() as u32, refused: None },
            Err(error) if error.fault() == FlashFault::PowerLost => return Err(error.into()),
            Err(error) => {
                let there = self.functions.block(block)?.written.saturating_sub(frontier.next);
                Appended { written: there.min(pages.len() as u32), refused: Some(error) }
            }
        };
        // A page that failed has its sequence, too.
        self.sequence += pages.len() as u64;
        self.since_checkpoint += u64::from(appended.written);
        frontier.next += appended.written;
        Ok(appended)
    }

    /// Reads a page: its header and data. `None` if it cannot be read, or is no page of this level.
    pub(super) fn read(&self, number: u32, page: u32, out: &mut [u8]) -> Result<Option<Header>> {
        let geometry = self.functions.geometry();
        let place = self.address(number).page(page);
        let unless_torn = |error: FlashError| match error.fault() {
            FlashFault::Uncorrectable => Ok(()),
            _ => Err(Error::from(error)),
        };
        if self.has_spare {
            let mut spare = vec![0; geometry.spare_bytes as usize];
            return match self.functions.read(place, out, &mut spare) {
                Ok(()) => Header::of(&spare, out),
                Err(error) => unless_torn(error).map(|()| None),
            };
        }
        let mut whole = AlignedBuf::zeroed(geometry.page_bytes as usize);
        match self.functions.read(place, &mut whole, &mut []) {
            Ok(()) => {
                let (head, data) = whole.split_at(HEADER_BYTES);
                out.copy_from_slice(data);
                Header::of(head, data)
            }
            Err(error) => unless_torn(error).map(|()| None),
        }
    }

    /// Reads the data of logical pages that lie behind each other in a block, with one call to the
    /// device. False if that is not possible: pages have headers between them, or one of them
    /// cannot be read or is another one, which reading them one by one finds out.
    pub(super) fn read_run(
        &self,
        number: u32,
        at: u32,
        logical: u64,
        out: &mut [u8],
    ) -> Result<bool> {
        if !self.has_spare {
            return Ok(false);
        }
        let spare_bytes = self.functions.geometry().spare_bytes as usize;
        let mut spare = vec![0; out.len() / self.data_bytes * spare_bytes];
        match self.functions.read(self.address(number).page(at), out, &mut spare) {
            Ok(()) => {}
            Err(error) if error.fault() == FlashFault::Uncorrectable => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let pages = spare.chunks_exact(spare_bytes).zip(out.chunks_exact(self.data_bytes));
        for ((head, data), logical) in pages.zip(logical..) {
            let found = Header::of(head, data)?;
            let is_data = |header: Header| header.kind == Kind::Data && header.logical == logical;
            if !found.is_some_and(is_data) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the data of logical pages, as many at the same time as the device can.
    ///
    /// # Errors
    /// As [`Core::read_data`], about the first page that was refused.
    pub(super) fn read_places(&self, mut places: Vec<Place<'_>>) -> Result<()> {
        if let [place] = &mut places[..] {
            return match self.read_run(place.number, place.at, place.logical, place.out)? {
                true => Ok(()),
                false => self.read_one_by_one(place),
            };
        }
        let geometry = self.functions.geometry();
        let mut queue = self.functions.queue(READS_AT_ONCE);
        let mut refused = None;
        let mut places = places.into_iter();
        loop {
            while refused.is_none() && !queue.is_full() {
                let Some(place) = places.next() else { break };
                let request = Request::Read { first: self.address(place.number).page(place.at) };
                let count = place.out.len() / self.data_bytes;
                let pages = AlignedBuf::zeroed(count * geometry.page_bytes as usize);
                let spare_bytes = if self.has_spare { geometry.spare_bytes as usize } else { 0 };
                let spare = vec![0; count * spare_bytes];
                queue.push(Operation { of: place, request, pages, spare });
            }
            let Some((operation, result)) = queue.pop() else { break };
            if let Err(error) = self.deliver(operation, result) {
                refused = Some(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Reads pages of a block one after the other, to find which of them is refused.
    fn read_one_by_one(&self, place: &mut Place<'_>) -> Result<()> {
        let pages = place.out.chunks_exact_mut(self.data_bytes);
        for ((out, at), logical) in pages.zip(place.at..).zip(place.logical..) {
            self.read_data(place.number, at, logical, out)?;
        }
        Ok(())
    }

    /// Checks pages that were read, and hands their data out.
    fn deliver(&self, read: Operation<Place<'_>>, result: FlashResult<u32>) -> Result<()> {
        let Operation { of: mut place, pages, spare, .. } = read;
        match result {
            Ok(_) => {}
            Err(error) if error.fault() == FlashFault::Uncorrectable => {
                return self.read_one_by_one(&mut place);
            }
            Err(error) => return Err(error.into()),
        }
        let geometry = self.functions.geometry();
        let (page_bytes, spare_bytes) =
            (geometry.page_bytes as usize, geometry.spare_bytes as usize);
        let outs = place.out.chunks_exact_mut(self.data_bytes).zip(pages.chunks_exact(page_bytes));
        for (i, (out, page)) in outs.enumerate() {
            let (head, data) = match self.has_spare {
                true => (&spare[i * spare_bytes..][..spare_bytes], page),
                false => page.split_at(HEADER_BYTES),
            };
            out.copy_from_slice(data);
            let found = Header::of(head, data)?;
            self.is_expected(found, place.number, place.at + i as u32, place.logical + i as u64)?;
        }
        Ok(())
    }

    /// Reads the data of a logical page that lies here.
    ///
    /// # Errors
    /// `Corruption` if it cannot be read, or is another one.
    pub(super) fn read_data(
        &self,
        number: u32,
        page: u32,
        logical: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let found = self.read(number, page, out)?;
        self.is_expected(found, number, page, logical)
    }

    /// Refuses a page that is not the data of `logical`.
    fn is_expected(
        &self,
        found: Option<Header>,
        number: u32,
        page: u32,
        logical: u64,
    ) -> Result<()> {
        if found.is_some_and(|header| header.kind == Kind::Data && header.logical == logical) {
            return Ok(());
        }
        let place = self.address(number).page(page);
        let what = if found.is_some() { "is another one" } else { "cannot be read" };
        let message =
            format!("logical page {logical} {what} where it lies, at {place}; write it again");
        Err(Error::new(ErrorKind::Corruption, message))
    }

    /// Gives a block back whose pages are all dead, after a sync.
    pub(super) fn release(&mut self, number: u32) -> Result<()> {
        self.release_all(&[number])
    }

    /// Gives blocks back whose pages are all dead, after a sync.
    pub(super) fn release_all(&mut self, numbers: &[u32]) -> Result<()> {
        self.settle()?;
        numbers.iter().try_for_each(|number| Ok(self.functions.trim(self.address(*number))?))
    }

    /// Gives a closed block back whose pages newer ones have made dead, after a later sync.
    pub(super) fn release_soon(&mut self, number: u32) -> Result<()> {
        self.dead.push(number);
        if self.dead.len() < DEAD_MAX { Ok(()) } else { self.give_back_dead() }
    }

    /// Syncs, and gives the blocks back that waited for it.
    fn give_back_dead(&mut self) -> Result<()> {
        self.functions.sync()?;
        while let Some(number) = self.dead.pop() {
            self.functions.trim(self.address(number))?;
        }
        Ok(())
    }

    /// Writes the trims and syncs: what is dead stays dead.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.write_trims()?;
        self.give_back_dead()
    }

    fn write_trims(&mut self) -> Result<()> {
        let per_page = self.data_bytes / TRIM_BYTES;
        while !self.trims.is_empty() {
            let count = self.trims.len().min(per_page);
            let mut data = Vec::with_capacity(count * TRIM_BYTES);
            for trim in &self.trims[..count] {
                data.extend_from_slice(&trim.first.to_le_bytes());
                data.extend_from_slice(&trim.count.to_le_bytes());
                data.extend_from_slice(&trim.sequence.to_le_bytes());
            }
            self.append_meta(&NewPage {
                kind: Kind::Trims,
                part: 0,
                logical: count as u64,
                data: &data,
            })?;
            self.trims.drain(..count);
        }
        Ok(())
    }

    /// The entries of a page of trims.
    pub(super) fn trims_of(header: &Header, data: &[u8]) -> Vec<Trim> {
        let number =
            |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes of an entry"));
        let entries = data.chunks_exact(TRIM_BYTES).take(header.logical as usize);
        entries
            .map(|entry| Trim {
                first: number(&entry[..8]),
                count: number(&entry[8..16]),
                sequence: number(&entry[16..]),
            })
            .collect()
    }

    /// Notes a trim, which lasts when it is settled.
    pub(super) fn note_trim(&mut self, first: u64, count: u64) {
        self.trims.push(Trim { first, count, sequence: self.sequence });
        self.sequence += 1;
    }

    /// Writes a page to the meta blocks.
    pub(super) fn append_meta(&mut self, page: &NewPage<'_>) -> Result<()> {
        loop {
            let mut frontier = match self.meta_frontier {
                Some(frontier) => frontier,
                None => {
                    let frontier = self.allocate()?;
                    self.meta.push(frontier.number);
                    frontier
                }
            };
            let page = NewPage { ..*page };
            let appended = self.append(&mut frontier, &[page])?;
            let is_open = appended.refused.is_none() && frontier.next < self.block_pages;
            self.meta_frontier = is_open.then_some(frontier);
            if appended.written == 1 {
                self.statistics.pages_of_mapping += 1;
                self.close_if_full(&frontier)?;
                return Ok(());
            }
            appended.fatal()?;
        }
    }

    /// Begins another meta block with the next page.
    pub(super) fn leave_meta_block(&mut self) -> Result<()> {
        match self.meta_frontier.take() {
            Some(frontier) => self.finish(frontier.number),
            None => Ok(()),
        }
    }

    /// Closes a block that has all pages that blocks of this level have, and perhaps room for more.
    pub(super) fn close_if_full(&self, frontier: &Frontier) -> Result<()> {
        if frontier.next == self.block_pages { self.finish(frontier.number) } else { Ok(()) }
    }

    /// Closes a block; does nothing if it is bad or full.
    pub(super) fn finish(&self, number: u32) -> Result<()> {
        let block = self.address(number);
        match self.functions.block(block)?.state {
            BlockState::Open => Ok(self.functions.finish(block)?),
            _ => Ok(()),
        }
    }
}
