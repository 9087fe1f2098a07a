//! Positions in the order of their keys.
//!
//! Nodes are words of one piece of memory, and links are their numbers: the head of the key (two
//! words), the position (two), then one link for each level. Level 0 has all nodes; a node is in
//! the next level with one chance in four.
//!
//! Orderings, for one who inserts and any number who read (`tests/list_model.rs` checks them):
//!
//! * A node's words are stored relaxed before any link to it, and each link to it with release;
//!   readers follow links with acquire: who sees a link sees the node behind it, whole, and the
//!   entry in the log.
//! * Links are made from level 0 up. A reader that comes along an upper level finds the node in the
//!   lower ones, too: what is searched on the way down is never behind what was found above.
//! * A node is never taken out and its words never change, except for links, which only ever go to
//!   nodes that come before the one that they went to.
//! * What the writer alone uses (words in use, the generator's state) is relaxed; so is the count.

use super::entries::{Entries, Found, Full, head, order};
use super::sync::{Acquire, AtomicU32, AtomicU64, LEVELS, Relaxed, Release, Words};
use silica_base::Prng;
use std::cmp::Ordering;

/// Words of a node before its links.
const NODE_WORDS: usize = 4;
/// Words of a node with its links, on average.
const NODE_WORDS_MEAN: f64 = NODE_WORDS as f64 + 4.0 / 3.0;
/// The link to nothing; nothing is linked to the first node, which has no key.
const NONE: u32 = 0;

/// See the module's documentation.
pub struct SkipList {
    words: Words,
    /// Words in use.
    used: AtomicU32,
    count: AtomicU32,
    /// State of the generator that draws levels.
    random: AtomicU64,
}

/// A node in the list; it stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(u32);

/// What a node is compared with.
struct Wanted<'k> {
    head: u64,
    key: &'k [u8],
    position: u64,
}

impl<'k> Wanted<'k> {
    fn new(key: &'k [u8], position: u64) -> Self {
        Wanted { head: head(key), key, position }
    }
}

impl SkipList {
    /// An empty list with room for about `positions` positions.
    ///
    /// # Panics
    /// Where that takes more than 2^32 words.
    pub fn new(positions: usize) -> Self {
        let words = (positions as f64 * NODE_WORDS_MEAN) as usize + 2 * (NODE_WORDS + LEVELS);
        assert!(u32::try_from(words).is_ok(), "words have numbers of 32 bits");
        let first = (NODE_WORDS + LEVELS) as u32;
        SkipList {
            words: Words::zeroed(words),
            used: AtomicU32::new(first),
            count: AtomicU32::new(0),
            random: AtomicU64::new(words as u64),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        4 * self.words.len()
    }

    /// Positions.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    /// True where there is no position.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn pair(&self, at: usize) -> u64 {
        let word = |at: usize| u64::from(self.words[at].load(Relaxed));
        word(at) | word(at + 1) << 32
    }

    /// The position of a node.
    pub fn position(&self, node: Node) -> u64 {
        self.pair(node.0 as usize + 2)
    }

    #[inline(always)]
    fn next(&self, node: u32, level: usize) -> u32 {
        self.words[node as usize + NODE_WORDS + level].load(Acquire)
    }

    /// The order of a node and what is wanted.
    #[inline(always)]
    fn compare(&self, node: u32, wanted: &Wanted<'_>, entries: &impl Entries) -> Ordering {
        self.pair(node as usize).cmp(&wanted.head).then_with(|| {
            let position = self.position(Node(node));
            order(entries.entry(position).key, position, wanted.key, wanted.position)
        })
    }

    /// The last node before what is wanted, on each level, and the one behind the last of them, at
    /// or after what is wanted. Who asks for the next of the last once more may get another, that
    /// was put between them meanwhile and is still before what is wanted.
    fn around(&self, wanted: &Wanted<'_>, entries: &impl Entries) -> ([u32; LEVELS], u32) {
        let (mut node, mut next, mut last) = (NONE, NONE, [NONE; LEVELS]);
        for level in (0..LEVELS).rev() {
            loop {
                next = self.next(node, level);
                if next == NONE || self.compare(next, wanted, entries).is_ge() {
                    break;
                }
                node = next;
            }
            last[level] = node;
        }
        (last, next)
    }

    /// The first node at or after (`key`, `position`). For everybody, as all that follow.
    pub fn seek(&self, key: &[u8], position: u64, entries: &impl Entries) -> Option<Node> {
        self.some(self.around(&Wanted::new(key, position), entries).1)
    }

    /// The last node before (`key`, `position`).
    pub fn seek_before(&self, key: &[u8], position: u64, entries: &impl Entries) -> Option<Node> {
        self.some(self.around(&Wanted::new(key, position), entries).0[0])
    }

    /// The first node.
    pub fn first(&self) -> Option<Node> {
        self.some(self.next(NONE, 0))
    }

    /// The last node.
    pub fn last(&self) -> Option<Node> {
        let mut node = NONE;
        for level in (0..LEVELS).rev() {
            while self.next(node, level) != NONE {
                node = self.next(node, level);
            }
        }
        self.some(node)
    }

    /// The node after one.
    pub fn after(&self, node: Node) -> Option<Node> {
        self.some(self.next(node.0, 0))
    }

    fn some(&self, node: u32) -> Option<Node> {
        (node != NONE).then_some(Node(node))
    }

    /// The newest version of `key` before position `before`.
    pub fn find<'e>(
        &self,
        key: &[u8],
        before: u64,
        entries: &'e impl Entries,
    ) -> Option<Found<'e>> {
        let position = self.position(self.seek(key, before.checked_sub(1)?, entries)?);
        let entry = entries.entry(position);
        (entry.key == key).then_some(Found { position, entry })
    }

    /// All positions, in the order of a range.
    pub fn positions(&self) -> Vec<u64> {
        let nodes = std::iter::successors(self.first(), |node| self.after(*node));
        nodes.map(|node| self.position(node)).collect()
    }

    /// About `most` positions, spread over the order; all if there are no more. Costs by `most`,
    /// not by how many there are.
    pub fn some_positions(&self, most: usize) -> Vec<u64> {
        // The highest level that has as many nodes as are wanted.
        let times = (self.len() / most.max(1)).max(1);
        let level = (times.ilog2() as usize / 2).min(LEVELS - 1);
        let step = (times >> (2 * level)).max(1);
        let on_level = |node: u32| (node != NONE).then_some(node);
        let first = on_level(self.next(NONE, level));
        let nodes = std::iter::successors(first, |node| on_level(self.next(*node, level)));
        nodes.step_by(step).map(|node| self.position(Node(node))).collect()
    }

    /// This list with twice as much room; `None` where that is more than links tell apart. Only for
    /// the one who inserts.
    pub fn grown(&self) -> Option<SkipList> {
        let words = Words::zeroed(u32::try_from(2 * self.words.len()).ok()? as usize);
        let larger = SkipList {
            words,
            used: AtomicU32::new(self.used.load(Relaxed)),
            count: AtomicU32::new(self.count.load(Relaxed)),
            random: AtomicU64::new(self.random.load(Relaxed)),
        };
        // Links are numbers of words, so they stay right.
        let used = self.used.load(Relaxed) as usize;
        let both = larger.words.iter().zip(self.words.iter());
        both.take(used).for_each(|(new, old)| new.store(old.load(Relaxed), Relaxed));
        Some(larger)
    }

    /// Adds the position of `key`. Only for one caller at a time.
    pub fn insert(&self, key: &[u8], position: u64, entries: &impl Entries) -> Result<(), Full> {
        let mut prng = Prng::new(self.random.load(Relaxed));
        let drawn = prng.next_u64();
        self.random.store(drawn, Relaxed);
        let levels = (1 + drawn.trailing_zeros() as usize / 2).min(LEVELS);
        let node = self.used.load(Relaxed);
        let end = node as usize + NODE_WORDS + levels;
        if end > self.words.len() {
            return Err(Full);
        }
        let wanted = Wanted::new(key, position);
        let (before, _) = self.around(&wanted, entries);
        for (at, pair) in [(0, wanted.head), (2, position)] {
            self.words[node as usize + at].store(pair as u32, Relaxed);
            self.words[node as usize + at + 1].store((pair >> 32) as u32, Relaxed);
        }
        for (level, before) in before.iter().enumerate().take(levels) {
            let link = &self.words[*before as usize + NODE_WORDS + level];
            let next = link.load(Relaxed);
            self.words[node as usize + NODE_WORDS + level].store(next, Relaxed);
            // Whoever sees the link sees the node.
            link.store(node, Release);
        }
        self.used.store(end as u32, Relaxed);
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        Ok(())
    }
}
