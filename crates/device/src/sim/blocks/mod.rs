//! The simulated twin of flash and of drives with zones: in memory, seeded, able to lose power.
//!
//! A power cut takes each block back to one of the states that it had since what is certain: the
//! last return of a call, or the last sync if the device has a volatile cache. The seed chooses
//! which. The step after it may be half done:
//!
//! - a page that was being programmed is there and unreadable;
//! - a block that was being reset is undefined until it is reset again;
//! - with a volatile cache, any page that was not synced may be unreadable, and so may all pages
//!   of a block of which a reset was taken back.
//!
//! Programs and erases fail, pages become unreadable and blocks are bad from the start at rates
//! that the seed draws ([`FlashRates`]), or at the Nth call ([`SimFlash::fail_at`]). Power fails at
//! the Nth operation ([`SimFlash::cut_at_op`]); every page of an append is one. Time is virtual
//! ([`FlashTiming`], [`SimFlash::now_ns`]): LUNs work side by side, LUNs of a channel share its
//! bus. Everything replays from the seed as long as the calls come in the same order. For a running
//! server the time can be held to a clock ([`SimFlash::pace_by`]).
//!
//! [`FlashProfile`] has devices that exist. With [`SimFlashOptions::is_sparse`] pages of zeroes
//! take no memory, so whole drives can be emulated (`examples/emulator_speed.rs` says how
//! quickly). [`ReadDisturb`] wears blocks out by reading.
//!
//! ```
//! use silica_device::blocks::{Append, BlockAddress, FlashDevice, FlashFault};
//! use silica_device::sim::{SimFlash, SimFlashOptions};
//!
//! let flash = SimFlash::new(7, SimFlashOptions::small());
//! let (block, page) = (BlockAddress::default(), vec![1; 512]);
//! flash.append(&Append { block, expected: Some(0), stream: 0, pages: &page, spare: &[] })?;
//! flash.cut_at_op(flash.op_count() + 1);
//! let cut = flash.reset(block).unwrap_err();
//! assert_eq!(cut.fault(), FlashFault::PowerLost);
//! let after = flash.reopen(); // the page is there, or the block is free or undefined
//! assert!(after.block(block)?.written <= 1);
//! # Ok::<(), silica_base::Error>(())
//! ```

mod kept;
mod options;
mod pace;
mod profile;
mod queue;
mod state;
mod zones;

pub use options::{FlashFaultKind, FlashRates, FlashTiming, ReadDisturb, SimFlashOptions};
pub use profile::{FlashProfile, PAPER, PROFILES, QLC, SMALL, TLC};
pub use queue::SimFlashQueue;
pub use zones::{SimZones, SimZonesOptions, ZoneManner};

use self::pace::Pace;
use self::state::{Call, State};
use crate::blocks::{
    Abilities, Append, BlockAddress, BlockStatus, FlashCounters, FlashDevice, FlashError,
    FlashFault, FlashResult, Geometry, PageAddress, Place, pages_of_append, pages_of_read,
};
use silica_base::Clock;
use std::sync::{Arc, Mutex, MutexGuard};

/// A simulated flash device. Clones share everything.
#[derive(Clone)]
pub struct SimFlash {
    world: Arc<Mutex<State>>,
    geometry: Geometry,
    abilities: Abilities,
    generation: u64,
    counters: Arc<FlashCounters>,
}

impl SimFlash {
    /// A device whose whole future depends on `seed` and the calls made.
    ///
    /// # Panics
    /// If the options have a geometry that no device can have.
    pub fn new(seed: u64, options: SimFlashOptions) -> Self {
        options.geometry.check().expect("the geometry is possible");
        let counters = Arc::new(FlashCounters::new(&options.geometry));
        let state = State::new(seed, options, counters.clone());
        SimFlash {
            world: Arc::new(Mutex::new(state)),
            geometry: options.geometry,
            abilities: options.abilities(),
            generation: 0,
            counters,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.world.lock().expect("no panic while locked");
        state.tick();
        state
    }

    /// Holds the device to a clock: calls return, and operations of a queue are popped, only when
    /// their virtual time has passed on `clock`. For servers that are to feel a real device. Calls
    /// of other threads go on meanwhile. From here on time passes by itself; without
    /// [`FlashTiming`] nothing is ever waited for.
    ///
    /// A wait sleeps for all but its last 80 us, so about as many threads as LUNs can wait on few
    /// cores.
    pub fn pace_by(&self, clock: Arc<dyn Clock>) {
        let mut state = self.state();
        let now_ns = state.now_ns;
        state.pace = Some(Pace::new(clock, now_ns));
    }

    /// Pages read from a block since it was last erased, which is what read disturb goes by.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn reads_since_erase(&self, block: BlockAddress) -> FlashResult<u64> {
        self.state().reads_since_erase(block)
    }

    /// Memory that the contents of all pages take, in bytes. Costs a look at each page.
    pub fn contents_bytes(&self) -> u64 {
        self.state().contents_bytes()
    }

    /// The state, unless this handle is closed.
    fn enter(&self) -> FlashResult<MutexGuard<'_, State>> {
        let state = self.state();
        if state.is_open(self.generation) {
            Ok(state)
        } else {
            Err(FlashError::new(FlashFault::PowerLost, Place::Device))
        }
    }

    /// Cuts the power now. From here on every call fails with `PowerLost`, until
    /// [`SimFlash::reopen`] gives a new handle.
    pub fn power_cut(&self) {
        let mut state = self.state();
        if state.powered {
            state.cut();
        }
    }

    /// A fresh handle; all older ones are closed. After a power cut it shows what survived;
    /// without one this is the death of the process: everything that returned is there. Ordered
    /// faults stay ordered.
    pub fn reopen(&self) -> SimFlash {
        let mut state = self.state();
        let counters = Arc::new(FlashCounters::new(&self.geometry));
        state.reopen(counters.clone());
        SimFlash { generation: state.generation, counters, ..self.clone() }
    }

    /// A device of its own with the same contents and ordered faults, whose future depends on
    /// `seed`: one run can so be cut in many ways.
    pub fn fork(&self, seed: u64) -> SimFlash {
        let counters = Arc::new(FlashCounters::new(&self.geometry));
        let state = self.state().fork(seed, counters.clone());
        let generation = state.generation;
        SimFlash { world: Arc::new(Mutex::new(state)), generation, counters, ..self.clone() }
    }

    /// Pages programmed, resets, finishes and syncs so far, failed ones included.
    pub fn op_count(&self) -> u64 {
        self.state().ops
    }

    /// Cuts the power at the operation that makes [`SimFlash::op_count`] `n`: it fails with
    /// `PowerLost`, and its effect may survive, whole or half.
    pub fn cut_at_op(&self, n: u64) {
        self.state().cut_at = Some(n);
    }

    /// True from a power cut to the next reopen.
    pub fn is_cut(&self) -> bool {
        !self.state().powered
    }

    /// Makes the `nth` matching call from now (counted from 1) fail, once.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn fail_at(&self, kind: FlashFaultKind, nth: u64) {
        assert!(nth > 0, "calls are counted from 1");
        self.state().faults.push((kind, nth));
    }

    /// Forgets faults that were ordered and did not happen yet.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Makes a page unreadable at rest. Does nothing if it is not there.
    pub fn spoil(&self, page: PageAddress) {
        self.state().spoil(page);
    }

    /// Virtual time since the device was made, in nanoseconds: when the last call returned.
    pub fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    /// Lets time pass for the caller.
    pub fn advance_ns(&self, ns: u64) {
        self.state().now_ns += ns;
    }
}

impl FlashDevice for SimFlash {
    type Queue<'d, T> = SimFlashQueue<'d, T>;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        self.enter()?.status(block)
    }

    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        pages_of_read(&self.geometry, first, pages.len(), spare.len())?;
        let mut state = self.enter()?;
        let end_ns = state.read(first, pages, spare)?;
        state.returned(end_ns);
        wait(state, end_ns);
        Ok(())
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        pages_of_append(&self.geometry, append)?;
        let mut state = self.enter()?;
        let result = state.append(append);
        state.certain(append.block);
        let (first, end_ns) = result?;
        state.returned(end_ns);
        wait(state, end_ns);
        Ok(first)
    }

    fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        self.change(block, Call::Finish)
    }

    fn reset(&self, block: BlockAddress) -> FlashResult<()> {
        self.change(block, Call::Reset)
    }

    fn retire(&self, block: BlockAddress) -> FlashResult<()> {
        self.change(block, Call::Retire)
    }

    fn sync(&self) -> FlashResult<()> {
        let mut state = self.enter()?;
        state.sync()
    }

    fn queue<T>(&self, depth: usize) -> SimFlashQueue<'_, T> {
        SimFlashQueue::new(self, depth)
    }

    fn counters(&self) -> &FlashCounters {
        &self.counters
    }
}

impl SimFlash {
    fn change(&self, block: BlockAddress, call: Call) -> FlashResult<()> {
        let mut state = self.enter()?;
        let result = state.change(block, call);
        state.certain(block);
        let end_ns = result?;
        state.returned(end_ns);
        wait(state, end_ns);
        Ok(())
    }
}

/// Lets go of the device and waits until `end_ns` has passed on its clock, if it has one.
fn wait(state: MutexGuard<'_, State>, end_ns: u64) {
    let pace = state.pace.clone();
    drop(state);
    if let Some(pace) = pace {
        pace.wait_until(end_ns);
    }
}
