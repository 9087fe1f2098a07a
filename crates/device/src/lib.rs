//! Where bytes live and how they move.
//!
//! A [`Device`] is a flat directory of files. [`Device::File`] is read and written at positions
//! (tables, value logs, manifests); [`Device::Log`] is a fixed-size, preallocated append file
//! whose bytes are addressable in memory as soon as they are appended (write-ahead logs).
//! Engines are generic over the device and cannot tell the real one from its simulated twin:
//!
//! - [`FileDevice`]: a directory of a Linux file system, locked against other processes. Past
//!   the page cache, or through it where that is refused; bursts of reads through io_uring, or
//!   a pool of threads where that is refused; what is to go on by itself ([`Transfer`]) through
//!   a few threads; logs are mapped files.
//! - [`sim::SimDevice`]: its simulated twin, in memory, with power cuts and faults.
//!
//! Obligations of every device, which the conformance suite and the crash tests check:
//!
//! 1. After [`DeviceFile::sync`] or [`LogFile::sync`] returns `Ok`, the bytes written before the
//!    call survive a power cut. A sync that failed is final: the file MUST NOT report success
//!    for the same bytes later.
//! 2. Bytes written but not synced survive the death of the process, not a power cut. A power
//!    cut may keep, drop or tear them in units of a sector (512 bytes), in any order.
//! 3. Creating, renaming, linking and removing names is durable after [`Device::sync_dir`]; a
//!    power cut before it may undo each of them, but a rename is never half done.
//! 4. The reads of a [`ReadQueue`] are in flight together where the device can, and nothing may
//!    be concluded from the order in which they end: the simulated twin draws it.
//! 5. What the operating system may do in part is completed or reported: a write that returned
//!    `Ok` is whole. One that failed may have left any part of itself.
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
//! Invariant: this crate knows no engine, no format and no key.

mod allocator;
mod counters;
mod device;
mod file;
mod names;
pub mod numa;
mod publish;
pub mod sim;
mod sync;

pub use allocator::{return_freed_memory, return_large_buffers};
pub use counters::{CounterSnapshot, Counters};
pub use device::{Device, DeviceFile, LogFile, Mode, READS_MAX, Read, ReadQueue, Transfer};
pub use file::{
    DeviceOptions, FileDevice, FileReads, FileTransfer, IoChoice, MappedLog, PlainFile,
    address_space_left, allow_many_descriptors, capacity_bytes, descriptors_left, empty_directory,
    is_writable_directory, remove_directory,
};
pub use names::LOG_PREFIX;
