//! What the cache asks of flash: blocks that are written once as a whole, read by page, and given
//! back. Each level of the flash library is a thin adapter to it.

mod function;
mod policy;
mod raw;

pub use function::FunctionFlash;
pub use policy::PolicyFlash;
pub use raw::RawFlash;

use silica_base::{AlignedBuf, Result};
use silica_device::blocks::FlashResult;

/// How the flash is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Channels, among which slabs are spread.
    pub channels: u32,
    /// Blocks that a slab can be in, bad ones included.
    pub slabs: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

impl Shape {
    /// Bytes of a block.
    pub fn slab_bytes(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page_bytes)
    }
}

/// Pages to be read: as many as the buffer has.
#[derive(Debug)]
pub struct PageRead {
    /// What they are for.
    pub of: usize,
    /// The block, by its number.
    pub block: u32,
    /// The first page.
    pub first: u32,
    /// Where they go.
    pub pages: AlignedBuf,
}

/// Flash, as the cache uses it. Blocks have numbers from 0 on.
pub trait Flash: Send + Sync + 'static {
    /// How it is divided.
    fn shape(&self) -> Shape;
    /// Blocks that can be taken now, in all channels.
    fn free(&self) -> u32;
    /// Blocks that can be taken or are taken: all that are not bad.
    fn usable(&self) -> u32;
    /// The channel of a block.
    fn channel_of(&self, block: u32) -> u32;
    /// What each channel has to do, by reads, programs and erases (003…, 2.4.1): the less, the
    /// better is a block in it.
    fn loads(&self) -> Vec<u64>;
    /// Takes an erased block of a channel, of several the one with the fewest erases; `None` if
    /// the channel has none.
    ///
    /// # Errors
    /// `Closed`, `Io`.
    fn take(&self, channel: u32) -> Result<Option<u32>>;
    /// Takes the erased block of all channels with the most erases, for what stays long: the block
    /// rests. `None` if there is none.
    ///
    /// # Errors
    /// `Closed`, `Io`.
    fn take_worn(&self) -> Result<Option<u32>>;
    /// Programs pages of a block that was taken, the first one being `first`. Blocks with the same
    /// `stream` are expected to die together; 0 if nothing is known.
    ///
    /// # Errors
    /// Those of [`append`](silica_device::blocks::FlashDevice::append). After `ProgramFailed` the
    /// block is to be given back.
    fn program(&self, block: u32, first: u32, stream: u16, pages: &[u8]) -> FlashResult<()>;
    /// Gives a block back, to be erased. One that cannot be is bad and leaves
    /// [`Flash::usable`].
    ///
    /// # Errors
    /// `Closed`, `Io`.
    fn give_back(&self, block: u32) -> Result<()>;
    /// Reads pages, as many as the buffer has.
    ///
    /// # Errors
    /// Those of [`read`](silica_device::blocks::FlashDevice::read).
    fn read(&self, block: u32, first: u32, pages: &mut [u8]) -> FlashResult<()>;
    /// Makes all `reads` at the same time, and calls `done` with each as it ends.
    fn read_many(&self, reads: Vec<PageRead>, done: &mut dyn FnMut(PageRead, FlashResult<()>));
    /// Erases of a block so far.
    fn erases(&self, block: u32) -> u64;
    /// When it was opened: the blocks that have pages. Each is kept or given back by its owner.
    fn held(&self) -> Vec<u32>;
    /// Makes everything that returned survive a power cut.
    ///
    /// # Errors
    /// `Io`, `Poisoned`.
    fn sync(&self) -> Result<()>;
    /// Placement streams that the drive keeps apart, and bytes written with one.
    fn streams(&self) -> (u16, u64) {
        (0, 0)
    }
    /// Does what is waiting, such as erases: called whenever there is time.
    ///
    /// # Errors
    /// `Closed`, `Io`.
    fn tend(&self) -> Result<()> {
        Ok(())
    }
}
