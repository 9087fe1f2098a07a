//! Logs of a real file system: a preallocated file, mapped shared.
//!
//! An append copies into the mapping. From there the kernel owns the bytes: they outlive the
//! process, and the sync writes them out. Invariants:
//!
//! 1. The file has its full length and its space from the start, so that storing into the
//!    mapping finds its pages (a mapping past the end or without space would raise SIGBUS).
//! 2. Appends follow the publish protocol (module `publish`), and reserve no byte whose page was
//!    not populated.
//! 3. A log begins anew in its old mapping only when nobody else has it: it is handed over by
//!    value, so that nothing is borrowed of it, and one that is appended to is mapped once.
//! 4. No page is stored to before it was populated by a call that can fail. A page that cannot
//!    be had is an error of the append there and then, not a signal.
//!
//! Pages are populated ahead of the append position, because one call for many is cheaper than a
//! page fault each. But a populated page is a dirty one that the next sync writes out, empty or
//! not, so no more than a quarter of what was appended since the last sync is populated ahead.
//! Zeroes are written to them first: that puts large folios into the page cache where the file
//! system has them, and those are mapped and written out as wholes.
//!
//! What was appended is handed to the disk in pieces, without waiting, so that a sync after much
//! of it finds little left to wait for. Every page of a log is written sooner or later, and full
//! ones are never stored to again, so nothing is written twice. A piece leaves the page tables
//! first, as a whole: while they say that its pages may be stored to, the kernel makes every
//! processor forget each page by itself, which took an eighth of all time of a store that is
//! filled. Who reads a page finds it in the page cache.

use super::directory::Shared;
use super::plain::poisoned;
use super::publish::Gate;
use super::{InodeId, LOG_BYTES_MAX, Lifetime, LogFile, Reserved, failed, reserve, write_all};
use memmap2::MmapRaw;
use rustix::io::Errno;
use rustix::mm::Advice;
use silica_base::{BLOCK_BYTES, Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes made present ahead of the append position at most.
const POPULATE_BYTES: u64 = 256 << 10;
/// One part in so many of what a log has is made present ahead.
const AHEAD_PART: u64 = 8;
/// Bytes appended that make it worth while to have them written out.
const WRITE_OUT_BYTES: u64 = 1 << 20;
/// Bytes that leave the page tables before a sync at least: a few pages are as quick by themselves.
const UNMAPPED_BYTES_MIN: u64 = 64 << 10;
/// Bytes of zeroes that are written at once to pages to come, at most.
const FOLIO_BYTES_MAX: usize = 64 << 10;

/// A log of a [`super::FileDevice`].
pub struct MappedLog {
    file: Arc<File>,
    path: PathBuf,
    inode: InodeId,
    memory: Memory,
    gate: Gate,
    capacity: u64,
    writer: bool,
    /// Bytes whose pages were made present; who appends reserves none behind them.
    populated: AtomicU64,
    /// Bytes that were handed to the disk.
    written_out: AtomicU64,
    /// Held by who moves these two.
    populating: Mutex<()>,
    /// Bytes known to be durable.
    synced: Mutex<u64>,
    /// Bytes known to be durable, for appenders, who need no lock and no precision.
    synced_hint: AtomicU64,
    /// What the kernel was told of.
    lifetime: Option<Lifetime>,
    shared: Arc<Shared>,
}

/// Where a log's bytes are.
enum Memory {
    Mapped(MmapRaw),
    /// A copy: of an empty file, or of one that is being appended to.
    Copied(Box<[u8]>),
}

impl Memory {
    fn start(&self) -> *const u8 {
        match self {
            Memory::Mapped(map) => map.as_ptr(),
            Memory::Copied(bytes) => bytes.as_ptr(),
        }
    }
}

impl MappedLog {
    /// Makes the fresh, empty `file` a log of `capacity` bytes to append to.
    pub(super) fn create(
        file: File,
        path: PathBuf,
        inode: InodeId,
        capacity: u64,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        reserve(&file, capacity).map_err(|e| failed("reserve space for", &path, e))?;
        if capacity > LOG_BYTES_MAX {
            let message = format!("a log has at most {LOG_BYTES_MAX} bytes, not {capacity}");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let memory = map(&file, &path, capacity, false)?;
        shared.appending.insert(inode);
        let lifetime = shared.hints.give(&file, Lifetime::Short);
        Ok(MappedLog {
            file: Arc::new(file),
            path,
            inode,
            memory,
            gate: Gate::new(0),
            capacity,
            writer: true,
            populated: AtomicU64::new(0),
            written_out: AtomicU64::new(0),
            populating: Mutex::new(()),
            synced: Mutex::new(0),
            synced_hint: AtomicU64::new(0),
            lifetime,
            shared,
        })
    }

    /// Opens an existing log to be read.
    pub(super) fn open(
        file: File,
        path: PathBuf,
        inode: InodeId,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let metadata = file.metadata().map_err(|e| failed("look at", &path, e))?;
        let capacity = metadata.len();
        let memory = if shared.appending.contains(inode) {
            let mut bytes = vec![0; capacity as usize];
            super::read_full(&file, 0, &mut bytes, 1).map_err(|e| failed("read", &path, e))?;
            Memory::Copied(bytes.into_boxed_slice())
        } else {
            // Whoever looks at the first bytes through the mapping first waits until as much was
            // read ahead as the system is set to, which may take as long as to read all of it.
            let mut first = [0; BLOCK_BYTES];
            super::read_full(&file, 0, &mut first, 1).map_err(|e| failed("read", &path, e))?;
            map(&file, &path, capacity, true)?
        };
        Ok(MappedLog {
            file: Arc::new(file),
            path,
            inode,
            memory,
            gate: Gate::new(capacity),
            capacity,
            writer: false,
            populated: AtomicU64::new(capacity),
            written_out: AtomicU64::new(capacity),
            populating: Mutex::new(()),
            synced: Mutex::new(0),
            synced_hint: AtomicU64::new(0),
            lifetime: None,
            shared,
        })
    }

    /// Refuses to begin anew where the file `path` is not this log's, where others may have mapped
    /// it, or where a sync of it failed.
    pub(super) fn check_reusable(&self, path: &Path) -> Result<()> {
        let metadata = std::fs::metadata(path).map_err(|e| failed("look at", path, e))?;
        if !self.writer || super::inode_id(&metadata) != self.inode {
            let message = format!("{} is not the log to be used again", path.display());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if self.shared.poisoned.contains(self.inode) {
            return Err(poisoned(path));
        }
        Ok(())
    }

    /// This file without anything appended, by its new name.
    pub(super) fn emptied(mut self, path: PathBuf) -> Self {
        self.path = path;
        self.gate = Gate::new(0);
        self.populated = AtomicU64::new(0);
        self.written_out = AtomicU64::new(0);
        self.synced = Mutex::new(0);
        self.synced_hint = AtomicU64::new(0);
        self
    }

    /// Makes the pages up to `end`, and some more, present and writable.
    #[cold]
    fn populate(&self, end: u64) -> Result<()> {
        let _one = self.populating.lock().expect("no panic while locked");
        let from = self.populated.load(Ordering::Relaxed);
        if from >= end {
            // Another one did, meanwhile.
            return Ok(());
        }
        self.write_out()?;
        let synced = self.synced_hint.load(Ordering::Relaxed);
        let to = populate_to(end, synced, self.capacity);
        let zeroes = vec![0; folio_bytes(end - synced)];
        let mut at = from;
        while at < to {
            let piece = &zeroes[..zeroes.len().min((to - at) as usize)];
            // Nothing at and above `from` is reserved, so nobody reads or writes it.
            let written = write_all(&self.file, at, piece);
            written.map_err(|e| failed("write to", &self.path, e))?;
            at += piece.len() as u64;
        }
        let advice = Advice::LinuxPopulateWrite;
        // SAFETY: the range lies inside the mapping (`from <= to <= capacity`), and populating
        // changes no byte of it.
        let populated = unsafe {
            let start = self.memory.start().add(from as usize).cast_mut();
            rustix::mm::madvise(start.cast(), (to - from) as usize, advice)
        };
        match populated {
            // Kernels before 5.14 do not know the advice; pages then fault in one by one.
            Ok(()) | Err(Errno::INVAL) => {
                // Whole pages, so that the next range starts at one.
                let done = if to == self.capacity { u64::MAX } else { to };
                // Release: who reserves behind `from` stores to pages that hold the zeroes.
                self.populated.store(done, Ordering::Release);
                Ok(())
            }
            Err(e) => Err(failed("map more of", &self.path, e.into())),
        }
    }

    /// Takes the pages of a range out of the page tables, but for the one where it ends.
    fn unmap(&self, range: Range<u64>) {
        let Memory::Mapped(map) = &self.memory else { return };
        let page = BLOCK_BYTES as u64;
        let (start, end) = (range.start / page * page, range.end / page * page);
        let len = end.saturating_sub(start) as usize;
        // SAFETY: the range lies inside the mapping. Of a shared mapping of a file this drops page
        // table entries; the next access finds the same bytes in the page cache or the file.
        let advised = unsafe {
            let start = map.as_mut_ptr().add(start as usize);
            rustix::mm::madvise(start.cast(), len, Advice::LinuxDontNeed)
        };
        // It is advice: where it is refused, the memory goes with the mapping.
        let _ = advised;
    }

    /// Hands the disk what was appended since the last call or sync, where that is much.
    fn write_out(&self) -> Result<()> {
        let synced = self.synced_hint.load(Ordering::Relaxed);
        let from = self.written_out.load(Ordering::Relaxed).max(synced);
        // What is not full yet will be stored to again.
        let to = self.gate.published() / FOLIO_BYTES_MAX as u64 * FOLIO_BYTES_MAX as u64;
        if to.saturating_sub(from) < WRITE_OUT_BYTES {
            return Ok(());
        }
        self.written_out.store(to, Ordering::Relaxed);
        self.unmap(from..to);
        match start_writing(&self.file, from, to - from) {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => Ok(()),
            Err(e) => {
                // As final as the error of a sync: what was to be written may be lost.
                self.shared.poisoned.insert(self.inode);
                Err(failed("write out", &self.path, e))
            }
        }
    }
}

/// Up to where pages are populated when the next append ends at `end`: in proportion to what is
/// appended between two syncs, or to the whole. A sync that finds pages written for the first time
/// waits for the file system's own log too, and takes twice as long: few of them are to.
fn populate_to(end: u64, synced: u64, capacity: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    let ahead = ((end - synced) / 4).max(end / AHEAD_PART).min(POPULATE_BYTES);
    // A multiple of a power of two, since pages that begin at one form the largest folios.
    let granule = 1 << ahead.max(block).ilog2();
    let aligned = (end + ahead) / granule * granule;
    aligned.max(end.next_multiple_of(block)).min(capacity)
}

/// Bytes of zeroes that are written at once, which the page cache then keeps together, where `more`
/// was appended since the last sync: a sync writes whole what it keeps together, however little of
/// that has changed.
fn folio_bytes(more: u64) -> usize {
    let most = (more / 4).clamp(BLOCK_BYTES as u64, FOLIO_BYTES_MAX as u64);
    1 << most.ilog2()
}

/// Asks the kernel to write a range of `file` out; does not wait for it. An error on the way
/// there is reported by the next sync.
fn start_writing(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call takes no
    // pointers.
    let result = unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset as libc::off64_t, len as i64, flags)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Maps the first `capacity` bytes of `file`, which may have been opened to be read only where that
/// is all that is done.
fn map(file: &File, path: &Path, capacity: u64, is_read: bool) -> Result<Memory> {
    if capacity == 0 {
        return Ok(Memory::Copied(Box::default()));
    }
    let options = memmap2::MmapOptions::new().len(capacity as usize).clone();
    let mapped = if is_read { options.map_raw_read_only(file) } else { options.map_raw(file) };
    mapped.map(Memory::Mapped).map_err(|e| failed("map", path, e))
}

impl Drop for MappedLog {
    fn drop(&mut self) {
        if self.writer {
            self.shared.appending.remove(self.inode);
        }
    }
}

impl LogFile for MappedLog {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn len(&self) -> u64 {
        self.gate.published()
    }

    fn appends(&self) -> u64 {
        self.gate.appends()
    }

    fn append(&self, parts: &[&[u8]]) -> Result<u64> {
        let len = parts.iter().map(|p| p.len() as u64).sum::<u64>();
        let Some(reserved) = self.reserve(len)? else {
            let message = format!("the log {} has no room for this append", self.path.display());
            return Err(Error::new(ErrorKind::Full, message));
        };
        Ok(reserved.append(parts))
    }

    #[inline]
    fn reserve(&self, len: u64) -> Result<Option<Reserved<'_>>> {
        if !self.writer {
            let message = "a log that was opened to be read accepts no appends";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        loop {
            // Acquire: pairs with the Release in `populate`.
            let present = self.populated.load(Ordering::Acquire).min(self.capacity);
            if let Some(append) = self.gate.reserve(len, present) {
                let start = self.memory.start().cast_mut();
                // SAFETY: the bytes lie inside the mapping, which lives as long as `self`, and all
                // access to it keeps to the publish protocol; invariant 3 keeps other mappings
                // away.
                return Ok(Some(unsafe {
                    Reserved::new(append, start, len, &self.shared.counters, self.lifetime)
                }));
            }
            let end = self.gate.reserved() + len;
            // Behind what is present there may be room; else the log is full, or has as many
            // appends as it may have.
            if end > self.capacity || end <= present {
                return Ok(None);
            }
            self.populate(end)?;
        }
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        let published = self.gate.published();
        assert!(
            offset.checked_add(len as u64).is_some_and(|end| end <= published),
            "bytes {offset}+{len} of {} are not below its length {published}",
            self.path.display()
        );
        // SAFETY: the range lies below the published length, whose `Acquire` load made its bytes
        // visible; nobody writes them again (invariants 2 and 3 of `publish`), and the lock of
        // the directory keeps other processes of ours away. The mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(offset as usize), len) }
    }

    fn rest(&self) {
        self.unmap(0..self.capacity.next_multiple_of(BLOCK_BYTES as u64));
    }

    fn wake(&self) {
        if let Memory::Mapped(_) = self.memory {
            self.shared.transfers.touch(&self.file, self.capacity);
        }
    }

    fn sync(&self) -> Result<()> {
        let wanted = self.gate.published();
        // Whoever waits here finds that the sync before it covered its bytes as well.
        let mut synced = self.synced.lock().expect("no panic while locked");
        if self.shared.poisoned.contains(self.inode) {
            return Err(poisoned(&self.path));
        }
        if *synced >= wanted && wanted > 0 {
            return Ok(());
        }
        let reached = self.gate.published();
        let left = self.written_out.load(Ordering::Relaxed).max(*synced);
        if reached.saturating_sub(left) >= UNMAPPED_BYTES_MIN {
            self.unmap(left..reached);
        }
        self.shared.sync_inode(&self.file, self.inode, &self.path)?;
        *synced = reached;
        self.synced_hint.store(reached, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_populated_by_need_and_in_large_pieces_where_much_is_appended() {
        let (block, capacity) = (BLOCK_BYTES as u64, 16 << 20);
        for synced in [0, 5000, 3 << 20] {
            for more in [1, 64, block, block + 1, 17 * block, 1 << 20, (4 << 20) + 3] {
                let end = synced + more;
                let to = populate_to(end, synced, capacity);
                assert!(to >= end && to.is_multiple_of(block), "{synced} {more}: {to}");
                let ahead = to - end;
                assert!(
                    ahead < block || ahead <= (more / 4).max(end / AHEAD_PART).min(POPULATE_BYTES),
                    "{more}: {ahead}"
                );
                if more >= 4 * POPULATE_BYTES {
                    assert!(to.is_multiple_of(POPULATE_BYTES), "{synced} {more}: {to}");
                }
            }
        }
        assert_eq!(populate_to(capacity - 10, 0, capacity - 7), capacity - 7);
        for (more, kept_together) in [(0, 1), (100, 1), (17, 4), (35, 8), (1 << 20, 16)] {
            let more = if more == 100 { 100 } else { more * block };
            assert_eq!(folio_bytes(more), kept_together * BLOCK_BYTES, "{more}");
        }
    }
}
