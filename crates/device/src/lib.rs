//! Where bytes live and how they move.
//!
//! A [`Device`] is a flat directory of files. [`Device::File`] is read and written at positions
//! (tables, value logs, manifests); [`Device::Log`] is a fixed-size, preallocated append file
//! whose bytes are addressable in memory as soon as they are appended (write-ahead logs).
//! Engines are generic over the device and cannot tell the real one from its simulated twin.
//!
//! Obligations of every device:
//!
//! 1. After [`DeviceFile::sync`] or [`LogFile::sync`] returns `Ok`, the bytes written before the
//!    call survive a power cut. A sync that failed is final: the file MUST NOT report success
//!    for the same bytes later.
//! 2. Bytes written but not synced survive the death of the process, not a power cut. A power
//!    cut may keep, drop or tear them in units of a sector (512 bytes), in any order.
//! 3. Creating, renaming, linking and removing names is durable after [`Device::sync_dir`]; a
//!    power cut before it may undo each of them, but a rename is never half done.
//! 4. [`Device::read_many`] is one submission: all its reads are in flight together where the
//!    device can.
//!
//! Invariant: this crate knows no engine, no format and no key.

mod counters;
mod device;
mod file;
mod names;
mod publish;
pub mod sim;
mod sync;

pub use counters::{CounterSnapshot, Counters};
pub use device::{Device, DeviceFile, LogFile, Mode, Read};
pub use file::{DeviceOptions, FileDevice, IoChoice, MappedLog, PlainFile};
