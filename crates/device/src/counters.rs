//! Counters that every engine's amplification figures come from.

use silica_base::Striped;
use std::sync::atomic::AtomicU64;

/// Operations and bytes that reached a device since it was opened.
#[derive(Debug, Default)]
pub struct Counters(Striped<Counts>);

#[derive(Debug, Default)]
struct Counts {
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
        let mine = self.0.mine();
        mine.add(|c| &c.reads, count);
        mine.add(|c| &c.bytes_read, bytes);
    }

    /// Counts a write of `bytes`.
    #[inline]
    pub fn add_write(&self, bytes: u64) {
        let mine = self.0.mine();
        mine.add(|c| &c.writes, 1);
        mine.add(|c| &c.bytes_written, bytes);
    }

    /// Counts a sync.
    #[inline]
    pub fn add_sync(&self) {
        self.0.add(|c| &c.syncs, 1);
    }

    /// The counters now.
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            reads: self.0.sum(|c| &c.reads),
            bytes_read: self.0.sum(|c| &c.bytes_read),
            writes: self.0.sum(|c| &c.writes),
            bytes_written: self.0.sum(|c| &c.bytes_written),
            syncs: self.0.sum(|c| &c.syncs),
        }
    }
}
