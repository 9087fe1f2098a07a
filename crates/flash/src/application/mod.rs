//! The raw level: an application's own device.

mod queue;

pub use queue::ApplicationQueue;

use crate::shared::{Shared, Slots};
use crate::table::Holding;
use silica_device::blocks::{
    Abilities, Append, BlockAddress, BlockStatus, FlashCounters, FlashDevice, FlashError,
    FlashFault, FlashResult, Geometry, PageAddress, Place,
};
use std::sync::{Arc, RwLockReadGuard};

/// The flash of one application: geometry, page read, page program and block erase, under
/// addresses of its own (003…, 3.4.2).
///
/// Channels that have none of its LUNs are not there, so the channels that it sees are numbered
/// from 0. If they do not all have equally many LUNs, the geometry has the most of any, and
/// addresses of LUNs that are missing are refused as `OutOfRange`; [`Application::blocks`] has
/// those that are there. A block that turned bad can be read until it is reset; then a spare one
/// stands in for it, whose erase count is its own.
pub struct Application<D: FlashDevice> {
    shared: Arc<Shared<D>>,
    name: String,
    over_provisioned: u32,
    slots: Arc<Slots>,
    geometry: Geometry,
    counters: FlashCounters,
}

impl<D: FlashDevice> Application<D> {
    /// Opens what `holding` says; `slots` are of its LUNs.
    pub(crate) fn new(shared: Arc<Shared<D>>, holding: &Holding, slots: Arc<Slots>) -> Self {
        let geometry = Geometry {
            channels: slots.len() as u32,
            luns: slots.iter().map(Vec::len).max().unwrap_or(0) as u32,
            blocks: shared.visible,
            ..*shared.device.geometry()
        };
        let (name, over_provisioned) = (holding.name.clone(), holding.over_provisioned);
        let counters = FlashCounters::new(&geometry);
        Application { shared, name, over_provisioned, slots, geometry, counters }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// LUNs that it has in a channel; 0 for channels that it does not have.
    pub fn lun_count(&self, channel: u16) -> u32 {
        self.slots.get(usize::from(channel)).map_or(0, |luns| luns.len() as u32)
    }

    /// LUNs that are over-provisioning, of all that it has.
    pub fn over_provisioned_luns(&self) -> u32 {
        self.over_provisioned
    }

    /// Bytes of its blocks, over-provisioning included.
    pub fn capacity_bytes(&self) -> u64 {
        self.slots.iter().flatten().count() as u64
            * u64::from(self.geometry.blocks)
            * self.geometry.block_bytes()
    }

    /// Addresses of all its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = BlockAddress> {
        let is_there = |block: &BlockAddress| u32::from(block.lun) < self.lun_count(block.channel);
        self.geometry.all_blocks().filter(is_there)
    }

    /// Number of the LUN on the device that has `block`. It stays the same while the guard lives.
    #[inline]
    fn lun_of(&self, block: BlockAddress) -> FlashResult<RwLockReadGuard<'_, u32>> {
        let luns = self.slots.get(usize::from(block.channel));
        let lun = luns.and_then(|luns| luns.get(usize::from(block.lun)));
        match lun.filter(|_| block.block < self.geometry.blocks) {
            Some(lun) => Ok(lun.read().expect("nobody panics while a LUN is moved")),
            None => Err(FlashError::new(FlashFault::OutOfRange, block)),
        }
    }

    /// Where `block` lies on the device, while the guard lives.
    #[inline]
    fn place(&self, block: BlockAddress) -> FlashResult<(BlockAddress, RwLockReadGuard<'_, u32>)> {
        let lun = self.lun_of(block)?;
        Ok((self.shared.place(*lun, block.block), lun))
    }

    /// The error of an operation on `block`, with the application's address.
    #[cold]
    fn failed(&self, block: BlockAddress, error: FlashError) -> FlashError {
        if matches!(
            error.fault(),
            FlashFault::ProgramFailed
                | FlashFault::EraseFailed
                | FlashFault::WornOut
                | FlashFault::Uncorrectable
        ) {
            self.counters.add_failures(block, 1);
        }
        match error.place() {
            Place::Page(page) => error.moved_to(block.page(page.page)),
            Place::Block(_) => error.moved_to(block),
            Place::Device => error,
        }
    }

    /// Pages in `bytes`.
    fn page_count(&self, bytes: usize) -> u64 {
        // A division of 32 bits is several times as fast; buffers are no longer than a block.
        match u32::try_from(bytes) {
            Ok(bytes) => u64::from(bytes / self.geometry.page_bytes),
            Err(_) => bytes as u64 / u64::from(self.geometry.page_bytes),
        }
    }
}

impl<D: FlashDevice> FlashDevice for Application<D> {
    type Queue<'d, T> = ApplicationQueue<'d, D, T>;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn abilities(&self) -> &Abilities {
        self.shared.device.abilities()
    }

    fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        let (place, _lun) = self.place(block)?;
        self.shared.device.block(place).map_err(|error| self.failed(block, error))
    }

    #[inline]
    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        let (place, _lun) = self.place(first.block)?;
        let result = self.shared.device.read(place.page(first.page), pages, spare);
        result.map_err(|error| self.failed(first.block, error))?;
        self.counters.add_reads(first.block, self.page_count(pages.len()));
        Ok(())
    }

    #[inline]
    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        let (place, _lun) = self.place(append.block)?;
        let result = self.shared.device.append(&Append { block: place, ..*append });
        let first = result.map_err(|error| self.failed(append.block, error))?;
        self.counters.add_programs(append.block, self.page_count(append.pages.len()));
        Ok(first)
    }

    fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        let (place, _lun) = self.place(block)?;
        self.shared.device.finish(place).map_err(|error| self.failed(block, error))
    }

    /// As [`FlashDevice::reset`]. If the block is bad, a spare one stands in for it. In a queue,
    /// appends that were pushed before such a reset was popped still meet the bad block.
    ///
    /// # Errors
    /// `BadBlock`, `EraseFailed` and `WornOut` if the LUN has no spare block left.
    fn reset(&self, block: BlockAddress) -> FlashResult<()> {
        let lun = self.lun_of(block)?;
        let result = self.shared.reset(*lun, block.block);
        result.map_err(|error| self.failed(block, error))?;
        self.counters.add_erases(block, 1);
        Ok(())
    }

    fn retire(&self, block: BlockAddress) -> FlashResult<()> {
        let (place, _lun) = self.place(block)?;
        self.shared.device.retire(place).map_err(|error| self.failed(block, error))
    }

    fn sync(&self) -> FlashResult<()> {
        self.shared.device.sync()?;
        self.counters.add_sync();
        Ok(())
    }

    fn queue<T>(&self, depth: usize) -> ApplicationQueue<'_, D, T> {
        ApplicationQueue::new(self, depth)
    }

    fn counters(&self) -> &FlashCounters {
        &self.counters
    }
}

impl<D: FlashDevice> Drop for Application<D> {
    fn drop(&mut self) {
        self.shared.close(&self.name);
    }
}
