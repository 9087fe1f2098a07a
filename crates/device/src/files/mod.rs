//! Files: a flat directory of them, where every engine of today keeps its bytes.
//!
//! A [`Device`] is a flat directory of files. [`Device::File`] is read and written at positions
//! (tables, value logs, manifests); [`Device::Log`] is a fixed-size, preallocated append file
//! whose bytes are addressable in memory as soon as they are appended (write-ahead logs).
//!
//! - [`FileDevice`]: a directory of a Linux file system, locked against other processes. Past
//!   the page cache, or through it where that is refused; bursts of reads through io_uring, or
//!   a pool of threads where that is refused; what is to go on by itself ([`Transfer`]) through
//!   a few threads; logs are mapped files.
//! - [`crate::sim::SimDevice`]: its simulated twin, in memory, with power cuts and faults.
//!
//! Obligations of every device of files, which the conformance suite and the crash tests check:
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
//! 5. A lifetime ([`DeviceFile::with_lifetime`]) is advice: bytes are as whole and as durable with
//!    it as without. Files begin without one; logs are short-lived by themselves.
//! 6. What the operating system may do in part is completed or reported: a write that returned
//!    `Ok` is whole. One that failed may have left any part of itself.
//!
//! Invariants of [`FileDevice`]:
//!
//! 1. One process at a time: the `LOCK` file of the root directory is locked (`flock`) for as
//!    long as any device, file or log of it lives.
//! 2. A sync that failed is final: the inode is remembered as poisoned, and no handle of this
//!    process, not even one opened later, reports a successful sync for it.
//! 3. A log that is being appended to is never mapped a second time in this process.
//! 4. Logs may lie in another directory; they are names of the device like all others, and a sync
//!    of the directory is one of both.

mod claim;
mod device;
mod directory;
mod lifetime;
mod log;
mod logs;
mod names;
mod plain;
mod pool;
mod publish;
mod reads;
mod reserved;
mod sync;
mod transfer;
mod unwritten;
mod uring;

pub use claim::{FileLock, rewrite_file};
pub use device::{Device, DeviceFile, LogFile, Mode, READS_MAX, Read, ReadQueue, Transfer};
pub use directory::{DeviceOptions, FileDevice, IoChoice, capacity_bytes, is_writable_directory};
pub use lifetime::Lifetime;
pub use log::MappedLog;
pub use logs::{empty_directory, remove_directory};
pub use names::LOG_PREFIX;
pub(crate) use names::check as check_name;
pub use plain::PlainFile;
pub(crate) use publish::{Gate, LOG_BYTES_MAX};
pub use reads::FileReads;
pub(crate) use reads::{Flight, Flights, Source};
pub use reserved::Reserved;
pub use transfer::FileTransfer;
pub(crate) use uring::{Lease, probe as probe_ring, write_in_stream};

use crate::os::{
    InodeId, OpenDirectory, check_room, failed, inode_id, read_full, reserve, sync_directory,
    write_all,
};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Mutex;

/// A set of inodes.
#[derive(Default)]
struct Inodes(Mutex<BTreeSet<InodeId>>);

impl Inodes {
    fn insert(&self, id: InodeId) {
        self.0.lock().expect("no panic while locked").insert(id);
    }

    fn remove(&self, id: InodeId) {
        self.0.lock().expect("no panic while locked").remove(&id);
    }

    fn contains(&self, id: InodeId) -> bool {
        self.0.lock().expect("no panic while locked").contains(&id)
    }
}

/// Asks for direct I/O on an open file; false where the file system refuses it.
fn make_direct(file: &File) -> io::Result<bool> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    match rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::DIRECT) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
