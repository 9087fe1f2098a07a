//! The simulated twins: one for each medium, in memory and seeded, with power cuts and faults.
//!
//! - [`SimDevice`]: a directory of files, the twin of [`crate::FileDevice`].
//! - [`SimFlash`]: flash or a drive with zones, the twin of [`crate::blocks::FlashImage`].

mod blocks;
mod files;

pub use blocks::{
    FlashFaultKind, FlashRates, FlashTiming, SimFlash, SimFlashOptions, SimFlashQueue,
};
pub use files::{FaultKind, SimDevice, SimFile, SimLog, SimOptions, SimReads, SimTransfer};
