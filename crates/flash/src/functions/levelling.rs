//! Swaps of the hottest and the coldest block.

use super::{Functions, Mapping};
use crate::functions::pool::Use;
use silica_base::{AlignedBuf, Result};
use silica_device::blocks::{
    Append, BlockAddress, BlockState, FlashDevice, FlashError, FlashResult,
};

/// How far the erases of held blocks are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wear {
    /// The held block with the most erases.
    pub hottest: BlockAddress,
    /// The held block with the fewest erases.
    pub coldest: BlockAddress,
    /// Erases of the hottest less those of the coldest.
    pub spread: u64,
}

/// What [`Functions::level_wear`] did.
#[derive(Debug)]
pub struct WearSwap {
    /// The two blocks, and their spread before the swap.
    pub wear: Wear,
    /// Where contents lie now: from, to. Two entries after a whole swap; the caller changes its
    /// mapping by them. Blocks that appear as `from` and not as `to` are not held any more.
    pub moved: Vec<(BlockAddress, BlockAddress)>,
    /// Why the swap ended before it was whole, if it did. What `moved` says holds nevertheless.
    pub stopped: Option<FlashError>,
}

impl<D: FlashDevice> Functions<D> {
    /// The hottest and the coldest of the blocks that the caller holds and that can be moved, or
    /// `None` if there are fewer than two. Costs no I/O, and a look at every block.
    ///
    /// # Errors
    /// `PowerLost`.
    pub fn wear(&self) -> FlashResult<Option<Wear>> {
        let mut held: Vec<(u64, BlockAddress)> = Vec::new();
        for block in self.geometry.all_blocks() {
            if !matches!(self.uses.of(block)?, Use::Pages | Use::Whole) {
                continue;
            }
            let status = self.device.block(block)?;
            if matches!(status.state, BlockState::Open | BlockState::Full) {
                held.push((status.erases, block));
            }
        }
        let (Some(coldest), Some(hottest)) = (held.iter().min(), held.iter().max()) else {
            return Ok(None);
        };
        let spread = hottest.0 - coldest.0;
        let wear = Wear { hottest: hottest.1, coldest: coldest.1, spread };
        Ok((hottest.1 != coldest.1).then_some(wear))
    }

    /// Swaps the contents of the hottest and the coldest block that the caller holds (003…,
    /// 3.4.3), by way of a free block, which may be one of the over-provisioning. Nothing else
    /// may read or write the two blocks meanwhile. Does nothing (`moved` is empty) if all held
    /// blocks have seen equally many erases; `None` if fewer than two blocks hold pages.
    ///
    /// Costs three copies of a block, two erases in the foreground and one in the background.
    ///
    /// A crash in the middle loses no page, and may leave contents at another address than the
    /// caller's mapping says: in one of the two blocks or in a third one, twice perhaps. Every
    /// copy is a prefix of its original, so a caller that knows blocks by what their first page
    /// says takes, of two that begin alike, the one with more pages that can be read, and trims
    /// the other. A caller that knows blocks only by their address must not call this.
    ///
    /// # Errors
    /// `Full` if no block is free, `Corruption` if a page of the coldest block cannot be read,
    /// and what the device said about the first copy: nothing was moved. What goes wrong later is
    /// told in [`WearSwap::stopped`].
    pub fn level_wear(&self) -> Result<Option<WearSwap>> {
        let Some(wear) = self.wear()? else { return Ok(None) };
        let mut swap = WearSwap { wear, moved: Vec::new(), stopped: None };
        if wear.spread == 0 {
            return Ok(Some(swap));
        }
        let helper = self.allocate_reserved(self.channel_for_copy(wear.coldest), Mapping::Page)?;
        let helper = helper.block;
        if let Err(error) = self.copy_block(wear.coldest, helper) {
            self.trim(helper)?;
            return Err(error.into());
        }
        self.count(|statistics| statistics.swaps += 1);
        swap.stopped = self.swap_behind(&mut swap, helper).err();
        Ok(Some(swap))
    }

    /// Goes on when the coldest block's contents lie in `helper`, too.
    fn swap_behind(&self, swap: &mut WearSwap, helper: BlockAddress) -> FlashResult<()> {
        let Wear { hottest, coldest, .. } = swap.wear;
        // Pages written to the helper later must be welcome as they were in the original.
        self.take_over(coldest, helper);
        swap.moved.push((coldest, helper));
        if !self.erase_held(coldest)? {
            return Ok(());
        }
        if let Err(error) = self.copy_block(hottest, coldest) {
            self.trim(coldest)?;
            return Err(error);
        }
        self.take_over(hottest, coldest);
        swap.moved.push((hottest, coldest));
        if !self.erase_held(hottest)? {
            return Ok(());
        }
        if let Err(error) = self.copy_block(helper, hottest) {
            self.trim(hottest)?;
            return Err(error);
        }
        self.take_over(helper, hottest);
        swap.moved[0] = (coldest, hottest);
        self.trim(helper)
    }

    /// A channel that has a block for a copy: that of `block` if it can be.
    fn channel_for_copy(&self, block: BlockAddress) -> u16 {
        let has_some = |channel: &u16| self.pool().to_be_had(*channel) > 0;
        let mut channels = 0..self.geometry.channels as u16;
        match has_some(&block.channel) {
            true => block.channel,
            false => channels.find(has_some).unwrap_or(block.channel),
        }
    }

    /// Copies all pages of a block, spare bytes included, to an erased one, and syncs.
    fn copy_block(&self, from: BlockAddress, to: BlockAddress) -> FlashResult<()> {
        let status = self.device.block(from)?;
        let mut page = AlignedBuf::zeroed(self.geometry.page_bytes as usize);
        let mut spare = vec![0; self.geometry.spare_bytes as usize];
        for number in 0..status.written {
            self.device.read(from.page(number), &mut page, &mut spare)?;
            self.device.append(&Append {
                block: to,
                expected: Some(number),
                stream: 0,
                pages: &page,
                spare: &spare,
            })?;
        }
        if status.state == BlockState::Full {
            self.device.finish(to)?;
        }
        self.count(|statistics| statistics.pages_swapped += u64::from(status.written));
        self.device.sync()
    }
}
