//! How a simulated flash device is built and how it fails.

use crate::blocks::{Abilities, Geometry};

/// How often a device fails by itself: once in so many calls on average, 0 for never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashRates {
    /// Blocks that are bad from the start.
    pub factory_bad: u64,
    /// Pages that cannot be programmed.
    pub program_failed: u64,
    /// Blocks that cannot be erased.
    pub erase_failed: u64,
    /// Reads of a page that find it unreadable, for good.
    pub uncorrectable: u64,
}

/// How long a device takes, in nanoseconds. With zeroes, which operation of a queue ends first is
/// drawn from the seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashTiming {
    /// A LUN reads a page into its register.
    pub read_ns: u64,
    /// A LUN programs a page.
    pub program_ns: u64,
    /// A LUN erases a block.
    pub erase_ns: u64,
    /// A page crosses the bus of its channel.
    pub transfer_ns: u64,
}

/// How reads wear a block out until it is erased again. The default never does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadDisturb {
    /// Pages of a block that can be read without harm between two erases; 0 for no limit.
    pub reads_max: u64,
    /// Beyond that one in so many reads of a page makes some page of the block unreadable.
    pub one_in: u64,
}

/// How a [`super::SimFlash`] is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimFlashOptions {
    /// How it is divided.
    pub geometry: Geometry,
    /// What returned may be lost by a power cut until it is synced.
    pub has_volatile_cache: bool,
    /// Appends of a queue to one block may take pages in any order, as zone append does.
    pub reorders_appends: bool,
    /// Pages that can be written to a block, if these are fewer than the geometry says.
    pub capacity_pages: Option<u32>,
    /// Blocks open at the same time at most.
    pub open_blocks_max: Option<u32>,
    /// Resets that a block takes.
    pub endurance: Option<u32>,
    /// How often it fails by itself.
    pub rates: FlashRates,
    /// What reading a block often does to it.
    pub read_disturb: ReadDisturb,
    /// How long it takes.
    pub timing: FlashTiming,
    /// Pages are kept without their runs of zeroes, so a device full of pages of few other bytes
    /// takes little memory. Contents come back exactly either way.
    pub is_sparse: bool,
}

impl SimFlashOptions {
    /// Raw flash of this geometry, without faults and in no time: what returned is durable, and
    /// pages are numbered in the order of the calls.
    pub fn flash(geometry: Geometry) -> Self {
        SimFlashOptions {
            geometry,
            has_volatile_cache: false,
            reorders_appends: false,
            capacity_pages: None,
            open_blocks_max: None,
            endurance: None,
            rates: FlashRates::default(),
            read_disturb: ReadDisturb::default(),
            timing: FlashTiming::default(),
            is_sparse: false,
        }
    }

    /// A zoned drive of this geometry: it has a volatile cache, takes the appends of a queue in
    /// any order, and has at most 14 open zones (as many as the first NVMe drives with zones).
    pub fn zones(geometry: Geometry) -> Self {
        SimFlashOptions {
            has_volatile_cache: true,
            reorders_appends: true,
            open_blocks_max: Some(14),
            ..SimFlashOptions::flash(geometry)
        }
    }

    /// Raw flash for tests: 2 channels, 2 LUNs each, 6 blocks each, 8 pages of 512 + 16 bytes.
    pub fn small() -> Self {
        let (page_bytes, spare_bytes) = (512, 16);
        let geometry =
            Geometry { channels: 2, luns: 2, blocks: 6, pages: 8, page_bytes, spare_bytes };
        SimFlashOptions::flash(geometry)
    }

    pub(super) fn abilities(&self) -> Abilities {
        Abilities {
            is_physical: true,
            is_durable_at_return: !self.has_volatile_cache,
            orders_appends: !self.reorders_appends,
            counts_erases: true,
            checks_pages: true,
            open_blocks_max: self.open_blocks_max,
            streams: 0,
            endurance: self.endurance,
        }
    }
}

/// A fault that a test can order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashFaultKind {
    /// A page cannot be programmed; its block is bad.
    ProgramFailed,
    /// A block cannot be erased; it is bad.
    EraseFailed,
    /// A page that is read is unreadable from then on.
    Uncorrectable,
    /// A program, reset or finish is refused by the system and does nothing.
    Io,
    /// A sync fails, which is final.
    FailedSync,
}
