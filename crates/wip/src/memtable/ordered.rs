//! A memtable's positions in the order of a range, and where to look for a key among them.
//!
//! Entries in order are anywhere in the log, so each that a search compares is a look at far away
//! memory. Most comparisons are of heads instead, one for some entries, which lie together: the
//! bytes of their keys behind what all keys have in common.

use super::Entries;
use super::heads::Heads;
use silica_base::shared_len;

/// Entries for each of which there is a head.
const PER_HEAD: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub struct Ordered {
    positions: Box<[u64]>,
    /// Of every so manieth entry.
    heads: Heads,
}

impl Ordered {
    /// `positions`, which are in the order of a range.
    pub fn new(positions: Vec<u64>, entries: &impl Entries) -> Self {
        let key = |at: &u64| entries.entry(*at).key;
        let (first, last) = (positions.first().map(key), positions.last().map(key));
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let prefix = &first[..shared_len(first, last)];
        let heads = Heads::new(prefix, positions.iter().step_by(PER_HEAD).map(key));
        Ordered { heads, positions: positions.into() }
    }

    /// All positions.
    pub fn positions(&self) -> &[u64] {
        &self.positions
    }

    /// What all keys begin with.
    pub(crate) fn prefix(&self) -> &[u8] {
        self.heads.prefix()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        8 * (self.positions.len() + self.heads.len())
    }

    /// How many entries have a key before `key`.
    pub fn before(&self, key: &[u8], entries: &impl Entries) -> usize {
        if key.is_empty() {
            return 0;
        }
        let found = self.heads.find(key);
        // Keys of the same head may lie before and behind.
        let (start, end) = (found.start.saturating_sub(1) * PER_HEAD, found.end * PER_HEAD);
        let between = &self.positions[start..end.min(self.positions.len())];
        start + between.partition_point(|at| entries.entry(*at).key < key)
    }
}
