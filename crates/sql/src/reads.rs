//! What a transaction has read that writes beside others: its commit fails if any of it was
//! written since the transaction began. So transactions that commit happen one after the other, in
//! the order of their commits.
//!
//! 1. A get is noted as its key, whether it has found something or not.
//! 2. A walk is noted as the range from where it was aimed to how far it has come, and to the end
//!    of the tree if it has found nothing further: what is put in between later is a conflict, too.
//! 3. Beyond so many walks whole trees are noted: that is more than was read, never less.

use crate::layout::{HEADER_KEY, range};
use silica::KeyRange;
use silica::engine::transaction::Transaction;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Walks that are noted one by one.
const WALKS_MAX: usize = 4096;
/// Keys that are.
const KEYS_MAX: usize = 1 << 16;

/// A range of a tree that was walked through, from a stored key on and before another one.
struct Walk {
    root: u32,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    /// It is known how far it came; before, it counts as come to the end.
    is_known: bool,
}

impl Walk {
    fn range(&self) -> KeyRange {
        let upper = self.upper.clone().map_or(Bound::Unbounded, Bound::Excluded);
        KeyRange { lower: Bound::Included(self.lower.clone()), upper }
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Reads {
    keys: BTreeSet<Vec<u8>>,
    walks: Vec<Walk>,
    whole: BTreeSet<u32>,
    /// More keys than are noted.
    is_everything: bool,
    /// Changes when walks are forgotten, so that their numbers mean others.
    generation: u64,
}

impl Reads {
    /// Forgets everything; a transaction begins.
    pub(crate) fn clear(&mut self) {
        let generation = self.generation + 1;
        *self = Reads { generation, ..Reads::default() };
    }

    pub(crate) fn note_key(&mut self, key: &[u8]) {
        if self.keys.len() >= KEYS_MAX {
            self.is_everything = true;
        }
        if !self.is_everything && !self.keys.contains(key) {
            self.keys.insert(key.to_vec());
        }
    }

    pub(crate) fn note_tree(&mut self, root: u32) {
        self.whole.insert(root);
    }

    /// Has the commit of `transaction` look at everything.
    pub(crate) fn watch(&self, transaction: &mut Transaction) {
        if self.is_everything {
            transaction.watch_range(KeyRange::ALL);
            return;
        }
        // Tables are as the header says.
        transaction.watch_key(HEADER_KEY, 0);
        self.keys.iter().for_each(|key| transaction.watch_key(key, 0));
        self.whole.iter().for_each(|root| transaction.watch_range(range(*root)));
        let walks = self.walks.iter().filter(|walk| !self.whole.contains(&walk.root));
        walks.for_each(|walk| transaction.watch_range(walk.range()));
    }
}

/// Where an iterator notes how far it comes.
pub(crate) struct Walker {
    reads: Arc<Mutex<Reads>>,
    root: u32,
    /// The walk's place among all, and of which generation.
    walk: Option<(usize, u64)>,
}

impl Walker {
    pub(crate) fn new(reads: &Arc<Mutex<Reads>>, root: u32) -> Self {
        Walker { reads: Arc::clone(reads), root, walk: None }
    }

    fn reads(reads: &Mutex<Reads>) -> MutexGuard<'_, Reads> {
        reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A walk begins, from a key on or before one; `None` stands for the end of the tree there.
    pub(crate) fn begin(&mut self, from: Option<Vec<u8>>, before: Option<Vec<u8>>) {
        let mut reads = Self::reads(&self.reads);
        if reads.walks.len() >= WALKS_MAX {
            let roots: Vec<u32> = reads.walks.drain(..).map(|walk| walk.root).collect();
            reads.whole.extend(roots);
            reads.generation += 1;
        }
        let (lower, upper) = range(self.root).half_open();
        let (lower, upper) = (from.unwrap_or(lower), before.or(upper));
        reads.walks.push(Walk { root: self.root, lower, upper, is_known: false });
        self.walk = Some((reads.walks.len() - 1, reads.generation));
    }

    /// The walk has come to a key, which such bounds surround, or to the end of the tree.
    pub(crate) fn reach(&mut self, key: Option<(Vec<u8>, Vec<u8>)>, is_forward: bool) {
        let mut reads = Self::reads(&self.reads);
        let Some((at, generation)) = self.walk else { return };
        if generation != reads.generation {
            // The whole tree is noted.
            return;
        }
        let (first, end) = range(self.root).half_open();
        let walk = &mut reads.walks[at];
        let is_known = std::mem::replace(&mut walk.is_known, true);
        if is_forward {
            let reached = key.map(|(_, behind)| behind).or(end);
            let is_further = match (&reached, &walk.upper) {
                (Some(reached), Some(upper)) => reached > upper,
                (reached, _) => reached.is_none(),
            };
            if is_further || !is_known {
                walk.upper = reached;
            }
        } else {
            let reached = key.map_or(first, |(from, _)| from);
            if reached < walk.lower || !is_known {
                walk.lower = reached;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::row_key;
    use silica::engine::Ordered;
    use silica::engine::transaction::{TransactionOptions, Wait};
    use silica::{Durability, EntryRef};

    /// True if a transaction with these reads commits after another one has written `rowid`.
    fn commits(reads: &Reads, rowid: i64) -> bool {
        let scratch = tempfile::tempdir().unwrap();
        let store = silica::open(scratch.path().join("store")).unwrap();
        let keyspace = store.keyspace("k").unwrap();
        let ordered: Arc<dyn Ordered> = Arc::clone(keyspace.engine()).as_ordered().unwrap();
        let options = TransactionOptions { is_exclusive: false, wait: Wait::No };
        let mut transaction = Transaction::begin(ordered, options).unwrap();
        reads.watch(&mut transaction);
        transaction.put(b"other", EntryRef::new(b""));
        keyspace.put(row_key(7, rowid), "").unwrap();
        transaction.commit(Durability::Buffered).is_ok()
    }

    #[test]
    fn a_walk_is_watched_as_far_as_it_came() {
        let reads = Arc::<Mutex<Reads>>::default();
        let mut walker = Walker::new(&reads, 7);
        walker.begin(Some(row_key(7, 10).to_vec()), None);
        let bounds = |rowid: i64| (row_key(7, rowid).to_vec(), row_key(7, rowid + 1).to_vec());
        walker.reach(Some(bounds(12)), true);
        walker.reach(Some(bounds(20)), true);
        let at = |rowid| commits(&reads.lock().unwrap(), rowid);
        assert_eq!([9, 10, 15, 20, 21].map(at), [true, false, false, false, true]);
        walker.reach(Some(bounds(8)), false);
        assert_eq!([7, 8, 20, 21].map(at), [true, false, false, true]);
        walker.reach(None, true);
        let at = |rowid| commits(&reads.lock().unwrap(), rowid);
        assert_eq!([7, 21, 1 << 40].map(at), [true, false, false]);
        reads.lock().unwrap().clear();
        walker.reach(Some(bounds(3)), true);
        assert!(commits(&reads.lock().unwrap(), 3), "it is a walk of another transaction");
        reads.lock().unwrap().note_key(&row_key(7, 5));
        let at = |rowid| commits(&reads.lock().unwrap(), rowid);
        assert_eq!([4, 5].map(at), [true, false]);
    }

    #[test]
    fn many_walks_are_whole_trees() {
        let reads = Arc::<Mutex<Reads>>::default();
        let mut walker = Walker::new(&reads, 7);
        for rowid in 0..=WALKS_MAX as i64 {
            walker.begin(Some(row_key(7, rowid).to_vec()), Some(row_key(7, rowid).to_vec()));
        }
        let reads = reads.lock().unwrap();
        assert_eq!(reads.walks.len(), 1);
        assert!(!commits(&reads, -5));
    }
}
