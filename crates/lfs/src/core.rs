//! The parts of an open file system, and who may change what.
//!
//! Whoever changes something holds the writer's lock, and takes the locks of single inodes under
//! it, one at a time. Readers take the lock of one inode, shared, and read the device under it.
//! A page that a reader reads cannot be given back meanwhile: who takes it away from its file
//! needs the same lock first.

use crate::extents::Run;
use crate::fault::{Fault, LfsResult};
use crate::ground::Ground;
use crate::node::{Ino, Node};
use crate::record::Record;
use crate::space::Space;
use crate::tree::{Inodes, Shared, write};
use silica_base::{Error, ErrorKind};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

/// Which segment is collected first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Collection {
    /// The one with the fewest live pages (003…, 3.7.2).
    Greedy,
    /// The one whose free share times age is most for its live share: cold segments are collected
    /// at a higher use than hot ones (Rosenblum and Ousterhout, 1992).
    #[default]
    CostBenefit,
}

/// How a file system is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LfsOptions {
    /// Which segment is collected first.
    pub collection: Collection,
    /// Bytes of written pages that wait in memory at most, if the device has room for as many.
    pub dirty_bytes_max: u64,
}

impl Default for LfsOptions {
    fn default() -> Self {
        LfsOptions { collection: Collection::default(), dirty_bytes_max: 8 << 20 }
    }
}

/// What a file system did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LfsStatistics {
    /// Pages of files written for users.
    pub pages_written: u64,
    /// Pages of files copied by collections: the paper's file copies.
    pub pages_copied: u64,
    /// Pages of the log.
    pub pages_of_log: u64,
    /// Pages of checkpoints.
    pub pages_of_checkpoints: u64,
    /// Pages of summaries.
    pub pages_of_summaries: u64,
    /// Segments collected.
    pub collections: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Commits: batches of changes that are there after a power cut as wholes.
    pub commits: u64,
    /// Syncs of the device.
    pub syncs: u64,
    /// Segments given back.
    pub segments_trimmed: u64,
}

/// A segment that takes pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) segment: u32,
    pub(crate) next: u32,
}

/// What only one thread at a time changes.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) space: Space,
    pub(crate) next_ino: Ino,
    /// Records since the last commit, and where each ends.
    pub(crate) pending: Vec<u8>,
    pub(crate) ends: Vec<usize>,
    /// Inodes whose attributes changed since the last commit.
    pub(crate) touched: BTreeSet<Ino>,
    /// Files with pages that have no place, how many pages these are, and how many of them were
    /// neither written nor promised before.
    pub(crate) dirty_files: BTreeSet<Ino>,
    pub(crate) dirty_pages: u64,
    pub(crate) fresh_pages: u64,
    /// Bytes that a checkpoint takes, about.
    pub(crate) weight: u64,
    /// The number of the next batch.
    pub(crate) next_sequence: u64,
    /// Changes so far, and those that are committed.
    pub(crate) change: u64,
    pub(crate) committed: u64,
    /// Open segments: for what users write, and for copies.
    pub(crate) heads: [Vec<Option<Head>>; 2],
    pub(crate) turns: [usize; 2],
    /// The segment that each of them took last, which it may have filled.
    pub(crate) taken: [Vec<Option<u32>>; 2],
    /// The open segment of the log.
    pub(crate) log: Option<Head>,
    /// Segments of the log and their pages since the last checkpoint, and segments of that.
    pub(crate) log_segments: Vec<u32>,
    pub(crate) log_pages: u64,
    pub(crate) checkpoint_segments: Vec<u32>,
    pub(crate) statistics: LfsStatistics,
    /// What made memory and device differ: nothing more is changed.
    pub(crate) poison: Option<Error>,
}

/// A log-structured file system on the segments of `G`. All methods may be called by several
/// threads; calls that only read wait for nothing but a change of the same inode.
pub struct Lfs<G> {
    pub(crate) ground: G,
    pub(crate) id: u64,
    pub(crate) options: LfsOptions,
    pub(crate) page_bytes: usize,
    pub(crate) dirty_pages_max: u64,
    pub(crate) inodes: Inodes,
    pub(crate) writer: Mutex<Writer>,
    /// Changes that are durable. Its lock is held while the device is synced, so that all who
    /// wait are served by one sync.
    pub(crate) durable: Mutex<u64>,
    /// The last batch that was synced.
    pub(crate) synced: AtomicU64,
}

impl Writer {
    pub(crate) fn new(space: Space, next_ino: Ino, next_sequence: u64) -> Self {
        let heads = space.widths.map(|width| vec![None; width as usize]);
        let taken = space.widths.map(|width| vec![None; width as usize]);
        Writer {
            space,
            next_ino,
            pending: Vec::new(),
            ends: Vec::new(),
            touched: BTreeSet::new(),
            dirty_files: BTreeSet::new(),
            dirty_pages: 0,
            fresh_pages: 0,
            weight: 0,
            next_sequence,
            change: 0,
            committed: 0,
            heads,
            turns: [0; 2],
            taken,
            log: None,
            log_segments: Vec::new(),
            log_pages: 0,
            checkpoint_segments: Vec::new(),
            statistics: LfsStatistics::default(),
            poison: None,
        }
    }

    /// Notes a change for the next commit.
    pub(crate) fn record(&mut self, record: Record<'_>) {
        record.encode(&mut self.pending);
        self.ends.push(self.pending.len());
    }

    /// Pages that files have, or will have when what waits is written.
    pub(crate) fn used(&self) -> u64 {
        self.space.live + self.space.promised + self.fresh_pages
    }

    /// Takes runs that a file lost out of the counts.
    pub(crate) fn drop_runs(&mut self, runs: &[Run]) {
        runs.iter().for_each(|run| self.space.drop_run(run));
    }
}

impl<G: Ground> Lfs<G> {
    /// The segments below.
    pub fn ground(&self) -> &G {
        &self.ground
    }

    /// Bytes of a page: files take space in pages.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Changes how the file system works from now on.
    pub fn set_options(&mut self, options: LfsOptions) {
        self.options = options;
    }

    /// What the file system did since it was opened.
    pub fn statistics(&self) -> LfsStatistics {
        self.lock().statistics
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no panic while locked")
    }

    /// The writer's lock, for a change.
    pub(crate) fn change(&self) -> LfsResult<MutexGuard<'_, Writer>> {
        let writer = self.lock();
        match &writer.poison {
            None => Ok(writer),
            Some(error) => {
                let message = format!("an earlier write failed ({error}); mount it again");
                Err(Error::new(ErrorKind::Poisoned, message).into())
            }
        }
    }

    pub(crate) fn node(&self, ino: Ino) -> LfsResult<Shared> {
        self.inodes.get(ino).ok_or(Fault::Stale)
    }

    /// Changes an inode, and keeps the account of what it weighs in a checkpoint.
    pub(crate) fn with<T>(
        &self,
        writer: &mut Writer,
        node: &Shared,
        change: impl FnOnce(&mut Writer, &mut Node) -> T,
    ) -> T {
        let mut node = write(node);
        let before = node.weight();
        let result = change(writer, &mut node);
        writer.weight = writer.weight + node.weight() - before;
        result
    }

    /// Pages that files can have in all.
    pub(crate) fn capacity(&self, writer: &Writer) -> u64 {
        let (usable, kept_back) = (self.ground.usable(), self.ground.over_provisioned());
        writer.space.capacity(writer.weight, usable, kept_back)
    }

    /// Refuses what would take so many more pages than there are.
    pub(crate) fn check_space(&self, writer: &Writer, pages: u64) -> LfsResult<()> {
        match pages > 0 && writer.used() + pages > self.capacity(writer) {
            true => Err(Fault::NoSpace),
            false => Ok(()),
        }
    }
}
