//! The tree's parts, and what all of its work begins with.

use super::anchors::{Anchors, SPACING};
use super::buffers::{BUFFER_BYTES, Buffer, Buffers};
use super::counts::Counts;
use super::entry::Torn;
use super::history::{History, Kept};
use super::leaf::Leaf;
use super::lock::{begin_read, try_lock, unlock};
use super::log::Log;
use super::nodes::{Node, Nodes};
use super::options::Config;
use super::top::Top;
use crate::space::Space;
use silica_base::{Biased, Clock, Error, ErrorKind, HashSeed, Result, Striped};
use silica_device::region::Region;
use silica_engine::transaction::CommitTurns;
use silica_engine::{Descriptor, Durability};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A persistent B+-tree (SPTree, chapter 4 of the dissertation in docs/papers.md).
pub struct SpTree<R: Region> {
    pub(crate) space: Space<R>,
    pub(crate) seed: HashSeed,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) descriptor: Descriptor,
    pub(crate) nodes: Nodes,
    pub(crate) buffers: Buffers,
    pub(crate) log: Log,
    /// The region's copy of the top layer.
    pub(crate) anchors: Anchors,
    /// Bytes of memory that buffers may take.
    pub(crate) buffer_bytes_max: AtomicU64,
    pub(crate) top: Top,
    pub(crate) history: History,
    /// Writes of one key hold it together; batches, and whoever takes a snapshot, hold it alone.
    pub(crate) gate: Biased<()>,
    pub(crate) counts: Striped<Counts>,
    /// Entries when the store was opened, of the leaves that were known then.
    pub(crate) entries_at_open: u64,
    /// Entries of folded nodes are in `entries_at_open`: the region was closed cleanly.
    pub(crate) is_counted: bool,
    /// Nodes that stand for leaves behind theirs, too.
    pub(crate) folded: AtomicU64,
    /// Leaves that were not checked since the opening.
    pub(crate) unchecked: AtomicU64,
    /// The region was not settled when it was opened: the last change of a leaf may be half there.
    pub(crate) may_be_torn: bool,
    /// Objects that are reached have to be marked.
    pub(crate) is_marking: AtomicBool,
    /// No entry expires before this, in milliseconds since the Unix epoch.
    pub(crate) next_expiry_ms: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) state: AtomicU64,
    pub(crate) commit_turns: Arc<CommitTurns>,
    /// Where background work goes on.
    pub(crate) upkeep: Mutex<Upkeep>,
}

/// Entries of a leaf after random inserts: docs/benchmarks/sptree.md.
const ENTRIES_OF_LEAF: u64 = 43;

/// Where background work goes on.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// The first key whose leaf was not checked.
    pub(crate) check_from: Option<Vec<u8>>,
    /// The first key whose leaf is searched for what has expired.
    pub(crate) sweep_from: Option<Vec<u8>>,
    /// When the first entry expires of those that the sweep has met.
    pub(crate) sweep_expiry_ms: u64,
    /// The first key whose leaf the copy of the top layer may lack, during a pass.
    pub(crate) copy_from: Option<Vec<u8>>,
    /// Leaves that the pass has met since the last one that the copy has.
    pub(crate) copy_since: u64,
}

/// States of a tree.
pub(crate) const OPEN: u64 = 0;
pub(crate) const POISONED: u64 = 1;
pub(crate) const CLOSED: u64 = 2;

/// A node whose lock is held until this is dropped.
pub(crate) struct Locked<'n> {
    pub(crate) node: Node<'n>,
}

impl<'n> Locked<'n> {
    /// Locks `node` if its version still is `seen`.
    #[inline(always)]
    pub(crate) fn at(node: Node<'n>, seen: u64) -> Option<Self> {
        // Made only by the holder: the drop of one that nobody wanted would unlock what another
        // thread holds, or leave a free lock odd for ever.
        if try_lock(node.lock_word(), seen) { Some(Locked { node }) } else { None }
    }

    /// Locks `node` unless somebody else has it.
    #[inline(always)]
    pub(crate) fn unless_busy(node: Node<'n>) -> Option<Self> {
        Locked::at(node, begin_read(node.lock_word())?)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        unlock(self.node.lock_word());
    }
}

impl<R: Region> SpTree<R> {
    pub(crate) fn leaf(&self, at: u64) -> Leaf<'_, R> {
        Leaf::new(&self.space, at)
    }

    /// Something that was read under a node's lock is damaged.
    pub(crate) fn torn(&self, torn: Torn) -> Error {
        torn.error(self.space.name())
    }

    /// The hash of a key, of which tag and filter take their bits.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.low(key)
    }

    /// Entries, those that have expired and were not removed yet included.
    pub(crate) fn entries(&self) -> u64 {
        self.entries_at_open.wrapping_add(self.counts.sum(|counts| &counts.entries))
    }

    /// Nodes that stand for leaves behind theirs, too.
    pub(crate) fn folded(&self) -> u64 {
        self.folded.load(Ordering::Acquire)
    }

    /// Entries, with a guess for leaves that nobody has come to since an opening after a crash:
    /// as many behind each folded node as behind those that were unfolded.
    pub(crate) fn entries_guess(&self) -> u64 {
        let (entries, folded) = (self.entries(), self.folded());
        if self.is_counted || folded == 0 {
            return entries;
        }
        let known = self.top.leaves().saturating_sub(folded).max(1);
        let of_leaf = if entries == 0 { ENTRIES_OF_LEAF } else { entries / known };
        entries + folded * SPACING * of_leaf
    }

    /// Leaves that were not checked since the opening; a folded node counts as one.
    pub(crate) fn unchecked(&self) -> u64 {
        self.unchecked.load(Ordering::Relaxed)
    }

    /// The write buffer of a node's leaf, if it has one.
    #[inline(always)]
    pub(crate) fn buffer_of(&self, node: Node<'_>) -> Option<Buffer<'_>> {
        let number = node.buffer();
        (number != 0).then(|| self.buffers.get(number))
    }

    /// Bytes of nodes, top layer, write buffers and the allocator's book.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.fixed_bytes() + self.buffers.bytes()
    }

    fn fixed_bytes(&self) -> u64 {
        self.nodes.bytes() + self.top.bytes() + self.anchors.bytes() + self.space.memory_bytes()
    }

    /// Buffers that may be in use: a share of the leaves, as far as there is memory.
    pub(crate) fn buffers_max(&self) -> u64 {
        let share = u64::from(self.nodes.made()) * self.config.buffers_percent / 100;
        let bytes = self.buffer_bytes_max.load(Ordering::Relaxed);
        share.max(u64::from(self.config.buffers_percent > 0)).min(bytes / BUFFER_BYTES)
    }

    /// What region, index and snapshots leave of the memory number is for buffers.
    pub(crate) fn share_memory(&self) {
        let memory = self.memory_bytes();
        let taken = self.space.region().len() + self.fixed_bytes() + Config::history_bytes(memory);
        self.buffer_bytes_max.store(memory.saturating_sub(taken), Ordering::Relaxed);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Refuses a write that would not survive what it has to, and any after a failed fence.
    #[inline]
    pub(crate) fn check_writable(&self, durability: Durability) -> Result<()> {
        match self.state.load(Ordering::Relaxed) {
            OPEN => {}
            POISONED => {
                let message = "a fence has failed; open the store again";
                return Err(Error::new(ErrorKind::Poisoned, message));
            }
            _ => return Err(Error::new(ErrorKind::Closed, "the store is closed")),
        }
        if durability == Durability::Synced {
            self.check_synced()?;
        }
        Ok(())
    }

    /// Refuses to promise what the region cannot keep.
    pub(crate) fn check_synced(&self) -> Result<()> {
        let class = self.space.region().class();
        if class.survives_power_cut() {
            return Ok(());
        }
        let message = format!(
            "{} survives {class}: a synced write is refused; write buffered, or put the store on \
             persistent memory",
            self.space.name()
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// After a failed fence nothing is written until the store is opened again.
    pub(crate) fn poison(&self, error: Error) -> Error {
        self.state.store(POISONED, Ordering::Relaxed);
        error
    }

    /// Notes what keys were, for snapshots that are held.
    pub(crate) fn note(&self, notes: Vec<(Vec<u8>, Option<Kept>)>) -> Result<()> {
        if notes.is_empty() {
            return Ok(());
        }
        self.history.note(notes, Config::history_bytes(self.memory_bytes()))
    }

    /// An entry expires then.
    pub(crate) fn note_expiry(&self, expires_unix_ms: u64) {
        if expires_unix_ms != 0 && expires_unix_ms < self.next_expiry_ms.load(Ordering::Relaxed) {
            self.next_expiry_ms.fetch_min(expires_unix_ms, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_entries(&self, added: i64) {
        if added != 0 {
            self.counts.add(|counts| &counts.entries, added as u64);
        }
    }
}
