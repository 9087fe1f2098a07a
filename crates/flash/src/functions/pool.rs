//! What each block is used for, and which one is handed out next.

use super::{Mapping, OverProvisioning};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::{BlockAddress, FlashError, FlashFault, FlashResult, Geometry};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};

/// What a block is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Use {
    /// The device has no such block, or it failed and no spare one stands in for it.
    Gone,
    /// Erased; it may be handed out.
    Free,
    /// It waits to be erased.
    Waiting,
    /// A thread erases it.
    Erasing,
    /// It had pages when the device was opened, and nobody claimed it.
    Found,
    /// The caller holds it and writes it page by page.
    Pages,
    /// The caller holds it and writes it as a whole.
    Whole,
}

const USES: [Use; 7] =
    [Use::Gone, Use::Free, Use::Waiting, Use::Erasing, Use::Found, Use::Pages, Use::Whole];

impl Use {
    /// True if the caller may read the block.
    fn is_held(self) -> bool {
        matches!(self, Use::Found | Use::Pages | Use::Whole)
    }
}

/// The use of every block, to be read without a lock. Whoever changes one holds the pool's lock.
pub(super) struct Uses {
    geometry: Geometry,
    uses: Box<[AtomicU8]>,
}

impl Uses {
    pub(super) fn new(geometry: Geometry) -> Self {
        let uses = (0..geometry.block_count()).map(|_| AtomicU8::new(Use::Gone as u8)).collect();
        Uses { geometry, uses }
    }

    #[inline]
    pub(super) fn of(&self, block: BlockAddress) -> FlashResult<Use> {
        if !self.geometry.contains(block) {
            return Err(FlashError::new(FlashFault::OutOfRange, block));
        }
        // Relaxed: the use says who may call, and orders nothing.
        let number = self.uses[self.geometry.index_of(block) as usize].load(Ordering::Relaxed);
        Ok(USES[usize::from(number)])
    }

    /// Refuses a block that the caller does not hold.
    #[inline]
    pub(super) fn held(&self, block: BlockAddress) -> FlashResult<Use> {
        match self.of(block)? {
            found if found.is_held() => Ok(found),
            _ => Err(FlashError::new(FlashFault::NotAllocated, block)),
        }
    }

    fn set(&self, block: BlockAddress, to: Use) {
        self.uses[self.geometry.index_of(block) as usize].store(to as u8, Ordering::Relaxed);
    }
}

/// Blocks of a LUN by erases and number: the first one has seen the fewest.
type ByErases = BTreeSet<(u64, u32)>;

#[derive(Default)]
struct Lun {
    free: ByErases,
    waiting: ByErases,
}

#[derive(Default)]
struct Channel {
    luns: Vec<Lun>,
    /// The LUN whose turn is next.
    turn: usize,
    erasing: u32,
}

/// Which blocks are free, held and waiting.
pub(super) struct Pool {
    channels: Vec<Channel>,
    /// Blocks that are not gone.
    usable: u32,
    held: u32,
    found: u32,
    lost: u32,
    /// Blocks of over-provisioning.
    reserved: u32,
}

impl Pool {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let channel = |_| Channel {
            luns: (0..geometry.luns).map(|_| Lun::default()).collect(),
            ..Channel::default()
        };
        let channels = (0..geometry.channels).map(channel).collect();
        Pool { channels, usable: 0, held: 0, found: 0, lost: 0, reserved: 0 }
    }

    /// Enters a block of a device that is opened.
    pub(super) fn enter(&mut self, uses: &Uses, block: BlockAddress, as_: Use, erases: u64) {
        self.usable += 1;
        match as_ {
            Use::Found => {
                self.held += 1;
                self.found += 1;
                uses.set(block, Use::Found);
            }
            Use::Free => self.put_free(uses, block, erases),
            _ => self.put_waiting(uses, block, erases),
        }
    }

    fn lun(&mut self, block: BlockAddress) -> &mut Lun {
        &mut self.channels[usize::from(block.channel)].luns[usize::from(block.lun)]
    }

    fn put_free(&mut self, uses: &Uses, block: BlockAddress, erases: u64) {
        self.lun(block).free.insert((erases, block.block));
        uses.set(block, Use::Free);
    }

    fn put_waiting(&mut self, uses: &Uses, block: BlockAddress, erases: u64) {
        self.lun(block).waiting.insert((erases, block.block));
        uses.set(block, Use::Waiting);
    }

    /// Blocks of a channel that are free, or free as soon as they are erased.
    pub(super) fn to_be_had(&self, channel: u16) -> u32 {
        let channel = &self.channels[usize::from(channel)];
        let of = |lun: &Lun| (lun.free.len() + lun.waiting.len()) as u32;
        channel.luns.iter().map(of).sum::<u32>() + channel.erasing
    }

    /// Blocks of a channel that are free now.
    pub(super) fn erased_of(&self, channel: u16) -> u32 {
        let channel = &self.channels[usize::from(channel)];
        channel.luns.iter().map(|lun| lun.free.len() as u32).sum()
    }

    pub(super) fn waiting(&self, channel: u16) -> u32 {
        let channel = &self.channels[usize::from(channel)];
        channel.luns.iter().map(|lun| lun.waiting.len() as u32).sum::<u32>() + channel.erasing
    }

    pub(super) fn is_erasing(&self, channel: u16) -> bool {
        self.channels[usize::from(channel)].erasing > 0
    }

    /// Blocks that may be handed out before over-provisioning is touched.
    pub(super) fn allowance(&self) -> u32 {
        self.usable.saturating_sub(self.held).saturating_sub(self.reserved)
    }

    /// Refuses an allocation that would take a block of the over-provisioning.
    pub(super) fn check_allowance(&self) -> Result<()> {
        if self.allowance() > 0 {
            return Ok(());
        }
        let Pool { usable, held, reserved, found, .. } = self;
        let message = format!(
            "{held} of {usable} blocks are held ({found} of them found at opening and not \
             claimed) and {reserved} are over-provisioning; trim blocks, or lower the \
             over-provisioning"
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Takes the free block of `channel` whose LUN has its turn, and that has seen the fewest
    /// erases of this LUN.
    pub(super) fn take_free(
        &mut self,
        uses: &Uses,
        channel: u16,
        mapping: Mapping,
    ) -> Option<BlockAddress> {
        let own = &mut self.channels[usize::from(channel)];
        let luns = own.luns.len();
        let at = (0..luns).map(|i| (own.turn + i) % luns).find(|at| !own.luns[*at].free.is_empty());
        let at = at?;
        let (_, block) = own.luns[at].free.pop_first().expect("the LUN has a free block");
        own.turn = (at + 1) % luns;
        let block = BlockAddress { channel, lun: at as u16, block };
        self.held += 1;
        uses.set(block, held_as(mapping));
        Some(block)
    }

    /// Takes the free block with the most erases of all.
    pub(super) fn take_worn(&mut self, uses: &Uses, mapping: Mapping) -> Option<BlockAddress> {
        let mut worn: Option<(u64, BlockAddress)> = None;
        for (channel, own) in (0..).zip(&self.channels) {
            for (lun, blocks) in (0..).zip(&own.luns) {
                let Some((erases, block)) = blocks.free.last().copied() else { continue };
                if worn.is_none_or(|(most, _)| erases > most) {
                    worn = Some((erases, BlockAddress { channel, lun, block }));
                }
            }
        }
        let (erases, block) = worn?;
        self.lun(block).free.remove(&(erases, block.block));
        self.held += 1;
        uses.set(block, held_as(mapping));
        Some(block)
    }

    /// Takes a block of `channel` to be erased; the caller answers with [`Pool::erased`].
    pub(super) fn take_waiting(&mut self, uses: &Uses, channel: u16) -> Option<BlockAddress> {
        let own = &mut self.channels[usize::from(channel)];
        let luns = own.luns.len();
        // LUNs that have fewest free blocks come first.
        let at = (0..luns)
            .filter(|at| !own.luns[*at].waiting.is_empty())
            .min_by_key(|at| (own.luns[*at].free.len(), (at + luns - own.turn) % luns))?;
        let (_, block) = own.luns[at].waiting.pop_first().expect("the LUN has a waiting block");
        own.erasing += 1;
        let block = BlockAddress { channel, lun: at as u16, block };
        uses.set(block, Use::Erasing);
        Some(block)
    }

    /// Enters what became of a block that was taken to be erased.
    pub(super) fn erased(&mut self, uses: &Uses, block: BlockAddress, outcome: Outcome) {
        self.channels[usize::from(block.channel)].erasing -= 1;
        match outcome {
            Outcome::Free { erases } => self.put_free(uses, block, erases),
            Outcome::Again { erases } => self.put_waiting(uses, block, erases),
            Outcome::Lost => {
                self.usable -= 1;
                self.lost += 1;
                uses.set(block, Use::Gone);
            }
        }
    }

    /// The holder gives a block back.
    pub(super) fn give_back(
        &mut self,
        uses: &Uses,
        block: BlockAddress,
        erases: u64,
    ) -> FlashResult<()> {
        let found = uses.held(block)?;
        self.held -= 1;
        self.found -= u32::from(found == Use::Found);
        self.put_waiting(uses, block, erases);
        Ok(())
    }

    /// A held block could not be erased.
    pub(super) fn lose(&mut self, uses: &Uses, block: BlockAddress) {
        self.held -= 1;
        self.usable -= 1;
        self.lost += 1;
        uses.set(block, Use::Gone);
    }

    /// The held block `to` gets the mapping of `from`.
    pub(super) fn take_over(&mut self, uses: &Uses, from: BlockAddress, to: BlockAddress) {
        uses.set(to, uses.of(from).expect("a held block"));
    }

    pub(super) fn claim(
        &mut self,
        uses: &Uses,
        block: BlockAddress,
        mapping: Mapping,
    ) -> FlashResult<()> {
        if uses.of(block)? != Use::Found {
            return Err(FlashError::new(FlashFault::NotAllocated, block));
        }
        self.found -= 1;
        uses.set(block, held_as(mapping));
        Ok(())
    }

    /// Blocks that over-provisioning of `wanted` comes to.
    pub(super) fn blocks_of(&self, wanted: OverProvisioning) -> u32 {
        match wanted {
            OverProvisioning::Blocks(blocks) => blocks,
            OverProvisioning::Percent(percent) => {
                (u64::from(self.usable) * u64::from(percent)).div_ceil(100) as u32
            }
        }
    }

    /// Blocks that have to be trimmed before `wanted` can be reserved.
    pub(super) fn to_be_trimmed(&self, wanted: OverProvisioning) -> u32 {
        let wanted = u64::from(self.held) + u64::from(self.blocks_of(wanted));
        wanted.saturating_sub(u64::from(self.usable)) as u32
    }

    pub(super) fn reserve(&mut self, wanted: OverProvisioning) -> u32 {
        self.reserved = self.blocks_of(wanted);
        self.reserved
    }

    /// Fills in what the pool knows.
    pub(super) fn count(&self, statistics: &mut super::FunctionStatistics) {
        let luns = || self.channels.iter().flat_map(|channel| &channel.luns);
        statistics.usable = self.usable;
        statistics.held = self.held;
        statistics.found = self.found;
        statistics.lost = self.lost;
        statistics.reserved = self.reserved;
        statistics.free = luns().map(|lun| lun.free.len() as u32).sum();
        statistics.waiting = luns().map(|lun| lun.waiting.len() as u32).sum::<u32>()
            + self.channels.iter().map(|channel| channel.erasing).sum::<u32>();
    }
}

fn held_as(mapping: Mapping) -> Use {
    match mapping {
        Mapping::Page => Use::Pages,
        Mapping::Block => Use::Whole,
    }
}

/// What became of an erase.
pub(super) enum Outcome {
    /// The block is erased.
    Free {
        /// Its erases.
        erases: u64,
    },
    /// The device refused, and not the block.
    Again {
        /// Its erases.
        erases: u64,
    },
    /// The block is bad, and no spare one stands in for it.
    Lost,
}
