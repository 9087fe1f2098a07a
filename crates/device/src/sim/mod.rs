//! The simulated twins: one for each medium, in memory and seeded, with power cuts and faults.
//!
//! - [`SimDevice`]: a directory of files, the twin of [`crate::FileDevice`].

mod files;

pub use files::{FaultKind, SimDevice, SimFile, SimLog, SimOptions, SimReads, SimTransfer};
