//! Counters that every engine's amplification figures come from.

use std::sync::atomic::{AtomicU64, Ordering};

/// Operations and bytes that reached a device since it was opened.
#[derive(Debug, Default)]
pub struct Counters {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Read operations.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Write operations, appends to mapped logs included.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
}

impl Counters {
    /// Counts a read of `bytes`.
    #[inline]
    pub fn add_read(&self, bytes: u64) {
        self.add_reads(1, bytes);
    }

    /// Counts `count` reads of `bytes` in all.
    #[inline]
    pub fn add_reads(&self, count: u64, bytes: u64) {
        self.reads.fetch_add(count, Ordering::Relaxed);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a write of `bytes`.
    #[inline]
    pub fn add_write(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a sync.
    #[inline]
    pub fn add_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters now.
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            reads: self.reads.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}
