//! The function level: free blocks, erases in the background and loads of channels are its
//! business.

use super::{Flash, PageRead, Shape};
use silica_base::{ErrorKind, Result};
use silica_device::blocks::{Append, FlashDevice, FlashQueue, FlashResult, Operation, Request};
use silica_flash::functions::{Functions, Mapping};

/// Reads in flight at most.
const READS_MAX: usize = 64;
/// Blocks that are erased at once while there is time.
const ERASES: u32 = 16;

/// The function level of a flash library (003…, 3.4.3).
pub struct FunctionFlash<D> {
    functions: Functions<D>,
    held: Vec<u32>,
}

impl<D: FlashDevice> FunctionFlash<D> {
    /// Claims all that was found on the flash: the cache keeps it or gives it back.
    ///
    /// # Errors
    /// Those of [`Functions::claim`].
    pub fn new(functions: Functions<D>) -> FlashResult<Self> {
        let mut held = Vec::new();
        for block in functions.found() {
            functions.claim(block, Mapping::Page)?;
            held.push(functions.geometry().index_of(block));
        }
        Ok(FunctionFlash { functions, held })
    }
}

impl<D: FlashDevice> Flash for FunctionFlash<D> {
    fn shape(&self) -> Shape {
        let geometry = self.functions.geometry();
        Shape {
            channels: geometry.channels,
            slabs: geometry.block_count(),
            pages: geometry.pages,
            page_bytes: geometry.page_bytes,
        }
    }

    fn free(&self) -> u32 {
        (0..self.shape().channels).map(|channel| self.functions.free(channel as u16)).sum()
    }

    fn usable(&self) -> u32 {
        self.functions.statistics().usable
    }

    fn channel_of(&self, block: u32) -> u32 {
        u32::from(self.functions.geometry().block_at(block).channel)
    }

    fn loads(&self) -> Vec<u64> {
        self.functions.age_loads();
        (0..self.shape().channels).map(|channel| self.functions.load(channel as u16)).collect()
    }

    fn take(&self, channel: u32) -> Result<Option<u32>> {
        match self.functions.allocate(channel as u16, Mapping::Page) {
            Ok(given) => Ok(Some(self.functions.geometry().index_of(given.block))),
            Err(error) if error.kind() == ErrorKind::Full => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn take_worn(&self) -> Result<Option<u32>> {
        let given = self.functions.allocate_worn(Mapping::Page);
        Ok(given.map(|given| self.functions.geometry().index_of(given.block)))
    }

    fn program(&self, block: u32, first: u32, stream: u16, pages: &[u8]) -> FlashResult<()> {
        let block = self.functions.geometry().block_at(block);
        let append = Append { block, expected: Some(first), stream, pages, spare: &[] };
        self.functions.write(&append).map(drop)
    }

    fn give_back(&self, block: u32) -> Result<()> {
        Ok(self.functions.trim(self.functions.geometry().block_at(block))?)
    }

    fn read(&self, block: u32, first: u32, pages: &mut [u8]) -> FlashResult<()> {
        let page = self.functions.geometry().block_at(block).page(first);
        self.functions.read(page, pages, &mut [])
    }

    fn read_many(&self, reads: Vec<PageRead>, done: &mut dyn FnMut(PageRead, FlashResult<()>)) {
        let mut queue = self.functions.queue(READS_MAX);
        let mut reads = reads.into_iter();
        loop {
            while !queue.is_full()
                && let Some(PageRead { of, block, first, pages }) = reads.next()
            {
                let page = self.functions.geometry().block_at(block).page(first);
                let (of, request) = ((of, block, first), Request::Read { first: page });
                queue.push(Operation { of, request, pages, spare: Vec::new() });
            }
            let Some((Operation { of, pages, .. }, result)) = queue.pop() else { return };
            let (of, block, first) = of;
            done(PageRead { of, block, first, pages }, result.map(drop));
        }
    }

    fn erases(&self, block: u32) -> u64 {
        self.functions.erases(self.functions.geometry().block_at(block)).unwrap_or(0)
    }

    fn held(&self) -> Vec<u32> {
        self.held.clone()
    }

    fn sync(&self) -> Result<()> {
        Ok(self.functions.sync()?)
    }

    fn tend(&self) -> Result<()> {
        self.functions.erase_pending(ERASES).map(drop)
    }
}
