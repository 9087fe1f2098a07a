//! Blocks: flash, and drives with zones. Not frozen: the interface may change until flash engines
//! use it.
//!
//! A [`FlashDevice`] has channels, LUNs, blocks and pages ([`Geometry`]). The caller chooses the
//! block of an append, because only it knows which channel has time, which block has seen few
//! erases and which data die together. The device chooses the page: the block's next. That is page
//! program of raw flash, whose callers name the page they expect, and zone append, whose callers
//! ask where it went. A zone is a block.
//!
//! - [`FlashImage`]: a file with a geometry, which behaves like flash and is there again after a
//!   restart (format page docs/formats/flash-image.md).
//! - [`FlashDrive`]: a file or a block device with a geometry, past the page cache, which keeps
//!   nothing beside its pages (docs/formats/flash-drive.md).
//! - [`ZonedFlash`]: a drive with zones, by the kernel's calls (docs/formats/flash-zones.md).
//! - [`AnyFlash`]: whichever of these three is at a path.
//! - [`crate::sim::SimFlash`]: its simulated twin, in memory, with power cuts, failing programs
//!   and erases, unreadable pages and a virtual clock.
//!
//! Obligations of every device, which one suite checks:
//!
//! 1. Pages of a block are written in order and only once between two resets. A call that would
//!    break this is an error and changes nothing.
//! 2. A page that was appended reads as it was written until its block is reset, or it is an
//!    error; it is never other bytes. A page that was not written since the reset is an error.
//! 3. After [`FlashDevice::sync`] returned `Ok`, everything that returned before survives a power
//!    cut: pages, finished blocks, resets, retired blocks. If
//!    [`Abilities::is_durable_at_return`] is true, no sync is needed. A sync that failed is
//!    final.
//! 4. What returned and was not synced survives the death of the process. A power cut takes each
//!    block back to one of its states since the last sync, and may leave the step after it half
//!    done: of an append, a prefix of its pages; of a reset, an undefined block. Any page that was
//!    not synced, or whose block was reset after the last sync, may be unreadable after a power
//!    cut. Pages that do not exist are the last ones of their block.
//! 5. A block whose reset was interrupted says so and gives no pages until it is reset again.
//! 6. A failed program or erase makes the block bad, which is told by the call that failed and by
//!    [`FlashDevice::block`], and is never taken back. Pages before a failed program stay readable.
//! 7. Erase counts never fall by more than the resets that a power cut took back.
//! 8. Operations of a queue are carried out once each, as far as they return `Ok`; nothing else may
//!    be concluded from the order in which they end.
//!
//! ```no_run
//! use silica_device::blocks::{Append, FlashDevice, FlashImage, FlashImageOptions, Geometry};
//!
//! let geometry =
//!     Geometry { channels: 4, luns: 2, blocks: 64, pages: 32, page_bytes: 4096, spare_bytes: 64 };
//! let options = FlashImageOptions { id: 7, endurance: None };
//! let flash = FlashImage::create("flash.image".as_ref(), geometry, options)?;
//! let block = geometry.block_at(0);
//! let page = vec![1; 4096];
//! let append = Append { block, expected: None, stream: 0, pages: &page, spare: &[] };
//! let at = flash.append(&append)?;
//! flash.sync()?; // the page survives a power cut
//! let mut back = vec![0; 4096];
//! flash.read(block.page(at), &mut back, &mut [])?;
//! assert_eq!(back, page);
//! flash.reset(block)?;
//! # Ok::<(), silica_base::Error>(())
//! ```

mod any;
mod checks;
mod counters;
mod device;
mod discard;
mod drive;
mod drive_queue;
mod error;
mod geometry;
mod image;
mod layout;
mod queue_limits;
mod streams;
mod workers;
mod zones;

pub use any::{AnyFlash, AnyFlashQueue};
pub(crate) use checks::{pages_of_append, pages_of_read, takes_pages};
pub use counters::{FlashCounters, FlashCounts};
pub use device::{
    Abilities, Append, BlockState, BlockStatus, FlashDevice, FlashQueue, OPERATIONS_MAX, Operation,
    Request,
};
pub use drive::FlashDrive;
pub use drive_queue::DriveQueue;
pub use error::{FlashError, FlashFault, FlashResult, Place};
pub use geometry::{BLOCKS_MAX, BlockAddress, Geometry, PAGE_BYTES_MAX, PAGES_MAX, PageAddress};
pub use image::{FlashImage, FlashImageOptions};
pub use queue_limits::QueueLimits;
pub use workers::ImageQueue;
pub use zones::{
    KernelZones, Zone, ZoneAction, ZoneCondition, ZoneKind, ZoneLimits, ZonedFlash, Zones,
    ZonesSummary,
};
