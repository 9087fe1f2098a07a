//! Where bytes live and how they move.
//!
//! One module for each medium, and in [`sim`] a twin of each that loses power on demand:
//!
//! | medium, module | interface | on this machine | twin |
//! |---|---|---|---|
//! | [`files`] in a directory | [`Device`] | [`FileDevice`] | [`sim::SimDevice`] |
//! | [`blocks`] of flash | [`blocks::FlashDevice`] | [`blocks::FlashImage`] | [`sim::SimFlash`] |
//! | [`region`]: mapped bytes | [`region::Region`] | [`region::FileRegion`] | [`sim::SimRegion`] |
//!
//! Engines are generic over their medium and cannot tell the real one from its twin. What a
//! medium promises stands as numbered obligations at the top of its module; one suite checks them
//! against all that implement it. The names of [`files`] are also those of the crate.
//!
//! Which node's memory is used is said in [`numa`].
//!
//! ```no_run
//! use silica_device::{Device, DeviceFile, DeviceOptions, FileDevice, Mode};
//!
//! let device = FileDevice::open("./data".as_ref(), DeviceOptions::default())?;
//! let file = device.create("greeting", Mode::Buffered)?;
//! file.write_at(0, b"hello")?;
//! file.sync()?; // the bytes are durable
//! device.sync_dir()?; // and so is the name
//! # Ok::<(), silica_base::Error>(())
//! ```
//!
//! Invariant: this crate knows no engine and no key, and no format but those of its flash.

mod allocator;
pub mod blocks;
mod counters;
pub mod files;
mod limits;
mod named_regions;
pub mod numa;
mod os;
mod program;
pub mod region;
pub mod sim;

pub use allocator::{return_freed_memory, return_large_buffers};
pub use counters::{CounterSnapshot, Counters};
pub use files::{
    Device, DeviceFile, DeviceOptions, FileDevice, FileLock, FileReads, FileTransfer, IoChoice,
    LOG_PREFIX, Lifetime, LogFile, MappedLog, Mode, PlainFile, READS_MAX, Read, ReadQueue,
    Reserved, Transfer, capacity_bytes, empty_directory, is_writable_directory, remove_directory,
    rewrite_file,
};
pub use limits::{address_space_left, allow_many_descriptors, descriptors_left};
pub use program::return_start_pages;
