//! A memtable of either kind.

use super::{Directory, Entries, Found, Full, Inserted, SkipList, sorted};
use silica_base::HashSeed;
use std::sync::Arc;

/// Lines of a directory, and positions of a list, that is new.
const FIRST_LINES: usize = 1;
const FIRST_POSITIONS: usize = 64;

/// A hash table, or a list in order for buckets whose ranges are read often.
pub enum Memtable {
    /// Found by its keys' hashes.
    Hash(Directory),
    /// In order. Shared with those who go through a range of it.
    List(Arc<SkipList>),
}

impl Memtable {
    /// An empty hash table.
    pub fn new_hash() -> Self {
        Memtable::Hash(Directory::new(FIRST_LINES))
    }

    /// An empty list.
    pub fn new_list() -> Self {
        Memtable::List(Arc::new(SkipList::new(FIRST_POSITIONS)))
    }

    /// A list of `positions`, which are in the order of a range.
    ///
    /// # Panics
    /// Where they are more than a list holds.
    pub fn list_of(positions: &[u64], entries: &impl Entries) -> Self {
        let list = SkipList::new(2 * positions.len() + FIRST_POSITIONS);
        // From the last one on each is the first of all, which is where the search begins.
        for position in positions.iter().rev() {
            let added = list.insert(entries.entry(*position).key, *position, entries);
            added.expect("there is room for twice as many");
        }
        Memtable::List(Arc::new(list))
    }

    /// Positions.
    pub fn len(&self) -> usize {
        match self {
            Memtable::Hash(directory) => directory.len(),
            Memtable::List(list) => list.len(),
        }
    }

    /// True where there is no position.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        match self {
            Memtable::Hash(directory) => directory.bytes(),
            Memtable::List(list) => list.bytes(),
        }
    }

    /// Asks for the memory that a search for a key with this hash looks at.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Memtable::Hash(directory) = self {
            directory.prefetch(hash);
        }
    }

    /// The newest version of `key` before position `before`.
    #[inline]
    pub fn find<'e>(
        &self,
        hash: u64,
        key: &[u8],
        before: u64,
        entries: &'e impl Entries,
    ) -> Option<Found<'e>> {
        match self {
            Memtable::Hash(directory) => directory.find(hash, key, before, entries),
            Memtable::List(list) => list.find(key, before, entries),
        }
    }

    /// True where another memtable had better take over before this one is full.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        matches!(self, Memtable::Hash(directory) if directory.is_nearly_full())
    }

    /// True where another memtable had better take over than that this one grows.
    pub fn is_large(&self) -> bool {
        matches!(self, Memtable::Hash(directory) if directory.is_large())
    }

    /// Adds the position of `key`, as [`Directory::insert`] does; a list keeps every version. For
    /// any number of callers where it is a hash table, and for one at a time where it is a list.
    #[inline]
    pub fn insert(
        &self,
        hash: u64,
        key: &[u8],
        position: u64,
        kept_before: u64,
        entries: &impl Entries,
    ) -> Result<Inserted, Full> {
        match self {
            Memtable::Hash(directory) => {
                directory.insert(hash, key, position, kept_before, entries)
            }
            Memtable::List(list) => list.insert(key, position, entries).map(|()| Inserted::Added),
        }
    }

    /// Makes room; [`Full`] where more room does not help, or there cannot be more.
    pub fn grow(&mut self, seed: HashSeed, entries: &impl Entries) -> Result<(), Full> {
        match self {
            Memtable::Hash(directory) => {
                *directory = directory.grown(|key| seed.low(key), entries).ok_or(Full)?;
            }
            Memtable::List(list) => *list = Arc::new(list.grown().ok_or(Full)?),
        }
        Ok(())
    }

    /// All positions, in no order.
    pub fn positions(&self) -> Vec<u64> {
        match self {
            Memtable::Hash(directory) => directory.positions(),
            Memtable::List(list) => list.positions(),
        }
    }

    /// About `most` positions, in no order; all if there are no more. Costs by `most`, not by how
    /// many there are.
    pub fn some_positions(&self, most: usize) -> Vec<u64> {
        match self {
            Memtable::Hash(directory) => directory.some_positions(most),
            Memtable::List(list) => list.some_positions(most),
        }
    }

    /// All positions, in the order of a range.
    pub fn in_order(&self, entries: &impl Entries) -> Vec<u64> {
        match self {
            Memtable::Hash(directory) => sorted(directory.positions(), entries),
            Memtable::List(list) => list.positions(),
        }
    }
}
