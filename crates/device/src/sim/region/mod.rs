//! The simulated twin of a region: in memory, seeded, able to lose power.
//!
//! A store changes what threads see at once. What a power cut leaves of it is decided by the seed,
//! in the class `Lines` line by line. A line with stores that were not flushed and fenced is
//!
//! - as it was after its last fence, or as it is now,
//! - as it was after some of its stores, in their order,
//! - or a mixture: each word of 8 bytes has one of the values that it had since, by itself.
//!
//! A flush counts for the stores before it, whoever made them, and a fence makes durable what its
//! own thread flushed. Words are never torn. In the class `Process` a power cut leaves zeroes. In
//! the class `Pages` the kernel writes some page now and then; a power cut leaves each page as it
//! was written last, as it is, or sectors of both.
//!
//! # Every outcome of one moment
//!
//! [`SimRegion::crash_images`] goes through what a power cut at this moment may leave: nothing of
//! what is not durable, everything, each line alone, all but one line, lines torn between two
//! stores, all pairs of lines, and then whatever the seed draws. An image costs as much as the
//! lines that differ: one copy of the region is patched and patched back.
//! [`SimRegion::on_fence`] calls a test before each fence does anything, which is when the most is
//! not durable, so a test sees all moments at which something can be lost.
//!
//! # What is counted
//!
//! Lines flushed, fences, and what reached the medium ([`RegionCounts`]). The twin knows flushes
//! that were needless ([`RegionCounts::flushes_needless`]) and lines that were forgotten
//! ([`SimRegion::unfenced_lines`]).
//!
//! ```
//! use silica_device::region::{Region, RegionClass};
//! use silica_device::sim::SimRegion;
//!
//! let region = SimRegion::new(7, 4096, RegionClass::Lines);
//! region.store(0, 1);
//! region.flush(0, 8);
//! region.fence()?;
//! region.store(0, 2);
//! assert_eq!(region.unfenced_lines(), [0]);
//! for image in region.crash_images(100, 7) {
//!     let after = image.region().load(0);
//!     assert!(after == 1 || after == 2);
//! }
//! region.power_cut();
//! let after = region.reopen().load(0);
//! assert!(after == 1 || after == 2);
//! # Ok::<(), silica_base::Error>(())
//! ```

mod counts;
mod handle;
mod images;
mod lines;
mod media;
mod memory;
mod pages;
mod place;
mod state;
mod unit;

pub use counts::RegionCounts;
pub use handle::SimRegion;
pub use images::{CrashImage, CrashImages};
pub use place::SimRegions;

use crate::region::LINE_BYTES;

/// Words of a line.
const LINE_WORDS: usize = (LINE_BYTES / 8) as usize;
