//! What a flash device did, by LUN.

use super::{BlockAddress, Geometry};
use std::ops::{Add, AddAssign};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of every LUN. Erases of each block are in [`super::BlockStatus`].
#[derive(Debug)]
pub struct FlashCounters {
    luns: Box<[LunCounters]>,
    luns_per_channel: usize,
    syncs: AtomicU64,
}

/// Counters of one LUN.
#[derive(Debug, Default)]
struct LunCounters {
    reads: AtomicU64,
    programs: AtomicU64,
    erases: AtomicU64,
    failures: AtomicU64,
    busy_ns: AtomicU64,
}

/// The counters of a LUN, a channel or a device at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Pages read.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Programs and erases that failed, and pages that could not be read.
    pub failures: u64,
    /// Time that LUNs were busy, in nanoseconds; 0 if the device does not measure it.
    pub busy_ns: u64,
}

impl Add for FlashCounts {
    type Output = FlashCounts;
    fn add(self, other: FlashCounts) -> FlashCounts {
        FlashCounts {
            reads: self.reads + other.reads,
            programs: self.programs + other.programs,
            erases: self.erases + other.erases,
            failures: self.failures + other.failures,
            busy_ns: self.busy_ns + other.busy_ns,
        }
    }
}

impl AddAssign for FlashCounts {
    fn add_assign(&mut self, other: FlashCounts) {
        *self = *self + other;
    }
}

impl FlashCounters {
    /// Counters for all LUNs of `geometry`.
    pub fn new(geometry: &Geometry) -> Self {
        FlashCounters {
            luns: (0..geometry.lun_count()).map(|_| LunCounters::default()).collect(),
            luns_per_channel: geometry.luns as usize,
            syncs: AtomicU64::new(0),
        }
    }

    /// Counts pages read from the LUN of `block`.
    #[inline]
    pub fn add_reads(&self, block: BlockAddress, count: u64) {
        self.luns[self.lun_of(block)].reads.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts pages programmed in the LUN of `block`.
    #[inline]
    pub fn add_programs(&self, block: BlockAddress, count: u64) {
        self.luns[self.lun_of(block)].programs.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts erases of blocks of the LUN of `block`.
    #[inline]
    pub fn add_erases(&self, block: BlockAddress, count: u64) {
        self.luns[self.lun_of(block)].erases.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts programs, erases and reads of the LUN of `block` that failed.
    #[inline]
    pub fn add_failures(&self, block: BlockAddress, count: u64) {
        self.luns[self.lun_of(block)].failures.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts nanoseconds that the LUN of `block` was busy.
    #[inline]
    pub fn add_busy_ns(&self, block: BlockAddress, count: u64) {
        self.luns[self.lun_of(block)].busy_ns.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a sync.
    pub fn add_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Syncs of the device.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Counters of the LUN that has `block`.
    pub fn lun(&self, block: BlockAddress) -> FlashCounts {
        self.luns[self.lun_of(block)].counts()
    }

    /// Counters of a channel.
    pub fn channel(&self, channel: u16) -> FlashCounts {
        let start = usize::from(channel) * self.luns_per_channel;
        sum(&self.luns[start..start + self.luns_per_channel])
    }

    /// Counters of the whole device.
    pub fn total(&self) -> FlashCounts {
        sum(&self.luns)
    }

    #[inline]
    fn lun_of(&self, block: BlockAddress) -> usize {
        usize::from(block.channel) * self.luns_per_channel + usize::from(block.lun)
    }
}

fn sum(luns: &[LunCounters]) -> FlashCounts {
    luns.iter().fold(FlashCounts::default(), |sum, lun| sum + lun.counts())
}

impl LunCounters {
    fn counts(&self) -> FlashCounts {
        FlashCounts {
            reads: self.reads.load(Ordering::Relaxed),
            programs: self.programs.load(Ordering::Relaxed),
            erases: self.erases.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            busy_ns: self.busy_ns.load(Ordering::Relaxed),
        }
    }
}
