//! Counters that every engine's amplification figures come from.

use crate::Lifetime;
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
    /// Without a lifetime, and of each.
    bytes_written: [AtomicU64; 1 + Lifetime::ALL.len()],
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
    /// Bytes written of each [`Lifetime`] that the system was told of, of [`Lifetime::ALL`].
    pub bytes_of_lifetime: [u64; Lifetime::ALL.len()],
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

    /// Counts a write of `bytes`, of a lifetime that the system was told of.
    #[inline]
    pub fn add_write(&self, bytes: u64, lifetime: Option<Lifetime>) {
        let mine = self.0.mine();
        mine.add(|c| &c.writes, 1);
        // A class is one counter and the sum is made by who asks: a write costs no more for it.
        let class = lifetime.map_or(0, |lifetime| 1 + lifetime as usize);
        mine.add(|c| &c.bytes_written[class], bytes);
    }

    /// Counts a sync.
    #[inline]
    pub fn add_sync(&self) {
        self.0.add(|c| &c.syncs, 1);
    }

    /// The counters now.
    pub fn snapshot(&self) -> CounterSnapshot {
        let bytes_of_lifetime =
            Lifetime::ALL.map(|lifetime| self.0.sum(|c| &c.bytes_written[1 + lifetime as usize]));
        let without = self.0.sum(|c| &c.bytes_written[0]);
        CounterSnapshot {
            reads: self.0.sum(|c| &c.reads),
            bytes_read: self.0.sum(|c| &c.bytes_read),
            writes: self.0.sum(|c| &c.writes),
            bytes_written: without + bytes_of_lifetime.iter().sum::<u64>(),
            bytes_of_lifetime,
            syncs: self.0.sum(|c| &c.syncs),
        }
    }
}
