//! The simulated twins: one for each medium, in memory and seeded, with power cuts and faults.
//!
//! - [`SimDevice`]: a directory of files, the twin of [`crate::FileDevice`].
//! - [`SimFlash`]: flash or a drive with zones, the twin of [`crate::blocks::FlashImage`].
//! - [`SimZones`]: a drive with zones below such flash, the twin of
//!   [`crate::blocks::KernelZones`].
//! - [`SimRegion`]: mapped bytes, the twin of [`crate::region::FileRegion`]; with names in
//!   [`SimRegions`], and all that a power cut may leave as [`CrashImages`].

mod blocks;
mod files;
mod region;

pub use blocks::{
    FlashFaultKind, FlashProfile, FlashRates, FlashTiming, PAPER, PROFILES, QLC, ReadDisturb,
    SMALL, SimFlash, SimFlashOptions, SimFlashQueue, SimZones, SimZonesOptions, TLC, ZoneManner,
};
pub use files::{FaultKind, SimDevice, SimFile, SimLog, SimOptions, SimReads, SimTransfer};
pub use region::{CrashImage, CrashImages, RegionCounts, SimRegion, SimRegions};
