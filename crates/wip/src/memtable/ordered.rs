//! A memtable's positions in the order of a range, and where to look for a key among them.
//!
//! Entries in order are anywhere in the log, so each that a search compares is a look at far away
//! memory. Most comparisons are of heads instead, one for some entries, which lie together: the
//! bytes of their keys behind what all keys have in common.

use super::{Entries, head};

/// Entries for each of which there is a head.
const PER_HEAD: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub struct Ordered {
    positions: Box<[u64]>,
    /// What all keys begin with.
    prefix: Box<[u8]>,
    /// Of every so manieth entry.
    heads: Box<[u64]>,
}

impl Ordered {
    /// `positions`, which are in the order of a range.
    pub fn new(positions: Vec<u64>, entries: &impl Entries) -> Self {
        let key = |at: &u64| entries.entry(*at).key;
        let (first, last) = (positions.first().map_or(&[][..], key), positions.last().map(key));
        let is_same = |(one, other): &(&u8, &u8)| one == other;
        let common = first.iter().zip(last.unwrap_or_default()).take_while(is_same).count();
        let head_of = |at: &u64| head(&key(at)[common..]);
        let heads = positions.iter().step_by(PER_HEAD).map(head_of).collect();
        Ordered { prefix: first[..common].into(), heads, positions: positions.into() }
    }

    /// All positions.
    pub fn positions(&self) -> &[u64] {
        &self.positions
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        8 * (self.positions.len() + self.heads.len())
    }

    /// How many entries have a key before `key`.
    pub fn before(&self, key: &[u8], entries: &impl Entries) -> usize {
        let common = self.prefix.len();
        if key.len() < common || key[..common] != *self.prefix {
            return if *key < *self.prefix { 0 } else { self.positions.len() };
        }
        let head = head(&key[common..]);
        // Keys of the same head may lie before and behind.
        let start = self.heads.partition_point(|other| *other < head).saturating_sub(1) * PER_HEAD;
        let end = self.heads.partition_point(|other| *other <= head) * PER_HEAD;
        let between = &self.positions[start..end.min(self.positions.len())];
        start + between.partition_point(|at| entries.entry(*at).key < key)
    }
}
