//! The function level: allocation, erases in the background, wear levelling and over-provisioning
//! for a program that maps and collects itself (003…, 3.4.3).
//!
//! The caller asks for blocks of a channel, writes and reads them by their address, and trims
//! them when their contents are dead. Which block of the channel it is, when a block is erased, how
//! often each one was, and which ones are bad is this level's business.
//!
//! ```
//! use silica_device::blocks::Append;
//! use silica_device::sim::{SimFlash, SimFlashOptions};
//! use silica_flash::functions::{FunctionOptions, Functions, Mapping};
//!
//! let flash = SimFlash::new(1, SimFlashOptions::small());
//! let functions = Functions::open(flash, FunctionOptions::default())?;
//! let channel = functions.idlest_channel().expect("all blocks are free");
//! let given = functions.allocate(channel, Mapping::Page)?;
//! let page = vec![7; 512];
//! let block = given.block;
//! functions.write(&Append { block, expected: Some(0), stream: 0, pages: &page, spare: &[] })?;
//! if given.free < 3 {
//!     // Collect: copy what is live out of a block that the program chooses, and trim that.
//! }
//! let mut back = vec![0; 512];
//! functions.read(block.page(0), &mut back, &mut [])?;
//! assert_eq!(back, page);
//! functions.trim(block)?; // it is not read any more
//! functions.erase_pending(16)?; // whenever there is time
//! # Ok::<(), silica_base::Error>(())
//! ```
//!
//! Invariants:
//! 1. A block is handed out only when it is erased, and to one holder at a time.
//! 2. No block that the caller holds is erased, except by [`Functions::level_wear`], which has
//!    synced a copy before.
//! 3. What the level knows is found again by [`Functions::open`] from the status of the blocks
//!    alone: blocks without pages are free, blocks whose erase was interrupted are erased again,
//!    blocks with pages are the caller's to claim. It writes nothing of its own.
//! 4. Held blocks and over-provisioning together are no more than the usable blocks when either
//!    grows. Only blocks that turn bad may break this, until the caller trims.

mod levelling;
mod pool;
mod queue;

pub use levelling::{Wear, WearSwap};
pub use queue::FunctionQueue;

use self::pool::{Outcome, Pool, Use, Uses};
use crate::shared::is_of_the_block;
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use silica_device::blocks::{
    Append, BlockAddress, BlockState, BlockStatus, FlashCounts, FlashDevice, FlashError,
    FlashFault, FlashQueue, FlashResult, Geometry, Operation, PageAddress, Request,
};
use std::sync::{Condvar, Mutex, MutexGuard};

/// How the caller writes a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// Page by page, in order.
    Page,
    /// As one whole, in one call.
    Block,
}

/// Blocks that are kept free for erases in the background and for copies of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverProvisioning {
    /// So many blocks.
    Blocks(u32),
    /// So much of the usable blocks, in percent, rounded up.
    Percent(u32),
}

/// What operations count for in the load of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights {
    /// A page read.
    pub read: u64,
    /// A page programmed.
    pub program: u64,
    /// A block erased.
    pub erase: u64,
}

impl Default for Weights {
    /// In microseconds, of the flash in 003…, 2.2: 50, 600 and 5,000.
    fn default() -> Self {
        Weights { read: 50, program: 600, erase: 5_000 }
    }
}

/// How a function level is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionOptions {
    /// Blocks kept back; can be changed at any time.
    pub over_provisioning: OverProvisioning,
    /// Weights of a channel's load.
    pub weights: Weights,
}

impl Default for FunctionOptions {
    fn default() -> Self {
        let over_provisioning = OverProvisioning::Blocks(0);
        FunctionOptions { over_provisioning, weights: Weights::default() }
    }
}

/// A block that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The block, erased.
    pub block: BlockAddress,
    /// Blocks of its channel that can still be had, over-provisioning aside. A program collects
    /// when this falls below a threshold of its own.
    pub free: u32,
}

/// What [`Functions::erase_pending`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erased {
    /// Blocks that are free now.
    pub erased: u32,
    /// Blocks that could not be erased and are lost.
    pub lost: u32,
    /// Blocks that still wait.
    pub left: u32,
}

/// What a function level has and did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FunctionStatistics {
    /// Blocks that are not lost.
    pub usable: u32,
    /// Blocks that the caller holds, those found at opening included.
    pub held: u32,
    /// Blocks found at opening and not claimed.
    pub found: u32,
    /// Blocks that are erased.
    pub free: u32,
    /// Blocks that wait to be erased.
    pub waiting: u32,
    /// Blocks that could not be erased since the level was opened.
    pub lost: u32,
    /// Blocks of over-provisioning.
    pub reserved: u32,
    /// Blocks handed out.
    pub allocated: u64,
    /// Blocks trimmed.
    pub trimmed: u64,
    /// Blocks erased by [`Functions::erase_pending`].
    pub erased_in_background: u64,
    /// Blocks erased while an allocation waited, because the channel had none free.
    pub erased_in_wait: u64,
    /// Swaps begun by [`Functions::level_wear`].
    pub swaps: u64,
    /// Pages copied by these.
    pub pages_swapped: u64,
}

/// Erases under way together at most: a few for each channel of a large drive.
const ERASES_AT_ONCE: usize = 64;

struct State {
    pool: Pool,
    statistics: FunctionStatistics,
    /// Work of each channel that does not count any more.
    forgotten: Vec<u64>,
}

/// The function level of a flash device; see [the module](self). All methods may be called by
/// several threads.
pub struct Functions<D> {
    device: D,
    geometry: Geometry,
    weights: Weights,
    uses: Uses,
    state: Mutex<State>,
    /// An erase has ended.
    erased: Condvar,
}

impl<D: FlashDevice> Functions<D> {
    /// Opens the function level of a device. Syncs the device first, so that what is found
    /// survives, and then looks at every block, without I/O.
    ///
    /// Blocks that have pages are *found*: they are the caller's, can be read, and are to be
    /// claimed ([`Functions::claim`]) or given back ([`Functions::trim`],
    /// [`Functions::release_found`]). A trim is not written anywhere, so a block that was
    /// trimmed and not erased before a restart is found again: what its pages say has to tell
    /// that it is dead. A bad block that no spare one stands in for keeps its pages, and is found
    /// at every opening.
    ///
    /// # Errors
    /// What the device said.
    pub fn open(device: D, options: FunctionOptions) -> Result<Self> {
        device.sync()?;
        let geometry = *device.geometry();
        let uses = Uses::new(geometry);
        let mut pool = Pool::new(&geometry);
        for block in geometry.all_blocks() {
            let status = match device.block(block) {
                Ok(status) => status,
                // An application whose channels have unequal numbers of LUNs.
                Err(error) if error.fault() == FlashFault::OutOfRange => continue,
                Err(error) => return Err(error.into()),
            };
            let as_ = match status.state {
                _ if status.written > 0 => Use::Found,
                BlockState::Free => Use::Free,
                // A spare block may stand in for a bad one when it is erased.
                _ => Use::Waiting,
            };
            pool.enter(&uses, block, as_, status.erases);
        }
        pool.reserve(options.over_provisioning);
        let forgotten = vec![0; geometry.channels as usize];
        let state = State { pool, statistics: FunctionStatistics::default(), forgotten };
        let (weights, state) = (options.weights, Mutex::new(state));
        Ok(Functions { device, geometry, weights, uses, state, erased: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    fn pool(&self) -> impl std::ops::Deref<Target = Pool> + '_ {
        struct Guard<'a>(MutexGuard<'a, State>);
        impl std::ops::Deref for Guard<'_> {
            type Target = Pool;
            fn deref(&self) -> &Pool {
                &self.0.pool
            }
        }
        Guard(self.state())
    }

    fn count(&self, what: impl FnOnce(&mut FunctionStatistics)) {
        what(&mut self.state().statistics);
    }

    /// The device below.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// How the device is divided.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Hands out an erased block of a channel: its LUNs take turns, so that blocks of one caller
    /// are written side by side, and of a LUN the block with the fewest erases comes first. If
    /// no block of the channel is erased, erases one that waits, which takes as long as an erase.
    ///
    /// # Errors
    /// `Full` if all blocks but the over-provisioning are held, or if the channel has none left;
    /// `Config` if there is no such channel; what the device said about an erase.
    pub fn allocate(&self, channel: u16, mapping: Mapping) -> Result<Allocated> {
        self.hand_out(channel, mapping, false)
    }

    /// As [`Functions::allocate`], and takes a block of the over-provisioning if there is no other:
    /// for the copies of a collection, which trims a block afterwards.
    ///
    /// # Errors
    /// As [`Functions::allocate`], but that over-provisioning counts as free.
    pub fn allocate_reserved(&self, channel: u16, mapping: Mapping) -> Result<Allocated> {
        self.hand_out(channel, mapping, true)
    }

    /// Hands out the erased block that has seen the most erases, of any channel, over-provisioning
    /// included: for data that will not be rewritten soon, so that the block rests. `None` if no
    /// block is erased.
    pub fn allocate_worn(&self, mapping: Mapping) -> Option<Allocated> {
        let mut state = self.state();
        let block = state.pool.take_worn(&self.uses, mapping)?;
        state.statistics.allocated += 1;
        let free = state.pool.to_be_had(block.channel).min(state.pool.allowance());
        Some(Allocated { block, free })
    }

    fn hand_out(&self, channel: u16, mapping: Mapping, from_reserve: bool) -> Result<Allocated> {
        if u32::from(channel) >= self.geometry.channels {
            let channels = self.geometry.channels;
            let message = format!("there is no flash channel {channel}; there are {channels}");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut state = self.state();
        loop {
            if !from_reserve {
                state.pool.check_allowance()?;
            }
            if let Some(block) = state.pool.take_free(&self.uses, channel, mapping) {
                state.statistics.allocated += 1;
                let free = state.pool.to_be_had(channel).min(state.pool.allowance());
                return Ok(Allocated { block, free });
            }
            if let Some(block) = state.pool.take_waiting(&self.uses, channel) {
                drop(state);
                let result = self.device.reset(block);
                state = self.state();
                state.statistics.erased_in_wait += u64::from(result.is_ok());
                self.enter_erased(&mut state, block, &result);
                result
                    .or_else(|error| if is_of_the_block(&error) { Ok(()) } else { Err(error) })?;
            } else if state.pool.is_erasing(channel) {
                state = self.erased.wait(state).expect("no panic while locked");
            } else {
                let message = format!(
                    "channel {channel} has no free block left; trim some of its blocks, or \
                     allocate in another channel"
                );
                return Err(Error::new(ErrorKind::Full, message));
            }
        }
    }

    fn enter_erased<T>(&self, state: &mut State, block: BlockAddress, result: &FlashResult<T>) {
        let erases = self.device.block(block).map_or(0, |status| status.erases);
        let outcome = match result {
            Ok(_) => Outcome::Free { erases },
            Err(error) if is_of_the_block(error) => Outcome::Lost,
            Err(_) => Outcome::Again { erases },
        };
        state.pool.erased(&self.uses, block, outcome);
        self.erased.notify_all();
    }

    /// Erases up to `max` of the blocks that wait, side by side: the background work of this level.
    /// Its owner calls it whenever there is time, from any thread.
    ///
    /// # Errors
    /// What the device said, and not a block: those that were not erased wait again.
    pub fn erase_pending(&self, max: u32) -> Result<Erased> {
        let mut done = Erased::default();
        let mut queue = self.device.queue(ERASES_AT_ONCE);
        let mut refused = None;
        let mut begun = 0;
        loop {
            while refused.is_none() && begun < max && !queue.is_full() {
                let Some(block) = self.take_any_waiting(begun) else { break };
                begun += 1;
                let request = Request::Reset { block };
                let (pages, spare) = (AlignedBuf::zeroed(0), Vec::new());
                queue.push(Operation { of: (), request, pages, spare });
            }
            let Some((operation, result)) = queue.pop() else { break };
            let mut state = self.state();
            self.enter_erased(&mut state, operation.request.block(), &result);
            match result {
                Ok(_) => {
                    done.erased += 1;
                    state.statistics.erased_in_background += 1;
                }
                Err(error) if is_of_the_block(&error) => done.lost += 1,
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) => Err(error.into()),
            None => {
                done.left = self.statistics().waiting;
                Ok(done)
            }
        }
    }

    /// Takes a waiting block; channels take turns.
    fn take_any_waiting(&self, begun: u32) -> Option<BlockAddress> {
        let mut state = self.state();
        let channels = self.geometry.channels;
        let turn = |i: u32| ((begun + i) % channels) as u16;
        (0..channels).find_map(|i| state.pool.take_waiting(&self.uses, turn(i)))
    }

    /// Gives a block back: it is erased when [`Functions::erase_pending`] is called or an
    /// allocation needs it, and is not read any more. What made its contents dead should be synced
    /// before. Costs no I/O, but that an open block is closed if the device limits these.
    ///
    /// # Errors
    /// `NotAllocated` if the caller does not hold it; `OutOfRange`; as [`FlashDevice::finish`].
    pub fn trim(&self, block: BlockAddress) -> FlashResult<()> {
        self.uses.held(block)?;
        let BlockStatus { state, erases, .. } = self.device.block(block)?;
        if state == BlockState::Open && self.device.abilities().open_blocks_max.is_some() {
            // It must not take the place of an open block until it is erased.
            self.device.finish(block)?;
        }
        let mut state = self.state();
        state.pool.give_back(&self.uses, block, erases)?;
        state.statistics.trimmed += 1;
        Ok(())
    }

    /// Blocks that had pages when the level was opened and are neither claimed nor trimmed, in the
    /// order of their addresses.
    pub fn found(&self) -> Vec<BlockAddress> {
        let is_found = |block: &BlockAddress| self.uses.of(*block).ok() == Some(Use::Found);
        self.geometry.all_blocks().filter(is_found).collect()
    }

    /// Claims a block that was found at opening: the caller goes on with it.
    ///
    /// # Errors
    /// `NotAllocated` if it was not found, or is claimed or trimmed already; `OutOfRange`.
    pub fn claim(&self, block: BlockAddress, mapping: Mapping) -> FlashResult<()> {
        self.state().pool.claim(&self.uses, block, mapping)
    }

    /// Trims all blocks that were found and not claimed. Returns how many these were.
    ///
    /// # Errors
    /// `PowerLost`.
    pub fn release_found(&self) -> FlashResult<u32> {
        let found = self.found();
        for block in &found {
            self.trim(*block)?;
        }
        Ok(found.len() as u32)
    }

    /// Changes the over-provisioning. Returns the blocks that it comes to.
    ///
    /// # Errors
    /// `Full`, with the number of blocks to trim first ([`Functions::to_be_trimmed`] says it,
    /// too): nothing was changed.
    pub fn set_over_provisioning(&self, wanted: OverProvisioning) -> Result<u32> {
        let mut state = self.state();
        match state.pool.to_be_trimmed(wanted) {
            0 => Ok(state.pool.reserve(wanted)),
            excess => {
                let blocks = state.pool.blocks_of(wanted);
                let message = format!(
                    "over-provisioning of {blocks} blocks needs {excess} blocks that are held; \
                     trim {excess} blocks first"
                );
                Err(Error::new(ErrorKind::Full, message))
            }
        }
    }

    /// Blocks that the caller has to trim before an over-provisioning can be set; 0 if it can be
    /// set now.
    pub fn to_be_trimmed(&self, wanted: OverProvisioning) -> u32 {
        self.pool().to_be_trimmed(wanted)
    }

    /// Refuses a write that the block's mapping does not allow.
    #[inline]
    fn check_write(
        &self,
        block: BlockAddress,
        expected: Option<u32>,
        bytes: usize,
    ) -> FlashResult<()> {
        match self.uses.held(block)? {
            Use::Pages => Ok(()),
            Use::Whole => {
                let capacity = u64::from(self.device.block(block)?.capacity);
                let is_whole = bytes as u64 == capacity * u64::from(self.geometry.page_bytes)
                    && expected.is_none_or(|page| page == 0);
                let refused = FlashError::new(FlashFault::OutOfRange, block);
                if is_whole { Ok(()) } else { Err(refused) }
            }
            _ => Err(FlashError::new(FlashFault::NotAllocated, block)),
        }
    }

    /// Writes whole pages to a block that the caller holds, behind those that it has; to a block of
    /// [`Mapping::Block`] all of its pages. Returns the first page's number.
    ///
    /// # Errors
    /// As [`FlashDevice::append`]; `NotAllocated` if the block is not held, or only found;
    /// `OutOfRange` if a block of [`Mapping::Block`] is not written as a whole. After
    /// `ProgramFailed` the block takes no more pages: allocate another one, copy to it what is
    /// live ([`Functions::block`] says how many pages can be read), and trim the bad one. It is
    /// replaced by a spare block if the device has one, and lost otherwise.
    #[inline]
    pub fn write(&self, append: &Append<'_>) -> FlashResult<u32> {
        self.check_write(append.block, append.expected, append.pages.len())?;
        self.device.append(append)
    }

    /// Reads pages of a block that the caller holds.
    ///
    /// # Errors
    /// As [`FlashDevice::read`]; `NotAllocated` if the block is not held.
    #[inline]
    pub fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        self.uses.held(first.block)?;
        self.device.read(first, pages, spare)
    }

    /// Closes a block that the caller holds: it takes no more pages.
    ///
    /// # Errors
    /// As [`FlashDevice::finish`]; `NotAllocated` if the block is not held.
    pub fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        self.uses.held(block)?;
        self.device.finish(block)
    }

    /// A queue for bursts of reads and writes.
    pub fn queue<T>(&self, depth: usize) -> FunctionQueue<'_, D, T> {
        FunctionQueue::new(self, depth)
    }

    /// Makes everything that returned before survive a power cut.
    ///
    /// # Errors
    /// As [`FlashDevice::sync`].
    pub fn sync(&self) -> FlashResult<()> {
        self.device.sync()
    }

    /// What the device knows of a block.
    ///
    /// # Errors
    /// As [`FlashDevice::block`].
    pub fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        self.device.block(block)
    }

    /// True if the caller holds a block.
    pub fn is_held(&self, block: BlockAddress) -> bool {
        self.uses.held(block).is_ok()
    }

    /// How often a block was erased.
    ///
    /// # Errors
    /// As [`FlashDevice::block`].
    pub fn erases(&self, block: BlockAddress) -> FlashResult<u64> {
        Ok(self.device.block(block)?.erases)
    }

    /// Blocks of a channel that can still be had, over-provisioning aside.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn free(&self, channel: u16) -> u32 {
        let pool = self.pool();
        pool.to_be_had(channel).min(pool.allowance())
    }

    /// Blocks of a channel that are erased, so that an allocation does not wait.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn erased(&self, channel: u16) -> u32 {
        self.pool().erased_of(channel)
    }

    /// How much a channel has had to do since [`Functions::age_loads`], and has to do for the
    /// blocks that wait to be erased: reads, programs and erases, weighed (003…, 2.4.1).
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn load(&self, channel: u16) -> u64 {
        self.load_in(&self.state(), channel)
    }

    fn load_in(&self, state: &State, channel: u16) -> u64 {
        let waiting = u64::from(state.pool.waiting(channel));
        let done = self.work(&self.device.counters().channel(channel));
        done.saturating_sub(state.forgotten[usize::from(channel)]) + waiting * self.weights.erase
    }

    fn work(&self, counts: &FlashCounts) -> u64 {
        let Weights { read, program, erase } = self.weights;
        counts.reads * read + counts.programs * program + counts.erases * erase
    }

    /// Halves what channels have done so far in their loads, so that a load follows what happens
    /// now. Call it at intervals, every second for one.
    pub fn age_loads(&self) {
        let mut state = self.state();
        for channel in 0..self.geometry.channels as u16 {
            let done = self.work(&self.device.counters().channel(channel));
            let forgotten = &mut state.forgotten[usize::from(channel)];
            *forgotten += done.saturating_sub(*forgotten).div_ceil(2);
        }
    }

    /// The channel with the least load among those that have blocks to be had; `None` if none has.
    pub fn idlest_channel(&self) -> Option<u16> {
        let state = self.state();
        let has_some = |channel: &u16| state.pool.to_be_had(*channel) > 0;
        let channels = (0..self.geometry.channels as u16).filter(has_some);
        channels.min_by_key(|channel| self.load_in(&state, *channel))
    }

    /// What the level has and did.
    pub fn statistics(&self) -> FunctionStatistics {
        let state = self.state();
        let mut statistics = state.statistics;
        state.pool.count(&mut statistics);
        statistics
    }

    /// Erases a block and keeps it held; false if it is lost.
    fn erase_held(&self, block: BlockAddress) -> FlashResult<bool> {
        match self.device.reset(block) {
            Ok(()) => Ok(true),
            Err(error) if is_of_the_block(&error) => {
                self.state().pool.lose(&self.uses, block);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// `to` is written from here on as `from` was.
    fn take_over(&self, from: BlockAddress, to: BlockAddress) {
        self.state().pool.take_over(&self.uses, from, to);
    }
}
