//! The middle layer (section 4.4.1): a node of one line in memory for each leaf, with its
//! optimistic lock, where the leaf lies, and a filter of its keys.
//!
//! Nodes have numbers and are never given back: one that is free is used for another leaf later,
//! and its version goes on. So a reader may look at any node at any time without a count or an
//! epoch, and finds out by the version.
//!
//! The paper's node has its range of keys; here the top layer's separators are that range, and
//! coupling (`lock.rs`) finds out if it has changed.

use super::layout::LEAF_ALIGNMENT;
use super::lock::{begin_read, try_lock};
use super::pieces::Pieces;
use super::sync::{AtomicU64, Backoff, Ordering};
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

/// Bits of a node's number: 2^28 leaves hold some 340 GB.
pub(crate) const NUMBER_BITS: u32 = 28;

/// Words of a node: lock, leaf, filter.
type Words = [AtomicU64; 8];
const LOCK: usize = 0;
const LEAF: usize = 1;
const FILTER: usize = 2;
/// Bits of a filter. With 45 keys, the mean of a leaf, and four bits a key 2 % of other keys pass.
const FILTER_BITS: u64 = 6 * 64;

/// The leaf was not checked since the opening, and its filter is empty.
const IS_UNCHECKED: u64 = 1 << 63;
/// The node stands for the leaves behind its own, too: see `unfold.rs`. It has no buffer then.
const IS_FOLDED: u64 = 1 << 62;
/// Bits of a leaf's place in its word; behind them is the number of the leaf's write buffer.
const PLACE_BITS: u32 = 40;
/// Bits of a buffer's number: a log of 64 MiB has two million records, and a buffer has one at
/// least.
pub(crate) const BUFFER_BITS: u32 = 22;

/// A node.
#[derive(Clone, Copy)]
pub(crate) struct Node<'n>(&'n Words);

impl<'n> Node<'n> {
    #[inline(always)]
    pub(crate) fn lock_word(self) -> &'n AtomicU64 {
        &self.0[LOCK]
    }

    /// Where the leaf lies.
    #[inline(always)]
    pub(crate) fn leaf(self) -> u64 {
        (self.0[LEAF].load(Ordering::Relaxed) & ((1 << PLACE_BITS) - 1)) * LEAF_ALIGNMENT
    }

    /// The number of the leaf's write buffer, 0 if it has none.
    #[inline(always)]
    pub(crate) fn buffer(self) -> u32 {
        (self.0[LEAF].load(Ordering::Relaxed) << 2 >> (PLACE_BITS + 2)) as u32
    }

    /// Only for the holder of the lock.
    pub(crate) fn set_buffer(self, number: u32) {
        debug_assert!(number < 1 << BUFFER_BITS);
        let word = self.0[LEAF].load(Ordering::Relaxed);
        let others = word & (IS_UNCHECKED | ((1 << PLACE_BITS) - 1));
        self.0[LEAF].store(others | u64::from(number) << PLACE_BITS, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_unchecked(self) -> bool {
        self.0[LEAF].load(Ordering::Relaxed) & IS_UNCHECKED != 0
    }

    /// True if the node stands for leaves behind its own, too. Such a node is unchecked.
    #[inline(always)]
    pub(crate) fn is_folded(self) -> bool {
        self.0[LEAF].load(Ordering::Relaxed) & IS_FOLDED != 0
    }

    /// The node, whose leaf is unchecked, stands for the leaves behind it, too. Only for who made
    /// it.
    pub(crate) fn fold(self) {
        let word = self.0[LEAF].load(Ordering::Relaxed);
        self.0[LEAF].store(word | IS_FOLDED, Ordering::Relaxed);
    }

    /// Where the leaf lies from here on; it has no buffer. Only for the holder of the lock.
    pub(crate) fn set_leaf(self, leaf: u64, is_unchecked: bool) {
        let flag = if is_unchecked { IS_UNCHECKED } else { 0 };
        self.0[LEAF].store((leaf / LEAF_ALIGNMENT) | flag, Ordering::Relaxed);
    }

    /// The leaf, which keeps its buffer, lies elsewhere from here on. Only for the holder of the
    /// lock.
    pub(crate) fn move_leaf(self, leaf: u64) {
        let word = self.0[LEAF].load(Ordering::Relaxed) & !((1 << PLACE_BITS) - 1);
        self.0[LEAF].store(word | (leaf / LEAF_ALIGNMENT), Ordering::Relaxed);
    }

    /// The leaf was checked. Only for the holder of the lock.
    pub(crate) fn set_checked(self) {
        let word = self.0[LEAF].load(Ordering::Relaxed);
        self.0[LEAF].store(word & !IS_UNCHECKED, Ordering::Relaxed);
    }

    /// True if a key with this hash may be in the leaf.
    #[inline(always)]
    pub(crate) fn may_have(self, hash: u64) -> bool {
        bits_of(hash).into_iter().all(|bit| {
            let word = self.0[FILTER + (bit / 64) as usize].load(Ordering::Relaxed);
            word >> (bit % 64) & 1 == 1
        })
    }

    /// Only for the holder of the lock.
    #[inline]
    pub(crate) fn add(self, hash: u64) {
        for bit in bits_of(hash) {
            let word = &self.0[FILTER + (bit / 64) as usize];
            word.store(word.load(Ordering::Relaxed) | 1 << (bit % 64), Ordering::Relaxed);
        }
    }

    /// The filter without any key. Only for the holder of the lock.
    pub(crate) fn clear_filter(self) {
        self.0[FILTER..].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The keys of `other`, too. Only for the holder of both locks.
    pub(crate) fn add_filter_of(self, other: Node<'_>) {
        for (mine, its) in self.0[FILTER..].iter().zip(&other.0[FILTER..]) {
            let both = mine.load(Ordering::Relaxed) | its.load(Ordering::Relaxed);
            mine.store(both, Ordering::Relaxed);
        }
    }

    /// Locks, whatever the version.
    pub(crate) fn lock(self) {
        let mut backoff = Backoff::default();
        loop {
            if let Some(seen) = begin_read(self.lock_word())
                && try_lock(self.lock_word(), seen)
            {
                return;
            }
            backoff.pause();
        }
    }
}

/// Bits of the filter that a key sets.
#[inline(always)]
fn bits_of(hash: u64) -> [u64; 4] {
    std::array::from_fn(|at| (((hash >> (12 * at)) & 0xFFF) * FILTER_BITS) >> 12)
}

/// All nodes.
pub(crate) struct Nodes {
    pieces: Pieces<Words>,
    made: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl Nodes {
    pub(crate) fn new() -> Self {
        Nodes { pieces: Pieces::new(NUMBER_BITS), made: AtomicU32::new(0), free: Mutex::default() }
    }

    /// A node that was made.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Node<'_> {
        Node(self.pieces.get(number))
    }

    /// Asks the processor for a node that is looked at soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, number: u32) {
        self.pieces.prefetch(number);
    }

    /// A node for the leaf at `leaf`, unlocked, with an empty filter. Nobody finds it yet.
    /// `None` if there are too many.
    pub(crate) fn make(&self, leaf: u64, is_unchecked: bool) -> Option<u32> {
        let unused = self.free.lock().expect("no panic while locked").pop();
        let number = match unused {
            Some(number) => number,
            None => {
                let number = self.made.fetch_add(1, Ordering::Relaxed);
                if number >= 1 << NUMBER_BITS {
                    return None;
                }
                self.pieces.make(number);
                number
            }
        };
        let node = self.get(number);
        node.set_leaf(leaf, is_unchecked);
        node.clear_filter();
        Some(number)
    }

    /// A node that nobody finds any more, and whose lock is free.
    pub(crate) fn free(&self, number: u32) {
        self.free.lock().expect("no panic while locked").push(number);
    }

    /// Nodes ever made.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Bytes of memory of all nodes ever made.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.made()) * size_of::<Words>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sptree::lock::unlock;
    use crate::sptree::tree::Locked;
    use silica_base::Prng;

    #[test]
    fn filters_pass_their_keys_and_few_others() {
        let nodes = Nodes::new();
        let mut prng = Prng::new(1);
        let mut passed = 0;
        for _ in 0..200 {
            let node = nodes.get(nodes.make(4096, false).unwrap());
            let keys: Vec<u64> = (0..45).map(|_| prng.next_u64()).collect();
            keys.iter().for_each(|key| node.add(*key));
            assert!(keys.iter().all(|key| node.may_have(*key)));
            passed += (0..100).filter(|_| node.may_have(prng.next_u64())).count();
        }
        assert!(passed < 200 * 100 * 4 / 100, "{passed} of 20000");
    }

    #[test]
    fn who_does_not_get_a_lock_leaves_it_as_it_is() {
        let nodes = Nodes::new();
        let node = nodes.get(nodes.make(4096, false).unwrap());
        let seen = begin_read(node.lock_word()).unwrap();
        let word = || node.lock_word().load(Ordering::Relaxed);
        let holder = Locked::at(node, seen).unwrap();
        let held = word();
        assert!(Locked::at(node, seen).is_none() && Locked::unless_busy(node).is_none());
        assert_eq!(word(), held);
        drop(holder);
        let free = word();
        assert!(Locked::at(node, seen).is_none(), "the version of before");
        assert_eq!(word(), free);
        assert!(Locked::unless_busy(node).is_some() && free % 2 == 0);
    }

    #[test]
    fn a_node_that_is_used_again_has_a_later_version() {
        let nodes = Nodes::new();
        let number = nodes.make(4096, true).unwrap();
        let node = nodes.get(number);
        let seen = begin_read(node.lock_word()).unwrap();
        node.lock();
        unlock(node.lock_word());
        nodes.free(number);
        assert_eq!(nodes.make(8192, false), Some(number));
        assert!(begin_read(node.lock_word()).unwrap() > seen);
        assert!(node.leaf() == 8192 && !node.is_unchecked());
    }
}
