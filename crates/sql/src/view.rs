//! What is read of one moment, and what a connection keeps of it between two transactions that only
//! read: the view, if nothing was committed meanwhile, and iterators. So to begin writes no line
//! that another connection reads, and a short read of a range opens no iterator.
//!
//! 1. Whoever commits takes away what all connections keep: an idle one holds no old snapshot.
//! 2. A connection that keeps something looks at the number of commits behind that, and whoever
//!    commits looks what is kept behind adding one to it: one of the two finds it.

use crate::layout::Header;
use crate::long_keys::Entries;
use silica::engine::Snapshot;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is read of one moment.
pub(crate) struct View {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    pub(crate) header: Header,
    /// Commits before it, since the database was opened.
    pub(crate) number: u64,
}

/// Iterators that are kept at most: statements have seldom more cursors.
const ITERATORS_MAX: usize = 16;
/// Times that an iterator is used again. One that is older than a compaction goes through what that
/// has replaced, and keeps its files.
const USES_MAX: u32 = 64;

/// An iterator that nobody uses.
pub(crate) struct Idle {
    pub(crate) root: u32,
    pub(crate) iterator: Entries,
    pub(crate) uses: u32,
}

/// Iterators of one view that nobody uses.
#[derive(Default)]
pub(crate) struct IdleIterators(Vec<Idle>);

impl IdleIterators {
    /// One over the tree, if there is one.
    pub(crate) fn take(&mut self, root: u32) -> Option<Idle> {
        let at = self.0.iter().rposition(|idle| idle.root == root)?;
        Some(self.0.swap_remove(at))
    }

    /// Keeps one, unless it is old or there are many.
    pub(crate) fn put(&mut self, mut idle: Idle) {
        idle.uses += 1;
        if idle.uses < USES_MAX && self.0.len() < ITERATORS_MAX {
            self.0.push(idle);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A view and iterators of it.
pub(crate) struct Kept {
    pub(crate) view: Arc<View>,
    pub(crate) idle: IdleIterators,
}

/// Where a connection keeps it, and whoever commits finds it.
#[derive(Default)]
pub(crate) struct Slot {
    /// Something may be kept: a look that costs others nothing.
    is_kept: AtomicBool,
    kept: Mutex<Option<Kept>>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is kept, of whatever moment. Costs a load if nothing is.
    pub(crate) fn take(&self) -> Option<Kept> {
        // By rule 2 this load comes behind the change of the number of commits.
        if !self.is_kept.load(Ordering::SeqCst) {
            return None;
        }
        let mut kept = self.lock();
        self.is_kept.store(false, Ordering::SeqCst);
        kept.take()
    }

    /// Keeps something unless it is not of the newest commit any more.
    pub(crate) fn keep(&self, kept: Kept, commits: &AtomicU64) {
        let number = kept.view.number;
        let old = {
            let mut slot = self.lock();
            let old = slot.replace(kept);
            self.is_kept.store(true, Ordering::SeqCst);
            old
        };
        drop(old);
        if commits.load(Ordering::SeqCst) != number {
            drop(self.take());
        }
    }
}
