//! The traits.

use super::{Lifetime, Reserved};
use crate::Counters;
use silica_base::{AlignedBuf, Result};

/// How a file's bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Past the page cache where the file system allows it. Offsets, lengths and addresses of
    /// reads and writes MUST be multiples of [`silica_base::BLOCK_BYTES`].
    Direct,
    /// Through the page cache; any offset and length. For small files such as manifests.
    Buffered,
}

/// Reads of a [`ReadQueue`] in flight at most, whatever depth it was asked for.
pub const READS_MAX: usize = 128;

/// One read of a [`ReadQueue`].
pub struct Read<T> {
    /// What the read is for; it holds the file.
    pub of: T,
    /// First byte.
    pub offset: u64,
    /// Filled up to its length; a read past the end of the file fills less.
    pub buf: AlignedBuf,
}

/// Reads that are under way together and come back one by one, in any order. The queue owns them
/// meanwhile; dropping it waits for those whose memory the device may still write to. A caller
/// that pushes a read for every one that it pops keeps the device busy without a pause.
pub trait ReadQueue<T> {
    /// Adds a read. It may wait for [`ReadQueue::start`] or the next [`ReadQueue::pop`].
    ///
    /// # Panics
    /// Where the queue is full.
    fn push(&mut self, read: Read<T>);
    /// Starts what was pushed and waits, for a caller who has something to do before it pops. Does
    /// nothing where only [`ReadQueue::pop`] can start it.
    fn start(&mut self) {}
    /// Waits for a read to end: the bytes it filled, or what went wrong. `None` where none is
    /// under way.
    fn pop(&mut self) -> Option<(Read<T>, Result<usize>)>;
    /// Reads pushed and not popped.
    fn len(&self) -> usize;
    /// True where no read is under way.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// True where a read has to be popped before the next is pushed.
    fn is_full(&self) -> bool;
}

/// A read, a write, or a write and a sync that goes on while its caller does something else. Who
/// drops it waits for it.
pub trait Transfer: Send + Sync + 'static {
    /// True where [`Transfer::wait`] would not wait.
    fn is_done(&self) -> bool;
    /// Waits for its end: the buffer, and the bytes that were read or written, or what went wrong.
    fn wait(self) -> (AlignedBuf, Result<usize>);
}

/// A file that is read and written at positions.
pub trait DeviceFile: Send + Sync + 'static {
    /// Reads and writes of this file that go on by themselves.
    type Transfer: Transfer;
    /// This file, of which the system is told how long what is written to it from now on will stay.
    /// Advice: where the system does not listen, nothing is different.
    fn with_lifetime(self, lifetime: Lifetime) -> Self
    where
        Self: Sized;
    /// Begins what [`DeviceFile::read_at`] does. For large reads: it costs a few microseconds more.
    fn begin_read(&self, offset: u64, buf: AlignedBuf) -> Self::Transfer;
    /// Begins what [`DeviceFile::write_at`] does. Nothing is written before
    /// [`Transfer::wait`] says so, and a sync saves only what was written.
    fn begin_write(&self, offset: u64, buf: AlignedBuf) -> Self::Transfer;
    /// Begins to write `buf` at `offset` and then to make everything that was written before this
    /// call, and `buf`, durable; [`Transfer::wait`] says whether it is. Where it fails, the file is
    /// to be written anew.
    fn begin_write_and_sync(&self, offset: u64, buf: AlignedBuf) -> Self::Transfer;
    /// Reads at `offset` into `buf`; the bytes filled (less than asked only at the file's end).
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Writes all of `bytes` at `offset`, growing the file where needed. Where it fails, any
    /// part of them may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Makes everything written so far durable. Once this failed, it fails with `Poisoned` for
    /// every handle of the file.
    fn sync(&self) -> Result<()>;
    /// Reserves space for the first `len` bytes without changing the file's length.
    fn allocate(&self, len: u64) -> Result<()>;
    /// Cuts or extends (with zeroes) the file to `len` bytes.
    fn truncate(&self, len: u64) -> Result<()>;
    /// Current length in bytes.
    fn len(&self) -> Result<u64>;
    /// True where the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A preallocated append file whose appended bytes are readable in memory.
pub trait LogFile: Send + Sync + 'static {
    /// Bytes that fit in all.
    fn capacity(&self) -> u64;
    /// Bytes appended so far; after [`Device::open_log`] this is the capacity.
    fn len(&self) -> u64;
    /// Appends so far, by this process: none after [`Device::open_log`].
    fn appends(&self) -> u64;
    /// True where nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends the concatenation of `parts` at `len()`, where it survives the process from the
    /// moment the call returns; the offset of its first byte. Callers may come together. Fails with
    /// `Full` where it does not fit; on any failure nothing is appended.
    fn append(&self, parts: &[&[u8]]) -> Result<u64>;
    /// Reserves the next `len` bytes for the caller, who writes and publishes them; `None` where
    /// they do not fit. Appends are published in the order of their bytes, so what is published
    /// has no gap.
    fn reserve(&self, len: u64) -> Result<Option<Reserved<'_>>>;
    /// Bytes `offset .. offset + len`, all of which MUST lie below `len()`. Appended bytes never
    /// change, so the borrow is free of copies and locks, and outlives even the log's removal
    /// and (simulated) power cuts.
    ///
    /// # Panics
    /// Where the range does not lie below `len()`.
    fn bytes(&self, offset: u64, len: usize) -> &[u8];
    /// Nobody reads it for a while: gives back the memory that keeps its bytes at hand. They stay
    /// as they are, and may be read.
    fn rest(&self) {}
    /// Somebody is about to read all of it: has the device begin with that.
    fn wake(&self) {}
    /// Makes everything appended before the call durable; does nothing where nothing is new.
    /// Callers may come together, and share one sync. Once this failed, it fails with `Poisoned`.
    fn sync(&self) -> Result<()>;
}

/// A directory of files, and the counters of all I/O to it.
pub trait Device: Send + Sync + 'static {
    /// Files of this device.
    type File: DeviceFile;
    /// Logs of this device.
    type Log: LogFile;
    /// Queues of reads from this device.
    type Reads<'d, T: AsRef<Self::File>>: ReadQueue<T>
    where
        Self: 'd;

    /// Creates `name`, which must not exist.
    fn create(&self, name: &str, mode: Mode) -> Result<Self::File>;
    /// Opens the existing file `name` for reading and writing.
    fn open(&self, name: &str, mode: Mode) -> Result<Self::File>;
    /// Creates the log `name` with room for `capacity` bytes, space reserved. Its length survives
    /// a power cut from its first sync on.
    fn create_log(&self, name: &str, capacity: u64) -> Result<Self::Log>;
    /// Makes `log`, which was created by this process and has the name `from`, the empty log `to`
    /// of the same capacity. Its space stays reserved, and what nobody appended over yet are its
    /// old bytes, to whoever opens it and after a power cut. Where it fails, no name has changed.
    fn reuse_log(&self, log: Self::Log, from: &str, to: &str) -> Result<Self::Log>;
    /// Opens the existing file `name` as a log to be read; it accepts no appends. While the log
    /// is being appended to, this shows what was there at the call.
    fn open_log(&self, name: &str) -> Result<Self::Log>;
    /// An empty queue with room for `depth` reads (at least one, at most [`READS_MAX`]).
    fn reads<T: AsRef<Self::File>>(&self, depth: usize) -> Self::Reads<'_, T>;
    /// Renames `from` to `to`, replacing it.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes `name`.
    fn remove(&self, name: &str) -> Result<()>;
    /// Gives the file `name` a second name in `target` (a hard link where possible, else a copy
    /// whose bytes are durable). The name is durable after `target.sync_dir()`.
    fn link_into(&self, name: &str, target: &Self, target_name: &str) -> Result<()>;
    /// Names of all files, sorted; without subdirectories and the lock.
    fn list(&self) -> Result<Vec<String>>;
    /// Makes creations, renames, links and removals durable.
    fn sync_dir(&self) -> Result<()>;
    /// Opens (creating it where missing) the subdirectory `name` as a device of its own; it
    /// shares this device's counters and lock. The subdirectory itself is durable on return.
    fn subdirectory(&self, name: &str) -> Result<Self>
    where
        Self: Sized;
    /// Names of the subdirectories, sorted.
    fn subdirectories(&self) -> Result<Vec<String>>;
    /// Bytes that can still be written.
    fn free_bytes(&self) -> Result<u64>;
    /// True if the system is told of the lifetimes of files.
    fn takes_lifetimes(&self) -> bool;
    /// Counters of everything this device did.
    fn counters(&self) -> &Counters;
}
